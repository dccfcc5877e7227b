"""What stands around a log entry: prefixes of runtimes and agents, JSON of agents and layouts.

Nothing here knows a particular agent. A prefix is recognised by its form, and a wrapper is any
JSON with a text in it that is an entry; times and names are taken from the fields beside it.
"""

import html
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from brokertwin.recordings.formats.client_logs import MARKS as CLIENT_MARKS
from brokertwin.recordings.formats.kroxylicious import ENTRY_START
from brokertwin.recordings.formats.request_log import MARK
from brokertwin.recordings.formats.stamps import Stamp, stamp_of

DEPTH_MAX = 20
"""How deep a wrapper is looked into."""

FRAMES_MAX = 4
LABEL_CHARACTERS_MAX = 200
BYTES_MIN = 20
"""From so many numbers on, a list of numbers is a text: journald writes some texts so."""

COLOURS = re.compile(rb"\x1b\[[\d;]*[A-Za-z]")
OPENING = re.compile(rb"[\s\[,]*(?=\{\s*(?:[\"}]|$))")
"""What may stand before the objects of a list."""

FRESH = re.compile(rb"\s*\[?\d{4}[-/.]\d\d[-/.]\d\d[ T]\d\d:")
"""How an entry of a log begins, and no continuation of one."""

_TIME = rb"\d{4}-\d\d-\d\d[ T][\d:]{8}(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"
_FRAMES = (
    re.compile(_TIME + rb" (?P<stream>stdout|stderr) (?P<part>[PF])(?::\S+)? ?"),
    re.compile(rb"\[?pod/(?P<label>[^/\] ]+)/[^\] ]*\]? "),
    re.compile(rb"(?![\d.-]+ *\|)(?P<label>[\w.@/-]{1,100}) {0,40}\| ?"),
    re.compile(
        rb"(?:<\d+>)?(?:1 )?(?:[A-Z][a-z]{2} [ \d]\d [\d:]{8}(?: \d{4})?|" + _TIME + rb")"
        rb" (?P<label>[\w.-]+) [\w./@-]+\[\d+\]: "
    ),
    re.compile(rb"(?:" + _TIME + rb" )?\{(?P<label>\w+=\"[^{}]*)\} +"),
    re.compile(rb"(?P<label>[\w./-]+\.(?:log|txt)[\w.-]*):(?:\d+:)? ?(?=\[?\d{4}|\{)"),
    re.compile(
        rb"(?:" + _TIME + rb" )?(?![\d.-]+ )(?P<label>[\w.-]{1,100}\d)"
        rb" (?:(?:[^\w\s]{1,3} )?[\w.-]{1,100} )?(?=\[?\d{4}-|\{)"
    ),
    re.compile(_TIME + rb" (?=\[?\d{4}-|\{|Completed)"),
)
"""CRI; `kubectl logs --prefix`; `docker compose logs`; syslog and journal; `logcli`; `grep`;
`stern` and `aws logs tail`; `docker logs -t` and `kubectl logs --timestamps`."""

_HEADING = re.compile(rb"==> (.+) <==\s*$")
_TIME_KEY = re.compile(r"time|date|instant|epoch|^_?ts$|^@?t$|^\$date$", re.IGNORECASE)
_OTHER_TIME_KEY = re.compile(
    r"ingest|receiv|observ|creat|start|zone|timeout|monotonic|Ms$|end", re.IGNORECASE
)
_LABEL_KEYS = tuple(
    re.compile(form, re.IGNORECASE)
    for form in (
        "pod",
        "container",
        "broker|node_?id",
        "instance|service|unit",
        "host",
        "file|path",
    )
)
_MARK = MARK.decode()
_TEXT_LOG = re.compile(
    r"\[GroupCoordinator |Handling request:RequestHeader|" + CLIENT_MARKS.pattern.decode()
)
_ENTRY = re.compile(ENTRY_START.pattern.decode())
_OUTSIDE = re.compile(rb"[\"{}\[\]]")
_INSIDE = re.compile(rb"(?:[^\"\\]+|\\.)*", re.DOTALL)
_ESCAPED = re.compile(rb"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_LETTERS = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"b": b"\b", b"f": b"\f"}


class Frame(NamedTuple):
    """A line without its prefixes.

    Attributes:
        head: the prefixes.
        text: what follows them.
        label: names in the prefixes, of a container, a pod or a host; empty if there are none.
        stream: of the container, by a CRI runtime.
        is_partial: whether the runtime cut the line here, and goes on in the next.
    """

    head: bytes
    text: bytes
    label: str = ""
    stream: str = ""
    is_partial: bool = False


def unframed(text: bytes) -> Frame:
    """A line without the prefixes of runtimes and of tools that print logs."""
    if text[:2] == b'{"' or (text[:1] == b"[" and text[1:2].isdigit()):
        return Frame(b"", text)
    at = 0
    labels: list[str] = []
    stream, is_partial = "", False
    for _ in range(FRAMES_MAX):
        match = next(filter(None, (frame.match(text, at) for frame in _FRAMES)), None)
        if match is None:
            break
        part = match.groupdict()
        if part.get("label"):
            labels.append(part["label"].decode("utf-8", "replace"))
        if part.get("stream"):
            stream, is_partial = part["stream"].decode(), part["part"] == b"P"
        at = match.end()
    return Frame(text[:at], text[at:], "/".join(labels), stream, is_partial)


def heading_of(text: bytes) -> str | None:
    """The file that `tail` announces by `==> FILE <==`."""
    found = _HEADING.match(text)
    return found[1].decode("utf-8", "replace") if found else None


class Scan:
    """Finds the end of a JSON value that comes in pieces."""

    def __init__(self) -> None:
        self._depth = 0
        self._is_inside = False
        self._is_escaped = False

    def end_in(self, text: bytes, at: int = 0) -> int | None:
        """The offset behind the value; None if it goes on in the next piece."""
        if self._is_escaped:
            at, self._is_escaped = at + 1, False
        while at < len(text):
            if self._is_inside:
                at = _end_of(_INSIDE, text, at)
                self._is_escaped = at == len(text) - 1 and text.endswith(b"\\")
                self._is_inside = text[at : at + 1] != b'"'
                at += 1
                continue
            found = _OUTSIDE.search(text, at)
            if found is None:
                return None
            at = found.end()
            self._is_inside = found[0] == b'"'
            self._depth += {b"{": 1, b"[": 1, b"}": -1, b"]": -1}.get(found[0], 0)
            if self._depth <= 0 and not self._is_inside:
                return at
        return None


def _end_of(form: re.Pattern[bytes], text: bytes, at: int) -> int:
    match = form.match(text, at)
    return match.end() if match else at


def unescaped(text: bytes, quote: bytes) -> bytes:
    """The text without one level of escapes; `quote` is how a quotation mark is written in it."""
    if quote == b'""':
        return text.replace(quote, b'"')
    if quote.startswith(b"&"):
        return html.unescape(text.decode()).encode()
    return _ESCAPED.sub(_letter, text)


def _letter(escape: re.Match[bytes]) -> bytes:
    letter = escape[1]
    if len(letter) == 5:
        return chr(int(letter[1:], 16)).encode("utf-8", "replace")
    return _LETTERS.get(letter, letter)


class Inner(NamedTuple):
    """A text in a wrapper, or an object, that may be an entry.

    Attributes:
        value: the text; or an object that is the body of an entry.
        path: names of the fields that lead to it.
        stamps: times beside it, the nearest first.
        label: the name that tells best which process wrote it; else empty.
    """

    value: str | dict[str, Any]
    path: tuple[str, ...] = ()
    stamps: tuple[Stamp, ...] = ()
    label: str = ""
    rank: int = 99


NOWHERE = Inner("")


def inner(
    value: Any, opened: frozenset[tuple[object, ...]], around: Inner = NOWHERE
) -> Iterator[Inner]:
    """What in a wrapper may be an entry.

    Args:
        value: the decoded wrapper, or a part of it.
        opened: paths of texts that continue an entry.
        around: what is known of the part.
    """
    path = around.path
    if isinstance(value, str):
        is_start = _MARK in value or _ENTRY.match(value) or value.rstrip().endswith("{")
        is_start = bool(is_start or _TEXT_LOG.search(value))
        if is_start or path in opened:
            yield around._replace(value=value)
    elif isinstance(value, dict) and len(path) < DEPTH_MAX:
        rank, label = _label_in(value)
        if rank <= around.rank:
            around = around._replace(label=label, rank=rank)
        if "requestHeader" in value and "totalTimeMs" in value:
            yield around._replace(value=value, stamps=(*_times(value), *around.stamps))
            return
        around = around._replace(stamps=(*_times(value), *around.stamps))
        for name, part in value.items():
            yield from inner(part, opened, around._replace(path=(*path, name)))
    elif isinstance(value, list) and len(path) < DEPTH_MAX:
        if len(value) > BYTES_MIN and all(isinstance(part, int) for part in value):
            text = bytes(part & 255 for part in value).decode("utf-8", "replace")
            yield from inner(text, opened, around)
            return
        fields = _fields(value)
        if fields is not None:
            yield from inner(fields, opened, around)
            return
        scalars = [part for part in value[:4] if isinstance(part, str | int | float)]
        found = tuple(filter(None, map(stamp_of, scalars)))
        around = around._replace(stamps=(*found, *around.stamps), path=(*path, "[]"))
        for part in value:
            yield from inner(part, opened, around)


def _times(value: dict[str, Any]) -> list[Stamp]:
    """The times in an object's fields, those of the entry itself before those of agents."""
    named = [name for name in value if _TIME_KEY.search(name)]
    named.sort(key=lambda name: _OTHER_TIME_KEY.search(name) is not None)
    found = (stamp_of(value[name]) for name in named)
    return [stamp for stamp in found if stamp is not None]


def _fields(value: list[Any]) -> dict[str, Any] | None:
    """A list of fields, each with name and value, as CloudWatch's queries return rows."""
    pairs: dict[str, Any] = {}
    for part in value:
        if not (isinstance(part, dict) and part.keys() == {"field", "value"}):
            return None
        pairs[str(part["field"])] = part["value"]
    return pairs or None


def _label_in(value: dict[str, Any]) -> tuple[int, str]:
    """The name in a wrapper that tells best which process wrote the entry, and its rank."""
    named = list(_named(value, ""))
    for rank, form in enumerate(_LABEL_KEYS):
        for name, text in named:
            if form.search(name):
                return rank, text
    return len(_LABEL_KEYS), ""


def _named(value: Any, name: str, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Short texts of a wrapper with the names of the fields that lead to them."""
    if isinstance(value, dict) and depth < DEPTH_MAX:
        for own, part in value.items():
            yield from _named(part, f"{name}.{own}", depth + 1)
    elif isinstance(value, str) and 0 < len(value) <= LABEL_CHARACTERS_MAX:
        yield name, value


def find_field(value: Any, name: str, depth: int = 0) -> str:
    """The first field of that name in a wrapper, as text; else empty."""
    if not isinstance(value, dict) or depth > DEPTH_MAX:
        return ""
    if name in value:
        return str(value[name])
    found = (find_field(part, name, depth + 1) for part in value.values())
    return next(filter(None, found), "")
