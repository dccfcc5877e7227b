"""A producer's requests under way: which node takes another one, and which has the least to do.

Source: seed 002; `InFlightRequests` and `NetworkClient.leastLoadedNode` in Kafka. The connections
are the caller's: it opens one when the first request goes to a node, so a node counts as being
connected to until it answers, and says when one is closed. Where several nodes are equal, Kafka
takes one by chance; here it is the lowest id.
"""

from collections.abc import Callable
from typing import Protocol

from brokertwin.clients.backoff import ExponentialBackoff
from brokertwin.clients.node_connections import ConnectionState, NodeConnections

Jitter = Callable[[], float]
"""Gives a number from 0 (inclusive) to 1 (exclusive) with each call."""


class Requests(Protocol):
    """What a sender has to know of nodes; `clients/producer_client.py` has them on its loop."""

    def next_id(self) -> int:
        """The id of the next request."""

    def set_nodes(self, nodes: list[int]) -> None:
        """The nodes that there are now."""

    def may_send(self, node: int, now: int) -> bool:
        """Whether a node takes another request."""

    def least_loaded(self, now: int) -> int | None:
        """The node with the least to do; None while no node takes a request."""

    def sent(self, node: int, request_id: int, now: int) -> None:
        """A request is under way."""

    def answered(self, node: int, request_id: int) -> None:
        """Its answer has come."""

    def disconnected(self, node: int, now: int) -> list[int]:
        """The connection is closed; the requests that get no answer any more."""

    def deadlines(self, now: int) -> list[int]:
        """When nodes that took nothing may take something."""


class InFlightRequests:
    """Request ids by node, in their order. Times are ms on the caller's clock."""

    def __init__(self, in_flight_max: int, reconnect: ExponentialBackoff, jitter: Jitter) -> None:
        self._last_id = 0
        self._in_flight_max = in_flight_max
        self._connections = NodeConnections(reconnect)
        self._jitter = jitter
        self._nodes: dict[int, list[int]] = {}

    def next_id(self) -> int:
        """The id of the next request."""
        self._last_id += 1
        return self._last_id

    def set_nodes(self, nodes: list[int]) -> None:
        """The nodes that there are now; one that has gone stays while requests are under way."""
        busy = [node for node, requests in self._nodes.items() if requests]
        self._nodes = {node: self._nodes.get(node, []) for node in sorted({*busy, *nodes})}

    def may_send(self, node: int, now: int) -> bool:
        """Whether a node takes another request."""
        requests = self._nodes.get(node)
        if requests is None or len(requests) >= self._in_flight_max:
            return False
        return not self._is_down(node) or self._connections.can_connect(node, now)

    def _is_down(self, node: int) -> bool:
        return self._connections.state(node) is ConnectionState.DISCONNECTED

    def least_loaded(self, now: int) -> int | None:
        """The node with the fewest requests under way; None while no node takes one."""
        able = [node for node in self._nodes if self.may_send(node, now)]
        return min(able, key=lambda node: (len(self._nodes[node]), node), default=None)

    def sent(self, node: int, request_id: int, now: int) -> None:
        """A request is under way."""
        if self._connections.state(node) is None or self._is_down(node):
            self._connections.connecting(node, now, self._jitter())
        self._nodes[node].append(request_id)

    def answered(self, node: int, request_id: int) -> None:
        """Its answer has come."""
        if not self._connections.is_ready(node):
            self._connections.ready(node, self._jitter())
        self._nodes[node].remove(request_id)

    def disconnected(self, node: int, now: int) -> list[int]:
        """The connection is closed; the requests that get no answer any more."""
        if self._connections.state(node) is not None:
            self._connections.disconnected(node, now, self._jitter())
        unanswered = self._nodes.get(node, [])
        if unanswered:
            self._nodes[node] = []
        return unanswered

    def deadlines(self, now: int) -> list[int]:
        """When nodes whose connection was closed may be tried again."""
        down = (node for node in self._nodes if self._is_down(node))
        return [now + self._connections.delay_ms(node, now) for node in down]
