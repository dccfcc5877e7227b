"""In-flight requests of a producer: node availability and load.

Source: seed 002; `InFlightRequests` and `NetworkClient.leastLoadedNode` in Kafka. The caller has
the connections. It opens one with the first request to a node, so a node counts as connecting until
its first response. The caller reports closed connections. Kafka breaks ties between nodes at
random; here the lowest id wins.
"""

from collections.abc import Callable
from typing import Protocol

from brokertwin.clients.backoff import ExponentialBackoff
from brokertwin.clients.node_connections import ConnectionState, NodeConnections

Jitter = Callable[[], float]
"""Returns a number in [0, 1)."""


class Requests(Protocol):
    """The nodes, as a sender needs them (see `clients/producer_client.py`)."""

    def next_id(self) -> int:
        """Return the id of the next request."""

    def set_nodes(self, nodes: list[int]) -> None:
        """Set the current nodes."""

    def may_send(self, node: int, now: int) -> bool:
        """Whether a node accepts another request."""

    def least_loaded(self, now: int) -> int | None:
        """The least loaded node; None if no node accepts a request."""

    def sent(self, node: int, request_id: int, now: int) -> None:
        """Track a request."""

    def on_response(self, node: int, request_id: int) -> None:
        """Mark a request as done."""

    def disconnected(self, node: int, now: int) -> list[int]:
        """Handle a closed connection; returns its requests."""

    def deadlines(self, now: int) -> list[int]:
        """Return when refusing nodes may accept requests again."""


class InFlightRequests:
    """Request ids by node, in order. Times are ms on the caller's clock."""

    def __init__(self, in_flight_max: int, reconnect: ExponentialBackoff, jitter: Jitter) -> None:
        self._last_id = 0
        self._in_flight_max = in_flight_max
        self._connections = NodeConnections(reconnect)
        self._jitter = jitter
        self._nodes: dict[int, list[int]] = {}

    def next_id(self) -> int:
        """Return the id of the next request."""
        self._last_id += 1
        return self._last_id

    def set_nodes(self, nodes: list[int]) -> None:
        """Set the current nodes; a removed node stays while it has requests."""
        busy = [node for node, requests in self._nodes.items() if requests]
        self._nodes = {node: self._nodes.get(node, []) for node in sorted({*busy, *nodes})}

    def may_send(self, node: int, now: int) -> bool:
        """Whether a node accepts another request."""
        requests = self._nodes.get(node)
        if requests is None or len(requests) >= self._in_flight_max:
            return False
        return not self._is_down(node) or self._connections.can_connect(node, now)

    def _is_down(self, node: int) -> bool:
        return self._connections.state(node) is ConnectionState.DISCONNECTED

    def least_loaded(self, now: int) -> int | None:
        """The node with the fewest requests; None if no node accepts one."""
        able = [node for node in self._nodes if self.may_send(node, now)]
        return min(able, key=lambda node: (len(self._nodes[node]), node), default=None)

    def sent(self, node: int, request_id: int, now: int) -> None:
        """Track a request."""
        if self._connections.state(node) is None or self._is_down(node):
            self._connections.connecting(node, now, self._jitter())
        self._nodes[node].append(request_id)

    def on_response(self, node: int, request_id: int) -> None:
        """Mark a request as done."""
        if not self._connections.is_ready(node):
            self._connections.ready(node, self._jitter())
        self._nodes[node].remove(request_id)

    def disconnected(self, node: int, now: int) -> list[int]:
        """Handle a closed connection; returns its requests."""
        if self._connections.state(node) is not None:
            self._connections.disconnected(node, now, self._jitter())
        unanswered = self._nodes.get(node, [])
        if unanswered:
            self._nodes[node] = []
        return unanswered

    def deadlines(self, now: int) -> list[int]:
        """Return when closed connections may be reopened."""
        down = (node for node in self._nodes if self._is_down(node))
        return [now + self._connections.delay_ms(node, now) for node in down]
