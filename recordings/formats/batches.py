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
from typing import NamedTuple

import msgspec

from brokertwin.recordings.formats.documents import NOT_ANSWERED, Document, raw
from brokertwin.state.core.kafka_apis import (
    CREATE_TOPICS,
    DESCRIBE_TOPIC_PARTITIONS,
    METADATA,
    PRODUCE,
)
from brokertwin.state.core.records import Batch
from brokertwin.state.core.schema import ZERO_UUID

NAMING_APIS = frozenset({METADATA.key, CREATE_TOPICS.key, DESCRIBE_TOPIC_PARTITIONS.key})
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
    """A partition by its topic's name, or by the topic's id where that is all there is."""

    topic: str
    partition: int


Headers = dict[TopicPartition, list[Batch]]
"""What replicas hold: after a truncation there may be several batches at one offset."""


class _Named(msgspec.Struct, rename="camel"):
    name: str | None = None
    topic_id: str = ZERO_UUID


class _Topics(msgspec.Struct):
    topics: list[_Named] | None = None


class _AnsweredPartition(msgspec.Struct, rename="camel"):
    index: int = 0
    error_code: int = 0
    base_offset: int = -1


class _AnsweredTopic(msgspec.Struct, rename="camel"):
    name: str = ""
    topic_id: str = ""
    partition_responses: list[_AnsweredPartition] = []


class _Answer(msgspec.Struct):
    responses: list[_AnsweredTopic] = []


class _SentPartition(msgspec.Struct, rename="camel"):
    index: int = 0
    records_size_in_bytes: int | None = None
    batches: msgspec.Raw = NOT_ANSWERED


class _SentTopic(msgspec.Struct, rename="camel"):
    name: str = ""
    topic_id: str = ""
    partition_data: list[_SentPartition] = []


class _Sent(msgspec.Struct, rename="camel"):
    topic_data: list[_SentTopic] = []


_topics_decoder = msgspec.json.Decoder(_Topics)
_answer_decoder = msgspec.json.Decoder(_Answer)
_sent_decoder = msgspec.json.Decoder(_Sent)


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
        """Look at one more document; a body of another shape has nothing to say."""
        key = document.header.request_api_key
        try:
            if key in NAMING_APIS and bytes(document.response):
                self._add_names(_topics_decoder.decode(document.response))
            elif key == PRODUCE.key and b'"batches"' not in bytes(document.request):
                for place, answer in _answers(document.response):
                    if answer.error_code == 0:
                        self._by_id[place].add(answer.base_offset)
        except msgspec.ValidationError:
            return

    def _add_names(self, answer: _Topics | None) -> None:
        for topic in (answer.topics if answer is not None else None) or ():
            if topic.name and topic.topic_id != ZERO_UUID:
                self.names[topic.topic_id] = topic.name

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
        try:
            sent = _sent_decoder.decode(request)
            answers = dict(_answers(response))
        except msgspec.ValidationError:
            return request
        found = {
            (at, number): self._found(topic, partition, answers, time)
            for at, topic in enumerate(sent.topic_data)
            for number, partition in enumerate(topic.partition_data)
            if not bytes(partition.batches)
        }
        if not any(found.values()):
            return request
        body = msgspec.json.decode(request)
        for (at, number), batch in found.items():
            if batch is not None:
                partition = body["topicData"][at]["partitionData"][number]
                partition.setdefault("records", None)
                partition["recordsSizeInBytes"] = batch.size_in_bytes
                partition["batches"] = [_as_sent(batch)]
        return raw(body)

    def _found(
        self,
        topic: _SentTopic,
        partition: _SentPartition,
        answers: dict[TopicPartition, _AnsweredPartition],
        time: int,
    ) -> Batch | None:
        """The header of a partition's batch; counts it, or why there is none."""
        place = TopicPartition(topic.name or topic.topic_id, partition.index)
        found = self._find(place, partition.records_size_in_bytes, answers.get(place), time)
        if isinstance(found, Missing):
            self.missing[found] += 1
            return None
        self.completed += 1
        return found

    def _find(
        self, place: TopicPartition, size: int | None, answer: _AnsweredPartition | None, time: int
    ) -> Batch | Missing:
        if answer is None:
            return Missing.NOT_ANSWERED
        if answer.error_code != 0:
            return Missing.REFUSED
        if self._stored is None:
            return Missing.NOT_ASKED
        named = TopicPartition(self._names.get(place.topic, place.topic), place.partition)
        if named not in self._stored:
            return Missing.NOT_READ
        batches = self._stored[named].get(answer.base_offset, [])
        if not batches:
            return Missing.NOT_THERE
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


def _answers(response: msgspec.Raw) -> Iterator[tuple[TopicPartition, _AnsweredPartition]]:
    """The answers of a Produce by topic, or its id from version 13 on, and partition."""
    if bytes(response) in (b"", b"null"):
        return
    for topic in _answer_decoder.decode(response).responses:
        for partition in topic.partition_responses:
            yield TopicPartition(topic.name or topic.topic_id, partition.index), partition
