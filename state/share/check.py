"""Invariants of share state: offsets ascend, acquired records have locks."""

from brokertwin.state.core.check import ALL, Touched, Violations, by_kind
from brokertwin.state.core.pending import timer_of
from brokertwin.state.core.tables import CellTables
from brokertwin.state.share import share_partitions
from brokertwin.state.share.in_flight import NO_LOCK, TERMINAL, RecordState
from brokertwin.state.share.share_partition import SharePartition, ShareStatus
from brokertwin.state.share.state_store import KIND, ShareState


def check(tables: CellTables, touched: Touched = ALL) -> Violations:
    if touched.has("groups", KIND):
        yield from _states(tables)
    is_locked = touched.has_timer(share_partitions.TIMER)
    if is_locked or touched.has("shares", share_partitions.KIND):
        yield from _partitions(tables)


def _partitions(tables: CellTables) -> Violations:
    for key in by_kind(tables.shares).get(share_partitions.KIND, []):
        share = tables.shares.get(key, SharePartition)
        assert share is not None, key
        for violation in _in_flight(share):
            yield f"{key}: {violation}"
        broker, _, name = key.split("/", 2)
        timer = timer_of(tables.pending, f"{share_partitions.TIMER}/{broker}/{name}")
        if share.status != ShareStatus.FAILED and timer != share.earliest_lock():
            yield f"{key}: timer is at {timer}, first lock at {share.earliest_lock()}"


def _in_flight(share: SharePartition) -> Violations:
    """Check: offsets ascend; exactly acquired records have owner and lock."""
    end = share.start_offset - 1
    if share.batches and share.end_offset < share.batches[-1].last:
        yield f"the end offset {share.end_offset} is before {share.batches[-1].last}"
    last = -1
    done = 0
    for batch in share.batches:
        if not last < batch.first <= batch.last:
            yield f"batch at {batch.first} after offset {last}"
        last = batch.last
        for low, high, record in batch.states():
            is_acquired = record.state == RecordState.ACQUIRED
            if is_acquired != bool(record.member_id) or (
                is_acquired and record.locked_until == NO_LOCK
            ):
                yield f"{low} to {high} are in state {record.state} of {record.member_id!r}"
            if record.state in TERMINAL and high > end:
                done += high - max(low, end + 1) + 1
    if share.batches and done != share.done_count:
        yield f"count of done records is {share.done_count}, should be {done}"


def _states(tables: CellTables) -> Violations:
    for key in by_kind(tables.groups).get(KIND, []):
        state = tables.groups.get(key, ShareState)
        assert state is not None, key
        end = state.snapshot.start_offset - 1
        for batch in state.snapshot.batches:
            if not end < batch.first_offset <= batch.last_offset:
                yield f"{key} has {batch} after offset {end}"
            end = batch.last_offset
