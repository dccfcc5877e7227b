"""The durable state of share coordinators: who may begin it, and who is refused."""

from typing import Any

from brokerstream.state.cell import check
from brokerstream.state.core.share_records import ShareStateBatch
from brokerstream.state.share.state_store import ShareState
from tests.state.groups.test_share_groups import GROUP, ShareBench


def result(answer: Any) -> tuple[int, str | None]:
    found = answer["results"][0]["partitions"][0]
    return found["errorCode"], found["errorMessage"]


def initialize(bench: ShareBench, topic_id: str, partition: int = 0, epoch: int = 5) -> Any:
    begun = {"partition": partition, "stateEpoch": epoch, "startOffset": -1}
    body = {"groupId": GROUP, "topics": [{"topicId": topic_id, "partitions": [begun]}]}
    return bench.request("INITIALIZE_SHARE_GROUP_STATE", 0, body)


def coordinated() -> ShareBench:
    bench = ShareBench()
    bench.beat("a", 0, "foo")
    return bench


def test_a_state_begins_in_a_later_epoch_and_not_in_an_earlier_one() -> None:
    bench = coordinated()
    assert result(initialize(bench, bench.ids["foo"])) == (0, None)
    assert result(initialize(bench, bench.ids["foo"], epoch=4))[0] == 124
    assert result(initialize(bench, bench.ids["foo"], epoch=-1)) == (0, None)


def test_there_is_no_state_of_what_is_not_there() -> None:
    bench = coordinated()
    assert result(initialize(bench, bench.ids["foo"], 3))[0] == 3
    assert result(initialize(bench, bench.ids["foo"], -1)) == (
        42,
        "The partition id cannot be a negative number.",
    )


def test_before_there_is_the_internal_topic_nobody_coordinates() -> None:
    bench = ShareBench()
    assert result(initialize(bench, bench.ids["foo"]))[0] == 16


def test_a_state_is_deleted_and_so_is_what_is_not_there() -> None:
    bench = coordinated()
    asked = {"topicId": bench.ids["foo"], "partitions": [{"partition": 0}]}
    body = {"groupId": GROUP, "topics": [asked]}
    codes = [result(bench.request("DELETE_SHARE_GROUP_STATE", 0, body))[0] for _ in range(2)]
    assert codes == [0, 0]
    assert len(bench.states()) == 2


def test_the_check_finds_batches_that_do_not_ascend() -> None:
    bench = coordinated()
    (key, *_) = bench.states()
    state = bench.cell.tables.groups.change(key, ShareState)
    state.snapshot.batches.append(ShareStateBatch(-9, -8, 0, 1))
    assert f"{key} has" in " ".join(check.check(bench.cell))
