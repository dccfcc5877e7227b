"""Members of consumer groups, workers and threads through losses, in the simulator.

A partition or a task has one owner among the members with a session, all is owned and processed
again at the end, committed offsets never go back, and exactly-once output is exact.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest

from brokertwin.clients.connect.worker_coordinator import WorkerCoordinator
from brokertwin.clients.streams.restorer import Restorer
from brokertwin.simulation import run
from brokertwin.simulation.campaign import outcome_of
from brokertwin.simulation.plan import (
    ACTIVE_MS,
    ClientPlan,
    EngineKind,
    FaultKind,
    Injection,
    Role,
    RunPlan,
)
from brokertwin.state.groups import member_assignment

COUNT = 12
LOSSES = (
    *(FaultKind.BREAK, FaultKind.MUTE, FaultKind.SLOW, FaultKind.PAUSE),
    *(FaultKind.CRASH, FaultKind.ZOMBIE, FaultKind.LEAVE),
)
SEEDS = range(6)


def three(role: Role, **fields: Any) -> tuple[ClientPlan, ...]:
    group = "billing" if role is Role.CONSUMER else ""
    return tuple(ClientPlan(f"client-{number}", role, group, **fields) for number in (1, 2, 3))


CLIENTS = {
    "consumer": three(Role.CONSUMER),
    "eager workers": three(Role.EAGER_WORKER),
    "workers": three(Role.WORKER),
    "streams": three(Role.STREAMS),
    "exact streams": three(Role.EXACT_STREAMS),
    "streams with standbys": three(Role.EXACT_STREAMS, standbys=1),
}


def drawn(chance: Random, losses: Sequence[FaultKind]) -> Injection:
    at_ms, lasts_ms = chance.randrange(200, ACTIVE_MS), chance.randint(50, 9_000)
    return Injection(at_ms, chance.choice(losses), chance.random(), lasts_ms)


def plan(clients: tuple[ClientPlan, ...], seed: int) -> RunPlan:
    chance = Random(seed)
    losses = [*LOSSES, FaultKind.STALL] if clients[0].group else LOSSES
    injections = [drawn(chance, losses) for _ in range(COUNT)]
    return RunPlan(
        seed=seed,
        engine=EngineKind.LOCAL,
        brokers=2,
        cells=1,
        partitions=3,
        is_any_order=False,
        clients=(ClientPlan("producer-1", Role.PRODUCER), *clients),
        injections=tuple(sorted(injections, key=lambda each: each.at_ms)),
    )


@pytest.mark.parametrize("name", CLIENTS)
def test_guarantees_hold_through_losses(name: str) -> None:
    faults: Counter[FaultKind] = Counter()
    for seed in SEEDS:
        outcomes = outcome_of(plan(CLIENTS[name], seed))
        assert outcomes.violations == [], seed
        faults += outcomes.faults
    assert faults.keys() >= set(LOSSES)


BROKEN: dict[str, tuple[object, str, Callable[..., bool], str]] = {
    "consumer": (member_assignment, "_owns", lambda *_: False, "is given to"),
    "eager workers": (WorkerCoordinator, "_prepare", lambda *_: True, "runs it, and was heard of"),
    "exact streams": (Restorer, "is_whole", lambda *_: True, "tallies"),
}
"""Rules broken on purpose, and a text of the violation.

A partition is free before its owner has revoked it; a worker joins before its tasks have stopped;
a task runs before its stores are restored.
"""


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rule_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, attribute, rule, text = BROKEN[name]
    monkeypatch.setattr(owner, attribute, rule)
    monkeypatch.setattr(run, "SETTLE_MS", 15_000)
    results = (outcome_of(plan(CLIENTS[name], seed)).violations for seed in SEEDS)
    found = next(each for each in results if each)
    assert text in found[0]
