"""A network between our clients and the brokers of a bench, without sockets.

    world = World(brokers=(1, 2))
    member = world.consumer("billing", "orders")
    producer = world.producer()
    world.run(5_000)                    # five seconds of everybody's turns

The applications of `stalled` consumers do not poll.

Each client has a connection to each node; `cut` closes one and drops its data: pending requests are
never handled, responses in flight are lost. `is_down` brokers take no connection; while a network
`is_mute` no response comes.
"""

import random
from collections import Counter
from collections.abc import Mapping
from typing import Any, TypeVar

from brokertwin.clients.client_loop import (
    Action,
    ClientLoop,
    Close,
    Connected,
    Disconnected,
    NetworkEvent,
    ResponseReceived,
    Send,
)
from brokertwin.clients.consumer_client import ConsumerClient
from brokertwin.clients.consumer_config import ConsumerConfig
from brokertwin.clients.driver import ClientDriver
from brokertwin.clients.fetcher import FetchSettings, OffsetReset, Records
from brokertwin.clients.fetching_client import ReaderClient
from brokertwin.clients.log_client import LogClient
from brokertwin.clients.messages import ProducerRecord
from brokertwin.clients.network import Connect, Draw
from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.producer_client import ProducerClient
from brokertwin.clients.producer_config import ProducerConfig
from brokertwin.clients.share_client import ShareClient
from brokertwin.clients.share_fetcher import ShareSettings
from brokertwin.protocol.bodies import render
from brokertwin.simulation.record_names import ends_of
from tests.support.machine import Bench

FIRST_PORT = 9092
WITH_RECORDS = frozenset({"FETCH", "SHARE_FETCH"})
STEP_MS = 50
AnyClient = TypeVar("AnyClient", bound=ClientLoop)


class BenchNetwork:
    """What one client sees of the brokers; connections by its own node ids."""

    def __init__(
        self,
        bench: Bench,
        name: str,
        contents: dict[str, ProducerRecord],
        messages: Mapping[int, ProducerRecord] | None = None,
    ) -> None:
        """`messages`: the values of the client's records by record id; they go to `contents`."""
        self._bench = bench
        self._name = name
        self._contents = contents
        self._messages = messages
        self._count = 0
        self._brokers: dict[int, int] = {}
        self._connections: dict[int, str] = {}
        self._to_handle: list[Send] = []
        self._waiting: dict[str, Send] = {}
        self._events: list[NetworkEvent] = []
        self.is_down: set[int] = set()
        self.is_mute = False
        self.requested: Counter[str] = Counter()
        self.versions: dict[str, list[int]] = {}

    def do(self, action: Action) -> None:
        match action:
            case Connect(node):
                broker = node.port - FIRST_PORT
                if broker in self.is_down:
                    self._events.append(Disconnected(node.id))
                    return
                self._count += 1
                self._brokers[node.id] = broker
                self._connections[node.id] = f"{self._name}-{self._count}"
                self._events.append(Connected(node.id))
            case Close(node):
                self._drop(node)
            case Send() if action.node in self._connections:
                self._to_handle.append(action)

    def wait(self, timeout_ms: int) -> list[NetworkEvent]:
        """Return the responses received so far; time passes elsewhere."""
        sent, self._to_handle = self._to_handle, []
        for each in sent:
            self._handle(each)
        is_received = [] if self.is_mute else self._waiting
        found = [key for key in is_received if key in self._bench.responses]
        for event_id in found:
            self._events.append(self._respond(event_id))
        events, self._events = self._events, []
        return events

    @property
    def nodes(self) -> list[int]:
        return sorted(self._connections)

    def broker_of(self, node: int) -> int:
        return self._brokers[node]

    def connection(self, node: int) -> str:
        return self._connections[node]

    def cut(self, node: int) -> None:
        if self._drop(node):
            self._events.append(Disconnected(node))

    def _drop(self, node: int) -> bool:
        self._to_handle = [each for each in self._to_handle if each.node != node]
        self._waiting = {key: each for key, each in self._waiting.items() if each.node != node}
        self._events = [
            each
            for each in self._events
            if not (isinstance(each, ResponseReceived) and each.node == node)
        ]
        return self._connections.pop(node, None) is not None

    def _handle(self, send: Send) -> None:
        self.requested[send.api] += 1
        self.versions.setdefault(send.api, []).append(send.version)
        body = render(send.body, send.version)
        locators = {
            tuple(batch.topic_partition): ",".join(self._reported(r.id) for r in batch.records)
            for batch in send.batches
        }
        for topic in body.get("topicData", []):
            for partition in topic["partitionData"]:
                partition["batches"][0]["locator"] = locators[topic["name"], partition["index"]]
        event_id = self._bench.send(
            send.api,
            send.version,
            body,
            broker=self._brokers[send.node],
            connection=self._connections[send.node],
        )
        assert not self._bench.dead_letters(self._bench.last), self._bench.dead_letters()
        if send.expects_response:
            self._waiting[event_id] = send

    def _reported(self, record_id: int) -> str:
        if self._messages is None:
            return str(record_id)
        name = f"{self._name}#{record_id}"
        self._contents[name] = self._messages[record_id]
        return name

    def _respond(self, event_id: str) -> ResponseReceived:
        send = self._waiting.pop(event_id)
        body = self._bench.responses[event_id]["response"]
        records = _records(body, self._contents) if send.api in WITH_RECORDS else {}
        return ResponseReceived(send.node, send.request_id, body, records)


def _records(
    body: dict[str, Any], contents: Mapping[str, ProducerRecord]
) -> dict[tuple[str, int], Records]:
    records = {}
    for topic in body["responses"]:
        for response in topic["partitions"]:
            if response["batches"]:
                name = topic.get("topic") or topic["topicId"]
                records[name, response["partitionIndex"]] = records_of(response, contents)
    return records


def records_of(response: Mapping[str, Any], contents: Mapping[str, ProducerRecord]) -> Records:
    """Return the records in a partition's fetch response.

    Markers and the listed aborted transactions are left out. The ids of a batch's records are in
    `locator`. A record is the entry of `contents` under its id, else the id.
    """
    begins = [
        (at["firstOffset"], at["producerId"]) for at in response.get("abortedTransactions") or ()
    ]
    aborted: set[int] = set()
    items: list[tuple[int, Any]] = []
    for batch in response["batches"]:
        aborted |= {pid for first, pid in begins if first == batch["baseOffset"]}
        if batch["isControl"]:
            aborted.discard(batch["producerId"])
        elif not (batch["isTransactional"] and batch["producerId"] in aborted):
            names = batch["locator"].split(",")
            reported = enumerate(names, batch["baseOffset"])
            items += [(offset, contents.get(name, name)) for offset, name in reported]
    return Records(items, *ends_of(response["batches"]))


class World:
    """Brokers on a bench, and clients of them, in turns on one clock."""

    def __init__(self, brokers: tuple[int, ...] = (1,), **settings: Any) -> None:
        self.bench = Bench(
            brokers=brokers,
            offsets_topic_num_partitions=1,
            group_initial_rebalance_delay_ms=500,
            **settings,
        )
        self._drivers: dict[ClientLoop, ClientDriver] = {}
        self._away: dict[ClientLoop, ClientDriver] = {}
        self.networks: dict[ClientLoop, BenchNetwork] = {}
        self.stalled: set[ClientLoop] = set()
        self.read: dict[ClientLoop, list[tuple[TopicPartition, int, Any]]] = {}
        self.contents: dict[str, ProducerRecord] = {}

    @property
    def now(self) -> int:
        return self.bench.now

    def consumer(
        self, group: str, *topics: str, pattern: str | None = None, **config: Any
    ) -> ConsumerClient:
        fetches = FetchSettings(auto_offset_reset=OffsetReset.EARLIEST, fetch_max_wait_ms=200)
        client = ConsumerClient(
            ConsumerConfig(group_id=group, **config),
            fetches,
            frozenset(topics),
            self.draw(),
            pattern=pattern,
        )
        self.read[client] = []
        return self.added(client)

    def sharer(self, group: str, *topics: str, **settings: Any) -> ShareClient:
        config = ConsumerConfig(group_id=group, enable_auto_commit=False)
        settings = {"fetch_max_wait_ms": 200, **settings}
        client = ShareClient(config, ShareSettings(**settings), frozenset(topics), self.draw())
        self.read[client] = []
        return self.added(client)

    def reader(self, **fetches: Any) -> ReaderClient:
        settings = FetchSettings(fetch_max_wait_ms=200, **fetches)
        client = ReaderClient(settings, self.draw())
        self.read[client] = []
        return self.added(client)

    def log_client(self, topics: frozenset[str], **of_it: Any) -> LogClient:
        """A reader of whole topics, or with its own `coordinator` a worker of Connect."""
        client = LogClient(topics, self.draw(), fetch_max_wait_ms=200, **of_it)
        self.read[client] = []
        return self.added(client)

    def producer(
        self, messages: Mapping[int, ProducerRecord] | None = None, **config: Any
    ) -> ProducerClient:
        return self.added(ProducerClient(ProducerConfig(**config), self.draw()), messages)

    def draw(self) -> Draw:
        """Chance of a client's own, the same in every run."""
        return random.Random(len(self.networks)).random

    def added(
        self, client: AnyClient, messages: Mapping[int, ProducerRecord] | None = None
    ) -> AnyClient:
        """A client, and what its records say, if that is of interest."""
        first = min(self.bench.settings.brokers)
        client.metadata.bootstrap([("localhost", FIRST_PORT + first)], self.now)
        network = self.networks[client] = BenchNetwork(
            self.bench, f"c{len(self.networks)}", self.contents, messages
        )
        self._drivers[client] = ClientDriver(client, network, lambda: self.now)
        return client

    def remove(self, client: ClientLoop) -> None:
        """Crash: close its connections without a notice to the client."""
        self._away[client] = self._drivers.pop(client)

    def back(self, client: ClientLoop) -> None:
        """It was paused, not crashed: it goes on where it was."""
        self._drivers[client] = self._away.pop(client)

    def turn(self, milliseconds: int = STEP_MS) -> None:
        """Everybody's turn; applications poll. Then time passes."""
        for client, driver in list(self._drivers.items()):
            if isinstance(client, ConsumerClient) and client not in self.stalled:
                self.read[client] += client.poll(self.now)
            elif isinstance(client, ReaderClient) and client not in self.stalled:
                self.read[client] += client.poll()
            driver.turn(0)
        self.bench.tick(milliseconds)

    def run(self, milliseconds: int) -> None:
        until = self.now + milliseconds
        while self.now < until:
            self.turn()
