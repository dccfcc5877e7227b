"""Data checks of a state: a real one is good, and each planted violation in it is found."""

from collections.abc import Callable, Mapping

import msgspec
import pytest

from brokertwin.kafka_io.topic_reader import TopicRow
from brokertwin.sinks.offsets_snapshot import SnapshotRow
from brokertwin.state.cell.cell import Cell
from brokertwin.state.core.outputs import Position
from brokertwin.state.core.records import OffsetCommitted, TransactionMetadata
from brokertwin.state.core.tables import CellTables
from brokertwin.state.fetch.session_items import FetchSession
from brokertwin.state.groups import offset_records
from brokertwin.state.groups.classic_group import ClassicGroup, ClassicGroupState
from brokertwin.state.groups.consumer_group import ConsumerGroup
from brokertwin.state.logs.log import Log
from brokertwin.state.logs.producer import ProducerStateEntry
from brokertwin.state.transactions.producer_ids import NextBlock, ProducerIds
from brokertwin.streaming.checks import checked_state, suites
from brokertwin.streaming.checks import snapshot_checks as checks
from tests.support import histories
from tests.support.machine import Bench, header
from tests.support.state_items import something_of_every_kind

Cells = Mapping[str, Mapping[str, bytes]]


def cells_of(bench: Bench) -> Cells:
    return {"bench": bench.cell.columns()}


def unmet(kind: str, cells: Cells, before: Cells | None = None) -> list[str]:
    """Return the columns of the unmet expectations of a kind."""
    rows = checked_state.of_kind(kind, cells, before)
    assert all(row.keys() >= set(suites.COLUMNS[kind]) for row in rows)
    frame = checks.frame_of(rows, suites.COLUMNS[kind])
    return [", ".join(each.columns) for each in checks.check(frame, suites.OF_STATE[kind]).findings]


def all_unmet(cells: Cells, before: Cells | None = None) -> dict[str, list[str]]:
    found = {kind: unmet(kind, cells, before) for kind in suites.OF_STATE}
    return {kind: columns for kind, columns in found.items() if columns}


def every_kind() -> Bench:
    """A cluster with all kinds, a producer with five remembered batches, and two members."""
    bench = something_of_every_kind()
    beat = {"groupId": "h", "memberEpoch": 0, "rebalanceTimeoutMs": 1000, "topicPartitions": []}
    bench.request("FIND_COORDINATOR", 4, {"keyType": 0, "coordinatorKeys": ["h", "i"]})
    beat |= {"memberId": "m", "subscribedTopicNames": ["orders"]}
    bench.request("CONSUMER_GROUP_HEARTBEAT", 1, beat)
    join = {"groupId": "i", "protocolType": "consumer", "memberId": "", "sessionTimeoutMs": 10_000}
    join |= {"rebalanceTimeoutMs": 10_000, "protocols": [{"name": "range", "metadata": ""}]}
    bench.send("JOIN_GROUP", 3, join)
    bench.tick(10_000)
    for number in range(6):
        bench.append("orders", header(1, 9, 0, number), partition=0)
    return bench


@pytest.fixture(scope="module")
def good() -> Cells:
    return cells_of(every_kind())


def test_a_real_state_meets_every_expectation(good: Cells) -> None:
    assert all_unmet(good) == {}
    counts = {kind: len(checked_state.of_kind(kind, good)) for kind in suites.OF_STATE}
    assert min(counts.values()) > 0, counts
    assert max(row["batches"] for row in checked_state.producers(good)) == 5


def test_producer_ids_are_those_of_transactional_ids_and_those_to_come(good: Cells) -> None:
    kinds = [row["kind"] for row in checked_state.producer_ids(good)]
    assert kinds == ["transactional-id", "unissued", "unallocated"]


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_the_states_of_random_histories_meet_every_expectation(seed: int) -> None:
    story = histories.seeded(seed, 200)
    cell, before = Cell(story.settings), None
    for number, document in enumerate(story.documents):
        cell.handle(document, Position(0, number))
        if number % 100 == 99:
            cells = {histories.CLUSTER: cell.columns()}
            assert all_unmet(cells, before) == {}
            before = cells


def first(tables: CellTables, table: str, kind: str) -> str:
    keys = getattr(tables, table).keys("")
    return next(key for key in keys if key.split("/")[1] == kind)


def session_epoch(tables: CellTables) -> None:
    key = first(tables, "fetch_sessions", "session")
    tables.fetch_sessions.change(key, FetchSession).epoch = 0


def session_size(tables: CellTables) -> None:
    key = first(tables, "fetch_sessions", "session")
    tables.fetch_sessions.change(key, FetchSession).cached_size += 1


def _producer(tables: CellTables) -> ProducerStateEntry:
    key = next(key for key in tables.producers.keys("") if key.endswith("/0/9"))
    return tables.producers.change(key, ProducerStateEntry)


def batches(tables: CellTables) -> None:
    producer = _producer(tables)
    last = producer.batches[-1]
    following = msgspec.structs.replace(
        last,
        last_sequence=last.last_sequence + last.offset_delta + 1,
        last_offset=last.last_offset + last.offset_delta + 1,
    )
    producer.batches.append(following)


def sequences(tables: CellTables) -> None:
    del _producer(tables).batches[2]


def id_given_twice(tables: CellTables) -> None:
    key = first(tables, "transactions", "id")
    known = tables.transactions.get(key, TransactionMetadata)
    assert known is not None
    tables.transactions.put(f"{key}-too", known)


def id_before_it_is_issued(tables: CellTables) -> None:
    tables.metadata.change("1/producer-ids", ProducerIds).next_id -= 1


def blocks_that_overlap(tables: CellTables) -> None:
    end = tables.metadata.change("1/producer-ids", ProducerIds).current.end
    key = first(tables, "metadata", "producer-ids").replace("1/", "controller/", 1)
    tables.metadata.put(key, NextBlock(end - 1, 1))


def group_epoch(tables: CellTables) -> None:
    tables.groups.change("1/group/h", ConsumerGroup).group_epoch = 0


def group_state(tables: CellTables) -> None:
    group = tables.live_groups.change("1/live-group/i", ClassicGroup)
    group.state = ClassicGroupState.EMPTY


def group_leader(tables: CellTables) -> None:
    tables.live_groups.change("1/live-group/i", ClassicGroup).leader_id = "another"


def high_watermark(tables: CellTables) -> None:
    log = tables.logs.change(first(tables, "logs", "log"), Log)
    log.high_watermark = log.log_end_offset + 1


@pytest.mark.parametrize(
    ("plant", "kind", "columns"),
    [
        (session_epoch, "sessions", "epoch"),
        (session_size, "sessions", "partitions, cachedPartitions"),
        (batches, "producers", "batches"),
        (sequences, "producers", "sequenceGaps"),
        (id_given_twice, "producer-ids", "overlaps"),
        (id_before_it_is_issued, "producer-ids", "overlaps"),
        (blocks_that_overlap, "producer-ids", "overlaps"),
        (group_epoch, "groups", "generation, newestMemberEpoch"),
        (group_state, "groups", "stateFitsMembers"),
        (group_leader, "groups", "leaderIsMember"),
        (high_watermark, "logs", "logEndOffset, highWatermark"),
    ],
)
def test_a_violation_planted_in_the_state_is_found(
    good: Cells, plant: Callable[[CellTables], None], kind: str, columns: str
) -> None:
    tables = CellTables(good["bench"])
    plant(tables)
    assert unmet(kind, {"bench": tables.columns()}) == [columns]


def test_a_high_watermark_that_goes_back_is_found(good: Cells) -> None:
    bench = every_kind()
    bench.append("orders", header(1, 9, 0, 6), partition=0)
    later = cells_of(bench)
    assert unmet("logs", later, good) == []
    assert unmet("logs", good, later) == ["highWatermarkBack"]


def test_a_new_leader_epoch_may_have_a_lower_high_watermark(good: Cells) -> None:
    tables = CellTables(good["bench"])
    for key in tables.logs.keys("1/log/"):
        log = tables.logs.change(key, Log)
        log.high_watermark, log.leader_epoch = 0, log.leader_epoch + 1
    assert "highWatermarkBack" not in unmet("logs", {"bench": tables.columns()}, good)


ENDS = {0: 10, 1: 0}


def committed(group: str, offset: int | None, event: int, partition: int = 0) -> TopicRow:
    key, value = offset_records.committed(OffsetCommitted(group, "t", 0, offset or 0, -1, "", 5))
    given = None if offset is None else value
    return TopicRow(0, event, 5, key, given, f"a/{partition}/{event}/0")


def stored(group: str, offset: int) -> SnapshotRow:
    return SnapshotRow("a", group, "t", 0, offset, -1, "", 5, -1)


def differences(snapshot: list[SnapshotRow], *topic: TopicRow) -> dict[str, str | None]:
    found = checked_state.snapshot_and_topic("a", snapshot, topic, ENDS)
    assert {tuple(row) for row in found} <= {suites.COLUMNS["snapshot-topics"]}
    return {row["group"]: row["difference"] for row in found}


def test_a_snapshot_equals_the_topic_up_to_its_position() -> None:
    snapshot = [stored("g", 4), SnapshotRow("b", "h", "t", 0, 1, -1, "", 5, -1)]
    assert differences(snapshot, committed("g", 4, 9)) == {"g": None}
    assert differences(snapshot, committed("g", 4, 9), committed("g", 7, 10)) == {"g": None}
    assert differences(snapshot, committed("g", 7, 10)) == {}, "its row has been compacted away"
    deleted = (committed("h", 1, 1), committed("h", None, 2))
    assert differences(snapshot, committed("g", 4, 9), *deleted) == {"g": None, "h": None}
    assert differences([], committed("g", 7, 0, partition=1)) == {}


def test_each_difference_between_snapshot_and_topic_is_named() -> None:
    assert differences([stored("g", 4)], committed("g", 5, 3)) == {"g": "offset"}
    assert differences([stored("g", 4)]) == {"g": "only in the snapshot"}
    assert differences([], committed("g", 5, 3)) == {"g": "only in the topic"}
    deleted = (committed("g", 4, 3), committed("g", None, 4))
    assert differences([stored("g", 4)], *deleted) == {"g": "only in the snapshot"}
