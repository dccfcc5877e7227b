"""Coordinators with a halted follower: compare which responses wait.

The second of two brokers is halted. Writes are not committed then, and responses without a write of
their own wait for them, too, because they may depend on one. Those of the transaction coordinator
do not wait: the id is busy.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest

from brokertwin.gateway.edge_fields import Address
from brokertwin.protocol.errors import Error
from brokertwin.protocol.frames import decode_response
from brokertwin.protocol.kafka_apis import API_KEYS
from tests.support.gateways import Client
from tests.support.goldens import golden, source_of
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.pending_requests import COORDINATOR, FOLLOWER, Question, World
from tests.support.schedules import Cluster, our_cluster, real_cluster
from tests.support.stepped_clock import SteppedClock

SETTINGS = {
    "broker.session.timeout.ms": "120000",
    "group.initial.rebalance.delay.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
    "offsets.commit.timeout.ms": "2000",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "2",
    "replica.lag.time.max.ms": "120000",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "2",
    "share.coordinator.write.timeout.ms": "3000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "3600000",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "2",
}
WAITED_S = 1.5
NEXT_S = 0.1
"""Delay of the next request after the former one."""

TICK_MS, STEP_MS = 10, 50
"""Our time that passes with each request, and in each step while all wait."""

Noted = tuple[str, str, Any, str]


class Player:
    """Sends all requests to a real cluster, and records the responses and which of them waited."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.world = World(cluster)
        self.told: list[Noted] = []

    def ask(self, when: str, questions: Iterable[Question]) -> None:
        """Send each request once, in order; a pending one does not delay later ones."""
        with ThreadPoolExecutor(100) as pool:
            asked = self._sent(pool, questions)
            for question, future in asked:
                response, seconds = future.result()
                waited = "waited" if seconds > WAITED_S else "at once"
                self.told.append((when, question.what, response, waited))

    def ask_rejoining(self, questions: Iterable[Question]) -> None:
        with ThreadPoolExecutor(100) as pool:
            asked = self._sent(pool, questions)
            waited = ["at once" if future.done() else "waited" for _, future in asked]
            self.cluster.act("rejoin", FOLLOWER)
            for (question, future), how in zip(asked, waited, strict=True):
                self.told.append(("rejoins", question.what, future.result()[0], how))

    def _sent(
        self, pool: ThreadPoolExecutor, questions: Iterable[Question]
    ) -> list[tuple[Question, Future[tuple[Any, float]]]]:
        asked = []
        for question in questions:
            future = pool.submit(self._answer, question)
            asked.append((question, future))
            wait([future], NEXT_S)
        return asked

    def _answer(self, question: Question) -> tuple[Any, float]:
        begin = time.monotonic()
        response = self.world.call(question.api, question.version, question.body)
        return self._plain(response), time.monotonic() - begin

    def _plain(self, said: Any) -> Any:
        """Return a response without drawn values, with names for ids and sorted lists."""
        if isinstance(said, list):
            return sorted(map(self._plain, said), key=repr)
        if not isinstance(said, dict):
            return self.world.names.get(said, said) if isinstance(said, str) else said
        found = {name: self._plain(value) for name, value in said.items()}
        if found.get("producerId", -1) >= 0:
            found["producerId"] = self.world.names.get(str(found["producerId"]), "another")
        if found.get("errorCode") == Error.MEMBER_ID_REQUIRED:
            found["memberId"] = "drawn"
        if found.get("transactionStartTimeMs", -1) > 0:
            found["transactionStartTimeMs"] = "some time"
        return found

    def _questions(self) -> Iterator[Question]:
        world = self.world
        for questions in (
            world.of_classic,
            world.of_transactional_offsets,
            world.of_commits,
            world.of_mixed,
            world.of_streams,
            world.of_share_groups,
            world.of_transactions,
            world.of_states,
        ):
            yield from questions()

    def begin(self) -> None:
        self.world.begin()

    def settle(self) -> None:
        """Wait until the members of the mixed group have their partitions."""
        self.world.settle()

    def play(self) -> list[Noted]:
        """Play the whole scenario."""
        world = self.world
        self.begin()
        self.ask("follows", self._questions())
        self.settle()
        self.cluster.act("halt", FOLLOWER)
        self.ask("halted, all is committed", world.of_classic())
        self.ask("halted", self._questions())
        self.ask("busy", world.of_busy())
        self.ask("time is up", world.of_transactions())
        self.ask_rejoining(world.of_rejoining())
        again = (world.of_classic, world.of_commits, world.of_share_groups, world.of_states)
        self.ask("follows again", world.of_ends())
        self.ask("follows again", (each for questions in again for each in questions()))
        return self.told


class Pending:
    """A request to our coordinator.

    Attributes:
        response: the response, once it has come.
        waited_ms: how long it took, by our clock.
    """

    def __init__(self, request: Question, address: Address, began_ms: int) -> None:
        self.request = request
        self.response: Any = None
        self.waited_ms = 0
        self._began_ms = began_ms
        self._client = Client(address, PATIENCE_S)
        self._client.call("METADATA", 12, topics=[])  # the broker has accepted the connection
        self._client.send(request.api, request.version, request.body)

    def is_done(self, now_ms: int) -> bool:
        if self.response is None and self._client.has_something():
            key, version = API_KEYS[self.request.api], self.request.version
            self.response = decode_response(key, version, self._client.receive())[1]
            self.waited_ms = now_ms - self._began_ms
            self._client.close()
        return self.response is not None


class OurPlayer(Player):
    """Sends the same requests to ours, whose time passes only between them."""

    def __init__(self, cluster: Cluster, clock: SteppedClock) -> None:
        super().__init__(cluster)
        self._clock = clock
        self._looking = Client(cluster.address(COORDINATOR), PATIENCE_S)

    def begin(self) -> None:
        self._clock.tick_ms = TICK_MS
        super().begin()
        self._clock.tick_ms = 0

    def settle(self) -> None:
        self._clock.tick_ms = TICK_MS
        super().settle()
        self._clock.tick_ms = 0

    def close(self) -> None:
        self._looking.close()

    def ask(self, when: str, requests: Iterable[Question]) -> None:
        pending = self._all_sent(requests)
        self._let_pass(lambda: all(each.is_done(self._clock.now) for each in pending))
        for each in pending:
            waited = "waited" if each.waited_ms > WAITED_S * 1000 else "at once"
            self.told.append((when, each.request.what, self._plain(each.response), waited))

    def ask_rejoining(self, requests: Iterable[Question]) -> None:
        pending = self._all_sent(requests)
        waited = ["at once" if each.response is not None else "waited" for each in pending]
        self.cluster.act("rejoin", FOLLOWER)
        self._let_pass(lambda: all(each.is_done(self._clock.now) for each in pending))
        for each, how in zip(pending, waited, strict=True):
            self.told.append(("rejoins", each.request.what, self._plain(each.response), how))

    def _all_sent(self, requests: Iterable[Question]) -> list[Pending]:
        address = self.cluster.address(COORDINATOR)
        found = []
        for request in requests:
            found.append(Pending(request, address, self._clock.now))
            self._look()
            for _ in range(int(NEXT_S * 1000 / STEP_MS)):
                self._look()
                if found[-1].is_done(self._clock.now):
                    break
                self._clock.now += STEP_MS
        return found

    def _look(self) -> None:
        """Send a request that the broker handles after the earlier ones, at the current time."""
        self._looking.call("METADATA", 12, topics=[])

    def _let_pass(self, is_over: Callable[[], bool]) -> None:
        def is_over_by_now() -> bool:
            self._look()
            self._clock.now += STEP_MS
            return is_over()

        wait_until(is_over_by_now)


def recorded(home: Path) -> list[Noted]:
    with real_cluster(home, 2, SETTINGS) as cluster:
        return Player(cluster).play()


@pytest.mark.compares
def test_responses_wait_for_uncommitted_writes_as_at_a_real_cluster(tmp_path: Path) -> None:
    real = golden(
        "coordinators/pending_requests",
        lambda: recorded(tmp_path),
        scenario=source_of(World, Player),
        settings=SETTINGS,
    )
    clock = SteppedClock()
    with our_cluster(2, SETTINGS, clock) as cluster:
        player = OurPlayer(cluster, clock)
        ours = player.play()
        player.close()
    assert [each for each in zip(real, ours, strict=True) if each[0] != each[1]] == []
    met = {(when, waited) for when, _, _, waited in real}
    assert {("halted", "waited"), ("halted", "at once"), ("rejoins", "waited")} <= met
    assert ("follows", "waited") not in met
