"""A Streams thread that counts records of `orders` by producer.

    orders -> by producer -> (repartition) -> tally, store `tallies` -> tallies

Its output has the record's name and its number among the producer's records, such as
`7:producer-1.9`. This shows duplicates, losses, and a store that differs from its changelog. The
thread's process id is that of its plan, so a new instance fences the old one.
"""

import base64
from collections.abc import Iterable, Mapping

from brokertwin.clients.assignors.group import NO_GENERATION
from brokertwin.clients.client_loop import ClientLoop
from brokertwin.clients.consumer_coordinator import ClientMemberState
from brokertwin.clients.messages import ProducerRecord
from brokertwin.clients.producer_client import ProducerClient
from brokertwin.clients.streams.stores import KeyValueStore
from brokertwin.clients.streams.stream_thread import StreamThread, ThreadState
from brokertwin.clients.streams.streams_config import Guarantee, StreamsConfig
from brokertwin.clients.streams.topology import Topology
from brokertwin.clients.transactions import TransactionManagerState
from brokertwin.protocol.errors import Error
from brokertwin.simulation.actors import REQUEST_MS, ActorContext, ActorDriver, ApplicationActor
from brokertwin.simulation.cluster import HEARTBEAT_MS, SESSION_MS, TRANSACTION_MS
from brokertwin.simulation.contents import Naming
from brokertwin.simulation.plan import TALLIES, ClientPlan, Role
from brokertwin.simulation.sockets import Sockets

APPLICATION = "tallying"
COMMIT_MS = 300
POLL_MS = 150
MAY_DIE_OF = frozenset({Error.INVALID_TXN_STATE.name})
"""The coordinator has aborted its transaction after a timeout or for a rival (KIP-890)."""

Stores = Mapping[str, KeyValueStore]


def tallying() -> Topology:
    """Build the application's topology."""
    topology = Topology()
    topology.add_source("orders", ["orders"])
    topology.add_processor("producers", _by_producer, ["orders"])
    topology.add_repartition("by-producer", ["producers"])
    topology.add_processor("tally", _tally, ["by-producer"])
    topology.add_store(TALLIES, ["tally"])
    topology.add_sink("results", TALLIES, ["tally"])
    return topology


def _by_producer(message: ProducerRecord, stores: Stores) -> Iterable[ProducerRecord]:
    name = message.value or b""
    return [ProducerRecord(name.partition(b".")[0], name, message.timestamp)]


def _tally(message: ProducerRecord, stores: Stores) -> Iterable[ProducerRecord]:
    key = message.key or b""
    counted = b"%d" % (int(stores[TALLIES].get(key) or 0) + 1)
    stores[TALLIES].put(key, counted)
    return [ProducerRecord(key, b"%s:%s" % (counted, message.value or b""), message.timestamp)]


class StreamsActor(ApplicationActor):
    """A thread, which is a whole instance."""

    def __init__(self, place: ActorContext, plan: ClientPlan, name: str) -> None:
        super().__init__(place, plan, name)
        is_exact = plan.role is Role.EXACT_STREAMS
        config = StreamsConfig(
            application_id=APPLICATION,
            processing_guarantee=(
                Guarantee.EXACTLY_ONCE_V2 if is_exact else Guarantee.AT_LEAST_ONCE
            ),
            commit_interval_ms=COMMIT_MS,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            max_poll_interval_ms=2 * SESSION_MS,
            transaction_timeout_ms=TRANSACTION_MS,
            num_standby_replicas=plan.standbys,
        )
        process_id = base64.urlsafe_b64encode(plan.name.encode().ljust(16)).decode().rstrip("=")
        self._is_exact = is_exact
        self._thread = StreamThread(config, tallying(), process_id, 1, self.draw("streams"))
        self._driven: dict[ClientLoop, tuple[Sockets, ActorDriver]] = {}
        self._clients = 0
        self._adopt()

    @property
    def all_sockets(self) -> list[Sockets]:
        """Connections of its consumer, producer, restorer and deleter."""
        return [sockets for sockets, _ in self._driven.values()]

    @property
    def is_over(self) -> bool:
        return self._thread.state is ThreadState.DEAD

    @property
    def is_at_rest(self) -> bool:
        """True if all tasks are running and all work is committed."""
        thread, transactions = self._thread, self._thread.producer.transactions
        is_ready = transactions is None or transactions.state is TransactionManagerState.READY
        tasks = thread.tasks.values()
        is_done = not any(task.processed or task.queued for task in tasks)
        return self.is_over or (thread.state is ThreadState.RUNNING and is_ready and is_done)

    def _adopt(self) -> None:
        """Create connections for new clients; close those of a fenced producer."""
        clients = self._thread.clients
        for client in [each for each in self._driven if each not in clients]:
            self._driven.pop(client)[0].close()
        for client in clients:
            if client not in self._driven:
                sockets = self._sockets_for(client)
                self._driven[client] = sockets, self.driver_of(client, sockets)

    def _sockets_for(self, client: ClientLoop) -> Sockets:
        if client is self._thread.consumer:
            name = self.name
        else:
            self._clients += 1
            name = f"{self.name}-{self._clients}"
        sockets = self.reading_sockets_of(name, is_read_committed=self._is_exact)
        if isinstance(client, ProducerClient):
            sockets.names = Naming(name, self._thread.messages, self.place.contents)
        return sockets

    def _work(self, now: int) -> int:
        has_more = self._thread.work(now)
        if self.is_over:
            self._end()
            return REQUEST_MS
        self._adopt()
        thread = self._thread
        coordinator = thread.consumer.coordinator
        is_stable = coordinator.state is ClientMemberState.STABLE
        generation = coordinator.generation.id if is_stable else NO_GENERATION
        running = frozenset(str(task) for task in thread.running)
        self.place.auditor.work.runs(APPLICATION, self.name, generation, running, now)
        return 1 if has_more else POLL_MS

    def _end(self) -> None:
        """Check the cause of its death; a new instance replaces it at the end."""
        for sockets, _ in self._driven.values():
            sockets.close()
        self._driven.clear()
        self.place.auditor.work.crashed(self.name)
        if self._thread.error not in MAY_DIE_OF:
            self.place.auditor.violate(f"{self.name} ends: {self._thread.error}")

    def _turn(self) -> int:
        for _, driver in self._driven.values():
            driver.turn(REQUEST_MS)
        return min((sockets.wait_ms for sockets, _ in self._driven.values()), default=REQUEST_MS)
