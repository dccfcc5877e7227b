"""Faults: effects of injections, and their ends."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from brokertwin.simulation.actors import Actor
from brokertwin.simulation.clock import START_MS
from brokertwin.simulation.cluster import SimulatedCluster
from brokertwin.simulation.edge import BrokerEdge
from brokertwin.simulation.micro_batches import JobCluster
from brokertwin.simulation.operating import Operator
from brokertwin.simulation.plan import (
    OF_ADMINS,
    OF_DENIALS,
    OF_OPERATORS,
    FaultKind,
    Injection,
    Role,
    pick,
)
from brokertwin.state.core.events import Kind

UNKNOWN_API = (
    '{"id": "poison-%d", "cluster": "simulated", "broker": BROKER,'
    ' "requestHeader": {"requestApiKey": 999, "requestApiVersion": 0}}'
)
"""Raises when processed, so the previous events are reprocessed."""

POISON = (
    *("{", "\xff\xfe", '{"id": "poison-%d", "kind": "sulk"}', '{"id": "poison-%d"}', "[]"),
    *(UNKNOWN_API, UNKNOWN_API, UNKNOWN_API, UNKNOWN_API),
)
"""Invalid events; %d is a unique number."""

_ENDS: dict[FaultKind, tuple[Kind, ...]] = {
    FaultKind.STOP: (Kind.STOP_BROKER, Kind.START_BROKER),
    FaultKind.KILL: (Kind.KILL_BROKER, Kind.START_BROKER),
    FaultKind.ISOLATE: (Kind.ISOLATE_BROKER, Kind.REJOIN_BROKER),
    FaultKind.SEVER: (Kind.SEVER_BROKER, Kind.REJOIN_BROKER),
    FaultKind.DISK: (Kind.FAIL_LOG_DIR, Kind.STOP_BROKER, Kind.START_BROKER),
}


IN_TRANSACTIONS = 0.6
"""Probability that an application that hangs is one with transactions."""

STALL_AGAIN_MS = 20

FENCED = frozenset({Role.TRANSACTIONS, Role.COPIER, Role.MIXED})
"""Clients that come back as zombies, if there are any: their producers are fenced."""


class Replace(Protocol):
    def __call__(
        self, actor: Actor, after_ms: int | None = ..., *, is_closed: bool = False
    ) -> None:
        """Start a new instance after some ms; None: beside the former one."""


ADMINISTERED_FAULTS = frozenset(
    {*OF_ADMINS, *OF_DENIALS, FaultKind.DENY, FaultKind.QUOTA, FaultKind.OFFSETS}
)


class Faults:
    """Applies the injections of a plan, and repairs their effects.

    Args:
        actors: returns the present actors.
        replace: replaces a crashed actor after some ms, or, with None, a paused one that is only
            believed to have crashed.
        administer: runs an administrator's injection and returns its target.

    Attributes:
        done: number of effective injections by kind.
        operator: moves replicas and leaders.
    """

    def __init__(
        self,
        cluster: SimulatedCluster,
        edge: BrokerEdge,
        actors: Callable[[], Sequence[Actor]],
        replace: "Replace",
        say: Callable[[str], None],
        on_away: Callable[[FaultKind], None],
        administer: Callable[[Injection], str],
    ) -> None:
        self.done: Counter[FaultKind] = Counter()
        self.poisoned = 0
        self._cluster = cluster
        self._edge = edge
        self._actors = actors
        self._replace = replace
        self._say = say
        self._on_away = on_away
        self._administer = administer
        self._away: dict[int, list[Kind]] = {}
        self.operator = Operator(cluster, self._on_operation)

    def plan(self, injections: Sequence[Injection]) -> None:
        for each in injections:
            self._edge.clock.at(START_MS + each.at_ms, partial(self._come, each))

    def mend(self) -> None:
        """Start all brokers, resume all clients, and make the network fast."""
        self._edge.is_slow = False
        for broker in list(self._away):
            self._back(broker)
        for actor in self._actors():
            actor.is_stalled = False
            actor.pause(False)
            for each in actor.all_sockets:
                each.mute(False)

    def _come(self, injection: Injection) -> None:
        whom = ""
        if injection.fault in OF_OPERATORS:
            self._operate(injection)
        elif injection.fault in _ENDS:
            whom = self._on_broker(injection)
        elif injection.fault in (
            FaultKind.BREAK,
            FaultKind.MUTE,
            FaultKind.PAUSE,
            FaultKind.CRASH,
            FaultKind.ZOMBIE,
            FaultKind.LEAVE,
            FaultKind.STALL,
        ):
            whom = self._on_client(injection)
        elif injection.fault in ADMINISTERED_FAULTS:
            whom = self._administer(injection)
        else:
            whom = self._on_all(injection)
        if whom:
            self.done[injection.fault] += 1
            self._say(f"FAULT: {injection.fault}: {whom}, {injection.lasts_ms} ms")

    def _later(self, injection: Injection, end: Callable[[], None]) -> None:
        self._edge.clock.after(injection.lasts_ms, end)

    def _on_broker(self, injection: Injection) -> str:
        """Take a broker away, within the plan's limit."""
        broker = pick(self._cluster.settings.brokers, injection.whom)
        is_full = len(self._away) >= self._cluster.plan.away_max
        if broker is None or broker in self._away or is_full:
            return ""
        begin, *ends = _ENDS[injection.fault]
        self._away[broker] = ends
        self._on_away(injection.fault)
        failed: dict[str, str] = {}
        if begin is Kind.FAIL_LOG_DIR:
            failed["directory"] = pick(self._cluster.plan.disks, injection.whom * 7 % 1) or ""
        self._show(broker, begin)
        self._cluster.intervene(begin, broker, **failed)
        self._later(injection, lambda: self._back(broker))
        return " ".join([f"broker {broker}", *failed.values()])

    def _back(self, broker: int) -> None:
        for end in self._away.pop(broker, ()):
            self._say(f"broker {broker}: {end}")
            self._show(broker, end)
            self._cluster.intervene(end, broker)

    def _show(self, broker: int, change: Kind) -> None:
        if self._cluster.witness is not None:
            self._cluster.witness.broker(broker, change)

    def _on_client(self, injection: Injection) -> str:
        actors = self._actors()
        if injection.fault is FaultKind.ZOMBIE:
            actors = [each for each in actors if each.plan.role in FENCED] or actors
        if injection.fault is FaultKind.STALL and injection.whom * 31 % 1 < IN_TRANSACTIONS:
            actors = [each for each in actors if each.plan.role is Role.TRANSACTIONS] or actors
        actor = pick(actors, injection.whom)
        if actor is None:
            return ""
        sockets = actor.exposed(injection.whom)
        match injection.fault:
            case FaultKind.BREAK:
                node = pick(sockets.nodes, injection.whom * 7 % 1)
                if node is None:
                    return ""
                sockets.cut(node)
            case FaultKind.MUTE:
                sockets.mute(True)
                self._later(injection, lambda: sockets.mute(False))
            case FaultKind.PAUSE:
                actor.pause(True)
                self._later(injection, lambda: actor.pause(False))
            case FaultKind.ZOMBIE:
                self._replace(actor, None)
                self._later(injection, lambda: actor.pause(False))
            case FaultKind.CRASH:
                self._replace(actor, injection.lasts_ms)
            case FaultKind.LEAVE:
                self._replace(actor, injection.lasts_ms, is_closed=True)
            case FaultKind.STALL:
                self._stall(actor, injection)
        return actor.name

    def _stall(self, actor: Actor, injection: Injection) -> None:
        """Let an application hang; one with transactions hangs within the next one."""
        if not actor.may_stall and not actor.is_ending:
            self._edge.clock.after(STALL_AGAIN_MS, lambda: self._stall(actor, injection))
            return
        actor.is_stalled = True
        self._later(injection, lambda: self._resume(actor))

    def _resume(self, actor: Actor) -> None:
        actor.is_stalled = False
        actor.wake()

    def _operate(self, injection: Injection) -> None:
        """Send an operator's request to a running broker."""
        here = [each for each in self._cluster.settings.brokers if each not in self._away]
        if injection.fault is FaultKind.ELECT:
            self.operator.elect(injection, here)
        else:
            self.operator.reassign(injection, here)

    def _on_operation(self, fault: FaultKind, where: str) -> None:
        self.done[fault] += 1
        self._on_away(fault)
        self._say(f"FAULT: {fault}: {where}")

    def _on_all(self, injection: Injection) -> str:
        cluster = self._cluster
        if injection.fault is FaultKind.SLOW:
            self._edge.is_slow = True
            self._later(injection, self._quick)
            return "everybody"
        if injection.fault is FaultKind.POISON:
            return f"cell {self._poison(injection.whom)}"
        assert isinstance(cluster, JobCluster), "only a job has tasks"
        if injection.fault is FaultKind.LOST_TASK:
            cluster.lost_tasks += 1 + int(injection.whom * 3)
        else:
            cluster.restart()
        return "the job"

    def _poison(self, whom: float) -> str:
        """Send an invalid event to a cell; return its name."""
        broker = pick(self._cluster.settings.brokers, whom) or 1
        name = self._cluster.cell_of(broker)
        self.poisoned += 1
        document = pick(POISON, whom * 7 % 1) or ""
        document = document.replace("%d", str(self.poisoned)).replace("BROKER", str(broker))
        self._cluster.take(name, document.encode("latin-1"))
        return name

    def _quick(self) -> None:
        self._edge.is_slow = False
