"""A page of great-expectations' Data Docs with nothing in it that comes from the network.

As great-expectations writes it, the page asks seven hosts for styles, scripts, fonts and its logo.
These go; a sheet and a script of our own (`data_docs.html`) lay out and filter what is left.
"""

import re
from importlib.resources import files

_NEEDED = r"""(?:https?:)?//[^"'\s>]+"""
_GONE = (
    r"<link\b[^>]*>",  # the favicon, too: it lies where no site of great-expectations is
    r"<script\b.*?</script>",
    rf"""<img\b[^>]*\bsrc=["']?{_NEEDED}.*?>""",
    r"<footer\b.*?</footer>",
    r"<nav class=\"navbar .*?</nav>\s*</div>\s*</nav>",
)
_NOWHERE = re.compile(r"""<a\b[^>]*\bhref="\.\./[^>]*>(.*?)</a>""", re.DOTALL)
"""Links to other pages of a site that is not there: their text stays."""

_URL = re.compile(rf"""url\(\s*['"]?{_NEEDED}['"]?\s*\)""")


def self_contained(html: str) -> str:
    """The page without what it asks other hosts for, and with our own sheet and script."""
    for each in _GONE:
        html = re.sub(each, "", html, flags=re.DOTALL)
    html = _NOWHERE.sub(r"\1", _URL.sub("none", html))
    own = files("brokertwin.sinks").joinpath("data_docs.html").read_text(encoding="utf-8")
    return html.replace("</head>", f"{own}</head>", 1)
