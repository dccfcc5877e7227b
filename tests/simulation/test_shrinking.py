"""A failing plan is shrunk and still fails."""

import msgspec

from brokertwin.simulation.plan import FaultKind, Injection, RunPlan, draw
from brokertwin.simulation.shrinking import shrink

CULPRIT = Injection(700, FaultKind.KILL, 0.5, 100)


def guilty() -> RunPlan:
    plan = draw(0)
    injections = tuple(sorted((*plan.injections, CULPRIT), key=lambda each: each.at_ms))
    return msgspec.structs.replace(plan, injections=injections)


def test_only_the_necessary_parts_of_a_plan_remain() -> None:
    small = shrink(guilty(), lambda plan: CULPRIT in plan.injections)
    assert small.injections == (CULPRIT,)
    assert len(small.clients) == 1
    assert small.active_ms < guilty().active_ms


def test_a_minimal_plan_stays_unchanged() -> None:
    plan = guilty()
    assert shrink(plan, lambda smaller: smaller == plan) == plan


def test_the_number_of_attempts_is_limited() -> None:
    tries: list[RunPlan] = []
    shrink(guilty(), lambda plan: bool(tries.append(plan)), tries_max=5)
    assert len(tries) == 5
