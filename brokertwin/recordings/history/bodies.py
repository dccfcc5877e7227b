"""Producers, errors and topics in requests and responses of Kafka's request log."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from brokertwin.protocol.bodies import ZERO_UUID
from brokertwin.protocol.kafka_apis import KAFKA_APIS, Trait, keys_with

SEQUENCE_MAX = 2**31 - 1
NO_PRODUCER = -1
NAMELESS = frozenset(KAFKA_APIS[key].name for key in keys_with(Trait.BARE_TOPIC_IDS))
"""Frequent APIs whose responses have topic ids without names."""

TOPIC_NAMES = ("name", "topicName", "topic")
"""Names of the fields with a topic's name in Kafka's schemas."""

MARKERS = "WRITE_TXN_MARKERS"
_NESTED = (dict, list)
PRODUCER_APIS = frozenset(
    {
        *("INIT_PRODUCER_ID", "PRODUCE", "ADD_PARTITIONS_TO_TXN", "ADD_OFFSETS_TO_TXN"),
        *("TXN_OFFSET_COMMIT", "END_TXN", MARKERS),
    }
)
"""The APIs that name a producer."""


class Holder(NamedTuple):
    """The producer of a request: producer id, epoch, transactional id."""

    producer_id: int
    epoch: int
    name: str | None


class SentBatch(NamedTuple):
    """A batch of a Produce with its outcome; offset -1 if it was refused."""

    topic: str
    partition: int
    producer_id: int
    epoch: int
    first: int
    last: int
    error: int
    offset: int


def holders(api: str, body: Any) -> list[Holder]:
    if api == "PRODUCE":
        if type(body) is BatchFree:
            return []
        found = {
            Holder(batch["producerId"], batch["producerEpoch"], body.get("transactionalId"))
            for _, _, batch in _batches(body)
        }
        return sorted(found, key=lambda holder: holder[:2])
    if api == "ADD_PARTITIONS_TO_TXN" and body.get("transactions"):
        return [_holder(each, "") for each in body["transactions"]]
    if api == "WRITE_TXN_MARKERS":
        markers = body.get("markers") or ()
        return [Holder(each["producerId"], each["producerEpoch"], None) for each in markers]
    if "v3AndBelowTransactionalId" in body:
        return [_holder(body, "v3AndBelow")]
    return [_holder(body, "")] if "transactionalId" in body else []


def holders_of(api: str, body: Any, response: Any) -> list[Holder]:
    """The producers of a request; for InitProducerId also the one in the response."""
    if api not in PRODUCER_APIS:
        return []
    found = holders(api, body)
    if api == "PRODUCE" and not found and body.get("transactionalId"):
        found = [Holder(NO_PRODUCER, -1, body["transactionalId"])]
    response = response or {}
    if api == "INIT_PRODUCER_ID" and not response.get("errorCode"):
        name = found[0].name if found else None
        found.append(
            Holder(response.get("producerId", -1), response.get("producerEpoch", -1), name)
        )
    return found


def sent(body: Any, response: Any) -> Iterator[SentBatch]:
    batches = _batches(body)
    if not batches:
        return
    results = {
        (topic_of(topic), partition["index"]): partition
        for topic in (response or {}).get("responses") or ()
        for partition in topic["partitionResponses"]
    }
    for topic, number, batch in batches:
        result = results.get((topic, number))
        if result is not None:
            first = batch.get("baseSequence", -1)
            last = sequence_after(first, batch.get("lastOffsetDelta", 0))
            outcome = result["errorCode"], result.get("baseOffset", -1)
            holder = batch["producerId"], batch["producerEpoch"]
            yield SentBatch(topic, number, *holder, first, last, *outcome)


def follower_of(body: Any) -> int:
    """The follower that sent a Fetch; below 0 for consumers and tools."""
    state = body.get("replicaState")
    follower = body.get("replicaId", -1)
    return int(max(follower, state.get("replicaId", -1)) if state else follower)


class ErrorFree(dict[str, Any]):
    """A response without error codes other than 0, so that no machine has to search it for them."""


class BatchFree(dict[str, Any]):
    """A request without batch headers, so that no machine has to search it for them."""


def is_batch_free(request: bytes) -> bool:
    """Return whether a request in JSON certainly has no batch headers."""
    return b'"batches"' not in request and b"\\" not in request


def is_error_free(response: bytes) -> bool:
    """Return whether a response in JSON certainly has no error code other than 0."""
    shown = response.lower()
    zeros = shown.count(b'errorcode":0,') + shown.count(b'errorcode":0}')
    return shown.count(b'errorcode"') == zeros and b"\\" not in shown


def errors(response: Any) -> list[int]:
    """The error codes of a response, at any depth, without 0."""
    codes: list[int] = []
    if type(response) is ErrorFree:
        return codes
    if type(response) in _NESTED:
        _gather_errors(response, codes)
    return codes


def _gather_errors(part: Any, codes: list[int]) -> None:
    if type(part) is list:
        for each in part:
            if type(each) in _NESTED:
                _gather_errors(each, codes)
        return
    for name, value in part.items():
        if value:
            if type(value) in _NESTED:
                _gather_errors(value, codes)
            elif name[-9:].lower() == "errorcode":
                codes.append(value)


def refused_topics(part: Any, topic: str = "") -> Iterator[str]:
    """The topics with an error in a part of a response; `topic` is that of the part."""
    if isinstance(part, list):
        for each in part:
            yield from refused_topics(each, topic)
    elif isinstance(part, dict):
        topic = next((str(part[field]) for field in TOPIC_NAMES if part.get(field)), topic)
        if topic and any(
            code and name.lower().endswith("errorcode") for name, code in part.items()
        ):
            yield topic
        for value in part.values():
            if value and type(value) in _NESTED:
                yield from refused_topics(value, topic)


def _holder(body: Any, prefix: str) -> Holder:
    def value(name: str, default: Any) -> Any:
        return body.get(f"{prefix}{name[0].upper()}{name[1:]}" if prefix else name, default)

    return Holder(
        value("producerId", NO_PRODUCER), value("producerEpoch", -1), value("transactionalId", None)
    )


def topic_names_in(part: Any) -> Iterator[tuple[str, str]]:
    """The topic ids in a part of a response, with their names."""
    if isinstance(part, list):
        for each in part:
            yield from topic_names_in(each)
    elif isinstance(part, dict):
        topic_id = part.get("topicId")
        if topic_id and topic_id != ZERO_UUID and not part.get("errorCode"):
            name = next((part[field] for field in TOPIC_NAMES if part.get(field)), None)
            if isinstance(name, str):
                yield topic_id, name
        for value in part.values():
            if value and type(value) in _NESTED:
                yield from topic_names_in(value)


def topic_of(part: Any) -> str:
    """The topic of a part of a body: its name, or its id in versions without names."""
    return str(part.get("name") or part.get("topicId") or "")


def committed_places(body: Any) -> Iterator[tuple[str, str, int]]:
    """Group, topic and partition of the offsets in a commit; the topic as in the request."""
    for topic in body.get("topics") or ():
        for partition in topic["partitions"]:
            yield str(body.get("groupId")), topic_of(topic), partition["partitionIndex"]


def _batches(body: Any) -> list[tuple[str, int, Any]]:
    if type(body) is BatchFree:
        return []
    return [
        (topic_of(topic), partition["index"], batch)
        for topic in body.get("topicData") or ()
        for partition in topic.get("partitionData") or ()
        for batch in partition.get("batches") or ()
        if batch.get("producerId", NO_PRODUCER) != NO_PRODUCER
    ]


def sequence_after(sequence: int, count: int) -> int:
    """Return `sequence` + `count`; 0 follows the greatest sequence."""
    return (sequence + count) % (SEQUENCE_MAX + 1)


def sequence_before(sequence: int, count: int) -> int:
    """Return `sequence` - `count`; the greatest sequence precedes 0."""
    return (sequence - count) % (SEQUENCE_MAX + 1)


def records_between(last: int, first: int) -> int | None:
    """Number of records between two sequences; None if `first` is behind `last`."""
    missing = sequence_before(first, last + 1)
    return missing if missing <= SEQUENCE_MAX // 2 else None
