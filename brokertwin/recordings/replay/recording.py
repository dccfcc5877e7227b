"""Reads files of recorded exchanges and merges them into one history.

A line is an exchange: `{"time", "requestHeader", "request", "response", "connection",
"responseTime", "principal"}`. `time` is the arrival of the request in ms since 1970, `responseTime`
the ms until its response. `recordings/formats` reads logs of Kafka and Kroxylicious. Files ending
in `.gz` are compressed. Unreadable lines are counted by reason and skipped. The end of a connection
is a line of its own.

The history is ordered by `time`, ties by file and line. Requests of a connection are never
reordered, because Kafka handles them in sequence.
"""

import heapq
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from brokertwin.protocol.batch_headers import Headers
from brokertwin.protocol.kafka_apis import (
    FETCH,
    PRODUCE,
    WRITE_TXN_MARKERS,
    Decider,
    Trait,
    api_of_key,
)
from brokertwin.recordings.formats.batches import Completion, Needs
from brokertwin.recordings.formats.coordinator_lines import Logged
from brokertwin.recordings.formats.documents import (
    NO_REQUEST,
    Details,
    Document,
    api_name,
    clusters_own,
    compact,
    controllers_listeners,
)
from brokertwin.recordings.formats.order import LAST, ArrivalOrder, in_turn
from brokertwin.recordings.formats.pipeline import FileReading, Source, read_files
from brokertwin.recordings.formats.request_log import Usual
from brokertwin.recordings.formats.summary import Summary, nothing_read
from brokertwin.state.core.events import Kind, RequestHeader

DEFAULT_READING = FileReading()

THE_BROKER = 1
"""The default broker id."""

OWN_CLIENTS = {
    PRODUCE.key: re.compile(r"ShareGroupDLQManager-client-\d+"),
    WRITE_TXN_MARKERS.key: re.compile(r"broker-\d+-txn-marker-sender"),
}
"""Client ids of brokers that write to logs of others, by API key."""

BROKERS_WRITES = "with markers or dead letters of a broker, which the machine writes itself"

NOTICED_MS = 50
"""How long a broker may take to notice a closed connection."""


class Exchange(msgspec.Struct, frozen=True):
    """A request and the real broker's response, or the end of a connection.

    Attributes:
        id: file and line, `orders.jsonl:12`.
        time: arrival of the request, in ms since 1970.
        end: last ms at which the broker may have responded.
        is_recorded: the line has a `response`; null means acks 0.
        connection: the file's name for it, prefixed with the file if there are several.
        is_text: from a text log, which may lack bodies.
        latency_ms: time until the response; negative if the log does not show it.
        taken: when a thread took the request, in ms since 1970.
        made: when the response was made.
        has_waited: the response was made later, in a purgatory.
        busy_ms: time in the broker's queues, and that for reading the log.
    """

    id: str
    time: int
    end: int
    broker: int
    header: RequestHeader
    request: msgspec.Raw
    response: Any
    is_recorded: bool
    connection: str
    principal: str
    host: str = ""
    kind: Kind = Kind.REQUEST
    is_text: bool = False
    latency_ms: float = 0.0
    taken: float = 0.0
    made: float = 0.0
    has_waited: bool = False
    busy_ms: float = 0.0

    @property
    def api(self) -> str:
        return api_name(self.header.request_api_key)

    def has(self, trait: Trait) -> bool:
        return trait in api_of_key(self.header.request_api_key).traits

    @property
    def changes_metadata(self) -> bool:
        api = api_of_key(self.header.request_api_key)
        return api.handler is Decider.CONTROLLER and not api.only_reads

    @property
    def version(self) -> int:
        return self.header.request_api_version

    @property
    def turn(self) -> int:
        """Position on its connection: the correlation id."""
        return self.header.correlation_id if self.kind is Kind.REQUEST else LAST

    def body(self) -> Any:
        return msgspec.json.decode(self.request)


def id_of(place: str) -> str:
    """Return the exchange id for a file and line, which may have `.gz`."""
    return place.replace(".gz:", ":")


class Broken(NamedTuple):
    """An unreadable line and the reason."""

    place: str
    reason: str


class Recording(NamedTuple):
    """One history: its exchanges in order, and the skipped lines.

    `left_out` counts undamaged lines that are no client requests, by reason. `ends` are closed
    connections, in order. `logged` are lines about groups in Kafka's server.log. `undecoded` are
    captured requests without a legible body.
    """

    exchanges: list[Exchange]
    broken: list[Broken]
    left_out: Mapping[str, int] = MappingProxyType({})
    ends: Sequence[Exchange] = ()
    logged: Sequence[Logged] = ()
    own: Sequence[Exchange] = ()
    undecoded: Sequence[Document] = ()

    @property
    def events(self) -> list[Exchange]:
        return list(heapq.merge(self.exchanges, self.ends, key=lambda each: each.time))

    def of_clients(self) -> "Recording":
        """Return a copy without writes of brokers to logs of others, which a machine makes."""
        rest = [each for each in self.exchanges if not _is_of_broker(each)]
        left_out = Counter(self.left_out)
        left_out[BROKERS_WRITES] = len(self.exchanges) - len(rest)
        left_out += Counter()  # removes zero counts
        return self._replace(exchanges=rest, left_out=left_out)


def _is_of_broker(exchange: Exchange) -> bool:
    client_id = OWN_CLIENTS.get(exchange.header.request_api_key)
    return bool(client_id and client_id.fullmatch(exchange.header.client_id or ""))


def read(
    paths: Sequence[Path], reading: FileReading = DEFAULT_READING, batches: Headers | None = None
) -> Recording:
    """Read files into one history.

    Args:
        paths: captures, Kafka's request logs and Kroxylicious' protocol logs, also mixed.
        reading: how logs are read.
        batches: batch headers for Produce requests that lack them.

    Raises:
        UserError: a file is unreadable, or no line is an exchange.
    """
    return read_from(lambda summary: read_files(paths, reading, summary), batches)


def read_from(
    source: Source,
    batches: Headers | None = None,
    with_logged: bool = False,
    with_own: bool = False,
) -> Recording:
    """Read documents into one history.

    Args:
        source: yields the documents and counts unreadable ones in a summary.
        batches: batch headers for Produce requests that lack them.
        with_logged: lines about groups in Kafka's server.log are enough.
        with_own: exchanges of brokers with the controller are enough.

    Raises:
        NothingRecordedError: the source has no exchange.
        UserError: the source is unreadable.
    """
    broken: list[Broken] = []
    undecoded: list[Document] = []
    summary = Summary(
        on_dead=lambda left: broken.append(Broken(left.line.place, left.detail or left.reason)),
        on_undecoded=undecoded.append,
    )
    documents, needs = [], Needs()
    for document in source(summary):
        needs.add(document)
        documents.append(document)
    needs.close()
    documents.reverse()
    found = of_documents(documents, Completion(batches, needs.names), is_reversed=True)
    left_out = Counter(found.left_out)
    for (_, reason), count in summary.left.items():
        left_out[reason] += count
    broken += found.broken
    is_enough = (with_logged and summary.logged) or (with_own and found.own)
    if not found.exchanges and not is_enough:
        summary.left.update({("", reason): count for reason, count in found.left_out.items()})
        raise nothing_read(summary)
    return found._replace(
        broken=broken, left_out=left_out, logged=summary.logged, undecoded=undecoded
    )


def of_documents(
    documents: Iterable[Document],
    completion: Completion,
    listeners: Collection[str] = (),
    is_reversed: bool = False,
) -> Recording:
    """Build a history from documents, completing Produce requests.

    Args:
        documents: in any order.
        completion: completes Produce requests.
        listeners: known listeners of controllers, beside those that the documents show.
        is_reversed: they are a list in reversed order, which is emptied to save memory.
    """
    exchanges: list[Exchange] = []
    of_cluster: list[Exchange] = []
    broken: list[Broken] = []
    left_out = Counter[str]()
    if not (is_reversed and isinstance(documents, list)):
        documents = list(documents)[::-1]
    controllers = {*listeners, *controllers_listeners(documents)}
    is_arrived = True
    while documents:
        document = documents.pop()
        is_arrived &= document.arrival is not None
        if not document.is_request:
            exchanges.append(_end(document))
            continue
        try:
            exchange, listener, is_forwarded = of_document(document, completion)
            own = clusters_own(listener, is_forwarded, controllers)
            if own:
                left_out[own] += 1
                of_cluster.append(exchange)
            else:
                exchanges.append(_arrived(exchange, document.arrival))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            broken.append(Broken(document.place, str(error)))
    merged = merge(exchanges, is_arrived)
    requests = [each for each in merged if each.kind is Kind.REQUEST]
    ends = [each for each in merged if each.kind is not Kind.REQUEST]
    return Recording(requests, broken, left_out, ends, own=of_cluster)


def of_document(document: Document, completion: Completion | None) -> tuple[Exchange, str, bool]:
    """Convert a document of a request.

    A log's line has the time when the response was sent; the stages show how long before that a
    thread took the request, and the response was made.

    `completion`: completes Produce requests.

    Returns:
        the exchange, its listener, and whether a broker forwarded it to the controller.

    Raises:
        msgspec.MsgspecError, UnicodeDecodeError, RecursionError: it is damaged.
    """
    details, header, time = document.details, document.header, document.time
    if completion is not None and header.request_api_key == PRODUCE.key:
        document.request = completion.complete(document.request, document.response, time)
    request, response = document.request, bytes(document.response)
    if not document.is_compact:
        request = msgspec.Raw(compact(bytes(request)))
    end, taken, made, has_waited, busy_ms = stages_of(
        header.request_api_key, time, details.response_time, details
    )
    broker = THE_BROKER if document.broker is None else document.broker
    connection = document.connection
    exchange = Exchange(
        document.place,
        time,
        end,
        broker,
        header,
        request,
        msgspec.json.decode(response) if response else None,
        bool(response),
        f"{broker}/{connection}" if document.is_from_log else connection,
        details.principal,
        details.host,
        is_text=details.is_text,
        latency_ms=details.response_time,
        taken=taken,
        made=made,
        has_waited=has_waited,
        busy_ms=busy_ms,
    )
    return exchange, details.listener, details.is_forwarded


def stages_of(
    key: int, time: int, duration: float, details: Details | Usual
) -> tuple[int, float, float, bool, float]:
    """Return `end`, `taken`, `made`, `has_waited` and `busy_ms` of an exchange.

    Args:
        key: API key.
        time: arrival of the request, in ms since 1970.
        duration: time until the response, in ms.
        details: the times of its stages.
    """
    sent = time + math.ceil(duration)
    queued, sending = details.request_queue_time_ms, details.send_time_ms
    answered = details.response_queue_time_ms
    taken = sent - duration + queued
    reading = details.local_time_ms if key == FETCH.key else 0
    # `time` is in whole ms, the response's time is not: use the next ms
    end = time + int(duration) + 1
    made = max(taken, sent - answered - sending)
    return end, taken, made, details.remote_time_ms > 0, queued + reading + answered + sending


def _end(document: Document) -> Exchange:
    header, request = NO_REQUEST
    return Exchange(
        id=document.place,
        time=document.time,
        end=document.time + NOTICED_MS,
        broker=document.broker if document.broker is not None else THE_BROKER,
        header=header,
        request=request,
        response=None,
        is_recorded=True,
        connection=document.connection,
        principal="",
        kind=document.kind,
    )


class _WithResponse(msgspec.Struct):
    response: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_response_decoder = msgspec.json.Decoder(_WithResponse)


def has_response(line: bytes) -> bool:
    """Whether a line is a document with a recorded response, null included."""
    try:
        return _response_decoder.decode(line).response is not msgspec.UNSET
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False


def merge(exchanges: Sequence[Exchange], is_arrived: bool = False) -> list[Exchange]:
    """Merge the exchanges of several files, given in line order.

    `is_arrived`: whether each one's time is not before that of its connection's last one.
    """
    arrivals = ArrivalOrder()
    keyed = [
        (
            exchange.time
            if is_arrived
            else arrivals.time(exchange.connection, exchange.time, exchange.turn),
            place,
            exchange,
        )
        for place, exchange in enumerate(exchanges)
    ]
    keyed.sort(key=lambda entry: entry[:2])
    return [
        _arrived(exchange, time)
        for time, _, exchange in in_turn(
            keyed, lambda each: each[0], lambda each: (each[2].connection, each[2].turn)
        )
    ]


def _arrived(exchange: Exchange, time: int | None) -> Exchange:
    if time is None or exchange.time == time:
        return exchange
    return msgspec.structs.replace(exchange, time=time, end=max(exchange.end, time))
