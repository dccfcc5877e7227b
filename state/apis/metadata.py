"""Metadata (key 3, versions 0 to 13): brokers, topics and leaders.

`topics` null requests all topics (in version 0, an empty list does); an empty list requests none.
From version 12 on a topic can be named by its id. If any topic has an id, the names in the request
are ignored. An id or a missing name in versions 10 to 11 fails the whole request (42
INVALID_REQUEST). A topic with neither name nor id fails it (-1 UNKNOWN_SERVER_ERROR) if no topic
has an id; this is a bug in Kafka.

A missing topic has 3 UNKNOWN_TOPIC_OR_PARTITION even if the request makes the broker create it: the
next request finds it (KRaft).

The response has the topics in the request's order, or all topics by name; missing ones come last.
Host and port are placeholders, `localhost` and 9092 plus the broker's id: the gateway replaces them
with its own addresses. The controller is the first broker; Kafka names a random one.

A topic that the client may not DESCRIBE has 29 TOPIC_AUTHORIZATION_FAILED, even if it does not
exist. The list of all topics omits it. A missing topic that the client may not CREATE has 29
TOPIC_AUTHORIZATION_FAILED, too, if the request would create it. Authorized operations cover the
cluster (0 without DESCRIBE on it) and the visible topics.

The response omits fenced brokers and those without the listener that the client used. If such a
broker leads a partition, the partition has no leader but 72 LISTENER_NOT_FOUND (5
LEADER_NOT_AVAILABLE before version 6). Its replicas are offline, like a replica in a failed log
directory. Version 0 omits unreachable replicas and returns 9 REPLICA_NOT_AVAILABLE.

Sources: `KafkaApis`, `KRaftMetadataCache`, `MetadataRequest` in Kafka; KIP-4, KIP-430, KIP-516.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import NamedTuple

from msgspec.structs import replace

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.bodies import ZERO_UUID
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from brokertwin.state.access.authorizer import CLUSTER_NAME, Operation, ResourceType
from brokertwin.state.cluster import internal_topics, topics
from brokertwin.state.cluster.image import INTERNAL_TOPICS, Partition, Topic
from brokertwin.state.cluster.machines import NO_LEADER, Broker, Reached
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Decision, Request

_IDS_SINCE = 12
_OFFLINE_NAMED_SINCE = 1
_LISTENERS_SINCE = 6


class _Seen(NamedTuple):
    """The brokers that a client can reach, its listener and its version.

    `offline` returns the offline replicas, like `Machine.offline_replicas`.
    """

    reached: Reached
    offline: Callable[[Partition, Reached], list[int]]
    listener: str
    version: int


@lru_cache
def cluster_id(cluster: str, chosen: str | None) -> str:
    return chosen if chosen else topics.derive_uuid("cluster", cluster)


def _handle(broker: Broker, request: Request) -> Decision:
    body: MetadataRequest = request.body
    error = _request_error(body, request.version)
    if error is not Error.NONE:
        return Decision(response=_refusal(body, error))
    reached = broker.reached(request.listener, broker.alive_brokers())
    seen = _Seen(reached, broker.offline_replicas, request.listener, request.version)
    missing: list[str] = []
    hidden: list[MetadataResponseTopic] = []
    if body.topics is None or (not body.topics and request.version == 0):
        known = broker.all_topics()
        denied = broker.denied_topics(request, Operation.DESCRIBE, (topic.name for topic in known))
        shown = (topic for topic in known if topic.name not in denied)
        found = [_visible(broker, topic, seen) for topic in shown]
    elif any(topic.topic_id != ZERO_UUID for topic in body.topics):
        found = _by_id(broker, request, body.topics, seen)
    else:
        found, missing, hidden = _by_name(broker, request, body.topics, seen)
    to_create = [name for name in missing if _may_create(broker, body, name)]
    uncreatable = _uncreatable(broker, request, body, missing)
    created = [name for name in to_create if name not in uncreatable]
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(node, *endpoint, broker.rack_of(node))
            for node, endpoint in seen.reached.items()
        ],
        cluster_id=cluster_id(broker.cell.cluster, request.choices.cluster_id),
        controller_id=next(iter(broker.alive_brokers()), -1),
        topics=found + [_missing(name) for name in missing if name not in uncreatable],
    )
    _add_operations(broker, request, response)
    response.topics += [_hidden(name, name in INTERNAL_TOPICS) for name in uncreatable] + hidden
    return Decision(response=response, messages=internal_topics.creation(broker, created))


def _request_error(body: MetadataRequest, version: int) -> Error:
    topics = body.topics or []
    is_by_id = any(topic.topic_id != ZERO_UUID for topic in topics)
    is_any_nameless = any(topic.name is None for topic in topics)
    if version < _IDS_SINCE and (is_by_id or is_any_nameless):
        return Error.INVALID_REQUEST
    return Error.UNKNOWN_SERVER_ERROR if is_any_nameless and not is_by_id else Error.NONE


def _refusal(body: MetadataRequest, error: Error) -> MetadataResponse:
    refused = [
        MetadataResponseTopic(error_code=error, name=topic.name or "", topic_id=topic.topic_id)
        for topic in body.topics or ()
    ]
    return MetadataResponse(topics=refused, error_code=error)


def _by_id(
    broker: Broker, request: Request, request_topics: list[MetadataRequestTopic], seen: _Seen
) -> list[MetadataResponseTopic]:
    """Return unknown ids, then known topics; hide unauthorized names."""
    unknown, known = [], []
    for topic_id in dict.fromkeys(each.topic_id for each in request_topics):
        topic = broker.topic_by_id(topic_id)
        if topic is not None and broker.allows_topic(request, Operation.DESCRIBE, topic.name):
            known.append(_visible(broker, topic, seen))
        elif topic is not None:
            error = Error.TOPIC_AUTHORIZATION_FAILED
            known.append(MetadataResponseTopic(error_code=error, name=None, topic_id=topic_id))
        elif topic_id != ZERO_UUID:
            unknown.append(
                MetadataResponseTopic(
                    error_code=Error.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id
                )
            )
    return unknown + known


def _by_name(
    broker: Broker, request: Request, request_topics: list[MetadataRequestTopic], seen: _Seen
) -> tuple[list[MetadataResponseTopic], list[str], list[MetadataResponseTopic]]:
    """Return existing topics, missing names and unauthorized topics."""
    topics, missing, hidden = [], [], []
    for name in dict.fromkeys(each.name or "" for each in request_topics):
        topic = broker.topic_by_name(name)
        if not broker.allows_topic(request, Operation.DESCRIBE, name):
            hidden.append(_hidden(name))
        elif topic is None:
            missing.append(name)
        else:
            topics.append(_visible(broker, topic, seen))
    return topics, missing, hidden


def _hidden(name: str, is_internal: bool = False) -> MetadataResponseTopic:
    error = Error.TOPIC_AUTHORIZATION_FAILED
    return MetadataResponseTopic(error_code=error, name=name, is_internal=is_internal)


def _uncreatable(
    broker: Broker, request: Request, body: MetadataRequest, missing: list[str]
) -> list[str]:
    """Return missing topics that the client is not allowed to create."""
    is_wanted = body.allow_auto_topic_creation and broker.settings.auto_create_topics_enable
    if not missing or not is_wanted or broker.allows_cluster(request, Operation.CREATE):
        return []
    denied = broker.denied_topics(request, Operation.CREATE, missing)
    return [name for name in missing if name in denied]


def _visible(broker: Broker, topic: Topic, seen: _Seen) -> MetadataResponseTopic:
    variant = seen.listener, seen.version
    return broker.described(topic, variant, partial(_found, seen=seen))


def _found(topic: Topic, seen: _Seen) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[
            _partition(index, partition, seen) for index, partition in enumerate(topic.partitions)
        ],
    )


def _partition(index: int, partition: Partition, seen: _Seen) -> MetadataResponsePartition:
    reached, leader = seen.reached, partition.leader
    replicas, isr, error = partition.replicas, partition.isr, Error.NONE
    if seen.version < _OFFLINE_NAMED_SINCE:
        replicas, isr = ([each for each in all_ if each in reached] for all_ in (replicas, isr))
        if len(replicas) < len(partition.replicas):
            error = Error.REPLICA_NOT_AVAILABLE
    if leader not in reached:
        is_elsewhere = leader != NO_LEADER and seen.version >= _LISTENERS_SINCE
        error = Error.LISTENER_NOT_FOUND if is_elsewhere else Error.LEADER_NOT_AVAILABLE
    return MetadataResponsePartition(
        error_code=error,
        partition_index=index,
        leader_id=leader if leader in reached else NO_LEADER,
        leader_epoch=partition.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=seen.offline(partition, reached),
    )


def _missing(name: str) -> MetadataResponseTopic:
    is_illegal = topics.name_error(name) is not None
    error = Error.INVALID_TOPIC_EXCEPTION if is_illegal else Error.UNKNOWN_TOPIC_OR_PARTITION
    return MetadataResponseTopic(error_code=error, name=name, is_internal=name in INTERNAL_TOPICS)


def _may_create(broker: Broker, body: MetadataRequest, name: str) -> bool:
    is_allowed = body.allow_auto_topic_creation and broker.settings.auto_create_topics_enable
    return is_allowed and topics.name_error(name) is None


def cluster_operations(broker: Broker, request: Request) -> int:
    """Return the authorized operations as bits; 0 without DESCRIBE."""
    if not broker.allows_cluster(request, Operation.DESCRIBE):
        return 0
    return broker.authorized_operations(request, ResourceType.CLUSTER, CLUSTER_NAME)


def _add_operations(broker: Broker, request: Request, response: MetadataResponse) -> None:
    """Set the authorized operations; without an authorizer, all of them."""
    body: MetadataRequest = request.body
    if body.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(broker, request)
    if body.include_topic_authorized_operations:
        response.topics = [_with_operations(broker, request, each) for each in response.topics]


def _with_operations(
    broker: Broker, request: Request, topic: MetadataResponseTopic
) -> MetadataResponseTopic:
    if topic.name is None:
        return topic
    operations = broker.authorized_operations(request, ResourceType.TOPIC, topic.name)
    return replace(topic, topic_authorized_operations=operations)


API = Api(kafka_apis.METADATA, _handle)
