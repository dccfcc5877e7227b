"""FindCoordinator (key 10, versions 0 to 6): find a key's coordinator.

Up to version 3 a request has one key, from version 4 several. Key types: 0 a group, 1 a
transactional id, 2 a partition of a share group, `group:topicId:partition` (from version 6). The
coordinator is the leader of the key's partition of the internal topic
(`state/cluster/coordinators.py`). Host and port are placeholders, like in Metadata.

    unknown key type or invalid key            42 INVALID_REQUEST
    no DESCRIBE on the group                   30 GROUP_AUTHORIZATION_FAILED
    no DESCRIBE on the transactional id        53 TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    type 2 without CLUSTER_ACTION              31 CLUSTER_AUTHORIZATION_FAILED for every key,
                                               because only brokers send it
    the internal topic is missing              15 COORDINATOR_NOT_AVAILABLE; the topic is created

Sources: `KafkaApis`, `FindCoordinatorRequest`, `SharePartitionKey` in Kafka; KIP-699, KIP-932.
"""

import re
from enum import IntEnum
from typing import NamedTuple

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from brokertwin.state.access.authorizer import Operation, ResourceType
from brokertwin.state.cluster import internal_topics, topics
from brokertwin.state.cluster.coordinators import (
    GROUP_TOPIC,
    SHARE_TOPIC,
    TRANSACTION_TOPIC,
    coordinator_of,
)
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Decision, Request

_BATCHES_SINCE = 4
_SHARE_SINCE = 6
_NO_NODE = -1
_WHOLE = re.compile(r"[+-]?[0-9]{1,10}")

_MESSAGES = {
    Error.NONE: "NONE",
    Error.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    Error.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    Error.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
    Error.INVALID_REQUEST: (
        "This most likely occurs because of a request being malformed by the client library or"
        " the message was sent to an incompatible broker. See the broker logs for more details."
    ),
}


class KeyType(IntEnum):
    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


_PROTECTED = {
    KeyType.GROUP: (ResourceType.GROUP, Error.GROUP_AUTHORIZATION_FAILED),
    KeyType.TRANSACTION: (
        ResourceType.TRANSACTIONAL_ID,
        Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
}

_TOPICS = {
    KeyType.GROUP: GROUP_TOPIC,
    KeyType.TRANSACTION: TRANSACTION_TOPIC,
    KeyType.SHARE: SHARE_TOPIC,
}


class _Found(NamedTuple):
    error: Error
    node: int = _NO_NODE
    host: str = ""
    port: int = -1


def _handle(broker: Broker, request: Request) -> Decision:
    body: FindCoordinatorRequest = request.body
    if body.key_type not in _TOPICS:
        return _refused(body, request.version, Error.INVALID_REQUEST)
    if _is_for_brokers(body, request.version) and not broker.allows_cluster(
        request, Operation.CLUSTER_ACTION
    ):
        return _refused(body, request.version, Error.CLUSTER_AUTHORIZATION_FAILED)
    keys = body.coordinator_keys if request.version >= _BATCHES_SINCE else [body.key]
    coordinators = {key: _find(broker, request, key) for key in keys}
    name = _TOPICS[KeyType(body.key_type)]
    is_missing = broker.topic_by_name(name) is None and any(
        each.error is Error.COORDINATOR_NOT_AVAILABLE for each in coordinators.values()
    )
    if request.version >= _BATCHES_SINCE:
        response = FindCoordinatorResponse(
            coordinators=[_one(key, coordinators[key]) for key in keys]
        )
    else:
        response = _single(coordinators[body.key])
    messages = internal_topics.creation(broker, [name] if is_missing else [])
    return Decision(response=response, messages=messages)


def _is_for_brokers(body: FindCoordinatorRequest, version: int) -> bool:
    """Return whether only brokers may send this request."""
    return (
        body.key_type == KeyType.SHARE and version >= _SHARE_SINCE and bool(body.coordinator_keys)
    )


def _find(broker: Broker, request: Request, key: str) -> _Found:
    key_type = KeyType(request.body.key_type)
    if key_type in _PROTECTED:
        resource_type, error = _PROTECTED[key_type]
        if not broker.allows(request, Operation.DESCRIBE, resource_type, key):
            return _Found(error)
    is_early = request.version < _SHARE_SINCE
    if key_type is KeyType.SHARE and (is_early or not _is_share_key(key)):
        return _Found(Error.INVALID_REQUEST)
    node = coordinator_of(broker, _TOPICS[key_type], key)
    endpoint = None if node is None or node < 0 else broker.endpoint(node, request.listener)
    if node is None or endpoint is None:
        return _Found(Error.COORDINATOR_NOT_AVAILABLE)
    return _Found(Error.NONE, node, *endpoint)


def _is_share_key(key: str) -> bool:
    """Check for `group:topicId:partition`; group ids may contain colons."""
    group, *rest = key.rsplit(":", 2)
    return bool(group) and len(rest) == 2 and topics.is_uuid(rest[0]) and _is_int32(rest[1])


def _is_int32(text: str) -> bool:
    return bool(_WHOLE.fullmatch(text)) and -(2**31) <= int(text) < 2**31


def _one(key: str, coordinator: _Found) -> Coordinator:
    if coordinator.error is not Error.NONE:
        return Coordinator(key=key, error_code=coordinator.error)
    return Coordinator(
        key=key, node_id=coordinator.node, host=coordinator.host, port=coordinator.port
    )


def _single(coordinator: _Found) -> FindCoordinatorResponse:
    message = _MESSAGES[coordinator.error]
    if coordinator.error is not Error.NONE:
        return FindCoordinatorResponse(error_code=coordinator.error, error_message=message)
    return FindCoordinatorResponse(
        error_message=message,
        node_id=coordinator.node,
        host=coordinator.host,
        port=coordinator.port,
    )


def _refused(body: FindCoordinatorRequest, version: int, error: Error) -> Decision:
    message = _MESSAGES[error]
    if version < _BATCHES_SINCE:
        return Decision(response=_single(_Found(error)))
    coordinators = [
        Coordinator(key=key, error_code=error, error_message=message)
        for key in body.coordinator_keys
    ]
    return Decision(response=FindCoordinatorResponse(coordinators=coordinators))


API = Api(kafka_apis.FIND_COORDINATOR, _handle)
