"""Kafka's own request log: `kafka.request.logger` at DEBUG, of Kafka 2.8 and later (KAFKA-10525).

    [2026-11-21 01:22:27,944] DEBUG Completed request:{...} (kafka.request.logger)

A line is written when the answer has been sent, so lines are in order of completion. Its time less
`totalTimeMs` is when the request had arrived, to about a millisecond: the log has whole ones, and
writing takes its time, too. What stands before and behind the JSON is the layout's; a time has to
be there.

Source: `RequestChannel.updateRequestMetrics`, `RequestConvertToJson` in Kafka.
"""

import math

import msgspec

from brokertwin.state.core.events import RequestHeader
from brokertwin.streaming.ingest.documents import (
    Document,
    Fields,
    UnreadableError,
    raw,
)
from brokertwin.streaming.lines import Line

MARK = b"Completed request:"
DURATION_MAX_MS = 86_400_000.0
"""A longer time to answer is taken for a mistake."""

KNOWN = frozenset({"requestHeader", "request", "response", "connection", "totalTimeMs"})


class _Completed(msgspec.Struct, rename="camel"):
    request_header: RequestHeader
    request: msgspec.Raw
    connection: str
    total_time_ms: float
    response: msgspec.Raw = msgspec.Raw(b'""')


_decoder = msgspec.json.Decoder(_Completed)
_fields_decoder = msgspec.json.Decoder(Fields)


def document_of(line: Line, message: bytes, time: int) -> Document:
    """The document of a completed request.

    Args:
        line: where it lies.
        message: the text from `MARK` on.
        time: of the line, in ms since 1970.

    Raises:
        UnreadableError: it is damaged.
        msgspec.MsgspecError: it is no JSON, or not of this shape.
    """
    body = message[len(MARK) :]
    start, end = body.find(b"{"), body.rfind(b"}")
    if body[:13] == b"RequestHeader":
        raise UnreadableError("the request log of a Kafka before 2.8, which is no JSON")
    if start < 0 or end < 0:
        raise UnreadableError("cut", "the line has no whole JSON object")
    text = body[start : end + 1]
    completed = _decoder.decode(text)
    duration = completed.total_time_ms
    check_duration("totalTimeMs", duration)
    rest = _fields_decoder.decode(text)
    for name in KNOWN:
        rest.pop(name, None)
    rest = {
        "responseTime": raw(duration),
        **rest,
        "host": raw(host_of(completed.connection)),
        "principalIsAsserted": msgspec.Raw(b"true"),
    }
    return Document(
        place=f"{line.file}:{line.number}",
        source=line.file,
        time=time - math.ceil(duration),
        broker=None,
        is_from_log=True,
        connection=completed.connection,
        header=completed.request_header,
        request=completed.request,
        response=_answer(completed),
        rest=rest,
    )


def check_duration(name: str, ms: float) -> None:
    """Raises UnreadableError for a time to answer that cannot be."""
    if not 0 <= ms <= DURATION_MAX_MS:
        raise UnreadableError(
            "impossible time", f"{name} is {ms}; it is how many ms the answer took, 0 to a day"
        )


def _answer(completed: _Completed) -> msgspec.Raw:
    """Kafka writes an empty text where there is no answer: a Produce with acks 0."""
    is_text = bytes(completed.response).strip() == b'""'
    return msgspec.Raw(b"null") if is_text else completed.response


def host_of(connection: str) -> str:
    """The client's address in `<local>:<port>-<remote>:<port>-<processor>-<number>`.

    It is as ACLs have it: no name, no port. Empty where the connection is of another form.
    """
    parts = connection.split("-")
    host, colon, port = parts[1].rpartition(":") if len(parts) > 2 else ("", "", "")
    return host if colon and port.isdigit() else ""
