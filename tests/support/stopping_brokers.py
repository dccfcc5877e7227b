"""A real client whose brokers are stopped, one after the other, while it produces."""

from collections.abc import Callable
from typing import Any

import kafka

from brokertwin.state.core.events import Kind
from tests.support.gateways import Running
from tests.support.patience import PATIENCE_S, wait_until

TOPIC = "orders"
BROKERS = 3
PARTITIONS = 3
RECORDS = 5
"""Records for each partition, each time."""

Intervene = Callable[[str, int], Any]
"""Does something to a broker: `stop-broker`, `start-broker`, and so on."""


def bootstrap_of(gateway: Running) -> list[str]:
    return [f"{host}:{port}" for host, port in gateway.addresses.values()]


def intervene_through(gateway: Running) -> Intervene:
    """Interventions by way of a gateway's engine."""

    async def send(kind: str, broker: int) -> None:
        response = await gateway.engine.intervene(Kind(kind), broker)
        assert response.error is None, response.error

    return lambda kind, broker: gateway.run(send(kind, broker))


def create_topic(gateway: Running, **configs: str) -> None:
    given = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
    topic = {"name": TOPIC, "numPartitions": PARTITIONS, "replicationFactor": BROKERS}
    with gateway.client(1, PATIENCE_S) as client:
        body = {"topics": [{**topic, "configs": given}], "timeoutMs": 60_000}
        response = client.call("CREATE_TOPICS", 7, body)
        assert response["topics"][0]["errorCode"] == 0, response


def partitions(gateway: Running, broker: int) -> list[dict[str, Any]]:
    with gateway.client(broker, PATIENCE_S) as client:
        response = client.call("METADATA", 9, name=TOPIC)
    return list(response["topics"][0]["partitions"])


def all_in_sync(gateway: Running, broker: int) -> bool:
    return all(len(each["isrNodes"]) == BROKERS for each in partitions(gateway, broker))


def each_is_stopped_in_turn(gateway: Running, intervene: Intervene, **options: Any) -> list[bytes]:
    """Return records acknowledged with acks=all by brokers that each stop and start once.

    Records are in flight when a broker stops, and more are sent while it is down.
    """
    producer = kafka.KafkaProducer(
        bootstrap_servers=bootstrap_of(gateway), acks="all", enable_idempotence=True, **options
    )
    sent: list[tuple[bytes, Any]] = []

    def send(moment: str) -> None:
        for number in range(RECORDS):
            for partition in range(PARTITIONS):
                value = f"{moment}/{partition}/{number}".encode()
                sent.append((value, producer.send(TOPIC, value, partition=partition)))

    for broker in range(1, BROKERS + 1):
        send(f"before {broker}")
        intervene("stop-broker", broker)
        send(f"without {broker}")
        for _, future in sent:
            future.get(PATIENCE_S)
        other = broker % BROKERS + 1
        assert all(each["leaderId"] != broker for each in partitions(gateway, other))
        intervene("start-broker", broker)
        wait_until(lambda other=other: all_in_sync(gateway, other), "all are in sync again")
    producer.close()
    return [value for value, _ in sent]


def read_all(gateway: Running, **options: Any) -> list[bytes]:
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=bootstrap_of(gateway), auto_offset_reset="earliest", **options
    )
    places = [kafka.TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
    consumer.assign(places)
    ends = consumer.end_offsets(places)
    result: list[bytes] = []
    while any(consumer.position(place) < ends[place] for place in places):
        for records in consumer.poll(timeout_ms=1000).values():
            result += [record.value for record in records]
    consumer.close()
    return result
