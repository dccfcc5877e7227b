"""Common parts of requests about shares: errors before the session's, decisions on states.

Source: `KafkaApis.handleShareFetchRequest`, `handleShareAcknowledgeRequest`,
`handleWriteShareGroupStateRequest` in Kafka; KIP-932.
"""

from collections.abc import Callable
from typing import Any

from brokertwin.protocol import codec
from brokertwin.protocol.bodies import Body
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.share_acknowledge import ShareAcknowledgeRequest
from brokertwin.protocol.generated.share_fetch import ShareFetchRequest
from brokertwin.state.access.authorizer import Operation, ResourceType
from brokertwin.state.cluster import features
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.core.records import Record
from brokertwin.state.share import result_order
from brokertwin.state.share.state_store import ShareKey, ShareStateError

MEMBER_ID_CHARACTERS_MAX = 36

DENIED = ShareStateError(Error.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")

Decide = Callable[[ShareKey, Any, Any], ShareStateError | Record | None]
"""Takes a partition's key and its part of the request; fills in its result."""


def request_error(broker: Broker, request: Request) -> Error:
    """Return the error of a request before its session is checked.

    One of 35 UNSUPPORTED_VERSION, 42 INVALID_REQUEST, 30 GROUP_AUTHORIZATION_FAILED, and NONE.
    """
    body: ShareFetchRequest | ShareAcknowledgeRequest = request.body
    if not broker.has_feature(features.SHARE):
        return Error.UNSUPPORTED_VERSION
    if body.group_id is None:
        return Error.INVALID_REQUEST
    if not broker.allows(request, Operation.READ, ResourceType.GROUP, body.group_id):
        return Error.GROUP_AUTHORIZATION_FAILED
    if not body.member_id or len(body.member_id) > MEMBER_ID_CHARACTERS_MAX:
        return Error.INVALID_REQUEST
    return Error.NONE


def denied_names(broker: Broker, request: Request) -> frozenset[str]:
    """Return the request's topics that the client may not READ."""
    topics = (broker.topic_by_id(each.topic_id) for each in request.body.topics)
    names = (topic.name for topic in topics if topic is not None)
    return frozenset(broker.denied_topics(request, Operation.READ, names))


def decide_states(
    broker: Broker,
    request: Request,
    types: tuple[type[Body], type[Body]],
    decide: Decide,
    *,
    is_ordered: bool = True,
) -> Decision:
    """Decide on each partition's state in a request of another broker.

    Args:
        broker: the share coordinator.
        request: of group coordinators or leaders.
        types: those of the results of a topic, and of a partition.
        decide: returns the error or the record of a partition.
        is_ordered: whether results are in Kafka's hash order, without duplicates.
    """
    body, (of_topic, of_partition) = request.body, types
    is_allowed = broker.allows_cluster(request, Operation.CLUSTER_ACTION)
    records: list[Record] = []
    results = []
    for topic in result_order.topics(body.topics) if is_ordered else body.topics:
        named = result_order.partitions(topic.partitions) if is_ordered else topic.partitions
        partitions = []
        for requested in named:
            result: Any = of_partition(partition=requested.partition)
            place = (body.group_id, topic.topic_id, requested.partition)
            decided = decide(place, requested, result) if is_allowed else DENIED
            if isinstance(decided, ShareStateError):
                result.error_code, result.error_message = decided
            elif decided is not None:
                records.append(decided)
            partitions.append(result)
        results.append(of_topic(topic_id=topic.topic_id, partitions=partitions))
    response = codec.response_type(request.header.request_api_key)(results=results)
    return Decision(records=records, response=response)
