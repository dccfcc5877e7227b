"""Error answers to requests that the state machine has made dead letters of.

Where the API's answer has an error code of its own, there; else one for each item of the request
(`AbstractRequest.getErrorResponse` in Kafka). Where neither is known, the connection is closed.
"""

from typing import Any, NamedTuple

from brokerstream.gateway.engine import Body
from brokerstream.gateway.protocol.frames import Request
from brokerstream.gateway.protocol.schema import API_NAMES, MESSAGES
from brokerstream.state.errors import Error
from brokerstream.state.events import Reason

NOT_HERE = frozenset({Reason.UNSUPPORTED_VERSION, Reason.NOT_BUILT, Reason.UNKNOWN_API})
"""Reasons that no retry will mend: UNSUPPORTED_VERSION."""


ITSELF = ""
"""The name that an item has in a list of strings or numbers."""


class _Mirror(NamedTuple):
    """How an answer repeats a list of its request.

    `names` has, for each field that names an item in the answer, its name in the request.
    """

    asked: str
    answered: str
    names: dict[str, str]
    inner: "_Mirror | None" = None


_BY_INDEX = _Mirror("partitions", "partitions", {"partitionIndex": "partitionIndex"})
_BY_NUMBER = _Mirror("partitionIndexes", "partitions", {"partitionIndex": ITSELF})
_NAME = {"name": "name"}
_RESOURCE = {"resourceType": "resourceType", "resourceName": "resourceName"}
_NAME_OR_ID = {"name": "name", "topicId": "topicId"}
_MIRRORS: dict[int, tuple[_Mirror, ...]] = {
    0: (
        _Mirror(
            "topicData",
            "responses",
            _NAME_OR_ID,
            _Mirror("partitionData", "partitionResponses", {"index": "index"}),
        ),
    ),
    1: (
        _Mirror(
            "topics",
            "responses",
            {"topic": "topic"},
            _Mirror("partitions", "partitions", {"partitionIndex": "partition"}),
        ),
    ),
    2: (_Mirror("topics", "topics", _NAME, _BY_INDEX),),
    3: (_Mirror("topics", "topics", _NAME_OR_ID),),
    8: (_Mirror("topics", "topics", _NAME_OR_ID, _BY_INDEX),),
    9: (
        _Mirror("groups", "groups", {"groupId": "groupId"}),
        _Mirror("topics", "topics", _NAME, _BY_NUMBER),
    ),
    10: (_Mirror("coordinatorKeys", "coordinators", {"key": ITSELF}),),
    15: (_Mirror("groups", "groups", {"groupId": ITSELF}),),
    19: (_Mirror("topics", "topics", _NAME),),
    20: (
        _Mirror("topics", "responses", _NAME_OR_ID),
        _Mirror("topicNames", "responses", {"name": ITSELF}),
    ),
    21: (_Mirror("topics", "topics", _NAME, _BY_INDEX),),
    23: (
        _Mirror(
            "topics",
            "topics",
            {"topic": "topic"},
            _Mirror("partitions", "partitions", {"partition": "partition"}),
        ),
    ),
    30: (_Mirror("creations", "results", {}),),
    31: (_Mirror("filters", "filterResults", {}),),
    32: (_Mirror("resources", "results", _RESOURCE),),
    33: (_Mirror("resources", "responses", _RESOURCE),),
    37: (_Mirror("topics", "results", _NAME),),
    42: (_Mirror("groupsNames", "results", {"groupId": ITSELF}),),
    44: (_Mirror("resources", "responses", _RESOURCE),),
    61: (_Mirror("topics", "topics", _NAME, _BY_NUMBER),),
    65: (_Mirror("transactionalIds", "transactionStates", {"transactionalId": ITSELF}),),
    69: (_Mirror("groupIds", "groups", {"groupId": ITSELF}),),
    75: (_Mirror("topics", "topics", _NAME),),
}
"""By API key, for answers without an error code of their own; the first list that was sent."""

_EMPTY: dict[str, object] = {"baseOffset": -1, "lowWatermark": -1, "highWatermark": -1}


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
    if has_code:
        return {"errorCode": int(error)}
    for mirror in _MIRRORS.get(api_key, ()):
        items = request.body.get(mirror.asked)
        if items is not None:
            return {mirror.answered: [_mirrored(item, mirror, error) for item in items]}
    return None


def _mirrored(item: Any, mirror: _Mirror, error: Error) -> Body:
    answer: Body = {}
    for answered, asked in mirror.names.items():
        if asked == ITSELF:
            answer[answered] = item
        elif asked in item:
            answer[answered] = item[asked]
    if mirror.inner is None:
        return {**answer, **_EMPTY, "errorCode": int(error)}
    inner = mirror.inner
    answer[inner.answered] = [_mirrored(part, inner, error) for part in item[inner.asked] or ()]
    return answer
