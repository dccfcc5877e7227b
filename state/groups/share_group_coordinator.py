"""The coordinator of a share group: heartbeats, leaves, share state.

Source: `GroupMetadataManager.shareGroupHeartbeat`, `shareGroupLeave`, `initializeShareGroupState`,
`ShareGroupAssignmentBuilder` in Kafka; KIP-932. A heartbeat has these steps:

    1  update the member's metadata; other subscribed topics, changed topics or newly assignable
       partitions bump the group epoch
    2  if the group epoch is above the assignment epoch, compute a new target assignment, at most
       once in group.share.assignment.interval.ms
    3  assign its target to the member
    4  restart the member's session timeout
    5  request initialization of missing share state from share coordinators

A partition is assignable once its share state is initialized. So the first member gets partitions
with a later heartbeat. Failed requests are repeated by a heartbeat after
group.share.initialize.retry.interval.ms.
"""

from collections.abc import Iterable
from typing import NamedTuple, TypeVar

import msgspec

from brokertwin.protocol.bodies import Uuid
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
)
from brokertwin.protocol.generated.share_group_heartbeat import ShareGroupHeartbeatRequest
from brokertwin.protocol.generated.share_group_rows import TopicPartitionsInfo
from brokertwin.protocol.generated.shared import ShareGroupStateResponse
from brokertwin.state.cluster import group_configs
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.api import Refused
from brokertwin.state.core.decision import Decision, Message, Request
from brokertwin.state.core.java_hashes import JavaMap, java_hash
from brokertwin.state.groups import groups, simple_assignor, target_assignment
from brokertwin.state.groups import share_group_records as rows
from brokertwin.state.groups.assignments import GroupSpec, Subscriber, Target, as_sets
from brokertwin.state.groups.consumer_group import JOIN_EPOCH, NO_TIME
from brokertwin.state.groups.modern_coordinator import (
    ModernGroupCoordinator,
    epoch_message,
    not_found,
    other_kind,
    size_error,
)
from brokertwin.state.groups.share_group import (
    SHARE,
    ShareGroup,
    ShareGroupMember,
    updated_subscribers,
)
from brokertwin.state.groups.share_states import (
    PartitionsByTopic,
    initialize_requests,
    partitions_of,
)

Value = TypeVar("Value")


class ShareHeartbeatResult(NamedTuple):
    before: ShareGroupMember
    after: ShareGroupMember


def find(broker: Broker, group_id: str, member_epoch: int) -> "ShareGroupCoordinator":
    """Return the coordinator for a heartbeat's group. Raises Refused.

    A join creates the group.
    """
    group = groups.find(broker, group_id)
    if isinstance(group, ShareGroup):
        return ShareGroupCoordinator(broker, group)
    if group is not None:
        raise other_kind(SHARE, group_id)
    if member_epoch == JOIN_EPOCH:
        return ShareGroupCoordinator(broker, ShareGroup(group_id))
    raise not_found(SHARE, group_id, member_epoch)


class ShareGroupCoordinator(ModernGroupCoordinator[ShareGroup]):
    """A share group at its coordinator, for one request or timer.

    `messages` are requests to share coordinators.
    """

    def __init__(self, broker: Broker, group: ShareGroup) -> None:
        super().__init__(broker, group)
        self.messages: list[Message] = []

    def heartbeat(self, request: Request) -> ShareHeartbeatResult:
        body: ShareGroupHeartbeatRequest = request.body
        group = self.group
        full = size_error(SHARE, group.members, group_configs.share_max_size(self._broker))
        if full is not None and body.member_id not in group.members:
            raise full
        before = group.members.get(body.member_id)
        if before is None and body.member_epoch != JOIN_EPOCH:
            raise self._unknown(body.member_id)
        before = before or ShareGroupMember(body.member_id)
        _check_epoch(before, body.member_epoch)
        after = _updated(before, request)
        if after != before:
            self.records.append(rows.member_metadata(group.group_id, after))
        counts = updated_subscribers(group.subscribers, before, after)
        group_epoch = self._update_group_epoch(before, after, counts)
        epoch, target = self._update_target(after, group_epoch, counts)
        after = self._reconcile(after, epoch, target, is_bumped=group_epoch > group.group_epoch)
        self._restart_session(after.member_id)
        self._initialize(group_epoch, counts)
        return ShareHeartbeatResult(before, after)

    def leave(self, member_id: str) -> None:
        member = self.group.members.get(member_id)
        if member is None:
            raise self._unknown(member_id)
        self.fence([member])

    def fence(self, members: list[ShareGroupMember]) -> None:
        """Remove members and bump the group epoch for each."""
        counts, epoch = self.group.subscribers, self.group.group_epoch
        for member in members:
            counts, epoch = updated_subscribers(counts, member, None), epoch + 1
            metadata_hash = target_assignment.metadata_hash(self._broker, counts)
            self.records += rows.member_tombstones(self.group.group_id, member.member_id)
            self.records.append(rows.group_epoch(self.group.group_id, epoch, metadata_hash))
            self._set_timer(groups.session(member.member_id), None)
        if members and self._broker.settings.is_4_4 and len(members) == len(self.group.members):
            self.records.append(rows.target_epoch(self.group.group_id, epoch, NO_TIME))

    def load(self) -> None:
        for member_id in self.group.members:
            self._restart_session(member_id)

    def _restart_session(self, member_id: str) -> None:
        within = group_configs.share_session_timeout_ms(self._broker, self.group.group_id)
        self._set_timer(groups.session(member_id), self._broker.now + within)

    def _update_group_epoch(
        self, before: ShareGroupMember, after: ShareGroupMember, counts: dict[str, int]
    ) -> int:
        group = self.group
        is_bumped = before.subscribed_topic_names != after.subscribed_topic_names
        if group.assignment_epoch >= group.group_epoch:
            is_bumped = is_bumped or self._is_assignment_pending()
        metadata_hash = target_assignment.metadata_hash(self._broker, counts)
        if not is_bumped and metadata_hash == group.metadata_hash:
            return group.group_epoch
        epoch = group.group_epoch + 1
        self.records.append(rows.group_epoch(group.group_id, epoch, metadata_hash))
        return epoch

    def _is_assignment_pending(self) -> bool:
        """True if partitions of the group's topics have become assignable."""
        assigned: dict[Uuid, set[int]] = {}
        for target in self.group.target.values():
            for topic_id, partitions in target.items():
                assigned.setdefault(topic_id, set()).update(partitions)
        return bool(self.group.members) and any(
            initialized.topic_name in self.group.subscribers
            and self._broker.topic_by_id(topic_id) is not None
            and assigned.get(topic_id) != set(initialized.partitions)
            for topic_id, initialized in self.group.initialized.items()
        )

    def _update_target(
        self, after: ShareGroupMember, group_epoch: int, counts: dict[str, int]
    ) -> tuple[int, Target]:
        group, now = self.group, self._broker.now
        interval_ms = group_configs.share_assignment_interval_ms(self._broker, group.group_id)
        if group.assignment_epoch >= group_epoch or self._is_early(interval_ms):
            return group.assignment_epoch, group.target.get(after.member_id, {})
        targets = self._targets(after, counts)
        for member_id, target in targets.items():
            former = group.target.get(member_id)
            if former is None or as_sets(former) != as_sets(target):
                self.records.append(rows.member_target(group.group_id, member_id, target))
        self.records.append(rows.target_epoch(group.group_id, group_epoch, now))
        return group_epoch, targets[after.member_id]

    def _targets(self, after: ShareGroupMember, counts: dict[str, int]) -> dict[str, Target]:
        group = self.group
        members: JavaMap[str, ShareGroupMember] = JavaMap(java_hash)
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
            assignable={
                each: set(initialized.partitions) for each, initialized in group.initialized.items()
            },
        )
        computed = simple_assignor.assign(spec)
        return {each: computed.get(each, {}) for each in subscribers}

    def _subscriber(self, member: ShareGroupMember) -> Subscriber:
        names = member.topics_in_order()
        topics = [topic for topic in map(self._broker.topic_by_name, names) if topic is not None]
        target = self.group.target.get(member.member_id, {})
        return Subscriber(None, [topic.topic_id for topic in topics], len(names), target)

    def _partition_count(self, topic_id: Uuid) -> int:
        topic = self._broker.topic_by_id(topic_id)
        assert topic is not None, topic_id
        return len(topic.partitions)

    def _reconcile(
        self, member: ShareGroupMember, epoch: int, target: Target, *, is_bumped: bool
    ) -> ShareGroupMember:
        """Assign the member's target, without unsubscribed topics."""
        if member.member_epoch == epoch and not is_bumped:
            return member
        topics = set(self._subscriber(member).topics)
        assigned = {topic_id: parts for topic_id, parts in target.items() if topic_id in topics}
        reconciled = msgspec.structs.replace(member, assigned=assigned)
        if member.member_epoch != epoch:
            reconciled = msgspec.structs.replace(
                reconciled, member_epoch=epoch, previous_member_epoch=member.member_epoch
            )
        if reconciled != member:
            self.records.append(rows.current_assignment(self.group.group_id, reconciled))
        return reconciled

    # The state of partitions

    def _initialize(self, group_epoch: int, topic_names: Iterable[str]) -> None:
        """Request missing share state, unless requested within the retry interval."""
        retry_ms = group_configs.share_initialize_retry_ms(self._broker)
        group, now = self.group, self._broker.now
        missing: PartitionsByTopic = {}
        for topic in map(self._broker.topic_by_name, sorted(topic_names)):
            if topic is None:
                continue
            requested = group.initializing.get(topic.topic_id)
            current = set(partitions_of(group.initialized.get(topic.topic_id)))
            if requested is not None and now - requested.timestamp < retry_ms:
                current |= set(requested.partitions)
            if len(current) < len(topic.partitions):
                numbers = range(len(topic.partitions))
                missing[topic.topic_id] = [each for each in numbers if each not in current]
        if not missing:
            return
        self.start_initializing(missing)
        self.messages += initialize_requests(self._broker, group.group_id, group_epoch, missing)

    def mark_initialized(self, places: PartitionsByTopic) -> None:
        initializing, initialized = dict(self.group.initializing), dict(self.group.initialized)
        for topic_id, partitions in places.items():
            all_partitions = {*partitions, *partitions_of(initialized.get(topic_id))}
            initialized[topic_id] = self._state_partitions(topic_id, all_partitions)
            requested = initializing.pop(topic_id, None)
            left = set(partitions_of(requested)) - set(partitions)
            if requested is not None and left:
                initializing[topic_id] = msgspec.structs.replace(requested, partitions=sorted(left))
        self.write_states(initializing, initialized)

    def _state_partitions(
        self, topic_id: Uuid, partitions: set[int], requested_at: int = 0
    ) -> TopicPartitionsInfo:
        topic = self._broker.topic_by_id(topic_id)
        name = topic.name if topic is not None else "<UNKNOWN>"
        return TopicPartitionsInfo(topic_id, name, sorted(partitions), requested_at)

    def start_initializing(self, places: PartitionsByTopic) -> None:
        """Note that the share state of partitions is being initialized.

        Pending deletions of their topics are cancelled.
        """
        initializing = dict(self.group.initializing)
        for topic_id, partitions in places.items():
            all_partitions = {*partitions, *partitions_of(initializing.get(topic_id))}
            initializing[topic_id] = self._state_partitions(
                topic_id, all_partitions, self._broker.now
            )
        deleting = {each: name for each, name in self.group.deleting.items() if each not in places}
        self.write_states(initializing, self.group.initialized, deleting)

    def write_states(
        self,
        initializing: dict[Uuid, TopicPartitionsInfo],
        initialized: dict[Uuid, TopicPartitionsInfo],
        deleting: dict[Uuid, str] | None = None,
    ) -> None:
        """Write partition states, without deleted topics; None keeps `deleting`."""
        deleting = self.group.deleting if deleting is None else deleting
        states = self._existing(initializing), self._existing(initialized)
        self.records.append(
            rows.state_partitions(self.group.group_id, *states, self._existing(deleting))
        )

    def _existing(self, states: dict[Uuid, Value]) -> dict[Uuid, Value]:
        return {each: current for each, current in states.items() if self._broker.topic_by_id(each)}


def initialize_responded(
    broker: Broker, message: Message, response: ShareGroupStateResponse
) -> Decision:
    """Handle a share coordinator's response; call the next coordinator."""
    body = message.body
    assert isinstance(body, InitializeShareGroupStateRequest), body
    group = groups.find(broker, body.group_id)
    if not isinstance(group, ShareGroup):
        return Decision()
    initialized: PartitionsByTopic = {}
    for topic in response.results:
        for result in topic.partitions:
            if result.error_code == Error.NONE:
                initialized.setdefault(topic.topic_id, []).append(result.partition)
    coordinator = ShareGroupCoordinator(broker, group)
    if initialized:
        coordinator.mark_initialized(initialized)
    missing = {
        topic_id: [
            each for each in requested.partitions if each not in initialized.get(topic_id, [])
        ]
        for topic_id, requested in group.initializing.items()
    }
    epoch, responded = group.group_epoch, message.receiver
    messages = initialize_requests(broker, body.group_id, epoch, missing, after=responded)
    return Decision(records=coordinator.records, messages=messages)


def _updated(member: ShareGroupMember, request: Request) -> ShareGroupMember:
    body: ShareGroupHeartbeatRequest = request.body
    names = body.subscribed_topic_names
    return msgspec.structs.replace(
        member,
        rack_id=member.rack_id if body.rack_id is None else body.rack_id,
        subscribed_topic_names=(
            member.subscribed_topic_names if names is None else sorted(set(names))
        ),
        client_id=request.header.client_id or "",
        client_host=f"/{request.host}",
    )


def _check_epoch(member: ShareGroupMember, epoch: int) -> None:
    """Refuse a heartbeat with 110 FENCED_MEMBER_EPOCH if its epoch is not current or previous."""
    current, previous = member.member_epoch, member.previous_member_epoch
    if epoch in (JOIN_EPOCH, current) or (epoch < current and epoch == previous):
        return
    mismatch = f", and it does not match the previous member epoch ({previous})"
    detail = "" if epoch > current else mismatch
    raise Refused(Error.FENCED_MEMBER_EPOCH, epoch_message(SHARE, epoch, current, detail))
