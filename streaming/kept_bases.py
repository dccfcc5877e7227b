"""What a worker keeps of large columns from one micro-batch to the next: their bases, as read.

Reading a base takes longer than all else that a micro-batch does with items that rest. What it
gives is a function of its bytes, and nobody changes it. So a base is kept under its place and used
where the row that Spark hands over has the very same bytes there, whatever has happened meanwhile:
a task that is tried again, a cell that another worker had, a job that went back.
"""

from brokerstream.state.core.layers import Base

KEPT_BYTES = 128 * 1024 * 1024
"""Bytes of items and their keys that a worker keeps: in memory three times that, or four."""

Place = tuple[str, str]
"""A cell's name and a table's."""


class KeptBases:
    """Bases by place, those read last as far as there is room.

    Args:
        room: bytes of items and keys (`Base.size`).
    """

    def __init__(self, room: int = KEPT_BYTES) -> None:
        self._room = room
        self._kept: dict[Place, Base] = {}

    def read(self, cell: str, table: str, packed: bytes) -> Base:
        """The base in `packed`, which is read unless the one kept has the same bytes."""
        base = self._kept.pop((cell, table), None)
        if base is None or base.packed != packed:
            base = Base(packed)
        if base.size > self._room:  # it would drive out all others, and go, too
            return base
        self._kept[cell, table] = base
        size = sum(each.size for each in self._kept.values())
        for place in list(self._kept):
            if size <= self._room:
                break
            size -= self._kept.pop(place).size
        return base
