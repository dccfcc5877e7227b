"""Encodes the records of share coordinators as rows of `__share_group_state`.

Source: `ShareCoordinatorRecordHelpers` in Kafka 4.3's share-coordinator. A snapshot has the whole
state, and an update the changes since. A null snapshot is a tombstone.
`brokertwin/offsets/share_progress.py` reads rows of real brokers.
"""

from brokertwin.protocol.generated.share_state_rows import (
    ShareRowBatch,
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
)
from brokertwin.protocol.rows import Encoded
from brokertwin.state.core.share_records import ShareSnapshot, ShareStateBatch, ShareStateWritten


def encode(record: ShareStateWritten, timestamp: int) -> Encoded:
    """Key and value, written at a time in ms since 1970. Raises ValueError for too long an id."""
    place = (record.group_id, record.topic_id, record.partition)
    if record.snapshot is None:
        return ShareSnapshotKey(*place).encoded(), None
    if record.update is None:
        return ShareSnapshotKey(*place).encoded(), _snapshot(record.snapshot, timestamp).encoded(0)
    update = ShareUpdateValue(
        snapshot_epoch=record.snapshot.snapshot_epoch,
        leader_epoch=record.update.leader_epoch,
        start_offset=record.update.start_offset,
        delivery_complete_count=record.update.delivery_complete_count,
        state_batches=_batches(record.update.batches),
    )
    return ShareUpdateKey(*place).encoded(), update.encoded(0)


def _snapshot(snapshot: ShareSnapshot, timestamp: int) -> ShareSnapshotValue:
    return ShareSnapshotValue(
        snapshot_epoch=snapshot.snapshot_epoch,
        state_epoch=snapshot.state_epoch,
        leader_epoch=snapshot.leader_epoch,
        start_offset=snapshot.start_offset,
        delivery_complete_count=snapshot.delivery_complete_count,
        create_timestamp=timestamp,
        write_timestamp=timestamp,
        state_batches=_batches(snapshot.batches),
    )


def _batches(batches: list[ShareStateBatch]) -> list[ShareRowBatch]:
    return [
        ShareRowBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
        for each in batches
    ]
