"""One circle over the workers: connectors in order, then, going on in it, their tasks.

Source: `EagerAssignor` in Kafka Connect. Everything is dealt out anew in each rebalance.
"""

from collections.abc import Iterable
from itertools import cycle

from brokertwin.clients.connect.work import TaskId, connectors_first


def assign_eagerly(configured: Iterable[TaskId], members: Iterable[str]) -> dict[str, list[TaskId]]:
    """What each of the members gets; there is at least one."""
    given: dict[str, list[TaskId]] = {member: [] for member in sorted(members)}
    for item, member in zip(connectors_first(sorted(configured)), cycle(given), strict=False):
        given[member].append(item)
    return given
