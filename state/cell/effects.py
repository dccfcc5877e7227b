"""RecordEffects of the records of a decision: they are applied, and become rows.

Every record goes through `RecordEffects.apply`: into the tables of its machine and to the topic
`records`. Parts of an index that leave the state go to `segments`. Changed logs are noted, so that
the loop can resume the requests pending on them.
"""

from typing import Any, get_args

from brokertwin.protocol.bodies import Uuid
from brokertwin.state.cell.apply import APPLIERS, METADATA_RECORDS, apply
from brokertwin.state.cell.output_rows import Rows
from brokertwin.state.cluster import image
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.decision import CONTROLLER
from brokertwin.state.core.pending import watch_key
from brokertwin.state.core.records import (
    BatchAppended,
    HighWatermarkMoved,
    LogCleaned,
    LogStartMoved,
    LogTaken,
    PartitionAltered,
    Record,
    TopicRemoved,
)
from brokertwin.state.core.settings import CellSettings
from brokertwin.state.core.tables import CellTables
from brokertwin.state.fetch import fetch_session
from brokertwin.state.fetch.session_items import Watchers, watchers_key
from brokertwin.state.groups.group_rows import GROUP_RECORD_TYPES
from brokertwin.state.logs import log as logs
from brokertwin.state.replication import checkpoints

CHANGES_OF_LOGS = (BatchAppended, LogStartMoved, HighWatermarkMoved, LogTaken)
"""Records after which a log can have news for readers and followers."""

Shortening = LogStartMoved | LogTaken | LogCleaned | TopicRemoved | PartitionAltered
"""Records that can remove sealed segments of a log."""

_SHORTENING = frozenset(get_args(Shortening))

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
        pushed_out = apply(self._tables, machine, record)
        if pushed_out is not None:
            self.rows.segment(pushed_out)
        self.rows.record(machine, self.now, self.event_id, record)
        if sealed_before:
            self._tombstone(sealed_before)
        if changes_log:
            place = of_log.topic_id, of_log.partition
            self.log_changed(machine, logs.log_key(machine, *place))
            if self._is_replicated:
                self.to_copy(machine, place)
        if is_of_group and is_committed:
            self.rows.of_group(record)
        return is_metadata

    def log_changed(self, broker: int, log: str) -> None:
        """Note a change of a log, and of the fetch sessions that watch it."""
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
            if self._is_traced or watch_key(watched) in watches:
                return watched, log
        return None

    def _sealed(self, machine: int, record: Shortening) -> dict[tuple[Uuid, int], set[int]]:
        """Return the sealed segments, by topic id and partition, of logs that a record can cut."""
        if isinstance(record, PartitionAltered) and record.replicas is None:
            return {}
        if isinstance(record, TopicRemoved):
            topic = image.topic_by_id(self._tables.metadata, machine, record.topic_id)
            partitions = list(range(len(topic.partitions))) if topic is not None else []
        else:
            partitions = [record.partition]
        table, topic_id = self._tables.logs, record.topic_id
        return {(topic_id, p): logs.sealed_offsets(table, machine, topic_id, p) for p in partitions}

    def _tombstone(self, sealed_before: dict[tuple[Uuid, int], set[int]]) -> None:
        """Write tombstones for segments that no log of the cell has any longer."""
        for (topic_id, partition), before in sealed_before.items():
            gone = before.difference(
                *(
                    logs.sealed_offsets(self._tables.logs, broker, topic_id, partition)
                    for broker in self._settings.brokers_here
                )
            )
            for base_offset in sorted(gone):
                self.rows.segment_gone(topic_id, partition, base_offset)
