"""The index of a log: append, read, seal, delete."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokertwin.protocol.batch_headers import Batch
from brokertwin.state.core.tables import CellTables, MachineTables
from brokertwin.state.logs import log as logs
from brokertwin.state.logs.log import (
    CHUNK_BATCHES_MAX,
    INDEX_CHUNKS_MAX,
    EpochEnd,
    Log,
    RollingRules,
    log_key,
)
from brokertwin.state.logs.log_tail import LogTail

BROKER = 1
TOPIC_ID = "T" * 21 + "Q"
SIZE = 100


def batch(offset: int, count: int, size: int = SIZE, timestamp: int = 0) -> Batch:
    return Batch(
        base_offset=offset,
        last_offset_delta=count - 1,
        size_in_bytes=size,
        record_count=count,
        max_timestamp=timestamp,
    )


class Partition:
    def __init__(self, at: MachineTables | None = None) -> None:
        self.at = at or CellTables().of(BROKER)
        self.table = self.at.tables.logs
        self.sealed: list[logs.SealedSegment] = []
        logs.create(self.at, TOPIC_ID, "t", 0)

    @property
    def log(self) -> Log:
        log = self.table.get(log_key(BROKER, TOPIC_ID, 0), Log)
        assert log is not None
        return log

    def append(
        self, count: int, size: int = SIZE, timestamp: int = 0, rules: RollingRules | None = None
    ) -> None:
        """With `rules` the log has segments."""
        appended = batch(self.log.log_end_offset, count, size, timestamp)
        sealed = LogTail(self.at, self.log, rules).take(appended)
        if sealed is not None:
            self.sealed.append(sealed)

    def read(self, offset: int, max_bytes: int, is_first: bool = True) -> logs.Slice:
        end = self.log.high_watermark
        return logs.read(self.at, self.log, offset, end, max_bytes, is_first)

    def bytes_from(self, offset: int) -> int:
        end = self.log.high_watermark
        return logs.bytes_between(self.at, self.log, offset, end)


def test_read_starts_with_the_batch_of_the_offset() -> None:
    partition = Partition()
    partition.append(3)
    partition.append(2)
    found = partition.read(4, 1000)
    assert [b.base_offset for b in found.batches] == [3]


def test_first_batch_is_whole_and_the_rest_is_cut_at_max_bytes() -> None:
    partition = Partition()
    for _ in range(3):
        partition.append(1)
    assert partition.read(0, 1) == logs.Slice(partition.read(0, 1).batches, SIZE)
    found = partition.read(0, 250)
    assert ([b.base_offset for b in found.batches], found.size_in_bytes) == ([0, 1], 250)


def test_first_batch_that_does_not_fit_is_omitted_after_other_reads() -> None:
    partition = Partition()
    partition.append(1)
    assert partition.read(0, 99, is_first=False) == logs.EMPTY
    assert partition.read(0, 100, is_first=False).size_in_bytes == SIZE


def test_deletion_keeps_the_batch_with_the_new_start() -> None:
    partition = Partition()
    for _ in range(CHUNK_BATCHES_MAX + 1):
        partition.append(2)
    logs.move_start(partition.at, TOPIC_ID, 0, 2 * CHUNK_BATCHES_MAX + 1)
    assert partition.log.log_start_offset == 2 * CHUNK_BATCHES_MAX + 1
    assert len(partition.log.chunks) == 1
    assert partition.read(2 * CHUNK_BATCHES_MAX + 1, 1000).size_in_bytes == SIZE
    logs.move_start(partition.at, TOPIC_ID, 0, 0)
    assert partition.log.log_start_offset == 2 * CHUNK_BATCHES_MAX + 1


@pytest.mark.parametrize(("start", "known"), [(2, EpochEnd(0, 3)), (3, EpochEnd(1, 3))])
def test_leader_epoch_is_dropped_with_its_last_record(start: int, known: EpochEnd) -> None:
    partition = Partition()
    partition.append(3)
    log = partition.table.change(log_key(BROKER, TOPIC_ID, 0), Log)
    logs.begin_epoch(log, 2)
    partition.append(2)
    logs.move_start(partition.at, TOPIC_ID, 0, start)
    # epoch 1 has no records: the result is the epoch before it, if known
    assert logs.end_of_epoch(partition.log, 1) == known
    assert logs.end_of_epoch(partition.log, 2) == EpochEnd(2, 5)


def test_oldest_chunk_is_sealed_and_read_as_a_segment() -> None:
    partition = Partition()
    for _ in range(CHUNK_BATCHES_MAX * INDEX_CHUNKS_MAX + 1):
        partition.append(1)
    (sealed,) = partition.sealed
    assert [b.base_offset for b in sealed.batches] == list(range(CHUNK_BATCHES_MAX))
    assert len(partition.table.keys(f"{BROKER}/chunk/")) == INDEX_CHUNKS_MAX
    found = partition.read(5, 250)
    assert found.segment == logs.Segment(0, CHUNK_BATCHES_MAX - 1, SIZE * CHUNK_BATCHES_MAX, 0)
    assert partition.read(CHUNK_BATCHES_MAX, 250).segment is None


def test_removed_log_leaves_no_items() -> None:
    partition = Partition()
    for _ in range(CHUNK_BATCHES_MAX + 1):
        partition.append(1)
    logs.remove(partition.at, TOPIC_ID, 0)
    assert partition.table.keys() == []


COUNTS = st.lists(st.integers(1, 5), min_size=1, max_size=3 * CHUNK_BATCHES_MAX)


@given(COUNTS, st.data())
def test_offsets_ascend_and_reads_are_complete(counts: list[int], data: st.DataObject) -> None:
    partition = Partition()
    for count in counts:
        partition.append(count)
    log = partition.log
    assert log.log_start_offset <= log.high_watermark <= log.log_end_offset == sum(counts)
    offset = data.draw(st.integers(0, log.log_end_offset))
    batches = partition.read(offset, 10**9).batches
    expected = offset
    for found in batches:
        assert found.base_offset <= expected <= found.last_offset
        expected = found.last_offset + 1
    assert expected == log.log_end_offset
    assert partition.bytes_from(offset) == len(batches) * SIZE
