"""What a line becomes: one exchange, as a JSON document in the shape of Kafka's request log.

A document is that of docs/capture.md, which may tell of the end of a connection, too; what a log
tells beyond it (`listener`, `isForwarded`, `securityProtocol`, the times of the stages) stays under
the log's own names.
"""

from collections.abc import Collection, Iterable
from enum import IntEnum
from typing import Any, NamedTuple

import msgspec

from brokertwin.recordings.formats.coordinator_lines import Logged
from brokertwin.recordings.formats.lines import Line
from brokertwin.state.access.redaction import may_hold_credentials, redact_exchange
from brokertwin.state.core.events import Kind, RequestHeader
from brokertwin.state.core.kafka_apis import FETCH, KAFKA_APIS, Trait, api_of_key

Fields = dict[str, msgspec.Raw]

NOT_ANSWERED = msgspec.Raw(b"")
METADATA_LOG = b'"__cluster_metadata"', b'"AAAAAAAAAAAAAAAAAAAAAQ"'
"""Name and topic id of the log of the controllers."""

NO_API = -1
NO_REQUEST = RequestHeader(NO_API, 0), msgspec.Raw(b"{}")
"""What stands for header and body where a connection has ended."""

END = "end of a connection"
OTHER = "another log line"
"""Why a line is left that nothing is known of."""


class Document(msgspec.Struct):
    """One exchange, or the end of a connection.

    Attributes:
        place: file and line, `broker-1.log:12`.
        source: the name of the file.
        time: when the request arrived, in ms since 1970.
        broker: the broker that it arrived at; None where the line does not say it.
        is_from_log: whether it is from a log; else it was a document already.
        connection: its connection, unique within the broker where the log says the broker.
        header: the request's.
        request: its body, JSON.
        response: the answer's body, JSON; NOT_ANSWERED where the log has none.
        rest: all other fields of the document.
        kind: a request; or that its connection has ended, which says no more than when and where.
        label: name of a container, pod, host or file that stands around the line; may be empty.
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
    rest: Fields
    kind: Kind = Kind.REQUEST
    label: str = ""

    @property
    def is_request(self) -> bool:
        """Whether somebody has asked something."""
        return self.kind is Kind.REQUEST

    @property
    def api(self) -> str:
        """The name of its API."""
        return api_name(self.header.request_api_key)

    def encoded(self) -> bytes:
        """The document, one line of JSON without its end."""
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


class Texts(IntEnum):
    """Logs with requests as text that a command can use, beside those in JSON."""

    NONE = 0
    REQUEST_LOGS = 1
    """The request log of Kafka before 2.8."""
    ALL = 2
    """Debug logs of clients and brokers, too, which lack bodies or responses."""


class Left(NamedTuple):
    """A line, or an entry, that became no document.

    Attributes:
        line: where it lies, and what it says.
        reason: why, in few words that are the same for all of a kind.
        detail: what is wrong with this one.
        api: the API's name where one can be read.
        is_dead: whether the line is damaged; other lines just are no requests.
        logged: what it tells of a group, if it is of the coordinator's log.
    """

    line: Line
    reason: str
    detail: str = ""
    api: str = ""
    is_dead: bool = True
    logged: Logged | None = None


class UnreadableError(Exception):
    """A line cannot be read; `reason` is the same for all of a kind, `detail` is this line's."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail


_encoder = msgspec.json.Encoder()


class _Headed(msgspec.Struct, rename="camel"):
    request_header: RequestHeader | None = None


_headed_decoder = msgspec.json.Decoder(_Headed)


def api_name(key: int) -> str:
    """The name of the API in the request log, or its key where Kafka has no such API."""
    if key == NO_API:
        return END
    known = KAFKA_APIS.get(key)
    return known.name if known is not None else str(key)


def api_of_document(document: bytes) -> str:
    """The name of the API of an encoded document."""
    header = _headed_decoder.decode(document).request_header
    return api_name(header.request_api_key if header is not None else NO_API)


def listener_of(document: Document) -> str:
    """The listener that the request came in on; empty if the document does not say it."""
    listener = document.rest.get("listener")
    return str(msgspec.json.decode(listener)) if listener is not None else ""


def is_controllers(header: RequestHeader, request: bytes) -> bool:
    """Whether only a controller gets such a request, so that the listener is a controller's."""
    key = header.request_api_key
    if key == FETCH.key:
        return any(log in request for log in METADATA_LOG)
    return Trait.KRAFT_ONLY in api_of_key(key).traits


def controllers_listeners(documents: Iterable[Document]) -> set[str]:
    """The listeners of controllers."""
    return {
        listener_of(each) for each in documents if is_controllers(each.header, bytes(each.request))
    } - {""}


def clusters_own(listener: str, is_forwarded: bool, controllers: Collection[str]) -> str:
    """Why a recorded request is none of a client's; empty if it may be one.

    Args:
        listener: the request came in on it.
        is_forwarded: whether a broker forwarded it.
        controllers: listeners of controllers.
    """
    if is_forwarded:
        return "a copy that a broker forwarded to the controller, which the machine does itself"
    if listener in controllers:
        return f"on listener {listener} of a controller: brokers talk to it in the machine"
    return ""


def compact(document: bytes) -> bytes:
    """JSON on one line, without the space that printing for people adds."""
    is_printed = b"\n" in document or b'": ' in document
    return msgspec.json.format(document, indent=-1) if is_printed else document


def raw(value: Any) -> msgspec.Raw:
    """A value as JSON."""
    return msgspec.Raw(_encoder.encode(value))


def redacted(document: Document) -> Document:
    """The document without credentials; only bodies that may hold some are looked at."""
    key = document.header.request_api_key
    if not may_hold_credentials(key):
        return document
    is_answered = bool(bytes(document.response))
    request, response = redact_exchange(
        key,
        msgspec.json.decode(document.request),
        msgspec.json.decode(document.response) if is_answered else None,
    )
    return msgspec.structs.replace(
        document,
        request=raw(request),
        response=raw(response) if is_answered else NOT_ANSWERED,
    )
