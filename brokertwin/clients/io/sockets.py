"""A network of sockets for the clients: connections by node.

    driver = ClientDriver(client, SocketNetwork("localhost:9092", "my-client"), monotonic_ms)

`clients/client_loop.py` decides what to open, send and close. The addresses of a host name are
tried one per attempt (KIP-302). Source: `Selector`, `ClusterConnectionStates` in Kafka.
"""

import selectors
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

from brokertwin.clients.client_loop import Action, Disconnected, NetworkEvent, Send
from brokertwin.clients.io.connection import ClientConnection
from brokertwin.clients.io.sasl import SaslAuthenticationError
from brokertwin.clients.io.security import Kafka, security_of
from brokertwin.clients.network import Connect
from brokertwin.clients.partitions import Node
from brokertwin.clients.producer_batch import ProducerBatch
from brokertwin.protocol.bodies import render
from brokertwin.protocol.primitives import MalformedError

WAIT_MS_MAX = 3_600_000

Encode = Callable[[ProducerBatch], bytes]
"""Encodes a producer batch."""


def monotonic_ms() -> int:
    """The machine's monotonic clock in ms."""
    return time.monotonic_ns() // 1_000_000


def wall_ms() -> int:
    """The time in ms since 1970, for record timestamps."""
    return time.time_ns() // 1_000_000


def wait_for_any(networks: "Iterable[SocketNetwork]", timeout_ms: int) -> None:
    with selectors.DefaultSelector() as every:
        for network in networks:
            for key in network.selector.get_map().values():
                every.register(key.fd, key.events)  # TLS wraps the socket in another object
        every.select(timeout_ms / 1000)


class SocketNetwork:
    """Non-blocking sockets of one client and thread; `wake` is thread-safe."""

    def __init__(self, kafka: Kafka, client_id: str, encode: Encode | None = None) -> None:
        """Raises UserError for invalid security properties."""
        self._security = security_of(kafka)
        self._client_id = client_id
        self._encode = encode
        self.selector = selectors.DefaultSelector()
        self._connections: dict[int, ClientConnection] = {}
        self._attempts: Counter[int] = Counter()
        self._failed: list[int] = []
        self._refused: SaslAuthenticationError | None = None
        self._ear, self._bell = socket.socketpair()
        for end in (self._ear, self._bell):
            end.setblocking(False)
        self.selector.register(self._ear, selectors.EVENT_READ, None)

    def do(self, action: Action) -> None:
        if isinstance(action, Connect):
            self._connect(action.node)
        elif isinstance(action, Send):
            self._send(action)
        else:
            self._close(action.node)

    def wait(self, timeout_ms: int) -> list[NetworkEvent]:
        """Return events, waiting at most `timeout_ms`.

        Raises SaslAuthenticationError once if a broker rejected the client.
        """
        if self._refused is not None:
            refused, self._refused = self._refused, None
            raise refused
        events: list[NetworkEvent] = [Disconnected(node) for node in self._failed]
        self._failed.clear()
        seconds = 0.0 if events else min(timeout_ms, WAIT_MS_MAX) / 1000
        for key, _ in self.selector.select(seconds):
            if key.data is None:
                self._drain_bell()
            else:
                events += self._happened(key.data)
        return events

    def wake(self) -> None:
        """End the current or next wait at once."""
        with suppress(BlockingIOError):
            self._bell.send(b"!")

    def close(self) -> None:
        for node in list(self._connections):
            self._close(node)
        self.selector.close()
        self._ear.close()
        self._bell.close()

    # Connections

    def _connect(self, node: Node) -> None:
        try:
            addresses = socket.getaddrinfo(node.host, node.port, type=socket.SOCK_STREAM)
            family, kind, protocol, _, address = addresses[self._attempts[node.id] % len(addresses)]
            self._attempts[node.id] += 1
            made = socket.socket(family, kind, protocol)
            made.setblocking(False)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            made.connect_ex(address)
        except OSError:
            self._failed.append(node.id)
            return
        connection = ClientConnection(node, made, self._client_id, self._security)
        self._connections[node.id] = connection
        self.selector.register(made, connection.interest, connection)

    def _close(self, node: int) -> None:
        connection = self._connections.pop(node, None)
        if connection is not None:
            self.selector.unregister(connection.socket)
            connection.socket.close()

    def _happened(self, connection: ClientConnection) -> Iterator[NetworkEvent]:
        if self._connections.get(connection.node) is not connection:
            return
        was_open = connection.is_open
        try:
            yield from connection.happened(monotonic_ms())
        except SaslAuthenticationError as refused:
            self._refused = refused
        except (OSError, MalformedError):
            """The connection is lost."""
        else:
            if connection.is_open and not was_open:
                self._attempts[connection.node] -= 1  # the address works, so it stays the next one
            self.selector.modify(connection.socket, connection.interest, connection)
            return
        self._close(connection.node)
        yield Disconnected(connection.node)

    def _drain_bell(self) -> None:
        with suppress(BlockingIOError):
            while self._ear.recv(64):
                """Discard all wake-ups."""

    # Requests

    def _send(self, send: Send) -> None:
        connection = self._connections.get(send.node)
        if connection is None:
            return
        body = render(send.body, send.version)
        if send.batches:
            self._put_records(body, send.batches)
        try:
            connection.send(monotonic_ms(), send, body)
        except OSError:
            self._close(send.node)
            self._failed.append(send.node)
        else:
            self.selector.modify(connection.socket, connection.interest, connection)

    def _put_records(self, body: dict[str, Any], batches: list[ProducerBatch]) -> None:
        assert self._encode is not None, "a producer's network has an encoder"
        by_partition = {tuple(batch.topic_partition): batch for batch in batches}
        for topic in body["topicData"]:
            for partition in topic["partitionData"]:
                batch = by_partition[topic["name"], partition["index"]]
                partition["records"] = self._encode(batch)
