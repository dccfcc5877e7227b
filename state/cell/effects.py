"""What the records of a decision do: they are applied, and leave as rows.

Every record goes through `Effects.apply`: into the tables of its machine, out to the topic
`records`; what it pushes out of an index goes to `segments`; which logs it changes is noted, so
that the loop can wake who waits for them.
"""

from brokerstream.state.cell.apply import apply
from brokerstream.state.cell.output_rows import Rows
from brokerstream.state.cluster import image
from brokerstream.state.cluster.machines import Broker
from brokerstream.state.core.decision import CONTROLLER
from brokerstream.state.core.records import (
    BatchAppended,
    HighWatermarkMoved,
    LogCleaned,
    LogStartMoved,
    LogTaken,
    PartitionAltered,
    Record,
    TopicRemoved,
)
from brokerstream.state.core.schema import Uuid
from brokerstream.state.core.settings import CellSettings
from brokerstream.state.core.tables import Tables
from brokerstream.state.fetch import fetch_session
from brokerstream.state.logs import log as logs
from brokerstream.state.replication import checkpoints

CHANGES_OF_LOGS = (BatchAppended, LogStartMoved, HighWatermarkMoved, LogTaken)
"""Records after which readers, and followers, may find more in a log."""

Shortening = LogStartMoved | LogTaken | LogCleaned | TopicRemoved | PartitionAltered
"""Records by which a log may lose sealed segments."""


class Effects:
    """Applies the records of an event, at its time, and notes what they change.

    `event_id` is whose effects they are: the event's, or that of the request whose wait ends.
    `uncopied` are the partitions of each broker that its followers may have to hear of.
    """

    _now: int
    _rows: Rows

    def __init__(self, tables: Tables, settings: CellSettings) -> None:
        self._tables = tables
        self._settings = settings
        self._changed_logs: dict[str, str] = {}
        self.uncopied: dict[int, dict[tuple[Uuid, int], None]] = {}
        self.event_id = ""

    def begin(self, now: int, rows: Rows) -> None:
        """Another event comes, at `now`; what it causes goes to `rows`."""
        self._now = now
        self._rows = rows
        self.event_id = ""

    def apply(self, machine: int, record: Record) -> None:
        """Applies a record to a machine's tables; it goes out, with what it pushes out."""
        self.write(machine, record)
        self._rows.of_group(record)

    def write(self, machine: int, record: Record) -> None:
        """`apply` for what is not committed yet: an offset is told to nobody but the history."""
        sealed_before = self._sealed(machine, record) if isinstance(record, Shortening) else None
        settings = self._settings
        if len(settings.brokers) > 1 and machine != CONTROLLER:
            checkpoints.before(Broker(machine, self._tables, settings, self._now), record)
        pushed_out = apply(self._tables, machine, record)
        if pushed_out is not None:
            self._rows.segment(pushed_out)
        self._rows.record(machine, self._now, self.event_id, record)
        if sealed_before:
            self._tombstone(sealed_before)
        if isinstance(record, CHANGES_OF_LOGS):
            self.log_changed(machine, logs.log_key(machine, record.topic_id, record.partition))
            if len(settings.brokers) > 1:
                self.to_copy(machine, (record.topic_id, record.partition))

    def log_changed(self, broker: int, log: str) -> None:
        """Notes a change of a log, and of the fetch sessions that watch it."""
        self._changed_logs[log] = log
        for session in fetch_session.log_changed(self._tables.sessions, broker, log):
            self._changed_logs[session] = log

    def to_copy(self, broker: int, place: tuple[Uuid, int]) -> None:
        """Notes that a broker, if it leads the partition, has something for its followers."""
        self.uncopied.setdefault(broker, {})[place] = None

    def changed_log(self) -> tuple[str, str] | None:
        """A log or session that has changed and that nobody has looked at since, the oldest one.

        With it comes the log by which it has changed.
        """
        if not self._changed_logs:
            return None
        changed = next(iter(self._changed_logs.items()))
        del self._changed_logs[changed[0]]
        return changed

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
                self._rows.segment_gone(topic_id, partition, base_offset)
