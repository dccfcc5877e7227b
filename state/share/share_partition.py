"""State machine of a share partition on the partition's leader.

    acquire            a member gets available records for the duration of a lock (`acquisition.py`)
    acknowledge        it accepts, releases or rejects records, or renews the lock
    release            its records become available because its session is closed
    expire             locks have expired
    complete_write     a share coordinator has responded; the start offset may advance

Nothing is durable: a new leader reads the state from the share coordinator (`load`). Offsets are
record offsets, times ms since 1970. Changes return the batches to write to the share coordinator.

Source: `SharePartition` in Kafka 4.3; KIP-932, KIP-1206, KIP-1222.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence

import msgspec

from brokertwin.protocol.bodies import Uuid
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.shared import StateBatch
from brokertwin.state.share.in_flight import (
    NO_LOCK,
    TERMINAL,
    InFlightBatch,
    InFlightState,
    RecordState,
)
from brokertwin.state.share.state_store import ShareStateError

UNKNOWN_OFFSET = -1
NO_GAP = -1

ATTEMPTS = 5
BACKOFF_MS = 1000
BACKOFF_MAX_MS = 30_000
"""Attempts to write dead letters; the interval doubles. Kafka adds a jitter of 20%."""

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
"""Types of acknowledgements; a gap is an offset without a record."""

_STATES = {
    GAP: RecordState.ARCHIVED,
    ACCEPT: RecordState.ACKNOWLEDGED,
    RELEASE: RecordState.AVAILABLE,
    REJECT: RecordState.ARCHIVED,
}


class ShareStatus:
    LOADING, ACTIVE, FAILED = "loading", "active", "failed"


class ShareLimits(msgspec.Struct, frozen=True):
    """Limits of a group: lock duration (ms), records in flight, deliveries.

    Records that are rejected or delivered too often become dead letters if it `has_dead_letters`.
    """

    lock_ms: int
    records: int
    deliveries: int
    may_renew: bool = True
    has_dead_letters: bool = False


class AcknowledgedRecords(msgspec.Struct, frozen=True):
    """Acknowledged records (offsets inclusive).

    `types` has one type for all records, or one for each.
    """

    first: int
    last: int
    types: tuple[int, ...]

    def type_at(self, offset: int) -> int:
        return self.types[offset - self.first] if len(self.types) > 1 else self.types[0]


class Acquired(msgspec.Struct, frozen=True):
    """Acquired records (offsets inclusive) and their delivery count."""

    first: int
    last: int
    delivery_count: int


class DeadLetters(msgspec.Struct, frozen=True, array_like=True):
    """Records that become dead letters (offsets inclusive)."""

    first: int
    last: int
    delivery_count: int
    cause: int


class LogBatch(msgspec.Struct, frozen=True):
    """A batch of the log (offsets inclusive)."""

    first: int
    last: int


class AcquireRequest(msgspec.Struct, frozen=True):
    """Limits of a member's fetch.

    With `is_record_limit`, `records` is a hard limit. Otherwise whole batches are acquired.
    """

    member_id: str
    records: int
    batch_size: int
    is_record_limit: bool


StateBatches = list[StateBatch]
"""State changes to write to the share coordinator."""


class SharePartition(msgspec.Struct):
    """A partition in a share group.

    Attributes:
        leader_epoch, state_epoch: epochs in which it was loaded.
        error: why it could not be loaded, if the status is FAILED.
        start_offset: all records before it are done.
        end_offset: last acquired offset; the start offset if there is none.
        batches: batches in flight, by offset.
        looks_back: whether batches may contain available records.
        gap_start, gap_end: first offset without a state when it was loaded, and the end offset
            then.
        done_count: number of done records from the start offset on.
        found_offset: the next fetch offset whose position in the log was last looked up.
    """

    group_id: str
    topic_id: Uuid
    partition: int
    leader_epoch: int
    state_epoch: int = 0
    status: str = ShareStatus.LOADING
    error: int = 0
    start_offset: int = 0
    end_offset: int = 0
    batches: list[InFlightBatch] = []
    looks_back: bool = False
    gap_start: int = NO_GAP
    gap_end: int = NO_GAP
    done_count: int = 0
    found_offset: int = UNKNOWN_OFFSET

    # Loading

    def load(self, state_epoch: int, start_offset: int, batches: Sequence[StateBatch]) -> None:
        self.state_epoch, self.start_offset, self.status = (
            state_epoch,
            start_offset,
            ShareStatus.ACTIVE,
        )
        self.error, self.end_offset = 0, start_offset
        self.batches, self.done_count, self.looks_back = [], 0, False
        self.gap_start = self.gap_end = NO_GAP
        following = start_offset
        for each in batches:
            if self.gap_start == NO_GAP and each.first_offset > following:
                self.gap_start = following
            following = each.last_offset + 1
            record = InFlightState(each.delivery_state, each.delivery_count)
            self.batches.append(InFlightBatch(each.first_offset, each.last_offset, [record]))
            if record.is_done:
                self.done_count += each.last_offset - each.first_offset + 1
        if self.batches:
            self.looks_back = True
            self.end_offset = self.batches[-1].last
            self.gap_end = self.end_offset if self.gap_start != NO_GAP else NO_GAP
            self.advance()

    # Reading

    @property
    def has_gap(self) -> bool:
        return self.gap_start != NO_GAP and self.gap_end == self.end_offset

    def next_fetch_offset(self) -> int:
        """Return the first available offset, or the one after the end offset."""
        if not self.batches or self.start_offset > self.batches[-1].last:
            self.looks_back = False
            return self.end_offset
        offset = self._first_free() if self.looks_back else None
        if offset is None:
            self.looks_back = False
            return self.end_offset + 1
        return offset

    def _first_free(self) -> int | None:
        gap = self.gap_start if self.has_gap else NO_GAP
        for batch in self.batches:
            if gap != NO_GAP:
                if batch.first > gap:
                    return gap
                gap = max(batch.last + 1, gap)
            for first, _, record in batch.states():
                if record.is_free:
                    return first
        return None

    @property
    def records_in_flight(self) -> int:
        return self.end_offset - self.start_offset + 1 if self.batches else 0

    def can_acquire(self, limits: ShareLimits) -> bool:
        is_at_end = self.next_fetch_offset() == self.end_offset + 1
        return not is_at_end or self.records_in_flight < limits.records

    def earliest_lock(self) -> int | None:
        """Return the time when the first lock expires, or a dead letter is written again."""
        locks = [
            record.locked_until
            for batch in self.batches
            for record in batch.records
            if record.locked_until != NO_LOCK
            and (record.state == RecordState.ACQUIRED or record.attempts or record.is_sent)
        ]
        return min(locks, default=None)

    # Acknowledging

    def acknowledge(
        self,
        member_id: str,
        acknowledgements: list[AcknowledgedRecords],
        limits: ShareLimits,
        now: int,
    ) -> StateBatches | ShareStateError:
        """Apply a member's acknowledgements and return the changes.

        If one is invalid, all are undone and the error is returned.
        """
        changed: list[tuple[int, int, InFlightState]] = []
        fault = None
        for each in acknowledgements:
            if each.last < self.start_offset:
                continue
            fault = self._acknowledge(member_id, each, limits, now, changed)
            if fault is not None:
                break
        if fault is not None:
            for first, last, record in changed:
                self._count(first, last, record, -1)
                record.complete_transition(False, NO_LOCK)
            return fault
        return [_state_batch(*each) for each in changed]

    def _acknowledge(
        self,
        member_id: str,
        records: AcknowledgedRecords,
        limits: ShareLimits,
        now: int,
        changed: list[tuple[int, int, InFlightState]],
    ) -> ShareStateError | None:
        batches = self._acknowledged_batches(records)
        if isinstance(batches, ShareStateError):
            return batches
        for batch in batches:
            if batch.last < self.start_offset:
                continue
            if not batch.is_split:
                fault = _batch_error(batch.shared_state, member_id)
                if fault is not None:
                    return fault
                is_partly_done = batch.first < self.start_offset
                if (
                    is_partly_done
                    or len(records.types) > 1
                    or not batch.is_within(records.first, records.last)
                ):
                    batch.split()
            lowest = max(records.first, self.start_offset)
            for first, last, record in batch.states_in(lowest, records.last):
                fault = _record_error(record, member_id) if batch.is_split else None
                if fault is not None:
                    return fault
                type_ = records.type_at(max(first, records.first))
                if type_ == RENEW and not limits.may_renew:
                    return NO_RENEWAL
                if type_ == RENEW:
                    record.locked_until = now + limits.lock_ms
                    continue
                is_letter = type_ == REJECT and limits.has_dead_letters
                state = RecordState.ARCHIVING if is_letter else _STATES[type_]
                record.start_transition(state, limits.deliveries, limits.has_dead_letters)
                self._count(first, last, record, 1)
                changed.append((first, last, record))
        return None

    def _acknowledged_batches(
        self, records: AcknowledgedRecords
    ) -> list[InFlightBatch] | ShareStateError:
        count = self._batches_up_to(records.first)
        if not count and records.first < self.start_offset <= records.last:
            count = self._batches_up_to(self.start_offset)
        if not count:
            return BATCH_NOT_FOUND
        named = self.batches[count - 1 : self._batches_up_to(records.last)]
        if named[-1].last < records.first:
            return FIRST_PAST
        return LAST_PAST if records.last > named[-1].last else named

    def _batches_up_to(self, offset: int) -> int:
        return bisect_right(self.batches, offset, key=_first_of)

    def _count(self, first: int, last: int, record: InFlightState, by: int) -> None:
        """Add records that are done (1), or no longer (-1), to the count."""
        if record.state in TERMINAL and last >= self.start_offset:
            self.done_count += by * (last - max(self.start_offset, first) + 1)

    def release(self, member_id: str, limits: ShareLimits) -> StateBatches:
        batches: StateBatches = []
        for first, last, record in self._acquired_by(member_id):
            is_done_range = last < self.start_offset
            state = RecordState.ARCHIVED if is_done_range else RecordState.AVAILABLE
            record.start_transition(state, limits.deliveries, limits.has_dead_letters)
            self._count(first, last, record, 1)
            batches.append(_state_batch(first, last, record))
        return batches

    def _acquired_by(self, member_id: str) -> Iterator[tuple[int, int, InFlightState]]:
        for batch in self.batches:
            is_partly_done = batch.first < self.start_offset <= batch.last
            if not batch.is_split and is_partly_done and batch.shared_state.member_id == member_id:
                batch.split()
            for first, last, record in batch.states():
                if record.member_id == member_id and record.state == RecordState.ACQUIRED:
                    yield first, last, record

    def expire(self, limits: ShareLimits, now: int) -> StateBatches:
        """Release records whose lock has expired."""
        batches: StateBatches = []
        for batch in self.batches:
            is_partly_done = batch.first < self.start_offset <= batch.last
            if not batch.is_split and is_partly_done and _is_expired(batch.shared_state, now):
                batch.split()
            for first, last, record in batch.states():
                if not _is_expired(record, now):
                    continue
                is_done_range = last < self.start_offset
                state = RecordState.ARCHIVED if is_done_range else RecordState.AVAILABLE
                record.transition(state, limits.deliveries, limits.has_dead_letters)
                record.locked_until = NO_LOCK
                self._count(first, last, record, 1)
                self.looks_back = True
                batches.append(_state_batch(first, last, record))
        return batches

    def complete_write(self, batches: Sequence[StateBatch], is_written: bool, now: int) -> bool:
        """Complete or undo the changes of a write to the share coordinator.

        A change that the end of a lock has made is not undone. Its records may have been acquired
        and changed again, so they are left to the response of the later write. Returns True if the
        start offset has advanced.
        """
        for first, last, record in self._records_with_change(batches):
            if not is_written:
                self._count(first, last, record, -1)
            record.complete_transition(is_written, now)
            self.looks_back |= record.state == RecordState.AVAILABLE
        return is_written and self.advance()

    def _records_with_change(
        self, batches: Sequence[StateBatch]
    ) -> Iterator[tuple[int, int, InFlightState]]:
        for each in batches:
            low, high = each.first_offset, each.last_offset
            state = (each.delivery_state, each.delivery_count)
            first_index, end_index = self._batches_up_to(low) - 1, self._batches_up_to(high)
            for batch in self.batches[max(first_index, 0) : end_index]:
                for first, last, record in batch.states_in(low, high):
                    is_unchanged = low <= first and (record.state, record.delivery_count) == state
                    if is_unchanged and record.former is not None:
                        yield first, last, record

    # Dead letters

    def dead_letters(self, batches: Sequence[StateBatch]) -> list[DeadLetters]:
        """Return the ARCHIVING records of these batches whose dead letters are not sent."""
        return [
            DeadLetters(first, last, record.delivery_count, record.cause)
            for first, last, record in self._archiving(batches)
            if not record.is_sent
        ]

    def note_sent(self, letters: DeadLetters, until: int) -> None:
        """Await the response to a write of dead letters until a time."""
        for _, _, record in self._archiving([_written_batch(letters)]):
            record.is_sent, record.locked_until = True, until

    def postpone(self, letters: DeadLetters, now: int) -> bool:
        """Write dead letters again later; False after the last attempt."""
        for batch in self.batches:
            if not batch.is_split and batch.first < letters.first <= batch.last:
                batch.split()
        may_repeat = False
        for _, _, record in self._archiving([_written_batch(letters)]):
            record.is_sent, record.attempts = False, record.attempts + 1
            record.locked_until = now + min(BACKOFF_MS << record.attempts, BACKOFF_MAX_MS)
            may_repeat = record.attempts < ATTEMPTS
        return may_repeat

    def due_letters(self, now: int) -> list[DeadLetters]:
        """Return the dead letters whose next attempt is due, or that got no response in time."""
        return [
            DeadLetters(first, last, record.delivery_count, record.cause)
            for first, last, record in self._archiving(self.states())
            if NO_LOCK != record.locked_until <= now
        ]

    def states(self) -> StateBatches:
        """Return the state of all records in flight."""
        return [
            _state_batch(first, last, record)
            for batch in self.batches
            for first, last, record in batch.states()
        ]

    def _archiving(self, batches: Sequence[StateBatch]) -> Iterator[tuple[int, int, InFlightState]]:
        for each in batches:
            if each.delivery_state == RecordState.ARCHIVING:
                low, high = each.first_offset, each.last_offset
                first_index, end_index = self._batches_up_to(low) - 1, self._batches_up_to(high)
                for batch in self.batches[max(first_index, 0) : end_index]:
                    for first, last, record in batch.states_in(low, high):
                        is_within = low <= first and last <= high and record.former is None
                        if is_within and record.state == RecordState.ARCHIVING:
                            yield first, last, record

    def archive_written(self, letters: DeadLetters) -> StateBatches:
        """Archive records whose dead letters are written, or cannot be written."""
        changed: StateBatches = []
        for first, last, record in self._archiving([_written_batch(letters)]):
            record.archive()
            self._count(first, last, record, 1)
            changed.append(_state_batch(first, last, record))
        return changed

    # Advancing the start offset

    def advance(self) -> bool:
        """Advance the start offset over done records; True if it has moved."""
        done = self._leading_done()
        if done is None:
            return False
        last_done, count = done
        if last_done == self.batches[-1].last:
            self.start_offset = self.end_offset = last_done + 1
            self.batches, self.done_count = [], 0
            return True
        following = min(
            (each.first for each in self.batches if each.first > last_done), default=last_done + 1
        )
        is_inside = any(each.first <= last_done < each.last for each in self.batches)
        start = last_done + 1 if is_inside else following
        if self.has_gap and not is_inside:
            start = min(self.gap_start, start)
        self.start_offset = max(self.start_offset, start)
        self.done_count -= count
        self.batches = [each for each in self.batches if each.last > last_done]
        return True

    def _leading_done(self) -> tuple[int, int] | None:
        """Return the last of the leading done records, and their count."""
        begun = self._batches_up_to(self.start_offset)
        if not begun or self.batches[begun - 1].last < self.start_offset:
            return None
        if not self.batches[begun - 1].at(self.start_offset).is_done:
            return None
        last_done, count = None, 0
        for batch in self.batches:
            if self.has_gap and batch.last >= self.gap_start:
                break
            for first, last, record in batch.states():
                if not record.is_done:
                    return None if last_done is None else (last_done, count)
                last_done = last
                if last >= self.start_offset:
                    count += last - max(first, self.start_offset) + 1
        return None if last_done is None else (last_done, count)

    def advance_to_log_start(self, log_start_offset: int) -> None:
        """Advance to the log start offset; deleted records are not delivered."""
        if log_start_offset <= self.start_offset:
            return
        if not self.batches:
            self.start_offset = self.end_offset = log_start_offset
            self.done_count = 0
            return
        deleted_count = sum(
            min(last, log_start_offset - 1) - max(first, self.start_offset) + 1
            for batch in self.batches
            for first, last, record in batch.states()
            if record.state in TERMINAL
            and max(first, self.start_offset) <= min(last, log_start_offset - 1)
        )
        self.archive(self.start_offset, log_start_offset, RecordState.AVAILABLE)
        self.start_offset = log_start_offset
        self.done_count -= deleted_count
        self.end_offset = max(self.end_offset, self.start_offset)

    def archive(self, first: int, end: int, state: RecordState) -> int:
        """Archive records in a state from `first` up to `end`; return their count."""
        count = 0
        for batch in self.batches:
            if batch.first >= end or batch.last < first:
                continue
            if not batch.is_split and not batch.is_within(first, end - 1):
                if batch.shared_state.state != state:
                    continue
                batch.split()
            for low, high, record in batch.states():
                if record.state == state and low >= first and high < end:
                    record.archive()
                    self.looks_back = True
                    count += high - low + 1
        return count


def _first_of(batch: InFlightBatch) -> int:
    return batch.first


def _state_batch(first: int, last: int, record: InFlightState) -> StateBatch:
    return StateBatch(
        first_offset=first,
        last_offset=last,
        delivery_state=int(record.state),
        delivery_count=record.delivery_count,
    )


def _is_expired(record: InFlightState, now: int) -> bool:
    return record.state == RecordState.ACQUIRED and NO_LOCK != record.locked_until <= now


def _invalid(message: str) -> ShareStateError:
    return ShareStateError(Error.INVALID_RECORD_STATE, message)


BATCH_NOT_FOUND = _invalid(
    "Batch record not found. The request batch offsets are not found in the cache."
)
FIRST_PAST = ShareStateError(
    Error.INVALID_REQUEST,
    "Batch record not found. The first offset in request is past acquired records.",
)
LAST_PAST = ShareStateError(
    Error.INVALID_REQUEST,
    "Batch record not found. The last offset in request is past acquired records.",
)
NO_RENEWAL = _invalid("Renewing acquisition locks is not enabled for the group.")
_IN_CHANGE = _invalid(
    "The record state is invalid. The acknowledgement of delivery could not be completed."
)
_BATCH_FREE = _invalid("The batch cannot be acknowledged. The batch is not in the acquired state.")
_BATCH_OTHERS = _invalid("Member is not the owner of batch record")
_FREE = _invalid("The offset cannot be acknowledged. The offset is not acquired.")
_OTHERS = _invalid("Member is not the owner of offset")


def _written_batch(letters: DeadLetters) -> StateBatch:
    return StateBatch(
        first_offset=letters.first,
        last_offset=letters.last,
        delivery_state=int(RecordState.ARCHIVING),
        delivery_count=letters.delivery_count,
    )


def _batch_error(record: InFlightState, member_id: str) -> ShareStateError | None:
    if not record.member_id:
        return _BATCH_FREE
    if record.member_id != member_id:
        return _BATCH_OTHERS
    return _IN_CHANGE if record.former is not None else None


def _record_error(record: InFlightState, member_id: str) -> ShareStateError | None:
    """Return why a member may not acknowledge a record of a split batch."""
    if record.state != RecordState.ACQUIRED:
        return _FREE
    if record.former is not None:
        return _IN_CHANGE
    return _OTHERS if record.member_id != member_id else None
