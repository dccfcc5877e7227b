"""Who leads a partition, and what else the controller changes of it.

Source: seed 004; `PartitionChangeBuilder`, `PartitionReassignmentReplicas` and
`ReplicationControlManager` in Kafka. What a partition is to become (`Target`) goes through these
steps; what then differs from what it is makes a record:

    a reassignment that has come to its end is completed (`reassignments.py`)
    replicas become eligible, or are no more (`eligible.py`)
    a leader is elected
    a partition that loses a replica begins a leader epoch, even if its leader stays

Nobody is elected whose replica lies in a log directory that has failed (`directories.py`); here it
counts as one that is not alive.

The leader stays while it is alive and in sync. Else the first replica *of the assignment* that is
alive and in sync leads; where nobody is in sync the first that is alive and eligible, which is then
alone in sync; then the last known leader. Where there is none and the election may be unclean, the
first one that is alive: alone in sync, and what it does not have is lost. Else nobody leads. A
preferred election tries the first replica before the leader. A new leader, or none, begins a leader
epoch.

A broker that is gone leaves every in-sync set; without eligible leader replicas it stays where it
is the last member.

Where another replica leads than the first one, although that may, there is a preferred election
`leader.imbalance.check.interval.seconds` later, unless `auto.leader.rebalance.enable` is off. Kafka
looks at its partitions that often, so there it comes within this time.
"""

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

import msgspec

from brokertwin.state.cluster.image import Partition, Topic, machine_prefix
from brokertwin.state.cluster.machines import Controller
from brokertwin.state.core import pending
from brokertwin.state.core.decision import Decision
from brokertwin.state.core.records import PartitionAltered
from brokertwin.state.core.schema import Uuid
from brokertwin.state.replication import eligible, reassignments
from brokertwin.state.replication.isr_controller import RECOVERING

NO_LEADER = -1

LEADERS_TIMER = "leaders"
"""The kind of the controller's timer by which the first replicas lead again."""


class Election(Enum):
    """Who is tried: first the preferred replica, who is in sync, in the end anybody alive."""

    PREFERRED = "preferred"
    ONLINE = "online"
    UNCLEAN = "unclean"


class Rules(NamedTuple):
    """Under which rules a partition changes.

    `min_in_sync` is min.insync.replicas, None where the cluster has no eligible leader replicas.
    """

    is_active: Callable[[int], bool]
    election: Election
    min_in_sync: int | None
    is_offline: Callable[[Partition, int], bool]

    def may_lead(self, partition: Partition, broker: int) -> bool:
        """Whether a broker may lead a partition of which it has what is needed."""
        return self.is_active(broker) and not self.is_offline(partition, broker)

    @classmethod
    def of(
        cls,
        controller: Controller,
        topic: Topic,
        election: Election | None = None,
        is_active: Callable[[int], bool] | None = None,
    ) -> "Rules":
        """Those of a topic; unless it is said, an election may be unclean where it allows that."""
        if election is None:
            may_be_unclean = controller.may_elect_unclean(topic)
            election = Election.UNCLEAN if may_be_unclean else Election.ONLINE
        min_in_sync = controller.min_in_sync_for_eligible(topic)
        is_active = is_active or controller.is_active
        return cls(is_active, election, min_in_sync, controller.is_replica_offline)


class Target(msgspec.Struct):
    """What a partition is to become; `ended` is a broker that has ended uncleanly."""

    isr: list[int]
    replicas: list[int]
    adding: list[int]
    removing: list[int]
    leader_recovery_state: int
    elr: list[int]
    ended: int | None = None

    @classmethod
    def of(cls, partition: Partition) -> "Target":
        """What it is."""
        return cls(
            list(partition.isr),
            list(partition.replicas),
            list(partition.adding_replicas),
            list(partition.removing_replicas),
            partition.leader_recovery_state,
            list(partition.eligible_leader_replicas),
        )


def elect(partition: Partition, target: Target, rules: Rules) -> tuple[int, bool]:
    """The leader that the partition should have, -1 for none; whether it has to be unclean."""
    first = target.replicas[:1] if rules.election is Election.PREFERRED else []
    may_lead = target.isr or target.elr
    for broker in (*first, partition.leader, *target.replicas):
        if broker in may_lead and rules.may_lead(partition, broker):
            return broker, False
    if rules.min_in_sync is not None:
        last = eligible.last_known_leader(target.isr, target.elr, partition.last_known_elr)
        if last is not None and rules.may_lead(partition, last):
            return last, True
    anybody = target.replicas if rules.election is Election.UNCLEAN else []
    found = next((each for each in anybody if rules.may_lead(partition, each)), NO_LEADER)
    return found, found != NO_LEADER


def would_lead_before_it_comes(partition: Partition, target: Target, rules: Rules) -> bool:
    """Whether an election finds a replica that is none yet: it was eligible when it went.

    Kafka 4.3.1 looks for the replica's log directory, and fails.
    """
    if rules.min_in_sync is None or target.isr:
        return False
    coming = set(target.replicas) & set(target.elr) - set(partition.replicas)
    return any(map(rules.is_active, coming))


def change(
    place: tuple[Uuid, int], partition: Partition, target: Target, rules: Rules
) -> PartitionAltered | None:
    """What changes on the way to the target; None where nothing does."""
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


def _complete(target: Target) -> None:
    """Ends the reassignment that is under way, if it has come to its end."""
    found = reassignments.completed(target.replicas, target.adding, target.removing, target.isr)
    if found is not None:
        target.replicas, target.isr = found
        target.adding, target.removing = [], []


def _make_eligible(partition: Partition, target: Target, rules: Rules) -> None:
    if rules.min_in_sync is None:
        target.elr = []
        return
    former, in_sync = partition.isr, target.isr
    target.elr = eligible.eligible(target.elr, former, in_sync, rules.min_in_sync, target.ended)


def _remember_leader(partition: Partition, record: PartitionAltered) -> None:
    """The last known leader is noted when nobody leads any more, until somebody leads again."""
    had_leader, known = partition.leader != NO_LEADER, partition.last_known_elr
    if record.leader == NO_LEADER and had_leader and not known:
        record.last_known_elr = [partition.leader]
    elif record.leader not in (None, NO_LEADER) and known:
        record.last_known_elr = []


def without(
    place: tuple[Uuid, int],
    partition: Partition,
    gone: int | None,
    rules: Rules,
    ended: int | None = None,
) -> PartitionAltered | None:
    """What changes with a broker that has gone, has ended uncleanly, or come; None for nothing."""
    target = Target.of(partition)
    target.isr = [broker for broker in partition.isr if broker not in (gone, ended)]
    target.ended = ended
    return change(place, partition, target, rules)


def everywhere(
    controller: Controller,
    gone: int | None = None,
    come: int | None = None,
    ended: int | None = None,
) -> list[PartitionAltered]:
    """What changes of all partitions with a broker that has gone, has ended uncleanly, or come.

    Who has gone, or ended, leaves in-sync sets; who has ended is not eligible any more. With a
    broker that has come a leader is sought where there is none.
    """

    def is_active(broker: int) -> bool:
        return broker not in (gone, ended) and (broker == come or controller.is_active(broker))

    def is_touched(partition: Partition) -> bool:
        if gone is None and ended is None:
            return partition.leader == NO_LEADER
        return bool({gone, ended} & {*partition.isr}) or ended in partition.eligible_leader_replicas

    found = []
    for topic in controller.all_topics():
        rules = Rules.of(controller, topic, is_active=is_active)
        for number, partition in enumerate(topic.partitions):
            if is_touched(partition):
                place = (topic.topic_id, number)
                record = without(place, partition, gone, rules, ended)
                found += [record] if record is not None else []
    return found


def without_replicas(
    controller: Controller, broker: int, is_lost: Callable[[tuple[Uuid, int], Partition], bool]
) -> list[PartitionAltered]:
    """What changes of partitions whose replica on a broker is lost: it leaves the in-sync set."""

    def is_active(each: int) -> bool:
        return each != broker and controller.is_active(each)

    found = []
    for topic in controller.all_topics():
        rules = Rules.of(controller, topic, is_active=is_active)
        for number, partition in enumerate(topic.partitions):
            place = (topic.topic_id, number)
            if broker in partition.isr and is_lost(place, partition):
                record = without(place, partition, broker, rules)
                found += [record] if record is not None else []
    return found


def watch_leaders(controller: Controller, record: PartitionAltered) -> None:
    """Starts the timer of a preferred election, if it does not run and there is reason for one."""
    if not controller.settings.auto_leader_rebalance_enable:
        return
    topic = controller.topic_by_id(record.topic_id)
    assert topic is not None, record
    name = f"{LEADERS_TIMER}/{machine_prefix(controller.id)}/"
    is_awaited = pending.timer_of(controller.tables.pending, name) is not None
    if not is_awaited and _may_be_preferred(controller, topic.partitions[record.partition]):
        interval_ms = controller.settings.leader_imbalance_check_interval_seconds * 1000
        pending.set_timer(controller.tables.pending, name, controller.now + interval_ms)


def fire(controller: Controller, _name: str) -> Decision:
    """The timer of the preferred election: of each partition that its first replica may lead.

    Source: `ReplicationControlManager.maybeBalancePartitionLeaders` in Kafka.
    """
    changes = [
        change(
            (topic.topic_id, number),
            partition,
            Target.of(partition),
            Rules.of(controller, topic, Election.PREFERRED),
        )
        for topic in controller.all_topics()
        for number, partition in enumerate(topic.partitions)
        if _may_be_preferred(controller, partition)
    ]
    return Decision(records=[record for record in changes if record is not None])


def _may_be_preferred(controller: Controller, partition: Partition) -> bool:
    first = partition.replicas[0]
    return partition.leader != first in partition.isr and controller.is_active(first)
