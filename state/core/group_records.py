"""Records of groups in `__consumer_offsets`, except offsets.

Source: `GroupMetadataValue`, `ConsumerGroup…Value` in Kafka. `state/groups` says when they are
written, `state/cell/apply.py` applies them.
"""

import msgspec

from brokertwin.protocol.bodies import Uuid


class GroupMember(msgspec.Struct, rename="camel"):
    """A group member; timeouts are in ms, bytes in base64."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: str
    assignment: str


class GroupMetadata(msgspec.Struct, rename="camel"):
    """Kafka's GroupMetadataValue: a classic group as last written."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    current_state_timestamp: int
    members: list[GroupMember]


class GroupMetadataWritten(msgspec.Struct, tag=True, rename="camel"):
    """A classic group's new state: a value in `__consumer_offsets`."""

    group_id: str
    metadata: GroupMetadata


class ClassicMemberMetadata(msgspec.Struct, frozen=True, rename="camel"):
    """Metadata of a classic protocol member; the timeout is in ms.

    `supported_protocols` has names and metadata in base64, in order of preference.
    """

    session_timeout_ms: int
    supported_protocols: list[tuple[str, str]]


class ConsumerMemberMetadata(msgspec.Struct, rename="camel"):
    """Kafka's ConsumerGroupMemberMetadataValue.

    The timeout is in ms; topic names are sorted.

    `classic_member_metadata` is set for a member that uses the classic protocol.
    """

    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: list[str]
    rebalance_timeout_ms: int
    server_assignor: str | None
    classic_member_metadata: ClassicMemberMetadata | None = None
    subscribed_topic_regex: str = ""


class ConsumerMemberAssignment(msgspec.Struct, rename="camel"):
    """Kafka's ConsumerGroupCurrentMemberAssignmentValue.

    `state` is Kafka's code.

    Both assignments map topic ids to partitions to the epoch in which the member got them.
    """

    member_epoch: int
    previous_member_epoch: int
    state: int
    assigned_partitions: dict[Uuid, dict[int, int]]
    partitions_pending_revocation: dict[Uuid, dict[int, int]]


class ConsumerGroupMetadataWritten(msgspec.Struct, tag=True, rename="camel"):
    """Kafka's ConsumerGroupMetadataValue; epoch None is the tombstone."""

    group_id: str
    epoch: int | None
    metadata_hash: int = 0


class ConsumerGroupMemberMetadataWritten(msgspec.Struct, tag=True, rename="camel"):
    """The metadata of a consumer group member; None is the tombstone."""

    group_id: str
    member_id: str
    metadata: ConsumerMemberMetadata | None


class ConsumerGroupTargetAssignmentMetadataWritten(msgspec.Struct, tag=True, rename="camel"):
    """Kafka's value of that name: epoch and time of a target assignment.

    An epoch None is the tombstone; the time is ms since 1970.
    """

    group_id: str
    assignment_epoch: int | None
    assignment_timestamp: int = 0


class ConsumerGroupTargetAssignmentMemberWritten(msgspec.Struct, tag=True, rename="camel"):
    """The target assignment of a member, by topic id. None is the tombstone."""

    group_id: str
    member_id: str
    topic_partitions: dict[Uuid, list[int]] | None


class ConsumerGroupCurrentMemberAssignmentWritten(msgspec.Struct, tag=True, rename="camel"):
    """A consumer group member's assignment and epoch; None: tombstone."""

    group_id: str
    member_id: str
    assignment: ConsumerMemberAssignment | None


class ResolvedRegularExpression(msgspec.Struct, frozen=True, rename="camel"):
    """Kafka's ConsumerGroupRegularExpressionValue: topics that match it.

    `topics` are sorted; `timestamp` is ms since 1970. `version` is the number of topics created
    by then; Kafka has the offset of its metadata instead.
    """

    topics: list[str]
    version: int
    timestamp: int


class ConsumerGroupRegularExpressionWritten(msgspec.Struct, tag=True, rename="camel"):
    """Topics of a group's regular expression; None if it is unused."""

    group_id: str
    regular_expression: str
    resolved: ResolvedRegularExpression | None


class ConsumerGroupPartitionMetadataRemoved(msgspec.Struct, tag=True, rename="camel"):
    """Tombstone of Kafka's ConsumerGroupPartitionMetadataValue.

    It is written with each group's tombstones.

    Earlier versions of Kafka wrote such values; Kafka 4.3 writes only their tombstones.
    """

    group_id: str


ConsumerGroupRecord = (
    ConsumerGroupMetadataWritten
    | ConsumerGroupMemberMetadataWritten
    | ConsumerGroupTargetAssignmentMetadataWritten
    | ConsumerGroupTargetAssignmentMemberWritten
    | ConsumerGroupCurrentMemberAssignmentWritten
    | ConsumerGroupRegularExpressionWritten
    | ConsumerGroupPartitionMetadataRemoved
)
"""A record of a consumer group."""


class GroupRemoved(msgspec.Struct, tag=True, rename="camel"):
    """A tombstone: the group was deleted."""

    group_id: str


class ShareMemberMetadata(msgspec.Struct, rename="camel"):
    """Kafka's ShareGroupMemberMetadataValue; topic names are sorted."""

    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: list[str]


class ShareMemberAssignment(msgspec.Struct, rename="camel"):
    """Kafka's ShareGroupCurrentMemberAssignmentValue, by topic id."""

    member_epoch: int
    previous_member_epoch: int
    state: int
    assigned_partitions: dict[Uuid, list[int]]


class StatePartitions(msgspec.Struct, rename="camel"):
    """A topic's partitions whose share state is initialized or requested."""

    topic_name: str
    partitions: list[int]
    timestamp: int = 0


class SharePartitionMetadata(msgspec.Struct, rename="camel"):
    """Kafka's ShareGroupStatePartitionMetadataValue, by topic id.

    `deleting` has the names of topics whose state will be deleted.
    """

    initializing: dict[Uuid, StatePartitions]
    initialized: dict[Uuid, StatePartitions]
    deleting: dict[Uuid, str] = {}


class ShareGroupMetadataWritten(msgspec.Struct, tag=True, rename="camel"):
    """Kafka's ShareGroupMetadataValue; epoch None is the tombstone."""

    group_id: str
    epoch: int | None
    metadata_hash: int = 0


class ShareGroupMemberMetadataWritten(msgspec.Struct, tag=True, rename="camel"):
    """The metadata of a share group member; None is the tombstone."""

    group_id: str
    member_id: str
    metadata: ShareMemberMetadata | None


class ShareGroupTargetAssignmentMetadataWritten(msgspec.Struct, tag=True, rename="camel"):
    """Kafka's value of that name: epoch and time of a target assignment.

    An epoch None is the tombstone; the time is ms since 1970.
    """

    group_id: str
    assignment_epoch: int | None
    assignment_timestamp: int = 0


class ShareGroupTargetAssignmentMemberWritten(msgspec.Struct, tag=True, rename="camel"):
    """The target assignment of a member, by topic id. None is the tombstone."""

    group_id: str
    member_id: str
    topic_partitions: dict[Uuid, list[int]] | None


class ShareGroupCurrentMemberAssignmentWritten(msgspec.Struct, tag=True, rename="camel"):
    """The assignment and epoch of a share group member; None is the tombstone."""

    group_id: str
    member_id: str
    assignment: ShareMemberAssignment | None


class ShareGroupStatePartitionMetadataWritten(msgspec.Struct, tag=True, rename="camel"):
    """A share group's partitions with state; None is the tombstone."""

    group_id: str
    metadata: SharePartitionMetadata | None
