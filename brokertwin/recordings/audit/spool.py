"""Exchanges of a source on disk, in the order of their responses.

Machines need the facts of the whole recording, so a source is read before they begin. What they use
of it is kept by the sorter that `ingest` uses, in bounded memory.
"""

from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple, Self

import msgspec

from brokertwin.protocol.batch_headers import Headers
from brokertwin.protocol.kafka_apis import API_KEYS
from brokertwin.recordings.audit.frequent import Frequent, Spooled, encode, frequent
from brokertwin.recordings.formats.batches import Completion, Needs
from brokertwin.recordings.formats.documents import (
    Document,
    clusters_own,
    raw,
)
from brokertwin.recordings.formats.order import LAST, ArrivalOrder, Sorter
from brokertwin.recordings.formats.pipeline import Source
from brokertwin.recordings.formats.summary import Summary, nothing_read
from brokertwin.recordings.history import bodies
from brokertwin.recordings.history.exchange import (
    DELAY_MS,
    KnownFacts,
    RecordedExchange,
    exchange_of,
)
from brokertwin.recordings.history.holes import Hole, HoleFinder, number_of, spans_of
from brokertwin.recordings.history.undecoded import Undecoded
from brokertwin.recordings.replay.recording import THE_BROKER, Broken, of_document

OTHER_API = 255
"""Mark of exchanges of APIs with greater keys, which no machine knows."""

EXCHANGES_BETWEEN_REPORTS = 2_000


_decode = msgspec.msgpack.Decoder(Spooled).decode


class SpooledFacts(NamedTuple):
    """The facts of a whole recording.

    Attributes:
        cluster: those of clients, brokers and controllers.
        clients: those of clients alone.
    """

    cluster: KnownFacts
    clients: KnownFacts


class Spool:
    """The exchanges of a source.

    Use it in a `with` statement, which removes the temporary file.

    Args:
        batches: batch headers for Produce requests that have none.
        known: settings of the brokers.
        grows: whether the source is read several times, each time from where it was left.

    Attributes:
        broken: damaged lines.
        apis: the APIs of the exchanges.
        undecoded: requests without a legible body.
        holes: missing stretches of logs, as `facts` finds them.
    """

    def __init__(
        self,
        batches: Headers | None = None,
        facts: KnownFacts | None = None,
        grows: bool = False,
    ) -> None:
        self.broken: list[Broken] = []
        self._late_broken: set[Broken] = set()  # each pass meets them again
        self.apis: Collection[str] = ()
        self.undecoded = Undecoded()
        self._settings = encode(facts or KnownFacts())
        self._cluster = facts or KnownFacts()
        self._headers = batches
        self._needs = Needs()
        self._completion: Completion | None = None
        self._grows = grows
        self._arrivals = ArrivalOrder()
        self._controllers: set[str] = set()
        self._sorter = Sorter()
        self._facts: SpooledFacts | None = None
        self._is_shared = batches is None and not grows
        self._finder = HoleFinder()
        self.holes: list[Hole] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the temporary file."""
        self._sorter.__exit__()

    def __len__(self) -> int:
        return len(self._sorter)

    def read(self, source: Source) -> None:
        """Read a source, in place of what was read before.

        Raises:
            NothingRecordedError: it has no exchange, and does not grow.
            UserError: it is unreadable.
        """
        self._sorter.__exit__()
        self._sorter = Sorter()
        summary = Summary(
            on_dead=lambda left: self.broken.append(
                Broken(left.line.place, left.detail or left.reason)
            ),
            on_undecoded=self.undecoded.take,
        )
        for document in source(summary):
            if summary.controllers:
                self._controllers |= summary.controllers - {""}
            self._add(document)
        self.apis = summary.events.keys()
        self._needs.close()
        if self._headers is not None:
            self._completion = Completion(self._headers, self._needs.names)
        if not len(self) and not self._grows:
            raise nothing_read(summary)

    def _add(self, document: Document) -> None:
        name = f"{document.broker}/" if document.is_from_log else ""
        is_request = document.is_request
        number = document.header.correlation_id if is_request else LAST
        arrival = self._arrivals.time(f"{name}{document.connection}", document.time, number)
        if not is_request:
            return
        if self._headers is not None:
            self._needs.add(document)
        known: Frequent | None = document.decoded or frequent(document)
        if known is not None:
            self._add_frequent(document, known, arrival)
            return
        request, response = bytes(document.request), bytes(document.response)
        try:
            recorded, listener, is_forwarded = of_document(document, None)
            each = exchange_of(recorded)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            self.broken.append(Broken(document.place, str(error)))
            return
        spooled = (
            msgspec.structs.astuple(each.line),
            (each.has_response, each.taken, each.made, each.has_waited, each.busy_ms),
            *(listener, is_forwarded),
            *(bodies.is_error_free(response), bodies.is_batch_free(request)),
            *(request, response, arrival),
        )
        end = max(each.line.end, arrival)
        self._spool(document, end, encode(spooled))
        self._finder.note_line(each.line.broker, end)
        self._is_shared = self._is_shared and each.has_response and not is_forwarded
        if numbered := number_of(each, document.header.correlation_id):
            self._finder.note(each.line.broker, numbered, end)
        if self._learns:
            self._cluster.learn(_arrived(each, arrival))

    def _add_frequent(self, document: Document, known: Frequent, arrival: int) -> None:
        """Add a document as `_add` does, without decoding its bodies."""
        broker = THE_BROKER if document.broker is None else document.broker
        connection = f"{broker}/{document.connection}"
        end = max(known.end, arrival)
        self._spool(document, end, known.spooled(document.place, broker, connection, arrival))
        self._finder.note_line(broker, end)
        self._is_shared = self._is_shared and not document.details.is_forwarded
        if known.numbered is not None:
            self._finder.note(broker, known.numbered, end)
        if self._learns:
            cluster = self._cluster
            cluster.note_span(broker, arrival, end)
            if known.busy_ms > DELAY_MS:
                cluster.note_delay(broker, int(known.made // 1000), known.busy_ms)
            if known.follower >= 0:
                cluster.note_fetch(f"{broker} {known.follower}", connection, known.taken)
                cluster.fetch_wait_ms = max(cluster.fetch_wait_ms, known.wait_ms)

    def _spool(self, document: Document, end: int, spooled: bytes) -> None:
        self._sorter.add(end, spooled, min(document.header.request_api_key, OTHER_API))

    @property
    def _learns(self) -> bool:
        """Whether facts are learned as exchanges are read."""
        return self._facts is not None or (self._is_shared and not self._controllers)

    def facts(self) -> SpooledFacts:
        found = self._facts_of_all()
        self.holes = self._finder.holes()
        found.cluster.holes = found.clients.holes = spans_of(each[:2] for each in self.holes)
        return found

    def _facts_of_all(self) -> SpooledFacts:
        if self._is_shared and not self._controllers:
            return SpooledFacts(self._cluster, self._cluster)
        is_learned = self._facts is not None
        if self._facts is None:
            self._cluster = msgspec.msgpack.decode(self._settings, type=KnownFacts)
            self._facts = SpooledFacts(self._cluster, KnownFacts())
        cluster, clients = self._facts
        for each in self:
            if not is_learned:
                cluster.learn(each)
            if each.has_response and not each.is_internal:
                clients.learn(each)
        clients.topics.update(cluster.topics)
        return self._facts

    def flush(self) -> None:
        """Write all exchanges to the temporary file, for processes that share it."""
        self._sorter.flush()

    def __iter__(self) -> Iterator[RecordedExchange]:
        """Yield the exchanges in the order of their responses."""
        return self.of(None)

    def of(
        self, apis: Collection[str] | None, on_exchanges: Callable[[int], object] = lambda _: None
    ) -> Iterator[RecordedExchange]:
        """Yield the exchanges of some APIs, or of all, in the order of their responses.

        `on_exchanges`: called with the number of exchanges up to here, from time to time.
        """
        marks = None if apis is None else {API_KEYS[api] for api in apis}
        for count, entry in enumerate(self._sorter.by_time()):
            if count % EXCHANGES_BETWEEN_REPORTS == 0:
                on_exchanges(count)
            if marks is not None and entry.mark not in marks:
                continue
            spooled = _decode(entry.document)
            own = clusters_own(spooled.listener, spooled.is_forwarded, self._controllers)
            try:
                exchange = _exchange(spooled, is_internal=bool(own))
            except (msgspec.MsgspecError, RecursionError) as error:  # of a field without schema
                broken = Broken(spooled.line.place, str(error))
                if broken not in self._late_broken:
                    self._late_broken.add(broken)
                    self.broken.append(broken)
            else:
                yield self._completed(exchange)

    def _completed(self, exchange: RecordedExchange) -> RecordedExchange:
        """Return a Produce with its batch headers, if found."""
        if self._completion is None or exchange.line.api != "PRODUCE":
            return exchange
        request, response = raw(exchange.request), raw(exchange.response)
        batches = self._completion.complete(request, response, exchange.line.time)
        return msgspec.structs.replace(exchange, request=msgspec.json.decode(batches))


def _exchange(spooled: Spooled, is_internal: bool) -> RecordedExchange:
    request = msgspec.json.decode(spooled.request)
    response = (msgspec.json.decode(spooled.response) if spooled.response else None) or {}
    exchange = RecordedExchange(
        spooled.line,
        bodies.BatchFree(request) if spooled.is_batch_free else request,
        bodies.ErrorFree(response) if spooled.is_error_free else response,
        *spooled.stages,
        is_internal,
    )
    return exchange if is_internal else _arrived(exchange, spooled.arrival)


def _arrived(exchange: RecordedExchange, arrival: int) -> RecordedExchange:
    """The exchange of a client, which arrives after those before it on its connection."""
    line = exchange.line
    if arrival == line.time:
        return exchange
    line = msgspec.structs.replace(line, time=arrival, end=max(line.end, arrival))
    return msgspec.structs.replace(exchange, line=line)
