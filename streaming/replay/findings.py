"""What the edge would have found in the bytes of a Produce request.

A recording has batch headers and no record bytes. Whether a CRC is wrong or a record set cannot be
decoded shows in the bytes alone; the edge looks at them and says so in `recordsError`. In a replay
the finding is taken from the recorded answer, for CORRUPT_MESSAGE alone, and such an exchange is
counted apart from those that the machine decided by itself.
"""

from typing import Any

import msgspec

from brokerstream.state.core.errors import Error
from brokerstream.streaming.replay.recording import Exchange

PRODUCE = 0


def has_findings(exchange: Exchange) -> bool:
    """Whether the answer says that the broker found the bytes of a batch broken."""
    return bool(_broken_partitions(exchange))


def request_with_findings(exchange: Exchange) -> msgspec.Raw:
    """The request, with `recordsError` where the bytes were broken."""
    broken = _broken_partitions(exchange)
    if not broken:
        return exchange.request
    body = exchange.body()
    for topic in body.get("topicData", ()):
        for partition in topic.get("partitionData", ()):
            if (_topic_of(topic), partition.get("index")) in broken:
                partition["recordsError"] = int(Error.CORRUPT_MESSAGE)
    return msgspec.Raw(msgspec.json.encode(body))


def _broken_partitions(exchange: Exchange) -> set[tuple[Any, Any]]:
    if exchange.header.request_api_key != PRODUCE or exchange.response is None:
        return set()
    return {
        (_topic_of(topic), partition.get("index"))
        for topic in exchange.response.get("responses", ())
        for partition in topic.get("partitionResponses", ())
        if partition.get("errorCode") == Error.CORRUPT_MESSAGE
    }


def _topic_of(topic: dict[str, Any]) -> Any:
    return topic.get("name") or topic.get("topicId")
