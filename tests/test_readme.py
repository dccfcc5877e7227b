"""Documents agree with the code: generated pages are current and links have targets."""

import re
from pathlib import Path

import pytest

from tests import settings_page
from tests.support.documents import DOCUMENTS
from tests.support.sources import ROOT


def test_settings_page_is_generated_from_the_settings() -> None:
    written = settings_page.PAGE.read_text(encoding="utf-8")
    assert written == settings_page.page(), "run: python -m tests.settings_page"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", path.read_text()):
        if not target.startswith("http"):
            assert (path.parent / target.split("#")[0]).exists(), target
