"""Events: what comes in. One JSON document each, in the shape of Kafka's own request log.

`decode_event` turns bytes into an `Event` or a `Refusal` that says why not; it never raises. The
request's body stays raw: the API decides its type (`state/apis`).

    {"id": "g1.7f3a-42", "cluster": "demo", "broker": 1, "time": 1700000000000,
     "requestHeader": {"requestApiKey": 22, "requestApiVersion": 4, ...}, "request": {...}}
"""

from enum import StrEnum
from typing import Any, Final, final

import msgspec

from brokertwin.state.core.kafka_bytes import STRING_BYTES_MAX
from brokertwin.state.core.schema import Int16, Int32, Int64, Uuid

EVENT_BYTES_MAX = 8 * 1024 * 1024
"""A longer document is refused; no request of a Kafka client comes near it without its records."""

ID_CHARS_MAX = 1000
"""A longer id is refused, and a document that has one gets no answer: ids are headers of rows."""

_WINDOW = (STRING_BYTES_MAX + 1) // 2
_BASE64 = frozenset({"metadata", "assignment", "hmac"})
"""Fields of requests that keep bytes as their base64."""


class Reason(StrEnum):
    """Why a document becomes a dead letter."""

    NOT_UTF8 = "not UTF-8"
    NOT_JSON = "not JSON"
    TOO_LARGE = "too large"
    TOO_DEEP = "too deeply nested"
    OUT_OF_RANGE = "number out of range"
    WRONG_TYPE = "wrong type"
    MISSING_FIELD = "missing field"
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
    """An event that is not handled, and why, in words that say what to do about it."""

    reason: Reason
    detail: str


class Kind(StrEnum):
    """What an event is. Only `request` and `disconnect` may come from outside.

    With `disconnect` the connection that the event names has ended; gateways and recordings tell
    it. With `tell-settings` a gateway asks for what `state/cell/edge_settings.py` says.
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
    ANSWER = "answer"
    REPLICA_FETCH = "replica-fetch"
    REPLICA_ANSWER = "replica-answer"
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
"""What nearly all events are; asked for by this name as `NONE` is (`errors.py`)."""

ABOUT_BROKERS = frozenset(
    {
        *(Kind.ISOLATE_BROKER, Kind.SEVER_BROKER, Kind.REJOIN_BROKER),
        *(Kind.STOP_BROKER, Kind.KILL_BROKER, Kind.START_BROKER),
        Kind.FAIL_LOG_DIR,
    }
)
"""A broker stops, is killed or starts, or the others do not reach it any more, or do again; one
that is severed is not reached by the controller either. Or one of its log directories fails."""

INTERVENTIONS = ABOUT_BROKERS | {Kind.MOVE_LEADER, Kind.DROP_SESSIONS, Kind.EXPIRE_MEMBERS}
"""What is done to a cluster on purpose: only where it was started so."""

BETWEEN_CELLS = frozenset(
    {
        *(Kind.FORWARD, Kind.METADATA, Kind.MESSAGE, Kind.ANSWER),
        *(Kind.REPLICA_FETCH, Kind.REPLICA_ANSWER),
        *(Kind.REGISTRATION, Kind.CUT_OFF),
    }
)
"""What cells of one cluster tell each other (`state/cell/between_cells.py`)."""


class RequestHeader(msgspec.Struct, rename="camel", omit_defaults=False):
    """The header of a request. `client_id` may be null."""

    request_api_key: Int16
    request_api_version: Int16
    correlation_id: Int32 = 0
    client_id: str | None = None
    request_api_key_name: str = ""


class Choices(msgspec.Struct, rename="camel", omit_defaults=True):
    """Ids from a recording, used when it is decided again.

    They take the place of what the event's nonce would give; they never decide whether a request
    is accepted.
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
"""Those of an event that brings none; nobody changes them."""


class Move(msgspec.Struct, rename="camel"):
    """In a `move-leader` event: the partition and its new leader."""

    topic: str
    partition: Int32
    leader: Int32


class LogMark(msgspec.Struct, rename="camel", frozen=True):
    """In a `clean-log` event: values that change when a log loses or replaces batches."""

    log_start_offset: Int64
    cleaned_to: Int64
    leader_epoch: Int32
    sealed: Int32
    first_indexed: Int64


class Event(msgspec.Struct, rename="camel", omit_defaults=True):
    """An event. Times are ms since 1970; `reply_to` is a partition of `responses`."""

    id: str
    cluster: str
    broker: Int32 = 1
    time: Int64 = 0
    kind: Kind = Kind.REQUEST
    connection: str = ""
    principal: str = "User:ANONYMOUS"
    principal_is_asserted: bool = False
    """The principal is what a file says; nobody has checked it."""
    host: str = ""
    """The address of the client's host, as ACLs have it: no name, no port."""
    listener: str = ""
    """The name of the listener by which the client came; brokers are told as they are there."""
    nonce: str = ""
    reply_to: Int32 = 0
    request_header: RequestHeader | None = None
    request: msgspec.Raw = msgspec.Raw(b"null")
    choices: Choices | None = None
    is_held: bool = False
    """In a comparison: a wait of this request, or the brokers' wait for its metadata records or its
    messages, ends only by a `complete` event."""
    of: str = ""
    """In a `complete` event: the id of the request whose wait ends; from another cell: the id of
    the event that has caused this one."""
    move: Move | None = None
    directory: str = ""
    """In a `fail-log-dir` event: which of the broker's `log.dirs`."""
    sessions: list[Int32] = []
    """In a `drop-sessions` event: the ids of fetch sessions that the broker forgets."""
    group: str = ""
    members: list[str] = []
    """In an `expire-members` event: a group of the broker, and those who count as silent."""
    cleaned: msgspec.Raw = msgspec.Raw(b"null")
    """In a `clean-log` event: what a pass of the cleaner at the edge has left, a `LogCleaned`."""
    seen: LogMark | None = None
    """In a `clean-log` event: what the log was when the pass looked. Where it is another by now,
    nothing happens."""
    sender: str = ""
    """From another cell: its name; `incarnation` and `sequence` say which of its events this is."""
    incarnation: Int64 = 0
    sequence: Int64 = 0
    told: msgspec.Raw = msgspec.Raw(b"null")
    """From another cell: what it says, by the kind."""


class _Identity(msgspec.Struct, rename="camel"):
    id: str = ""
    cluster: str = ""
    reply_to: Int32 = 0
    connection: str = ""
    request_header: RequestHeader | None = None


_event_decoder = msgspec.json.Decoder(Event)
_identity_decoder = msgspec.json.Decoder(_Identity)


def decode_event(document: bytes) -> Event | Refusal:
    """The event in `document`, or why there is none."""
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


def decode_body(document: msgspec.Raw, decoder: msgspec.json.Decoder[Any]) -> Any | Refusal:
    """A request's body, or why it is none; no string has more bytes than on Kafka's wire."""
    try:
        body = decoder.decode(document)
    except (UnicodeDecodeError, RecursionError, msgspec.MsgspecError) as error:
        return refusal_of(error)
    is_long = len(document) > STRING_BYTES_MAX and _may_be_long(bytes(document))
    size = _longest_string(body) if is_long else 0
    if size > STRING_BYTES_MAX:
        detail = f"a string of {size} bytes; at most {STRING_BYTES_MAX} are accepted, as by Kafka"
        return Refusal(Reason.TOO_LARGE, detail)
    return body


def _may_be_long(document: bytes) -> bool:
    """Whether JSON may hold a string of more than `STRING_BYTES_MAX` bytes.

    Such a string has a window without quotes in it, or has an escaped one.
    """
    if b"\\" in document:
        return True
    starts = range(0, len(document) - _WINDOW + 1, _WINDOW)
    return any(document.find(b'"', each, each + _WINDOW) < 0 for each in starts)


def _longest_string(value: Any) -> int:
    """How many bytes the longest text in a body has; what it holds as bytes does not count."""
    if isinstance(value, str):
        return len(value) if value.isascii() else len(value.encode())
    if isinstance(value, msgspec.Struct):
        value = [getattr(value, each) for each in value.__struct_fields__ if each not in _BASE64]
    return max(map(_longest_string, value), default=0) if isinstance(value, list) else 0


def identity_of(document: bytes) -> _Identity:
    """What can be read of a refused document: its id, header and where its answer would go."""
    try:
        return _identity_decoder.decode(document)
    except (UnicodeDecodeError, RecursionError, msgspec.MsgspecError):
        return _Identity()


def refusal_of(error: Exception) -> Refusal:
    """The refusal that a decoding error stands for."""
    text = str(error)
    if isinstance(error, UnicodeDecodeError):
        return Refusal(Reason.NOT_UTF8, f"byte {error.start} is not UTF-8")
    if isinstance(error, RecursionError):
        return Refusal(Reason.TOO_DEEP, "the document is nested too deeply to be read")
    if not isinstance(error, msgspec.ValidationError):
        return Refusal(Reason.NOT_JSON, text)
    if "missing required field" in text:
        return Refusal(Reason.MISSING_FIELD, text)
    if "out of range" in text or "`int` <=" in text or "`int` >=" in text:
        return Refusal(Reason.OUT_OF_RANGE, text)
    return Refusal(Reason.WRONG_TYPE, text)
