"""Rows in internal topics with one replica (`brokertwin.internal.logs`)."""

from collections.abc import Iterator

import pytest

from brokertwin.state.cell.check import check
from brokertwin.state.core.records import (
    OffsetCommitted,
    TransactionalOffsetsEnded,
    TransactionalOffsetsWritten,
    TransactionMetadataWritten,
)
from brokertwin.state.logs.log import StoredBatch, batches_from
from brokertwin.state.replication import internal_logs
from tests.support.coordinators import GROUPS, TRANSACTIONS, Coordinators


def alone(*, has_rows: bool) -> Coordinators:
    return Coordinators(
        offsets_topic_replication_factor=1,
        given={"transaction.state.log.replication.factor": "1"},
        brokertwin_internal_logs=has_rows,
    )


@pytest.fixture
def brokers() -> Iterator[Coordinators]:
    made = alone(has_rows=True)
    yield made
    assert check(made.bench.cell) == []


def batches(brokers: Coordinators, kind: int) -> list[StoredBatch]:
    leader = brokers.coordinator(kind)
    log = brokers.log(kind, leader)
    assert log.high_watermark == log.log_end_offset
    return list(batches_from(brokers.bench.cell.tables.of(leader), log, 0))


def test_commit_is_a_row_that_is_committed_at_once(brokers: Coordinators) -> None:
    assert len(brokers.partition(GROUPS)[2].replicas) == 1
    assert [brokers.commit(offset) for offset in (5, 6)] == [0, 0]
    found = [internal_logs.in_batch(batch.written) for batch in batches(brokers, GROUPS)]
    assert [
        [type(each), each.offset] for (each,) in found if isinstance(each, OffsetCommitted)
    ] == [
        [OffsetCommitted, 5],
        [OffsetCommitted, 6],
    ]


def test_transactional_offsets_are_rows_and_their_end_a_marker(brokers: Coordinators) -> None:
    assert brokers.response(brokers.transaction(7))["errorCode"] == 0
    assert brokers.committed() == 7
    offsets, marker = batches(brokers, GROUPS)
    (written,) = internal_logs.in_batch(offsets.written)
    assert isinstance(written, TransactionalOffsetsWritten)
    assert offsets.is_transactional
    assert marker.end_marker is not None
    assert not any(
        isinstance(each, TransactionalOffsetsEnded)
        for each in internal_logs.in_batch(marker.written)
    )
    log = brokers.log(GROUPS, brokers.coordinator(GROUPS))
    assert (log.last_stable_offset, log.log_end_offset) == (2, 2)


def test_states_of_a_transactional_id_are_rows(brokers: Coordinators) -> None:
    brokers.transaction(7)
    states = [
        each.metadata.state
        for batch in batches(brokers, TRANSACTIONS)
        for each in internal_logs.in_batch(batch.written)
        if isinstance(each, TransactionMetadataWritten)
    ]
    assert states == ["Empty", "Ongoing", "PrepareCommit", "CompleteCommit"]


def test_decisions_are_the_same_without_rows(brokers: Coordinators) -> None:
    without = alone(has_rows=False)
    for each in (brokers, without):
        each.transaction(7)
        each.commit(8)
    assert brokers.fetch() == without.fetch() == (0, 8)
    assert [batches(without, kind) for kind in (GROUPS, TRANSACTIONS)] == [[], []]


def test_first_follower_gets_the_whole_state(brokers: Coordinators) -> None:
    brokers.commit(5)
    former, (_, number, partition) = brokers.coordinator(GROUPS), brokers.partition(GROUPS)
    other = next(each for each in (1, 2, 3) if each not in partition.replicas)
    place = {"partitionIndex": number, "replicas": [former, other]}
    topics = [{"name": "__consumer_offsets", "partitions": [place]}]
    body = {"timeoutMs": 10_000, "topics": topics}
    assert brokers.bench.request("ALTER_PARTITION_REASSIGNMENTS", 0, body)["errorCode"] == 0
    for _ in range(5):
        brokers.bench.tick(1000)
    assert brokers.commit(6) in (0, None)
    brokers.bench.tick(1000)
    brokers.replicas.stop(former)
    assert (brokers.coordinator(GROUPS), brokers.committed()) == (other, 6)
