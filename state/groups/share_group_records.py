"""The records of a share group and their application.

Source: `GroupCoordinatorRecordHelpers.newShareGroup…`, `GroupMetadataManager.replay` in Kafka.
"""

import msgspec
from msgspec.structs import asdict, replace

from brokertwin.protocol.bodies import Uuid
from brokertwin.protocol.generated.share_group_rows import (
    Key,
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
    ShareGroupTopicInfo,
    ShareGroupTopicPartition,
    ShareGroupTopicPartitions,
    TopicPartitionsInfo,
    Value,
)
from brokertwin.state.core.group_records import GroupRecord, tombstones
from brokertwin.state.groups.assignments import Target, in_hash_order
from brokertwin.state.groups.consumer_group import LEAVE_EPOCH, ConsumerMemberState
from brokertwin.state.groups.consumer_group_records import NO_ASSIGNMENT
from brokertwin.state.groups.share_group import ShareGroup, ShareGroupMember


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> GroupRecord:
    value = ShareGroupMetadataValue(epoch, metadata_hash)
    return GroupRecord(ShareGroupMetadataKey(group_id), value)


def member_metadata(group_id: str, member: ShareGroupMember) -> GroupRecord:
    value = msgspec.convert(member, ShareGroupMemberMetadataValue, from_attributes=True)
    return GroupRecord(ShareGroupMemberMetadataKey(group_id, member.member_id), value)


def target_epoch(group_id: str, epoch: int, timestamp: int) -> GroupRecord:
    value = ShareGroupTargetAssignmentMetadataValue(epoch, timestamp)
    return GroupRecord(ShareGroupTargetAssignmentMetadataKey(group_id), value)


def member_target(group_id: str, member_id: str, target: Target) -> GroupRecord:
    topics = [ShareGroupTopicPartition(*each) for each in target.items()]
    value = ShareGroupTargetAssignmentMemberValue(topics)
    return GroupRecord(ShareGroupTargetAssignmentMemberKey(group_id, member_id), value)


def current_assignment(group_id: str, member: ShareGroupMember) -> GroupRecord:
    value = ShareGroupCurrentMemberAssignmentValue(
        member.member_epoch,
        member.previous_member_epoch,
        ConsumerMemberState.STABLE.value,
        [ShareGroupTopicPartitions(*each) for each in member.assigned.items()],
    )
    return GroupRecord(ShareGroupCurrentMemberAssignmentKey(group_id, member.member_id), value)


def state_partitions(
    group_id: str,
    initializing: dict[Uuid, TopicPartitionsInfo],
    initialized: dict[Uuid, TopicPartitionsInfo],
    deleting: dict[Uuid, str],
) -> GroupRecord:
    value = ShareGroupStatePartitionMetadataValue(
        list(initializing.values()),
        list(initialized.values()),
        [ShareGroupTopicInfo(*each) for each in deleting.items()],
    )
    return GroupRecord(ShareGroupStatePartitionMetadataKey(group_id), value)


def member_tombstones(group_id: str, member_id: str) -> list[GroupRecord]:
    return tombstones(
        ShareGroupCurrentMemberAssignmentKey(group_id, member_id),
        ShareGroupTargetAssignmentMemberKey(group_id, member_id),
        ShareGroupMemberMetadataKey(group_id, member_id),
    )


def group_tombstones(group_id: str) -> list[GroupRecord]:
    """Return the records that delete a group without members."""
    return tombstones(
        ShareGroupTargetAssignmentMetadataKey(group_id),
        ShareGroupStatePartitionMetadataKey(group_id),
        ShareGroupMetadataKey(group_id),
    )


def replay(group: ShareGroup, key: Key, value: Value | None) -> None:
    """Change the group by a record; a tombstone of an assignment means that the member has left."""
    match key, value:
        case ShareGroupMetadataKey(), ShareGroupMetadataValue(epoch, metadata_hash):
            group.group_epoch, group.metadata_hash = epoch, metadata_hash
        case ShareGroupMemberMetadataKey(_, member_id), ShareGroupMemberMetadataValue():
            member = group.members.get(member_id) or ShareGroupMember(member_id)
            group.put(replace(member, **asdict(value)))
        case ShareGroupMemberMetadataKey(_, member_id), None:
            group.remove(member_id)
        case ShareGroupTargetAssignmentMetadataKey(), _:
            value = value or ShareGroupTargetAssignmentMetadataValue(NO_ASSIGNMENT)
            assert isinstance(value, ShareGroupTargetAssignmentMetadataValue), value
            group.assignment_epoch = value.assignment_epoch
            group.assignment_timestamp = value.assignment_timestamp
        case (
            ShareGroupTargetAssignmentMemberKey(_, member_id),
            ShareGroupTargetAssignmentMemberValue(topics),
        ):
            group.target[member_id] = in_hash_order(
                {each.topic_id: each.partitions for each in topics}
            )
        case ShareGroupTargetAssignmentMemberKey(_, member_id), None:
            group.target.pop(member_id, None)
        case ShareGroupCurrentMemberAssignmentKey(_, member_id), _:
            value = value or ShareGroupCurrentMemberAssignmentValue(LEAVE_EPOCH, LEAVE_EPOCH)
            assert isinstance(value, ShareGroupCurrentMemberAssignmentValue), value
            member = group.members.get(member_id) or ShareGroupMember(member_id)
            assigned = {each.topic_id: each.partitions for each in value.assigned_partitions}
            group.put(
                replace(
                    member,
                    member_epoch=value.member_epoch,
                    previous_member_epoch=value.previous_member_epoch,
                    assigned=in_hash_order(assigned),
                )
            )
        case ShareGroupStatePartitionMetadataKey(), _:
            value = value or ShareGroupStatePartitionMetadataValue()
            assert isinstance(value, ShareGroupStatePartitionMetadataValue), value
            group.initializing = {each.topic_id: each for each in value.initializing_topics}
            group.initialized = {each.topic_id: each for each in value.initialized_topics}
            group.deleting = {each.topic_id: each.topic_name for each in value.deleting_topics}
