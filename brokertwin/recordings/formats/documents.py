"""An exchange as a JSON document in the format of Kafka's request log.

docs/capture.md describes the format, which also has the end of a connection. Other fields of a log
(`listener`, `isForwarded`, `securityProtocol`, stage times) keep the log's names.
"""

from collections.abc import Callable, Collection, Iterable
from enum import IntEnum
from typing import Any, NamedTuple

import msgspec

from brokertwin.protocol.kafka_apis import FETCH, KAFKA_APIS, Trait, keys_with
from brokertwin.recordings.formats.coordinator_lines import Logged
from brokertwin.recordings.formats.lines import SourceLine
from brokertwin.state.access.redaction import may_hold_credentials, redact_exchange
from brokertwin.state.core.events import Kind, RequestHeader

REMOVED_APIS = {
    4: "LEADER_AND_ISR",
    5: "STOP_REPLICA",
    6: "UPDATE_METADATA",
    7: "CONTROLLED_SHUTDOWN",
}
"""APIs of brokers with ZooKeeper, which Kafka 4 does not have."""

Fields = dict[str, msgspec.Raw]

NO_RESPONSE = msgspec.Raw(b"")
METADATA_TOPIC, METADATA_TOPIC_ID = "__cluster_metadata", "AAAAAAAAAAAAAAAAAAAAAQ"
"""Name and id of the controllers' log in every cluster (KIP-595)."""

METADATA_LOG = tuple(f'"{name}"'.encode() for name in (METADATA_TOPIC, METADATA_TOPIC_ID))
_OF_CONTROLLERS = keys_with(Trait.KRAFT_ONLY)

NO_API = -1
UNKNOWN_API = -2
"""Key of a request that a client's log does not name."""

NO_REQUEST = RequestHeader(NO_API, 0), msgspec.Raw(b"{}")
"""Header and body of a closed connection."""

END = "end of a connection"
OTHER = "another log line"
"""Reason for lines of unknown kind."""

NO_TIME = "no time"
"""Reason for lines of exchanges without date and time."""


class Details(msgspec.Struct, rename="camel"):
    """Fields beside the header and the bodies, named as in Kafka's request log; times are in ms."""

    response_time: float = 0.0
    principal: str = "User:ANONYMOUS"
    host: str = ""
    listener: str = ""
    is_forwarded: bool = False
    is_text: bool = False
    request_queue_time_ms: float = 0.0
    local_time_ms: float = 0.0
    remote_time_ms: float = 0.0
    response_queue_time_ms: float = 0.0
    send_time_ms: float = 0.0


class Document(msgspec.Struct):
    """An exchange, or the end of a connection.

    Attributes:
        place: file and line, `broker-1.log:12`.
        source: the name of the file.
        time: arrival of the request, in ms since 1970.
        broker: the broker; None if the line does not name it.
        is_from_log: from a log; otherwise it was a document already.
        connection: the connection, unique within the broker if the log has the broker.
        request: its body, JSON.
        response: the response body, JSON; NO_RESPONSE if the log has none.
        fields: all other fields of the document, or how they are read when they are needed.
        kind: a request, or a disconnect with only time and connection.
        label: container, pod, host or file name around the line; may be empty.
        arrival: the time, or that of the connection's last request if later; None if other lines
            have to show it.
        read: the fields that `details` returns, if they were read already.
        is_compact: whether its bodies are certainly on one line without extra spaces.
        digest: of header and bodies, to recognize copies, if it was computed already.
        decoded: what another process found, which has checked the shape of the bodies.
    """

    place: str
    source: str
    time: int
    broker: int | None
    is_from_log: bool
    connection: str
    header: RequestHeader
    request: msgspec.Raw
    response: msgspec.Raw
    fields: Fields | Callable[[], Fields]
    kind: Kind = Kind.REQUEST
    label: str = ""
    arrival: int | None = None
    read: Details | None = None
    is_compact: bool = False
    digest: int | None = None
    decoded: Any = None

    @property
    def is_request(self) -> bool:
        return self.kind is Kind.REQUEST

    @property
    def api(self) -> str:
        return api_name(self.header.request_api_key)

    @property
    def rest(self) -> Fields:
        """All fields beside those of the document's attributes."""
        if callable(self.fields):
            self.fields = self.fields()
        return self.fields

    @property
    def details(self) -> Details:
        """The other fields that readers use. Raises msgspec.MsgspecError if they are damaged."""
        if self.read is None:
            self.read = _details_decoder.decode(_encoder.encode(self.rest))
        return self.read

    def encoded(self) -> bytes:
        """Encode the document as a line of JSON without a terminator."""
        return compact(self._encoded())

    def _encoded(self) -> bytes:
        document: dict[str, Any] = {"id": self.place, "broker": self.broker, "time": self.time}
        if self.broker is None:
            del document["broker"]
        if not self.is_request:
            document["kind"] = self.kind
            return _encoder.encode(document | {"connection": self.connection})
        document["requestHeader"] = self.header
        document["request"] = self.request
        if bytes(self.response):
            document["response"] = self.response
        return _encoder.encode(document | {"connection": self.connection} | self.rest)


class DecodedLine(SourceLine):
    """A line in Kafka's default layout that another process decoded.

    Attributes:
        sent: its time as this process read it, in ms since 1970.
        document: its document without the broker, and without the bodies that it has encoded.
    """

    sent: int
    document: Document


class Texts(IntEnum):
    """Text logs that a command accepts besides JSON logs."""

    NONE = 0
    REQUEST_LOGS = 1
    """The request log of Kafka before 2.8."""
    ALL = 2
    """Also debug logs of clients and brokers, without bodies or responses."""


class UnpairedDocuments(NamedTuple):
    """A line or entry without a document.

    Attributes:
        reason: a short reason, the same for all lines of a kind.
        detail: the problem of this line.
        api: the API's name if readable.
        is_dead: the line is damaged; otherwise it is just not a request.
        logged: the group event of a coordinator's line.
        undecoded: of a request without a legible body, with its header and empty bodies.
    """

    line: SourceLine
    reason: str
    detail: str = ""
    api: str = ""
    is_dead: bool = True
    logged: Logged | None = None
    undecoded: Document | None = None


class UnreadableError(Exception):
    """An unreadable line; `reason` names its kind, `detail` the problem."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail


_encoder = msgspec.json.Encoder()
_details_decoder = msgspec.json.Decoder(Details)


def api_name(key: int) -> str:
    """Return the API name in the request log, or its key if no Kafka up to 4.3.1 has it."""
    if key == NO_API:
        return END
    if key == UNKNOWN_API:
        return "unknown API"
    kafka_api = KAFKA_APIS.get(key)
    return kafka_api.name if kafka_api is not None else REMOVED_APIS.get(key, str(key))


def listener_of(document: Document) -> str:
    """Return the listener of the request, or an empty text."""
    if document.read is not None:
        return document.read.listener
    listener = document.rest.get("listener")
    try:
        return msgspec.json.decode(listener, type=str) if listener is not None else ""
    except msgspec.MsgspecError:
        return ""  # the line is damaged; whoever reads its details notes that


def is_controllers(header: RequestHeader, request: bytes) -> bool:
    """Whether only controllers receive such a request."""
    key = header.request_api_key
    if key == FETCH.key:
        name, topic_id = METADATA_LOG
        return topic_id in request or name in request
    return key in _OF_CONTROLLERS


def controllers_listeners(documents: Iterable[Document]) -> set[str]:
    return {
        listener_of(each) for each in documents if is_controllers(each.header, bytes(each.request))
    } - {""}


def clusters_own(listener: str, is_forwarded: bool, controllers: Collection[str]) -> str:
    """Return why a request is internal; empty if a client may have sent it."""
    if is_forwarded:
        return "a copy that a broker forwarded to the controller, which the machine does itself"
    if listener in controllers:
        return f"on listener {listener} of a controller: brokers talk to it in the machine"
    return ""


def compact(document: bytes) -> bytes:
    """Return JSON on one line without extra spaces."""
    return msgspec.json.format(document, indent=-1) if has_spaces(document) else document


def has_spaces(document: bytes) -> bool:
    """Whether JSON may have spaces between its parts: it has some there, or within a string."""
    return b" " in document or b"\n" in document or b"\t" in document or b"\r" in document


def raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(_encoder.encode(value))


def redacted(document: Document) -> Document:
    """Return the document without credentials."""
    key = document.header.request_api_key
    if not may_hold_credentials(key):
        return document
    has_response = bool(bytes(document.response))
    request, response = redact_exchange(
        key,
        msgspec.json.decode(document.request),
        msgspec.json.decode(document.response) if has_response else None,
    )
    return msgspec.structs.replace(
        document,
        request=raw(request),
        response=raw(response) if has_response else NO_RESPONSE,
    )
