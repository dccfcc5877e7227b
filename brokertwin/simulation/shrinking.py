"""Shrinks a failing plan: fewer injections, fewer clients, an earlier end.

Draws for one client or injection do not depend on others, so the rest stays unchanged. Any
violation counts as a failure, not only the first one.
"""

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from brokertwin.simulation.plan import RunPlan

TRIES_MAX = 150
SHORTEST_MS = 500

Fails = Callable[[RunPlan], bool]


def shrink(plan: RunPlan, fails: Fails, tries_max: int = TRIES_MAX) -> RunPlan:
    """Return the smallest failing plan that was found, or `plan` itself."""
    tries = 0
    is_smaller = True
    while is_smaller:
        is_smaller = False
        for candidate in _smaller(plan):
            if tries >= tries_max:
                return plan
            tries += 1
            if fails(candidate):
                plan, is_smaller = candidate, True
                break
    return plan


def _smaller(plan: RunPlan) -> Iterator[RunPlan]:
    """Yield smaller plans, the largest steps first."""
    injections, clients = plan.injections, plan.clients
    size = len(injections)
    while size:
        for at in range(0, len(injections), size):
            yield replace(plan, injections=injections[:at] + injections[at + size :])
        size //= 2
    for at in range(len(clients) if len(clients) > 1 else 0):
        yield replace(plan, clients=clients[:at] + clients[at + 1 :])
    if plan.active_ms // 2 >= SHORTEST_MS:
        yield replace(plan, active_ms=plan.active_ms // 2)
    if plan.is_any_order:
        yield replace(plan, is_any_order=False)
