"""Where a share group is in partitions is set, and forgotten: one share coordinator after another.

Source: `GroupMetadataManager.alterShareGroupOffsets`, `sharePartitionsEligibleForOffsetDeletion`,
`completeDeleteShareGroupOffsets`, `GroupCoordinatorService.persisterInitialize` in Kafka; KIP-932.
They are asked in the order of their ids, so that they leave the same records wherever they are.
"""

import msgspec

from brokertwin.state.access.authorizer import Operation, ResourceType
from brokertwin.state.cluster import coordinators, features
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core import kafka_apis
from brokertwin.state.core.decision import Message, Request
from brokertwin.state.core.errors import Error
from brokertwin.state.core.records import Record
from brokertwin.state.core.schema import Uuid
from brokertwin.state.groups import groups, share_states
from brokertwin.state.groups.consumer_group import Refused
from brokertwin.state.groups.share_group import ShareGroup
from brokertwin.state.groups.share_group_coordinator import ShareGroupCoordinator
from brokertwin.state.groups.share_states import Places
from brokertwin.state.share import state_store
from brokertwin.state.share.state_bodies import (
    InitializedPartition,
    InitializedTopic,
    InitializeShareGroupStateRequest,
    ShareGroupStateResponse,
)

NOBODY = -1
"""No share coordinator has been asked yet."""

WORDS: dict[Error, str] = {
    Error.UNKNOWN_SERVER_ERROR: (
        "The server experienced an unexpected error when processing the request."
    ),
    Error.UNSUPPORTED_VERSION: "The version of API is not supported.",
    Error.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    Error.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    Error.INVALID_GROUP_ID: "The group id is invalid.",
    Error.NOT_COORDINATOR: "This is not the correct coordinator.",
    Error.COORDINATOR_LOAD_IN_PROGRESS: (
        "The coordinator is loading and hence can't process requests."
    ),
    Error.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    Error.UNKNOWN_TOPIC_OR_PARTITION: state_store.NOT_HERE,
    Error.LEADER_NOT_AVAILABLE: (
        "There is no leader for this topic-partition as we are in the middle of a leadership "
        "election."
    ),
    Error.NOT_LEADER_OR_FOLLOWER: (
        "For requests intended only for the leader, this error indicates that the broker is not "
        "the current leader. For requests intended for any replica, this error indicates that the "
        "broker is not a replica of the topic partition."
    ),
}
"""What Kafka says of an error where it says nothing else."""

Offsets = dict[Uuid, dict[int, int]]
"""Start offsets by topic id and partition."""


class Answered(msgspec.Struct):
    """What share coordinators have said of a partition: an error, and Kafka's words for it."""

    error: int
    message: str | None = None


def request_error(broker: Broker, request: Request, group_id: str, operation: Operation) -> Error:
    """Why a request does not reach its share group: 35, 30, 24, 16 or 14; or NONE."""
    if not broker.has_feature(features.SHARE):
        return Error.UNSUPPORTED_VERSION
    if not broker.allows(request, operation, ResourceType.GROUP, group_id):
        return Error.GROUP_AUTHORIZATION_FAILED
    if not group_id:
        return Error.INVALID_GROUP_ID
    return coordinators.group_error(broker, group_id)


def empty_group(broker: Broker, group_id: str) -> ShareGroup | Refused | None:
    """A share group without members, None where there is no such group, or a refusal: 68, 69."""
    group = groups.find(broker, group_id)
    if group is None:
        return None
    if not isinstance(group, ShareGroup):
        return Refused(Error.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")
    if group.members:
        return Refused(Error.NON_EMPTY_GROUP, "The group is not empty.")
    return group


def answers_in(response: ShareGroupStateResponse) -> dict[Uuid, dict[int, Answered]]:
    """What a share coordinator says, by topic id and partition."""
    return {
        topic.topic_id: {
            each.partition: Answered(each.error_code, each.error_message)
            for each in topic.partitions
        }
        for topic in response.results
    }


# Offsets are set


def begin(broker: Broker, group: ShareGroup, places: Places) -> list[Record]:
    """The partitions' states are to begin anew."""
    coordinator = ShareGroupCoordinator(broker, group)
    coordinator.begin_states(places)
    return coordinator.records


def begun(broker: Broker, group_id: str, offsets: Offsets) -> list[Record]:
    """The partitions' states have begun: they can be assigned."""
    group = groups.find(broker, group_id)
    if not isinstance(group, ShareGroup):
        return []
    coordinator = ShareGroupCoordinator(broker, group)
    coordinator.initialized({each: found for each, found in _places(offsets).items() if found})
    return coordinator.records


def next_to_begin(
    broker: Broker, group_id: str, epoch: int, offsets: Offsets, after: int = NOBODY
) -> Message | None:
    """What the share coordinator is asked that comes after another; None after the last."""
    asked = share_states.by_coordinator(broker, group_id, _places(offsets))
    receiver = min((each for each in asked if each > after), default=None)
    if receiver is None:
        return None
    topics = [
        InitializedTopic(
            topic_id=topic_id,
            partitions=[
                InitializedPartition(
                    partition=each, state_epoch=epoch, start_offset=offsets[topic_id][each]
                )
                for each in partitions
            ],
        )
        for topic_id, partitions in asked[receiver].items()
    ]
    body = InitializeShareGroupStateRequest(group_id=group_id, topics=topics)
    return Message(broker.id, receiver, kafka_apis.INITIALIZE_SHARE_GROUP_STATE.key, body)


def _places(offsets: Offsets) -> Places:
    return {topic_id: list(partitions) for topic_id, partitions in offsets.items()}


# Offsets are forgotten


def deletable(broker: Broker, group: ShareGroup, topic_id: Uuid) -> list[int]:
    """The partitions of a topic whose state there may be; those of a deletion that failed, too."""
    ready = share_states.partitions_of(group.initialized.get(topic_id))
    topic = broker.topic_by_id(topic_id)
    if ready or topic is None or topic_id not in group.deleting:
        return ready
    return list(range(len(topic.partitions)))


def deleting(broker: Broker, group: ShareGroup, names: dict[Uuid, str]) -> list[Record]:
    """The states of topics are to go."""
    coordinator = ShareGroupCoordinator(broker, group)
    ready = {each: known for each, known in group.initialized.items() if each not in names}
    coordinator.write_states(group.initializing, ready, {**group.deleting, **names})
    return coordinator.records


def deleting_all(broker: Broker, group: ShareGroup) -> list[Record]:
    """The states of a group that goes are to go; no record where it has none."""
    topics = map(broker.topic_by_id, {**group.initializing, **group.initialized})
    names = {topic.topic_id: topic.name for topic in topics if topic is not None}
    if not names and not group.deleting:
        return []
    coordinator = ShareGroupCoordinator(broker, group)
    coordinator.write_states({}, {}, {**group.deleting, **names})
    return coordinator.records


def deleted(broker: Broker, group_id: str, topic_ids: list[Uuid]) -> list[Record]:
    """The states of topics are gone."""
    group = groups.find(broker, group_id)
    if not isinstance(group, ShareGroup) or not topic_ids:
        return []
    coordinator = ShareGroupCoordinator(broker, group)
    left = {each: name for each, name in group.deleting.items() if each not in topic_ids}
    coordinator.write_states(group.initializing, group.initialized, left)
    return coordinator.records


def next_to_delete(
    broker: Broker, group_id: str, places: Places, after: int = NOBODY
) -> Message | None:
    """What the share coordinator is told that comes after another; None after the last."""
    asked = share_states.by_coordinator(broker, group_id, places)
    receiver = min((each for each in asked if each > after), default=None)
    if receiver is None:
        return None
    return share_states.deletion(broker, group_id, receiver, asked[receiver])
