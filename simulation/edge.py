"""The brokers' end of connections: requests in, one after the other, and answers back in order.

A connection is TCP's: what is sent arrives in order, once, after a delay; when it breaks, of what
is on its way the first few requests may still arrive and be acted on, and no answer does. The next
request is taken when the one before is answered, as a broker does; Produce requests are handed
over one after the other (`gateway/connection.py`).
"""

from collections import Counter, deque
from collections.abc import Callable
from random import Random
from typing import Any

import msgspec

from brokertwin.clients.client_loop import Send
from brokertwin.simulation.clock import Clock
from brokertwin.simulation.cluster import Cluster
from brokertwin.simulation.record_names import named
from brokertwin.state.core.kafka_apis import KAFKA_APIS

DELAY_MIN_MS, DELAY_MAX_MS = 1, 8
SLOW = 60
"""How much longer everything takes in a slow network."""

NEVER = 2**31

_KEYS = {api.name: key for key, api in KAFKA_APIS.items()}


class Asked(msgspec.Struct, eq=False):
    """A request; `answer` is its answer's document, once there is one."""

    id: str
    send: Send
    connection: "Connection"
    names: dict[int, str]
    answer: dict[str, Any] | None = None


class Connection(msgspec.Struct, eq=False):
    """One connection, both ends.

    Attributes:
        on_answer, on_close: tell the client's end.
        user: whose it is; "": nobody's.
        is_open: at the client's end; `is_served` at the broker's.
        is_sharing: whether a share session may have been opened on it, which ends with it.
        arrives_max: of a broken one, how many of the `sent` requests `arrived` at most.
        up_at, down_at: keep each direction in order.
        under_way: requests that the broker has taken, in order.
    """

    name: str
    node: int
    broker: int
    on_answer: Callable[[Asked], None]
    on_close: Callable[["Connection"], None]
    user: str = ""
    is_open: bool = True
    is_served: bool = True
    sent: int = 0
    arrived: int = 0
    arrives_max: int = NEVER
    up_at: int = 0
    down_at: int = 0
    queue: deque[Asked] = msgspec.field(default_factory=deque)
    under_way: deque[Asked] = msgspec.field(default_factory=deque)
    is_sharing: bool = False


class Edge:
    """All brokers' ends.

    Attributes:
        stopped: brokers that take no connection.
        is_slow: whether every message takes long.
        asked: how many requests came, by API.
    """

    def __init__(self, cluster: Cluster, clock: Clock, seed: int) -> None:
        self.cluster = cluster
        self.clock = clock
        self.stopped: set[int] = set()
        self.is_slow = False
        self.asked: Counter[str] = Counter()
        self._chance = Random(f"{seed}/network")
        self._waiting: dict[str, Asked] = {}
        self._connections: list[Connection] = []
        cluster.on_answer = self._answered
        cluster.on_broker = self._changed

    def delay(self) -> int:
        """How long the next message takes, in ms."""
        drawn = self._chance.randint(DELAY_MIN_MS, DELAY_MAX_MS)
        return drawn * (SLOW if self.is_slow else 1)

    def opened(self, connection: Connection) -> None:
        """A broker has a connection."""
        self._connections = [each for each in self._connections if each.is_served]
        self._connections.append(connection)

    def send(self, asked: Asked) -> None:
        """A request is on its way to the broker."""
        connection = asked.connection
        connection.sent += 1
        connection.up_at = max(connection.up_at, self.clock.now + self.delay())
        self.clock.at(connection.up_at, lambda: self._arrive(asked))

    def cut(self, connection: Connection) -> None:
        """A connection is no more at the client's end; some of what it has sent may arrive."""
        connection.is_open = False
        if connection.is_sharing:
            connection.up_at = max(connection.up_at, self.clock.now + self.delay()) + 1
            self.clock.at(connection.up_at, lambda: self._ended(connection))
        on_its_way = connection.sent - connection.arrived
        connection.arrives_max = connection.arrived + self._chance.randint(0, on_its_way)

    def _arrive(self, asked: Asked) -> None:
        connection = asked.connection
        if connection.is_served and connection.arrived < connection.arrives_max:
            connection.arrived += 1
            connection.queue.append(asked)
            self._serve(connection)

    def _serve(self, connection: Connection) -> None:
        while connection.queue and connection.is_served:
            apis = {each.send.api for each in connection.under_way}
            if apis and apis | {connection.queue[0].send.api} != {"PRODUCE"}:
                return
            self._hand_over(connection.queue.popleft())

    def _hand_over(self, asked: Asked) -> None:
        send, connection = asked.send, asked.connection
        self.asked[send.api] += 1
        connection.is_sharing |= send.api == "SHARE_FETCH"
        if send.expects_response:
            connection.under_way.append(asked)
            self._waiting[asked.id] = asked
        header = {
            "requestApiKey": _KEYS[send.api],
            "requestApiVersion": send.version,
            "correlationId": send.request_id,
            "clientId": connection.name,
        }
        principal = {"principal": f"User:{connection.user}"} if connection.user else {}
        self.cluster.request(
            {
                **principal,
                "id": asked.id,
                "broker": connection.broker,
                "connection": connection.name,
                "requestHeader": header,
                "request": named(send, asked.names),
            }
        )

    def _answered(self, request_id: str, document: dict[str, Any]) -> None:
        asked = self._waiting.pop(request_id, None)
        if asked is None:
            return
        asked.answer = document
        connection = asked.connection
        while connection.under_way and connection.under_way[0].answer is not None:
            self._answer(connection.under_way.popleft(), connection)
        self._serve(connection)

    def _answer(self, asked: Asked, connection: Connection) -> None:
        """The answer goes to the client; where there is none, the connection ends."""
        assert asked.answer is not None, "the caller has looked"
        if asked.answer.get("closesConnection") or asked.answer.get("response") is None:
            self._close(connection)
        elif connection.is_served:
            connection.down_at = max(connection.down_at, self.clock.now + self.delay())
            self.clock.at(connection.down_at, lambda: connection.on_answer(asked))

    def _changed(self, broker: int, is_stopped: bool) -> None:
        (self.stopped.add if is_stopped else self.stopped.discard)(broker)
        if is_stopped:
            for connection in self._connections:
                if connection.broker == broker:
                    self._close(connection)

    def _ended(self, connection: Connection) -> None:
        """The broker's cell hears that a connection has ended, as of a gateway."""
        if connection.is_sharing and connection.broker not in self.stopped:
            connection.is_sharing = False
            self.cluster.disconnect(connection.broker, connection.name)

    def _close(self, connection: Connection) -> None:
        """The broker closes it: what it has not taken is lost, the answers on their way are not."""
        if connection.is_served:
            connection.is_served = False
            connection.queue.clear()
            self._ended(connection)
            connection.down_at = max(connection.down_at, self.clock.now + self.delay())
            self.clock.at(connection.down_at, lambda: connection.on_close(connection))
