"""Epochs of producers, and transactions that were aborted by the coordinator itself.

A coordinator that aborts a transaction raises the epoch and sends WriteTxnMarkers. Three things
make it abort: an EndTxn, an InitProducerId, and `transaction.timeout.ms`. A time-out leaves no
request. So it is concluded only if the log of the coordinator covers the transaction and the two
seconds after its abort, because an EndTxn or an InitProducerId would then be recorded.

Source: TransactionCoordinator.endTransaction, abortTimedOutTransactions, KIP-890.
"""

import re
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from brokertwin.recordings.explain import bodies
from brokertwin.recordings.explain.bodies import NO_PRODUCER, Holder
from brokertwin.recordings.explain.own_clients import is_brokers_own
from brokertwin.recordings.explain.story import clock, in_order, words
from brokertwin.recordings.replay.recording import Exchange
from brokertwin.state.core.errors import Error

Client = tuple[str | None, str]
"""A client, as far as its id and host show it."""

MARKERS = "WRITE_TXN_MARKERS"
APIS = frozenset(
    {
        *("INIT_PRODUCER_ID", "PRODUCE", "ADD_PARTITIONS_TO_TXN", "ADD_OFFSETS_TO_TXN"),
        *("TXN_OFFSET_COMMIT", "END_TXN"),
    }
)
"""The APIs that name a producer."""

MARKER_SENDER = re.compile(r"broker-(\d+)-txn-marker-sender")
"""The client id under which a coordinator sends its markers, with its broker id."""

BUMPING_VERSION = 5
"""The version of EndTxn from which on it raises the epoch (transaction.version 2)."""

GRACE_MS = 2_000
"""How long after an abort the request for it may be logged, generously."""


class Given(NamedTuple):
    """An epoch that a response gave to a client.

    `former` is the epoch that the request had; -1 for a new producer.
    """

    producer_id: int
    epoch: int
    name: str | None
    exchange: Exchange
    former: int = -1


class Begun(NamedTuple):
    """The request that began a transaction, and the epoch in which it did."""

    exchange: Exchange
    epoch: int


class Abort(NamedTuple):
    """A transaction that ended with abort markers.

    Attributes:
        producer_id: of the transaction.
        epoch: the markers'; above that of a producer that was fenced by them.
        name: the transactional id; None if no request shows it.
        marker: the first WriteTxnMarkers of it.
        coordinator: the broker that sent it; None if a tool did.
        began: what began the transaction; None if that is not recorded.
        timeout_ms: its transaction.timeout.ms; None if that is not recorded.
        asked: the request that made the coordinator abort; None if there is none.
        is_timeout: whether the transaction timed out for sure.
    """

    producer_id: int
    epoch: int
    name: str | None
    marker: Exchange
    coordinator: int | None
    began: Begun | None
    timeout_ms: int | None
    asked: Exchange | None
    is_timeout: bool

    @property
    def lasted_ms(self) -> int | None:
        """From the request that began the transaction to the marker."""
        return self.marker.time - self.began.exchange.time if self.began is not None else None

    @property
    def words(self) -> str:
        """Who aborted it, when, and why, as far as that is known."""
        at = f"at {clock(self.marker.time)} ({self.marker.id})"
        if self.asked is not None:
            return f"{words(self.asked)} aborted the transaction; its marker came {at}"
        said = f"the coordinator, broker {self.coordinator}, aborted the transaction {at}"
        if self.is_timeout:
            limit = f" ({self.timeout_ms} ms)" if self.timeout_ms is not None else ""
            return (
                f"{said}, {self.lasted_ms} ms after it began: it was open for longer than"
                f" transaction.timeout.ms{limit}"
            )
        return f"{said}; the recording does not show why"


class _Requests(NamedTuple):
    """The requests of one producer, in the order of their responses."""

    begun: list[Begun]
    ended: list[Exchange]
    aborting: list[Exchange]


class Epochs:
    """The epochs that a recording shows, and the aborted transactions.

    Args:
        exchanges: all of the recording: they show which brokers' logs cover which time.
        asked: the exchanges of `APIS` and of WriteTxnMarkers, in the order of their responses.

    Attributes:
        given: producer id to its epochs, in the order of the responses.
        names: producer id to transactional id.
        aborts: producer id to its aborted transactions, in their order.
    """

    def __init__(
        self, exchanges: Iterable[Exchange], asked: Sequence[tuple[Exchange, Any]]
    ) -> None:
        self.given: dict[int, list[Given]] = defaultdict(list)
        self.names: dict[int, str] = {}
        self.aborts: dict[int, list[Abort]] = defaultdict(list)
        self._ids: dict[str, list[Given]] = defaultdict(list)
        self._ids_of: dict[str, set[int]] = defaultdict(set)
        self._own: dict[tuple[str, Client], list[Given]] = defaultdict(list)
        self._written: dict[tuple[str, str], list[Exchange]] = defaultdict(list)
        self._used: dict[tuple[str, Client], dict[Holder, Exchange]] = defaultdict(dict)
        self._first: dict[int, Exchange] = {}
        self._timeouts: dict[str, list[tuple[int, int]]] = defaultdict(list)
        self._requests: dict[int, _Requests] = defaultdict(lambda: _Requests([], [], []))
        self._spans: dict[int, tuple[int, int]] = {}
        for each in exchanges:
            first, last = self._spans.get(each.broker, (each.time, each.end))
            self._spans[each.broker] = min(first, each.time), max(last, each.end)
        for exchange, body in asked:
            self._take(exchange, body)
        for requests in self._requests.values():
            requests.begun.sort(key=lambda each: each.exchange.time)
            requests.ended.sort(key=_end)
            requests.aborting.sort(key=_time)
        for exchange, body in asked:
            if exchange.api == MARKERS:
                self._take_markers(exchange, body)

    def holder(self, exchange: Exchange, name: str | None) -> Holder:
        """The producer of a request that has a transactional id and no batch headers.

        Its epoch is the one that the same client had when a Produce of the connection succeeded
        last, raised by its own requests since then. If that is not recorded, it is -1.
        """
        known = self._ids[name or ""]
        count = bisect_right(known, exchange.end, key=_given_at)
        if not count:
            return self._used_by(exchange, name)
        own = self._own[name or "", _client(exchange)]
        own_count = bisect_right(own, exchange.end, key=_given_at)
        of_connection = self._written[name or "", exchange.connection]
        written = bisect_right(of_connection, exchange.time, key=_end)
        first = bisect_right(own, of_connection[written - 1].end, key=_given_at) if written else 0
        if not first and sum(each.former < 0 for each in own[:own_count]) > 1:
            own_count = 0  # several producers of one client id: the request may be of any
        if not own_count:
            used, newest = self._used_by(exchange, name), known[count - 1].producer_id
            return used if used.producer_id == newest else Holder(newest, -1, name)
        held = own[max(first - 1, 0)]
        for each in own[max(first, 1) : own_count]:
            if each.former == held.epoch:
                held = each
        return Holder(held.producer_id, held.epoch, name)

    def _used_by(self, exchange: Exchange, name: str | None) -> Holder:
        """The producer that earlier requests of a transactional id name.

        The epoch is that of the client's own requests if all of them have the same.
        """
        own = list(islice(self._used[name or "", _client(exchange)].items(), 2))
        before = [holder for holder, first in own if first.end <= exchange.end]
        if len(before) == 1:
            return before[0]
        ids = {
            producer_id
            for producer_id, known in self.names.items()
            if known == name and self._first[producer_id].end <= exchange.end
        }
        return Holder(ids.pop() if len(ids) == 1 else NO_PRODUCER, -1, name)

    def owner(self, abort: Abort) -> Exchange | None:
        """A request of the client whose transaction was aborted; None if not recorded."""
        epoch = abort.began.epoch if abort.began is not None else -1
        found = [e.exchange for e in self.given[abort.producer_id] if e.epoch == epoch]
        found += [
            each
            for (name, _), used in self._used.items()
            for holder, each in (used.items() if name == abort.name else ())
            if holder[:2] == (abort.producer_id, epoch) and not is_brokers_own(each)
        ]
        return found[0] if found else None

    def newer(self, holder: Holder, exchange: Exchange) -> list[Given]:
        """The epochs above a refused producer's that were given before its refusal."""
        found = [
            each
            for each in self.given[holder.producer_id]
            if each.epoch > holder.epoch and each.exchange.end <= exchange.end
        ]
        if holder.epoch < 0:
            found = [each for each in found if not _is_same(each.exchange, exchange)]
        timed_out = self.timed_out(holder, exchange)
        if timed_out is None:
            return found
        return [  # the client's own recovery after the time-out did not cause it
            each
            for each in found
            if each.exchange.time < timed_out.marker.time or not _is_same(each.exchange, exchange)
        ]

    def timed_out(self, holder: Holder, exchange: Exchange) -> Abort | None:
        """The time-out of a transaction of this epoch before a request; None if there is none."""
        return next(
            (
                each
                for each in self.aborts[holder.producer_id]
                if each.is_timeout
                and each.began is not None
                and each.began.epoch == holder.epoch < each.epoch
                and each.marker.time <= exchange.end
            ),
            None,
        )

    def overdue(self, holder: Holder, exchange: Exchange) -> tuple[int, int] | None:
        """How long the transaction was open at a request, and its limit, in ms; None if within."""
        begun = self._open(self._requests[holder.producer_id], exchange.time)
        timeout_ms = self._timeout_of(self.names.get(holder.producer_id), exchange.time)
        if begun is None or begun.epoch != holder.epoch or timeout_ms is None:
            return None
        open_ms = exchange.time - begun.exchange.time
        return (open_ms, timeout_ms) if open_ms > timeout_ms else None

    def _take(self, exchange: Exchange, body: Any) -> None:
        answer: Any = exchange.response or {}
        code = answer.get("errorCode", Error.NONE)
        is_init = exchange.api == "INIT_PRODUCER_ID"
        name = body.get("transactionalId")
        if is_init and name and body.get("transactionTimeoutMs") is not None:
            self._timeouts[name].append((exchange.time, body["transactionTimeoutMs"]))
        if (is_init or exchange.api == "END_TXN") and not code:
            self._give(exchange, body, answer)
        for holder in self._holders(exchange, body):
            if holder.name:
                self.names[holder.producer_id] = holder.name
                self._first.setdefault(holder.producer_id, exchange)
                if holder.epoch >= 0 and not bodies.errors(exchange.response):
                    self._used[holder.name, _client(exchange)].setdefault(holder, exchange)
            self._note(self._requests[holder.producer_id], exchange, body, holder)

    def _note(self, requests: _Requests, exchange: Exchange, body: Any, holder: Holder) -> None:
        """Note whether a request began or ended a transaction, or asked for its abort."""
        code = (exchange.response or {}).get("errorCode", Error.NONE)
        is_init, name = exchange.api == "INIT_PRODUCER_ID", body.get("transactionalId")
        if exchange.api == "END_TXN" and not code:
            requests.ended.append(exchange)
            if not body.get("committed"):
                requests.aborting.append(exchange)
        elif is_init and code in (Error.NONE, Error.CONCURRENT_TRANSACTIONS):
            requests.aborting.append(exchange)
            if not code:
                requests.ended.append(exchange)
        elif not is_init and exchange.api in APIS and _is_taken(exchange, body, holder):
            if _is_first(requests, holder.epoch):
                requests.begun.append(Begun(exchange, holder.epoch))
            if exchange.api == "PRODUCE" and name:
                self._written[name, exchange.connection].append(exchange)

    def _give(self, exchange: Exchange, body: Any, answer: Any) -> None:
        producer_id, epoch = answer.get("producerId", NO_PRODUCER), answer.get("producerEpoch", -1)
        name = body.get("transactionalId")
        if producer_id != NO_PRODUCER and epoch >= 0:
            former = body.get("producerEpoch", -1)
            made = Given(producer_id, epoch, name, exchange, former)
            self.given[producer_id].append(made)
            if name:
                self.names[producer_id] = name
                self._first.setdefault(producer_id, exchange)
                self._ids[name].append(made)
                self._ids_of[name].add(producer_id)
                self._own[name, _client(exchange)].append(made)

    def _holders(self, exchange: Exchange, body: Any) -> Iterator[Holder]:
        """The producers of a request, by transactional id if it has nothing else."""
        if exchange.api == MARKERS:
            return
        found = bodies.holders(exchange.api, body)
        name = body.get("transactionalId")
        if exchange.api == "PRODUCE" and not found and name:
            found = [self.holder(exchange, name)]
        if exchange.api == "INIT_PRODUCER_ID" and name:
            found = [Holder(producer_id, -1, name) for producer_id in self._ids_of[name]]
        yield from (each for each in found if each.producer_id != NO_PRODUCER)

    def _take_markers(self, exchange: Exchange, body: Any) -> None:
        for marker in body.get("markers") or ():
            producer_id, epoch = marker["producerId"], marker["producerEpoch"]
            known = self.aborts[producer_id]
            if not marker["transactionResult"] and epoch not in {each.epoch for each in known}:
                known.append(self._abort(producer_id, epoch, exchange))
            insort(self._requests[producer_id].ended, exchange, key=_end)

    def _abort(self, producer_id: int, epoch: int, marker: Exchange) -> Abort:
        requests, name = self._requests[producer_id], self.names.get(producer_id)
        sender = MARKER_SENDER.fullmatch(marker.header.client_id or "")
        coordinator = int(sender[1]) if sender is not None else None
        began = self._open(requests, marker.time)
        since = began.exchange.time if began is not None else 0
        count = bisect_right(requests.aborting, marker.end, key=_time)
        last = requests.aborting[count - 1] if count else None
        asked = last if last is not None and last.time >= since else None
        asked = marker if coordinator is None else asked
        timeout_ms = self._timeout_of(name, since) if began is not None else None
        is_timeout = (
            coordinator is not None
            and asked is None
            and began is not None
            and self._is_covered(coordinator, since, marker.end + GRACE_MS)
            and marker.time - since >= (timeout_ms or 0)
        )
        return Abort(
            producer_id, epoch, name, marker, coordinator, began, timeout_ms, asked, is_timeout
        )

    def _open(self, requests: _Requests, time: int) -> Begun | None:
        """What began the transaction that is open at a time."""
        count = bisect_right(requests.ended, time, key=_end)
        since = requests.ended[count - 1].end if count else 0
        at = bisect_left(requests.begun, since, key=lambda each: each.exchange.time)
        begun = requests.begun[at] if at < len(requests.begun) else None
        return begun if begun is not None and begun.exchange.time <= time else None

    def _timeout_of(self, name: str | None, time: int) -> int | None:
        before = [timeout for at, timeout in self._timeouts[name or ""] if at <= time]
        return before[-1] if before else None

    def _is_covered(self, broker: int, first: int, last: int) -> bool:
        begin, end = self._spans.get(broker, (last, first))
        return begin <= first and last <= end


def epochs_of(exchanges: Sequence[Exchange]) -> Epochs:
    """The epochs of a recording."""
    return Epochs(exchanges, in_order(exchanges, APIS | {MARKERS}))


def _client(exchange: Exchange) -> Client:
    return exchange.header.client_id, exchange.host


def _is_same(one: Exchange, other: Exchange) -> bool:
    return _client(one) == _client(other)


def _given_at(given: Given) -> int:
    return given.exchange.end


def _end(exchange: Exchange) -> int:
    return exchange.end


def _time(exchange: Exchange) -> int:
    return exchange.time


def _is_first(requests: _Requests, epoch: int) -> bool:
    """Whether no transaction of an epoch is open yet."""
    if not requests.begun or requests.begun[-1].epoch != epoch:
        return True
    return bool(requests.ended) and requests.ended[-1].end >= requests.begun[-1].exchange.end


def _is_taken(exchange: Exchange, body: Any, holder: Holder) -> bool:
    """Whether a broker has taken something into a transaction of a producer."""
    checked = {
        each.get("transactionalId")
        for each in body.get("transactions") or ()
        if each.get("verifyOnly")
    }
    return not bodies.errors(exchange.response) and holder.name not in checked
