"""JSON of an entry in a text that may come in pieces."""

from typing import NamedTuple

import msgspec

from brokertwin.patterns import later
from brokertwin.recordings.formats import kroxylicious, layouts, request_log, text_requests
from brokertwin.recordings.formats.documents import OTHER, Fields, UnpairedDocuments
from brokertwin.recordings.formats.lines import SourceLine
from brokertwin.recordings.formats.stamps import Stamp
from brokertwin.state.core.events import Reason

CUT = "cut"
Key = tuple[object, ...]
"""Key of an expected continuation: names around the line, wrapper path."""

_UNQUOTED = later(request_log.MARK + rb"\s*\{\s*\"(?!\")")
_LIST = later(rb"\s*[{\[]")
_QUOTE = later(rb"\{\s*(\\+\"|\"\"|\\*&(?:quot|#34|#x22);)")
_HEADER = later(rb"[^{]*(?=\{\s*\"header\")")
_fields_decoder = msgspec.json.Decoder(Fields)


class Around(NamedTuple):
    """The context of a text.

    Attributes:
        key: where its continuation is expected.
        head: prefixes of the line.
        stamps: times in the fields of wrappers.
        label: name of a container, pod or host.
        session: the connection's name in Kroxylicious.
    """

    line: SourceLine
    key: Key
    head: bytes = b""
    stamps: tuple[Stamp, ...] = ()
    label: str = ""
    session: str = ""
    depth: int = 0


class Open:
    """A text with incomplete JSON."""

    def __init__(self, around: Around, text: bytes, is_request: bool, scan: layouts.Scan) -> None:
        self.around = around
        self.text = bytearray(text)
        self.scan = scan
        self.is_request = is_request
        self._is_bare = text.rstrip().endswith(b"{")

    def add(self, text: bytes) -> bool:
        """Add a piece; returns whether the JSON is complete."""
        self.text += text
        self._is_bare = False
        return self.scan.end_in(text) is not None

    def is_ended_by(self, text: bytes) -> bool:
        """Whether the text begins another entry."""
        if layouts.FRESH.match(text) or (self.is_request and request_log.MARK in text):
            return True
        if _UNQUOTED.search(text) is not None:
            return True  # # in a field it would be escaped
        if self._is_bare and text.strip()[:1] not in (b'"', b"}"):
            return True
        if layouts.begins_like(text, self.text):
            return True
        return text.startswith(b"{") and is_object(text)


class Part(NamedTuple):
    head: bytes
    json: bytes
    tail: bytes


class Start(NamedTuple):
    """The start of JSON in a text.

    Attributes:
        at: offset of its brace.
        is_request: it is a line of Kafka's request log.
        quote: the form of its quotation marks if it is quoted itself; else empty.
    """

    at: int
    is_request: bool = False
    quote: bytes = b""


def start_in(text: bytes, at: int) -> Start | None:
    """Find the next JSON object that may be or wrap an entry."""
    opening = layouts.OPENING.match(text, at)
    if opening is not None and (at == 0 or _LIST.match(text)):
        return Start(opening.end())
    mark = text.find(request_log.MARK, at)
    if mark >= 0 and not text_requests.MARKS.match(text, mark):
        start = request_log.start_of(text, mark)
        quote = _QUOTE.match(text, start)
        return Start(start, True, quote[1] if quote is not None else b"")
    if at:
        return None
    header = _HEADER.match(text)
    if header is not None:
        return Start(header.end())
    return Start(text.rstrip().rfind(b"{")) if text.rstrip().endswith(b"{") else None


def end_in(text: bytes, start: int, scan: layouts.Scan) -> int | None:
    """Return the offset after the object; None if incomplete."""
    last = text.rfind(b"}") + 1
    if last > start and is_object(text[start:last]):
        return last
    return scan.end_in(text, start)


def is_object(text: bytes) -> bool:
    """Whether a text is one JSON object."""
    try:
        _fields_decoder.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return False
    return True


def is_complete(text: bytes) -> bool:
    start = start_in(text, 0)
    return start is not None and layouts.Scan().end_in(text, start.at) is not None


def abandoned(opened: Open, following: bytes = b"") -> UnpairedDocuments:
    """Describe a text whose JSON does not continue.

    A line "{" before a line that is no JSON opens an object as Node.js prints it.
    """
    text = bytes(opened.text)
    if opened.is_request or request_log.MARK in text or kroxylicious.ENTRY_START.search(text):
        return UnpairedDocuments(opened.around.line, CUT, "the JSON of the entry has no end")
    bare = text.strip()
    is_printed = bare == b"{" and following and not following.lstrip().startswith(b"{")
    if opened.around.depth or not bare.startswith(b"{") or is_printed:
        return UnpairedDocuments(opened.around.line, OTHER, is_dead=False)
    return UnpairedDocuments(opened.around.line, Reason.NOT_JSON, "Input data was truncated")
