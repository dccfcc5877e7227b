"""The producer's id, and what an error means for a batch."""

import pytest

from brokertwin.clients.partition_sequences import PartitionSequences
from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.producer_batch import IdAndEpoch, PendingRecord, ProducerBatch
from brokertwin.clients.transaction_manager import (
    RETRY_RULES,
    SEQUENCE_ERRORS,
    TRANSITIONS,
    FailedBatch,
    IdState,
    ProducerInput,
    Retry,
    TransactionManager,
)
from brokertwin.protocol.errors import RETRIABLE, Error

A = TopicPartition("orders", 0)
OUT_OF_ORDER = Error.OUT_OF_ORDER_SEQUENCE_NUMBER
UNKNOWN_ID = Error.UNKNOWN_PRODUCER_ID


def ready() -> TransactionManager:
    manager = TransactionManager()
    manager.move(ProducerInput.REQUESTED)
    manager.on_init_response(Error.NONE, IdAndEpoch(4000, 0), retry_at=0)
    return manager


def drained(manager: TransactionManager, count: int = 1) -> list[ProducerBatch]:
    batches = [
        ProducerBatch(topic_partition=A, created=0, records=[PendingRecord(number, 50, 0)])
        for number in range(count)
    ]
    for batch in batches:
        manager.drained(batch)
    return batches


@pytest.mark.parametrize(
    ("error", "state", "reason"),
    [
        (Error.NONE, IdState.READY, Error.NONE),
        (Error.COORDINATOR_LOAD_IN_PROGRESS, IdState.UNINITIALIZED, Error.NONE),
        (Error.NOT_COORDINATOR, IdState.UNINITIALIZED, Error.NONE),
        (Error.COORDINATOR_NOT_AVAILABLE, IdState.UNINITIALIZED, Error.NONE),
        (Error.NETWORK_EXCEPTION, IdState.UNINITIALIZED, Error.NONE),
        (
            Error.CLUSTER_AUTHORIZATION_FAILED,
            IdState.ABORTABLE_ERROR,
            Error.CLUSTER_AUTHORIZATION_FAILED,
        ),
        (
            Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            IdState.ABORTABLE_ERROR,
            Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
        (Error.INVALID_PRODUCER_EPOCH, IdState.FATAL_ERROR, Error.PRODUCER_FENCED),
        (Error.PRODUCER_FENCED, IdState.FATAL_ERROR, Error.PRODUCER_FENCED),
        (Error.UNSUPPORTED_VERSION, IdState.FATAL_ERROR, Error.UNSUPPORTED_VERSION),
        (Error.UNKNOWN_SERVER_ERROR, IdState.FATAL_ERROR, Error.UNKNOWN_SERVER_ERROR),
    ],
)
def test_init_producer_id_responses(error: Error, state: IdState, reason: Error) -> None:
    manager = TransactionManager()
    manager.move(ProducerInput.REQUESTED)
    manager.on_init_response(error, IdAndEpoch(4000, 0), retry_at=100)
    assert (manager.state, manager.error) == (state, reason)
    assert manager.needs_id(99) is False
    assert manager.needs_id(100) is (state is IdState.UNINITIALIZED)


def test_the_table_has_a_row_for_every_case_of_a_sequence_error() -> None:
    assert {rule.error for rule in RETRY_RULES} == SEQUENCE_ERRORS
    last = {rule.error: rule for rule in RETRY_RULES}
    (batch,) = drained(ready())
    anything = FailedBatch(batch, PartitionSequences(), log_start_offset=0)
    assert all(rule.holds(anything) for rule in last.values())


def test_a_fatal_error_is_permanent() -> None:
    leaving = {what for state, what in TRANSITIONS if state is IdState.FATAL_ERROR}
    assert leaving == {ProducerInput.FATAL}


def test_one_producer_id_request_is_in_flight_at_a_time() -> None:
    manager = TransactionManager()
    manager.move(ProducerInput.REQUESTED)
    assert not manager.needs_id(10**9)
    with pytest.raises(KeyError):
        manager.move(ProducerInput.REQUESTED)


def test_out_of_order_with_an_earlier_batch_missing_is_retried() -> None:
    manager = ready()
    _, second = drained(manager, 2)
    assert manager.decide(second, OUT_OF_ORDER, -1) is Retry.RETRY


def test_out_of_order_with_nothing_missing_bumps_the_epoch() -> None:
    manager = ready()
    (batch,) = drained(manager)
    assert manager.decide(batch, OUT_OF_ORDER, -1) is Retry.BUMP_AND_RETRY
    assert manager.bump() == []
    assert manager.id_and_epoch.epoch == batch.id_and_epoch.epoch == 1
    assert manager.decide(batch, OUT_OF_ORDER, -1) is Retry.RETRY, "an answer to former sequences"


def test_out_of_order_after_a_gap_bumps_the_epoch_and_later_is_retried() -> None:
    manager = ready()
    first, second, third = drained(manager, 3)
    manager.failed(first, Error.REQUEST_TIMED_OUT, is_given_up=True)
    assert manager.decide(third, OUT_OF_ORDER, -1) is Retry.RETRY
    assert manager.decide(second, OUT_OF_ORDER, -1) is Retry.BUMP_AND_RETRY


def test_unknown_producer_id_bumps_the_epoch() -> None:
    manager = ready()
    (batch,) = drained(manager)
    assert manager.decide(batch, UNKNOWN_ID, log_start_offset=-1) is Retry.RETRY
    assert manager.decide(batch, UNKNOWN_ID, log_start_offset=5) is Retry.BUMP_AND_RETRY
    manager.bump()
    assert manager.decide(batch, UNKNOWN_ID, log_start_offset=5) is Retry.RETRY


@pytest.mark.parametrize("error", sorted(RETRIABLE))
def test_a_retriable_error_is_retried(error: Error) -> None:
    manager = ready()
    assert manager.decide(drained(manager)[0], error, -1) is Retry.RETRY


def test_every_other_error_fails() -> None:
    for error in {*Error} - RETRIABLE - SEQUENCE_ERRORS:
        manager = ready()
        assert manager.decide(drained(manager)[0], error, -1) is Retry.FAIL, error


def test_a_bump_waits_until_the_partition_has_no_in_flight_batch() -> None:
    manager = ready()
    refused, on_wire = drained(manager, 2)
    on_wire.is_on_wire = True
    manager.decide(refused, OUT_OF_ORDER, -1)
    assert manager.bump() == []
    assert manager.id_and_epoch.epoch == 0
    assert not manager.may_drain(refused)
    on_wire.is_on_wire = False
    manager.bump()
    assert [refused.base_sequence, on_wire.base_sequence] == [0, 1]
    assert manager.id_and_epoch.epoch == 1


def test_a_bump_fails_possibly_written_batches() -> None:
    manager = ready()
    refused, unanswered = drained(manager, 2)
    unanswered.is_outcome_unknown = True
    manager.decide(refused, OUT_OF_ORDER, -1)
    assert manager.bump() == [unanswered]
    assert manager.sequences(A).in_flight == [refused]


def test_only_the_oldest_in_flight_batch_is_retried() -> None:
    manager = ready()
    first, second = drained(manager, 2)
    assert manager.may_drain(first)
    assert not manager.may_drain(second)
    manager.completed(first, base_offset=0)
    assert manager.may_drain(second)


def test_new_batches_wait_while_a_former_epoch_is_in_flight() -> None:
    manager = ready()
    (old,) = drained(manager)
    other = TopicPartition("orders", 1)
    manager.request_bump(other)
    manager.bump()
    new = ProducerBatch(topic_partition=A, created=0, records=[PendingRecord(9, 50, 0)])
    assert not manager.may_drain(new)
    manager.completed(old, base_offset=0)
    assert manager.may_drain(new)
    manager.drained(new)
    assert (new.id_and_epoch.epoch, new.base_sequence) == (1, 0)


def test_a_drained_batch_keeps_its_sequences() -> None:
    manager = ready()
    (batch,) = drained(manager)
    batch.is_closed = True
    with pytest.raises(ValueError, match="was drained already"):
        batch.number(IdAndEpoch(4000, 0), 7)
    manager.drained(batch)
    assert batch.base_sequence == 0
