"""The documents as a site, built as `make site` builds it: no link leads nowhere."""

import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.support import browsers
from tests.support.documents import DOCUMENTS, name_of
from tests.support.sources import ROOT

pytestmark = pytest.mark.site

ELSEWHERE = re.compile(r"<(?:script|link|img)\b[^>]*(?:src|href)=.(?:https?:)?//[^>]*>")
MERMAID = re.compile(r"(?m)^```mermaid$")


class Linked(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.ids.add(value)
            elif name in ("href", "src") and value and tag in ("a", "img"):
                self.links.append(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built; a warning is an error, for mkdocs.yml says `strict`."""
    target = tmp_path_factory.mktemp("site")
    program = Path(sys.executable).parent / "mkdocs"
    command = [program, "build", "-f", ".ci/mkdocs.yml", "--site-dir", target]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING -" not in done.stderr, done.stderr
    return target


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Linked]:
    found = {}
    for path in site.rglob("*.html"):
        found[path] = Linked()
        found[path].feed(path.read_text(encoding="utf-8"))
    return found


def test_every_document_of_the_project_is_a_page_in_the_nav(site: Path) -> None:
    start = (site / "index.html").read_text(encoding="utf-8")
    for page in DOCUMENTS:
        name = name_of(page)
        if name.startswith("docs/"):
            to = name.removeprefix("docs/").removesuffix(".md") + ".html"
            to = to.replace("README.html", "index.html")
            assert (site / to).is_file(), name
            assert f'href="{to}"' in start, name


def test_no_link_leads_nowhere(site: Path, pages: dict[Path, Linked]) -> None:
    wrong = []
    for path, page in pages.items():
        if path.name == "404.html":
            continue  # its links are from the server's root
        for link in page.links:
            to, _, anchor = link.partition("#")
            if re.match(r"[a-z]+:", to):
                continue
            target = (path.parent / to).resolve() if to else path
            if not target.is_file():
                wrong.append(f"{path.relative_to(site)}: {link}")
            elif anchor and target in pages and anchor not in pages[target].ids:
                wrong.append(f"{path.relative_to(site)}: {link}: no such anchor")
    assert wrong == []


def test_diagrams_are_left_for_the_browser_to_draw_and_code_is_documented(site: Path) -> None:
    for page in (ROOT / "docs").glob("*.md"):
        diagrams = len(MERMAID.findall(page.read_text(encoding="utf-8")))
        html = (site / page.with_suffix(".html").name).read_text(encoding="utf-8")
        assert html.count('<pre class="mermaid">') == diagrams, page.name
    reference = (site / "library.html").read_text(encoding="utf-8")
    for name in ("testing.broker.KafkaBroker.produce", "streaming.checkpoint.census.census"):
        assert f'id="brokertwin.{name}"' in reference


def has_mermaid(site: Path) -> bool:
    return (site / "assets" / "mermaid.min.js").is_file()


def test_nothing_is_loaded_from_elsewhere(site: Path, pages: dict[Path, Linked]) -> None:
    """Mermaid is a file of the site where npm has it, and only pages with diagrams load it."""
    assert has_mermaid(site) or shutil.which("npm") is None
    for path in pages:
        html = path.read_text(encoding="utf-8")
        assert ELSEWHERE.findall(html) == [], path.name
        wants = '<pre class="mermaid">' in html and has_mermaid(site)
        assert ("mermaid.min.js" in html) == wants, path.name


@pytest.mark.browser
def test_diagrams_are_drawn_without_a_network(site: Path) -> None:
    page = site / "architecture.html"
    written = page.read_text(encoding="utf-8").count('<pre class="mermaid">')
    found = browsers.seen(page, (1280,), browsers.LIGHT)
    drawn = written if has_mermaid(site) else 0
    assert found.frames[0]["diagrams"] == [written - drawn, drawn]
    assert not [line for line in found.console if "search_index" not in line], found.console
