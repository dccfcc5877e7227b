"""Reassignments: how a partition comes to other replicas, and what is left when it stops halfway.

Source: KIP-455, KIP-860; `PartitionReassignmentReplicas`, `PartitionReassignmentRevert` in Kafka,
answers of 4.3.1.

    begin     the replicas that come join the assignment at once, those that go stay at its end;
              both are noted as adding and removing
    end       when all that come, and at least one that stays, are in sync, and all that stay where
              there will be fewer: those that go leave the assignment and the in-sync set
    cancel    those that have come leave again, those that were to go stay

A reassignment that only changes the order, or takes replicas away, ends as it begins. Another one
takes the place of one that is under way.
"""

from collections.abc import Sequence
from typing import NamedTuple

from brokertwin.state.cluster.image import Partition


class TargetAssignment(NamedTuple):
    """The assignment of a partition, with what comes and what goes."""

    replicas: list[int]
    adding: list[int]
    removing: list[int]


class RevertedAssignment(NamedTuple):
    """What a cancelled reassignment leaves; unclean: its in-sync replica may not have all."""

    replicas: list[int]
    isr: list[int]
    is_unclean: bool


def is_under_way(partition: Partition) -> bool:
    """Whether the partition is being reassigned."""
    return bool(partition.adding_replicas or partition.removing_replicas)


def begun(current: Sequence[int], wanted: Sequence[int]) -> TargetAssignment:
    """A reassignment from the current replicas to others."""
    removing = sorted(set(current) - set(wanted))
    return TargetAssignment([*wanted, *removing], sorted(set(wanted) - set(current)), removing)


def completed(
    replicas: Sequence[int], adding: Sequence[int], removing: Sequence[int], isr: Sequence[int]
) -> tuple[list[int], list[int]] | None:
    """Replicas and in-sync set at the end of a reassignment; None where none is to be ended."""
    staying = [broker for broker in replicas if broker not in removing]
    in_sync = [broker for broker in isr if broker not in removing]
    needed = staying if len(adding) < len(removing) else adding
    is_any = bool(adding or removing)
    if not is_any or not staying or not in_sync or not set(needed) <= set(in_sync):
        return None
    return staying, in_sync


def reverted(partition: Partition) -> RevertedAssignment:
    """What the partition goes back to."""
    adding = partition.adding_replicas
    replicas = [broker for broker in partition.replicas if broker not in adding]
    isr = [broker for broker in partition.isr if broker not in adding]
    return RevertedAssignment(replicas, isr or replicas[:1], not isr)


def size(partition: Partition) -> int:
    """The replication factor: at the end of the reassignment where one is under way."""
    return len(set(partition.replicas) - set(partition.removing_replicas))
