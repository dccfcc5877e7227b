"""What a worker keeps of large columns from one micro-batch to the next: their bases, as read.

Reading a base takes longer than all else that a micro-batch does with items that rest. What it
gives is a function of its bytes, and nobody changes it. So a base is kept under its place and used
where the row that Spark hands over has the very same bytes there, whatever has happened meanwhile:
a task that is tried again, a cell that another worker had, a job that went back.

A worker asks for its cells' bases in turn. Where they do not fit in all together, to keep those
read last would keep none: each would go before its turn comes again. So another one makes way only
if it has had no turn since this one had its last, or if what makes way is less than what comes.
"""

from brokertwin.state.core.layers import Base

KEPT_BYTES = 128 * 1024 * 1024
"""Bytes of items and their keys that a worker keeps: in memory three times that, or four."""

Place = tuple[str, str]
"""A cell's name and a table's."""

NEVER = -1


class KeptBases:
    """Bases by place, as far as there is room.

    Args:
        room: bytes of items and keys (`Base.size`).
    """

    def __init__(self, room: int = KEPT_BYTES) -> None:
        self._room = room
        self._kept: dict[Place, Base] = {}
        self._asked: dict[Place, int] = {}
        """When a place was last asked for, counted in questions."""
        self._now = 0

    def read(self, cell: str, table: str, packed: bytes) -> Base:
        """The base in `packed`, which is read unless the one kept has the same bytes."""
        place = cell, table
        base = self._kept.get(place)
        if base is None or base.packed != packed:
            self._kept.pop(place, None)
            base = Base(packed)
            if self._make_room(base.size, self._asked.get(place, NEVER)):
                self._kept[place] = base
        self._now += 1
        self._asked[place] = self._now
        return base

    def _make_room(self, size: int, before: int) -> bool:
        """Whether so many bytes, last asked for at `before`, are kept; lets go what makes way."""
        missing = size + sum(each.size for each in self._kept.values()) - self._room
        going, in_use = [], 0
        for place in sorted(self._kept, key=self._asked.__getitem__):
            if missing <= 0:
                break
            going.append(place)
            missing -= self._kept[place].size
            in_use += self._kept[place].size if self._asked[place] > before else 0
        if missing > 0 or (going and in_use >= size):
            return False
        for place in going:
            del self._kept[place]
        return True
