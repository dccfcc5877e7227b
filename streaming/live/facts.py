"""Facts of clusters that belong to no entity, as rows that can be written and merged.

Rows are never contradictory: a value is fixed by its key, and a span only grows. So their order and
repeats do not matter.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec
from msgspec import field

from brokertwin.recordings.history import bodies
from brokertwin.recordings.history.exchange import KnownFacts, RecordedExchange

STALE_MS = 600_000
"""A source without lines of a broker for so long is not counted as a part of its log."""


class FactRow(NamedTuple):
    """A fact: cluster, kind of fact, key, value."""

    cluster: str
    what: str
    key: str
    value: Any


class ClusterFacts(msgspec.Struct):
    """Facts of one cluster.

    Attributes:
        known: the facts that machines use.
        spans: broker to source (topic and partition) to the first and last ms of its lines there.
        places: producer id to the ids of the offsets that it committed in transactions.
        addresses: `host:port` to the broker there.
    """

    known: KnownFacts = field(default_factory=KnownFacts)
    spans: dict[int, dict[str, tuple[int, int]]] = field(default_factory=dict)
    places: dict[int, dict[str, None]] = field(default_factory=dict)
    addresses: dict[str, int] = field(default_factory=dict)

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
        elif row.what == "span":
            broker, _, source = key.partition(" ")
            self._span(int(broker), source, (value[0], value[1]))

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

    def _span(self, broker: int, source: str, new: tuple[int, int]) -> None:
        """Widen a span; the log of a broker is covered where all of its sources are read."""
        sources = self.spans.setdefault(broker, {})
        first, last = sources.get(source, new)
        sources[source] = min(first, new[0]), max(last, new[1])
        newest = max(last for _, last in sources.values())
        used = [each for each in sources.values() if each[1] >= newest - STALE_MS]
        self.known.logs[broker] = max(f for f, _ in used), min(last for _, last in used)


def learned(
    cluster: str, source: str, exchanges: Iterable[RecordedExchange], facts: ClusterFacts
) -> Iterator[FactRow]:
    """Yield the facts of exchanges that are not known yet.

    Args:
        cluster: name of the cluster.
        source: topic and partition of the exchanges.
        exchanges: in any order.
        facts: those that are known.
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
        former = facts.spans.get(broker, {}).get(source, span)
        whole = min(former[0], span[0]), max(former[1], span[1])
        yield FactRow(cluster, "span", f"{broker} {source}", whole)


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
