"""A log of denied requests.

Each response with an authorization error is logged as `denied` at level `info`, like Kafka's
authorizer (`kafka.authorizer.logger`): principal, host, API, error and resources. Repeated denials
are logged once a minute with their count. As in Kafka, resources that a response omits (topics
hidden from Metadata) are not logged. Errors of a fault are logged as `injected`.

Source: `StandardAuthorizerData.logAuditMessage` in Kafka.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

import structlog

from brokertwin.gateway.engine.engine import AnyBody, Body, EdgeRequest, document_of_body
from brokertwin.gateway.traffic import ERROR_FIELDS
from brokertwin.protocol.errors import Error, error_name

RESOURCE_TYPES = {
    Error.TOPIC_AUTHORIZATION_FAILED: "Topic",
    Error.GROUP_AUTHORIZATION_FAILED: "Group",
    Error.CLUSTER_AUTHORIZATION_FAILED: "Cluster",
    Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "TransactionalId",
    Error.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "User",
}
"""Resource type of each authorization error, as in Kafka's ACLs."""

AGAIN_AFTER_S = 60.0
"""How long a repeated denial is counted and not logged."""

KEPT = 1_000
"""Maximum of remembered denials; the oldest is evicted."""

CLUSTER = "kafka-cluster"
NAMES = {
    Error.TOPIC_AUTHORIZATION_FAILED: ("name", "topicName", "topic", "resourceName", "topicId"),
    Error.GROUP_AUTHORIZATION_FAILED: ("groupId", "resourceName", "key"),
    Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: (
        *("transactionalId", "v3AndBelowTransactionalId", "key"),
    ),
    Error.DELEGATION_TOKEN_AUTHORIZATION_FAILED: ("principalName",),
}
"""Fields of requests and responses with the name of the denied resource."""

_log = structlog.get_logger("brokertwin.gateway")


class DenialLog:
    """Logs denials, each at most once a minute.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[tuple[str, ...], tuple[float, int]] = {}

    def look(self, request: EdgeRequest, response: AnyBody, injected: int = 0) -> None:
        """Log the denials in a response; `injected` is the error code of a fault."""
        errors: dict[Error, dict[str, None]] = {}
        document = document_of_body(response, request.version)
        for error, name in denied(request.document().body, document):
            errors.setdefault(error, {})[name] = None
        for error, names in errors.items():
            self._log("injected" if error == injected else "denied", request, error, sorted(names))

    def _log(self, event: str, request: EdgeRequest, error: Error, names: list[str]) -> None:
        api = request.header.request_api_key_name
        key = (event, request.principal, request.host, api, error_name(error), *names)
        now = self._clock()
        since, count = self._known.pop(key, (now - AGAIN_AFTER_S, 0))
        if now - since < AGAIN_AFTER_S:
            self._known[key] = (since, count + 1)
            return
        self._known[key] = (now, 0)
        if len(self._known) > KEPT:
            del self._known[next(iter(self._known))]
        again = {"times": count + 1} if count else {}
        _log.info(
            event,
            principal=request.principal,
            host=request.host,
            api=api,
            error=error_name(error),
            resource=f"{RESOURCE_TYPES[error]}:{','.join(names)}",
            **again,
        )


def denied(request: Body, response: Body) -> Iterator[tuple[Error, str]]:
    """Yield each error with the name of its resource; it is empty if none is known.

    The response to a heartbeat names no topic: all topics of the request are candidates.
    """
    for error, name in _denied(response, [request]):
        has_name = name or error is not Error.TOPIC_AUTHORIZATION_FAILED
        names = [name] if has_name else [*_heartbeat_topics(request)] or [""]
        yield from ((error, each) for each in names)


def _denied(within: Any, around: list[Body]) -> Iterator[tuple[Error, str]]:
    if isinstance(within, list):
        for each in within:
            yield from _denied(each, around)
    elif isinstance(within, dict):
        levels = [within, *around]
        for error in (within.get(field) for field in ERROR_FIELDS):
            if error in RESOURCE_TYPES:
                yield Error(error), _name(levels, Error(error))
        for below in within.values():
            if isinstance(below, list | dict):
                yield from _denied(below, levels)


def _name(levels: list[Body], error: Error) -> str:
    if error is Error.CLUSTER_AUTHORIZATION_FAILED:
        return CLUSTER
    found = (level[field] for level in levels for field in NAMES[error] if level.get(field))
    return str(next(found, ""))


def _heartbeat_topics(request: Body) -> Iterator[str]:
    """Yield the topics of a heartbeat of a consumer, share or streams group."""
    yield from request.get("subscribedTopicNames") or ()
    for part in (request.get("topology") or {}).get("subtopologies") or ():
        for names in ("sourceTopics", "repartitionSinkTopics"):
            yield from part.get(names) or ()
        for topics in ("repartitionSourceTopics", "stateChangelogTopics"):
            yield from (each["name"] for each in part.get(topics) or ())
