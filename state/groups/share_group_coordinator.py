"""The coordinator of a share group: heartbeats, leaves, and the state of its partitions.

Source: `GroupMetadataManager.shareGroupHeartbeat`, `shareGroupLeave`, `initializeShareGroupState`,
`ShareGroupAssignmentBuilder` in Kafka; KIP-932. A heartbeat does these things, in this order:

    1  what the member says of itself is noted; other topics, a change of the topics that the group
       subscribes to, or partitions that have become assignable, make a new group epoch
    2  a group epoch above that of the assignment asks for a new target assignment, at the earliest
       group.share.assignment.interval.ms after the one before
    3  the member has its target
    4  it has its session time-out from now on
    5  partitions without share state get theirs: their share coordinators are asked to begin it

A partition is assigned once its share coordinator has said that its state is there: so the first
member of a group gets its partitions with a later heartbeat than the first. What is not answered
is asked again with a heartbeat, after group.share.initialize.retry.interval.ms.
"""

from collections.abc import Iterable
from typing import NamedTuple, TypeVar

import msgspec

from brokertwin.state.cluster import group_configs
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.decision import Decision, Message
from brokertwin.state.core.errors import Error
from brokertwin.state.core.group_records import (
    ShareGroupMetadataWritten,
    ShareGroupStatePartitionMetadataWritten,
    ShareGroupTargetAssignmentMemberWritten,
    ShareGroupTargetAssignmentMetadataWritten,
    SharePartitionMetadata,
    StatePartitions,
)
from brokertwin.state.core.java_hashes import JavaMap, java_hash
from brokertwin.state.core.records import Record
from brokertwin.state.core.schema import Uuid
from brokertwin.state.core.wire.generated.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
)
from brokertwin.state.core.wire.generated.shared import ShareGroupStateResponse
from brokertwin.state.groups import groups, simple_assignor, target_assignment
from brokertwin.state.groups.assignments import GroupSpec, Subscriber, Target
from brokertwin.state.groups.consumer_group import JOIN_EPOCH, Refused
from brokertwin.state.groups.share_group import ShareGroup, ShareMember, with_change
from brokertwin.state.groups.share_group_records import (
    current_assignment,
    member_metadata,
    member_tombstones,
)
from brokertwin.state.groups.share_states import Places, initializations, partitions_of

Known = TypeVar("Known")


class Said(NamedTuple):
    """What a heartbeat says; None where it says nothing new."""

    member_id: str
    member_epoch: int
    rack_id: str | None
    topic_names: list[str] | None
    client_id: str
    client_host: str


class Beat(NamedTuple):
    """What a heartbeat came to: the member before and after it."""

    before: ShareMember
    after: ShareMember


def find(broker: Broker, group_id: str, member_epoch: int) -> "ShareGroupCoordinator | Refused":
    """The coordinator of a heartbeat's group: a new one for who joins."""
    group = groups.find(broker, group_id)
    if isinstance(group, ShareGroup):
        return ShareGroupCoordinator(broker, group)
    if group is not None:
        return Refused(Error.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")
    if member_epoch == JOIN_EPOCH:
        return ShareGroupCoordinator(broker, ShareGroup(group_id))
    what = "Group" if member_epoch < JOIN_EPOCH else "Share group"
    return Refused(Error.GROUP_ID_NOT_FOUND, f"{what} {group_id} not found.")


class ShareGroupCoordinator:
    """One share group at its coordinator, for the time of one request or timer.

    Attributes:
        group: the group as its records know it; it is not written to.
        records: what is to be written.
        messages: to share coordinators.
    """

    def __init__(self, broker: Broker, group: ShareGroup) -> None:
        self._broker = broker
        self.group = group
        self.records: list[Record] = []
        self.messages: list[Message] = []

    def heartbeat(self, said: Said) -> Beat | Refused:
        """A member joins, or is still there."""
        group = self.group
        max_size = group_configs.share_max_size(self._broker)
        if len(group.members) >= max_size and said.member_id not in group.members:
            limit = f"The share group has reached its maximum capacity of {max_size} members."
            return Refused(Error.GROUP_MAX_SIZE_REACHED, limit)
        before = group.members.get(said.member_id)
        if before is None and said.member_epoch != JOIN_EPOCH:
            return self._unknown(said.member_id)
        before = before or ShareMember(said.member_id)
        fenced = _fenced(before, said.member_epoch)
        if fenced is not None:
            return fenced
        after = _updated(before, said)
        if after != before:
            self.records.append(member_metadata(group.group_id, after))
        counts = with_change(group.subscribers, before, after)
        group_epoch = self._update_group_epoch(before, after, counts)
        epoch, target = self._update_target(after, group_epoch, counts)
        after = self._reconcile(after, epoch, target, is_bumped=group_epoch > group.group_epoch)
        self.expect(after.member_id)
        self._initialize(group_epoch, counts)
        return Beat(before, after)

    def leave(self, member_id: str) -> Refused | None:
        """A member leaves."""
        member = self.group.members.get(member_id)
        if member is None:
            return self._unknown(member_id)
        self.fence([member])
        return None

    def fence(self, members: list[ShareMember]) -> None:
        """Forgets members, each with a new group epoch; others get what they had."""
        counts, epoch = self.group.subscribers, self.group.group_epoch
        for member in members:
            counts, epoch = with_change(counts, member, None), epoch + 1
            metadata_hash = target_assignment.metadata_hash(self._broker, counts)
            self.records += member_tombstones(self.group.group_id, member.member_id)
            self.records.append(
                ShareGroupMetadataWritten(self.group.group_id, epoch, metadata_hash)
            )
            self._set_timer(member.member_id, None)

    def load(self) -> None:
        """Takes the group over: its members have their time-outs from now on."""
        for member_id in self.group.members:
            self.expect(member_id)

    def expect(self, member_id: str) -> None:
        """A member has its session time-out from now on."""
        within = group_configs.share_session_timeout_ms(self._broker, self.group.group_id)
        self._set_timer(member_id, self._broker.now + within)

    def _set_timer(self, member_id: str, deadline: int | None) -> None:
        tables, broker = self._broker.tables, self._broker.id
        timer = groups.session(member_id)
        groups.set_timer(tables, broker, self.group.group_id, timer, deadline)

    def _unknown(self, member_id: str) -> Refused:
        unknown = f"Member {member_id} is not a member of group {self.group.group_id}."
        return Refused(Error.UNKNOWN_MEMBER_ID, unknown)

    def _update_group_epoch(
        self, before: ShareMember, after: ShareMember, counts: dict[str, int]
    ) -> int:
        group = self.group
        is_bumped = before.subscribed_topic_names != after.subscribed_topic_names
        if group.assignment_epoch >= group.group_epoch:
            is_bumped = is_bumped or self._is_assignment_pending()
        metadata_hash = target_assignment.metadata_hash(self._broker, counts)
        if not is_bumped and metadata_hash == group.metadata_hash:
            return group.group_epoch
        epoch = group.group_epoch + 1
        self.records.append(ShareGroupMetadataWritten(group.group_id, epoch, metadata_hash))
        return epoch

    def _is_assignment_pending(self) -> bool:
        """Whether partitions of the group's topics have become assignable."""
        assigned: dict[Uuid, set[int]] = {}
        for target in self.group.target.values():
            for topic_id, partitions in target.items():
                assigned.setdefault(topic_id, set()).update(partitions)
        return bool(self.group.members) and any(
            ready.topic_name in self.group.subscribers
            and self._broker.topic_by_id(topic_id) is not None
            and assigned.get(topic_id) != set(ready.partitions)
            for topic_id, ready in self.group.initialized.items()
        )

    def _update_target(
        self, after: ShareMember, group_epoch: int, counts: dict[str, int]
    ) -> tuple[int, Target]:
        """The epoch of the target assignment, and what it gives the member."""
        group, now = self.group, self._broker.now
        interval = group_configs.share_assignment_interval_ms(self._broker, group.group_id)
        computed = group.assignment_timestamp
        is_early = bool(computed) and now - computed < interval
        if group.assignment_epoch >= group_epoch or is_early:
            return group.assignment_epoch, group.target.get(after.member_id, {})
        targets = self._targets(after, counts)
        for member_id, target in targets.items():
            former = group.target.get(member_id)
            if former is None or _sets(former) != _sets(target):
                written = ShareGroupTargetAssignmentMemberWritten(group.group_id, member_id, target)
                self.records.append(written)
        self.records.append(
            ShareGroupTargetAssignmentMetadataWritten(group.group_id, group_epoch, now)
        )
        return group_epoch, targets[after.member_id]

    def _targets(self, after: ShareMember, counts: dict[str, int]) -> dict[str, Target]:
        """What each member is to have, with the one that asks as it is now."""
        group = self.group
        members: JavaMap[str, ShareMember] = JavaMap(java_hash)
        for each in group.in_order():
            members[each.member_id] = each
        members[after.member_id] = after
        subscribers = {each: self._subscriber(members[each]) for each in members}
        topics = {topic_id for each in subscribers.values() for topic_id in each.topics}
        spec = GroupSpec(
            members=subscribers,
            partition_counts={each: self._partition_count(each) for each in topics},
            is_homogeneous=all(count == len(members) for count in counts.values()),
            is_assigned=set(),
            assignable={each: set(ready.partitions) for each, ready in group.initialized.items()},
        )
        computed = simple_assignor.assign(spec)
        return {each: computed.get(each, {}) for each in subscribers}

    def _subscriber(self, member: ShareMember) -> Subscriber:
        names = member.topics_in_order()
        topics = [topic for topic in map(self._broker.topic_by_name, names) if topic is not None]
        target = self.group.target.get(member.member_id, {})
        return Subscriber(None, [topic.topic_id for topic in topics], len(names), target)

    def _partition_count(self, topic_id: Uuid) -> int:
        topic = self._broker.topic_by_id(topic_id)
        assert topic is not None, topic_id
        return len(topic.partitions)

    def _reconcile(
        self, member: ShareMember, epoch: int, target: Target, *, is_bumped: bool
    ) -> ShareMember:
        """The member at its target, as far as it subscribes to the topics in it."""
        if member.member_epoch == epoch and not is_bumped:
            return member
        topics = set(self._subscriber(member).topics)
        assigned = {topic_id: parts for topic_id, parts in target.items() if topic_id in topics}
        stepped = msgspec.structs.replace(member, assigned=assigned)
        if member.member_epoch != epoch:
            stepped = msgspec.structs.replace(
                stepped, member_epoch=epoch, previous_member_epoch=member.member_epoch
            )
        if stepped != member:
            self.records.append(current_assignment(self.group.group_id, stepped))
        return stepped

    # The state of partitions

    def _initialize(self, group_epoch: int, topic_names: Iterable[str]) -> None:
        """Asks for the states of partitions that have none, unless that was asked for just now."""
        retry_ms = group_configs.share_initialize_retry_ms(self._broker)
        group, now = self.group, self._broker.now
        missing: Places = {}
        for topic in map(self._broker.topic_by_name, sorted(topic_names)):
            if topic is None:
                continue
            asked = group.initializing.get(topic.topic_id)
            known = set(partitions_of(group.initialized.get(topic.topic_id)))
            if asked is not None and now - asked.timestamp < retry_ms:
                known |= set(asked.partitions)
            if len(known) < len(topic.partitions):
                numbers = range(len(topic.partitions))
                missing[topic.topic_id] = [each for each in numbers if each not in known]
        if not missing:
            return
        self.begin_states(missing)
        self.messages += initializations(self._broker, group.group_id, group_epoch, missing)

    def initialized(self, places: Places) -> None:
        """The states of partitions are there: they can be assigned."""
        initializing, ready = dict(self.group.initializing), dict(self.group.initialized)
        for topic_id, partitions in places.items():
            every = {*partitions, *partitions_of(ready.get(topic_id))}
            ready[topic_id] = self._state_partitions(topic_id, every)
            asked = initializing.pop(topic_id, None)
            left = set(partitions_of(asked)) - set(partitions)
            if asked is not None and left:
                initializing[topic_id] = msgspec.structs.replace(asked, partitions=sorted(left))
        self.write_states(initializing, ready)

    def _state_partitions(
        self, topic_id: Uuid, partitions: set[int], asked_at: int = 0
    ) -> StatePartitions:
        topic = self._broker.topic_by_id(topic_id)
        name = topic.name if topic is not None else "<UNKNOWN>"
        return StatePartitions(name, sorted(partitions), asked_at)

    def begin_states(self, places: Places) -> None:
        """States are to be made, as of now; a topic that has one of them is to go no more."""
        initializing = dict(self.group.initializing)
        for topic_id, partitions in places.items():
            every = {*partitions, *partitions_of(initializing.get(topic_id))}
            initializing[topic_id] = self._state_partitions(topic_id, every, self._broker.now)
        deleting = {each: name for each, name in self.group.deleting.items() if each not in places}
        self.write_states(initializing, self.group.initialized, deleting)

    def write_states(
        self,
        initializing: dict[Uuid, StatePartitions],
        ready: dict[Uuid, StatePartitions],
        deleting: dict[Uuid, str] | None = None,
    ) -> None:
        """Topics that are gone are left out; those to delete stay as they are where None."""
        deleting = self.group.deleting if deleting is None else deleting
        metadata = SharePartitionMetadata(
            self._there(initializing), self._there(ready), self._there(deleting)
        )
        self.records.append(ShareGroupStatePartitionMetadataWritten(self.group.group_id, metadata))

    def _there(self, states: dict[Uuid, Known]) -> dict[Uuid, Known]:
        return {each: known for each, known in states.items() if self._broker.topic_by_id(each)}


def initialized(broker: Broker, message: Message, response: ShareGroupStateResponse) -> Decision:
    """A share coordinator has answered: its states are there, or not; the next one is asked."""
    body = message.body
    assert isinstance(body, InitializeShareGroupStateRequest), body
    group = groups.find(broker, body.group_id)
    if not isinstance(group, ShareGroup):
        return Decision()
    ready: Places = {}
    for topic in response.results:
        for result in topic.partitions:
            if result.error_code == Error.NONE:
                ready.setdefault(topic.topic_id, []).append(result.partition)
    coordinator = ShareGroupCoordinator(broker, group)
    if ready:
        coordinator.initialized(ready)
    missing = {
        topic_id: [each for each in asked.partitions if each not in ready.get(topic_id, [])]
        for topic_id, asked in group.initializing.items()
    }
    epoch, answered = group.group_epoch, message.receiver
    messages = initializations(broker, body.group_id, epoch, missing, after=answered)
    return Decision(records=coordinator.records, messages=messages)


def _sets(target: Target) -> dict[Uuid, set[int]]:
    return {topic_id: set(partitions) for topic_id, partitions in target.items()}


def _updated(member: ShareMember, said: Said) -> ShareMember:
    """The member with what it says of itself."""
    names = said.topic_names
    return msgspec.structs.replace(
        member,
        rack_id=member.rack_id if said.rack_id is None else said.rack_id,
        subscribed_topic_names=(
            member.subscribed_topic_names if names is None else sorted(set(names))
        ),
        client_id=said.client_id,
        client_host=said.client_host,
    )


def _fenced(member: ShareMember, epoch: int) -> Refused | None:
    """Why a member's epoch is not one that the group knows: the present one or the one before."""
    known, previous = member.member_epoch, member.previous_member_epoch
    if epoch in (JOIN_EPOCH, known) or (epoch < known and epoch == previous):
        return None
    size, rest = ("greater", "") if epoch > known else ("smaller", _previous(previous))
    return Refused(
        Error.FENCED_MEMBER_EPOCH,
        f"The share group member has a {size} member epoch ({epoch}) than the one known by the "
        f"group coordinator ({known}){rest}. The member must abandon all its partitions and "
        "rejoin.",
    )


def _previous(epoch: int) -> str:
    return f", and it does not match the previous member epoch ({epoch})"
