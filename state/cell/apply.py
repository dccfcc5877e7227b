"""`apply`: the only writer of durable state, live and in a replay."""

from collections.abc import Callable
from typing import Any

from brokertwin.protocol.bodies import Uuid
from brokertwin.state.access import authorizer, delegation_tokens
from brokertwin.state.cell import leaders, loading
from brokertwin.state.cluster import (
    broker_configs,
    client_instances,
    client_quotas,
    config_changes,
    given_configs,
    image,
    metadata_log,
    retention_limits,
)
from brokertwin.state.cluster.log_tails import tail_of
from brokertwin.state.core.decision import CONTROLLER
from brokertwin.state.core.group_records import (
    ConsumerGroupCurrentMemberAssignmentWritten,
    ConsumerGroupMemberMetadataWritten,
    ConsumerGroupMetadataWritten,
    ConsumerGroupPartitionMetadataRemoved,
    ConsumerGroupRegularExpressionWritten,
    ConsumerGroupTargetAssignmentMemberWritten,
    ConsumerGroupTargetAssignmentMetadataWritten,
    GroupMetadataWritten,
    GroupRemoved,
    ShareGroupCurrentMemberAssignmentWritten,
    ShareGroupMemberMetadataWritten,
    ShareGroupMetadataWritten,
    ShareGroupStatePartitionMetadataWritten,
    ShareGroupTargetAssignmentMemberWritten,
    ShareGroupTargetAssignmentMetadataWritten,
)
from brokertwin.state.core.records import (
    AccessControlEntryAdded,
    AccessControlEntryRemoved,
    BatchAppended,
    BrokerRegistered,
    BrokerRegistrationChanged,
    BrokerUnregistered,
    ClientQuotaAltered,
    ConfigChanged,
    DelegationTokenRemoved,
    DelegationTokenWritten,
    FeatureLevelChanged,
    HighWatermarkMoved,
    LineLogged,
    LogCleaned,
    LogPlaced,
    LogStartedAnew,
    LogStartMoved,
    LogTaken,
    LogTruncated,
    OffsetCommitted,
    OffsetDeleted,
    PartitionAltered,
    PartitionChanged,
    PartitionLoaded,
    PartitionsAdded,
    PartitionTaken,
    PartitionUnloaded,
    ProducerIdBlockAllocated,
    ProducerIdBlockReceived,
    ProducerIdBlockWritten,
    ProducerIdIssued,
    ProducerNoted,
    ProducersExpired,
    Record,
    ReplicasAssigned,
    TopicCreated,
    TopicRemoved,
    TransactionalIdExpired,
    TransactionalOffsetsEnded,
    TransactionalOffsetsWritten,
    TransactionMarkersWritten,
    TransactionMetadataWritten,
)
from brokertwin.state.core.share_records import ShareStateWritten
from brokertwin.state.core.streams_records import (
    StreamsGroupCurrentMemberAssignmentWritten,
    StreamsGroupMemberMetadataWritten,
    StreamsGroupMetadataWritten,
    StreamsGroupTargetAssignmentMemberWritten,
    StreamsGroupTargetAssignmentMetadataWritten,
    StreamsGroupTopologyWritten,
)
from brokertwin.state.core.tables import CellTables
from brokertwin.state.eras import zookeeper_producer_ids
from brokertwin.state.groups import (
    committed_offsets,
    consumer_group_records,
    groups,
    share_group_records,
    streams_group_records,
)
from brokertwin.state.logs import (
    cleaner,
    deleted_times,
    log,
    producer,
    rolling,
    taking,
    truncation,
)
from brokertwin.state.logs.log import SealedSegment
from brokertwin.state.replication import cleaning
from brokertwin.state.share import share_partitions, state_store
from brokertwin.state.transactions import (
    producer_ids,
    transactional_ids,
    transactional_offsets,
)
from brokertwin.state.transactions import transaction_verification as verifications

METADATA_RECORDS: frozenset[type] = frozenset(
    {
        *(TopicCreated, PartitionsAdded, PartitionChanged, PartitionAltered, TopicRemoved),
        ReplicasAssigned,
        *(BrokerRegistered, BrokerRegistrationChanged, BrokerUnregistered),
        *(ConfigChanged, FeatureLevelChanged, ClientQuotaAltered),
        *(AccessControlEntryAdded, AccessControlEntryRemoved),
        *(DelegationTokenWritten, DelegationTokenRemoved),
    }
)
"""Records of the controller that every broker applies to its own image."""


KEEPS_TAILS: frozenset[type] = frozenset(
    {
        *(BatchAppended, HighWatermarkMoved),
        *(OffsetCommitted, OffsetDeleted),
        *(TransactionalOffsetsWritten, TransactionalOffsetsEnded),
        *(TransactionMetadataWritten, TransactionMarkersWritten, ProducerIdIssued),
    }
)
"""Frequent records after which the ends of logs (`Tables.tails`) are as they were, or have moved
with the appends."""


def apply(tables: CellTables, machine: int, record: Record) -> SealedSegment | None:
    """Write a record into the tables of `machine`.

    Returns:
        The part of a log's index that leaves the state, if any.
    """
    return APPLIERS[type(record)](tables, machine, record)


def _topic_created(tables: CellTables, machine: int, record: TopicCreated) -> None:
    image.apply_topic_created(tables.metadata, machine, record)
    for partition, replicas in enumerate(record.replicas):
        if machine in replicas:
            log.create(tables.logs, machine, record.topic_id, record.name, partition)


def _partitions_added(tables: CellTables, machine: int, record: PartitionsAdded) -> None:
    topic = image.topic_by_id(tables.metadata, machine, record.topic_id)
    assert topic is not None, record.topic_id
    first = len(topic.partitions)
    image.apply_partitions_added(tables.metadata, machine, record)
    for partition, replicas in enumerate(record.replicas, first):
        if machine in replicas:
            log.create(tables.logs, machine, record.topic_id, topic.name, partition)


def _topic_removed(tables: CellTables, machine: int, record: TopicRemoved) -> None:
    topic = image.topic_by_id(tables.metadata, machine, record.topic_id)
    if topic is None:
        return
    for partition in range(len(topic.partitions)) if machine != CONTROLLER else ():
        log.remove(tables.logs, machine, record.topic_id, partition)
        producer.remove_partition(tables.producers, machine, record.topic_id, partition)
        verifications.forget_partition(tables.in_flight, machine, record.topic_id, partition)
    state_store.forget_topic(tables.groups, machine, record.topic_id)
    share_partitions.forget_topic(tables, machine, record.topic_id)
    image.apply_topic_removed(tables.metadata, machine, record)
    retention_limits.forget_rolling_rules(tables.metadata)


def _partition_loaded(tables: CellTables, machine: int, record: PartitionLoaded) -> None:
    loading.apply_loaded(tables, machine, record, apply)


_GIVEN = {
    config_changes.GROUP: given_configs.GROUPS,
    config_changes.CLIENT_METRICS: given_configs.CLIENT_METRICS,
}
"""The place of the settings of a type of resources."""


def _config_changed(tables: CellTables, machine: int, record: ConfigChanged) -> None:
    if record.resource_type == config_changes.BROKER:
        broker_configs.apply_changed(tables.metadata, machine, record)
    elif record.resource_type in _GIVEN:
        given_configs.apply_changed(tables.metadata, machine, _GIVEN[record.resource_type], record)
        if record.resource_type == config_changes.CLIENT_METRICS:
            client_instances.count_change(tables.client_instances, machine)
    else:
        image.apply_config_changed(tables.metadata, machine, record)
    retention_limits.forget_rolling_rules(tables.metadata)


def _acl_added(tables: CellTables, machine: int, record: AccessControlEntryAdded) -> None:
    authorizer.apply_added(tables.metadata, image.machine_prefix(machine), record)


def _acl_removed(tables: CellTables, machine: int, record: AccessControlEntryRemoved) -> None:
    authorizer.apply_removed(tables.metadata, image.machine_prefix(machine), record)


def _token_written(tables: CellTables, machine: int, record: DelegationTokenWritten) -> None:
    delegation_tokens.apply_written(tables.metadata, image.machine_prefix(machine), record)


def _token_removed(tables: CellTables, machine: int, record: DelegationTokenRemoved) -> None:
    delegation_tokens.apply_removed(tables.metadata, image.machine_prefix(machine), record)


def _quota_altered(tables: CellTables, machine: int, record: ClientQuotaAltered) -> None:
    client_quotas.apply_altered(tables.metadata, machine, record)


def _feature_changed(tables: CellTables, machine: int, record: FeatureLevelChanged) -> None:
    broker_configs.apply_feature(tables.metadata, machine, record)


def _batch_appended(
    tables: CellTables, machine: int, record: BatchAppended
) -> SealedSegment | None:
    tail = tail_of(tables, machine, record.topic_id, record.partition)
    assert tail is not None, record
    if tail.rules is None:
        grown = tail.change()
        if cleaning.is_due(grown):
            cleaning.clean(tables.logs, machine, grown)
            tail.forget_index()
    elif len(tail.log.chunks) >= log.INDEX_CHUNKS_MAX and _is_cleaned(
        tables, machine, record.topic_id
    ):
        tail.change().is_whole = True
        return tail.take(record.batch, may_seal=False)
    return tail.take(record.batch)


def _is_cleaned(tables: CellTables, machine: int, topic_id: Uuid) -> bool:
    """Whether a log cleaner passes over a topic's logs; it needs the whole index."""
    topic = image.topic_by_id(tables.metadata, machine, topic_id) if tables.may_clean else None
    if topic is None:
        return False
    settings = broker_configs.settings_of(tables.metadata, machine, machine, tables.given)
    return retention_limits.cleaning_of(topic, settings) is not None


def _producers_expired(tables: CellTables, machine: int, record: ProducersExpired) -> None:
    producer.expire(tables.producers, machine, record)


def _producer_noted(tables: CellTables, machine: int, record: ProducerNoted) -> None:
    producer.note_producer(tables.producers, machine, record)


def _log_start_moved(tables: CellTables, machine: int, record: LogStartMoved) -> None:
    place = (machine, record.topic_id, record.partition)
    deleted_times.note(tables.logs, machine, record)
    moved = log.move_start(tables.logs, *place, record.log_start_offset)
    rolling.delete(tables.logs, machine, moved, record.segments_deleted_to)


def _log_cleaned(tables: CellTables, machine: int, record: LogCleaned) -> None:
    rules = retention_limits.rolling_rules_in(tables, machine, record.topic_id)
    cleaner.apply_cleaned(tables.logs, machine, record, rules)


def _high_watermark_moved(tables: CellTables, machine: int, record: HighWatermarkMoved) -> None:
    key = log.log_key(machine, record.topic_id, record.partition)
    changed = tables.logs.change(key, log.Log)
    if record.high_watermark < changed.high_watermark:
        truncation.move_high_watermark(tables.logs, machine, changed, record.high_watermark)
    else:
        log.raise_high_watermark(changed, record.high_watermark)


def _log_truncated(tables: CellTables, machine: int, record: LogTruncated) -> None:
    place = (machine, record.topic_id, record.partition)
    rules = retention_limits.rolling_rules_in(tables, machine, record.topic_id)
    cut = tables.logs.change(log.log_key(*place), log.Log)
    rolling.truncate(tables.logs, machine, cut, record.log_end_offset, rules)
    truncation.truncate(tables, *place, record.log_end_offset)


def _log_started_anew(tables: CellTables, machine: int, record: LogStartedAnew) -> None:
    truncation.restart_at(tables, machine, record.topic_id, record.partition, record.offset)


def _log_taken(tables: CellTables, machine: int, record: LogTaken) -> None:
    taking.take(tables, machine, record.topic_id, record.partition, record.items)


def _log_placed(tables: CellTables, machine: int, record: LogPlaced) -> None:
    key = log.log_key(machine, record.topic_id, record.partition)
    tables.logs.change(key, log.Log).directory = record.directory


def _replicas_assigned(tables: CellTables, machine: int, record: ReplicasAssigned) -> None:
    image.apply_replicas_assigned(tables.metadata, machine, record)


def _without_state(_tables: CellTables, _machine: int, _record: Record) -> None:
    """Change nothing: the record is for readers of the history, or of rows."""


def _registration_changed(
    tables: CellTables, machine: int, record: BrokerRegistrationChanged
) -> None:
    image.apply_registration_changed(tables.metadata, machine, record)


def _registered(tables: CellTables, machine: int, record: BrokerRegistered) -> None:
    image.apply_registered(tables.metadata, machine, record)


def _unregistered(tables: CellTables, machine: int, record: BrokerUnregistered) -> None:
    image.apply_unregistered(tables.metadata, machine, record)


def _offset_committed(tables: CellTables, machine: int, record: OffsetCommitted) -> None:
    transactional_offsets.apply_committed(tables.groups, machine, record)
    committed_offsets.apply_committed(tables.groups, machine, record)


def _offset_deleted(tables: CellTables, machine: int, record: OffsetDeleted) -> None:
    transactional_offsets.apply_deleted(tables.groups, machine, record)
    committed_offsets.apply_deleted(tables.groups, machine, record)


def _offsets_pending(tables: CellTables, machine: int, record: TransactionalOffsetsWritten) -> None:
    transactional_offsets.apply_written(tables.groups, machine, record)


def _offsets_ended(tables: CellTables, machine: int, record: TransactionalOffsetsEnded) -> None:
    transactional_offsets.apply_ended(tables.groups, machine, record)


def _group_written(tables: CellTables, machine: int, record: GroupMetadataWritten) -> None:
    groups.apply_metadata(tables, machine, record)


def _group_removed(tables: CellTables, machine: int, record: GroupRemoved) -> None:
    groups.drop(tables, machine, record.group_id)


def _block_allocated(tables: CellTables, machine: int, record: ProducerIdBlockAllocated) -> None:
    producer_ids.apply_allocated(tables.metadata, machine, record)


def _block_received(tables: CellTables, machine: int, record: ProducerIdBlockReceived) -> None:
    producer_ids.apply_received(tables.metadata, machine, record)


def _block_written(tables: CellTables, _machine: int, record: ProducerIdBlockWritten) -> None:
    zookeeper_producer_ids.apply_written(tables.metadata, record)


def _id_issued(tables: CellTables, machine: int, record: ProducerIdIssued) -> None:
    producer_ids.apply_issued(tables.metadata, machine, record)


def _metadata_written(tables: CellTables, machine: int, record: TransactionMetadataWritten) -> None:
    transactional_ids.apply_written(tables.transactions, machine, record)


def _markers_written(tables: CellTables, machine: int, record: TransactionMarkersWritten) -> None:
    transactional_ids.apply_markers(tables.transactions, machine, record)


def _transactional_id_expired(
    tables: CellTables, machine: int, record: TransactionalIdExpired
) -> None:
    transactional_ids.apply_expired(tables.transactions, machine, record)


Applier = Callable[[CellTables, int, Any], SealedSegment | None]


def _closing(applier: Applier) -> Applier:
    """Return an applier after which the ends of logs are looked up again."""

    def apply_and_close(tables: CellTables, machine: int, record: Any) -> SealedSegment | None:
        pushed_out = applier(tables, machine, record)
        tables.tails.clear()
        return pushed_out

    return apply_and_close


def _counted(applier: Applier) -> Applier:
    """Return an applier that also counts the record in the controller's log."""

    def apply_and_count(tables: CellTables, machine: int, record: Any) -> SealedSegment | None:
        pushed_out = applier(tables, machine, record)
        if machine == CONTROLLER:
            metadata_log.count(tables.metadata)
        return pushed_out

    return apply_and_count


APPLIERS: dict[type, Applier] = {
    TopicCreated: _topic_created,
    PartitionsAdded: _partitions_added,
    PartitionChanged: leaders.apply_changed,
    PartitionTaken: leaders.apply_taken,
    PartitionLoaded: _partition_loaded,
    PartitionUnloaded: loading.apply_unloaded,
    PartitionAltered: leaders.apply_altered,
    ReplicasAssigned: _replicas_assigned,
    BrokerRegistered: _registered,
    BrokerRegistrationChanged: _registration_changed,
    BrokerUnregistered: _unregistered,
    TopicRemoved: _topic_removed,
    ConfigChanged: _config_changed,
    AccessControlEntryAdded: _acl_added,
    AccessControlEntryRemoved: _acl_removed,
    DelegationTokenWritten: _token_written,
    DelegationTokenRemoved: _token_removed,
    ClientQuotaAltered: _quota_altered,
    FeatureLevelChanged: _feature_changed,
    BatchAppended: _batch_appended,
    TransactionMetadataWritten: _metadata_written,
    TransactionMarkersWritten: _markers_written,
    TransactionalIdExpired: _transactional_id_expired,
    ProducersExpired: _producers_expired,
    ProducerNoted: _producer_noted,
    LogStartMoved: _log_start_moved,
    LogCleaned: _log_cleaned,
    HighWatermarkMoved: _high_watermark_moved,
    LogTruncated: _log_truncated,
    LogStartedAnew: _log_started_anew,
    LogTaken: _log_taken,
    LogPlaced: _log_placed,
    LineLogged: _without_state,
    OffsetCommitted: _offset_committed,
    OffsetDeleted: _offset_deleted,
    TransactionalOffsetsWritten: _offsets_pending,
    TransactionalOffsetsEnded: _offsets_ended,
    GroupMetadataWritten: _group_written,
    ConsumerGroupMetadataWritten: consumer_group_records.apply_metadata,
    ConsumerGroupMemberMetadataWritten: consumer_group_records.apply_member,
    ConsumerGroupTargetAssignmentMetadataWritten: consumer_group_records.apply_target_metadata,
    ConsumerGroupTargetAssignmentMemberWritten: consumer_group_records.apply_target,
    ConsumerGroupCurrentMemberAssignmentWritten: consumer_group_records.apply_current,
    ConsumerGroupRegularExpressionWritten: consumer_group_records.apply_regex,
    ConsumerGroupPartitionMetadataRemoved: _without_state,
    GroupRemoved: _group_removed,
    ShareGroupMetadataWritten: share_group_records.apply_metadata,
    ShareGroupMemberMetadataWritten: share_group_records.apply_member,
    ShareGroupTargetAssignmentMetadataWritten: share_group_records.apply_target_metadata,
    ShareGroupTargetAssignmentMemberWritten: share_group_records.apply_target,
    ShareGroupCurrentMemberAssignmentWritten: share_group_records.apply_current,
    ShareGroupStatePartitionMetadataWritten: share_group_records.apply_state_partitions,
    ShareStateWritten: state_store.apply_written,
    StreamsGroupMetadataWritten: streams_group_records.apply_metadata,
    StreamsGroupMemberMetadataWritten: streams_group_records.apply_member,
    StreamsGroupTopologyWritten: streams_group_records.apply_topology,
    StreamsGroupTargetAssignmentMetadataWritten: streams_group_records.apply_target_metadata,
    StreamsGroupTargetAssignmentMemberWritten: streams_group_records.apply_target,
    StreamsGroupCurrentMemberAssignmentWritten: streams_group_records.apply_current,
    ProducerIdBlockAllocated: _block_allocated,
    ProducerIdBlockReceived: _block_received,
    ProducerIdBlockWritten: _block_written,
    ProducerIdIssued: _id_issued,
}
APPLIERS.update({kind: _closing(APPLIERS[kind]) for kind in APPLIERS.keys() - KEEPS_TAILS})
APPLIERS.update({kind: _counted(APPLIERS[kind]) for kind in METADATA_RECORDS})
