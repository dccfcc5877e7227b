"""Error answers to requests that the state machine has made dead letters of.

Where the API's answer has an error code of its own, there; else one for each item of the request
(`AbstractRequest.getErrorResponse` in Kafka). Where neither is known, the connection is closed.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from brokertwin.gateway.engine.engine import NOT_KEPT, Body
from brokertwin.gateway.protocol.frames import Request
from brokertwin.gateway.protocol.schema import API_NAMES, MESSAGES
from brokertwin.state.core.errors import Error
from brokertwin.state.core.events import Reason

NOT_HERE = frozenset({Reason.UNSUPPORTED_VERSION, Reason.NOT_BUILT, Reason.UNKNOWN_API})
"""Reasons that no retry will mend: UNSUPPORTED_VERSION."""

COORDINATED = frozenset(
    {8, 9, 11, 12, 13, 14, 15, 22, 24, 25, 26, 28, 42, 47, 65, 68, 69, 76, 77, *range(83, 89), 90}
)
"""APIs of coordinators: where what they write is not stored, Kafka answers NOT_COORDINATOR."""

ITSELF = ""
"""The name that an item has in a list of strings or numbers."""


class Mirror(NamedTuple):
    """How an answer repeats a list of its request.

    `names` has, for each field that names an item in the answer, its name in the request; `code` is
    the field that has an item's error. `of_each` is the list in whose items the one asked stands.
    """

    asked: str
    answered: str
    names: dict[str, str]
    inner: "Mirror | None" = None
    code: str = "errorCode"
    of_each: str = ""


_BY_INDEX = Mirror("partitions", "partitions", {"partitionIndex": "partitionIndex"})
_BY_NUMBER = Mirror("partitionIndexes", "partitions", {"partitionIndex": ITSELF})
_NAME = {"name": "name"}
_RESOURCE = {"resourceType": "resourceType", "resourceName": "resourceName"}
_NAME_OR_ID = {"name": "name", "topicId": "topicId"}
_SHARE_STATE = Mirror(
    "topics",
    "results",
    {"topicId": "topicId"},
    Mirror("partitions", "partitions", {"partition": "partition"}),
)
MIRRORS: dict[int, tuple[Mirror, ...]] = {
    0: (
        Mirror(
            "topicData",
            "responses",
            _NAME_OR_ID,
            Mirror("partitionData", "partitionResponses", {"index": "index"}),
        ),
    ),
    1: (
        Mirror(
            "topics",
            "responses",
            {"topic": "topic"},
            Mirror("partitions", "partitions", {"partitionIndex": "partition"}),
        ),
    ),
    2: (Mirror("topics", "topics", _NAME, _BY_INDEX),),
    3: (Mirror("topics", "topics", _NAME_OR_ID),),
    8: (Mirror("topics", "topics", _NAME_OR_ID, _BY_INDEX),),
    9: (
        Mirror("groups", "groups", {"groupId": "groupId"}),
        Mirror("topics", "topics", _NAME, _BY_NUMBER),
    ),
    10: (Mirror("coordinatorKeys", "coordinators", {"key": ITSELF}),),
    15: (Mirror("groups", "groups", {"groupId": ITSELF}),),
    19: (Mirror("topics", "topics", _NAME),),
    20: (
        Mirror("topics", "responses", _NAME_OR_ID),
        Mirror("topicNames", "responses", {"name": ITSELF}),
    ),
    21: (Mirror("topics", "topics", _NAME, _BY_INDEX),),
    23: (
        Mirror(
            "topics",
            "topics",
            {"topic": "topic"},
            Mirror("partitions", "partitions", {"partition": "partition"}),
        ),
    ),
    24: (
        Mirror(
            "v3AndBelowTopics",
            "resultsByTopicV3AndBelow",
            _NAME,
            Mirror(
                "partitions",
                "resultsByPartition",
                {"partitionIndex": ITSELF},
                code="partitionErrorCode",
            ),
        ),
    ),
    27: (
        Mirror(
            "markers",
            "markers",
            {"producerId": "producerId"},
            Mirror("topics", "topics", _NAME, _BY_NUMBER),
        ),
    ),
    28: (Mirror("topics", "topics", _NAME, _BY_INDEX),),
    30: (Mirror("creations", "results", {}),),
    31: (Mirror("filters", "filterResults", {}),),
    32: (Mirror("resources", "results", _RESOURCE),),
    33: (Mirror("resources", "responses", _RESOURCE),),
    34: (
        Mirror(
            "topics",
            "results",
            {"topicName": "name"},
            Mirror("partitions", "partitions", {"partitionIndex": ITSELF}),
            of_each="dirs",
        ),
    ),
    37: (Mirror("topics", "results", _NAME),),
    42: (Mirror("groupsNames", "results", {"groupId": ITSELF}),),
    43: (
        Mirror(
            "topicPartitions",
            "replicaElectionResults",
            {"topic": "topic"},
            Mirror("partitions", "partitionResult", {"partitionId": ITSELF}),
        ),
    ),
    44: (Mirror("resources", "responses", _RESOURCE),),
    49: (Mirror("entries", "entries", {"entity": "entity"}),),
    61: (Mirror("topics", "topics", _NAME, _BY_NUMBER),),
    65: (Mirror("transactionalIds", "transactionStates", {"transactionalId": ITSELF}),),
    69: (Mirror("groupIds", "groups", {"groupId": ITSELF}),),
    75: (Mirror("topics", "topics", _NAME),),
    77: (Mirror("groupIds", "groups", {"groupId": ITSELF}),),
    89: (Mirror("groupIds", "groups", {"groupId": ITSELF}),),
    **dict.fromkeys((83, 84, 85, 86, 87), (_SHARE_STATE,)),
    90: (Mirror("groups", "groups", {"groupId": "groupId"}),),
}
"""By API key, for answers without an error code of their own; the first list that was sent."""

EMPTY_IN_ERROR = frozenset({35})
"""DescribeLogDirs below version 3: clients take an answer without directories for a refusal."""

_EMPTY: dict[str, object] = {
    "errorMessage": None,
    "baseOffset": -1,
    "committedOffset": -1,
    "highWatermark": -1,
    "lowWatermark": -1,
    "nodeId": -1,
    "port": -1,
}


def error_of(refusal: Body, api_key: int) -> Error:
    """The error that a client is told of a dead letter.

    What could not be written down gets an error after which clients try again.
    """
    if refusal.get("reason") == NOT_KEPT:
        is_coordinated = api_key in COORDINATED
        return Error.NOT_COORDINATOR if is_coordinated else Error.KAFKA_STORAGE_ERROR
    return (
        Error.UNSUPPORTED_VERSION
        if refusal.get("reason") in NOT_HERE
        else Error.UNKNOWN_SERVER_ERROR
    )


def error_response(request: Request, error: int) -> Body | None:
    """The answer that tells an error, None where there is no such answer."""
    if has_own_code(request):
        return {**_EMPTY, "errorCode": int(error)}
    if request.api_key in EMPTY_IN_ERROR:
        return {}
    mirror = mirror_of(request)
    if mirror is None:
        return None
    return items_in_error(asked_for(request.body, mirror) or (), mirror, error)


def has_own_code(request: Request) -> bool:
    """Whether the answer has an error code for the whole request."""
    message = MESSAGES[f"{API_NAMES[request.api_key]}Response"]
    return any(
        field.name == "errorCode" and request.version in field.versions for field in message.fields
    )


def mirror_of(request: Request) -> Mirror | None:
    """How the answer repeats what the request lists; None where it does not."""
    mirrors = MIRRORS.get(request.api_key, ())
    return next((each for each in mirrors if asked_for(request.body, each) is not None), None)


def asked_for(body: Body, mirror: Mirror) -> list[Any] | None:
    """What a request lists; None where it does not."""
    if not mirror.of_each:
        return body.get(mirror.asked)
    return [item for each in body[mirror.of_each] for item in each[mirror.asked]]


def items_in_error(items: Iterable[Any], mirror: Mirror, error: int) -> Body:
    """The part of an answer that tells an error of each item of a request."""
    return {mirror.answered: [_mirrored(item, mirror, error) for item in items]}


def _mirrored(item: Any, mirror: Mirror, error: int) -> Body:
    answer: Body = {}
    for answered, asked in mirror.names.items():
        if asked == ITSELF:
            answer[answered] = item
        elif asked in item:
            answer[answered] = item[asked]
    if mirror.inner is None:
        return {**answer, **_EMPTY, mirror.code: int(error)}
    inner = mirror.inner
    answer[inner.answered] = [_mirrored(part, inner, error) for part in item[inner.asked] or ()]
    return answer
