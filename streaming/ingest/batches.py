"""The batch headers that a log leaves out, put into its Produce requests.

A broker's request log says of a batch only its size, Kroxylicious' not even that. The answer says
which offset the batch got, and there it lies in the topic. So a header belongs to a request where
its base offset is the answered one and its size, where the log tells one, is the same.

What stays without a header, and why (`Missing`): refused batches never came into the log; those
without an answer (acks 0) have no offset; retention, compaction and truncation remove batches; a
topic with a `compression.type` of its own has batches of another size than were sent.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from brokerstream.state.records import Batch
from brokerstream.state.schema import ZERO_UUID
from brokerstream.streaming.ingest.documents import Document, raw

PRODUCE, METADATA, CREATE_TOPICS, DESCRIBE_TOPIC_PARTITIONS = 0, 3, 19, 75
NAMING_APIS = frozenset({METADATA, CREATE_TOPICS, DESCRIBE_TOPIC_PARTITIONS})
"""APIs whose answers show topics' names and ids together."""


METADATA_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
"""The id of `__cluster_metadata` in every cluster (KIP-595)."""


class Missing(StrEnum):
    """Why a partition of a Produce request has no batch header."""

    NOT_ASKED = "not looked up"
    REFUSED = "refused by the broker"
    NOT_ANSWERED = "no answer tells an offset"
    NOT_THERE = "not in the topic any more"
    NOT_READ = "nothing of the partition is there"
    OTHER_SIZE = "another size in the topic"


class TopicPartition(NamedTuple):
    """A partition by its topic's name."""

    topic: str
    partition: int


Headers = dict[TopicPartition, list[Batch]]
"""What replicas hold: after a truncation there may be several batches at one offset."""


class Needs:
    """What of the topics is needed to complete the Produce requests of some documents.

    Attributes:
        offsets: for each partition the base offsets that answers name.
        names: topic id to name, from the answers that show both.
    """

    def __init__(self) -> None:
        self.offsets: dict[TopicPartition, set[int]] = defaultdict(set)
        self.names: dict[str, str] = {METADATA_TOPIC_ID: "__cluster_metadata"}
        self._by_id: dict[TopicPartition, set[int]] = defaultdict(set)

    def add(self, document: Document) -> None:
        """Look at one more document."""
        key = document.header.request_api_key
        if key in NAMING_APIS and bytes(document.response):
            answer = _decoded(document.response)
            for topic in _dicts(answer.get("topics")):
                name, topic_id = topic.get("name"), topic.get("topicId", ZERO_UUID)
                if name and topic_id != ZERO_UUID:
                    self.names[topic_id] = name
        elif key == PRODUCE and bytes(document.response):
            for topic, partition in _answered(_decoded(document.response)):
                if partition.get("errorCode") == 0 and not _has_batches(document):
                    place = TopicPartition(_topic(topic), partition.get("index", 0))
                    self._by_id[place].add(partition.get("baseOffset", -1))

    def close(self) -> None:
        """No more documents come: names are put in the place of ids."""
        for place, offsets in self._by_id.items():
            name = self.names.get(place.topic, place.topic)
            self.offsets[TopicPartition(name, place.partition)] |= offsets
        self._by_id.clear()


class Completion:
    """Puts batch headers into Produce requests.

    Args:
        headers: what was found in the topics; None where nobody looked.
        names: topic id to name.

    Attributes:
        completed: how many partitions of requests have got their header.
        missing: why others have none, counted by partition of a request.
    """

    def __init__(self, headers: Headers | None, names: dict[str, str]) -> None:
        self._stored = None if headers is None else _by_offset(headers)
        self._names = names
        self.completed = 0
        self.missing: Counter[Missing] = Counter()

    def complete(self, request: msgspec.Raw, response: msgspec.Raw, time: int) -> msgspec.Raw:
        """The body of a Produce request with its headers; as it is where none is found.

        Where several batches fit, that of the time nearest to the request's (ms since 1970) is
        taken.
        """
        body = _decoded(request)
        answers = {
            (_topic(topic), partition.get("index", 0)): partition
            for topic, partition in _answered(_decoded(response) if bytes(response) else {})
        }
        is_changed = False
        for topic in _dicts(body.get("topicData")):
            for partition in _dicts(topic.get("partitionData")):
                if "batches" in partition:
                    continue
                name = _topic(topic)
                answer = answers.get((name, partition.get("index", 0)))
                found = self._find(name, partition, answer, time)
                if isinstance(found, Missing):
                    self.missing[found] += 1
                    continue
                partition.setdefault("records", None)
                partition["recordsSizeInBytes"] = found.size_in_bytes
                partition["batches"] = [_as_sent(found)]
                self.completed += 1
                is_changed = True
        return raw(body) if is_changed else request

    def _find(
        self, topic: str, partition: dict[str, Any], answer: dict[str, Any] | None, time: int
    ) -> Batch | Missing:
        if answer is None:
            return Missing.NOT_ANSWERED
        if answer.get("errorCode") != 0:
            return Missing.REFUSED
        if self._stored is None:
            return Missing.NOT_ASKED
        place = TopicPartition(self._names.get(topic, topic), partition.get("index", 0))
        if place not in self._stored:
            return Missing.NOT_READ
        batches = self._stored[place].get(answer.get("baseOffset", -1), [])
        if not batches:
            return Missing.NOT_THERE
        size = partition.get("recordsSizeInBytes")
        fitting = [batch for batch in batches if size in (None, batch.size_in_bytes)]
        if not fitting:
            return Missing.OTHER_SIZE
        return min(fitting, key=lambda batch: abs(batch.max_timestamp - time))


def _by_offset(headers: Headers) -> dict[TopicPartition, dict[int, list[Batch]]]:
    found: dict[TopicPartition, dict[int, list[Batch]]] = {}
    for place, batches in headers.items():
        by_offset = found.setdefault(place, {})
        for batch in batches:
            same = by_offset.setdefault(batch.base_offset, [])
            if batch not in same:
                same.append(batch)
    return found


def _as_sent(batch: Batch) -> Batch:
    """A header as its producer sent it: the log gave it offset and leader epoch.

    Producers write 0 for the offset, and the leader epoch is not theirs to say.
    """
    return msgspec.structs.replace(batch, base_offset=0, partition_leader_epoch=-1)


def _decoded(body: msgspec.Raw) -> dict[str, Any]:
    value = msgspec.json.decode(body)
    return value if isinstance(value, dict) else {}


def _dicts(values: Any) -> Iterator[dict[str, Any]]:
    if isinstance(values, list):
        yield from (value for value in values if isinstance(value, dict))


def _answered(response: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    for topic in _dicts(response.get("responses")):
        for partition in _dicts(topic.get("partitionResponses")):
            yield topic, partition


def _topic(topic: dict[str, Any]) -> str:
    """Its name, or its id from version 13 on."""
    return str(topic.get("name") or topic.get("topicId") or "")


def _has_batches(document: Document) -> bool:
    return b'"batches"' in bytes(document.request)
