"""docs/errors is generated from the table of rules and recordings of the repository."""

import re

import pytest

from brokertwin.protocol.errors import error_name
from brokertwin.recordings.explain import error_pages
from tests import error_pages as written
from tests.support.documents import DOCUMENTS, name_of


def test_the_pages_are_those_of_the_table() -> None:
    there = {path.name: path.read_text(encoding="utf-8") for path in written.FOLDER.glob("*.md")}
    made = written.pages()
    assert there.keys() == made.keys(), "make error-pages"
    assert [name for name, text in made.items() if there[name] != text] == [], "make error-pages"


def test_an_error_of_the_recordings_has_an_example_with_a_reason() -> None:
    found = written.examples()
    assert len(found) > 40
    assert sum("    because  " in each for each in found.values()) >= 12


@pytest.mark.parametrize("code", [6, 19, 22, 25, 45, 47, 70, 71, 74, 75, 82], ids=error_name)
def test_example_has_the_cause_that_explain_finds(code: int) -> None:
    assert "    because  " in written.examples()[code]


def test_every_page_is_reached_from_the_list() -> None:
    linked = set(re.findall(r"\((\w+\.md)\)", error_pages.index()))
    assert linked | {"README.md"} == {path.name for path in written.FOLDER.glob("*.md")}
    assert {f"docs/errors/{name}" for name in linked} <= {name_of(page) for page in DOCUMENTS}
