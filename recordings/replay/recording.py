"""Files of recorded exchanges, read and merged into one history.

A line is one exchange: `{"time", "requestHeader", "request", "response", "connection",
"responseTime", "principal"}`. `time` is when the request arrived, in ms since 1970; `responseTime`
is how many ms later it had been answered. Logs of Kafka and Kroxylicious are read by the readers of
`recordings/formats`. Files ending in `.gz` are compressed. An unreadable line is counted with its
reason and left out. The end of a connection is a line of its own, and an event that nobody
answers.

The history is ordered by `time`; ties go by file and line. A connection is never reordered: Kafka
answers its requests one after the other, so its lines are in order whatever their times say.
"""

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from brokertwin.recordings.formats.batches import Completion, Headers, Needs
from brokertwin.recordings.formats.coordinator_lines import Logged
from brokertwin.recordings.formats.documents import (
    NO_REQUEST,
    Document,
    api_name,
    clusters_own,
    controllers_listeners,
)
from brokertwin.recordings.formats.order import LAST, Arrivals, in_turn
from brokertwin.recordings.formats.pipeline import Reading, Source, completed, read_files
from brokertwin.recordings.formats.summary import Summary, nothing_read, place_of
from brokertwin.state.core.events import Kind, RequestHeader
from brokertwin.state.core.kafka_apis import Decider, Trait, api_of_key

DEFAULT_READING = Reading()

THE_BROKER = 1
"""The broker of documents that do not say it."""

NOTICED_MS = 50
"""How long a broker may take until it has noticed that a connection has ended."""


class Exchange(msgspec.Struct, frozen=True):
    """A request and what the real broker answered; or the end of a connection.

    Attributes:
        id: file and line, `orders.jsonl:12`.
        time: when the request arrived, in ms since 1970.
        end: the last ms at which the broker may have answered.
        is_recorded: whether the line has a `response` at all; a null one is an answer (acks 0).
        connection: the file's name for it; with several files the file's name stands before it.
        kind: of its event.
        is_text: whether it is from a text log, which may lack bodies.
        latency_ms: time until the response.
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

    @property
    def api(self) -> str:
        """The name of the API in the request log, or its key where Kafka has no such API."""
        return api_name(self.header.request_api_key)

    def has(self, trait: Trait) -> bool:
        """Whether the API has a trait."""
        return trait in api_of_key(self.header.request_api_key).traits

    @property
    def changes_metadata(self) -> bool:
        """Whether the controller decides, and brokers read the change afterwards."""
        api = api_of_key(self.header.request_api_key)
        return api.handler is Decider.CONTROLLER and not api.only_reads

    @property
    def version(self) -> int:
        """The API version of the request."""
        return self.header.request_api_version

    @property
    def turn(self) -> int:
        """The place among the requests of its connection: the correlation id."""
        return self.header.correlation_id if self.kind is Kind.REQUEST else LAST

    def body(self) -> Any:
        """The request's body, decoded."""
        return msgspec.json.decode(self.request)


def id_of(place: str) -> str:
    """The id of an exchange that a user names by file and line; `.gz` may stand before the line."""
    return place.replace(".gz:", ":")


class Broken(NamedTuple):
    """A line that could not be read: where it lies and why."""

    place: str
    reason: str


class Recording(NamedTuple):
    """One history: its exchanges in order, and the lines that were left out.

    `left_out` counts, by reason, what is undamaged and yet no client's request. `ends` are those of
    connections, in order, too. `logged` are the lines about groups in Kafka's server.log.
    """

    exchanges: list[Exchange]
    broken: list[Broken]
    left_out: Mapping[str, int] = MappingProxyType({})
    ends: Sequence[Exchange] = ()
    logged: Sequence[Logged] = ()

    @property
    def events(self) -> list[Exchange]:
        """Exchanges and ends of connections in one order."""
        return list(heapq.merge(self.exchanges, self.ends, key=lambda each: each.time))

    def with_id_prefix(self, prefix: str) -> "Recording":
        """The same with a text before each exchange's id."""
        if not prefix:
            return self
        exchanges, ends = (
            [msgspec.structs.replace(each, id=f"{prefix}{each.id}") for each in events]
            for events in (self.exchanges, self.ends)
        )
        return self._replace(exchanges=exchanges, ends=ends)


class _Line(msgspec.Struct, rename="camel"):
    time: int
    request_header: RequestHeader
    request: msgspec.Raw
    response: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    response_time: float = 0.0
    connection: str = ""
    principal: str = "User:ANONYMOUS"
    broker: int = THE_BROKER
    host: str = ""
    listener: str = ""
    is_forwarded: bool = False
    is_text: bool = False


_decoder = msgspec.json.Decoder(_Line)


def read(
    paths: Sequence[Path], reading: Reading = DEFAULT_READING, batches: Headers | None = None
) -> Recording:
    """Read files into one history.

    Args:
        paths: captures, Kafka's request logs and Kroxylicious' protocol logs, also mixed.
        reading: how logs are read.
        batches: batch headers for Produce requests that have none.

    Raises:
        UserError: a file cannot be read, or none of the lines is an exchange.
    """
    return read_from(lambda summary: read_files(paths, reading, summary), batches)


def read_from(
    source: Source, batches: Headers | None = None, with_logged: bool = False
) -> Recording:
    """Read documents, wherever they are, into one history.

    Args:
        source: gives the documents; it counts in a summary what of them cannot be read.
        batches: batch headers for Produce requests that have none.
        with_logged: whether lines about groups in Kafka's server.log are enough.

    Raises:
        NothingRecordedError: the source has no exchange.
        UserError: the source cannot be read.
    """
    broken: list[Broken] = []
    summary = Summary(
        on_dead=lambda left: broken.append(Broken(place_of(left.line), left.detail or left.reason))
    )
    documents, needs = [], Needs()
    for document in source(summary):
        needs.add(document)
        documents.append(document)
    needs.close()
    found = of_documents(documents, Completion(batches, needs.names))
    left_out = Counter(found.left_out)
    for (_, reason), count in summary.left.items():
        left_out[reason] += count
    broken += found.broken
    if not found.exchanges and not (with_logged and summary.logged):
        summary.left.update({("", reason): count for reason, count in found.left_out.items()})
        raise nothing_read(summary)
    return Recording(found.exchanges, broken, left_out, found.ends, summary.logged)


def of_documents(documents: Iterable[Document], completion: Completion) -> Recording:
    """One history of documents that have been read, Produce requests with their batch headers."""
    exchanges: list[Exchange] = []
    broken: list[Broken] = []
    left_out = Counter[str]()
    documents = list(documents)
    controllers = controllers_listeners(documents)
    for document in documents:
        if not document.is_request:
            exchanges.append(_end(document))
            continue
        try:
            line = _decoder.decode(completed(document, completion))
            own = clusters_own(line.listener, line.is_forwarded, controllers)
            if own:
                left_out[own] += 1
            else:
                exchanges.append(_exchange(line, document))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            broken.append(Broken(document.place, str(error)))
    merged = merge(exchanges)
    requests = [each for each in merged if each.kind is Kind.REQUEST]
    ends = [each for each in merged if each.kind is not Kind.REQUEST]
    return Recording(requests, broken, left_out, ends)


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


class _Answered(msgspec.Struct):
    response: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_answered_decoder = msgspec.json.Decoder(_Answered)


def is_answered(line: bytes) -> bool:
    """Whether a line is a document with a recorded answer, a null one (acks 0) too."""
    try:
        return _answered_decoder.decode(line).response is not msgspec.UNSET
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False


def merge(exchanges: Sequence[Exchange]) -> list[Exchange]:
    """The exchanges of several files, each in the order of its lines, as one history."""
    arrivals = Arrivals()
    keyed = [
        (arrivals.time(exchange.connection, exchange.time, exchange.turn), place, exchange)
        for place, exchange in enumerate(exchanges)
    ]
    keyed.sort(key=lambda entry: entry[:2])
    return [
        exchange
        if exchange.time == time
        else msgspec.structs.replace(exchange, time=time, end=max(exchange.end, time))
        for time, _, exchange in in_turn(
            keyed, lambda each: each[0], lambda each: (each[2].connection, each[2].turn)
        )
    ]


def _exchange(line: _Line, document: Document) -> Exchange:
    """Raises msgspec.ValidationError for an answer that is none."""
    response = None
    if not isinstance(line.response, msgspec.UnsetType):
        response = msgspec.json.decode(line.response)
    return Exchange(
        id=document.place,
        time=line.time,
        # `time` is a whole ms, the answer's is a fraction: the end is the ms after it.
        end=line.time + int(line.response_time) + 1,
        broker=line.broker,
        header=line.request_header,
        request=line.request,
        response=response,
        is_recorded=line.response is not msgspec.UNSET,
        connection=f"{line.broker}/{line.connection}" if document.is_from_log else line.connection,
        principal=line.principal,
        host=line.host,
        is_text=line.is_text,
        latency_ms=line.response_time,
    )
