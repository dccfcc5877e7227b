"""Assembles pages: one file with its style, its scripts and its document, which loads nothing."""

import base64
import gzip
import re
from html import escape
from importlib import resources
from string import Template
from typing import Any

import msgspec

ASSETS = resources.files("brokertwin.page") / "assets"
MODULES = ("model.js", "lanes.js", "incident.js")
"""JavaScript modules of an incident page, each after those that it imports."""

_IMPORT = re.compile(r"^import [^;]*;\n", re.M)
_EXPORT = re.compile(r"^export ", re.M)


def asset(name: str) -> str:
    """The text of a file in `assets/`."""
    return (ASSETS / name).read_text(encoding="utf-8")


def script(*names: str) -> str:
    """Modules as one script: each name is used in one module only."""
    return "\n".join(_EXPORT.sub("", _IMPORT.sub("", asset(name))) for name in names)


def incident_page(document: dict[str, Any]) -> str:
    """The page of a document of `incident.document`, as HTML."""
    packed = gzip.compress(msgspec.json.encode(document), 9, mtime=0)
    return Template(asset("incident.html")).substitute(
        title=escape(document["title"]),
        style=asset("page.css"),
        script=script(*MODULES),
        document=base64.b64encode(packed).decode(),
    )
