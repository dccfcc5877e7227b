"""A producer's transactions on one partition.

Worked examples 12 to 13 concern the idempotent producer, 18 to 19 transactions.
"""

import pytest

from brokertwin.protocol import control_batches
from brokertwin.protocol.batch_headers import Batch, EndMarker
from brokertwin.protocol.errors import Error
from brokertwin.state.logs import producer
from brokertwin.state.logs.producer import (
    KAFKA_RULES,
    ProducerStateEntry,
    SequenceRules,
    Verification,
)

PRODUCER_ID = 1
UNVERIFIED = SequenceRules(verifies=False)
V1, V2 = 0, 2


def batch(sequence: int, epoch: int = 0, offset: int = 0, is_transactional: bool = True) -> Batch:
    return Batch(
        base_offset=offset,
        last_offset_delta=0,
        producer_id=PRODUCER_ID,
        producer_epoch=epoch,
        base_sequence=sequence,
        record_count=1,
        is_transactional=is_transactional,
    )


def marker(epoch: int, is_commit: bool = True, coordinator_epoch: int = 0, time: int = 7) -> Batch:
    end = EndMarker(is_commit=is_commit, coordinator_epoch=coordinator_epoch)
    return control_batches.end_batch(PRODUCER_ID, epoch, end, 0, time)


class Known:
    def __init__(self) -> None:
        self.producer = ProducerStateEntry()

    def produce(self, sequence: int, epoch: int = 0, offset: int = 0, **kind: bool) -> Error:
        written = batch(sequence, epoch, offset, **kind)
        error = producer.check(self.producer, written, UNVERIFIED).error
        if error is Error.NONE:
            producer.update(self.producer, written)
        return error

    def end(
        self, epoch: int, is_commit: bool = True, coordinator_epoch: int = 0, version: int = V1
    ) -> Error:
        written = marker(epoch, is_commit, coordinator_epoch)
        error = producer.check_marker(self.producer, written, version)
        if error is Error.NONE:
            producer.update(self.producer, written)
        return error


def test_example_12_marker_alone_sets_the_epoch_and_no_sequence() -> None:
    known = Known()
    assert known.end(2) is Error.NONE
    assert known.producer.batches == []
    assert known.produce(0, epoch=0) is Error.INVALID_PRODUCER_EPOCH
    assert known.produce(17, epoch=2) is Error.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert known.produce(0, epoch=2, offset=39) is Error.NONE
    assert known.producer.batches[-1].last_sequence == 0


def test_example_13_abort_in_a_new_epoch_drops_batches_and_transaction() -> None:
    known = Known()
    known.produce(0)
    assert known.producer.has_open_transaction
    assert known.end(1, is_commit=False) is Error.NONE
    assert known.producer == ProducerStateEntry(
        producer_epoch=1, last_timestamp=7, coordinator_epoch=0
    )
    assert known.produce(0, epoch=1, is_transactional=False) is Error.NONE
    again = producer.check_sequence(known.producer, batch(2, epoch=1))
    assert again.error is Error.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_example_18_marker_of_an_older_coordinator_is_fenced() -> None:
    known = Known()
    assert known.end(0, coordinator_epoch=5) is Error.NONE
    assert known.end(0, coordinator_epoch=4) is Error.TRANSACTION_COORDINATOR_FENCED
    assert known.end(0, coordinator_epoch=5) is Error.NONE


def test_example_19_open_transaction_accepts_only_transactional_batches() -> None:
    known = Known()
    known.produce(0)
    assert known.produce(1, is_transactional=False) is Error.INVALID_TXN_STATE
    assert known.produce(3, is_transactional=False) is Error.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert known.produce(1) is Error.NONE
    known.end(0)
    assert known.produce(2, is_transactional=False) is Error.NONE


def test_batches_stay_after_a_marker_of_their_epoch() -> None:
    known = Known()
    known.produce(0)
    known.end(0)
    assert not known.producer.has_open_transaction
    assert producer.check(known.producer, batch(0), UNVERIFIED).duplicate is not None
    assert known.produce(1) is Error.NONE


@pytest.mark.parametrize(
    ("epoch", "version", "error"),
    [
        (4, V1, Error.INVALID_PRODUCER_EPOCH),
        (5, V1, Error.NONE),
        (6, V1, Error.NONE),
        (4, V2, Error.INVALID_PRODUCER_EPOCH),
        (5, V2, Error.INVALID_PRODUCER_EPOCH),
        (6, V2, Error.NONE),
    ],
)
def test_v2_marker_of_an_open_transaction_needs_a_new_epoch(
    epoch: int, version: int, error: Error
) -> None:
    known = Known()
    known.produce(0, epoch=5)
    assert known.end(epoch, version=version) is error


def test_v2_marker_can_be_repeated() -> None:
    known = Known()
    known.produce(0, epoch=5)
    assert known.end(6, version=V2) is Error.NONE
    assert known.end(6, version=V2) is Error.NONE
    assert known.end(5, version=V2) is Error.INVALID_PRODUCER_EPOCH


def test_marker_of_a_fenced_producer_may_have_the_fencing_epoch() -> None:
    known = Known()
    known.produce(0, epoch=producer.FENCING_EPOCH)
    assert known.end(producer.FENCING_EPOCH, version=V2) is Error.NONE


def verified(lowest_sequence: int, is_v2: bool = False) -> Verification:
    return Verification(0, 0, lowest_sequence, is_v2)


def test_first_batch_of_a_transaction_must_be_verified() -> None:
    assert producer.check(None, batch(0)).error is Error.INVALID_TXN_STATE
    assert producer.check(None, batch(0), KAFKA_RULES, verified(0)).error is Error.NONE
    entry = ProducerStateEntry()
    producer.update(entry, batch(0))
    assert producer.check(entry, batch(1)).error is Error.NONE
    newer = producer.check(entry, batch(0, epoch=1))
    assert newer.error is Error.INVALID_TXN_STATE, "the open transaction is of another epoch"


def test_kafka_14920_sequence_above_the_lowest_verified_one_is_out_of_order() -> None:
    check = producer.check(None, batch(5), KAFKA_RULES, verified(4))
    assert check.error is Error.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producer.check(None, batch(4), KAFKA_RULES, verified(4)).error is Error.NONE


def test_producer_without_batches_starts_a_v2_transaction_at_0() -> None:
    check = producer.check(None, batch(4), KAFKA_RULES, verified(4, is_v2=True))
    assert check.error is Error.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producer.check(None, batch(0), KAFKA_RULES, verified(0, is_v2=True)).error is Error.NONE
