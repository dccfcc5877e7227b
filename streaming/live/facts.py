"""Facts of clusters that belong to no entity, as rows that can be written and merged.

Rows are never contradictory: a value is fixed by its key, and a span only grows. So their order and
repeats do not matter.

Event time: a cluster's time is that up to which all of its logs are read. A log without new lines
for `ALIVE_MS` of the micro-batches' time is not waited for.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec
from msgspec import field

from brokertwin.recordings.history import bodies
from brokertwin.recordings.history.exchange import KnownFacts, RecordedExchange

ALIVE_MS = 60_000
"""For how long after its last lines a log is waited for."""


class FactRow(NamedTuple):
    """A fact: cluster, kind of fact, key, value."""

    cluster: str
    what: str
    key: str
    value: Any


class LogSpan(NamedTuple):
    """The lines of a broker in a source: first and last ms, and the last micro-batch with one."""

    first: int
    last: int
    read_at: int


class ClusterFacts(msgspec.Struct):
    """Facts of one cluster.

    Attributes:
        known: the facts that machines use.
        spans: broker to source (topic and partition) to the span of its lines there.
        places: producer id to the ids of the offsets that it committed in transactions.
        addresses: `host:port` to the broker there.
        listeners: the controllers' listeners, whose requests are no clients'.
    """

    known: KnownFacts = field(default_factory=KnownFacts)
    spans: dict[int, dict[str, LogSpan]] = field(default_factory=dict)
    places: dict[int, dict[str, None]] = field(default_factory=dict)
    addresses: dict[str, int] = field(default_factory=dict)
    listeners: dict[str, None] = field(default_factory=dict)

    def add(self, row: FactRow) -> None:
        """Merge a row."""
        known, key, value = self.known, row.key, row.value
        if row.what == "topic":
            known.topics[key] = value
        elif row.what == "producer":
            known.producers[int(key)] = value
        elif row.what == "group":
            groups = known.groups.setdefault(int(key.partition(" ")[0]), [])
            groups += [value] if value not in groups else []
        elif row.what == "place":
            self.places.setdefault(int(key.partition(" ")[0]), {})[value] = None
        elif row.what == "address":
            self.addresses[key] = value
        elif row.what == "listener":
            self.listeners[key] = None
        elif row.what == "span":
            broker, _, source = key.partition(" ")
            self._span(int(broker), source, LogSpan(*value))

    def has(self, what: str, key: str, value: str) -> bool:
        """Return whether a fact that is no span is known."""
        known, (number, _, _) = self.known, key.partition(" ")
        if what == "topic":
            return known.topics.get(key) == value
        if what == "producer":
            return known.producers.get(int(key)) == value
        if what == "group":
            return value in known.groups.get(int(number), ())
        return value in self.places.get(int(number), {})

    def _span(self, broker: int, source: str, new: LogSpan) -> None:
        """Widen a span; a broker's log is covered where all of its sources are read."""
        sources = self.spans.setdefault(broker, {})
        sources[source] = widened(sources.get(source, new), new)
        used = _alive(sources.values(), new.read_at)
        self.known.logs[broker] = max(e.first for e in used), min(e.last for e in used)

    def event_time(self, now: int) -> int:
        """Up to when the logs of the cluster are read, in ms since 1970.

        Args:
            now: time of the micro-batch.
        """
        every = [span for sources in self.spans.values() for span in sources.values()]
        alive = _alive(every, now)
        if alive:
            return min(each.last for each in alive)
        return max((each.last for each in every), default=0)


def widened(former: LogSpan, new: LogSpan) -> LogSpan:
    """The span of both."""
    return LogSpan(
        min(former.first, new.first),
        max(former.last, new.last),
        max(former.read_at, new.read_at),
    )


def _alive(spans: Iterable[LogSpan], now: int) -> list[LogSpan]:
    return [each for each in spans if each.read_at >= now - ALIVE_MS]


def learned(
    cluster: str,
    source: str,
    exchanges: Iterable[RecordedExchange],
    facts: ClusterFacts,
    now: int,
) -> Iterator[FactRow]:
    """Yield the facts of exchanges that are not known yet.

    Args:
        cluster: name of the cluster.
        source: topic and partition of the exchanges.
        exchanges: in any order.
        facts: those that are known.
        now: time of the micro-batch, in ms since 1970.
    """
    new, places = KnownFacts(), dict[tuple[int, str], None]()
    for each in exchanges:
        new.learn(each)
        if each.line.api == "TXN_OFFSET_COMMIT":
            producer = each.request.get("producerId", -1)
            places |= {(producer, place): None for place in committed_places(each)}
    for what, key, value in _facts_of(new, places):
        if not facts.has(what, key, value):
            yield FactRow(cluster, what, key, value)
    for broker, span in new.logs.items():
        read = LogSpan(*span, now)
        former = facts.spans.get(broker, {}).get(source, read)
        yield FactRow(cluster, "span", f"{broker} {source}", widened(former, read))


def _facts_of(new: KnownFacts, places: Iterable[tuple[int, str]]) -> Iterator[tuple[str, str, str]]:
    """Kind, key and value of facts, without spans."""
    yield from (("topic", topic_id, name) for topic_id, name in new.topics.items())
    yield from (("producer", str(number), name) for number, name in new.producers.items())
    for number, groups in new.groups.items():
        yield from (("group", f"{number} {group}", group) for group in groups)
    yield from (("place", f"{number} {place}", place) for number, place in places)


def offset_id(group: str, topic: str, partition: int) -> str:
    """The id of a committed offset as an entity; topic is its name, or its id if unknown."""
    return msgspec.json.encode((group, topic, partition)).decode()


def committed_places(exchange: RecordedExchange) -> Iterator[str]:
    """The ids of the offsets in an OffsetCommit or TxnOffsetCommit, topics as in the request."""
    group = str(exchange.request.get("groupId"))
    for topic in exchange.request.get("topics") or ():
        for partition in topic["partitions"]:
            yield offset_id(group, bodies.topic_of(topic), partition["partitionIndex"])
