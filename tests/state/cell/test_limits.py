"""docs/limits.md names every kind of item in a cell's state, and tests that there are."""

import re

from brokertwin.state.cell.check import KINDS
from tests.support.sources import ROOT

ROWS = [
    [cell.strip() for cell in line.strip().strip("|").split(" | ")]
    for line in (ROOT / "docs" / "limits.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.startswith("| collection")
]
"""What there is, where, its bound, what happens there, the test."""


def kinds_in(where: str) -> set[tuple[str, str]]:
    """Of "`logs`: log, chunk; `waiting`: wait" each table and kind."""
    return {
        (table, kind)
        for table, kinds in re.findall(r"`(\w+)`: ([^;]+)", where)
        for kind in re.findall(r"[\w-]+", kinds)
    }


def test_every_kind_of_item_has_its_bound() -> None:
    named = set().union(*(kinds_in(row[1]) for row in ROWS))
    assert {(table, kind) for table in KINDS for kind in KINDS[table]} - named == set()


def test_every_bound_has_its_test() -> None:
    for row in ROWS:
        what, *_, bound, at_the_bound, test = row
        assert bound and at_the_bound, what
        files = re.findall(r"`([^`]+)`", test)
        assert files and all((ROOT / each).is_file() for each in files), what
