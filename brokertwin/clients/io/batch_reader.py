"""Reads batch headers from topics with raw Fetch requests: only the needed range of a partition."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from typing import Any

from brokertwin.clients.io.blocking import (
    BlockingConnection,
    BrokerClosedError,
    UndecodableResponseError,
)
from brokertwin.clients.io.security import security_of
from brokertwin.errors import UserError
from brokertwin.gateway.edge_fields import Address
from brokertwin.kafka_io.kafka_clients import ClientProperties, check_reachable
from brokertwin.kafka_io.topics import KAFKA_TIMEOUT_S
from brokertwin.protocol.batch_headers import Batch, BatchPartition, Headers
from brokertwin.protocol.errors import Error, error_name
from brokertwin.protocol.record_batches import MAGIC, batch_headers
from brokertwin.protocol.schemas import API_NAMES

CLIENT_ID = "brokertwin"
FETCH_BYTES = 4 * 1024 * 1024
TIMEOUT_S = KAFKA_TIMEOUT_S
LEADER_POLL_S = 0.2
VERSIONS_MAX = {"Fetch": 12, "Metadata": 12, "ListOffsets": 10}
"""Versions with topic names."""

EARLIEST = -2

_NO_LEADER_YET = (Error.LEADER_NOT_AVAILABLE, Error.NOT_LEADER_OR_FOLLOWER)


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
    headers: Headers = {}
    bootstrap = Address(*check_reachable(client.bootstrap))
    try:
        with ExitStack() as stack:
            reader = _Reader(client, bootstrap, stack)
            for place, place_offsets in offsets.items():
                if place_offsets and reader.exists(place):
                    headers[place] = list(reader.batches(place, place_offsets))
                on_partition()
    except (OSError, BrokerClosedError, UndecodableResponseError) as error:
        reason = str(error) or "it closed the connection"
        raise UserError(
            f"Could not read batches from {client.bootstrap}: {reason}.",
            "Check the address; the user needs Read and Describe on the topics.",
        ) from None
    return headers


class _Reader:
    """Reads from the leaders of partitions. Connections are closed with `stack`."""

    def __init__(self, client: ClientProperties, bootstrap: Address, stack: ExitStack) -> None:
        self._security = security_of(client)
        self._bootstrap, self._stack = bootstrap, stack
        self._connections: dict[Address, BlockingConnection] = {}
        self._deadline = time.monotonic() + TIMEOUT_S
        self._brokers: dict[int, Address] = {}
        self._leaders: dict[BatchPartition, int] = {}
        claims = self._connected(self._bootstrap).call("ApiVersions", 0, {}, is_strict=False)
        max_versions = {
            API_NAMES.get(each["apiKey"]): each["maxVersion"] for each in claims["apiKeys"]
        }
        self._versions = {
            api: min(max_versions.get(api, 0), top) for api, top in VERSIONS_MAX.items()
        }

    def exists(self, place: BatchPartition) -> bool:
        """Whether the partition exists; finds its leader."""
        if place not in self._leaders:
            self._find_leaders(place.topic)
        return place in self._leaders

    def batches(self, place: BatchPartition, offsets: set[int]) -> Iterator[Batch]:
        """Yield the batches that start at the given offsets."""
        position, last = min(offsets), max(offsets)
        while position <= last:
            partition = self._fetch(place, position)
            if partition["errorCode"] == Error.OFFSET_OUT_OF_RANGE:
                earliest = self._earliest(place)
                if earliest <= position:
                    return
                position = earliest
                continue
            headers = batch_headers(partition["records"] or b"")
            if not headers:
                return
            for header in headers:
                if header.magic == MAGIC and header.base_offset in offsets:
                    yield header
            position = headers[-1].last_offset + 1

    def _fetch(self, place: BatchPartition, position: int) -> Any:
        requested = {
            "partition": place.partition,
            "fetchOffset": position,
            "partitionMaxBytes": FETCH_BYTES,
        }
        body = {
            "maxWaitMs": 0,
            "minBytes": 0,
            "maxBytes": FETCH_BYTES,
            "topics": [{"topic": place.topic, "partitions": [requested]}],
        }
        return self._of_leader(place, "Fetch", body, "responses")

    def _earliest(self, place: BatchPartition) -> int:
        requested = {"partitionIndex": place.partition, "timestamp": EARLIEST}
        body = {"replicaId": -1, "topics": [{"name": place.topic, "partitions": [requested]}]}
        return int(self._of_leader(place, "ListOffsets", body, "topics")["offset"])

    def _of_leader(self, place: BatchPartition, api: str, body: Any, topics: str) -> Any:
        """Return the partition's part of the current leader's response."""
        end = time.monotonic() + TIMEOUT_S
        while True:
            leader, code = self._brokers.get(self._leaders[place]), Error.LEADER_NOT_AVAILABLE
            if leader is not None:
                [partition] = self._call(leader, api, body)[topics][0]["partitions"]
                code = partition["errorCode"]
                if code in (0, Error.OFFSET_OUT_OF_RANGE):
                    return partition
            if code not in _NO_LEADER_YET or time.monotonic() > end:
                raise UserError(
                    f"Could not read partition {place.partition} of {place.topic}:"
                    f" Kafka returned {code} {error_name(code)}."
                )
            time.sleep(LEADER_POLL_S)
            self._find_leaders(place.topic)

    def _find_leaders(self, topic: str) -> None:
        body = {"topics": [{"name": topic}], "allowAutoTopicCreation": False}
        response = self._call(self._bootstrap, "Metadata", body)
        self._brokers = {
            each["nodeId"]: Address(each["host"], each["port"]) for each in response["brokers"]
        }
        for found in response["topics"]:
            code = found["errorCode"]
            if code == Error.UNKNOWN_TOPIC_OR_PARTITION:
                continue
            if code:
                raise UserError(f"Could not read topic {topic}: {code} {error_name(code)}.")
            for partition in found["partitions"]:
                place = BatchPartition(topic, partition["partitionIndex"])
                self._leaders[place] = partition["leaderId"]

    def _call(self, address: Address, api: str, body: Any) -> Any:
        self._deadline = time.monotonic() + TIMEOUT_S
        return self._connected(address).call(api, self._versions[api], body, is_strict=False)

    def _connected(self, address: Address) -> BlockingConnection:
        if address not in self._connections:
            connection = BlockingConnection(
                address, lambda: self._deadline, CLIENT_ID, self._security
            )
            self._connections[address] = self._stack.enter_context(closing(connection))
        return self._connections[address]
