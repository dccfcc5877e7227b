"""Debug logs of clients: requests, and parts of responses.

client           what a log shows
---------------  ---------------------------------------------------------------------------
Java             `NetworkClient` at DEBUG, before Kafka 2.5 at TRACE: bodies
kafka-python     2 and 3, at DEBUG: bodies; 3 names its client only in the bytes that it sends
aiokafka         at DEBUG: bodies; it does not name its client
KafkaJS          at DEBUG: bodies of responses with KafkaJS's names, or the text of an error
librdkafka       `debug=protocol`: APIs, latencies; `debug=all`: errors
franz-go         at LogLevelDebug: APIs, errors; it does not name its client
Sarama           `Logger` and `DebugLogger`: some requests, errors; it does not name its client
all              `client_refusals`: refusals in words, whose requests a log leaves out

The lines may have any prefix of a logger, and be in its JSON.

Source: `rdkafka_broker.c` and the callers of `rd_kafka_err2str`, `NetworkClient` of Kafka 2.5 and
later, `network/connection.js` of KafkaJS, `net/connection.py` and `conn.py` of kafka-python,
`conn.py` of aiokafka, `pkg/kgo` of franz-go, `client.go` and `transaction_manager.go` of Sarama.
"""

import ast
import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from brokertwin.patterns import later
from brokertwin.protocol.errors import Error
from brokertwin.protocol.kafka_apis import API_KEYS, METADATA
from brokertwin.recordings.formats import client_refusals, java_text
from brokertwin.recordings.formats.client_errors import code_of
from brokertwin.recordings.formats.documents import NO_RESPONSE, UNKNOWN_API, Document, raw
from brokertwin.recordings.formats.lines import SourceLine
from brokertwin.recordings.formats.older_names import Names, rename, renamed
from brokertwin.recordings.formats.text_requests import BEFORE_MESSAGES
from brokertwin.state.access.redaction import may_hold_credentials
from brokertwin.state.core.events import RequestHeader

UNKNOWN_BROKER = -1
UNKNOWN_VERSION = -2
UNNAMED = "unnamed"
"""Client id in logs that do not name their client."""

COORDINATORS = 2**31 - 1
"""The Java client's node id of a coordinator is this minus the broker id."""

UNKNOWN_LATENCY = -1.0
"""Latency of a response whose request is not in the log, or if the log's times are too coarse."""

AGAIN_MS = 100
"""Maximum time between the lines of one refusal, in a log without its request."""

PENDING_MAX = 1_000
"""Requests without a response that are kept for a connection and API."""

_RD_KINDS = (b"consumer", b"producer")
_RD_REFUSED = (
    rb" [^\n]{0,300}?"
    rb"(?:Broker: |(?:EndTxn returned|AddOffsetsToTxn response from|Fetch failed at) )"
)
_FRANZ_REFUSED = (
    rb"[^\n]{0,120}(?:\berr(?:or)?\\?\"{0,2}[:=] ?\\?\"{0,2}[A-Z]+_|failed with [A-Z]+_)"
)
_FRANZ_STEP = rb"\"{1,2}: ?\"{1,2}[A-Z]+_[^\n]{0,300}\"(?:heartbeat|commit|join|sync|fetch) ?"
MARKS = later(
    b"|".join(
        (
            rb"CorrId \d",
            rb"\[thrd:[^\]]*\]:" + _RD_REFUSED,
            *(b"#" + kind + rb"-\d+\|(?:[A-Z]+\|)?" + _RD_REFUSED for kind in _RD_KINDS),
            rb"request with header RequestHeader",
            rb"with correlation id \d+(?: to node |, received \{)",
            rb"\(key: \d+, version: \d+\)(?:\"| ?\{)",
            rb"Connection [^\n]{0,300}?>:? (?:Request|Response) \d+(?: \([\d.e-]+ ms\))?: \w",
            rb"\] Send: bytearray\(b",
            *(what + rb" \S+ \d+: \w+_v\d" for what in (b"Request to", b"Response from")),
            *(what + rb" [A-Z]\w+ v\d+[;\"\s]" for what in (b"wrote", b"read")),
            rb"produced\W{1,4}broker\W",
            rb"retrying request\W{1,4}request\W",
            *(step + _FRANZ_REFUSED for step in (b"heartbeat", b"commit", b"join group")),
            *(step + _FRANZ_REFUSED for step in (b"sync group", b"fetch offsets")),
            rb"InitProducerID" + _FRANZ_REFUSED,
            *(name + _FRANZ_STEP for name in (b"err", b"error")),
            rb"client/(?:metadata|coordinator) ",
            rb"txnmgr/[a-z-]+ ",
            rb"Completed ApiVersionsRequest V\d",
            *(kind + rb"/broker/\d+ [^\n]{0,300}because kafka server: " for kind in _RD_KINDS),
            *client_refusals.MARKS,
        )
    )
)
"""Patterns in lines of requests and responses, after the time.

Each begins with a letter or sign, because `re` then skips what begins with no pattern.
"""

TIME_BEHIND = later(rb"\(key: \d+, version: \d+\)(?:\"| ?\{)|(?<!\S)(?:time|ts)=")
"""KafkaJS, whose time and fields are in JSON behind the message, and logfmt."""


class _Message(NamedTuple):
    client: str
    place: str
    broker: int
    key: int
    version: int
    number: int | None
    """The correlation id; None if the log has none."""
    is_response: bool
    body: Any
    latency_ms: float | None = None
    request: Any = None
    """The body of the request of a response, if the log has no line of the request."""

    @property
    def connection(self) -> str:
        """The client, and its name for the broker."""
        return f"{self.client}/{self.place}"


class _Failure(NamedTuple):
    """An error of the last response of one of some APIs.

    Attributes:
        client: "" if the line does not name it.
        place: the client's name for the broker; "" if the line does not name it.
        number: the correlation id; None if the line does not have it.
    """

    client: str
    place: str
    keys: tuple[int, ...]
    error: str
    number: int | None = None


class _Named(NamedTuple):
    place: str
    key: int
    number: int
    client: str


Found = _Message | _Failure | _Named | None


class Exchanges:
    """Pairs the requests and responses in a log.

    Args:
        process: the name of the container, pod or host before its lines, or "".
    """

    def __init__(self, process: str = "") -> None:
        self._process = process
        self._pending: dict[tuple[str, int], deque[Document]] = defaultdict(deque)
        self._done: dict[tuple[str, int], Document] = {}
        self._last_done: dict[int, dict[str, Document]] = defaultdict(dict)
        self._brokers: dict[str, int] = {}
        self._clients: dict[str, str] = {}
        self._seen: set[tuple[str, int]] = set()
        self._alone: dict[tuple[str, int], tuple[tuple[Error | str, int | None], int]] = {}
        self._count = 0

    def take(
        self, line: SourceLine, place: str, text: bytes, time: int, unit_ms: int = 1
    ) -> Iterator[Document] | None:
        """Yield the documents that a line completes; None for other lines.

        Args:
            line: the line.
            place: its id.
            text: its text.
            time: its time, in ms since 1970.
            unit_ms: the precision of the time.
        """
        if not MARKS.search(text):
            return None
        content = _read(text.decode("utf-8", "replace"), line.text)
        if content is None:
            return None
        if isinstance(content, _Failure):
            return self._fail(line, place, content, time)
        if isinstance(content, _Named):
            self._name(content)
            return iter(())
        return self._pair(line, place, content, time, unit_ms)

    def rest(self) -> Iterator[Document]:
        yield from self._done.values()
        for documents in self._pending.values():
            yield from documents

    def _fail(
        self, line: SourceLine, place: str, failure: _Failure, time: int
    ) -> Iterator[Document]:
        """Set the error of a response that has none; errors of the client itself are ignored."""
        code = code_of(failure.error)
        if code is None and not failure.error.startswith("Broker: "):
            return
        if failure.place:
            connection = f"{failure.client or UNNAMED}/{failure.place}"
            candidates = [self._done.get((connection, key)) for key in failure.keys]
        else:
            candidates = [
                done
                for key in failure.keys
                for client, done in self._last_done[key].items()
                if failure.client in ("", client)
            ]
        of_client = [each for each in candidates if each is not None]
        done = max(of_client, key=_end, default=None)
        if done is not None and done.response in (raw({}), NO_RESPONSE):
            done.response = raw(_response_of(failure.error, code))
        elif len(failure.keys) == 1 and not self._has_sent(failure.client, failure.keys[0]):
            yield from self._fail_alone(line, place, failure, time, code)

    def _has_sent(self, client: str, key: int) -> bool:
        """Whether the log has requests of a client, or of any if it is ""."""
        return any(key in (sent, UNKNOWN_API) and client in ("", by) for by, sent in self._seen)

    def _fail_alone(
        self, line: SourceLine, place: str, failure: _Failure, time: int, code: Error | None
    ) -> Iterator[Document]:
        """Add the response of a request that the log leaves out; its lines are one refusal."""
        (key,) = failure.keys
        client = failure.client or UNNAMED
        former = self._done.get((client, key))
        refused = code or failure.error, failure.number
        said, at = self._alone.get((client, key), (None, 0))
        if said == refused and time - at < AGAIN_MS:
            return
        if key == UNKNOWN_API and any(
            by == client and time - at < AGAIN_MS for (by, _), (_, at) in self._alone.items()
        ):
            return  # the state that follows from it
        self._alone[client, key] = refused, time
        broker = _number_at_end(failure.place)
        number, version = failure.number, UNKNOWN_VERSION
        sent = _Message(client, failure.place, broker, key, version, number, True, {})
        self._count += 1
        document = self._document(line, place, sent, client, broker, time)
        document.response = raw(_response_of(failure.error, code))
        document.rest["responseTime"] = raw(UNKNOWN_LATENCY)
        self._done[client, key] = document
        if former is not None:
            yield former

    def _name(self, named: _Named) -> None:
        """Set the client of the request that was just sent, and of those on its connection."""
        for (connection, key), documents in self._pending.items():
            is_unnamed = connection.startswith(f"{UNNAMED}/") and f"/{named.place}<" in connection
            if key == named.key and is_unnamed and documents:
                document = documents[-1]
                if document.header.correlation_id == named.number:
                    self._clients[connection] = named.client
                    document.header.client_id = named.client

    def _pair(
        self, line: SourceLine, place: str, message: _Message, time: int, unit_ms: int
    ) -> Iterator[Document]:
        key = message.connection, message.key
        self._count += 1
        self._seen.add((message.client, message.key))
        client = self._clients.get(message.connection, message.client)
        broker = message.broker
        if broker == UNKNOWN_BROKER:
            broker = self._brokers.get(message.place.partition("<")[0], UNKNOWN_BROKER)
        pending = self._pending[key]
        if not message.is_response:
            pending.append(self._document(line, place, message, client, broker, time))
            if len(pending) > PENDING_MAX:
                yield pending.popleft()
            return
        document = self._sent(pending, message.number)
        done = self._done.get(key)
        if document is None:
            if done is not None and message.number == done.header.correlation_id:
                return  # KafkaJS logs an error twice
            began = time - round(message.latency_ms or 0)
            document = self._document(line, place, message, client, broker, began)
            document.request = raw(message.request or {})
            latency = UNKNOWN_LATENCY if message.latency_ms is None else message.latency_ms
        elif message.latency_ms is None:
            latency = max(0.0, float(time - document.time))
            if unit_ms > 1 and latency < 2 * unit_ms:
                latency = UNKNOWN_LATENCY
        else:
            latency = message.latency_ms
        document.rest["responseTime"] = raw(latency)
        document.request, document.response = renamed(
            message.key, document.request, raw(message.body)
        )
        self._done[key] = self._last_done[message.key][client] = document
        if message.key == METADATA.key:
            self._learn(message.body)
        if done is not None:
            yield done

    def _document(
        self, line: SourceLine, place: str, message: _Message, client: str, broker: int, time: int
    ) -> Document:
        number = message.number if message.number is not None else self._count
        return Document(
            place=place,
            source=line.file,
            time=time,
            broker=broker,
            is_from_log=True,
            connection=f"{self._process}/{message.connection}".removeprefix("/"),
            header=RequestHeader(message.key, message.version, number, _RD_NUMBER.sub("", client)),
            request=raw(message.body),
            response=NO_RESPONSE,
            fields={"isText": msgspec.Raw(b"true")},
        )

    @staticmethod
    def _sent(pending: deque[Document], number: int | None) -> Document | None:
        """Take the request of a response: the oldest one with its correlation id, or of all."""
        for document in pending:
            if number is None or document.header.correlation_id == number:
                pending.remove(document)
                return document
        return None

    def _learn(self, metadata: Any) -> None:
        brokers = metadata.get("brokers") if isinstance(metadata, dict) else None
        for each in brokers if isinstance(brokers, list) else ():
            node = each.get("nodeId") if isinstance(each, dict) else None
            if isinstance(node, int):
                self._brokers[f"{each.get('host')}:{each.get('port')}"] = node


def _end(document: Document) -> float:
    return document.time + float(msgspec.json.decode(document.rest["responseTime"]))


def _read(text: str, line: bytes) -> Found:
    """Read a line; `line` is the whole one, with the JSON around a text."""
    for read in _READERS:
        content = read(text, line)
        if content is not None:
            return content
    return None


# librdkafka

_RD_CLIENT = later(r"(?<![^\s|()\[\]\"':=])[^\s|()\[\]\"':=]+#(?:consumer|producer)-\d+")
_RD_NUMBER = later(r"#(?:consumer|producer)-\d+$")
"""The number of a client in its process, where several may have one client id."""

_RD_PARTS = ("CorrId ", "[thrd:", "#consumer-", "#producer-")
"""Texts of which each line has one."""

_RD_SENT = later(
    r"(?<!\S)(?P<place>\S+): (?P<what>Sent|Received) (?P<api>\w+?)(?:Request|Response) "
    r"\(v(?P<version>\d+), [^\n]*?CorrId (?P<number>\d+)(?:, rtt (?P<ms>[\d.]+)ms)?\)"
)
_RD_LINE = later(
    r"(?:\[thrd:[^\]]*\]:|#(?:consumer|producer)-\d+\|(?:[A-Z]+\|)?(?! \[thrd:)) "
    r"(?:(?P<place>\S+?(?:/\S+)?): )?"
    r"(?:(?:Fatal transaction error|Current transaction failed in state \w+"
    r"|Fatal error: Broker: [^:]+): )?(?P<said>.*)",
    re.DOTALL,
)
_RD_ERROR = later(
    r"Broker: .*?(?=: (?:explicit )?actions|: retrying|: will rejoin|: re-querying|: error is"
    r"|: \S+\[\d+\]@| \(|$)"
)
_RD_FAILURES: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = tuple(
    (later(form), apis)
    for form, apis in (
        (r"Failed to acquire (?:\w+ )?PID\b", ("INIT_PRODUCER_ID",)),
        (r"EndTxn returned (?P<name>[A-Z]\w+) in state", ("END_TXN",)),
        (r"EndTxn \w+ failed: |Failed to end transaction: ", ("END_TXN",)),
        (r"(?<!\S)\S+ \[\d+\]: Fetch failed at .*: (?P<name>[A-Z]\w+)$", ("FETCH",)),
        (r"Fetch from broker \d+ failed|Fetch reply: ", ("FETCH",)),
        (r"(?<!\S)\S+ \[\d+\]: offset reset \(at .*: fetch failed ", ("FETCH",)),
        (r"(?<!\S)\S+ \[\d+\]: MessageSet with .* encountered error: ", ("PRODUCE",)),
        (r"AddPartitionsToTxn response: ", ("ADD_PARTITIONS_TO_TXN",)),
        (r"Failed to add partition", ("ADD_PARTITIONS_TO_TXN",)),
        (r"AddOffsetsToTxn response from \S+: (?P<name>[A-Z]\w+)", ("ADD_OFFSETS_TO_TXN",)),
        (r"Failed to add offsets to transaction", ("ADD_OFFSETS_TO_TXN",)),
        (r"Failed to commit offsets to transaction", ("TXN_OFFSET_COMMIT",)),
        (r"Failed to find transaction coordinator: ", ("FIND_COORDINATOR",)),
        (r"Group \"[^\"]*\" FindCoordinator response error: ", ("FIND_COORDINATOR",)),
        (r"Group \"[^\"]*\" heartbeat error response|Heartbeat failed due to ", ("HEARTBEAT",)),
        (r"(?P<api>(?:Consumer|Share)GroupHeartbeat) (?:failed|fatal error|response error)", ()),
        (r"Group \"[^\"]*\": synchronization failed: ", ("SYNC_GROUP",)),
        (r"\b(?P<api>[A-Z]\w+?)(?:Request)? (?:for [^:]*)?failed: ", ()),
        (r"(?P<api>(?:Join|Sync|Leave)Group) response(?: error in state .*?)?: ", ()),
        (r"Offset commit \(.*?\) failed for ", ("OFFSET_COMMIT",)),
        (r"(?P<api>Offset(?:Commit|Fetch)) (?:for .*?)?returned:? ", ()),
        (r"(?P<api>OffsetCommit) failed for ", ()),
        (r"Offset reply error for topic ", ("LIST_OFFSETS",)),
        (r"(?:Error|Temporary error) in metadata reply for topic ", ("METADATA",)),
        (r"Metadata request failed: ", ("METADATA",)),
    )
)


def _librdkafka(text: str, line: bytes) -> Found:
    if not any(each in text for each in _RD_PARTS):
        return None
    sent = _RD_SENT.search(text)
    client = _rd_client(text[: sent.start()] if sent else text, line)
    if sent is not None:
        key = _key_of(sent["api"])
        if key is None:
            return None
        return _Message(
            client=client or UNNAMED,
            place=sent["place"],
            broker=_number_at_end(sent["place"]),
            key=key,
            version=int(sent["version"]),
            number=int(sent["number"]),
            is_response=sent["what"] == "Received",
            body={},
            latency_ms=float(sent["ms"]) if sent["ms"] else None,
        )
    match = _RD_LINE.search(text.replace('\\"', '"'))
    if match is None:
        return None
    for form, apis in _RD_FAILURES:
        failed = form.match(match["said"])
        if failed is None:
            continue
        part = failed.groupdict()
        keys = _keys_of(apis, part)
        error = _RD_ERROR.search(match["said"], failed.end())
        said = part.get("name") or (error[0] if error is not None else "")
        return _Failure(client, match["place"] or "", keys, said)
    return None


def _rd_client(text: str, line: bytes) -> str:
    """The client's name before a message, or in the JSON around it."""
    match = _RD_CLIENT.search(text) or _RD_CLIENT.search(line.decode("utf-8", "replace"))
    return match[0] if match is not None else ""


# Java

_JAVA = later(
    r"(?P<what>Sending|Received) (?P<api>[A-Z_0-9]+) (?:request|response)"
    r"(?: from node (?P<from>-?\d+) for request)? with header RequestHeader\(apiKey=\w+,"
    r" apiVersion=(?P<version>\d+), clientId=(?P<client>.*?), correlationId=(?P<number>-?\d+)"
    r"[^)]*\)(?: and timeout -?\d+ to node (?P<to>-?\d+))?: (?P<body>.*)",
    re.DOTALL,
)


def _java(text: str, _: bytes) -> Found:
    match = _JAVA.search(text)
    key = API_KEYS.get(match["api"]) if match is not None else None
    if match is None or key is None:
        return None
    node = int(match["from"] or match["to"] or UNKNOWN_BROKER)
    return _Message(
        client=match["client"],
        place=f"node {node}",
        broker=_broker_of(node),
        key=key,
        version=int(match["version"]),
        number=int(match["number"]),
        is_response=match["what"] == "Received",
        body=_body(key, match["body"]),
    )


_OLD_JAVA = later(
    r"(?:clientId=(?P<client>[^,\]]*+)[^\]]*+\] )?"
    r"(?:(?:Using older server API v(?P<version>\d+) to send|Sending) (?P<sent>[A-Z_]+)"
    r" (?P<request>\{.*\}) with correlation id (?P<number>\d+) to node (?P<to>-?\d+)"
    r"|Completed receive from node (?P<from>-?\d+) for (?P<received>[A-Z_]+)"
    r" with correlation id (?P<answered>\d+), received (?P<response>\{.*\}))",
    re.DOTALL,
)
"""Kafka 1.0 to 2.4: at TRACE, and at DEBUG the requests of older versions."""


def _old_java(text: str, _: bytes) -> Found:
    match = _OLD_JAVA.search(text) if "with correlation id " in text else None
    key = API_KEYS.get(match["sent"] or match["received"]) if match is not None else None
    if match is None or key is None:
        return None
    node = int(match["from"] or match["to"])
    body = _body(key, match["request"] or match["response"])
    for names in _BEFORE_MESSAGES.get(key, ()):
        body = rename(body, names)
    return _Message(
        client=match["client"] or UNNAMED,
        place=f"node {node}",
        broker=_broker_of(node),
        key=key,
        version=int(match["version"] or UNKNOWN_VERSION),
        number=int(match["number"] or match["answered"]),
        is_response=match["received"] is not None,
        body=body,
    )


def _broker_of(node: int) -> int:
    return COORDINATORS - node if node > COORDINATORS // 2 else max(node, UNKNOWN_BROKER)


# kafka-python and aiokafka

_PYTHON = later(
    r"<\w*Connection (?P<about>.*?)>:? (?P<what>Request|Response) (?P<number>\d+)"
    r"(?: \((?P<ms>[\d.e-]+) ms\))?: (?P<api>\w+?)(?:Request|Response)(?:_v(?P<version>\d+))?\("
)
_PYTHON_CLIENT = later(r"\bclient_id=([^\s,>]+)")
_PYTHON_NODE = later(r"\bnode_id=(\S+?),? host=(\[[^\]<]*<-\d+|\S+)")
_PYTHON_VERSION = later(r"version=(\d+)")
_PYTHON_SENT = later(
    r"node=(\S+?)\[(\S+?)\] Send: bytearray\((b(?:'[^\n]{1,2000}?'|\"[^\n]{1,2000}?\"))\)"
)
_AIOKAFKA = later(
    r"(?P<what>Request to|Response from) (?P<place>\S+) (?P<number>\d+):"
    r" (?P<api>\w+?)(?:Request|Response)_v(?P<version>\d+)\("
)
_PYTHON_ENUM = later(r"<\w+\.\w+: (-?\d+)>")
_PYTHON_STRUCT = later(r"(?<=[\[, (])\((?=\w+=)")
_OLDER_PYTHON: Names = {
    "group": ("groupId", {}),
    "consumerGroup": ("groupId", {}),
    "consumerGroupGenerationId": ("generationId", {}),
    "consumerId": ("memberId", {}),
    "requiredAcks": ("acks", {}),
}
"""Names of aiokafka, and of kafka-python 2, that Kafka does not have."""

_HEADER_BYTES = 14
"""Size of a frame's header before its client id."""


def _kafka_python(text: str, _: bytes) -> Found:
    named = _PYTHON_SENT.search(text)
    if named is not None:
        return _sent_by(named)
    match = _PYTHON.search(text)
    key = _key_of(match["api"]) if match is not None else None
    if match is None or key is None:
        return None
    client = _PYTHON_CLIENT.search(match["about"])
    node = _PYTHON_NODE.search(match["about"])
    version = match["version"] or _first(_PYTHON_VERSION.match(text, match.end()))
    return _Message(
        client=client[1] if client is not None else UNNAMED,
        place=f"{node[1]}{node[2]}" if node is not None else "",
        broker=_number_at_end(f"/{node[1].rpartition('-')[2]}") if node else UNKNOWN_BROKER,
        key=key,
        version=int(version) if version else UNKNOWN_VERSION,
        number=int(match["number"]),
        is_response=match["what"] == "Response",
        body=_python_body(key, text[match.end() :]),
        latency_ms=float(match["ms"]) if match["ms"] else None,
    )


def _sent_by(match: re.Match[str]) -> _Named | None:
    """The client of the frame that kafka-python 3 sends for the request of the line before."""
    try:
        frame = ast.literal_eval(match[3])
    except (ValueError, SyntaxError):
        return None
    size = int.from_bytes(frame[12:_HEADER_BYTES])
    client = frame[_HEADER_BYTES : _HEADER_BYTES + size].decode("utf-8", "replace")
    key, number = int.from_bytes(frame[4:6]), int.from_bytes(frame[8:12])
    return _Named(f"{match[1]}[{match[2]}", key, number, client) if len(client) == size else None


def _aiokafka(text: str, _: bytes) -> Found:
    match = _AIOKAFKA.search(text)
    key = _key_of(match["api"]) if match is not None else None
    if match is None or key is None:
        return None
    return _Message(
        client=UNNAMED,
        place=match["place"],
        broker=UNKNOWN_BROKER,
        key=key,
        version=int(match["version"]),
        number=int(match["number"]),
        is_response=match["what"].startswith("Response"),
        body=_python_body(key, text[match.end() :]),
    )


def _python_body(key: int, fields: str) -> Any:
    """Parse the fields of a body, which are almost Python; bytes are left out."""
    if may_hold_credentials(key):
        return {}
    text = _PYTHON_STRUCT.sub("_(", _PYTHON_ENUM.sub(r"\1", fields))
    try:
        tree = ast.parse(f"_({text.strip()}", mode="eval")
        body = _plain(tree.body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    body = rename(body, _OLDER_PYTHON)
    for names in _BEFORE_MESSAGES.get(key, ()):
        body = rename(body, names)
    return body


def _plain(node: ast.AST) -> Any:
    """The value of an expression: a call is its fields, or its only argument."""
    if isinstance(node, ast.Call):
        named = {each.arg or "": _plain(each.value) for each in node.keywords}
        made = {java_text.camel(name): each for name, each in named.items()}
        return _plain(node.args[0]) if node.args and not made else made
    if isinstance(node, ast.Tuple):
        return _named_part([_plain(each) for each in node.elts])
    if isinstance(node, ast.List):
        return [_plain(each) for each in node.elts]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_plain(node.operand)
    if isinstance(node, ast.Constant) and isinstance(node.value, str | int | float):
        return node.value
    return None


def _named_part(values: list[Any]) -> Any:
    """A tuple that kafka-python accepts for a part: a name, and what belongs to it."""
    if not values or not isinstance(values[0], str):
        return values
    partitions = next((each for each in values[1:] if isinstance(each, list)), None)
    return {"name": values[0], **({} if partitions is None else {"partitions": partitions})}


# KafkaJS

_KAFKAJS = later(r"(?P<what>Request|Response) \w+\(key: (?P<key>\d+), version: (?P<version>\d+)\)")


class _Entry(msgspec.Struct, rename="camel"):
    broker: str = ""
    client_id: str = ""
    correlation_id: int = -1
    data: Any = None
    error: str = ""


def _kafkajs(text: str, _: bytes) -> Found:
    match = _KAFKAJS.search(text)
    if match is None:
        return None
    entry = _entry(text, 0, match.start()) or _entry(text, match.end(), len(text))
    if entry is None:
        return None
    key = int(match["key"])
    body = entry.data if isinstance(entry.data, dict) and not may_hold_credentials(key) else {}
    if entry.error:
        body = _response_of(entry.error, code_of(entry.error))
    return _Message(
        client=entry.client_id or UNNAMED,
        place=entry.broker,
        broker=UNKNOWN_BROKER,
        key=key,
        version=int(match["version"]),
        number=entry.correlation_id,
        is_response=match["what"] == "Response",
        body=body,
    )


def _entry(text: str, at: int, until: int) -> _Entry | None:
    """The fields of a JSON object that begins in a part of a text."""
    start = text.find("{", at, until)
    try:
        fields = msgspec.json.decode(text[start : text.rfind("}") + 1]) if start >= 0 else None
        return msgspec.convert(_with_correlation_id(fields), _Entry)
    except (msgspec.MsgspecError, RecursionError):
        return None


def _with_correlation_id(fields: Any, depth: int = 3) -> Any:
    """KafkaJS's fields, which loggers put into an object of their own."""
    if not isinstance(fields, dict) or "correlationId" in fields or not depth:
        return fields
    within = (_with_correlation_id(each, depth - 1) for each in fields.values())
    return next(
        (each for each in within if isinstance(each, dict) and "correlationId" in each), None
    )


# franz-go

_FRANZ = later(r"\b(?P<what>wrote|read) (?P<api>[A-Z]\w+) v(?P<version>\d+)[;\"\s]")
_FRANZ_BROKER = later(r"\bbroker\"?[=:] ?\"?(\w+)")
_FRANZ_ERROR = later(r"\berr(?:or)?\"?[=:] *\"?(?![ \",]|<nil>|null\b|$)")
_FRANZ_NAME = later(r"\berr(?:or)?\\?\"?[:=] ?\\?\"?(?P<name>[A-Z]+_\w+)")
_FRANZ_FAILURES: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = tuple(
    (later(form), apis)
    for form, apis in (
        (
            r"retrying request\W+request\W+(?P<api>\w+)\W.*response_error\W+(?P<name>[A-Z]+_\w+)",
            (),
        ),
        (
            r"retrying request\W.*request_error\W{1,4}(?P<name>COORDINATOR_NOT_AVAILABLE)",
            ("FIND_COORDINATOR",),
        ),
        (r"\b(?P<api>InitProducerID|AddPartitionsToTxn) failed with (?P<name>[A-Z_]+)", ()),
        (r"\bproduced\W+broker\W.*?\((?P<name>[A-Z]+_\w+): ", ("PRODUCE",)),
        (r"\bheartbeat ", ("HEARTBEAT", "CONSUMER_GROUP_HEARTBEAT", "SHARE_GROUP_HEARTBEAT")),
        (r"\bjoin group failed", ("JOIN_GROUP",)),
        (r"\bsync group failed", ("SYNC_GROUP",)),
        (r"\bfetch offsets ", ("OFFSET_FETCH",)),
        (r"\bcommit ", ("OFFSET_COMMIT",)),
    )
)
"""Messages with an error's name, or with a field of it."""


def _franz_go(text: str, _: bytes) -> Found:
    match = _FRANZ.search(text)
    if match is not None:
        key, broker = _key_of(match["api"]), _FRANZ_BROKER.search(text)
        if key is None or broker is None or _FRANZ_ERROR.search(text):
            return None
        return _Message(
            client=UNNAMED,
            place=broker[1],
            broker=_number_at_end(f"/{broker[1]}"),
            key=key,
            version=int(match["version"]),
            number=None,
            is_response=match["what"] == "read",
            body={},
        )
    for form, apis in _FRANZ_FAILURES:
        match = form.search(text)
        if match is not None:
            part = match.groupdict()
            name = part.get("name") or _first(_FRANZ_NAME.search(text))
            return _Failure("", "", _keys_of(apis, part), name)
    return None


# Sarama

_SARAMA_ERROR = later(r"kafka server: (?!Not an error).*?(?=\)+\s*$|$)")
_SARAMA: tuple[tuple[re.Pattern[str], str, bool], ...] = tuple(
    (later(form), api, is_response)
    for form, api, is_response in (
        (r"client/metadata fetching metadata .*? from broker (?P<place>\S+)", "METADATA", False),
        (r"client/metadata got error from broker \d+ ", "METADATA", True),
        (
            r"client/coordinator requesting coordinator for (?P<name>\S+) from (?P<place>\S+)",
            "FIND_COORDINATOR",
            False,
        ),
        (r"client/coordinator coordinator for (?P<name>\S+) is ", "FIND_COORDINATOR", True),
        (
            r"Completed ApiVersionsRequest V(?P<version>\d+) to (?P<place>\S+)\.",
            "API_VERSIONS",
            True,
        ),
        (r"txnmgr/init-producer-id \[(?P<name>.*?)\] invoking ", "INIT_PRODUCER_ID", False),
        (
            r"txnmgr/init-producer-id \[(?P<name>.*?)\] (?:retrying|successful) ",
            "INIT_PRODUCER_ID",
            True,
        ),
        (r"txnmgr/add-partition-to-txn .*?(?:retrying|successful) ", "ADD_PARTITIONS_TO_TXN", True),
        (r"txnmgr/add-offset-to-txn .*?(?:retrying|successful) ", "ADD_OFFSETS_TO_TXN", True),
        (r"txnmgr/txn-offset-commit .*?(?:retrying|successful) ", "TXN_OFFSET_COMMIT", True),
        (r"txnmgr/endtxn \[(?P<name>.*?)\] (?:retrying|successful) ", "END_TXN", True),
        (r"producer/broker/(?P<place>\d+) .*because kafka server: ", "PRODUCE", True),
        (r"consumer/broker/(?P<place>\d+) .*because kafka server: ", "FETCH", True),
    )
)
_SARAMA_PRODUCER = later(r"\bProducerID:(\d+) ProducerEpoch:(\d+)")
_SARAMA_NAMES = {
    "FIND_COORDINATOR": "key",
    "INIT_PRODUCER_ID": "transactionalId",
    "END_TXN": "transactionalId",
}


def _sarama(text: str, _: bytes) -> Found:
    for form, api, is_response in _SARAMA:
        match = form.search(text)
        if match is None:
            continue
        part = match.groupdict()
        error = _SARAMA_ERROR.search(text, match.start())
        body: dict[str, Any] = {}
        if is_response and text.startswith("not available", match.end()):
            body = _response_of("COORDINATOR_NOT_AVAILABLE", Error.COORDINATOR_NOT_AVAILABLE)
        elif is_response and error is not None:
            body = _response_of(error[0], code_of(error[0]))
        elif (got := _SARAMA_PRODUCER.search(text, match.start())) is not None:
            body = {"errorCode": 0, "producerId": int(got[1]), "producerEpoch": int(got[2])}
        request = {_SARAMA_NAMES[api]: part["name"]} if part.get("name") else {}
        place = part.get("place") or ""
        return _Message(
            client=UNNAMED,
            place="broker",
            broker=int(place) if place.isdecimal() else UNKNOWN_BROKER,
            key=API_KEYS[api],
            version=int(part.get("version") or UNKNOWN_VERSION),
            number=None,
            is_response=is_response,
            body=body if is_response else request,
            request=request,
        )
    return None


def _refusal(text: str, _: bytes) -> Found:
    refusal = client_refusals.refusal_in(text)
    if refusal is None:
        return None
    key = API_KEYS[refusal.api] if refusal.api else UNKNOWN_API
    return _Failure(refusal.client, "", (key,), refusal.said, refusal.number)


_READERS: tuple[Callable[[str, bytes], Found], ...] = (
    *(_librdkafka, _java, _old_java, _refusal, _kafka_python, _aiokafka, _kafkajs, _franz_go),
    _sarama,
)


def _keys_of(apis: tuple[str, ...], part: dict[str, Any]) -> tuple[int, ...]:
    named = _key_of(part["api"]) if not apis else None
    return tuple(API_KEYS[api] for api in apis) if apis or named is None else (named,)


def _body(key: int, text: str) -> Any:
    """Parse a body; empty if it may have credentials or is cut."""
    if may_hold_credentials(key):
        return {}
    try:
        return java_text.body_of(text)[0]
    except java_text.UnparsableError:
        return {}


def _response_of(error: str, code: Error | None) -> dict[str, Any]:
    """A response with the error of a client's text."""
    return (
        {"errorMessage": error} if code is None else {"errorCode": int(code), "errorMessage": error}
    )


_NUMBER_AT_END = later(r"/(\d+)$")
_BEFORE_MESSAGES = {API_KEYS[name]: names for name, names in BEFORE_MESSAGES.items()}
_BY_PLAIN_NAME = {name.replace("_", ""): key for name, key in API_KEYS.items()} | {
    "OFFSET": API_KEYS["LIST_OFFSETS"],
    "APIVERSION": API_KEYS["API_VERSIONS"],
    "GROUPCOORDINATOR": API_KEYS["FIND_COORDINATOR"],
}


def _number_at_end(place: str) -> int:
    match = _NUMBER_AT_END.search(place)
    return int(match[1]) if match is not None else UNKNOWN_BROKER


def _first(match: re.Match[str] | None) -> str:
    return str(match[1]) if match is not None else ""


def _key_of(api: str) -> int | None:
    """Return the API key for a client's name, such as JoinGroup or InitProducerID."""
    return _BY_PLAIN_NAME.get(api.upper())
