"""Transactional batches and markers beside a real broker: the same requests, the same responses."""

import re
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from brokertwin.gateway.edge_fields import Address
from brokertwin.protocol.errors import Error
from tests.support.batches import numbered
from tests.support.goldens import WRITTEN_MS, connection_to, tape
from tests.support.machine import Bench, header
from tests.support.patience import PATIENCE_S

TOPIC = "data-partitions"
ABSENT = 777
"""An unused producer id, counted from the first one."""


class Sent(NamedTuple):
    """A batch of one record: version of Produce, producer, epoch, sequence, transactional id."""

    version: int
    producer: int | None
    epoch: int
    sequence: int
    name: str | None
    is_transactional: bool = True


class Marked(NamedTuple):
    """A marker: version of the request, producer, epoch, coordinator epoch, transaction version."""

    version: int
    producer: int
    epoch: int
    coordinator_epoch: int
    transaction_version: int


Response = tuple[int, int, int]
"""Error, base offset and log start offset."""

BEFORE_ADDING: list[tuple[Sent, Response]] = [
    (Sent(12, 0, 0, 4, "v2"), (Error.OUT_OF_ORDER_SEQUENCE_NUMBER, -1, 0)),
    (Sent(12, 0, 0, 0, "v2"), (Error.NONE, 0, 0)),
    (Sent(12, 0, 0, 0, "v2", False), (Error.NONE, 0, 0)),
    (Sent(12, 0, 0, 1, "v2", False), (Error.INVALID_TXN_STATE, -1, 0)),
    (Sent(12, 0, 0, 7, "v2", False), (Error.OUT_OF_ORDER_SEQUENCE_NUMBER, -1, 0)),
    (Sent(12, 0, 0, 1, "v2"), (Error.NONE, 1, 0)),
    (Sent(11, 1, 0, 4, "v1"), (Error.TRANSACTION_ABORTABLE, -1, -1)),
    (Sent(10, 1, 0, 4, "v1"), (Error.INVALID_TXN_STATE, -1, -1)),
    (Sent(12, ABSENT, 0, 0, "v1"), (Error.INVALID_PRODUCER_ID_MAPPING, -1, -1)),
    (Sent(11, ABSENT, 0, 0, "nobody"), (Error.INVALID_PRODUCER_ID_MAPPING, -1, -1)),
    (Sent(12, 0, 0, 2, None), (Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, -1, -1)),
    (Sent(12, 2, 0, 0, "v2"), (Error.INVALID_PRODUCER_ID_MAPPING, -1, -1)),
    (Sent(12, None, -1, -1, "v2"), (Error.NONE, 2, 0)),
]
AFTER_ADDING: list[tuple[Sent, Response]] = [
    (Sent(11, 1, 0, 5, "v1"), (Error.OUT_OF_ORDER_SEQUENCE_NUMBER, -1, 0)),
    (Sent(11, 1, 0, 4, "v1"), (Error.NONE, 3, 0)),
    (Sent(11, 1, 0, 5, "v1"), (Error.NONE, 4, 0)),
    (Sent(11, 1, 1, 0, "v1"), (Error.INVALID_PRODUCER_EPOCH, -1, -1)),
    (Sent(12, 1, 1, 0, "v1"), (Error.INVALID_PRODUCER_EPOCH, -1, -1)),
]
MARKERS: list[tuple[Marked, Error]] = [
    (Marked(2, 0, 0, 0, 2), Error.INVALID_PRODUCER_EPOCH),
    (Marked(2, 0, 1, 0, 2), Error.NONE),
    (Marked(2, 0, 1, 0, 2), Error.NONE),
    (Marked(2, 0, 0, 0, 2), Error.INVALID_PRODUCER_EPOCH),
    (Marked(2, 1, 0, 7, 0), Error.NONE),
    (Marked(2, 1, 0, 6, 0), Error.TRANSACTION_COORDINATOR_FENCED),
    (Marked(1, 1, 0, 7, 1), Error.NONE),
    (Marked(2, ABSENT, 3, 1, 2), Error.NONE),
]


class Side:
    """One of the two brokers: how to call it, and the producer ids that it has assigned."""

    def __init__(self, send: Any, topic: str, suffix: str) -> None:
        self.send = send
        self.topic = topic
        self.suffix = suffix
        self.producers: list[int] = []

    def named(self, name: str | None) -> str | None:
        return None if name is None else f"{name}{self.suffix}"

    def producer_id(self, producer: int | None) -> int:
        if producer is None:
            return -1
        producers = self.producers
        return producers[producer] if producer < len(producers) else producers[0] + producer * 1000

    def create(self) -> None:
        """The topic, and a transactional id with its producer id for each name."""
        topic = {"name": self.topic, "numPartitions": 1, "replicationFactor": 1}
        topic |= {"assignments": [], "configs": []}
        body = {"topics": [topic], "timeoutMs": 10_000, "validateOnly": False}
        self.send("CreateTopics", 7, body)
        for name in ("v2", "v1", "idle"):
            self.producers.append(self.take(name))
        end = time.monotonic() + PATIENCE_S
        while self.latest(0)["errorCode"]:
            assert time.monotonic() < end, "nobody leads the partition"
            time.sleep(0.05)

    def take(self, name: str) -> int:
        self.send("FindCoordinator", 4, {"keyType": 1, "coordinatorKeys": [self.named(name)]})
        body = {"transactionalId": self.named(name), "transactionTimeoutMs": 60_000}
        body |= {"producerId": -1, "producerEpoch": -1}
        end = time.monotonic() + PATIENCE_S
        while (response := self.send("InitProducerId", 4, body))["errorCode"]:
            assert time.monotonic() < end, response
            time.sleep(0.05)
        return int(response["producerId"])

    def add(self, name: str, producer: int) -> int:
        body = {
            "v3AndBelowTransactionalId": self.named(name),
            "v3AndBelowProducerId": self.producer_id(producer),
            "v3AndBelowProducerEpoch": 0,
            "v3AndBelowTopics": [{"name": self.topic, "partitions": [0]}],
        }
        (topic,) = self.send("AddPartitionsToTxn", 3, body)["resultsByTopicV3AndBelow"]
        return int(topic["resultsByPartition"][0]["partitionErrorCode"])

    def produce(self, sent: Sent) -> Response:
        partition = {"index": 0, **self.batch(sent)}
        body = {"transactionalId": self.named(sent.name), "acks": -1, "timeoutMs": 10_000}
        body["topicData"] = [{"name": self.topic, "partitionData": [partition]}]
        (topic,) = self.send("Produce", sent.version, body)["responses"]
        (part,) = topic["partitionResponses"]
        return part["errorCode"], part["baseOffset"], part["logStartOffset"]

    def batch(self, sent: Sent) -> dict[str, Any]:
        records = numbered(
            pid=self.producer_id(sent.producer),
            epoch=sent.epoch,
            seq=sent.sequence,
            txn=sent.is_transactional,
            time=WRITTEN_MS,
        )
        return {"records": records}

    def mark(self, marked: Marked) -> list[int]:
        unknown = f"{self.topic}-none"
        topics = [
            {"name": self.topic, "partitionIndexes": [0, 5]},
            {"name": unknown, "partitionIndexes": [0]},
        ]
        marker = {
            "producerId": self.producer_id(marked.producer),
            "producerEpoch": marked.epoch,
            "transactionResult": True,
            "topics": topics,
            "coordinatorEpoch": marked.coordinator_epoch,
            "transactionVersion": marked.transaction_version,
        }
        (result,) = self.send("WriteTxnMarkers", marked.version, {"markers": [marker]})["markers"]
        errors = {
            (topic["name"], partition["partitionIndex"]): partition["errorCode"]
            for topic in result["topics"]
            for partition in topic["partitions"]
        }
        return [errors[self.topic, 0], errors[self.topic, 5], errors[unknown, 0]]

    def known(self) -> list[tuple[int, ...]]:
        """What DescribeProducers lists, without times, by producer."""
        body = {"topics": [{"name": self.topic, "partitionIndexes": [0]}]}
        (topic,) = self.send("DescribeProducers", 0, body)["topics"]
        fields = ("producerEpoch", "lastSequence", "coordinatorEpoch", "currentTxnStartOffset")
        listed = topic["partitions"][0]["activeProducers"]
        by_id = sorted(listed, key=lambda each: each["producerId"])
        return [tuple(each[field] for field in fields) for each in by_id]

    def stable(self) -> tuple[int, int]:
        return self.latest(1)["offset"], self.latest(0)["offset"]

    def latest(self, isolation_level: int) -> dict[str, Any]:
        partition = {"partitionIndex": 0, "currentLeaderEpoch": -1, "timestamp": -1}
        topic = {"name": self.topic, "partitions": [partition]}
        body = {"replicaId": -1, "isolationLevel": isolation_level, "topics": [topic]}
        (found,) = self.send("ListOffsets", 7, body)["topics"]
        listed: dict[str, Any] = found["partitions"][0]
        return listed


class Ours(Side):
    """The machine on the bench: it gets headers in the place of records."""

    def batch(self, sent: Sent) -> dict[str, Any]:
        producer = (self.producer_id(sent.producer), sent.epoch, sent.sequence)
        return {"batches": [header(1, *producer, isTransactional=sent.is_transactional)]}


@pytest.fixture
def sides(real_kafka: Address) -> Iterator[list[Side]]:
    """The real broker and the machine."""
    bench = Bench()

    def request_bench(api: str, version: int, body: dict[str, Any]) -> Any:
        return bench.request(re.sub("(?<=[a-z])(?=[A-Z])", "_", api).upper(), version, body)

    with tape("apis/data_partitions") as recording:
        real = recording.connection(lambda: connection_to(real_kafka))
        suffix = "-of-data"
        both = [Side(real.call, TOPIC, suffix), Ours(request_bench, TOPIC, suffix)]
        for side in both:
            side.create()
        yield both
        real.close()


@pytest.mark.compares
def test_batches_and_markers_get_the_responses_of_a_real_broker(sides: list[Side]) -> None:
    for sent, expected in BEFORE_ADDING:
        assert [side.produce(sent) for side in sides] == [expected] * 2, sent
    assert [side.add("v1", 1) for side in sides] == [0, 0]
    for sent, expected in AFTER_ADDING:
        assert [side.produce(sent) for side in sides] == [expected] * 2, sent
    assert [side.stable() for side in sides] == [(0, 5)] * 2
    missing = int(Error.UNKNOWN_TOPIC_OR_PARTITION)
    for marked, error in MARKERS:
        responses = [side.mark(marked) for side in sides]
        assert responses == [[int(error), missing, missing]] * 2, marked
    assert [side.stable() for side in sides] == [(10, 10)] * 2
    theirs, ours = (side.known() for side in sides)
    assert theirs == ours
