"""Rows of topics as exchanges, in every form that `recordings/formats` reads.

One row is one line of a log or one document. Rows of a partition are read in their order, so an
entry may continue in the next rows of the same micro-batch.

The broker of a line is, in this order: the field of a captured document, the row's header `broker`,
the broker at the local address of the connection, a number in the name of a host, pod or container
around the line. Otherwise it is the default broker for captured documents, and a negative
number for each local address in logs.
"""

import zlib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import UTC, tzinfo
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import msgspec

from brokertwin.errors import UserError
from brokertwin.recordings.formats import kroxylicious
from brokertwin.recordings.formats.batches import Completion
from brokertwin.recordings.formats.brokers import Brokers
from brokertwin.recordings.formats.documents import (
    Document,
    UnpairedDocuments,
    controllers_listeners,
)
from brokertwin.recordings.formats.lines import SourceLine
from brokertwin.recordings.formats.pipeline import read_with
from brokertwin.recordings.formats.readers import FormatReader, Origin
from brokertwin.recordings.formats.summary import Summary
from brokertwin.recordings.history import bodies
from brokertwin.recordings.history.exchange import RecordedExchange, exchange_of
from brokertwin.recordings.replay.recording import THE_BROKER, of_documents
from brokertwin.streaming.live.facts import ClusterFacts

NO_ADDRESS = -1
"""The broker of lines without a local address, such as those of Kroxylicious."""

ADDRESSES = 1_000_000


class TopicLine(NamedTuple):
    """A row of a topic; cluster and broker are those that the row or the options name."""

    source: str
    offset: int
    value: bytes
    cluster: str
    broker: int | None = None


class ReadExchange(msgspec.Struct, array_like=True, frozen=True):
    """An exchange, and a hash of connection, correlation id and time, which identify it."""

    number: int
    exchange: RecordedExchange


class HalfExchange(msgspec.Struct, array_like=True, frozen=True):
    """A request or response of Kroxylicious without its other half among the rows.

    The fields are those of `kroxylicious.Wrapped`, and the broker.
    """

    file: str
    line: int
    time: int
    session: str
    entry: bytes
    unit_ms: int
    label: str
    broker: int

    @classmethod
    def of(cls, wrapped: kroxylicious.Wrapped, broker: int) -> "HalfExchange":
        line, time, session, entry, unit_ms, label = wrapped
        return cls(line.file, line.number, time or 0, session, entry, unit_ms, label, broker)

    @property
    def wrapped(self) -> kroxylicious.Wrapped:
        line = SourceLine(self.file, self.line, b"")
        return kroxylicious.Wrapped(
            line, self.time, self.session, self.entry, self.unit_ms, self.label
        )


class PairsOfRows(kroxylicious.Pairs):
    """Pairs entries, and keeps those without their other half.

    Attributes:
        halves: in the order of the lines; requests come after `rest`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.halves: list[kroxylicious.Wrapped] = []
        self._requests: dict[tuple[str, int], kroxylicious.Wrapped] = {}

    def take(self, wrapped: kroxylicious.Wrapped) -> Iterator[Document | UnpairedDocuments]:
        """Yield the documents that the entry completes."""
        yield from super().take(wrapped)
        newest = next(reversed(self._pending), None)
        if newest is not None and self._pending[newest].line == wrapped.line:
            self._requests[newest] = wrapped

    def missed(self, wrapped: kroxylicious.Wrapped) -> None:
        self.halves.append(wrapped)

    def rest(self) -> Iterator[Document]:
        self.halves += [self._requests[key] for key in self._pending]
        yield from ()


class ReadRows(NamedTuple):
    """Content of the rows of a partition.

    Attributes:
        exchanges: by cluster; requests without a recorded response are left out.
        halves: cluster and half.
        addresses: by cluster, `host:port` to the broker there.
        listeners: by cluster, listeners of controllers.
        counts: number of lines, and what they are: `exchanges`, those of the cluster's own
            controllers (`internal`), requests without a recorded response (`unanswered`), `halves`,
            `damaged` lines, and `other` lines, which continue an entry or are of another log.
    """

    exchanges: dict[str, list[ReadExchange]]
    halves: list[tuple[str, HalfExchange]]
    addresses: dict[str, dict[str, int]]
    listeners: dict[str, set[str]]
    counts: Counter[str]


def read_rows(
    lines: Iterable[TopicLine], facts: Mapping[str, ClusterFacts], zone: tzinfo = UTC
) -> ReadRows:
    """Read the rows of partitions.

    Args:
        lines: those of a partition in their order.
        facts: known facts by cluster.
        zone: time zone of lines that name none.
    """
    by_origin: dict[tuple[str, str, int | None], list[SourceLine]] = defaultdict(list)
    for each in lines:
        line = SourceLine(each.source, each.offset, each.value)
        by_origin[each.source, each.cluster, each.broker].append(line)
    documents: dict[str, list[Document]] = defaultdict(list)
    found = ReadRows({}, [], {}, {}, Counter())
    for (source, cluster, broker), own in by_origin.items():
        summary, pairs = Summary(), PairsOfRows()
        reader = FormatReader(Origin(source, zone), pairs)
        read = list(read_with(reader, iter(own), summary))
        brokers = _Brokers(source, read, facts.get(cluster, ClusterFacts()).addresses)
        for document in read:
            if document.broker is None:
                document.broker = broker if broker is not None else brokers.of(document)
        documents[cluster] += read
        found.addresses.setdefault(cluster, {}).update(brokers.addresses)
        of_halves = NO_ADDRESS if broker is None else broker
        found.halves.extend((cluster, HalfExchange.of(each, of_halves)) for each in pairs.halves)
        counted = {
            "lines": summary.lines,
            "halves": len(pairs.halves),
            "damaged": sum(summary.dead.values()),
        }
        found.counts.update({name: number for name, number in counted.items() if number})
        others = 2 * summary.lines - sum(counted.values()) - len(read)
        found.counts.update({"other": others} if others > 0 else {})
    for cluster, own_documents in documents.items():
        listeners = controllers_listeners(own_documents)
        found.listeners[cluster] = listeners
        known = listeners | facts.get(cluster, ClusterFacts()).listeners.keys()
        found.exchanges[cluster] = list(_exchanges(own_documents, known, found.counts))
    return found


def _exchanges(
    documents: list[Document], listeners: Collection[str], counts: Counter[str]
) -> Iterator[ReadExchange]:
    times = {each.place: each.time for each in documents}
    error_free = {e.place for e in documents if bodies.is_error_free(bytes(e.response))}
    recording = of_documents(documents, Completion(None, {}), listeners)
    counts["damaged"] += len(recording.broken)
    for found, kind in ((recording.exchanges, "exchanges"), (recording.own, "internal")):
        for each in found:
            counts[kind if each.is_recorded else "unanswered"] += 1
            if each.is_recorded:
                is_internal = kind == "internal"
                header = each.header
                named = f"{each.connection} {header.correlation_id} {times[each.id]} {each.api}"
                number = int.from_bytes(blake2b(named.encode(), digest_size=8).digest())
                yield ReadExchange(number, exchange_of(each, is_internal, each.id in error_free))


class _Brokers:
    """Finds the broker of a document of a source."""

    def __init__(
        self, source: str, documents: list[Document], addresses: Mapping[str, int]
    ) -> None:
        self._brokers = Brokers(Path(source), source, lambda: iter(documents))
        for address, broker in addresses.items():
            self._brokers.learn(address, broker)
        for document in documents:
            self._brokers.note(document)

    @property
    def addresses(self) -> dict[str, int]:
        """`host:port` to the broker there."""
        return self._brokers.addresses

    def of(self, document: Document) -> int:
        """The broker; negative if it is unknown."""
        try:
            found = self._brokers.of(document)
        except UserError:
            found = None
        if found is not None:
            return found
        if not document.is_from_log:
            return THE_BROKER
        local = document.connection.split("-")[0]
        if ":" not in local:
            return NO_ADDRESS
        return NO_ADDRESS - 1 - zlib.crc32(local.encode()) % ADDRESSES
