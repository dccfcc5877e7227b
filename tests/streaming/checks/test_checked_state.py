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
from brokertwin.state.groups.committed_offsets import Offset
from brokertwin.state.groups.consumer_group import ConsumerGroup
from brokertwin.state.logs.log import Chunk, Log
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
    """Return the columns of the unmet expectations of a kind, with the shown values."""
    rows = checked_state.of_kind(kind, cells, before)
    assert all(row.keys() >= set(suites.COLUMNS[kind]) for row in rows)
    frame = checks.frame_of(rows, suites.COLUMNS[kind])
    found = checks.check(frame, suites.OF_STATE[kind]).findings
    return [f"{', '.join(each.columns)}: {'; '.join(each.examples)}" for each in found]


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
    assert counts.pop("violations") == 0
    assert min(counts.values()) > 0, counts


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_the_states_of_random_histories_meet_every_expectation(seed: int) -> None:
    story = histories.seeded(seed, 200)
    cell, before = Cell(story.settings), None
    for number, document in enumerate(story.documents):
        cell.handle(document, Position(0, number))
        if number % 100 == 99:
            cells = {histories.CLUSTER: cell.columns()}
            found = all_unmet(cells, before)
            commits = found.pop("committed-offsets", [])
            assert found == {}
            assert all(each.startswith("lag: -") for each in commits), "Kafka accepts such commits"
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


def _log(tables: CellTables) -> Log:
    keys = [key for key in tables.logs.keys("1/log/") if key.endswith("/0")]
    key = next(k for k in keys if (found := tables.logs.get(k, Log)) and found.batch_count)
    return tables.logs.change(key, Log)


def high_watermark(tables: CellTables) -> None:
    log = _log(tables)
    log.high_watermark = log.log_end_offset + 1


def log_end_below_last_batch(tables: CellTables) -> None:
    log = _log(tables)
    log.log_end_offset = log.high_watermark = 2


def log_start(tables: CellTables) -> None:
    _log(tables).log_start_offset = -1


def chunk_of_no_log(tables: CellTables) -> None:
    key = first(tables, "logs", "chunk")
    found = tables.logs.get(key, Chunk)
    assert found is not None
    tables.logs.put(key.replace("/0/", "/7/", 1), found)


def producer_epoch(tables: CellTables) -> None:
    _producer(tables).producer_epoch = -2


def producer_of_no_log(tables: CellTables) -> None:
    producer = _producer(tables)
    key = next(key for key in tables.producers.keys("") if key.endswith("/0/9"))
    tables.producers.put(key.replace("/0/9", "/7/9"), producer)


def offset_beyond_log_end(tables: CellTables) -> None:
    _offset(tables).offset = 99_999_999


def negative_offset(tables: CellTables) -> None:
    _offset(tables).offset = -5


def _offset(tables: CellTables) -> Offset:
    return tables.groups.change(first(tables, "groups", "offset"), Offset)


def session_of_no_cache(tables: CellTables) -> None:
    tables.fetch_sessions.drop(first(tables, "fetch_sessions", "cached"))


def session_used_before_it_was_created(tables: CellTables) -> None:
    key = first(tables, "fetch_sessions", "session")
    session = tables.fetch_sessions.change(key, FetchSession)
    session.last_used_ms = session.creation_ms - 1


def session_without_members(tables: CellTables) -> None:
    tables.fetch_sessions.drop(first(tables, "fetch_sessions", "members"))


def topic_without_name(tables: CellTables) -> None:
    tables.metadata.drop(first(tables, "metadata", "name"))


def group_members(tables: CellTables) -> None:
    tables.live_groups.change("1/live-group/i", ClassicGroup).members.clear()


def group_generation(tables: CellTables) -> None:
    tables.live_groups.change("1/live-group/i", ClassicGroup).generation_id = -1


def item_of_another_broker(tables: CellTables) -> None:
    key = first(tables, "logs", "log")
    found = tables.logs.get(key, Log)
    assert found is not None
    tables.logs.put(key.replace("1/", "7/", 1), found)


def transaction_without_producer(tables: CellTables) -> None:
    key = first(tables, "transactions", "id")
    tables.transactions.change(key, TransactionMetadata).producer_id = -1


PLANTED = [
    (session_epoch, "sessions", "epoch: 0"),
    (session_epoch, "violations", "is in epoch 0"),
    (session_size, "violations", "its sessions"),
    (session_of_no_cache, "violations", "has partitions that are not cached"),
    (session_used_before_it_was_created, "sessions", "lastUsedMs, creationMs"),
    (session_without_members, "violations", "do not equal those with `members`"),
    (batches, "producers", "batches: 6"),
    (sequences, "violations", "producer"),
    (producer_epoch, "producers", "producerEpoch: -2"),
    (producer_of_no_log, "violations", "7"),
    (id_given_twice, "violations", "has the producer id"),
    (id_before_it_is_issued, "violations", "has the producer id"),
    (blocks_that_overlap, "violations", "the controller's unallocated range"),
    (transaction_without_producer, "violations", "-1"),
    (group_epoch, "violations", "h"),
    (group_state, "violations", "i"),
    (group_leader, "violations", "another"),
    (group_members, "violations", "i"),
    (group_generation, "groups", "generation: -1"),
    (high_watermark, "logs", "logEndOffset, highWatermark"),
    (log_end_below_last_batch, "violations", "offset"),
    (log_start, "logs", "logStartOffset: -1"),
    (chunk_of_no_log, "violations", "belongs to no log"),
    (offset_beyond_log_end, "committed-offsets", "lag: -99999"),
    (negative_offset, "committed-offsets", "committedOffset: -5"),
    (topic_without_name, "violations", "orders"),
    (item_of_another_broker, "violations", "7"),
]


@pytest.mark.parametrize(
    ("plant", "kind", "shown"), PLANTED, ids=[f"{each[0].__name__}-{each[1]}" for each in PLANTED]
)
def test_a_violation_planted_in_the_state_is_found(
    good: Cells, plant: Callable[[CellTables], None], kind: str, shown: str
) -> None:
    tables = CellTables(good["bench"])
    plant(tables)
    found = unmet(kind, {"bench": {**good["bench"], **tables.columns()}})
    assert any(shown in each for each in found), found
    assert "np." not in str(found)


def test_a_high_watermark_that_goes_back_is_found(good: Cells) -> None:
    bench = every_kind()
    bench.append("orders", header(1, 9, 0, 6), partition=0)
    later = cells_of(bench)
    assert unmet("violations", later, good) == []
    [found] = unmet("violations", good, later)
    assert "the high watermark of orders-0 on broker 1 went back from 8 to 7" in found


def test_a_new_leader_epoch_may_have_a_lower_high_watermark(good: Cells) -> None:
    tables = CellTables(good["bench"])
    for key in tables.logs.keys("1/log/"):
        log = tables.logs.change(key, Log)
        log.high_watermark, log.leader_epoch = 0, log.leader_epoch + 1
    found = unmet("violations", {"bench": {**good["bench"], **tables.columns()}}, good)
    assert "went back" not in str(found)


ENDS = {0: 10, 1: 0}


def committed(group: str, offset: int | None, event: int, partition: int = 0) -> TopicRow:
    key, value = offset_records.committed(OffsetCommitted(group, "t", 0, offset or 0, -1, "", 5))
    given = None if offset is None else value
    return TopicRow(0, event, 5, key, given, f"a/{partition}/{event}/0")


def stored(group: str, offset: int) -> SnapshotRow:
    return SnapshotRow("a", group, "t", 0, offset, -1, "", 5, -1)


def differences(state: list[SnapshotRow], *topic: TopicRow) -> list[str]:
    return [each.violation for each in checked_state.state_and_topic("a", state, topic, ENDS)]


def test_offsets_equal_the_topic_up_to_their_position() -> None:
    state = [stored("g", 4), SnapshotRow("b", "h", "t", 0, 1, -1, "", 5, -1)]
    assert differences(state, committed("g", 4, 9)) == []
    assert differences(state, committed("g", 4, 9), committed("g", 7, 10)) == []
    assert differences(state, committed("g", 7, 10)) == [], "its row has been compacted away"
    deleted = (committed("h", 1, 1), committed("h", None, 2))
    assert differences(state, committed("g", 4, 9), *deleted) == []
    assert differences([], committed("g", 7, 0, partition=1)) == []


OF_G = "the offset of group g in t-0"


def test_each_difference_between_offsets_and_the_topic_is_named() -> None:
    assert differences([stored("g", 4)], committed("g", 5, 3)) == [
        f"{OF_G} has offset 4 in the state, and offset 5 in the topic"
    ]
    assert differences([stored("g", 4)]) == [f"{OF_G} is only in the state"]
    assert differences([], committed("g", 5, 3)) == [f"{OF_G} is only in the topic"]
    deleted = (committed("g", 4, 3), committed("g", None, 4))
    assert differences([stored("g", 4)], *deleted) == [f"{OF_G} is only in the state"]


def test_rows_of_other_writers_are_violations() -> None:
    good = committed("g", 4, 3)
    forged = [
        good._replace(id="forged-1", offset=8),
        good._replace(id="", offset=9),
        good._replace(key=b"\x00\x02\x00\x01g", offset=10),
        good._replace(value=b"v", offset=11),
    ]
    place = "row {} of partition 0 of the topic"
    written = f"{place} was not written by the job: its id is {{!r}}"
    assert differences([stored("g", 4)], good, *forged) == [
        written.format(8, "forged-1"),
        written.format(9, ""),
        f"{place.format(10)} has no key of a committed offset",
        written.format(11, "a/0/3/0"),
    ]


def test_a_snapshot_equals_its_own_state() -> None:
    def found(*snapshot: SnapshotRow) -> list[str]:
        state = [stored("g", 4), stored("h", 3036)]
        return [each.violation for each in checked_state.snapshot_and_state(snapshot, state)]

    assert found(stored("g", 4), stored("h", 3036)) == []
    assert found(stored("h", 3036)) == [f"{OF_G} is only in the state"]
    [changed] = found(stored("g", 4), stored("h", 3_036_000_000))
    assert changed.endswith("has offset 3036000000 in the snapshot, and offset 3036 in the state")
    assert found(*[stored(each, 4) for each in "gx"], stored("h", 3036)) == [
        "the offset of group x in t-0 is only in the snapshot"
    ]
