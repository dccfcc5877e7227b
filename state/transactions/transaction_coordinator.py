"""The transaction coordinator: what a broker does for the transactional ids that it coordinates.

Source: `TransactionCoordinator` in Kafka 4.3.1. What becomes of an id is decided in
`transactions.py`; here are the records and the markers that follow from it.

An end is two records: Prepare*, with which the outcome is decided and the client is answered, and
Complete* when the leaders have written their markers. Where no partition needs a marker both come
at once. Where `__transaction_state` has followers a write takes until they have it
(`state/cell/committing.py`): meanwhile the id is busy, and who asks is told to come again (51).
"""

from typing import NamedTuple

from brokertwin.state.cluster.coordinators import transaction_error
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core import kafka_apis, pending
from brokertwin.state.core.decision import Decision, Message
from brokertwin.state.core.errors import Error
from brokertwin.state.core.records import Record, TransactionalIdExpired, TransactionMetadata
from brokertwin.state.transactions import (
    producer_id_drawing,
    transaction_markers,
    transactional_ids,
    transactions,
)
from brokertwin.state.transactions.producer_id_drawing import Drawn
from brokertwin.state.transactions.transactions import (
    EPOCH_BUMPS,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    PREPARED,
    Asked,
    Input,
    ProducerIdAndEpoch,
    State,
)

NOBODY = ProducerIdAndEpoch(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


class Outcome(NamedTuple):
    """What the coordinator decides: the error for the client, records, messages to other machines.

    `holder` is what the producer holds from now on, where that changes.
    """

    error: Error = Error.NONE
    records: list[Record] = []
    messages: list[Message] = []
    holder: ProducerIdAndEpoch = NOBODY


def find(broker: Broker, transactional_id: str | None) -> TransactionMetadata | Error | None:
    """What the broker knows of an id: 42 for none at all, 16 where another broker coordinates."""
    if not transactional_id:
        return Error.INVALID_REQUEST
    error = transaction_error(broker, transactional_id)
    if error is not Error.NONE:
        return error
    return transactional_ids.metadata(broker.tables.transactions, broker.id, transactional_id)


def take_over(
    broker: Broker, transactional_id: str, asked: Asked, chosen: int | None = None
) -> Outcome:
    """InitProducerId; a transaction that is open is aborted first, and the client told to wait."""
    known = find(broker, transactional_id)
    if isinstance(known, Error):
        return Outcome(known)
    if transactional_ids.is_busy(broker, transactional_id):
        return Outcome(Error.CONCURRENT_TRANSACTIONS)
    if known is not None:
        error = transactions.fence_error(known, asked.expected)
        if error is not Error.NONE:
            return Outcome(error)
        if known.state == State.ONGOING:
            fenced = _fence(broker, transactional_id, known, Input.INIT)
            if fenced.error is not Error.NONE:
                return fenced
            return fenced._replace(error=Error.CONCURRENT_TRANSACTIONS, holder=NOBODY)
    drawn = Drawn()
    if known is None or transactions.needs_new_id(known, Input.INIT, asked.expected):
        drawn = producer_id_drawing.draw(broker, chosen)
        if drawn.error is not Error.NONE:
            return Outcome(drawn.error, messages=drawn.messages)
    if known is None:
        known = transactions.new_metadata(drawn.producer_id)
    else:
        asked = asked._replace(new_producer_id=drawn.producer_id)
    metadata = transactions.step(known, Input.INIT, asked)
    if isinstance(metadata, Error):
        return Outcome(metadata)
    written = transactional_ids.written(broker, transactional_id, metadata)
    return Outcome(
        records=[*drawn.records, written], messages=drawn.messages, holder=_holder(metadata)
    )


def add_partitions(
    broker: Broker,
    transactional_id: str | None,
    holder: ProducerIdAndEpoch,
    partitions: dict[str, list[int]],
) -> Outcome:
    """Partitions join the transaction, the first ones begin it."""
    known = find(broker, transactional_id)
    if isinstance(known, Error):
        return Outcome(known)
    error = transactions.holder_error(known, holder)
    if known is None or transactional_id is None or error is not Error.NONE:
        return Outcome(error)
    if transactional_ids.is_busy(broker, transactional_id):
        return Outcome(Error.CONCURRENT_TRANSACTIONS)
    metadata = transactions.step(known, Input.ADD, Asked(broker.now, partitions=partitions))
    if isinstance(metadata, Error):
        return Outcome(metadata)
    return Outcome(records=[transactional_ids.written(broker, transactional_id, metadata)])


def end(
    broker: Broker,
    transactional_id: str,
    holder: ProducerIdAndEpoch,
    is_commit: bool,
    version: int,
) -> Outcome:
    """EndTxn in a version of transactions; the holder is new where the end bumps the epoch."""
    known = find(broker, transactional_id)
    if isinstance(known, Error):
        return Outcome(known)
    asked_for = transactions.end_input(known, holder, is_commit, version)
    if isinstance(asked_for, Error) or known is None:
        return Outcome(asked_for if isinstance(asked_for, Error) else Error.NONE)
    if transactional_ids.is_busy(broker, transactional_id):
        return Outcome(Error.CONCURRENT_TRANSACTIONS)
    return _prepare(broker, transactional_id, known, asked_for)


def fire(broker: Broker, transactional_id: str) -> Decision:
    """The check for time-outs: aborts what has lasted too long, sends lost markers again."""
    known = find(broker, transactional_id)
    if known is None or isinstance(known, Error):
        return Decision()
    if known.state not in PREPARED and not transactions.is_timed_out(known, broker.now):
        transactional_ids.set_check(broker, transactional_id, known)
        return Decision()
    transactional_ids.check_after(broker, transactional_id, broker.now)
    if transactional_ids.is_busy(broker, transactional_id):
        return Decision()
    if known.state == State.ONGOING:
        fenced = _fence(broker, transactional_id, known, Input.TIME_OUT)
        return Decision(records=fenced.records, messages=fenced.messages)
    if pending.is_message_late(
        broker.tables.pending, kafka_apis.WRITE_TXN_MARKERS.key, transactional_id
    ):
        return Decision()
    messages = transaction_markers.messages(broker, transactional_id, known)
    if messages:
        return Decision(messages=messages)
    completed = transaction_markers.completed(broker, known)
    return Decision(records=[transactional_ids.written(broker, transactional_id, completed)])


def expired(broker: Broker) -> list[TransactionalIdExpired]:
    """The transactional ids that a check forgets now, sorted."""
    expiration_ms = broker.settings.transactional_id_expiration_ms
    return [
        TransactionalIdExpired(transactional_id)
        for transactional_id, known in transactional_ids.all_ids(
            broker.tables.transactions, broker.id
        )
        if transactions.is_expired(known, broker.now, expiration_ms)
        and not transactional_ids.is_busy(broker, transactional_id)
    ]


def _fence(
    broker: Broker, transactional_id: str, known: TransactionMetadata, asked_for: Input
) -> Outcome:
    """Aborts an open transaction that its producer can no longer end."""
    version = broker.settings.brokertwin_transaction_version
    fenced = transactions.step(known, asked_for, Asked(broker.now, version=version))
    assert isinstance(fenced, TransactionMetadata), fenced
    abort = Input.ABORT_2 if version >= EPOCH_BUMPS else Input.ABORT
    return _prepare(broker, transactional_id, fenced, abort)


def _prepare(
    broker: Broker, transactional_id: str, known: TransactionMetadata, asked_for: Input
) -> Outcome:
    """Decides the end and sends the markers."""
    drawn = Drawn()
    if transactions.needs_new_id(known, asked_for):
        drawn = producer_id_drawing.draw(broker)
        if drawn.error is not Error.NONE:
            return Outcome(drawn.error, messages=drawn.messages)
    asked = Asked(broker.now, new_producer_id=drawn.producer_id)
    prepared = transactions.step(known, asked_for, asked)
    if isinstance(prepared, Error):
        holder = _holder(known) if prepared is Error.NONE else NOBODY
        return Outcome(prepared, holder=holder)
    completed = transaction_markers.completed(broker, prepared)
    records: list[Record] = [
        *drawn.records,
        transactional_ids.written(broker, transactional_id, prepared),
    ]
    messages = transaction_markers.messages(broker, transactional_id, prepared)
    if not messages:
        records.append(transactional_ids.written(broker, transactional_id, completed))
    return Outcome(
        records=records,
        messages=[*drawn.messages, *messages],
        holder=_holder(completed),
    )


def _holder(metadata: TransactionMetadata) -> ProducerIdAndEpoch:
    return ProducerIdAndEpoch(metadata.producer_id, metadata.producer_epoch)
