"""Epochs of a producer, its transactions, and the aborts that markers show."""

from bisect import bisect_right, insort
from collections.abc import Iterator
from typing import Any, ClassVar

import msgspec
from msgspec import field

from brokertwin.protocol.errors import Error
from brokertwin.recordings.history import bodies
from brokertwin.recordings.history.bodies import MARKERS, NO_PRODUCER, PRODUCER_APIS, Holder
from brokertwin.recordings.history.entity import ObservedEntity
from brokertwin.recordings.history.exchange import KnownFacts, RecordedExchange, RecordedRequest
from brokertwin.recordings.history.findings import (
    EpochGiven,
    EpochWentBack,
    Finding,
    ProducerKey,
    Severity,
)
from brokertwin.recordings.history.markers import (
    GRACE_MS,
    Mark,
    ObservedAbort,
    StartedTransaction,
    TransactionRequests,
    coordinator_of,
    is_taken,
)
from brokertwin.recordings.history.transactions import EndedTransaction, OpenTransaction

CLOCKS_MS = 50
"""By how much the clocks of two brokers may differ: the coordinator's and the leader's."""

IDS_MAX = 20
"""Maximum number of producer ids of a transactional id that are kept."""

LINES_MAX = 200
"""Maximum number of epochs, aborts, users and time-outs of a producer that are kept."""


class GivenEpoch(msgspec.Struct, frozen=True):
    """An epoch that a response gave to a client.

    `former` is the epoch in the request; -1 for a new producer.
    """

    producer_id: int
    epoch: int
    line: RecordedRequest
    former: int = -1

    @property
    def is_init(self) -> bool:
        """Whether an InitProducerId gave it."""
        return self.line.api == "INIT_PRODUCER_ID"


class ProducerUse(msgspec.Struct, frozen=True):
    """The first successful request of a client with a producer id and an epoch."""

    producer_id: int
    epoch: int
    line: RecordedRequest


class ProducerEpochs(ObservedEntity, kw_only=True):
    """A transactional id with all its producer ids, or a producer id without transactional id.

    Attributes:
        name: the transactional id; "" if it has none.
        id: the producer id of one without transactional id; -1 if requests do not show it.
        given: epochs that responses gave, in the order of the responses.
        uses: first requests of clients with each epoch.
        first: producer id to the first request that shows it.
        timeouts: when which transaction.timeout.ms was requested.
        requests: producer id to its requests that began, ended or aborted transactions.
        aborts: aborted transactions, in their order.
        written: connection to when its last Produces succeeded.
        busy: connection to arrival and response of its last requests that took long; those behind
            them may have been sent at any time between the two.
        fencing: InitProducerIds that had to wait for the abort of an open transaction.
        markers: WriteTxnMarkers whose aborts are not noted yet.
        transaction: the transaction that is open; None if none is known to be.
        transactions: number of transactions so far.
        ended: the end of the last one.
        fenced: producer id and epoch of the last request that was refused for its epoch.
        has_forgotten: whether a use was dropped because there were too many.
    """

    LOOKAHEAD_MS: ClassVar[int] = GRACE_MS

    name: str
    id: int = NO_PRODUCER
    given: list[GivenEpoch] = field(default_factory=list)
    uses: list[ProducerUse] = field(default_factory=list)
    first: dict[int, RecordedRequest] = field(default_factory=dict)
    timeouts: list[tuple[int, int]] = field(default_factory=list)
    requests: dict[int, TransactionRequests] = field(default_factory=dict)
    aborts: list[ObservedAbort] = field(default_factory=list)
    written: dict[str, list[int]] = field(default_factory=dict)
    busy: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    fencing: list[RecordedRequest] = field(default_factory=list)
    markers: list[RecordedExchange] = field(default_factory=list)
    transaction: OpenTransaction | None = None
    transactions: int = 0
    ended: EndedTransaction | None = None
    fenced: tuple[int, int] | None = None
    has_forgotten: bool = False

    def take(self, exchange: RecordedExchange, known: KnownFacts) -> Iterator[Finding]:
        line, body = exchange.line, exchange.request
        if line.api == MARKERS:
            self.markers.append(exchange)
            return
        is_init = line.api == "INIT_PRODUCER_ID"
        if is_init and body.get("transactionalId") and body.get("transactionTimeoutMs") is not None:
            self.timeouts.append((line.time, body["transactionTimeoutMs"]))
        if is_init and exchange.code == Error.CONCURRENT_TRANSACTIONS:
            self.fencing.append(line)
        if (is_init or line.api == "END_TXN") and not exchange.code:
            yield from self._give(exchange, known)
        elif line.end - line.time > CLOCKS_MS:
            self._note_busy(line)
        for holder in self._holders(exchange, known):
            if holder.name:
                self.first.setdefault(holder.producer_id, line)
                if holder.epoch >= 0 and not bodies.errors(exchange.response):
                    self._use(holder, line)
            self._note(exchange, holder)
        self._bound()

    def _give(self, exchange: RecordedExchange, known: KnownFacts) -> Iterator[Finding]:
        """Note the epoch of a response; an epoch never goes back."""
        line, response = exchange.line, exchange.response
        producer_id, epoch = (
            response.get("producerId", NO_PRODUCER),
            response.get("producerEpoch", -1),
        )
        if producer_id == NO_PRODUCER or epoch < 0:
            return
        new = GivenEpoch(producer_id, epoch, line, exchange.request.get("producerEpoch", -1))
        before = [each for each in self.given if each.producer_id == producer_id]
        higher = [e for e in before if e.epoch > epoch and known.is_before(e.line, line)]
        if higher:
            yield EpochWentBack(
                line=line,
                severity=Severity.ERROR,
                producer=ProducerKey(producer_id=producer_id),
                epoch=epoch,
                former=higher[0].epoch,
                former_line=higher[0].line,
            )
        is_bump = bool(before) and before[-1].epoch < epoch
        yield EpochGiven(
            line=line,
            producer=ProducerKey.of(self.name, producer_id),
            producer_id=producer_id,
            epoch=epoch,
            former=before[-1].epoch if is_bump else -1,
        )
        insort(self.given, new, key=lambda each: each.line.end)
        if self.name:
            self.first.setdefault(producer_id, line)

    def _holders(self, exchange: RecordedExchange, known: KnownFacts) -> Iterator[Holder]:
        """The producers of a request, by transactional id if it has nothing else."""
        line, body = exchange.line, exchange.request
        holders = bodies.holders(line.api, body)
        name = body.get("transactionalId")
        if line.api == "PRODUCE" and not holders and name:
            holders = [self.holder(line)]
        if line.api == "INIT_PRODUCER_ID" and name:
            holders = [
                Holder(i, -1, name) for i in dict.fromkeys(e.producer_id for e in self.given)
            ]
        yield from (e for e in holders if e.producer_id != NO_PRODUCER and self.is_own(e, known))

    def is_own(self, holder: Holder, known: KnownFacts) -> bool:
        """Return whether a request's producer is this one."""
        if self.name:
            return self.name in (holder.name, known.producers.get(holder.producer_id))
        return not holder.name and holder.producer_id == self.id

    def _use(self, holder: Holder, line: RecordedRequest) -> None:
        producer_id, epoch, _ = holder
        for each in reversed(self.uses):
            is_same = each.producer_id == producer_id and each.epoch == epoch
            if is_same and each.line.process == line.process:
                return
        self.uses.append(ProducerUse(holder.producer_id, holder.epoch, line))

    def _note(self, exchange: RecordedExchange, holder: Holder) -> None:
        """Note whether a request began or ended a transaction, or requested its abort."""
        requests = self.requests.setdefault(holder.producer_id, TransactionRequests())
        line, body, code = exchange.line, exchange.request, exchange.code
        is_init, name = line.api == "INIT_PRODUCER_ID", body.get("transactionalId")
        if line.api == "END_TXN" and not code:
            requests.ended.append(line)
            if not body.get("committed"):
                insort(requests.aborting, line, key=lambda each: each.time)
        elif is_init and code in (Error.NONE, Error.CONCURRENT_TRANSACTIONS):
            insort(requests.aborting, line, key=lambda each: each.time)
            if not code:
                requests.ended.append(line)
        elif not is_init and line.api in PRODUCER_APIS and is_taken(exchange, holder):
            if requests.is_first(holder.epoch):
                requests.begun.append(StartedTransaction(line, holder.epoch))
            if line.api == "PRODUCE" and name:
                self.written.setdefault(line.connection, []).append(line.end)

    def _note_busy(self, line: RecordedRequest) -> None:
        """Note that a connection was busy; a request right behind another prolongs the time."""
        spans = self.busy.setdefault(line.connection, [])
        begin = line.time
        while spans and begin <= spans[-1][1] + CLOCKS_MS:
            begin = min(spans.pop()[0], begin)
        spans.append((begin, line.end))

    def _bound(self) -> None:
        self.has_forgotten = self.has_forgotten or len(self.uses) > LINES_MAX
        for kept in (self.given, self.uses, self.timeouts, self.aborts, self.fencing):
            if len(kept) > LINES_MAX:
                del kept[:-LINES_MAX]
        for by_key in (self.first, self.requests):
            while len(by_key) > IDS_MAX:
                del by_key[next(iter(by_key))]
        by_connection: tuple[dict[str, list[Any]], ...] = (self.written, self.busy)
        for of_connection in by_connection:
            while len(of_connection) > LINES_MAX:
                del of_connection[next(iter(of_connection))]
            for times in of_connection.values():
                del times[:-IDS_MAX]
        for requests in self.requests.values():
            requests.bound(LINES_MAX)

    def holder(self, line: RecordedRequest) -> Holder:
        """The producer of a request that has a transactional id and no batch headers.

        Its epoch is the one that the same client had when a Produce of the connection succeeded
        last, raised by its own requests between then and when it was sent; -1 if that is unknown.
        """
        count = bisect_right(self.given, line.end, key=lambda each: each.line.end)
        if not count:
            return self._used_by(line)
        of_connection = self.written.get(line.connection, [])
        written = bisect_right(of_connection, line.time)
        last = of_connection[written - 1] if written else -1
        own: list[GivenEpoch] = []  # those since the last one before that Produce, newest first
        client, host = line.process
        for number in range(count - 1, -1, -1):
            each = self.given[number]
            if each.line.client == client and each.line.host == host:
                own.append(each)
                if each.line.end <= last:
                    break
        is_shown = bool(own) and own[-1].line.end <= last
        if not is_shown and sum(each.former < 0 for each in own) > 1:
            own = []  # several producers of one client id: the request may be of any
        newest = self.given[count - 1].producer_id
        if not own:
            used = self._used_by(line)
            return used if used.producer_id == newest else Holder(newest, -1, self.name)
        held = own.pop()
        if not is_shown and not self._is_sent_after(line, held.line):
            return Holder(held.producer_id, -1, self.name)  # the request came before that epoch
        for each in reversed(own):
            is_after = self._is_sent_after(line, each.line) if each.former == held.epoch else False
            if is_after is None:
                return Holder(held.producer_id, -1, self.name)
            held = each if is_after else held
        return Holder(held.producer_id, held.epoch, self.name)

    def _is_sent_after(self, line: RecordedRequest, former: RecordedRequest) -> bool | None:
        """Return whether a client sent a request after another one arrived; None if unknown.

        A broker reads the next request of a connection when it has responded. A client that no
        longer waits for the response goes on over another connection.
        """
        if former.time >= line.time:
            return False if former.broker == line.broker else None  # clocks may differ
        is_unknown = any(
            begin <= former.time < end and begin < line.time <= end + CLOCKS_MS
            for begin, end in self.busy.get(line.connection, ())
        )
        return None if is_unknown else True

    def _used_by(self, line: RecordedRequest) -> Holder:
        """The producer that earlier requests of a transactional id name.

        The epoch is that of the client's own requests if all of them have the same.
        """
        process, end = line.process, line.end
        own = [e for e in self.uses if e.line.end <= end and e.line.process == process]
        is_one = len(own) == 1 and not self.has_forgotten
        if is_one and self._is_sent_after(line, own[0].line):
            return Holder(own[0].producer_id, own[0].epoch, self.name)
        ids = [number for number, first in self.first.items() if first.end <= line.end]
        return Holder(ids[0] if len(ids) == 1 else NO_PRODUCER, -1, self.name)

    def _resolve(self, exchange: RecordedExchange, known: KnownFacts) -> None:
        """Note the aborts of a WriteTxnMarkers."""
        line = exchange.line
        self.markers.remove(exchange)
        for marker in exchange.request.get("markers") or ():
            producer_id, epoch = marker["producerId"], marker["producerEpoch"]
            if not self.is_own(Holder(producer_id, epoch, None), known):
                continue
            requests = self.requests.setdefault(producer_id, TransactionRequests())
            is_known = any((e.producer_id, e.epoch) == (producer_id, epoch) for e in self.aborts)
            if not marker["transactionResult"] and not is_known:
                self.aborts.append(self._abort(producer_id, epoch, line, known))
            requests.mark(Mark(line, epoch))
        self._bound()

    def marked(self, producer_id: int, epoch: int) -> list[RecordedRequest]:
        """The markers of a transaction, also those after the request that is judged."""
        requests = self.requests.get(producer_id, TransactionRequests())
        of = producer_id, epoch
        return [each.line for each in requests.marked if each.epoch == epoch] + [
            each.line
            for each in self.markers
            for marker in each.request.get("markers") or ()
            if (marker["producerId"], marker["producerEpoch"]) == of
        ]

    def _abort(
        self, producer_id: int, epoch: int, marker: RecordedRequest, known: KnownFacts
    ) -> ObservedAbort:
        requests, coordinator = self.requests[producer_id], coordinator_of(marker)
        began = requests.open_at(marker.time)
        former_end = requests.marked_until(marker.time, epoch) - CLOCKS_MS
        since = began.line.time if began is not None else former_end
        last = requests.last_aborting(marker.end + CLOCKS_MS)
        used = {each.requested for each in self.aborts if each.producer_id == producer_id}
        is_new = last is not None and last.time >= since and last not in used
        requested = marker if coordinator is None else last if is_new else None
        timeout_ms = self._timeout_at(since) if began is not None else None
        former = next((e.line.broker for e in reversed(self.given) if e.line.end <= since), None)
        is_timeout = (
            coordinator is not None
            and former in (None, coordinator)  # another one may have taken an EndTxn
            and requested is None
            and began is not None
            and known.is_covered(coordinator, since, marker.end + GRACE_MS)
            and timeout_ms is not None
            and marker.time - since >= timeout_ms
        )
        return ObservedAbort(
            producer_id, epoch, marker, coordinator, began, timeout_ms, requested, is_timeout
        )

    def _timeout_at(self, time: int) -> int | None:
        before = [timeout for at, timeout in self.timeouts if at <= time]
        return before[-1] if before else None

    def _owner(self, abort: ObservedAbort) -> RecordedRequest | None:
        """A request of the client whose transaction was aborted; None if not recorded."""
        epoch = abort.began.epoch if abort.began is not None else -1
        wanted = abort.producer_id, epoch
        lines = [e.line for e in self.given if (e.producer_id, e.epoch) == wanted]
        uses = [e.line for e in self.uses if (e.producer_id, e.epoch) == wanted]
        return next((each for each in (*lines, *uses) if not each.is_own), None)

    def newer(self, holder: Holder, line: RecordedRequest) -> list[GivenEpoch]:
        """The epochs above a refused producer's that were given before its refusal."""
        epochs = [
            each
            for each in self.given
            if each.producer_id == holder.producer_id
            and each.epoch > holder.epoch
            and each.line.end <= line.end
        ]
        if holder.epoch < 0:
            epochs = [each for each in epochs if each.line.process != line.process]
        timed_out = self.timed_out(holder, line)
        if timed_out is None:
            return epochs
        return [  # the client's own recovery after the time-out did not cause it
            each
            for each in epochs
            if each.line.time < timed_out.marker.time or each.line.process != line.process
        ]

    def timed_out(self, holder: Holder, line: RecordedRequest) -> ObservedAbort | None:
        """The time-out of a transaction of this epoch before a request; None if there is none."""
        return next(
            (
                each
                for each in self.aborts
                if each.producer_id == holder.producer_id
                and each.is_timeout
                and each.began is not None
                and each.began.epoch == holder.epoch < each.epoch
                and each.marker.time <= line.end
            ),
            None,
        )

    def overdue(self, holder: Holder, line: RecordedRequest) -> tuple[int, int] | None:
        """How long the transaction was open at a request, and its limit, in ms; None if within."""
        requests = self.requests.get(holder.producer_id, TransactionRequests())
        begun, timeout_ms = requests.open_at(line.time), self._timeout_at(line.time)
        if begun is None or begun.epoch != holder.epoch or timeout_ms is None:
            return None
        open_ms = line.time - begun.line.time
        return (open_ms, timeout_ms) if open_ms > timeout_ms else None

    def _client_of(self, holder: Holder, line: RecordedRequest) -> str:
        """The client for which a broker sent a request; "" if not recorded."""
        given = [
            each
            for each in self.given
            if each.producer_id == holder.producer_id and each.epoch <= holder.epoch
        ]
        return given[-1].line.name if given else ""

    def given_before(self, producer_id: int, line: RecordedRequest) -> GivenEpoch | None:
        """The last epoch of a producer id that was given before the response to a request."""
        found = [
            each
            for each in self.given
            if each.producer_id == producer_id and each.line.order < line.order
        ]
        return found[-1] if found else None
