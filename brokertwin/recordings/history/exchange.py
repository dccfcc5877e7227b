"""Recorded exchanges as machines take them, and facts that belong to no entity."""

import math
import re
from bisect import bisect_left
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import msgspec

from brokertwin.protocol.kafka_apis import is_removed
from brokertwin.recordings.history import bodies
from brokertwin.recordings.history.brokers import (
    Absence,
    BrokerPresence,
    BrokerSpan,
    BrokerState,
    heartbeat,
)
from brokertwin.recordings.history.words import clock
from brokertwin.recordings.replay.recording import Exchange

MIN_ISR = "min.insync.replicas"

OWN_IDS = re.compile(
    r"broker-\d+-(fetcher-\d+|txn-marker-sender|to-controller\S*)"
    r"|(AddPartitionsManager|Persister|PersisterStateManager)-client-\d+"
    r"|raft-client-\d+|controller-\d+-\S*|broker-\d+-\S*-channel-manager"
)
"""The client ids of ReplicaFetcherThread, TransactionMarkerChannelManager, KafkaRaftManager,
AddPartitionsToTxnManager, PersisterStateManager and NodeToControllerChannelManager."""

OWN_APIS = frozenset(
    {
        *("LEADER_AND_ISR", "STOP_REPLICA", "UPDATE_METADATA", "CONTROLLED_SHUTDOWN"),
        *("ALTER_PARTITION", "ALLOCATE_PRODUCER_IDS", "ENVELOPE", "BROKER_REGISTRATION"),
        *("BROKER_HEARTBEAT", "VOTE", "BEGIN_QUORUM_EPOCH", "END_QUORUM_EPOCH", "FETCH_SNAPSHOT"),
        *("CONTROLLER_REGISTRATION", "ASSIGN_REPLICAS_TO_DIRS", "UPDATE_RAFT_VOTER"),
        *("INITIALIZE_SHARE_GROUP_STATE", "READ_SHARE_GROUP_STATE", "WRITE_SHARE_GROUP_STATE"),
        *("DELETE_SHARE_GROUP_STATE", "READ_SHARE_GROUP_STATE_SUMMARY"),
    }
)
"""The APIs that brokers and controllers call among themselves."""

CONNECTIONS_MAX = 20
"""Maximum number of connections from a follower to a leader that are kept."""

DELAY_MS = 1.0
"""Time from which on a broker is busy."""

DELETIONS_MAX = 20
"""Maximum number of deletions of a topic name that are kept."""

DELAYS_MAX = 100_000
"""Maximum number of seconds with a busy broker, and of deleted topics, that are kept."""


class RecordedRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """The part of an exchange that a state keeps; it identifies the evidence of a finding.

    Attributes:
        place: file and line, or topic, partition and offset.
        time: arrival of the request, in ms since 1970.
        end: the last ms at which the broker may have responded.
        broker: the broker that received it.
        client: client id; "" if the request has none.
        host: host of the client; "" if not recorded.
        version: API version.
        is_own: whether a broker or a controller sent it.
    """

    place: str
    time: int
    end: int
    broker: int
    client: str
    host: str
    connection: str
    api: str
    version: int
    is_own: bool = False

    @property
    def name(self) -> str:
        """Client id; `?` if the request has none."""
        return self.client or "?"

    @property
    def is_removed(self) -> bool:
        """Whether Kafka 4 does not have the API version any more (KIP-896)."""
        return is_removed(self.api, self.version)

    @property
    def process(self) -> tuple[str, str]:
        """Client id and host, which identify a client as far as the recording shows."""
        return self.client, self.host

    @property
    def words(self) -> str:
        """`client second's INIT_PRODUCER_ID at 12:00:03.120 (orders.jsonl:12)`."""
        return f"client {self.name}'s {self.api} at {clock(self.time)} ({self.place})"

    @property
    def order(self) -> tuple[int, int, str, int]:
        """Sort key: the order of responses, then of requests, then of lines."""
        file, _, line = self.place.rpartition(":")
        return self.end, self.time, file, int(line) if line.isdecimal() else 0


class RecordedExchange(msgspec.Struct, frozen=True, omit_defaults=True):
    """A request with its response; bodies are those of Kafka's request log.

    `response` is empty if the request has none (acks=0). `has_response` is False if the recording
    lacks the response. `taken` is when a broker's thread took the request, `made` when the response
    was made, in ms since 1970. `has_waited` is True if it was made later, in a purgatory.
    `busy_ms` is the time in the broker's queues, and that for reading the log. `is_internal` is
    True for requests at a controller, which only replication uses.
    """

    line: RecordedRequest
    request: Any
    response: Any
    has_response: bool = msgspec.field(default=True, name="is_answered")
    taken: float = 0.0
    made: float = 0.0
    has_waited: bool = False
    busy_ms: float = 0.0
    is_internal: bool = False

    @property
    def code(self) -> int:
        return int(self.response.get("errorCode", 0))


class KnownFacts(msgspec.Struct):
    """Facts that belong to no entity. A router collects them; a missing fact is unknown.

    Attributes:
        topics: topic id to name.
        producers: producer id to transactional id.
        places: producer id to group, topic and partition of the offsets that it committed in
            transactions; the topic as in the request.
        logs: broker to the first and the last ms that its log covers.
        presences: broker to its states at the controller.
        fetched: `leader follower` to connection to the last fetch, in ms since 1970.
        fetch_wait_ms: the longest time that a follower lets a fetch wait
            (`replica.fetch.wait.max.ms`).
        delays: `broker second` to the longest time for which it was busy with a request, in ms.
        min_isr: topic to its min.insync.replicas; "" is the brokers' setting, -1 is unknown.
        lag_time_max_ms: the brokers' replica.lag.time.max.ms; None if it is unknown.
        deleted: topic name or id to when DeleteTopics deleted it, in ms since 1970.
        brokers: broker ids of the cluster, as Metadata responses list them.
        takes_all: whether replicas are judged where logs are missing, too.
        has_samples: whether each change of replicas is reported with their state.
        precise: brokers whose logs have times with milliseconds.
        whole_since: from when on nothing is left out for replicas, in ms since 1970.
        holes: first and last ms of stretches in which lines of a broker are missing, in order.
    """

    topics: dict[str, str] = {}
    producers: dict[int, str] = {}
    places: dict[int, dict[tuple[str, str, int], None]] = {}
    logs: dict[int, tuple[int, int]] = {}
    presences: dict[int, BrokerPresence] = {}
    fetched: dict[str, dict[str, float]] = {}
    fetch_wait_ms: int = 0
    delays: dict[str, float] = {}
    min_isr: dict[str, int] = {}
    lag_time_max_ms: int | None = None
    brokers: dict[int, None] = {}
    takes_all: bool = False
    has_samples: bool = True
    precise: dict[int, None] = {}
    whole_since: float = 0.0
    deleted: dict[str, list[int]] = {}
    holes: list[tuple[int, int]] = []

    @property
    def last(self) -> int:
        """When the last response of all logs was sent, in ms since 1970."""
        return max((last for _, last in self.logs.values()), default=0)

    @property
    def is_coarse(self) -> bool:
        """True if a log has whole seconds only: the order within a second is unknown."""
        return not self.logs.keys() <= self.precise.keys()

    @property
    def late_ms(self) -> int:
        """By how much an event may be later than its recorded time."""
        return 999 if self.is_coarse else 0

    def is_before(self, former: RecordedRequest, new: RecordedRequest) -> bool:
        """Return whether a response was certainly sent before a request arrived."""
        return former.end + self.late_ms <= new.time

    def recorded_since(self, time: float = math.inf) -> float:
        """From when on all logs are recorded without a hole up to a time, in ms since 1970."""
        since = self.whole_since
        if not self.takes_all:
            for first, _ in self.logs.values():
                since = max(since, first)
        return max(since, *(end for begin, end in self.holes if begin < time), 0)

    def recorded_until(self, time: float = math.inf) -> float:
        """Up to when all logs are recorded without a hole from a time on, in ms since 1970."""
        last = () if self.takes_all else (last for _, last in self.logs.values())
        return min(*last, *(begin for begin, end in self.holes if end > time), math.inf, math.inf)

    def part_of(self, time: float) -> int:
        """The number of holes before a time in ms since 1970; -1 if it is in one."""
        if not self.holes:
            return 0
        part = bisect_left(self.holes, time, key=lambda hole: hole[0])
        return -1 if part and time < self.holes[part - 1][1] else part

    def topic(self, part: Any) -> str:
        """Name of the topic in a part of a body; its id if no response showed the name."""
        name = str(part.get("topic") or part.get("name") or part.get("topicId") or "")
        return self.topics.get(name, name)

    def named(self, topic: str) -> str:
        """Name of a topic, given its name or id."""
        return self.topics.get(topic, topic)

    def was_deleted(self, topic: str, since: float, until: float) -> bool:
        """Return whether a topic, by name or id, was deleted between two times."""
        return any(since <= time <= until for time in self.deleted.get(topic, ()))

    def is_covered_by_all(self, first: int, last: float) -> bool:
        """Whether the log of each broker that Metadata responses show covers a span."""
        return bool(self.brokers) and all(self.is_covered(b, first, last) for b in self.brokers)

    def is_covered(self, broker: int, first: int, last: float) -> bool:
        """Return whether the log of a broker covers a span, in ms since 1970."""
        begin, end = self.logs.get(broker, (last, first))
        if any(hole[0] < last and first < hole[1] for hole in self.holes):
            return False
        return begin <= first and last <= end

    def active_since(self, broker: int, time: float) -> float:
        """Return when a broker became active last before a time, as its controller shows, or 0."""
        presence = self.presences.get(broker)
        return presence.active_since(time) if presence is not None else 0

    def has_log(self, broker: int, time: float) -> bool:
        """Return whether the log of a broker begins before a time, in ms since 1970."""
        return broker in self.logs and self.logs[broker][0] <= time

    def learn(self, exchange: RecordedExchange) -> None:
        """Take the facts of an exchange; their order does not matter."""
        line = exchange.line
        self.note_span(line.broker, line.time, line.end)
        if line.api not in bodies.NAMELESS:
            self.topics |= bodies.topic_names_in(exchange.response)
        if line.api == "TXN_OFFSET_COMMIT":
            places = self.places.setdefault(exchange.request.get("producerId", -1), {})
            places |= dict.fromkeys(bodies.committed_places(exchange.request))
        if line.api == "METADATA":
            self.brokers |= {e["nodeId"]: None for e in exchange.response.get("brokers") or ()}
        if line.api == "DELETE_TOPICS":
            for each in exchange.response.get("responses") or ():
                for name in (
                    {each.get("name"), each.get("topicId")} if not each["errorCode"] else ()
                ):
                    if name:
                        self.note_deletion(str(name), line.end)
        self._learn_replication(exchange)
        for holder in bodies.holders_of(line.api, exchange.request, exchange.response):
            if holder.name and holder.producer_id != bodies.NO_PRODUCER:
                self.producers[holder.producer_id] = holder.name

    def _learn_replication(self, exchange: RecordedExchange) -> None:
        api, body = exchange.line.api, exchange.request
        if exchange.busy_ms > DELAY_MS:
            self.note_delay(exchange.line.broker, int(exchange.made // 1000), exchange.busy_ms)
        if api == "FETCH" and (follower := bodies.follower_of(body)) >= 0:
            pair = f"{exchange.line.broker} {follower}"
            self.note_fetch(pair, exchange.line.connection, exchange.taken)
            self.fetch_wait_ms = max(self.fetch_wait_ms, body.get("maxWaitMs", 0))
        elif api in ("BROKER_HEARTBEAT", "BROKER_REGISTRATION"):
            seen = heartbeat(api, body, exchange.response)
            if seen is not None:
                broker, state = seen
                is_leaving = state is BrokerState.LEAVING
                presence = self.presences.setdefault(broker, BrokerPresence())
                time = exchange.taken if is_leaving else exchange.made
                presence.add(BrokerSpan(state, time, time))
        elif api == "CREATE_TOPICS":
            for topic in body.get("topics") or ():
                for config in topic.get("configs") or ():
                    if config["name"] == MIN_ISR and config["value"] is not None:
                        self.min_isr[topic["name"]] = int(config["value"])

    def note_span(self, broker: int, begin: int, end: int) -> None:
        """Note when a request of a broker's log arrived and had its response."""
        first, last = self.logs.get(broker, (begin, end))
        if begin <= first or end >= last:
            self.logs[broker] = min(first, begin), max(last, end)
        if end % 1000 > 1:  # it is rounded up to the next ms
            self.precise[broker] = None

    def note_deletion(self, topic: str, time: int) -> None:
        times = {*self.deleted.pop(topic, ()), time}
        self.deleted[topic] = sorted(times)[-DELETIONS_MAX:]
        while len(self.deleted) > DELAYS_MAX:
            del self.deleted[next(iter(self.deleted))]

    def note_delay(self, broker: int, second: int, delay_ms: float) -> None:
        """Note how long a broker was busy with a request."""
        key = f"{broker} {second}"
        self.delays[key] = max(self.delays.pop(key, 0), delay_ms)
        while len(self.delays) > DELAYS_MAX:
            del self.delays[next(iter(self.delays))]

    def note_fetch(self, pair: str, connection: str, time: float) -> None:
        """Note a fetch on a connection of `leader follower`."""
        fetched = self.fetched.setdefault(pair, {})
        fetched[connection] = max(fetched.pop(connection, 0), time)
        while len(fetched) > CONNECTIONS_MAX:
            del fetched[next(iter(fetched))]

    def last_fetch(self, leader: int, follower: int, connection: str) -> float:
        """A follower's last fetch on a connection, or on any if it is "", in ms since 1970."""
        fetched = self.fetched.get(f"{leader} {follower}", {})
        return fetched.get(connection, 0) if connection else max(fetched.values(), default=0)

    def delay_ms(self, broker: int, time: float) -> float:
        """How long a broker was busy with a request at about a time."""
        second = int(time // 1000)
        return max(self.delays.get(f"{broker} {second + n}", 0) for n in (-1, 0, 1))

    def min_isr_of(self, topic: str) -> int | None:
        """The min.insync.replicas of a topic; None if it is unknown."""
        min_isr = self.min_isr.get(topic, self.min_isr.get("", -1))
        return min_isr if min_isr >= 0 else None

    def absence(self, broker: int, since: float, time: float) -> Absence:
        """Return whether the controller removed a broker from in-sync sets between two times."""
        presence = self.presences.get(broker)
        if presence is None:
            return Absence.NO
        log_end = max(each.spans[-1].end for each in self.presences.values())
        return presence.absence(since, time, log_end)


def exchange_of(
    recorded: Exchange, is_internal: bool = False, is_error_free: bool = False
) -> RecordedExchange:
    """Convert an exchange; `is_error_free` spares searching its response for errors."""
    body, client = recorded.body(), recorded.header.client_id or ""
    line = RecordedRequest(
        recorded.id,
        recorded.time,
        recorded.end,
        recorded.broker,
        client,
        recorded.host,
        recorded.connection,
        recorded.api,
        recorded.version,
        is_own(recorded.api, client, bodies.follower_of(body) if recorded.api == "FETCH" else -1),
    )
    response = recorded.response or {}
    stages = recorded.taken, recorded.made, recorded.has_waited, recorded.busy_ms
    return RecordedExchange(
        line,
        body,
        bodies.ErrorFree(response) if is_error_free else response,
        recorded.is_recorded,
        *stages,
        is_internal,
    )


def exchanges_of(recorded: Iterable[Exchange]) -> list[RecordedExchange]:
    """Convert the exchanges with a recorded response, in the order of responses."""
    found = [exchange_of(each) for each in recorded if each.is_recorded]
    return sorted(found, key=lambda each: each.line.end)


def known_of(exchanges: Iterable[RecordedExchange], known: KnownFacts) -> KnownFacts:
    """Collect the facts of a whole recording, beside those that are known already."""
    for each in exchanges:
        known.learn(each)
    return known


@lru_cache(maxsize=10_000)
def _is_own_id(client: str) -> bool:
    return OWN_IDS.fullmatch(client) is not None


def is_own(api: str, client: str, follower: int) -> bool:
    """Return whether a broker or a controller sent a request; `follower` is that of a FETCH."""
    return follower >= 0 or api in OWN_APIS or _is_own_id(client)
