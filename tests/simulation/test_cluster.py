"""Order of messages between brokers of a simulated cluster."""

from random import Random

import pytest

from brokertwin.simulation.deliveries import Draws
from brokertwin.simulation.plan import ClientPlan, EngineKind, FaultKind, Injection, Role, RunPlan
from brokertwin.simulation.reach import Reach
from brokertwin.simulation.run import Outcomes, simulate

UNKNOWN_API = 0.1
"""Placeholder for the author of an invalid event that raises when processed."""

DIFFERS = "reprocessed events give other rows"


def test_draws_repeat_until_they_are_discarded() -> None:
    draws, same = Draws(Random(1)), Random(1)
    drawn = [draws(1_000) for _ in range(5)]
    assert drawn == [same.randrange(1_000) for _ in range(5)]
    draws.again()
    assert [draws(1_000) for _ in range(5)] == drawn
    draws.forget()
    assert draws(1_000) == same.randrange(1_000)


def refused_often(is_any_order: bool) -> RunPlan:
    """Three brokers in one process with some events that raise when processed."""
    roles = (Role.PRODUCER, Role.TRANSACTIONS, Role.CLASSIC, Role.COPIER, Role.COPIER)
    clients = [
        ClientPlan(f"client-{number}", role, "" if number < 2 else role.name, number > 2)
        for number, role in enumerate(roles)
    ]
    refused = [
        Injection(at_ms, FaultKind.POISON, UNKNOWN_API, 0) for at_ms in range(500, 6_000, 250)
    ]
    return RunPlan(
        seed=1,
        engine=EngineKind.LOCAL,
        brokers=3,
        cells=1,
        partitions=3,
        is_any_order=is_any_order,
        clients=tuple(clients),
        injections=(Injection(1_000, FaultKind.STOP, 0.5, 1_500), *refused),
        active_ms=6_000,
    )


def differing(outcomes: Outcomes) -> list[str]:
    return [text for text in outcomes.violations if text.startswith(DIFFERS)]


@pytest.mark.long
@pytest.mark.parametrize("is_any_order", [False, True])
def test_reprocessed_events_give_the_same_outputs(is_any_order: bool) -> None:
    outcomes = simulate(refused_often(is_any_order))
    assert outcomes.violations == []
    assert outcomes.reached[Reach.AGAIN] > 100


@pytest.mark.long
def test_another_delivery_order_of_reprocessed_events_is_detected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Draws, "again", Draws.forget)
    assert differing(simulate(refused_often(is_any_order=True)))
    assert not differing(simulate(refused_often(is_any_order=False)))
