"""Exchanges of a source on disk, in the order of their responses.

Machines need the facts of the whole recording, so a source is read before they begin. What they use
of it is kept by the sorter that `ingest` uses, in bounded memory.
"""

from collections.abc import Collection, Iterator
from typing import Any, NamedTuple, Self

import msgspec

from brokertwin.protocol.batch_headers import Headers
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
    KnownFacts,
    RecordedExchange,
    RecordedRequest,
    exchange_of,
)
from brokertwin.recordings.replay.recording import Broken, of_document


class SpooledExchange(msgspec.Struct, array_like=True):
    """An exchange without the names of its fields.

    Attributes:
        line, rest: the fields of its request, and its other fields after the bodies.
        arrival: its arrival, or that of the connection's request before it if later, in ms since
            1970.
        listener: the listener; "" if it is not recorded.
        is_forwarded: whether a broker forwarded it to the controller.
        is_error_free: whether its response certainly has no error.
    """

    line: tuple[str, int, int, int, str, str, str, str, int, bool]
    request: Any
    response: Any
    rest: tuple[bool, float, float, bool, float, bool]
    arrival: int
    listener: str
    is_forwarded: bool
    is_error_free: bool


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(SpooledExchange)


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
    """

    def __init__(
        self,
        batches: Headers | None = None,
        known: KnownFacts | None = None,
        grows: bool = False,
    ) -> None:
        self.broken: list[Broken] = []
        self.apis: Collection[str] = ()
        self._settings = _encoder.encode(known or KnownFacts())
        self._cluster = known or KnownFacts()
        self._headers = batches
        self._needs = Needs()
        self._completion: Completion | None = None
        self._grows = grows
        self._arrivals = ArrivalOrder()
        self._controllers: set[str] = set()
        self._sorter = Sorter()
        self._facts: SpooledFacts | None = None
        self._is_shared = batches is None and not grows

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the temporary file."""
        self._sorter.__exit__()

    def __len__(self) -> int:
        """Number of exchanges."""
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
            )
        )
        for document in source(summary):
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
        number = document.header.correlation_id if document.is_request else LAST
        arrival = self._arrivals.time(f"{name}{document.connection}", document.time, number)
        if not document.is_request:
            return
        if self._headers is not None:
            self._needs.add(document)
        try:
            recorded, listener, is_forwarded = of_document(document, None)
            each = exchange_of(recorded)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            self.broken.append(Broken(document.place, str(error)))
            return
        spooled = SpooledExchange(
            msgspec.structs.astuple(each.line),
            each.request,
            each.response,
            (
                *(each.has_response, each.taken, each.made, each.has_waited, each.busy_ms),
                each.is_deprecated,
            ),
            arrival,
            listener,
            is_forwarded,
            bodies.is_error_free(bytes(document.response)),
        )
        try:
            self._sorter.add(max(each.line.end, arrival), _encoder.encode(spooled))
        except OverflowError as error:  # a number that no field of Kafka has
            self.broken.append(Broken(document.place, str(error)))
            return
        self._is_shared = self._is_shared and each.has_response and not is_forwarded
        if self._facts is not None or (self._is_shared and not self._controllers):
            self._cluster.learn(_arrived(each, arrival))

    def facts(self) -> SpooledFacts:
        """Return the facts of all exchanges that were read."""
        if self._is_shared and not self._controllers:
            return SpooledFacts(self._cluster, self._cluster)
        if self._facts is None:
            cluster = msgspec.msgpack.decode(self._settings, type=KnownFacts)
            for each in self:
                cluster.learn(each)
            self._cluster = cluster
            self._facts = SpooledFacts(cluster, KnownFacts(dict(cluster.topics)))
        self._facts.clients.topics.update(self._facts.cluster.topics)
        for each in self:
            if each.has_response and not each.is_internal:
                self._facts.clients.learn(each)
        return self._facts

    def __iter__(self) -> Iterator[RecordedExchange]:
        """Yield the exchanges in the order of their responses."""
        for entry in self._sorter.by_time():
            spooled = _decoder.decode(entry.document)
            own = clusters_own(spooled.listener, spooled.is_forwarded, self._controllers)
            yield self._completed(_exchange(spooled, is_internal=bool(own)))

    def _completed(self, exchange: RecordedExchange) -> RecordedExchange:
        """Return a Produce with its batch headers, if found."""
        if self._completion is None or exchange.line.api != "PRODUCE":
            return exchange
        request, response = raw(exchange.request), raw(exchange.response)
        found = self._completion.complete(request, response, exchange.line.time)
        return msgspec.structs.replace(exchange, request=msgspec.json.decode(found))


def _exchange(spooled: SpooledExchange, is_internal: bool) -> RecordedExchange:
    has_response, taken, made, has_waited, busy_ms, is_deprecated = spooled.rest
    exchange = RecordedExchange(
        RecordedRequest(*spooled.line),
        spooled.request,
        bodies.ErrorFree(spooled.response) if spooled.is_error_free else spooled.response,
        has_response,
        taken,
        made,
        has_waited,
        busy_ms,
        is_internal,
        is_deprecated,
    )
    return exchange if is_internal else _arrived(exchange, spooled.arrival)


def _arrived(exchange: RecordedExchange, arrival: int) -> RecordedExchange:
    """The exchange of a client, which arrives after those before it on its connection."""
    line = exchange.line
    if arrival == line.time:
        return exchange
    line = msgspec.structs.replace(line, time=arrival, end=max(line.end, arrival))
    return msgspec.structs.replace(exchange, line=line)
