"""Producers: epochs and their owners, refusals, and transactions that the coordinator aborted.

A coordinator that aborts a transaction raises the epoch and sends WriteTxnMarkers. Three things
make it abort: an EndTxn, an InitProducerId, and `transaction.timeout.ms`. A time-out leaves no
request. So it is concluded only if the log of the coordinator covers the transaction and the two
seconds after its abort, because an EndTxn or an InitProducerId would then be recorded.

Source: TransactionCoordinator.endTransaction, abortTimedOutTransactions, KIP-890.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from brokertwin.protocol.errors import Error, error_name
from brokertwin.recordings.history import bodies
from brokertwin.recordings.history.bodies import MARKERS, NO_PRODUCER, PRODUCER_APIS, Holder
from brokertwin.recordings.history.entity import EntityKey, EntityKind
from brokertwin.recordings.history.exchange import KnownFacts, RecordedExchange, RecordedRequest
from brokertwin.recordings.history.finding import EntityFinding, Severity
from brokertwin.recordings.history.markers import BUMPING_VERSION
from brokertwin.recordings.history.producer_epochs import ProducerEpochs
from brokertwin.recordings.history.transactions import OpenTransaction, taken_in
from brokertwin.recordings.history.words import sentence
from brokertwin.recordings.rules import Rule

FENCING = (Error.INVALID_PRODUCER_EPOCH, Error.PRODUCER_FENCED)
LATE = (*FENCING, Error.INVALID_TXN_STATE)

TIMED_OUT = Rule(
    "The coordinator aborts a transaction that is open for longer than transaction.timeout.ms,"
    " and raises the epoch of its producer.",
    "KIP-98, KIP-890; TransactionCoordinator.abortTimedOutTransactions",
    "Nothing of the transaction was committed. Commit more often, or raise transaction.timeout.ms"
    " (at most transaction.max.timeout.ms). Look for pauses between its first and last request."
    " With transaction.version 2 a late commit gets 48 INVALID_TXN_STATE (KAFKA-20785): close the"
    " producer and make a new one.",
)


class ObservedProducer(ProducerEpochs, kw_only=True):
    """A producer with the judgement of its refusals."""

    def judge(self, exchange: RecordedExchange, known: KnownFacts) -> Iterator[EntityFinding]:
        """Report refusals and aborts of an exchange, and its part in a transaction."""
        line = exchange.line
        for each in [each for each in self.markers if each.line.time <= line.end]:
            self._resolve(each, known)
        if line.api == MARKERS:
            yield from self._aborted(line)
        else:
            holders = self.holders_of(exchange, known)
            if line.is_own and len(holders) == 1:
                yield self._sent_for_client(holders[0], line)
            for holder in holders:
                yield from self._refused(exchange, holder)
        if self.name:
            yield from self._follow(exchange, known)

    def holders_of(self, exchange: RecordedExchange, known: KnownFacts) -> list[Holder]:
        """The producers of a request; epoch -1 if the recording does not show it."""
        line, body = exchange.line, exchange.request
        found = bodies.holders(line.api, body)
        if line.api == "PRODUCE" and not found:
            return [self.holder(line) if self.name else Holder(NO_PRODUCER, -1, None)]
        return [each for each in found if self.is_own(each, known)]

    def _aborted(self, marker: RecordedRequest) -> Iterator[EntityFinding]:
        """Report aborts of the coordinator that no request made."""
        for abort in self.aborts:
            if abort.marker == marker and abort.requested is None:
                owner = self._owner(abort)
                yield EntityFinding(
                    kind="transaction-timed-out" if abort.is_timeout else "transaction-aborted",
                    severity=Severity.WARNING if abort.is_timeout else Severity.NOTE,
                    subject=f"producer {self.name or abort.producer_id}",
                    line=marker,
                    part=str(abort.producer_id),
                    said=abort.words,
                    rule=TIMED_OUT,
                    facts={"client": owner.name if owner is not None else "", "counts": True},
                )

    def _refused(self, exchange: RecordedExchange, holder: Holder) -> Iterator[EntityFinding]:
        """Report a refusal for the epoch of a producer, or for a transaction that has ended."""
        line = exchange.line
        codes = [each for each in _codes_of(exchange, holder) if each in LATE]
        if not codes:
            return
        fencing = [each for each in codes if each in FENCING]
        cause = self._because(holder, exchange)
        subject = holder.name or ("?" if holder.producer_id == NO_PRODUCER else holder.producer_id)
        facts = {"client": self._client_of(holder, line)} if line.is_own else {}
        if fencing:
            yield self._fenced(holder, line, f"producer {subject}", fencing[0], cause, facts)
        elif _is_commit(exchange):
            yield EntityFinding(
                kind="commit-too-late",
                severity=Severity.NOTE,
                subject=f"producer {subject}",
                line=line,
                cause=cause,
                code=Error.INVALID_TXN_STATE,
            )
        is_marked = self.timed_out(holder, line) is not None
        overdue = self.overdue(holder, line) if _is_bumping_commit(exchange) else None
        if is_marked or overdue is not None:
            code = bodies.errors(exchange.response)[0]
            said = f"{line.api} comes after it: {code} {error_name(code)}"
            if overdue is not None and not is_marked:  # no marker: the refusal shows the abort
                said = (
                    f"commit refused with {code} {error_name(code)} after {overdue[0]} ms;"
                    f" transaction.timeout.ms is {overdue[1]} ms"
                )
            yield EntityFinding(
                kind="transaction-timed-out",
                severity=Severity.WARNING,
                subject=f"producer {subject}",
                line=line,
                part=str(holder.producer_id),
                said=said,
                rule=TIMED_OUT,
                facts={**facts, "counts": not is_marked},
            )

    def _fenced(
        self,
        holder: Holder,
        line: RecordedRequest,
        subject: str,
        code: int,
        cause: str,
        facts: dict[str, Any],
    ) -> EntityFinding:
        newer, timed_out = self.newer(holder, line), self.timed_out(holder, line)
        said = f"has epoch {holder.epoch}" if holder.epoch >= 0 else "its epoch is not recorded"
        if timed_out is not None:
            said += f"; {timed_out.words}"
            facts = {**facts, "abort": timed_out.words}
        elif newer:
            said += f"; {newer[-1].epoch} since {newer[-1].line.words}"
        facts = {**facts, "epoch": holder.epoch, "unexplained": self._unexplained(holder, line)}
        return EntityFinding(
            kind="producer-fenced",
            severity=Severity.WARNING,
            subject=subject,
            line=line,
            part=f"{holder.producer_id} {holder.epoch}",
            said=said,
            cause=cause,
            by=tuple(each.line.name for each in newer),
            code=code,
            facts=facts,
        )

    def _sent_for_client(self, holder: Holder, line: RecordedRequest) -> EntityFinding:
        """The client for which a broker sent a request."""
        return EntityFinding(
            kind="sent-for-client",
            severity=Severity.NOTE,
            subject=f"producer {holder.name or holder.producer_id}",
            line=line,
            facts={"client": self._client_of(holder, line)},
        )

    def _because(self, holder: Holder, exchange: RecordedExchange) -> str:
        """The cause of a refusal for an epoch, or for a transaction that has ended."""
        line = exchange.line
        timed_out = self.timed_out(holder, line)
        if timed_out is not None:
            return sentence(timed_out.words)
        client = f"client {line.name}"
        given = self.given_before(holder.producer_id, line)
        if given is not None and given.epoch > holder.epoch and not _is_commit_too_late(exchange):
            has = f"{client} has {holder.epoch}"
            has = has if holder.epoch >= 0 else f"{client} has another one"
            return f"{given.line.words} bumped the epoch to {given.epoch}; {has}."
        if given is not None and given.epoch < holder.epoch:
            return (
                f"{client} has epoch {holder.epoch}, which no response gave: the last one is"
                f" {given.epoch}, by {given.line.words}."
            )
        inits = [each.line.end for each in self.given if each.is_init]
        since = max((end for end in inits if end <= line.end), default=0)
        fencing = [each for each in self.fencing if since <= each.end <= line.end]
        if fencing:
            return (
                f"{fencing[0].words} has fenced it. That request gets"
                " 51 CONCURRENT_TRANSACTIONS until the open transaction is aborted."
            )
        return self._unexplained(holder, line)

    def _unexplained(self, holder: Holder, line: RecordedRequest) -> str:
        """Explain a refusal if no response with a newer epoch is recorded."""
        overdue = self.overdue(holder, line)
        if overdue is not None:
            open_ms, timeout_ms = overdue
            return (
                f"The transaction had been open for {open_ms} ms, longer than"
                f" transaction.timeout.ms ({timeout_ms} ms): the coordinator has probably aborted"
                " it. The recording has no marker of that."
            )
        return (
            "The recording does not show the newer epoch. The transaction may have timed out"
            " (transaction.timeout.ms), or another producer may have got the epoch in a part that"
            " is not recorded."
        )

    def _follow(self, exchange: RecordedExchange, known: KnownFacts) -> Iterator[EntityFinding]:
        """Report what an exchange did to the open transaction."""
        line, body = exchange.line, exchange.request
        if line.api == MARKERS:
            aborts = [e for e in self.aborts if e.marker == line and e.requested is None]
            if aborts and self.transaction is not None:
                yield from self._end(line, "aborted", why=aborts[0].words)
        elif line.api == "INIT_PRODUCER_ID":
            if not bodies.errors(exchange.response):
                yield from self._end(line, "aborted", is_requested=False)
            elif exchange.code == Error.CONCURRENT_TRANSACTIONS and self.transaction is not None:
                said = f"transaction {self.transaction.number} is open: it has to be aborted first"
                yield self._noted(line, said)
        elif line.api == "END_TXN":
            if not bodies.errors(exchange.response):
                became = "committed" if body.get("committed") else "aborted"
                yield from self._end(line, became)
        else:
            places, groups = taken_in(exchange, self.name, known)
            if places or groups:
                yield from self._take_in(exchange, known, places, groups)

    def _take_in(
        self,
        exchange: RecordedExchange,
        known: KnownFacts,
        places: Iterable[tuple[str, int]],
        groups: Iterable[str],
    ) -> Iterator[EntityFinding]:
        line = exchange.line
        if self.transaction is None:
            own = next(iter(self.holders_of(exchange, known)), Holder(NO_PRODUCER, -1, self.name))
            own = own if own.producer_id != NO_PRODUCER else self.holder(line)
            self.transactions += 1
            self.transaction = OpenTransaction(self.transactions, own.producer_id, own.epoch, line)
            yield self._noted(line, f"transaction {self.transactions} begins")
        for said in self.transaction.take_in(places, groups):
            yield self._noted(line, said)

    def _end(
        self, line: RecordedRequest, became: str, is_requested: bool = True, why: str = ""
    ) -> Iterator[EntityFinding]:
        ended, self.transaction = self.transaction, None
        if ended is None:
            if is_requested:
                said = f"no transaction is open in the recording: {became} again, or empty"
                yield self._noted(line, said)
            return
        by = "" if is_requested else ", by whoever came next"
        said = f"transaction {ended.number} is {became} after {ended.lasted_ms(line)} ms{by}"
        facts = {"words": ended.words(line, became, why), "became": became}
        yield self._noted(line, said, {**facts, "places": ended.places, "groups": ended.groups})

    def _noted(
        self, line: RecordedRequest, said: str, facts: dict[str, Any] | None = None
    ) -> EntityFinding:
        return EntityFinding(
            kind="transaction",
            severity=Severity.NOTE,
            subject=f"producer {self.name}",
            line=line,
            part=said,
            said=said,
            facts=facts or {},
        )


def _codes_of(exchange: RecordedExchange, holder: Holder) -> list[int]:
    """The errors of a producer in a response."""
    line, body, response = exchange.line, exchange.request, exchange.response
    if line.api == "PRODUCE":
        batches = list(bodies.sent(body, response))
        if batches:
            own = (holder.producer_id, holder.epoch)
            return list(dict.fromkeys(e.error for e in batches if (e.producer_id, e.epoch) == own))
    if body.get("transactions"):
        results = response.get("resultsByTransaction") or ()
        own_results = [e for e in results if e.get("transactionalId") == holder.name]
        return list(dict.fromkeys(bodies.errors([response.get("errorCode"), own_results])))
    return list(dict.fromkeys(bodies.errors(response)))


def _is_commit(exchange: RecordedExchange) -> bool:
    return exchange.line.api == "END_TXN" and bool(exchange.request.get("committed"))


def _is_commit_too_late(exchange: RecordedExchange) -> bool:
    """Return whether a commit was refused, as one of an aborted transaction is."""
    return _is_commit(exchange) and exchange.code == Error.INVALID_TXN_STATE


def _is_bumping_commit(exchange: RecordedExchange) -> bool:
    """Return whether only an abort by the coordinator explains a commit's error (KAFKA-20785)."""
    return _is_commit_too_late(exchange) and exchange.line.version >= BUMPING_VERSION


def _producers_of(exchange: RecordedExchange, known: KnownFacts) -> Iterable[EntityKey]:
    line = exchange.line
    found = bodies.holders_of(line.api, exchange.request, exchange.response)
    if line.api == "PRODUCE" and not found and bodies.errors(exchange.response):
        found = [Holder(NO_PRODUCER, -1, None)]
    names: dict[EntityKey, None] = {}
    for holder in found:
        name = holder.name or known.producers.get(holder.producer_id)
        is_nameless = line.api == "INIT_PRODUCER_ID" and holder.producer_id == NO_PRODUCER
        if name:
            names[EntityKey("producer", name)] = None
        elif not is_nameless:
            names[EntityKey("producer-id", str(holder.producer_id))] = None
    yield from names


def _producer_of(key: EntityKey) -> ObservedProducer:
    if key.kind == "producer":
        return ObservedProducer(name=key.id)
    return ObservedProducer(name="", id=int(key.id))


PRODUCERS = EntityKind("producer", PRODUCER_APIS, _producers_of, _producer_of)
