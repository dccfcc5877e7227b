"""Requests of a classic group member to its coordinator.

Source: `AbstractCoordinator`, `ConsumerCoordinator` in Kafka.
"""

import base64
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from brokertwin.clients.assignors.group import NO_GENERATION, Subscription
from brokertwin.clients.assignors.member import MembersAssignor
from brokertwin.clients.consumer_config import ConsumerConfig
from brokertwin.clients.consumer_protocol import decode_subscription, encode_subscription
from brokertwin.clients.partitions import TopicPartition, grouped
from brokertwin.clients.subscription_state import SubscriptionState
from brokertwin.protocol.bodies import Body
from brokertwin.protocol.generated.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from brokertwin.protocol.generated.heartbeat import HeartbeatRequest, HeartbeatResponse
from brokertwin.protocol.generated.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from brokertwin.protocol.generated.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from brokertwin.protocol.generated.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from brokertwin.protocol.generated.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from brokertwin.protocol.generated.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from brokertwin.state.cluster.image import NO_EPOCH

PROTOCOL_TYPE = "consumer"
RESPONSES: dict[str, type[Body]] = {
    "FIND_COORDINATOR": FindCoordinatorResponse,
    "JOIN_GROUP": JoinGroupResponse,
    "SYNC_GROUP": SyncGroupResponse,
    "HEARTBEAT": HeartbeatResponse,
    "LEAVE_GROUP": LeaveGroupResponse,
    "OFFSET_COMMIT": OffsetCommitResponse,
    "OFFSET_FETCH": OffsetFetchResponse,
}
"""The response types of the member's requests."""


class CoordinatorRequest(NamedTuple):
    """A request to the coordinator, or to any broker while it is unknown.

    `request.timeout.ms` applies if `timeout_ms` is None.
    """

    id: int
    api: str
    body: Body
    to_coordinator: bool = True
    timeout_ms: int | None = None


class Generation(NamedTuple):
    """Generation and member id; -1 and "" outside a generation."""

    id: int = NO_GENERATION
    member_id: str = ""
    protocol: str = ""


def find_coordinator(config: ConsumerConfig) -> FindCoordinatorRequest:
    return FindCoordinatorRequest(coordinator_keys=[config.group_id])


def join_group(
    config: ConsumerConfig,
    generation: Generation,
    state: SubscriptionState,
    assignor: MembersAssignor,
    reason: str,
) -> JoinGroupRequest:
    protocols = {}
    for name in assignor.names:
        subscription = Subscription(
            topics=tuple(state.topics),
            owned=tuple(state.assigned),
            generation_id=generation.id,
            user_data=assignor.user_data(name),
            rack_id=config.client_rack or None,
        )
        protocols[name] = encode_subscription(subscription)
    return join_group_of(PROTOCOL_TYPE, config, generation, protocols, reason)


def join_group_of(
    protocol_type: str,
    config: ConsumerConfig,
    generation: Generation,
    protocols: Mapping[str, bytes],
    reason: str,
) -> JoinGroupRequest:
    """Join a group of any type; metadata by protocol name."""
    return JoinGroupRequest(
        group_id=config.group_id,
        session_timeout_ms=config.session_timeout_ms,
        rebalance_timeout_ms=config.max_poll_interval_ms,
        member_id=generation.member_id,
        group_instance_id=config.group_instance_id,
        protocol_type=protocol_type,
        protocols=[
            JoinGroupRequestProtocol(name=name, metadata=base64.b64encode(data).decode())
            for name, data in protocols.items()
        ],
        reason=reason,
    )


def subscriptions(response: JoinGroupResponse) -> dict[str, Subscription]:
    """Return the subscriptions that the leader receives, by member id."""
    return {
        member.member_id: decode_subscription(
            base64.b64decode(member.metadata), member.group_instance_id
        )
        for member in response.members
    }


def sync_group(
    config: ConsumerConfig,
    generation: Generation,
    assignment: Mapping[str, bytes],
    protocol_type: str = PROTOCOL_TYPE,
) -> SyncGroupRequest:
    """Send the assignments as the leader, or wait for one as a follower."""
    return SyncGroupRequest(
        group_id=config.group_id,
        generation_id=generation.id,
        member_id=generation.member_id,
        group_instance_id=config.group_instance_id,
        protocol_type=protocol_type,
        protocol_name=generation.protocol,
        assignments=[
            SyncGroupRequestAssignment(member_id=member, assignment=base64.b64encode(got).decode())
            for member, got in assignment.items()
        ],
    )


def heartbeat(config: ConsumerConfig, generation: Generation) -> HeartbeatRequest:
    return HeartbeatRequest(
        group_id=config.group_id,
        generation_id=generation.id,
        member_id=generation.member_id,
        group_instance_id=config.group_instance_id,
    )


def leave_group(config: ConsumerConfig, generation: Generation, reason: str) -> LeaveGroupRequest:
    leaving = MemberIdentity(member_id=generation.member_id, reason=reason)
    return LeaveGroupRequest(group_id=config.group_id, members=[leaving])


def offset_commit(
    config: ConsumerConfig,
    generation: Generation,
    offsets: Mapping[TopicPartition, int],
    epochs: Mapping[TopicPartition, int],
) -> OffsetCommitRequest:
    """Commit positions with the leader epochs of their preceding records."""
    topics: dict[str, OffsetCommitRequestTopic] = {}
    for at, offset in sorted(offsets.items()):
        topic = topics.setdefault(at.topic, OffsetCommitRequestTopic(name=at.topic, partitions=[]))
        topic.partitions.append(
            OffsetCommitRequestPartition(
                partition_index=at.partition,
                committed_offset=offset,
                committed_leader_epoch=epochs.get(at, NO_EPOCH),
                committed_metadata="",
            )
        )
    return OffsetCommitRequest(
        group_id=config.group_id,
        generation_id_or_member_epoch=generation.id,
        member_id=generation.member_id,
        group_instance_id=config.group_instance_id,
        topics=list(topics.values()),
    )


def offset_fetch(
    config: ConsumerConfig, partitions: Iterable[TopicPartition], member: Generation | None = None
) -> OffsetFetchRequest:
    """Fetch stable committed offsets.

    `member`: sent in a consumer group, whose coordinator fences other epochs.
    """
    topics = [
        OffsetFetchRequestTopics(name=topic, partition_indexes=at)
        for topic, at in grouped(partitions).items()
    ]
    group = OffsetFetchRequestGroup(group_id=config.group_id, topics=topics)
    if member is not None:
        group.member_id, group.member_epoch = member.member_id, member.id
    return OffsetFetchRequest(groups=[group], require_stable=True)
