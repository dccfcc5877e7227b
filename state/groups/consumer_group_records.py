"""The records of a consumer group and their application.

Source: `GroupCoordinatorRecordHelpers.newConsumerGroup…`, `GroupMetadataManager.replay` in Kafka. A
member has three records: metadata, target assignment and current assignment. Their tombstones are
written in reverse order.
"""

from collections.abc import Iterable, Mapping

import msgspec
from msgspec.structs import asdict, replace

from brokertwin.protocol.bodies import Uuid
from brokertwin.protocol.generated.consumer_group_rows import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    ConsumerGroupTopicPartition,
    ConsumerGroupTopicPartitions,
    Key,
    Value,
)
from brokertwin.state.core.group_records import GroupRecord, tombstones
from brokertwin.state.groups.assignments import Assigned, Target
from brokertwin.state.groups.consumer_group import (
    LEAVE_EPOCH,
    ConsumerGroup,
    ConsumerMember,
    ConsumerMemberState,
)

NO_ASSIGNMENT = -1
"""The assignment epoch after the tombstone of the target assignment."""


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> GroupRecord:
    value = ConsumerGroupMetadataValue(epoch, metadata_hash)
    return GroupRecord(ConsumerGroupMetadataKey(group_id), value)


def member_metadata(group_id: str, member: ConsumerMember) -> GroupRecord:
    value = msgspec.convert(member, ConsumerGroupMemberMetadataValue, from_attributes=True)
    return GroupRecord(ConsumerGroupMemberMetadataKey(group_id, member.member_id), value)


def target_epoch(group_id: str, epoch: int, timestamp: int) -> GroupRecord:
    value = ConsumerGroupTargetAssignmentMetadataValue(epoch, timestamp)
    return GroupRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id), value)


def member_target(group_id: str, member_id: str, target: Target) -> GroupRecord:
    topics = [ConsumerGroupTopicPartition(*each) for each in target.items()]
    value = ConsumerGroupTargetAssignmentMemberValue(topics)
    return GroupRecord(ConsumerGroupTargetAssignmentMemberKey(group_id, member_id), value)


def current_assignment(group_id: str, member: ConsumerMember) -> GroupRecord:
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member.member_epoch,
        member.previous_member_epoch,
        member.state.value,
        _with_epochs(member.assigned),
        _with_epochs(member.pending_revocation),
    )
    return GroupRecord(ConsumerGroupCurrentMemberAssignmentKey(group_id, member.member_id), value)


def _with_epochs(topics: Mapping[Uuid, Mapping[int, int]]) -> list[ConsumerGroupTopicPartitions]:
    """Partitions in order, because Kafka has them in a map by number."""
    return [
        ConsumerGroupTopicPartitions(
            topic_id, sorted(epochs), [epochs[each] for each in sorted(epochs)]
        )
        for topic_id, epochs in topics.items()
    ]


def resolved_regex(
    group_id: str, regex: str, value: ConsumerGroupRegularExpressionValue
) -> GroupRecord:
    return GroupRecord(ConsumerGroupRegularExpressionKey(group_id, regex), value)


def member_tombstones(group_id: str, member_id: str) -> list[GroupRecord]:
    return tombstones(
        ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id),
        ConsumerGroupTargetAssignmentMemberKey(group_id, member_id),
        ConsumerGroupMemberMetadataKey(group_id, member_id),
    )


def group_records(group: ConsumerGroup) -> list[GroupRecord]:
    """Return the records of a whole group with its members."""
    group_id, members = group.group_id, group.in_order()
    return [
        *(member_metadata(group_id, each) for each in members),
        group_epoch(group_id, group.group_epoch, group.metadata_hash),
        *(
            member_target(group_id, each.member_id, group.target.get(each.member_id, {}))
            for each in members
        ),
        target_epoch(group_id, group.assignment_epoch, group.assignment_timestamp),
        *(current_assignment(group_id, each) for each in members),
    ]


def regex_tombstones(group_id: str, regexes: Iterable[str]) -> list[GroupRecord]:
    return tombstones(*(ConsumerGroupRegularExpressionKey(group_id, each) for each in regexes))


def group_tombstones(
    group_id: str, member_ids: Iterable[str] = (), regexes: Iterable[str] = ()
) -> list[GroupRecord]:
    """Return tombstones for a group, its members and its resolved expressions."""
    members = list(member_ids)
    return [
        *tombstones(
            *(ConsumerGroupCurrentMemberAssignmentKey(group_id, each) for each in members),
            *(ConsumerGroupTargetAssignmentMemberKey(group_id, each) for each in members),
            ConsumerGroupTargetAssignmentMetadataKey(group_id),
            *(ConsumerGroupMemberMetadataKey(group_id, each) for each in members),
        ),
        *regex_tombstones(group_id, regexes),
        *tombstones(
            ConsumerGroupPartitionMetadataKey(group_id), ConsumerGroupMetadataKey(group_id)
        ),
    ]


def replay(group: ConsumerGroup, key: Key, value: Value | None) -> None:
    """Change the group by a record; a tombstone of an assignment means that the member has left."""
    match key, value:
        case ConsumerGroupMetadataKey(), ConsumerGroupMetadataValue(epoch, metadata_hash):
            group.group_epoch, group.metadata_hash = epoch, metadata_hash
        case ConsumerGroupMemberMetadataKey(_, member_id), ConsumerGroupMemberMetadataValue():
            member = group.members.get(member_id) or ConsumerMember(member_id)
            group.put(replace(member, **asdict(value)))
        case ConsumerGroupMemberMetadataKey(_, member_id), None:
            group.remove(member_id)
        case ConsumerGroupTargetAssignmentMetadataKey(), _:
            value = value or ConsumerGroupTargetAssignmentMetadataValue(NO_ASSIGNMENT)
            assert isinstance(value, ConsumerGroupTargetAssignmentMetadataValue), value
            group.assignment_epoch = value.assignment_epoch
            group.assignment_timestamp = value.assignment_timestamp
        case (
            ConsumerGroupTargetAssignmentMemberKey(_, member_id),
            ConsumerGroupTargetAssignmentMemberValue(topics),
        ):
            group.target[member_id] = {each.topic_id: each.partitions for each in topics}
        case ConsumerGroupTargetAssignmentMemberKey(_, member_id), None:
            group.target.pop(member_id, None)
        case ConsumerGroupCurrentMemberAssignmentKey(_, member_id), _:
            value = value or ConsumerGroupCurrentMemberAssignmentValue(LEAVE_EPOCH, LEAVE_EPOCH)
            assert isinstance(value, ConsumerGroupCurrentMemberAssignmentValue), value
            member = group.members.get(member_id) or ConsumerMember(member_id)
            group.put(
                replace(
                    member,
                    member_epoch=value.member_epoch,
                    previous_member_epoch=value.previous_member_epoch,
                    state=ConsumerMemberState(value.state),
                    assigned=_assigned(value.assigned_partitions),
                    pending_revocation=_assigned(value.partitions_pending_revocation),
                )
            )
        case (
            ConsumerGroupRegularExpressionKey(_, regex),
            ConsumerGroupRegularExpressionValue() as resolved,
        ):
            group.resolved[regex] = resolved
        case ConsumerGroupRegularExpressionKey(_, regex), None:
            group.resolved.pop(regex, None)


def _assigned(topics: list[ConsumerGroupTopicPartitions]) -> Assigned:
    return {
        each.topic_id: dict(zip(each.partitions, each.assignment_epochs or (), strict=True))
        for each in topics
    }
