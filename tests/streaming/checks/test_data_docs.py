"""great-expectations' page from `check --docs`, which uses no network."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from brokertwin.streaming.checks import snapshot_checks as checks
from brokertwin.streaming.checks import suites
from tests.streaming.checks.test_suites import GOOD
from tests.support import browsers

WIDTHS = (390, 1280)


class PageLinks(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        self.loaded += [known[name] or "" for name in ("src",) if name in known]
        target = known.get("href")
        if target is not None:
            (self.links if tag == "a" else self.loaded).append(target)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of three rows, one of which violates an expectation."""
    rows = [GOOD["requests"] | {"id": name, "responses": responses} for name, responses in
            (("a", 1), ("b", 0), ("c", 2))]  # fmt: skip
    frame = checks.frame_of(rows, suites.COLUMNS["requests"])
    file = tmp_path_factory.mktemp("docs") / "requests.html"
    found = checks.check(frame, suites.OF_TOPICS["requests"], docs=True)
    file.write_text(found.html, encoding="utf-8")
    return file


def test_the_page_has_no_external_resource_or_link(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    body = PageLinks()
    body.feed(text)
    assert body.loaded == []
    assert {link[:1] for link in body.links} == {"#"}
    assert re.findall(r"(?:https?:)?//[\w.-]+\.\w+/", text) == []
    assert "<style>" in text


@pytest.mark.browser
@pytest.mark.parametrize("scheme", [browsers.LIGHT, browsers.DARK], ids=["light", "dark"])
def test_it_can_be_read_in_a_browser(page: Path, scheme: int) -> None:
    found = browsers.seen(page, WIDTHS, scheme)
    browsers.assert_fits(found, WIDTHS, scheme)
    for each in found.frames:
        assert "1 unexpected values found" in each["all"]
        assert "Batch Markers" not in each["all"], "what is folded in stays so"
