"""A page of great-expectations' Data Docs without network access.

The original page loads styles, scripts, fonts and a logo from seven hosts. They are replaced by a
style sheet and a script in `data_docs.html`.
"""

from html import escape
from html.parser import HTMLParser
from importlib.resources import files

VOID = frozenset({"br", "hr", "img", "input", "link", "meta"})
LEFT_OUT = frozenset({"link", "script", "style", "footer", "nav", "img"})
"""Elements that are left out with their content, unless `_is_own` says otherwise."""


def self_contained(html: str) -> str:
    """Replace external resources of the page by local ones."""
    page = _Page()
    page.feed(html)
    page.close()
    return "".join(page.out)


class _Page(HTMLParser):
    """Writes the elements of a page again, without those that load something."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.out: list[str] = []
        self._skipped: list[str] = []
        self._anchors: list[bool] = []
        self._tag = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Write an opening tag, or leave its element out."""
        self._tag = tag
        if self._skipped:
            if tag == self._skipped[0] and tag not in VOID:
                self._skipped.append(tag)
            return
        if tag in LEFT_OUT and not _is_own(tag, attrs):
            if tag not in VOID:
                self._skipped.append(tag)
            return
        if tag == "a":
            target = dict(attrs).get("href")
            self._anchors.append(target is None or target.startswith("#"))
            if not self._anchors[-1]:
                return  # a link to another page of the site; its text is kept
        attributes = "".join(
            f" {name}" if value is None else f' {name}="{escape(value)}"'
            for name, value in attrs
            if value is None or "url(" not in value
        )
        self.out.append(f"<{tag}{attributes}>")

    def handle_endtag(self, tag: str) -> None:
        """Write a closing tag of a written element."""
        self._tag = ""
        if self._skipped:
            if tag == self._skipped[-1]:
                self._skipped.pop()
            return
        if tag == "a" and self._anchors and not self._anchors.pop():
            return
        if tag == "head":
            page = files("brokertwin.streaming.checks") / "data_docs.html"
            self.out.append(page.read_text(encoding="utf-8"))
        if tag not in VOID:
            self.out.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        """Write text; not a style sheet that loads something."""
        if not self._skipped and not (self._tag == "style" and "//" in data):
            self.out.append(data)

    def handle_entityref(self, name: str) -> None:
        self.handle_data(f"&{name};")

    def handle_charref(self, name: str) -> None:
        self.handle_data(f"&#{name};")

    def handle_decl(self, decl: str) -> None:
        self.out.append(f"<!{decl}>")


def _is_own(tag: str, attrs: list[tuple[str, str | None]]) -> bool:
    """Whether an element of such a name loads nothing: the page's own style and side list."""
    if tag == "nav":
        return "navbar" not in (dict(attrs).get("class") or "").split()
    if tag == "img":
        return (dict(attrs).get("src") or "").startswith("data:")
    return tag == "style"
