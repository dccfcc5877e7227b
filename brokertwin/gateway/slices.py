"""Large requests, which must not keep other clients waiting.

A request without record batches has at most `REQUEST_BYTES_MAX`. One that names many things is
decided in slices of `ITEMS`, and other requests are served in between. All mentions of a thing are
in one slice, because some APIs refuse a thing that a request names twice. The response has the
items in the order of the slices.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from brokertwin.gateway.engine.engine import Body
from brokertwin.protocol.frames import RequestFrame
from brokertwin.protocol.kafka_apis import (
    CREATE_TOPICS,
    KAFKA_APIS,
    OFFSET_COMMIT,
    TXN_OFFSET_COMMIT,
    Trait,
)
from brokertwin.protocol.primitives import MalformedError
from brokertwin.state.cluster.topics import RECORDS_PER_REQUEST_MAX

REQUEST_BYTES_MAX = 256 * 1024
"""Kafka accepts up to `socket.request.max.bytes`; 256 KiB name some 16,000 partitions.

A Fetch or an OffsetFetch of this size takes at most half a second of the processor.
"""

COMMIT_BYTES_MAX = 1024 * 1024
"""The same of a commit of offsets, most of which can be metadata."""

COMMITS = frozenset({OFFSET_COMMIT.key, TXN_OFFSET_COMMIT.key})

SLICED_BYTES = 16 * 1024
"""Length of a frame that is decided in slices."""

ITEMS = 100
"""Items of a slice: some 5 ms to read, 40 ms to create topics."""

OPAQUE = frozenset({"JOIN_GROUP", "SYNC_GROUP", "PUSH_TELEMETRY"})
"""APIs whose requests may have large fields, which the gateway does not look into."""

UNLIMITED = frozenset(
    key for key, api in KAFKA_APIS.items() if Trait.HAS_RECORDS in api.traits or api.name in OPAQUE
)

_TOPICS = (("topics", "topics"), ("partitions", "partitions"))
_BY_NUMBER = (("topics", "topics"), ("partitionIndexes", "partitions"))
_OF_GROUPS = (("groups", "groups"), *_BY_NUMBER)

LISTS: dict[str, tuple[tuple[tuple[str, str], ...], ...]] = {
    "CONSUMER_GROUP_DESCRIBE": ((("groupIds", "groups"),),),
    "CREATE_TOPICS": ((("topics", "topics"),),),
    "DELETE_TOPICS": ((("topics", "responses"),), (("topicNames", "responses"),)),
    "DESCRIBE_CONFIGS": ((("resources", "results"),),),
    "DESCRIBE_GROUPS": ((("groups", "groups"),),),
    "DESCRIBE_PRODUCERS": (_BY_NUMBER,),
    "DESCRIBE_TRANSACTIONS": ((("transactionalIds", "transactionStates"),),),
    "FIND_COORDINATOR": ((("coordinatorKeys", "coordinators"),),),
    "LIST_OFFSETS": (_TOPICS,),
    "METADATA": ((("topics", "topics"),),),
    "OFFSET_FETCH": (_OF_GROUPS, _BY_NUMBER),
    "OFFSET_FOR_LEADER_EPOCH": (_TOPICS,),
    "SHARE_GROUP_DESCRIBE": ((("groupIds", "groups"),),),
    "STREAMS_GROUP_DESCRIBE": ((("groupIds", "groups"),),),
}
"""Nested lists of a request and of its response, for the APIs whose items are independent.

OffsetFetch and DeleteTopics have either of two forms. All of these read, or change at most what a
client could ask for one by one.
"""

NAMES = (
    *("name", "topicId", "topic", "groupId"),
    *("resourceType", "resourceName", "partitionIndex", "partition"),
)
"""Fields that name an item."""

SLICED = {key: LISTS[api.name] for key, api in KAFKA_APIS.items() if api.name in LISTS}


class _Piece(NamedTuple):
    """Items of an innermost list, with the items that contain it; None: there is no list."""

    parents: tuple[Body, ...]
    items: list[Any] | None


def bytes_max(api_key: int, frame_bytes: int) -> int:
    if api_key in UNLIMITED:
        return frame_bytes
    return min(frame_bytes, COMMIT_BYTES_MAX if api_key in COMMITS else REQUEST_BYTES_MAX)


def sliced(request: RequestFrame) -> list[Body]:
    """Return the bodies in which a request is decided; one if it is small.

    Raises MalformedError if a large request names something twice, which some APIs refuse.
    """
    lists = _lists(request)
    if request.api_key == CREATE_TOPICS.key and not _is_small_batch(request.body["topics"]):
        return [request.body]
    pieces = list(_pieces(request.body, lists)) if lists else []
    if sum(len(each.items or ()) for each in pieces) <= ITEMS:
        return [request.body]
    if any(_repeats(each.items or ()) for each in pieces) or _repeats(
        [tuple(map(_name, each.parents)) for each in pieces]
    ):
        raise MalformedError(f"more than {ITEMS} items, some of them twice")
    bodies, some, count = [], list[_Piece](), 0
    for parents, items in pieces:
        left = items
        while left and count + len(left) >= ITEMS:
            some.append(_Piece(parents, left[: ITEMS - count]))
            bodies.append(_body(request.body, lists, some))
            left, some, count = left[ITEMS - count :], [], 0
        if left or not items:
            some.append(_Piece(parents, left))
            count += len(left or ())
    return [*bodies, _body(request.body, lists, some)] if some else bodies


def _is_small_batch(topics: list[Body]) -> bool:
    """True if no rule is about all topics of a CreateTopics: no name twice, few records."""
    records = [
        1 + len(each["configs"]) + (len(each["assignments"]) or each["numPartitions"])
        for each in topics
        if each["assignments"] or each["numPartitions"] > 0
    ]
    is_known = len(records) == len(topics)
    return is_known and sum(records) <= RECORDS_PER_REQUEST_MAX and not _repeats(topics)


def joined(request: RequestFrame, responses: list[Body]) -> Body:
    """Return one response from those to the slices; an error of the whole request replaces it."""
    for response in responses:
        if response.get("errorCode"):
            return response
    whole = responses[0]
    if len(responses) == 1:
        return whole
    if "throttleTimeMs" in whole:
        whole["throttleTimeMs"] = max(each["throttleTimeMs"] for each in responses)
    names = [response for _, response in _names(request)]
    whole[names[0]] = _joined([response[names[0]] for response in responses], names[1:])
    return whole


def _names(request: RequestFrame) -> tuple[tuple[str, str], ...]:
    forms = SLICED[request.api_key]
    return next((each for each in forms if request.body.get(each[0][0])), ())


def _lists(request: RequestFrame) -> list[str]:
    return [name for name, _ in _names(request)]


def _pieces(body: Body, lists: list[str], parents: tuple[Body, ...] = ()) -> Iterator[_Piece]:
    inner = body.get(lists[0])
    if len(lists) == 1 or not inner:
        yield _Piece(parents, inner)
        return
    for item in inner:
        yield from _pieces(item, lists[1:], (*parents, item))


def _repeats(items: Sequence[Any]) -> bool:
    """True if two items have the same name."""
    if not items or not isinstance(items[0], dict):
        return len(set(items)) < len(items)
    names = [name for name in NAMES if name in items[0]]
    rows = zip(*([item.get(name) for item in items] for name in names), strict=True)
    return len(set(rows)) < len(items)


def _body(body: Body, lists: list[str], pieces: list[_Piece]) -> Body:
    """Return a body with these items only."""
    if not pieces[0].parents:
        return {**body, lists[0]: pieces[0].items}
    by_parent: dict[int, list[_Piece]] = {}
    for each in pieces:
        by_parent.setdefault(id(each.parents[0]), []).append(each)
    return {
        **body,
        lists[0]: [
            _body(
                of[0].parents[0], lists[1:], [_Piece(each.parents[1:], each.items) for each in of]
            )
            for of in by_parent.values()
        ],
    }


def _joined(parts: list[list[Any]], inner: list[str]) -> list[Any]:
    """Join lists; items of the same name are one if they have inner lists."""
    if not inner:
        return [item for part in parts for item in part]
    by_key: dict[Any, Body] = {}
    lists: dict[Any, list[list[Any]]] = {}
    for part in parts:
        for item in part:
            if _name(item) not in by_key or item.get("errorCode"):
                by_key[_name(item)] = item
            lists.setdefault(_name(item), []).append(item.get(inner[0]) or [])
    for name, item in by_key.items():
        item[inner[0]] = _joined(lists[name], inner[1:])
    return list(by_key.values())


def _name(item: Any) -> Any:
    return tuple(item.get(name) for name in NAMES) if isinstance(item, dict) else item
