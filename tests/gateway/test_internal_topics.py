"""What a client reads of an internal topic that has followers: offsets, and no records."""

from collections.abc import Iterator

import kafka
import pytest
from kafka.record.memory_records import MemoryRecords

from brokerstream.gateway import records
from tests.support.gateways import Running, running_gateway
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.stopping_brokers import bootstrap_of

INTERNAL = "__consumer_offsets"
COMMITS = 3


@pytest.fixture(scope="module")
def gateway() -> Iterator[Running]:
    """Three brokers; the group `g` has committed three times."""
    with running_gateway({"offsets.topic.num.partitions": "1"}, 3) as running:
        with running.client(1, PATIENCE_S) as client:
            client.topic("orders")
            asked = {"keyType": 0, "coordinatorKeys": ["g"]}

            def coordinator() -> int:
                (found,) = client.call("FIND_COORDINATOR", 4, asked)["coordinators"]
                return int(found["nodeId"])

            wait_until(lambda: coordinator() > 0, "somebody coordinates")
            broker = coordinator()
        with running.client(broker, PATIENCE_S) as client:
            for offset in range(COMMITS):
                place = {"partitionIndex": 0, "committedOffset": offset, "committedMetadata": ""}
                topics = [{"name": "orders", "partitions": [place]}]
                body = {"groupId": "g", "topics": topics}
                answer = client.call("OFFSET_COMMIT", 8, body)
                assert answer["topics"][0]["partitions"][0]["errorCode"] == 0
        yield running


def test_a_consumer_goes_through_to_the_end(gateway: Running) -> None:
    consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap_of(gateway))
    place = kafka.TopicPartition(INTERNAL, 0)
    consumer.assign([place])
    consumer.seek_to_beginning(place)
    assert consumer.end_offsets([place]) == {place: COMMITS}

    def is_at_the_end() -> bool:
        assert consumer.poll(timeout_ms=100) == {}
        return bool(consumer.position(place) == COMMITS)

    wait_until(is_at_the_end, "the consumer is at the end")
    consumer.close()


def test_a_batch_without_records_says_its_offsets() -> None:
    header = {
        "baseOffset": 7,
        "lastOffsetDelta": 2,
        "partitionLeaderEpoch": 4,
        "magic": 2,
        "isTransactional": True,
        "baseTimestamp": 1000,
        "maxTimestamp": 1001,
        "producerId": 5,
        "producerEpoch": 1,
        "baseSequence": 3,
    }
    data = records.without_records(header)
    batch = MemoryRecords(data).next_batch()
    assert batch.validate_crc()
    assert (batch.base_offset, batch.next_offset, list(batch)) == (7, 10, [])
    (found,) = records.batch_headers(data)
    assert {name: found[name] for name in header} == header
    assert (found["recordCount"], found["sizeInBytes"]) == (0, len(data))
