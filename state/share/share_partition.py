"""What a share group does with a partition, on the broker that leads it: Kafka's `SharePartition`.

    acquire        a member gets records that nobody has, for as long as their lock lasts
    acknowledge    it accepts, releases, rejects them, or renews the lock
    release        its records are given back: it has closed its session
    expire         locks are over
    written        a share coordinator has answered; the start offset moves over what is done with

Nothing of it is durable: a broker that begins to lead asks the share coordinator (`load`). Offsets
are those of records, times in ms since 1970. Who changes something gets the batches that the share
coordinator is to be told. Source: `SharePartition` in Kafka 4.3; KIP-932, KIP-1206, KIP-1222.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence

import msgspec

from brokertwin.state.core.errors import Error
from brokertwin.state.core.schema import Uuid
from brokertwin.state.share.in_flight import (
    NO_LOCK,
    TERMINAL,
    Batch,
    InFlight,
    RecordState,
)
from brokertwin.state.share.state_bodies import StateBatch
from brokertwin.state.share.state_store import Fault

NOWHERE = -1
NO_GAP = -1

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
"""The types of acknowledgements; a gap is an offset without a record."""

_STATES = {
    GAP: RecordState.ARCHIVED,
    ACCEPT: RecordState.ACKNOWLEDGED,
    RELEASE: RecordState.AVAILABLE,
    REJECT: RecordState.ARCHIVED,
}


class Status:
    """Where a share partition is in its life."""

    LOADING, ACTIVE, FAILED = "loading", "active", "failed"


class Limits(msgspec.Struct, frozen=True):
    """What holds for a group now: locks in ms, records in flight, deliveries of a record."""

    lock_ms: int
    records: int
    deliveries: int
    may_renew: bool = True


class Acknowledgement(msgspec.Struct, frozen=True):
    """Records, both offsets inclusive, and one type for all of them or one for each."""

    first: int
    last: int
    types: tuple[int, ...]

    def type_at(self, offset: int) -> int:
        """How a record is acknowledged."""
        return self.types[offset - self.first] if len(self.types) > 1 else self.types[0]


class Acquired(msgspec.Struct, frozen=True):
    """Records that a member has got, both offsets inclusive, and for which time."""

    first: int
    last: int
    delivery_count: int


class Run(msgspec.Struct, frozen=True):
    """A batch of the log, both offsets inclusive."""

    first: int
    last: int


class Wish(msgspec.Struct, frozen=True):
    """What a member would like: so many records, in batches of such a size; or not one more."""

    member_id: str
    records: int
    batch_size: int
    is_record_limit: bool


Told = list[StateBatch]
"""What a share coordinator is to be told of records."""


class SharePartition(msgspec.Struct):
    """A partition in a share group.

    Attributes:
        leader_epoch, state_epoch: in which it was loaded.
        error: why it could not be loaded; where the status is FAILED.
        start_offset: records before it are done with.
        end_offset: the last record that was ever acquired; the start offset where there is none.
        batches: what is in flight, in the order of offsets.
        looks_back: whether there may be something free among them.
        gap_start, gap_end: where records begin that the share coordinator did not tell of, and the
            end offset when it told.
        done_count: how many records from the start offset on are done with.
        found_offset: the offset to read on at whose place in the log was found out last.
    """

    group_id: str
    topic_id: Uuid
    partition: int
    leader_epoch: int
    state_epoch: int = 0
    status: str = Status.LOADING
    error: int = 0
    start_offset: int = 0
    end_offset: int = 0
    batches: list[Batch] = []
    looks_back: bool = False
    gap_start: int = NO_GAP
    gap_end: int = NO_GAP
    done_count: int = 0
    found_offset: int = NOWHERE

    # Beginning

    def load(self, state_epoch: int, start_offset: int, told: Sequence[StateBatch]) -> None:
        """Takes over what the share coordinator knows."""
        self.state_epoch, self.start_offset, self.status = state_epoch, start_offset, Status.ACTIVE
        self.error, self.end_offset = 0, start_offset
        self.batches, self.done_count, self.looks_back = [], 0, False
        self.gap_start = self.gap_end = NO_GAP
        following = start_offset
        for each in told:
            if self.gap_start == NO_GAP and each.first_offset > following:
                self.gap_start = following
            following = each.last_offset + 1
            record = InFlight(each.delivery_state, each.delivery_count)
            self.batches.append(Batch(each.first_offset, each.last_offset, [record]))
            if record.is_done:
                self.done_count += each.last_offset - each.first_offset + 1
        if self.batches:
            self.looks_back = True
            self.end_offset = self.batches[-1].last
            self.gap_end = self.end_offset if self.gap_start != NO_GAP else NO_GAP
            self.advance()

    # Looking

    @property
    def _has_gap(self) -> bool:
        return self.gap_start != NO_GAP and self.gap_end == self.end_offset

    def next_fetch_offset(self) -> int:
        """Where to read on: at the first record that is free, or behind all that are in flight."""
        if not self.batches or self.start_offset > self.batches[-1].last:
            self.looks_back = False
            return self.end_offset
        found = self._first_free() if self.looks_back else None
        if found is None:
            self.looks_back = False
            return self.end_offset + 1
        return found

    def _first_free(self) -> int | None:
        gap = self.gap_start if self._has_gap else NO_GAP
        for batch in self.batches:
            if gap != NO_GAP:
                if batch.first > gap:
                    return gap
                gap = max(batch.last + 1, gap)
            for first, _, record in batch.parts():
                if record.is_free:
                    return first
        return None

    @property
    def records_in_flight(self) -> int:
        """From the start offset to the end offset, done with or not."""
        return self.end_offset - self.start_offset + 1 if self.batches else 0

    def can_acquire(self, limits: Limits) -> bool:
        """Whether somebody may get something: it is free, or there may be more in flight."""
        is_behind = self.next_fetch_offset() == self.end_offset + 1
        return not is_behind or self.records_in_flight < limits.records

    def earliest_lock(self) -> int | None:
        """When the first lock is over."""
        locks = [
            record.locked_until
            for batch in self.batches
            for record in batch.records
            if record.locked_until != NO_LOCK and record.state == RecordState.ACQUIRED
        ]
        return min(locks, default=None)

    # Acknowledging

    def acknowledge(
        self, member_id: str, acknowledgements: list[Acknowledgement], limits: Limits, now: int
    ) -> Told | Fault:
        """What a member says of records that it has; where it may not say it, nothing happens."""
        changed: list[tuple[int, int, InFlight]] = []
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
                record.end_leaving(False, NO_LOCK)
            return fault
        return [_told(*each) for each in changed]

    def _acknowledge(
        self,
        member_id: str,
        given: Acknowledgement,
        limits: Limits,
        now: int,
        changed: list[tuple[int, int, InFlight]],
    ) -> Fault | None:
        batches = self._named(given)
        if isinstance(batches, Fault):
            return batches
        for batch in batches:
            if batch.last < self.start_offset:
                continue
            if not batch.is_parted:
                fault = _not_whole(batch.whole, member_id)
                if fault is not None:
                    return fault
                is_cut = batch.first < self.start_offset
                if is_cut or len(given.types) > 1 or not batch.set_topic(given.first, given.last):
                    batch.part()
            lowest = max(given.first, self.start_offset)
            for first, last, record in batch.parts_in(lowest, given.last):
                fault = _not_single(record, member_id) if batch.is_parted else None
                if fault is not None:
                    return fault
                said = given.type_at(max(first, given.first))
                if said == RENEW and not limits.may_renew:
                    return NO_RENEWAL
                if said == RENEW:
                    record.locked_until = now + limits.lock_ms
                    continue
                record.begin_leaving(_STATES[said], limits.deliveries)
                self._count(first, last, record, 1)
                changed.append((first, last, record))
        return None

    def _named(self, given: Acknowledgement) -> list[Batch] | Fault:
        """The batches that an acknowledgement is about."""
        begun = self._begun(given.first)
        if not begun and given.first < self.start_offset <= given.last:
            begun = self._begun(self.start_offset)
        if not begun:
            return NOT_THERE
        named = self.batches[begun - 1 : self._begun(given.last)]
        if named[-1].last < given.first:
            return FIRST_PAST
        return LAST_PAST if given.last > named[-1].last else named

    def _begun(self, offset: int) -> int:
        """Return how many batches begin at an offset or before it."""
        return bisect_right(self.batches, offset, key=_first_of)

    def _count(self, first: int, last: int, record: InFlight, by: int) -> None:
        """Counts records that are done with from now on, or are not after all."""
        if record.state in TERMINAL and last >= self.start_offset:
            self.done_count += by * (last - max(self.start_offset, first) + 1)

    def release(self, member_id: str, limits: Limits) -> Told:
        """Gives back what a member has."""
        told: Told = []
        for first, last, record in self._held(member_id):
            is_gone = last < self.start_offset
            state = RecordState.ARCHIVED if is_gone else RecordState.AVAILABLE
            record.begin_leaving(state, limits.deliveries)
            self._count(first, last, record, 1)
            told.append(_told(first, last, record))
        return told

    def _held(self, member_id: str) -> Iterator[tuple[int, int, InFlight]]:
        for batch in self.batches:
            is_cut = batch.first < self.start_offset <= batch.last
            if not batch.is_parted and is_cut and batch.whole.member_id == member_id:
                batch.part()
            for part in batch.parts():
                if part[2].member_id == member_id and part[2].state == RecordState.ACQUIRED:
                    yield part

    def expire(self, limits: Limits, now: int) -> Told:
        """Takes back what a member has had for as long as it may."""
        told: Told = []
        for batch in self.batches:
            is_cut = batch.first < self.start_offset <= batch.last
            if not batch.is_parted and is_cut and _is_over(batch.whole, now):
                batch.part()
            for first, last, record in batch.parts():
                if not _is_over(record, now):
                    continue
                is_gone = last < self.start_offset
                state = RecordState.ARCHIVED if is_gone else RecordState.AVAILABLE
                record.leave(state, limits.deliveries)
                record.locked_until = NO_LOCK
                self._count(first, last, record, 1)
                self.looks_back = True
                told.append(_told(first, last, record))
        return told

    def written(self, told: Sequence[StateBatch], is_written: bool, now: int) -> bool:
        """A share coordinator has answered, or has not: what was said of records holds, or not.

        What was told of a lock that was over holds in any case, and its records may have been
        acquired and told of anew meanwhile: that is left to the answer to the latter. Gives back
        whether the start offset has moved.
        """
        for first, last, record in self._meant(told):
            if not is_written:
                self._count(first, last, record, -1)
            record.end_leaving(is_written, now)
            self.looks_back |= record.state == RecordState.AVAILABLE
        return is_written and self.advance()

    def _meant(self, told: Sequence[StateBatch]) -> Iterator[tuple[int, int, InFlight]]:
        """Yield the records whose change is still the one that a share coordinator was told."""
        for each in told:
            low, high = each.first_offset, each.last_offset
            said = (each.delivery_state, each.delivery_count)
            for batch in self.batches[max(self._begun(low) - 1, 0) : self._begun(high)]:
                for first, last, record in batch.parts_in(low, high):
                    is_said = low <= first and (record.state, record.delivery_count) == said
                    if is_said and record.former is not None:
                        yield first, last, record

    # Moving on

    def advance(self) -> bool:
        """The start offset goes over records that are done with, and over nothing else."""
        done = self._done_up_to()
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
        if self._has_gap and not is_inside:
            start = min(self.gap_start, start)
        self.start_offset = max(self.start_offset, start)
        self.done_count -= count
        self.batches = [each for each in self.batches if each.last > last_done]
        return True

    def _done_up_to(self) -> tuple[int, int] | None:
        """The last of the records from the first one on that are done with, and their count."""
        begun = self._begun(self.start_offset)
        if not begun or self.batches[begun - 1].last < self.start_offset:
            return None
        if not self.batches[begun - 1].at(self.start_offset).is_done:
            return None
        last_done, count = None, 0
        for batch in self.batches:
            if self._has_gap and batch.last >= self.gap_start:
                break
            for first, last, record in batch.parts():
                if not record.is_done:
                    return None if last_done is None else (last_done, count)
                last_done = last
                if last >= self.start_offset:
                    count += last - max(first, self.start_offset) + 1
        return None if last_done is None else (last_done, count)

    def cut(self, log_start_offset: int) -> None:
        """Records before the log's start are gone, and are not delivered."""
        if log_start_offset <= self.start_offset:
            return
        if not self.batches:
            self.start_offset = self.end_offset = log_start_offset
            self.done_count = 0
            return
        gone = sum(
            min(last, log_start_offset - 1) - max(first, self.start_offset) + 1
            for batch in self.batches
            for first, last, record in batch.parts()
            if record.state in TERMINAL
            and max(first, self.start_offset) <= min(last, log_start_offset - 1)
        )
        self.archive(self.start_offset, log_start_offset, RecordState.AVAILABLE)
        self.start_offset = log_start_offset
        self.done_count -= gone
        self.end_offset = max(self.end_offset, self.start_offset)

    def archive(self, first: int, end: int, state: RecordState) -> int:
        """Archives the records in this state from `first` up to `end`; gives back their count."""
        count = 0
        for batch in self.batches:
            if batch.first >= end or batch.last < first:
                continue
            if not batch.is_parted and not batch.set_topic(first, end - 1):
                if batch.whole.state != state:
                    continue
                batch.part()
            for low, high, record in batch.parts():
                if record.state == state and low >= first and high < end:
                    record.archive()
                    self.looks_back = True
                    count += high - low + 1
        return count


def _first_of(batch: Batch) -> int:
    return batch.first


def _told(first: int, last: int, record: InFlight) -> StateBatch:
    return StateBatch(first, last, int(record.state), record.delivery_count)


def _is_over(record: InFlight, now: int) -> bool:
    return record.state == RecordState.ACQUIRED and NO_LOCK != record.locked_until <= now


def _invalid(message: str) -> Fault:
    return Fault(Error.INVALID_RECORD_STATE, message)


NOT_THERE = _invalid(
    "Batch record not found. The request batch offsets are not found in the cache."
)
FIRST_PAST = Fault(
    Error.INVALID_REQUEST,
    "Batch record not found. The first offset in request is past acquired records.",
)
LAST_PAST = Fault(
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


def _not_whole(record: InFlight, member_id: str) -> Fault | None:
    """Why a member may not acknowledge a batch."""
    if not record.member_id:
        return _BATCH_FREE
    if record.member_id != member_id:
        return _BATCH_OTHERS
    return _IN_CHANGE if record.former is not None else None


def _not_single(record: InFlight, member_id: str) -> Fault | None:
    """Why a member may not acknowledge a record of a batch that has parted."""
    if record.state != RecordState.ACQUIRED:
        return _FREE
    if record.former is not None:
        return _IN_CHANGE
    return _OTHERS if record.member_id != member_id else None
