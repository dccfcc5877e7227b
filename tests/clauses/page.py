"""The rows of docs/seeds.md."""

import re
from functools import cache
from typing import NamedTuple

from tests.support.sources import ROOT

PAGE = ROOT / "docs" / "seeds.md"
_NAMED = re.compile(r"`([\w/]+\.py)::(\w+)[^`]*`")


class Row(NamedTuple):
    """A row: its number as written, the clauses that it covers, and its tests."""

    name: str
    clauses: list[str]
    tests: list[str]

    @property
    def seed(self) -> str:
        return self.name[:3]


@cache
def rows() -> list[Row]:
    """Return the rows; 000.60-68 are nine clauses, and 000.1, 4 are two."""
    found = []
    for line in PAGE.read_text("utf-8").splitlines():
        begun = re.match(r"(00\d)\.([\d, -]+) \|", line)
        if begun:
            tests = [f"tests/{path}::{name}" for path, name in _NAMED.findall(line)]
            clauses = [f"{begun[1]}.{number}" for number in _numbers(begun[2])]
            found.append(Row(f"{begun[1]}.{begun[2]}", clauses, tests))
    return found


def _numbers(text: str) -> list[int]:
    numbers: list[int] = []
    for part in text.split(", "):
        first, _, last = part.partition("-")
        numbers += range(int(first), int(last or first) + 1)
    return numbers
