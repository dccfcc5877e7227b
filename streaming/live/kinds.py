"""The kinds of entities of the live audit, and the routes of an exchange.

These are the kinds of `recordings/history`, whose machines report, and two kinds for the sake of
their rows:

* `session`: the machine of a broker's cache, with the exchanges of one session. The cache itself
  reports, because the cause of an eviction is another session.
* `offset`: the offsets of a group, restricted to one partition. The group reports.
"""

from collections.abc import Callable, Collection, Iterator
from functools import cache

import msgspec

from brokertwin.recordings.history import bodies
from brokertwin.recordings.history.entity import EntityKey, EntityKind, ObservedEntity, Parts
from brokertwin.recordings.history.exchange import KnownFacts, RecordedExchange
from brokertwin.recordings.history.findings import Finding
from brokertwin.recordings.history.group_offsets import (
    ENDING_APIS,
    OFFSET_APIS,
    ObservedOffsets,
    fetched_places,
    of_partition,
    places_of,
)
from brokertwin.recordings.history.memberships import MEMBER_APIS
from brokertwin.recordings.history.recording import KINDS
from brokertwin.recordings.history.replication import REPLICATION, LeadingParts
from brokertwin.recordings.history.sessions import (
    CACHES,
    NONE,
    ObservedSessionCache,
    opened_by,
    session_of,
)
from brokertwin.recordings.history.shares import SHARE_APIS
from brokertwin.streaming.live.facts import ClusterFacts

SESSION, OFFSET = "session", "offset"
SILENT = frozenset({SESSION, OFFSET})
"""Kinds whose findings another kind reports."""

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
KEPT_MS = {
    SESSION: HOUR_MS,
    "partition": HOUR_MS,
    "replication": HOUR_MS,
    "lag": DAY_MS,
    "client": DAY_MS,
    "session-cache": DAY_MS,
    "producer-in-partition": DAY_MS,
    "producer-id": DAY_MS,
}
"""How long an entity without exchanges is kept; `producer.id.expiration.ms` is a day."""

KEPT_OTHERS_MS = 7 * DAY_MS
"""The same of the other kinds, as `offsets.retention.minutes` and
`transactional.id.expiration.ms`."""


def offset_id(group: str, topic: str, partition: int) -> str:
    """The id of a committed offset as an entity; topic is its name, or its id if unknown."""
    return msgspec.json.encode((group, topic, partition)).decode()


Route = tuple[str, str, RecordedExchange]
"""Kind and id of an entity, and the part of an exchange that it uses."""


class ObservedOffset(ObservedEntity, kw_only=True):
    """The committed offset of a group in a partition."""

    offsets: ObservedOffsets

    def take(self, exchange: RecordedExchange, known: KnownFacts) -> Iterator[Finding]:
        """Take a commit, the end of its transaction, a deletion, or a fetch of it."""
        yield from self.offsets.take(exchange, known)


_OF_KEYS = {**KINDS, "producer-id": KINDS["producer"]}
"""The kind of a key by the name in the key."""


def machine_of(key: EntityKey) -> ObservedEntity:
    """The machine of an entity that is seen for the first time."""
    if key.kind == SESSION:
        return ObservedSessionCache()
    if key.kind == OFFSET:
        group, _, _ = msgspec.json.decode(key.id)
        return ObservedOffset(offsets=ObservedOffsets(group))
    return _OF_KEYS[key.kind].machine(key)


def machines() -> list[type[ObservedEntity]]:
    """The classes of all machines, and their bases."""
    found = [ObservedEntity]
    for each in found:
        found += each.__subclasses__()
    return sorted(found, key=lambda each: each.__name__)


PartsOf = Callable[[RecordedExchange, KnownFacts], Parts]


def parts_for_replicas(facts: ClusterFacts, brokers: Collection[int], now: int) -> PartsOf:
    """Give all parts for replicas, or those that are enough while no high watermark is judged.

    Args:
        facts: those that are known before the micro-batch.
        brokers: those with exchanges in a task. The log of a new one lets replicas begin anew.
        now: time of the micro-batch, in ms since 1970.
    """
    is_new = not facts.known.logs.keys() >= {*brokers}
    if is_new or facts.judges_replicas(now) or LeadingParts.is_remade(facts.known):
        return REPLICATION.parts_of
    return LeadingParts()


def routes(
    exchange: RecordedExchange, facts: ClusterFacts, for_replicas: PartsOf = REPLICATION.parts_of
) -> Iterator[Route]:
    """The entities that an exchange names; replicas alone for a request at a controller."""
    for kind in _kinds_of(exchange.line.api, exchange.is_internal):
        parts_of = for_replicas if kind is REPLICATION else kind.parts_of
        for (name, id_), part in parts_of(exchange, facts.known):
            yield name, id_, part
            if kind is CACHES:
                yield from _sessions(part)
    if not exchange.is_internal and exchange.line.api in _OF_OFFSETS:
        yield from _offsets(exchange, facts.known)


_USING_FACTS = frozenset(
    {*OFFSET_APIS, *(api for kind in KINDS.values() if kind.name != "client" for api in kind.apis)}
).difference(MEMBER_APIS, SHARE_APIS)
"""The APIs whose exchanges name entities that depend on facts."""

_TOPICS = {
    "FETCH": ("topics", "responses"),
    "PRODUCE": ("topicData", "responses"),
    "OFFSET_COMMIT": ("topics", "topics"),
}
"""Those that depend on topic names, PRODUCE also on producers: the fields with the topics."""


def is_settled(exchange: RecordedExchange, known: KnownFacts) -> bool:
    """Whether facts that are not known yet cannot change the routes of an exchange."""
    api, request, response = exchange.line.api, exchange.request, exchange.response
    if api not in _USING_FACTS:
        return True
    names = _TOPICS.get(api)
    if names is None:
        return False
    if api == "PRODUCE":
        for holder in bodies.holders(api, request):
            if not holder.name and holder.producer_id not in known.producers:
                return False
    for body, name in zip((request, response), names, strict=True):
        for topic in body.get(name) or ():
            is_named = topic.get("topic") or topic.get("name")
            if not is_named and topic.get("topicId") not in known.topics:
                return False
    return True


@cache
def _kinds_of(api: str, is_internal: bool) -> tuple[EntityKind, ...]:
    kinds = (REPLICATION,) if is_internal else KINDS.values()
    return tuple(kind for kind in kinds if api in kind.apis)


def _sessions(part: RecordedExchange) -> Iterator[Route]:
    """The sessions that a Fetch uses and opens; the part is that for the broker's cache."""
    for number in sorted({session_of(part.request)[0], opened_by(part)} - {NONE}):
        yield SESSION, f"{number} {part.line.broker}", part


_OF_OFFSETS = OFFSET_APIS - {"DELETE_GROUPS"}  # which names no partition


def _offsets(exchange: RecordedExchange, known: KnownFacts) -> Iterator[Route]:
    """The offsets that a request commits, deletes or fetches, or whose transaction it ends."""
    api, body = exchange.line.api, exchange.request
    if api in ENDING_APIS:
        for group, topic, number in places_of(exchange, known):
            yield OFFSET, offset_id(group, known.named(topic), number), exchange
    else:
        if api == "OFFSET_FETCH":
            places = list(fetched_places(exchange))
        else:
            topics = exchange.response if api == "OFFSET_DELETE" else body
            places = list(bodies.committed_places({**topics, "groupId": body.get("groupId")}))
        for group, topic, number in places:
            name = known.named(topic)
            part = of_partition(exchange, name, number, known)
            yield OFFSET, offset_id(group, name, number), part


def kept_ms(kind: str) -> int:
    """How long an entity without exchanges is kept."""
    return KEPT_MS.get(kind, KEPT_OTHERS_MS)
