"""Encoder of share coordinator records to `__share_group_state`.

Source: `ShareCoordinatorRecordHelpers`, `ShareSnapshotKey` and `…Value`, `ShareUpdateKey` and
`…Value` in Kafka 4.3's share-coordinator. A key begins with its type and has group, topic and
partition. Values have version 0, which is flexible:

    0   snapshot; null is a tombstone
    1   update of a snapshot

`state/observed/share_progress.py` decodes rows of real brokers.
"""

import struct

from brokertwin.state.core.kafka_bytes import Writer
from brokertwin.state.core.share_records import ShareSnapshot, ShareStateBatch, ShareStateWritten

SNAPSHOT, UPDATE = 0, 1
DONE_TAG = 0
UNKNOWN = -1
"""Unknown count of done records; omitted."""


def encode(record: ShareStateWritten, timestamp: int) -> tuple[bytes, bytes | None]:
    """Encode a record, written at a time in ms since 1970.

    Raises ValueError for an id that is too long.
    """
    if record.snapshot is None:
        return _key(record, SNAPSHOT), None
    if record.update is None:
        return _key(record, SNAPSHOT), _snapshot(record.snapshot, timestamp)
    writer = _start_value(record.snapshot)
    writer.number("i", record.update.leader_epoch)
    writer.number("q", record.update.start_offset)
    done = record.update.delivery_complete_count
    return _key(record, UPDATE), _finish_value(writer, record.update.batches, done)


def _key(record: ShareStateWritten, kind: int) -> bytes:
    writer = Writer()
    writer.number("h", kind)
    writer.string(record.group_id)
    writer.uuid(record.topic_id)
    writer.number("i", record.partition)
    return writer.encoded()


def _start_value(snapshot: ShareSnapshot) -> Writer:
    """Start a value: version and snapshot epoch."""
    writer = Writer(is_flexible=True)
    writer.number("h", 0)
    writer.number("i", snapshot.snapshot_epoch)
    return writer


def _snapshot(snapshot: ShareSnapshot, timestamp: int) -> bytes:
    writer = _start_value(snapshot)
    writer.number("i", snapshot.state_epoch)
    writer.number("i", snapshot.leader_epoch)
    writer.number("q", snapshot.start_offset)
    for _ in range(2):  # create and write time
        writer.number("q", timestamp)
    return _finish_value(writer, snapshot.batches, snapshot.delivery_complete_count)


def _finish_value(writer: Writer, batches: list[ShareStateBatch], done: int) -> bytes:
    def write(batch: ShareStateBatch) -> None:
        writer.number("q", batch.first_offset)
        writer.number("q", batch.last_offset)
        writer.number("b", batch.delivery_state)
        writer.number("h", batch.delivery_count)
        writer.tags({})

    writer.array(batches, write)
    writer.tags({} if done == UNKNOWN else {DONE_TAG: struct.pack(">i", done)})
    return writer.encoded()
