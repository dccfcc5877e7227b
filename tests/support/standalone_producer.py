"""A producer without a client loop, which counts its own requests.

Source: seed 002; `InFlightRequests` and `NetworkClient.leastLoadedNode` in Kafka. The caller has
the connections. It opens one with the first request to a node, so a node counts as connecting until
its first response. The caller reports closed connections. Kafka breaks ties between nodes at
random; here the lowest id wins.
"""

from brokertwin.clients.backoff import retry_backoff
from brokertwin.clients.metadata_snapshot import MetadataSnapshot
from brokertwin.clients.node_connections import ConnectionState, NodeConnections
from brokertwin.clients.producer import ProducerMachine
from brokertwin.clients.producer_config import ProducerConfig

HALF = 0.5
"""Selects no jitter."""


class StandaloneProducer(ProducerMachine):
    def __init__(self, config: ProducerConfig) -> None:
        self._nodes = _InFlightRequests(config.max_in_flight_requests_per_connection)
        super().__init__(config, lambda: HALF, self._nodes)

    def update_metadata(self, cluster: MetadataSnapshot) -> None:
        super().update_metadata(cluster)
        self._nodes.set_nodes(list(cluster.nodes))


class _InFlightRequests:
    """Request ids by node, in order. Times are ms on the caller's clock."""

    def __init__(self, in_flight_max: int) -> None:
        self._last_id = 0
        self._in_flight_max = in_flight_max
        self._connections = NodeConnections(retry_backoff(50, 1000), retry_backoff(10_000, 30_000))
        self._nodes: dict[int, list[int]] = {}

    def next_id(self) -> int:
        self._last_id += 1
        return self._last_id

    def set_nodes(self, nodes: list[int]) -> None:
        """Set the current nodes; a removed node stays while it has requests."""
        busy = [node for node, requests in self._nodes.items() if requests]
        self._nodes = {node: self._nodes.get(node, []) for node in sorted({*busy, *nodes})}

    def may_send(self, node: int, now: int) -> bool:
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
        if self._connections.state(node) is None or self._is_down(node):
            self._connections.connecting(node, now, HALF)
        self._nodes[node].append(request_id)

    def on_response(self, node: int, request_id: int) -> None:
        if not self._connections.is_ready(node):
            self._connections.ready(node, HALF)
        self._nodes[node].remove(request_id)

    def disconnected(self, node: int, now: int) -> list[int]:
        if self._connections.state(node) is not None:
            self._connections.disconnected(node, now, HALF)
        lost = self._nodes.get(node, [])
        if lost:
            self._nodes[node] = []
        return lost

    def deadlines(self, now: int) -> list[int]:
        down = (node for node in self._nodes if self._is_down(node))
        return [now + self._connections.delay_ms(node, now) for node in down]
