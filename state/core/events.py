"""Input events: JSON documents in the shape of Kafka's request log.

`decode_event` decodes bytes to an `Event`, or to a `Refusal` that says why not; it never raises.
The request's body stays raw because the API decides its type (`state/apis`). Unknown fields are
refused: a misspelt optional field would otherwise have its default.

    {"id": "g1.7f3a-42", "cluster": "demo", "broker": 1, "time": 1700000000000,
     "requestHeader": {"requestApiKey": 22, "requestApiVersion": 4, ...}, "request": {...}}
"""

from enum import StrEnum
from typing import Any, Final, final

import msgspec

from brokertwin.protocol.bodies import Body, Int16, Int32, Int64, Uuid, shown
from brokertwin.protocol.primitives import STRING_BYTES_MAX

EVENT_BYTES_MAX = 8 * 1024 * 1024
"""A longer document is refused. Requests of Kafka clients without records are much smaller."""

ID_CHARS_MAX = 1000
"""A longer id is refused, and its document gets no response, because ids are headers of rows."""

_WINDOW = (STRING_BYTES_MAX + 1) // 2
_BASE64 = frozenset({"metadata", "assignment", "hmac"})
"""Fields of requests with bytes as base64."""


class Reason(StrEnum):
    """Why a document becomes a dead letter."""

    NOT_UTF8 = "not UTF-8"
    NOT_JSON = "not JSON"
    TOO_LARGE = "too large"
    TOO_DEEP = "too deeply nested"
    OUT_OF_RANGE = "number out of range"
    WRONG_TYPE = "wrong type"
    MISSING_FIELD = "missing field"
    UNKNOWN_FIELD = "unknown field"
    UNKNOWN_API = "unknown API"
    UNSUPPORTED_VERSION = "unsupported version"
    NOT_BUILT = "not built yet"
    UNKNOWN_CLUSTER = "unknown cluster"
    UNKNOWN_BROKER = "unknown broker"
    WRONG_KEY = "key of another cell"
    WRONG_PARTITION = "not in the partition of its key"
    INTERNAL_KIND = "internal kind from outside"
    CLUSTERS_OWN = "request of the cluster itself"
    REPLY_TO = "no such partition of responses"
    OUT_OF_SEQUENCE = "not the next of its sender"
    STEP_LIMIT = "step limit reached"
    NOT_POSSIBLE = "not possible"
    BROKER_STOPPED = "broker is stopped"
    NO_CONTROLLER = "controller is not reached"
    OUTPUT_TOO_LARGE = "output too large"
    FAULT = "fault"


@final
class Refusal(msgspec.Struct, frozen=True):
    """Why an event is not handled, with advice."""

    reason: Reason
    detail: str


class Kind(StrEnum):
    """Kind of an event.

    Only `request`, `disconnect` and `tell-settings` come from outside.

    With `disconnect` the connection of the event has ended, as reported by a gateway or a
    recording. With `tell-settings` a gateway requests its settings (`state/cell/edge_settings.py`).
    """

    REQUEST = "request"
    TICK = "tick"
    COMPLETE = "complete"
    MOVE_LEADER = "move-leader"
    DROP_SESSIONS = "drop-sessions"
    EXPIRE_MEMBERS = "expire-members"
    CLEAN_LOG = "clean-log"
    DISCONNECT = "disconnect"
    TELL_SETTINGS = "tell-settings"
    FORWARD = "forward"
    METADATA = "metadata"
    MESSAGE = "message"
    REPLY = "answer"
    REPLICA_FETCH = "replica-fetch"
    REPLICA_RESPONSE = "replica-answer"
    REGISTRATION = "registration"
    CUT_OFF = "cut-off"
    ISOLATE_BROKER = "isolate-broker"
    REJOIN_BROKER = "rejoin-broker"
    SEVER_BROKER = "sever-broker"
    STOP_BROKER = "stop-broker"
    KILL_BROKER = "kill-broker"
    START_BROKER = "start-broker"
    FAIL_LOG_DIR = "fail-log-dir"


REQUEST: Final = Kind.REQUEST
"""The kind of nearly all events, in a constant that is fast to look up."""

ABOUT_BROKERS = frozenset(
    {
        *(Kind.ISOLATE_BROKER, Kind.SEVER_BROKER, Kind.REJOIN_BROKER),
        *(Kind.STOP_BROKER, Kind.KILL_BROKER, Kind.START_BROKER),
        Kind.FAIL_LOG_DIR,
    }
)
"""Events about a broker: it stops, is killed or starts, or a log directory fails. An isolated one
is cut off from other brokers, a severed one also from the controller, until it rejoins."""

INTERVENTIONS = ABOUT_BROKERS | {Kind.MOVE_LEADER, Kind.DROP_SESSIONS, Kind.EXPIRE_MEMBERS}
"""Interventions in a cluster; only a job that was started with them accepts them."""

BETWEEN_CELLS = frozenset(
    {
        *(Kind.FORWARD, Kind.METADATA, Kind.MESSAGE, Kind.REPLY),
        *(Kind.REPLICA_FETCH, Kind.REPLICA_RESPONSE),
        *(Kind.REGISTRATION, Kind.CUT_OFF),
    }
)
"""Messages between cells of one cluster (`state/cell/between_cells.py`)."""


class RequestHeader(
    msgspec.Struct, rename="camel", omit_defaults=False, forbid_unknown_fields=True
):
    """The header of a request. `client_id` may be null."""

    request_api_key: Int16
    request_api_version: Int16
    correlation_id: Int32 = 0
    client_id: str | None = None
    request_api_key_name: str = ""


class Choices(msgspec.Struct, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """Ids from a recording, for deciding its requests again.

    They replace values derived from the event's nonce, and do not affect whether a request is
    accepted.
    """

    session_id: Int32 | None = None
    producer_id: Int64 | None = None
    member_id: str | None = None
    client_instance_id: Uuid | None = None
    cluster_id: str | None = None
    topic_ids: dict[str, Uuid] = {}
    resolves_regexes: bool | None = None
    """Whether a heartbeat resolves its group's regular expressions if that depends on less than
    `regex_resolution.TIMING_MS`, which a recording does not show."""


NO_CHOICES = Choices()
"""The choices of an event without any; shared, so do not change it."""


class Move(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """In a `move-leader` event: the partition and its new leader."""

    topic: str
    partition: Int32
    leader: Int32


class LogMark(msgspec.Struct, rename="camel", frozen=True):
    """In a `clean-log` event: values that change with a log's batches."""

    log_start_offset: Int64
    cleaned_to: Int64
    leader_epoch: Int32
    sealed: Int32
    first_indexed: Int64


class Event(msgspec.Struct, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """An event, times in ms since 1970. `reply_to`: a `responses` partition."""

    id: str
    cluster: str
    broker: Int32 = 1
    time: Int64 = 0
    kind: Kind = Kind.REQUEST
    connection: str = ""
    principal: str = "User:ANONYMOUS"
    principal_is_asserted: bool = False
    """The principal is from a file and was not authenticated."""
    host: str = ""
    """The address of the client's host, as in ACLs: not a name, without a port."""
    listener: str = ""
    """The name of the client's listener; responses have addresses for that listener."""
    nonce: str = ""
    reply_to: Int32 = 0
    request_header: RequestHeader | None = None
    request: msgspec.Raw = msgspec.Raw(b"null")
    """The body. Within a process it can be a struct, and it and `cleaned` can be dictionaries.

    A struct or a dictionary must not change: a rollback decides the event again.
    """
    choices: Choices | None = None
    is_held: bool = False
    """In a comparison: the request, its metadata records or its messages wait for a `complete`
    event.
    """
    of: str = ""
    """In a `complete` event: the id of the request that resumes; from another cell: the id of the
    event that caused this one.
    """
    move: Move | None = None
    directory: str = ""
    """In a `fail-log-dir` event: one of the broker's `log.dirs`."""
    sessions: list[Int32] = []
    """In a `drop-sessions` event: the ids of fetch sessions to remove."""
    group: str = ""
    members: list[str] = []
    """In an `expire-members` event: a group of the broker, and its members to expire."""
    cleaned: msgspec.Raw = msgspec.Raw(b"null")
    """In a `clean-log` event: the result of a cleaner pass at the edge, a `LogCleaned`."""
    seen: LogMark | None = None
    """In a `clean-log` event: the state of the log at the start of the pass. If it has changed, the
    event has no effect.
    """
    sender: str = ""
    """From another cell: its name; `incarnation` and `sequence` number its events."""
    incarnation: Int64 = 0
    sequence: Int64 = 0
    content: msgspec.Raw = msgspec.field(default=msgspec.Raw(b"null"), name="told")
    """From another cell: the content, by kind."""


class _ReadableHeader(RequestHeader, forbid_unknown_fields=False):
    """The header of a refused request."""


class _Identity(msgspec.Struct, rename="camel"):
    id: str = ""
    cluster: str = ""
    reply_to: Int32 = 0
    connection: str = ""
    request_header: _ReadableHeader | None = None


_event_decoder = msgspec.json.Decoder(Event)
_identity_decoder = msgspec.json.Decoder(_Identity)
_encoder = msgspec.json.Encoder()


def document_of(event: Event | bytes) -> bytes:
    if isinstance(event, bytes):
        return event
    body: Any = event.request
    if isinstance(body, Body) and event.request_header is not None:
        body = shown(body, event.request_header.request_api_version)
        event = msgspec.structs.replace(event, request=body)
    return _encoder.encode(event)


def decode_event(document: bytes) -> Event | Refusal:
    if len(document) > EVENT_BYTES_MAX:
        return Refusal(
            Reason.TOO_LARGE, f"{len(document)} bytes; at most {EVENT_BYTES_MAX} are accepted"
        )
    try:
        if not document.isascii():
            document.decode("utf-8")
        event = _event_decoder.decode(document)
    except (UnicodeDecodeError, RecursionError, msgspec.MsgspecError) as error:
        return refusal_of(error)
    if len(event.id) > ID_CHARS_MAX:
        return Refusal(
            Reason.TOO_LARGE,
            f"the id has {len(event.id)} characters; at most {ID_CHARS_MAX} are accepted",
        )
    if event.kind is REQUEST and event.request_header is None:
        return Refusal(Reason.MISSING_FIELD, "a request needs a `requestHeader`")
    return event


def decode_body(
    document: msgspec.Raw | dict[str, Any], decoder: msgspec.json.Decoder[Any]
) -> Any | Refusal:
    """Return a request's body, or a refusal.

    Strings are limited to the size of Kafka's protocol. Those of a dictionary are from a reader
    that has limited them.
    """
    try:
        if isinstance(document, dict):
            return msgspec.convert(document, decoder.type)
        body = decoder.decode(document)
    except (UnicodeDecodeError, RecursionError, msgspec.MsgspecError) as error:
        return refusal_of(error)
    if len(document) > STRING_BYTES_MAX and _may_be_long(bytes(document)):
        size = _longest_string(body)
        if size > STRING_BYTES_MAX:
            limit = f"at most {STRING_BYTES_MAX} are accepted, as by Kafka"
            return Refusal(Reason.TOO_LARGE, f"a string of {size} bytes; {limit}")
    return body


def _may_be_long(document: bytes) -> bool:
    """Whether JSON can contain a string of more than `STRING_BYTES_MAX` bytes.

    Such a string has a window without quotes in it, or has an escaped one.
    """
    if b"\\" in document:
        return True
    starts = range(0, len(document) - _WINDOW + 1, _WINDOW)
    return any(document.find(b'"', each, each + _WINDOW) < 0 for each in starts)


def _longest_string(value: Any) -> int:
    """Return the size of a body's longest string, without base64 fields."""
    if isinstance(value, str):
        return len(value) if value.isascii() else len(value.encode())
    if isinstance(value, msgspec.Struct):
        value = [getattr(value, each) for each in value.__struct_fields__ if each not in _BASE64]
    return max(map(_longest_string, value), default=0) if isinstance(value, list) else 0


def identity_of(document: bytes) -> _Identity:
    """Return a refused document's readable id, header and `reply_to`."""
    try:
        return _identity_decoder.decode(document)
    except (UnicodeDecodeError, RecursionError, msgspec.MsgspecError):
        return _Identity()


def refusal_of(error: Exception) -> Refusal:
    text = str(error)
    if isinstance(error, UnicodeDecodeError):
        return Refusal(Reason.NOT_UTF8, f"byte {error.start} is not UTF-8")
    if isinstance(error, RecursionError):
        return Refusal(Reason.TOO_DEEP, "the document is nested too deeply to be read")
    if not isinstance(error, msgspec.ValidationError):
        return Refusal(Reason.NOT_JSON, text)
    if "missing required field" in text:
        return Refusal(Reason.MISSING_FIELD, text)
    if "contains unknown field" in text:
        return Refusal(Reason.UNKNOWN_FIELD, text)
    if "out of range" in text or "`int` <=" in text or "`int` >=" in text:
        return Refusal(Reason.OUT_OF_RANGE, text)
    return Refusal(Reason.WRONG_TYPE, text)
