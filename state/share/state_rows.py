"""The records of share coordinators as rows of `__share_group_state`, in Kafka's own bytes.

Source: `ShareCoordinatorRecordHelpers`, `ShareSnapshotKey` and `…Value`, `ShareUpdateKey` and
`…Value` in Kafka 4.3's share-coordinator. A key begins with its kind and names group, topic and
partition; values have version 0, which is flexible:

    0   all of a state; null takes it back
    1   what has changed since

`state/observed/share_progress.py` reads rows of real brokers.
"""

import struct

from brokertwin.state.core.share_records import ShareSnapshot, ShareStateBatch, ShareStateWritten
from brokertwin.state.core.wire.primitives import Writer

SNAPSHOT, UPDATE = 0, 1
DONE_TAG = 0
UNKNOWN = -1
"""How many records are done with, where nobody has said: it is left out."""


def encode(record: ShareStateWritten, timestamp: int) -> tuple[bytes, bytes | None]:
    """Key and value, written at a time in ms since 1970. Raises ValueError for too long an id."""
    if record.snapshot is None:
        return _key(record, SNAPSHOT), None
    if record.update is None:
        return _key(record, SNAPSHOT), _snapshot(record.snapshot, timestamp)
    writer = _opened(record.snapshot)
    writer.int32(record.update.leader_epoch)
    writer.int64(record.update.start_offset)
    done = record.update.delivery_complete_count
    return _key(record, UPDATE), _ended(writer, record.update.batches, done)


def _key(record: ShareStateWritten, kind: int) -> bytes:
    writer = Writer()
    writer.int16(kind)
    writer.string(record.group_id)
    writer.uuid(record.topic_id)
    writer.int32(record.partition)
    return writer.encoded()


def _opened(snapshot: ShareSnapshot) -> Writer:
    """A value's beginning: its version, and which snapshot it is or goes on from."""
    writer = Writer(is_flexible=True)
    writer.int16(0)
    writer.int32(snapshot.snapshot_epoch)
    return writer


def _snapshot(snapshot: ShareSnapshot, timestamp: int) -> bytes:
    writer = _opened(snapshot)
    writer.int32(snapshot.state_epoch)
    writer.int32(snapshot.leader_epoch)
    writer.int64(snapshot.start_offset)
    for _ in range(2):  # when it was created, and when it was written
        writer.int64(timestamp)
    return _ended(writer, snapshot.batches, snapshot.delivery_complete_count)


def _ended(writer: Writer, batches: list[ShareStateBatch], done: int) -> bytes:
    def write(batch: ShareStateBatch) -> None:
        writer.int64(batch.first_offset)
        writer.int64(batch.last_offset)
        writer.int8(batch.delivery_state)
        writer.int16(batch.delivery_count)
        writer.tags({})

    writer.array(batches, write)
    writer.tags({} if done == UNKNOWN else {DONE_TAG: struct.pack(">i", done)})
    return writer.encoded()
