"""Error responses to requests that became dead letters.

The error code is in the response's own field, or else in each item of the request
(`AbstractRequest.getErrorResponse` in Kafka). If an API has neither, the connection is closed.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from brokertwin.gateway.engine.engine import NOT_KEPT, Body
from brokertwin.gateway.protocol.frames import Request
from brokertwin.gateway.protocol.schema import API_NAMES, MESSAGES
from brokertwin.state.core.errors import Error
from brokertwin.state.core.events import Reason

NOT_HERE = frozenset({Reason.UNSUPPORTED_VERSION, Reason.NOT_BUILT, Reason.UNKNOWN_API})
"""Permanent failures, answered with `35 UNSUPPORTED_VERSION`."""

COORDINATED = frozenset(
    {8, 9, 11, 12, 13, 14, 15, 22, 24, 25, 26, 28, 42, 47, 65, 68, 69, 76, 77, *range(83, 89), 90}
)
"""APIs of coordinators, which answer `16 NOT_COORDINATOR` if a write is not stored."""

ITSELF = ""
"""Stands for the item itself in a list of strings or numbers."""


class Mirror(NamedTuple):
    """How an error response repeats a list of its request.

    `names` maps a response field that identifies an item to its request field. `code` is the error
    field of an item. `of_each` is an outer list whose items contain the list.
    """

    request_list: str
    response_list: str
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
"""Lists by API key for responses without an error code; the first list present counts."""

EMPTY_IN_ERROR = frozenset({35})
"""DescribeLogDirs below version 3: clients treat a response without directories as refused."""

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
    """Map a dead letter to an error code.

    An event that could not be stored gets a retriable error.
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
    """Return the body of an error response, or None if the API has none."""
    if has_own_code(request):
        return {**_EMPTY, "errorCode": int(error)}
    if request.api_key in EMPTY_IN_ERROR:
        return {}
    mirror = mirror_of(request)
    if mirror is None:
        return None
    return items_in_error(listed_items(request.body, mirror) or (), mirror, error)


def has_own_code(request: Request) -> bool:
    """True if the response has an error code for the whole request."""
    message = MESSAGES[f"{API_NAMES[request.api_key]}Response"]
    return any(
        field.name == "errorCode" and request.version in field.versions for field in message.fields
    )


def mirror_of(request: Request) -> Mirror | None:
    """Return how the response repeats a list of the request, or None."""
    mirrors = MIRRORS.get(request.api_key, ())
    return next((each for each in mirrors if listed_items(request.body, each) is not None), None)


def listed_items(body: Body, mirror: Mirror) -> list[Any] | None:
    """Return the items of a request's list, or None if it has none."""
    if not mirror.of_each:
        return body.get(mirror.request_list)
    return [item for each in body[mirror.of_each] for item in each[mirror.request_list]]


def items_in_error(items: Iterable[Any], mirror: Mirror, error: int) -> Body:
    """Return the part of a response with an error for each item."""
    return {mirror.response_list: [_mirrored(item, mirror, error) for item in items]}


def _mirrored(item: Any, mirror: Mirror, error: int) -> Body:
    response: Body = {}
    for response_list, request_list in mirror.names.items():
        if request_list == ITSELF:
            response[response_list] = item
        elif request_list in item:
            response[response_list] = item[request_list]
    if mirror.inner is None:
        return {**response, **_EMPTY, mirror.code: int(error)}
    inner = mirror.inner
    response[inner.response_list] = [
        _mirrored(part, inner, error) for part in item[inner.request_list] or ()
    ]
    return response
