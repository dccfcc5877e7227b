"""The client's end of its connections."""

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

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
from brokertwin.simulation.edge import Asked, Connection, Edge
from brokertwin.simulation.record_names import records_of

FIRST_PORT = 9092


class Witness(Protocol):
    """Hears what a client sends and is told."""

    def asked(self, client: str, asked: Asked) -> None:
        """A client has sent a request."""

    def answered(self, client: str, asked: Asked, body: dict[str, Any]) -> None:
        """A client has the answer."""


class Sockets:
    """One client's connections, by its own ids of nodes.

    Args:
        name: the client's; no other has it.
        edge: the brokers' end.
        witness: hears all.
        on_event: is called when something has happened.
        user: by whose name brokers know its connections; "": they are nobody's.
        is_read_committed: whether what is read leaves out aborted records.

    Attributes:
        names: of the records that are sent, by their ids.
        read: what the client reads where a record of some name is; None: the name.
        is_mute: whether nothing comes from the brokers; it comes later.
        wait_ms: how long the client would wait now.
    """

    def __init__(
        self,
        name: str,
        edge: Edge,
        witness: Witness,
        on_event: Callable[[], None],
        user: str = "",
        *,
        is_read_committed: bool = False,
    ) -> None:
        self.name = name
        self.names: dict[int, str] = {}
        self.read: Callable[[str], Any] | None = None
        self.wait_ms = 0
        self._edge = edge
        self._witness = witness
        self._on_event = on_event
        self._user = user
        self._is_read_committed = is_read_committed
        self._connections: dict[int, Connection] = {}
        self._inbox: list[NetworkEvent] = []
        self._held: list[Callable[[], None]] | None = None
        self._count = 0

    # What a driver calls

    def do(self, action: Action) -> None:
        """Opens or closes a connection, or sends on one that stands."""
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
                asked = Asked(f"{self.name}/{self._count}", action, connection, names)
                self._witness.asked(self.name, asked)
                self._edge.send(asked)

    def take(self) -> list[NetworkEvent]:
        """What has come by now; time passes elsewhere."""
        events, self._inbox = self._inbox, []
        return events

    # What happens

    @property
    def nodes(self) -> list[int]:
        """The nodes with a connection."""
        return sorted(self._connections)

    def cut(self, node: int) -> None:
        """A connection breaks."""
        if self._drop(node):
            self._tell(Disconnected(node))

    def mute(self, is_mute: bool) -> None:
        """From here on nothing comes from the brokers, or all that has not come."""
        if is_mute:
            self._held = self._held or []
        elif self._held is not None:
            held, self._held = self._held, None
            for each in held:
                each()

    def close(self) -> None:
        """The client is gone; nobody says so to it."""
        for node in self.nodes:
            self._drop(node)

    def _connect(self, node: int, broker: int) -> None:
        if broker in self._edge.stopped:
            self._tell(Disconnected(node))
            return
        if node in self._connections:
            return
        self._count += 1
        name = f"{self.name}-{self._count}"
        connection = Connection(name, node, broker, self._answered, self._closed, self._user)
        self._connections[node] = connection
        self._edge.opened(connection)
        self._tell(Connected(node))

    def _answered(self, asked: Asked) -> None:
        if self._held is not None:
            self._held.append(lambda: self._answered(asked))
            return
        if not asked.connection.is_open:
            return
        assert asked.answer is not None, "it is on its way"
        body = asked.answer["response"]
        self._witness.answered(self.name, asked, body)
        is_fetch = asked.send.api in ("FETCH", "SHARE_FETCH")
        records = self._records(body) if is_fetch else {}
        self._tell(ResponseReceived(asked.send.node, asked.send.request_id, body, records))

    def _records(self, body: dict[str, Any]) -> dict[tuple[str, int], Records]:
        found = records_of(body, is_committed=self._is_read_committed)
        if self.read is None:
            return found
        return {
            at: each._replace(items=[(offset, self.read(name)) for offset, name in each.items])
            for at, each in found.items()
        }

    def _closed(self, connection: Connection) -> None:
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

    def _tell(self, event: NetworkEvent) -> None:
        self._inbox.append(event)
        self._on_event()
