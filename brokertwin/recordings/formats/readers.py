"""Reads recorded exchanges from the lines of a file.

A file may mix several formats with other log lines:

- `Completed request:` is Kafka's request log;
- an object with `requestHeader`, or with a disconnect's `kind`, is a capture's document;
- an object whose first field is `header` is an entry of Kroxylicious' protocol log.

Each may have prefixes, be inside a text of any JSON, span several lines, and be cut into pieces by
a container runtime. Other lines are counted by kind; a damaged line of these formats is a dead
letter.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, tzinfo
from typing import NamedTuple

import msgspec

from brokertwin.protocol.bodies import Int32, Int64
from brokertwin.recordings.formats import (
    client_logs,
    coordinator_lines,
    kroxylicious,
    layouts,
    request_log,
    text_requests,
)
from brokertwin.recordings.formats.clock import LineClock
from brokertwin.recordings.formats.documents import (
    NO_REQUEST,
    NO_RESPONSE,
    NO_TIME,
    OTHER,
    DecodedLine,
    Document,
    Fields,
    Texts,
    UnpairedDocuments,
    UnreadableError,
)
from brokertwin.recordings.formats.kinds import kind_of
from brokertwin.recordings.formats.lines import SourceLine
from brokertwin.recordings.formats.stamps import DateOrder, stamp_of, stamps
from brokertwin.recordings.formats.texts import (
    Around,
    Key,
    Open,
    Part,
    Start,
    abandoned,
    end_in,
    is_complete,
    is_object,
    start_in,
)
from brokertwin.state.core.events import EVENT_BYTES_MAX, Kind, Reason, RequestHeader, refusal_of
from brokertwin.unpacked import LINE_BYTES_MAX

NOT_READ = "not legible when it was captured"
OUTCOMES = ("responseTime", "responseSizeInBytes", "delivered")
"""Fields that show what became of a request that was not legible."""

NO_TIME_DETAIL = "around the request there is no date and time such as 2026-11-21 01:22:27,944"
DOCKER_BYTES_MIN = 16_000
"""Docker cuts lines after 16 KiB."""

NESTING_MAX = 8
BRACES_MAX = 8
"""Maximum number of braces before a quoted request tried as the start of its wrapper."""

TAIL_BYTES = 500
"""Length of text after an entry that is examined."""

KNOWN = frozenset({"id", "broker", "time", "requestHeader", "request", "response", "connection"})


class Origin(NamedTuple):
    """Properties of a file.

    Attributes:
        name: unique among the files read together.
        zone: zone of the JVM that wrote the log.
        is_qualified: connections of captures get the file's name as a prefix.
        texts: accepted text logs.
        date_order: the order of dates such as `05/06/26`.
    """

    name: str
    zone: tzinfo = UTC
    is_qualified: bool = False
    texts: Texts = Texts.NONE
    date_order: Callable[[], DateOrder] = lambda: DateOrder.MONTH_FIRST


class _Captured(msgspec.Struct, rename="camel"):
    request_header: RequestHeader
    time: Int64
    request: msgspec.Raw
    response: msgspec.Raw = NO_RESPONSE
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


class _Docker(msgspec.Struct):
    log: str
    stream: str
    time: str


_docker_decoder = msgspec.json.Decoder(_Docker)
_DOCKER = {"log", "stream", "time"}
_DOCKER_ALL = _DOCKER | {"attrs"}
_captured_decoder = msgspec.json.Decoder(_Captured)
_ended_decoder = msgspec.json.Decoder(_Ended)
_fields_decoder = msgspec.json.Decoder(Fields)

_ENDED = msgspec.json.encode(Kind.DISCONNECT)

Made = Iterator[Document | UnpairedDocuments]
_ERRORS = (msgspec.MsgspecError, UnicodeError, RecursionError, UnreadableError)


class FormatReader:
    """Reads the lines of one file, in order.

    Args:
        source: what is known of the file.
        pairs: pairs the entries of Kroxylicious.
    """

    def __init__(self, source: Origin, pairs: kroxylicious.Pairs | None = None) -> None:
        self._source = source
        self._clock = LineClock(source.zone, source.date_order)
        self._pairs = pairs if pairs is not None else kroxylicious.Pairs()
        self._open: dict[Key, Open] = {}
        self._pieces: dict[Key, tuple[Around, bytearray]] = {}
        self._has_line_ends = False
        self._clients: dict[str, client_logs.Exchanges] = {}
        self._elements = layouts.Elements()
        self._heading = ""
        self._place = ""
        self._count = 0

    @property
    def unknown_zones(self) -> set[str]:
        """Names of unknown time zones in the log."""
        return self._clock.unknown_zones

    @property
    def is_between_entries(self) -> bool:
        """Whether no line before is incomplete, and none of `tail -v` named the file."""
        return not (self._open or self._pieces or self._heading)

    def time_of(self, minute: bytes, ms: int) -> int | None:
        """The time of a line in Kafka's default layout, in ms since 1970; None if it has none."""
        return self._clock.in_minute(minute, ms)

    def read(self, lines: Iterator[SourceLine], is_whole: bool) -> Made:
        """Yield documents; each line is in one of them or left with a reason.

        Args:
            lines: the lines after those read before.
            is_whole: whether no line follows, so that what is incomplete stays so.
        """
        for line in lines:
            decoded = self._decoded(line) if isinstance(line, DecodedLine) else None
            made = decoded or self.usual(line)
            if made is not None:
                yield made
            else:
                yield from self._guarded(line, self._take(line))
        if not is_whole:
            return
        for around, text in list(self._pieces.values()):
            yield from self._guarded(around.line, self._entry(around, bytes(text)))
        for opened in self._open.values():
            yield abandoned(opened)
        yield from self._pairs.rest()
        for clients in self._clients.values():
            yield from clients.rest()

    def usual(self, line: SourceLine) -> Document | UnpairedDocuments | None:
        """Return what a whole line in Kafka's default layout holds, as `_take` finds it.

        None for lines that `_take` has to read: other layouts, pieces, damaged lines.
        """
        entry = self.usual_entry(line.text) if self.is_between_entries else None
        if entry is None:
            return None
        place, (time, text) = line.place, entry
        made: Document | UnpairedDocuments | None
        made = request_log.usual_document(line, place, text, time)
        if made is None:
            try:
                made = request_log.document_of(line, place, text, time)
                if isinstance(made, Document):
                    _check(made)
            except _ERRORS:
                return None
        self._place, self._count = place, 1
        return made

    def usual_entry(self, text: bytes) -> tuple[int, bytes] | None:
        """Return the time and the JSON of a whole line in Kafka's default layout; None for others.

        The time is in ms since 1970.
        """
        head = request_log.HEAD.match(text)
        if head is None or not text.endswith(request_log.ENDS) or not text.isascii():
            return None
        begin = head.end() - 1
        end = text.rindex(b"}") + 1
        if end - begin > EVENT_BYTES_MAX:
            return None
        minute, seconds, fraction = head.groups()
        time = self._clock.in_minute(minute, int(seconds) * 1000 + int(fraction))
        return None if time is None else (time, text[begin:end])

    def _decoded(self, line: DecodedLine) -> Document | None:
        """Return the document of a decoded line; None if lines before it change its meaning."""
        if not self.is_between_entries:
            return None
        if self._clock.in_minute(*request_log.minute_of(line.text)) != line.sent:
            return None
        self._place, self._count = line.document.place, 1
        return line.document

    def _guarded(self, line: SourceLine, made: Made) -> Made:
        try:
            yield from made
        except _ERRORS as error:
            yield dead_letter(line, error)

    def _take(self, line: SourceLine) -> Made:
        text = line.text.rstrip(b"\r\n")
        if len(text) > LINE_BYTES_MAX:
            raise UnreadableError(Reason.TOO_LARGE, f"more than {LINE_BYTES_MAX} bytes in a line")
        if b"\x1b[" in text:
            text = layouts.COLOURS.sub(b"", text)
        heading = layouts.heading_of(text) if text.startswith(b"==> ") else None
        if heading is not None:
            self._heading = heading
            yield UnpairedDocuments(line, OTHER, is_dead=False)
            return
        yield from self._framed(Around(line, (), label=self._heading), text)

    def _framed(self, around: Around, text: bytes) -> Made:
        """Handle a text that may have prefixes or be a piece from a container runtime."""
        frame = layouts.unframed(text)
        around = around._replace(
            key=(*around.key, frame.label, frame.stream),
            head=around.head + frame.head,
            label=frame.label or around.label,
        )
        if frame.stream:
            yield from self._piece(around, frame.text, frame.is_partial)
            return
        times = self._elements.before(around.key, frame.text)
        around = around._replace(stamps=(*times, *around.stamps))
        yield from self._continued(around, frame.text)

    def _piece(self, around: Around, text: bytes, is_partial: bool) -> Made:
        """Handle a container's output line or a part of it."""
        first, pieces = self._pieces.pop(around.key, (around, bytearray()))
        if pieces and layouts.begins_like(text, pieces):
            yield from self._guarded(first.line, self._framed(first, bytes(pieces)))
            first, pieces = around, bytearray()
        pieces += text
        if is_partial and len(pieces) <= LINE_BYTES_MAX:
            self._pieces[around.key] = first, pieces
        else:
            yield from self._framed(first, bytes(pieces).rstrip(b"\r\n"))

    def _continued(self, around: Around, text: bytes) -> Made:
        opened = self._open.pop(around.key, None)
        if opened is None:
            yield from self._entry(around, text)
        elif opened.is_ended_by(text):
            yield abandoned(opened, text)
            yield from self._entry(around, text)
        elif opened.add(text):
            yield from self._guarded(
                opened.around.line, self._entry(opened.around, bytes(opened.text))
            )
        elif len(opened.text) > LINE_BYTES_MAX:
            yield abandoned(opened)
        else:
            self._open[around.key] = opened

    def _entry(self, around: Around, text: bytes) -> Made:
        """Handle a text with zero or more entries."""
        if around.depth > NESTING_MAX:
            raise UnreadableError("nested", f"the line is in more than {NESTING_MAX} wrappers")
        try:
            text.decode("utf-8")
        except UnicodeDecodeError:
            kind = kind_of(text) if b"\0" in text else None
            if kind is None:
                raise
            raise UnreadableError(kind.name) from None
        at = 0
        while (start := start_in(text, at)) is not None:
            if start.quote:
                yield from self._quoted(around, text, start)
                return
            scan = layouts.Scan()
            end = end_in(text, start.at, scan) if at == 0 else scan.end_in(text, start.at)
            if end is None:
                self._open[around.key] = Open(around, text, start.is_request, scan)
                return
            part = Part(text[at : start.at], text[start.at : end], text[end : end + TAIL_BYTES])
            if start.is_request:
                yield from self._guarded(around.line, self._completed(around, part))
            elif kroxylicious.ENTRY_START.match(part.json):
                yield from self._guarded(around.line, self._exchanged(around, part))
            else:
                yield from self._guarded(around.line, self._object(around, part))
            at = end
        if at == 0:
            yield from self._other(around, Part(b"", text, b""))

    def _quoted(self, around: Around, text: bytes, start: Start) -> Made:
        """Handle a request in a quoted text: JSON after a prefix, a table, a field."""
        around = around._replace(depth=around.depth + 1)
        unfinished: Open | None = None
        brace = -1
        for _ in range(BRACES_MAX if start.quote != b'""' else 0):
            brace = text.find(b"{", brace + 1, start.at)
            if brace < 0:
                break
            scan = layouts.Scan()
            end = scan.end_in(text, brace)
            if end is None:
                unfinished = unfinished or Open(around, text, False, scan)
            elif end > start.at and is_object(text[brace:end]):
                part = Part(text[:brace], text[brace:end], text[end : end + TAIL_BYTES])
                yield from self._object(around, part)
                return
        plain = layouts.unescaped(text, start.quote)
        if unfinished is not None and not is_complete(plain):
            self._open[around.key] = unfinished
        else:
            yield from self._entry(around, plain)

    def _completed(self, around: Around, part: Part) -> Made:
        """Handle a line of Kafka's request log."""
        time = self._time(around, part)
        if time is None:
            raise UnreadableError(NO_TIME, NO_TIME_DETAIL)
        if len(part.json) > EVENT_BYTES_MAX:
            raise _too_large(len(part.json))
        made = request_log.document_of(around.line, self._placed(around.line), part.json, time)
        if isinstance(made, Document):
            made.label = around.label
            _check(made)
        yield made

    def _exchanged(self, around: Around, part: Part) -> Made:
        """Handle an entry of Kroxylicious' protocol log."""
        match = kroxylicious.SESSION.search(part.tail)
        session = match[1].decode("utf-8", "replace") if match else around.session
        time = self._time(around, part)
        entry = kroxylicious.Wrapped(
            around.line, time, session, part.json, self._clock.unit_ms, around.label
        )
        yield from self._pairs.take(entry)

    def _time(self, around: Around, part: Part) -> int | None:
        return self._clock.ms(around.head + part.head, part.tail, around.stamps)

    def _object(self, around: Around, part: Part) -> Made:
        """Handle a capture's document, or JSON that wraps an entry."""
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
            yield self._undecoded(line, part.json, fields)
        elif bytes(fields.get("kind", b"")) == _ENDED:
            yield self._ended(line, part.json)
        elif _DOCKER <= fields.keys() <= _DOCKER_ALL:
            yield from self._of_docker(around, part)
        elif "totalTimeMs" not in fields and ("requestHeader" in fields or fields.keys() <= KNOWN):
            if len(part.json) > EVENT_BYTES_MAX:
                raise _too_large(len(part.json))
            yield self._captured(line, part.json, fields)
        else:
            yield from self._unwrapped(around, part)

    def _of_docker(self, around: Around, part: Part) -> Made:
        """Handle a line of Docker's json-file; without a line end it continues."""
        record = _docker_decoder.decode(part.json)
        text, time = record.log.encode(), stamp_of(record.time)
        is_ended = text.endswith(b"\n")
        self._has_line_ends |= is_ended
        is_partial = not is_ended and (self._has_line_ends or len(text) >= DOCKER_BYTES_MIN)
        inside = around._replace(
            key=(*around.key, record.stream, "log"),
            head=b"",
            stamps=(
                *((time,) if time is not None else ()),
                *around.stamps,
                *stamps(around.head + part.head),
            ),
            depth=around.depth + 1,
        )
        yield from self._piece(inside, text, is_partial)

    def _unwrapped(self, around: Around, part: Part) -> Made:
        """Handle the entries in a wrapper; copies in other fields are dropped."""
        value = msgspec.json.decode(part.json)
        stream = (around.key, layouts.find_field(value, "stream"))
        text_stamps = stamps(around.head + part.head)
        made: list[_Found] = []
        opened: dict[Key, tuple[int, ...]] = {}
        is_entry = False
        for found in layouts.inner(value, lambda path: (*stream, *path) in self._open):
            is_entry = True
            inside = around._replace(
                key=(*stream, *found.path),
                head=b"",
                stamps=(*found.stamps, *around.stamps, *text_stamps),
                label=found.label or around.label,
                session=layouts.find_field(value, "sessionId") or around.session,
                depth=around.depth + 1,
            )
            if isinstance(found.value, str):
                text = found.value.rstrip("\r\n").encode()
                entries = self._guarded(around.line, self._continued(inside, text))
            else:
                body = Part(b"", msgspec.json.encode(found.value), b"")
                entries = self._guarded(around.line, self._completed(inside, body))
            before = self._open.get(inside.key)
            former = opened.get(inside.key, found.place)
            for each in entries:
                place = found.place if isinstance(each, Document) else former
                made.append(_Found(found.path, place, each))
            if self._open.get(inside.key) is not before:
                opened[inside.key] = found.place
        whole = {each.place for each in made if isinstance(each.entry, Document)}
        for key, place in opened.items():
            if place in whole:
                self._open.pop(key, None)
        yield from _distinct(made)
        lefts = {
            (left.line, left.reason, place): left
            for _, place, left in made
            if isinstance(left, UnpairedDocuments)
        }
        for (line, _, place), left in lefts.items():
            if not (left.is_dead and place in whole and line == around.line):
                yield left
        if not is_entry:
            yield from self._other(around, part)

    def _other(self, around: Around, part: Part) -> Made:
        """Handle a line of a text log, or one without an exchange."""
        made = self._of_text(around, part) if self._source.texts else None
        if made is None:
            yield self._left(around, part)
        else:
            yield from made

    def _of_text(self, around: Around, part: Part) -> Made | None:
        """Return the exchange that a text log line completes; None for other lines."""
        old = text_requests.MARKS.search(part.json)
        mark = old or client_logs.MARKS.search(part.json)
        is_log = old is not None and old[0].startswith(request_log.MARK)
        if mark is None or (self._source.texts < Texts.ALL and not is_log):
            return None
        field = layouts.field_at(part.json, mark.start())
        if field is not None:
            head, text = field
            inside = around._replace(head=around.head + part.head + head, depth=around.depth + 1)
            return self._entry(inside, text)
        has_tail = (
            part.json.startswith(b"{") or client_logs.TIME_BEHIND.search(part.json) is not None
        )
        tail = part.json[mark.start() : mark.end() + TAIL_BYTES] if has_tail else b""
        time = self._time(around, Part(part.head + part.json[: mark.start()], b"", tail))
        if time is None:
            raise UnreadableError(NO_TIME, NO_TIME_DETAIL)
        place = self._placed(around.line)
        if old is None:
            process = str(next(iter(around.key), ""))
            clients = self._clients.setdefault(process, client_logs.Exchanges(process))
            return clients.take(around.line, place, part.json, time, self._clock.unit_ms)
        said = part.json.decode("utf-8", "replace")
        made = text_requests.document_of(around.line, place, said, time)
        if isinstance(made, Document):
            made.label = around.label
        return iter((made,))

    def _left(self, around: Around, part: Part) -> UnpairedDocuments:
        """Describe a line without an exchange; a coordinator's line with its content."""
        mark = part.json.find(request_log.MARK)
        if mark >= 0:
            request_log.start_of(part.json, mark)  # raises for text
        kind = kind_of(part.json)
        left = UnpairedDocuments(
            around.line, kind.name if kind is not None else OTHER, is_dead=False
        )
        match = coordinator_lines.FORM.search(part.json)
        if match is None:
            return left
        start = part.json[: match.start()]
        time = self._time(around, part._replace(head=part.head + start, tail=b""))
        event = (
            coordinator_lines.logged(around.line.place, part.json, time)
            if time is not None
            else None
        )
        return left._replace(logged=event)

    def _placed(self, line: SourceLine) -> str:
        """Return an exchange id: file and line, then a number for further ones."""
        place = line.place
        self._count = self._count + 1 if place == self._place else 1
        self._place = place
        return place if self._count == 1 else f"{place}.{self._count}"

    def _captured(self, line: SourceLine, text: bytes, fields: Fields) -> Document:
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
        requested = captured.request_header, captured.request
        document = self._document(line, captured, requested, captured.response)
        document.fields = fields
        _check(document)
        return document

    def _undecoded(self, line: SourceLine, text: bytes, fields: Fields) -> UnpairedDocuments:
        """Describe a captured request whose body was not legible; its header may be."""
        left = UnpairedDocuments(line, NOT_READ, is_dead=False)
        if bytes(fields.get("requestHeader", b"null")) == b"null":
            return left
        captured = _captured_decoder.decode(text)
        requested = captured.request_header, msgspec.Raw(b"{}")
        document = self._document(line, captured, requested, NO_RESPONSE)
        document.fields = {name: fields[name] for name in OUTCOMES if name in fields}
        return left._replace(api=document.api, undecoded=document)

    def _ended(self, line: SourceLine, text: bytes) -> Document:
        ended = _ended_decoder.decode(text)
        if not ended.connection:
            raise UnreadableError(Reason.MISSING_FIELD, "a connection ends that has no name")
        document = self._document(line, ended, NO_REQUEST, NO_RESPONSE)
        return msgspec.structs.replace(document, kind=Kind.DISCONNECT)

    def _document(
        self,
        line: SourceLine,
        said: _Captured | _Ended,
        requested: tuple[RequestHeader, msgspec.Raw],
        response: msgspec.Raw,
    ) -> Document:
        """Return a capture's document with its connection's name qualified."""
        header, request = requested
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
            fields={},
        )


class _Found(NamedTuple):
    """A document in a wrapper: its path, the place of its record, the entry."""

    path: Key
    place: tuple[int, ...]
    entry: Document | UnpairedDocuments


def _distinct(made: Sequence[_Found]) -> list[Document]:
    """The distinct documents in a wrapper; copies in other fields are dropped."""
    found: dict[tuple[object, ...], Key] = {}
    kept = []
    for path, _, each in made:
        if isinstance(each, Document):
            duration = bytes(each.rest.get("responseTime", b""))
            what = (each.connection, each.header.correlation_id, duration)
            if found.setdefault(what, path) == path:
                kept.append(each)
    return kept


def _too_large(size: int) -> UnreadableError:
    return UnreadableError(Reason.TOO_LARGE, f"{size} bytes; at most {EVENT_BYTES_MAX} are read")


def _check(document: Document) -> None:
    """Raise UnreadableError for an undecodable body."""
    if not bytes(document.request).lstrip().startswith(b"{"):
        raise UnreadableError(Reason.WRONG_TYPE, "Expected `object` - at `$.request`")
    if bytes(document.response).lstrip()[:1] not in (b"{", b"n", b""):
        raise UnreadableError(Reason.WRONG_TYPE, "Expected `object` or null - at `$.response`")


def dead_letter(line: SourceLine, error: Exception) -> UnpairedDocuments:
    if isinstance(error, UnreadableError):
        return UnpairedDocuments(line, error.reason, error.detail)
    refusal = refusal_of(error)
    return UnpairedDocuments(line, refusal.reason, refusal.detail)
