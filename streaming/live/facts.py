"""Facts of clusters that belong to no entity, as rows that can be written and merged.

Rows are never contradictory: a value is fixed by its key, and a span only grows. So their order and
repeats do not matter. A row of a busy second replaces that of `DELAYS_KEPT` seconds before.

Expiry: a fact that exchanges keep showing is written again each day. One of `EXPIRING` that none
has shown for `FACTS_KEPT_MS` of event time is forgotten. The newest state of a broker stays,
because a broker that is down sends no heartbeats. The others are few: brokers, their logs,
addresses and busy seconds, settings of created topics, and deletions of topics. A deletion explains
what became of a group's offset, which may be as old as the group.

Holes: a log whose lines come in one source has a hole if the session of a follower's fetcher goes
on with a later epoch, at least `LOST_MS` later.

Event time: a cluster's time is that up to which all of its logs are read. A log without new lines
for `ALIVE_MS` of the micro-batches' time is not waited for.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec
from msgspec import field

from brokertwin.recordings.history.brokers import BrokerPresence, BrokerSpan, BrokerState
from brokertwin.recordings.history.exchange import KnownFacts, RecordedExchange
from brokertwin.recordings.history.holes import MISSED_MIN, number_of, spans_of

ALIVE_MS = 60_000
"""For how long after its last lines a log is waited for."""

BEHIND_MS = 3_600_000
"""How old the event time of a cluster is at least if the query is catching up."""

DELAYS_KEPT = 1_000
"""Number of seconds of which delays of a broker are kept in the topic."""

REFRESHED_MS = 86_400_000
"""After how long a fact that is shown again is written again."""

FACTS_KEPT_MS = 8 * REFRESHED_MS
"""How long a fact is kept after it was shown: a day longer than any entity (`kinds`)."""

FACTS_MAX = 500_000
"""Maximum number of facts of `EXPIRING` of a cluster. Beyond it, those shown first are forgotten:
then topics are named by their ids, and producers have no transactional id."""

LOST_MS = 10_000
"""Minimum length of a hole: lines may come in another order by some seconds."""

HOLES_MAX = 100
"""Maximum number of holes of a cluster; the first ones are forgotten."""

EXPIRING = frozenset({"topic", "producer", "place", "presence", "fetch", "session"})


class FactRow(NamedTuple):
    """A fact: cluster, kind of fact, key, value, and when it was shown, in ms since 1970."""

    cluster: str
    what: str
    key: str
    value: Any
    shown: int = 0


class LogSpan(NamedTuple):
    """The lines of a broker in a source: first and last ms, and the last micro-batch with one.

    `partial_until` is the last ms up to which `kinds.parts_for_replicas` left parts out; else 0.
    """

    first: int
    last: int
    read_at: int
    partial_until: int = 0


class ClusterFacts(msgspec.Struct):
    """Facts of one cluster.

    Attributes:
        known: the facts that machines use; samples of replicas are in no output of live.
        spans: broker to source (topic and partition) to the span of its lines there.
        addresses: `host:port` to the broker there.
        listeners: the controllers' listeners, whose requests are no clients'.
        sessions: broker and fetcher to its last fetch: session, epoch, and when the response was
            sent, in ms since 1970.
        shown: kind and key of each fact that may expire to when it was shown, in ms since 1970.
        judged_at: time of the first micro-batch with lines of a controller, or with a setting, that
            let high watermarks be judged; 0 if there is none.
        partial_until: up to when parts for replicas were left out, in ms since 1970.
    """

    known: KnownFacts = field(default_factory=lambda: KnownFacts(has_samples=False))
    spans: dict[int, dict[str, LogSpan]] = field(default_factory=dict)
    addresses: dict[str, int] = field(default_factory=dict)
    listeners: dict[str, None] = field(default_factory=dict)
    sessions: dict[str, tuple[str, int, int]] = field(default_factory=dict)
    shown: dict[tuple[str, str], int] = field(default_factory=dict)
    judged_at: int = 0
    partial_until: int = 0

    def has_only(self, broker: int, source: str) -> bool:
        """Whether the lines of a broker have come in this source alone, as far as is known."""
        return not self.spans.get(broker, {}).keys() - {source}

    def judges_replicas(self, now: int) -> bool:
        """Whether high watermarks are judged: from the next micro-batch on, in all of its tasks."""
        return 0 < self.judged_at < now

    def add(self, row: FactRow) -> None:
        known, key, value = self.known, row.key, row.value
        if row.what in EXPIRING:
            self.shown[row.what, key] = max(row.shown, self.shown.get((row.what, key), 0))
        if row.what == "topic":
            known.topics[key] = value
        elif row.what == "producer":
            known.producers[int(key)] = value
        elif row.what == "place":
            producer, _, _ = key.partition(" ")
            group, topic, partition = msgspec.json.decode(value)
            known.places.setdefault(int(producer), {})[group, topic, partition] = None
        elif row.what == "presence":
            state, end = value
            broker, _, begin = key.partition(" ")
            presence = known.presences.setdefault(int(broker), BrokerPresence())
            presence.add(BrokerSpan(BrokerState(state), float(begin), end))
        elif row.what == "fetch":
            leader, follower, connection = key.split(" ", 2)
            known.note_fetch(f"{leader} {follower}", connection, value)
        elif row.what == "session":
            self.sessions[key] = value[0], value[1], value[2]
        elif row.what == "hole":
            hole = int(key.partition(" ")[2]), value
            known.holes = spans_of([*known.holes, hole])[-HOLES_MAX:]
        elif row.what == "fetch-wait":
            known.fetch_wait_ms = max(known.fetch_wait_ms, value)
        elif row.what == "delay":
            known.note_delay(int(key.partition(" ")[0]), *value)
        elif row.what == "deleted":
            topic, _, time = key.rpartition(" ")
            known.note_deletion(topic, int(time))
        elif row.what == "precise":
            known.precise |= {int(key): None} if key else {}  # one without a broker is older
        elif row.what == "broker":
            known.brokers[int(key)] = None
        elif row.what == "min-isr":
            known.min_isr[key] = value
        elif row.what == "address":
            self.addresses[key] = value
        elif row.what == "listener":
            self.listeners[key] = None
        elif row.what == "span":
            broker, _, source = key.partition(" ")
            self._span(int(broker), source, LogSpan(*value))
        elif row.what == "judged":
            self.judged_at = min(self.judged_at or value, value)
        if self.judged_at or known.presences or 1 in known.min_isr.values():
            known.whole_since = self.partial_until

    def is_behind(self, now: int, event_time: int) -> bool:
        """Return whether the query is reading lines of long ago, such as those of a week."""
        is_old = event_time < now - BEHIND_MS
        return is_old and any(_alive(sources.values(), now) for sources in self.spans.values())

    def forget(self, what: str, key: str) -> None:
        """Remove a fact of `EXPIRING`."""
        known, (name, _, rest) = self.known, key.partition(" ")
        self.shown.pop((what, key), None)
        if what == "topic":
            known.topics.pop(key, None)
        elif what == "producer":
            known.producers.pop(int(key), None)
        elif what == "place":
            group, topic, partition = msgspec.json.decode(rest)
            _without(known.places, int(name), (group, topic, partition))
        elif what == "presence" and int(name) in known.presences:
            spans = known.presences[int(name)].spans
            spans[:] = [each for each in spans if each.begin != float(rest)]
            if not spans:
                del known.presences[int(name)]
        elif what == "session":
            self.sessions.pop(key, None)
        elif what == "fetch":
            follower, _, connection = rest.partition(" ")
            _without(known.fetched, f"{name} {follower}", connection)

    def expired(self) -> list[tuple[str, str]]:
        """Return the kinds and keys of facts that no exchange has shown for long, or of too many.

        The time is that of the last micro-batch with lines. After one that took longer than
        `ALIVE_MS`, the log that is behind would not be waited for.
        """
        read_at = max(
            (span.read_at for sources in self.spans.values() for span in sources.values()),
            default=0,
        )
        since = self.event_time(read_at) - FACTS_KEPT_MS
        newest = {
            ("presence", f"{broker} {presence.spans[-1].begin}")
            for broker, presence in self.known.presences.items()
        }
        if len(self.shown) > FACTS_MAX:
            since = max(since, sorted(self.shown.values())[-FACTS_MAX])
        return [e for e, shown in self.shown.items() if shown < since and e not in newest]

    def _span(self, broker: int, source: str, new: LogSpan) -> None:
        """Widen a span; a broker's log is covered where all of its sources are read."""
        sources = self.spans.setdefault(broker, {})
        sources[source] = widened(sources.get(source, new), new)
        used = _alive(sources.values(), new.read_at)
        self.known.logs[broker] = max(e.first for e in used), min(e.last for e in used)
        self.partial_until = max(self.partial_until, new.partial_until)

    def event_time(self, now: int) -> int:
        """Up to when the logs of the cluster are read, in ms since 1970."""
        every = [span for sources in self.spans.values() for span in sources.values()]
        alive = _alive(every, now)
        if alive:
            return min(each.last for each in alive)
        return max((each.last for each in every), default=0)


def _without(of: dict[Any, dict[Any, Any]], name: Any, key: Any) -> None:
    of.get(name, {}).pop(key, None)
    if not of.get(name, True):
        del of[name]


def widened(former: LogSpan, new: LogSpan) -> LogSpan:
    return LogSpan(min(former[0], new[0]), *map(max, former[1:], new[1:]))


def _alive(spans: Iterable[LogSpan], now: int) -> list[LogSpan]:
    return [each for each in spans if each.read_at >= now - ALIVE_MS]


def learned(
    cluster: str,
    source: str,
    exchanges: Iterable[RecordedExchange],
    facts: ClusterFacts,
    now: int,
    is_partial: bool = False,
) -> Iterator[FactRow]:
    """Yield the facts of exchanges that are not known yet.

    Args:
        cluster: name of the cluster.
        source: topic and partition of the exchanges.
        exchanges: in any order.
        facts: those that are known.
        now: time of the micro-batch, in ms since 1970.
        is_partial: whether parts for replicas are left out.
    """
    new, has_alters, alone = KnownFacts(), False, defaultdict[int, list[RecordedExchange]](list)
    for each in exchanges:
        new.learn(each)
        has_alters |= each.line.api == "ALTER_PARTITION"
        if facts.has_only(each.line.broker, source):
            alone[each.line.broker].append(each)
    for broker, of_broker in alone.items():
        for what, key, value in _holes_between(broker, of_broker, facts):
            yield FactRow(cluster, what, key, value, new.last)
    for what, key, value in _facts_of(source, new, facts, now, is_partial):
        yield FactRow(cluster, what, key, value, new.last)
    judges = has_alters or any(
        each.presences or 1 in each.min_isr.values() for each in (new, facts.known)
    )
    if judges and not facts.judged_at:
        yield FactRow(cluster, "judged", "", now)


def _holes_between(
    broker: int, exchanges: Iterable[RecordedExchange], facts: ClusterFacts
) -> Iterator[tuple[str, str, Any]]:
    """Yield facts about the last fetch of each fetcher, and holes since the one before.

    A log with lines in the middle of a jump of epochs is sampled, and has no hole.
    """
    sessions: dict[str, tuple[str, int, int]] = {}
    ordered = sorted(exchanges, key=lambda each: each.line.end)
    ends = [span.last for span in facts.spans.get(broker, {}).values()]
    ends += (each.line.end for each in ordered)
    for each in ordered:
        end, numbered = each.line.end, number_of(each, 0)
        if numbered is None or not numbered.fetcher:
            continue
        key = f"{broker} {numbered.fetcher}"
        former = sessions.get(key) or facts.sessions.get(key)
        if former is not None:
            session, epoch, since = former
            missed = numbered.number - (epoch if session == numbered.sequence else 0) - 1
            quarter = (end - since) / 4
            is_lost = missed >= MISSED_MIN and end - since >= LOST_MS and broker in facts.spans
            if is_lost and not any(since + quarter < time < end - quarter for time in ends):
                yield "hole", f"{broker} {since}", end
        if former is None or end > former[2]:
            sessions[key] = numbered.sequence, numbered.number, end
    yield from (("session", key, session) for key, session in sessions.items())


def _facts_of(
    source: str, new: KnownFacts, facts: ClusterFacts, now: int, is_partial: bool
) -> Iterator[tuple[str, str, Any]]:
    """Kind, key and value of facts that are not known, or were shown too long ago."""
    known = facts.known

    def is_due(what: str, key: str) -> bool:
        return facts.shown.get((what, key), 0) <= new.last - REFRESHED_MS

    for topic_id, name in new.topics.items():
        if topic_id not in known.topics or is_due("topic", topic_id):
            yield "topic", topic_id, name
    for number, name in new.producers.items():
        if known.producers.get(number) != name or is_due("producer", str(number)):
            yield "producer", str(number), name
    for number, places in new.places.items():
        for place in places:
            value = msgspec.json.encode(place).decode()
            key = f"{number} {value}"
            if place not in known.places.get(number, {}) or is_due("place", key):
                yield "place", key, value
    for broker, span in new.logs.items():
        read = LogSpan(*span, now, new.last if is_partial else 0)
        former = facts.spans.get(broker, {}).get(source, read)
        yield "span", f"{broker} {source}", widened(former, read)
    for broker in new.precise.keys() - known.precise.keys():
        yield "precise", str(broker), None
    for broker in new.brokers.keys() - known.brokers.keys():
        yield "broker", str(broker), None
    yield from _of_brokers(new, known)


def _of_brokers(new: KnownFacts, known: KnownFacts) -> Iterator[tuple[str, str, Any]]:
    """Kind, key and value of facts about replication."""
    for broker, found in new.presences.items():
        former = known.presences.get(broker, BrokerPresence()).spans
        merged = BrokerPresence([BrokerSpan(*msgspec.structs.astuple(each)) for each in former])
        for each in found.spans:
            merged.add(each)
        for each in merged.spans:
            if each not in former:
                yield "presence", f"{broker} {each.begin}", (each.state, each.end)
    for pair, connections in new.fetched.items():
        yield from (("fetch", f"{pair} {name}", time) for name, time in connections.items())
    if new.fetch_wait_ms > known.fetch_wait_ms:
        yield "fetch-wait", "", new.fetch_wait_ms
    for second_of, delay_ms in new.delays.items():
        broker, second = map(int, second_of.split(" "))
        yield "delay", f"{broker} {second % DELAYS_KEPT}", (second, delay_ms)
    for topic, times in new.deleted.items():
        for time in set(times).difference(known.deleted.get(topic, ())):
            yield "deleted", f"{topic} {time}", None
    for topic, min_isr in new.min_isr.items():
        if known.min_isr.get(topic) != min_isr:
            yield "min-isr", topic, min_isr
