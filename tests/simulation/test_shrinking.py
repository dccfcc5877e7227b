"""A failing plan becomes small, and still fails."""

import msgspec

from brokertwin.simulation.plan import FaultKind, Injection, RunPlan, draw
from brokertwin.simulation.shrinking import shrink

CULPRIT = Injection(700, FaultKind.KILL, 0.5, 100)


def guilty() -> RunPlan:
    plan = draw(0)
    injections = tuple(sorted((*plan.injections, CULPRIT), key=lambda each: each.at_ms))
    return msgspec.structs.replace(plan, injections=injections)


def test_what_is_left_is_what_it_takes_to_fail() -> None:
    small = shrink(guilty(), lambda plan: CULPRIT in plan.injections)
    assert small.injections == (CULPRIT,)
    assert len(small.clients) == 1
    assert small.active_ms < guilty().active_ms


def test_what_fails_only_as_it_is_stays_as_it_is() -> None:
    plan = guilty()
    assert shrink(plan, lambda smaller: smaller == plan) == plan


def test_it_is_not_tried_for_ever() -> None:
    tries: list[RunPlan] = []
    shrink(guilty(), lambda plan: bool(tries.append(plan)), tries_max=5)
    assert len(tries) == 5
