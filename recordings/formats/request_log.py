"""Kafka's own request log: `kafka.request.logger` at DEBUG, of Kafka 2.8 and later (KAFKA-10525).

    [2026-11-21 01:22:27,944] DEBUG Completed request:{...} (kafka.request.logger)

A line is written when the answer has been sent, so lines are in order of completion. Its time less
`totalTimeMs` is when the request had arrived, to about a millisecond: the log has whole ones, and
writing takes its time, too. What stands before and behind the JSON is the layout's; a time has to
be there.

Source: `RequestChannel.updateRequestMetrics`, `RequestConvertToJson` in Kafka.
"""

import math
import re

import msgspec

from brokertwin.recordings.formats.documents import (
    Document,
    Fields,
    Left,
    UnreadableError,
    api_name,
    raw,
)
from brokertwin.recordings.formats.lines import Line
from brokertwin.recordings.formats.older_names import renamed
from brokertwin.state.core.events import RequestHeader

MARK = b"Completed request:"
DURATION_MAX_MS = 86_400_000.0
"""A longer time to answer is taken for a mistake."""

BEFORE_28 = "text request log of a Kafka before 2.8"
NOT_LOGGED = "Kafka logged the request without its body"

KNOWN = frozenset({"requestHeader", "request", "response", "connection", "totalTimeMs"})


class _Completed(msgspec.Struct, rename="camel"):
    request_header: RequestHeader
    request: msgspec.Raw
    connection: str
    total_time_ms: float
    response: msgspec.Raw = msgspec.Raw(b'""')


_OLDER = re.compile(rb"(?:RequestHeader\(|Name: ?)")
_decoder = msgspec.json.Decoder(_Completed)
_fields_decoder = msgspec.json.Decoder(Fields)


def start_of(text: bytes, mark: int) -> int:
    """The offset of the JSON behind the mark.

    Raises:
        UnreadableError: there is none, as in the request log of an older Kafka.
    """
    at = mark + len(MARK)
    while text[at : at + 1].isspace():
        at += 1
    if text[at : at + 1] == b"{":
        return at
    if _OLDER.match(text, at):
        raise UnreadableError(BEFORE_28, "its lines are text; Kafka 2.8 and later write JSON")
    raise UnreadableError("cut", "the line has no whole JSON object")


def document_of(line: Line, place: str, text: bytes, time: int) -> Document | Left:
    """The document of a completed request.

    Args:
        line: where it lies.
        place: its id.
        text: the JSON object.
        time: of the line, in ms since 1970.

    Raises:
        UnreadableError: it is damaged.
        msgspec.MsgspecError: it is no JSON, or not of this shape.
    """
    completed = _decoder.decode(text)
    duration = completed.total_time_ms
    check_duration("totalTimeMs", duration)
    header = completed.request_header
    if _is_empty(completed.request):
        return Left(line, NOT_LOGGED, api=api_name(header.request_api_key), is_dead=False)
    rest = _fields_decoder.decode(text)
    for name in KNOWN:
        rest.pop(name, None)
    rest = {
        "responseTime": raw(duration),
        **rest,
        "host": raw(host_of(completed.connection)),
        "principalIsAsserted": msgspec.Raw(b"true"),
    }
    is_unanswered = _is_empty(completed.response)
    request, response = renamed(
        header.request_api_key,
        completed.request,
        msgspec.Raw(b"null") if is_unanswered else completed.response,
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
        rest=rest,
    )


def _is_empty(body: msgspec.Raw) -> bool:
    """Whether Kafka logged an empty text for a body.

    It does so for the response of a Produce with acks 0, and for an AlterConfigs of loggers.
    """
    return bytes(body).strip() == b'""'


def check_duration(name: str, ms: float) -> None:
    """Raises UnreadableError for a time to answer that cannot be."""
    if not 0 <= ms <= DURATION_MAX_MS:
        raise UnreadableError(
            "impossible time", f"{name} is {ms}; it is how many ms the answer took, 0 to a day"
        )


def host_of(connection: str) -> str:
    """The client's address in `<local>:<port>-<remote>:<port>-<processor>-<number>`.

    It is as ACLs have it: no name, no port. Empty where the connection is of another form.
    """
    parts = connection.split("-")
    host, colon, port = parts[1].rpartition(":") if len(parts) > 2 else ("", "", "")
    return host if colon and port.isdigit() else ""
