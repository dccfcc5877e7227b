"""A client's network loop without the network: how long to wait, whom to ask for metadata.

Source: seed 001; `NetworkClient` and its `DefaultMetadataUpdater` in Kafka; KIP-899 (rebootstrap).

    select for min(what the caller has time for, metadata timeout, request.timeout.ms)

    metadata                                       metadata timeout            0.10 (seed)
    not due for t ms                               t                           t
    a request for it is under way                  request.timeout.ms          2147483647
    no node can be used                            reconnect.backoff.ms        retry.backoff.ms
    a node takes the request: it is sent           request.timeout.ms          0
    a node is being connected to, now or since     reconnect.backoff.ms        0
    otherwise                                      without limit               0

The caller does what the actions say and tells what became of it: `connected`, `answered`,
`metadata_answered`, `disconnected`; `expire` tells it which connections to give up. `now` is in ms,
`draw` gives numbers in [0, 1) for jitter and for the node to begin with.
`clients/client_loop.py` joins it with what a consumer or a producer sends.

A broker that has throttled a client is sent nothing until the time that its answer says is over
(KIP-219, `NetworkClient.maybeThrottle`): the broker would not read it. Answers of which this holds
are in `THROTTLING_SINCE`; clients of 0.10 know none.

Not done: telemetry, rebootstrap after a time (half of KIP-1102).
"""

from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

import msgspec

from brokertwin.clients.backoff import ExponentialBackoff, retry_backoff
from brokertwin.clients.metadata import (
    Event,
    Metadata,
    MetadataError,
    RequestAndVersion,
    Rules,
)
from brokertwin.clients.node_connections import UNLIMITED_MS, NodeConnections
from brokertwin.clients.partitions import Node
from brokertwin.state.core.errors import Error
from brokertwin.state.core.wire.generated.metadata import MetadataResponse

IN_FLIGHT_MS_0_10 = 2**31 - 1
NEVER = 2**15
"""No version of any API."""


THROTTLING_SINCE = {
    "ADD_OFFSETS_TO_TXN": 1,
    "ADD_PARTITIONS_TO_TXN": 1,
    "API_VERSIONS": 2,
    "CREATE_TOPICS": 3,
    "DELETE_GROUPS": 1,
    "DELETE_RECORDS": 1,
    "DELETE_TOPICS": 2,
    "DESCRIBE_CONFIGS": 2,
    "DESCRIBE_GROUPS": 2,
    "END_TXN": 1,
    "FETCH": 8,
    "FIND_COORDINATOR": 2,
    "HEARTBEAT": 2,
    "INIT_PRODUCER_ID": 1,
    "JOIN_GROUP": 3,
    "LEAVE_GROUP": 2,
    "LIST_GROUPS": 2,
    "LIST_OFFSETS": 3,
    "METADATA": 6,
    "OFFSET_COMMIT": 4,
    "OFFSET_DELETE": 0,
    "OFFSET_FETCH": 4,
    "PRODUCE": 6,
    "SYNC_GROUP": 2,
    "TXN_OFFSET_COMMIT": 1,
}
"""From which version on an answer's throttle time is the client's to keep
(`shouldClientThrottle`); of other APIs the broker alone keeps it."""

Draw = Callable[[], float]
"""Gives a number in [0, 1) with each call."""


class RecoveryStrategy(StrEnum):
    """What to do when no node can be used (`metadata.recovery.strategy`)."""

    NONE = "none"
    REBOOTSTRAP = "rebootstrap"


class NetworkSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a client's network loop by Kafka's names; times in ms.

    Whose metadata timeouts hold is for the rules of the metadata to say.
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
    """Send a metadata request; then call `metadata_answered` or `disconnected`."""

    node: Node
    sent: RequestAndVersion


Action = Connect | SendMetadata


class Poll(NamedTuple):
    """One turn of the loop: what to do, then how long to wait for the network, in ms."""

    actions: list[Action]
    metadata_timeout_ms: int
    select_timeout_ms: int


class InFlight(msgspec.Struct):
    """A request under way; `request_id` is None for one of metadata."""

    request_id: int | None
    deadline: int


class Lost(NamedTuple):
    """Connections to close, and the requests that get no answer any more."""

    nodes: list[int]
    request_ids: list[int]


class NetworkClient:
    """Connections, requests under way, and the metadata that they are for."""

    def __init__(
        self, metadata: Metadata, draw: Draw, settings: NetworkSettings | None = None
    ) -> None:
        self.settings = settings or NetworkSettings()
        self.connections = NodeConnections(
            self.settings.reconnect_backoff, self.settings.socket_connection_setup_timeout
        )
        self._metadata = metadata
        self._is_0_10 = metadata.settings.rules is Rules.KAFKA_0_10
        self._draw = draw
        self._in_flight: dict[int, list[InFlight]] = {}
        self._in_progress: RequestAndVersion | None = None
        self._throttled_until: dict[int, int] = {}
        self._actions: list[Action] = []

    # The loop

    def poll(self, timeout_ms: int, now: int) -> Poll:
        """Asks for metadata if that is due; `timeout_ms` is what the caller has time for."""
        metadata_timeout = self._maybe_update(now)
        actions, self._actions = self._actions, []
        select = min(timeout_ms, metadata_timeout, self.settings.request_timeout_ms)
        for until in self._throttled_until.values():
            select = min(select, until - now) if until > now else select
        return Poll(actions, metadata_timeout, select)

    def ready(self, node: Node, now: int) -> bool:
        """Whether a request can go to the node now; if it can not, it is connected to."""
        if self.can_send(node.id, now):
            return True
        if self.connections.can_connect(node.id, now):
            self._connect(node, now)
        return False

    def can_send(self, node: int, now: int) -> bool:
        """Whether the connection stands, has room for a request, and is not throttled."""
        if self._throttled_until and self._throttled_until.get(node, 0) > now:
            return False
        under_way = len(self._in_flight.get(node, ()))
        room = under_way < self.settings.max_in_flight_requests_per_connection
        return self.connections.is_ready(node) and room

    def least_loaded_node(self, now: int) -> Node | None:
        """The node to ask anything: idle, else least busy, else connecting, else to be connected.

        Among those to be connected, the one whose last try is longest ago; among equals the first
        from a drawn place on.
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
        """How long a sender waits for a node that is not ready."""
        if self._is_0_10 and self.connections.is_connecting(node):
            return UNLIMITED_MS
        throttled = self._throttled_until.get(node, 0) - now
        if throttled > 0 and self.connections.is_ready(node):
            return throttled
        return self.connections.delay_ms(node, now)

    def _maybe_update(self, now: int) -> int:
        due = self._metadata.time_to_next_update(now, self._draw())
        under_way = self._under_way_ms() if self._in_progress is not None else 0
        if max(due, under_way) > 0:
            return max(due, under_way)
        node = self.least_loaded_node(now)
        if node is None and self._may_rebootstrap():
            self._metadata.rebootstrap()
            node = self.least_loaded_node(now)
        return self._ask(node, now) if node is not None else self._nobody_ms()

    def _ask(self, node: Node, now: int) -> int:
        if self.can_send(node.id, now):
            self._in_progress = self._metadata.new_request(now)
            self._sent(node.id, None, now)
            self._actions.append(SendMetadata(node, self._in_progress))
            return 0 if self._is_0_10 else self.settings.request_timeout_ms
        if self.connections.is_any_connecting():
            return 0 if self._is_0_10 else self.settings.reconnect_backoff.initial_ms
        if self.connections.can_connect(node.id, now):
            self._connect(node, now)
            return 0 if self._is_0_10 else self.settings.reconnect_backoff.initial_ms
        return 0 if self._is_0_10 else UNLIMITED_MS

    def _under_way_ms(self) -> int:
        return IN_FLIGHT_MS_0_10 if self._is_0_10 else self.settings.request_timeout_ms

    def _nobody_ms(self) -> int:
        if self._is_0_10:
            return self._metadata.settings.refresh_backoff.initial_ms
        return self.settings.reconnect_backoff.initial_ms

    def _may_rebootstrap(self) -> bool:
        is_on = self.settings.metadata_recovery_strategy is RecoveryStrategy.REBOOTSTRAP
        nodes = self._metadata.snapshot.nodes
        return is_on and not any(self.connections.is_ready(node) for node in nodes)

    def _connect(self, node: Node, now: int) -> None:
        self.connections.connecting(node.id, now, self._draw())
        self._actions.append(Connect(node))

    # What becomes of it

    def connected(self, node: int) -> None:
        """The connection to a node stands."""
        self.connections.ready(node, self._draw())

    def sent(self, node: int, request_id: int, now: int, timeout_ms: int | None = None) -> None:
        """A request of the caller is under way; None: `request.timeout.ms` holds for it."""
        self._sent(node, request_id, now, timeout_ms)

    def answered(self, node: int, request_id: int) -> None:
        """Its answer has come."""
        self._done(node, request_id)

    def throttled(self, node: int, api: str, version: int, throttle_ms: int, now: int) -> None:
        """An answer has said for how long the broker reads nothing; it is never less than before.

        Of an API or version of which the client need not care nothing is kept.
        """
        if throttle_ms > 0 and version >= THROTTLING_SINCE.get(api, NEVER) and not self._is_0_10:
            until = max(self._throttled_until.get(node, 0), now + throttle_ms)
            self._throttled_until[node] = until

    def metadata_answered(
        self, node: int, response: MetadataResponse, version: int, now: int
    ) -> list[Event]:
        """The metadata request was answered; an answer without brokers is a failed update.

        One that says so has the client begin again (KIP-1102).
        """
        self._done(node, None)
        sent, self._in_progress = self._in_progress, None
        assert sent is not None, "no metadata request is under way"
        if not response.brokers:
            self._metadata.failed_update(now)
            is_on = self.settings.metadata_recovery_strategy is RecoveryStrategy.REBOOTSTRAP
            if is_on and response.error_code == Error.REBOOTSTRAP_REQUIRED:
                return self._metadata.rebootstrap()
            return []
        return self._metadata.update(sent, response, version, now)

    def metadata_failed(self, node: int, error: MetadataError, now: int) -> None:
        """The metadata request can not be answered, for a reason that repeating does not help."""
        self._done(node, None)
        self._in_progress = None
        self._metadata.failed_update(now)
        self._metadata.fatal_error = error

    def disconnected(
        self, node: int, now: int, fatal_error: MetadataError | None = None
    ) -> list[int]:
        """A connection is gone or was not made; the caller's requests that get no answer any more.

        The metadata may be why, so it is asked for. `fatal_error` is a failed authentication.
        """
        self.connections.disconnected(node, now, self._draw())
        unanswered = self._in_flight.pop(node, [])
        if any(request.request_id is None for request in unanswered):
            self._in_progress = None
            self._metadata.failed_update(now)
        is_due = self._metadata.time_to_next_update(now, self._draw()) == 0
        if self._in_progress is None and is_due:
            self._metadata.failed_update(now)
        if fatal_error is not None:
            self._metadata.fatal_error = fatal_error
        self._metadata.request_update()
        return [r.request_id for r in unanswered if r.request_id is not None]

    def overdue(self, now: int) -> list[int]:
        """Connections that take too long to be made, or have an overdue answer."""
        unanswered = [
            node
            for node, requests in self._in_flight.items()
            for request in requests
            if now > request.deadline
        ]
        unconnected = self.connections.overdue(now)
        return sorted({*unanswered, *unconnected}) if unanswered or unconnected else []

    def expire(self, now: int) -> Lost:
        """Gives up what is overdue."""
        nodes = self.overdue(now)
        request_ids = [lost for node in nodes for lost in self.disconnected(node, now)]
        return Lost(nodes, request_ids)

    def _sent(
        self, node: int, request_id: int | None, now: int, timeout_ms: int | None = None
    ) -> None:
        deadline = now + (timeout_ms or self.settings.request_timeout_ms)
        self._in_flight.setdefault(node, []).append(InFlight(request_id, deadline))

    def _done(self, node: int, request_id: int | None) -> None:
        requests = self._in_flight[node]
        requests.remove(next(r for r in requests if r.request_id == request_id))
