"""Which recording a line belongs to, and the document that it becomes.

A file may mix several recordings with other log lines:

- `Completed request:` is Kafka's request log;
- an object with a `requestHeader`, or the `kind` of a connection's end, is a document of a capture;
- an object that begins with `header` is an entry of Kroxylicious' protocol log.

Each of them may stand behind prefixes, in a text of any JSON, over several lines, and cut into
pieces by a container runtime. Any other line is counted by what it is; a line that should be one
of those above and is damaged is dead.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, tzinfo
from typing import NamedTuple

import msgspec

from brokertwin.recordings.formats import (
    client_logs,
    coordinator_lines,
    kroxylicious,
    layouts,
    request_log,
    text_requests,
)
from brokertwin.recordings.formats.clock import Clock
from brokertwin.recordings.formats.documents import (
    NO_REQUEST,
    NOT_ANSWERED,
    OTHER,
    Document,
    Fields,
    Left,
    Texts,
    UnreadableError,
)
from brokertwin.recordings.formats.kinds import kind_of
from brokertwin.recordings.formats.lines import Line
from brokertwin.recordings.formats.stamps import Stamp, stamps
from brokertwin.state.core.events import EVENT_BYTES_MAX, Kind, Reason, RequestHeader, refusal_of
from brokertwin.state.core.schema import Int32, Int64

CUT = "cut"
NOT_READ = "not legible when it was captured"
WRAPPED_BYTES_MAX = 32 * EVENT_BYTES_MAX
"""A result of a log search may be one JSON object with many entries."""

NESTING_MAX = 8
BRACES_MAX = 8
"""So many braces before a quoted request are tried as the beginning of what wraps it."""

TAIL_BYTES = 500
"""How much of the text behind an entry is looked at."""

KNOWN = frozenset({"id", "broker", "time", "requestHeader", "request", "response", "connection"})


class Origin(NamedTuple):
    """What is known of a file.

    Attributes:
        name: the file's, unique among those read together.
        zone: of the JVM that wrote the log.
        is_qualified: whether connections of captures need the file's name before theirs, because
            several files are read together.
        texts: which logs with requests as text are read, too.
    """

    name: str
    zone: tzinfo = UTC
    is_qualified: bool = False
    texts: Texts = Texts.NONE


class _Captured(msgspec.Struct, rename="camel"):
    request_header: RequestHeader
    time: Int64
    request: msgspec.Raw
    response: msgspec.Raw = NOT_ANSWERED
    response_time: float = 0.0
    id: str = ""
    broker: Int32 | None = None
    connection: str = ""
    kind: str = Kind.REQUEST


class _Ended(msgspec.Struct, rename="camel"):
    time: Int64
    connection: str
    id: str = ""
    broker: Int32 | None = None


_captured_decoder = msgspec.json.Decoder(_Captured)
_ended_decoder = msgspec.json.Decoder(_Ended)
_fields_decoder = msgspec.json.Decoder(Fields)

_ENDED = msgspec.json.encode(Kind.DISCONNECT)

Made = Iterator[Document | Left]
Key = tuple[object, ...]
"""Where a continuation is looked for: names around the line, and the path in a wrapper."""

_ERRORS = (msgspec.MsgspecError, UnicodeError, RecursionError, UnreadableError)


class _Around(NamedTuple):
    """What stands around a text.

    Attributes:
        line: where it begins.
        key: where its continuation is looked for.
        head: prefixes of the line.
        stamps: times in the fields of wrappers.
        label: name of a container, pod or host.
        session: the connection's name, by Kroxylicious.
        depth: how many wrappers there are.
    """

    line: Line
    key: Key
    head: bytes = b""
    stamps: tuple[Stamp, ...] = ()
    label: str = ""
    session: str = ""
    depth: int = 0


class _Open:
    """A text whose JSON is not complete yet."""

    def __init__(self, around: _Around, text: bytes, is_request: bool, scan: layouts.Scan) -> None:
        self.around = around
        self.text = bytearray(text)
        self.scan = scan
        self.is_request = is_request
        self._is_bare = text.rstrip().endswith(b"{")

    def add(self, text: bytes) -> bool:
        """Take the next piece; returns whether the JSON is complete."""
        self.text += text
        self._is_bare = False
        return self.scan.end_in(text) is not None

    def is_ended_by(self, text: bytes) -> bool:
        """Whether the text begins another entry."""
        if layouts.FRESH.match(text) or (self.is_request and request_log.MARK in text):
            return True
        if _UNQUOTED.search(text) is not None:
            return True  # in a field it would have escapes
        if self._is_bare and text.strip()[:1] not in (b'"', b"}"):
            return True
        return text.startswith(b"{") and _is_object(text)


class Reader:
    """Reads the lines of one file, in order.

    Args:
        source: what is known of the file.
    """

    def __init__(self, source: Origin) -> None:
        self._source = source
        self._clock = Clock(source.zone)
        self._pairs = kroxylicious.Pairs()
        self._open: dict[Key, _Open] = {}
        self._partial: dict[Key, tuple[Line, bytes, bytearray]] = {}
        self._clients = client_logs.Exchanges()
        self._heading = ""
        self._place = ""
        self._count = 0

    @property
    def unknown_zones(self) -> set[str]:
        """Names of time zones in the log that are not known."""
        return self._clock.unknown_zones

    def read(self, lines: Iterator[Line]) -> Made:
        """What the lines become; each line is in one document or is left with a reason."""
        for line in lines:
            yield from self._guarded(line, self._take(line))
        for line, head, text in self._partial.values():
            around = _Around(line, (), head)
            yield from self._guarded(line, self._entry(around, bytes(text)))
        for opened in self._open.values():
            yield _abandoned(opened)
        yield from self._pairs.rest()
        yield from self._clients.rest()

    def _guarded(self, line: Line, made: Made) -> Made:
        try:
            yield from made
        except _ERRORS as error:
            yield dead_letter(line, error)

    def _take(self, line: Line) -> Made:
        text = line.text.rstrip(b"\r\n")
        if len(text) > WRAPPED_BYTES_MAX:
            raise _too_large(len(text))
        if b"\x1b[" in text:
            text = layouts.COLOURS.sub(b"", text)
        heading = layouts.heading_of(text) if text.startswith(b"==> ") else None
        if heading is not None:
            self._heading = heading
            yield Left(line, OTHER, is_dead=False)
            return
        frame = layouts.unframed(text)
        key = (frame.label, frame.stream)
        head, text = frame.head, frame.text
        if frame.is_partial or key in self._partial:
            line, head, pieces = self._partial.pop(key, (line, head, bytearray()))
            pieces += text
            if frame.is_partial and len(pieces) <= WRAPPED_BYTES_MAX:
                self._partial[key] = line, head, pieces
                return
            text = bytes(pieces)
        around = _Around(line, key, head, label=frame.label or self._heading)
        yield from self._continued(around, text)

    def _continued(self, around: _Around, text: bytes) -> Made:
        """A text that may go on with an open one."""
        opened = self._open.pop(around.key, None)
        if opened is None:
            yield from self._entry(around, text)
        elif opened.is_ended_by(text):
            yield _abandoned(opened)
            yield from self._entry(around, text)
        elif opened.add(text):
            yield from self._guarded(
                opened.around.line, self._entry(opened.around, bytes(opened.text))
            )
        elif len(opened.text) > WRAPPED_BYTES_MAX:
            yield _abandoned(opened)
        else:
            self._open[around.key] = opened

    def _entry(self, around: _Around, text: bytes) -> Made:
        """A text that may be an entry, or several in a row."""
        if around.depth > NESTING_MAX:
            raise UnreadableError("nested", f"the line is in more than {NESTING_MAX} wrappers")
        text.decode("utf-8")
        at = 0
        while (start := _start(text, at)) is not None:
            if start.quote:
                yield from self._quoted(around, text, start)
                return
            scan = layouts.Scan()
            end = _end(text, start.at, scan) if at == 0 else scan.end_in(text, start.at)
            if end is None:
                self._open[around.key] = _Open(around, text, start.is_request, scan)
                return
            part = _Part(text[at : start.at], text[start.at : end], text[end : end + TAIL_BYTES])
            if start.is_request:
                yield from self._guarded(around.line, self._completed(around, part))
            elif kroxylicious.ENTRY_START.match(part.json):
                yield from self._guarded(around.line, self._exchanged(around, part))
            else:
                yield from self._guarded(around.line, self._object(around, part))
            at = end
        if at == 0:
            yield from self._other(around, _Part(b"", text, b""))

    def _quoted(self, around: _Around, text: bytes, start: "_Start") -> Made:
        """A request in a quoted text: in JSON behind a prefix, a table, or a field."""
        around = around._replace(depth=around.depth + 1)
        unfinished: _Open | None = None
        brace = -1
        for _ in range(BRACES_MAX if start.quote != b'""' else 0):
            brace = text.find(b"{", brace + 1, start.at)
            if brace < 0:
                break
            scan = layouts.Scan()
            end = scan.end_in(text, brace)
            if end is None:
                unfinished = unfinished or _Open(around, text, False, scan)
            elif end > start.at and _is_object(text[brace:end]):
                part = _Part(text[:brace], text[brace:end], text[end : end + TAIL_BYTES])
                yield from self._object(around, part)
                return
        plain = layouts.unescaped(text, start.quote)
        if unfinished is not None and not _is_complete(plain):
            self._open[around.key] = unfinished
        else:
            yield from self._entry(around, plain)

    def _completed(self, around: _Around, part: "_Part") -> Made:
        """A line of Kafka's request log."""
        time = self._time(around, part)
        if time is None:
            raise UnreadableError(
                "no time", "around the request there is no time such as 2026-11-21 01:22:27,944"
            )
        if len(part.json) > EVENT_BYTES_MAX:
            raise _too_large(len(part.json))
        made = request_log.document_of(around.line, self._placed(around.line), part.json, time)
        if isinstance(made, Document):
            made.label = around.label
            _check(made)
        yield made

    def _exchanged(self, around: _Around, part: "_Part") -> Made:
        """An entry of Kroxylicious' protocol log."""
        found = kroxylicious.SESSION.search(part.tail)
        session = found[1].decode("utf-8", "replace") if found else around.session
        time = self._time(around, part)
        entry = kroxylicious.Wrapped(
            around.line, time, session, part.json, self._clock.unit_ms, around.label
        )
        yield from self._pairs.take(entry)

    def _time(self, around: _Around, part: "_Part") -> int | None:
        return self._clock.ms(around.head + part.head, part.tail, around.stamps)

    def _object(self, around: _Around, part: "_Part") -> Made:
        """A document of a capture, or JSON that wraps an entry."""
        line = around.line
        try:
            fields = _fields_decoder.decode(part.json)
        except msgspec.MsgspecError:
            mark = part.json.find(request_log.MARK)
            if mark < 0:
                raise
            bare = b"\n" + part.json[mark:]
            yield from self._entry(around._replace(head=part.head + part.json[:mark]), bare)
            return
        if "reason" in fields and bytes(fields.get("request", b"null")) == b"null":
            yield Left(line, NOT_READ, is_dead=False)
        elif bytes(fields.get("kind", b"")) == _ENDED:
            yield self._ended(line, part.json)
        elif "totalTimeMs" not in fields and ("requestHeader" in fields or fields.keys() <= KNOWN):
            if len(part.json) > EVENT_BYTES_MAX:
                raise _too_large(len(part.json))
            yield self._captured(line, part.json, fields)
        else:
            yield from self._unwrapped(around, part)

    def _unwrapped(self, around: _Around, part: "_Part") -> Made:
        """The entries in a wrapper; copies in other fields, whole or cut, do not count."""
        value = msgspec.json.decode(part.json)
        stream = (around.key, layouts.find_field(value, "stream"))
        before = set(self._open)
        opened = frozenset(key[2:] for key in before if key[:2] == stream)
        given = stamps(around.head + part.head)
        made: list[tuple[Key, Document | Left]] = []
        is_entry = False
        for found in layouts.inner(value, opened):
            is_entry = True
            inside = around._replace(
                key=(*stream, *found.path),
                head=b"",
                stamps=(*found.stamps, *around.stamps, *given),
                label=found.label or around.label,
                session=layouts.find_field(value, "sessionId") or around.session,
                depth=around.depth + 1,
            )
            if isinstance(found.value, str):
                text = found.value.rstrip("\r\n").encode()
                entries = self._guarded(around.line, self._continued(inside, text))
            else:
                body = _Part(b"", msgspec.json.encode(found.value), b"")
                entries = self._guarded(around.line, self._completed(inside, body))
            made += ((found.path, each) for each in entries)
        documents = _distinct(made)
        if documents:
            for key in set(self._open) - before:
                del self._open[key]
            yield from documents
        yield from (each for _, each in made if _is_left(each, is_dead_too=not documents))
        if not is_entry:
            yield from self._other(around, part)

    def _other(self, around: _Around, part: "_Part") -> Made:
        """A line of a text log, or one that is no exchange."""
        made = self._of_text(around, part) if self._source.texts else None
        if made is None:
            yield self._left(around, part)
        else:
            yield from made

    def _of_text(self, around: _Around, part: "_Part") -> Made | None:
        """What a line of a text log completes; None if it is no such line."""
        old = text_requests.MARKS.search(part.json)
        mark = old or client_logs.MARKS.search(part.json)
        is_log = old is not None and old[0].startswith(request_log.MARK)
        if mark is None or (self._source.texts < Texts.ALL and not is_log):
            return None
        time = self._time(around, part._replace(head=part.head + part.json[: mark.start()]))
        if time is None:
            return None
        place = self._placed(around.line)
        if old is None:
            return self._clients.take(around.line, place, part.json, time)
        text = part.json.decode("utf-8", "replace")
        made = text_requests.document_of(around.line, place, text, time)
        if isinstance(made, Document):
            made.label = around.label
        return iter((made,))

    def _left(self, around: _Around, part: "_Part") -> Left:
        """A line that is no exchange; one of a group's coordinator with what it tells."""
        mark = part.json.find(request_log.MARK)
        if mark >= 0:
            request_log.start_of(part.json, mark)  # raises if it is text
        kind = kind_of(part.json)
        left = Left(around.line, kind.name if kind is not None else OTHER, is_dead=False)
        found = coordinator_lines.FORM.search(part.json)
        if found is None:
            return left
        start = part.json[: found.start()]
        time = self._time(around, part._replace(head=part.head + start, tail=b""))
        place = f"{around.line.file}:{around.line.number}"
        told = coordinator_lines.logged(place, part.json, time) if time is not None else None
        return left._replace(logged=told)

    def _placed(self, line: Line) -> str:
        """The id of an exchange: file and line; a further one of the line has a number."""
        place = f"{line.file}:{line.number}"
        self._count = self._count + 1 if place == self._place else 1
        self._place = place
        return place if self._count == 1 else f"{place}.{self._count}"

    def _captured(self, line: Line, text: bytes, fields: Fields) -> Document:
        captured = _captured_decoder.decode(text)
        if captured.kind != Kind.REQUEST:
            raise UnreadableError(
                Reason.INTERNAL_KIND,
                f"kind is {captured.kind!r:.50}; files hold requests and ends of connections alone",
            )
        request_log.check_duration("responseTime", captured.response_time)
        for name in KNOWN:
            fields.pop(name, None)
        fields["principalIsAsserted"] = msgspec.Raw(b"true")
        asked = captured.request_header, captured.request
        document = self._document(line, captured, asked, captured.response)
        document.rest = fields
        _check(document)
        return document

    def _ended(self, line: Line, text: bytes) -> Document:
        ended = _ended_decoder.decode(text)
        if not ended.connection:
            raise UnreadableError(Reason.MISSING_FIELD, "a connection ends that has no name")
        document = self._document(line, ended, NO_REQUEST, NOT_ANSWERED)
        return msgspec.structs.replace(document, kind=Kind.DISCONNECT)

    def _document(
        self,
        line: Line,
        said: _Captured | _Ended,
        asked: tuple[RequestHeader, msgspec.Raw],
        response: msgspec.Raw,
    ) -> Document:
        """A line of a capture; its connection has a name among all files that are read together."""
        header, request = asked
        named = f"{line.file}/{said.connection}" if self._source.is_qualified else said.connection
        return Document(
            place=said.id or self._placed(line),
            source=line.file,
            time=said.time,
            broker=said.broker,
            is_from_log=False,
            connection=named,
            header=header,
            request=request,
            response=response,
            rest={},
        )


class _Part(NamedTuple):
    """JSON in a text, and what stands before and behind it."""

    head: bytes
    json: bytes
    tail: bytes


class _Start(NamedTuple):
    """Where JSON begins in a text.

    Attributes:
        at: the offset of its brace.
        is_request: whether it is a line of Kafka's request log.
        quote: how quotation marks are written in it if it is quoted itself; else empty.
    """

    at: int
    is_request: bool = False
    quote: bytes = b""


_UNQUOTED = re.compile(request_log.MARK + rb"\s*\{\s*\"(?!\")")
_LIST = re.compile(rb"\s*[{\[]")
_QUOTE = re.compile(rb"\{\s*(\\+\"|\"\"|&quot;|&#34;)")
_HEADER = re.compile(rb"[^{]*(?=\{\s*\"header\")")


def _start(text: bytes, at: int) -> _Start | None:
    """The next JSON object that may be an entry or wrap one."""
    opening = layouts.OPENING.match(text, at)
    if opening is not None and (at == 0 or _LIST.match(text)):
        return _Start(opening.end())
    mark = text.find(request_log.MARK, at)
    if mark >= 0 and not text_requests.MARKS.match(text, mark):
        start = request_log.start_of(text, mark)
        quote = _QUOTE.match(text, start)
        return _Start(start, True, quote[1] if quote is not None else b"")
    if at:
        return None
    header = _HEADER.match(text)
    if header is not None:
        return _Start(header.end())
    return _Start(text.rstrip().rfind(b"{")) if text.rstrip().endswith(b"{") else None


def _end(text: bytes, start: int, scan: layouts.Scan) -> int | None:
    """The offset behind the object; None if it is not complete. Mostly the last brace ends it."""
    last = text.rfind(b"}") + 1
    if last > start and _is_object(text[start:last]):
        return last
    return scan.end_in(text, start)


def _is_object(text: bytes) -> bool:
    """Whether a text is one JSON object."""
    try:
        _fields_decoder.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return False
    return True


def _is_complete(text: bytes) -> bool:
    """Whether the request in a text has its end there."""
    start = _start(text, 0)
    return start is not None and layouts.Scan().end_in(text, start.at) is not None


def _distinct(made: Sequence[tuple[Key, Document | Left]]) -> list[Document]:
    """The documents in a wrapper; what another field has, too, counts once."""
    found: dict[tuple[object, ...], Key] = {}
    kept = []
    for path, each in made:
        if isinstance(each, Document):
            duration = bytes(each.rest.get("responseTime", b""))
            what = (each.connection, each.header.correlation_id, duration)
            if found.setdefault(what, path) == path:
                kept.append(each)
    return kept


def _is_left(made: Document | Left, is_dead_too: bool) -> bool:
    return isinstance(made, Left) and (is_dead_too or not made.is_dead)


def _too_large(size: int) -> UnreadableError:
    return UnreadableError(Reason.TOO_LARGE, f"{size} bytes; at most {EVENT_BYTES_MAX} are read")


def _abandoned(opened: _Open) -> Left:
    """A text that does not go on as JSON does; if it holds no entry, it is another log line."""
    text = bytes(opened.text)
    if opened.is_request or request_log.MARK in text or kroxylicious.ENTRY_START.search(text):
        return Left(opened.around.line, CUT, "the JSON of the entry has no end")
    if opened.around.depth or not text.lstrip().startswith(b"{"):
        return Left(opened.around.line, OTHER, is_dead=False)
    return Left(opened.around.line, Reason.NOT_JSON, "Input data was truncated")


def _check(document: Document) -> None:
    """Raises UnreadableError where a body is none."""
    if not bytes(document.request).lstrip().startswith(b"{"):
        raise UnreadableError(Reason.WRONG_TYPE, "Expected `object` - at `$.request`")
    if bytes(document.response).lstrip()[:1] not in (b"{", b"n", b""):
        raise UnreadableError(Reason.WRONG_TYPE, "Expected `object` or null - at `$.response`")


def dead_letter(line: Line, error: Exception) -> Left:
    """A line that cannot be read, and why."""
    if isinstance(error, UnreadableError):
        return Left(line, error.reason, error.detail)
    refusal = refusal_of(error)
    return Left(line, refusal.reason, refusal.detail)
