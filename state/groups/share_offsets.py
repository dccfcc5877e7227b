"""Setting and deleting the offsets of a share group.

Source: `GroupMetadataManager.alterShareGroupOffsets`, `sharePartitionsEligibleForOffsetDeletion`,
`completeDeleteShareGroupOffsets`, `GroupCoordinatorService.persisterInitialize` in Kafka; KIP-932.
`share_states.py` has the requests to share coordinators.
"""

import msgspec

from brokertwin.protocol.bodies import Uuid
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.shared import ShareGroupStateResponse
from brokertwin.state.access.authorizer import Operation
from brokertwin.state.cluster import features
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.api import Refused
from brokertwin.state.core.decision import Condition, Decision, Message, Request
from brokertwin.state.core.records import Record
from brokertwin.state.groups import classic_rules, groups, share_states
from brokertwin.state.groups.modern_coordinator import other_kind
from brokertwin.state.groups.share_group import SHARE, ShareGroup
from brokertwin.state.groups.share_group_coordinator import ShareGroupCoordinator
from brokertwin.state.groups.share_states import Offsets, PartitionsByTopic
from brokertwin.state.share import state_store

ERROR_MESSAGES: dict[Error, str] = {
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
    Error.UNKNOWN_TOPIC_OR_PARTITION: state_store.UNKNOWN_PARTITION_MESSAGE,
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
"""Kafka's default messages of errors."""


class StatePersistResult(msgspec.Struct):
    """The result of a share coordinator for a partition."""

    error: int
    message: str | None = None


def request_error(broker: Broker, request: Request, group_id: str, operation: Operation) -> Error:
    """Return 35 UNSUPPORTED_VERSION or an error of `classic_rules.access_error`, or NONE."""
    if not broker.has_feature(features.SHARE):
        return Error.UNSUPPORTED_VERSION
    return classic_rules.access_error(broker, request, group_id, operation)


def wait_for_coordinators(
    broker: Broker, state: msgspec.Struct, messages: list[Message]
) -> Decision:
    """Keep a request pending until the responses arrive or the request timeout expires."""
    deadline = broker.now + broker.settings.request_timeout_ms
    return Decision(
        condition=Condition(deadline, [], msgspec.msgpack.encode(state)), messages=messages
    )


def empty_group(broker: Broker, group_id: str) -> ShareGroup | None:
    """Return a share group without members; None if it does not exist.

    Raises Refused: 68 NON_EMPTY_GROUP, 69 GROUP_ID_NOT_FOUND.
    """
    group = groups.find(broker, group_id)
    if group is None:
        return None
    if not isinstance(group, ShareGroup):
        raise other_kind(SHARE, group_id)
    if group.members:
        raise Refused(Error.NON_EMPTY_GROUP, "The group is not empty.")
    return group


def results_by_partition(
    response: ShareGroupStateResponse,
) -> dict[Uuid, dict[int, StatePersistResult]]:
    return {
        topic.topic_id: {
            each.partition: StatePersistResult(each.error_code, each.error_message)
            for each in topic.partitions
        }
        for topic in response.results
    }


# Setting offsets


def start_initializing(
    broker: Broker, group: ShareGroup, places: PartitionsByTopic
) -> list[Record]:
    coordinator = ShareGroupCoordinator(broker, group)
    coordinator.start_initializing(places)
    return coordinator.records


def finish_initializing(broker: Broker, group_id: str, offsets: Offsets) -> list[Record]:
    """Return the records that make initialized partitions assignable."""
    group = groups.find(broker, group_id)
    if not isinstance(group, ShareGroup):
        return []
    coordinator = ShareGroupCoordinator(broker, group)
    coordinator.mark_initialized({each: list(offset) for each, offset in offsets.items() if offset})
    return coordinator.records


# Deleting offsets


def deletable(broker: Broker, group: ShareGroup, topic_id: Uuid) -> list[int]:
    """Return a topic's partitions whose state may exist.

    After a failed deletion, these are all partitions.
    """
    ready = share_states.partitions_of(group.initialized.get(topic_id))
    topic = broker.topic_by_id(topic_id)
    if ready or topic is None or topic_id not in group.deleting:
        return ready
    return list(range(len(topic.partitions)))


def start_deleting(broker: Broker, group: ShareGroup, names: dict[Uuid, str]) -> list[Record]:
    coordinator = ShareGroupCoordinator(broker, group)
    ready = {each: info for each, info in group.initialized.items() if each not in names}
    coordinator.write_states(group.initializing, ready, {**group.deleting, **names})
    return coordinator.records


def start_deleting_all(broker: Broker, group: ShareGroup) -> list[Record]:
    topics = map(broker.topic_by_id, {**group.initializing, **group.initialized})
    names = {topic.topic_id: topic.name for topic in topics if topic is not None}
    if not names and not group.deleting:
        return []
    coordinator = ShareGroupCoordinator(broker, group)
    coordinator.write_states({}, {}, {**group.deleting, **names})
    return coordinator.records


def finish_deleting(broker: Broker, group_id: str, topic_ids: list[Uuid]) -> list[Record]:
    group = groups.find(broker, group_id)
    if not isinstance(group, ShareGroup) or not topic_ids:
        return []
    coordinator = ShareGroupCoordinator(broker, group)
    left = {each: name for each, name in group.deleting.items() if each not in topic_ids}
    coordinator.write_states(group.initializing, group.initialized, left)
    return coordinator.records
