"""Histories with known truth, for the score of findings (`tests/score`).

A history is a run of a local engine with accidents that every cluster knows. The logs of its
brokers and what really happened are kept (`witness.py`).
"""

from random import Random
from typing import NamedTuple

import msgspec

from brokertwin.simulation.clock import VirtualClock
from brokertwin.simulation.plan import (
    ClientPlan,
    EngineKind,
    FaultKind,
    Injection,
    Role,
    RunPlan,
    draw,
)
from brokertwin.simulation.request_logs import LogLine
from brokertwin.simulation.run import simulate
from brokertwin.simulation.truth import Truth
from brokertwin.simulation.witness import Witness

ACCIDENTS: dict[FaultKind, int] = {
    **dict.fromkeys((FaultKind.LEAVE, FaultKind.STALL, FaultKind.CRASH, FaultKind.ZOMBIE), 4),
    **dict.fromkeys((FaultKind.PAUSE, FaultKind.STOP, FaultKind.KILL, FaultKind.BREAK), 3),
    **dict.fromkeys((FaultKind.OFFSETS, FaultKind.QUOTA, FaultKind.TOPIC), 2),
    **dict.fromkeys((FaultKind.DELETE_RECORDS, FaultKind.DENY_GROUP, FaultKind.DENY_READ), 1),
    **dict.fromkeys((FaultKind.ISOLATE, FaultKind.SLOW, FaultKind.MUTE), 1),
}
"""Relative frequency of accidents."""

ACTIVE_MS, ENDS_MS = 9_000, 2_000
SHORT_MS = 5_000
COUNT_MAX = 8
LASTING = frozenset({FaultKind.STALL, FaultKind.PAUSE, FaultKind.ZOMBIE})
WRITER, WITH_TRANSACTIONS = ClientPlan("orders-tx", Role.TRANSACTIONS), 0.6
STATIC, OLD, EXPIRING, MANY = 0.25, 0.15, 0.05, 0.05
"""Probabilities of static members, old clients, expiring offsets and of many accidents."""

MANY_ACCIDENTS = 30
LONG_MS, EXPIRING_MS = 30_000, 75_000


class History(NamedTuple):
    """A run with known truth.

    Attributes:
        plan: what was planned.
        lines: of each broker's request log.
        truth: what happened.
        violations: of invariants; empty for a valid run.
    """

    plan: RunPlan
    lines: dict[int, list[LogLine]]
    truth: Truth
    violations: list[str]


def draw_history(seed: int, is_short: bool = False) -> RunPlan:
    """Draw the plan of a history: some are long, with more than ten of everything.

    A short one costs half as much as others of ordinary length.
    """
    chance = Random(f"{seed}/history")
    plan = draw(seed)
    kind = 1.0 if is_short else chance.random()
    active_ms, most = (SHORT_MS, COUNT_MAX // 2) if is_short else (ACTIVE_MS, COUNT_MAX)
    if kind < EXPIRING:
        active_ms, most = EXPIRING_MS, 3
    elif kind < EXPIRING + MANY:
        active_ms, most = LONG_MS, MANY_ACCIDENTS
    count = chance.randint(most if kind < EXPIRING + MANY else 1, most)
    return msgspec.structs.replace(
        plan,
        engine=EngineKind.LOCAL,
        cells=1,
        clients=_clients(plan.clients, chance),
        injections=_accidents(chance, count, active_ms, plan.brokers),
        active_ms=active_ms,
        max_poll_ms=4_500,
        expires_fast=kind < EXPIRING,
    )


def run_history(plan: RunPlan) -> History:
    """Run a plan and keep what its brokers log, and what really happened."""
    witnesses: list[Witness] = []

    def witness(clock: VirtualClock) -> Witness:
        witnesses.append(Witness(plan.seed, clock))
        return witnesses[0]

    outcomes = simulate(plan, witness=witness)
    return History(plan, witnesses[0].logs.by_broker(), witnesses[0].truth, outcomes.violations)


def _clients(clients: tuple[ClientPlan, ...], chance: Random) -> tuple[ClientPlan, ...]:
    """Let some members be static, and some clients old."""
    is_static, is_old = chance.random() < STATIC, chance.random() < OLD
    found = []
    names = {each.name for each in clients}
    if WRITER.name not in names and chance.random() < WITH_TRANSACTIONS:
        clients = (*clients, WRITER)
    for each in clients:
        is_member = each.role in (Role.CLASSIC, Role.CONSUMER)
        found.append(
            msgspec.structs.replace(
                each,
                instance=f"{each.name}-instance" if is_static and is_member else "",
                is_old=is_old and each.role in (Role.CLASSIC, Role.PRODUCER),
            )
        )
    return tuple(found)


def _accidents(chance: Random, count: int, active_ms: int, brokers: int) -> tuple[Injection, ...]:
    kinds = [each for each in ACCIDENTS if brokers > 1 or each is not FaultKind.ISOLATE]
    weights = [ACCIDENTS[each] for each in kinds]
    injections = []
    for fault in chance.choices(kinds, weights, k=count):
        is_lasting = fault in LASTING
        lasts_ms = chance.randint(4_600, 8_000) if is_lasting else chance.randint(300, 4_000)
        end = active_ms // 3 if is_lasting else active_ms - ENDS_MS
        at_ms = chance.randrange(1_500, end)
        injections.append(Injection(at_ms, fault, chance.random(), lasts_ms))
    return tuple(sorted(injections, key=lambda each: each.at_ms))
