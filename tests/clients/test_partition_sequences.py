"""Sequences of one partition, also past 2147483647."""

from hypothesis import given
from hypothesis import strategies as st

from brokertwin.clients.partition_sequences import PartitionSequences, is_later
from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.producer_batch import (
    NO_SEQUENCE,
    IdAndEpoch,
    PendingRecord,
    ProducerBatch,
    split,
)
from brokertwin.state.logs.producer import SEQUENCE_MAX, sequence_after

SEQUENCES = st.integers(0, SEQUENCE_MAX)
ID = IdAndEpoch(7, 0)


def batch(count: int, size: int = 50) -> ProducerBatch:
    records = [PendingRecord(number, size, number) for number in range(count)]
    return ProducerBatch(topic_partition=TopicPartition("t", 0), created=0, records=records)


def started_at(sequence: int) -> PartitionSequences:
    sequences = PartitionSequences()
    sequences.restart(ID)
    sequences.next_sequence = sequence
    return sequences


@given(SEQUENCES, st.integers(1, SEQUENCE_MAX // 2))
def test_sequence_order_wraps_around(sequence: int, ahead: int) -> None:
    later = sequence_after(sequence, ahead)
    assert is_later(later, sequence)
    assert not is_later(sequence, later)
    assert not is_later(sequence, sequence)


@given(SEQUENCES)
def test_every_sequence_is_later_than_none(sequence: int) -> None:
    assert is_later(sequence, NO_SEQUENCE)
    assert not is_later(NO_SEQUENCE, sequence)


@given(SEQUENCES, st.lists(st.integers(1, 9), min_size=1, max_size=5))
def test_batches_are_consecutive_and_acknowledged(start: int, counts: list[int]) -> None:
    sequences = started_at(start)
    batches = [batch(count) for count in counts]
    for each in batches:
        sequences.assign(each)
    assert sequences.in_flight == batches
    expected = start
    for each in batches:
        assert each.base_sequence == expected
        expected = sequence_after(each.last_sequence, 1)
        sequences.acked(each, base_offset=-1)
        sequences.remove(each)
    assert sequences.is_all_acked
    assert sequences.in_flight == []


def test_the_last_acked_sequence_wraps_to_0() -> None:
    """Kafka's client keeps the greater number here, and never again finds a batch in sequence."""
    sequences = started_at(SEQUENCE_MAX)
    before, after = batch(1), batch(1)
    sequences.assign(before)
    sequences.assign(after)
    assert (before.base_sequence, after.base_sequence) == (SEQUENCE_MAX, 0)
    assert sequences.in_flight == [before, after]
    sequences.acked(before, base_offset=10)
    sequences.acked(after, base_offset=11)
    assert sequences.last_acked == 0
    assert sequences.expected == sequences.next_sequence == 1


def test_the_unresolved_sequence_wraps_to_0() -> None:
    sequences = started_at(SEQUENCE_MAX)
    before, after = batch(1), batch(1)
    sequences.assign(before)
    sequences.assign(after)
    sequences.mark_unresolved(before)
    assert sequences.unresolved == 0
    sequences.mark_unresolved(after)
    sequences.mark_unresolved(before)
    assert sequences.unresolved == 1


def test_a_late_acknowledgement_does_not_decrease_the_last_acked() -> None:
    sequences = started_at(0)
    first, second = batch(2), batch(1)
    sequences.assign(first)
    sequences.assign(second)
    sequences.acked(second, base_offset=2)
    sequences.acked(first, base_offset=0)
    assert (sequences.last_acked, sequences.last_acked_offset) == (2, 2)


def test_an_acknowledgement_of_a_former_epoch_is_ignored() -> None:
    sequences = started_at(0)
    old = batch(3)
    sequences.assign(old)
    sequences.remove(old)
    sequences.restart(IdAndEpoch(7, 1))
    sequences.acked(old, base_offset=0)
    assert sequences.last_acked == NO_SEQUENCE


def test_a_restart_renumbers_in_flight_batches() -> None:
    sequences = started_at(5)
    for count in (2, 3):
        sequences.assign(batch(count))
    sequences.mark_unresolved(sequences.in_flight[0])
    sequences.restart(IdAndEpoch(7, 1))
    assert [each.base_sequence for each in sequences.in_flight] == [0, 2]
    assert {each.id_and_epoch.epoch for each in sequences.in_flight} == {1}
    assert all(each.is_renumbered for each in sequences.in_flight)
    assert (sequences.next_sequence, sequences.last_acked) == (5, NO_SEQUENCE)
    assert sequences.unresolved is None


def test_only_certainly_unwritten_batches_are_renumbered() -> None:
    sequences = started_at(0)
    overtaken, acked, unanswered, refused = (batch(1) for _ in range(4))
    for each in (overtaken, acked, unanswered, refused):
        sequences.assign(each)
    sequences.acked(acked, base_offset=0)
    sequences.remove(acked)
    unanswered.is_outcome_unknown = True
    assert sequences.give_up_unsafe() == [overtaken, unanswered]
    assert sequences.in_flight == [refused]


@given(SEQUENCES, st.lists(st.integers(1, 400), min_size=2, max_size=12), st.integers(100, 1000))
def test_the_parts_of_a_split_batch_are_the_batch(
    start: int, sizes: list[int], size_max: int
) -> None:
    big = batch(0)
    big.records = [PendingRecord(number, size, 0) for number, size in enumerate(sizes)]
    big.number(ID, start)
    parts = split(big, size_max)
    assert len(parts) > 1
    assert [record for part in parts for record in part.records] == big.records
    expected = start
    for part in parts:
        assert part.base_sequence == expected
        assert part.id_and_epoch == ID
        assert part.size_in_bytes <= size_max or len(part.records) == 1
        expected = sequence_after(part.last_sequence, 1)
