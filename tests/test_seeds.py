"""docs/seeds.md names a test for each clause of the five documents, and each test exists."""

import re

import pytest

from tests.support.sources import ROOT

PAGE = ROOT / "docs" / "seeds.md"
CLAUSES = 318
NAMED = re.compile(r"`((?:tests/|test_)[\w/]+\.py)::(\w+)`")
FOLDER = re.compile(r"Tests below `(tests/[\w/]+)/`")


def rows() -> list[tuple[str, str]]:
    """The clauses, each with the folder of tests that its section names."""
    folder, found = "", []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            folder = ""
        if match := FOLDER.search(line):
            folder = match[1]
        if line.startswith("| ") and not line.startswith("| clause |"):
            found.append((folder, line))
    return found


def test_page_has_all_clauses() -> None:
    assert len(rows()) >= CLAUSES


@pytest.mark.parametrize(("folder", "row"), rows())
def test_clause_has_a_test_that_exists(folder: str, row: str) -> None:
    named = NAMED.findall(row)
    assert named
    for path, name in named:
        file = ROOT / (path if path.startswith("tests/") else f"{folder}/{path}")
        assert re.search(rf"^ *(async )?def {name}\(", file.read_text("utf-8"), re.M)
