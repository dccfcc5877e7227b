"""Which requests a classic group takes, beside those that drive its rebalances.

Source: `ClassicGroup.validateOffsetCommit`, `.validateOffsetDelete`,
`.validateDeleteGroup`, `.isSubscribedToTopic`, `.offsetExpirationCondition` in Kafka.
"""

import msgspec

from brokertwin.state.access.authorizer import Operation, ResourceType
from brokertwin.state.cluster import coordinators, topics
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.decision import Request
from brokertwin.state.core.errors import NONE, Error
from brokertwin.state.core.group_records import GroupRemoved
from brokertwin.state.core.records import (
    Record,
)
from brokertwin.state.core.schema import Uuid
from brokertwin.state.groups.classic_group import CONSUMER, NO_TIME, ClassicGroup, ClassicGroupState


class OffsetCommitCheck(msgspec.Struct):
    """Who commits what, as the coordinator of a group of any kind looks at it.

    Attributes:
        member_id: "" where nobody is named.
        group_instance_id: of a static member.
        generation: or member epoch; below 0 from outside the group.
        version: of OffsetCommit, or of TxnOffsetCommit.
        places: topic, its id, and partition of each offset that may be stored.
        is_transactional: whether a transaction commits.
    """

    member_id: str
    group_instance_id: str | None
    generation: int
    version: int
    places: list[tuple[str, Uuid, int]]
    is_transactional: bool = False


def access_error(broker: Broker, request: Request, group_id: str) -> Error:
    """Why a member's request does not reach its group: 30, 24, 16, or NONE."""
    if broker.has_authorizer and not broker.allows(
        request, Operation.READ, ResourceType.GROUP, group_id
    ):
        return Error.GROUP_AUTHORIZATION_FAILED
    if not group_id:
        return Error.INVALID_GROUP_ID
    return coordinators.group_error(broker, group_id)


def new_member_id(request: Request) -> str:
    """An id for a member that has drawn none: the one chosen, or one that the nonce gives."""
    return request.choices.member_id or topics.derive_uuid(request.nonce, "member")


def commit_error(group: ClassicGroup, commit: OffsetCommitCheck) -> Error:
    """Why a group does not take offsets: 82, 25, 22, 27, or NONE."""
    is_empty = group.state is ClassicGroupState.EMPTY
    if commit.generation < 0 and is_empty:
        return NONE
    if commit.generation >= 0 or commit.member_id or commit.group_instance_id is not None:
        error = group.member_error(commit.member_id, commit.group_instance_id)
        if error is not NONE:
            return error
        if commit.generation != group.generation_id:
            return Error.ILLEGAL_GENERATION
    elif not commit.is_transactional and not is_empty:
        return Error.UNKNOWN_MEMBER_ID
    if not commit.is_transactional and group.state is ClassicGroupState.COMPLETING_REBALANCE:
        return Error.REBALANCE_IN_PROGRESS
    return NONE


def fetch_error(_group: ClassicGroup, _member_id: str | None, _member_epoch: int) -> Error:
    """A classic group tells everybody its offsets."""
    return NONE


def delete_error(group: ClassicGroup) -> Error:
    """Why a group cannot be deleted: NON_EMPTY_GROUP, or NONE."""
    return NONE if group.state is ClassicGroupState.EMPTY else Error.NON_EMPTY_GROUP


def delete_offsets_error(group: ClassicGroup) -> Error:
    """Why no offset of a group can be deleted: members that are no consumers, or NONE."""
    is_open = group.state is ClassicGroupState.EMPTY or group.protocol_type == CONSUMER
    return NONE if is_open else Error.NON_EMPTY_GROUP


def subscribed_topics(group: ClassicGroup) -> set[str] | None:
    """The topics that members of a group of consumers may be reading; None: any."""
    if group.protocol_type != CONSUMER:
        return set()
    subscribed = group.subscriptions() if group.subscribed is msgspec.UNSET else group.subscribed
    return None if subscribed is None else set(subscribed)


def kept_since(group: ClassicGroup, commit_timestamp: int) -> int | None:
    """From when on an offset is kept for offsets.retention.minutes; None where it does not expire.

    The clock of a group without members begins when the last one went.
    """
    if group.protocol_type is None:
        return commit_timestamp
    if group.state is ClassicGroupState.EMPTY:
        is_timed = group.state_timestamp != NO_TIME
        return group.state_timestamp if is_timed else commit_timestamp
    is_read = group.protocol_type == CONSUMER and group.state is ClassicGroupState.STABLE
    return commit_timestamp if is_read else None


def tombstones(group: ClassicGroup) -> list[Record]:
    """The records by which a group goes."""
    return [GroupRemoved(group.group_id)]
