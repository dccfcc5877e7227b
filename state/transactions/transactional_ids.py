"""Transactional ids: what their coordinator stores of them, and when it looks at them again.

Source: KIP-98; `TransactionStateManager` in Kafka. Items of the table `transactions`:

    <broker>/id/<transactional id>   TransactionMetadata

An id that is *busy* has something in the log that is not committed yet: `<broker>/busy/<id>` in the
table `in_flight`, Kafka's pending state. Until it is over the id is asked nothing.

The coordinator is the leader of the id's partition of `__transaction_state`. What becomes of an id
is in `transactions.py`. An id with an open transaction, or one that awaits its markers, has a
timer. It fires at multiples of `transaction.abort.timed.out.transaction.cleanup.interval.ms` since
1970, as Kafka looks at all of them at such an interval.
"""

from collections.abc import Iterator

import msgspec

from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core import pending
from brokertwin.state.core.records import (
    Record,
    TransactionalIdExpired,
    TransactionMarkersWritten,
    TransactionMetadata,
    TransactionMetadataWritten,
)
from brokertwin.state.core.tables import Table
from brokertwin.state.transactions.transactions import (
    NO_PRODUCER_EPOCH,
    PREPARED,
    State,
    deadline,
)

TIMER = "transactions"
"""The kind of the timers of transactional ids."""


class Busy(msgspec.Struct, array_like=True):
    """How many writes of an id are under way."""

    writes: int


def _busy_key(broker: int, transactional_id: str) -> str:
    return f"{broker}/busy/{transactional_id}"


def _key(broker: int, transactional_id: str) -> str:
    return f"{broker}/id/{transactional_id}"


def transactional_id_of(key: str) -> str:
    """The transactional id that a key of the table `transactions` is about."""
    return key.split("/", 2)[2]


def metadata(table: Table, broker: int, transactional_id: str) -> TransactionMetadata | None:
    """What the coordinator knows of a transactional id, if anything."""
    return table.get(_key(broker, transactional_id), TransactionMetadata)


def all_ids(table: Table, broker: int) -> Iterator[tuple[str, TransactionMetadata]]:
    """The transactional ids that a broker coordinates, sorted, and what it knows of them."""
    prefix = _key(broker, "")
    for key, known in table.items(prefix, TransactionMetadata):
        yield key.removeprefix(prefix), known


def written(
    broker: Broker, transactional_id: str, metadata: TransactionMetadata
) -> TransactionMetadataWritten:
    """The record of what is new of an id; its timer is set to the check that has to look at it."""
    set_check(broker, transactional_id, metadata)
    level = broker.settings.brokertwin_transaction_version
    return TransactionMetadataWritten(transactional_id, metadata, row_version=min(level, 1))


def set_check(broker: Broker, transactional_id: str, metadata: TransactionMetadata) -> None:
    """Sets an id's timer to the check that has to look at it, if any has to."""
    if metadata.state == State.ONGOING:
        check_after(broker, transactional_id, max(deadline(metadata), broker.now))
    elif metadata.state in PREPARED:
        check_after(broker, transactional_id, broker.now)
    else:
        stop_checks(broker, transactional_id)


def is_busy(broker: Broker, transactional_id: str) -> bool:
    """Whether something of the id is written, but not committed yet."""
    return _busy_key(broker.id, transactional_id) in broker.tables.in_flight


def begin_write(broker: Broker, transactional_id: str) -> None:
    """Something of the id is written from now on; its timer is by what is known of it still."""
    table, key = broker.tables.in_flight, _busy_key(broker.id, transactional_id)
    if key not in table:
        table.put(key, Busy(0))
    table.change(key, Busy).writes += 1
    look_again(broker, transactional_id)


def noted(broker: Broker, records: list[Record]) -> list[Record]:
    """An id that nobody knew is known from now on, with no epoch, committed or not, as in Kafka."""
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
    """What was written is committed, or given up."""
    table, key = broker.tables.in_flight, _busy_key(broker.id, transactional_id)
    if key in table:
        busy = table.change(key, Busy)
        busy.writes -= 1
        if not busy.writes:
            table.drop(key)
    look_again(broker, transactional_id)


def look_again(broker: Broker, transactional_id: str) -> None:
    """Sets an id's timer by what is known of it now."""
    known = metadata(broker.tables.transactions, broker.id, transactional_id)
    if known is None:
        stop_checks(broker, transactional_id)
    else:
        set_check(broker, transactional_id, known)


def checked_ids(broker: Broker) -> list[str]:
    """The ids at which the broker is going to look, sorted."""
    return pending.timers_of(broker.tables.pending, _timer(broker.id, ""))


def check_after(broker: Broker, transactional_id: str, time: int) -> None:
    """Has the first check after `time` (ms since 1970) look at an id."""
    interval = broker.settings.transaction_abort_timed_out_transaction_cleanup_interval_ms
    check = (time // interval + 1) * interval
    pending.set_timer(broker.tables.pending, _timer(broker.id, transactional_id), check)


def stop_checks(broker: Broker, transactional_id: str) -> None:
    """No check looks at the id any more."""
    pending.set_timer(broker.tables.pending, _timer(broker.id, transactional_id), None)


def _timer(broker: int, transactional_id: str) -> str:
    return f"{TIMER}/{broker}/{transactional_id}"


def apply_written(table: Table, broker: int, record: TransactionMetadataWritten) -> None:
    """Stores what is new of a transactional id."""
    table.put(_key(broker, record.transactional_id), msgspec.structs.replace(record.metadata))


def apply_markers(table: Table, broker: int, record: TransactionMarkersWritten) -> None:
    """Takes partitions off whose leaders have written their markers."""
    known = table.change(_key(broker, record.transactional_id), TransactionMetadata)
    known.partitions = dict(record.partitions)


def apply_expired(table: Table, broker: int, record: TransactionalIdExpired) -> None:
    """Forgets a transactional id."""
    table.drop(_key(broker, record.transactional_id))
