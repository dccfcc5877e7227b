"""Which requests can change the response of another.

A request touches the topics, groups, transactional ids and producers in its body. A request about
all of them (Metadata without topics, ListGroups, an incremental Fetch) touches everything, as does
a disconnect. Metadata may create its topics, and a coordinator lookup its internal topic. A
consumer group heartbeat touches all topics that its group subscribes to, because the coordinator
checks them. Ending a transaction touches everything in requests of its transactional id, because
markers are written there.
"""

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Any

from brokertwin.protocol.kafka_apis import (
    CONSUMER_GROUP_HEARTBEAT,
    FETCH,
    FIND_COORDINATOR,
    METADATA,
    PRODUCE,
    STREAMS_GROUP_HEARTBEAT,
    Trait,
)
from brokertwin.recordings.replay.choices import INTERNAL_TOPICS, named_topics
from brokertwin.recordings.replay.recording import Exchange
from brokertwin.state.core.events import Kind

NAMING_FIELDS = frozenset(
    {
        "name",
        "topic",
        "topicId",
        "groupId",
        "transactionalId",
        "v3AndBelowTransactionalId",
        "key",
        "coordinatorKeys",
        "topicNames",
        "subscribedTopicNames",
        "sourceTopics",
        "repartitionSinkTopics",
        "groups",
        "groupsNames",
        "groupIds",
        "transactionalIds",
    }
)
"""Request fields whose string values name a touched item."""

EVERYTHING = frozenset({"*"})


class Footprints:
    """The items that each exchange of a history touches."""

    def __init__(self, exchanges: Sequence[Exchange]) -> None:
        self._exchanges = exchanges
        self._names = {
            topic_id: name for exchange in exchanges for name, topic_id in named_topics(exchange)
        }
        self._touched: dict[int, frozenset[str]] = {}
        self._subscribed: dict[str, set[str]] = {}
        self._in_transactions: dict[str, set[str]] = {}
        for exchange in exchanges:
            if exchange.has(Trait.IN_TRANSACTION):
                body = exchange.body()
                name = body.get("transactionalId") or body.get("v3AndBelowTransactionalId")
                if name:
                    self._in_transactions.setdefault(name, set()).update(self._all_named(body))
            if exchange.header.request_api_key == CONSUMER_GROUP_HEARTBEAT.key:
                body = exchange.body()
                names = body.get("subscribedTopicNames") or ()
                self._subscribed.setdefault(body.get("groupId", ""), set()).update(names)
            if exchange.header.request_api_key == STREAMS_GROUP_HEARTBEAT.key:
                body = exchange.body()
                read = _named(body.get("topology"))
                self._subscribed.setdefault(body.get("groupId", ""), set()).update(read)

    def may_change(self, index: int, other: int) -> bool:
        """Whether the request at `index` could change the response at `other`."""
        if not _may_write(self._exchanges[index]):
            return False
        mine, theirs = self._of(index), self._of(other)
        return mine == EVERYTHING or theirs == EVERYTHING or bool(mine & theirs)

    def _of(self, index: int) -> frozenset[str]:
        if index not in self._touched:
            self._touched[index] = self._find(self._exchanges[index])
        return self._touched[index]

    def _find(self, exchange: Exchange) -> frozenset[str]:
        body = exchange.body()
        key = exchange.header.request_api_key
        if exchange.kind is not Kind.REQUEST:
            return EVERYTHING
        if key == FETCH.key and isinstance(body, dict) and body.get("sessionEpoch", -1) > 0:
            return EVERYTHING
        if (
            exchange.has(Trait.LISTS_ALL_TOPICS)
            and isinstance(body, dict)
            and not body.get("topics")
        ):
            return EVERYTHING
        if exchange.has(Trait.LISTS_ALL):
            return EVERYTHING
        named = self._all_named(body)
        if exchange.has(Trait.ENDS_TRANSACTION):
            return named | self._in_transactions.get(body.get("transactionalId") or "", frozenset())
        if key in (CONSUMER_GROUP_HEARTBEAT.key, STREAMS_GROUP_HEARTBEAT.key):
            return named | self._subscribed.get(body.get("groupId", ""), frozenset())
        return named | _internal_topic(body) if key == FIND_COORDINATOR.key else named

    def _all_named(self, body: Any) -> frozenset[str]:
        return frozenset(self._names.get(name, name) for name in _named(body))


def _may_write(exchange: Exchange) -> bool:
    if exchange.header.request_api_key != METADATA.key:
        return not exchange.has(Trait.READS)
    body = exchange.body()
    return bool(body.get("topics")) and body.get("allowAutoTopicCreation", True)


def _internal_topic(body: Any) -> frozenset[str]:
    """The topic that a coordinator lookup creates if it is missing."""
    key_type = body.get("keyType", 0)
    return frozenset(INTERNAL_TOPICS[key_type : key_type + 1] if key_type >= 0 else ())


def _named(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for part in value:
            yield from _named(part)
    elif isinstance(value, dict):
        for field, part in value.items():
            if field not in NAMING_FIELDS:
                yield from _named(part)
                continue
            names = part if isinstance(part, list) else [part]
            yield from (name for name in names if isinstance(name, str) and name)
            yield from _named([inner for inner in names if isinstance(inner, dict)])


def acks_0_tails(exchanges: Sequence[Exchange]) -> list[list[int]]:
    """Trailing acks 0 requests of each connection that has some."""
    by_connection: dict[str, list[int]] = {}
    for index, exchange in enumerate(exchanges):
        if exchange.kind is not Kind.REQUEST:
            continue
        by_connection.setdefault(exchange.connection, []).append(index)
    tails = []
    for indexes in by_connection.values():
        tail = list(takewhile(lambda index: _has_acks_0(exchanges[index]), reversed(indexes)))
        if tail:
            tails.append(tail[::-1])
    return tails


def _has_acks_0(exchange: Exchange) -> bool:
    is_produce = exchange.header.request_api_key == PRODUCE.key
    return is_produce and exchange.is_recorded and exchange.response is None
