"""Acquisition of records of a share partition by a member.

Source: `SharePartition.acquire` in Kafka. Available records in flight come first, then new ones.
Records delivered at least max(2, limit / 2) times are suspect. They are acquired in smaller and
smaller parts, the last time alone, so that a bad record does not affect others. With a record limit
(KIP-1206), a member gets at most the requested records. Otherwise batches of the log are acquired
as a whole.
"""

from math import ceil

from brokertwin.state.share.in_flight import InFlightBatch, InFlightState, RecordState
from brokertwin.state.share.share_partition import (
    NO_GAP,
    Acquired,
    AcquireRequest,
    LogBatch,
    ShareLimits,
    SharePartition,
)

_MIN_SUSPECT_COUNT = 2
"""Lower bound of `_suspect_count`."""


class Acquisition:
    """The records that a fetch gets of a partition.

    Args:
        log_batches: the batches read from the log, at least one, from `fetch_offset` on.
        locked_until: end of the locks in ms since 1970.
    """

    def __init__(
        self,
        share: SharePartition,
        request: AcquireRequest,
        limits: ShareLimits,
        log_batches: list[LogBatch],
        fetch_offset: int,
        locked_until: int,
    ) -> None:
        self._share, self._request, self._limits = share, request, limits
        self._log_batches = log_batches
        self._fetch_offset, self._locked_until = fetch_offset, locked_until
        self._found: list[Acquired] = []
        self._count = 0

    def acquire(self) -> list[Acquired]:
        share, log_batches = self._share, self._log_batches
        if self._request.records <= 0 or log_batches[-1].last < share.start_offset:
            return []
        count, last = self._bounds()
        if count <= 0:
            return []
        base = log_batches[0].first
        self._archive_deleted(base)
        up_to_base = [batch for batch in share.batches if batch.first <= base]
        if not up_to_base:
            base = max(base, share.start_offset)
        elif up_to_base[-1].last >= base:
            base = up_to_base[-1].first
        lowest = min(log_batches[0].first, base)
        in_flight = [each for each in share.batches if lowest <= each.first <= last]
        if not in_flight:
            self._acquire_new(base, last, count)
            return self._found
        self._acquire_in_flight(in_flight, base, last, count)
        if self._found:
            self._move_gap(self._found[-1].last + 1)
        return self._found

    def _bounds(self) -> tuple[int, int]:
        """Return the maximum number of records and the last offset."""
        share, last = self._share, self._log_batches[-1].last
        count = min(self._request.records, self._limits.records - share.records_in_flight)
        if count <= 0 and self._fetch_offset <= share.end_offset:
            count = min(self._request.records, share.end_offset - self._fetch_offset + 1)
            last = min(last, share.end_offset)
        return count, last

    def _archive_deleted(self, base: int) -> None:
        share = self._share
        if share.batches and self._fetch_offset < base:
            share.done_count += share.archive(self._fetch_offset, base, RecordState.AVAILABLE)

    def _acquire_in_flight(
        self, in_flight: list[InFlightBatch], base: int, last: int, count: int
    ) -> None:
        """Acquire available records in flight, and gaps between and after them."""
        first_read, gap = self._log_batches[0].first, base
        for batch in in_flight:
            if self._count >= count:
                break
            if self._share.has_gap:
                if gap < batch.first:
                    self._acquire_new(gap, batch.first - 1, count - self._count)
                gap = batch.last + 1
                if self._count >= count:
                    break
            is_suspect = self._is_suspect(batch, first_read, last)
            if is_suspect and self._count:
                count = 0
                break
            is_too_long = (
                self._request.is_record_limit and batch.last - batch.first + 1 > count - self._count
            )
            if not batch.is_split and not batch.shared_state.is_free:
                continue
            if batch.is_within(first_read, last) and not (
                batch.is_split or is_too_long or is_suspect
            ):
                self._acquire_batch(batch.first, batch.last, batch.shared_state)
                continue
            batch.split()
            before = self._count
            self._acquire_records(batch, first_read, last, count - self._count)
            if is_suspect and self._count > before:
                count = 0
                break
        if self._count < count and in_flight[-1].last < last:
            self._acquire_new(in_flight[-1].last + 1, last, count - self._count)

    def _acquire_batch(self, first: int, last: int, record: InFlightState) -> None:
        record.acquire(self._request.member_id, self._locked_until)
        self._found.append(Acquired(first, last, record.delivery_count))
        self._count += last - first + 1

    @property
    def _suspect_count(self) -> int:
        return max(_MIN_SUSPECT_COUNT, ceil(self._limits.deliveries / 2))

    def _is_suspect(self, batch: InFlightBatch, first: int, last: int) -> bool:
        counts = [
            record.delivery_count
            for low, _, record in batch.states()
            if record.is_free and (not batch.is_split or first <= low <= last)
        ]
        return max(counts, default=0) >= self._suspect_count

    def _acquire_records(self, batch: InFlightBatch, first: int, last: int, count: int) -> None:
        """Acquire records of a split batch; only some of suspect ones."""
        limit, acquired, most = self._limits.deliveries, 0, None
        found: list[Acquired] = []
        for offset, _, record in batch.states():
            if offset < first or not record.is_free:
                continue
            if offset > last:
                break
            is_last_time = limit > _MIN_SUSPECT_COUNT and record.delivery_count == limit - 1
            if is_last_time and acquired:
                break
            if record.delivery_count >= self._suspect_count and most is None:
                shift = record.delivery_count - self._suspect_count + 1
                most = max(1, len(batch.records) >> shift)
            record.acquire(self._request.member_id, self._locked_until)
            _append(found, Acquired(offset, offset, record.delivery_count))
            acquired += 1
            is_full = self._request.is_record_limit and acquired == count
            if is_last_time or is_full or acquired == most:
                break
        self._found.extend(found)
        self._count += acquired

    def _acquire_new(self, first: int, last: int, count: int) -> None:
        """Acquire new records, in batches of about the requested size."""
        share = self._share
        if not share.batches and share.end_offset > first:
            first = share.end_offset
        if count < last - first + 1:
            aligned = self._aligned(first + count - 1)
            last = min(aligned, last) if share.has_gap else aligned
        acquired = self._split(first, last)
        if self._request.is_record_limit and acquired[0].last - acquired[0].first + 1 > count:
            batch = InFlightBatch(first, last, [InFlightState(RecordState.AVAILABLE, 0)])
            batch.split()
            for record in batch.records[:count]:
                record.acquire(self._request.member_id, self._locked_until)
            for record in batch.records[count:]:
                record.delivery_count = 0
            self._insert(batch)
            share.looks_back = True
            acquired = [Acquired(first, first + count - 1, 1)]
        else:
            for each in acquired:
                record = InFlightState(RecordState.AVAILABLE, 0)
                record.acquire(self._request.member_id, self._locked_until)
                self._insert(InFlightBatch(each.first, each.last, [record]))
        if share.batches[0].first == first:
            share.start_offset = first
        share.end_offset = max(share.end_offset, last)
        self._found.extend(acquired)
        self._count += acquired[-1].last - first + 1
        self._move_gap(acquired[-1].last + 1)

    def _split(self, first: int, last: int) -> list[Acquired]:
        acquired = []
        if not self._request.is_record_limit and last - first + 1 > self._request.batch_size:
            for batch in self._log_batches:
                if batch.first > last:
                    break
                if batch.first - first >= max(self._request.batch_size, 1):
                    acquired.append(Acquired(first, batch.first - 1, 1))
                    first = batch.first
        return [*acquired, Acquired(first, last, 1)]

    def _aligned(self, offset: int) -> int:
        holding = [each.last for each in self._log_batches if each.first <= offset <= each.last]
        return holding[-1] if holding else offset

    def _insert(self, batch: InFlightBatch) -> None:
        self._share.batches.append(batch)
        self._share.batches.sort(key=lambda each: each.first)

    def _move_gap(self, offset: int) -> None:
        share = self._share
        if share.gap_start == NO_GAP:
            return
        if share.has_gap and offset <= share.gap_end:
            share.gap_start = offset
        else:
            share.gap_start = share.gap_end = NO_GAP


def _append(acquired: list[Acquired], new: Acquired) -> None:
    """Append a record, merged with the previous one if possible."""
    end = acquired[-1] if acquired else None
    if end and (end.last + 1, end.delivery_count) == (new.first, new.delivery_count):
        acquired[-1] = Acquired(end.first, new.last, new.delivery_count)
    else:
        acquired.append(new)
