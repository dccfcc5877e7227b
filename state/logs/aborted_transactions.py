"""The index of a partition's aborted transactions, for read_committed consumers.

Source: KIP-98; `TransactionIndex`, `AbortedTxn`, `UnifiedLog.collectAbortedTransactions` in Kafka.
Each abort marker adds an entry. Entries are in the order of their markers, in a `ChunkedList` in
the table `logs`, `<broker>/aborted/<topic id>/<partition>/<number>`. An entry is deleted with the
records of its transaction.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from brokertwin.protocol.bodies import Uuid
from brokertwin.state.core.tables import Table
from brokertwin.state.logs.chunked import ChunkedList, Span

if TYPE_CHECKING:
    from brokertwin.state.logs.log import StoredBatch


class AbortedTxn(msgspec.Struct, array_like=True):
    """An aborted transaction: its first record and its marker.

    `last_stable_offset` is the partition's LSO once the marker was written.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionOffsets(msgspec.Struct, array_like=True):
    """Consecutive transactional records of one producer; both offsets are inclusive."""

    producer_id: int
    first_offset: int
    last_offset: int

    def is_of(self, aborted: AbortedTxn) -> bool:
        is_within = aborted.first_offset <= self.first_offset <= aborted.last_offset
        return self.producer_id == aborted.producer_id and is_within


def offsets_in(batches: "Iterable[StoredBatch]") -> list[TransactionOffsets]:
    """Transactional records in these batches, without markers."""
    offsets: list[TransactionOffsets] = []
    for batch in batches:
        if not batch.is_transactional or batch.is_control:
            continue
        last = offsets[-1] if offsets else None
        is_next = last is not None and last.last_offset + 1 == batch.base_offset
        if last is not None and is_next and last.producer_id == batch.producer_id:
            last.last_offset = batch.last_offset
        else:
            offsets.append(
                TransactionOffsets(batch.producer_id, batch.base_offset, batch.last_offset)
            )
    return offsets


class AbortedChunk(msgspec.Struct, array_like=True):
    """Some consecutive entries of the index."""

    entries: list[AbortedTxn]


class AbortedIndex:
    """The index of one partition on one broker.

    Args:
        table: the table `logs`.
        broker: the broker.
        topic_id: the topic's id.
        partition: the partition.
        span: the bounds that the log stores; updated here.
    """

    def __init__(
        self, table: Table, broker: int, topic_id: Uuid, partition: int, span: Span
    ) -> None:
        prefix = f"{broker}/aborted/{topic_id}/{partition}/"
        self._entries = ChunkedList[AbortedTxn](table, prefix, span, AbortedChunk)

    def add(self, entry: AbortedTxn) -> None:
        self._entries.append(entry)

    def between(self, offset: int, end_offset: int) -> list[AbortedTxn]:
        """Transactions with records from `offset` up to `end_offset` (exclusive).

        As in Kafka, the search ends after the first entry with a last stable offset at or above
        `end_offset`: transactions aborted later started later.
        """
        transactions = []
        for entry in self._entries.from_number(self._ended_from(offset)):
            if entry.first_offset < end_offset:
                transactions.append(entry)
            if entry.last_stable_offset >= end_offset:
                break
        return transactions

    def drop_below(self, offset: int) -> None:
        self._entries.drop_below(self._ended_from(offset))

    def drop_from(self, offset: int) -> None:
        """Drop the transactions whose markers are at or above `offset`."""
        self._entries.drop_from(self._ended_from(offset))

    def drop_all(self) -> None:
        self._entries.drop_all()

    def _ended_from(self, offset: int) -> int:
        """Number of the first transaction whose marker is at or above `offset`."""
        return self._entries.first_where(lambda entry: entry.last_offset >= offset)
