"""Durable state of share coordinators: initialization and fencing."""

from typing import Any

from brokertwin.state.cell import check
from brokertwin.state.core.share_records import ShareStateBatch
from brokertwin.state.share.state_store import ShareState
from tests.support.share_groups import GROUP, ShareBench


def result(response: Any) -> tuple[int, str | None]:
    found = response["results"][0]["partitions"][0]
    return found["errorCode"], found["errorMessage"]


def initialize(bench: ShareBench, topic_id: str, partition: int = 0, epoch: int = 5) -> Any:
    begun = {"partition": partition, "stateEpoch": epoch, "startOffset": -1}
    body = {"groupId": GROUP, "topics": [{"topicId": topic_id, "partitions": [begun]}]}
    return bench.request("INITIALIZE_SHARE_GROUP_STATE", 0, body)


def coordinated() -> ShareBench:
    bench = ShareBench()
    bench.beat("a", 0, "foo")
    return bench


def test_state_is_initialized_in_a_later_epoch_only() -> None:
    bench = coordinated()
    assert result(initialize(bench, bench.ids["foo"])) == (0, None)
    assert result(initialize(bench, bench.ids["foo"], epoch=4))[0] == 124
    assert result(initialize(bench, bench.ids["foo"], epoch=-1)) == (0, None)


def test_missing_partitions_have_no_state() -> None:
    bench = coordinated()
    assert result(initialize(bench, bench.ids["foo"], 3))[0] == 3
    assert result(initialize(bench, bench.ids["foo"], -1)) == (
        42,
        "The partition id cannot be a negative number.",
    )


def test_coordinator_is_unavailable_without_the_internal_topic() -> None:
    bench = ShareBench()
    assert result(initialize(bench, bench.ids["foo"]))[0] == 16


def test_delete_succeeds_with_and_without_a_state() -> None:
    bench = coordinated()
    request = {"topicId": bench.ids["foo"], "partitions": [{"partition": 0}]}
    body = {"groupId": GROUP, "topics": [request]}
    codes = [result(bench.request("DELETE_SHARE_GROUP_STATE", 0, body))[0] for _ in range(2)]
    assert codes == [0, 0]
    assert len(bench.states()) == 2


def test_check_finds_batches_that_do_not_ascend() -> None:
    bench = coordinated()
    (key, *_) = bench.states()
    state = bench.cell.tables.groups.change(key, ShareState)
    state.snapshot.batches.append(ShareStateBatch(-9, -8, 0, 1))
    assert f"{key} has" in " ".join(check.check(bench.cell))


def call(bench: ShareBench, api: str, version: int = 0, **partition: Any) -> Any:
    request = {"topicId": bench.ids["foo"], "partitions": [{"partition": 0, **partition}]}
    response = bench.request(api, version, {"groupId": GROUP, "topics": [request]})
    return response["results"][0]["partitions"][0]


def write(bench: ShareBench, *batches: tuple[int, int, int, int], **fields: Any) -> int:
    names = ("firstOffset", "lastOffset", "deliveryState", "deliveryCount")
    reported = [dict(zip(names, each, strict=True)) for each in batches]
    epochs = {"stateEpoch": 2, "leaderEpoch": 0}
    fields = {**epochs, "startOffset": -1, "deliveryCompleteCount": 0, **fields}
    written = call(bench, "WRITE_SHARE_GROUP_STATE", 1, stateBatches=reported, **fields)
    return int(written["errorCode"])


def test_written_state_can_be_read() -> None:
    bench = coordinated()
    assert write(bench, (0, 9, 0, 1), (2, 3, 2, 1), startOffset=0) == 0
    assert write(bench, (0, 1, 2, 1), startOffset=2, deliveryCompleteCount=2) == 0
    read = call(bench, "READ_SHARE_GROUP_STATE", leaderEpoch=0)
    assert (read["stateEpoch"], read["startOffset"]) == (2, 2)
    assert [tuple(each.values()) for each in read["stateBatches"]] == [(2, 3, 2, 1), (4, 9, 0, 1)]
    summary = call(bench, "READ_SHARE_GROUP_STATE_SUMMARY", 1, leaderEpoch=0)
    assert (summary["startOffset"], summary["deliveryCompleteCount"]) == (2, 2)
    assert check.check(bench.cell) == []


def test_read_fences_earlier_leaders() -> None:
    bench = coordinated()
    assert call(bench, "READ_SHARE_GROUP_STATE", leaderEpoch=3)["errorCode"] == 0
    assert call(bench, "READ_SHARE_GROUP_STATE", leaderEpoch=2)["errorCode"] == 74
    assert [write(bench, leaderEpoch=epoch) for epoch in (2, 3, 4, -1)] == [74, 0, 0, 0]
    assert call(bench, "READ_SHARE_GROUP_STATE", leaderEpoch=3)["errorCode"] == 0


def test_reinitialized_state_still_fences_earlier_leaders() -> None:
    bench = coordinated()
    call(bench, "READ_SHARE_GROUP_STATE", leaderEpoch=3)
    assert result(initialize(bench, bench.ids["foo"])) == (0, None)
    summary = call(bench, "READ_SHARE_GROUP_STATE_SUMMARY", leaderEpoch=0)
    assert (summary["leaderEpoch"], summary["stateEpoch"]) == (0, 5)
    assert call(bench, "READ_SHARE_GROUP_STATE", leaderEpoch=2)["errorCode"] == 74


def test_initialization_does_not_reset_the_count_of_updates() -> None:
    """Source: `ShareCoordinatorShard.handleShareSnapshot`."""
    bench = ShareBench(share_coordinator_snapshot_update_records_per_snapshot=2)
    bench.beat("a", 0, "foo")
    (key, *_) = bench.states()

    def snapshot_epoch() -> int:
        assert write(bench, stateEpoch=-1) == 0
        state = bench.cell.tables.groups.get(key, ShareState)
        assert state is not None
        return state.snapshot.snapshot_epoch

    assert snapshot_epoch() == 0
    assert result(initialize(bench, bench.ids["foo"])) == (0, None)
    assert [snapshot_epoch() for _ in range(5)] == [1, 2, 2, 2, 3]


def test_older_state_epoch_is_not_written() -> None:
    bench = coordinated()
    assert [write(bench, stateEpoch=epoch) for epoch in (1, 2, 3, -1)] == [124, 0, 0, 0]


def test_uninitialized_state_cannot_be_read_or_written() -> None:
    bench = coordinated()
    request = {"topicId": bench.ids["foo"], "partitions": [{"partition": 0}]}
    bench.request("DELETE_SHARE_GROUP_STATE", 0, {"groupId": GROUP, "topics": [request]})
    assert write(bench) == 42
    assert call(bench, "READ_SHARE_GROUP_STATE", leaderEpoch=0)["errorCode"] == 42
    summary = call(bench, "READ_SHARE_GROUP_STATE_SUMMARY", leaderEpoch=0)
    assert (summary["errorCode"], summary["startOffset"]) == (0, -1)
