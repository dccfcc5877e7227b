"""A page of great-expectations' Data Docs without network access.

The original page loads styles, scripts, fonts and a logo from seven hosts. They are replaced by a
style sheet and a script in `data_docs.html`.
"""

import re
from importlib.resources import files

_NEEDED = r"""(?:https?:)?//[^"'\s>]+"""
_REMOVED = (
    r"<link\b[^>]*>",  # also the favicon, a file of great-expectations' site
    r"<script\b.*?</script>",
    rf"""<img\b[^>]*\bsrc=["']?{_NEEDED}.*?>""",
    r"<footer\b.*?</footer>",
    r"<nav class=\"navbar .*?</nav>\s*</div>\s*</nav>",
)
_NOWHERE = re.compile(r"""<a\b[^>]*\bhref="\.\./[^>]*>(.*?)</a>""", re.DOTALL)
"""Links to other pages of the site, which do not exist here; their text is kept."""

_URL = re.compile(rf"""url\(\s*['"]?{_NEEDED}['"]?\s*\)""")


def self_contained(html: str) -> str:
    """Replace external resources of the page by local ones."""
    for each in _REMOVED:
        html = re.sub(each, "", html, flags=re.DOTALL)
    html = _NOWHERE.sub(r"\1", _URL.sub("none", html))
    page = files("brokertwin.streaming.checks") / "data_docs.html"
    own = page.read_text(encoding="utf-8")
    return html.replace("</head>", f"{own}</head>", 1)
