"""`apply`: the only writer of durable state, live and in a replay.

The rule of a record has `@applies(Record)`. Rules that need several rooms are here.
"""

from importlib import import_module
from pkgutil import iter_modules
from typing import Any, get_args

from brokertwin.protocol.bodies import Uuid
from brokertwin.state import access, cluster, logs, share, transactions
from brokertwin.state import groups as groups_room
from brokertwin.state.cell import loading
from brokertwin.state.cell.output_rows import Rows
from brokertwin.state.cluster import (
    broker_configs,
    client_instances,
    config_changes,
    given_configs,
    image,
    metadata_log,
    retention_limits,
)
from brokertwin.state.cluster.machines import Broker, tail_of
from brokertwin.state.core.applying import APPLIERS, applies
from brokertwin.state.core.decision import CONTROLLER
from brokertwin.state.core.pending import Watch, watch_key
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
    ProducerIdBlockWritten,
    ProducerIdIssued,
    Record,
    ReplicasAssigned,
    TopicCreated,
    TopicRemoved,
    TransactionalOffsetsEnded,
    TransactionalOffsetsWritten,
    TransactionMarkersWritten,
    TransactionMetadataWritten,
)
from brokertwin.state.core.settings import CellSettings
from brokertwin.state.core.tables import CellTables, MachineTables
from brokertwin.state.eras import zookeeper_producer_ids
from brokertwin.state.fetch import fetch_session
from brokertwin.state.fetch.session_items import Watchers, watchers_key
from brokertwin.state.groups import committed_offsets
from brokertwin.state.groups.group_rows import GROUP_RECORD_TYPES
from brokertwin.state.logs import (
    cleaner,
    deleted_times,
    log,
    log_transfer,
    producer,
    rolling,
    truncation,
)
from brokertwin.state.logs.log import SealedSegment
from brokertwin.state.replication import checkpoints, cleaning
from brokertwin.state.share import share_partitions, state_store
from brokertwin.state.transactions import transaction_verification as verifications
from brokertwin.state.transactions import transactional_offsets

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


def apply(at: MachineTables, record: Record) -> SealedSegment | None:
    """Write a record into the tables of `machine`.

    Returns:
        The part of a log's index that leaves the state, if any.
    """
    kind = type(record)
    pushed_out: SealedSegment | None = APPLIERS[kind](at, record)
    if kind not in KEEPS_TAILS:
        at.tables.tails.clear()
        if at.id == CONTROLLER and kind in METADATA_RECORDS:
            metadata_log.count(at.tables.metadata)
    return pushed_out


@applies(TopicCreated)
def _topic_created(at: MachineTables, record: TopicCreated) -> None:
    image.apply_topic_created(at, record)
    for partition, replicas in enumerate(record.replicas):
        if at.id in replicas:
            log.create(at, record.topic_id, record.name, partition)


@applies(PartitionsAdded)
def _partitions_added(at: MachineTables, record: PartitionsAdded) -> None:
    topic = image.topic_by_id(at, record.topic_id)
    assert topic is not None, record.topic_id
    first = len(topic.partitions)
    image.apply_partitions_added(at, record)
    for partition, replicas in enumerate(record.replicas, first):
        if at.id in replicas:
            log.create(at, record.topic_id, topic.name, partition)


@applies(TopicRemoved)
def _topic_removed(at: MachineTables, record: TopicRemoved) -> None:
    topic = image.topic_by_id(at, record.topic_id)
    if topic is None:
        return
    for partition in range(len(topic.partitions)) if at.id != CONTROLLER else ():
        log.remove(at, record.topic_id, partition)
        producer.remove_partition(at, record.topic_id, partition)
        verifications.forget_partition(at, record.topic_id, partition)
    state_store.forget_topic(at, record.topic_id)
    share_partitions.forget_topic(at, record.topic_id)
    image.apply_topic_removed(at, record)
    retention_limits.forget_rolling_rules(at.tables.metadata)


@applies(PartitionLoaded)
def _partition_loaded(at: MachineTables, record: PartitionLoaded) -> None:
    loading.apply_loaded(at, record, apply)


_GIVEN = {
    config_changes.GROUP: given_configs.GROUPS,
    config_changes.CLIENT_METRICS: given_configs.CLIENT_METRICS,
}
"""The place of the settings of a type of resources."""


@applies(ConfigChanged)
def _config_changed(at: MachineTables, record: ConfigChanged) -> None:
    if record.resource_type == config_changes.BROKER:
        broker_configs.apply_changed(at, record)
    elif record.resource_type in _GIVEN:
        given_configs.apply_changed(at, _GIVEN[record.resource_type], record)
        if record.resource_type == config_changes.CLIENT_METRICS:
            client_instances.count_change(at)
    else:
        image.apply_config_changed(at, record)
    retention_limits.forget_rolling_rules(at.tables.metadata)


@applies(BatchAppended)
def _batch_appended(at: MachineTables, record: BatchAppended) -> SealedSegment | None:
    tail = tail_of(at, record.topic_id, record.partition)
    assert tail is not None, record
    if tail.rules is None:
        grown = tail.change()
        if cleaning.is_due(grown):
            cleaning.clean(at, grown)
            tail.forget_index()
    elif len(tail.log.chunks) >= log.INDEX_CHUNKS_MAX and _is_cleaned(at, record.topic_id):
        tail.change().is_whole = True
        return tail.take(record.batch, may_seal=False)
    return tail.take(record.batch)


def _is_cleaned(at: MachineTables, topic_id: Uuid) -> bool:
    """Whether a log cleaner passes over a topic's logs; it needs the whole index."""
    topic = image.topic_by_id(at, topic_id) if at.tables.may_clean else None
    if topic is None:
        return False
    settings = broker_configs.settings_of(at, at.id, at.tables.given)
    return retention_limits.cleaning_of(topic, settings) is not None


@applies(LogStartMoved)
def _log_start_moved(at: MachineTables, record: LogStartMoved) -> None:
    deleted_times.note(at, record)
    moved = log.move_start(at, record.topic_id, record.partition, record.log_start_offset)
    rolling.delete(at, moved, record.segments_deleted_to)


@applies(LogCleaned)
def _log_cleaned(at: MachineTables, record: LogCleaned) -> None:
    rules = retention_limits.rolling_rules_in(at, record.topic_id)
    cleaner.apply_cleaned(at, record, rules)


@applies(HighWatermarkMoved)
def _high_watermark_moved(at: MachineTables, record: HighWatermarkMoved) -> None:
    key = log.log_key(at.id, record.topic_id, record.partition)
    changed = at.tables.logs.change(key, log.Log)
    if record.high_watermark < changed.high_watermark:
        truncation.move_high_watermark(at, changed, record.high_watermark)
    else:
        log.raise_high_watermark(changed, record.high_watermark)


@applies(LogTruncated)
def _log_truncated(at: MachineTables, record: LogTruncated) -> None:
    place = (record.topic_id, record.partition)
    rules = retention_limits.rolling_rules_in(at, record.topic_id)
    cut = at.tables.logs.change(log.log_key(at.id, *place), log.Log)
    rolling.truncate(at, cut, record.log_end_offset, rules)
    truncation.truncate(at, *place, record.log_end_offset)


@applies(LogStartedAnew)
def _log_started_anew(at: MachineTables, record: LogStartedAnew) -> None:
    truncation.restart_at(at, record.topic_id, record.partition, record.offset)


@applies(LogTaken)
def _log_taken(at: MachineTables, record: LogTaken) -> None:
    log_transfer.take(at, record.topic_id, record.partition, record.items)


@applies(LogPlaced)
def _log_placed(at: MachineTables, record: LogPlaced) -> None:
    key = log.log_key(at.id, record.topic_id, record.partition)
    at.tables.logs.change(key, log.Log).directory = record.directory


@applies(LineLogged)
def _without_state(_at: MachineTables, _record: Record) -> None:
    """Change nothing: the record is for readers of the history, or of rows."""


@applies(OffsetCommitted)
def _offset_committed(at: MachineTables, record: OffsetCommitted) -> None:
    transactional_offsets.apply_committed(at, record)
    committed_offsets.apply_committed(at, record)


@applies(OffsetDeleted)
def _offset_deleted(at: MachineTables, record: OffsetDeleted) -> None:
    transactional_offsets.apply_deleted(at, record)
    committed_offsets.apply_deleted(at, record)


@applies(ProducerIdBlockWritten)
def _block_written(at: MachineTables, record: ProducerIdBlockWritten) -> None:
    zookeeper_producer_ids.apply_written(at.tables.metadata, record)


CHANGES_OF_LOGS = (BatchAppended, LogStartMoved, HighWatermarkMoved, LogTaken)
"""Records after which a log can have news for readers and followers."""

Shortening = LogStartMoved | LogTaken | LogCleaned | TopicRemoved | PartitionAltered
"""Records that can remove sealed segments of a log."""

_SHORTENING = frozenset(get_args(Shortening))

for _room in (access, cluster, groups_room, logs, share, transactions):  # their rules register
    for _module in iter_modules(_room.__path__):
        import_module(f"{_room.__name__}.{_module.name}")
import_module("brokertwin.state.cell.leaders")

_EFFECTS: dict[type, tuple[bool, bool, bool, bool]] = {
    kind: (
        kind in _SHORTENING,
        kind in CHANGES_OF_LOGS,
        kind in GROUP_RECORD_TYPES,
        kind in METADATA_RECORDS,
    )
    for kind in APPLIERS
}
"""By type of record, whether it shortens a log, changes one, is a group's, or metadata."""


class RecordEffects:
    """Applies the records of an event, and notes their changes.

    Attributes:
        now: the time of the rows.
        event_id: the cause: the event, or the request that resumes.
        changed_logs: changed logs and sessions, the oldest first, each with the log that caused it.
        uncopied: for each broker, partitions that can have news for followers.
    """

    now = 0

    def __init__(self, tables: CellTables, settings: CellSettings, rows: Rows) -> None:
        self._tables = tables
        self._machines: dict[int, MachineTables] = {}
        self._sessions = tables.fetch_sessions
        self._settings = settings
        self.rows = rows
        self._is_replicated = len(settings.brokers) > 1
        self._is_traced = settings.broker_settings.brokertwin_trace_replication
        self.changed_logs: dict[str, str] = {}
        self.uncopied: dict[int, dict[tuple[Uuid, int], None]] = {}
        self.event_id = ""

    def apply(self, machine: int, record: Record, is_committed: bool = True) -> bool:
        """Apply a record to a machine's tables and write its rows.

        An uncommitted offset goes only to the topic `records`. Returns whether the record is
        metadata, which other machines read.
        """
        shortens, changes_log, is_of_group, is_metadata = _EFFECTS[type(record)]
        of_log: Any = record  # its type decides which fields it has
        sealed_before = self._sealed(machine, of_log) if shortens else None
        if self._is_replicated and machine != CONTROLLER:
            broker = Broker(machine, self._tables, self._settings, self.now)
            checkpoints.before(broker, record)
        at = self._machines.get(machine)
        if at is None:
            at = self._machines[machine] = self._tables.of(machine)
        pushed_out = apply(at, record)
        if pushed_out is not None:
            self.rows.segment(pushed_out)
        self.rows.record(machine, self.now, self.event_id, record)
        if sealed_before:
            self._tombstone(sealed_before)
        if changes_log:
            place = of_log.topic_id, of_log.partition
            self.log_changed(machine, log.log_key(machine, *place))
            if self._is_replicated:
                self.to_copy(machine, place)
        if is_of_group and is_committed:
            self.rows.of_group(record)
        return is_metadata

    def log_changed(self, broker: int, log: str) -> None:
        self.changed_logs[log] = log
        watchers = self._sessions.get(watchers_key(log), Watchers)
        if watchers is not None:
            for session in fetch_session.log_changed(self._sessions, broker, watchers):
                self.changed_logs[session] = log

    def to_copy(self, broker: int, place: tuple[Uuid, int]) -> None:
        """Note that a broker, if it leads the partition, has news for its followers."""
        self.uncopied.setdefault(broker, {})[place] = None

    def next_watched(self) -> tuple[str, str] | None:
        """Take the oldest changed log or session that is watched, with the log that caused it.

        Earlier ones are dropped. If replication is traced, all count as watched.
        """
        changed, watches = self.changed_logs, self._tables.pending
        while changed:
            watched = next(iter(changed))
            log = changed.pop(watched)
            if self._is_traced or watches.get(watch_key(watched), Watch) is not None:
                return watched, log
        return None

    def _sealed(self, machine: int, record: Shortening) -> dict[tuple[Uuid, int], set[int]]:
        """Return the sealed segments, by topic id and partition, of logs that a record can cut."""
        if isinstance(record, PartitionAltered) and record.replicas is None:
            return {}
        if isinstance(record, TopicRemoved):
            topic = image.topic_by_id(self._tables.of(machine), record.topic_id)
            partitions = list(range(len(topic.partitions))) if topic is not None else []
        else:
            partitions = [record.partition]
        topic_id = record.topic_id
        return {
            (topic_id, p): log.sealed_offsets(self._tables.of(machine), topic_id, p)
            for p in partitions
        }

    def _tombstone(self, sealed_before: dict[tuple[Uuid, int], set[int]]) -> None:
        """Write tombstones for segments that no log of the cell has any longer."""
        for (topic_id, partition), before in sealed_before.items():
            gone = before.difference(
                *(
                    log.sealed_offsets(self._tables.of(broker), topic_id, partition)
                    for broker in self._settings.brokers_here
                )
            )
            for base_offset in sorted(gone):
                self.rows.segment_gone(topic_id, partition, base_offset)
