"""What must hold of share states and share partitions: batches ascend, and locks end."""

from brokertwin.state.core.check import ALL, Touched, Violations, by_kind
from brokertwin.state.core.pending import timer_of
from brokertwin.state.core.tables import Tables
from brokertwin.state.share import share_partitions
from brokertwin.state.share.in_flight import NO_LOCK, TERMINAL, RecordState
from brokertwin.state.share.share_partition import SharePartition, Status
from brokertwin.state.share.state_store import KIND, ShareState


def check(tables: Tables, touched: Touched = ALL) -> Violations:
    """What does not hold of the states in `groups`, and of the share partitions in `shares`."""
    if touched.has("groups", KIND):
        yield from _states(tables)
    is_locked = touched.has_timer(share_partitions.TIMER)
    if is_locked or touched.has("shares", share_partitions.KIND):
        yield from _partitions(tables)


def _partitions(tables: Tables) -> Violations:
    for key in by_kind(tables.shares).get(share_partitions.KIND, []):
        share = tables.shares.get(key, SharePartition)
        assert share is not None, key
        for violation in _in_flight(share):
            yield f"{key}: {violation}"
        broker, _, name = key.split("/", 2)
        timer = timer_of(tables.pending, f"{share_partitions.TIMER}/{broker}/{name}")
        if share.status != Status.FAILED and timer != share.earliest_lock():
            yield f"{key}: its timer is at {timer}, its first lock at {share.earliest_lock()}"


def _in_flight(share: SharePartition) -> Violations:
    """Offsets ascend; who is acquired has a member and a lock, and nobody else has."""
    end = share.start_offset - 1
    if share.batches and share.end_offset < share.batches[-1].last:
        yield f"the end offset {share.end_offset} is before {share.batches[-1].last}"
    last = -1
    done = 0
    for batch in share.batches:
        if not last < batch.first <= batch.last:
            yield f"a batch at {batch.first} behind {last}"
        last = batch.last
        for low, high, record in batch.parts():
            is_held = record.state == RecordState.ACQUIRED
            if is_held != bool(record.member_id) or (is_held and record.locked_until == NO_LOCK):
                yield f"{low} to {high} are in state {record.state} of {record.member_id!r}"
            if record.state in TERMINAL and high > end:
                done += high - max(low, end + 1) + 1
    if share.batches and done != share.done_count:
        yield f"{share.done_count} records are said to be done with, {done} are"


def _states(tables: Tables) -> Violations:
    for key in by_kind(tables.groups).get(KIND, []):
        state = tables.groups.get(key, ShareState)
        assert state is not None, key
        end = state.snapshot.start_offset - 1
        for batch in state.snapshot.batches:
            if not end < batch.first_offset <= batch.last_offset:
                yield f"{key} has {batch} behind offset {end}"
            end = batch.last_offset
