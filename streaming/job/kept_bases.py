"""A worker's cache of decoded column bases between micro-batches.

Decoding a base is the most expensive step for unchanged items. A base depends on its bytes alone
and is never modified. So it is cached by cell and table, and used if the row from Spark has the
same bytes. That holds after retries, after another worker had the cell, and after a rollback.

A worker reads its cells' bases in turn. If they do not all fit, LRU would keep none of them,
because each would be evicted before its next turn. So a base is evicted only if it was not read
since the new one's last read, or if the evicted bases are smaller than the new one.
"""

from brokertwin.state.core.layers import Base

KEPT_BYTES = 128 * 1024 * 1024
"""Maximum bytes of cached items and keys; in memory three or four times that."""

Place = tuple[str, str]
"""Cell name and table name."""

NEVER = -1


class KeptBases:
    """Cached bases by cell and table.

    Args:
        room: maximum bytes of items and keys (`Base.size`).
    """

    def __init__(self, room: int = KEPT_BYTES) -> None:
        self._room = room
        self._kept: dict[Place, Base] = {}
        self._read_at: dict[Place, int] = {}
        """Counter value of the last read of each base."""
        self._now = 0

    def read(self, cell: str, table: str, packed: bytes) -> Base:
        """Return the decoded base, from the cache if the bytes are equal."""
        place = cell, table
        base = self._kept.get(place)
        if base is None or base.packed != packed:
            self._kept.pop(place, None)
            base = Base(packed)
            if self._make_room(base.size, self._read_at.get(place, NEVER)):
                self._kept[place] = base
        self._now += 1
        self._read_at[place] = self._now
        return base

    def _make_room(self, size: int, before: int) -> bool:
        """Whether a base fits, last read at `before`; evicts others if needed."""
        missing = size + sum(each.size for each in self._kept.values()) - self._room
        evicted, in_use = [], 0
        for place in sorted(self._kept, key=self._read_at.__getitem__):
            if missing <= 0:
                break
            evicted.append(place)
            missing -= self._kept[place].size
            in_use += self._kept[place].size if self._read_at[place] > before else 0
        if missing > 0 or (evicted and in_use >= size):
            return False
        for place in evicted:
            del self._kept[place]
        return True
