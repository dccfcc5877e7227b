"""Which recording a line belongs to, and the document that it becomes.

Every line is looked at by itself, so a file may mix them with other log lines:

- `Completed request:` is Kafka's request log, in text or inside a JSON layout's `message`;
- an object with a `requestHeader`, or the `kind` of a connection's end, is a document as captures
  have it;
- an object whose `message` is an entry, or a line that ends where an entry begins, is Kroxylicious'
  protocol log.

Anything else is another line of the log, where there has been one with a time; a line that should
be one of those above and is damaged is dead.
"""

from collections.abc import Iterator
from datetime import UTC, tzinfo
from typing import Any, NamedTuple

import msgspec

from brokertwin.state.core.events import EVENT_BYTES_MAX, Kind, Reason, RequestHeader, refusal_of
from brokertwin.state.core.schema import Int32, Int64
from brokertwin.streaming.ingest import kroxylicious, request_log
from brokertwin.streaming.ingest.clock import TIMESTAMP, Clock
from brokertwin.streaming.ingest.documents import (
    NO_REQUEST,
    NOT_ANSWERED,
    Document,
    Fields,
    Left,
    UnreadableError,
)
from brokertwin.streaming.lines import Line

OTHER = "another log line"
CUT = "cut"
NOT_READ = "not legible when it was captured"
PREFIX_BYTES_MAX = 200
"""Where in a line its time has to begin."""

KNOWN = frozenset({"id", "broker", "time", "requestHeader", "request", "response", "connection"})


class Origin(NamedTuple):
    """What is known of a file.

    Attributes:
        name: the file's, unique among those read together.
        zone: of the JVM that wrote the log.
        is_qualified: whether connections of captures need the file's name before theirs, because
            several files are read together.
    """

    name: str
    zone: tzinfo = UTC
    is_qualified: bool = False


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


class _Wrapped(msgspec.Struct, rename="camel"):
    """A line of a JSON layout: Logstash's, as Kroxylicious' and Kafka's Log4j can write it."""

    message: str
    timestamp: str = msgspec.field(name="@timestamp", default="")
    session_id: str = ""
    mdc: dict[str, Any] = {}


class _Ended(msgspec.Struct, rename="camel"):
    time: Int64
    connection: str
    id: str = ""
    broker: Int32 | None = None


_captured_decoder = msgspec.json.Decoder(_Captured)
_ended_decoder = msgspec.json.Decoder(_Ended)
_wrapped_decoder = msgspec.json.Decoder(_Wrapped)
_fields_decoder = msgspec.json.Decoder(Fields)

_ENDED = msgspec.json.encode(Kind.DISCONNECT)

_ERRORS = (msgspec.MsgspecError, UnicodeError, RecursionError, UnreadableError)


class Reader:
    """Reads the lines of one file, in order.

    Args:
        source: what is known of the file.
    """

    def __init__(self, source: Origin) -> None:
        self._source = source
        self._clock = Clock(source.zone)
        self._pairs = kroxylicious.Pairs()
        self._entry: _Open | None = None
        self._is_log = False

    def read(self, lines: Iterator[Line]) -> Iterator[Document | Left]:
        """What the lines become; each line is in one document or is left with a reason."""
        for line in lines:
            try:
                yield from self._take(line)
            except _ERRORS as error:
                yield dead_letter(line, error)
        if self._entry is not None:
            yield _abandoned(self._entry)
        yield from self._pairs.rest()

    def _take(self, line: Line) -> Iterator[Document | Left]:
        if self._entry is not None:
            yield from self._continue(self._entry, line)
            return
        text = line.text.strip()
        if len(text) > EVENT_BYTES_MAX:
            raise UnreadableError(
                Reason.TOO_LARGE, f"{len(text)} bytes; at most {EVENT_BYTES_MAX} are read"
            )
        has_time = TIMESTAMP.search(text, 0, PREFIX_BYTES_MAX) is not None
        self._is_log = self._is_log or (has_time and not text.startswith(b"{"))
        if text == b"{" or (has_time and text.endswith(b"{")):
            time = self._clock.ms(text[:-1])
            self._entry = _Open(line, time, self._clock.unit_ms, bytearray(b"{"))
            return
        text.decode("utf-8")
        at = -1 if text.startswith(b"{") else text.find(request_log.MARK)
        if at >= 0:
            yield self._completed(line, self._clock.ms(text[:at]), text[at:])
        elif self._is_log and not text.startswith(b"{"):
            yield Left(line, OTHER, is_dead=False)
        else:
            yield from self._object(line, text)

    def _object(self, line: Line, text: bytes) -> Iterator[Document | Left]:
        fields = _fields_decoder.decode(text)
        if "reason" in fields and bytes(fields.get("request", b"null")) == b"null":
            yield Left(line, NOT_READ, is_dead=False)
            return
        if bytes(fields.get("kind", b"")) == _ENDED:
            yield self._ended(line, text)
            return
        if "message" not in fields or "requestHeader" in fields:
            yield self._captured(line, text, fields)
            return
        wrapped = _wrapped_decoder.decode(text)
        message = wrapped.message.encode()
        time = self._clock.ms(wrapped.timestamp.encode())
        if message.startswith(request_log.MARK):
            yield self._completed(line, time, message)
        elif kroxylicious.ENTRY_START.match(message):
            session = wrapped.session_id or str(wrapped.mdc.get("sessionId", ""))
            yield from self._pairs.take(kroxylicious.Wrapped(line, time, session, message))
        else:
            yield Left(line, OTHER, is_dead=False)

    def _continue(self, entry: "_Open", line: Line) -> Iterator[Document | Left]:
        """A further line of an entry that was begun; the brace that ends it stands first."""
        is_first = len(entry.text) == 1
        fits = line.text.lstrip().startswith(b'"header"') if is_first else line.text[:1] in b" }"
        if not fits or len(entry.text) > EVENT_BYTES_MAX:
            self._entry = None
            yield _abandoned(entry)
            yield from self._take(line)
            return
        is_last = line.text.startswith(b"}")
        entry.text += b"}" if is_last else line.text
        if not is_last:
            return
        self._entry = None
        found = kroxylicious.SESSION.search(line.text)
        session = found[1].decode("utf-8", "replace") if found else ""
        wrapped = kroxylicious.Wrapped(
            entry.line, entry.time, session, bytes(entry.text), entry.unit_ms
        )
        try:
            yield from self._pairs.take(wrapped)
        except _ERRORS as error:
            yield dead_letter(entry.line, error)

    def _completed(self, line: Line, time: int | None, message: bytes) -> Document:
        if time is None:
            raise UnreadableError(
                "no time", "before the request there is no time such as 2026-11-21 01:22:27,944"
            )
        document = request_log.document_of(line, message, time)
        return _checked(document)

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
        return _checked(msgspec.structs.replace(document, rest=fields))

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
            place=said.id or f"{line.file}:{line.number}",
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


class _Open:
    """An entry of which not all lines are read yet."""

    def __init__(self, line: Line, time: int | None, unit_ms: int, text: bytearray) -> None:
        self.line = line
        self.time = time
        self.unit_ms = unit_ms
        self.text = text


def _abandoned(entry: _Open) -> Left:
    """An entry that does not go on as entries do; where it had just begun, it was none."""
    if len(entry.text) > 1:
        return Left(entry.line, CUT, "the entry of a protocol log has no end")
    if entry.time is not None:
        return Left(entry.line, OTHER, is_dead=False)
    return Left(entry.line, Reason.NOT_JSON, "Input data was truncated")


def _checked(document: Document) -> Document:
    """Raises UnreadableError where a body is none."""
    if not bytes(document.request).lstrip().startswith(b"{"):
        raise UnreadableError(Reason.WRONG_TYPE, "Expected `object` - at `$.request`")
    if bytes(document.response).lstrip()[:1] not in (b"{", b"n", b""):
        raise UnreadableError(Reason.WRONG_TYPE, "Expected `object` or null - at `$.response`")
    return document


def dead_letter(line: Line, error: Exception) -> Left:
    """A line that cannot be read, and why."""
    if isinstance(error, UnreadableError):
        return Left(line, error.reason, error.detail)
    refusal = refusal_of(error)
    return Left(line, refusal.reason, refusal.detail)
