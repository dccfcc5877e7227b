"""Additions to mkdocs.yml: pages from elsewhere, links out of docs/, the nav.

Source: the events of MkDocs 1.6 (https://www.mkdocs.org/dev-guide/plugins/#events).
"""

import logging
import posixpath
import re
from pathlib import Path
from typing import Any

import browser_page
import mermaid_script
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
FROM_ELSEWHERE = {"README.md": "index.md"}
"""A page of the repository to its name in the site."""

FOLDERS = {"Tutorials": "tutorials", "Errors": "errors", "Systems": "systems"}
"""A part of the nav to the folder whose pages it lists."""

MERMAID = "assets/mermaid.min.js"
DIAGRAM = '<pre class="mermaid">'
_log = logging.getLogger("mkdocs.hooks.brokertwin")
_LINK = re.compile(r"(?<!!)\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<to>[^)\s]+)\)")
_FENCE = re.compile(r"(^```.*?^```)", re.M | re.S)
_NAME = re.compile(r"^- \[`(brokertwin\.[\w.]+)`\]\(\S+\.py\)$", re.M)
"""A public name of the library; the site shows its docstring."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Name every page in the nav."""
    docs = Path(config.docs_dir)
    named: set[str] = set()
    nav = [_filled(part, docs, named) for part in config.nav or []]
    pages = {path.relative_to(docs).as_posix() for path in docs.rglob("*.md")}
    more = sorted(pages - named - set(FROM_ELSEWHERE.values()))
    config.nav = [*nav, *([{"More": more}] if more else [])]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that lie elsewhere in the repository."""
    for source, name in FROM_ELSEWHERE.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, name, content=text))
    script = mermaid_script.script(ROOT / "build" / "site-scripts")
    if script is None:
        _log.info("without npm the diagrams ask for mermaid over the network")
    else:
        files.append(File.generated(config, MERMAID, content=script))
    made = browser_page.files(ROOT, ROOT / "build" / "site-scripts")
    if made is None:
        _log.info("without npm the site has no page with Pyodide")
    for name, content in (made or {}).items():
        files.append(File.generated(config, f"page/{name}", content=content))
    return files


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Load mermaid from the site, on pages with diagrams; the theme takes the one that is there."""
    is_there = (Path(config.site_dir) / MERMAID).is_file()
    if DIAGRAM not in output or not is_there:
        return output
    to = posixpath.relpath(MERMAID, posixpath.dirname(page.url) or ".")
    return output.replace("</head>", f'<script src="{to}"></script></head>', 1)


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links at pages of the site; of other files the path in the repository stays."""
    uri = page.file.src_uri
    elsewhere = {name: source for source, name in FROM_ELSEWHERE.items()}
    place = elsewhere.get(uri, posixpath.join("docs", uri))
    parts = _FENCE.split(_NAME.sub(r"\n::: \1\n", markdown))
    return "".join(
        part if part.startswith("```") else _LINK.sub(lambda m: _linked(m, place, uri, files), part)
        for part in parts
    ).replace("](docs/", "](")


def _linked(link: re.Match[str], place: str, uri: str, files: Files) -> str:
    target, hash_, anchor = link["to"].partition("#")
    if "://" in target or not target:
        return link[0]
    path = posixpath.normpath(posixpath.join(posixpath.dirname(place), target))
    name = FROM_ELSEWHERE.get(path, path.removeprefix("docs/"))
    if path in FROM_ELSEWHERE or (
        path.startswith("docs/") and files.get_file_from_path(name) is not None
    ):
        relative = posixpath.relpath(name, posixpath.dirname(uri) or ".")
        return f"[{link['text']}]({relative}{hash_}{anchor})"
    folder = f"{name}/README.md"
    if path.startswith("docs/") and files.get_file_from_path(folder) is not None:
        return f"[{link['text']}]({posixpath.relpath(folder, posixpath.dirname(uri) or '.')})"
    return f"{link['text']} (`{path}`)" if (ROOT / path).exists() else link[0]


def _filled(part: Any, docs: Path, named: set[str]) -> Any:
    """A part of the nav with the pages of its folders; the names of all pages go to `named`."""
    if isinstance(part, str):
        named.add(part)
        return part
    (title, below), *_ = part.items()
    if title in FOLDERS:
        folder = docs / FOLDERS[title]
        below = sorted(path.relative_to(docs).as_posix() for path in folder.glob("*.md"))
        below.sort(key=lambda name: not name.endswith("README.md"))
    if isinstance(below, str):
        named.add(below)
        return part
    return {title: [_filled(each, docs, named) for each in below]}
