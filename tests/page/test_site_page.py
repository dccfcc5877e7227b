"""The site's page in a real Chromium: a log read under Pyodide, and scenes; nothing leaves it."""

import functools
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from typer.testing import CliRunner

from brokertwin.cli.main import app
from tests.support.browsers import browser
from tests.support.sources import ROOT

pytestmark = [pytest.mark.browser, pytest.mark.node, pytest.mark.site]
PATIENCE_MS = 300_000


class Files(SimpleHTTPRequestHandler):
    """Serves a folder without a log."""

    extensions_map: ClassVar = {
        **SimpleHTTPRequestHandler.extensions_map,
        ".wasm": "application/wasm",
    }

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page's folder, as `make site` assembles it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "docs" / "_site")
        import browser_page
    files = browser_page.files(ROOT, ROOT / "build" / "site-scripts")
    assert files is not None
    target = tmp_path_factory.mktemp("site")
    for name, content in files.items():
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return target


@pytest.fixture(scope="module")
def page(folder: Path) -> Iterator[Any]:
    """The page, when Python is ready; requests to other places are in `.elsewhere`."""
    from playwright.sync_api import sync_playwright

    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Files, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    here = f"http://127.0.0.1:{server.server_port}/"
    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=browser(), args=["--no-sandbox"])
        page: Any = chromium.new_page(viewport={"width": 1400, "height": 1000})
        page.set_default_timeout(PATIENCE_MS)
        page.elsewhere, page.problems = [], []
        page.on("request", lambda sent: page.elsewhere.append(sent.url))
        page.on("console", lambda message: page.problems.append(message.text))
        page.on("pageerror", lambda error: page.problems.append(str(error)))
        page.goto(f"{here}index.html")
        page.wait_for_selector("text=Batch 2 of five")
        yield page
        assert [url for url in page.elsewhere if not url.startswith((here, "blob:"))] == []
        assert page.problems == []
        chromium.close()
    server.shutdown()


def test_a_log_is_read_in_the_browser(page: Any) -> None:
    page.set_input_files("input[type=file]", ROOT / "examples" / "billing.kafka-request.log.gz")
    page.wait_for_selector(".row canvas")
    text = page.inner_text("body")
    assert "producer-fenced" in text
    assert "46 exchanges" in text
    page.click("text=Back to the start")


def test_a_file_that_is_no_log_is_refused_in_words(page: Any) -> None:
    page.set_input_files("input[type=file]", ROOT / "LICENSE")
    page.wait_for_selector("[role=status]:has-text('exchange')")
    assert "Traceback" not in page.inner_text("body")


def test_a_scene_goes_forward_back_and_takes_a_request(page: Any) -> None:
    page.click("text=Batch 2 of five")
    for step in (1, 2, 3):
        page.click("#next")
        page.wait_for_selector(f"text=step {step} of")
    assert "OUT_OF_ORDER_SEQUENCE_NUMBER" in page.inner_text("li.shown")
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector("text=step 2 of")
    page.check("#lose")
    page.click("#next")
    page.wait_for_selector("text=The response is lost on its way")
    page.click("text=Send another request")
    page.fill("[aria-label='Request as JSON']", '{"topics": 7}')
    page.click("text=Send >> nth=-1")
    page.wait_for_selector("p.error:has-text('topics')")


def test_a_counterexample_opens_as_a_scene(page: Any, tmp_path: Path) -> None:
    file = tmp_path / "torn.json"
    CliRunner().invoke(app, ["explore", "torn-transaction-v1", "--scene", str(file)])
    page.click("text=All scenes")
    page.set_input_files("input[type=file]", file)
    for step in range(1, 10):
        page.click("#next")
        page.wait_for_selector(f"text=step {step} of 9")
    assert "Violated: TransactionsAsSaid" in page.inner_text("li.shown")


def test_the_policy_allows_no_other_place(folder: Path) -> None:
    policy = (folder / "index.html").read_text(encoding="utf-8")
    assert "default-src 'none'" in policy
    assert "connect-src 'self'" in policy
    assert "unsafe-eval'; " not in policy.replace("wasm-unsafe-eval", "")
