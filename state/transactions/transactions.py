"""State machine of a transactional id.

Source: KIP-98, KIP-360, KIP-588, KIP-890; `TransactionMetadata`, `TransactionCoordinator` in Kafka
4.3.1. Pure functions from metadata to metadata or an error. `TRANSITIONS` is the whole table; other
combinations cannot occur. `transaction_coordinator.py` calls them, and `transactional_ids.py`
stores the result.

There are two transaction versions. In version 1, the epoch changes with the next InitProducerId. In
version 2 (EndTxn 5 and later), each end bumps the epoch, so late records of a transaction cannot
become part of the next one. A repeated EndTxn of version 2 has the epoch before the stored one; it
is a separate event. A fence (InitProducerId or timeout in an open transaction) uses the finalized
version of the cluster:

    version 1  the fence bumps the epoch and clears the last epoch; the abort keeps it
    version 2  the abort of the fence bumps the epoch, like each end

Epoch 32766 is exhausted; 32767 is used by markers and fences only. In version 2, an end at epoch
32766 allocates the next producer id, and the completed transaction continues with it at epoch 0.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

import msgspec

from brokertwin.protocol.errors import Error
from brokertwin.state.core.records import TransactionMetadata

EXHAUSTED_EPOCH = 32766
"""From this epoch on, the next producer gets a new producer id."""

EPOCH_MAX = 32767
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_TIMESTAMP = -1

EPOCH_BUMPS = 2
"""First transaction version in which each end bumps the epoch."""


class TransactionState(StrEnum):
    """Kafka's states of a transactional id.

    PrepareEpochFence is never stored, because the abort follows at once.
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
"""States between transactions."""

PREPARED = (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
"""States in which the outcome is decided and markers are pending."""


class TransactionEvent(StrEnum):
    """Requests and internal events; version 2 ends have their own."""

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
    producer_id: int
    epoch: int


class EventData(NamedTuple):
    """Data of an event.

    Attributes:
        now: ms since 1970.
        timeout_ms: timeout of future transactions (INIT).
        expected: the producer's current id and epoch, if any (INIT).
        new_producer_id: a new producer id, if `needs_new_id` (INIT, ends).
        partitions: added partitions by topic name (ADD).
        version: transaction version of a fence (INIT, TIME_OUT).
    """

    now: int
    timeout_ms: int = -1
    expected: ProducerIdAndEpoch | None = None
    new_producer_id: int = NO_PRODUCER_ID
    partitions: dict[str, list[int]] = {}
    version: int = EPOCH_BUMPS


MetadataChange = Callable[[TransactionMetadata, EventData], TransactionMetadata | Error]


class Transition(NamedTuple):
    """Target state and change of the metadata; the change may return an error."""

    target: TransactionState
    change: MetadataChange


def step(
    current: TransactionMetadata, event: TransactionEvent, data: EventData
) -> TransactionMetadata | Error:
    """Return the metadata after an event, or the error for the response.

    Error.NONE means success without a change. Raises KeyError for an event that cannot occur in the
    state.
    """
    rule = TRANSITIONS[TransactionState(current.state), event]
    if isinstance(rule, Error):
        return rule
    changed = rule.change(current, data)
    if isinstance(changed, Error):
        return changed
    return msgspec.structs.replace(
        changed,
        state=rule.target,
        previous_producer_id=current.producer_id,
        last_update_timestamp=data.now,
    )


def needs_new_id(
    current: TransactionMetadata,
    event: TransactionEvent,
    expected: ProducerIdAndEpoch | None = None,
) -> bool:
    """True if the event needs a new producer id: the epoch is exhausted."""
    if current.producer_epoch < EXHAUSTED_EPOCH:
        return False
    rule = TRANSITIONS[TransactionState(current.state), event]
    if event is TransactionEvent.INIT:
        is_next = isinstance(rule, Transition) and rule.target is TransactionState.EMPTY
        return is_next and (expected is None or expected.epoch == current.producer_epoch)
    return event in (TransactionEvent.COMMIT_2, TransactionEvent.ABORT_2) and isinstance(
        rule, Transition
    )


# --- Validation of the producer --------------------------------------------------------------


def fence_error(current: TransactionMetadata, expected: ProducerIdAndEpoch | None) -> Error:
    """Return the error of an InitProducerId: 90 PRODUCER_FENCED, or NONE."""
    if expected is None or expected.producer_id == current.producer_id:
        return Error.NONE
    is_repeat = expected.producer_id == current.previous_producer_id
    if is_repeat and expected.epoch >= EXHAUSTED_EPOCH:
        return Error.NONE
    return Error.PRODUCER_FENCED


def holder_error(current: TransactionMetadata | None, holder: ProducerIdAndEpoch) -> Error:
    """Return 49 INVALID_PRODUCER_ID_MAPPING, 90 PRODUCER_FENCED, or NONE."""
    if current is None or current.producer_id != holder.producer_id:
        return Error.INVALID_PRODUCER_ID_MAPPING
    return Error.NONE if current.producer_epoch == holder.epoch else Error.PRODUCER_FENCED


def end_event(
    current: TransactionMetadata | None, holder: ProducerIdAndEpoch, is_commit: bool, version: int
) -> TransactionEvent | Error:
    """Return the event of an EndTxn, repeated or not, or its error.

    Errors: 49 INVALID_PRODUCER_ID_MAPPING, 90 PRODUCER_FENCED.
    """
    if version < EPOCH_BUMPS:
        error = holder_error(current, holder)
        return (
            error
            if error is not Error.NONE
            else TransactionEvent.COMMIT
            if is_commit
            else TransactionEvent.ABORT
        )
    if current is None:
        return Error.INVALID_PRODUCER_ID_MAPPING
    is_after_overflow = (
        current.previous_producer_id == holder.producer_id
        and holder.epoch == EXHAUSTED_EPOCH
        and current.producer_epoch == 0
    )
    if current.producer_id != holder.producer_id and not is_after_overflow:
        return Error.INVALID_PRODUCER_ID_MAPPING
    is_after_bump = current.producer_epoch == holder.epoch + 1
    is_same = current.producer_epoch == holder.epoch
    if current.state in PREPARED:
        is_valid = is_after_bump
    elif current.state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT):
        is_valid = is_after_bump or is_after_overflow or is_same
    else:
        is_valid = is_same
    if not is_valid:
        return Error.PRODUCER_FENCED
    if is_after_bump or is_after_overflow:
        return TransactionEvent.REPEATED_COMMIT if is_commit else TransactionEvent.REPEATED_ABORT
    return TransactionEvent.COMMIT_2 if is_commit else TransactionEvent.ABORT_2


def verification_error(current: TransactionMetadata | None, holder: ProducerIdAndEpoch) -> Error:
    error = holder_error(current, holder)
    if error is Error.NONE and current is not None:
        rule = TRANSITIONS[TransactionState(current.state), TransactionEvent.ADD]
        return rule if isinstance(rule, Error) else Error.NONE
    return error


def is_timed_out(current: TransactionMetadata, now: int) -> bool:
    """True if an open transaction has exceeded its transaction timeout.

    The timeout is the producer's transaction.timeout.ms. The coordinator then aborts the
    transaction (`transaction_coordinator.py`).
    """
    return current.state == TransactionState.ONGOING and deadline(current) < now


def deadline(current: TransactionMetadata) -> int:
    """Return the end of an open transaction's timeout in ms since 1970."""
    return current.transaction_start_timestamp + current.transaction_timeout_ms


def is_expired(current: TransactionMetadata, now: int, expiration_ms: int) -> bool:
    """True if a check at `now` (ms since 1970) deletes the transactional id."""
    may_expire = (TransactionState(current.state), TransactionEvent.EXPIRE) in TRANSITIONS
    return may_expire and current.last_update_timestamp <= now - expiration_ms


# --- Changes of the metadata ------------------------------------------------------------------


def new_metadata(producer_id: int) -> TransactionMetadata:
    return TransactionMetadata(producer_id=producer_id, producer_epoch=NO_PRODUCER_EPOCH)


def _init_producer_id(current: TransactionMetadata, data: EventData) -> TransactionMetadata | Error:
    """Return a new id, the next epoch or, for a retry, the same epoch."""
    expected = data.expected
    last = NO_PRODUCER_EPOCH
    producer_id, epoch = current.producer_id, current.producer_epoch + 1
    if data.new_producer_id != NO_PRODUCER_ID:
        producer_id, epoch = data.new_producer_id, 0
        last = NO_PRODUCER_EPOCH if expected is None else current.producer_epoch
    elif current.producer_epoch >= EXHAUSTED_EPOCH:
        return Error.UNKNOWN_SERVER_ERROR
    elif expected is not None and current.producer_epoch in (NO_PRODUCER_EPOCH, expected.epoch):
        last = current.producer_epoch
    elif expected is not None and expected.epoch == current.last_producer_epoch:
        epoch, last = current.producer_epoch, current.last_producer_epoch
    elif expected is not None:
        return Error.PRODUCER_FENCED
    return msgspec.structs.replace(
        current,
        producer_id=producer_id,
        producer_epoch=epoch,
        last_producer_epoch=last,
        transaction_timeout_ms=data.timeout_ms,
        transaction_start_timestamp=NO_TIMESTAMP,
        partitions={},
    )


def _begin(current: TransactionMetadata, data: EventData) -> TransactionMetadata:
    return msgspec.structs.replace(
        current, transaction_start_timestamp=data.now, partitions=_union({}, data.partitions)
    )


def _join(current: TransactionMetadata, data: EventData) -> TransactionMetadata | Error:
    partitions = _union(current.partitions, data.partitions)
    if partitions == current.partitions:
        return Error.NONE
    return msgspec.structs.replace(current, partitions=partitions)


def _union(current: dict[str, list[int]], added: dict[str, list[int]]) -> dict[str, list[int]]:
    return {
        topic: sorted({*current.get(topic, []), *added.get(topic, [])})
        for topic in sorted({*current, *added})
    }


def _fence(current: TransactionMetadata, data: EventData) -> TransactionMetadata:
    if data.version >= EPOCH_BUMPS:
        return current
    return msgspec.structs.replace(
        current,
        producer_epoch=min(current.producer_epoch + 1, EPOCH_MAX),
        last_producer_epoch=NO_PRODUCER_EPOCH,
    )


def _end(current: TransactionMetadata, _data: EventData) -> TransactionMetadata:
    return msgspec.structs.replace(
        current, client_transaction_version=0, next_producer_id=NO_PRODUCER_ID
    )


def _end_with_bump(current: TransactionMetadata, data: EventData) -> TransactionMetadata:
    return msgspec.structs.replace(
        current,
        client_transaction_version=EPOCH_BUMPS,
        producer_epoch=min(current.producer_epoch + 1, EPOCH_MAX),
        last_producer_epoch=current.producer_epoch,
        next_producer_id=data.new_producer_id,
    )


def _abort_nothing(current: TransactionMetadata, data: EventData) -> TransactionMetadata:
    """Abort without a transaction: version 2 bumps the epoch, too."""
    ended = _end_with_bump(current, data)
    return msgspec.structs.replace(ended, transaction_start_timestamp=data.now)


def _complete(current: TransactionMetadata, _data: EventData) -> TransactionMetadata:
    completed = msgspec.structs.replace(current, partitions={}, next_producer_id=NO_PRODUCER_ID)
    if current.next_producer_id != NO_PRODUCER_ID:
        completed.producer_id, completed.producer_epoch = current.next_producer_id, 0
    return completed


def _keep(current: TransactionMetadata, _data: EventData) -> TransactionMetadata:
    return current


_BUSY = Error.CONCURRENT_TRANSACTIONS
_INVALID = Error.INVALID_TXN_STATE

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
    (_S.EMPTY, _E.COMMIT): _INVALID,
    (_S.EMPTY, _E.ABORT): _INVALID,
    (_S.PREPARE_COMMIT, _E.COMMIT): _BUSY,
    (_S.PREPARE_COMMIT, _E.ABORT): _INVALID,
    (_S.PREPARE_ABORT, _E.COMMIT): _INVALID,
    (_S.PREPARE_ABORT, _E.ABORT): _BUSY,
    (_S.COMPLETE_COMMIT, _E.COMMIT): Error.NONE,
    (_S.COMPLETE_COMMIT, _E.ABORT): _INVALID,
    (_S.COMPLETE_ABORT, _E.COMMIT): _INVALID,
    (_S.COMPLETE_ABORT, _E.ABORT): Error.NONE,
    (_S.ONGOING, _E.COMMIT_2): Transition(_S.PREPARE_COMMIT, _end_with_bump),
    (_S.ONGOING, _E.ABORT_2): Transition(_S.PREPARE_ABORT, _end_with_bump),
    **{(state, _E.COMMIT_2): _INVALID for state in IDLE},
    **{(state, _E.ABORT_2): Transition(_S.PREPARE_ABORT, _abort_nothing) for state in IDLE},
    (_S.PREPARE_COMMIT, _E.REPEATED_COMMIT): _BUSY,
    (_S.PREPARE_COMMIT, _E.REPEATED_ABORT): _INVALID,
    (_S.PREPARE_ABORT, _E.REPEATED_COMMIT): _INVALID,
    (_S.PREPARE_ABORT, _E.REPEATED_ABORT): _BUSY,
    (_S.COMPLETE_COMMIT, _E.REPEATED_COMMIT): Error.NONE,
    (_S.COMPLETE_COMMIT, _E.REPEATED_ABORT): _INVALID,
    (_S.COMPLETE_ABORT, _E.REPEATED_COMMIT): _INVALID,
    (_S.COMPLETE_ABORT, _E.REPEATED_ABORT): Error.NONE,
    (_S.PREPARE_COMMIT, _E.MARKERS_WRITTEN): Transition(_S.COMPLETE_COMMIT, _complete),
    (_S.PREPARE_ABORT, _E.MARKERS_WRITTEN): Transition(_S.COMPLETE_ABORT, _complete),
    **{(state, _E.EXPIRE): Transition(_S.DEAD, _keep) for state in IDLE},
}
"""Transition or error by state and event."""
