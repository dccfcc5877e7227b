"""Writes of coordinators to internal topics: acknowledged ones survive.

`SCHEDULES=500 pytest tests/state/replication/test_coordinators.py` tries that many.
"""

import os
from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokertwin.protocol.errors import Error
from brokertwin.state.cell.check import check
from brokertwin.state.cluster.coordinators import GROUP_TOPIC
from brokertwin.state.core.outputs import offsets_topic
from tests.support.coordinators import (
    GROUPS,
    TRANSACTIONS,
    Coordinators,
    error_of_commit,
)
from tests.support.machine import CLUSTER
from tests.support.replicas import BROKERS, TOPIC

Step = tuple[Any, ...]
"""A step and its arguments."""

SCHEDULES = int(os.environ.get("SCHEDULES", "25"))
SEEDS = range(12)
KINDS = ("stop", "kill", "start", "isolate", "sever", "rejoin")

STEPS = st.lists(
    st.one_of(
        st.sampled_from([("commit",), ("transaction",), ("fetch",)]),
        st.tuples(st.sampled_from(KINDS), st.sampled_from(BROKERS)),
        st.tuples(st.sampled_from(["stop_coordinator", "isolate_others"]), st.sampled_from([0, 1])),
        st.tuples(st.just("wait"), st.sampled_from([500, 16_000, 46_000])),
    ),
    min_size=5,
    max_size=25,
)


@pytest.fixture
def brokers() -> Coordinators:
    return Coordinators()


def test_commit_is_on_every_follower_before_the_response(brokers: Coordinators) -> None:
    assert brokers.commit(5) == 0
    ends = {broker: brokers.log(GROUPS, broker).log_end_offset for broker in BROKERS}
    assert ends == dict.fromkeys(BROKERS, 1)


def test_commit_waits_for_followers_and_is_visible_only_then(brokers: Coordinators) -> None:
    assert brokers.commit(5) == 0
    brokers.replicas.isolate(*others(brokers, GROUPS))
    pending = brokers.send_commit(6)
    assert brokers.response(pending) is None
    assert brokers.committed() == 5, "an uncommitted write is not visible"
    brokers.replicas.rejoin(*others(brokers, GROUPS))
    assert error_of_commit(brokers.response(pending)) == 0
    assert brokers.committed() == 6


def test_commit_not_copied_in_time_returns_coordinator_not_available(
    brokers: Coordinators,
) -> None:
    brokers.replicas.isolate(*others(brokers, GROUPS))
    pending = brokers.send_commit(6)
    brokers.bench.tick(4999)
    assert brokers.response(pending) is None
    brokers.bench.tick(1)
    assert error_of_commit(brokers.response(pending)) == Error.COORDINATOR_NOT_AVAILABLE
    brokers.bench.tick(46_000)
    assert brokers.committed() == 6, "it stays written: the followers have left the in-sync set"


def test_commits_are_pending_with_too_few_in_sync_replicas() -> None:
    brokers = Coordinators(min_insync_replicas=2)
    brokers.replicas.isolate(*others(brokers, GROUPS))
    pending = [brokers.send_commit(offset) for offset in (6, 7)]
    brokers.bench.tick(60_000)
    for each in pending:
        assert error_of_commit(brokers.response(each)) == Error.COORDINATOR_NOT_AVAILABLE
    assert brokers.committed() == -1, "the high watermark has not moved"
    brokers.replicas.rejoin(*others(brokers, GROUPS))
    brokers.bench.tick(60_000)
    assert brokers.committed() == 7
    assert offset_rows(brokers) == [6, 7], "each once, although the in-sync set has changed"


def test_new_coordinator_loads_and_old_one_unloads(brokers: Coordinators) -> None:
    old = brokers.coordinator(GROUPS)
    assert brokers.commit(5) == 0
    brokers.replicas.stop(old)
    new = brokers.coordinator(GROUPS)
    assert new not in (old, -1)
    assert brokers.committed() == 5
    brokers.replicas.start(old)
    assert brokers.fetch(old) == (Error.NOT_COORDINATOR, -1)
    assert brokers.commit(7, old) == Error.NOT_COORDINATOR
    prefixes = {key.split("/")[0] for key in brokers.bench.cell.tables.groups.keys("")}
    assert prefixes == {str(new)}


def test_uncommitted_commit_can_be_lost_with_its_leader(brokers: Coordinators) -> None:
    assert brokers.commit(5) == 0
    old = brokers.coordinator(GROUPS)
    brokers.replicas.isolate(old)
    assert brokers.commit(6) is None
    brokers.replicas.stop(old)
    assert brokers.committed() == 5
    brokers.replicas.rejoin(old)
    brokers.replicas.start(old)
    brokers.bench.tick(46_000)
    assert brokers.committed() == 5
    assert offset_rows(brokers) == [5], "no row of an offset that was never committed"


@pytest.mark.parametrize("leads", [True, False])
def test_first_follower_of_a_coordinators_log_gets_the_whole_state(leads: bool) -> None:
    """With one replica there is no log; it is written when there is a follower."""
    brokers = Coordinators(offsets_topic_replication_factor=1)
    old = brokers.coordinator(GROUPS)
    number = brokers.partition(GROUPS)[1]
    assert brokers.commit(5) == 0
    assert brokers.log(GROUPS, old).log_end_offset == 0
    replicas = [old, *others(brokers, GROUPS)] if leads else others(brokers, GROUPS)
    partitions = [{"partitionIndex": number, "replicas": replicas}]
    topics = [{"name": GROUP_TOPIC, "partitions": partitions}]
    brokers.send("ALTER_PARTITION_REASSIGNMENTS", 1, {"topics": topics, "timeoutMs": 1000}, old)
    assert sorted(brokers.partition(GROUPS)[2].isr) == sorted(replicas)
    assert {brokers.log(GROUPS, each).log_end_offset for each in replicas} == {1}
    assert brokers.committed() == 5
    brokers.replicas.stop(old)
    assert brokers.committed() == 5
    assert brokers.commit(6) == 0
    assert offset_rows(brokers) == [5, 6], "each once"


@pytest.mark.parametrize("what", ["an offset", "a tombstone"])
def test_written_commit_survives_a_crash_before_its_response(
    brokers: Coordinators, what: str
) -> None:
    """A crash between log and cache (seed 003): the next coordinator reads the log."""
    assert brokers.commit(5) == 0
    old = brokers.coordinator(GROUPS)
    partition = brokers.partition(GROUPS)[2]
    lagging = [each for each in partition.replicas if each != old][-1]
    brokers.replicas.isolate(lagging)
    if what == "an offset":
        pending = brokers.send_commit(6)
    else:
        topics = [{"name": TOPIC, "partitions": [{"partitionIndex": 0}]}]
        pending = brokers.send("OFFSET_DELETE", 0, {"groupId": "g", "topics": topics}, old)
    assert brokers.response(pending) is None
    brokers.replicas.kill(old)
    brokers.bench.tick(10_000)
    assert brokers.coordinator(GROUPS) not in (-1, old, lagging)
    brokers.replicas.rejoin(lagging)
    assert brokers.response(pending) is None, "no response was sent"
    assert brokers.committed() == (6 if what == "an offset" else -1)


def test_offset_rows_are_written_once_committed(brokers: Coordinators) -> None:
    brokers.replicas.isolate(*others(brokers, GROUPS))
    brokers.send_commit(6)
    assert offset_rows(brokers) == []
    brokers.bench.tick(46_000)
    assert offset_rows(brokers) == [6]


def test_transaction_survives_both_coordinators(brokers: Coordinators) -> None:
    end = brokers.transaction(9)
    assert brokers.response(end)["errorCode"] == 0
    brokers.replicas.stop(brokers.coordinator(TRANSACTIONS))
    assert brokers.state() == "CompleteCommit"
    assert brokers.committed() == 9


def test_transaction_with_a_pending_write_is_busy(brokers: Coordinators) -> None:
    held = brokers.init()
    assert held is not None
    assert held["errorCode"] == 0
    brokers.replicas.isolate(*others(brokers, TRANSACTIONS))
    assert brokers.init() is None, "pending until followers have it"
    refused = brokers.init()
    assert refused is not None
    assert refused["errorCode"] == Error.CONCURRENT_TRANSACTIONS


def test_transactional_id_is_described_before_its_first_write_is_committed(
    brokers: Coordinators,
) -> None:
    brokers.replicas.isolate(*others(brokers, TRANSACTIONS))
    body = {"transactionalId": "t", "transactionTimeoutMs": 60_000}
    pending = brokers.send("INIT_PRODUCER_ID", 4, body, brokers.coordinator(TRANSACTIONS))
    described = {"transactionalIds": ["t"]}
    request = ("DESCRIBE_TRANSACTIONS", 0, described, brokers.coordinator(TRANSACTIONS))
    (transaction_state,) = brokers.response(brokers.send(*request))["transactionStates"]
    names = ("errorCode", "transactionState", "producerEpoch", "transactionTimeoutMs")
    assert [transaction_state[name] for name in names] == [0, "Empty", -1, 60_000]
    brokers.bench.tick(60_000)
    assert brokers.response(pending)["errorCode"] == Error.COORDINATOR_NOT_AVAILABLE
    brokers.replicas.rejoin(*BROKERS)
    held = brokers.init()
    assert held is not None
    assert (held["producerId"], held["producerEpoch"]) == (transaction_state["producerId"], 0)


def test_uncommitted_fencing_returns_coordinator_not_available(brokers: Coordinators) -> None:
    held = brokers.init()
    assert held is not None
    who = {"producerId": held["producerId"], "producerEpoch": held["producerEpoch"]}
    body = {"transactionalId": "t", **who, "groupId": "g"}
    leader = brokers.coordinator(TRANSACTIONS)
    assert brokers.response(brokers.send("ADD_OFFSETS_TO_TXN", 3, body, leader))["errorCode"] == 0
    brokers.replicas.isolate(*others(brokers, TRANSACTIONS))
    body = {"transactionalId": "t", "transactionTimeoutMs": 60_000}
    pending = brokers.send("INIT_PRODUCER_ID", 4, body, leader)
    brokers.bench.tick(59_999)
    assert brokers.response(pending) is None
    brokers.bench.tick(1)
    assert brokers.response(pending)["errorCode"] == Error.COORDINATOR_NOT_AVAILABLE
    assert brokers.state() == "Ongoing"


def test_nothing_is_written_of_a_transaction_with_too_few_in_sync(brokers: Coordinators) -> None:
    """The topic's min.insync.replicas is transaction.state.log.min.isr, 2 by default."""
    assert brokers.init() is not None
    leader = brokers.coordinator(TRANSACTIONS)
    brokers.replicas.stop(*others(brokers, TRANSACTIONS))
    end = brokers.log(TRANSACTIONS, leader).log_end_offset
    refused = brokers.init()
    assert refused is not None
    assert refused["errorCode"] == Error.COORDINATOR_NOT_AVAILABLE
    assert (refused["producerId"], refused["producerEpoch"]) == (-1, -1)
    assert brokers.log(TRANSACTIONS, leader).log_end_offset == end


def loading(**settings: Any) -> Coordinators:
    """Offset 10 is committed; then another coordinator is elected that loads for 1 s."""
    brokers = Coordinators(brokertwin_coordinator_load_ms=1000, **settings)
    assert brokers.commit(10) == 0
    brokers.replicas.stop(brokers.coordinator(GROUPS))
    return brokers


def test_loading_coordinator_returns_load_in_progress() -> None:
    brokers = loading()
    assert brokers.fetch() == (Error.COORDINATOR_LOAD_IN_PROGRESS, -1)
    assert brokers.commit(11) == Error.COORDINATOR_LOAD_IN_PROGRESS
    brokers.bench.tick(999)
    assert brokers.fetch() == (Error.COORDINATOR_LOAD_IN_PROGRESS, -1)
    brokers.bench.tick(1)
    assert brokers.committed() == 10
    assert brokers.commit(11) == 0


def test_only_groups_of_that_partition_load() -> None:
    """The transactional id's partition has another leader."""
    brokers = Coordinators(brokertwin_coordinator_load_ms=1000)
    other = next(each for each in BROKERS if each != brokers.coordinator(TRANSACTIONS))
    assert brokers.init() is not None
    brokers.replicas.stop(other)
    held = brokers.init()
    assert held is not None
    assert held["errorCode"] == 0


def test_coordinator_that_loses_its_partition_while_loading_returns_not_coordinator() -> None:
    brokers = loading()
    former = brokers.coordinator(GROUPS)
    brokers.replicas.stop(former)
    brokers.replicas.start(former)
    assert brokers.fetch(former) == (Error.NOT_COORDINATOR, -1)
    brokers.bench.tick(1000)
    assert brokers.committed() == 10


def test_example_16_commit_while_loading_is_not_replaced_by_an_older_one() -> None:
    """Example of the specification of groups and offsets (seed 003)."""
    brokers = loading(brokertwin_commit_while_loading=True)
    assert brokers.commit(30) == 0
    assert brokers.fetch() == (Error.COORDINATOR_LOAD_IN_PROGRESS, -1)
    brokers.bench.tick(1000)
    assert brokers.committed() == 30


@pytest.mark.parametrize(("may_commit", "error", "left"), [(True, 0, -1), (False, 14, 10)])
def test_example_16_offset_deleted_while_loading_stays_deleted(
    may_commit: bool, error: int, left: int
) -> None:
    brokers = loading(brokertwin_commit_while_loading=may_commit)
    topics = [{"name": TOPIC, "partitions": [{"partitionIndex": 0}]}]
    body = {"groupId": "g", "topics": topics}
    response = brokers.response(brokers.send("OFFSET_DELETE", 0, body, brokers.coordinator(GROUPS)))
    assert response["errorCode"] == error
    brokers.bench.tick(1000)
    assert brokers.committed() == left


def others(brokers: Coordinators, kind: int) -> list[int]:
    return [each for each in BROKERS if each != brokers.coordinator(kind)]


def offset_rows(brokers: Coordinators) -> list[int]:
    """Committed offsets in the rows of `offsets.CLUSTER`."""
    rows = [row for row in brokers.bench.rows if row.topic == offsets_topic(CLUSTER)]
    return [int.from_bytes((row.value or b"")[2:10], "big") for row in rows]


class Watched:
    """Offsets during a schedule; raises AssertionError if an acknowledged one is lost.

    Commits and transactions count up: a committed offset is never below an acknowledged or fetched
    one.

    Attributes:
        done: number of injections by name.
    """

    def __init__(self) -> None:
        self.brokers = Coordinators()
        self.done: Counter[str] = Counter()
        self._count = 0
        self._sent: dict[str, tuple[str, int]] = {}
        self._at_least = -1

    def run(self, steps: list[Step]) -> None:
        """Run the steps, bring all brokers back, and end all transactions."""
        for name, *arguments in steps:
            self.done[str(name)] += 1
            getattr(self, f"_{name}")(*arguments)
            self._look()
        for broker in BROKERS:
            self._start(broker)
            self._rejoin(broker)
        for _ in range(4):
            self._wait(46_000)
            self._look()
        self._fetch()
        assert self.brokers.coordinator(GROUPS) >= 0
        assert self.brokers.commit(self._count + 1) == 0, "the group still works"
        held = self.brokers.init()
        assert held is not None, "the transactional id still works"
        assert held["errorCode"] == 0, held

    def _commit(self) -> None:
        self._count += 1
        event_id = self.brokers.send_commit(self._count)
        if event_id is not None:
            self._sent[event_id] = ("commit", self._count)

    def _transaction(self) -> None:
        self._count += 1
        event_id = self.brokers.transaction(self._count)
        self.done["ends" if event_id is not None else "gives up"] += 1
        if event_id is not None:
            self._sent[event_id] = ("end", self._count)

    def _fetch(self) -> None:
        """A fetched offset counts; the markers follow the response to EndTxn."""
        if not self.brokers.is_reached(self.brokers.coordinator(GROUPS)):
            self.done["no coordinator"] += 1
            return
        error, offset = self.brokers.fetch()
        assert error == 0
        assert offset >= self._at_least, f"acknowledged {self._at_least}, fetched {offset}"
        self._at_least = offset

    def _stop(self, broker: int) -> None:
        self.brokers.replicas.stop(broker)

    def _kill(self, broker: int) -> None:
        self.brokers.replicas.kill(broker)

    def _sever(self, broker: int) -> None:
        self.brokers.replicas.sever(broker)

    def _start(self, broker: int) -> None:
        self.brokers.replicas.start(broker)

    def _isolate(self, broker: int) -> None:
        self.brokers.replicas.isolate(broker)

    def _rejoin(self, broker: int) -> None:
        self.brokers.replicas.rejoin(broker)

    def _stop_coordinator(self, kind: int) -> None:
        if self.brokers.coordinator(kind) >= 0:
            self.brokers.replicas.stop(self.brokers.coordinator(kind))

    def _isolate_others(self, kind: int) -> None:
        self.brokers.replicas.isolate(*others(self.brokers, kind))

    def _wait(self, milliseconds: int) -> None:
        self.brokers.bench.tick(milliseconds)

    def _look(self) -> None:
        assert check(self.brokers.bench.cell) == []
        for event_id, (kind, offset) in list(self._sent.items()):
            document = self.brokers.bench.responses.get(event_id)
            if document is None:
                continue
            del self._sent[event_id]
            response = document["response"]
            if response is None:
                self.done["connection lost"] += 1
                continue
            error = response["errorCode"] if kind == "end" else error_of_commit(response)
            self.done[f"{kind} {error}"] += 1
            if error == 0:
                self._acknowledged(kind, offset)

    def _acknowledged(self, kind: str, offset: int) -> None:
        """A commit counts at once, transactional offsets once the transaction is complete."""
        coordinator = self.brokers.coordinator(TRANSACTIONS)
        is_known = self.brokers.is_reached(coordinator)
        if kind == "commit" or (is_known and self.brokers.state() == "CompleteCommit"):
            self._at_least = max(self._at_least, offset)


@settings(max_examples=SCHEDULES, deadline=None)
@given(STEPS)
def test_acknowledged_offsets_survive_their_coordinator(steps: list[Step]) -> None:
    Watched().run(steps)


def schedule(seed: int) -> list[Step]:
    """A schedule that is always the same."""
    random = Random(seed)
    steps: list[Step] = []
    for _ in range(40):
        steady = ("commit", "commit", "transaction", "fetch", "wait", "of coordinator")
        kind = random.choice((*steady, *KINDS))
        if kind == "wait":
            steps.append((kind, random.choice((500, 16_000, 46_000))))
        elif kind == "of coordinator":
            steps.append(
                (random.choice(("stop_coordinator", "isolate_others")), random.choice((0, 1)))
            )
        else:
            steps.append((kind, *([random.choice(BROKERS)] if kind in KINDS else [])))
    return steps


def test_schedules_inject_everything() -> None:
    """Among them commits and ends that are pending, fail, or lose their connection."""
    done: Counter[str] = Counter()
    for seed in SEEDS:
        watched = Watched()
        watched.run(schedule(seed))
        done += watched.done
        records = [entry["record"] for entry in watched.brokers.bench.records()]
        done.update(record["type"] for record in records)
    print(", ".join(f"{name} {count}" for name, count in done.most_common()))  # noqa: T201
    wanted = {"commit 0", "commit 15", "end 0", "ends", "gives up", "connection lost", *KINDS}
    wanted |= {"no coordinator", "PartitionLoaded", "PartitionUnloaded", "LogTruncated"}
    assert wanted - set(done) == set()
