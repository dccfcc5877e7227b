"""Storage and timers of transactional ids on their coordinator.

Source: KIP-98; `TransactionStateManager` in Kafka. Items of the table `transactions`:

    <broker>/id/<transactional id>   TransactionMetadata

The coordinator is the leader of the id's partition of `__transaction_state`. An id is *busy*
(Kafka's pending state) while it has an uncommitted write: item `<broker>/busy/<id>` in the table
`in_flight`. Requests for it fail meanwhile.

An id with an open transaction or pending markers has a timer. It fires at multiples of
`transaction.abort.timed.out.transaction.cleanup.interval.ms` since 1970, because Kafka checks all
ids at such intervals.
"""

from collections.abc import Iterator

import msgspec

from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core import pending
from brokertwin.state.core.applying import applies
from brokertwin.state.core.records import (
    Record,
    TransactionalIdExpired,
    TransactionMarkersWritten,
    TransactionMetadata,
    TransactionMetadataWritten,
)
from brokertwin.state.core.tables import MachineTables
from brokertwin.state.transactions.transactions import (
    NO_PRODUCER_EPOCH,
    PREPARED,
    TransactionState,
    deadline,
)

TIMER = "transactions"
"""Prefix of the names of the timers."""


class Busy(msgspec.Struct, array_like=True):
    """Number of uncommitted writes of an id."""

    writes: int


def _busy_key(broker: int, transactional_id: str) -> str:
    return f"{broker}/busy/{transactional_id}"


def _key(broker: int, transactional_id: str) -> str:
    return f"{broker}/id/{transactional_id}"


def transactional_id_of(key: str) -> str:
    """Return the transactional id of a key of the table `transactions`."""
    return key.split("/", 2)[2]


def metadata(at: MachineTables, transactional_id: str) -> TransactionMetadata | None:
    return at.tables.transactions.get(_key(at.id, transactional_id), TransactionMetadata)


def all_ids(at: MachineTables) -> Iterator[tuple[str, TransactionMetadata]]:
    """Yield the ids of a broker with their metadata, sorted."""
    prefix = _key(at.id, "")
    for key, current in at.tables.transactions.items(prefix, TransactionMetadata):
        yield key.removeprefix(prefix), current


def metadata_record(
    broker: Broker, transactional_id: str, metadata: TransactionMetadata
) -> TransactionMetadataWritten:
    schedule_check(broker, transactional_id, metadata)
    level = broker.settings.brokertwin_transaction_version
    return TransactionMetadataWritten(transactional_id, metadata, row_version=min(level, 1))


def schedule_check(broker: Broker, transactional_id: str, metadata: TransactionMetadata) -> None:
    if metadata.state == TransactionState.ONGOING:
        check_after(broker, transactional_id, max(deadline(metadata), broker.now))
    elif metadata.state in PREPARED:
        check_after(broker, transactional_id, broker.now)
    else:
        cancel_check(broker, transactional_id)


def is_busy(broker: Broker, transactional_id: str) -> bool:
    return _busy_key(broker.id, transactional_id) in broker.tables.in_flight


def begin_write(broker: Broker, transactional_id: str) -> None:
    """Start an uncommitted write. The timer depends on the stored metadata."""
    table, key = broker.tables.in_flight, _busy_key(broker.id, transactional_id)
    if key not in table:
        table.put(key, Busy(0))
    table.change(key, Busy).writes += 1
    reset_timer(broker, transactional_id)


def placeholder_records(broker: Broker, records: list[Record]) -> list[Record]:
    """Return records of new ids without an epoch.

    As in Kafka, a new id exists even if its first write is not committed.
    """
    return [
        TransactionMetadataWritten(
            each.transactional_id,
            TransactionMetadata(
                producer_id=each.metadata.producer_id,
                producer_epoch=NO_PRODUCER_EPOCH,
                transaction_timeout_ms=each.metadata.transaction_timeout_ms,
                last_update_timestamp=each.metadata.last_update_timestamp,
            ),
        )
        for each in records
        if isinstance(each, TransactionMetadataWritten)
        and _key(broker.id, each.transactional_id) not in broker.tables.transactions
    ]


def end_write(broker: Broker, transactional_id: str) -> None:
    """End an uncommitted write, committed or failed."""
    table, key = broker.tables.in_flight, _busy_key(broker.id, transactional_id)
    if key in table:
        busy = table.change(key, Busy)
        busy.writes -= 1
        if not busy.writes:
            table.drop(key)
    reset_timer(broker, transactional_id)


def reset_timer(broker: Broker, transactional_id: str) -> None:
    """Set an id's timer according to its stored metadata."""
    current = metadata(broker, transactional_id)
    if current is None:
        cancel_check(broker, transactional_id)
    else:
        schedule_check(broker, transactional_id, current)


def ids_with_timer(broker: Broker) -> list[str]:
    """Return the ids with a scheduled check, sorted."""
    return pending.timers_of(broker.tables.pending, _timer(broker.id, ""))


def check_after(broker: Broker, transactional_id: str, time: int) -> None:
    """Schedule the first check after `time` (ms since 1970)."""
    interval = broker.settings.transaction_abort_timed_out_transaction_cleanup_interval_ms
    check = (time // interval + 1) * interval
    pending.set_timer(broker.tables.pending, _timer(broker.id, transactional_id), check)


def cancel_check(broker: Broker, transactional_id: str) -> None:
    pending.set_timer(broker.tables.pending, _timer(broker.id, transactional_id), None)


def _timer(broker: int, transactional_id: str) -> str:
    return f"{TIMER}/{broker}/{transactional_id}"


@applies(TransactionMetadataWritten)
def apply_written(at: MachineTables, record: TransactionMetadataWritten) -> None:
    at.tables.transactions.put(
        _key(at.id, record.transactional_id), msgspec.structs.replace(record.metadata)
    )


@applies(TransactionMarkersWritten)
def apply_markers(at: MachineTables, record: TransactionMarkersWritten) -> None:
    current = at.tables.transactions.change(
        _key(at.id, record.transactional_id), TransactionMetadata
    )
    current.partitions = dict(record.partitions)


@applies(TransactionalIdExpired)
def apply_expired(at: MachineTables, record: TransactionalIdExpired) -> None:
    at.tables.transactions.drop(_key(at.id, record.transactional_id))
