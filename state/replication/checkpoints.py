"""High watermarks in a broker's file `replication-offset-checkpoint`: what a crash leaves of them.

Source: seed 004; `ReplicaManager.checkpointHighWatermarks`, `Partition.createLog` in Kafka. From
the first partition on that a broker leads or follows it writes the high watermarks of all every
replica.high.watermark.checkpoint.interval.ms, and when it shuts down in order. A broker that starts
begins with what its file has, at most with the log's end; a leader raises it again.

No timer runs for it. When a high watermark moves, the value that the file then has is kept, unless
it was kept since the last write; so what the file has at any time is known, and a cluster that is
idle does nothing. In the table `replication` lie

    <broker>/checkpointing                            Checkpointing; gone with the process
    <broker>/checkpointed/<topic id>/<partition>      Checkpointed; as on a disk, it stays

A partition with a single replica has neither: its leader commits all that it has.
"""

import msgspec

from brokertwin.state.cluster import image
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.records import (
    HighWatermarkMoved,
    LogStartedAnew,
    LogStartMoved,
    LogTaken,
    LogTruncated,
    PartitionTaken,
    Record,
    TopicCreated,
)
from brokertwin.state.core.schema import Uuid
from brokertwin.state.logs.log import Log

_MOVES = (HighWatermarkMoved, LogTruncated, LogStartedAnew, LogStartMoved, LogTaken, PartitionTaken)
"""Records that may move a high watermark of a partition with several replicas."""


class Checkpointing(msgspec.Struct, array_like=True):
    """Since when a broker writes its file, in ms since 1970, and how often."""

    started: int
    interval_ms: int

    def writes(self, now: int) -> int:
        """How often the file was written by `now`; first at the start itself."""
        return (now - self.started) // self.interval_ms + 1


class Checkpointed(msgspec.Struct, array_like=True):
    """A high watermark that has moved since: what the file has, as of its nth write."""

    high_watermark: int
    writes: int


def _key(broker: int) -> str:
    return f"{broker}/checkpointing"


def _prefix(broker: int) -> str:
    return f"{broker}/checkpointed/"


def is_on_disk(key: str) -> bool:
    """Whether an item of the table `replication` outlives the process."""
    return key.split("/")[1:2] == ["checkpointed"]


def before(broker: Broker, record: Record) -> None:
    """Looks at a record that a broker is about to apply."""
    if isinstance(record, TopicCreated):
        if any(broker.id in replicas for replicas in record.replicas):
            begin(broker)
    elif isinstance(record, _MOVES):
        log = broker.log(record.topic_id, record.partition)
        if log is not None and _is_replicated(broker, log):
            _keep(broker, log)


def begin(broker: Broker) -> Checkpointing:
    """The broker leads or follows something: it writes its file from now on, if not already."""
    table = broker.tables.replication
    known = table.get(_key(broker.id), Checkpointing)
    if known is None:
        interval_ms = max(broker.settings.replica_high_watermark_checkpoint_interval_ms, 1)
        known = Checkpointing(broker.now, interval_ms)
        table.put(_key(broker.id), known)
    return known


def in_file(broker: Broker, log: Log) -> int:
    """The high watermark that the broker's file has of a log now."""
    table = broker.tables.replication
    kept = table.get(f"{_prefix(broker.id)}{log.topic_id}/{log.partition}", Checkpointed)
    running = table.get(_key(broker.id), Checkpointing)
    is_older = running is not None and kept is not None and running.writes(broker.now) > kept.writes
    return log.high_watermark if kept is None or is_older else kept.high_watermark


def crashed(broker: Broker) -> None:
    """The process is gone: the file stays as it is."""
    for place in _places(broker):
        log = broker.log(*place)
        if log is None or in_file(broker, log) == log.high_watermark:
            forget(broker, place)


def closed(broker: Broker) -> None:
    """The process ends in order: it writes its file once more."""
    for place in _places(broker):
        forget(broker, place)


def restored(broker: Broker) -> list[Record]:
    """What a broker that starts takes from its file."""
    records: list[Record] = []
    for place in _places(broker):
        log = broker.log(*place)
        if log is not None and _is_replicated(broker, log):
            offset = max(log.log_start_offset, min(in_file(broker, log), log.log_end_offset))
            records.append(HighWatermarkMoved(*place, offset))
        forget(broker, place)
    return records


def forget(broker: Broker, place: tuple[Uuid, int]) -> None:
    """The broker does not have the partition any more."""
    broker.tables.replication.drop(f"{_prefix(broker.id)}{place[0]}/{place[1]}")


def _keep(broker: Broker, log: Log) -> None:
    """Keeps what the file has of a log whose high watermark may move now."""
    table = broker.tables.replication
    writes = begin(broker).writes(broker.now)
    key = f"{_prefix(broker.id)}{log.topic_id}/{log.partition}"
    kept = table.get(key, Checkpointed)
    if kept is None or kept.writes < writes:
        table.put(key, Checkpointed(log.high_watermark, writes))


def _is_replicated(broker: Broker, log: Log) -> bool:
    return image.replica_count(broker.tables.metadata, broker.id, log.topic_id, log.partition) > 1


def _places(broker: Broker) -> list[tuple[Uuid, int]]:
    prefix = _prefix(broker.id)
    parts = [key.removeprefix(prefix).split("/") for key in broker.tables.replication.keys(prefix)]
    return [(topic_id, int(partition)) for topic_id, partition in parts]
