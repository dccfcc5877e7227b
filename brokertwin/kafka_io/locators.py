"""Locators of record batches in the topic `data`, as in events and responses."""

import re
from typing import NamedTuple

_TEXT = re.compile(r"(\d{1,10}):(\d{1,19}):(\d{1,10})", re.ASCII)


class Locator(NamedTuple):
    """A row of `data`: partition, offset, and size of its value in bytes."""

    partition: int
    offset: int
    size: int

    def __str__(self) -> str:
        return f"{self.partition}:{self.offset}:{self.size}"

    @classmethod
    def of(cls, text: str) -> "Locator | None":
        """Parse a locator; None if it is invalid."""
        match = _TEXT.fullmatch(text)
        return cls(*map(int, match.groups())) if match else None
