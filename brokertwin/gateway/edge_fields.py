"""Fields of requests and responses that only the gateway can fill.

The state machine handles batch headers and locators; clients send and receive bytes. The addresses
in Metadata, FindCoordinator and DescribeCluster responses are those of this gateway.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, NamedTuple

import structlog

from brokertwin.gateway.engine.engine import Body, BrokerEngine
from brokertwin.gateway.records import internal_batches, recompression, refused_records
from brokertwin.protocol import record_batches as records
from brokertwin.protocol.bodies import ZERO_UUID
from brokertwin.protocol.compression import DecompressionError
from brokertwin.protocol.errors import Error
from brokertwin.protocol.kafka_apis import (
    DESCRIBE_CLUSTER,
    DESCRIBE_CONFIGS,
    DESCRIBE_QUORUM,
    FETCH,
    FIND_COORDINATOR,
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


class PendingWrite(NamedTuple):
    """Batch with its topic and partition in the event body; `locator` is None if it is stored."""

    topic: Body
    partition: Body
    data: bytes
    locator: asyncio.Future[str] | None

    @property
    def place(self) -> tuple[str, str, int]:
        """Topic name, topic id and partition, as in the request."""
        name, topic_id = self.topic.get("name", ""), self.topic.get("topicId", ZERO_UUID)
        return name, topic_id, self.partition["index"]


def store_batches(
    engine: BrokerEngine, broker: int, version: int, body: Body
) -> list[PendingWrite]:
    """Replace the bytes in a Produce body by batch headers.

    Recompresses batches if the engine knows the topic's codec. Returns the writes it has started;
    `put_locators` completes the body. A partition whose batch was not stored gets `56
    KAFKA_STORAGE_ERROR`.
    """
    writes = []
    for topic in body["topicData"] or ():
        codec = engine.codec_of(broker, topic)
        for partition in topic["partitionData"] or ():
            found = records.parse(partition["records"])
            if codec is not None:
                found = recompression.in_codec(found, codec, version)
            partition["records"] = None
            partition["recordsSizeInBytes"] = found.size_in_bytes
            partition["batches"] = found.batches
            if found.error:
                partition["recordsError"] = int(found.error)
            elif found.data is not None:
                locator = _put(engine, partition, found.data)
                writes.append(PendingWrite(topic, partition, found.data, locator))
                if found.seen is not None:
                    partition["recordsSeen"] = found.seen
    return writes


def _put(engine: BrokerEngine, partition: Body, data: bytes) -> asyncio.Future[str] | None:
    """Store a batch; return its locator if that takes time."""
    try:
        locator = engine.put(data)
    except OSError as failure:
        _not_stored(partition, failure)
        return None
    if not isinstance(locator, str):
        return locator
    partition["batches"][0]["locator"] = locator
    return None


def _not_stored(partition: Body, failure: OSError) -> None:
    _log.error("cannot store a batch", error=str(failure))
    partition["recordsError"] = int(Error.KAFKA_STORAGE_ERROR)


def are_stored(writes: list[PendingWrite]) -> bool:
    """Whether all batches are stored."""
    return not any(write.locator for write in writes)


async def put_locators(writes: list[PendingWrite]) -> None:
    """Wait until batches are stored."""
    for _topic, partition, _data, locator in writes:
        if locator is None:
            continue
        try:
            partition["batches"][0]["locator"] = await locator
        except OSError as failure:
            _not_stored(partition, failure)


class _UnreadableBytesError(Exception):
    """Bytes that a response needs are lost or temporarily unreadable."""


class PendingResponse(NamedTuple):
    """Response from the engine, with the context to complete it."""

    engine: BrokerEngine
    addresses: Addresses
    version: int
    request: Body
    response: Body
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
        is_for_client = pending.request.get("replicaState", {}).get("replicaId", -1) < 0
        if is_for_client:
            _put_endpoints(pending)


def _add_refused_records(pending: PendingResponse) -> None:
    """List the records because of which a batch was refused."""
    for topic in pending.response["responses"]:
        for partition in topic["partitionResponses"]:
            why = partition.pop("refusedRecords", None)
            if why is None:
                continue
            place = (topic.get("name", ""), topic.get("topicId", ZERO_UUID), partition["index"])
            writes = [each for each in pending.writes if each.place == place]
            if writes:
                seen = writes[-1].partition.get("recordsSeen", {})
                why["hasAppendTime"] = seen.get("hasAppendTime", False)
                refused_records.add_errors(partition, why, writes[-1].data)


async def _complete_fetch(pending: PendingResponse) -> None:
    for topic in pending.response["responses"]:
        for partition in topic["partitions"]:
            partition["records"] = bytearray()
            try:
                if partition.get("sealed"):
                    partition["batches"] = await _cut(pending.engine, partition)
                await _put_bytes(pending.engine, partition)
            except _UnreadableBytesError:
                if not partition["records"]:
                    partition["errorCode"] = int(Error.KAFKA_STORAGE_ERROR)


async def _cut(engine: BrokerEngine, partition: Body) -> list[Body]:
    """Select batches of a sealed segment: at least one, up to `maxBytes`."""
    sealed = partition["sealed"]
    batches = await _segment(
        engine, sealed["topicId"], partition["partitionIndex"], sealed["baseOffset"]
    )
    taken: list[Body] = []
    size = 0
    for batch in batches:
        last_offset = batch["baseOffset"] + batch["lastOffsetDelta"]
        if last_offset < sealed["fetchOffset"] or batch["baseOffset"] >= sealed["endOffset"]:
            continue
        if taken and size + batch["sizeInBytes"] > sealed["maxBytes"]:
            break
        taken.append(batch)
        size += batch["sizeInBytes"]
    return taken


async def _put_bytes(engine: BrokerEngine, partition: Body) -> None:
    """Append the bytes of a partition's batches up to the first unreadable one."""
    for batch in partition.get("batches") or ():
        if batch.get("endMarker") and not batch.get("locator"):
            partition["records"] += records.end_marker(batch)
        elif batch.get("written"):
            partition["records"] += internal_batches.to_bytes(batch)
        else:
            data = await _read(engine, batch.get("locator"))
            partition["records"] += records.as_stored(data, batch)


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
) -> list[Body]:
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
    return batches


async def _complete_list_offsets(pending: PendingResponse) -> None:
    timestamps = {
        (topic["name"], partition["partitionIndex"]): partition["timestamp"]
        for topic in pending.request["topics"]
        for partition in topic["partitions"]
    }
    for topic in pending.response["topics"]:
        for partition in topic["partitions"]:
            within = partition.pop("within", None)
            if within is not None:
                index = partition["partitionIndex"]
                timestamp = timestamps[topic["name"], index]
                try:
                    await _look_inside(pending.engine, partition, within, timestamp)
                except _UnreadableBytesError:
                    _found_nothing(partition)
                    partition["errorCode"] = int(Error.KAFKA_STORAGE_ERROR)


async def _look_inside(engine: BrokerEngine, partition: Body, within: Body, timestamp: int) -> None:
    """Find the first record with the timestamp among the candidate batches."""
    place: Body | None = within
    while place is not None:
        wanted = place["maxTimestamp"] if timestamp == MAX_TIMESTAMP else timestamp
        for batch in await _batches_in(engine, partition["partitionIndex"], place):
            for offset, found in await _timestamps(engine, batch):
                if found >= wanted and place["baseOffset"] <= offset <= place["lastOffset"]:
                    partition["offset"], partition["timestamp"] = offset, found
                    return
        place = place.get("orElse")
    _found_nothing(partition)


def _found_nothing(partition: Body) -> None:
    partition["offset"] = partition["timestamp"] = partition["leaderEpoch"] = -1


async def _batches_in(engine: BrokerEngine, partition: int, place: Body) -> list[Body]:
    """Return the batches of a sealed segment, or the candidate batch itself.

    The base offset of the candidate can be below the searched range.
    """
    if place.get("isSealed"):
        return await _segment(engine, place["topicId"], partition, place["segmentOffset"])
    return [place]


async def _timestamps(engine: BrokerEngine, batch: Body) -> list[tuple[int, int]]:
    """Return offset and timestamp of each record.

    Empty if there are no bytes or they cannot be decoded.
    """
    locator = batch.get("locator")
    if locator is None:
        return []
    data = await _read(engine, locator)
    last_delta = records.last_offset_delta(data)
    last_offset = batch.get("lastOffset")
    if last_offset is None:
        last_offset = batch["baseOffset"] + batch["lastOffsetDelta"]
    try:
        return records.timestamps_of(data, last_offset - last_delta)
    except (DecompressionError, MalformedError) as error:
        _log.error("cannot decode the records of a batch", locator=locator, error=str(error))
        return []


def _put_metadata(pending: PendingResponse) -> None:
    for broker in pending.response["brokers"]:
        _put_address(pending.addresses, broker, broker["nodeId"])


def _put_coordinators(pending: PendingResponse) -> None:
    response = pending.response
    for coordinator in response.get("coordinators", (response,)):
        _put_address(pending.addresses, coordinator, coordinator.get("nodeId", -1))


def _put_cluster(pending: PendingResponse) -> None:
    for broker in pending.response["brokers"]:
        _put_address(pending.addresses, broker, broker["brokerId"])


def _put_quorum(pending: PendingResponse) -> None:
    for voter in pending.response.get("nodes", ()):
        for listener in voter["listeners"]:
            _put_address(pending.addresses, listener, voter["nodeId"])


def _put_settings(pending: PendingResponse) -> None:
    """Fill in settings that a real broker gets from its place in a cluster."""
    for result in pending.response["results"]:
        name = result["resourceName"]
        is_broker = result["resourceType"] == BROKER_RESOURCE and name.isdecimal()
        broker = int(name) if is_broker else -1
        known = _placed(pending, broker) if broker in pending.addresses else {}
        for config in result.get("configs", ()):  # absent from an error response
            value = known.get(config["name"])
            if value is None or config["configSource"] != DEFAULT_CONFIG:
                continue
            config["value"], config["configSource"] = value, STATIC_BROKER_CONFIG
            if pending.request["includeSynonyms"]:
                given = {"name": config["name"], "value": value, "source": STATIC_BROKER_CONFIG}
                config["synonyms"].insert(0, given)


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


def _put_address(addresses: Addresses, place: Body, broker: int) -> None:
    address = addresses.get(broker)
    if address is not None:
        place["host"], place["port"] = address


def _put_endpoints(pending: PendingResponse) -> None:
    """Add the addresses of the leaders named in a Produce or Fetch response."""
    leaders = {
        partition["currentLeader"]["leaderId"]
        for partition in _partitions(pending.response)
        if "currentLeader" in partition and partition["errorCode"] in _LED_BY_OTHERS
    }
    endpoints = []
    for leader in sorted(leaders & pending.addresses.keys()):
        host, port = pending.addresses[leader]
        endpoints.append({"nodeId": leader, "host": host, "port": port, "rack": None})
    if endpoints:
        pending.response["nodeEndpoints"] = endpoints


def _partitions(response: Body) -> Iterator[Body]:
    for topic in response["responses"]:
        yield from topic.get("partitionResponses") or topic.get("partitions") or ()


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
