"""The README and the other documents are true: settings are named, links lead somewhere."""

import re
from pathlib import Path

import pytest

from brokertwin.settings import Settings
from tests.support.documents import DOCUMENTS
from tests.support.sources import ROOT

README = (ROOT / "README.md").read_text()


def test_every_setting_is_in_the_readme_with_its_meaning() -> None:
    plain = README.replace("\\<", "<")
    rows = dict(re.findall(r"^\| `(\w+)` \|[^|]*\| (.*) \|$", plain, re.MULTILINE))
    assert rows == {name: field.description for name, field in Settings.model_fields.items()}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", path.read_text()):
        if not target.startswith("http"):
            assert (path.parent / target.split("#")[0]).exists(), target
