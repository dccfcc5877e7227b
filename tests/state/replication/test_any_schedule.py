"""Under any schedule of appends, stops, isolations and elections, committed records survive.

`SCHEDULES=500 pytest tests/state/replication/test_any_schedule.py` tries that many.
"""

import os
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokertwin.state.cell.check import check
from brokertwin.state.cluster import failed_dirs
from brokertwin.state.logs import log as logs
from brokertwin.state.logs.log import batches_from
from brokertwin.state.replication import reassignments
from brokertwin.state.replication.isr_controller import RECOVERING
from brokertwin.state.replication.throttles import Side
from tests.support.machine import Bench
from tests.support.replicas import BROKERS, Replicas

Step = tuple[Any, ...]
"""A step and its arguments."""

SCHEDULES = int(os.environ.get("SCHEDULES", "40"))

DISKS = ("/disk-1", "/disk-2")
"""Log directories: the partition is in the first; a broker halts with the second one only."""

SETTINGS: list[dict[str, Any]] = [
    {},
    {"brokertwin_leader_and_isr": True, "num_replica_fetchers": 4},
    {"brokertwin_isr_by_time_only": True, "brokertwin_trace_replication": True},
    {"log_dirs": DISKS, "given": {"metadata.log.dir": DISKS[1]}},
    {"brokertwin_eligible_leader_replicas_version": 0},
]
"""Settings under which no acknowledged record may be lost."""

KINDS = ("stop", "kill", "start", "isolate", "sever", "rejoin")
ASSIGNMENTS = [[1, 2, 3], [2, 3], [3, 1], [2], [3, 2, 1], [1]]
RATES = [0, 20, 500, None]
"""Limits in bytes per second; with the first, followers wait until all samples have expired."""

SEEDS = range(45)
"""Seeds of schedules that together inject everything."""

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("produce"), st.sampled_from([-1, -1, 1]), st.integers(1, 3)),
        st.tuples(st.sampled_from(KINDS), st.sampled_from(BROKERS)),
        st.tuples(st.just("wait"), st.sampled_from([500, 16_000, 46_000])),
        st.tuples(st.just("delete")),
        st.tuples(st.just("elect")),
        st.tuples(st.just("require"), st.sampled_from(["1", "2", "3"])),
        st.tuples(st.just("reassign"), st.sampled_from([*ASSIGNMENTS, None])),
        st.tuples(st.just("throttle"), st.sampled_from(RATES)),
        st.tuples(st.just("fail"), st.sampled_from(BROKERS)),
    ),
    min_size=5,
    max_size=30,
)


@pytest.fixture(autouse=True, scope="module")
def small_index() -> Iterator[None]:
    """Limit the index to six batches, so that absent brokers miss sealed ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logs, "CHUNK_BATCHES_MAX", 2)
        patch.setattr(logs, "INDEX_CHUNKS_MAX", 3)
        yield


class Watched:
    """A partition during a schedule; raises AssertionError if a committed record is lost.

    Attributes:
        done: number of injections by name.
    """

    def __init__(self, is_unclean: bool = False, required: str = "1", **settings: Any) -> None:
        allowed = "true" if is_unclean else "false"
        configs = {"min_insync_replicas": required, "unclean_leader_election_enable": allowed}
        configs |= {f"{side}_replication_throttled_replicas": "*" for side in Side}
        self.replicas = Replicas(bench=Bench(BROKERS, **settings), **configs)
        self._before = self.replicas.partition()
        self.done: Counter[str] = Counter()
        self._acknowledged: dict[int, int] = {}
        self._sent: dict[str, int] = {}
        self._high_watermarks: dict[tuple[int, int], int] = {}
        self._count = 0

    def run(self, steps: list[Step]) -> None:
        """Run the steps, bring all brokers back, and check that the replicas agree."""
        for name, *arguments in steps:
            self.done[str(name)] += 1
            getattr(self, f"_{name}")(*arguments)
            self._look()
        for broker in BROKERS:
            if self._has_failed(broker):
                self._stop(broker)
            self._start(broker)
            self._rejoin(broker)
        self._throttle(None)
        self._wait(46_000)
        if self.replicas.partition().leader < 0 and self._strangers():
            self.done["no leader until an unclean election"] += 1
            return
        for replicas in (None, list(BROKERS)):
            self._reassign(replicas)
        self._wait(46_000)
        self._look()
        ends = set(self.replicas.watermarks().values())
        assert len(ends) == 1, f"log ends differ: {self.replicas.watermarks()}"
        assert sorted(self.replicas.isr()) == list(BROKERS)
        assert not reassignments.is_under_way(self.replicas.partition())

    def _strangers(self) -> set[int]:
        """Eligible brokers that are no longer replicas; then no leader is last known."""
        partition = self.replicas.partition()
        return set(partition.eligible_leader_replicas) - set(partition.replicas)

    def _produce(self, acks: int, count: int) -> None:
        leader = self.replicas.partition().leader
        if leader < 0 or self.replicas.is_stopped(leader):
            self.done["no leader" if leader < 0 else "killed leader"] += 1
            return
        self._count += 1
        event_id = f"any-{self._count}"
        response = self.replicas.produce(acks, count, id=event_id, crc=self._count)
        if acks != -1:
            return
        self._sent[event_id] = self._count
        if response is not None and response["errorCode"] == 0:
            self._acknowledged[response["baseOffset"]] = self._count

    def _stop(self, broker: int) -> None:
        self.replicas.stop(broker)

    def _kill(self, broker: int) -> None:
        self.replicas.kill(broker)

    def _sever(self, broker: int) -> None:
        self.replicas.sever(broker)

    def _require(self, replicas: str) -> None:
        """Change min.insync.replicas, unless the partition has no leader."""
        if self.replicas.partition().leader >= 0:
            body = Replicas.config_change("min.insync.replicas", replicas)
            self._send("INCREMENTAL_ALTER_CONFIGS", 1, body)

    def _start(self, broker: int) -> None:
        self.replicas.start(broker)

    def _isolate(self, broker: int) -> None:
        self.replicas.isolate(broker)

    def _rejoin(self, broker: int) -> None:
        self.replicas.rejoin(broker)

    def _fail(self, broker: int) -> None:
        has_several = len(self.replicas.bench.settings.broker_settings.log_dirs) > 1
        if not has_several or self.replicas.is_stopped(broker) or self._has_failed(broker):
            return
        self.done["a leader's directory"] += self.replicas.partition().leader == broker
        self.done["a severed broker's directory"] += self.replicas.is_severed(broker)
        self.replicas.fail_dir(broker, DISKS[0])

    def _has_failed(self, broker: int) -> bool:
        return bool(failed_dirs.of(self.replicas.bench.cell.tables.of(broker)))

    def _wait(self, milliseconds: int) -> None:
        self.replicas.bench.tick(milliseconds)

    def _delete(self) -> None:
        leader = self.replicas.partition().leader
        body = {"name": "orders", "partitionIndex": 0, "offset": -1, "timeoutMs": 1000}
        if leader >= 0 and not self.replicas.is_stopped(leader):
            self.replicas.bench.request("DELETE_RECORDS", 2, body, broker=leader)

    def _elect(self) -> None:
        topics = [{"topic": "orders", "partitions": [0]}]
        body = {"electionType": 0, "topicPartitions": topics, "timeoutMs": 1000}
        response = self._send("ELECT_LEADERS", 2, body)
        if response is not None:
            (result,) = response["replicaElectionResults"][0]["partitionResult"]
            self.done[f"election {result['errorCode']}"] += 1

    def _reassign(self, replicas: list[int] | None) -> None:
        """Reassign the partition, or cancel that.

        Not to an eligible broker that is no replica while some are out of sync: Kafka loses records
        then (`test_eligible.py`).
        """
        partition = self.replicas.partition()
        is_partly_in_sync = len(partition.isr) < len(partition.replicas)
        if self._strangers() & set(replicas or ()) and is_partly_in_sync:
            return
        partitions = [{"partitionIndex": 0, "replicas": replicas}]
        body = {"timeoutMs": 1000, "topics": [{"name": "orders", "partitions": partitions}]}
        response = self._send("ALTER_PARTITION_REASSIGNMENTS", 1, body)
        if response is not None:
            error = response["responses"][0]["partitions"][0]["errorCode"]
            kind = "cancel" if replicas is None else "reassignment"
            is_waiting = reassignments.is_under_way(self.replicas.partition())
            self.done[f"{kind} {error}{' waits' if is_waiting else ''}"] += 1

    def _throttle(self, rate: int | None) -> None:
        operation, value = (0, str(rate)) if rate is not None else (1, None)
        for side in Side:
            name = f"{side}.replication.throttled.rate"
            change = {"name": name, "configOperation": operation, "value": value}
            resource = {"resourceType": 4, "resourceName": "", "configs": [change]}
            self._send("INCREMENTAL_ALTER_CONFIGS", 1, {"resources": [resource]})

    def _send(self, api: str, version: int, body: dict[str, Any]) -> Any:
        """Response of any broker that reaches the controller; None if there is none."""
        cut_off = (self.replicas.is_stopped, self.replicas.is_severed)
        alive = [broker for broker in BROKERS if not any(is_so(broker) for is_so in cut_off)]
        return self.replicas.bench.request(api, version, body, broker=alive[0]) if alive else None

    def _look(self) -> None:
        assert check(self.replicas.bench.cell) == []
        keys = self.replicas.bench.cell.tables.replication.keys("")
        self.done.update(f"held by a {key.rpartition('/')[2]}" for key in keys if "/held/" in key)
        self._take_late_responses()
        before, self._before = self._before, self.replicas.partition()
        is_elected = self._before.leader != before.leader
        self.done["elected, being eligible"] += (
            is_elected and self._before.leader in before.eligible_leader_replicas
        )
        self.done["empty in-sync set"] += not self._before.isr
        leader, epoch = self.replicas.leader()
        if leader < 0:
            return
        log = self.replicas.log(leader)
        before = self._high_watermarks.get((leader, epoch), 0)
        assert log.high_watermark >= before, "the leader's high watermark went back"
        self._high_watermarks[leader, epoch] = log.high_watermark
        tables = self.replicas.bench.cell.tables
        found = {b.base_offset: b.crc for b in batches_from(tables.of(leader), log, 0)}
        indexed = log.chunks[0].base_offset if log.chunks else log.log_end_offset
        for offset, crc in self._acknowledged.items():
            if offset >= max(log.log_start_offset, indexed):
                assert found.get(offset) == crc, f"the acknowledged record at {offset} is lost"
                self.done["still there"] += 1

    def _take_late_responses(self) -> None:
        for event_id, crc in list(self._sent.items()):
            response = self.replicas.bench.responses.get(event_id)
            if response is None:
                continue
            del self._sent[event_id]
            if response["response"] is None:
                self.done["connection lost"] += 1
                continue
            partition = response["response"]["responses"][0]["partitionResponses"][0]
            self.done[f"error {partition['errorCode']}"] += 1
            if partition["errorCode"] == 0:
                self._acknowledged[partition["baseOffset"]] = crc


@settings(max_examples=SCHEDULES, deadline=None)
@given(STEPS, st.sampled_from(["1", "2"]), st.sampled_from([0, 1]), st.booleans())
def test_acknowledged_records_survive_clean_elections(
    steps: list[Step], required: str, version: int, has_disks: bool
) -> None:
    disks = SETTINGS[3] if has_disks else {}
    version_of = {"brokertwin_eligible_leader_replicas_version": version}
    Watched(required=required, **version_of, **disks).run(steps)


def schedule(seed: int) -> list[Step]:
    """A schedule that is always the same."""
    random = Random(seed)
    steps: list[Step] = []
    for _ in range(40):
        kinds = ("produce", "produce", "wait", "delete", "elect", "reassign", "throttle", "require")
        kind = random.choice((*kinds, *KINDS))
        if kind == "produce":
            steps.append((kind, random.choice((-1, -1, 1)), random.randint(1, 3)))
        elif kind == "wait":
            steps.append((kind, random.choice((500, 16_000, 46_000))))
        elif kind == "require":
            steps.append((kind, random.choice("123")))
        elif kind == "reassign":
            steps.append((kind, random.choice([*ASSIGNMENTS, None])))
        elif kind == "throttle":
            steps.append((kind, random.choice(RATES)))
        elif kind in ("delete", "elect"):
            steps.append((kind,))
        else:
            steps.append((kind, random.choice(BROKERS)))
    return steps


def failing(steps: list[Step], seed: int) -> list[Step]:
    """The same schedule with failing log directories."""
    random, result = Random(f"failing {seed}"), []
    for step in steps:
        result += [("fail", random.choice(BROKERS))] if random.random() < 0.15 else []
        result.append(step)
    return result


def test_schedules_inject_everything() -> None:
    """Among them truncations, logs taken over, and all results of Produce."""
    done: Counter[str] = Counter()
    for seed in SEEDS:
        watched = Watched(required="12"[seed % 2], **SETTINGS[seed % len(SETTINGS)])
        watched.run(failing(schedule(seed), seed))
        done += watched.done
        records = [entry["record"] for entry in watched.replicas.bench.records()]
        done.update(record["type"] for record in records)
        done["the last known leader"] += sum(
            record.get("leaderRecoveryState") == RECOVERING for record in records
        )
    print(", ".join(f"{name} {count}" for name, count in done.most_common()))  # noqa: T201
    wanted = {"produce", "wait", "delete", *KINDS, "no leader", "connection lost", "still there"}
    wanted |= {"killed leader"}
    wanted |= {"error 0", "error 7", "LogTruncated", "LogStartedAnew", "HighWatermarkMoved"}
    wanted |= {"elect", "election 0", "election 80", "election 84", "reassign", "reassignment 0"}
    wanted |= {"reassignment 0 waits", "cancel 0", "cancel 85"}
    wanted |= {"LogTaken", "LogPlaced", "LineLogged", "held by a leader", "held by a follower"}
    wanted |= {"fail", "a leader's directory", "a severed broker's directory", "error 56"}
    wanted |= {"require", "empty in-sync set", "elected, being eligible", "the last known leader"}
    assert wanted - set(+done) == set()


def loses(watched: Watched, seed: int) -> bool:
    try:
        watched.run(schedule(seed))
    except AssertionError as error:
        return "is lost" in str(error)
    return False


def test_unclean_election_loses_acknowledged_records() -> None:
    """This shows that the checks find a loss."""
    assert any(loses(Watched(is_unclean=True), seed) for seed in SEEDS)


def test_truncation_to_the_high_watermark_loses_records_in_clean_elections() -> None:
    """The rule before KIP-101, in schedules that lose nothing otherwise."""

    def truncating() -> Watched:
        watched = Watched(brokertwin_truncation="hw")
        watched.replicas.bench.is_checked = False
        return watched

    assert any(loses(truncating(), seed) for seed in SEEDS)
