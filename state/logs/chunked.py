"""A list that only grows at its end and is forgotten from its front, in items of many entries.

The entries have numbers, 0, 1, 2, …, for ever; entry n lies in the chunk n // `CHUNK_ENTRIES`, an
item of its own. Its owner keeps the two numbers of a `Span`, so that an entry added costs the same
however many there are. Entries are in an order by which `first_where` looks with bisection.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

import msgspec

from brokertwin.state.core.tables import Table

Entry = TypeVar("Entry")

CHUNK_ENTRIES = 64
"""Entries in one chunk."""


class Span(msgspec.Struct, array_like=True):
    """Which entries there are: numbers `first` up to `end` (exclusive)."""

    first: int = 0
    end: int = 0

    def __len__(self) -> int:
        return self.end - self.first


class ChunkedList(Generic[Entry]):
    """The entries of one list.

    Args:
        table: where its items lie.
        prefix: how their keys begin.
        span: what the owner keeps; changed only where the owner comes from `Table.change`.
        chunk_type: the type of the items, a Struct whose only field is `entries: list[Entry]`.
    """

    def __init__(
        self,
        table: Table,
        prefix: str,
        span: Span,
        chunk_type: type[Any],
    ) -> None:
        self._table = table
        self._prefix = prefix
        self._span = span
        self._chunk_type = chunk_type

    def append(self, entry: Entry) -> None:
        """Adds an entry at the end."""
        chunk = self._span.end // CHUNK_ENTRIES
        if self._span.end % CHUNK_ENTRIES == 0:
            self._table.put(self._key(chunk), self._chunk_type([entry]))
        else:
            self._table.change(self._key(chunk), self._chunk_type).entries.append(entry)
        self._span.end += 1

    def __len__(self) -> int:
        return len(self._span)

    def __getitem__(self, number: int) -> Entry:
        """The entry with this number."""
        return self._entries(number // CHUNK_ENTRIES)[number % CHUNK_ENTRIES]

    def from_number(self, number: int) -> Iterator[Entry]:
        """The entries from this number on."""
        for at in range(max(number, self._span.first), self._span.end):
            yield self[at]

    def __iter__(self) -> Iterator[Entry]:
        return self.from_number(self._span.first)

    def first_where(self, holds: Callable[[Entry], bool]) -> int:
        """The number of the first entry for which `holds`; it holds for every one behind it.

        The end of the span where there is none.
        """
        numbers = range(self._span.first, self._span.end)
        return self._span.first + bisect_left(numbers, True, key=lambda n: holds(self[n]))

    def drop_below(self, number: int) -> None:
        """Forgets the entries below this number."""
        chunks = range(self._span.first // CHUNK_ENTRIES, number // CHUNK_ENTRIES)
        self._span.first = number
        for chunk in chunks:
            self._table.drop(self._key(chunk))
        if number == self._span.end:
            self._table.drop(self._key(number // CHUNK_ENTRIES))
            self._span.first = self._span.end = 0

    def drop_from(self, number: int) -> None:
        """Forgets the entries from this number on."""
        while self._span.end > max(number, self._span.first):
            self._span.end -= 1
            chunk, left = divmod(self._span.end, CHUNK_ENTRIES)
            if left == 0:
                self._table.drop(self._key(chunk))
            else:
                self._table.change(self._key(chunk), self._chunk_type).entries.pop()
        if not len(self):
            self.drop_all()

    def drop_all(self) -> None:
        """Forgets everything."""
        self.drop_below(self._span.end)

    def _entries(self, chunk: int) -> list[Entry]:
        item = self._table.get(self._key(chunk), self._chunk_type)
        assert item is not None, self._key(chunk)
        return item.entries  # type: ignore[no-any-return]

    def _key(self, chunk: int) -> str:
        return f"{self._prefix}{chunk}"
