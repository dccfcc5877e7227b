"""A run of one seed, from an empty cluster to the audit.

Deterministic: the same plan gives the same events.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial

import msgspec

from brokertwin.clients.record_audit import SendOutcome
from brokertwin.clients.streams.layout import layout
from brokertwin.simulation.actors import Actor, ActorContext
from brokertwin.simulation.admin import SimulatedAdmin
from brokertwin.simulation.audit_replicas import ReplicaAudit
from brokertwin.simulation.audit_work import at_least_once, in_steps, once
from brokertwin.simulation.auditor import Auditor
from brokertwin.simulation.clock import START_MS, VirtualClock
from brokertwin.simulation.closing import FinalLogs, LogReader, make_topics, settle
from brokertwin.simulation.cluster import LocalCluster, SimulatedCluster
from brokertwin.simulation.connecting import COPY, WorkerActor
from brokertwin.simulation.consuming import CopierActor, MemberActor, MixedActor
from brokertwin.simulation.contents import Contents
from brokertwin.simulation.edge import BrokerEdge
from brokertwin.simulation.faults import Faults
from brokertwin.simulation.files import Files
from brokertwin.simulation.micro_batches import JobCluster
from brokertwin.simulation.plan import (
    CONFIGS,
    EXACT,
    LINES,
    OF_ADMINS,
    OFFSETS,
    TALLIES,
    THREADS,
    WORKERS,
    ClientPlan,
    EngineKind,
    FaultKind,
    Role,
    RunPlan,
)
from brokertwin.simulation.producing import ProducerActor, TransactionsActor
from brokertwin.simulation.reach import Reach
from brokertwin.simulation.sharing import ShareActor, begin_share_groups
from brokertwin.simulation.streaming import APPLICATION, StreamsActor, tallying
from brokertwin.simulation.witness import Witness
from brokertwin.state.cell.check import ViolationError
from brokertwin.state.core.events import Reason


def internal_topics(plan: RunPlan) -> dict[str, int]:
    """Return partition counts of an application's internal topics, by name."""
    if plan.application is None:
        return {}
    if plan.application in WORKERS:
        return {CONFIGS: 1, OFFSETS: 1}
    counts = layout(APPLICATION, tallying(), dict.fromkeys(plan.topics, plan.partitions))
    return {each.name: each.partitions for each in counts.internal_topics.values()}


class ApplicationEffects:
    """Expected output of an application (Connect or Streams).

    Each input must be in it: once if the application is exactly-once, for read_committed readers;
    at least once otherwise.
    """

    def __init__(self, plan: RunPlan, contents: Contents, files: Files) -> None:
        self._plan = plan
        self._contents = contents
        self._files = files
        self._hold = once if plan.application in EXACT else at_least_once

    def wrong(self, logs: FinalLogs) -> list[str]:
        """Return descriptions of missing or duplicate output."""
        orders = [
            name for at, log in logs.committed.items() if at.topic == "orders" for _, name in log
        ]
        if self._plan.application is None:
            return []
        if self._plan.application in WORKERS:
            return self._of_workers(logs, orders)
        return self._of_threads(logs, orders)

    def _of_workers(self, logs: FinalLogs, orders: list[str]) -> list[str]:
        lines = self._files.read(START_MS + self._plan.active_ms, 0, self._plan.active_ms)
        expected = [line.text.decode() for line in lines]
        found = Counter(value for _, _, value in self._values(logs, LINES))
        copied = Counter(self._files.written[COPY])
        return [
            *self._hold("the source's lines are in the topic", expected, found),
            *at_least_once("orders are in the sink's file", orders, copied),
        ]

    def _of_threads(self, logs: FinalLogs, orders: list[str]) -> list[str]:
        found = [
            (f"{partition} {key}", *value.split(":", 1))
            for partition, key, value in self._values(logs, TALLIES)
        ]
        wrong = self._hold("orders are counted", orders, Counter(name for _, _, name in found))
        if self._plan.application in EXACT:
            wrong += in_steps("tallies", [(key, int(count)) for key, count, _ in found])
        return wrong

    def _values(self, logs: FinalLogs, topic: str) -> list[tuple[int, str, str]]:
        """Return partition, key and value of the committed records of a topic."""
        read = [
            (at.partition, self._contents.read(name))
            for at, log in logs.committed.items()
            if at.topic == topic
            for _, name in log
        ]
        return [(at, (m.key or b"").decode(), (m.value or b"").decode()) for at, m in read]


REBIRTH_MS, ABSENT_MS = 300, 1_000
STEP_MS = 100
SETTLE_MS = 60_000
STARTS_WITHIN_MS = 1_500

ACTORS: dict[Role, type[Actor]] = {
    Role.PRODUCER: ProducerActor,
    Role.TRANSACTIONS: TransactionsActor,
    Role.CLASSIC: MemberActor,
    Role.CONSUMER: MemberActor,
    Role.COPIER: CopierActor,
    Role.MIXED: MixedActor,
    Role.SHARER: ShareActor,
    **dict.fromkeys(WORKERS, WorkerActor),
    **dict.fromkeys(THREADS, StreamsActor),
}
READS_ORDERS = frozenset({Role.COPIER, Role.MIXED})
EXPECTED = frozenset({Reason.BROKER_STOPPED, Reason.NO_CONTROLLER})
"""Reasons of dead letters while a broker is away."""


class Outcomes(msgspec.Struct):
    """Outcome of a run.

    Attributes:
        violations: descriptions of violations; empty for a successful run.
        requests: requests received by brokers, by API.
        faults: number of effective faults by kind.
        reached: counts of situations.
        events: number of processed events.
        elapsed_ms: virtual duration.
        records: number of acknowledged records.
        trace: a line for each step, if requested.
    """

    violations: list[str]
    requests: Counter[str] = msgspec.field(name="asked")
    faults: Counter[FaultKind]
    reached: Counter[Reach]
    events: int
    elapsed_ms: int
    records: int
    trace: list[str]


class Simulation:
    """A cluster, its clients and its faults."""

    def __init__(
        self,
        plan: RunPlan,
        *,
        is_traced: bool = False,
        witness: Callable[[VirtualClock], Witness] | None = None,
    ) -> None:
        self._plan = plan
        self._clock = VirtualClock()
        self._auditor = Auditor(self._clock, is_traced)
        self._cluster: SimulatedCluster
        if plan.engine is EngineKind.LOCAL:
            self._cluster = LocalCluster(plan, self._clock)
        else:
            self._cluster = JobCluster(plan, self._clock)
            self._cluster.on_batch = self._batch
        self._cluster.witness = witness and witness(self._clock)
        self._edge = BrokerEdge(self._cluster, self._clock, plan.seed)
        self._edge.witness = ReplicaAudit(
            self._auditor.violate, self._cluster, lambda: self._auditor.has_severed_brokers
        )
        self._place = ActorContext(plan, self._clock, self._edge, self._auditor)
        self._effects = ApplicationEffects(plan, self._place.contents, self._place.files)
        self._admin = SimulatedAdmin(self._cluster, self._clock, self._auditor)
        self._actors: dict[str, Actor] = {}
        self._instances: Counter[str] = Counter()
        self._faults = Faults(
            self._cluster,
            self._edge,
            self._present,
            self._replace,
            self._auditor.say,
            self._auditor.lose_broker,
            self._admin.apply,
        )
        self._is_ending = False
        self._gone: set[str] = set()

    def run(self) -> Outcomes:
        try:
            self._play()
        except ViolationError as error:
            self._auditor.violate(str(error))
        return Outcomes(
            self._auditor.violations,
            self._edge.requests,
            self._faults.done,
            self._cluster.reached,
            self._cluster.decided,
            self._clock.elapsed,
            sum(e.outcome is SendOutcome.ACKED for e in self._auditor.records.sent.values()),
            self._auditor.trace or [],
        )

    def _play(self) -> None:
        plan = self._plan
        reader = LogReader(self._cluster, self._clock)
        counts = dict.fromkeys(plan.topics, plan.partitions) | internal_topics(plan)
        make_topics(reader, counts, plan.replicas, plan.in_sync_min)
        begin_share_groups(reader, plan)
        for number, client in enumerate(plan.clients):
            starts = number * STARTS_WITHIN_MS // len(plan.clients)
            self._clock.after(starts, partial(self._start, client))
        self._faults.plan(plan.injections)
        self._clock.run(self._clock.now + plan.active_ms)
        self._auditor.say("nothing befalls the cluster any more, and clients have no new work")
        self._faults.mend()
        self._is_ending = True
        self._end_doubled()
        for actor in self._present():
            actor.is_ending = True
        self._end(reader)

    def _end(self, reader: LogReader) -> None:
        if not settle(self._clock, self._is_settled, STEP_MS, SETTLE_MS):
            restless = [each.name for each in self._present() if not each.is_at_rest]
            unread = {group: sorted(names)[:5] for group, names in self._unread().items() if names}
            self._auditor.violate(f"no rest: {restless} have not ended, not read are {unread}")
        self._faults.operator.cancel()
        has_losses = any(map(self._plan.has, OF_ADMINS))
        logs = FinalLogs(reader, self._plan.topics, has_losses)
        until = self._clock.now + SETTLE_MS
        while self._wrong(logs) and self._clock.now < until:
            self._clock.run(self._clock.now + STEP_MS)
            logs = FinalLogs(reader, self._plan.topics, has_losses)
        for text in self._wrong(logs):
            self._auditor.violate(f"in the end {text}")
        self._cluster.reached[Reach.FOLLOWED] += logs.followed
        self._cluster.reached[Reach.REFUSED] += self._auditor.denials.refused
        self._auditor.records.hold(logs.whole, logs.committed)
        self._hold_letters()
        for text in self._cluster.differing:
            self._auditor.violate(f"reprocessed events give other rows: {text}")
        self._cluster.hold()

    def _wrong(self, logs: FinalLogs) -> list[str]:
        further = self._auditor.records.read_further(logs.whole)
        return [*logs.unsettled, *further, *self._copies(logs), *self._effects.wrong(logs)]

    # Clients

    def _present(self) -> list[Actor]:
        return [e for e in self._actors.values() if not e.is_gone and not e.is_closing]

    def _start(self, client: ClientPlan) -> None:
        self._instances[client.name] += 1
        number = self._instances[client.name]
        name = client.name if number == 1 else f"{client.name}#{number}"
        actor = self._actors[name] = ACTORS[client.role](self._place, client, name)
        actor.is_ending = self._is_ending
        self._auditor.say(f"{name} starts")
        actor.wake()

    def _end_doubled(self) -> None:
        """End all but the last of the threads with the same process id: they have lost their disk.

        They would otherwise fence each other forever.
        """
        last = {each.plan.name: each for each in self._present()}
        for actor in self._present():
            if actor.plan.role in THREADS and actor is not last[actor.plan.name]:
                actor.crash()

    def _replace(
        self, actor: Actor, after_ms: int | None = REBIRTH_MS, *, is_closed: bool = False
    ) -> None:
        """End or pause an actor and start a new instance, unless it is gone for too long."""
        if after_ms is None:
            actor.pause(True)
            self._clock.after(REBIRTH_MS, lambda: self._start(actor.plan))
            return
        if is_closed:
            actor.close()
        else:
            actor.crash()
        if any(each.plan.name == actor.plan.name for each in self._present()):
            return
        if actor.plan.role is Role.TRANSACTIONS and after_ms > ABSENT_MS:
            self._gone.add(actor.plan.name)
        else:
            self._clock.after(after_ms, lambda: self._start(actor.plan))

    def _batch(self, events: int, is_committed: bool) -> None:
        what = "is committed" if is_committed else "has lost a task, and comes again"
        self._auditor.say(f"a micro-batch of {events} events {what}")

    # End

    def _is_settled(self) -> bool:
        for actor in self._present():
            if actor.is_over:
                self._replace(actor)
        names = {each.plan.name for each in self._present()} | self._gone
        is_born = all(client.name in names for client in self._plan.clients)
        is_at_rest = is_born and all(each.is_at_rest for each in self._present())
        is_at_rest = is_at_rest and self._admin.is_idle
        return is_at_rest and not any(self._unread().values())

    def _unread(self) -> dict[str, set[str]]:
        """Return by group the acknowledged records that no member has read."""
        seen = self._auditor.records
        result = {}
        for client in self._plan.clients:
            if client.role is Role.SHARER:
                result[client.group] = self._auditor.shares.unsettled(client.group, seen)
            elif client.group:
                result[client.group] = {
                    name
                    for name, sent in seen.sent.items()
                    if sent.outcome is SendOutcome.ACKED
                    and not seen.may_be_gone(name)
                    and (client.role not in READS_ORDERS or sent.partition.topic == "orders")
                    and seen.transactions.get(sent.transaction, SendOutcome.ACKED)
                    is SendOutcome.ACKED
                } - seen.read_by[client.group]
        return result

    def _copies(self, logs: FinalLogs) -> list[str]:
        """Return descriptions of committed records of `orders` without exactly one copy."""
        if not any(client.role is Role.COPIER for client in self._plan.clients):
            return []
        copies = Counter(
            name.partition("=")[2]
            for at, log in logs.committed.items()
            if at.topic == "payments"
            for _, name in log
            if "=" in name
        )
        return [
            f"{name}, at {offset} of orders-{at.partition}, is copied {copies[name]} times"
            for at, log in logs.committed.items()
            if at.topic == "orders"
            for offset, name in log
            if copies[name] != 1
        ]

    def _hold_letters(self) -> None:
        """Check that only invalid events and requests to absent brokers became dead letters."""
        letters, reached = self._cluster.dead_letters, self._cluster.reached
        reached[Reach.EARLY] += sum(each["reason"] == Reason.OUT_OF_SEQUENCE for each in letters)
        expected = EXPECTED | ({Reason.OUT_OF_SEQUENCE} if reached[Reach.GAPS] else set())
        refused = [each for each in letters if "poison-" not in str(each)]
        wrong = [each for each in refused if each["reason"] not in expected]
        without_id = [each for each in wrong if "requestHeader" not in str(each)]
        for each in wrong:
            if each not in without_id:
                self._auditor.violate(f"a request was refused: {each['reason']}: {each['detail']}")
        poisoned = len(letters) - len(refused) + len(without_id)
        if poisoned != self._faults.poisoned:
            text = f"{self._faults.poisoned} poison events gave {poisoned} dead letters"
            self._auditor.violate(text)


def simulate(
    plan: RunPlan,
    *,
    is_traced: bool = False,
    witness: Callable[[VirtualClock], Witness] | None = None,
) -> Outcomes:
    """Run a plan; a local engine can have a witness, created with its clock."""
    return Simulation(plan, is_traced=is_traced, witness=witness).run()
