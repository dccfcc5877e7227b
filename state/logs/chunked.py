"""A list that grows at its end and shrinks at its start, in items of many entries.

Entries are numbered 0, 1, 2, … for ever. Entry n is in the chunk n // `CHUNK_ENTRIES`, an item of
its own. The owner stores the two numbers of a `Span`, so adding an entry has a constant cost.
Entries are sorted, so `first_where` bisects.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

import msgspec

from brokertwin.state.core.tables import Table

Entry = TypeVar("Entry")

CHUNK_ENTRIES = 64


class Span(msgspec.Struct, array_like=True):
    """The numbers of existing entries: `first` up to `end` (exclusive)."""

    first: int = 0
    end: int = 0

    def __len__(self) -> int:
        return self.end - self.first


class ChunkedList(Generic[Entry]):
    """The entries of one list.

    Args:
        table: the table of its items.
        prefix: the prefix of their keys.
        span: stored by the owner, which comes from `Table.change` if the list is changed.
        chunk_type: a Struct whose only field is `entries: list[Entry]`.
    """

    def __init__(self, table: Table, prefix: str, span: Span, chunk_type: type[Any]) -> None:
        self._table = table
        self._prefix = prefix
        self._span = span
        self._chunk_type = chunk_type

    def append(self, entry: Entry) -> None:
        chunk = self._span.end // CHUNK_ENTRIES
        if self._span.end % CHUNK_ENTRIES == 0:
            self._table.put(self._key(chunk), self._chunk_type([entry]))
        else:
            self._table.change(self._key(chunk), self._chunk_type).entries.append(entry)
        self._span.end += 1

    def __len__(self) -> int:
        return len(self._span)

    def __getitem__(self, number: int) -> Entry:
        return self._entries(number // CHUNK_ENTRIES)[number % CHUNK_ENTRIES]

    def from_number(self, number: int) -> Iterator[Entry]:
        for at in range(max(number, self._span.first), self._span.end):
            yield self[at]

    def __iter__(self) -> Iterator[Entry]:
        return self.from_number(self._span.first)

    def first_where(self, holds: Callable[[Entry], bool]) -> int:
        """Number of the first entry for which `holds`, which must hold for all later ones.

        The end of the span if there is none.
        """
        numbers = range(self._span.first, self._span.end)
        return self._span.first + bisect_left(numbers, True, key=lambda n: holds(self[n]))

    def drop_below(self, number: int) -> None:
        chunks = range(self._span.first // CHUNK_ENTRIES, number // CHUNK_ENTRIES)
        self._span.first = number
        for chunk in chunks:
            self._table.drop(self._key(chunk))
        if number == self._span.end:
            self._table.drop(self._key(number // CHUNK_ENTRIES))
            self._span.first = self._span.end = 0

    def drop_from(self, number: int) -> None:
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
        self.drop_below(self._span.end)

    def _entries(self, chunk: int) -> list[Entry]:
        item = self._table.get(self._key(chunk), self._chunk_type)
        assert item is not None, self._key(chunk)
        return item.entries  # type: ignore[no-any-return]

    def _key(self, chunk: int) -> str:
        return f"{self._prefix}{chunk}"
