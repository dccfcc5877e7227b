"""The proxy in front of a real Kafka of two brokers, with real clients."""

from collections.abc import Iterator

import confluent_kafka
import kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from brokertwin.testing import KafkaProxy
from tests.support.kafka_clusters import kafka_cluster
from tests.support.patience import PATIENCE_S

pytestmark = pytest.mark.kafka

TOPIC = "spread"
COUNT = 20


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaProxy]:
    home = tmp_path_factory.mktemp("cluster")
    with kafka_cluster(home, 2) as nodes, KafkaProxy(str(nodes[1][1])) as proxy:
        admin = AdminClient({"bootstrap.servers": proxy.bootstrap})
        new = NewTopic(TOPIC, 2, replica_assignment=[[1, 2], [2, 1]])
        admin.create_topics([new])[TOPIC].result(PATIENCE_S)
        yield proxy


def test_records_are_written_once_in_spite_of_faults(proxy: KafkaProxy) -> None:
    faults = [
        proxy.lose_response("PRODUCE", broker=2),
        proxy.fail_next("PRODUCE", "NOT_LEADER_OR_FOLLOWER", topic=TOPIC, partition=0, nth=2),
        proxy.drop_connection("PRODUCE", nth=4),
        proxy.duplicate("PRODUCE", nth=6),
        proxy.delay("PRODUCE", 50, nth=8),
        proxy.throttle(50, "PRODUCE", nth=9),
    ]
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": proxy.bootstrap, "enable.idempotence": True, "linger.ms": 0}
    )
    for number in range(COUNT):
        producer.produce(TOPIC, b"%d" % number, partition=number % 2)
        assert producer.flush(PATIENCE_S) == 0
    assert [fault.hits for fault in faults] == [1] * len(faults)
    assert {each["broker"] for each in proxy.requests("PRODUCE")} == {1, 2}

    refused = proxy.fail_next("FETCH", "NOT_LEADER_OR_FOLLOWER", topic=TOPIC, partition=1)
    lost = proxy.lose_response("OFFSET_COMMIT")
    consumer = kafka.KafkaConsumer(
        TOPIC,
        bootstrap_servers=proxy.bootstrap,
        group_id="readers",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        consumer_timeout_ms=PATIENCE_S * 1000,
    )
    found = [next(consumer) for _ in range(COUNT)]
    consumer.commit()
    consumer.close()
    assert (refused.hits, lost.hits) == (1, 1)
    for partition in (0, 1):
        values = [int(each.value) for each in found if each.partition == partition]
        assert values == list(range(partition, COUNT, 2))
