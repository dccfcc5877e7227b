"""Requests of the test itself to its broker, not subject to rules."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple, cast

from brokertwin.errors import UserError
from brokertwin.gateway.edge_fields import put_locators, store_batches
from brokertwin.gateway.engine.engine import AnyBody, Body, EdgeRequest, internal_header
from brokertwin.protocol.errors import Error, error_name
from brokertwin.protocol.generated.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from brokertwin.protocol.kafka_apis import (
    CREATE_TOPICS,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    KAFKA_APIS,
    PRODUCE,
)
from brokertwin.testing import reading
from brokertwin.testing.engine import FaultyEngine

VERSIONS = {PRODUCE.key: 9, FIND_COORDINATOR.key: 4, CREATE_TOPICS.key: 7, INIT_PRODUCER_ID.key: 4}
GROUP, TRANSACTION = 0, 1
TIMEOUT_MS = 30_000
_NO_PRODUCER = {"transactionTimeoutMs": TIMEOUT_MS, "producerId": -1, "producerEpoch": -1}
BATCH_BYTES_MAX = 2**30
"""Limit of kafka-python's batches; the broker's own limit is lower."""


class TopicToCreate(NamedTuple):
    """Arguments of a new topic."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


async def _request(engine: FaultyEngine, broker: int, api_key: int, body: AnyBody) -> Body:
    header = internal_header(api_key, VERSIONS[api_key], "kafka_broker")
    principal = engine.principal
    request = EdgeRequest(broker, "kafka_broker", principal, "127.0.0.1", header, body)
    result = await engine.submit_without_faults(request)
    if result.response is None:
        raise UserError(f"{KAFKA_APIS[api_key].name} was refused: {result.error}")
    return result.document(VERSIONS[api_key])


def _check(code: int, message: str | None, what: str) -> None:
    if code != Error.NONE:
        raise UserError(f"{what}: {code} {error_name(code)}{': ' + message if message else ''}")


async def create_topic(engine: FaultyEngine, topic_to_create: TopicToCreate) -> str:
    """Create a topic and return its id. Raises UserError."""
    topic = {
        "name": topic_to_create.name,
        "numPartitions": topic_to_create.partitions,
        "replicationFactor": topic_to_create.replication_factor,
        "assignments": [],
        "configs": [
            {"name": name, "value": value} for name, value in topic_to_create.configs.items()
        ],
    }
    body = {"topics": [topic], "timeoutMs": TIMEOUT_MS, "validateOnly": False}
    (created,) = (await _request(engine, engine.brokers[0], CREATE_TOPICS.key, body))["topics"]
    _check(created["errorCode"], created["errorMessage"], f"The topic {topic_to_create.name}")
    return str(created["topicId"])


async def warm_up(engine: FaultyEngine) -> None:
    """Allocate producer ids and create internal topics, so no client request waits."""
    for broker in engine.brokers:
        await _request(
            engine, broker, INIT_PRODUCER_ID.key, {"transactionalId": None, **_NO_PRODUCER}
        )
    for key_type in (GROUP, TRANSACTION):
        body = {"keyType": key_type, "coordinatorKeys": [""]}
        await _request(engine, engine.brokers[0], FIND_COORDINATOR.key, body)


def batch(
    values: Iterable[bytes | str | None],
    key: bytes | str | None,
    headers: Iterable[tuple[str, bytes]],
    timestamp_ms: int,
) -> bytes:
    from brokertwin.testing.kafka_records import DefaultRecordBatchBuilder  # slow to import

    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, BATCH_BYTES_MAX)
    for number, value in enumerate(values):
        builder.append(number, timestamp_ms, _bytes(key), _bytes(value), list(headers))
    return bytes(builder.build())


def _bytes(text: bytes | str | None) -> bytes | None:
    return text.encode() if isinstance(text, str) else text


async def produce(engine: FaultyEngine, topic: str, partition: int, data: bytes) -> int:
    """Append a batch at the leader and return its offset. Raises UserError."""
    if engine.topic(topic) is None:
        await create_topic(engine, TopicToCreate(topic, 1, 1, {}))
    broker = reading.leader(engine, topic, partition)
    written = PartitionProduceData(index=partition)
    written.records = cast("None", data)
    body = ProduceRequest(
        timeout_ms=TIMEOUT_MS, topic_data=[TopicProduceData(name=topic, partition_data=[written])]
    )
    await put_locators(store_batches(engine, broker, VERSIONS[PRODUCE.key], body))
    response = await _request(engine, broker, PRODUCE.key, body)
    (result,) = response["responses"][0]["partitionResponses"]
    _check(result["errorCode"], result.get("errorMessage"), f"Records for {topic}-{partition}")
    return int(result["baseOffset"])
