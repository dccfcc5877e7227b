"""Progress of share groups, from the rows of a real `__share_group_state`.

Source: `ShareSnapshotKey` and `…Value`, `ShareUpdateKey` and `…Value` in Kafka 4.3's
share-coordinator (KIP-932, KIP-1226). A snapshot has the whole state of a partition, an update the
changes. Current record locks are in no row, because leaders have them in memory.
"""

from typing import NamedTuple

from msgspec.structs import astuple

from brokertwin.offsets.history import CoordinatorRow
from brokertwin.protocol.bodies import Uuid
from brokertwin.protocol.generated.share_state_rows import (
    ShareRowBatch,
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
)
from brokertwin.protocol.rows import kind_of
from brokertwin.state.core.share_records import ShareSnapshot, ShareStateBatch
from brokertwin.state.share.state_batches import combined

UNKNOWN = -1
"""Unchanged start offset or number of completed records, which Kafka counts since 4.2."""


class ShareKey(NamedTuple):
    group: str
    topic_id: Uuid
    partition: int


class ShareProgress:
    """Progress of share groups after rows in order.

    Attributes:
        found: state of each partition.
        unread: errors of unreadable rows, by partition and offset.
    """

    def __init__(self) -> None:
        self.found: dict[ShareKey, ShareSnapshot] = {}
        self.unread: dict[tuple[int, int], str] = {}

    def take(self, row: CoordinatorRow) -> None:
        try:
            kind = kind_of(row.key)
            if kind not in (ShareSnapshotKey.KIND, ShareUpdateKey.KIND):
                return
            key = ShareKey(*astuple(ShareSnapshotKey.decoded(row.key)))
            if row.value is None:
                self.found.pop(key, None)
            elif kind == ShareSnapshotKey.KIND:
                self.found[key] = _snapshot(row.value)
            else:
                self.found[key] = _updated(self.found.get(key), row.value)
        except ValueError as error:
            self.unread[row.partition, row.offset] = str(error)


def lag(progress: ShareSnapshot, end_offset: int) -> int | None:
    """Records that the group has not completed; None if unknown (KIP-1226)."""
    if UNKNOWN in (progress.start_offset, progress.delivery_complete_count):
        return None
    return end_offset - progress.start_offset - progress.delivery_complete_count


def _snapshot(value: bytes) -> ShareSnapshot:
    snapshot = ShareSnapshotValue.decoded(value)
    return ShareSnapshot(
        snapshot.state_epoch,
        snapshot.leader_epoch,
        snapshot.start_offset,
        snapshot.delivery_complete_count,
        combined(_batches(snapshot.state_batches), snapshot.start_offset),
    )


def _updated(former: ShareSnapshot | None, value: bytes) -> ShareSnapshot:
    """The state after an update; without a snapshot, the update alone."""
    update = ShareUpdateValue.decoded(value)
    snapshot = former or ShareSnapshot(0, 0, UNKNOWN, UNKNOWN)
    start, done = update.start_offset, update.delivery_complete_count
    start = snapshot.start_offset if start == UNKNOWN else start
    done = snapshot.delivery_complete_count if done == UNKNOWN else done
    batches = combined([*snapshot.batches, *_batches(update.state_batches)], start)
    return ShareSnapshot(snapshot.state_epoch, update.leader_epoch, start, done, batches)


def _batches(batches: list[ShareRowBatch]) -> list[ShareStateBatch]:
    return [ShareStateBatch(*astuple(each)) for each in batches]
