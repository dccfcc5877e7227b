"""Producers: epochs and their owners, refusals, and transactions that the coordinator aborted.

A coordinator that aborts a transaction raises the epoch and sends WriteTxnMarkers. Three things
make it abort: an EndTxn, an InitProducerId, and `transaction.timeout.ms`. A time-out leaves no
request. So it is concluded only if the log of the coordinator covers the transaction and the two
seconds after its abort, because an EndTxn or an InitProducerId would then be recorded.

Source: TransactionCoordinator.endTransaction, abortTimedOutTransactions, KIP-890.
"""

from collections.abc import Iterator

import msgspec

from brokertwin.protocol.errors import Error
from brokertwin.recordings.history import bodies
from brokertwin.recordings.history.bodies import MARKERS, NO_PRODUCER, PRODUCER_APIS, Holder
from brokertwin.recordings.history.entity import EntityKey, EntityKind, Parts
from brokertwin.recordings.history.exchange import KnownFacts, RecordedExchange, RecordedRequest
from brokertwin.recordings.history.findings import (
    BeingFenced,
    Cause,
    Certainty,
    CommitTooLate,
    CoordinatorAborted,
    EpochBumped,
    EpochNeverGiven,
    Finding,
    ProducerFenced,
    ProducerIdReplaced,
    ProducerKey,
    ProducerReplaced,
    ProducerUnused,
    SentForClient,
    Severity,
    TransactionAborted,
    TransactionBegan,
    TransactionEnded,
    TransactionOverdue,
    TransactionTimedOut,
    TransactionTookIn,
    TransactionWaited,
)
from brokertwin.recordings.history.markers import BUMPING_VERSION, GRACE_MS, ObservedAbort
from brokertwin.recordings.history.producer_epochs import CLOCKS_MS, ProducerEpochs
from brokertwin.recordings.history.transactions import (
    EndedTransaction,
    OpenTransaction,
    taken_in,
)

FENCING = (Error.INVALID_PRODUCER_EPOCH, Error.PRODUCER_FENCED)
LATE = (*FENCING, Error.INVALID_TXN_STATE)
REPLACED = Error.INVALID_PRODUCER_ID_MAPPING

TAKING = PRODUCER_APIS - {MARKERS, "INIT_PRODUCER_ID", "END_TXN"}
"""The APIs whose requests take partitions and groups into a transaction."""

COORDINATED = ("ADD_PARTITIONS_TO_TXN", "ADD_OFFSETS_TO_TXN")
"""The APIs of which clients send requests to the coordinator of the transaction."""

UNUSED_MS = 86_400_000
"""A producer id that was unused for less is not taken for an expired one."""


class ObservedProducer(ProducerEpochs, kw_only=True):
    """A producer with the judgement of its refusals."""

    def judge(self, exchange: RecordedExchange, known: KnownFacts) -> Iterator[Finding]:
        """Report refusals and aborts of an exchange, and its part in a transaction."""
        line = exchange.line
        for each in [each for each in self.markers if each.line.time <= line.end]:
            self._resolve(each, known)
        if line.api == MARKERS:
            yield from self._aborted(line)
        else:
            holders = self.holders_of(exchange, known) if bodies.errors(exchange.response) else []
            if line.is_own and len(holders) == 1:
                yield self._sent_for_client(holders[0], line)
            for holder in holders:
                yield from self._refused(exchange, holder, known)
        if self.name:
            yield from self._follow(exchange, known)

    def holders_of(self, exchange: RecordedExchange, known: KnownFacts) -> list[Holder]:
        """The producers of a request; epoch -1 if the recording does not show it."""
        line, body = exchange.line, exchange.request
        holders = bodies.holders(line.api, body)
        if line.api == "PRODUCE" and not holders:
            own = self.holder(line) if self.name else Holder(NO_PRODUCER, -1, None)
            # the epoch of the client is a matter of order, which whole seconds do not show
            return [own._replace(epoch=-1) if known.is_coarse and len(self.given) > 1 else own]
        return [each for each in holders if self.is_own(each, known)]

    def _aborted(self, marker: RecordedRequest) -> Iterator[Finding]:
        """Report aborts of the coordinator that no request made."""
        for abort in self.aborts:
            if abort.marker == marker and abort.requested is None:
                owner = self._owner(abort)
                client = owner.name if owner is not None else ""
                producer = ProducerKey.of(self.name, abort.producer_id)
                if abort.is_timeout:
                    yield TransactionTimedOut(
                        line=marker,
                        severity=Severity.WARNING,
                        causes=(abort.cause,),
                        certainty=Certainty.DERIVED,
                        client=client,
                        producer=producer,
                        producer_id=abort.producer_id,
                    )
                else:
                    yield CoordinatorAborted(
                        line=marker,
                        causes=(abort.cause,),
                        certainty=Certainty.UNKNOWN,
                        client=client,
                        producer=producer,
                        producer_id=abort.producer_id,
                    )

    def _refused(
        self, exchange: RecordedExchange, holder: Holder, facts: KnownFacts
    ) -> Iterator[Finding]:
        """Report a refusal for the epoch of a producer, or for a transaction that has ended."""
        line, codes = exchange.line, _codes_of(exchange, holder)
        late = [each for each in codes if each in LATE]
        client = self._client_of(holder, line) if line.is_own else None
        producer = ProducerKey.of(holder.name, holder.producer_id)
        if REPLACED in codes:
            yield self._replaced(holder, line, producer, client)
        if not late:
            return
        fencing = [each for each in late if each in FENCING]
        causes = self._causes(holder, exchange, facts)
        if fencing:
            self.fenced = holder.producer_id, holder.epoch
            is_guess = any(isinstance(each, TransactionOverdue) for each in causes)
            known = Certainty.DERIVED if is_guess else Certainty.SEEN
            yield ProducerFenced(
                line=line,
                severity=Severity.WARNING,
                causes=causes,
                certainty=known if causes else Certainty.UNKNOWN,
                client=client,
                producer=producer,
                producer_id=holder.producer_id,
                epoch=holder.epoch,
                code=fencing[0],
                newer=tuple(
                    EpochBumped(own=holder.epoch, epoch=each.epoch, by=each.line)
                    for each in self.newer(holder, line)
                ),
            )
        elif _is_commit(exchange):
            known = Certainty.SEEN if causes else Certainty.UNKNOWN
            yield CommitTooLate(line=line, causes=causes, certainty=known, producer=producer)
        is_marked = self.timed_out(holder, line) is not None
        overdue = self.overdue(holder, line) if _is_bumping_commit(exchange) else None
        if is_marked or overdue is not None:
            why: tuple[Cause, ...] = ()
            if overdue is not None and not is_marked:  # no marker: the refusal shows the abort
                why = (TransactionOverdue(open_ms=overdue[0], timeout_ms=overdue[1]),)
            yield TransactionTimedOut(
                line=line,
                severity=Severity.WARNING,
                causes=why,
                certainty=Certainty.DERIVED,
                client=client,
                producer=producer,
                producer_id=holder.producer_id,
                code=bodies.errors(exchange.response)[0],
                counts=not is_marked,
            )

    def _replaced(
        self, holder: Holder, line: RecordedRequest, producer: ProducerKey, client: str | None
    ) -> Finding:
        """Report a producer id that its coordinator does not know for the transactional id."""
        causes: tuple[Cause, ...] = ()
        takers = [
            each
            for each in self.given
            if each.is_init and each.producer_id != holder.producer_id and each.line.end <= line.end
        ]
        own = [e for e in self.given if e.producer_id == holder.producer_id and e.is_init]
        takers = [e for e in takers if not own or own[-1].line.end <= e.line.end]
        requests = self.requests.get(holder.producer_id)
        last = requests.last if requests is not None else None
        if takers:
            by = takers[-1]
            causes = (ProducerIdReplaced(producer_id=by.producer_id, by=by.line),)
        elif last is not None and line.time - last.end >= UNUSED_MS:
            causes = (ProducerUnused(unused_ms=line.time - last.end, last=last),)
        known = Certainty.SEEN if takers else Certainty.DERIVED
        return ProducerReplaced(
            line=line,
            severity=Severity.WARNING,
            causes=causes,
            certainty=known if causes else Certainty.UNKNOWN,
            client=client,
            producer=producer,
            producer_id=holder.producer_id,
            epoch=holder.epoch,
        )

    def _sent_for_client(self, holder: Holder, line: RecordedRequest) -> Finding:
        """The client for which a broker sent a request that was refused."""
        producer = ProducerKey.of(holder.name, holder.producer_id)
        return SentForClient(line=line, client=self._client_of(holder, line), producer=producer)

    def _causes(
        self, holder: Holder, exchange: RecordedExchange, known: KnownFacts
    ) -> tuple[Cause, ...]:
        line = exchange.line
        timed_out = self.timed_out(holder, line)
        if timed_out is not None:
            return (timed_out.cause,)
        given = self.given_before(holder.producer_id, line)
        if given is not None and given.epoch > holder.epoch and not _is_commit_too_late(exchange):
            return (EpochBumped(own=holder.epoch, epoch=given.epoch, by=given.line),)
        own = holder.producer_id, holder.epoch
        is_given = any((each.producer_id, each.epoch) == own for each in self.given)
        is_lower = given is not None and given.epoch < holder.epoch and not is_given
        if given is not None and is_lower and known.is_covered_by_all(given.line.time, line.end):
            return (EpochNeverGiven(own=holder.epoch, epoch=given.epoch, by=given.line),)
        inits = [each.line.end for each in self.given if each.is_init]
        since = max((end for end in inits if end <= line.end), default=0)
        fencing = [each for each in self.fencing if since <= each.end <= line.end]
        if fencing:  # the first ones may have come while the transaction began, which refuses them
            is_one = len({each.process for each in fencing}) == 1
            return (BeingFenced(by=fencing[-1]),) if is_one else ()
        overdue = self.overdue(holder, line)
        if overdue is not None:
            return (TransactionOverdue(open_ms=overdue[0], timeout_ms=overdue[1]),)
        return ()

    def _follow(self, exchange: RecordedExchange, known: KnownFacts) -> Iterator[Finding]:
        """Report what an exchange did to the open transaction."""
        line, body = exchange.line, exchange.request
        if line.api == MARKERS:
            aborts = [e for e in self.aborts if e.marker == line and e.requested is None]
            if aborts and self.transaction is not None:
                self.transaction = _aborted_by(self.transaction, aborts[0], exchange)
            if aborts and self.transaction is not None:
                yield from self._end(exchange, known, causes=(aborts[0].cause,))
        elif line.api == "INIT_PRODUCER_ID":
            if not bodies.errors(exchange.response):
                yield from self._end(exchange, known, is_requested=False)
            elif exchange.code == Error.CONCURRENT_TRANSACTIONS and self.transaction is not None:
                opened = self.transaction
                # later ones may wait for another InitProducerId, after the abort
                if not any(opened.began.time <= each.time < line.time for each in self.fencing):
                    yield TransactionWaited(line=line, producer=self.key, number=opened.number)
        elif line.api == "END_TXN":
            if not bodies.errors(exchange.response):
                yield from self._end(exchange, known, is_committed=bool(body.get("committed")))
        elif self.ended is None or self._is_before(exchange, self.ended, known) is False:
            yield from self._take_in(exchange, known)

    def _may_have_ended(self, opened: OpenTransaction, line: RecordedRequest) -> bool:
        """Return whether the coordinator may have aborted a transaction before a request to abort.

        From transaction.version 2 on, an EndTxn with the former epoch is then accepted as a
        repeated one (`TransactionCoordinator.endTransaction`, KIP-890).
        """
        if line.api == "END_TXN" and line.version < BUMPING_VERSION:
            return False
        timeout_ms = self._timeout_at(opened.began.time)
        is_overdue = timeout_ms is None or line.end - opened.began.time > timeout_ms
        return is_overdue or self.fenced == (opened.producer_id, opened.epoch)

    @property
    def key(self) -> ProducerKey:
        """The subject of findings about transactions."""
        return ProducerKey.of(self.name, self.id)

    def _is_before(
        self, exchange: RecordedExchange, ended: EndedTransaction, known: KnownFacts
    ) -> bool | None:
        """Return whether a request belongs to a transaction that has ended; None if unknown.

        A client begins the next transaction after the response to its EndTxn. So a request that
        arrived before that response is of the former one, even if its response came later. From
        transaction.version 2 on, the epoch of a batch tells. Clocks of two brokers differ: if the
        arrivals are close, only a marker on the broker of the request tells.
        """
        line, end = exchange.line, ended.line
        if end.api == "END_TXN" and end.version >= BUMPING_VERSION:
            epochs = {each.epoch for each in bodies.holders(line.api, exchange.request)} - {-1}
            if len(epochs) == 1:
                return max(epochs) <= ended.epoch
        if line.broker == end.broker:
            return line.time < ended.made
        if abs(line.time - end.time) > CLOCKS_MS:
            return line.time < end.time
        if end.api != "END_TXN" or end.version < BUMPING_VERSION:
            return None  # AddPartitionsToTxn takes the partitions in
        markers = self.marked(ended.producer_id, ended.epoch + 1)
        own = [each.time for each in markers if each.broker == line.broker]
        if own:
            return line.time < min(own)
        is_elsewhere = bool(markers) and known.is_covered(line.broker, end.time, end.end + GRACE_MS)
        return False if is_elsewhere else None

    def _take_in(self, exchange: RecordedExchange, known: KnownFacts) -> Iterator[Finding]:
        places, groups = taken_in(exchange, self.name, known)
        if not places and not groups:
            return
        line = exchange.line
        if self.transaction is None:
            own = next(iter(self.holders_of(exchange, known)), Holder(NO_PRODUCER, -1, self.name))
            own = own if own.producer_id != NO_PRODUCER else self.holder(line)
            self.transactions += 1
            self.transaction = OpenTransaction(self.transactions, own.producer_id, own.epoch, line)
            yield TransactionBegan(line=line, producer=self.key, number=self.transactions)
        number = self.transaction.number
        new_places, new_groups = self.transaction.take_in(places, groups)
        for place in new_places:
            yield TransactionTookIn(line=line, producer=self.key, number=number, place=place)
        for group in new_groups:
            yield TransactionTookIn(line=line, producer=self.key, number=number, group=group)

    def _end(
        self,
        exchange: RecordedExchange,
        known: KnownFacts,
        is_committed: bool = False,
        is_requested: bool = True,
        causes: tuple[TransactionAborted, ...] = (),
    ) -> Iterator[Finding]:
        """End the open transaction, with the requests that belong to it and had a late response."""
        line, body = exchange.line, exchange.request
        epoch, producer_id = body.get("producerEpoch", -1), body.get("producerId", NO_PRODUCER)
        made = min(exchange.made or line.end, line.end)
        former, ended_now = self.ended, EndedTransaction(line, epoch, producer_id, made)
        self.ended = ended_now
        for each in self.pending:
            if each.line.api not in TAKING or not self._is_before(each, ended_now, known):
                continue
            if former is None or self._is_before(each, former, known) is False:
                yield from self._take_in(each, known)
        ended, self.transaction = self.transaction, None
        # an end between the two is not recorded, so what is of this one is not known
        if ended is not None and line.api == "END_TXN" and line.version >= BUMPING_VERSION:
            ended = ended if ended.epoch in (-1, epoch) else None
        elif ended is not None and ended.began.api not in COORDINATED:
            is_whole = known.is_covered_by_all(ended.began.time, line.end)
            ended = ended if is_whole or not known.brokers else None
        became = TransactionEnded(
            line=line,
            causes=causes,
            producer=self.key,
            number=0,
            is_committed=is_committed,
            is_requested=is_requested,
        )
        if known.is_coarse and not is_requested:
            return  # it may have come before the requests of the transaction
        if ended is None or known.is_coarse:  # requests of the next one may have come before
            if is_requested:
                yield became
            return
        is_open = is_committed or causes or not self._may_have_ended(ended, line)
        yield msgspec.structs.replace(
            became,
            certainty=Certainty.SEEN if is_open else Certainty.UNKNOWN,
            number=ended.number,
            producer_id=ended.producer_id,
            epoch=ended.epoch,
            began=ended.began,
            lasted_ms=ended.lasted_ms(line),
            places=ended.places,
            groups=ended.groups,
        )


def _aborted_by(
    opened: OpenTransaction, abort: ObservedAbort, exchange: RecordedExchange
) -> OpenTransaction | None:
    """The transaction that a marker aborts; None if its begin is not known.

    If the open one began earlier, its end is not recorded: only what the marker names is of the
    aborted one.
    """
    began = abort.began
    if began is None:
        return None
    if began.line == opened.began:
        return opened
    named = {
        f"{topic['name']}-{number}"
        for marker in exchange.request["markers"]
        if marker["producerId"] == abort.producer_id
        for topic in marker["topics"]
        for number in topic["partitionIndexes"]
    }
    places = {place: count for place, count in opened.places.items() if place in named}
    return OpenTransaction(opened.number, abort.producer_id, began.epoch, began.line, places=places)


def _codes_of(exchange: RecordedExchange, holder: Holder) -> list[int]:
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


def _producers_in(exchange: RecordedExchange, known: KnownFacts) -> Parts:
    line = exchange.line
    holders = bodies.holders_of(line.api, exchange.request, exchange.response)
    if line.api == "PRODUCE" and not holders and bodies.errors(exchange.response):
        holders = [Holder(NO_PRODUCER, -1, None)]
    names: dict[EntityKey, None] = {}
    for holder in holders:
        name = holder.name or known.producers.get(holder.producer_id)
        is_nameless = line.api == "INIT_PRODUCER_ID" and holder.producer_id == NO_PRODUCER
        if name:
            names[EntityKey("producer", name)] = None
        elif not is_nameless:
            names[EntityKey("producer-id", str(holder.producer_id))] = None
    yield from ((name, exchange) for name in names)


def _producer_of(key: EntityKey) -> ObservedProducer:
    if key.kind == "producer":
        return ObservedProducer(name=key.id)
    return ObservedProducer(name="", id=int(key.id))


PRODUCERS = EntityKind("producer", PRODUCER_APIS, _producers_in, _producer_of)
