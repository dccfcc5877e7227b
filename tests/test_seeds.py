"""docs/seeds.md names a test for each clause of the five documents, and each test exists."""

import re

from tests.support.sources import ROOT

PAGE = ROOT / "docs" / "seeds.md"
CLAUSES = 318
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)[^`]*`")


def rows() -> list[str]:
    """The rows of clauses: number, clause, tests."""
    return [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| 00")]


def test_page_has_all_clauses() -> None:
    assert len(rows()) >= CLAUSES


def test_each_clause_names_tests_that_exist() -> None:
    for row in rows():
        named = NAMED.findall(row)
        assert named, row
        for path, name in named:
            text = (ROOT / path).read_text("utf-8")
            assert re.search(rf"^ *(async )?def {name}\(", text, re.M), f"{path}::{name}"
