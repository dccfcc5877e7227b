"""Wrappers of log entries: prefixes of runtimes, JSON of agents.

No particular agent is known here. A prefix is recognized by its form. A wrapper is any JSON with a
text that is an entry; times and names come from the fields next to it.
"""

import html
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from brokertwin.patterns import later
from brokertwin.recordings.formats.client_logs import MARKS as CLIENT_MARKS
from brokertwin.recordings.formats.kroxylicious import ENTRY_START
from brokertwin.recordings.formats.request_log import MARK
from brokertwin.recordings.formats.stamps import Stamp, stamp_of, stamps

DEPTH_MAX = 20
"""Maximum depth of a wrapper."""

FRAMES_MAX = 4
LABEL_CHARACTERS_MAX = 200
BYTES_MIN = 20
"""Minimum length of a number list that is a text, as journald writes some."""

COLOURS = later(rb"\x1b\[[\d;]*[A-Za-z]")
OPENING = later(rb"[\s\[,]*(?=\{\s*(?:[\"}]|$))")
"""Text before the objects of a list."""

FRESH = later(rb"\s*\[?\d{4}[-/.]\d\d[-/.]\d\d[ T]\d\d:")
"""Beginning of a log entry, and of no continuation."""

_TIME = rb"\d{4}-\d\d-\d\d[ T][\d:]{8}(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"
_FRAMES = (
    later(_TIME + rb" (?P<stream>stdout|stderr) (?P<part>[PF])(?::\S+)? ?"),
    later(rb"\[?pod/(?P<label>[^/\] ]+)/[^\] ]*\]? "),
    later(rb"(?![\d.-]+ *\|)(?P<label>[\w.@/-]{1,100}) {0,40}\| ?"),
    later(
        rb"(?:<\d+>)?(?:1 )?(?:[A-Z][a-z]{2} [ \d]\d [\d:]{8}(?: \d{4})?|" + _TIME + rb")"
        rb" (?P<label>[\w.-]+) [\w./@-]+\[\d+\]: "
    ),
    later(rb"(?:" + _TIME + rb" )?\{(?P<label>\w+=\"[^{}]*)\} +"),
    later(rb"(?P<label>[\w./-]+\.(?:log|txt)[\w.-]*):(?:\d+:)? ?(?=\[?\d{4}|\{)"),
    later(
        rb"(?:" + _TIME + rb" )?(?![\d.-]+ )(?P<label>[\w.-]{1,100}\d)"
        rb" (?:(?:[^\w\s]{1,3} )?[\w.-]{1,100} )?(?=\[?\d{4}-|\{)"
    ),
    later(_TIME + rb" (?=\[?\d{4}-|\{|Completed)"),
)
"""Prefixes of runtimes and tools, in this order:

CRI, `kubectl logs --prefix`, `docker compose logs`, syslog and journal, `logcli`, `grep`, `stern`
and `aws logs tail`, `docker logs -t` and `kubectl logs --timestamps`.
"""

HEAD_BYTES_MAX = 300
_HEAD = later(
    rb"[A-Z][a-z]{2} \d{1,2}, \d{4} \d{1,2}:\d\d:\d\d [AP]M \S+ \S+\s*$"
    rb"|.{0,60}\b(?:trce|dbug|info|warn|fail|crit): \S+\[\d+\]\s*$|(?:Observed)?Timestamp: "
)
"""The line with the time of an entry: of java.util.logging, .NET, OpenTelemetry."""

_BODY = later(rb"(?:SEVERE|WARNING|INFO|CONFIG|FINE|FINER|FINEST): | {6}\S|Body: ")
_ELEMENT = later(rb"\s*<(?:(?:\w+:)?[Ee]vent\b|record>)")
_ELEMENT_END = later(rb"\s*</(?:(?:\w+:)?[Ee]vent|record)>")
_HEADING = later(rb"==> (.+) <==\s*$")
_TIME_KEY = later(r"time|date|instant|epoch|^_?ts$|^@?t$|^\$date$", re.IGNORECASE)
_OTHER_TIME_KEY = later(
    r"ingest|receiv|observ|creat|start|zone|timeout|monotonic|Ms$|end", re.IGNORECASE
)
_PART_KEY = later(r"seconds?$|nanos?$", re.IGNORECASE)
_LABEL_KEYS = tuple(
    later(form, re.IGNORECASE)
    for form in (
        "pod",
        "container",
        "broker|node_?id",
        "instance|service|unit",
        "host",
        "file|path",
    )
)
_object_decoder = msgspec.json.Decoder(dict[str, Any])
_MARK = MARK.decode()
_TEXT_LOG = later(
    r"\[GroupCoordinator |Handling request:RequestHeader|" + CLIENT_MARKS.pattern.decode()
)
_ENTRY = later(ENTRY_START.pattern.decode())
_CELL = later(rb"(?:^|(?<=[,;\t]))\"((?:[^\"]|\"\")*)\"(?=[,;\t\r\n]|$)")
_OUTSIDE = later(rb"[\"{}\[\]]")
_INSIDE = later(rb"(?:[^\"\\]+|\\.)*", re.DOTALL)
_ESCAPED = later(rb"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_LETTERS = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"b": b"\b", b"f": b"\f"}


START_BYTES = 32
_FIRST_KEY = later(rb"\{\"[^\"\\]{1,25}\":\"?")
_FIRST_TIME = later(rb".{0,22}?\d\d:\d\d(?=:\d\d)")
_DIGIT = later(rb"\d")


def start_of(text: bytes) -> bytes | None:
    """How each line of a log begins: the first name in JSON, or a time without its digits.

    None if the text has neither.
    """
    key = _FIRST_KEY.match(text)
    if key is not None:
        return key[0]
    time = _FIRST_TIME.match(text[:START_BYTES])
    return _DIGIT.sub(b"0", time[0]) if time is not None else None


def begins_like(text: bytes, former: bytes | bytearray) -> bool:
    """Whether a text begins as another one does, so that it is no continuation of it."""
    start = start_of(text)
    return start is not None and start == start_of(bytes(former[:START_BYTES]))


class Frame(NamedTuple):
    """A line without its prefixes.

    Attributes:
        head: the prefixes.
        text: the rest.
        label: names of container, pod or host in the prefixes, or empty.
        stream: the container's stream in a CRI runtime.
        is_partial: the runtime cut the line, which continues in the next.
    """

    head: bytes
    text: bytes
    label: str = ""
    stream: str = ""
    is_partial: bool = False


def unframed(text: bytes) -> Frame:
    """Remove the prefixes of runtimes and log tools."""
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
        at = match.end()
        if part.get("stream"):
            stream, is_partial = part["stream"].decode(), part["part"] == b"P"
            break  # pieces are put together before their prefixes are looked for
    return Frame(text[:at], text[at:], "/".join(labels), stream, is_partial)


def heading_of(text: bytes) -> str | None:
    """Return the file in `==> FILE <==` of `tail`."""
    match = _HEADING.match(text)
    return match[1].decode("utf-8", "replace") if match else None


class Elements:
    """Finds the time of an entry in the lines before it.

    The XML layouts of Log4j 1, Log4j 2 and java.util.logging write elements over several lines.
    The text layout of java.util.logging, .NET's console logger and OpenTelemetry's debug exporter
    write the time on a line of its own.
    """

    def __init__(self) -> None:
        self._open: dict[tuple[object, ...], tuple[Stamp, ...]] = {}
        self._heads: dict[tuple[object, ...], tuple[Stamp, ...]] = {}

    def before(self, key: tuple[object, ...], text: bytes) -> tuple[Stamp, ...]:
        """The times before a line, in the entry or the element of which it is.

        `key`: where the line comes from.
        """
        if not text.lstrip().startswith(b"<"):
            if len(text) <= HEAD_BYTES_MAX and _HEAD.match(text):
                self._heads[key] = tuple(stamps(text))
            elif key in self._heads and _BODY.match(text):
                return self._heads[key]
            return ()
        if _ELEMENT_END.match(text) or (_ELEMENT.match(text) and MARK in text):
            self._open.pop(key, None)
        elif _ELEMENT.match(text):
            self._open[key] = tuple(stamps(text))
        elif MARK not in text and key in self._open:
            self._open[key] += tuple(stamps(text))
        return self._open.get(key, ())


class Scan:
    """Finds the end of a JSON value in pieces."""

    def __init__(self) -> None:
        self._depth = 0
        self._is_inside = False
        self._is_escaped = False

    def end_in(self, text: bytes, at: int = 0) -> int | None:
        """Return the offset after the value; None if it continues."""
        if self._is_escaped:
            at, self._is_escaped = at + 1, False
        while at < len(text):
            if self._is_inside:
                at = _end_of(_INSIDE, text, at)
                self._is_escaped = at == len(text) - 1 and text.endswith(b"\\")
                self._is_inside = text[at : at + 1] != b'"'
                at += 1
                continue
            match = _OUTSIDE.search(text, at)
            if match is None:
                return None
            at = match.end()
            self._is_inside = match[0] == b'"'
            self._depth += {b"{": 1, b"[": 1, b"}": -1, b"]": -1}.get(match[0], 0)
            if self._depth <= 0 and not self._is_inside:
                return at
        return None


def _end_of(form: re.Pattern[bytes], text: bytes, at: int) -> int:
    match = form.match(text, at)
    return match.end() if match else at


def field_at(text: bytes, place: int) -> tuple[bytes, bytes] | None:
    """The quoted field of a table, or the JSON behind a prefix, around a place.

    Returns:
        The text before it, and its own.
    """
    for field in _CELL.finditer(text) if text[:1] not in b"{[" else ():
        if field.start(1) <= place < field.end(1):
            return text[: field.start()], field[1].replace(b'""', b'"')
    brace = text.find(b'{"', 0, place)
    end = Scan().end_in(text, brace) if brace > 0 else None
    return (text[:brace], text[brace:end]) if end is not None and end > place else None


def unescaped(text: bytes, quote: bytes) -> bytes:
    """Remove one level of escapes; `quote` is the escaped quotation mark."""
    if quote == b'""':
        return text.replace(quote, b'"')
    if b"&" in quote:
        return html.unescape(text.decode()).encode()
    return _ESCAPED.sub(_letter, text)


def _letter(escape: re.Match[bytes]) -> bytes:
    letter = escape[1]
    if len(letter) == 5:
        return chr(int(letter[1:], 16)).encode("utf-8", "replace")
    return _LETTERS.get(letter, letter)


class Inner(NamedTuple):
    """A text or object in a wrapper that may be an entry.

    Attributes:
        value: the text, or an object that is an entry's body.
        path: names of the fields that lead to it.
        stamps: times next to it, nearest first.
        label: the best name of the process that wrote it, or empty.
        place: positions in the lists around it; equal for fields of one record.
    """

    value: str | dict[str, Any]
    path: tuple[str, ...] = ()
    stamps: tuple[Stamp, ...] = ()
    label: str = ""
    rank: int = 99
    place: tuple[int, ...] = ()


NOWHERE = Inner("")


def inner(
    value: Any, is_opened: Callable[[tuple[str, ...]], bool], around: Inner = NOWHERE
) -> Iterator[Inner]:
    """Yield the parts of a wrapper that may be entries.

    Args:
        value: the decoded wrapper or a part.
        is_opened: whether the text at a path continues an entry.
        around: known properties of the part.
    """
    path = around.path
    if isinstance(value, str):
        is_start = _MARK in value or _ENTRY.match(value) or value.rstrip().endswith("{")
        is_start = bool(is_start or _TEXT_LOG.search(value))
        nested = None if is_start else _object_in(value)
        if is_start or is_opened(path):
            yield around._replace(value=value)
        elif nested is not None:
            yield from inner(nested, is_opened, around._replace(path=(*path, "{}")))
    elif isinstance(value, dict) and len(path) < DEPTH_MAX:
        rank, label = _label_in(value)
        if rank <= around.rank:
            around = around._replace(label=label, rank=rank)
        if "requestHeader" in value and "totalTimeMs" in value:
            yield around._replace(value=value, stamps=(*_times(value), *around.stamps))
            return
        around = around._replace(stamps=(*_times(value), *around.stamps))
        for name, part in value.items():
            yield from inner(part, is_opened, around._replace(path=(*path, name)))
    elif isinstance(value, list) and len(path) < DEPTH_MAX:
        if len(value) > BYTES_MIN and all(isinstance(part, int) for part in value):
            text = bytes(part & 255 for part in value).decode("utf-8", "replace")
            yield from inner(text, is_opened, around)
            return
        fields = _fields(value)
        if fields is not None:
            yield from inner(fields, is_opened, around)
            return
        scalars = [part for part in value[:4] if isinstance(part, str | int | float)]
        times = tuple(filter(None, map(stamp_of, scalars)))
        around = around._replace(stamps=(*times, *around.stamps), path=(*path, "[]"))
        for number, part in enumerate(value):
            inside = around._replace(place=(*around.place, number))
            yield from inner(part, is_opened, inside)


def _object_in(text: str) -> dict[str, Any] | None:
    """The object in a text that is JSON; else None."""
    if not (text.startswith('{"') and text.rstrip().endswith("}")):
        return None
    try:
        return _object_decoder.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return None


def _times(value: dict[str, Any]) -> list[Stamp]:
    """The times in an object's fields, the entry's before those of agents."""
    named = [name for name in value if _TIME_KEY.search(name)]
    named.sort(key=lambda name: _OTHER_TIME_KEY.search(name) is not None)
    times = [stamp_of(value[name]) for name in named]
    parts = {name: value[name] for name in named if _PART_KEY.search(name)}
    if len(parts) > 1:  # "timestampSeconds" and "timestampNanos"
        times.insert(0, stamp_of(parts))
    return [stamp for stamp in times if stamp is not None]


def _fields(value: list[Any]) -> dict[str, Any] | None:
    """Convert a list of name and value fields, as in CloudWatch's queries."""
    pairs: dict[str, Any] = {}
    for part in value:
        if not (isinstance(part, dict) and part.keys() == {"field", "value"}):
            return None
        pairs[str(part["field"])] = part["value"]
    return pairs or None


def _label_in(value: dict[str, Any]) -> tuple[int, str]:
    """The best name of the process in a wrapper, and its rank."""
    named = list(_named(value, ""))
    for rank, form in enumerate(_LABEL_KEYS):
        for name, text in named:
            if form.search(name):
                return rank, text
    return len(_LABEL_KEYS), ""


def _named(value: Any, name: str, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield short texts of a wrapper with their field names."""
    if isinstance(value, dict) and depth < DEPTH_MAX:
        for own, part in value.items():
            yield from _named(part, f"{name}.{own}", depth + 1)
    elif isinstance(value, str) and 0 < len(value) <= LABEL_CHARACTERS_MAX:
        yield name, value


def find_field(value: Any, name: str, depth: int = 0) -> str:
    """Return the first field with that name as text, or empty."""
    if not isinstance(value, dict) or depth > DEPTH_MAX:
        return ""
    if name in value:
        return str(value[name])
    found = (find_field(part, name, depth + 1) for part in value.values())
    return next(filter(None, found), "")
