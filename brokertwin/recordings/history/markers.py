"""Transactions of a producer as its requests and the coordinator's markers show them."""

import re
from bisect import bisect_right, insort
from typing import NamedTuple

import msgspec
from msgspec import field

from brokertwin.recordings.history import bodies
from brokertwin.recordings.history.bodies import Holder
from brokertwin.recordings.history.exchange import RecordedExchange, RecordedRequest
from brokertwin.recordings.history.findings import TransactionAborted

MARKER_SENDER = re.compile(r"broker-(\d+)-txn-marker-sender")
"""The client id with which a coordinator sends its markers; it has the broker id."""

BUMPING_VERSION = 5
"""The first version of EndTxn that raises the epoch (transaction.version 2)."""

GRACE_MS = 2_000
"""How long after an abort the request for it may be logged."""


class StartedTransaction(msgspec.Struct, frozen=True):
    line: RecordedRequest
    epoch: int


class Mark(NamedTuple):
    """A WriteTxnMarkers, and the epoch of a marker in it."""

    line: RecordedRequest
    epoch: int


class ObservedAbort(msgspec.Struct, frozen=True):
    """A transaction that ended with abort markers.

    Attributes:
        producer_id: the producer id of the transaction.
        epoch: the epoch of the markers; above that of a producer that they fenced.
        marker: the first WriteTxnMarkers of the transaction.
        coordinator: the broker that sent it; None if a tool did.
        began: the start of the transaction; None if it is not recorded.
        timeout_ms: its transaction.timeout.ms; None if it is not recorded.
        requested: the request that made the coordinator abort; None if there is none.
        is_timeout: whether the transaction certainly timed out.
    """

    producer_id: int
    epoch: int
    marker: RecordedRequest
    coordinator: int | None
    began: StartedTransaction | None
    timeout_ms: int | None
    requested: RecordedRequest | None
    is_timeout: bool

    @property
    def lasted_ms(self) -> int | None:
        """From the request that began the transaction to the marker."""
        return self.marker.time - self.began.line.time if self.began is not None else None

    @property
    def cause(self) -> TransactionAborted:
        return TransactionAborted(
            marker=self.marker,
            coordinator=self.coordinator,
            requested=self.requested,
            lasted_ms=self.lasted_ms,
            timeout_ms=self.timeout_ms,
            is_timeout=self.is_timeout,
        )


class TransactionRequests(msgspec.Struct):
    """The requests of one producer id that began, ended or aborted transactions.

    Attributes:
        begun: starts, in the order of their responses.
        ended: requests that ended one, in the order of their responses.
        marked: markers, in the order of their responses.
        aborting: requests that abort one, in the order of their arrival.
    """

    begun: list[StartedTransaction] = field(default_factory=list)
    ended: list[RecordedRequest] = field(default_factory=list)
    marked: list[Mark] = field(default_factory=list)
    aborting: list[RecordedRequest] = field(default_factory=list)

    def is_first(self, epoch: int) -> bool:
        """Return whether no transaction of an epoch is open yet."""
        if not self.begun or self.begun[-1].epoch != epoch:
            return True
        return bool(self.ended) and self.ended[-1].end >= self.begun[-1].line.end

    @property
    def last(self) -> RecordedRequest | None:
        """The last of them; None if there is none."""
        of = [*(each.line for each in self.begun), *self.ended, *self.aborting]
        return max(of, key=lambda each: each.end, default=None)

    def open_at(self, time: int) -> StartedTransaction | None:
        """The start of the transaction that is open at a time; None if it is not recorded."""
        ends = [*(each.end for each in self.ended), *(each.line.end for each in self.marked)]
        since = max((end for end in ends if end <= time), default=0)
        later = [each for each in self.begun if since <= each.line.time <= time]
        return min(later, key=lambda each: each.line.time, default=None)

    def last_aborting(self, time: int) -> RecordedRequest | None:
        count = bisect_right(self.aborting, time, key=lambda each: each.time)
        return self.aborting[count - 1] if count else None

    def marked_until(self, time: int, epoch: int) -> int:
        """When the last marker of another epoch before a time was written; 0 if none is known."""
        ends = (each.line.end for each in self.marked if each.epoch != epoch)
        return max((end for end in ends if end <= time), default=0)

    def mark(self, mark: Mark) -> None:
        insort(self.marked, mark, key=lambda each: each.line.end)

    def bound(self, limit: int) -> None:
        """Drop the oldest requests above a limit."""
        for kept in (self.begun, self.ended, self.marked, self.aborting):
            if len(kept) > limit:
                del kept[:-limit]


def coordinator_of(marker: RecordedRequest) -> int | None:
    """The broker that sent a marker; None if a tool did."""
    sender = MARKER_SENDER.fullmatch(marker.client)
    return int(sender[1]) if sender is not None else None


def is_taken(exchange: RecordedExchange, holder: Holder) -> bool:
    """Return whether a broker accepted a request for a transaction of a producer."""
    if bodies.errors(exchange.response):
        return False
    transactions = exchange.request.get("transactions") or ()
    return not any(
        each.get("verifyOnly") and each.get("transactionalId") == holder.name
        for each in transactions
    )
