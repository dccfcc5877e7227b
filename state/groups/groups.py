"""What the coordinator knows of a group, and which requests it takes from outside the rebalances.

Source: `GroupMetadataManager.group`, `ClassicGroup.validateOffsetCommit`, `.validateOffsetDelete`,
`.validateDeleteGroup`, `.isSubscribedToTopic` in Kafka.
"""

import base64
import struct

from brokerstream.state.access.authorizer import Operation, ResourceType
from brokerstream.state.cluster import coordinators
from brokerstream.state.cluster.machines import Broker
from brokerstream.state.core.decision import Request
from brokerstream.state.core.errors import Error
from brokerstream.state.groups import classic_group, committed_offsets, group_metadata
from brokerstream.state.groups.classic_group import CONSUMER, ClassicGroup, GroupState


def find(broker: Broker, group_id: str) -> ClassicGroup | None:
    """The group, to be read only: as it lives, else as it was written down."""
    living = classic_group.group(broker.tables.sessions, broker.id, group_id)
    return living or group_metadata.restored(broker.tables.groups, broker.id, group_id)


def all_groups(broker: Broker) -> list[ClassicGroup]:
    """Every group that the broker coordinates, to be read only, by id."""
    ids = committed_offsets.group_ids(broker.tables.groups, broker.id)
    found = [find(broker, group_id) for group_id in ids]
    return [group for group in found if group is not None]


def access_error(broker: Broker, request: Request, group_id: str) -> Error:
    """Why a member's request does not reach its group: 30, 24, 16, or NONE."""
    if not broker.allows(request, Operation.READ, ResourceType.GROUP, group_id):
        return Error.GROUP_AUTHORIZATION_FAILED
    if not group_id:
        return Error.INVALID_GROUP_ID
    return coordinators.group_error(broker, group_id)


def commit_error(
    group: ClassicGroup,
    member_id: str,
    group_instance_id: str | None,
    generation_id: int,
    is_transactional: bool = False,
) -> Error:
    """Why a group does not take offsets: 82, 25, 22, 27, or NONE."""
    is_empty = group.state is GroupState.EMPTY
    if generation_id < 0 and is_empty:
        return Error.NONE
    if generation_id >= 0 or member_id or group_instance_id is not None:
        error = group.member_error(member_id, group_instance_id)
        if error is not Error.NONE:
            return error
        if generation_id != group.generation_id:
            return Error.ILLEGAL_GENERATION
    elif not is_transactional and not is_empty:
        return Error.UNKNOWN_MEMBER_ID
    if not is_transactional and group.state is GroupState.COMPLETING_REBALANCE:
        return Error.REBALANCE_IN_PROGRESS
    return Error.NONE


def delete_error(group: ClassicGroup) -> Error:
    """Why a group cannot be deleted: NON_EMPTY_GROUP, or NONE."""
    return Error.NONE if group.state is GroupState.EMPTY else Error.NON_EMPTY_GROUP


def delete_offsets_error(group: ClassicGroup) -> Error:
    """Why no offset of a group can be deleted: members that are no consumers, or NONE."""
    is_open = group.state is GroupState.EMPTY or group.protocol_type == CONSUMER
    return Error.NONE if is_open else Error.NON_EMPTY_GROUP


def is_subscribed(group: ClassicGroup, topic: str) -> bool:
    """Whether a member of a group of consumers may be reading a topic; where unknown, it is."""
    if group.protocol_type != CONSUMER:
        return False
    topics = subscribed_topics(group)
    return topics is None or topic in topics


def subscribed_topics(group: ClassicGroup) -> set[str] | None:
    """The topics that the members of a generation of consumers subscribe to; None: unknown."""
    if not group.members:
        return set()
    if group.protocol_name is None:
        return None
    topics: set[str] = set()
    try:
        for member in group.members.values():
            topics.update(_topics_of(base64.b64decode(member.metadata(group.protocol_name))))
    except (ValueError, struct.error):
        return None
    return topics


def _topics_of(subscription: bytes) -> list[str]:
    """The topics of a ConsumerProtocolSubscription: int16 version, int32 count, strings.

    Raises ValueError or struct.error for bytes that are none.
    """
    (count,) = struct.unpack_from(">i", subscription, 2)
    topics = []
    at = 6
    for _ in range(count):
        (length,) = struct.unpack_from(">h", subscription, at)
        at += 2
        if length < 0 or at + length > len(subscription):
            raise ValueError("a string that is cut off")
        topics.append(subscription[at : at + length].decode())
        at += length
    return topics
