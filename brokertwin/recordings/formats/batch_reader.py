"""Reads batch headers from topics with raw Fetch requests.

kafka-python handles the protocol: its manager connects and logs in, and its record sets have batch
headers without decompression. Only the needed range of each partition is read.
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
from brokertwin.protocol.batch_headers import Batch
from brokertwin.protocol.errors import error_name
from brokertwin.recordings.formats.batches import BatchPartition, Headers

FETCH_BYTES = 4 * 1024 * 1024
RESPONSE_BYTES_MAX = 256 * 1024 * 1024
"""Limit for responses, which can exceed the requested size by a batch."""

TIMEOUT_MS = round(KAFKA_TIMEOUT_S * 1000)
LEADER_WAIT_S = KAFKA_TIMEOUT_S
LEADER_POLL_S = 0.2
NAMES_VERSION_MAX = 12
"""The last version of Fetch and Metadata with topic names."""

MAGIC = 2
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
EARLIEST = -2

_NO_LEADER_YET = (
    LeaderNotAvailableError.errno,
    NotLeaderForPartitionError.errno,
)


def read(
    client: ClientProperties,
    offsets: Mapping[BatchPartition, set[int]],
    on_partition: Callable[[], None] = lambda: None,
) -> Headers:
    """Return the headers of existing batches that start at given offsets.

    Returns:
        Batches by partition, with an entry for each partition that exists.

    Raises:
        UserError: Kafka does not respond or rejects a request.
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
        self._leaders: dict[BatchPartition, int] = {}

    def exists(self, place: BatchPartition) -> bool:
        """Whether the partition exists; finds its leader."""
        if place not in self._leaders:
            self._find_leaders(place.topic)
        return place in self._leaders

    def batches(self, place: BatchPartition, wanted: set[int]) -> Iterator[Batch]:
        """Yield the batches that start at the given offsets."""
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

    def _fetch(self, place: BatchPartition, position: int) -> Any:
        requested = FetchRequest.FetchTopic.FetchPartition(
            partition=place.partition, fetch_offset=position, partition_max_bytes=FETCH_BYTES
        )
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=FETCH_BYTES,
            topics=[FetchRequest.FetchTopic(topic=place.topic, partitions=[requested])],
            max_version=NAMES_VERSION_MAX,
        )
        return self._query(place, request, lambda response: response.responses[0].partitions[0])

    def _earliest(self, place: BatchPartition) -> int:
        requested = ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition(
            partition_index=place.partition, timestamp=EARLIEST
        )
        topic = ListOffsetsRequest.ListOffsetsTopic(name=place.topic, partitions=[requested])
        request = ListOffsetsRequest(topics=[topic], min_version=1)
        partition = self._query(place, request, lambda response: response.topics[0].partitions[0])
        return int(partition.offset)

    def _query(self, place: BatchPartition, request: Any, pick: Callable[[Any], Any]) -> Any:
        """Return the partition's part of the current leader's response."""
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
        response = self._send(request, None)
        for found in response.topics:
            if found.error_code == UnknownTopicOrPartitionError.errno:
                continue
            if found.error_code:
                name = error_name(found.error_code)
                raise UserError(f"Could not read topic {topic}: {found.error_code} {name}.")
            for partition in found.partitions:
                place = BatchPartition(topic, partition.partition_index)
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
