"""The index of a partition's aborted transactions, which read_committed consumers are told of.

Source: KIP-98; `TransactionIndex`, `AbortedTxn`, `UnifiedLog.collectAbortedTransactions` in Kafka.
An entry is made with each marker that aborts. Entries lie in the order of their markers in a
`ChunkedList` in the table `logs`, `<broker>/aborted/<topic id>/<partition>/<number>`. An entry goes
when the records that it is about go.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from brokertwin.state.core.schema import Uuid
from brokertwin.state.core.tables import Table
from brokertwin.state.logs.chunked import ChunkedList, Span

if TYPE_CHECKING:
    from brokertwin.state.logs.log import StoredBatch


class AbortedTxn(msgspec.Struct, array_like=True):
    """An aborted transaction: whose it was, its first record, and its marker.

    `last_stable_offset` is what the partition's last stable offset was with the marker.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionOffsets(msgspec.Struct, array_like=True):
    """Records of one producer in a row, both offsets inclusive, that are part of a transaction."""

    producer_id: int
    first_offset: int
    last_offset: int

    def is_of(self, aborted: AbortedTxn) -> bool:
        """Whether these records are of that transaction."""
        is_within = aborted.first_offset <= self.first_offset <= aborted.last_offset
        return self.producer_id == aborted.producer_id and is_within


def offsets_in(batches: "Iterable[StoredBatch]") -> list[TransactionOffsets]:
    """The records of transactions in these batches, but for markers."""
    found: list[TransactionOffsets] = []
    for batch in batches:
        if not batch.is_transactional or batch.is_control:
            continue
        last = found[-1] if found else None
        follows = last is not None and last.last_offset + 1 == batch.base_offset
        if last is not None and follows and last.producer_id == batch.producer_id:
            last.last_offset = batch.last_offset
        else:
            found.append(
                TransactionOffsets(batch.producer_id, batch.base_offset, batch.last_offset)
            )
    return found


class AbortedChunk(msgspec.Struct, array_like=True):
    """A chunk of the index."""

    entries: list[AbortedTxn]


class AbortedIndex:
    """The index of one partition on one broker.

    Args:
        table: the table `logs`.
        broker: the broker.
        topic_id: the topic's id.
        partition: the partition.
        span: what the partition's log keeps of it; `add` and the others change it.
    """

    def __init__(
        self, table: Table, broker: int, topic_id: Uuid, partition: int, span: Span
    ) -> None:
        prefix = f"{broker}/aborted/{topic_id}/{partition}/"
        self._entries = ChunkedList[AbortedTxn](table, prefix, span, AbortedChunk)

    def add(self, entry: AbortedTxn) -> None:
        """Adds the transaction whose marker was written last."""
        self._entries.append(entry)

    def between(self, offset: int, end_offset: int) -> list[AbortedTxn]:
        """The transactions with records from `offset` up to `end_offset` (exclusive).

        As in Kafka the search ends behind the first entry whose last stable offset lies at or
        above `end_offset`: what was aborted later began later.
        """
        found = []
        for entry in self._entries.from_number(self._ended_from(offset)):
            if entry.first_offset < end_offset:
                found.append(entry)
            if entry.last_stable_offset >= end_offset:
                break
        return found

    def drop_below(self, offset: int) -> None:
        """Forgets the transactions that ended below `offset`."""
        self._entries.drop_below(self._ended_from(offset))

    def drop_from(self, offset: int) -> None:
        """Forgets the transactions whose markers lie at `offset` or above it."""
        self._entries.drop_from(self._ended_from(offset))

    def drop_all(self) -> None:
        """Forgets everything."""
        self._entries.drop_all()

    def _ended_from(self, offset: int) -> int:
        """The number of the first transaction whose marker lies at `offset` or above it."""
        return self._entries.first_where(lambda entry: entry.last_offset >= offset)
