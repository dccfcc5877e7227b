"""What the coordinator of a share group tells share coordinators: states begin, and go.

Source: `GroupMetadataManager.buildInitializeShareGroupStateRequest`,
`shareGroupBuildPartitionDeleteRequest`, `maybeCleanupShareGroupState`, `DefaultStatePersister` in
Kafka; KIP-932.
"""

from brokertwin.state.cluster import coordinators, internal_topics
from brokertwin.state.cluster.coordinators import SHARE_TOPIC
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core import kafka_apis
from brokertwin.state.core.decision import Message
from brokertwin.state.core.group_records import (
    ShareGroupStatePartitionMetadataWritten,
    SharePartitionMetadata,
    StatePartitions,
)
from brokertwin.state.core.records import Record
from brokertwin.state.core.schema import Uuid
from brokertwin.state.groups import groups
from brokertwin.state.groups.share_group import ShareGroup
from brokertwin.state.share.state_bodies import (
    DeletedPartition,
    DeletedTopic,
    DeleteShareGroupStateRequest,
    InitializedPartition,
    InitializedTopic,
    InitializeShareGroupStateRequest,
)

Places = dict[Uuid, list[int]]
"""Partitions by topic id."""

NOBODY, NO_OFFSET = -1, -1
"""Nobody has answered yet; the leader of a partition is to settle where its state begins."""


def initializations(
    broker: Broker, group_id: str, epoch: int, places: Places, after: int = NOBODY
) -> list[Message]:
    """What a share coordinator is asked: to begin states. The next one is asked with its answer.

    One after the other, by their ids, they leave the same records wherever they are: `after` has
    just answered. Where there is no internal topic it is created first (`all_asked`).
    """
    if broker.topic_by_name(SHARE_TOPIC) is None:
        return internal_topics.creation(broker, [SHARE_TOPIC]) if places else []
    for receiver, asked in sorted(by_coordinator(broker, group_id, places).items()):
        if receiver <= after:
            continue
        topics = [
            InitializedTopic(
                topic_id=topic_id,
                partitions=[
                    InitializedPartition(partition=each, state_epoch=epoch, start_offset=NO_OFFSET)
                    for each in partitions
                ],
            )
            for topic_id, partitions in asked.items()
        ]
        body = InitializeShareGroupStateRequest(group_id=group_id, topics=topics)
        return [Message(broker.id, receiver, kafka_apis.INITIALIZE_SHARE_GROUP_STATE.key, body)]
    return []


def all_asked(broker: Broker) -> list[Message]:
    """What is asked now that the internal topic is there: all that groups have waited for."""
    return [
        message
        for group in groups.all_groups(broker)
        if isinstance(group, ShareGroup)
        for message in initializations(
            broker,
            group.group_id,
            group.group_epoch,
            {topic_id: asked.partitions for topic_id, asked in group.initializing.items()},
        )
    ]


def of_deleted_topic(broker: Broker, topic_id: Uuid) -> list[Record]:
    """Return the records by which share groups forget a deleted topic."""
    records: list[Record] = []
    for group in groups.all_groups(broker):
        if not isinstance(group, ShareGroup):
            continue
        known = SharePartitionMetadata(group.initializing, group.initialized, group.deleting)
        left = SharePartitionMetadata(
            {each: known.initializing[each] for each in known.initializing if each != topic_id},
            {each: known.initialized[each] for each in known.initialized if each != topic_id},
            {each: known.deleting[each] for each in known.deleting if each != topic_id},
        )
        if left != known:
            records.append(ShareGroupStatePartitionMetadataWritten(group.group_id, left))
    return records


def is_odd(group: ShareGroup) -> bool:
    """Whether share coordinators cannot be asked to delete a group's states.

    AlterShareGroupOffsets has named a partition below 0, or one topic without partitions among
    others. Kafka makes the same of topics that are to be deleted already: of all their partitions.
    """
    known = [*group.initializing.items(), *group.initialized.items()]
    by_topic: dict[Uuid, set[int]] = {}
    for topic_id, states in known:
        by_topic.setdefault(topic_id, set()).update(states.partitions)
    partitions = list(by_topic.values())
    has_none = any(partitions) and not all(partitions)
    return has_none or any(min(each, default=0) < 0 for each in partitions)


def deletions(broker: Broker, group: ShareGroup) -> list[Message]:
    """What share coordinators are told when a group goes: its partitions' states go, too."""
    places = {
        topic_id: sorted({*partitions_of(group.initializing.get(topic_id)), *partitions_of(ready)})
        for topic_id, ready in {**group.initializing, **group.initialized}.items()
    }
    for topic_id in group.deleting:
        topic = broker.topic_by_id(topic_id)
        if topic is not None:
            places[topic_id] = list(range(len(topic.partitions)))
    return [
        deletion(broker, group.group_id, receiver, asked)
        for receiver, asked in by_coordinator(broker, group.group_id, places).items()
    ]


def deletion(broker: Broker, group_id: str, receiver: int, places: Places) -> Message:
    """What a share coordinator is told: that states go."""
    topics = [
        DeletedTopic(
            topic_id=topic_id,
            partitions=[DeletedPartition(partition=each) for each in partitions],
        )
        for topic_id, partitions in places.items()
    ]
    body = DeleteShareGroupStateRequest(group_id=group_id, topics=topics)
    return Message(broker.id, receiver, kafka_apis.DELETE_SHARE_GROUP_STATE.key, body)


def by_coordinator(broker: Broker, group_id: str, places: Places) -> dict[int, Places]:
    """Partitions by their share coordinators; by this broker where nobody is known to be it."""
    found: dict[int, Places] = {}
    for topic_id, partitions in places.items():
        for partition in partitions:
            key = coordinators.coordinator_key(group_id, topic_id, partition)
            receiver = coordinators.coordinator_of(broker, SHARE_TOPIC, key)
            asked = found.setdefault(broker.id if receiver in (None, -1) else receiver, {})
            asked.setdefault(topic_id, []).append(partition)
    return found


def partitions_of(known: StatePartitions | None) -> list[int]:
    """The partitions of a topic that are in such a state."""
    return known.partitions if known is not None else []
