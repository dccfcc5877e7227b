"""A real Kafka of several brokers behind the proxy; clients use it alone."""

from collections.abc import Iterator
from typing import Any

import confluent_kafka
import kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from brokertwin.gateway.edge_fields import Address
from tests.support.kafka_clusters import kafka_cluster
from tests.support.patience import PATIENCE_S
from tests.support.proxies import Capturing, capturing

BROKERS = 2
TOPIC = "spread"
COUNT = 60


def create_topic(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = NewTopic(TOPIC, BROKERS, replica_assignment=[[1, 2], [2, 1]])
    admin.create_topics([new])[TOPIC].result(PATIENCE_S)


def consume_in_a_group(bootstrap: str) -> list[bytes]:
    consumer = kafka.KafkaConsumer(
        TOPIC,
        bootstrap_servers=bootstrap,
        group_id="readers",
        auto_offset_reset="earliest",
        consumer_timeout_ms=PATIENCE_S * 1000,
    )
    values = [next(consumer).value for _ in range(COUNT)]
    consumer.close()
    return values


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Capturing]:
    """Record traffic with brokers of which the last one stops."""
    home = tmp_path_factory.mktemp("cluster")
    with kafka_cluster(home, BROKERS) as nodes:
        with capturing(nodes[1][1], home / "recorded.jsonl") as capture:
            create_topic(capture.bootstrap)
            producer = confluent_kafka.Producer({"bootstrap.servers": capture.bootstrap})
            for number in range(COUNT):
                producer.produce(TOPIC, b"%d" % number, partition=number % BROKERS)
            assert producer.flush(PATIENCE_S) == 0
            found = consume_in_a_group(capture.bootstrap)
            nodes[BROKERS][0].stop()
            for partition in range(BROKERS):
                producer.produce(TOPIC, b"after the stop", partition=partition)
            assert producer.flush(PATIENCE_S) == 0
        assert sorted(found, key=int) == [b"%d" % number for number in range(COUNT)]
        yield capture


def partitions_of(document: dict[str, Any]) -> set[int]:
    topics = document["request"]["topicData"]
    return {partition["index"] for topic in topics for partition in topic["partitionData"]}


@pytest.mark.kafka
def test_each_partition_was_written_at_its_leader(recorded: Capturing) -> None:
    written: dict[int, list[int]] = {}
    for document in recorded.of("PRODUCE"):
        for partition in partitions_of(document):
            response = document.get("response", {}).get("responses", [{}])[0]
            if any(each["errorCode"] == 0 for each in response.get("partitionResponses", ())):
                written.setdefault(partition, []).append(document["broker"])
    assert {partition: brokers[0] for partition, brokers in written.items()} == {0: 1, 1: 2}
    assert written[1][-1] == 1, "the leader has gone, and the client has found the next one"


@pytest.mark.kafka
def test_clients_know_the_addresses_of_the_proxy_only(recorded: Capturing) -> None:
    named = {
        Address(place["host"], place["port"])
        for document in recorded.documents()
        for field in ("brokers", "coordinators", "nodeEndpoints")
        for place in (document.get("response") or {}).get(field, ())
        if place["host"]
    }
    assert named == set(recorded.proxy.addresses.values())
    assert len(named) == BROKERS


@pytest.mark.kafka
def test_every_document_names_its_broker(recorded: Capturing) -> None:
    documents = recorded.documents()
    assert {each["broker"] for each in documents} == set(range(1, BROKERS + 1))
    assert documents[0]["requestHeader"]["requestApiKeyName"] == "API_VERSIONS"
    assert recorded.lost.total() == 0
