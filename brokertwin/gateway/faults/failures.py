"""Error responses in any version, for a whole request or a part of it.

Errors are in the `errorCode` fields of Kafka's schemas: for the whole response, for each topic or
partition, or both (`gateway/refusals.py`). If only a part of a request fails, the rest is
processed, and both results are merged.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from brokertwin.gateway import refusals
from brokertwin.gateway.engine.engine import Body
from brokertwin.protocol.bodies import ZERO_UUID
from brokertwin.protocol.errors import Error
from brokertwin.protocol.frames import RequestFrame
from brokertwin.protocol.kafka_apis import FETCH, OFFSET_FETCH, api_of_key
from brokertwin.protocol.repeated_lists import ITSELF, RepeatedList
from brokertwin.protocol.schemas import API_NAMES, MESSAGES

TOPIC_IDS_SINCE = 13
"""First version of Fetch that names topics by id."""

OF_FETCH_SESSIONS = frozenset(
    {
        Error.UNKNOWN_SERVER_ERROR,
        Error.FETCH_SESSION_ID_NOT_FOUND,
        Error.INVALID_FETCH_SESSION_EPOCH,
        Error.FETCH_SESSION_TOPIC_ID_ERROR,
        Error.INCONSISTENT_TOPIC_ID,
    }
)
"""Errors of a whole Fetch; all others are errors of its partitions."""

_OFFSETS_OF_GROUPS = RepeatedList(
    "groups",
    "groups",
    {"groupId": "groupId"},
    RepeatedList(
        "topics",
        "topics",
        {"name": "name", "topicId": "topicId"},
        RepeatedList("partitionIndexes", "partitions", {"partitionIndex": ITSELF}),
    ),
)
_TOPIC_FIELDS = ("name", "topic")
_PARTITION_FIELDS = ("partitionIndex", "index", "partition")

NameOf = Callable[[str], str | None]
"""Returns the name of a topic id."""

HasPlace = Callable[[str | None, int | None], bool]
"""True if a partition matches the filter, or with None the whole topic."""


class Parts(NamedTuple):
    """The failing and the other items of a request."""

    failing: list[Any]
    rest: list[Any]


def mirror_of(request: RequestFrame) -> RepeatedList | None:
    """Return how a response repeats the topics of its request; None if it does not."""
    if request.api_key == OFFSET_FETCH.key and request.body.get("groups"):
        return _OFFSETS_OF_GROUPS
    return refusals.repeated_list_of(request)


def names_topics(api_key: int) -> bool:
    return any(_names_topic(each) for each in api_of_key(api_key).repeated)


def _names_topic(mirror: RepeatedList | None) -> bool:
    if mirror is None:
        return False
    return any(field in mirror.names for field in _TOPIC_FIELDS) or _names_topic(mirror.inner)


def split(
    items: list[Any] | None,
    mirror: RepeatedList,
    has_place: HasPlace,
    name_of: NameOf,
    topic: str | None = None,
) -> Parts:
    """Split the items of a request by the filter, in order."""
    parts = Parts([], [])
    for item in items or ():
        named = _topic_of(item, mirror, name_of) or topic
        if mirror.inner is None:
            is_selected = named is not None and has_place(named, _partition_of(item, mirror))
            (parts.failing if is_selected else parts.rest).append(item)
            continue
        field_name = mirror.inner.request_list
        inner = split(item[field_name], mirror.inner, has_place, name_of, named)
        if inner.failing:
            parts.failing.append({**item, field_name: inner.failing})
        if inner.rest or not inner.failing:
            parts.rest.append({**item, field_name: inner.rest} if inner.failing else item)
    return parts


def _topic_of(item: Any, mirror: RepeatedList, name_of: NameOf) -> str | None:
    for field in _TOPIC_FIELDS:
        field_name = mirror.names.get(field)
        if field_name == ITSELF:
            return str(item)
        if field_name is not None and item.get(field_name):
            return str(item[field_name])
    topic_id = item.get("topicId", ZERO_UUID) if isinstance(item, dict) else ZERO_UUID
    return name_of(topic_id) if topic_id != ZERO_UUID else None


def _partition_of(item: Any, mirror: RepeatedList) -> int | None:
    for field in _PARTITION_FIELDS:
        field_name = mirror.names.get(field)
        if field_name is not None:
            return int(item if field_name == ITSELF else item[field_name])
    return None


def whole(request: RequestFrame, error: int) -> Body:
    """Return the response with the error in every error code.

    As in Kafka, a Fetch that fails as a whole names no partitions.
    """
    body = dict(refusals.error_response(request, error) or {})
    mirror = refusals.repeated_list_of(request)
    has_own_error = request.api_key == FETCH.key and refusals.has_own_code(request)
    if mirror is not None and not has_own_error:
        body.update(
            refusals.items_in_error(
                refusals.listed_items(request.body, mirror) or (), mirror, error
            )
        )
    return filled(request, body)


def part(request: RequestFrame, failing: list[Any], mirror: RepeatedList, error: int) -> Body:
    return filled(request, refusals.items_in_error(failing, mirror, error))


def filled(request: RequestFrame, body: Body) -> Body:
    """Add empty lists for all missing lists of the response's version."""
    message = MESSAGES[f"{API_NAMES[request.api_key]}Response"]
    lists = [f.name for f in message.fields if f.is_array and request.version in f.versions]
    return {**{name: [] for name in lists}, **body}


def merge(response: Body, errors: Body, mirror: RepeatedList) -> Body:
    """Merge the response to the rest of a request with the errors."""
    return {
        **response,
        mirror.response_list: _merged(
            response[mirror.response_list], errors[mirror.response_list], mirror
        ),
    }


def _merged(response_list: list[Body], errors: list[Body], mirror: RepeatedList) -> list[Body]:
    merged = list(response_list)
    for error in errors:
        same = next((each for each in merged if _is_same(each, error, mirror)), None)
        if same is None or mirror.inner is None:
            merged.append(error)
            continue
        inner = mirror.inner
        partitions = _merged(same[inner.response_list], error[inner.response_list], inner)
        merged[merged.index(same)] = {**same, inner.response_list: partitions}
    return merged


def _is_same(one: Body, other: Body, mirror: RepeatedList) -> bool:
    shared = [name for name in mirror.names if name in one and name in other]
    return bool(shared) and all(one[name] == other[name] for name in shared)


class RequestedFetchPartition(NamedTuple):
    """A partition of a Fetch, with its topic field in the request's version."""

    topic: str | None
    identity: tuple[str, str]
    partition: int


def named_in_fetch(body: Body, version: int, name_of: NameOf) -> Iterator[RequestedFetchPartition]:
    """Yield the partitions named in a Fetch request."""
    field = "topicId" if version >= TOPIC_IDS_SINCE else "topic"
    for topic in body["topics"] or ():
        name = name_of(topic["topicId"]) if version >= TOPIC_IDS_SINCE else topic["topic"]
        for partition in topic["partitions"]:
            yield RequestedFetchPartition(name, (field, topic[field]), partition["partition"])


def put_into_fetch(response: Body, failing: list[RequestedFetchPartition], error: int) -> Body:
    field = failing[0].identity[0]
    selected = {(place.identity[1], place.partition) for place in failing}
    topics: dict[str, list[Body]] = {}
    for topic in response["responses"]:
        kept = [
            p for p in topic["partitions"] if (topic[field], p["partitionIndex"]) not in selected
        ]
        if kept:
            topics.setdefault(topic[field], []).extend(kept)
    for topic_identity, partition in sorted(selected):
        failed = {"partitionIndex": partition, "errorCode": int(error), "highWatermark": -1}
        topics.setdefault(topic_identity, []).append(failed)
    responses = [{field: name, "partitions": partitions} for name, partitions in topics.items()]
    return {**response, "responses": responses}


def put_into_metadata(response: Body, failing: list[Body], error: int) -> Body:
    """Add errors for topics, named as in the request, to a Metadata response."""
    failed = [
        {"errorCode": int(error), "name": topic.get("name"), "topicId": topic.get("topicId")}
        for topic in failing
    ]
    failed = [{key: value for key, value in each.items() if value is not None} for each in failed]
    return {**response, "topics": [*response["topics"], *failed]}


def put_into_all_metadata(response: Body, has_place: HasPlace, error: int) -> Body:
    failing = [topic for topic in response["topics"] if has_place(topic["name"], None)]
    rest = [topic for topic in response["topics"] if topic not in failing]
    return put_into_metadata({**response, "topics": rest}, failing, error)
