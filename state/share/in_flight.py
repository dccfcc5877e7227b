"""Records in flight of a share partition.

Records acquired together are a batch with one state. It is split into a state for each record when
their states diverge. Source: `InFlightBatch`, `InFlightState`, `RecordState` in Kafka; KIP-932.
"""

from collections.abc import Iterator
from enum import IntEnum

import msgspec

NO_MEMBER = ""
"""Owner of records that are not acquired."""

NO_LOCK = 0


class RecordState(IntEnum):
    """Delivery states, by Kafka's codes.

    A record is ARCHIVING until it is written as a dead letter (KIP-1191).
    """

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    ARCHIVED = 4


TERMINAL = (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)
"""States of done records, which are not delivered again."""


class DeadLetterCause(IntEnum):
    """Why a record is not delivered again; a new leader does not know it."""

    UNKNOWN = 0
    REJECTED = 1
    UNDELIVERED = 2


class FormerState(msgspec.Struct, array_like=True):
    """State and owner before a change that is not written yet."""

    state: int
    member_id: str


class InFlightState(msgspec.Struct, array_like=True):
    """The state of a record or of a whole batch.

    Attributes:
        member_id: the owner.
        locked_until: end of the lock or of the wait for a response, or the next attempt to write
            its dead letter, in ms since 1970; NO_LOCK if there is none.
        former: the former state until the share coordinator has stored the change.
        cause: why it is ARCHIVING.
        is_sent: whether its dead letter is sent to a broker, which has not responded yet.
        attempts: how often its dead letter could not be written.
    """

    state: int
    delivery_count: int
    member_id: str = NO_MEMBER
    locked_until: int = NO_LOCK
    former: FormerState | None = None
    cause: int = DeadLetterCause.UNKNOWN
    is_sent: bool = False
    attempts: int = 0

    @property
    def is_free(self) -> bool:
        return self.state == RecordState.AVAILABLE and self.former is None

    @property
    def is_done(self) -> bool:
        return self.state in TERMINAL and self.former is None

    def acquire(self, member_id: str, locked_until: int) -> None:
        self.state = RecordState.ACQUIRED
        self.delivery_count += 1
        self.member_id, self.locked_until = member_id, locked_until

    def transition(self, state: RecordState, limit: int, has_dead_letters: bool = False) -> None:
        """Change the state; archive a record returned at the delivery limit.

        The limit is group.share.delivery.count.limit. With dead letters it is ARCHIVING first.
        """
        is_last = state == RecordState.AVAILABLE and self.delivery_count >= limit
        if is_last:
            state = RecordState.ARCHIVING if has_dead_letters else RecordState.ARCHIVED
        if state == RecordState.ARCHIVING:
            self.cause = DeadLetterCause.UNDELIVERED if is_last else DeadLetterCause.REJECTED
        self.state, self.member_id = state, NO_MEMBER

    def start_transition(
        self, state: RecordState, limit: int, has_dead_letters: bool = False
    ) -> None:
        """Like `transition`, pending the share coordinator; the lock continues."""
        self.former = FormerState(self.state, self.member_id)
        self.transition(state, limit, has_dead_letters)

    def complete_transition(self, is_written: bool, now: int) -> None:
        """Complete a change, or undo it if the write has failed."""
        former, self.former = self.former, None
        if former is None:
            return
        if not is_written and self.locked_until > now:
            self.state, self.member_id = former.state, former.member_id
            return
        if not is_written:
            self.state, self.member_id = RecordState.AVAILABLE, NO_MEMBER
        self.locked_until = NO_LOCK

    def archive(self) -> None:
        """Exclude from delivery: the record is deleted, aborted, or written as a dead letter."""
        self.state, self.member_id = RecordState.ARCHIVED, NO_MEMBER
        self.locked_until, self.former, self.is_sent, self.attempts = NO_LOCK, None, False, 0


class InFlightBatch(msgspec.Struct, array_like=True):
    """Records acquired together (offsets inclusive).

    `records` has one state for all; after a split, one for each.
    """

    first: int
    last: int
    records: list[InFlightState]
    is_split: bool = False

    @property
    def shared_state(self) -> InFlightState:
        """The common state; only before a split."""
        assert not self.is_split, self
        return self.records[0]

    def split(self) -> None:
        if not self.is_split:
            shared_state = self.shared_state
            self.records = [
                msgspec.structs.replace(shared_state) for _ in range(self.last - self.first + 1)
            ]
            self.is_split = True

    def states(self) -> Iterator[tuple[int, int, InFlightState]]:
        """Yield first offset, last offset and state, for the batch or each record."""
        if not self.is_split:
            yield self.first, self.last, self.shared_state
            return
        for offset, record in enumerate(self.records, self.first):
            yield offset, offset, record

    def states_in(self, first: int, last: int) -> Iterator[tuple[int, int, InFlightState]]:
        """Like `states`, but after a split only records from `first` to `last`."""
        if not self.is_split:
            yield self.first, self.last, self.shared_state
            return
        low, end = max(first - self.first, 0), max(last - self.first + 1, 0)
        for offset, record in enumerate(self.records[low:end], self.first + low):
            yield offset, offset, record

    def at(self, offset: int) -> InFlightState:
        return self.records[offset - self.first] if self.is_split else self.shared_state

    def is_within(self, first: int, last: int) -> bool:
        return self.first >= first and self.last <= last
