"""Where the bytes of a record batch lie in the topic `data`, as events and answers name it."""

import re
from typing import NamedTuple

_TEXT = re.compile(r"(\d{1,10}):(\d{1,19}):(\d{1,10})", re.ASCII)


class Locator(NamedTuple):
    """A row of `data`: its partition, its offset, and the size of its value in bytes."""

    partition: int
    offset: int
    size: int

    def __str__(self) -> str:
        return f"{self.partition}:{self.offset}:{self.size}"

    @classmethod
    def of(cls, text: str) -> "Locator | None":
        """The locator in a text, None where it is none."""
        found = _TEXT.fullmatch(text)
        return cls(*map(int, found.groups())) if found else None
