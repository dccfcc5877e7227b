"""Eager assignment: connectors in order, then tasks, to workers in turn.

Source: `EagerAssignor` in Kafka Connect. Each rebalance reassigns everything.
"""

from collections.abc import Iterable
from itertools import cycle

from brokertwin.clients.connect.work import ConnectTaskId, connectors_first


def assign_eagerly(
    configured: Iterable[ConnectTaskId], members: Iterable[str]
) -> dict[str, list[ConnectTaskId]]:
    """Return the assignment of each member; there is at least one."""
    given: dict[str, list[ConnectTaskId]] = {member: [] for member in sorted(members)}
    for item, member in zip(connectors_first(sorted(configured)), cycle(given), strict=False):
        given[member].append(item)
    return given
