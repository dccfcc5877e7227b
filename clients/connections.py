"""A client's connections: which node takes another request, and which has the least to do.

Source: seed 002; `NetworkClient`, `InFlightRequests`, `ClusterConnectionStates` in Kafka. The
connections themselves are the caller's: it opens one when a request goes to a node, and says when
one is closed. Where several nodes are equal, Kafka takes one by chance; here it is the lowest id.
"""

from collections.abc import Callable

from brokerstream.clients.backoff import ExponentialBackoff

Jitter = Callable[[], float]
"""Gives a number from 0 (inclusive) to 1 (exclusive) with each call."""


class Connection:
    """One node: the ids of the requests under way, in their order, and when it may be tried."""

    def __init__(self) -> None:
        self.in_flight: list[int] = []
        self.failures = 0
        self.not_before = 0


class Connections:
    """The connections to all nodes. Times are ms on the caller's clock."""

    def __init__(self, in_flight_max: int, reconnect: ExponentialBackoff, jitter: Jitter) -> None:
        self._in_flight_max = in_flight_max
        self._reconnect = reconnect
        self._jitter = jitter
        self._nodes: dict[int, Connection] = {}

    def set_nodes(self, nodes: list[int]) -> None:
        """The nodes that there are now; one that has gone stays while requests are under way."""
        for node in nodes:
            self._nodes.setdefault(node, Connection())
        for node, connection in list(self._nodes.items()):
            if node not in nodes and not connection.in_flight:
                del self._nodes[node]

    def in_flight(self, node: int) -> list[int]:
        """The requests under way to a node, in their order."""
        return list(self._nodes[node].in_flight)

    def may_send(self, node: int, now: int) -> bool:
        """Whether a node takes another request."""
        connection = self._nodes.get(node)
        return (
            connection is not None
            and now >= connection.not_before
            and len(connection.in_flight) < self._in_flight_max
        )

    def least_loaded(self, now: int) -> int | None:
        """The node with the fewest requests under way; None while no node takes one."""
        able = [node for node in self._nodes if self.may_send(node, now)]
        return min(able, key=lambda node: (len(self._nodes[node].in_flight), node), default=None)

    def sent(self, node: int, request_id: int) -> None:
        """A request is under way."""
        self._nodes[node].in_flight.append(request_id)

    def answered(self, node: int, request_id: int) -> None:
        """Its answer has come."""
        connection = self._nodes[node]
        connection.in_flight.remove(request_id)
        connection.failures = 0

    def disconnected(self, node: int, now: int) -> list[int]:
        """The connection is closed; the requests that get no answer any more."""
        connection = self._nodes.get(node)
        if connection is None:
            return []
        connection.not_before = now + self._reconnect.backoff(connection.failures, self._jitter())
        connection.failures += 1
        unanswered, connection.in_flight = connection.in_flight, []
        return unanswered

    def deadlines(self) -> list[int]:
        """When nodes may be tried again."""
        return [connection.not_before for connection in self._nodes.values()]
