"""Decodes lines of files in other processes, ahead of the one that reads the files.

They decode frequent requests in Kafka's default layout. All that depends on other lines stays with
the reading process: brokers, copies, arrivals, and facts. It reads all other lines itself.
"""

import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from datetime import tzinfo
from functools import partial
from typing import Self

import msgspec

from brokertwin.processes import Forked
from brokertwin.protocol.kafka_apis import API_KEYS
from brokertwin.recordings.formats import shapes
from brokertwin.recordings.formats.documents import (
    DecodedLine,
    Details,
    Document,
    api_name,
    is_controllers,
)
from brokertwin.recordings.formats.lines import SourceLine
from brokertwin.recordings.formats.order import digest_of
from brokertwin.recordings.formats.readers import FormatReader, Origin
from brokertwin.recordings.history import bodies
from brokertwin.recordings.history.exchange import RecordedExchange, RecordedRequest, exchange_of
from brokertwin.recordings.replay.recording import THE_BROKER, of_document
from brokertwin.state.core.events import RequestHeader

APIS = ("FETCH", "PRODUCE", "OFFSET_COMMIT", "HEARTBEAT", "CONSUMER_GROUP_HEARTBEAT")
"""Frequent APIs. Of their bodies, facts need only the follower of a FETCH."""

CHUNK_BYTES = 500_000
"""Bytes of lines that a process decodes at a time."""

_KEYS = frozenset(API_KEYS[api] for api in APIS)
_NO_BODY = msgspec.Raw(b"{}")


class Decoded(msgspec.Struct, array_like=True):
    """An exchange without the facts that other lines show.

    Attributes:
        sent: the time of its line, in ms since 1970.
        digest: of the exchange, to recognize copies.
        header: API key, API version, correlation id, client id.
        connection, host, listener, is_forwarded: fields of the line.
        time, end, is_own: attributes of the request.
        request: the part of the request that facts need.
        rest: the attributes of the exchange behind the bodies, without those that default.
        is_error_free: whether its response certainly has no error.
        bodies: request and response, encoded.
    """

    sent: int
    digest: int
    header: tuple[int, int, int, str | None]
    connection: str
    host: str
    listener: str
    is_forwarded: bool
    time: int
    end: int
    is_own: bool
    request: dict[str, int]
    rest: tuple[bool, float, float, bool, float]
    is_error_free: bool
    bodies: bytes

    def document(self, line: SourceLine) -> Document:
        """The document of a line, without its bodies."""
        return Document(
            line.place,
            line.file,
            self.time,
            None,
            True,
            self.connection,
            RequestHeader(*self.header),
            _NO_BODY,
            _NO_BODY,
            {},
            read=Details(host=self.host, listener=self.listener, is_forwarded=self.is_forwarded),
            digest=self.digest,
            decoded=self,
        )

    def exchange(self, document: Document) -> RecordedExchange:
        """The exchange of its document, with no more of its bodies than facts need."""
        key, version, _, client = self.header
        broker = THE_BROKER if document.broker is None else document.broker
        line = RecordedRequest(
            document.place,
            self.time,
            self.end,
            broker,
            client or "",
            self.host,
            f"{broker}/{self.connection}",
            api_name(key),
            version,
            self.is_own,
        )
        return RecordedExchange(line, self.request, {}, *self.rest)


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[Decoded | None])


class DecodersAhead:
    """Processes that decode lines.

    Use it in a `with` statement, which ends the processes.

    Args:
        jobs: number of processes.
        zone: zone of the JVMs that wrote the logs.
    """

    def __init__(self, jobs: int, zone: tzinfo) -> None:
        self._jobs = jobs
        self._pool = Forked(jobs, partial(decoded, zone))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.__exit__()

    def lines(self, lines: Iterable[SourceLine]) -> Iterator[SourceLine]:
        """Yield lines, decoded where that is possible. Raises UserError: a process was killed."""
        running: deque[tuple[list[SourceLine], Future[bytes]]] = deque()
        for part in _parts(lines):
            running.append((part, self._pool.do([each.text for each in part])))
            if len(running) > 2 * self._jobs:
                yield from _joined(*running.popleft())
        while running:
            yield from _joined(*running.popleft())


def decoded(zone: tzinfo, texts: Sequence[bytes]) -> bytes:
    """Decode lines; return encoded what `Decoded` has of each, or None."""
    reader = FormatReader(Origin("", zone))
    return _encoder.encode([_decoded(reader, text) for text in texts])


def bodies_of(exchange: RecordedExchange) -> bytes:
    """Encode the bodies of an exchange. Raises OverflowError for numbers that no field has."""
    return _encoder.encode(exchange.request) + _encoder.encode(exchange.response)


def _parts(lines: Iterable[SourceLine]) -> Iterator[list[SourceLine]]:
    part: list[SourceLine] = []
    size = 0
    for line in lines:
        part.append(line)
        size += len(line.text)
        if size >= CHUNK_BYTES:
            yield part
            part, size = [], 0
    yield part


def _joined(part: list[SourceLine], future: Future[bytes]) -> Iterator[SourceLine]:
    for line, found in zip(part, _decoder.decode(future.result()), strict=True):
        if found is None:
            yield line
        else:
            made = DecodedLine(*line)
            made.sent, made.document = found.sent, found.document(line)
            yield made


def _decoded(reader: FormatReader, text: bytes) -> Decoded | None:
    document = reader.usual(SourceLine("", 0, text))
    if not isinstance(document, Document) or document.read is None:
        return None
    header = document.header
    if header.request_api_key not in _KEYS or is_controllers(header, bytes(document.request)):
        return None
    try:
        shapes.check(document)
        recorded, listener, is_forwarded = of_document(document, None)
        each = exchange_of(recorded)
        encoded = bodies_of(each)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, OverflowError):
        return None
    line, api, body = each.line, each.line.api, each.request
    if not bodies.is_batch_free(bytes(document.request)):
        return None
    return Decoded(
        document.time + math.ceil(document.read.response_time),
        digest_of(document),
        (
            *(header.request_api_key, header.request_api_version, header.correlation_id),
            header.client_id,
        ),
        document.connection,
        line.host,
        listener,
        is_forwarded,
        line.time,
        line.end,
        line.is_own,
        {"replicaId": bodies.follower_of(body)} if api == "FETCH" else {},
        (each.has_response, each.taken, each.made, each.has_waited, each.busy_ms),
        bodies.is_error_free(bytes(document.response)),
        encoded,
    )
