"""Encodes the records of groups as rows of `__consumer_offsets`.

Source: `GroupCoordinatorRecordHelpers` in Kafka 4.3's group-coordinator. The bytes are those of
`protocol/generated`. A null value is a tombstone. `group_records` reads rows of real brokers.
"""

from collections.abc import Iterable, Mapping

import msgspec

from brokertwin.protocol.bodies import Uuid
from brokertwin.protocol.generated import consumer_group_rows as consumer
from brokertwin.protocol.generated import share_group_rows as share
from brokertwin.protocol.generated.group_rows import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)
from brokertwin.protocol.rows import Encoded, Row
from brokertwin.state.core.group_records import (
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignmentWritten,
    ConsumerGroupMemberMetadataWritten,
    ConsumerGroupMetadataWritten,
    ConsumerGroupPartitionMetadataRemoved,
    ConsumerGroupRegularExpressionWritten,
    ConsumerGroupTargetAssignmentMemberWritten,
    ConsumerGroupTargetAssignmentMetadataWritten,
    GroupMember,
    GroupMetadataWritten,
    GroupRemoved,
    ShareGroupCurrentMemberAssignmentWritten,
    ShareGroupMemberMetadataWritten,
    ShareGroupMetadataWritten,
    ShareGroupStatePartitionMetadataWritten,
    ShareGroupTargetAssignmentMemberWritten,
    ShareGroupTargetAssignmentMetadataWritten,
    StatePartitions,
)
from brokertwin.state.core.records import OffsetCommitted, OffsetDeleted, Record
from brokertwin.state.groups import offset_records, streams_rows
from brokertwin.state.groups.row_encoders import Encoder, alike, of_epoch, of_field

CLASSIC_VERSION = 3
"""The version of a classic group's value; all others have version 0."""


def encode(record: Record) -> Encoded | None:
    """The row of a record; None if it is not a record of groups and offsets.

    Raises ValueError for an id of more than 32,767 bytes.
    """
    match record:
        case OffsetCommitted():
            return offset_records.committed(record)
        case OffsetDeleted():
            return offset_records.deleted(record)
        case GroupMetadataWritten():
            return _classic_key(record.group_id), _classic(record).encoded(CLASSIC_VERSION)
        case GroupRemoved():
            return _classic_key(record.group_id), None
    found = _ENCODERS.get(type(record))
    if found is None:
        return None
    key, value = alike(record, found.key), found.value(record)
    return key.encoded(), None if value is None else value.encoded(0)


def _classic_key(group_id: str) -> bytes:
    return GroupMetadataKey(group=group_id).encoded()


def _classic(record: GroupMetadataWritten) -> GroupMetadataValue:
    metadata = record.metadata
    return GroupMetadataValue(
        protocol_type=metadata.protocol_type,
        generation=metadata.generation,
        protocol=metadata.protocol,
        leader=metadata.leader,
        current_state_timestamp=metadata.current_state_timestamp,
        members=[_classic_member(each) for each in metadata.members],
    )


def _classic_member(member: GroupMember) -> MemberMetadata:
    found = alike(member, MemberMetadata)
    found.rebalance_timeout = member.rebalance_timeout_ms
    found.session_timeout = member.session_timeout_ms
    return found


def _member(record: ConsumerGroupMemberMetadataWritten) -> Row | None:
    metadata = record.metadata
    if metadata is None:
        return None
    return consumer.ConsumerGroupMemberMetadataValue(
        instance_id=metadata.instance_id,
        rack_id=metadata.rack_id,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        subscribed_topic_names=metadata.subscribed_topic_names,
        subscribed_topic_regex=metadata.subscribed_topic_regex,
        rebalance_timeout_ms=metadata.rebalance_timeout_ms,
        server_assignor=metadata.server_assignor,
        classic_member_metadata=_of_classic(metadata.classic_member_metadata),
    )


def _of_classic(metadata: ClassicMemberMetadata | None) -> consumer.ClassicMemberMetadata | None:
    if metadata is None:
        return None
    protocols = [{"name": name, "metadata": data} for name, data in metadata.supported_protocols]
    return consumer.ClassicMemberMetadata(
        session_timeout_ms=metadata.session_timeout_ms,
        supported_protocols=msgspec.convert(protocols, list[consumer.ClassicProtocol]),
    )


def _target(record: ConsumerGroupTargetAssignmentMemberWritten) -> Row | None:
    topics = record.topic_partitions
    if topics is None:
        return None
    parts = [consumer.ConsumerGroupTopicPartition(*each) for each in topics.items()]
    return consumer.ConsumerGroupTargetAssignmentMemberValue(topic_partitions=parts)


def _current(record: ConsumerGroupCurrentMemberAssignmentWritten) -> Row | None:
    assignment = record.assignment
    if assignment is None:
        return None
    return consumer.ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=assignment.member_epoch,
        previous_member_epoch=assignment.previous_member_epoch,
        state=assignment.state,
        assigned_partitions=_with_epochs(assignment.assigned_partitions),
        partitions_pending_revocation=_with_epochs(assignment.partitions_pending_revocation),
    )


def _with_epochs(
    topics: Mapping[Uuid, Mapping[int, int]],
) -> list[consumer.ConsumerGroupTopicPartitions]:
    """Partitions in order, because Kafka has them in a map by number."""
    return [
        consumer.ConsumerGroupTopicPartitions(
            topic_id=topic_id,
            partitions=sorted(epochs),
            assignment_epochs=[epochs[each] for each in sorted(epochs)],
        )
        for topic_id, epochs in topics.items()
    ]


def _share_target(record: ShareGroupTargetAssignmentMemberWritten) -> Row | None:
    topics = record.topic_partitions
    if topics is None:
        return None
    parts = [share.ShareGroupTopicPartition(*each) for each in topics.items()]
    return share.ShareGroupTargetAssignmentMemberValue(topic_partitions=parts)


def _share_current(record: ShareGroupCurrentMemberAssignmentWritten) -> Row | None:
    assignment = record.assignment
    if assignment is None:
        return None
    return share.ShareGroupCurrentMemberAssignmentValue(
        member_epoch=assignment.member_epoch,
        previous_member_epoch=assignment.previous_member_epoch,
        state=assignment.state,
        assigned_partitions=[
            share.ShareGroupTopicPartitions(*each)
            for each in assignment.assigned_partitions.items()
        ],
    )


def _state_partitions(record: ShareGroupStatePartitionMetadataWritten) -> Row | None:
    known = record.metadata
    if known is None:
        return None
    return share.ShareGroupStatePartitionMetadataValue(
        initializing_topics=_infos(known.initializing.items()),
        initialized_topics=_infos(known.initialized.items()),
        deleting_topics=[share.ShareGroupTopicInfo(*each) for each in known.deleting.items()],
    )


def _infos(topics: Iterable[tuple[Uuid, StatePartitions]]) -> list[share.TopicPartitionsInfo]:
    return [
        share.TopicPartitionsInfo(topic_id, part.topic_name, part.partitions)
        for topic_id, part in topics
    ]


_ENCODERS: dict[type, Encoder] = {
    ConsumerGroupMetadataWritten: Encoder(
        consumer.ConsumerGroupMetadataKey, of_epoch("epoch", consumer.ConsumerGroupMetadataValue)
    ),
    ConsumerGroupMemberMetadataWritten: Encoder(consumer.ConsumerGroupMemberMetadataKey, _member),
    ConsumerGroupTargetAssignmentMetadataWritten: Encoder(
        consumer.ConsumerGroupTargetAssignmentMetadataKey,
        of_epoch("assignment_epoch", consumer.ConsumerGroupTargetAssignmentMetadataValue),
    ),
    ConsumerGroupTargetAssignmentMemberWritten: Encoder(
        consumer.ConsumerGroupTargetAssignmentMemberKey, _target
    ),
    ConsumerGroupCurrentMemberAssignmentWritten: Encoder(
        consumer.ConsumerGroupCurrentMemberAssignmentKey, _current
    ),
    ConsumerGroupRegularExpressionWritten: Encoder(
        consumer.ConsumerGroupRegularExpressionKey,
        of_field("resolved", consumer.ConsumerGroupRegularExpressionValue),
    ),
    ConsumerGroupPartitionMetadataRemoved: Encoder(
        consumer.ConsumerGroupPartitionMetadataKey, lambda record: None
    ),
    ShareGroupMetadataWritten: Encoder(
        share.ShareGroupMetadataKey, of_epoch("epoch", share.ShareGroupMetadataValue)
    ),
    ShareGroupMemberMetadataWritten: Encoder(
        share.ShareGroupMemberMetadataKey,
        of_field("metadata", share.ShareGroupMemberMetadataValue),
    ),
    ShareGroupTargetAssignmentMetadataWritten: Encoder(
        share.ShareGroupTargetAssignmentMetadataKey,
        of_epoch("assignment_epoch", share.ShareGroupTargetAssignmentMetadataValue),
    ),
    ShareGroupTargetAssignmentMemberWritten: Encoder(
        share.ShareGroupTargetAssignmentMemberKey, _share_target
    ),
    ShareGroupCurrentMemberAssignmentWritten: Encoder(
        share.ShareGroupCurrentMemberAssignmentKey, _share_current
    ),
    ShareGroupStatePartitionMetadataWritten: Encoder(
        share.ShareGroupStatePartitionMetadataKey, _state_partitions
    ),
    **streams_rows.ENCODERS,
}

GROUP_RECORD_TYPES = frozenset(
    {OffsetCommitted, OffsetDeleted, GroupMetadataWritten, GroupRemoved, *_ENCODERS}
)
"""The records that have a row."""
