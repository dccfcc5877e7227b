"""Which requests a group takes, beside those that drive its rebalances.

Source: `ClassicGroup.validateOffsetCommit`, `.validateOffsetDelete`,
`.validateDeleteGroup`, `.isSubscribedToTopic` in Kafka.
"""

import base64
import struct

from brokerstream.state.access.authorizer import Operation, ResourceType
from brokerstream.state.cluster import coordinators
from brokerstream.state.cluster.machines import Broker
from brokerstream.state.core.decision import Request
from brokerstream.state.core.errors import Error
from brokerstream.state.groups.classic_group import CONSUMER, GroupState
from brokerstream.state.groups.groups import Group


def access_error(broker: Broker, request: Request, group_id: str) -> Error:
    """Why a member's request does not reach its group: 30, 24, 16, or NONE."""
    if not broker.allows(request, Operation.READ, ResourceType.GROUP, group_id):
        return Error.GROUP_AUTHORIZATION_FAILED
    if not group_id:
        return Error.INVALID_GROUP_ID
    return coordinators.group_error(broker, group_id)


def commit_error(
    group: Group,
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


def delete_error(group: Group) -> Error:
    """Why a group cannot be deleted: NON_EMPTY_GROUP, or NONE."""
    return Error.NONE if group.state is GroupState.EMPTY else Error.NON_EMPTY_GROUP


def delete_offsets_error(group: Group) -> Error:
    """Why no offset of a group can be deleted: members that are no consumers, or NONE."""
    is_open = group.state is GroupState.EMPTY or group.protocol_type == CONSUMER
    return Error.NONE if is_open else Error.NON_EMPTY_GROUP


def subscribed_topics(group: Group) -> set[str] | None:
    """The topics that members of a group of consumers may be reading; None: any."""
    if group.protocol_type != CONSUMER or not group.members:
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
