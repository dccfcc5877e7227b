"""Kafka's request log: `kafka.request.logger` at DEBUG (KAFKA-10525).

    [2026-11-21 01:22:27,944] DEBUG Completed request:{...} (kafka.request.logger)

Kafka 2.8 and later writes a line after the response is sent, so lines are in order of completion.
The arrival is the line's time minus `totalTimeMs`, accurate to about a millisecond. The text around
the JSON depends on the layout, and must have a time.

Source: `RequestChannel.updateRequestMetrics`, `RequestConvertToJson` in Kafka.
"""

import math
from functools import lru_cache

import msgspec

from brokertwin.patterns import later
from brokertwin.recordings.formats.documents import (
    Details,
    Document,
    Fields,
    UnpairedDocuments,
    UnreadableError,
    api_name,
    has_spaces,
    raw,
)
from brokertwin.recordings.formats.lines import SourceLine
from brokertwin.recordings.formats.older_names import renamed
from brokertwin.state.core.events import RequestHeader

MARK = b"Completed request:"
HEAD = later(rb"\[(\d{4}-\d\d-\d\d \d\d:\d\d):([0-5]\d),(\d{3})\] [A-Z]{4,5} Completed request:\{")
"""The beginning of a line in Kafka's default layout: minute, second, ms."""

ENDS = (b"} (kafka.request.logger)\n", b"} (kafka.request.logger)\r\n")
DURATION_MAX_MS = 86_400_000.0
"""Longer durations are treated as errors."""

BEFORE_28 = "text request log of a Kafka before 2.8"
BEFORE_011 = "request log of a Kafka before 0.11"
NOT_LOGGED = "Kafka logged the request without its body"

KNOWN = frozenset({"requestHeader", "request", "response", "connection", "totalTimeMs"})


class _LoggedHeader(RequestHeader, forbid_unknown_fields=False):
    """The header as a release of Kafka writes it, which may have further fields."""


class Usual(msgspec.Struct, rename="camel", forbid_unknown_fields=True, gc=False):
    """A line of Kafka 2.8 or later, with no other fields than these."""

    request_header: RequestHeader
    request: msgspec.Raw
    response: msgspec.Raw
    connection: str
    total_time_ms: float
    request_queue_time_ms: float = 0.0
    local_time_ms: float = 0.0
    remote_time_ms: float = 0.0
    throttle_time_ms: float = 0.0
    response_queue_time_ms: float = 0.0
    send_time_ms: float = 0.0
    listener: str = ""
    principal: str = "User:ANONYMOUS"
    is_forwarded: bool = False
    security_protocol: str = ""
    client_information: msgspec.Raw = msgspec.Raw()
    temporary_memory_bytes: msgspec.Raw = msgspec.Raw()
    message_conversions_time: msgspec.Raw = msgspec.Raw()


class _Completed(msgspec.Struct, rename="camel"):
    request_header: _LoggedHeader
    request: msgspec.Raw
    connection: str
    total_time_ms: float
    response: msgspec.Raw = msgspec.Raw(b'""')


_OLDER = later(rb"RequestHeader\(")
_OLDEST = later(rb"Name: ?|\{api_key=")
_usual_decoder = msgspec.json.Decoder(Usual)
_decoder = msgspec.json.Decoder(_Completed)
_fields_decoder = msgspec.json.Decoder(Fields)


def minute_of(text: bytes) -> tuple[bytes, int]:
    """Return the minute of a line that `HEAD` matches, and the time in it in ms."""
    return text[1:17], int(text[18:20]) * 1000 + int(text[21:24])


def start_of(text: bytes, mark: int) -> int:
    """Return the offset of the JSON after the mark.

    Raises:
        UnreadableError: there is none, as in request logs of older Kafka releases.
    """
    at = mark + len(MARK)
    while text[at : at + 1].isspace():
        at += 1
    if _OLDEST.match(text, at):
        raise UnreadableError(BEFORE_011, "its lines have no responses and other names")
    if text[at : at + 1] == b"{":
        return at
    if _OLDER.match(text, at):
        raise UnreadableError(BEFORE_28, "its lines are text; Kafka 2.8 and later write JSON")
    raise UnreadableError("cut", "the line has no whole JSON object")


def usual_of(text: bytes) -> Usual | None:
    """Decode a line with the usual fields, whose bodies are objects; None for others."""
    try:
        usual = _usual_decoder.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    are_objects = bytes(usual.request).startswith(b"{") and bytes(usual.response).startswith(b"{")
    if not are_objects or not 0 <= usual.total_time_ms <= DURATION_MAX_MS:
        return None
    key = usual.request_header.request_api_key
    usual.request, usual.response = renamed(key, usual.request, usual.response)
    return usual


def usual_document(line: SourceLine, place: str, text: bytes, time: int) -> Document | None:
    """Create the document of a line with the usual fields, decoded once; None for others.

    It has what `document_of` returns. Its other fields are read when they are needed.
    """
    usual = usual_of(text)
    if usual is None:
        return None
    duration = usual.total_time_ms
    return Document(
        place,
        line.file,
        time - math.ceil(duration),
        None,
        True,
        usual.connection,
        usual.request_header,
        usual.request,
        usual.response,
        lambda: _rest_of(text, duration, usual.connection),
        read=Details(
            duration,
            usual.principal,
            host_of(usual.connection),
            usual.listener,
            usual.is_forwarded,
            False,
            usual.request_queue_time_ms,
            usual.local_time_ms,
            usual.remote_time_ms,
            usual.response_queue_time_ms,
            usual.send_time_ms,
        ),
        is_compact=not has_spaces(text),
    )


def document_of(
    line: SourceLine, place: str, text: bytes, time: int
) -> Document | UnpairedDocuments:
    """Create the document of a completed request.

    Args:
        line: its line.
        place: its id.
        text: the JSON object.
        time: of the line, in ms since 1970.

    Raises:
        UnreadableError: it is damaged.
        msgspec.MsgspecError: it is not JSON, or has another shape.
    """
    completed = _decoder.decode(text)
    duration = completed.total_time_ms
    check_duration("totalTimeMs", duration)
    header = RequestHeader(*msgspec.structs.astuple(completed.request_header))
    if _is_empty(completed.request):
        return UnpairedDocuments(
            line, NOT_LOGGED, api=api_name(header.request_api_key), is_dead=False
        )
    rest = _rest_of(text, duration, completed.connection)
    has_no_response = _is_empty(completed.response)
    request, response = renamed(
        header.request_api_key,
        completed.request,
        msgspec.Raw(b"null") if has_no_response else completed.response,
    )
    return Document(
        place=place,
        source=line.file,
        time=time - math.ceil(duration),
        broker=None,
        is_from_log=True,
        connection=completed.connection,
        header=header,
        request=request,
        response=response,
        fields=rest,
    )


def _rest_of(text: bytes, duration: float, connection: str) -> Fields:
    rest = _fields_decoder.decode(text)
    for name in KNOWN:
        rest.pop(name, None)
    return {
        "responseTime": raw(duration),
        **rest,
        "host": raw(host_of(connection)),
        "principalIsAsserted": msgspec.Raw(b"true"),
    }


def _is_empty(body: msgspec.Raw) -> bool:
    """Whether Kafka logged an empty text for a body.

    It does so for the response of a Produce with acks 0, and for AlterConfigs of loggers.
    """
    return bytes(body).strip() == b'""'


def check_duration(name: str, ms: float) -> None:
    """Raises UnreadableError for an impossible duration."""
    if not 0 <= ms <= DURATION_MAX_MS:
        raise UnreadableError(
            "impossible time", f"{name} is {ms}; it is how many ms the response took, 0 to a day"
        )


@lru_cache(maxsize=10_000)
def host_of(connection: str) -> str:
    """The client's address in `<local>:<port>-<remote>:<port>-<processor>-<number>`.

    It has no port, as in ACLs. Empty for other forms.
    """
    parts = connection.split("-")
    host, colon, port = parts[1].rpartition(":") if len(parts) > 2 else ("", "", "")
    return host if colon and port.isdigit() else ""
