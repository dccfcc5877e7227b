"""The machine of a transactional id: its states, what it is asked, and what becomes of it.

Source: KIP-98, KIP-360, KIP-588, KIP-890; `TransactionMetadata`, `TransactionCoordinator` in Kafka
4.3.1. Pure: metadata in, metadata or an error out; `transaction_coordinator.py` asks, and
`transactional_ids.py` stores. `TRANSITIONS` is the whole table; what it does not have cannot
be asked.

A transaction goes by one of two versions. In version 1 the epoch stays until the next
InitProducerId. In version 2 (EndTxn 5 and later) every end bumps it: what was sent before the end
can never count as part of the next transaction. A repeated EndTxn is then known by its epoch, one
below the stored one; it is an input of its own. A fence (InitProducerId or a time-out while a
transaction is open) goes by the version that the cluster has finalized.

    version 1  fence: epoch + 1, no last epoch; the abort keeps it
    version 2  the abort of a fence bumps the epoch, as every end does

Epoch 32766 is exhausted: 32767 is for markers and fences alone. In version 2 an end at that epoch
draws the next producer id, and the completed transaction goes on with it in epoch 0.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

import msgspec

from brokertwin.state.core.errors import Error
from brokertwin.state.core.records import TransactionMetadata

EXHAUSTED_EPOCH = 32766
"""From this epoch on the next producer gets a new producer id."""

EPOCH_MAX = 32767
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_TIMESTAMP = -1

EPOCH_BUMPS = 2
"""From this version of transactions on every end bumps the epoch."""


class TransactionState(StrEnum):
    """The states of a transactional id, under Kafka's names.

    PrepareEpochFence is never stored: the abort follows at once.
    """

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"


IDLE = (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
"""The states between two transactions."""

PREPARED = (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
"""The states in which the outcome is decided and markers are under way."""


class TransactionEvent(StrEnum):
    """What a transactional id is asked; ends of version 2 have inputs of their own."""

    INIT = "InitProducerId"
    TIME_OUT = "time-out"
    ADD = "AddPartitionsToTxn"
    COMMIT = "commit"
    ABORT = "abort"
    COMMIT_2 = "commit v2"
    ABORT_2 = "abort v2"
    REPEATED_COMMIT = "repeated commit v2"
    REPEATED_ABORT = "repeated abort v2"
    MARKERS_WRITTEN = "markers written"
    EXPIRE = "expiry"


class ProducerIdAndEpoch(NamedTuple):
    """What a producer holds already."""

    producer_id: int
    epoch: int


class EventData(NamedTuple):
    """What comes with an input.

    Attributes:
        now: ms since 1970.
        timeout_ms: the time-out of the transactions to come (INIT).
        expected: what the producer holds, if anything (INIT).
        new_producer_id: one drawn for this, where `needs_new_id` says so (INIT, ends).
        partitions: topic name to partitions that join (ADD).
        version: the version of transactions that a fence goes by (INIT, TIME_OUT).
    """

    now: int
    timeout_ms: int = -1
    expected: ProducerIdAndEpoch | None = None
    new_producer_id: int = NO_PRODUCER_ID
    partitions: dict[str, list[int]] = {}
    version: int = EPOCH_BUMPS


MetadataChange = Callable[[TransactionMetadata, EventData], TransactionMetadata | Error]


class Transition(NamedTuple):
    """The state that an input leads to, and what else it changes; the change may refuse."""

    target: TransactionState
    change: MetadataChange


def step(
    known: TransactionMetadata, asked_for: TransactionEvent, asked: EventData
) -> TransactionMetadata | Error:
    """The metadata after an input, or the error that answers it.

    Error.NONE stands for a good answer without a change. Raises KeyError for an input that cannot
    come in this state.
    """
    rule = TRANSITIONS[TransactionState(known.state), asked_for]
    if isinstance(rule, Error):
        return rule
    changed = rule.change(known, asked)
    if isinstance(changed, Error):
        return changed
    return msgspec.structs.replace(
        changed,
        state=rule.target,
        previous_producer_id=known.producer_id,
        last_update_timestamp=asked.now,
    )


def needs_new_id(
    known: TransactionMetadata,
    asked_for: TransactionEvent,
    expected: ProducerIdAndEpoch | None = None,
) -> bool:
    """Whether the input takes a new producer id: the epoch is exhausted and it would be bumped."""
    if known.producer_epoch < EXHAUSTED_EPOCH:
        return False
    rule = TRANSITIONS[TransactionState(known.state), asked_for]
    if asked_for is TransactionEvent.INIT:
        is_next = isinstance(rule, Transition) and rule.target is TransactionState.EMPTY
        return is_next and (expected is None or expected.epoch == known.producer_epoch)
    return asked_for in (TransactionEvent.COMMIT_2, TransactionEvent.ABORT_2) and isinstance(
        rule, Transition
    )


# --- Whether a request comes from the producer that holds the id --------------------------------


def fence_error(known: TransactionMetadata, expected: ProducerIdAndEpoch | None) -> Error:
    """InitProducerId: PRODUCER_FENCED where another producer has taken the id over, else NONE."""
    if expected is None or expected.producer_id == known.producer_id:
        return Error.NONE
    is_repeat = expected.producer_id == known.previous_producer_id
    if is_repeat and expected.epoch >= EXHAUSTED_EPOCH:
        return Error.NONE
    return Error.PRODUCER_FENCED


def holder_error(known: TransactionMetadata | None, holder: ProducerIdAndEpoch) -> Error:
    """49 or 90 for a producer that does not hold the id (any more), NONE for the one that does."""
    if known is None or known.producer_id != holder.producer_id:
        return Error.INVALID_PRODUCER_ID_MAPPING
    return Error.NONE if known.producer_epoch == holder.epoch else Error.PRODUCER_FENCED


def end_input(
    known: TransactionMetadata | None, holder: ProducerIdAndEpoch, is_commit: bool, version: int
) -> TransactionEvent | Error:
    """What an EndTxn asks: an input of its version, a repeated one included; or 49 or 90."""
    if version < EPOCH_BUMPS:
        error = holder_error(known, holder)
        return (
            error
            if error is not Error.NONE
            else TransactionEvent.COMMIT
            if is_commit
            else TransactionEvent.ABORT
        )
    if known is None:
        return Error.INVALID_PRODUCER_ID_MAPPING
    is_after_overflow = (
        known.previous_producer_id == holder.producer_id
        and holder.epoch == EXHAUSTED_EPOCH
        and known.producer_epoch == 0
    )
    if known.producer_id != holder.producer_id and not is_after_overflow:
        return Error.INVALID_PRODUCER_ID_MAPPING
    is_after_bump = known.producer_epoch == holder.epoch + 1
    is_same = known.producer_epoch == holder.epoch
    if known.state in PREPARED:
        is_valid = is_after_bump
    elif known.state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT):
        is_valid = is_after_bump or is_after_overflow or is_same
    else:
        is_valid = is_same
    if not is_valid:
        return Error.PRODUCER_FENCED
    if is_after_bump or is_after_overflow:
        return TransactionEvent.REPEATED_COMMIT if is_commit else TransactionEvent.REPEATED_ABORT
    return TransactionEvent.COMMIT_2 if is_commit else TransactionEvent.ABORT_2


def verification_error(known: TransactionMetadata | None, holder: ProducerIdAndEpoch) -> Error:
    """Why partitions of this producer cannot be verified, all together; NONE where they can."""
    error = holder_error(known, holder)
    if error is Error.NONE and known is not None:
        rule = TRANSITIONS[TransactionState(known.state), TransactionEvent.ADD]
        return rule if isinstance(rule, Error) else Error.NONE
    return error


def is_timed_out(known: TransactionMetadata, now: int) -> bool:
    """Whether an open transaction has lasted longer than its time-out."""
    return known.state == TransactionState.ONGOING and deadline(known) < now


def deadline(known: TransactionMetadata) -> int:
    """The last moment of an open transaction, in ms since 1970."""
    return known.transaction_start_timestamp + known.transaction_timeout_ms


def is_expired(known: TransactionMetadata, now: int, expiration_ms: int) -> bool:
    """Whether a check at `now` (ms since 1970) forgets the transactional id."""
    may_expire = (TransactionState(known.state), TransactionEvent.EXPIRE) in TRANSITIONS
    return may_expire and known.last_update_timestamp <= now - expiration_ms


# --- What an input changes -------------------------------------------------------------------


def new_metadata(producer_id: int) -> TransactionMetadata:
    """The metadata of a transactional id that nobody knew; its first epoch is still to come."""
    return TransactionMetadata(producer_id=producer_id, producer_epoch=NO_PRODUCER_EPOCH)


def _init_producer_id(known: TransactionMetadata, asked: EventData) -> TransactionMetadata | Error:
    """InitProducerId between transactions: a new id, the next epoch, or the same one again."""
    expected = asked.expected
    last = NO_PRODUCER_EPOCH
    producer_id, epoch = known.producer_id, known.producer_epoch + 1
    if asked.new_producer_id != NO_PRODUCER_ID:
        producer_id, epoch = asked.new_producer_id, 0
        last = NO_PRODUCER_EPOCH if expected is None else known.producer_epoch
    elif known.producer_epoch >= EXHAUSTED_EPOCH:
        return Error.UNKNOWN_SERVER_ERROR
    elif expected is not None and known.producer_epoch in (NO_PRODUCER_EPOCH, expected.epoch):
        last = known.producer_epoch
    elif expected is not None and expected.epoch == known.last_producer_epoch:
        epoch, last = known.producer_epoch, known.last_producer_epoch
    elif expected is not None:
        return Error.PRODUCER_FENCED
    return msgspec.structs.replace(
        known,
        producer_id=producer_id,
        producer_epoch=epoch,
        last_producer_epoch=last,
        transaction_timeout_ms=asked.timeout_ms,
        transaction_start_timestamp=NO_TIMESTAMP,
        partitions={},
    )


def _begin(known: TransactionMetadata, asked: EventData) -> TransactionMetadata:
    return msgspec.structs.replace(
        known, transaction_start_timestamp=asked.now, partitions=_union({}, asked.partitions)
    )


def _join(known: TransactionMetadata, asked: EventData) -> TransactionMetadata | Error:
    partitions = _union(known.partitions, asked.partitions)
    if partitions == known.partitions:
        return Error.NONE
    return msgspec.structs.replace(known, partitions=partitions)


def _union(known: dict[str, list[int]], more: dict[str, list[int]]) -> dict[str, list[int]]:
    return {
        topic: sorted({*known.get(topic, []), *more.get(topic, [])})
        for topic in sorted({*known, *more})
    }


def _fence(known: TransactionMetadata, asked: EventData) -> TransactionMetadata:
    if asked.version >= EPOCH_BUMPS:
        return known
    return msgspec.structs.replace(
        known,
        producer_epoch=min(known.producer_epoch + 1, EPOCH_MAX),
        last_producer_epoch=NO_PRODUCER_EPOCH,
    )


def _end(known: TransactionMetadata, _asked: EventData) -> TransactionMetadata:
    return msgspec.structs.replace(
        known, client_transaction_version=0, next_producer_id=NO_PRODUCER_ID
    )


def _end_with_bump(known: TransactionMetadata, asked: EventData) -> TransactionMetadata:
    return msgspec.structs.replace(
        known,
        client_transaction_version=EPOCH_BUMPS,
        producer_epoch=min(known.producer_epoch + 1, EPOCH_MAX),
        last_producer_epoch=known.producer_epoch,
        next_producer_id=asked.new_producer_id,
    )


def _abort_nothing(known: TransactionMetadata, asked: EventData) -> TransactionMetadata:
    """An abort in version 2 without a transaction bumps the epoch, too."""
    ended = _end_with_bump(known, asked)
    return msgspec.structs.replace(ended, transaction_start_timestamp=asked.now)


def _complete(known: TransactionMetadata, _asked: EventData) -> TransactionMetadata:
    completed = msgspec.structs.replace(known, partitions={}, next_producer_id=NO_PRODUCER_ID)
    if known.next_producer_id != NO_PRODUCER_ID:
        completed.producer_id, completed.producer_epoch = known.next_producer_id, 0
    return completed


def _keep(known: TransactionMetadata, _asked: EventData) -> TransactionMetadata:
    return known


_BUSY = Error.CONCURRENT_TRANSACTIONS
_WRONG = Error.INVALID_TXN_STATE

_S, _E = TransactionState, TransactionEvent

TRANSITIONS: dict[tuple[TransactionState, TransactionEvent], Transition | Error] = {
    **{(state, _E.INIT): Transition(_S.EMPTY, _init_producer_id) for state in IDLE},
    (_S.ONGOING, _E.INIT): Transition(_S.PREPARE_EPOCH_FENCE, _fence),
    **{(state, _E.INIT): _BUSY for state in PREPARED},
    (_S.ONGOING, _E.TIME_OUT): Transition(_S.PREPARE_EPOCH_FENCE, _fence),
    (_S.PREPARE_EPOCH_FENCE, _E.ABORT): Transition(_S.PREPARE_ABORT, _end),
    (_S.PREPARE_EPOCH_FENCE, _E.ABORT_2): Transition(_S.PREPARE_ABORT, _end_with_bump),
    **{(state, _E.ADD): Transition(_S.ONGOING, _begin) for state in IDLE},
    (_S.ONGOING, _E.ADD): Transition(_S.ONGOING, _join),
    **{(state, _E.ADD): _BUSY for state in PREPARED},
    (_S.ONGOING, _E.COMMIT): Transition(_S.PREPARE_COMMIT, _end),
    (_S.ONGOING, _E.ABORT): Transition(_S.PREPARE_ABORT, _end),
    (_S.EMPTY, _E.COMMIT): _WRONG,
    (_S.EMPTY, _E.ABORT): _WRONG,
    (_S.PREPARE_COMMIT, _E.COMMIT): _BUSY,
    (_S.PREPARE_COMMIT, _E.ABORT): _WRONG,
    (_S.PREPARE_ABORT, _E.COMMIT): _WRONG,
    (_S.PREPARE_ABORT, _E.ABORT): _BUSY,
    (_S.COMPLETE_COMMIT, _E.COMMIT): Error.NONE,
    (_S.COMPLETE_COMMIT, _E.ABORT): _WRONG,
    (_S.COMPLETE_ABORT, _E.COMMIT): _WRONG,
    (_S.COMPLETE_ABORT, _E.ABORT): Error.NONE,
    (_S.ONGOING, _E.COMMIT_2): Transition(_S.PREPARE_COMMIT, _end_with_bump),
    (_S.ONGOING, _E.ABORT_2): Transition(_S.PREPARE_ABORT, _end_with_bump),
    **{(state, _E.COMMIT_2): _WRONG for state in IDLE},
    **{(state, _E.ABORT_2): Transition(_S.PREPARE_ABORT, _abort_nothing) for state in IDLE},
    (_S.PREPARE_COMMIT, _E.REPEATED_COMMIT): _BUSY,
    (_S.PREPARE_COMMIT, _E.REPEATED_ABORT): _WRONG,
    (_S.PREPARE_ABORT, _E.REPEATED_COMMIT): _WRONG,
    (_S.PREPARE_ABORT, _E.REPEATED_ABORT): _BUSY,
    (_S.COMPLETE_COMMIT, _E.REPEATED_COMMIT): Error.NONE,
    (_S.COMPLETE_COMMIT, _E.REPEATED_ABORT): _WRONG,
    (_S.COMPLETE_ABORT, _E.REPEATED_COMMIT): _WRONG,
    (_S.COMPLETE_ABORT, _E.REPEATED_ABORT): Error.NONE,
    (_S.PREPARE_COMMIT, _E.MARKERS_WRITTEN): Transition(_S.COMPLETE_COMMIT, _complete),
    (_S.PREPARE_ABORT, _E.MARKERS_WRITTEN): Transition(_S.COMPLETE_ABORT, _complete),
    **{(state, _E.EXPIRE): Transition(_S.DEAD, _keep) for state in IDLE},
}
"""What each state makes of each input that can come in it."""
