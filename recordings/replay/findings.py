"""What the edge would have found in the bytes of a Produce request.

A recording has batch headers and no record bytes. Whether a CRC is wrong or a record set cannot be
decoded shows in the bytes alone; the edge looks at them and says so in `recordsError`. In a replay
the finding is taken from the recorded answer, for CORRUPT_MESSAGE and for records without a key on
a compacted topic (`recordsSeen`). Which records were refused is in the bytes, too: where the
machine refuses some, the recorded words take the place of those that the edge would add. Such
exchanges are counted apart from those that the machine decided by itself.
"""

import copy
from typing import Any

import msgspec

from brokertwin.recordings.replay.recording import Exchange
from brokertwin.state.core.errors import Error
from brokertwin.state.core.kafka_apis import PRODUCE

KEYLESS = "Compacted topic cannot accept message without key"
WORDS = ("recordErrors", "errorMessage")
"""What the edge puts in the place of `refusedRecords`."""

_Place = tuple[Any, Any]


def has_findings(exchange: Exchange) -> bool:
    """Whether the answer says what the broker found in the bytes of a batch."""
    return any(
        partition.get("errorCode") == Error.CORRUPT_MESSAGE or partition.get("recordErrors")
        for partition in _answered(exchange, exchange.response).values()
    )


def request_with_findings(exchange: Exchange) -> msgspec.Raw:
    """The request, with what the edge would have told of its bytes."""
    if not has_findings(exchange):
        return exchange.request
    answered = _answered(exchange, exchange.response)
    body = exchange.body()
    for topic in body.get("topicData", ()):
        for partition in topic.get("partitionData", ()):
            said = answered.get((_topic_of(topic), partition.get("index")), {})
            if said.get("errorCode") == Error.CORRUPT_MESSAGE:
                partition["recordsError"] = int(Error.CORRUPT_MESSAGE)
            elif _is_keyless(said) and partition.get("batches"):
                partition["recordsSeen"] = _seen(said, partition["batches"][0])
    return msgspec.Raw(msgspec.json.encode(body))


def with_recorded_words(exchange: Exchange, response: Any, encoded: bytes) -> Any:
    """The machine's answer, or where records are refused a copy with the words that were recorded.

    Args:
        exchange: the recorded one.
        response: the machine's answer.
        encoded: the same in JSON.
    """
    if b'"refusedRecords":' not in encoded:
        return response
    response = copy.deepcopy(response)
    recorded = _answered(exchange, exchange.response)
    for place, partition in _answered(exchange, response).items():
        if partition.pop("refusedRecords", None) is not None:
            said = recorded.get(place, {})
            partition.update({name: said[name] for name in WORDS if name in said})
    return response


def _is_keyless(said: dict[str, Any]) -> bool:
    texts = (each.get("batchIndexErrorMessage") for each in said.get("recordErrors") or ())
    return any((text or "").startswith(KEYLESS) for text in texts)


def _seen(said: dict[str, Any], batch: dict[str, Any]) -> dict[str, Any]:
    """Some records have no key; where 32 was said, one that has a key has a wrong time."""
    seen: dict[str, Any] = {"hasKeyless": True}
    if said.get("errorCode") == Error.INVALID_TIMESTAMP:
        seen["keyedTimestamps"] = [batch["baseTimestamp"], batch["maxTimestamp"]]
    return seen


def _answered(exchange: Exchange, response: Any) -> dict[_Place, dict[str, Any]]:
    """The partitions of a Produce answer by topic and number; none of another API."""
    if exchange.header.request_api_key != PRODUCE.key or response is None:
        return {}
    return {
        (_topic_of(topic), partition.get("index")): partition
        for topic in response.get("responses", ())
        for partition in topic.get("partitionResponses", ())
    }


def _topic_of(topic: dict[str, Any]) -> Any:
    return topic.get("name") or topic.get("topicId")
