"""Records in flight: what a share group does with records that it has not done with.

Records that were acquired at once are a *batch*, in one state until single ones of them go another
way; from then on each of them has its own. Source: `InFlightBatch`, `InFlightState`, `RecordState`
in Kafka; KIP-932.
"""

from collections.abc import Iterator
from enum import IntEnum

import msgspec

NOBODY = ""
"""The member that holds what nobody holds."""

NO_LOCK = 0


class RecordState(IntEnum):
    """What a record is to its group, as brokers tell it to share coordinators."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4


TERMINAL = (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)
"""Who is in one of them is never delivered again."""


class Held(msgspec.Struct, array_like=True):
    """A state and the member that had it, before a change that is not written yet."""

    state: int
    member_id: str


class InFlight(msgspec.Struct, array_like=True):
    """The state of a record, or of a whole batch.

    Attributes:
        member_id: who has acquired it.
        locked_until: when the lock is over, in ms since 1970; NO_LOCK where there is none.
        former: what was, while a share coordinator has not said that it has what is.
    """

    state: int
    delivery_count: int
    member_id: str = NOBODY
    locked_until: int = NO_LOCK
    former: Held | None = None

    @property
    def is_free(self) -> bool:
        """Whether it may be acquired."""
        return self.state == RecordState.AVAILABLE and self.former is None

    @property
    def is_done(self) -> bool:
        """Whether the group has done with it, and a share coordinator knows."""
        return self.state in TERMINAL and self.former is None

    def acquire(self, member_id: str, locked_until: int) -> None:
        """A member gets it, once more."""
        self.state = RecordState.ACQUIRED
        self.delivery_count += 1
        self.member_id, self.locked_until = member_id, locked_until

    def leave(self, state: RecordState, limit: int) -> None:
        """A member gives it back in this state; what was delivered often enough is a dead end."""
        is_last = state == RecordState.AVAILABLE and self.delivery_count >= limit
        self.state = RecordState.ARCHIVED if is_last else state
        self.member_id = NOBODY

    def begin_leaving(self, state: RecordState, limit: int) -> None:
        """The same until a share coordinator has answered: the lock goes on."""
        self.former = Held(self.state, self.member_id)
        self.leave(state, limit)

    def end_leaving(self, is_written: bool, now: int) -> None:
        """A share coordinator has answered; where it refused, all is as before."""
        former, self.former = self.former, None
        if former is None:
            return
        if not is_written and self.locked_until > now:
            self.state, self.member_id = former.state, former.member_id
            return
        if not is_written:
            self.state, self.member_id = RecordState.AVAILABLE, NOBODY
        self.locked_until = NO_LOCK

    def archive(self) -> None:
        """It will not be delivered: its record is gone, or belongs to an aborted transaction."""
        self.state, self.member_id = RecordState.ARCHIVED, NOBODY
        self.locked_until, self.former = NO_LOCK, None


class Batch(msgspec.Struct, array_like=True):
    """Records that were acquired at once; both offsets inclusive.

    `records` has the state of all, or, once they have parted, that of each in their order.
    """

    first: int
    last: int
    records: list[InFlight]
    is_parted: bool = False

    @property
    def whole(self) -> InFlight:
        """The state of all; only while they have not parted."""
        assert not self.is_parted, self
        return self.records[0]

    def part(self) -> None:
        """From now on each record has its own state."""
        if not self.is_parted:
            whole = self.whole
            self.records = [
                msgspec.structs.replace(whole) for _ in range(self.last - self.first + 1)
            ]
            self.is_parted = True

    def parts(self) -> Iterator[tuple[int, int, InFlight]]:
        """First and last offset, and the state: of the whole, or of each record."""
        if not self.is_parted:
            yield self.first, self.last, self.whole
            return
        for offset, record in enumerate(self.records, self.first):
            yield offset, offset, record

    def parts_in(self, first: int, last: int) -> Iterator[tuple[int, int, InFlight]]:
        """Like `parts`, but of parted records only those from `first` to `last`."""
        if not self.is_parted:
            yield self.first, self.last, self.whole
            return
        low, end = max(first - self.first, 0), max(last - self.first + 1, 0)
        for offset, record in enumerate(self.records[low:end], self.first + low):
            yield offset, offset, record

    def at(self, offset: int) -> InFlight:
        """The state of a record."""
        return self.records[offset - self.first] if self.is_parted else self.whole

    def set_topic(self, first: int, last: int) -> bool:
        """Whether it has no record outside of these offsets."""
        return self.first >= first and self.last <= last
