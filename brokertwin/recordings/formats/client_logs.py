"""Debug logs of clients: requests, and parts of responses.

- librdkafka with `debug=all` or `protocol`: API, version, latency, some errors; no bodies;
- the Java client with org.apache.kafka.clients.NetworkClient at DEBUG: with bodies;
- KafkaJS at DEBUG: response bodies with KafkaJS's names, or its error text.

Source: `rdkafka_broker.c`, `NetworkClient` of Kafka 2.5 and later, `network/connection.js`.
"""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from brokertwin.protocol.errors import Error
from brokertwin.recordings.formats import java_text
from brokertwin.recordings.formats.documents import API_KEYS, NO_RESPONSE, Document, raw
from brokertwin.recordings.formats.lines import SourceLine
from brokertwin.state.access.redaction import may_hold_credentials
from brokertwin.state.core.events import RequestHeader

UNKNOWN_BROKER = -1
COORDINATORS = 2**31 - 1
"""The Java client's node id of a coordinator is this minus the broker id."""

MARKS = re.compile(
    rb"CorrId \d|request with header RequestHeader|\"logger\": ?\"kafkajs\"|Request failed: "
)
"""Patterns in lines of requests and responses, after the time."""

_SENT = re.compile(
    r"(?P<client>[^\s|\[\]]+)#(?:consumer|producer)-\d+\]?\|? .*?(?P<place>\S+): "
    r"(?P<what>Sent|Received) (?P<api>\w+?)(?:Request|Response) "
    r"\(v(?P<version>\d+), .*?CorrId (?P<number>\d+)(?:, rtt (?P<ms>[\d.]+)ms)?\)"
)
_FAILED = re.compile(
    r"(?P<client>[^\s|\[\]]+)#(?:consumer|producer)-\d+\]?\|? .*?(?P<place>\S+): "
    r"(?P<api>\w+?)Request failed: (?P<error>.*?)(?:: explicit|: actions|$)"
)
_JAVA = re.compile(
    r"(?P<what>Sending|Received) (?P<api>[A-Z_0-9]+) (?:request|response)"
    r"(?: from node (?P<from>-?\d+) for request)? with header RequestHeader\(apiKey=\w+,"
    r" apiVersion=(?P<version>\d+), clientId=(?P<client>.*?), correlationId=(?P<number>-?\d+)"
    r"[^)]*\)(?: and timeout -?\d+ to node (?P<to>-?\d+))?: (?P<body>.*)",
    re.DOTALL,
)
_KAFKAJS = re.compile(
    r"\[Connection\] (?P<what>Request|Response) \w+\(key: (?P<key>\d+), version: (?P<version>\d+)\)"
)
_BROKER = re.compile(r"/(\d+)$")
_OLDER_NAMES = {"OFFSET": "LIST_OFFSETS", "API_VERSION": "API_VERSIONS"}

_TEXTS = {
    Error.UNKNOWN_TOPIC_OR_PARTITION: (
        "Unknown topic or partition",
        "This server does not host this topic-partition",
    ),
    Error.LEADER_NOT_AVAILABLE: ("Leader not available", "There is no leader for this"),
    Error.NOT_LEADER_OR_FOLLOWER: ("Not leader for partition", "This server is not the leader"),
    Error.REQUEST_TIMED_OUT: ("Request timed out", "The request timed out"),
    Error.COORDINATOR_LOAD_IN_PROGRESS: ("Coordinator load in", "The coordinator is loading"),
    Error.COORDINATOR_NOT_AVAILABLE: ("Coordinator not available", "The group coordinator is not"),
    Error.NOT_COORDINATOR: ("Not coordinator", "This is not the correct coordinator"),
    Error.ILLEGAL_GENERATION: ("Specified group generation id is not valid",),
    Error.UNKNOWN_MEMBER_ID: ("Unknown member", "The coordinator is not aware of this member"),
    Error.REBALANCE_IN_PROGRESS: ("Group rebalance in progress", "The group is rebalancing"),
    Error.TOPIC_AUTHORIZATION_FAILED: ("Topic authorization", "Not authorized to access topics"),
    Error.GROUP_AUTHORIZATION_FAILED: ("Group authorization", "Not authorized to access group"),
    Error.OUT_OF_ORDER_SEQUENCE_NUMBER: ("Broker received an out of", "The broker received an out"),
    Error.INVALID_PRODUCER_EPOCH: (
        "Producer attempted an operation with an old epoch",
        "Producer attempted to produce with an old epoch",
    ),
    Error.MEMBER_ID_REQUIRED: ("Group member needs a valid", "The group member needs to have a"),
    Error.FENCED_INSTANCE_ID: ("Static consumer fenced", "The broker rejected this static"),
    Error.PRODUCER_FENCED: ("There is a newer producer with the same",),
    Error.FENCED_MEMBER_EPOCH: ("The member epoch is fenced",),
    Error.STALE_MEMBER_EPOCH: ("The member epoch is stale",),
}
"""Beginnings of error texts of librdkafka and KafkaJS."""


class _Message(NamedTuple):
    """A request or a response in a client's log."""

    client: str
    place: str
    broker: int
    key: int
    version: int
    number: int
    is_response: bool
    body: Any
    latency_ms: float | None = None

    @property
    def connection(self) -> str:
        """The client, and its name for the broker."""
        return f"{self.client}/{self.place}"


class _Failure(NamedTuple):
    """An error of the last response of an API."""

    connection: str
    key: int
    error: str


class Exchanges:
    """Pairs the requests and responses in a client's log."""

    def __init__(self) -> None:
        self._pending: dict[tuple[str, int, int], Document] = {}
        self._done: dict[tuple[str, int], Document] = {}

    def take(
        self, line: SourceLine, place: str, text: bytes, time: int
    ) -> Iterator[Document] | None:
        """Yield the documents that a line completes; None for other lines."""
        if not MARKS.search(text):
            return None
        found = _read(text.decode("utf-8", "replace"))
        if found is None:
            return None
        if isinstance(found, _Failure):
            done = self._done.get((found.connection, found.key))
            if done is not None:
                done.response = raw(_response_of(found.error))
            return iter(())
        return self._pair(line, place, found, time)

    def rest(self) -> Iterator[Document]:
        """Yield the documents left at the end of the log."""
        yield from self._done.values()
        yield from self._pending.values()

    def _pair(self, line: SourceLine, place: str, found: _Message, time: int) -> Iterator[Document]:
        key = found.connection, found.key, found.number
        if not found.is_response:
            former = self._pending.pop(key, None)
            self._pending[key] = _document(line, place, found, time)
            if former is not None:
                yield former
            return
        done = self._done.get(key[:2])
        document = self._pending.pop(key, None)
        if document is None:
            if done is not None and done.header.correlation_id == found.number:
                return  # KafkaJS logs an error twice
            document = _document(line, place, found, time - round(found.latency_ms or 0))
            document.request = raw({})
        latency = found.latency_ms if found.latency_ms is not None else time - document.time
        document.rest["responseTime"] = raw(max(0.0, float(latency)))
        document.response = raw(found.body)
        self._done[key[:2]] = document
        if done is not None:
            yield done


def _document(line: SourceLine, place: str, found: _Message, time: int) -> Document:
    return Document(
        place=place,
        source=line.file,
        time=time,
        broker=found.broker,
        is_from_log=True,
        connection=found.connection,
        header=RequestHeader(found.key, found.version, found.number, found.client),
        request=raw(found.body),
        response=NO_RESPONSE,
        rest={"isText": msgspec.Raw(b"true")},
    )


def _read(text: str) -> _Message | _Failure | None:
    if text.startswith("{"):
        return _kafkajs(text)
    java = _JAVA.search(text)
    return _java(java) if java is not None else _librdkafka(text)


def _librdkafka(text: str) -> _Message | _Failure | None:
    found = _SENT.search(text) or _FAILED.search(text)
    key = _key_of(found["api"]) if found is not None else None
    if found is None or key is None:
        return None
    fields = found.groupdict()
    place = fields["place"]
    if "error" in fields:
        return _Failure(f"{fields['client']}/{place}", key, fields["error"])
    broker = _BROKER.search(place)
    return _Message(
        client=fields["client"],
        place=place,
        broker=int(broker[1]) if broker else UNKNOWN_BROKER,
        key=key,
        version=int(fields["version"]),
        number=int(fields["number"]),
        is_response=fields["what"] == "Received",
        body={},
        latency_ms=float(fields["ms"]) if fields["ms"] else None,
    )


def _java(found: re.Match[str]) -> _Message | None:
    key = API_KEYS.get(found["api"])
    node = int(found["from"] or found["to"] or UNKNOWN_BROKER)
    if key is None:
        return None
    return _Message(
        client=found["client"],
        place=f"node {node}",
        broker=COORDINATORS - node if node > COORDINATORS // 2 else max(node, UNKNOWN_BROKER),
        key=key,
        version=int(found["version"]),
        number=int(found["number"]),
        is_response=found["what"] == "Received",
        body=_body(key, found["body"]),
    )


def _body(key: int, text: str) -> Any:
    """Parse a body; empty if it may have credentials or is cut."""
    if may_hold_credentials(key):
        return {}
    try:
        return java_text.body_of(text)[0]
    except java_text.UnparsableError:
        return {}


class _Entry(msgspec.Struct, rename="camel"):
    message: str = ""
    broker: str = ""
    client_id: str = ""
    correlation_id: int = -1
    data: Any = None
    error: str = ""


_entry_decoder = msgspec.json.Decoder(_Entry)


def _kafkajs(text: str) -> _Message | None:
    try:
        entry = _entry_decoder.decode(text)
    except msgspec.MsgspecError:
        return None
    found = _KAFKAJS.match(entry.message)
    if found is None:
        return None
    body = entry.data if isinstance(entry.data, dict) else {}
    key = int(found["key"])
    return _Message(
        client=entry.client_id,
        place=entry.broker,
        broker=UNKNOWN_BROKER,
        key=key,
        version=int(found["version"]),
        number=entry.correlation_id,
        is_response=found["what"] == "Response",
        body=_response_of(entry.error)
        if entry.error
        else {}
        if may_hold_credentials(key)
        else body,
    )


def _response_of(error: str) -> dict[str, Any]:
    """A response with the error of a client's text."""
    text = error.removeprefix("Broker: ")
    codes = [code for code, texts in _TEXTS.items() if text.startswith(texts)]
    return {"errorCode": int(codes[0]), "errorMessage": error} if codes else {"errorMessage": error}


def _key_of(api: str) -> int | None:
    """Return the API key for librdkafka's name, such as JoinGroup."""
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", api).upper()
    return API_KEYS.get(_OLDER_NAMES.get(name, name))
