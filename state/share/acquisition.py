"""A member gets records of a partition: Kafka's `SharePartition.acquire`.

Free records among those in flight come first, then new ones. What was delivered too often for its
group to trust it (half of the limit, twice at least) comes in ever smaller parts, the last time
alone, so that one bad record does not take others with it. In the mode of the record limit
(KIP-1206) a member gets no record more than it asked for; otherwise batches of the log come whole.
"""

from math import ceil

from brokertwin.state.share.in_flight import Batch, InFlight, RecordState
from brokertwin.state.share.share_partition import (
    NO_GAP,
    Acquired,
    Limits,
    Run,
    SharePartition,
    Wish,
)

_SMALL_LIMIT = 2
"""Up to so many deliveries a record never comes alone."""


class Acquisition:
    """What one fetch gets of one partition.

    Args:
        runs: the batches that were read of the log, at least one, from `fetch_offset` on.
        locked_until: when the locks are over, in ms since 1970.
    """

    def __init__(
        self,
        share: SharePartition,
        wish: Wish,
        limits: Limits,
        runs: list[Run],
        fetch_offset: int,
        locked_until: int,
    ) -> None:
        self._share, self._wish, self._limits, self._runs = share, wish, limits, runs
        self._fetch_offset, self._locked_until = fetch_offset, locked_until
        self._found: list[Acquired] = []
        self._count = 0

    def run(self) -> list[Acquired]:
        """Acquires; gives back what, in the order of offsets."""
        share, runs = self._share, self._runs
        if self._wish.records <= 0 or runs[-1].last < share.start_offset:
            return []
        wanted, last = self._bounds()
        if wanted <= 0:
            return []
        base = runs[0].first
        self._forget_before(base)
        floor = [batch for batch in share.batches if batch.first <= base]
        if not floor:
            base = max(base, share.start_offset)
        elif floor[-1].last >= base:
            base = floor[-1].first
        lowest = min(runs[0].first, base)
        known = [each for each in share.batches if lowest <= each.first <= last]
        if not known:
            self._new(base, last, wanted)
            return self._found
        self._again(known, base, last, wanted)
        if self._found:
            self._gap_from(self._found[-1].last + 1)
        return self._found

    def _bounds(self) -> tuple[int, int]:
        """How many records there may be at most, and up to which offset."""
        share, last = self._share, self._runs[-1].last
        wanted = min(self._wish.records, self._limits.records - share.records_in_flight)
        if wanted <= 0 and self._fetch_offset <= share.end_offset:
            wanted = min(self._wish.records, share.end_offset - self._fetch_offset + 1)
            last = min(last, share.end_offset)
        return wanted, last

    def _forget_before(self, base: int) -> None:
        """Free records that the log no longer has, below where it was read, are not delivered."""
        share = self._share
        if share.batches and self._fetch_offset < base:
            share.done_count += share.archive(self._fetch_offset, base, RecordState.AVAILABLE)

    def _again(self, known: list[Batch], base: int, last: int, wanted: int) -> None:
        """Takes free records among those in flight, and what lies between and behind them."""
        first_read, gap = self._runs[0].first, base
        for batch in known:
            if self._count >= wanted:
                break
            if self._share._has_gap:
                if gap < batch.first:
                    self._new(gap, batch.first - 1, wanted - self._count)
                gap = batch.last + 1
                if self._count >= wanted:
                    break
            is_doubtful = self._is_doubtful(batch, first_read, last)
            if is_doubtful and self._count:
                wanted = 0
                break
            is_too_long = (
                self._wish.is_record_limit and batch.last - batch.first + 1 > wanted - self._count
            )
            if not batch.is_parted and not batch.whole.is_free:
                continue
            if batch.set_topic(first_read, last) and not (
                batch.is_parted or is_too_long or is_doubtful
            ):
                self._take(batch.first, batch.last, batch.whole)
                continue
            batch.part()
            before = self._count
            self._take_parts(batch, first_read, last, wanted - self._count)
            if is_doubtful and self._count > before:
                wanted = 0
                break
        if self._count < wanted and known[-1].last < last:
            self._new(known[-1].last + 1, last, wanted - self._count)

    def _take(self, first: int, last: int, record: InFlight) -> None:
        record.acquire(self._wish.member_id, self._locked_until)
        self._found.append(Acquired(first, last, record.delivery_count))
        self._count += last - first + 1

    @property
    def _doubt(self) -> int:
        """From how many deliveries on a record is doubtful."""
        return max(_SMALL_LIMIT, ceil(self._limits.deliveries / 2))

    def _is_doubtful(self, batch: Batch, first: int, last: int) -> bool:
        counts = [
            record.delivery_count
            for low, _, record in batch.parts()
            if record.is_free and (not batch.is_parted or first <= low <= last)
        ]
        return max(counts, default=0) >= self._doubt

    def _take_parts(self, batch: Batch, first: int, last: int, wanted: int) -> None:
        """Takes single records of a batch, from doubtful ones on only some."""
        limit, taken, most = self._limits.deliveries, 0, None
        found: list[Acquired] = []
        for offset, _, record in batch.parts():
            if offset < first or not record.is_free:
                continue
            if offset > last:
                break
            is_last_time = limit > _SMALL_LIMIT and record.delivery_count == limit - 1
            if is_last_time and taken:
                break
            if record.delivery_count >= self._doubt and most is None:
                shift = record.delivery_count - self._doubt + 1
                most = max(1, len(batch.records) >> shift)
            record.acquire(self._wish.member_id, self._locked_until)
            _join(found, Acquired(offset, offset, record.delivery_count))
            taken += 1
            is_full = self._wish.is_record_limit and taken == wanted
            if is_last_time or is_full or taken == most:
                break
        self._found.extend(found)
        self._count += taken

    def _new(self, first: int, last: int, wanted: int) -> None:
        """Takes records that nobody had yet, in batches of the size that the member likes."""
        share = self._share
        if not share.batches and share.end_offset > first:
            first = share.end_offset
        if wanted < last - first + 1:
            aligned = self._aligned(first + wanted - 1)
            last = min(aligned, last) if share._has_gap else aligned
        taken = self._split(first, last)
        if self._wish.is_record_limit and taken[0].last - taken[0].first + 1 > wanted:
            batch = Batch(first, last, [InFlight(RecordState.AVAILABLE, 0)])
            batch.part()
            for record in batch.records[:wanted]:
                record.acquire(self._wish.member_id, self._locked_until)
            for record in batch.records[wanted:]:
                record.delivery_count = 0
            self._insert(batch)
            share.looks_back = True
            taken = [Acquired(first, first + wanted - 1, 1)]
        else:
            for each in taken:
                record = InFlight(RecordState.AVAILABLE, 0)
                record.acquire(self._wish.member_id, self._locked_until)
                self._insert(Batch(each.first, each.last, [record]))
        if share.batches[0].first == first:
            share.start_offset = first
        share.end_offset = max(share.end_offset, last)
        self._found.extend(taken)
        self._count += taken[-1].last - first + 1
        self._gap_from(taken[-1].last + 1)

    def _split(self, first: int, last: int) -> list[Acquired]:
        found = []
        if not self._wish.is_record_limit and last - first + 1 > self._wish.batch_size:
            for run in self._runs:
                if run.first > last:
                    break
                if run.first - first >= max(self._wish.batch_size, 1):
                    found.append(Acquired(first, run.first - 1, 1))
                    first = run.first
        return [*found, Acquired(first, last, 1)]

    def _aligned(self, offset: int) -> int:
        """The last offset of the batch of the log that has this one."""
        holding = [run.last for run in self._runs if run.first <= offset <= run.last]
        return holding[-1] if holding else offset

    def _insert(self, batch: Batch) -> None:
        self._share.batches.append(batch)
        self._share.batches.sort(key=lambda each: each.first)

    def _gap_from(self, offset: int) -> None:
        """What the share coordinator did not tell of is known up to here."""
        share = self._share
        if share.gap_start == NO_GAP:
            return
        if share._has_gap and offset <= share.gap_end:
            share.gap_start = offset
        else:
            share.gap_start = share.gap_end = NO_GAP


def _join(found: list[Acquired], new: Acquired) -> None:
    """Adds a record; as one with the last where it goes on in the same way."""
    if found and (found[-1].last + 1, found[-1].delivery_count) == (new.first, new.delivery_count):
        found[-1] = Acquired(found[-1].first, new.last, new.delivery_count)
        return
    found.append(new)
