"""Records of streams groups in `__consumer_offsets` (KIP-1071).

Source: `StreamsGroup…Value` in Kafka. `state/groups/streams_group_records.py` applies them. Tasks
map subtopology ids to partitions. The active tasks of a member map subtopology ids to partitions to
the epoch in which the member got them.
"""

import msgspec

Tasks = dict[str, list[int]]
"""Partitions by subtopology id, sorted."""

TasksWithEpochs = dict[str, dict[int, int]]
"""Subtopology id to partition to the epoch in which the member got it."""


class TopicInfo(msgspec.Struct, frozen=True, rename="camel"):
    """An internal topic of a topology.

    0 partitions or replicas: the topology does not set the number.

    `topic_configs` are keys and values.
    """

    name: str
    partitions: int = 0
    replication_factor: int = 0
    topic_configs: list[tuple[str, str]] = []


class CopartitionGroup(msgspec.Struct, frozen=True, rename="camel"):
    """Copartitioned topics: positions in the subtopology's lists."""

    source_topics: list[int] = []
    source_topic_regex: list[int] = []
    repartition_source_topics: list[int] = []


class Subtopology(msgspec.Struct, frozen=True, rename="camel"):
    """A part of a topology that is connected with others by topics only."""

    subtopology_id: str
    source_topics: list[str] = []
    source_topic_regex: list[str] = []
    state_changelog_topics: list[TopicInfo] = []
    repartition_sink_topics: list[str] = []
    repartition_source_topics: list[TopicInfo] = []
    copartition_groups: list[CopartitionGroup] = []


class StreamsTopology(msgspec.Struct, frozen=True, rename="camel"):
    """Kafka's StreamsGroupTopologyValue."""

    epoch: int
    subtopologies: list[Subtopology]


class Endpoint(msgspec.Struct, frozen=True, rename="camel"):
    """The address of an instance for interactive queries."""

    host: str
    port: int


class StreamsMemberMetadata(msgspec.Struct, rename="camel"):
    """Kafka's StreamsGroupMemberMetadataValue; the timeout is in ms."""

    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    topology_epoch: int
    process_id: str
    user_endpoint: Endpoint | None
    client_tags: dict[str, str]


class MemberTasks(msgspec.Struct, frozen=True, rename="camel"):
    """The tasks of a member, owned or to be revoked."""

    active: TasksWithEpochs = {}
    standby: Tasks = {}
    warmup: Tasks = {}


class TargetTasks(msgspec.Struct, frozen=True, rename="camel"):
    """Kafka's StreamsGroupTargetAssignmentMemberValue: a member's tasks."""

    active: Tasks = {}
    standby: Tasks = {}
    warmup: Tasks = {}


class StreamsMemberAssignment(msgspec.Struct, rename="camel"):
    """Kafka's StreamsGroupCurrentMemberAssignmentValue.

    `state` is Kafka's code.
    """

    member_epoch: int
    previous_member_epoch: int
    state: int
    assigned: MemberTasks
    pending_revocation: MemberTasks


class StreamsGroupMetadataWritten(msgspec.Struct, tag=True, rename="camel"):
    """Kafka's StreamsGroupMetadataValue; epoch None is the tombstone.

    `validated_topology_epoch` is `-1` while topics are missing or do not fit together.
    """

    group_id: str
    epoch: int | None
    metadata_hash: int = 0
    validated_topology_epoch: int = -1
    last_assignment_configs: dict[str, str] = {}


class StreamsGroupMemberMetadataWritten(msgspec.Struct, tag=True, rename="camel"):
    """The metadata of a streams group member; None is the tombstone."""

    group_id: str
    member_id: str
    metadata: StreamsMemberMetadata | None


class StreamsGroupTopologyWritten(msgspec.Struct, tag=True, rename="camel"):
    """The topology of a streams group; None is the tombstone."""

    group_id: str
    topology: StreamsTopology | None


class StreamsGroupTargetAssignmentMetadataWritten(msgspec.Struct, tag=True, rename="camel"):
    """Kafka's value of that name: epoch and time of a target assignment.

    An epoch None is the tombstone; the time is ms since 1970.
    """

    group_id: str
    assignment_epoch: int | None
    assignment_timestamp: int = 0


class StreamsGroupTargetAssignmentMemberWritten(msgspec.Struct, tag=True, rename="camel"):
    """The target assignment of a streams group member; None is the tombstone."""

    group_id: str
    member_id: str
    tasks: TargetTasks | None


class StreamsGroupCurrentMemberAssignmentWritten(msgspec.Struct, tag=True, rename="camel"):
    """A streams group member's assignment and epoch; None: tombstone."""

    group_id: str
    member_id: str
    assignment: StreamsMemberAssignment | None


StreamsRecord = (
    StreamsGroupMetadataWritten
    | StreamsGroupMemberMetadataWritten
    | StreamsGroupTopologyWritten
    | StreamsGroupTargetAssignmentMetadataWritten
    | StreamsGroupTargetAssignmentMemberWritten
    | StreamsGroupCurrentMemberAssignmentWritten
)
"""A record of a streams group."""

OF_STREAMS = (
    StreamsGroupMetadataWritten,
    StreamsGroupMemberMetadataWritten,
    StreamsGroupTopologyWritten,
    StreamsGroupTargetAssignmentMetadataWritten,
    StreamsGroupTargetAssignmentMemberWritten,
    StreamsGroupCurrentMemberAssignmentWritten,
)
"""`StreamsRecord` as a tuple for `isinstance`."""


def is_tombstone(record: StreamsRecord) -> bool:
    """True if the record deletes the value of its key."""
    match record:
        case StreamsGroupMetadataWritten():
            return record.epoch is None
        case StreamsGroupMemberMetadataWritten():
            return record.metadata is None
        case StreamsGroupTopologyWritten():
            return record.topology is None
        case StreamsGroupTargetAssignmentMetadataWritten():
            return record.assignment_epoch is None
        case StreamsGroupTargetAssignmentMemberWritten():
            return record.tasks is None
        case StreamsGroupCurrentMemberAssignmentWritten():
            return record.assignment is None


def key_of(record: StreamsRecord) -> tuple[str, ...]:
    """Return the record's key; a later record replaces it."""
    member_id = getattr(record, "member_id", None)
    names = (record.group_id,) if member_id is None else (record.group_id, member_id)
    return (type(record).__name__, *names)
