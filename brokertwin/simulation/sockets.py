"""The client's end of connections."""

from collections.abc import Callable
from functools import partial
from typing import Any

from brokertwin.clients.client_loop import (
    Action,
    Close,
    Connected,
    Disconnected,
    NetworkEvent,
    ResponseReceived,
    Send,
)
from brokertwin.clients.fetcher import Records
from brokertwin.clients.network import Connect
from brokertwin.protocol.kafka_apis import API_KEYS
from brokertwin.simulation.auditor import Auditor
from brokertwin.simulation.edge import BrokerEdge, SimulatedConnection, SimulatedRequest
from brokertwin.simulation.record_names import records_of

FIRST_PORT = 9092

OLD_VERSIONS = {
    "PRODUCE": 7,
    "FETCH": 10,
    "LIST_OFFSETS": 4,
    "METADATA": 7,
    "OFFSET_COMMIT": 6,
    "JOIN_GROUP": 3,
    "HEARTBEAT": 2,
    "SYNC_GROUP": 2,
    "INIT_PRODUCER_ID": 1,
    "ADD_PARTITIONS_TO_TXN": 1,
    "ADD_OFFSETS_TO_TXN": 1,
    "END_TXN": 1,
}
"""Newest versions of a client of Kafka 2.1."""


class Sockets:
    """One client's connections, by the client's node ids.

    Args:
        name: unique name of the client.
        edge: the brokers' end.
        auditor: observes requests and responses.
        on_event: called after an event.
        user: principal of its connections; "" for none.
        is_read_committed: whether reads omit aborted records.

    Attributes:
        names: names of sent records, by id.
        read: returns the content of a record by name; None: the name.
        is_mute: whether data from brokers is held back.
        is_old: whether the client knows only old versions.
        wait_ms: time that the client would wait now.
    """

    def __init__(
        self,
        name: str,
        edge: BrokerEdge,
        auditor: Auditor,
        on_event: Callable[[], None],
        user: str = "",
        *,
        is_read_committed: bool = False,
    ) -> None:
        self.name = name
        self.names: dict[int, str] = {}
        self.read: Callable[[str], Any] | None = None
        self.wait_ms = 0
        self.is_old = False
        self._edge = edge
        self._auditor = auditor
        self._on_event = on_event
        self._user = user
        self._is_read_committed = is_read_committed
        self._connections: dict[int, SimulatedConnection] = {}
        self._inbox: list[NetworkEvent] = []
        self._held: list[Callable[[], None]] | None = None
        self._count = 0

    # Called by the driver

    def do(self, action: Action) -> None:
        """Open or close a connection, or send on an open one."""
        match action:
            case Connect(to):
                delay = 2 * self._edge.delay()
                self._edge.clock.after(delay, partial(self._connect, to.id, to.port - FIRST_PORT))
            case Close(node):
                self._drop(node)
            case Send() if action.node in self._connections:
                self._count += 1
                connection = self._connections[action.node]
                names = {r.id: self.names[r.id] for batch in action.batches for r in batch.records}
                pending = SimulatedRequest(f"{self.name}/{self._count}", action, connection, names)
                self._auditor.on_request(self.name, pending)
                self._edge.send(pending)

    def take(self) -> list[NetworkEvent]:
        events, self._inbox = self._inbox, []
        return events

    # Faults

    @property
    def nodes(self) -> list[int]:
        return sorted(self._connections)

    def cut(self, node: int) -> None:
        if self._drop(node):
            self._emit(Disconnected(node))

    def mute(self, is_mute: bool) -> None:
        """Hold back data from brokers, or deliver it later."""
        if is_mute:
            self._held = self._held or []
        elif self._held is not None:
            held, self._held = self._held, None
            for each in held:
                each()

    def close(self) -> None:
        """Close all connections without notice to the client."""
        for node in self.nodes:
            self._drop(node)

    def _connect(self, node: int, broker: int) -> None:
        if broker in self._edge.stopped:
            self._emit(Disconnected(node))
            return
        if node in self._connections:
            return
        self._count += 1
        name = f"{self.name}-{self._count}"
        connection = SimulatedConnection(
            name, node, broker, self._on_response, self._closed, self._user
        )
        self._connections[node] = connection
        self._edge.opened(connection)
        self._emit(Connected(node))

    def _on_response(self, pending: SimulatedRequest) -> None:
        if self._held is not None:
            self._held.append(lambda: self._on_response(pending))
            return
        if not pending.connection.is_open:
            return
        assert pending.response is not None, "it is on its way"
        body = pending.response["response"]
        self._auditor.on_response(self.name, pending, body)
        if self.is_old and pending.send.api == "API_VERSIONS":
            # The versions that an old client knows.
            limits = {API_KEYS[name]: version for name, version in OLD_VERSIONS.items()}
            keys = [
                {**each, "maxVersion": min(each["maxVersion"], limits.get(each["apiKey"], 99))}
                for each in body["apiKeys"]
            ]
            body = {**body, "apiKeys": keys}
        is_fetch = pending.send.api in ("FETCH", "SHARE_FETCH")
        records = self._records(body) if is_fetch else {}
        self._emit(ResponseReceived(pending.send.node, pending.send.request_id, body, records))

    def _records(self, body: dict[str, Any]) -> dict[tuple[str, int], Records]:
        records = records_of(body, is_committed=self._is_read_committed)
        if self.read is None:
            return records
        return {
            at: each._replace(items=[(offset, self.read(name)) for offset, name in each.items])
            for at, each in records.items()
        }

    def _closed(self, connection: SimulatedConnection) -> None:
        if self._held is not None:
            self._held.append(lambda: self._closed(connection))
        elif connection.is_open:
            self.cut(connection.node)

    def _drop(self, node: int) -> bool:
        connection = self._connections.pop(node, None)
        if connection is None:
            return False
        self._edge.cut(connection)
        self._inbox = [
            each
            for each in self._inbox
            if not (isinstance(each, ResponseReceived) and each.node == node)
        ]
        return True

    def _emit(self, event: NetworkEvent) -> None:
        self._inbox.append(event)
        self._on_event()
