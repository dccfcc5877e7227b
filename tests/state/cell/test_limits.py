"""Each collection of a cell's state has a bound with a test; docs/limits.md names some of them."""

import re

import pytest

from brokertwin.state.cell.check import KINDS
from tests.support.sources import ROOT

PAGE = (ROOT / "docs" / "limits.md").read_text(encoding="utf-8")
TABLE = (ROOT / "tests" / "state" / "cell" / "bounds.tsv").read_text(encoding="utf-8")
BOUNDS = dict(re.findall(r"(?m)^([^#\t\n]+)\t(.+)$", TABLE))
"""Collections, with the tests of their bounds and the kinds of their items."""


def test_page_lists_collections_that_are_bound() -> None:
    rows = re.findall(r"(?m)^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", PAGE.partition("## State")[2])
    assert {row[0] for row in rows if row[0] != "collection"} < BOUNDS.keys()


def test_every_kind_of_item_has_a_bound() -> None:
    named = {kind for each in BOUNDS.values() for kind in re.findall(r"\w+: [\w-]+", each)}
    assert {f"{table}: {kind}" for table in KINDS for kind in KINDS[table]} - named == set()


@pytest.mark.parametrize("collection", BOUNDS)
def test_bound_has_a_test(collection: str) -> None:
    tests = BOUNDS[collection].partition("\t")[0].split(", ")
    assert all((ROOT / "tests" / each).is_file() for each in tests)
