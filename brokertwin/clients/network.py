"""The network loop of a client without I/O: wait times and metadata requests.

Source: seed 001; `NetworkClient` and its `DefaultMetadataUpdater` in Kafka; KIP-899 (rebootstrap).

    select for min(the caller's timeout, metadata timeout, request.timeout.ms)

    metadata                                       metadata timeout            0.10 (seed)
    not due for t ms                               t                           t
    its request is in flight                       request.timeout.ms          2147483647
    no usable node                                 reconnect.backoff.ms        retry.backoff.ms
    sent to a ready node                           request.timeout.ms          0
    it opens a connection                          reconnect.backoff.ms        0
    a connection is being opened                   reconnect.backoff.ms        retry.backoff.ms
    otherwise                                      unlimited                   0

The caller executes the actions and reports the results with `connected`, `on_response`,
`on_metadata_response` and `disconnected`. It closes the `overdue` connections. `now` is in ms.
`draw` returns numbers in [0, 1) for jitter and for the first node to try.
`clients/client_loop.py` adds the requests of consumers and producers.

A throttled client sends nothing to the broker until the throttle time is over, because the broker
would not read it (KIP-219, `NetworkClient.maybeThrottle`). `THROTTLING_SINCE` lists the responses
that count; clients of 0.10 ignore throttling.

Not done: telemetry, rebootstrap after a time (half of KIP-1102).
"""

from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

import msgspec

from brokertwin.clients.backoff import ExponentialBackoff, retry_backoff
from brokertwin.clients.era import Era
from brokertwin.clients.metadata import Metadata, RequestAndVersion
from brokertwin.clients.node_connections import UNLIMITED_MS, NodeConnections
from brokertwin.clients.partitions import Node
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.metadata import MetadataResponse

IN_FLIGHT_MS_0_10 = 2**31 - 1
NEVER = 2**15
"""Above every version of an API."""


THROTTLING_SINCE = {
    "ADD_OFFSETS_TO_TXN": 1,
    "ADD_PARTITIONS_TO_TXN": 1,
    "API_VERSIONS": 2,
    "DELETE_RECORDS": 1,
    "END_TXN": 1,
    "FETCH": 8,
    "FIND_COORDINATOR": 2,
    "HEARTBEAT": 2,
    "INIT_PRODUCER_ID": 1,
    "JOIN_GROUP": 3,
    "LEAVE_GROUP": 2,
    "LIST_OFFSETS": 3,
    "METADATA": 6,
    "OFFSET_COMMIT": 4,
    "OFFSET_FETCH": 4,
    "PRODUCE": 6,
    "SYNC_GROUP": 2,
    "TXN_OFFSET_COMMIT": 1,
}
"""First version whose throttle time the client enforces (`shouldClientThrottle`).

Other APIs are throttled by the broker alone.
"""

Draw = Callable[[], float]
"""Returns a number in [0, 1)."""


class RecoveryStrategy(StrEnum):
    """What to do without a usable node (`metadata.recovery.strategy`)."""

    NONE = "none"
    REBOOTSTRAP = "rebootstrap"


class NetworkSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the network loop by Kafka's names; times in ms.

    The era in `MetadataSettings` decides which metadata timeouts apply.
    """

    request_timeout_ms: int = 30_000
    max_in_flight_requests_per_connection: int = 5
    reconnect_backoff: ExponentialBackoff = retry_backoff(50, 1000)
    socket_connection_setup_timeout: ExponentialBackoff = retry_backoff(10_000, 30_000)
    metadata_recovery_strategy: RecoveryStrategy = RecoveryStrategy.NONE


class Connect(msgspec.Struct, frozen=True):
    """Open a connection; then call `connected` or `disconnected`."""

    node: Node


class SendMetadata(msgspec.Struct, frozen=True):
    """Send a metadata request; then call `on_metadata_response` or `disconnected`."""

    node: Node
    sent: RequestAndVersion


Action = Connect | SendMetadata


class Poll(NamedTuple):
    """The actions of a turn, then how long to wait for I/O, in ms."""

    actions: list[Action]
    metadata_timeout_ms: int
    select_timeout_ms: int


class SentRequest(msgspec.Struct):
    """A request in flight; `request_id` is None for metadata."""

    request_id: int | None
    deadline: int


class NetworkClient:
    """Connections, in-flight requests, and the metadata updater."""

    def __init__(
        self, metadata: Metadata, draw: Draw, settings: NetworkSettings | None = None
    ) -> None:
        self.settings = settings or NetworkSettings()
        self.connections = NodeConnections(
            self.settings.reconnect_backoff, self.settings.socket_connection_setup_timeout
        )
        self._metadata = metadata
        self._is_0_10 = metadata.settings.era is Era.KAFKA_0_10
        strategy = self.settings.metadata_recovery_strategy
        self._may_rebootstrap = strategy is RecoveryStrategy.REBOOTSTRAP
        self._draw = draw
        self._in_flight: dict[int, list[SentRequest]] = {}
        self._in_progress: RequestAndVersion | None = None
        self._throttled_until: dict[int, int] = {}
        self._actions: list[Action] = []

    # Loop

    def poll(self, timeout_ms: int, now: int) -> Poll:
        """Request metadata if due; `timeout_ms` is the caller's limit."""
        metadata_timeout = self._maybe_update(now)
        actions, self._actions = self._actions, []
        select = min(timeout_ms, metadata_timeout, self.settings.request_timeout_ms)
        for until in self._throttled_until.values():
            select = min(select, until - now) if until > now else select
        return Poll(actions, metadata_timeout, select)

    def ready(self, node: Node, now: int) -> bool:
        """Whether the node can receive a request; connects if it cannot."""
        if self.can_send(node.id, now):
            return True
        if self.connections.can_connect(node.id, now):
            self._connect(node, now)
        return False

    def can_send(self, node: int, now: int) -> bool:
        """Whether the connection is open, has room, and is not throttled."""
        if self._throttled_until and self._throttled_until.get(node, 0) > now:
            return False
        in_flight = len(self._in_flight.get(node, ()))
        room = in_flight < self.settings.max_in_flight_requests_per_connection
        return self.connections.is_ready(node) and room

    def least_loaded_node(self, now: int) -> Node | None:
        """Return the least loaded node, or None.

        Idle nodes come first, then less busy ones, then connecting ones, then disconnected ones by
        the oldest attempt. Ties are broken from a random start.
        """
        nodes = list(self._metadata.snapshot.nodes.values())
        start = int(self._draw() * len(nodes))
        nodes = nodes[start:] + nodes[:start]
        able = [node for node in nodes if self.can_send(node.id, now)]
        if able:
            return min(able, key=lambda node: len(self._in_flight.get(node.id, ())))
        connecting = [node for node in nodes if self.connections.is_connecting(node.id)]
        if connecting:
            return connecting[-1]
        connectable = [node for node in nodes if self.connections.can_connect(node.id, now)]
        return min(
            connectable,
            key=lambda node: self.connections.last_attempt_ms(node.id),
            default=None,
        )

    def poll_delay_ms(self, node: int, now: int) -> int:
        """How long to wait for a node that is not ready."""
        if self._is_0_10 and self.connections.is_connecting(node):
            return UNLIMITED_MS
        throttled = self._throttled_until.get(node, 0) - now
        if throttled > 0 and self.connections.is_ready(node):
            return throttled
        return self.connections.delay_ms(node, now)

    def _maybe_update(self, now: int) -> int:
        due = self._metadata.time_to_next_update(now, self._draw())
        if self._in_progress is not None:
            limit = IN_FLIGHT_MS_0_10 if self._is_0_10 else self.settings.request_timeout_ms
            due = max(due, limit)
        if due > 0:
            return due
        node = self.least_loaded_node(now)
        nodes = self._metadata.snapshot.nodes
        is_cut_off = node is None and not any(map(self.connections.is_ready, nodes))
        if is_cut_off and self._may_rebootstrap:
            self._metadata.rebootstrap()
            node = self.least_loaded_node(now)
        return self._request_metadata(node, now) if node is not None else self._no_node_ms()

    def _request_metadata(self, node: Node, now: int) -> int:
        if self.can_send(node.id, now):
            self._in_progress = self._metadata.new_request(now)
            self.sent(node.id, None, now)
            self._actions.append(SendMetadata(node, self._in_progress))
            return 0 if self._is_0_10 else self.settings.request_timeout_ms
        if self.connections.is_any_connecting():
            return self._no_node_ms()
        if self.connections.can_connect(node.id, now):
            self._connect(node, now)
            return 0 if self._is_0_10 else self.settings.reconnect_backoff.initial_ms
        return 0 if self._is_0_10 else UNLIMITED_MS

    def _no_node_ms(self) -> int:
        if self._is_0_10:
            return self._metadata.settings.refresh_backoff.initial_ms
        return self.settings.reconnect_backoff.initial_ms

    def _connect(self, node: Node, now: int) -> None:
        self.connections.connecting(node.id, now, self._draw())
        self._actions.append(Connect(node))

    # Results

    def connected(self, node: int) -> None:
        self.connections.ready(node, self._draw())

    def sent(
        self, node: int, request_id: int | None, now: int, timeout_ms: int | None = None
    ) -> None:
        """Track a request; without a timeout, `request.timeout.ms` applies."""
        deadline = now + (timeout_ms or self.settings.request_timeout_ms)
        self._in_flight.setdefault(node, []).append(SentRequest(request_id, deadline))

    def on_response(self, node: int, request_id: int | None) -> None:
        requests = self._in_flight[node]
        requests.remove(next(r for r in requests if r.request_id == request_id))

    def throttled(self, node: int, api: str, version: int, throttle_ms: int, now: int) -> None:
        """Start throttling; an earlier throttle is never shortened.

        Ignored for responses that are not in `THROTTLING_SINCE`.
        """
        if throttle_ms > 0 and version >= THROTTLING_SINCE.get(api, NEVER) and not self._is_0_10:
            until = max(self._throttled_until.get(node, 0), now + throttle_ms)
            self._throttled_until[node] = until

    def on_metadata_response(
        self, node: int, response: MetadataResponse, version: int, now: int
    ) -> None:
        """Handle a metadata response; one without brokers is a failed update.

        REBOOTSTRAP_REQUIRED starts a rebootstrap (KIP-1102).
        """
        self.on_response(node, None)
        sent, self._in_progress = self._in_progress, None
        assert sent is not None, "no metadata request is in flight"
        if not response.brokers:
            self._metadata.failed_update(now)
            if self._may_rebootstrap and response.error_code == Error.REBOOTSTRAP_REQUIRED:
                self._metadata.rebootstrap()
        else:
            self._metadata.update(sent, response, version, now)

    def disconnected(self, node: int, now: int) -> list[int]:
        """Handle a closed connection; returns its requests without a response.

        Requests metadata, because the node may have moved.
        """
        self.connections.disconnected(node, now, self._draw())
        lost = self._in_flight.pop(node, [])
        if any(request.request_id is None for request in lost):
            self._in_progress = None
            self._metadata.failed_update(now)
        is_due = self._metadata.time_to_next_update(now, self._draw()) == 0
        if self._in_progress is None and is_due:
            self._metadata.failed_update(now)
        self._metadata.request_update()
        return [r.request_id for r in lost if r.request_id is not None]

    def overdue(self, now: int) -> list[int]:
        """Connections that time out while opening or waiting for a response."""
        late = [
            node
            for node, requests in self._in_flight.items()
            for request in requests
            if now > request.deadline
        ]
        unconnected = self.connections.overdue(now)
        return sorted({*late, *unconnected}) if late or unconnected else []
