"""The transactions of a log that readers of committed records do not see yet.

Source: `ProducerStateManager.ongoingTxns`, `.unreplicatedTxns`, `.completeTxn` in Kafka. They lie
in `Log.transactions`, in the order of their first records; what is aborted goes on to the index of
aborted ones (`aborted_transactions.py`).
"""

import msgspec

from brokertwin.state.core.records import Batch
from brokertwin.state.logs.aborted_transactions import AbortedTxn

NO_OFFSET = -1


class LogTransaction(msgspec.Struct, array_like=True):
    """A transaction that read_committed consumers do not see yet: open, or with a fresh marker.

    `first_offset` is its first record, `last_offset` its marker, -1 while it is open.
    """

    producer_id: int
    first_offset: int
    last_offset: int = NO_OFFSET


def follow(transactions: list[LogTransaction], batch: Batch) -> AbortedTxn | None:
    """Opens a transaction with its first batch, and ends it with its marker.

    Gives back what the marker has aborted, if it has.
    """
    known = _open_of(transactions, batch.producer_id)
    if not batch.is_control:
        if known is None:
            transactions.append(LogTransaction(batch.producer_id, batch.base_offset))
        return None
    if known is None:
        return None
    known.last_offset = batch.last_offset
    if batch.end_marker is None or batch.end_marker.is_commit:
        return None
    others = [each.first_offset for each in transactions if each.last_offset == NO_OFFSET]
    last_stable_offset = others[0] if others else batch.last_offset + 1
    return AbortedTxn(known.producer_id, known.first_offset, known.last_offset, last_stable_offset)


def follow_again(transactions: list[LogTransaction], batch: Batch) -> None:
    """Notes what a batch says of a transaction when its log is read again."""
    known = _open_of(transactions, batch.producer_id)
    if batch.is_control and known is not None:
        known.last_offset = batch.last_offset
    elif not batch.is_control and known is None:
        transactions.append(LogTransaction(batch.producer_id, batch.base_offset))


def _open_of(transactions: list[LogTransaction], producer_id: int) -> LogTransaction | None:
    """The transaction of a producer that has no marker yet."""
    for each in transactions:
        if each.producer_id == producer_id and each.last_offset == NO_OFFSET:
            return each
    return None
