"""Sequences, epochs and duplicates on one partition; numbered as in the worked examples."""

from hypothesis import given
from hypothesis import strategies as st

from brokertwin.protocol.batch_headers import Batch
from brokertwin.protocol.errors import Error
from brokertwin.state.core.tables import CellTables
from brokertwin.state.logs import producer
from brokertwin.state.logs.producer import (
    SEQUENCE_MAX,
    ProducerStateEntry,
    SequenceCheck,
    producer_key,
    sequence_after,
    sequence_before,
)

TOPIC_ID = "T" * 21 + "Q"
PRODUCER_ID = 1


def batch(sequence: int, count: int = 1, epoch: int = 0, offset: int = 0) -> Batch:
    return Batch(
        base_offset=offset,
        last_offset_delta=count - 1,
        producer_id=PRODUCER_ID,
        producer_epoch=epoch,
        base_sequence=sequence,
        max_timestamp=1000 + offset,
        record_count=count,
    )


class Partition:
    def __init__(self) -> None:
        self.at = CellTables().of(1)
        self.end = 0

    @property
    def known(self) -> ProducerStateEntry | None:
        key = producer_key(1, TOPIC_ID, 0, PRODUCER_ID)
        return self.at.tables.producers.get(key, ProducerStateEntry)

    def check(self, sequence: int, count: int = 1, epoch: int = 0) -> SequenceCheck:
        return producer.check(self.known, batch(sequence, count, epoch))

    def produce(self, sequence: int, count: int = 1, epoch: int = 0) -> SequenceCheck:
        check = self.check(sequence, count, epoch)
        if check.error is Error.NONE and check.duplicate is None:
            appended = batch(sequence, count, epoch, self.end)
            producer.append(self.at, TOPIC_ID, 0, appended)
            self.end += count
        return check


def test_example_7_sequences_and_epochs() -> None:
    partition = Partition()
    assert partition.produce(0).error is Error.NONE
    assert partition.produce(1).error is Error.NONE
    assert partition.known is not None
    again = producer.check_sequence(partition.known, batch(1))
    assert again.error is Error.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert partition.check(5).error is Error.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert partition.produce(0, epoch=1).error is Error.NONE
    assert partition.check(0, epoch=0).error is Error.INVALID_PRODUCER_EPOCH


def test_example_8_only_the_last_five_are_duplicates() -> None:
    partition = Partition()
    for sequence in range(6):
        partition.produce(sequence)
    for sequence in range(5, 0, -1):
        duplicate = partition.check(sequence).duplicate
        assert duplicate is not None
        assert duplicate.first_offset == sequence
    assert partition.check(0).error is Error.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert partition.check(4, count=2).error is Error.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_example_9_the_greatest_sequence_wraps_to_0() -> None:
    partition = Partition()
    partition.produce(SEQUENCE_MAX, epoch=15)
    assert partition.check(1, epoch=15).error is Error.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert partition.produce(0, epoch=15).error is Error.NONE


def test_example_10_a_batch_can_wrap() -> None:
    wrapping = batch(2147483637, count=21, offset=2000)
    entry = ProducerStateEntry()
    producer.update(entry, wrapping)
    assert entry.batches[-1].last_sequence == 9
    assert wrapping.last_offset == 2020
    partition = Partition()
    partition.produce(2147483637, count=21)
    assert partition.known is not None
    assert partition.known.batches[-1].first_sequence == 2147483637
    assert partition.check(2147483637, count=21).duplicate is not None


def test_example_11_unknown_producer_may_start_at_any_sequence() -> None:
    assert Partition().check(17).error is Error.NONE


def test_example_14_batch_is_remembered_after_the_append_only() -> None:
    partition = Partition()
    first, second = batch(0, count=6, offset=15), batch(6, count=5, offset=26)
    assert producer.check(partition.known, first).error is Error.NONE
    assert partition.known is None
    producer.append(partition.at, TOPIC_ID, 0, first)
    assert producer.check(partition.known, second).error is Error.NONE
    assert partition.known is not None
    assert partition.known.batches[-1].last_sequence == 5
    producer.append(partition.at, TOPIC_ID, 0, second)
    oldest, newest = partition.known.batches
    assert (oldest.first_sequence, newest.last_sequence, newest.last_offset) == (0, 10, 30)


def test_new_epoch_starts_at_0_and_drops_batches() -> None:
    partition = Partition()
    partition.produce(0, count=2)
    assert partition.check(2, epoch=1).error is Error.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert partition.check(0, count=2, epoch=1).duplicate is None, "only of the same epoch"
    partition.produce(0, epoch=1)
    assert partition.known is not None
    assert len(partition.known.batches) == 1


def test_duplicate_changes_nothing() -> None:
    partition = Partition()
    partition.produce(0)
    before = partition.known
    partition.produce(0)
    assert partition.known == before
    assert partition.end == 1


SEQUENCES = st.integers(0, SEQUENCE_MAX)


@given(SEQUENCES, SEQUENCES)
def test_sequence_before_inverts_sequence_after(sequence: int, count: int) -> None:
    assert sequence_before(sequence_after(sequence, count), count) == sequence


@given(SEQUENCES, st.lists(st.integers(1, 1000), min_size=1, max_size=12))
def test_next_sequences_are_accepted_and_the_last_five_remembered(
    start: int, counts: list[int]
) -> None:
    partition = Partition()
    sequence, bounds = start, []
    for count in counts:
        assert partition.produce(sequence, count) == producer.ACCEPTED
        bounds.append((sequence, count))
        sequence = sequence_after(sequence, count)
    assert partition.end == sum(counts)
    known = [partition.check(first, count).duplicate is not None for first, count in bounds]
    assert known == [False] * (len(bounds) - 5) + [True] * min(len(bounds), 5)
