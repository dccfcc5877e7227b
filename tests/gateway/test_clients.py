"""Unmodified Kafka clients read every produced record once, byte for byte."""

from collections.abc import Callable, Iterator

import confluent_kafka
import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from kafka.admin import KafkaAdminClient

from tests.support.batches import START
from tests.support.gateways import Running, running_gateway
from tests.support.patience import PATIENCE_S
from tests.support.round_trips import (
    PARTITIONS,
    Records,
    produce_with_confluent,
    produce_with_kafka_python,
    read_with_confluent,
    read_with_kafka_python,
    records,
)

pytestmark = pytest.mark.clients

WANTED = records(10_000)


@pytest.fixture(scope="module")
def gateway() -> Iterator[Running]:
    with running_gateway(brokers=2) as running:
        yield running


@pytest.mark.parametrize("produce", [produce_with_kafka_python, produce_with_confluent])
@pytest.mark.parametrize("read", [read_with_kafka_python, read_with_confluent])
def test_ten_thousand_records_are_read_once(
    gateway: Running, produce: Callable[..., None], read: Callable[..., Records]
) -> None:
    topic = f"{produce.__name__}-{read.__name__}"
    with gateway.client() as client:
        client.topic(topic, PARTITIONS)
    produce(gateway.bootstrap, topic, WANTED)
    assert read(gateway.bootstrap, topic, 10_000) == WANTED


def test_kafka_python_admin_client(gateway: Running) -> None:
    admin = KafkaAdminClient(bootstrap_servers=gateway.bootstrap)
    admin.create_topics({"of-kafka-python": {"num_partitions": 4, "replication_factor": 1}})
    assert "of-kafka-python" in admin.list_topics()
    (described,) = admin.describe_topics(["of-kafka-python"])
    assert len(described["partitions"]) == 4
    admin.delete_topics(["of-kafka-python"])
    assert "of-kafka-python" not in admin.list_topics()
    admin.close()


def test_confluent_admin_client(gateway: Running) -> None:
    admin = AdminClient({"bootstrap.servers": gateway.bootstrap})
    (created,) = admin.create_topics([NewTopic("of-confluent", 2, 1)]).values()
    assert created.result(PATIENCE_S) is None
    listed = admin.list_topics(timeout=PATIENCE_S)
    assert len(listed.topics["of-confluent"].partitions) == 2
    assert {(b.host, b.port) for b in listed.brokers.values()} == set(gateway.addresses.values())
    of_topic = ConfigResource(ResourceType.TOPIC, "of-confluent")
    of_broker = ConfigResource(ResourceType.BROKER, "1")
    described = admin.describe_configs([of_topic])[of_topic].result(PATIENCE_S)
    assert described["retention.ms"].value == "604800000"
    assert described["retention.ms"].is_default
    change = ConfigEntry("retention.ms", "1000", incremental_operation=AlterConfigOpType.SET)
    altered = ConfigResource(ResourceType.TOPIC, "of-confluent", incremental_configs=[change])
    assert admin.incremental_alter_configs([altered])[altered].result(PATIENCE_S) is None
    described = admin.describe_configs([of_topic])[of_topic].result(PATIENCE_S)
    assert described["retention.ms"].value == "1000"
    described = admin.describe_configs([of_broker])[of_broker].result(PATIENCE_S)
    assert described["node.id"].value == "1"
    (deleted,) = admin.delete_topics(["of-confluent"]).values()
    assert deleted.result(PATIENCE_S) is None


def test_offsets_by_time_and_at_the_ends(gateway: Running) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": gateway.bootstrap, "linger.ms": 50})
    with gateway.client() as client:
        client.topic("offsets")
    for number in range(100):
        producer.produce("offsets", b"x", timestamp=START + number * 10)
    assert producer.flush(PATIENCE_S) == 0
    consumer = confluent_kafka.Consumer({"bootstrap.servers": gateway.bootstrap, "group.id": "x"})
    place = confluent_kafka.TopicPartition("offsets", 0)
    assert consumer.get_watermark_offsets(place, PATIENCE_S) == (0, 100)
    for milliseconds, offset in [(0, 0), (405, 41), (990, 99), (991, -1)]:
        partition = confluent_kafka.TopicPartition("offsets", 0, START + milliseconds)
        (found,) = consumer.offsets_for_times([partition], PATIENCE_S)
        assert found.offset == offset
    consumer.close()
