"""Transactions of a log above the last stable offset.

Source: `ProducerStateManager.ongoingTxns`, `.unreplicatedTxns`, `.completeTxn` in Kafka.
`Log.transactions` has them in the order of their first records. Aborted ones are then added to the
index of aborted transactions (`aborted_transactions.py`).
"""

import msgspec

from brokertwin.protocol.batch_headers import Batch
from brokertwin.state.logs.aborted_transactions import AbortedTxn

NO_OFFSET = -1


class LogTransaction(msgspec.Struct, array_like=True):
    """A transaction that is open, or whose marker is not below the high watermark.

    `first_offset` is its first record, `last_offset` its marker, -1 while it is open.
    """

    producer_id: int
    first_offset: int
    last_offset: int = NO_OFFSET


def add_batch(transactions: list[LogTransaction], batch: Batch) -> AbortedTxn | None:
    """Open a transaction with its first batch, or end it with its marker.

    Returns the transaction if the marker aborts it.
    """
    txn = _open_of(transactions, batch.producer_id)
    if not batch.is_control:
        if txn is None:
            transactions.append(LogTransaction(batch.producer_id, batch.base_offset))
        return None
    if txn is None:
        return None
    txn.last_offset = batch.last_offset
    if batch.end_marker is None or batch.end_marker.is_commit:
        return None
    others = [each.first_offset for each in transactions if each.last_offset == NO_OFFSET]
    last_stable_offset = others[0] if others else batch.last_offset + 1
    return AbortedTxn(txn.producer_id, txn.first_offset, txn.last_offset, last_stable_offset)


def replay_batch(transactions: list[LogTransaction], batch: Batch) -> None:
    """Update transactions while a log is read again, without the index of aborted ones."""
    txn = _open_of(transactions, batch.producer_id)
    if batch.is_control and txn is not None:
        txn.last_offset = batch.last_offset
    elif not batch.is_control and txn is None:
        transactions.append(LogTransaction(batch.producer_id, batch.base_offset))


def _open_of(transactions: list[LogTransaction], producer_id: int) -> LogTransaction | None:
    """The producer's transaction without a marker."""
    for each in transactions:
        if each.producer_id == producer_id and each.last_offset == NO_OFFSET:
            return each
    return None
