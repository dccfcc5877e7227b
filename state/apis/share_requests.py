"""Errors of share group requests that precede the session's.

Source: `KafkaApis.handleShareFetchRequest`, `handleShareAcknowledgeRequest` in Kafka; KIP-932.
"""

from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.share_acknowledge import ShareAcknowledgeRequest
from brokertwin.protocol.generated.share_fetch import ShareFetchRequest
from brokertwin.state.access.authorizer import Operation, ResourceType
from brokertwin.state.cluster import features
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.decision import Request

MEMBER_ID_CHARACTERS_MAX = 36


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
