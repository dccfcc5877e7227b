"""The timeline of a client id: its part in the timelines of its producers, groups and sessions.

Other requests are listed only if they were refused, with the causes that their partitions show.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property

from brokertwin.protocol.errors import Error, error_name
from brokertwin.recordings import sentences
from brokertwin.recordings.explain import groups
from brokertwin.recordings.explain.groups import GroupTimeline
from brokertwin.recordings.explain.partitions import TRIED, causes_in, refused_in
from brokertwin.recordings.explain.producers import ProducerTimeline
from brokertwin.recordings.explain.sessions import SessionTimeline
from brokertwin.recordings.explain.story import SHOWN, TimelineEntry, TimelineError, absent
from brokertwin.recordings.history import bodies
from brokertwin.recordings.history.clients import CLIENTS
from brokertwin.recordings.history.exchange import exchange_of
from brokertwin.recordings.history.findings import ClientId, ClientThrottled, DeprecatedVersion
from brokertwin.recordings.history.recording import observed_recording
from brokertwin.recordings.history.sessions import NONE
from brokertwin.recordings.history.words import moment
from brokertwin.recordings.replay.recording import Exchange, Recording
from brokertwin.wording import counted, some

OF_SESSIONS = frozenset({Error.FETCH_SESSION_ID_NOT_FOUND, Error.INVALID_FETCH_SESSION_EPOCH})

FEW = 5
"""Requests up to which a connection is short."""

CUT_OFF_MIN, CUT_OFF_PART = 10, 0.9
"""Number and part of the connections that have to end in the same way."""

RECONNECT_S = 2.0
"""Mean time between connections up to which a client seems to connect again and again."""


def entry_of(exchange: Exchange) -> TimelineEntry:
    """An entry with the errors of a response, and the topics that have them."""
    topics = some(list(dict.fromkeys(bodies.refused_topics(exchange.response))), SHOWN)
    codes = dict.fromkeys(bodies.errors(exchange.response))
    return TimelineEntry.at(
        exchange_of(exchange).line, topics, [], [TimelineError(code) for code in codes]
    )


class ClientTimeline:
    """The requests of a client id in a recording.

    Args:
        exchanges: those of all clients.
        key: the client id.
        own: those of brokers, which show the state of partitions, too.

    Attributes:
        producers: the transactional ids, or producer ids, that it used.

    Raises:
        UserError: the recording has no such client.
    """

    def __init__(
        self, exchanges: Sequence[Exchange], key: str, own: Sequence[Exchange] = ()
    ) -> None:
        self._all = Recording([each for each in exchanges if not each.is_text], [], own=own)
        self._recording = observed_recording(exchanges)
        self._own = sorted(
            (each for each in exchanges if each.header.client_id == key), key=lambda each: each.time
        )
        if not self._own:
            raise absent("client", key, sorted({each.header.client_id or "" for each in exchanges}))
        self.key = key
        self.producers = list(dict.fromkeys(p for each in self._own for p in producers_of(each)))
        self.groups = list(dict.fromkeys(g for each in self._own for g in groups_of(each)))

    def story(self) -> list[TimelineEntry]:
        """One entry for each request that is part of a timeline, or was refused."""
        entries: dict[str, TimelineEntry] = {}
        for entry in self._of_timelines():
            if entry.client == self.key:
                entries[entry.id] = (
                    _joined(entries[entry.id], entry) if entry.id in entries else entry
                )
        for each in self._own:
            if each.id not in entries and (each.is_text or bodies.errors(each.response)):
                entries[each.id] = entry_of(each)
            if each.is_text:
                entries[each.id] = _timed(entries[each.id], each)
            wait_ms = (each.response or {}).get("throttleTimeMs") or 0
            if wait_ms > 0:
                entry = entries.get(each.id) or TimelineEntry.at(exchange_of(each).line, "", [], [])
                notes = [*entry.notes, f"told to wait {wait_ms} ms for its quotas"]
                entries[each.id] = entry._replace(notes=notes)
        for place, refused in causes_in(self.partitions, self._all, entries.keys()):
            entries[place] = with_cause(entries[place], refused)
        return [entries[each.id] for each in self._own if each.id in entries]

    def ending(self) -> list[str]:
        """Counts of requests and refusals, and the commands for the timelines."""
        first, last = min(each.time for each in self._own), max(each.end for each in self._own)
        ways = len({each.connection for each in self._own})
        codes = Counter(
            code for each in self._own for code in dict.fromkeys(bodies.errors(each.response))
        )
        refused = ", ".join(f"{error_name(code)} {n}" for code, n in codes.most_common())
        has_responses = any(each.is_recorded for each in self._own)
        nothing = "nothing was refused" if has_responses else "the log has no responses"
        if any(each.is_text and each.is_recorded and not each.response for each in self._own):
            nothing = "the log shows no refusal; it does not have the bodies of all responses"
        requests = f"{counted(len(self._own), 'request')} over {counted(ways, 'connection')}"
        lines = [
            f"client {self.key}: {requests}, {moment(first)} to {moment(last)}",
            f"refused: {refused}" if refused else nothing,
            *_cut_off(self._own),
        ]
        for each in self._recording.found(CLIENTS, ClientThrottled, DeprecatedVersion):
            if each.subject == ClientId(self.key or "?"):
                is_throttled = isinstance(each, ClientThrottled)
                what = "throttled by quotas" if is_throttled else "API version that Kafka 4 refuses"
                lines.append(f"{what}: {sentences.said(each)}")
        lines += [f"explain producer {each} tells its whole story" for each in self.producers]
        lines += [f"explain group {each} tells its whole story" for each in self.groups]
        if self.partitions:
            named = some(self.partitions, TRIED)
            lines.append(f"explain partition TOPIC-N tells the whole story of {named}")
        if any(each.is_text for each in self._own):
            lines += _latencies(self._own)
        return lines

    @property
    def lost_sessions(self) -> list[str]:
        """The fetch sessions that a broker did not know any more."""
        lost = dict.fromkeys(
            each.body().get("sessionId", NONE)
            for each in self._own
            if each.api == "FETCH" and OF_SESSIONS.intersection(bodies.errors(each.response))
        )
        return [str(each) for each in lost if each != NONE]

    @cached_property
    def partitions(self) -> list[str]:
        """The partitions for whose state requests were refused."""
        return list(dict.fromkeys(name for _, name in self._refused_partitions()))

    @property
    def topics(self) -> set[str]:
        """The names and ids of their topics."""
        found = {topic for topic, _ in self._refused_partitions()}
        names = self._recording.known.topics
        found |= {names[each] for each in found & names.keys()}
        return found | {topic_id for topic_id, name in names.items() if name in found}

    def _refused_partitions(self) -> Iterator[tuple[str, str]]:
        """The topic or its id of each such partition, and the partition's name."""
        for each in self._own:
            for topic, number in refused_in(each):
                yield topic, f"{self._recording.known.named(topic)}-{number}"

    def _of_timelines(self) -> Iterator[TimelineEntry]:
        for key in self.producers:
            yield from ProducerTimeline(self._recording, key).story()
        for key in self.groups:
            yield from GroupTimeline(self._recording, key).story()
        for session in self.lost_sessions:
            yield from SessionTimeline(self._recording, session).story()


def _timed(entry: TimelineEntry, exchange: Exchange) -> TimelineEntry:
    """The entry with the response of a client's log: its time, and its error."""
    where = f"broker {exchange.broker}" if exchange.broker >= 0 else "a broker"
    said = f"response of {where}"
    if exchange.latency_ms >= 0:
        said += f" after {exchange.latency_ms:.6g} ms"
    if not exchange.is_recorded:
        said = f"no response of {where} in the log"
    error = (exchange.response or {}).get("errorMessage") or ""
    parts = (entry.said, said, error if error != "NONE" else "")
    return entry._replace(said="; ".join(filter(None, parts)))


def _latencies(exchanges: Sequence[Exchange]) -> list[str]:
    """Number of requests in a client's log and times of responses, by API."""
    lines = []
    for api, count in Counter(each.api for each in exchanges).most_common():
        responses = [each.latency_ms for each in exchanges if each.api == api and each.is_recorded]
        latencies = sorted(each for each in responses if each >= 0)
        line = f"{api}: {counted(count, 'request')}"
        if latencies:
            middle = latencies[len(latencies) // 2]
            line += f", median {middle:.6g} ms, longest {latencies[-1]:.6g} ms"
        if len(responses) < count:
            line += f", {count - len(responses)} without a response in the log"
        lines.append(line)
    return lines


def _cut_off(exchanges: Sequence[Exchange]) -> list[str]:
    """Say that almost all connections ended after the same few requests, if they did."""
    connections: dict[str, list[Exchange]] = {}
    for each in exchanges:
        if each.is_text:  # it does not name connections
            return []
        connections.setdefault(each.connection, []).append(each)
    apis = Counter(tuple(e.api for e in own) for own in connections.values() if len(own) <= FEW)
    first, count = apis.most_common(1)[0] if apis else ((), 0)
    if count < CUT_OFF_MIN or count < CUT_OFF_PART * len(connections):
        return []
    own = [own for own in connections.values() if tuple(each.api for each in own) == first]
    seconds = (own[-1][-1].end - own[0][0].time) / 1000
    if seconds > count * RECONNECT_S:
        return []
    said = (
        f"unknown: {count} of {len(connections)} connections in {seconds:.0f} s ended after"
        f" {', '.join(first)}; the log does not show why. A broker closes the connection at an API"
        " version that it does not have: its server.log then has `unsupported version`, its request"
        " log no line"
    )
    return [said]


def producers_of(exchange: Exchange) -> list[str]:
    return list(
        dict.fromkeys(
            holder.name or str(holder.producer_id)
            for holder in bodies.holders_of(exchange.api, exchange.body(), exchange.response)
            if holder.name or holder.producer_id != bodies.NO_PRODUCER
        )
    )


def groups_of(exchange: Exchange) -> list[str]:
    group = exchange.body().get("groupId") if exchange.api in groups.APIS else None
    return [group] if group is not None and exchange.is_recorded else []


def with_cause(entry: TimelineEntry, refused: TimelineError) -> TimelineEntry:
    """The entry with the cause of an error, if it has none."""
    return _joined(entry, entry._replace(refused=[refused]))


def _joined(one: TimelineEntry, other: TimelineEntry) -> TimelineEntry:
    """The entries of one request in two timelines; each error once, with a cause if known."""
    refused = {each.code: each for each in one.refused}
    for each in other.refused:
        if not (each.code in refused and refused[each.code].because):
            refused[each.code] = each
    said = one.said if other.said in one.said else "; ".join(filter(None, (one.said, other.said)))
    notes = list(dict.fromkeys([*one.notes, *other.notes]))
    return one._replace(said=said, notes=notes, refused=list(refused.values()))
