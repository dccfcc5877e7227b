"""Records: every change of durable state.

Only `state/cell/apply.py` reads them.

A record names its machine through the stream it is in (`RecordEntry`). Replaying the records from
empty gives the same durable state. Records of the controller are Kafka's metadata records
(TopicRecord, PartitionRecord, ProducerIdsRecord); those of a broker describe its logs and
coordinators.
"""

import msgspec

from brokertwin.protocol.batch_headers import Batch
from brokertwin.protocol.bodies import ZERO_UUID, Float64, Uuid
from brokertwin.state.core.group_records import GroupRecord
from brokertwin.state.core.share_records import ShareStateWritten


class TopicCreated(msgspec.Struct, tag=True, rename="camel"):
    """Kafka's TopicRecord and PartitionRecords of a new topic.

    `replicas[p]` has the brokers of partition p, `configs` the topic's own settings. `created` is
    ms since 1970.
    """

    topic_id: Uuid
    name: str
    replicas: list[list[int]]
    configs: dict[str, str]
    created: int = 0


class PartitionsAdded(msgspec.Struct, tag=True, rename="camel"):
    """PartitionRecords of new partitions, numbered after existing ones."""

    topic_id: Uuid
    replicas: list[list[int]]


class PartitionChanged(msgspec.Struct, tag=True, rename="camel"):
    """Kafka's PartitionChangeRecord with a new leader.

    `replicas` are the partition's new brokers, all in sync. `former_leader` drops its state of the
    partition; `leader` has it from a PartitionTaken before this record.
    """

    topic_id: Uuid
    partition: int
    former_leader: int
    leader: int
    leader_epoch: int
    replicas: list[int]


class PartitionTaken(msgspec.Struct, tag=True, rename="camel"):
    """The future leader of a partition received the state of the current one.

    `items` has the encoded items of each table, by the part of the key after the machine.
    """

    topic_id: Uuid
    partition: int
    items: dict[str, dict[str, bytes]]


class PartitionLoaded(msgspec.Struct, tag=True, rename="camel"):
    """A coordinator loaded a partition of its internal topic."""

    topic_id: Uuid
    partition: int


class PartitionUnloaded(msgspec.Struct, tag=True, rename="camel"):
    """A broker unloaded a partition that it coordinated."""

    topic_id: Uuid
    partition: int


class PartitionAltered(msgspec.Struct, tag=True, rename="camel"):
    """Kafka's PartitionChangeRecord: changes of a partition; None: unchanged.

    It raises the partition epoch, and the leader epoch if it names a leader (-1 for none).
    """

    topic_id: Uuid
    partition: int
    isr: list[int] | None = None
    leader: int | None = None
    leader_recovery_state: int | None = None
    replicas: list[int] | None = None
    adding_replicas: list[int] | None = None
    removing_replicas: list[int] | None = None
    eligible_leader_replicas: list[int] | None = None
    last_known_elr: list[int] | None = None


class BrokerRegistrationChanged(msgspec.Struct, tag=True, rename="camel"):
    """Kafka's BrokerRegistrationChangeRecord: a broker was fenced or unfenced."""

    broker: int
    is_fenced: bool
    in_controlled_shutdown: bool = False
    log_dirs: list[Uuid] = []
    """The log directories that have not failed; empty: unchanged."""


class ReplicasAssigned(msgspec.Struct, tag=True, rename="camel"):
    """A broker's directory ids by partition; raises partition epochs."""

    broker: int
    topic_id: Uuid
    directories: dict[int, Uuid]


class BrokerRegistered(msgspec.Struct, tag=True, rename="camel"):
    """Kafka's RegisterBrokerRecord: a new or updated incarnation."""

    broker: int
    broker_epoch: int
    incarnation_id: Uuid
    is_fenced: bool
    in_controlled_shutdown: bool
    log_dirs: list[Uuid]
    sends_heartbeats: bool = False
    """The broker registered by a request; it is fenced without heartbeats."""
    host: str = ""
    port: int = -1
    """Port of the first listener."""
    rack: str | None = None
    listeners: dict[str, tuple[str, int]] = {}
    """Host and port by listener name; empty for brokers of the settings."""
    start: int = 0
    """Number of the start for which a broker waits; 0 after a request."""


class BrokerUnregistered(msgspec.Struct, tag=True, rename="camel"):
    """Kafka's UnregisterBrokerRecord."""

    broker: int


class FeatureLevelChanged(msgspec.Struct, tag=True, rename="camel"):
    """Kafka's FeatureLevelRecord: the new level of a cluster feature."""

    name: str
    level: int


class TopicRemoved(msgspec.Struct, tag=True, rename="camel"):
    """Kafka's RemoveTopicRecord: deletes a topic, its logs and producers."""

    topic_id: Uuid


class ConfigChanged(msgspec.Struct, tag=True, rename="camel"):
    """Kafka's ConfigRecord, with its resource type; None removes the value."""

    resource_type: int
    resource_name: str
    name: str
    value: str | None


class AccessControlEntryAdded(msgspec.Struct, tag=True, rename="camel"):
    """Kafka's AccessControlEntryRecord, with Kafka's codes."""

    id: Uuid
    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


class AccessControlEntryRemoved(msgspec.Struct, tag=True, rename="camel"):
    """Kafka's RemoveAccessControlEntryRecord."""

    id: Uuid


class DelegationTokenWritten(msgspec.Struct, tag=True, rename="camel", kw_only=True):
    """Kafka's DelegationTokenRecord, with digest and typed principals."""

    token_id: str
    digest: str
    owner: str
    requester: str
    renewers: list[str]
    issue_timestamp: int
    max_timestamp: int
    expiry_timestamp: int


class DelegationTokenRemoved(msgspec.Struct, tag=True, rename="camel"):
    """Kafka's RemoveDelegationTokenRecord."""

    token_id: str


class ClientQuotaAltered(msgspec.Struct, tag=True, rename="camel"):
    """Kafka's ClientQuotaRecord: a quota of an entity; None removes it.

    `entity` has a name, or None for the default, for each of its types.
    """

    entity: dict[str, str | None]
    key: str
    value: Float64 | None


class ProducerIdBlockAllocated(msgspec.Struct, tag=True, rename="camel"):
    """Kafka's ProducerIdsRecord: brokers own ids below `next_producer_id`."""

    broker_id: int
    next_producer_id: int


class ProducerIdBlockReceived(msgspec.Struct, tag=True, rename="camel"):
    """A broker received `size` producer ids, starting with `first`."""

    first: int
    size: int


class ProducerIdBlockWritten(msgspec.Struct, tag=True, rename="camel"):
    """A broker wrote its id block with the document version that it had read."""

    document: str
    version: int


class ProducerIdIssued(msgspec.Struct, tag=True, rename="camel"):
    """A broker assigned `producer_id` to a producer."""

    producer_id: int


class BatchAppended(msgspec.Struct, tag=True, rename="camel"):
    """A batch was appended, with its offset and leader epoch in the log."""

    topic_id: Uuid
    partition: int
    batch: Batch


class ProducersExpired(msgspec.Struct, tag=True, rename="camel"):
    """A partition dropped producers: expired, or without records."""

    topic_id: Uuid
    partition: int
    producer_ids: list[int]


class ProducerNoted(msgspec.Struct, tag=True, rename="camel"):
    """A partition without a log noted a producer's offsets or marker.

    It is a partition of `__consumer_offsets`.
    """

    topic_id: Uuid
    partition: int
    producer_id: int
    producer_epoch: int
    timestamp: int
    coordinator_epoch: int = -1


class LogStartMoved(msgspec.Struct, tag=True, rename="camel", omit_defaults=True):
    """Records below `log_start_offset` are deleted (DeleteRecords, retention).

    `segments_deleted_to` is the end of the segments that retention has deleted.
    """

    topic_id: Uuid
    partition: int
    log_start_offset: int
    segments_deleted_to: int = -1


class LogCleaned(msgspec.Struct, tag=True, rename="camel"):
    """A cleaner pass below `end_offset` left `batches` of a compacted log.

    `unchanged` has runs of the index that are kept: the last offset of the first and of the last
    batch in each. `aborted` has the offsets of their markers that readers still need.
    """

    topic_id: Uuid
    partition: int
    end_offset: int
    batches: list[Batch]
    aborted: list[int] = []
    unchanged: list[tuple[int, int]] = []


class HighWatermarkMoved(msgspec.Struct, tag=True, rename="camel"):
    """The high watermark of this replica changed."""

    topic_id: Uuid
    partition: int
    high_watermark: int


class LogTruncated(msgspec.Struct, tag=True, rename="camel"):
    """A follower truncated a divergent log at `log_end_offset`."""

    topic_id: Uuid
    partition: int
    log_end_offset: int


class LogStartedAnew(msgspec.Struct, tag=True, rename="camel"):
    """A follower dropped its log and starts an empty one at `offset`."""

    topic_id: Uuid
    partition: int
    offset: int


class LogTaken(msgspec.Struct, tag=True, rename="camel"):
    """A follower copied its leader's log and producers to get sealed batches.

    `items` has the encoded items of each table, by the part of the key after the machine.
    """

    topic_id: Uuid
    partition: int
    items: dict[str, dict[str, bytes]]


class LogPlaced(msgspec.Struct, tag=True, rename="camel"):
    """A broker with several log directories chose the directory of a new log."""

    topic_id: Uuid
    partition: int
    directory: str


class LineLogged(msgspec.Struct, tag=True, rename="camel"):
    """A line of a broker's log (`brokertwin.trace.replication`, `brokertwin.trace.sessions`)."""

    line: str


class TransactionMetadata(msgspec.Struct, rename="camel"):
    """Kafka's TransactionLogValue.

    Absent values are `-1`, times are ms since 1970. `last_producer_epoch` is the epoch before the
    last one that the producer itself requested. `partitions` has the transaction's partitions by
    topic. While the transaction ends, it has those whose leader has not written the marker yet.
    `client_transaction_version` is TV_2 (2) if the end has bumped the epoch.
    """

    producer_id: int
    producer_epoch: int
    previous_producer_id: int = -1
    next_producer_id: int = -1
    last_producer_epoch: int = -1
    transaction_timeout_ms: int = -1
    state: str = "Empty"
    last_update_timestamp: int = -1
    transaction_start_timestamp: int = -1
    partitions: dict[str, list[int]] = {}
    client_transaction_version: int = 0


class TransactionMetadataWritten(msgspec.Struct, tag=True, rename="camel", omit_defaults=True):
    """A transactional id's new state: a value in `__transaction_state`.

    `row_version` is that value's version, from the feature `transaction.version`.
    """

    transactional_id: str
    metadata: TransactionMetadata
    row_version: int = 1


class TransactionMarkersWritten(msgspec.Struct, tag=True, rename="camel"):
    """Leaders wrote markers; `partitions` remain. Not written to a log."""

    transactional_id: str
    partitions: dict[str, list[int]]


class TransactionalIdExpired(msgspec.Struct, tag=True, rename="camel"):
    """A tombstone: the transactional id expired."""

    transactional_id: str


class OffsetCommitted(msgspec.Struct, tag=True, rename="camel"):
    """A committed offset.

    `topic_id` is the topic's id at the commit. `expire_timestamp` is `-1` if the request has no
    retention. `producer_id` is the producer whose transaction committed the offset, or `-1`.
    """

    group_id: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: int
    expire_timestamp: int = -1
    topic_id: Uuid = ZERO_UUID
    producer_id: int = -1


class TransactionalOffset(msgspec.Struct, rename="camel"):
    """A pending offset of a transaction."""

    topic: str
    topic_id: Uuid
    partition: int
    offset: int
    leader_epoch: int
    metadata: str


class TransactionalOffsetsWritten(msgspec.Struct, tag=True, rename="camel"):
    """A group's offsets in a transaction: pending until its marker."""

    group_id: str
    producer_id: int
    commit_timestamp: int
    offsets: list[TransactionalOffset]
    producer_epoch: int = -1


class TransactionalOffsetsEnded(msgspec.Struct, tag=True, rename="camel"):
    """The marker of a producer's transaction ended its pending offsets.

    Committed offsets are in the OffsetCommitted records before this one.
    """

    producer_id: int
    group_ids: list[str]


class OffsetDeleted(msgspec.Struct, tag=True, rename="camel"):
    """A tombstone: the committed offset of a partition was deleted."""

    group_id: str
    topic: str
    partition: int


Record = (
    TopicCreated
    | PartitionsAdded
    | PartitionChanged
    | PartitionTaken
    | PartitionLoaded
    | PartitionUnloaded
    | PartitionAltered
    | ReplicasAssigned
    | BrokerRegistered
    | BrokerRegistrationChanged
    | BrokerUnregistered
    | FeatureLevelChanged
    | TopicRemoved
    | ConfigChanged
    | AccessControlEntryAdded
    | AccessControlEntryRemoved
    | DelegationTokenWritten
    | DelegationTokenRemoved
    | ClientQuotaAltered
    | ProducerIdBlockAllocated
    | ProducerIdBlockReceived
    | ProducerIdBlockWritten
    | ProducerIdIssued
    | BatchAppended
    | ProducersExpired
    | ProducerNoted
    | LogStartMoved
    | LogCleaned
    | HighWatermarkMoved
    | LogTruncated
    | LogStartedAnew
    | LogTaken
    | LogPlaced
    | LineLogged
    | TransactionMetadataWritten
    | TransactionMarkersWritten
    | TransactionalIdExpired
    | OffsetCommitted
    | OffsetDeleted
    | GroupRecord
    | ShareStateWritten
    | TransactionalOffsetsWritten
    | TransactionalOffsetsEnded
)

OFFSETS = (OffsetCommitted, OffsetDeleted)
"""Records by which a committed offset changes."""


class RecordEntry(msgspec.Struct, rename="camel", gc=False):
    """A record in the topic `records`, with its machine, time and event.

    `machine` is a broker's id, or `-1` for the controller; `time` is ms since 1970.
    """

    machine: int
    time: int
    event_id: str
    record: Record
