"""The batches that recorded Produce requests appended.

If the model can only name the batch of a record (`within`), the offsets and times of that batch
must be those of a recorded header.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from brokertwin.protocol.bodies import ZERO_UUID
from brokertwin.protocol.kafka_apis import LIST_OFFSETS, PRODUCE
from brokertwin.recordings.replay.choices import named_topics
from brokertwin.recordings.replay.recording import Exchange

NONE = -1


class BatchHeader(NamedTuple):
    """Identifies a recorded batch; `base_offset` is None if not recorded."""

    base_offset: int | None
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int

    def is_named_by(self, within: dict[str, Any]) -> bool:
        """Whether `within` names this batch, or its rest after a deletion."""
        first, last = within["baseOffset"], within["lastOffset"]
        base_offset = self.base_offset
        if base_offset is None:
            base_offset = last - self.last_offset_delta
        is_cut = within["baseTimestamp"] == NONE and base_offset < first <= last
        is_whole = (first, within["baseTimestamp"]) == (base_offset, self.base_timestamp)
        ends = (base_offset + self.last_offset_delta, self.max_timestamp)
        return (last, within["maxTimestamp"]) == ends and (is_whole or is_cut)


class Appended:
    """The headers of a history's appends, by topic and partition."""

    def __init__(self, exchanges: Iterable[Exchange]) -> None:
        self._headers: dict[tuple[str, int], list[BatchHeader]] = defaultdict(list)
        known = list(exchanges)
        names = {topic_id: name for one in known for name, topic_id in named_topics(one)}
        for exchange in known:
            if exchange.header.request_api_key == PRODUCE.key:
                for topic, partition, header in _headers(exchange):
                    self._headers[names.get(topic, topic), partition].append(header)

    def unknown(self, exchange: Exchange, response: Any) -> list[tuple[str, str, Any]]:
        """Batches in a ListOffsets response that no request wrote.

        Each is a path, the expected value, and the value.
        """
        if exchange.header.request_api_key != LIST_OFFSETS.key or not isinstance(response, dict):
            return []
        return [
            (
                f"topics[{topic['name']}].partitions[{partition['partitionIndex']}].within",
                "a batch of a recorded Produce",
                partition["within"],
            )
            for topic in response.get("topics", ())
            for partition in topic["partitions"]
            if "within" in partition
            and not self._has(topic["name"], partition["partitionIndex"], partition["within"])
        ]

    def _has(self, topic: str, partition: int, within: dict[str, Any]) -> bool:
        headers = self._headers.get((topic, partition), [])
        more = within.get("orElse")
        if more is not None and not self._has(topic, partition, more):
            return False
        if within.get("isSealed"):
            return _is_segment(headers, within)
        return any(header.is_named_by(within) for header in headers)


def _is_segment(headers: list[BatchHeader], within: dict[str, Any]) -> bool:
    """Whether a sealed segment ends with a recorded batch and matches a time."""
    ends = {h.base_offset + h.last_offset_delta for h in headers if h.base_offset is not None}
    is_open = any(header.base_offset is None for header in headers)
    times = {header.max_timestamp for header in headers}
    return within["maxTimestamp"] in times and (is_open or within["lastOffset"] in ends)


def _headers(exchange: Exchange) -> Iterator[tuple[str, int, BatchHeader]]:
    """Yield topic, partition and header of each batch without an error."""
    results = produce_results(exchange.response or {})
    for topic in exchange.body().get("topicData", ()):
        for partition in topic.get("partitionData", ()):
            place = topic_of(topic), partition.get("index")
            result = results.get(place)
            if result is not None and result.get("errorCode"):
                continue
            offset = None if result is None else result.get("baseOffset")
            append_time = NONE if result is None else result.get("logAppendTimeMs", NONE)
            for batch in partition.get("batches") or ():
                delta = batch.get("lastOffsetDelta", 0)
                times = batch.get("baseTimestamp", NONE), batch.get("maxTimestamp", NONE)
                yield (
                    *place,
                    BatchHeader(offset, delta, *(times if append_time < 0 else [append_time] * 2)),
                )
                offset = None if offset is None else offset + delta + 1


def produce_results(response: dict[str, Any]) -> dict[tuple[Any, Any], dict[str, Any]]:
    """The partitions of a Produce response by topic and number."""
    return {
        (topic_of(topic), partition.get("index")): partition
        for topic in response.get("responses", ())
        for partition in topic.get("partitionResponses", ())
    }


def topic_of(topic: dict[str, Any]) -> Any:
    topic_id = topic.get("topicId", ZERO_UUID)
    return topic.get("name") or (topic_id if topic_id != ZERO_UUID else "")
