"""Links of documents have targets."""

import re
from pathlib import Path

import pytest

from tests.support.documents import DOCUMENTS
from tests.support.sources import ROOT


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", path.read_text()):
        if not target.startswith("http"):
            assert (path.parent / target.split("#")[0]).exists(), target
