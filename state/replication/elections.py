"""Who leads a partition, and what else the controller changes of it.

Source: seed 004; `PartitionChangeBuilder`, `PartitionReassignmentReplicas` and
`ReplicationControlManager` in Kafka. What a partition is to become (`Target`) goes through these
steps; what then differs from what it is makes a record:

    a reassignment that has come to its end is completed (`reassignments.py`)
    a leader is elected
    a partition that loses a replica begins a leader epoch, even if its leader stays

The leader stays while it is alive and in sync. Else the first replica *of the assignment* that is
alive and in sync leads. Where there is none and the election may be unclean, the first one that is
alive: alone in sync, and what it does not have is lost. Else nobody leads. A preferred election
tries the first replica before the leader. A new leader, or none, begins a leader epoch.

A broker that is gone leaves every in-sync set but those of which it is the last member.

Where another replica leads than the first one, although that may, there is a preferred election
`leader.imbalance.check.interval.seconds` later, unless `auto.leader.rebalance.enable` is off. Kafka
looks at its partitions that often, so there it comes within this time.

Not done: eligible leader replicas (KIP-966).
"""

from collections.abc import Callable
from enum import Enum

import msgspec

from brokerstream.state.cluster.image import Partition, machine_prefix
from brokerstream.state.cluster.machines import Controller
from brokerstream.state.core import waiting
from brokerstream.state.core.decision import Decision
from brokerstream.state.core.records import PartitionAltered
from brokerstream.state.core.schema import Uuid
from brokerstream.state.replication import reassignments
from brokerstream.state.replication.isr_controller import RECOVERING

NO_LEADER = -1

LEADERS_TIMER = "leaders"
"""The kind of the controller's timer by which the first replicas lead again."""


class Election(Enum):
    """Who is tried: first the preferred replica, who is in sync, in the end anybody alive."""

    PREFERRED = "preferred"
    ONLINE = "online"
    UNCLEAN = "unclean"


class Target(msgspec.Struct):
    """What a partition is to become."""

    isr: list[int]
    replicas: list[int]
    adding: list[int]
    removing: list[int]
    leader_recovery_state: int

    @classmethod
    def of(cls, partition: Partition) -> "Target":
        """What it is."""
        return cls(
            list(partition.isr),
            list(partition.replicas),
            list(partition.adding_replicas),
            list(partition.removing_replicas),
            partition.leader_recovery_state,
        )


def elect(
    leader: int, target: Target, is_active: Callable[[int], bool], election: Election
) -> tuple[int, bool]:
    """The leader that the partition should have, -1 for none; whether it has to be unclean."""
    first = target.replicas[:1] if election is Election.PREFERRED else []
    for broker in (*first, leader, *target.replicas):
        if broker in target.isr and is_active(broker):
            return broker, False
    anybody = target.replicas if election is Election.UNCLEAN else []
    found = next((broker for broker in anybody if is_active(broker)), NO_LEADER)
    return found, found != NO_LEADER


def change(
    place: tuple[Uuid, int],
    partition: Partition,
    target: Target,
    is_active: Callable[[int], bool],
    election: Election,
) -> PartitionAltered | None:
    """What changes on the way to the target; None where nothing does."""
    replicas_and_isr = reassignments.completed(
        target.replicas, target.adding, target.removing, target.isr
    )
    if replicas_and_isr is not None:
        replicas, isr = replicas_and_isr
        target = Target(isr, replicas, [], [], target.leader_recovery_state)
    record = PartitionAltered(*place)
    leader, is_unclean = elect(partition.leader, target, is_active, election)
    if leader != partition.leader:
        record.leader = leader
        if is_unclean:
            record.isr, record.leader_recovery_state = [leader], RECOVERING
    elif not set(partition.replicas) <= set(target.replicas):
        record.leader = leader
    if record.isr is None and target.isr and target.isr != partition.isr:
        record.isr = target.isr
    if target.replicas != partition.replicas:
        record.replicas = target.replicas
    if target.adding != partition.adding_replicas:
        record.adding_replicas = target.adding
    if target.removing != partition.removing_replicas:
        record.removing_replicas = target.removing
    is_other_state = target.leader_recovery_state != partition.leader_recovery_state
    if record.leader_recovery_state is None and is_other_state:
        record.leader_recovery_state = target.leader_recovery_state
    return record if record != PartitionAltered(*place) else None


def without(
    place: tuple[Uuid, int],
    partition: Partition,
    gone: int | None,
    is_active: Callable[[int], bool],
    may_be_unclean: bool,
) -> PartitionAltered | None:
    """What changes with brokers that have gone or come; None where nothing does."""
    target = Target.of(partition)
    target.isr = [broker for broker in partition.isr if broker != gone] or target.isr
    election = Election.UNCLEAN if may_be_unclean else Election.ONLINE
    return change(place, partition, target, is_active, election)


def everywhere(
    controller: Controller, gone: int | None = None, come: int | None = None
) -> list[PartitionAltered]:
    """What changes of all partitions with a broker that has gone, or has come."""

    def is_active(broker: int) -> bool:
        return broker != gone and (broker == come or controller.is_active(broker))

    found = []
    for topic in controller.all_topics():
        may_be_unclean = controller.may_elect_unclean(topic)
        for number, partition in enumerate(topic.partitions):
            place = (topic.topic_id, number)
            record = without(place, partition, gone, is_active, may_be_unclean)
            if record is not None:
                found.append(record)
    return found


def watch_leaders(controller: Controller, record: PartitionAltered) -> None:
    """Starts the timer of a preferred election, if it does not run and there is reason for one."""
    if not controller.settings.auto_leader_rebalance_enable:
        return
    topic = controller.topic_by_id(record.topic_id)
    assert topic is not None, record
    name = f"{LEADERS_TIMER}/{machine_prefix(controller.id)}/"
    is_awaited = waiting.timer_of(controller.tables.waiting, name) is not None
    if not is_awaited and _may_be_preferred(controller, topic.partitions[record.partition]):
        interval_ms = controller.settings.leader_imbalance_check_interval_seconds * 1000
        waiting.set_timer(controller.tables.waiting, name, controller.now + interval_ms)


def fire(controller: Controller, _name: str) -> Decision:
    """The timer of the preferred election: of each partition that its first replica may lead.

    Source: `ReplicationControlManager.maybeBalancePartitionLeaders` in Kafka.
    """
    changes = [
        change(
            (topic.topic_id, number),
            partition,
            Target.of(partition),
            controller.is_active,
            Election.PREFERRED,
        )
        for topic in controller.all_topics()
        for number, partition in enumerate(topic.partitions)
        if _may_be_preferred(controller, partition)
    ]
    return Decision(records=[record for record in changes if record is not None])


def _may_be_preferred(controller: Controller, partition: Partition) -> bool:
    first = partition.replicas[0]
    return partition.leader != first in partition.isr and controller.is_active(first)
