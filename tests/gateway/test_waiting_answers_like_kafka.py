"""What coordinators tell while their follower does not follow: at once, or not until it does.

Two brokers, real ones and ours; the second one is halted. What is written is not committed then,
and answers that have nothing to write wait for it all the same: what they tell may come of it.
Those of a transaction's coordinator do not wait; the id is busy.
"""

import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest

from brokertwin.state.core.errors import Error
from tests.support.schedules import Cluster, both_clusters
from tests.support.waiting_questions import FOLLOWER, Question, World

pytestmark = pytest.mark.kafka

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
"""How long the next question waits for the answer to the one before."""

Noted = tuple[str, str, Any, str]


class Player:
    """Asks a cluster all questions, and notes what the answers say, and which of them waited."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.world = World(cluster)
        self.told: list[Noted] = []

    def ask(self, when: str, questions: Iterable[Question]) -> None:
        """Each question once, in order; one that waits does not hold up those after it."""
        with ThreadPoolExecutor(100) as pool:
            asked = self._sent(pool, questions)
            for question, future in asked:
                answer, seconds = future.result()
                waited = "waited" if seconds > WAITED_S else "at once"
                self.told.append((when, question.what, answer, waited))

    def ask_rejoining(self, questions: Iterable[Question]) -> None:
        """All of them; then the follower follows, before time is up for any."""
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
        answer = self.world.call(question.api, question.version, question.body)
        return self._plain(answer), time.monotonic() - begin

    def _plain(self, said: Any) -> Any:
        """An answer without what is drawn, with names for ids, lists in one order."""
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

    def play(self) -> list[Noted]:
        """The whole of it."""
        world = self.world
        world.begin()
        self.ask("follows", self._questions())
        world.settle()
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


@pytest.fixture
def clusters(tmp_path: Path) -> Iterator[list[Cluster]]:
    with both_clusters(tmp_path, 2, SETTINGS) as both:
        yield both


def test_who_waits_for_what_was_written_before_is_who_waits_in_kafka(
    clusters: list[Cluster],
) -> None:
    with ThreadPoolExecutor(len(clusters)) as pool:
        real, ours = pool.map(lambda cluster: Player(cluster).play(), clusters)
    assert [each for each in zip(real, ours, strict=True) if each[0] != each[1]] == []
    met = {(when, waited) for when, _, _, waited in real}
    assert {("halted", "waited"), ("halted", "at once"), ("rejoins", "waited")} <= met
    assert ("follows", "waited") not in met
