"""Who leads a partition: elections when brokers go or come back.

Source: seed 004; `PartitionChangeBuilder`, `ReplicationControlManager.generateLeaderAndIsrUpdates`
in Kafka. The leader stays while it is alive and in sync. Else the first replica *of the assignment*
that is alive and in sync leads. Where there is none and the topic allows it
(unclean.leader.election.enable), the first one that is alive: alone in sync, and what it does not
have is lost. Else nobody leads, and the in-sync set stays as it was.

A broker that is gone leaves every in-sync set but those of which it is the last member. A new
leader, or none, begins a leader epoch.

Not done: eligible leader replicas (KIP-966), reassignments.
"""

from collections.abc import Callable

from brokerstream.state.cluster.image import Partition
from brokerstream.state.core.records import PartitionAltered
from brokerstream.state.core.schema import Uuid
from brokerstream.state.replication.isr_controller import RECOVERING

NO_LEADER = -1


def elect(
    partition: Partition,
    in_sync: list[int],
    is_alive: Callable[[int], bool],
    may_be_unclean: bool,
    prefers_first: bool = False,
) -> int:
    """The leader that the partition should have, -1 for none.

    `prefers_first` is for a preferred election: it tries the first replica before the leader.
    """
    first = partition.replicas[:1] if prefers_first else []
    for broker in (*first, partition.leader, *partition.replicas):
        if broker in in_sync and is_alive(broker):
            return broker
    unclean = partition.replicas if may_be_unclean else []
    return next((broker for broker in unclean if is_alive(broker)), NO_LEADER)


def change(
    place: tuple[Uuid, int],
    partition: Partition,
    gone: int | None,
    is_alive: Callable[[int], bool],
    may_be_unclean: bool,
) -> PartitionAltered | None:
    """What changes with brokers that have gone or come; None where nothing does."""
    in_sync = [broker for broker in partition.isr if broker != gone]
    leader = elect(partition, in_sync, is_alive, may_be_unclean)
    record = PartitionAltered(*place)
    if leader != partition.leader:
        record.leader = leader
        if leader != NO_LEADER and leader not in in_sync:
            record.isr, record.leader_recovery_state = [leader], RECOVERING
    if record.isr is None and in_sync and in_sync != partition.isr:
        record.isr = in_sync
    return record if record != PartitionAltered(*place) else None
