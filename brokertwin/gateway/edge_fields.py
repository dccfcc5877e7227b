"""Fields of requests and responses that only the gateway can fill.

The state machine handles batch headers and locators; clients send and receive bytes. The addresses
in Metadata, FindCoordinator and DescribeCluster responses are those of this gateway.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar, cast

import msgspec
import structlog
from msgspec import UNSET

from brokertwin.gateway.engine.engine import BrokerEngine
from brokertwin.gateway.records import internal_batches, recompression, refused_records
from brokertwin.protocol import control_batches
from brokertwin.protocol import record_batches as records
from brokertwin.protocol.additions import FetchedBatch, RefusedRecords, SealedRead, Within
from brokertwin.protocol.batch_headers import Batch
from brokertwin.protocol.bodies import ZERO_UUID
from brokertwin.protocol.compression import DecompressionError
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.describe_cluster import DescribeClusterResponse
from brokertwin.protocol.generated.describe_configs import (
    DescribeConfigsResponse,
    DescribeConfigsSynonym,
)
from brokertwin.protocol.generated.describe_quorum import DescribeQuorumResponse
from brokertwin.protocol.generated.fetch import (
    FetchRequest,
    FetchResponse,
    FetchResponsePartitionData,
)
from brokertwin.protocol.generated.find_coordinator import FindCoordinatorResponse
from brokertwin.protocol.generated.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from brokertwin.protocol.generated.metadata import MetadataResponse
from brokertwin.protocol.generated.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from brokertwin.protocol.generated.share_fetch import (
    ShareFetchResponse,
    ShareFetchResponsePartitionData,
)
from brokertwin.protocol.generated.shared import NodeEndpoint
from brokertwin.protocol.kafka_apis import (
    DESCRIBE_CLUSTER,
    DESCRIBE_CONFIGS,
    DESCRIBE_QUORUM,
    FETCH,
    FIND_COORDINATOR,
    KAFKA_APIS,
    LIST_OFFSETS,
    METADATA,
    PRODUCE,
    SHARE_FETCH,
    api_of_key,
)
from brokertwin.protocol.primitives import MalformedError
from brokertwin.state.apis.describe_quorum import LISTENER

MAX_TIMESTAMP = -3
BROKER_RESOURCE = 4
STATIC_BROKER_CONFIG, DEFAULT_CONFIG = 4, 5
_LED_BY_OTHERS = (Error.NOT_LEADER_OR_FOLLOWER, Error.FENCED_LEADER_EPOCH)

_log = structlog.get_logger("brokertwin.gateway")


class Address(NamedTuple):
    """Advertised address of a logical broker."""

    host: str
    port: int


Addresses = dict[int, Address]

T = TypeVar("T", bound=msgspec.Struct)


class PendingWrite(NamedTuple):
    """Batch with its topic and partition in the request; `locator` is None if it is stored."""

    topic: TopicProduceData
    partition: PartitionProduceData
    data: bytes
    locator: asyncio.Future[str] | None

    @property
    def place(self) -> tuple[str, str, int]:
        return self.topic.name, self.topic.topic_id, self.partition.index


def store_batches(
    engine: BrokerEngine, broker: int, version: int, request: ProduceRequest
) -> list[PendingWrite]:
    """Replace the bytes in a Produce request by batch headers.

    Recompresses batches if the engine knows the topic's codec. Returns the writes it has started;
    `put_locators` completes the request. A partition whose batch was not stored gets `56
    KAFKA_STORAGE_ERROR`.
    """
    writes = []
    for topic in request.topic_data or ():
        codec = engine.codec_of(broker, topic)
        for partition in topic.partition_data or ():
            batches = records.parse(cast("bytes | None", partition.records))
            if codec is not None:
                batches = recompression.in_codec(batches, codec, version)
            partition.records = None
            partition.records_size_in_bytes = batches.size_in_bytes
            partition.batches = batches.batches
            if batches.error:
                partition.records_error = int(batches.error)
            elif batches.data is not None:
                partition.records_seen = batches.seen
                later = None
                try:
                    locator = engine.put(batches.data)
                    if isinstance(locator, str):
                        partition.batches[0].locator = locator
                    else:
                        later = locator
                except OSError as failure:
                    _not_stored(partition, failure)
                writes.append(PendingWrite(topic, partition, batches.data, later))
    return writes


def _not_stored(partition: PartitionProduceData, failure: OSError) -> None:
    _log.error("cannot store a batch", error=str(failure))
    partition.records_error = int(Error.KAFKA_STORAGE_ERROR)


async def put_locators(writes: list[PendingWrite]) -> None:
    for _topic, partition, _data, locator in writes:
        if locator is None:
            continue
        try:
            partition.batches[0].locator = await locator
        except OSError as failure:
            _not_stored(partition, failure)


class _UnreadableBytesError(Exception):
    """Bytes that a response needs are lost or temporarily unreadable."""


class PendingResponse(NamedTuple):
    """Response from the engine, with the context to complete it."""

    engine: BrokerEngine
    addresses: Addresses
    version: int
    request: Any
    response: Any
    writes: Sequence[PendingWrite] = ()
    protocol: str = "PLAINTEXT"
    """Security protocol of the broker's listener."""


def complete(api_key: int, pending: PendingResponse) -> None:
    """Fill in the fields that need no I/O."""
    completer = _COMPLETERS.get(api_key)
    if completer is not None:
        completer(pending)
    endpoints_since = api_of_key(api_key).endpoints_since
    if endpoints_since is not None and pending.version >= endpoints_since:
        request = pending.request
        if not isinstance(request, FetchRequest) or request.replica_state.replica_id < 0:
            _put_endpoints(pending)


def _add_refused_records(pending: PendingResponse) -> None:
    """List the records because of which a batch was refused."""
    response: ProduceResponse = pending.response
    for topic in response.responses:
        for partition in topic.partition_responses:
            why, partition.refused_records = partition.refused_records, UNSET
            if not isinstance(why, RefusedRecords):
                continue
            place = (topic.name or "", topic.topic_id or ZERO_UUID, partition.index)
            writes = [each for each in pending.writes if each.place == place]
            if writes:
                seen = writes[-1].partition.records_seen
                has_append_time = seen is not None and seen.has_append_time
                refused_records.add_errors(partition, why, has_append_time, writes[-1].data)


async def _complete_fetch(pending: PendingResponse) -> None:
    response: FetchResponse | ShareFetchResponse = pending.response
    for topic in response.responses:
        for partition in topic.partitions:
            found: list[bytes | bytearray] = []
            try:
                async for data in _stored(pending.engine, partition):
                    found.append(data)  # noqa: PERF401 (what was read before an error counts)
            except _UnreadableBytesError:
                if not found:
                    partition.error_code = int(Error.KAFKA_STORAGE_ERROR)
            partition.records = b"".join(found)


async def _cut(engine: BrokerEngine, partition: int, sealed: SealedRead) -> list[Batch]:
    """Select batches of a sealed segment: at least one, up to `max_bytes`."""
    taken: list[Batch] = []
    size = 0
    for batch in await _segment(engine, sealed.topic_id, partition, sealed.base_offset):
        if batch.last_offset < sealed.fetch_offset or batch.base_offset >= sealed.end_offset:
            continue
        if taken and size + batch.size_in_bytes > sealed.max_bytes:
            break
        taken.append(batch)
        size += batch.size_in_bytes
    return taken


async def _stored(
    engine: BrokerEngine, partition: FetchResponsePartitionData | ShareFetchResponsePartitionData
) -> AsyncIterator[bytes | bytearray]:
    """Yield the bytes of a partition's batches. Raises _UnreadableBytesError."""
    batches: Sequence[Batch | FetchedBatch] = partition.batches
    if partition.sealed:
        batches = await _cut(engine, partition.partition_index, partition.sealed)
    for batch in batches:
        if batch.end_marker and not batch.locator:
            yield control_batches.to_bytes(batch)
        elif own := internal_batches.own_bytes(batch):
            yield own
        else:
            yield records.as_stored(await _read(engine, batch.locator), batch)


async def _read(engine: BrokerEngine, locator: str | None) -> bytes:
    """Read the bytes at a locator. Raises _UnreadableBytesError."""
    try:
        data = await engine.get(locator) if locator is not None else None
    except OSError as error:
        _log.error("cannot read the bytes of a batch", locator=locator, error=str(error))
        raise _UnreadableBytesError from None
    if data is None:
        _log.error("the bytes of a batch are lost", locator=locator)
        raise _UnreadableBytesError
    return data


async def _segment(
    engine: BrokerEngine, topic_id: str, partition: int, base_offset: int
) -> list[Batch]:
    """Read a sealed segment. Raises _UnreadableBytesError."""
    place = {"topic_id": topic_id, "partition": partition, "base_offset": base_offset}
    try:
        batches = await engine.segment(topic_id, partition, base_offset)
    except OSError as error:
        _log.error("cannot read a sealed log segment", **place, error=str(error))
        raise _UnreadableBytesError from None
    if batches is None:
        _log.error("a sealed log segment is lost", **place)
        raise _UnreadableBytesError
    return msgspec.convert(batches, list[Batch])


async def _complete_list_offsets(pending: PendingResponse) -> None:
    request: ListOffsetsRequest = pending.request
    response: ListOffsetsResponse = pending.response
    timestamps = {
        (topic.name, partition.partition_index): partition.timestamp
        for topic in request.topics
        for partition in topic.partitions
    }
    for topic in response.topics:
        for partition in topic.partitions:
            within, partition.within = partition.within, None
            if within is not None:
                timestamp = timestamps[topic.name, partition.partition_index]
                try:
                    await _look_inside(pending.engine, partition, within, timestamp)
                except _UnreadableBytesError:
                    _found_nothing(partition)
                    partition.error_code = int(Error.KAFKA_STORAGE_ERROR)


async def _look_inside(
    engine: BrokerEngine, partition: ListOffsetsPartitionResponse, within: Within, timestamp: int
) -> None:
    """Find the first record with the timestamp among the candidate batches."""
    place: Within | None = within
    while place is not None:
        least = place.max_timestamp if timestamp == MAX_TIMESTAMP else timestamp
        for batch in await _batches_in(engine, partition.partition_index, place):
            for offset, found in await _timestamps(engine, batch):
                if found >= least and place.base_offset <= offset <= place.last_offset:
                    partition.offset, partition.timestamp = offset, found
                    return
        place = place.or_else
    _found_nothing(partition)


def _found_nothing(partition: ListOffsetsPartitionResponse) -> None:
    partition.offset = partition.timestamp = partition.leader_epoch = -1


async def _batches_in(
    engine: BrokerEngine, partition: int, place: Within
) -> Sequence[Batch | Within]:
    """Return the batches of a sealed segment, or the candidate batch itself.

    The base offset of the candidate can be below the searched range.
    """
    if place.is_sealed:
        return await _segment(engine, place.topic_id, partition, place.segment_offset)
    return [place]


async def _timestamps(engine: BrokerEngine, batch: Batch | Within) -> list[tuple[int, int]]:
    """Return offset and timestamp of each record.

    Empty if there are no bytes or they cannot be decoded.
    """
    locator = batch.locator
    if locator is None:
        return []
    data = await _read(engine, locator)
    try:
        return records.timestamps_of(data, batch.last_offset - records.last_offset_delta(data))
    except (DecompressionError, MalformedError) as error:
        _log.error("cannot decode the records of a batch", locator=locator, error=str(error))
        return []


def _put_metadata(pending: PendingResponse) -> None:
    response: MetadataResponse = pending.response
    response.brokers = [
        _addressed(pending.addresses, each, each.node_id) for each in response.brokers
    ]


def _put_coordinators(pending: PendingResponse) -> None:
    response: FindCoordinatorResponse = pending.response
    response.coordinators = [
        _addressed(pending.addresses, each, each.node_id) for each in response.coordinators
    ]
    address = pending.addresses.get(response.node_id)
    if address is not None:
        response.host, response.port = address


def _put_cluster(pending: PendingResponse) -> None:
    response: DescribeClusterResponse = pending.response
    response.brokers = [
        _addressed(pending.addresses, each, each.broker_id) for each in response.brokers
    ]


def _put_quorum(pending: PendingResponse) -> None:
    response: DescribeQuorumResponse = pending.response
    for voter in response.nodes:
        voter.listeners = [
            _addressed(pending.addresses, each, voter.node_id) for each in voter.listeners
        ]


def _put_settings(pending: PendingResponse) -> None:
    """Fill in settings that a real broker gets from its place in a cluster."""
    response: DescribeConfigsResponse = pending.response
    for result in response.results:
        name = result.resource_name
        is_broker = result.resource_type == BROKER_RESOURCE and name.isdecimal()
        broker = int(name) if is_broker else -1
        addresses = _placed(pending, broker) if broker in pending.addresses else {}
        for config in result.configs:
            value = addresses.get(config.name)
            if value is None or config.config_source != DEFAULT_CONFIG:
                continue
            config.value, config.config_source = value, STATIC_BROKER_CONFIG
            if pending.request.include_synonyms:
                first = DescribeConfigsSynonym(
                    name=config.name, value=value, source=STATIC_BROKER_CONFIG
                )
                config.synonyms = [first, *config.synonyms]


def _placed(pending: PendingResponse, broker: int) -> dict[str, str]:
    """Return the settings of a broker by name; the first broker has the controller."""
    leader, (host, port) = pending.engine.brokers[0], pending.addresses[broker]
    endpoint, controller = f"{pending.protocol}://{host}:{port}", pending.addresses[leader]
    return {
        "listeners": endpoint,
        "advertised.listeners": endpoint,
        "process.roles": "broker,controller" if broker == leader else "broker",
        "controller.listener.names": LISTENER,
        "controller.quorum.voters": f"{leader}@{controller.host}:{controller.port}",
    }


def _addressed(addresses: Addresses, place: T, broker: int) -> T:
    address = addresses.get(broker)
    if address is None:
        return place
    return msgspec.structs.replace(place, host=address.host, port=address.port)


def _put_endpoints(pending: PendingResponse) -> None:
    """Add the addresses of the leaders named in a Produce or Fetch response."""
    leaders = {
        partition.current_leader.leader_id
        for partition in _partitions(pending.response)
        if partition.error_code in _LED_BY_OTHERS and partition.current_leader
    }
    endpoints = [
        NodeEndpoint(node_id=leader, host=address.host, port=address.port)
        for leader in sorted(leaders)
        if (address := pending.addresses.get(leader)) is not None
    ]
    if endpoints:
        pending.response.node_endpoints = endpoints


def _partitions(response: Any) -> Iterator[Any]:
    for topic in response.responses:
        yield from (
            topic.partition_responses if isinstance(response, ProduceResponse) else topic.partitions
        )


READ_BYTES: dict[int, Callable[[PendingResponse], Coroutine[Any, Any, None]]] = {
    FETCH.key: _complete_fetch,
    SHARE_FETCH.key: _complete_fetch,
    LIST_OFFSETS.key: _complete_list_offsets,
}
"""APIs whose responses need bytes of batches, with their completers."""

ON_EVERY_LISTENER = frozenset({DESCRIBE_QUORUM.key})
"""APIs whose responses have addresses of this gateway on additional listeners, too."""

_COMPLETERS: dict[int, Callable[[PendingResponse], None]] = {
    PRODUCE.key: _add_refused_records,
    METADATA.key: _put_metadata,
    FIND_COORDINATOR.key: _put_coordinators,
    DESCRIBE_CONFIGS.key: _put_settings,
    DESCRIBE_QUORUM.key: _put_quorum,
    DESCRIBE_CLUSTER.key: _put_cluster,
}

COMPLETED = frozenset(
    {*READ_BYTES, *_COMPLETERS}
    | {key for key, api in KAFKA_APIS.items() if api.endpoints_since is not None}
)
"""APIs whose responses have fields that only the gateway can fill."""
