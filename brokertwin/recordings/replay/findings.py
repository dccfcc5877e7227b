"""Errors that the edge finds in the bytes of a Produce request.

A recording has batch headers but no record bytes. Only the bytes show a wrong CRC or an undecodable
record set; the edge reports these in `recordsError`. In a replay the finding is taken from the
recorded response, for 2 CORRUPT_MESSAGE and for records without a key on a compacted topic
(`recordsSeen`). The bytes also show which records were refused: if the model refuses some, the
recorded messages replace those of the edge. Such exchanges are counted separately.
"""

import copy
from typing import Any

import msgspec

from brokertwin.protocol.errors import Error
from brokertwin.protocol.kafka_apis import PRODUCE
from brokertwin.recordings.replay.appended import produce_results, topic_of
from brokertwin.recordings.replay.recording import Exchange

KEYLESS = "Compacted topic cannot accept message without key"
ERROR_FIELDS = ("recordErrors", "errorMessage")
"""Fields that the edge sets instead of `refusedRecords`."""

_Place = tuple[Any, Any]


def has_findings(exchange: Exchange) -> bool:
    """Whether the response has a finding about the bytes of a batch."""
    return any(
        partition.get("errorCode") == Error.CORRUPT_MESSAGE or partition.get("recordErrors")
        for partition in _partitions_of(exchange, exchange.response).values()
    )


def request_with_findings(exchange: Exchange) -> msgspec.Raw:
    if not has_findings(exchange):
        return exchange.request
    partitions = _partitions_of(exchange, exchange.response)
    body = exchange.body()
    for topic in body.get("topicData", ()):
        for partition in topic.get("partitionData", ()):
            partition_result = partitions.get((topic_of(topic), partition.get("index")), {})
            if partition_result.get("errorCode") == Error.CORRUPT_MESSAGE:
                partition["recordsError"] = int(Error.CORRUPT_MESSAGE)
            elif _is_keyless(partition_result) and partition.get("batches"):
                partition["recordsSeen"] = _seen(partition_result, partition["batches"][0])
    return msgspec.Raw(msgspec.json.encode(body))


def with_recorded_errors(exchange: Exchange, response: Any, encoded: bytes) -> Any:
    """Return the response, with recorded error messages of refused records.

    `encoded`: the same as JSON.
    """
    if b'"refusedRecords":' not in encoded:
        return response
    response = copy.deepcopy(response)
    recorded = _partitions_of(exchange, exchange.response)
    for place, partition in _partitions_of(exchange, response).items():
        if partition.pop("refusedRecords", None) is not None:
            partition_result = recorded.get(place, {})
            partition.update(
                {name: partition_result[name] for name in ERROR_FIELDS if name in partition_result}
            )
    return response


def _is_keyless(partition_result: dict[str, Any]) -> bool:
    texts = (
        each.get("batchIndexErrorMessage") for each in partition_result.get("recordErrors") or ()
    )
    return any((text or "").startswith(KEYLESS) for text in texts)


def _seen(partition_result: dict[str, Any], batch: dict[str, Any]) -> dict[str, Any]:
    """Some records have no key; with 32 INVALID_TIMESTAMP a keyed one is wrong."""
    seen: dict[str, Any] = {"hasKeyless": True}
    if partition_result.get("errorCode") == Error.INVALID_TIMESTAMP:
        seen["keyedTimestamps"] = [batch["baseTimestamp"], batch["maxTimestamp"]]
    return seen


def _partitions_of(exchange: Exchange, response: Any) -> dict[_Place, dict[str, Any]]:
    """The partitions of a Produce response by topic and number."""
    if exchange.header.request_api_key != PRODUCE.key or response is None:
        return {}
    return produce_results(response)
