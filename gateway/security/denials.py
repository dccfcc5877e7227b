"""A log of what was denied: who asked for what, and was not allowed to.

Every answer with an authorization error gives a line, `denied`, at level `info`, as Kafka's
authorizer does (`kafka.authorizer.logger`): principal, host, API, error and resources. A client
that asks again and again has one line a minute, which says how often it asked meanwhile. What
clients may not see and are not told of (topics that Metadata leaves out) has none, as in Kafka.

Source: `StandardAuthorizerData.logAuditMessage` in Kafka.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

import structlog

from brokertwin.gateway.engine.engine import Body, EdgeRequest
from brokertwin.state.core.errors import Error, error_name

RESOURCE_TYPES = {
    Error.TOPIC_AUTHORIZATION_FAILED: "Topic",
    Error.GROUP_AUTHORIZATION_FAILED: "Group",
    Error.CLUSTER_AUTHORIZATION_FAILED: "Cluster",
    Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "TransactionalId",
    Error.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "User",
}
"""What each authorization error is about, in the words of Kafka's ACLs."""

AGAIN_AFTER_S = 60.0
"""How long the same denial is counted and not logged."""

KEPT = 1_000
"""How many denials are remembered; one more, and the oldest is logged again when it comes."""

CLUSTER = "kafka-cluster"
_OF_REQUESTS = ("groupId", "transactionalId", "key")
_OF_ANSWERS = (
    *("name", "topicName", "topic", "resourceName", *_OF_REQUESTS),
    *("topicId", "principalName"),
)

_log = structlog.get_logger("brokertwin.gateway")


class Denials:
    """Logs denials, each at most once a minute.

    Args:
        clock: seconds that only grow.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[tuple[str, ...], tuple[float, int]] = {}

    def look(self, asked: EdgeRequest, answer: Body) -> None:
        """Log what an answer denies, if it does."""
        found: dict[Error, dict[str, None]] = {}
        for error, name in denied(asked.body, answer):
            found.setdefault(error, {})[name] = None
        for error, names in found.items():
            self._told(asked, error, sorted(names))

    def _told(self, asked: EdgeRequest, error: Error, names: list[str]) -> None:
        api = str(asked.header["requestApiKeyName"])
        key = (asked.principal, asked.host, api, error_name(error), *names)
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
            "denied",
            principal=asked.principal,
            host=asked.host,
            api=api,
            error=error_name(error),
            resource=f"{RESOURCE_TYPES[error]}:{','.join(names)}",
            **again,
        )


def denied(request: Body, answer: Body) -> Iterator[tuple[Error, str]]:
    """Each authorization error in an answer, with the name of what it is about."""
    return _denied(answer, _name(request, _OF_REQUESTS, ""))


def _denied(within: Any, name: str) -> Iterator[tuple[Error, str]]:
    if isinstance(within, list):
        for each in within:
            yield from _denied(each, name)
    elif isinstance(within, dict):
        name = _name(within, _OF_ANSWERS, name)
        error = within.get("errorCode")
        if error in RESOURCE_TYPES:
            is_cluster = error == Error.CLUSTER_AUTHORIZATION_FAILED
            yield Error(error), CLUSTER if is_cluster else name
        for below in within.values():
            if isinstance(below, list | dict):
                yield from _denied(below, name)


def _name(within: Body, fields: tuple[str, ...], otherwise: str) -> str:
    return next((str(within[each]) for each in fields if within.get(each)), otherwise)
