"""ListOffsets: places in a log and look-ups by timestamp, as Apache Kafka 4.3.1 answers them."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokertwin.protocol.batch_headers import Batch
from brokertwin.state.core.tables import CellTables, MachineTables
from brokertwin.state.logs import log as logs
from brokertwin.state.logs import timestamp_index
from brokertwin.state.logs.log import Log, log_key
from brokertwin.state.logs.log_tail import LogTail
from brokertwin.state.logs.timestamp_index import TimestampMatch
from tests.support.machine import Bench, header
from tests.support.replicas import TOPIC, Replicas

T0 = 1_700_000_000_000
NOTHING = (0, -1, -1, -1)
DAY_MS = 86_400_000


class Lister:
    """A broker with a topic `a`, and short words for producing and listing."""

    def __init__(self, **configs: str) -> None:
        self.bench = Bench()
        self.topic_id = self.bench.topic("a", 2, **configs)

    def produce(self, *timestamps: int, locator: str | None = None, reported: bool = False) -> None:
        """Appends one batch whose records have these timestamps, after `T0`.

        The edge has `reported` which is the first record with the greatest.
        """
        count = len(timestamps)
        times = {"baseTimestamp": T0 + timestamps[0], "maxTimestamp": T0 + max(timestamps)}
        where: dict[str, Any] = {"locator": locator} if locator else {}
        if reported:
            where["greatestDelta"] = timestamps.index(max(timestamps))
        responded = self.bench.append("a", header(count, size=60 + 10 * count, **times, **where))
        assert responded["errorCode"] == 0, responded

    def send(
        self,
        timestamp: int,
        partition: int = 0,
        topic: str = "a",
        version: int = 11,
        epoch: int = -1,
        **fields: Any,
    ) -> Any:
        part = {
            "partitionIndex": partition,
            "currentLeaderEpoch": epoch,
            "timestamp": timestamp,
        }
        return self.send_all([part], topic, version, **fields)[0]

    def send_all(
        self, wanted: list[Any], topic: str = "a", version: int = 11, **fields: Any
    ) -> list[Any]:
        body = {
            "replicaId": -1,
            "isolationLevel": 0,
            "topics": [{"name": topic, "partitions": wanted}],
        }
        response = self.bench.request("LIST_OFFSETS", version, body | fields)
        partitions: list[Any] = response["topics"][0]["partitions"]
        return partitions

    def list(self, timestamp: int, **fields: Any) -> tuple[int, ...]:
        response = self.send(timestamp, **fields)
        assert "within" not in response, response
        return tuple(response[key] for key in ("errorCode", "timestamp", "offset", "leaderEpoch"))

    def delete(self, offset: int) -> None:
        topics = [{"name": "a", "partitions": [{"partitionIndex": 0, "offset": offset}]}]
        response = self.bench.request("DELETE_RECORDS", 2, {"topics": topics, "timeoutMs": 1000})
        assert response["topics"][0]["partitions"][0]["errorCode"] == 0


def test_offsets_list() -> None:
    lister = Lister()
    for start in (100, 300, 200):
        lister.produce(start, start + 10)
    assert lister.list(-1) == (0, -1, 6, 0)
    assert lister.list(-2) == (0, -1, 0, 0)
    assert lister.list(T0) == (0, T0 + 100, 0, 0)
    assert lister.list(T0 + 100) == (0, T0 + 100, 0, 0)
    assert lister.list(T0 + 111) == (0, T0 + 300, 2, 0)
    assert lister.list(T0 + 250) == (0, T0 + 300, 2, 0)
    assert lister.list(T0 + 311) == NOTHING
    assert lister.list(-1, partition=4) == (3, -1, -1, -1)
    assert lister.list(-1, partition=-1) == (3, -1, -1, -1)
    assert lister.list(-1, topic="none") == (3, -1, -1, -1)


@pytest.mark.parametrize("timestamp", [T0 + 101, T0 + 105, T0 + 110])
def test_a_record_inside_a_batch_is_for_the_edge_to_find(timestamp: int) -> None:
    lister = Lister()
    lister.produce(100, 105, 110, locator="data-0@77")
    response = lister.send(timestamp)
    assert (response["offset"], response["timestamp"], response["leaderEpoch"]) == (0, timestamp, 0)
    assert response["within"] == {
        "baseOffset": 0,
        "lastOffset": 2,
        "baseTimestamp": T0 + 100,
        "maxTimestamp": T0 + 110,
        "locator": "data-0@77",
    }


def test_kafka_16310_the_greatest_timestamp_has_its_own_offset() -> None:
    """Kafka once told the offset of another record."""
    lister = Lister()
    assert lister.list(-3) == NOTHING
    lister.produce(100)
    lister.produce(300, 200)
    lister.produce(200, 250)
    lister.produce(300)
    assert lister.list(-3) == (0, T0 + 300, 1, 0), "the first that has it"
    lister.produce(400, 410)
    response = lister.send(-3)
    assert (response["offset"], response["timestamp"]) == (6, T0 + 410)
    assert response["within"]["maxTimestamp"] == T0 + 410


def test_records_of_a_topic_with_append_time_have_the_time_of_their_batch() -> None:
    lister = Lister(message_timestamp_type="LogAppendTime")
    lister.produce(0, 1, 2)
    lister.bench.now += 50
    lister.produce(3, 4)
    assert lister.list(T0 + 1) == (0, T0 + 50, 3, 0)
    assert lister.list(T0) == (0, T0, 0, 0)
    assert lister.list(-3) == (0, T0 + 50, 3, 0)
    lister.delete(4)
    assert lister.list(T0 + 1) == (0, T0 + 50, 4, 0)


def test_an_empty_log_has_places_and_no_times() -> None:
    lister = Lister()
    assert lister.list(-1) == lister.list(-2) == lister.list(-4) == (0, -1, 0, 0)
    assert lister.list(-3) == lister.list(0) == NOTHING


@pytest.mark.parametrize("timestamp", [-7, -9, -(2**63)])
def test_other_negative_timestamps_are_unsupported(timestamp: int) -> None:
    assert Lister().list(timestamp, epoch=9) == (35, -1, -1, -1)


@pytest.mark.parametrize("timestamp", [-5, -6])
def test_nothing_is_in_remote_storage(timestamp: int) -> None:
    lister = Lister()
    lister.produce(1)
    assert lister.list(timestamp) == NOTHING
    assert lister.list(-4) == (0, -1, 0, 0)


@pytest.mark.parametrize(("epoch", "error"), [(-1, 0), (0, 0), (9, 75), (-2, 74)])
def test_leader_epochs(epoch: int, error: int) -> None:
    assert Lister().list(-1, epoch=epoch)[0] == error
    assert Lister().list(-1, epoch=epoch, partition=9)[0] == 3


def test_repeated_partition_returns_invalid_request() -> None:
    partitions = [{"partitionIndex": p, "timestamp": t} for p, t in ((0, -1), (0, -99), (1, -2))]
    responded = Lister().send_all(partitions)
    assert [(p["partitionIndex"], p["errorCode"]) for p in responded] == [(0, 42), (1, 0)]


def test_non_leader_returns_not_leader_or_follower() -> None:
    bench = Bench(brokers=(1, 2))
    bench.topic("a")
    fields = {"replicaId": -1, "isolationLevel": 0}
    topics = [{"name": "a", "partitions": [{"partitionIndex": 0, "timestamp": -1}]}]
    errors = [
        bench.request("LIST_OFFSETS", 7, fields | {"topics": topics}, broker=broker)["topics"][0][
            "partitions"
        ][0]["errorCode"]
        for broker in (1, 2)
    ]
    assert sorted(errors) == [0, 6]


def test_earliest_offset_has_the_leader_epoch_of_its_record() -> None:
    replicas = Replicas(min_insync_replicas="1")
    replicas.produce(count=3)
    replicas.stop(1)
    replicas.produce(count=2)

    def result(timestamp: int) -> tuple[int, ...]:
        body = {"replicaId": -1, "name": TOPIC, "partitionIndex": 0, "timestamp": timestamp}
        response = replicas.bench.request("LIST_OFFSETS", 8, body, broker=2)
        (partition,) = response["topics"][0]["partitions"]
        return partition["errorCode"], partition["offset"], partition["leaderEpoch"]

    assert [result(each) for each in (-1, -2, -4)] == [(0, 5, 1), (0, 0, 0), (0, 0, 0)]
    deleted = [{"name": TOPIC, "partitions": [{"partitionIndex": 0, "offset": 4}]}]
    replicas.bench.request("DELETE_RECORDS", 2, {"topics": deleted, "timeoutMs": 1000}, broker=2)
    assert [result(each) for each in (-1, -2, -4)] == [(0, 5, 1), (0, 4, 1), (0, 4, 1)]


def test_follower_without_records_has_no_epoch_of_the_first_offset() -> None:
    # observed at Apache Kafka 4.3.1
    replicas = Replicas()

    def result(timestamp: int) -> list[tuple[int, int]]:
        topics = [{"name": TOPIC, "partitions": [{"partitionIndex": 0, "timestamp": timestamp}]}]
        body = {"replicaId": -2, "topics": topics}
        responses = [replicas.bench.request("LIST_OFFSETS", 8, body, broker=n) for n in (1, 2)]
        partitions = [response["topics"][0]["partitions"][0] for response in responses]
        return [(each["errorCode"], each["leaderEpoch"]) for each in partitions]

    assert [result(each) for each in (-1, -2, -4)] == [[(0, 0)] * 2, *[[(0, 0), (0, -1)]] * 2]
    replicas.produce(count=3)
    assert [result(each) for each in (-1, -2, -4)] == [[(0, 0)] * 2] * 3


@pytest.mark.parametrize("replica", [-1, -2, 5])
@pytest.mark.parametrize("isolation", [0, 1])
def test_every_requester_gets_the_same_end_of_a_log_with_one_replica(
    replica: int, isolation: int
) -> None:
    lister = Lister()
    lister.produce(1, 2)
    assert lister.list(-1, replicaId=replica, isolationLevel=isolation) == (0, -1, 2, 0)


@pytest.mark.parametrize("timestamp", [-1, -2, 5])
def test_unknown_isolation_level_lists_nothing(timestamp: int) -> None:
    lister = Lister()
    lister.produce(1, 2)
    assert lister.list(timestamp, isolationLevel=2) == (-1, -1, -1, -1)
    assert lister.list(timestamp, partition=9, isolationLevel=-1) == (-1, -1, -1, -1)


def test_version_1_has_neither_throttle_time_nor_leader_epoch() -> None:
    lister = Lister()
    body = {"replicaId": -1, "topics": [{"name": "a", "partitions": []}]}
    assert "throttleTimeMs" not in lister.bench.request("LIST_OFFSETS", 1, body)
    assert lister.send(-1, version=1) == {
        "partitionIndex": 0,
        "errorCode": 0,
        "timestamp": -1,
        "offset": 0,
    }


def test_deleted_records_are_not_found() -> None:
    lister = Lister()
    lister.produce(0, 10, 20)
    lister.produce(100, 110, 120)
    lister.produce(50, 60, 70)
    lister.delete(6)
    assert lister.list(T0 + 115) == NOTHING
    assert lister.list(0) == (0, T0 + 50, 6, 0)
    assert lister.list(-2) == (0, -1, 6, 0)
    lister.delete(9)
    assert lister.list(0) == NOTHING


def test_deleted_record_has_the_max_timestamp_while_its_segment_exists() -> None:
    lister = Lister(**{"internal.segment.bytes": "100", "retention.ms": "-1"})
    lister.produce(0, 90, 90, reported=True)
    lister.produce(50)
    assert lister.list(-3) == (0, T0 + 90, 1, 0), "no bytes are looked at"
    lister.delete(3)
    assert lister.list(-3) == (0, T0 + 90, 1, 0)
    lister.delete(4)
    assert lister.list(-3) == (0, T0 + 90, 1, 0)
    lister.bench.tick(2 * DAY_MS)
    assert lister.list(-3) == (0, T0 + 50, 3, 0), "the active segment stays"


def test_no_response_points_to_deleted_bytes() -> None:
    """Without an index entry deleted records do not count; it was 56 KAFKA_STORAGE_ERROR."""
    lister = Lister()
    lister.produce(0, 90)
    lister.produce(50)
    lister.delete(2)
    assert lister.list(-3) == (0, T0 + 50, 2, 0)
    lister.delete(3)
    assert lister.list(-3) == NOTHING


def test_max_timestamp_with_log_append_time_needs_no_record_lookup() -> None:
    lister = Lister(message_timestamp_type="LogAppendTime")
    lister.produce(0, 9, reported=True)
    response = lister.send(-3)
    assert (response["offset"], "within" in response) == (0, False)


def test_where_deletion_cut_a_batch_the_edge_may_have_to_look_on() -> None:
    lister = Lister()
    lister.produce(0, 30, 20)
    lister.produce(25)
    lister.produce(35)
    lister.delete(2)
    response = lister.send(T0 + 25)
    assert response["offset"] == 2
    within = response["within"]
    assert (within["baseOffset"], within["lastOffset"], within["baseTimestamp"]) == (2, 2, -1)
    assert (within["orElse"]["baseOffset"], within["orElse"]["lastOffset"]) == (3, 3)
    assert lister.send(T0 + 31)["offset"] == 4


@st.composite
def written(draw: st.DrawFn) -> list[list[int]]:
    timestamps = st.lists(st.integers(0, 30), min_size=1, max_size=4)
    return draw(st.lists(timestamps, max_size=8))


def indexed(batches: list[list[int]], start: int) -> tuple[MachineTables, Log]:
    """The batches in a log whose first records are deleted."""
    at = CellTables().of(1)
    table = at.tables.logs
    logs.create(at, "T", "t", 0)
    offset = 0
    for timestamps in batches:
        batch = Batch(
            base_offset=offset,
            last_offset_delta=len(timestamps) - 1,
            base_timestamp=timestamps[0],
            max_timestamp=max(timestamps),
        )
        LogTail(at, table.change(log_key(1, "T", 0), Log), None).take(batch)
        offset += len(timestamps)
    logs.move_start(at, "T", 0, min(start, offset))
    log = table.get(log_key(1, "T", 0), Log)
    assert log is not None
    return at, log


def edge(
    records: list[int], found: TimestampMatch | None, timestamp: int
) -> tuple[int, int] | None:
    if found is None:
        return None
    if found.is_exact:
        return found.offset, found.timestamp
    parts = [part for part in (found.part, found.or_else) if part is not None]
    for part in parts:
        for offset in range(max(part.base_offset, found.offset), part.last_offset + 1):
            if records[offset] >= timestamp:
                return offset, records[offset]
    return None


@given(written(), st.integers(0, 12), st.integers(0, 31))
def test_with_the_records_a_look_up_finds_the_first_at_or_after(
    batches: list[list[int]], start: int, timestamp: int
) -> None:
    records = [timestamp for batch in batches for timestamp in batch]
    at, log = indexed(batches, start)
    timestamp_match = timestamp_index.first_at_or_after(at, log, timestamp, has_append_time=False)
    first = next(
        (
            (offset, each)
            for offset, each in enumerate(records)
            if each >= timestamp and offset >= log.log_start_offset
        ),
        None,
    )
    assert edge(records, timestamp_match, timestamp) == first
    if timestamp_match is not None and first is not None:
        assert timestamp_match.offset <= first[0]
        assert timestamp_match.timestamp <= first[1]


@given(written())
def test_with_the_records_the_greatest_timestamp_is_found(batches: list[list[int]]) -> None:
    records = [timestamp for batch in batches for timestamp in batch]
    at, log = indexed(batches, 0)
    actual = timestamp_index.greatest(at, log, has_append_time=False)
    if not records:
        assert actual is None
        return
    assert edge(records, actual, max(records)) == (records.index(max(records)), max(records))


def test_a_sealed_segment_is_named_for_the_edge() -> None:
    lister = Lister()
    count = logs.CHUNK_BATCHES_MAX * logs.INDEX_CHUNKS_MAX + 1
    for number in range(count):
        lister.produce(number)
    segment = [row for row in lister.bench.rows if row.topic == "segments"]
    assert len(segment) == 1
    row = json.loads(segment[0].value or b"")
    response = lister.send(T0 + 3)
    assert (response["offset"], response["timestamp"]) == (0, T0 + 3)
    assert response["within"] == {
        "baseOffset": 0,
        "lastOffset": logs.CHUNK_BATCHES_MAX - 1,
        "baseTimestamp": -1,
        "maxTimestamp": T0 + logs.CHUNK_BATCHES_MAX - 1,
        "isSealed": True,
        "segmentOffset": row["baseOffset"],
        "topicId": row["topicId"],
    }
    assert lister.list(T0 + 64) == (0, T0 + 64, 64, 0)
