"""Batch headers from the topics themselves: raw fetches from where they lie.

kafka-python speaks the protocol: its manager connects and logs in, its record sets show batch
headers without decompressing anything. Only partitions and offsets that are needed are read, each
partition from the first of them to the last.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from kafka.errors import (
    KafkaError,
    LeaderNotAvailableError,
    NotLeaderForPartitionError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
)
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest
from kafka.record import MemoryRecords

from brokertwin.errors import UserError
from brokertwin.kafka_io.kafka_clients import ClientProperties, check_reachable
from brokertwin.kafka_io.topics import KAFKA_TIMEOUT_S
from brokertwin.recordings.formats.batches import Headers, TopicPartition
from brokertwin.state.core.errors import error_name
from brokertwin.state.core.records import Batch

FETCH_BYTES = 4 * 1024 * 1024
RESPONSE_BYTES_MAX = 256 * 1024 * 1024
"""An answer may be larger than asked for: one whole batch always comes."""

TIMEOUT_MS = round(KAFKA_TIMEOUT_S * 1000)
LEADER_WAIT_S = KAFKA_TIMEOUT_S
LEADER_POLL_S = 0.2
NAMES_VERSION_MAX = 12
"""The last version of Fetch that names topics; metadata of that time does, too."""

MAGIC = 2
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
EARLIEST = -2

_NO_LEADER_YET = (
    LeaderNotAvailableError.errno,
    NotLeaderForPartitionError.errno,
)


def read(
    client: ClientProperties,
    offsets: Mapping[TopicPartition, set[int]],
    on_partition: Callable[[], None] = lambda: None,
) -> Headers:
    """The headers of the batches that begin at some offsets, where they are still there.

    Args:
        client: how to reach Kafka.
        offsets: what is wanted of each partition.
        on_partition: called when a partition has been read.

    Returns:
        The batches of each partition that exists; it has an entry even if none was found.

    Raises:
        UserError: Kafka does not answer, or refuses.
    """
    found: Headers = {}
    check_reachable(client.bootstrap)
    try:
        with _manager(client) as manager:
            reader = _Reader(manager)
            for place, wanted in offsets.items():
                if wanted and reader.exists(place):
                    found[place] = list(reader.batches(place, wanted))
                on_partition()
    except KafkaError as error:
        raise UserError(
            f"Could not read batches from {client.bootstrap}: {error}.",
            "Check the address; the user needs Read and Describe on the topics.",
        ) from None
    return found


@contextmanager
def _manager(client: ClientProperties) -> Iterator[KafkaConnectionManager]:
    options = client.for_kafka_python() | {"receive_message_max_bytes": RESPONSE_BYTES_MAX}
    manager = KafkaConnectionManager(NetworkSelector(), **options)
    try:
        manager.bootstrap(TIMEOUT_MS)
        yield manager
    finally:
        manager.close()


class _Reader:
    def __init__(self, manager: KafkaConnectionManager) -> None:
        self._manager = manager
        self._leaders: dict[TopicPartition, int] = {}

    def exists(self, place: TopicPartition) -> bool:
        """Whether there is such a partition; finds its leader."""
        if place not in self._leaders:
            self._find_leaders(place.topic)
        return place in self._leaders

    def batches(self, place: TopicPartition, wanted: set[int]) -> Iterator[Batch]:
        """The batches that begin at the wanted offsets."""
        position, last = min(wanted), max(wanted)
        while position <= last:
            partition = self._fetch(place, position)
            if partition.error_code == OffsetOutOfRangeError.errno:
                earliest = self._earliest(place)
                if earliest <= position:
                    return
                position = earliest
                continue
            read = list(MemoryRecords(partition.records or b""))
            if not read:
                return
            for batch in read:
                if batch.magic == MAGIC and batch.base_offset in wanted:
                    yield _header(batch)
            position = read[-1].next_offset

    def _fetch(self, place: TopicPartition, position: int) -> Any:
        asked = FetchRequest.FetchTopic.FetchPartition(
            partition=place.partition, fetch_offset=position, partition_max_bytes=FETCH_BYTES
        )
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=FETCH_BYTES,
            topics=[FetchRequest.FetchTopic(topic=place.topic, partitions=[asked])],
            max_version=NAMES_VERSION_MAX,
        )
        return self._ask(place, request, lambda answer: answer.responses[0].partitions[0])

    def _earliest(self, place: TopicPartition) -> int:
        asked = ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition(
            partition_index=place.partition, timestamp=EARLIEST
        )
        topic = ListOffsetsRequest.ListOffsetsTopic(name=place.topic, partitions=[asked])
        request = ListOffsetsRequest(topics=[topic], min_version=1)
        partition = self._ask(place, request, lambda answer: answer.topics[0].partitions[0])
        return int(partition.offset)

    def _ask(self, place: TopicPartition, request: Any, pick: Callable[[Any], Any]) -> Any:
        """The partition's part of its leader's answer, whoever that is by now."""
        deadline = time.monotonic() + LEADER_WAIT_S
        while True:
            partition = pick(self._send(request, self._leaders[place]))
            code = partition.error_code
            if code in (0, OffsetOutOfRangeError.errno):
                return partition
            if code not in _NO_LEADER_YET or time.monotonic() > deadline:
                raise UserError(
                    f"Could not read partition {place.partition} of {place.topic}:"
                    f" Kafka returned {code} {error_name(code)}."
                )
            time.sleep(LEADER_POLL_S)
            self._find_leaders(place.topic)

    def _find_leaders(self, topic: str) -> None:
        request = MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(name=topic)],
            allow_auto_topic_creation=False,
            min_version=4,
            max_version=NAMES_VERSION_MAX,
        )
        answer = self._send(request, None)
        for found in answer.topics:
            if found.error_code == UnknownTopicOrPartitionError.errno:
                continue
            if found.error_code:
                name = error_name(found.error_code)
                raise UserError(f"Could not read topic {topic}: {found.error_code} {name}.")
            for partition in found.partitions:
                place = TopicPartition(topic, partition.partition_index)
                self._leaders[place] = partition.leader_id

    def _send(self, request: Any, node: int | None) -> Any:
        return self._manager.run(
            self._manager.wait_for, self._manager.send(request, node), TIMEOUT_MS
        )


def _header(batch: Any) -> Batch:
    return Batch(
        base_offset=batch.base_offset,
        last_offset_delta=batch.last_offset_delta,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        partition_leader_epoch=batch.leader_epoch,
        base_timestamp=batch.first_timestamp,
        max_timestamp=batch.max_timestamp,
        size_in_bytes=batch.size_in_bytes,
        record_count=batch.records_count,
        magic=batch.magic,
        compression_type=CODECS[batch.compression_type],
        is_transactional=bool(batch.is_transactional),
        is_control=bool(batch.is_control_batch),
        crc=batch.crc,
    )
