"""Error answers that clients of any version can read, for all of a request or for a part of it.

Errors stand where Kafka's schemas have an `errorCode`: one of the whole answer, one for each topic
or partition, or both (`gateway/refusals.py` knows how answers repeat their requests). Where only a
part of a request fails, the rest is decided as ever and both are put together.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from brokertwin.gateway import refusals
from brokertwin.gateway.engine.engine import Body
from brokertwin.gateway.protocol.frames import Request
from brokertwin.gateway.protocol.schema import API_NAMES, MESSAGES
from brokertwin.state.core.errors import Error
from brokertwin.state.core.kafka_apis import FETCH, OFFSET_FETCH, api_of_key
from brokertwin.state.core.repeated_lists import ITSELF, RepeatedList
from brokertwin.state.core.schema import ZERO_UUID

TOPIC_IDS_SINCE = 13
"""The version of Fetch from which on it names topics by id."""

OF_FETCH_SESSIONS = frozenset(
    {
        Error.UNKNOWN_SERVER_ERROR,
        Error.FETCH_SESSION_ID_NOT_FOUND,
        Error.INVALID_FETCH_SESSION_EPOCH,
        Error.FETCH_SESSION_TOPIC_ID_ERROR,
        Error.INCONSISTENT_TOPIC_ID,
    }
)
"""What a Fetch as a whole fails with; every other error is told of its partitions."""

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
"""The name of the topic with an id."""

HasPlace = Callable[[str | None, int | None], bool]
"""Whether a topic's partition is meant; None for the whole topic."""


class Parts(NamedTuple):
    """A request's list in two: what fails, and what does not."""

    failing: list[Any]
    rest: list[Any]


def mirror_of(request: Request) -> RepeatedList | None:
    """How the answer repeats the topics of a request; None where the request has none."""
    if request.api_key == OFFSET_FETCH.key and request.body.get("groups"):
        return _OFFSETS_OF_GROUPS
    return refusals.repeated_list_of(request)


def names_topics(api_key: int) -> bool:
    """Whether requests of an API are about topics."""
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
    """What of a request's list is meant, and what is not; both keep their order."""
    parts = Parts([], [])
    for item in items or ():
        named = _topic_of(item, mirror, name_of) or topic
        if mirror.inner is None:
            is_meant = named is not None and has_place(named, _partition_of(item, mirror))
            (parts.failing if is_meant else parts.rest).append(item)
            continue
        asked = mirror.inner.asked
        inner = split(item[asked], mirror.inner, has_place, name_of, named)
        if inner.failing:
            parts.failing.append({**item, asked: inner.failing})
        if inner.rest or not inner.failing:
            parts.rest.append({**item, asked: inner.rest} if inner.failing else item)
    return parts


def _topic_of(item: Any, mirror: RepeatedList, name_of: NameOf) -> str | None:
    for field in _TOPIC_FIELDS:
        asked = mirror.names.get(field)
        if asked == ITSELF:
            return str(item)
        if asked is not None and item.get(asked):
            return str(item[asked])
    topic_id = item.get("topicId", ZERO_UUID) if isinstance(item, dict) else ZERO_UUID
    return name_of(topic_id) if topic_id != ZERO_UUID else None


def _partition_of(item: Any, mirror: RepeatedList) -> int | None:
    for field in _PARTITION_FIELDS:
        asked = mirror.names.get(field)
        if asked is not None:
            return int(item if asked == ITSELF else item[asked])
    return None


def whole(request: Request, error: int) -> Body:
    """The answer that tells the error wherever it has an error code.

    A Fetch that has failed as a whole names no partitions, as in Kafka.
    """
    body = dict(refusals.error_response(request, error) or {})
    mirror = refusals.repeated_list_of(request)
    is_told = request.api_key == FETCH.key and refusals.has_own_code(request)
    if mirror is not None and not is_told:
        body.update(
            refusals.items_in_error(refusals.asked_for(request.body, mirror) or (), mirror, error)
        )
    return filled(request, body)


def part(request: Request, failing: list[Any], mirror: RepeatedList, error: int) -> Body:
    """The answer that tells the error of a part of the request."""
    return filled(request, refusals.items_in_error(failing, mirror, error))


def filled(request: Request, body: Body) -> Body:
    """The answer with every list that its version has: the edge looks for them."""
    message = MESSAGES[f"{API_NAMES[request.api_key]}Response"]
    lists = [f.name for f in message.fields if f.is_array and request.version in f.versions]
    return {**{name: [] for name in lists}, **body}


def merge(response: Body, errors: Body, mirror: RepeatedList) -> Body:
    """The answer to the rest of a request, with the errors of the part that fails."""
    return {
        **response,
        mirror.answered: _merged(response[mirror.answered], errors[mirror.answered], mirror),
    }


def _merged(answered: list[Body], errors: list[Body], mirror: RepeatedList) -> list[Body]:
    found = list(answered)
    for error in errors:
        same = next((each for each in found if _is_same(each, error, mirror)), None)
        if same is None or mirror.inner is None:
            found.append(error)
            continue
        inner = mirror.inner
        partitions = _merged(same[inner.answered], error[inner.answered], inner)
        found[found.index(same)] = {**same, inner.answered: partitions}
    return found


def _is_same(one: Body, other: Body, mirror: RepeatedList) -> bool:
    shared = [name for name in mirror.names if name in one and name in other]
    return bool(shared) and all(one[name] == other[name] for name in shared)


class FetchPlace(NamedTuple):
    """A partition that a Fetch reads, and its topic as the request's version has it."""

    topic: str | None
    identity: tuple[str, str]
    partition: int


def named_in_fetch(body: Body, version: int, name_of: NameOf) -> Iterator[FetchPlace]:
    """The partitions that a Fetch request names."""
    field = "topicId" if version >= TOPIC_IDS_SINCE else "topic"
    for topic in body["topics"] or ():
        name = name_of(topic["topicId"]) if version >= TOPIC_IDS_SINCE else topic["topic"]
        for partition in topic["partitions"]:
            yield FetchPlace(name, (field, topic[field]), partition["partition"])


def put_into_fetch(response: Body, failing: list[FetchPlace], error: int) -> Body:
    """A Fetch answer in which these partitions have the error and no records."""
    field = failing[0].identity[0]
    meant = {(place.identity[1], place.partition) for place in failing}
    topics: dict[str, list[Body]] = {}
    for topic in response["responses"]:
        kept = [p for p in topic["partitions"] if (topic[field], p["partitionIndex"]) not in meant]
        if kept:
            topics.setdefault(topic[field], []).extend(kept)
    for topic_identity, partition in sorted(meant):
        told = {"partitionIndex": partition, "errorCode": int(error), "highWatermark": -1}
        topics.setdefault(topic_identity, []).append(told)
    responses = [{field: name, "partitions": partitions} for name, partitions in topics.items()]
    return {**response, "responses": responses}


def put_into_metadata(response: Body, failing: list[Body], error: int) -> Body:
    """A Metadata answer that tells the error of these topics, named as in the request."""
    told = [
        {"errorCode": int(error), "name": topic.get("name"), "topicId": topic.get("topicId")}
        for topic in failing
    ]
    told = [{key: value for key, value in each.items() if value is not None} for each in told]
    return {**response, "topics": [*response["topics"], *told]}
