"""Replication of a partition: leader, in-sync replicas, log end offsets, high watermark.

    Fetch of a follower        its LEO; a new leader epoch
    Fetch responses            the leader's HW, compared with the computed one
    Produce responses          the leader's LEO
    AlterPartition             the ISR; a requested ISR affects the HW at once
    Metadata responses         replicas, leaders, the ISR
    errors with currentLeader  a new leader
    BrokerHeartbeat            brokers that the controller removes from the ISR (`brokers`)

An exchange has two moments: a broker thread takes the request, and the response is made. Moments
are handled in the order of their times.

Source: `Partition`, `ReplicaManager.fetchMessages`, `FetchManager` in Kafka.
"""

from bisect import bisect_right, insort
from collections.abc import Collection, Iterable, Iterator
from typing import Any, ClassVar

import msgspec
from msgspec import field

from brokertwin.protocol.bodies import ZERO_UUID, Body, Uuid
from brokertwin.protocol.generated.alter_partition import AlterPartitionRequest
from brokertwin.protocol.generated.fetch import FetchRequest
from brokertwin.protocol.generated.produce import ProduceRequest
from brokertwin.recordings.formats.documents import METADATA_TOPIC_ID
from brokertwin.recordings.history.bodies import follower_of
from brokertwin.recordings.history.entity import (
    WAIT_MS,
    EntityKey,
    EntityKind,
    ObservedEntity,
    Parts,
)
from brokertwin.recordings.history.exchange import KnownFacts, RecordedExchange
from brokertwin.recordings.history.findings import Finding, Unread
from brokertwin.recordings.history.partition_moments import (
    ON_REQUEST,
    ON_RESPONSE,
    PartitionMoment,
)
from brokertwin.recordings.history.replica_findings import (
    FETCH_WAIT_MS,
    OpenDifference,
    fetch_wait_ms,
)
from brokertwin.recordings.history.replicas import UNKNOWN, PartitionReplicas

MOMENTS_MAX = 2_000
"""Maximum number of moments of a partition that wait for earlier ones."""

OPEN_DIFFERENCES_MAX = 100
"""Maximum number of differences of a partition that may be races."""

TOPIC_IDS_MAX = 10
"""Maximum number of ids of deleted topics with the same name that are kept."""


class ExchangeMoment(msgspec.Struct):
    """One of the two moments of an exchange, in ms since 1970."""

    time: float
    is_response: bool
    exchange: RecordedExchange

    @property
    def order(self) -> tuple[float | int | str | bool, ...]:
        """Sort key: by time, then by request and line."""
        return (self.time, *self.exchange.line.order[1:], self.is_response)


def _time(moment: ExchangeMoment) -> float:
    return moment.time


class ReplicatedPartition(ObservedEntity, kw_only=True):
    """A partition with its replicas.

    Attributes:
        topic: name of its topic; its id if no response shows the name.
        topic_id: id of its topic; a topic of the same name with another id is a new one.
        former_ids: ids of deleted topics of this name.
        moments: moments that are not handled yet, in order.
        before: HW before each Fetch that was not pending, by the place of the Fetch.
        moves: times of the last moves of the HW, in ms since 1970, and its former values.
        open: differences that may be races.
        agreed: number of HWs equal to the computed one.
        adopted: number of HWs adopted because a fact was missing.
        led_by: the leader in the last sample.
        last_isr: the in-sync set when it changed last.
        left: number of times that a broker left the in-sync set.
        led: number of changes of the leader.
        begin: from when all logs are recorded, in ms since 1970; the state is that since then.
    """

    LOOKAHEAD_MS: ClassVar[int] = FETCH_WAIT_MS

    topic: str
    partition: int
    known: PartitionReplicas = field(default_factory=PartitionReplicas)
    topic_id: Uuid = ZERO_UUID
    former_ids: list[Uuid] = field(default_factory=list)
    moments: list[ExchangeMoment] = field(default_factory=list)
    before: dict[str, int] = field(default_factory=dict)
    moves: list[tuple[float, int]] = field(default_factory=list)
    open: list[OpenDifference] = field(default_factory=list)
    agreed: int = 0
    adopted: int = 0
    sampled: int = 0
    led_by: int = UNKNOWN
    last_isr: list[int] | None = None
    left: dict[int, int] = field(default_factory=dict)
    led: int = 0
    begin: float = 0.0

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    def lookahead_ms(self, known: KnownFacts) -> int:
        """A fetch that explains a high watermark has its line when it has waited."""
        return fetch_wait_ms(known)

    def expire(self, now: float, known: KnownFacts) -> list[Finding]:
        """Also report differences that cannot be races."""
        findings = super().expire(now, known)
        if not self.moments:
            due = self.due(now - WAIT_MS - self.lookahead_ms(known))
            findings += [each.verdict(known) for each in due]
        return findings

    def take(self, exchange: RecordedExchange, known: KnownFacts) -> Iterable[Finding]:
        """Take the moments of an exchange that show something."""
        if not self.topic:
            return (Unread(line=exchange.line, api=exchange.line.api),)
        if exchange.line.api in ON_REQUEST:
            self._insert(ExchangeMoment(exchange.taken, False, exchange))
        self._insert(ExchangeMoment(exchange.made, True, exchange))
        return ()

    def _insert(self, moment: ExchangeMoment) -> None:
        moments = self.moments
        if not moments or moments[-1].time < moment.time:
            moments.append(moment)
            return
        at = bisect_right(moments, moment.time, key=_time)
        if at and moments[at - 1].time == moment.time:
            insort(moments, moment, key=lambda each: each.order)
        else:
            moments.insert(at, moment)

    def judge(self, exchange: RecordedExchange, known: KnownFacts) -> Iterable[Finding]:
        moments = self.moments
        if not moments or moments[0].time > exchange.made:
            return ()
        end = exchange.line.end + self.lookahead_ms(known)
        since = max(known.recorded_since(exchange.line.end), self._deleted_before(exchange, known))
        count = bisect_right(moments, exchange.made, key=_time)
        before = moments[:count]
        findings: list[Finding] = []
        for moment in before:
            if moment.exchange.line.end <= end and moment.exchange.taken >= since:
                findings += self._handle(moment, known, since)
        moments[:count] = [each for each in before if each.exchange.line.end > end]
        del moments[:-MOMENTS_MAX]
        return findings

    def _deleted_before(self, exchange: RecordedExchange, known: KnownFacts) -> int:
        """Return when the topic was deleted last before an exchange: its log starts anew."""
        times = known.deleted.get(self.topic, ())
        return max((time for time in times if time <= exchange.taken), default=0)

    def _handle(self, moment: ExchangeMoment, known: KnownFacts, since: float) -> Iterator[Finding]:
        """Handle a moment of the time since which all logs are recorded."""
        if since > self.begin:
            self.begin, self.known, self.open = since, PartitionReplicas(), []
        handlers = ON_RESPONSE if moment.is_response else ON_REQUEST
        handler = handlers.get(moment.exchange.line.api)
        if handler is not None and self._is_mine(moment.exchange):  # None: of a former program
            at = PartitionMoment(self, moment.time, moment.exchange, known)
            if self.open:
                yield from at.close()
            yield from at.absent()
            yield from handler(at)
            if self.open:
                yield from at.settle()

    def _is_mine(self, exchange: RecordedExchange) -> bool:
        """Return False if an exchange is about a deleted topic of the same name."""
        for body in (exchange.request, exchange.response):
            topic_id = body.get("topicId", ZERO_UUID)
            if topic_id == self.topic_id or topic_id == ZERO_UUID:
                continue
            if topic_id in self.former_ids:
                return False
            if self.topic_id != ZERO_UUID:
                self.former_ids = [*self.former_ids, self.topic_id][-TOPIC_IDS_MAX:]
                self.known = PartitionReplicas()
                self.last_isr, self.left, self.led_by, self.led = None, {}, UNKNOWN, 0
            self.topic_id = topic_id
        return True

    def due(self, time: float) -> list[OpenDifference]:
        """Remove and return the differences that cannot be races any longer."""
        kept = self.open[-OPEN_DIFFERENCES_MAX:]
        self.open = [each for each in kept if time <= each.found.time + each.race_ms]
        return [each for each in kept if each not in self.open]


# Bodies

Place = tuple[str, int]
"""Topic and partition."""

REQUESTS: dict[str, type[Body]] = {
    "PRODUCE": ProduceRequest,
    "FETCH": FetchRequest,
    "ALTER_PARTITION": AlterPartitionRequest,
}
REQUESTED = {
    "PRODUCE": ("topicData", "partitionData", "index"),
    "FETCH": ("topics", "partitions", "partition"),
    "ALTER_PARTITION": ("topics", "partitions", "partitionIndex"),
}
RESPONDED = {
    "PRODUCE": ("responses", "partitionResponses", "index"),
    "FETCH": ("responses", "partitions", "partitionIndex"),
    "METADATA": ("topics", "partitions", "partitionIndex"),
    "ALTER_PARTITION": ("topics", "partitions", "partitionIndex"),
    "DESCRIBE_TOPIC_PARTITIONS": ("topics", "partitions", "partitionIndex"),
}
"""API to the field names of its topics, their partitions, and the partition number."""

METADATA_APIS = ("METADATA", "DESCRIBE_TOPIC_PARTITIONS")


def _parts(
    body: dict[str, Any], names: tuple[str, str, str] | None, known: KnownFacts
) -> dict[Place, dict[str, Any]]:
    """The parts of a body, by partition; the first one of each."""
    parts: dict[Place, dict[str, Any]] = {}
    if names is None:
        return parts
    topics, partitions, number = names
    for topic in body.get(topics) or ():
        topic_id = topic.get("topicId", ZERO_UUID)
        if topic_id != METADATA_TOPIC_ID:  # it is not a partition of a broker
            name = known.topic(topic)
            for part in topic[partitions]:
                place = name, part[number]
                if place not in parts:
                    parts[place] = {**part, "topicId": topic_id}
    return parts


def _responded(exchange: RecordedExchange, known: KnownFacts) -> dict[Place, dict[str, Any]]:
    """The parts of a response, without metadata that has no topic ids."""
    body = exchange.response
    if exchange.line.api in METADATA_APIS:
        topics = [
            topic
            for topic in body.get("topics") or ()
            if not topic.get("errorCode") and topic.get("topicId", ZERO_UUID) != ZERO_UUID
        ]
        body = {"topics": topics}
    return _parts(body, RESPONDED.get(exchange.line.api), known)


def _partitions_in(exchange: RecordedExchange, known: KnownFacts) -> Parts:
    """The partitions with their parts; exchanges with unexpected fields have the key `? API`."""
    api = exchange.line.api
    try:
        if api in REQUESTS:
            msgspec.convert(exchange.request, REQUESTS[api])
        requested = _parts(exchange.request, REQUESTED.get(api), known)
        responded = _responded(exchange, known)
    except (msgspec.ValidationError, AttributeError, KeyError, TypeError):
        nothing = msgspec.structs.replace(exchange, request={}, response={})
        return [(EntityKey("replication", f"? {api}"), nothing)]
    more: dict[str, Any] = {}
    if api == "FETCH":
        more = {"follower": follower_of(exchange.request)}
    elif api == "ALTER_PARTITION":
        more = {"brokerId": exchange.request["brokerId"]}
    parts_of = []
    for place in requested if requested.keys() >= responded.keys() else requested | responded:
        request = requested.get(place, {})
        if more and (request or api == "FETCH"):
            request |= more
        own = RecordedExchange(
            exchange.line,
            request,
            responded.get(place, {}),
            exchange.has_response,
            exchange.taken,
            exchange.made,
            exchange.has_waited,
            exchange.busy_ms,
            exchange.is_internal,
        )
        topic, number = place
        parts_of.append((EntityKey("replication", f"{number} {topic}"), own))
    return parts_of


def _partition_of(key: EntityKey) -> ReplicatedPartition:
    partition, _, topic = key.id.partition(" ")
    if partition == "?":
        return ReplicatedPartition(topic="", partition=UNKNOWN)
    return ReplicatedPartition(topic=topic, partition=int(partition))


REPLICATION = EntityKind("replication", frozenset(RESPONDED), _partitions_in, _partition_of)


class LeadingParts:
    """The parts of exchanges that may change the leader or the in-sync set of a partition.

    No high watermark is judged without a log of a controller. Then a Produce without an error shows
    nothing, and a Fetch shows that its broker leads in an epoch, which is news once.
    """

    def __init__(self) -> None:
        self._shown: dict[Place, tuple[int, float]] = {}

    @staticmethod
    def are_enough(known: KnownFacts, apis: Collection[str]) -> bool:
        """Return whether they show all, given the facts and the APIs of the whole recording."""
        is_judged = known.presences or 1 in known.min_isr.values() or "ALTER_PARTITION" in apis
        return not is_judged and not LeadingParts.is_remade(known)

    @staticmethod
    def is_remade(known: KnownFacts) -> bool:
        """Return whether a topic was made again, with another id."""
        return len({*known.topics.values()}) < len(known.topics)

    def __call__(self, exchange: RecordedExchange, known: KnownFacts) -> Parts:
        try:
            news = self._news(exchange)
        except (AttributeError, KeyError, TypeError):
            return _partitions_in(exchange, known)
        if news is not None and not news:
            return ()
        parts = list(_partitions_in(exchange, known))
        is_read = parts and not parts[0][0].id.startswith("?")
        if news and is_read and exchange.taken >= known.recorded_since(exchange.line.end):
            self._shown |= news
        return parts

    def _news(self, exchange: RecordedExchange) -> dict[Place, tuple[int, float]] | None:
        """New leader epochs, and when the response was made; None if the response may show more."""
        names = RESPONDED[exchange.line.api]
        if exchange.line.api not in ("FETCH", "PRODUCE"):
            return None
        for topic in exchange.response.get(names[0]) or ():
            for part in topic[names[1]]:
                if part.get("errorCode") or "currentLeader" in part or "divergingEpoch" in part:
                    return None
        news = {}
        for topic in exchange.request.get("topics") or () if exchange.line.api == "FETCH" else ():
            name = topic.get("topic") or topic.get("topicId")
            for part in topic["partitions"]:
                place, epoch = (name, part["partition"]), part.get("currentLeaderEpoch", UNKNOWN)
                shown, until = self._shown.get(place, (UNKNOWN, 0.0))
                if epoch > shown:
                    news[place] = epoch, exchange.made
                elif epoch != UNKNOWN and exchange.taken <= until:
                    news[place] = shown, until
        return news
