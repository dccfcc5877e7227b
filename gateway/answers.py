"""What the edge puts into requests and answers: record batches, and its own addresses.

The state machine sees batch headers and answers with batches and locators; clients see bytes. The
addresses in Metadata, FindCoordinator and DescribeCluster are where this gateway is reached.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, NamedTuple

import structlog

from brokertwin.gateway.engine.engine import Body, Engine
from brokertwin.gateway.records import internal_batches, recompression, records, refused_records
from brokertwin.gateway.records.compression import DecompressionError
from brokertwin.gateway.records.records import InvalidRecordsError
from brokertwin.state.apis.describe_quorum import LISTENER
from brokertwin.state.core.errors import Error
from brokertwin.state.core.kafka_apis import (
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
from brokertwin.state.core.schema import ZERO_UUID

MAX_TIMESTAMP = -3
BROKER_RESOURCE = 4
STATIC_BROKER_CONFIG, DEFAULT_CONFIG = 4, 5
_LED_BY_OTHERS = (Error.NOT_LEADER_OR_FOLLOWER, Error.FENCED_LEADER_EPOCH)

_log = structlog.get_logger("brokertwin.gateway")


class Address(NamedTuple):
    """Where clients reach a logical broker."""

    host: str
    port: int


Addresses = dict[int, Address]


class Write(NamedTuple):
    """A batch that is being stored, and its topic and partition in the event's body."""

    topic: Body
    partition: Body
    data: bytes
    locator: asyncio.Future[str]

    @property
    def place(self) -> tuple[str, str, int]:
        """The topic's name, its id, and the partition, as the request has them."""
        name, topic_id = self.topic.get("name", ""), self.topic.get("topicId", ZERO_UUID)
        return name, topic_id, self.partition["index"]


def store_batches(engine: Engine, broker: int, version: int, body: Body) -> list[Write]:
    """Make an event's body of a Produce request to a broker: headers in the place of bytes.

    Batches are kept in the codec of their topic, where the engine knows one. Gives back
    the writes that this has begun; `put_locators` completes the body.
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
                writes.append(Write(topic, partition, found.data, engine.put(found.data)))
                if found.seen is not None:
                    partition["recordsSeen"] = found.seen
    return writes


async def put_locators(writes: list[Write]) -> None:
    """Wait until batches are stored; a partition whose batch is not gets KAFKA_STORAGE_ERROR."""
    for _topic, partition, _data, locator in writes:
        try:
            partition["batches"][0]["locator"] = await locator
        except OSError as failure:
            _log.error("cannot store a batch", error=str(failure))
            partition["recordsError"] = int(Error.KAFKA_STORAGE_ERROR)


class _NotReadableError(Exception):
    """What an answer needs is lost, or cannot be read now."""


class Answered(NamedTuple):
    """An answer on its way to the client, and what is needed to complete it."""

    engine: Engine
    addresses: Addresses
    version: int
    request: Body
    response: Body
    writes: Sequence[Write] = ()
    protocol: str = "PLAINTEXT"
    """What the broker's listener speaks."""


def complete(api_key: int, answered: Answered) -> None:
    """Put in what only the edge has and knows at once."""
    completer = _COMPLETERS.get(api_key)
    if completer is not None:
        completer(answered)
    endpoints_since = api_of_key(api_key).endpoints_since
    if endpoints_since is not None and answered.version >= endpoints_since:
        is_for_client = answered.request.get("replicaState", {}).get("replicaId", -1) < 0
        if is_for_client:
            _put_endpoints(answered)


def _tell_refused_records(answered: Answered) -> None:
    """Say of batches that were refused for their records which ones these are."""
    for topic in answered.response["responses"]:
        for partition in topic["partitionResponses"]:
            why = partition.pop("refusedRecords", None)
            if why is None:
                continue
            place = (topic.get("name", ""), topic.get("topicId", ZERO_UUID), partition["index"])
            data = [each.data for each in answered.writes if each.place == place]
            if data:
                refused_records.tell(partition, why, data[-1])


async def _complete_fetch(answered: Answered) -> None:
    for topic in answered.response["responses"]:
        for partition in topic["partitions"]:
            partition["records"] = bytearray()
            try:
                if partition.get("sealed"):
                    partition["batches"] = await _cut(answered.engine, partition)
                await _put_bytes(answered.engine, partition)
            except _NotReadableError:
                if not partition["records"]:
                    partition["errorCode"] = int(Error.KAFKA_STORAGE_ERROR)


async def _cut(engine: Engine, partition: Body) -> list[Body]:
    """The batches that a reader gets of a sealed part of a log: one at least, then by size."""
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


async def _put_bytes(engine: Engine, partition: Body) -> None:
    """The bytes of a partition's batches; where some cannot be read, those before them."""
    for batch in partition.get("batches") or ():
        if batch.get("endMarker") and not batch.get("locator"):
            partition["records"] += records.end_marker(batch)
        elif batch.get("written"):
            partition["records"] += internal_batches.to_bytes(batch)
        else:
            data = await _read(engine, batch.get("locator"))
            partition["records"] += records.as_stored(data, batch)


async def _read(engine: Engine, locator: str | None) -> bytes:
    """The bytes at a locator. Raises _NotReadableError where they are lost, or not there now."""
    try:
        data = await engine.get(locator) if locator is not None else None
    except OSError as error:
        _log.error("cannot read the bytes of a batch", locator=locator, error=str(error))
        raise _NotReadableError from None
    if data is None:
        _log.error("the bytes of a batch are lost", locator=locator)
        raise _NotReadableError
    return data


async def _segment(engine: Engine, topic_id: str, partition: int, base_offset: int) -> list[Body]:
    """A sealed part of a log. Raises _NotReadableError where it is lost, or not there now."""
    place = {"topic_id": topic_id, "partition": partition, "base_offset": base_offset}
    try:
        batches = await engine.segment(topic_id, partition, base_offset)
    except OSError as error:
        _log.error("cannot read a sealed log segment", **place, error=str(error))
        raise _NotReadableError from None
    if batches is None:
        _log.error("a sealed log segment is lost", **place)
        raise _NotReadableError
    return batches


async def _complete_list_offsets(answered: Answered) -> None:
    asked = {
        (topic["name"], partition["partitionIndex"]): partition["timestamp"]
        for topic in answered.request["topics"]
        for partition in topic["partitions"]
    }
    for topic in answered.response["topics"]:
        for partition in topic["partitions"]:
            within = partition.pop("within", None)
            if within is not None:
                index = partition["partitionIndex"]
                timestamp = asked[topic["name"], index]
                try:
                    await _look_inside(answered.engine, partition, within, timestamp)
                except _NotReadableError:
                    _found_nothing(partition)
                    partition["errorCode"] = int(Error.KAFKA_STORAGE_ERROR)


async def _look_inside(engine: Engine, partition: Body, within: Body, timestamp: int) -> None:
    """Find the record that is asked for; where there is none, nothing is found."""
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


async def _batches_in(engine: Engine, partition: int, place: Body) -> list[Body]:
    """The batches of a place: one, whose base offset may be below it, or those of a segment."""
    if place.get("isSealed"):
        return await _segment(engine, place["topicId"], partition, place["segmentOffset"])
    return [place]


async def _timestamps(engine: Engine, batch: Body) -> list[tuple[int, int]]:
    """Offset and timestamp of each record; none where there are no bytes or they do not decode."""
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
    except (DecompressionError, InvalidRecordsError) as error:
        _log.error("cannot decode the records of a batch", locator=locator, error=str(error))
        return []


def _put_metadata(answered: Answered) -> None:
    for broker in answered.response["brokers"]:
        _put(answered.addresses, broker, broker["nodeId"])


def _put_coordinators(answered: Answered) -> None:
    response = answered.response
    for coordinator in response.get("coordinators", (response,)):
        _put(answered.addresses, coordinator, coordinator.get("nodeId", -1))


def _put_cluster(answered: Answered) -> None:
    for broker in answered.response["brokers"]:
        _put(answered.addresses, broker, broker["brokerId"])


def _put_quorum(answered: Answered) -> None:
    for voter in answered.response.get("nodes", ()):
        for listener in voter["listeners"]:
            _put(answered.addresses, listener, voter["nodeId"])


def _put_settings(answered: Answered) -> None:
    """Put in the settings of brokers that a real broker is given for its place in a cluster."""
    for result in answered.response["results"]:
        name = result["resourceName"]
        broker = int(name) if result["resourceType"] == BROKER_RESOURCE and name else -1
        known = _placed(answered, broker) if broker in answered.addresses else {}
        for config in result.get("configs", ()):  # absent from an error response
            value = known.get(config["name"])
            if value is None or config["configSource"] != DEFAULT_CONFIG:
                continue
            config["value"], config["configSource"] = value, STATIC_BROKER_CONFIG
            if answered.request["includeSynonyms"]:
                given = {"name": config["name"], "value": value, "source": STATIC_BROKER_CONFIG}
                config["synonyms"].insert(0, given)


def _placed(answered: Answered, broker: int) -> dict[str, str]:
    """Return the settings of a broker by name; the first broker has the controller."""
    leader, (host, port) = answered.engine.brokers[0], answered.addresses[broker]
    endpoint, controller = f"{answered.protocol}://{host}:{port}", answered.addresses[leader]
    return {
        "listeners": endpoint,
        "advertised.listeners": endpoint,
        "process.roles": "broker,controller" if broker == leader else "broker",
        "controller.listener.names": LISTENER,
        "controller.quorum.voters": f"{leader}@{controller.host}:{controller.port}",
    }


def _put(addresses: Addresses, place: Body, broker: int) -> None:
    address = addresses.get(broker)
    if address is not None:
        place["host"], place["port"] = address


def _put_endpoints(answered: Answered) -> None:
    """Where the leaders are reached that partitions of a Produce or Fetch answer name."""
    leaders = {
        partition["currentLeader"]["leaderId"]
        for partition in _partitions(answered.response)
        if "currentLeader" in partition and partition["errorCode"] in _LED_BY_OTHERS
    }
    endpoints = []
    for leader in sorted(leaders & answered.addresses.keys()):
        host, port = answered.addresses[leader]
        endpoints.append({"nodeId": leader, "host": host, "port": port, "rack": None})
    if endpoints:
        answered.response["nodeEndpoints"] = endpoints


def _partitions(response: Body) -> Iterator[Body]:
    for topic in response["responses"]:
        yield from topic.get("partitionResponses") or topic.get("partitions") or ()


READ_BYTES: dict[int, Callable[[Answered], Coroutine[Any, Any, None]]] = {
    FETCH.key: _complete_fetch,
    SHARE_FETCH.key: _complete_fetch,
    LIST_OFFSETS.key: _complete_list_offsets,
}
"""APIs whose answers need what is in batches, which may lie elsewhere, and how it is put in."""

ON_EVERY_LISTENER = frozenset({DESCRIBE_QUORUM.key})
"""APIs whose responses have addresses of this gateway on additional listeners, too."""

_COMPLETERS: dict[int, Callable[[Answered], None]] = {
    PRODUCE.key: _tell_refused_records,
    METADATA.key: _put_metadata,
    FIND_COORDINATOR.key: _put_coordinators,
    DESCRIBE_CONFIGS.key: _put_settings,
    DESCRIBE_QUORUM.key: _put_quorum,
    DESCRIBE_CLUSTER.key: _put_cluster,
}
