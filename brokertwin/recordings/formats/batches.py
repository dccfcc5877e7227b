"""Adds the batch headers that logs omit to Produce requests.

A broker's request log has only the size of a batch, and Kroxylicious' log has not even that. The
response has the offset of the batch in the topic. A header belongs to a request if its base offset
and, if logged, its size match.

A header can be missing (`Missing`): refused batches are not in the log, requests with acks 0 have
no offset, retention, compaction and truncation remove batches, and a topic's `compression.type`
changes sizes.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from enum import StrEnum

import msgspec

from brokertwin.protocol.batch_headers import Batch, BatchPartition, Headers
from brokertwin.protocol.bodies import ZERO_UUID
from brokertwin.protocol.kafka_apis import (
    CREATE_TOPICS,
    DESCRIBE_TOPIC_PARTITIONS,
    METADATA,
    PRODUCE,
)
from brokertwin.recordings.formats.documents import (
    METADATA_TOPIC,
    METADATA_TOPIC_ID,
    NO_RESPONSE,
    Document,
    raw,
)

NAMING_APIS = frozenset({METADATA.key, CREATE_TOPICS.key, DESCRIBE_TOPIC_PARTITIONS.key})
"""APIs whose responses have topic names with ids."""


class Missing(StrEnum):
    """Why a partition of a Produce request has no batch header."""

    NOT_LOOKED_UP = "not looked up"
    REFUSED = "refused by the broker"
    NO_OFFSET = "no response has an offset"
    NOT_THERE = "not in the topic any more"
    NOT_READ = "nothing of the partition is there"
    OTHER_SIZE = "another size in the topic"


class _Named(msgspec.Struct, rename="camel"):
    name: str | None = None
    topic_id: str = ZERO_UUID


class _Topics(msgspec.Struct):
    topics: list[_Named] | None = None


class _ResultPartition(msgspec.Struct, rename="camel"):
    index: int = 0
    error_code: int = 0
    base_offset: int = -1


class _ResultTopic(msgspec.Struct, rename="camel"):
    name: str = ""
    topic_id: str = ""
    partition_responses: list[_ResultPartition] = []


class _ProduceResponse(msgspec.Struct):
    responses: list[_ResultTopic] = []


class _SentPartition(msgspec.Struct, rename="camel"):
    index: int = 0
    records_size_in_bytes: int | None = None
    batches: msgspec.Raw = NO_RESPONSE


class _SentTopic(msgspec.Struct, rename="camel"):
    name: str = ""
    topic_id: str = ""
    partition_data: list[_SentPartition] = []


class _Sent(msgspec.Struct, rename="camel"):
    topic_data: list[_SentTopic] = []


_topics_decoder = msgspec.json.Decoder(_Topics)
_response_decoder = msgspec.json.Decoder(_ProduceResponse)
_sent_decoder = msgspec.json.Decoder(_Sent)


class Needs:
    """The data needed to complete the Produce requests of documents.

    Attributes:
        offsets: base offsets in responses, by partition.
        names: topic names by id.
    """

    def __init__(self) -> None:
        self.offsets: dict[BatchPartition, set[int]] = defaultdict(set)
        self.names: dict[str, str] = {METADATA_TOPIC_ID: METADATA_TOPIC}
        self._by_id: dict[BatchPartition, set[int]] = defaultdict(set)

    def add(self, document: Document) -> None:
        """Add a document; bodies of another shape are ignored."""
        key = document.header.request_api_key
        try:
            if key in NAMING_APIS and bytes(document.response):
                self._add_names(_topics_decoder.decode(document.response))
            elif key == PRODUCE.key and b'"batches"' not in bytes(document.request):
                for place, result in _results_of(document.response):
                    if result.error_code == 0:
                        self._by_id[place].add(result.base_offset)
        except msgspec.ValidationError:
            return

    def _add_names(self, result: _Topics | None) -> None:
        for topic in (result.topics if result is not None else None) or ():
            if topic.name and topic.topic_id != ZERO_UUID:
                self.names[topic.topic_id] = topic.name

    def close(self) -> None:
        """Replace ids by names after the last document."""
        for place, offsets in self._by_id.items():
            name = self.names.get(place.topic, place.topic)
            self.offsets[BatchPartition(name, place.partition)] |= offsets
        self._by_id.clear()


class Completion:
    """Adds batch headers to Produce requests.

    Args:
        headers: the headers from the topics; None if they were not read.
        names: topic names by id.

    Attributes:
        completed: number of completed partitions.
        missing: number of incomplete partitions by reason.
    """

    def __init__(self, headers: Headers | None, names: dict[str, str]) -> None:
        self._stored = None if headers is None else _by_offset(headers)
        self._names = names
        self.completed = 0
        self.missing: Counter[Missing] = Counter()

    def complete(self, request: msgspec.Raw, response: msgspec.Raw, time: int) -> msgspec.Raw:
        """Return the body of a Produce request with its headers, if found.

        Of several matching batches, the one nearest to the request's time (ms since 1970) is used.
        """
        try:
            sent = _sent_decoder.decode(request)
            results = dict(_results_of(response))
        except msgspec.ValidationError:
            return request
        found = {
            (at, number): self._found(topic, partition, results, time)
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
        results: dict[BatchPartition, _ResultPartition],
        time: int,
    ) -> Batch | None:
        """Return the header of a partition's batch, and count the result."""
        place = BatchPartition(topic.name or topic.topic_id, partition.index)
        batch = self._find(place, partition.records_size_in_bytes, results.get(place), time)
        if isinstance(batch, Missing):
            self.missing[batch] += 1
            return None
        self.completed += 1
        return batch

    def _find(
        self, place: BatchPartition, size: int | None, result: _ResultPartition | None, time: int
    ) -> Batch | Missing:
        if result is None:
            return Missing.NO_OFFSET
        if result.error_code != 0:
            return Missing.REFUSED
        if self._stored is None:
            return Missing.NOT_LOOKED_UP
        named = BatchPartition(self._names.get(place.topic, place.topic), place.partition)
        if named not in self._stored:
            return Missing.NOT_READ
        batches = self._stored[named].get(result.base_offset, [])
        if not batches:
            return Missing.NOT_THERE
        fitting = [batch for batch in batches if size in (None, batch.size_in_bytes)]
        if not fitting:
            return Missing.OTHER_SIZE
        return min(fitting, key=lambda batch: abs(batch.max_timestamp - time))


def _by_offset(headers: Headers) -> dict[BatchPartition, dict[int, list[Batch]]]:
    found: dict[BatchPartition, dict[int, list[Batch]]] = {}
    for place, batches in headers.items():
        by_offset = found.setdefault(place, {})
        for batch in batches:
            same = by_offset.setdefault(batch.base_offset, [])
            if batch not in same:
                same.append(batch)
    return found


def _as_sent(batch: Batch) -> Batch:
    """A header as sent by its producer, without offset and leader epoch.

    Producers write offset 0, and the broker sets the leader epoch.
    """
    return msgspec.structs.replace(batch, base_offset=0, partition_leader_epoch=-1)


def _results_of(response: msgspec.Raw) -> Iterator[tuple[BatchPartition, _ResultPartition]]:
    """Yield the partitions of a Produce response by topic name or id."""
    if bytes(response) in (b"", b"null"):
        return
    for topic in _response_decoder.decode(response).responses:
        for partition in topic.partition_responses:
            yield BatchPartition(topic.name or topic.topic_id, partition.index), partition
