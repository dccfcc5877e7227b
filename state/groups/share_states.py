"""Requests of a group coordinator to share coordinators.

They initialize and delete the share state of partitions.

Source: `GroupMetadataManager.buildInitializeShareGroupStateRequest`,
`shareGroupBuildPartitionDeleteRequest`, `maybeCleanupShareGroupState`, `DefaultStatePersister` in
Kafka; KIP-932.
"""

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.bodies import Uuid
from brokertwin.protocol.generated.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateRequestPartitionData,
    DeleteStateData,
)
from brokertwin.protocol.generated.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateRequestPartitionData,
    InitializeStateData,
)
from brokertwin.protocol.generated.share_group_rows import TopicPartitionsInfo
from brokertwin.state.cluster import coordinators, internal_topics
from brokertwin.state.cluster.coordinators import SHARE_TOPIC
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.decision import Message
from brokertwin.state.core.records import Record
from brokertwin.state.groups import groups
from brokertwin.state.groups.share_group import ShareGroup
from brokertwin.state.groups.share_group_records import state_partitions

PartitionsByTopic = dict[Uuid, list[int]]
"""Partitions by topic id."""

Offsets = dict[Uuid, dict[int, int]]
"""Start offsets by topic id and partition."""

NO_COORDINATOR, NO_OFFSET = -1, -1
"""Initial value of `after`; an offset that the partition leader chooses."""


def initialize_requests(
    broker: Broker,
    group_id: str,
    epoch: int,
    places: PartitionsByTopic,
    after: int = NO_COORDINATOR,
) -> list[Message]:
    """Return the next InitializeShareGroupState request, if any.

    `after` is the coordinator that has just responded. If the internal topic does not exist, it is
    created first (`pending_initializations`).
    """
    if broker.topic_by_name(SHARE_TOPIC) is None:
        return internal_topics.creation(broker, [SHARE_TOPIC]) if places else []
    offsets = {topic_id: dict.fromkeys(numbers, NO_OFFSET) for topic_id, numbers in places.items()}
    message = next_initialize_request(broker, group_id, epoch, offsets, after)
    return [message] if message is not None else []


def next_initialize_request(
    broker: Broker, group_id: str, epoch: int, offsets: Offsets, after: int
) -> Message | None:
    places = {topic_id: list(partitions) for topic_id, partitions in offsets.items()}
    following = next_coordinator(broker, group_id, places, after)
    if following is None:
        return None
    receiver, requested = following
    topics = [
        InitializeStateData(
            topic_id=topic_id,
            partitions=[
                InitializeShareGroupStateRequestPartitionData(
                    partition=each, state_epoch=epoch, start_offset=offsets[topic_id][each]
                )
                for each in partitions
            ],
        )
        for topic_id, partitions in requested.items()
    ]
    body = InitializeShareGroupStateRequest(group_id=group_id, topics=topics)
    return Message(broker.id, receiver, kafka_apis.INITIALIZE_SHARE_GROUP_STATE.key, body)


def next_delete_request(
    broker: Broker, group_id: str, places: PartitionsByTopic, after: int
) -> Message | None:
    following = next_coordinator(broker, group_id, places, after)
    return _delete_request(broker, group_id, *following) if following is not None else None


def next_coordinator(
    broker: Broker, group_id: str, places: PartitionsByTopic, after: int
) -> tuple[int, PartitionsByTopic] | None:
    """Return the next share coordinator and its partitions, if any.

    Share coordinators are called one after the other in the order of their ids, so the records do
    not depend on their placement.
    """
    by_coordinator = _by_coordinator(broker, group_id, places)
    receiver = min((each for each in by_coordinator if each > after), default=None)
    return (receiver, by_coordinator[receiver]) if receiver is not None else None


def pending_initializations(broker: Broker) -> list[Message]:
    """Return the requests that waited for the internal topic."""
    return [
        message
        for group in groups.all_groups(broker)
        if isinstance(group, ShareGroup)
        for message in initialize_requests(
            broker,
            group.group_id,
            group.group_epoch,
            {topic_id: requested.partitions for topic_id, requested in group.initializing.items()},
        )
    ]


def records_of_deleted_topic(broker: Broker, topic_id: Uuid) -> list[Record]:
    records: list[Record] = []
    for group in groups.all_groups(broker):
        if not isinstance(group, ShareGroup) or topic_id not in {
            *group.initializing,
            *group.initialized,
            *group.deleting,
        }:
            continue
        initializing, initialized = (
            {each: state for each, state in states.items() if each != topic_id}
            for states in (group.initializing, group.initialized)
        )
        deleting = {each: name for each, name in group.deleting.items() if each != topic_id}
        records.append(state_partitions(group.group_id, initializing, initialized, deleting))
    return records


def has_invalid_partitions(group: ShareGroup) -> bool:
    """True if the state of a group cannot be deleted.

    This is the case if AlterShareGroupOffsets has named a negative partition, or one topic without
    partitions among others. Kafka treats topics whose deletion is pending in the same way, with all
    their partitions.
    """
    metadata = [*group.initializing.items(), *group.initialized.items()]
    by_topic: dict[Uuid, set[int]] = {}
    for topic_id, states in metadata:
        by_topic.setdefault(topic_id, set()).update(states.partitions)
    partitions = list(by_topic.values())
    has_none = any(partitions) and not all(partitions)
    return has_none or any(min(each, default=0) < 0 for each in partitions)


def delete_requests(broker: Broker, group: ShareGroup) -> list[Message]:
    places = {
        topic_id: sorted(
            {*partitions_of(group.initializing.get(topic_id)), *partitions_of(initialized)}
        )
        for topic_id, initialized in {**group.initializing, **group.initialized}.items()
    }
    for topic_id in group.deleting:
        topic = broker.topic_by_id(topic_id)
        if topic is not None:
            places[topic_id] = list(range(len(topic.partitions)))
    return [
        _delete_request(broker, group.group_id, receiver, requested)
        for receiver, requested in _by_coordinator(broker, group.group_id, places).items()
    ]


def _delete_request(
    broker: Broker, group_id: str, receiver: int, places: PartitionsByTopic
) -> Message:
    topics = [
        DeleteStateData(
            topic_id=topic_id,
            partitions=[
                DeleteShareGroupStateRequestPartitionData(partition=each) for each in partitions
            ],
        )
        for topic_id, partitions in places.items()
    ]
    body = DeleteShareGroupStateRequest(group_id=group_id, topics=topics)
    return Message(broker.id, receiver, kafka_apis.DELETE_SHARE_GROUP_STATE.key, body)


def _by_coordinator(
    broker: Broker, group_id: str, places: PartitionsByTopic
) -> dict[int, PartitionsByTopic]:
    """Return partitions by their share coordinator.

    Partitions without a known coordinator are assigned to this broker.
    """
    by_coordinator: dict[int, PartitionsByTopic] = {}
    for topic_id, partitions in places.items():
        for partition in partitions:
            key = coordinators.coordinator_key(group_id, topic_id, partition)
            receiver = coordinators.coordinator_of(broker, SHARE_TOPIC, key)
            requested = by_coordinator.setdefault(
                broker.id if receiver in (None, -1) else receiver, {}
            )
            requested.setdefault(topic_id, []).append(partition)
    return by_coordinator


def partitions_of(metadata: TopicPartitionsInfo | None) -> list[int]:
    return metadata.partitions if metadata is not None else []
