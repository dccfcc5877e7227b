"""The index of a partition's aborted transactions, which read_committed consumers are told of.

Source: KIP-98; `TransactionIndex`, `AbortedTxn`, `UnifiedLog.collectAbortedTransactions` in Kafka.
An entry is made with each marker that aborts. Entries lie in the order of their markers, in chunks
of `CHUNK_ENTRIES_MAX` in the table `logs`, `<broker>/aborted/<topic id>/<partition>/<number>`, so
that an append need not touch them; the log keeps the bounds of its chunks. Entries go with the
records that they are about.
"""

from collections.abc import Iterator

import msgspec

from brokerstream.state.core.schema import Uuid
from brokerstream.state.core.tables import Table

CHUNK_ENTRIES_MAX = 64
"""Aborted transactions in one chunk of the index."""


class AbortedTransaction(msgspec.Struct, array_like=True):
    """An aborted transaction: whose it was, its first record, and its marker.

    `last_stable_offset` is what the partition's last stable offset was with the marker.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class AbortedChunk(msgspec.Struct, array_like=True):
    """Where a chunk of the index lies: its number in its key, how many entries, the last marker."""

    number: int
    count: int
    last_offset: int


class Entries(msgspec.Struct, array_like=True):
    """A chunk of the index."""

    entries: list[AbortedTransaction]


class AbortedIndex:
    """The index of one partition on one broker.

    Args:
        table: the table `logs`.
        broker: the broker.
        topic_id: the topic's id.
        partition: the partition.
        chunks: the bounds that the partition's log keeps; `add` and the others change them.
    """

    def __init__(
        self,
        table: Table,
        broker: int,
        topic_id: Uuid,
        partition: int,
        chunks: list[AbortedChunk],
    ) -> None:
        self._table = table
        self._prefix = f"{broker}/aborted/{topic_id}/{partition}/"
        self._chunks = chunks

    def add(self, entry: AbortedTransaction) -> None:
        """Adds the transaction whose marker was written last."""
        if not self._chunks or self._chunks[-1].count >= CHUNK_ENTRIES_MAX:
            number = self._chunks[-1].number + 1 if self._chunks else 0
            self._chunks.append(AbortedChunk(number, 0, -1))
            self._table.put(self._key(number), Entries([]))
        chunk = self._chunks[-1]
        self._table.change(self._key(chunk.number), Entries).entries.append(entry)
        chunk.count += 1
        chunk.last_offset = entry.last_offset

    def between(self, offset: int, end_offset: int) -> list[AbortedTransaction]:
        """The transactions with records from `offset` up to `end_offset` (exclusive).

        As in Kafka the search ends behind the first entry whose last stable offset lies at or
        above `end_offset`: what was aborted later began later.
        """
        found = []
        for entry in self._from(offset):
            if entry.last_offset >= offset and entry.first_offset < end_offset:
                found.append(entry)
            if entry.last_stable_offset >= end_offset:
                break
        return found

    def drop_below(self, offset: int) -> None:
        """Forgets the chunks whose transactions all ended below `offset`."""
        for chunk in [chunk for chunk in self._chunks if chunk.last_offset < offset]:
            self._table.drop(self._key(chunk.number))
            self._chunks.remove(chunk)

    def drop_all(self) -> None:
        """Forgets everything."""
        for chunk in self._chunks:
            self._table.drop(self._key(chunk.number))
        self._chunks.clear()

    def _from(self, offset: int) -> Iterator[AbortedTransaction]:
        for chunk in self._chunks:
            if chunk.last_offset >= offset:
                entries = self._table.get(self._key(chunk.number), Entries)
                assert entries is not None, chunk
                yield from entries.entries

    def _key(self, number: int) -> str:
        return f"{self._prefix}{number}"
