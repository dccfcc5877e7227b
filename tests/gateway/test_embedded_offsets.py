"""A consumer that writes its offsets itself: the alternative in seed 003.

The topic is compacted, the key is group, topic and partition, and the newest value counts. Kafka
sends a request to the coordinator instead; the tests show the benefit.
"""

from collections.abc import Iterator

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.structs import OffsetAndMetadata

from tests.support.gateways import Running, running_gateway
from tests.support.patience import PATIENCE_S

pytestmark = pytest.mark.clients

OFFSETS, GROUP, READ = "own-offsets", "g", TopicPartition("orders", 0)
UNKNOWN_MEMBER_ID = 25


class EmbeddedOffsets:
    """Offsets of a consumer with its own producer; `records_read` is the cost of a start."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all")
        self.records_read = 0

    def put(self, offset: int) -> None:
        """Write how far `READ` is read, and wait until the topic has it."""
        key = f"{GROUP}/{READ.topic}/{READ.partition}".encode()
        sent = self.producer.send(OFFSETS, key=key, value=str(offset).encode(), partition=0)
        sent.get(PATIENCE_S)

    def get(self) -> int | None:
        place = TopicPartition(OFFSETS, 0)
        reader = KafkaConsumer(bootstrap_servers=self.bootstrap, auto_offset_reset="earliest")
        reader.assign([place])
        (end,) = reader.end_offsets([place]).values()
        value = None
        while reader.position(place) < end:
            for batch in reader.poll(1_000).values():
                value = int(batch[-1].value)
                self.records_read += len(batch)
        reader.close()
        return value

    def close(self) -> None:
        self.producer.close()


@pytest.fixture(scope="module")
def gateway() -> Iterator[Running]:
    with running_gateway() as running:
        admin = KafkaAdminClient(bootstrap_servers=running.bootstrap)
        compacted = {"cleanup.policy": "compact"}
        admin.create_topics([NewTopic(OFFSETS, 1, 1, topic_configs=compacted)])
        admin.create_topics([NewTopic(READ.topic, 1, 1)])
        admin.close()
        yield running


def commit_as_a_zombie(gateway: Running, offset: int) -> int:
    """Return the coordinator's error for a commit of a removed member."""
    partitions = [{"partitionIndex": READ.partition, "committedOffset": offset}]
    body = {"groupId": GROUP, "memberId": "gone", "generationIdOrMemberEpoch": 3}
    body["topics"] = [{"name": READ.topic, "partitions": partitions}]
    with gateway.client() as client:
        response = client.call("OFFSET_COMMIT", 8, body)
    return int(response["topics"][0]["partitions"][0]["errorCode"])


def committed(gateway: Running) -> int:
    """Return the coordinator's offset; kafka-python may return an older response."""
    with gateway.client() as client:
        response = client.call(
            "OFFSET_FETCH", 8, groupId=GROUP, name=READ.topic, partitionIndexes=[READ.partition]
        )
    return int(response["groups"][0]["topics"][0]["partitions"][0]["committedOffset"])


def test_zombie_overwrites_its_successors_offset_without_a_coordinator(
    gateway: Running,
) -> None:
    successor, zombie = EmbeddedOffsets(gateway.bootstrap), EmbeddedOffsets(gateway.bootstrap)
    member = KafkaConsumer(READ.topic, bootstrap_servers=gateway.bootstrap, group_id=GROUP)
    while not member.assignment():
        member.poll(100)
    for offset in range(1, 11):
        successor.put(offset)
        member.commit({READ: OffsetAndMetadata(offset, "", -1)})
    zombie.put(4)
    assert commit_as_a_zombie(gateway, 4) == UNKNOWN_MEMBER_ID
    assert successor.get() == 4, "it has gone back, and ten records are read twice"
    assert committed(gateway) == 10
    assert successor.records_read == 11, "who starts reads all that was ever written"
    for each in (member, successor, zombie):
        each.close()
