"""A network of sockets for our own clients: connections by node, frames out, answers in.

    driver = Driver(client, SocketNetwork("my-client"), monotonic_ms)

It decides nothing: `clients/client_loop.py` says what to open, send and close. A name that has
several addresses is tried at one after the other, one for each attempt, as KIP-302 has it. Not
done: TLS, SASL. Source: `Selector`, `KafkaChannel`, `ClusterConnectionStates` in Kafka.
"""

import selectors
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from brokerstream.clients.client_loop import (
    Action,
    Answered,
    Connected,
    Disconnected,
    NetworkEvent,
    Send,
)
from brokerstream.clients.fetcher import Records
from brokerstream.clients.network import Connect
from brokerstream.clients.partitions import Node
from brokerstream.clients.producer_batch import ProducerBatch
from brokerstream.drivers.records import decode_records
from brokerstream.gateway.protocol.frames import Request, decode_response, encode_request
from brokerstream.gateway.protocol.primitives import MalformedError
from brokerstream.state.core.errors import Error
from brokerstream.state.core.kafka_apis import API_VERSIONS, KAFKA_APIS
from brokerstream.state.core.schema import render

READ_BYTES = 1 << 18
FRAME_BYTES_MAX = 1 << 30
WAIT_MS_MAX = 3_600_000
_SIZE = struct.Struct(">i")
_CORRELATION_ID = struct.Struct(">i")
_KEYS = {api.name: key for key, api in KAFKA_APIS.items()}

Encode = Callable[[ProducerBatch], bytes]
"""The bytes of a producer's batch."""


def monotonic_ms() -> int:
    """The machine's monotonic clock in ms."""
    return time.monotonic_ns() // 1_000_000


def wall_ms() -> int:
    """The time in ms since 1970, as records have it."""
    return time.time_ns() // 1_000_000


class _Connection:
    """One socket; requests that wait for an answer by their correlation ids."""

    def __init__(self, node: int, open_socket: socket.socket) -> None:
        self.node = node
        self.socket = open_socket
        self.is_open = False
        self.out = bytearray()
        self.read = bytearray()
        self.asked: dict[int, tuple[int, int]] = {}


def wait_for_any(networks: "Iterable[SocketNetwork]", timeout_ms: int) -> None:
    """Waits until something has happened on one of them, at most so long; their `wait` tells it."""
    with selectors.DefaultSelector() as every:
        for network in networks:
            for key in network.selector.get_map().values():
                every.register(key.fileobj, key.events)
        every.select(timeout_ms / 1000)


class SocketNetwork:
    """Sockets that do not block. For one client, in one thread; `wake` may come from others."""

    def __init__(self, client_id: str, encode: Encode | None = None) -> None:
        self._client_id = client_id
        self._encode = encode
        self.selector = selectors.DefaultSelector()
        self._connections: dict[int, _Connection] = {}
        self._attempts: Counter[int] = Counter()
        self._failed: list[int] = []
        self._ear, self._bell = socket.socketpair()
        for end in (self._ear, self._bell):
            end.setblocking(False)
        self.selector.register(self._ear, selectors.EVENT_READ, None)

    def do(self, action: Action) -> None:
        """Opens, sends or closes."""
        if isinstance(action, Connect):
            self._connect(action.node)
        elif isinstance(action, Send):
            self._send(action)
        else:
            self._close(action.node)

    def wait(self, timeout_ms: int) -> list[NetworkEvent]:
        """What has happened; waits for something, at most so long."""
        events: list[NetworkEvent] = [Disconnected(node) for node in self._failed]
        self._failed.clear()
        seconds = 0.0 if events else min(timeout_ms, WAIT_MS_MAX) / 1000
        for key, mask in self.selector.select(seconds):
            if key.data is None:
                self._drain_bell()
            else:
                events += self._happened(key.data, mask)
        return events

    def wake(self) -> None:
        """Ends a wait, or the next one, at once."""
        with suppress(BlockingIOError):
            self._bell.send(b"!")

    def close(self) -> None:
        """Closes all connections."""
        for node in list(self._connections):
            self._close(node)
        self.selector.close()
        self._ear.close()
        self._bell.close()

    # Connections

    def _connect(self, node: Node) -> None:
        try:
            found = socket.getaddrinfo(node.host, node.port, type=socket.SOCK_STREAM)
            family, kind, protocol, _, address = found[self._attempts[node.id] % len(found)]
            self._attempts[node.id] += 1
            made = socket.socket(family, kind, protocol)
            made.setblocking(False)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            made.connect_ex(address)
        except OSError:
            self._failed.append(node.id)
            return
        connection = self._connections[node.id] = _Connection(node.id, made)
        self.selector.register(made, selectors.EVENT_WRITE, connection)

    def _close(self, node: int) -> None:
        connection = self._connections.pop(node, None)
        if connection is not None:
            self.selector.unregister(connection.socket)
            connection.socket.close()

    def _lost(self, connection: _Connection) -> list[NetworkEvent]:
        self._close(connection.node)
        return [Disconnected(connection.node)]

    def _happened(self, connection: _Connection, mask: int) -> list[NetworkEvent]:
        if self._connections.get(connection.node) is not connection:
            return []
        try:
            if not connection.is_open:
                return self._opened(connection)
            if mask & selectors.EVENT_WRITE:
                self._flush(connection)
            return self._read(connection) if mask & selectors.EVENT_READ else []
        except (OSError, MalformedError):
            return self._lost(connection)

    def _opened(self, connection: _Connection) -> list[NetworkEvent]:
        if connection.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            return self._lost(connection)
        connection.is_open = True
        self._attempts[connection.node] -= 1  # the address works: it is the next one, too
        self.selector.modify(connection.socket, selectors.EVENT_READ, connection)
        return [Connected(connection.node)]

    def _drain_bell(self) -> None:
        with suppress(BlockingIOError):
            while self._ear.recv(64):
                """One ring or many: it is awake."""

    # Requests and answers

    def _send(self, send: Send) -> None:
        connection = self._connections.get(send.node)
        if connection is None:
            return
        body = render(send.body, send.version)
        if send.batches:
            self._put_records(body, send.batches)
        key = _KEYS[send.api]
        header = {
            "requestApiKey": key,
            "requestApiVersion": send.version,
            "correlationId": send.request_id,
            "clientId": self._client_id,
        }
        frame = encode_request(Request(header, body))
        if send.wants_answer:
            connection.asked[send.request_id] = (key, send.version)
        connection.out += _SIZE.pack(len(frame)) + frame
        try:
            self._flush(connection)
        except OSError:
            self._close(send.node)
            self._failed.append(send.node)

    def _put_records(self, body: dict[str, Any], batches: list[ProducerBatch]) -> None:
        assert self._encode is not None, "a producer's network has an encoder"
        by_partition = {tuple(batch.topic_partition): batch for batch in batches}
        for topic in body["topicData"]:
            for partition in topic["partitionData"]:
                batch = by_partition[topic["name"], partition["index"]]
                partition["records"] = self._encode(batch)

    def _flush(self, connection: _Connection) -> None:
        if connection.out:
            with suppress(BlockingIOError):
                del connection.out[: connection.socket.send(connection.out)]
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.out else 0)
        self.selector.modify(connection.socket, wanted, connection)

    def _read(self, connection: _Connection) -> list[NetworkEvent]:
        try:
            data = connection.socket.recv(READ_BYTES)
        except BlockingIOError:
            return []
        if not data:
            return self._lost(connection)
        connection.read += data
        events: list[NetworkEvent] = []
        while len(connection.read) >= _SIZE.size:
            (size,) = _SIZE.unpack_from(connection.read)
            if not 0 <= size <= FRAME_BYTES_MAX:
                return [*events, *self._lost(connection)]
            end = _SIZE.size + size
            if len(connection.read) < end:
                break
            events.append(_answer(connection, bytes(connection.read[_SIZE.size : end])))
            del connection.read[:end]
        return events


def _answer(connection: _Connection, frame: bytes) -> Answered:
    """Raises MalformedError for what is no answer to a request under way."""
    if len(frame) < _CORRELATION_ID.size:
        raise MalformedError("a frame without a correlation id")
    (request_id,) = _CORRELATION_ID.unpack_from(frame)
    if request_id not in connection.asked:
        raise MalformedError(f"an answer to request {request_id}, which is not under way")
    key, version = connection.asked.pop(request_id)
    if key == API_VERSIONS and frame[4:6] == Error.UNSUPPORTED_VERSION.to_bytes(2, "big"):
        version = 0  # the answer of a broker that does not know the version (KIP-511)
    _, body = decode_response(key, version, frame)
    records = _take_records(body) if KAFKA_APIS[key].name == "FETCH" else {}
    return Answered(connection.node, request_id, body, records)


def _take_records(body: dict[str, Any]) -> Mapping[tuple[str, int], Records]:
    """Takes the record bytes out of a Fetch answer, and reads them."""
    found = {}
    for topic in body["responses"]:
        name = topic.get("topic") or topic.get("topicId")
        for partition in topic["partitions"]:
            data = partition.pop("records", None)
            records = decode_records(data, partition["abortedTransactions"]) if data else None
            if records is not None:
                found[name, partition["partitionIndex"]] = records
    return found
