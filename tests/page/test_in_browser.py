"""Pages in a real Chromium: what a reader sees, selects, searches and links to."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from brokertwin.page import incident
from brokertwin.page.assembly import incident_page
from tests.support.audits import whole
from tests.support.browsers import browser

pytestmark = pytest.mark.browser
NAME = "group_kp"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The incident page of a recording; problems of its scripts are collected in `.problems`."""
    audited = whole(NAME)
    path = tmp_path_factory.mktemp("page") / "incident.html"
    document = incident.document(audited.history, audited.findings, [NAME])
    path.write_text(incident_page(document), encoding="utf-8")
    with opened(path) as page:
        page.wait_for_selector(".row canvas")
        yield page
        assert page.problems == []


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """A file in Chromium. Requests to anything but the file itself are problems, too."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=browser(), args=["--no-sandbox"])
        page: Any = chromium.new_page(viewport={"width": 1400, "height": 1000})
        page.problems = []
        page.on("console", lambda message: page.problems.append(message.text))
        page.on("pageerror", lambda error: page.problems.append(str(error)))
        page.on("request", lambda request: _noted(page, request.url, path))
        page.goto(path.as_uri())
        yield page
        chromium.close()


def _noted(page: Any, url: str, path: Path) -> None:
    if not url.startswith((path.as_uri(), "data:", "blob:")):
        page.problems.append(f"asks for {url}")


def test_a_finding_leads_to_its_moment_its_state_and_its_exchange(page: Any) -> None:
    page.keyboard.press("f")
    moment = page.locator(".moment")
    assert "group group_kp.5.group after the response at" in moment.inner_text()
    assert "JOIN_GROUP" in moment.inner_text()
    assert "lane=group" in page.url
    link = page.url
    page.goto("about:blank")
    page.goto(link)
    page.wait_for_selector(".moment h2")
    assert "group group_kp.5.group after the response at" in page.locator(".moment").inner_text(), (
        "a link to a moment"
    )


def test_zoom_and_whole_recording(page: Any) -> None:
    page.keyboard.press("0")
    page.wait_for_function("!location.hash.includes('from=')")
    page.keyboard.press("+")
    page.wait_for_function("location.hash.includes('from=')")
    page.keyboard.press("0")
    page.wait_for_function("!location.hash.includes('from=')")


def test_the_arrow_keys_go_through_changes_and_lanes(page: Any) -> None:
    page.goto(page.url.partition("#")[0] + "#lane=group%3Agroup_kp.5.group&t=0")
    page.wait_for_selector(".moment h2")
    before = page.locator(".moment h2").inner_text()
    page.keyboard.press("ArrowRight")
    after = page.locator(".moment h2").inner_text()
    assert before != after
    page.keyboard.press("ArrowDown")
    assert "broker 1" in page.locator(".moment h2").inner_text()


def test_a_search_leaves_what_matches(page: Any) -> None:
    page.keyboard.press("/")
    page.keyboard.type("events-3")
    page.wait_for_function("document.querySelectorAll('[role=row] canvas').length === 3")
    page.keyboard.press("Escape")
    page.wait_for_function("document.querySelectorAll('[role=row] canvas').length > 3")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 400])
def test_nothing_is_wider_than_the_screen(page: Any, width: int, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 900})
    assert page.evaluate(
        "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    )
