"""Recorded exchanges, of clients and of brokers, and all that the observer makes of them."""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from brokertwin.recordings.formats.batches import Headers
from brokertwin.recordings.formats.documents import Document
from brokertwin.recordings.formats.pipeline import Source
from brokertwin.recordings.formats.summary import Summary
from brokertwin.recordings.observed.exchanges import of_documents
from brokertwin.recordings.replay import recording
from brokertwin.recordings.replay.recording import THE_BROKER, Recording
from brokertwin.state.observed.exchanges import ObservedExchange
from brokertwin.state.observed.replication import ReplicationObserver


class Watched(NamedTuple):
    """What was recorded.

    Attributes:
        recording: the exchanges of clients.
        exchanges: those of brokers, too, as they were observed.
        observer: what it made of them.
        until: when the first of the brokers' logs ends, in ms since 1970.
    """

    recording: Recording
    exchanges: Sequence[ObservedExchange]
    observer: ReplicationObserver
    until: float


def watch(
    source: Source, batches: Headers | None = None, observer: ReplicationObserver | None = None
) -> Watched:
    """Read a recording once, for what clients and what brokers said.

    Brokers are observed from where the last of their logs begins: before, a part is missing.

    Args:
        source: of the documents.
        batches: batch headers for Produce requests that have none.
        observer: one that has the brokers' settings.

    Raises:
        UserError: the source cannot be read, or none of the lines is an exchange.
    """
    documents: list[Document] = []

    def kept(summary: Summary) -> Iterator[Document]:
        for document in source(summary):
            documents.append(document)
            yield document

    found = recording.read_from(kept, batches)
    observer = observer or ReplicationObserver()
    exchanges = list(of_documents(documents, Summary()))
    begin, end = common(exchanges)
    seen = [
        each if each.broker >= 0 else each._replace(broker=THE_BROKER)
        for each in exchanges
        if each.broker < 0 or each.taken >= begin
    ]
    observer.observe(seen)
    return Watched(found, seen, observer, end)


def common(exchanges: Sequence[ObservedExchange]) -> tuple[float, float]:
    """From when to when all brokers have logs, in ms since 1970; captures are of one broker."""
    first: dict[int, float] = {}
    last: dict[int, float] = {}
    for each in exchanges:
        if each.broker >= 0:
            first.setdefault(each.broker, each.taken)
            last[each.broker] = max(last.get(each.broker, 0), each.made)
    return max(first.values(), default=0), min(last.values(), default=math.inf)
