"""Partition reassignments: start, completion and cancellation.

Source: KIP-455, KIP-860; `PartitionReassignmentReplicas`, `PartitionReassignmentRevert` in Kafka;
responses of Kafka 4.3.1.

    start     added replicas join the assignment at once, removed ones stay at its end; both are
              stored as adding and removing
    end       all added replicas, and at least one remaining one, are in sync; if more replicas are
              removed than added, all remaining ones. Removed replicas leave the assignment and the
              in-sync set
    cancel    added replicas leave again, removed ones stay

A reassignment that only reorders or removes replicas ends at once. A new reassignment replaces an
ongoing one.
"""

from collections.abc import Sequence
from typing import NamedTuple

from brokertwin.state.cluster.image import Partition


class TargetAssignment(NamedTuple):
    """Assignment of a partition during a reassignment."""

    replicas: list[int]
    adding: list[int]
    removing: list[int]


class RevertedAssignment(NamedTuple):
    """State after a cancellation; unclean if no in-sync replica is left."""

    replicas: list[int]
    isr: list[int]
    is_unclean: bool


def is_under_way(partition: Partition) -> bool:
    return bool(partition.adding_replicas or partition.removing_replicas)


def begun(current: Sequence[int], target: Sequence[int]) -> TargetAssignment:
    removing = sorted(set(current) - set(target))
    return TargetAssignment([*target, *removing], sorted(set(target) - set(current)), removing)


def completed(
    replicas: Sequence[int], adding: Sequence[int], removing: Sequence[int], isr: Sequence[int]
) -> tuple[list[int], list[int]] | None:
    """Replicas and in-sync set after completion, or None if it is not complete."""
    staying = [broker for broker in replicas if broker not in removing]
    in_sync = [broker for broker in isr if broker not in removing]
    needed = staying if len(adding) < len(removing) else adding
    is_any = bool(adding or removing)
    if not is_any or not staying or not in_sync or not set(needed) <= set(in_sync):
        return None
    return staying, in_sync


def reverted(partition: Partition) -> RevertedAssignment:
    adding = partition.adding_replicas
    replicas = [broker for broker in partition.replicas if broker not in adding]
    isr = [broker for broker in partition.isr if broker not in adding]
    return RevertedAssignment(replicas, isr or replicas[:1], not isr)


def size(partition: Partition) -> int:
    """Replication factor; that of the target during a reassignment."""
    return len(set(partition.replicas) - set(partition.removing_replicas))
