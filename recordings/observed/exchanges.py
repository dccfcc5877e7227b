"""Files that were recorded, as exchanges in the order in which their requests arrived."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from brokertwin.recordings.formats.documents import Document
from brokertwin.recordings.formats.order import Sorter
from brokertwin.recordings.formats.pipeline import FileReading, read_files, sort
from brokertwin.recordings.formats.summary import Summary
from brokertwin.state.core.events import RequestHeader
from brokertwin.state.observed.exchanges import ObservedExchange


class _Timed(msgspec.Struct, rename="camel"):
    """A document with the stages of its exchange, as Kafka's request log has them, in ms."""

    id: str
    time: int
    request_header: RequestHeader
    request: msgspec.Raw
    broker: int = -1
    response: msgspec.Raw = msgspec.Raw(b"null")
    response_time: float = 0.0
    request_queue_time_ms: float = 0.0
    remote_time_ms: float = 0.0
    response_queue_time_ms: float = 0.0
    send_time_ms: float = 0.0


_decoder = msgspec.json.Decoder(_Timed)


def exchanges_of(
    files: Sequence[Path],
    reading: FileReading,
    summary: Summary,
    on_bytes: Callable[[int], None] = lambda _: None,
) -> Iterator[ObservedExchange]:
    """The exchanges of request logs and captures; damaged lines are counted in `summary`.

    Raises:
        UserError: a file cannot be read, or nobody can tell whose log it is.
    """
    return of_documents(read_files(files, reading, summary, on_bytes), summary)


def of_documents(documents: Iterable[Document], summary: Summary) -> Iterator[ObservedExchange]:
    """The exchanges of documents that have been read."""
    with Sorter() as sorter:
        sort((each for each in documents if each.is_request), sorter, summary)
        for entry in sorter:
            yield exchange_of(entry.document)


def exchange_of(document: bytes) -> ObservedExchange:
    """One document's exchange.

    A log's line says when the answer had been sent; the stages say how long before that a thread
    took the request and the answer was made.
    """
    timed = _decoder.decode(document)
    sent = timed.time + math.ceil(timed.response_time)
    taken = sent - timed.response_time + timed.request_queue_time_ms
    made = sent - timed.response_queue_time_ms - timed.send_time_ms
    return ObservedExchange(
        place=timed.id,
        broker=timed.broker,
        taken=taken,
        made=max(taken, made),
        has_waited=timed.remote_time_ms > 0,
        header=timed.request_header,
        request=bytes(timed.request),
        response=bytes(timed.response),
    )
