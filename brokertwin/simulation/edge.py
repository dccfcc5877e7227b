"""The brokers' end of connections: requests in order, responses in order.

Like TCP, a connection delivers data in order, once, after a delay. When it breaks, some of the
requests in flight may still arrive and be processed, but no response does. A broker processes a
request after the response to the previous one; Produce requests are pipelined
(`gateway/connection.py`).
"""

from collections import Counter, deque
from collections.abc import Callable
from random import Random
from typing import Any, Protocol

import msgspec

from brokertwin.clients.client_loop import Send
from brokertwin.protocol.kafka_apis import API_KEYS
from brokertwin.simulation.clock import VirtualClock
from brokertwin.simulation.cluster import SimulatedCluster
from brokertwin.simulation.record_names import named

DELAY_MIN_MS, DELAY_MAX_MS = 1, 8
SLOW = 60
"""Factor of all delays in a slow network."""

NEVER = 2**31


class SimulatedRequest(msgspec.Struct, eq=False):
    """A request; `response` is the response's document."""

    id: str
    send: Send
    connection: "SimulatedConnection"
    names: dict[int, str]
    response: dict[str, Any] | None = None


class SimulatedConnection(msgspec.Struct, eq=False):
    """A connection, with both ends.

    Attributes:
        on_response, on_close: callbacks of the client's end.
        user: principal; "" for none.
        is_open: at the client's end; `is_served` at the broker's.
        is_sharing: whether it may have a share session, which ends with it.
        arrives_max: for a broken one, the limit of `arrived` among the `sent` requests.
        up_at, down_at: times that keep each direction in order.
        under_way: requests in processing, in order.
    """

    name: str
    node: int
    broker: int
    on_response: Callable[[SimulatedRequest], None]
    on_close: Callable[["SimulatedConnection"], None]
    user: str = ""
    is_open: bool = True
    is_served: bool = True
    sent: int = 0
    arrived: int = 0
    arrives_max: int = NEVER
    up_at: int = 0
    down_at: int = 0
    queue: deque[SimulatedRequest] = msgspec.field(default_factory=deque)
    under_way: deque[SimulatedRequest] = msgspec.field(default_factory=deque)
    is_sharing: bool = False


class ServerWitness(Protocol):
    """Observes the brokers' side of requests."""

    def too_few(self, request: SimulatedRequest) -> set[tuple[str, int]]:
        """Return the partitions of a request with too few in-sync replicas, before it."""

    def handled(self, request: SimulatedRequest, too_few: set[tuple[str, int]]) -> None:
        """Process a request that a broker has received."""

    def on_response(self, request: SimulatedRequest) -> None:
        """Process a response when a broker sends it."""


class BrokerEdge:
    """The brokers' ends of all connections.

    Attributes:
        witness: observer, if any.
        stopped: brokers that accept no connections.
        is_slow: whether the network is slow.
        requests: number of received requests by API.
    """

    def __init__(self, cluster: SimulatedCluster, clock: VirtualClock, seed: int) -> None:
        self.cluster = cluster
        self.clock = clock
        self.stopped: set[int] = set()
        self.is_slow = False
        self.requests: Counter[str] = Counter()
        self.witness: ServerWitness | None = None
        self._chance = Random(f"{seed}/network")
        self._waiting: dict[str, SimulatedRequest] = {}
        self._connections: list[SimulatedConnection] = []
        cluster.on_response = self._on_response
        cluster.on_broker = self._changed

    def delay(self) -> int:
        """Draw the delay of the next message in ms."""
        drawn = self._chance.randint(DELAY_MIN_MS, DELAY_MAX_MS)
        return drawn * (SLOW if self.is_slow else 1)

    def opened(self, connection: SimulatedConnection) -> None:
        self._connections = [each for each in self._connections if each.is_served]
        self._connections.append(connection)

    def send(self, pending: SimulatedRequest) -> None:
        connection = pending.connection
        connection.sent += 1
        connection.up_at = max(connection.up_at, self.clock.now + self.delay())
        self.clock.at(connection.up_at, lambda: self._arrive(pending))

    def cut(self, connection: SimulatedConnection) -> None:
        """Close the client's end; some requests in flight may still arrive."""
        connection.is_open = False
        if connection.is_sharing:
            connection.up_at = max(connection.up_at, self.clock.now + self.delay()) + 1
            self.clock.at(connection.up_at, lambda: self._ended(connection))
        on_its_way = connection.sent - connection.arrived
        connection.arrives_max = connection.arrived + self._chance.randint(0, on_its_way)

    def _arrive(self, pending: SimulatedRequest) -> None:
        connection = pending.connection
        if connection.is_served and connection.arrived < connection.arrives_max:
            connection.arrived += 1
            connection.queue.append(pending)
            self._serve(connection)

    def _serve(self, connection: SimulatedConnection) -> None:
        while connection.queue and connection.is_served:
            apis = {each.send.api for each in connection.under_way}
            if apis and apis | {connection.queue[0].send.api} != {"PRODUCE"}:
                return
            self._hand_over(connection.queue.popleft())

    def _hand_over(self, pending: SimulatedRequest) -> None:
        send, connection = pending.send, pending.connection
        self.requests[send.api] += 1
        connection.is_sharing |= send.api == "SHARE_FETCH"
        if send.expects_response:
            connection.under_way.append(pending)
            self._waiting[pending.id] = pending
        header = {
            "requestApiKey": API_KEYS[send.api],
            "requestApiVersion": send.version,
            "correlationId": send.request_id,
            "clientId": connection.name,
        }
        body = named(send, pending.names)
        witness = self.cluster.witness
        if witness is not None:
            header["clientId"] = witness.client_of(connection.name)
            instance = connection.name.rpartition("-")[0]
            witness.requested(
                pending.id, connection.broker, header, body, instance, connection.name
            )
        principal = {"principal": f"User:{connection.user}"} if connection.user else {}
        too_few = self.witness.too_few(pending) if self.witness is not None else set()
        self.cluster.request(
            {
                **principal,
                "id": pending.id,
                "broker": connection.broker,
                "connection": connection.name,
                "requestHeader": header,
                "request": body,
            }
        )
        if witness is not None and not send.expects_response:
            witness.responded(pending.id, None)
        if self.witness is not None and too_few:
            self.witness.handled(pending, too_few)

    def _on_response(self, request_id: str, document: dict[str, Any]) -> None:
        pending = self._waiting.pop(request_id, None)
        if pending is None:
            return
        pending.response = document
        if self.witness is not None:
            self.witness.on_response(pending)
        connection = pending.connection
        while connection.under_way and connection.under_way[0].response is not None:
            self._respond(connection.under_way.popleft(), connection)
        self._serve(connection)

    def _respond(self, pending: SimulatedRequest, connection: SimulatedConnection) -> None:
        """Send a response, or close the connection without one."""
        assert pending.response is not None, "the caller has looked"
        if pending.response.get("closesConnection") or pending.response.get("response") is None:
            self._close(connection)
        elif connection.is_served:
            if self.cluster.witness is not None:
                self.cluster.witness.responded(pending.id, pending.response["response"])
            connection.down_at = max(connection.down_at, self.clock.now + self.delay())
            self.clock.at(connection.down_at, lambda: connection.on_response(pending))

    def _changed(self, broker: int, is_stopped: bool) -> None:
        (self.stopped.add if is_stopped else self.stopped.discard)(broker)
        if is_stopped:
            for connection in self._connections:
                if connection.broker == broker:
                    self._close(connection)

    def _ended(self, connection: SimulatedConnection) -> None:
        """Report the end of a connection to the broker's cell."""
        if connection.is_sharing and connection.broker not in self.stopped:
            connection.is_sharing = False
            self.cluster.disconnect(connection.broker, connection.name)

    def _close(self, connection: SimulatedConnection) -> None:
        """Close the broker's end: queued requests are lost, responses in flight are not."""
        if connection.is_served:
            connection.is_served = False
            connection.queue.clear()
            self._ended(connection)
            connection.down_at = max(connection.down_at, self.clock.now + self.delay())
            self.clock.at(connection.down_at, lambda: connection.on_close(connection))
