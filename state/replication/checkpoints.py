"""High watermarks in a broker's `replication-offset-checkpoint`, which survive a crash.

Source: seed 004; `ReplicaManager.checkpointHighWatermarks`, `Partition.createLog` in Kafka. A
broker with partitions writes the file every replica.high.watermark.checkpoint.interval.ms, and at a
clean shutdown. At a start it takes the high watermark from the file, at most the log end; a leader
raises it again.

No timer runs for it. Before a high watermark moves, the value that is then in the file is stored,
once for each write. So the content of the file is known at any time, and an idle cluster does
nothing. Items in the table `replication`:

    <broker>/checkpointing                            Checkpointing; lost with the process
    <broker>/checkpointed/<topic id>/<partition>      Checkpointed; survives, as on disk

A partition with one replica has neither: its leader commits everything.
"""

import msgspec

from brokertwin.protocol.bodies import Uuid
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
from brokertwin.state.logs.log import Log

_MOVES = (HighWatermarkMoved, LogTruncated, LogStartedAnew, LogStartMoved, LogTaken, PartitionTaken)
"""Records that may move a high watermark of a replicated partition."""


class Checkpointing(msgspec.Struct, array_like=True):
    """When a broker first wrote its file, in ms since 1970, and the interval."""

    started: int
    interval_ms: int

    def writes(self, now: int) -> int:
        """Number of writes up to `now`; the first is at the start."""
        return (now - self.started) // self.interval_ms + 1


class Checkpointed(msgspec.Struct, array_like=True):
    """The high watermark in the file since its write number `writes`."""

    high_watermark: int
    writes: int


def _key(broker: int) -> str:
    return f"{broker}/checkpointing"


def _prefix(broker: int) -> str:
    return f"{broker}/checkpointed/"


def is_on_disk(key: str) -> bool:
    """True for an item of the table `replication` that survives the process."""
    return key.split("/")[1:2] == ["checkpointed"]


def before(broker: Broker, record: Record) -> None:
    """Store high watermarks that a record is about to move."""
    if isinstance(record, TopicCreated):
        if any(broker.id in replicas for replicas in record.replicas):
            begin(broker)
    elif isinstance(record, _MOVES):
        log = broker.log(record.topic_id, record.partition)
        if log is not None and _is_replicated(broker, log):
            _keep(broker, log)


def begin(broker: Broker) -> Checkpointing:
    """Start writing the file, unless the broker does already."""
    table = broker.tables.replication
    checkpointing = table.get(_key(broker.id), Checkpointing)
    if checkpointing is None:
        interval_ms = max(broker.settings.replica_high_watermark_checkpoint_interval_ms, 1)
        checkpointing = Checkpointing(broker.now, interval_ms)
        table.put(_key(broker.id), checkpointing)
    return checkpointing


def in_file(broker: Broker, log: Log) -> int:
    table = broker.tables.replication
    kept = table.get(f"{_prefix(broker.id)}{log.topic_id}/{log.partition}", Checkpointed)
    running = table.get(_key(broker.id), Checkpointing)
    is_older = running is not None and kept is not None and running.writes(broker.now) > kept.writes
    return log.high_watermark if kept is None or is_older else kept.high_watermark


def crashed(broker: Broker) -> None:
    """The process was killed: the file stays as it is."""
    for place in _places(broker):
        log = broker.log(*place)
        if log is None or in_file(broker, log) == log.high_watermark:
            forget(broker, place)


def closed(broker: Broker) -> None:
    """Clean shutdown: the file is written."""
    for place in _places(broker):
        forget(broker, place)


def restored(broker: Broker) -> list[Record]:
    """A starting broker takes the high watermarks from its file."""
    records: list[Record] = []
    for place in _places(broker):
        log = broker.log(*place)
        if log is not None and _is_replicated(broker, log):
            offset = max(log.log_start_offset, min(in_file(broker, log), log.log_end_offset))
            records.append(HighWatermarkMoved(*place, offset))
        forget(broker, place)
    return records


def forget(broker: Broker, place: tuple[Uuid, int]) -> None:
    """Drop the file's entry of a partition."""
    broker.tables.replication.drop(f"{_prefix(broker.id)}{place[0]}/{place[1]}")


def _keep(broker: Broker, log: Log) -> None:
    """Store the high watermark in the file before it moves."""
    table = broker.tables.replication
    writes = begin(broker).writes(broker.now)
    key = f"{_prefix(broker.id)}{log.topic_id}/{log.partition}"
    kept = table.get(key, Checkpointed)
    if kept is None or kept.writes < writes:
        table.put(key, Checkpointed(log.high_watermark, writes))


def _is_replicated(broker: Broker, log: Log) -> bool:
    return image.replica_count(broker, log.topic_id, log.partition) > 1


def _places(broker: Broker) -> list[tuple[Uuid, int]]:
    prefix = _prefix(broker.id)
    parts = [key.removeprefix(prefix).split("/") for key in broker.tables.replication.keys(prefix)]
    return [(topic_id, int(partition)) for topic_id, partition in parts]
