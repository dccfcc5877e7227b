"""Cleaning of internal logs: coordinators load the same state before and after."""

from collections.abc import Iterator
from random import Random

import msgspec
import pytest

from brokertwin.protocol.batch_headers import Batch
from brokertwin.state.cell.apply import apply
from brokertwin.state.cell.check import check
from brokertwin.state.core.records import (
    OffsetCommitted,
    PartitionLoaded,
    Record,
    TransactionalIdExpired,
)
from brokertwin.state.core.share_records import ShareSnapshot, ShareStateWritten, ShareUpdate
from brokertwin.state.core.tables import CellTables
from brokertwin.state.logs import log as logs
from brokertwin.state.logs.log import StoredBatch, batches_from
from brokertwin.state.replication import cleaning, internal_logs
from tests.support.coordinators import GROUPS, TRANSACTIONS, Coordinators, error_of_commit
from tests.support.replicas import BROKERS


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "CHUNK_BATCHES_MAX", 4)
    monkeypatch.setattr(logs, "INDEX_CHUNKS_MAX", 4)


@pytest.fixture
def brokers() -> Coordinators:
    return Coordinators()


def batches(brokers: Coordinators, kind: int) -> int:
    leader = brokers.coordinator(kind)
    log = brokers.log(kind, leader)
    return len(list(batches_from(brokers.bench.cell.tables.of(leader), log, 0)))


def test_log_keeps_the_last_record_of_each_key(brokers: Coordinators) -> None:
    for offset in range(100):
        assert brokers.commit(offset) == 0
        assert batches(brokers, GROUPS) <= 4 * 4 + 4
        assert check(brokers.bench.cell) == []
    brokers.replicas.stop(brokers.coordinator(GROUPS))
    assert brokers.committed() == 99


def test_large_commits_are_cleaned_early(
    brokers: Coordinators, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "CHUNK_BATCHES_MAX", 64)
    monkeypatch.setattr(cleaning, "CHUNK_BYTES", 1000)
    leader = brokers.coordinator(GROUPS)
    partition = {"partitionIndex": 0, "committedMetadata": "x" * 900}
    for offset in range(40):
        offsets = [{**partition, "committedOffset": offset}]
        body = {"groupId": "g", "topics": [{"name": "orders", "partitions": offsets}]}
        assert (
            error_of_commit(brokers.response(brokers.send("OFFSET_COMMIT", 8, body, leader))) == 0
        )
        assert brokers.log(GROUPS, leader).size_in_bytes <= 4 * 1000 + 2 * 1100
    assert batches(brokers, GROUPS) <= 6


def test_returning_follower_reads_the_cleaned_log(brokers: Coordinators) -> None:
    away = next(each for each in BROKERS if each != brokers.coordinator(GROUPS))
    brokers.replicas.stop(away)
    for offset in range(100):
        assert brokers.commit(offset) == 0
    brokers.replicas.start(away)
    brokers.bench.tick(46_000)
    ends = {each: brokers.log(GROUPS, each).log_end_offset for each in BROKERS}
    assert len(set(ends.values())) == 1
    for broker in BROKERS:
        if broker != away:
            brokers.replicas.stop(broker)
    assert brokers.coordinator(GROUPS) == away
    assert brokers.committed() == 99


def test_remaining_records_keep_their_offsets(brokers: Coordinators) -> None:
    more = {"name": "payments", "numPartitions": 3, "replicationFactor": 1}
    brokers.bench.request("CREATE_TOPICS", 7, {"topics": [more], "timeoutMs": 1000})
    leader = brokers.coordinator(GROUPS)

    def commit(partitions: tuple[int, ...]) -> None:
        offsets = [{"partitionIndex": each, "committedOffset": each} for each in partitions]
        body = {"groupId": "g", "topics": [{"name": "payments", "partitions": offsets}]}
        assert (
            error_of_commit(brokers.response(brokers.send("OFFSET_COMMIT", 8, body, leader))) == 0
        )

    commit((0, 1, 2))
    for _ in range(40):
        commit((0, 2))
    log = brokers.log(GROUPS, leader)
    first = next(batches_from(brokers.bench.cell.tables.of(leader), log, 0))
    ((delta, record),) = internal_logs.placed(first.written, first.last_offset_delta)
    assert isinstance(record, OffsetCommitted)
    assert (first.base_offset, first.record_count, delta, record.partition) == (0, 1, 1, 1)


def test_share_state_update_without_its_base_becomes_a_snapshot() -> None:
    update = ShareUpdate(0, 5, 0)
    first, last = (
        ShareStateWritten("s", "T", 0, ShareSnapshot(1, 0, 5), each) for each in (None, update)
    )
    end = TransactionalIdExpired("t")

    def stored(base: int, record: ShareStateWritten) -> StoredBatch:
        batch = Batch(base, 1, written=internal_logs.encode([end, record]))
        return StoredBatch(*msgspec.structs.astuple(batch))

    def left(*batches: StoredBatch) -> list[Record]:
        return [
            record
            for batch in cleaning._kept(list(batches), -2)
            for record in internal_logs.in_batch(batch.written)
            if isinstance(record, ShareStateWritten)
        ]

    assert left(stored(0, first), stored(2, last)) == [msgspec.structs.replace(last, update=None)]
    assert left(stored(0, first)) == [first]


def test_transactional_ids_keep_their_last_state(brokers: Coordinators) -> None:
    for offset in range(20):
        end = brokers.transaction(offset)
        assert brokers.response(end)["errorCode"] == 0
    assert batches(brokers, TRANSACTIONS) <= 4 * 4 + 4
    for kind in (TRANSACTIONS, GROUPS):
        brokers.replicas.stop(brokers.coordinator(kind))
    assert brokers.state() == "CompleteCommit"
    assert brokers.committed() == 19


def test_deleted_group_stays_deleted_for_a_returning_follower(brokers: Coordinators) -> None:
    away = next(each for each in BROKERS if each != brokers.coordinator(GROUPS))
    assert brokers.commit(5) == 0
    brokers.replicas.stop(away)
    body = {"groupsNames": ["g"]}
    leader = brokers.coordinator(GROUPS)
    deleted = brokers.response(brokers.send("DELETE_GROUPS", 1, body, leader))
    assert [each["errorCode"] for each in deleted["results"]] == [0]
    for number in range(60):
        other = {"groupId": f"g{number}", "topics": []}
        part = {"partitionIndex": 0, "committedOffset": 1}
        other["topics"] = [{"name": "orders", "partitions": [part]}]
        for broker in BROKERS:
            brokers.send("OFFSET_COMMIT", 8, other, broker)
    brokers.replicas.start(away)
    brokers.bench.tick(46_000)
    for broker in BROKERS:
        if broker != away:
            brokers.replicas.stop(broker)
    assert brokers.coordinator(GROUPS) == away
    assert brokers.committed() == -1


def loaded(brokers: Coordinators, kind: int) -> Iterator[dict[str, bytes]]:
    """State loaded from each replica's log."""
    topic_id, number, _ = brokers.partition(kind)
    for broker in BROKERS:
        tables = brokers.bench.cell.tables.copy()
        apply(tables.of(broker), PartitionLoaded(topic_id, number))
        yield items(tables, broker)


def items(tables: CellTables, broker: int) -> dict[str, bytes]:
    prefix = f"{broker}/"
    return {
        key.removeprefix(prefix): tables[name].encoded(key)
        for name in ("groups", "transactions")
        for key in tables[name].keys(prefix)
        if not key.startswith(f"{broker}/pending-in/")
    }


@pytest.mark.parametrize("seed", range(6))
def test_any_history_loads_the_known_state(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits, open transactions, deletions; cleaned or not, on any replica."""
    random = Random(seed)
    brokers = Coordinators(offsets_topic_num_partitions=1)
    cleaned = 0
    cleans = cleaning.clean

    def counted(*arguments: object) -> None:
        nonlocal cleaned
        cleaned += 1
        cleans(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(cleaning, "clean", counted)
    for step in range(80):
        kind = random.choice(("commit", "commit", "transaction", "delete", "day"))
        if kind == "commit":
            brokers.commit(step)
        elif kind == "transaction":
            brokers.transaction(step)
        elif kind == "delete":
            brokers.send("DELETE_GROUPS", 1, {"groupsNames": ["g"]}, brokers.coordinator(GROUPS))
        else:
            brokers.bench.tick(40_000_000)
    assert cleaned > 0
    known = items(brokers.bench.cell.tables, brokers.coordinator(GROUPS))
    for found in loaded(brokers, GROUPS):
        assert {k: v for k, v in found.items() if not k.startswith("id/")} == {
            k: v for k, v in known.items() if not k.startswith("id/")
        }
