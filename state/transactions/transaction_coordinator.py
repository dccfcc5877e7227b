"""The transaction coordinator of a transactional id.

Source: `TransactionCoordinator` in Kafka 4.3.1. `transactions.py` decides; this module creates
records and markers.

An end writes two records: Prepare*, which decides the outcome and completes the request, and
Complete* after all markers are written. Without partitions both are written at once. If
`__transaction_state` has followers, a write is pending until they have replicated it
(`state/cell/committing.py`). Until then `is_busy` is true, and requests fail: 51
CONCURRENT_TRANSACTIONS. A prepared transaction is refused separately, in `TRANSITIONS`.
"""

from typing import NamedTuple

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.errors import Error
from brokertwin.state.cluster.coordinators import transaction_error
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core import pending
from brokertwin.state.core.decision import Decision, Message
from brokertwin.state.core.records import Record, TransactionalIdExpired, TransactionMetadata
from brokertwin.state.transactions import (
    producer_id_manager,
    transaction_markers,
    transactional_ids,
    transactions,
)
from brokertwin.state.transactions.producer_id_manager import ProducerIdResult
from brokertwin.state.transactions.transactions import (
    EPOCH_BUMPS,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    PREPARED,
    EventData,
    ProducerIdAndEpoch,
    TransactionEvent,
    TransactionState,
)

NO_PRODUCER = ProducerIdAndEpoch(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


class CoordinatorResult(NamedTuple):
    """Error of the request, records, and messages to other machines.

    `holder` is the producer's new id and epoch, if they change.
    """

    error: Error = Error.NONE
    records: list[Record] = []
    messages: list[Message] = []
    holder: ProducerIdAndEpoch = NO_PRODUCER


def find(broker: Broker, transactional_id: str | None) -> TransactionMetadata | Error | None:
    """Return the metadata of an id; None if it is new.

    Errors: 42 INVALID_REQUEST without an id, 16 NOT_COORDINATOR.
    """
    if not transactional_id:
        return Error.INVALID_REQUEST
    error = transaction_error(broker, transactional_id)
    if error is not Error.NONE:
        return error
    return transactional_ids.metadata(broker, transactional_id)


def init_producer_id(
    broker: Broker, transactional_id: str, data: EventData, chosen: int | None = None
) -> CoordinatorResult:
    """Handle InitProducerId. An open transaction is aborted first."""
    current = find(broker, transactional_id)
    if isinstance(current, Error):
        return CoordinatorResult(current)
    if transactional_ids.is_busy(broker, transactional_id):
        return CoordinatorResult(Error.CONCURRENT_TRANSACTIONS)
    if current is not None:
        error = transactions.fence_error(current, data.expected)
        if error is not Error.NONE:
            return CoordinatorResult(error)
        if current.state == TransactionState.ONGOING:
            fenced = _fence(broker, transactional_id, current, TransactionEvent.INIT)
            if fenced.error is not Error.NONE:
                return fenced
            return fenced._replace(error=Error.CONCURRENT_TRANSACTIONS, holder=NO_PRODUCER)
    allocated = ProducerIdResult()
    if current is None or transactions.needs_new_id(current, TransactionEvent.INIT, data.expected):
        allocated = producer_id_manager.next_producer_id(broker, chosen)
        if allocated.error is not Error.NONE:
            return CoordinatorResult(allocated.error, messages=allocated.messages)
    if current is None:
        current = transactions.new_metadata(allocated.producer_id)
    else:
        data = data._replace(new_producer_id=allocated.producer_id)
    metadata = transactions.step(current, TransactionEvent.INIT, data)
    if isinstance(metadata, Error):
        return CoordinatorResult(metadata)
    written = transactional_ids.metadata_record(broker, transactional_id, metadata)
    return CoordinatorResult(
        records=[*allocated.records, written], messages=allocated.messages, holder=_holder(metadata)
    )


def add_partitions(
    broker: Broker,
    transactional_id: str | None,
    holder: ProducerIdAndEpoch,
    partitions: dict[str, list[int]],
) -> CoordinatorResult:
    """Add partitions to the transaction; the first ones begin it."""
    current = find(broker, transactional_id)
    if isinstance(current, Error):
        return CoordinatorResult(current)
    error = transactions.holder_error(current, holder)
    if current is None or transactional_id is None or error is not Error.NONE:
        return CoordinatorResult(error)
    if transactional_ids.is_busy(broker, transactional_id):
        return CoordinatorResult(Error.CONCURRENT_TRANSACTIONS)
    metadata = transactions.step(
        current, TransactionEvent.ADD, EventData(broker.now, partitions=partitions)
    )
    if isinstance(metadata, Error):
        return CoordinatorResult(metadata)
    return CoordinatorResult(
        records=[transactional_ids.metadata_record(broker, transactional_id, metadata)]
    )


def end(
    broker: Broker, transactional_id: str, holder: ProducerIdAndEpoch, is_commit: bool, version: int
) -> CoordinatorResult:
    """Handle EndTxn. `holder` changes if the end bumps the epoch."""
    current = find(broker, transactional_id)
    if isinstance(current, Error):
        return CoordinatorResult(current)
    event = transactions.end_event(current, holder, is_commit, version)
    if isinstance(event, Error) or current is None:
        return CoordinatorResult(event if isinstance(event, Error) else Error.NONE)
    if transactional_ids.is_busy(broker, transactional_id):
        return CoordinatorResult(Error.CONCURRENT_TRANSACTIONS)
    return _prepare(broker, transactional_id, current, event)


def fire(broker: Broker, transactional_id: str) -> Decision:
    """Handle a check: abort after the transaction timeout, or send lost markers again."""
    current = find(broker, transactional_id)
    if current is None or isinstance(current, Error):
        return Decision()
    if current.state not in PREPARED and not transactions.is_timed_out(current, broker.now):
        transactional_ids.schedule_check(broker, transactional_id, current)
        return Decision()
    transactional_ids.check_after(broker, transactional_id, broker.now)
    if transactional_ids.is_busy(broker, transactional_id):
        return Decision()
    if current.state == TransactionState.ONGOING:
        fenced = _fence(broker, transactional_id, current, TransactionEvent.TIME_OUT)
        return Decision(records=fenced.records, messages=fenced.messages)
    if pending.is_message_late(
        broker.tables.pending, kafka_apis.WRITE_TXN_MARKERS.key, transactional_id
    ):
        return Decision()
    messages = transaction_markers.marker_requests(broker, transactional_id, current)
    if messages:
        return Decision(messages=messages)
    completed = transaction_markers.completed(broker, current)
    return Decision(
        records=[transactional_ids.metadata_record(broker, transactional_id, completed)]
    )


def expired(broker: Broker) -> list[TransactionalIdExpired]:
    """Return the expired transactional ids, sorted."""
    expiration_ms = broker.settings.transactional_id_expiration_ms
    return [
        TransactionalIdExpired(transactional_id)
        for transactional_id, current in transactional_ids.all_ids(broker)
        if transactions.is_expired(current, broker.now, expiration_ms)
        and not transactional_ids.is_busy(broker, transactional_id)
    ]


def _fence(
    broker: Broker, transactional_id: str, current: TransactionMetadata, event: TransactionEvent
) -> CoordinatorResult:
    """Abort an open transaction that its producer can no longer end."""
    version = broker.settings.brokertwin_transaction_version
    fenced = transactions.step(current, event, EventData(broker.now, version=version))
    assert isinstance(fenced, TransactionMetadata), fenced
    abort = TransactionEvent.ABORT_2 if version >= EPOCH_BUMPS else TransactionEvent.ABORT
    return _prepare(broker, transactional_id, fenced, abort)


def _prepare(
    broker: Broker, transactional_id: str, current: TransactionMetadata, event: TransactionEvent
) -> CoordinatorResult:
    """Decide the end and send the markers."""
    allocated = ProducerIdResult()
    if transactions.needs_new_id(current, event):
        allocated = producer_id_manager.next_producer_id(broker)
        if allocated.error is not Error.NONE:
            return CoordinatorResult(allocated.error, messages=allocated.messages)
    data = EventData(broker.now, new_producer_id=allocated.producer_id)
    prepared = transactions.step(current, event, data)
    if isinstance(prepared, Error):
        holder = _holder(current) if prepared is Error.NONE else NO_PRODUCER
        return CoordinatorResult(prepared, holder=holder)
    completed = transaction_markers.completed(broker, prepared)
    records: list[Record] = [
        *allocated.records,
        transactional_ids.metadata_record(broker, transactional_id, prepared),
    ]
    messages = transaction_markers.marker_requests(broker, transactional_id, prepared)
    if not messages:
        records.append(transactional_ids.metadata_record(broker, transactional_id, completed))
    return CoordinatorResult(
        records=records, messages=[*allocated.messages, *messages], holder=_holder(completed)
    )


def _holder(metadata: TransactionMetadata) -> ProducerIdAndEpoch:
    return ProducerIdAndEpoch(metadata.producer_id, metadata.producer_epoch)
