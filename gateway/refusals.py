"""Error answers to requests that the state machine has made dead letters of.

Where the API's answer has an error code of its own, there; else one for each item of the request
(`AbstractRequest.getErrorResponse` in Kafka). Where neither is known, the connection is closed.
"""

from typing import NamedTuple

from brokerstream.gateway.engine import Body
from brokerstream.gateway.protocol.frames import Request
from brokerstream.gateway.protocol.schema import API_NAMES, MESSAGES
from brokerstream.state.errors import Error
from brokerstream.state.events import Reason

NOT_HERE = frozenset({Reason.UNSUPPORTED_VERSION, Reason.NOT_BUILT, Reason.UNKNOWN_API})
"""Reasons that no retry will mend: UNSUPPORTED_VERSION."""


class _Mirror(NamedTuple):
    """How an answer repeats its request: list by list, with the fields that name an item."""

    asked: str
    answered: str
    names: tuple[str, ...]
    inner: "_Mirror | None" = None


_BY_INDEX = _Mirror("partitions", "partitions", ("partitionIndex",))
_MIRRORS = {
    0: _Mirror(
        "topicData",
        "responses",
        ("name", "topicId"),
        _Mirror("partitionData", "partitionResponses", ("index",)),
    ),
    2: _Mirror("topics", "topics", ("name",), _BY_INDEX),
    3: _Mirror("topics", "topics", ("name", "topicId")),
    8: _Mirror("topics", "topics", ("name", "topicId"), _BY_INDEX),
    9: _Mirror("groups", "groups", ("groupId",)),
    10: _Mirror("coordinatorKeys", "coordinators", ()),
    19: _Mirror("topics", "topics", ("name",)),
    20: _Mirror("topics", "responses", ("name", "topicId")),
    21: _Mirror("topics", "topics", ("name",), _BY_INDEX),
    37: _Mirror("topics", "results", ("name",)),
}
"""By API key; the answers of all other APIs begin with an error code."""

_EMPTY: dict[str, object] = {"baseOffset": -1, "lowWatermark": -1}


def error_of(refusal: Body) -> Error:
    """The error that a client is told of a dead letter."""
    return (
        Error.UNSUPPORTED_VERSION
        if refusal.get("reason") in NOT_HERE
        else Error.UNKNOWN_SERVER_ERROR
    )


def error_response(request: Request, error: Error) -> Body | None:
    """The answer that tells an error, None where there is no such answer."""
    api_key = request.api_key
    message = MESSAGES[f"{API_NAMES[api_key]}Response"]
    has_code = any(
        field.name == "errorCode" and request.version in field.versions for field in message.fields
    )
    body: Body = {"errorCode": int(error)} if has_code else {}
    mirror = _MIRRORS.get(api_key)
    if mirror is None:
        return body if has_code else None
    items = request.body.get(mirror.asked)
    if items is None:
        return body if has_code else None
    body[mirror.answered] = [_mirrored(item, mirror, error) for item in items]
    return body


def _mirrored(item: object, mirror: _Mirror, error: Error) -> Body:
    if not isinstance(item, dict):
        return {"key": item, "nodeId": -1, "errorCode": int(error)}
    answer: Body = {name: item[name] for name in mirror.names if name in item}
    if mirror.inner is None:
        return {**answer, **_EMPTY, "errorCode": int(error)}
    inner = mirror.inner
    answer[inner.answered] = [_mirrored(part, inner, error) for part in item[inner.asked] or ()]
    return answer
