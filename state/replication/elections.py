"""Leader elections, and other changes of a partition by the controller.

Source: seed 004; `PartitionChangeBuilder`, `PartitionReassignmentReplicas` and
`ReplicationControlManager` in Kafka. A target state (`TargetState`) goes through these steps; the
difference to the current state is the record:

    a reassignment whose replicas are in sync is completed (`reassignments.py`)
    replicas become eligible, or cease to be (`eligible.py`)
    a leader is elected
    a partition that loses a replica starts a leader epoch, even if its leader stays

The leader is the first of these that is alive and has its log directory (`directories.py`):

    the first replica, in a preferred election, if in sync
    the current leader, if in sync
    the first in-sync replica of the assignment; without in-sync replicas, the first eligible one,
      which is then alone in sync
    the last known leader, without in-sync and eligible replicas (unclean)
    the first replica, if the election may be unclean: alone in sync, missing records are lost

Otherwise there is no leader. A change of the leader starts a leader epoch.

A broker that has gone leaves every in-sync set; without ELR it stays as the last member.

If the first replica could lead but does not, a preferred election follows after
`leader.imbalance.check.interval.seconds`, unless `auto.leader.rebalance.enable` is off. Kafka
checks at that interval, so its election comes within this time.
"""

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

import msgspec

from brokertwin.protocol.bodies import Uuid
from brokertwin.state.cluster.image import Partition, Topic
from brokertwin.state.cluster.machines import Controller
from brokertwin.state.core import pending
from brokertwin.state.core.decision import Decision
from brokertwin.state.core.records import PartitionAltered
from brokertwin.state.replication import eligible, reassignments
from brokertwin.state.replication.isr_controller import RECOVERING

NO_LEADER = -1

LEADERS_TIMER = "leaders"
"""Kind of the controller's timer for preferred elections."""


class Election(Enum):
    """Which replicas may be elected: the preferred one first, in-sync ones, or any live one."""

    PREFERRED = "preferred"
    ONLINE = "online"
    UNCLEAN = "unclean"


class ElectionRules(NamedTuple):
    """Rules for a change of a partition; `min_in_sync` is None without ELR."""

    is_active: Callable[[int], bool]
    election: Election
    min_in_sync: int | None
    is_offline: Callable[[Partition, int], bool]

    def may_lead(self, partition: Partition, broker: int) -> bool:
        """True if a broker is alive and its log directory has not failed."""
        return self.is_active(broker) and not self.is_offline(partition, broker)

    @classmethod
    def of(
        cls,
        controller: Controller,
        topic: Topic,
        election: Election | None = None,
        is_active: Callable[[int], bool] | None = None,
    ) -> "ElectionRules":
        """Rules of a topic; by default the topic decides if elections may be unclean."""
        if election is None:
            may_be_unclean = controller.may_elect_unclean(topic)
            election = Election.UNCLEAN if may_be_unclean else Election.ONLINE
        min_in_sync = controller.min_in_sync_for_eligible(topic)
        is_active = is_active or controller.is_active
        return cls(is_active, election, min_in_sync, controller.is_replica_offline)


class TargetState(msgspec.Struct):
    """State of a partition after a change; `ended` is a broker that ended uncleanly."""

    isr: list[int]
    replicas: list[int]
    adding: list[int]
    removing: list[int]
    leader_recovery_state: int
    elr: list[int]
    ended: int | None = None

    @classmethod
    def of(cls, partition: Partition) -> "TargetState":
        return cls(
            list(partition.isr),
            list(partition.replicas),
            list(partition.adding_replicas),
            list(partition.removing_replicas),
            partition.leader_recovery_state,
            list(partition.eligible_leader_replicas),
        )


def elect(partition: Partition, target: TargetState, rules: ElectionRules) -> tuple[int, bool]:
    """The elected leader, -1 for none, and whether the election is unclean."""
    first = target.replicas[:1] if rules.election is Election.PREFERRED else []
    may_lead = target.isr or target.elr
    for broker in (*first, partition.leader, *target.replicas):
        if broker in may_lead and rules.may_lead(partition, broker):
            return broker, False
    if rules.min_in_sync is not None:
        last = eligible.last_known_leader(target.isr, target.elr, partition.last_known_elr)
        if last is not None and rules.may_lead(partition, last):
            return last, True
    candidates = target.replicas if rules.election is Election.UNCLEAN else []
    leader = next((each for each in candidates if rules.may_lead(partition, each)), NO_LEADER)
    return leader, leader != NO_LEADER


def preferred_would_lead(partition: Partition, target: TargetState, rules: ElectionRules) -> bool:
    """True if an election would choose a future replica, which was eligible when it left.

    Kafka 4.3.1 looks up the replica's log directory and fails.
    """
    if rules.min_in_sync is None or target.isr:
        return False
    coming = set(target.replicas) & set(target.elr) - set(partition.replicas)
    return any(map(rules.is_active, coming))


def change(
    place: tuple[Uuid, int], partition: Partition, target: TargetState, rules: ElectionRules
) -> PartitionAltered | None:
    """The record for the way to the target, or None if nothing changes."""
    _complete(target)
    _make_eligible(partition, target, rules)
    record = PartitionAltered(*place)
    leader, is_unclean = elect(partition, target, rules)
    if leader != partition.leader:
        record.leader = leader
        if is_unclean:
            target.isr, target.elr = [leader], []
            target.leader_recovery_state = RECOVERING
        elif leader in target.elr:
            target.isr = [leader]
            target.elr.remove(leader)
    elif not set(partition.replicas) <= set(target.replicas):
        record.leader = leader
    may_be_empty = rules.min_in_sync is not None
    if (target.isr or may_be_empty) and target.isr != partition.isr:
        record.isr = target.isr
    if target.elr != partition.eligible_leader_replicas:
        record.eligible_leader_replicas = target.elr
    if rules.min_in_sync is not None:
        _remember_leader(partition, record)
    if target.replicas != partition.replicas:
        record.replicas = target.replicas
    if target.adding != partition.adding_replicas:
        record.adding_replicas = target.adding
    if target.removing != partition.removing_replicas:
        record.removing_replicas = target.removing
    if target.leader_recovery_state != partition.leader_recovery_state:
        record.leader_recovery_state = target.leader_recovery_state
    return record if record != PartitionAltered(*place) else None


def _complete(target: TargetState) -> None:
    completed = reassignments.completed(target.replicas, target.adding, target.removing, target.isr)
    if completed is not None:
        target.replicas, target.isr = completed
        target.adding, target.removing = [], []


def _make_eligible(partition: Partition, target: TargetState, rules: ElectionRules) -> None:
    if rules.min_in_sync is None:
        target.elr = []
        return
    former, in_sync = partition.isr, target.isr
    target.elr = eligible.eligible_after(
        target.elr, former, in_sync, rules.min_in_sync, target.ended
    )


def _remember_leader(partition: Partition, record: PartitionAltered) -> None:
    """Store the last leader when the partition loses it; clear it when there is one again."""
    was_led, known = partition.leader != NO_LEADER, partition.last_known_elr
    if record.leader == NO_LEADER and was_led and not known:
        record.last_known_elr = [partition.leader]
    elif record.leader not in (None, NO_LEADER) and known:
        record.last_known_elr = []


def broker_change(
    place: tuple[Uuid, int],
    partition: Partition,
    gone: int | None,
    rules: ElectionRules,
    ended: int | None = None,
) -> PartitionAltered | None:
    """Change after a broker has gone, ended uncleanly or started; None if there is none."""
    target = TargetState.of(partition)
    target.isr = [broker for broker in partition.isr if broker not in (gone, ended)]
    target.ended = ended
    return change(place, partition, target, rules)


def broker_changes(
    controller: Controller,
    gone: int | None = None,
    started: int | None = None,
    ended: int | None = None,
) -> list[PartitionAltered]:
    """Changes of all partitions after a broker has gone, ended uncleanly or started.

    `gone` and `ended` leave the in-sync sets, `ended` is also no longer eligible. `started` causes
    elections in partitions without a leader.
    """

    def is_active(broker: int) -> bool:
        return broker not in (gone, ended) and (broker == started or controller.is_active(broker))

    def is_touched(partition: Partition) -> bool:
        if gone is None and ended is None:
            return partition.leader == NO_LEADER
        return bool({gone, ended} & {*partition.isr}) or ended in partition.eligible_leader_replicas

    changes = []
    for topic in controller.all_topics():
        rules = ElectionRules.of(controller, topic, is_active=is_active)
        for number, partition in enumerate(topic.partitions):
            if is_touched(partition):
                place = (topic.topic_id, number)
                record = broker_change(place, partition, gone, rules, ended)
                changes += [record] if record is not None else []
    return changes


def lost_replica_changes(
    controller: Controller, broker: int, is_lost: Callable[[tuple[Uuid, int], Partition], bool]
) -> list[PartitionAltered]:
    """Changes after a broker has lost replicas, which leave the in-sync sets."""

    def is_active(each: int) -> bool:
        return each != broker and controller.is_active(each)

    changes = []
    for topic in controller.all_topics():
        rules = ElectionRules.of(controller, topic, is_active=is_active)
        for number, partition in enumerate(topic.partitions):
            place = (topic.topic_id, number)
            if broker in partition.isr and is_lost(place, partition):
                record = broker_change(place, partition, broker, rules)
                changes += [record] if record is not None else []
    return changes


def watch_leaders(controller: Controller, record: PartitionAltered) -> None:
    """Start the timer of the preferred election, if a change gives a reason."""
    if not controller.settings.auto_leader_rebalance_enable:
        return
    topic = controller.topic_by_id(record.topic_id)
    assert topic is not None, record
    name = f"{LEADERS_TIMER}/{controller.prefix}/"
    is_awaited = pending.timer_of(controller.tables.pending, name) is not None
    if not is_awaited and _may_be_preferred(controller, topic.partitions[record.partition]):
        interval_ms = controller.settings.leader_imbalance_check_interval_seconds * 1000
        pending.set_timer(controller.tables.pending, name, controller.now + interval_ms)


def fire(controller: Controller, _name: str) -> Decision:
    """Timer: preferred election in each partition whose first replica may lead.

    Source: `ReplicationControlManager.maybeBalancePartitionLeaders` in Kafka.
    """
    changes = [
        change(
            (topic.topic_id, number),
            partition,
            TargetState.of(partition),
            ElectionRules.of(controller, topic, Election.PREFERRED),
        )
        for topic in controller.all_topics()
        for number, partition in enumerate(topic.partitions)
        if _may_be_preferred(controller, partition)
    ]
    return Decision(records=[record for record in changes if record is not None])


def _may_be_preferred(controller: Controller, partition: Partition) -> bool:
    first = partition.replicas[0]
    return partition.leader != first in partition.isr and controller.is_active(first)
