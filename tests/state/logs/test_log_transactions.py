"""Transactions in a log: last stable offset and aborted ones, by the worked examples."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokertwin.protocol import control_batches
from brokertwin.protocol.batch_headers import Batch, EndMarker
from brokertwin.state.core.tables import CellTables, Table
from brokertwin.state.logs import log as logs
from brokertwin.state.logs import truncation
from brokertwin.state.logs.aborted_transactions import AbortedIndex, AbortedTxn
from brokertwin.state.logs.chunked import CHUNK_ENTRIES, Span
from brokertwin.state.logs.log import INDEX_INTERVAL_BYTES, READ_COMMITTED, Log, log_key
from brokertwin.state.logs.log_tail import LogTail

BROKER = 1
TOPIC_ID = "T" * 21 + "Q"
PLACE = (BROKER, TOPIC_ID, 0)


class Partition:
    """A log and its tables; the caller sets offsets, as in the examples."""

    def __init__(self) -> None:
        self.at = CellTables().of(BROKER)
        self.table = self.at.tables.logs
        logs.create(self.at, TOPIC_ID, "t", 0)

    @property
    def log(self) -> Log:
        log = self.table.get(log_key(*PLACE), Log)
        assert log is not None
        return log

    def data(self, producer_id: int, first: int, last: int | None = None, size: int = 100) -> None:
        last = first if last is None else last
        batch = Batch(
            base_offset=first,
            last_offset_delta=last - first,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            size_in_bytes=size,
            record_count=last - first + 1,
            is_transactional=True,
        )
        LogTail(self.at, self.log, None).take(batch)

    def end(self, producer_id: int, offset: int, is_commit: bool = True) -> None:
        marker = EndMarker(is_commit=is_commit, coordinator_epoch=0)
        batch = control_batches.end_batch(producer_id, 0, marker, offset, 0)
        LogTail(self.at, self.log, None).take(batch)

    def aborted(self, offset: int, max_bytes: int = 1_000_000) -> list[tuple[int, int]]:
        end = self.log.readable_end(READ_COMMITTED)
        found = logs.read(self.at, self.log, offset, end, max_bytes, True)
        entries = logs.aborted_in(self.at, self.log, offset, found)
        return [(each.producer_id, each.first_offset) for each in entries]


def test_example_13_first_open_transaction_holds_the_last_stable_offset() -> None:
    partition = Partition()
    for producer_id, offset in ((1, 992342), (2, 992367), (3, 992399)):
        partition.data(producer_id, offset)
    assert partition.log.last_stable_offset == 992342
    partition.end(1, 992414)
    assert partition.log.last_stable_offset == 992367
    partition.end(3, 992434)
    assert partition.log.last_stable_offset == 992367
    partition.end(2, 992512)
    assert partition.log.last_stable_offset == 992513
    assert partition.log.transactions == []


def test_lowered_high_watermark_reopens_transactions() -> None:
    """Read_committed consumers wait until it passes the marker again."""
    partition = Partition()
    partition.data(1, 0, 4)
    partition.end(1, 5)
    partition.data(2, 6)
    log = partition.table.change(log_key(*PLACE), Log)
    assert log.last_stable_offset == 6
    truncation.move_high_watermark(partition.at, log, 5)
    assert (log.high_watermark, log.last_stable_offset) == (5, 0)
    logs.raise_high_watermark(log, 6)
    assert log.last_stable_offset == 6


def test_lowered_high_watermark_keeps_transactions_from_below_the_start() -> None:
    partition = Partition()
    partition.data(1, 0)
    partition.data(1, 1)
    partition.data(1, 2)
    log = partition.table.change(log_key(*PLACE), Log)
    log.log_start_offset = log.start_batch = 1
    truncation.move_high_watermark(partition.at, log, 2)
    assert [each.first_offset for each in log.transactions] == [0], "known to its producer"
    assert log.last_stable_offset == 1


def test_example_14_marker_counts_once_it_is_replicated() -> None:
    log = Log(TOPIC_ID, "t", 0, 0, log_end_offset=992513)
    log.transactions = [logs.LogTransaction(2, 992367, 992512)]
    for high_watermark in (992500, 992512):
        logs.raise_high_watermark(log, high_watermark)
        assert log.last_stable_offset == 992367
    logs.raise_high_watermark(log, 992513)
    assert log.last_stable_offset == 992513


def test_example_15_marker_without_a_transaction_leaves_nothing() -> None:
    partition = Partition()
    partition.data(1, 16, 20)
    partition.end(1, 21)
    partition.end(2, 22)
    partition.end(3, 23, is_commit=False)
    partition.data(1, 24, 27)
    partition.end(1, 28, is_commit=False)
    partition.end(1, 29)
    partition.data(1, 30, 31)
    assert partition.log.high_watermark == 32
    assert partition.log.last_stable_offset == 30
    index = logs.aborted_index(partition.at, partition.log)
    assert index.between(0, 32) == [AbortedTxn(1, 24, 28, 29)]


def index_with(*entries: AbortedTxn) -> AbortedIndex:
    index = AbortedIndex(Table(), *PLACE, Span())
    for entry in entries:
        index.add(entry)
    return index


def test_example_16_aborted_transactions_of_a_reader() -> None:
    first, second = AbortedTxn(1, 10, 19, 20), AbortedTxn(2, 5, 30, 31)
    index = index_with(first, second)
    assert index.between(15, 25) == [first, second]
    assert index.between(20, 22) == [second]
    assert index.between(15, 18) == [first], "the search ends after an entry by its LSO"
    assert index.between(31, 40) == []


def test_example_20_second_marker_is_harmless() -> None:
    partition = Partition()
    partition.data(1, 0)
    partition.end(1, 1, is_commit=False)
    partition.end(1, 2, is_commit=False)
    assert partition.log.last_stable_offset == 3
    assert partition.aborted(0) == [(1, 0)]


def test_abort_stores_the_next_open_transaction() -> None:
    partition = Partition()
    partition.data(1, 0)
    partition.data(2, 1)
    partition.end(1, 2, is_commit=False)
    index = logs.aborted_index(partition.at, partition.log)
    assert index.between(0, 3) == [AbortedTxn(1, 0, 2, 1)]
    partition.end(2, 3, is_commit=False)
    assert index.between(0, 4)[1] == AbortedTxn(2, 1, 3, 4)


def test_search_goes_beyond_the_end_of_the_read() -> None:
    partition = Partition()
    for number in range(4):
        partition.data(number, 2 * number, size=INDEX_INTERVAL_BYTES)
        partition.end(number, 2 * number + 1, is_commit=False)
    assert partition.aborted(0, max_bytes=1) == [(0, 0), (1, 2)]
    assert len(partition.aborted(0)) == 4
    assert partition.aborted(7) == [(3, 6)]


@pytest.mark.parametrize(("size", "found"), [(4096, [(0, 0), (1, 4)]), (4097, [(0, 0)])])
def test_search_ends_at_the_next_index_entry_of_4096_bytes(
    size: int, found: list[tuple[int, int]]
) -> None:
    partition = Partition()
    partition.data(0, 0, size=1)
    partition.end(0, 1, is_commit=False)
    read_to_here = logs.read(partition.at, partition.log, 0, 2, 10_000, True)
    marker = read_to_here.batches[-1].size_in_bytes
    partition.data(9, 2, size=size - marker)
    partition.end(9, 3)
    partition.data(1, 4)
    partition.end(1, 5, is_commit=False)
    slice_of_first = logs.Slice(read_to_here.batches, 1)
    entries = logs.aborted_in(partition.at, partition.log, 0, slice_of_first)
    assert [(entry.producer_id, entry.first_offset) for entry in entries] == found


def test_deletion_drops_transactions_below_the_start() -> None:
    partition = Partition()
    count = CHUNK_ENTRIES + 1
    for number in range(count):
        partition.data(1, 2 * number)
        partition.end(1, 2 * number + 1, is_commit=False)
    assert len(partition.log.aborted) == CHUNK_ENTRIES + 1
    logs.move_start(partition.at, TOPIC_ID, 0, 2 * CHUNK_ENTRIES)
    assert len(partition.log.aborted) == 1
    assert partition.aborted(2 * CHUNK_ENTRIES) == [(1, 2 * CHUNK_ENTRIES)]
    logs.remove(partition.at, TOPIC_ID, 0)
    assert partition.table.keys() == []


@pytest.mark.parametrize(("start", "expected"), [(5, 0), (10, 10), (12, 10), (20, 20)])
def test_batch_at_the_log_start_has_the_least_last_stable_offset(start: int, expected: int) -> None:
    # observed at Apache Kafka 4.3.1 (exam scenario txn_delete_records_of_open_transaction)
    partition = Partition()
    partition.data(1, 0, 9)
    partition.data(1, 10, 19)
    logs.move_start(partition.at, TOPIC_ID, 0, start)
    logs.raise_high_watermark(partition.table.change(log_key(*PLACE), Log), 20)
    assert partition.log.last_stable_offset == expected


class Written(NamedTuple):
    """A batch of an open transaction or a marker."""

    producer_id: int
    kind: str


written = st.builds(
    Written, st.integers(0, 3), st.sampled_from(["data", "data", "commit", "abort"])
)


@given(st.lists(written, max_size=60))
def test_read_committed_returns_exactly_the_committed_records(history: list[Written]) -> None:
    """Compared with a reader that knows the end of each transaction."""
    partition = Partition()
    open_since: dict[int, int] = {}
    aborted: list[tuple[int, int]] = []
    for offset, (producer_id, kind) in enumerate(history):
        if kind == "data":
            partition.data(producer_id, offset)
            open_since.setdefault(producer_id, offset)
            continue
        partition.end(producer_id, offset, is_commit=kind == "commit")
        first = open_since.pop(producer_id, None)
        if first is not None and kind == "abort":
            aborted.append((producer_id, first))
    end = len(history)
    stable = min([end, *open_since.values()])
    assert partition.log.last_stable_offset == stable
    read = {place for place in partition.aborted(0) if place[1] < stable}
    assert read == ({place for place in aborted if place[1] < stable} if stable else set())


def test_sealed_part_has_its_aborted_transactions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(logs, "INDEX_CHUNKS_MAX", 1)
    partition = Partition()
    for number in range(logs.CHUNK_BATCHES_MAX):
        partition.data(1, 2 * number)
        partition.end(1, 2 * number + 1, is_commit=False)
    sealed = logs.sealed_segments(partition.at, partition.log)
    assert [segment.last_offset for segment in sealed] == [63]
    assert partition.aborted(0) == [(1, 2 * number) for number in range(32)]
    assert partition.aborted(60) == [(1, 60), (1, 62)]
