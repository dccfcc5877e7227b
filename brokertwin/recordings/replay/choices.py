"""Random ids of the real broker, taken from its recorded responses.

A choice replaces the id derived from an event's nonce: session, producer, member, cluster and topic
ids, and client instance ids. It is used only if the request's own response shows that the broker
generated the id. The model still decides whether to accept the request, so a wrongly accepted
request is a difference.

CreateTopics returns topic ids from version 7 on. Otherwise, and for topics that brokers create, the
id is the topic's id in other responses before its deletion.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from brokertwin.protocol.bodies import ZERO_UUID
from brokertwin.protocol.kafka_apis import (
    API_VERSIONS,
    CONSUMER_GROUP_HEARTBEAT,
    CREATE_TOPICS,
    DELETE_TOPICS,
    DESCRIBE_CLUSTER,
    DESCRIBE_TOPIC_PARTITIONS,
    FETCH,
    FIND_COORDINATOR,
    GET_TELEMETRY_SUBSCRIPTIONS,
    INCREMENTAL_ALTER_CONFIGS,
    INIT_PRODUCER_ID,
    JOIN_GROUP,
    METADATA,
    SHARE_ACKNOWLEDGE,
    SHARE_FETCH,
    SHARE_GROUP_HEARTBEAT,
)
from brokertwin.recordings.replay.recording import Exchange
from brokertwin.state.cluster.coordinators import SHARE_TOPIC
from brokertwin.state.configs.group_configs import DEAD_LETTERS
from brokertwin.state.core.events import Choices

NEW_SESSION_EPOCH = 0
MEMBER_ID_REQUIRED = 79
CREATED_SOON = frozenset({3, 5})
"""Metadata errors of a topic whose creation has begun."""

INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state")
"""Topics created by FindCoordinator, by key type."""


class TopicIds:
    """Topic ids by name and place in the history.

    Attributes:
        for_dead_letters: names of topics for dead letters, which brokers may create.
    """

    def __init__(self, exchanges: Sequence[Exchange]) -> None:
        self._seen: dict[str, list[tuple[int, str]]] = defaultdict(list)
        self._deleted: dict[str, list[int]] = defaultdict(list)
        self.for_dead_letters: list[str] = []
        for place, exchange in enumerate(exchanges):
            for name, topic_id in named_topics(exchange):
                self._seen[name].append((place, topic_id))
            for name in _deleted_topics(exchange):
                self._deleted[name].append(place)
            self.for_dead_letters += _for_dead_letters(exchange)

    def after(self, place: int, name: str) -> str | None:
        """Return the first id at or after `place`, unless deleted before."""
        seen = self._seen.get(name, [])
        at = bisect_left(seen, (place, ""))
        if at == len(seen):
            return None
        seen_at, topic_id = seen[at]
        deleted = self._deleted.get(name, [])
        next_deletion = bisect_left(deleted, place)
        if next_deletion < len(deleted) and deleted[next_deletion] < seen_at:
            return None
        return topic_id


def choices_of(exchanges: Sequence[Exchange]) -> list[Choices | None]:
    """Return the choices of each exchange, or None, in order."""
    topic_ids = TopicIds(exchanges)
    return [
        _choices(exchange, place, topic_ids) if isinstance(exchange.response, dict) else None
        for place, exchange in enumerate(exchanges)
    ]


def named_topics(exchange: Exchange) -> Iterator[tuple[str, str]]:
    """Yield names and ids of topics that a response has together."""
    response = exchange.response
    if not isinstance(response, dict):
        return
    key = exchange.header.request_api_key
    if key in (METADATA.key, CREATE_TOPICS.key, DESCRIBE_TOPIC_PARTITIONS.key):
        yield from _pairs(response.get("topics"))
    elif key == DELETE_TOPICS.key:
        yield from _pairs(response.get("responses"))


def _pairs(topics: Any) -> Iterator[tuple[str, str]]:
    for topic in topics or ():
        name, topic_id = topic.get("name"), topic.get("topicId", ZERO_UUID)
        if name and topic_id != ZERO_UUID:
            yield name, topic_id


def _deleted_topics(exchange: Exchange) -> Iterator[str]:
    if exchange.header.request_api_key == DELETE_TOPICS.key and exchange.response:
        for topic in exchange.response.get("responses", ()):
            if topic.get("errorCode") == 0 and topic.get("name"):
                yield topic["name"]


def _for_dead_letters(exchange: Exchange) -> Iterator[str]:
    if exchange.header.request_api_key == INCREMENTAL_ALTER_CONFIGS.key:
        for resource in exchange.body().get("resources", ()):
            for config in resource.get("configs", ()):
                if config.get("name") == DEAD_LETTERS and config.get("value"):
                    yield config["value"]


def _choices(exchange: Exchange, place: int, topic_ids: TopicIds) -> Choices | None:
    take = _TAKERS.get(exchange.header.request_api_key)
    return take(exchange, place, topic_ids) if take is not None else None


def _of_fetch(exchange: Exchange, _place: int, _topic_ids: TopicIds) -> Choices | None:
    session_id = exchange.response.get("sessionId", 0)
    is_new = exchange.body().get("sessionEpoch", -1) == NEW_SESSION_EPOCH
    return Choices(session_id=session_id) if is_new and session_id else None


def _of_init_producer_id(exchange: Exchange, _place: int, _topic_ids: TopicIds) -> Choices | None:
    if exchange.response.get("errorCode") != 0:
        return None
    return Choices(producer_id=exchange.response.get("producerId"))


def _of_join(exchange: Exchange, _place: int, _topic_ids: TopicIds) -> Choices | None:
    member_id = exchange.response.get("memberId")
    is_accepted = exchange.response.get("errorCode") in (0, MEMBER_ID_REQUIRED)
    is_new = not exchange.body().get("memberId")
    return Choices(member_id=member_id) if is_new and is_accepted and member_id else None


def _of_metadata(exchange: Exchange, place: int, topic_ids: TopicIds) -> Choices | None:
    soon = [
        topic["name"]
        for topic in exchange.response.get("topics", ())
        if topic.get("errorCode") in CREATED_SOON and topic.get("name")
    ]
    cluster_id = exchange.response.get("clusterId")
    return _some(cluster_id, _ids(soon, place, topic_ids))


def _of_create_topics(exchange: Exchange, place: int, topic_ids: TopicIds) -> Choices | None:
    accepted = [
        topic["name"]
        for topic in exchange.response.get("topics", ())
        if topic.get("errorCode") == 0
    ]
    return _some(None, _ids(accepted, place, topic_ids))


def _of_find_coordinator(exchange: Exchange, place: int, topic_ids: TopicIds) -> Choices | None:
    key_type = exchange.body().get("keyType", 0)
    if not 0 <= key_type < len(INTERNAL_TOPICS):
        return None
    return _some(None, _ids([INTERNAL_TOPICS[key_type]], place, topic_ids))


def _of_share_heartbeat(_exchange: Exchange, place: int, topic_ids: TopicIds) -> Choices | None:
    return _some(None, _ids([SHARE_TOPIC], place, topic_ids))


def _of_share_records(_exchange: Exchange, place: int, topic_ids: TopicIds) -> Choices | None:
    return _some(None, _ids(topic_ids.for_dead_letters, place, topic_ids))


def _of_describe_cluster(exchange: Exchange, _place: int, _topic_ids: TopicIds) -> Choices | None:
    return _some(exchange.response.get("clusterId"), {})


def _of_api_versions(exchange: Exchange, _place: int, _topic_ids: TopicIds) -> Choices | None:
    """An accepted request has the id of the cluster, if it has one (KIP-1242)."""
    if exchange.response.get("errorCode") != 0:
        return None
    return _some(exchange.body().get("clusterId"), {})


def _of_telemetry(exchange: Exchange, _place: int, _topic_ids: TopicIds) -> Choices | None:
    instance_id = exchange.response.get("clientInstanceId", ZERO_UUID)
    is_new = exchange.body().get("clientInstanceId", ZERO_UUID) == ZERO_UUID
    return Choices(client_instance_id=instance_id) if is_new and instance_id != ZERO_UUID else None


def _ids(names: list[str], place: int, topic_ids: TopicIds) -> dict[str, str]:
    found = {name: topic_ids.after(place, name) for name in names}
    return {name: topic_id for name, topic_id in found.items() if topic_id is not None}


def _some(cluster_id: str | None, topic_ids: dict[str, str]) -> Choices | None:
    if not cluster_id and not topic_ids:
        return None
    return Choices(cluster_id=cluster_id or None, topic_ids=topic_ids)


_TAKERS: dict[int, Callable[[Exchange, int, TopicIds], Choices | None]] = {
    FETCH.key: _of_fetch,
    METADATA.key: _of_metadata,
    FIND_COORDINATOR.key: _of_find_coordinator,
    JOIN_GROUP.key: _of_join,
    CREATE_TOPICS.key: _of_create_topics,
    INIT_PRODUCER_ID.key: _of_init_producer_id,
    DESCRIBE_CLUSTER.key: _of_describe_cluster,
    CONSUMER_GROUP_HEARTBEAT.key: _of_join,
    GET_TELEMETRY_SUBSCRIPTIONS.key: _of_telemetry,
    API_VERSIONS.key: _of_api_versions,
    SHARE_GROUP_HEARTBEAT.key: _of_share_heartbeat,
    SHARE_FETCH.key: _of_share_records,
    SHARE_ACKNOWLEDGE.key: _of_share_records,
}
"""Extractors of choices by API key."""
