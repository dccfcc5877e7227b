"""What the records of a decision do: they are applied, and leave as rows.

Every record goes through `Effects.apply`: into the tables of its machine, out to the topic
`records`; what it pushes out of an index goes to `segments`; which logs it changes is noted, so
that the loop can wake who waits for them.
"""

from typing import Any, get_args

from brokertwin.state.cell.apply import apply
from brokertwin.state.cell.output_rows import Rows
from brokertwin.state.cluster import image
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.decision import CONTROLLER
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
from brokertwin.state.core.schema import Uuid
from brokertwin.state.core.settings import CellSettings
from brokertwin.state.core.tables import Tables
from brokertwin.state.core.waiting import watch_key
from brokertwin.state.fetch import fetch_session
from brokertwin.state.groups.group_rows import GROUP_RECORD_TYPES
from brokertwin.state.logs import log as logs
from brokertwin.state.replication import checkpoints

CHANGES_OF_LOGS = (BatchAppended, LogStartMoved, HighWatermarkMoved, LogTaken)
"""Records after which readers, and followers, may find more in a log."""

_CHANGING = frozenset(CHANGES_OF_LOGS)

Shortening = LogStartMoved | LogTaken | LogCleaned | TopicRemoved | PartitionAltered
"""Records by which a log may lose sealed segments."""

_SHORTENING = frozenset(get_args(Shortening))


class Effects:
    """Applies the records of an event, at its time, and notes what they change.

    What happens `now` becomes rows. `event_id` is whose effects they are: the event's, or that of
    the request whose wait ends. `changed_logs` are the logs and sessions that nobody has looked at
    since they have changed, the oldest first, each with the log by which it has. `uncopied` are the
    partitions of each broker that its followers may have to hear of.
    """

    now = 0

    def __init__(self, tables: Tables, settings: CellSettings, rows: Rows) -> None:
        self._tables = tables
        self._settings = settings
        self.rows = rows
        self._is_replicated = len(settings.brokers) > 1
        self._is_traced = settings.broker_settings.brokertwin_trace_replication
        self.changed_logs: dict[str, str] = {}
        self.uncopied: dict[int, dict[tuple[Uuid, int], None]] = {}
        self.event_id = ""

    def apply(self, machine: int, record: Record, is_committed: bool = True) -> None:
        """Applies a record to a machine's tables; it goes out, with what it pushes out.

        An offset that is not committed yet is told to nobody but the history.
        """
        sealed_before, kind = None, type(record)
        of_log: Any = record  # its kind says what it has
        if kind in _SHORTENING:
            sealed_before = self._sealed(machine, of_log)
        if self._is_replicated and machine != CONTROLLER:
            broker = Broker(machine, self._tables, self._settings, self.now)
            checkpoints.before(broker, record)
        pushed_out = apply(self._tables, machine, record)
        if pushed_out is not None:
            self.rows.segment(pushed_out)
        self.rows.record(machine, self.now, self.event_id, record)
        if sealed_before:
            self._tombstone(sealed_before)
        if kind in _CHANGING:
            self.log_changed(machine, logs.log_key(machine, of_log.topic_id, of_log.partition))
            if self._is_replicated:
                self.to_copy(machine, (of_log.topic_id, of_log.partition))
        if is_committed and kind in GROUP_RECORD_TYPES:
            self.rows.of_group(record)

    def log_changed(self, broker: int, log: str) -> None:
        """Notes a change of a log, and of the fetch sessions that watch it."""
        self.changed_logs[log] = log
        for session in fetch_session.log_changed(self._tables.sessions, broker, log):
            self.changed_logs[session] = log

    def to_copy(self, broker: int, place: tuple[Uuid, int]) -> None:
        """Notes that a broker, if it leads the partition, has something for its followers."""
        self.uncopied.setdefault(broker, {})[place] = None

    def next_watched(self) -> tuple[str, str] | None:
        """Takes the oldest one of `changed_logs` that somebody waits for, and by which log it has.

        Those before it are forgotten. Where replication is traced, all count as waited for.
        """
        changed, watches = self.changed_logs, self._tables.waiting
        while changed:
            watched = next(iter(changed))
            log = changed.pop(watched)
            if self._is_traced or watch_key(watched) in watches:
                return watched, log
        return None

    def _sealed(self, machine: int, record: Shortening) -> dict[tuple[Uuid, int], set[int]]:
        """The sealed segments, by topic id and partition, of the logs that a record may shorten."""
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
        """Segments that no log of the cell has any more leave the topic `segments`, too."""
        for (topic_id, partition), before in sealed_before.items():
            gone = before.difference(
                *(
                    logs.sealed_offsets(self._tables.logs, broker, topic_id, partition)
                    for broker in self._settings.brokers_here
                )
            )
            for base_offset in sorted(gone):
                self.rows.segment_gone(topic_id, partition, base_offset)
