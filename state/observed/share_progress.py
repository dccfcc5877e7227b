"""Progress of share groups, from the rows of a real `__share_group_state`.

Source: `ShareSnapshotKey` and `…Value`, `ShareUpdateKey` and `…Value` in Kafka 4.3's
share-coordinator (KIP-932, KIP-1226). A snapshot has the whole state of a partition, an update the
changes. Current record locks are in no row, because leaders have them in memory.
"""

from typing import NamedTuple

from brokertwin.state.core.kafka_bytes import Reader
from brokertwin.state.core.schema import Uuid
from brokertwin.state.core.share_records import ShareSnapshot, ShareStateBatch
from brokertwin.state.observed.offset_history import CoordinatorRow
from brokertwin.state.share.state_batches import combined

SNAPSHOT, UPDATE = 0, 1
DONE_TAG = 0
UNKNOWN = -1
"""Unchanged start offset or number of completed records, which Kafka counts since 4.2."""


class ShareKey(NamedTuple):
    """A topic partition of a share group."""

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
        """Apply a row of the topic."""
        try:
            kind, key = _key(row.key)
            if kind not in (SNAPSHOT, UPDATE):
                return
            if row.value is None:
                self.found.pop(key, None)
            elif kind == SNAPSHOT:
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


def _key(key: bytes) -> tuple[int, ShareKey]:
    reader = Reader(key)
    kind = reader.number("h")
    found = ShareKey(reader.string(), reader.uuid(), reader.number("i"))
    reader.end()
    return kind, found


def _snapshot(value: bytes) -> ShareSnapshot:
    reader = _opened(value)
    state_epoch, leader_epoch, start = (reader.number(kind) for kind in "iiq")
    reader.number("q")  # when it was created, and when it was written
    reader.number("q")
    batches, done = _rest(reader)
    return ShareSnapshot(state_epoch, leader_epoch, start, done, combined(batches, start))


def _updated(former: ShareSnapshot | None, value: bytes) -> ShareSnapshot:
    """Apply an update; without its snapshot, to an empty state."""
    reader = _opened(value)
    known = former or ShareSnapshot(0, 0, UNKNOWN, UNKNOWN)
    leader_epoch, start = reader.number("i"), reader.number("q")
    batches, done = _rest(reader)
    start = known.start_offset if start == UNKNOWN else start
    done = known.delivery_complete_count if done == UNKNOWN else done
    batches = combined([*known.batches, *batches], start)
    return ShareSnapshot(known.state_epoch, leader_epoch, start, done, batches)


def _opened(value: bytes) -> Reader:
    """A reader after the value's version and snapshot epoch."""
    reader = Reader(value, is_flexible=True)
    version = reader.number("h")
    if version != 0:
        raise ValueError(f"version {version} of a value is unknown; expected 0")
    reader.number("i")
    return reader


def _rest(reader: Reader) -> tuple[list[ShareStateBatch], int]:
    """The batches, and the number of completed records."""

    def batch() -> ShareStateBatch:
        found = ShareStateBatch(*(reader.number(kind) for kind in "qqbh"))
        reader.tags()
        return found

    batches = reader.array(batch)
    done = reader.tags().get(DONE_TAG)
    reader.end()
    return batches, UNKNOWN if done is None else Reader(done).number("i")
