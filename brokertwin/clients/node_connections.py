"""Connection state of each node, with reconnect backoff.

    (unknown) --connecting--> CONNECTING --ready--> READY
           |                      |
           +-----disconnected-----+--> DISCONNECTED --connecting--> ...

Each consecutive failure increases the backoff. Each failed setup also increases the setup timeout.
A successful connection resets both. Source: `ClusterConnectionStates` in Kafka; KIP-144, KIP-601.
"""

from enum import StrEnum

import msgspec

from brokertwin.clients.backoff import ExponentialBackoff

UNLIMITED_MS = 2**63 - 1
"""No timeout: wait for an event."""


class ConnectionState(StrEnum):
    CONNECTING = "connecting"
    READY = "ready"
    DISCONNECTED = "disconnected"


class NodeConnection(msgspec.Struct):
    """A node; times in ms. `last_attempt_ms` is the last try or disconnect."""

    state: ConnectionState
    last_attempt_ms: int
    reconnect_backoff_ms: int
    setup_timeout_ms: int
    failures: int = 0
    failed_setups: int = 0


class NodeConnections:
    """The connections of one client; `unit` in [0, 1) selects the jitter."""

    def __init__(self, reconnect: ExponentialBackoff, setup: ExponentialBackoff) -> None:
        self._reconnect = reconnect
        self._setup = setup
        self._nodes: dict[int, NodeConnection] = {}

    def state(self, node: int) -> ConnectionState | None:
        """The state of a node; None before the first attempt."""
        connection = self._nodes.get(node)
        return connection.state if connection is not None else None

    def is_ready(self, node: int) -> bool:
        return self.state(node) is ConnectionState.READY

    def is_connecting(self, node: int) -> bool:
        return self.state(node) is ConnectionState.CONNECTING

    def is_any_connecting(self) -> bool:
        return any(self.is_connecting(node) for node in self._nodes)

    def can_connect(self, node: int, now: int) -> bool:
        connection = self._nodes.get(node)
        if connection is None:
            return True
        is_down = connection.state is ConnectionState.DISCONNECTED
        return is_down and now - connection.last_attempt_ms >= connection.reconnect_backoff_ms

    def last_attempt_ms(self, node: int) -> int:
        """The time of the last attempt; 0 if there was none."""
        connection = self._nodes.get(node)
        return connection.last_attempt_ms if connection is not None else 0

    def connecting(self, node: int, now: int, unit: float) -> None:
        connection = self._nodes.get(node)
        if connection is None:
            self._nodes[node] = NodeConnection(
                ConnectionState.CONNECTING,
                now,
                self._reconnect.backoff(0, unit),
                self._setup.backoff(0, unit),
            )
            return
        connection.state = ConnectionState.CONNECTING
        connection.last_attempt_ms = now

    def ready(self, node: int, unit: float) -> None:
        """Mark the connection as open. Raises KeyError if it was never tried."""
        connection = self._nodes[node]
        connection.state = ConnectionState.READY
        connection.failures = connection.failed_setups = 0
        connection.reconnect_backoff_ms = self._reconnect.backoff(0, unit)
        connection.setup_timeout_ms = self._setup.backoff(0, unit)

    def disconnected(self, node: int, now: int, unit: float) -> None:
        """Mark the connection as closed or failed. Raises KeyError likewise."""
        connection = self._nodes[node]
        was_connecting = connection.state is ConnectionState.CONNECTING
        connection.state = ConnectionState.DISCONNECTED
        connection.last_attempt_ms = now
        connection.reconnect_backoff_ms = self._reconnect.backoff(connection.failures, unit)
        connection.failures += 1
        connection.failed_setups = connection.failed_setups + 1 if was_connecting else 0
        connection.setup_timeout_ms = self._setup.backoff(connection.failed_setups, unit)

    def delay_ms(self, node: int, now: int) -> int:
        """How long to wait before checking the node again (`connectionDelay`)."""
        connection = self._nodes.get(node)
        if connection is None:
            return 0
        if connection.state is ConnectionState.CONNECTING:
            return connection.setup_timeout_ms
        if connection.state is ConnectionState.READY:
            return UNLIMITED_MS
        waited = now - connection.last_attempt_ms
        return max(connection.reconnect_backoff_ms - waited, 0)

    def overdue(self, now: int) -> list[int]:
        """Nodes whose connection setup has timed out, by id."""
        connecting = ConnectionState.CONNECTING
        late = [
            node
            for node, connection in self._nodes.items()
            if connection.state is connecting
            and now - connection.last_attempt_ms > connection.setup_timeout_ms
        ]
        return sorted(late)
