"""The page of clauses names a test for each clause of the articles; `make clauses` breaks them."""

import re

import pytest

from tests.clauses.check import Break, breaks, broken, rows_of
from tests.clauses.page import rows
from tests.support.sources import ROOT

CLAUSES = {"000": 68, "001": 73, "002": 82, "003": 54, "004": 77}
"""Number of clauses of each document."""


@pytest.mark.parametrize(("seed", "count"), CLAUSES.items())
def test_page_has_each_clause_once(seed: str, count: int) -> None:
    found = [clause for row in rows() if row.seed == seed for clause in row.clauses]
    assert sorted(found) == sorted(f"{seed}.{number}" for number in range(1, count + 1))


def test_each_row_names_tests_that_exist() -> None:
    for row in rows():
        assert row.tests, row
        for test in row.tests:
            path, _, name = test.partition("::")
            text = (ROOT / path).read_text("utf-8")
            assert re.search(rf"^ *(async )?def {name}\(", text, re.M), test


@pytest.mark.parametrize("each", breaks(), ids=lambda each: each.clauses[0])
def test_each_break_concerns_a_row_and_changes_its_file(each: Break) -> None:
    assert rows_of(each)
    source = (ROOT / each.file).read_text("utf-8")
    assert broken(each, source) != source
