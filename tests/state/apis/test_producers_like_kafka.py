"""Producer state beside a real broker: the same requests to both, the same responses and files."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from brokertwin.gateway.edge_fields import Address
from brokertwin.kafka_io.kafka_broker import EmbeddedKafka
from brokertwin.settings import default_home
from brokertwin.state.logs import producer as producers
from tests.support import producer_snapshots
from tests.support.batches import numbered
from tests.support.goldens import IS_LIVE, Tape, connection_to, started, tape
from tests.support.machine import Bench, header, produce_body
from tests.support.patience import PATIENCE_S, wait_until

PRODUCED = ((5, 0, 3), (6, 2, 1), (5, 3, 2), (8, 7, 1))
"""Producer id, base sequence and number of records of the batches."""

HELD = ((-1, -1), (-1, -1), (-1, -1), (0, 2), (0, 2), (0, 1), (0, 9), (0, 3), (-1, -1), (0, 3))
"""Which producer id and epoch the requests hold, counted from the id that came first."""

OTHERS_ID = (1, 0)
CONCURRENT = 51


class Both:
    """A real broker and a bench, side by side."""

    def __init__(self, recording: Tape, broker: EmbeddedKafka, address: Address) -> None:
        self.tape, self.broker = recording, broker
        self.wire = recording.connection(lambda: connection_to(address))
        self.bench = Bench()

    def topic(self, name: str) -> None:
        self.wire.call("CreateTopics", 7, _new_topic(name))
        self.bench.topic(name)
        end = time.monotonic() + PATIENCE_S
        while self.has_no_leader(name):
            assert time.monotonic() < end
            time.sleep(0.05)

    def has_no_leader(self, name: str) -> bool:
        """Whether the real broker does not lead the topic's partition yet."""
        partition = {"partitionIndex": 0, "timestamp": -1}
        topic = {"name": name, "partitions": [partition]}
        response = self.real("ListOffsets", 7, {"replicaId": -1, "topics": [topic]})
        return bool(response["topics"][0]["partitions"][0]["errorCode"])

    def real(self, api: str, version: int, body: dict[str, Any]) -> dict[str, Any]:
        return dict(self.wire.call(api, version, body))

    def produce(
        self, producer_id: int, sequence: int, count: int, timestamp: int, name: str | None = None
    ) -> None:
        """Appends a batch on both sides, of a transaction where it has a name.

        Fails where either side refuses it.
        """
        records = numbered(
            count, pid=producer_id, epoch=0, seq=sequence, txn=name is not None, time=timestamp
        )
        partition: dict[str, Any] = {"index": 0, "records": records}
        body: dict[str, Any] = {"transactionalId": name, "acks": -1, "timeoutMs": 10_000}
        topic = {"name": "orders", "partitionData": [partition]}
        response = self.real("Produce", 9, {**body, "topicData": [topic]})
        kind = {"maxTimestamp": timestamp, "isTransactional": name is not None}
        batch = header(count, producer_id, 0, sequence, size=len(records), **kind)
        ours = self.bench.request("PRODUCE", 9, produce_body("orders", batch, **body))
        for given in (response, ours):
            assert given["responses"][0]["partitionResponses"][0]["errorCode"] == 0

    def take(self, name: str) -> int:
        """The producer id of a transactional id, the same on both sides."""
        body = {"transactionalId": name, "transactionTimeoutMs": 60_000}
        body |= {"producerId": -1, "producerEpoch": -1}
        self.bench.request("FIND_COORDINATOR", 4, keyType=1, coordinatorKeys=[name])
        end = time.monotonic() + PATIENCE_S
        theirs: dict[str, Any] = {"errorCode": 14}
        while theirs["errorCode"] and time.monotonic() < end:
            self.real("FindCoordinator", 4, {"keyType": 1, "coordinatorKeys": [name]})
            theirs = self.real("InitProducerId", 4, body)
            time.sleep(0.05)
        ours = self.bench.request("INIT_PRODUCER_ID", 4, body)
        if ours["errorCode"]:
            ours = self.bench.request("INIT_PRODUCER_ID", 4, body)
        assert (theirs["errorCode"], theirs["producerId"]) == (0, ours["producerId"])
        return int(ours["producerId"])

    def add(self, name: str, producer_id: int) -> None:
        """Adds the partition to a transaction on both sides."""
        body = {
            "v3AndBelowTransactionalId": name,
            "v3AndBelowProducerId": producer_id,
            "v3AndBelowProducerEpoch": 0,
            "v3AndBelowTopics": [{"name": "orders", "partitions": [0]}],
        }
        end = time.monotonic() + PATIENCE_S
        while _added(self.real("AddPartitionsToTxn", 3, body)) == CONCURRENT:
            assert time.monotonic() < end
            time.sleep(0.02)
        assert _added(self.bench.request("ADD_PARTITIONS_TO_TXN", 3, body)) == 0

    def end(self, name: str, producer_id: int, is_commit: bool) -> None:
        """Ends a transaction on both sides, ours at the time of the real marker."""
        body = {"transactionalId": name, "producerId": producer_id, "producerEpoch": 0}
        body["committed"] = is_commit
        assert self.real("EndTxn", 3, body)["errorCode"] == 0
        patience = time.monotonic() + PATIENCE_S
        while (theirs := self.known_of(producer_id))["currentTxnStartOffset"] >= 0:
            assert time.monotonic() < patience
            time.sleep(0.02)
        self.bench.now = theirs["lastTimestamp"]
        assert self.bench.request("END_TXN", 3, body)["errorCode"] == 0

    def known_of(self, producer_id: int) -> dict[str, Any]:
        """Return the real broker's description of a producer."""
        return next(each for each in self.known()[0] if each["producerId"] == producer_id)

    def known(self) -> list[list[dict[str, Any]]]:
        """What DescribeProducers lists, the real broker's first."""
        body = {"topics": [{"name": "orders", "partitionIndexes": [0]}]}
        responses = [
            self.real("DescribeProducers", 0, body),
            self.bench.request("DESCRIBE_PRODUCERS", 0, body),
        ]
        listed = [
            response["topics"][0]["partitions"][0]["activeProducers"] for response in responses
        ]
        return [sorted(each, key=lambda producer: producer["producerId"]) for each in listed]


def _added(response: dict[str, Any]) -> int:
    (topic,) = response["resultsByTopicV3AndBelow"]
    return int(topic["resultsByPartition"][0]["partitionErrorCode"])


def _new_topic(name: str) -> dict[str, Any]:
    topic = {
        "name": name,
        "numPartitions": 1,
        "replicationFactor": 1,
        "assignments": [],
        "configs": [],
    }
    return {"topics": [topic], "timeoutMs": 10_000, "validateOnly": False}


@contextmanager
def both_sides(
    directory: Path, name: str, settings: dict[str, str] | None = None
) -> Iterator[Both]:
    """A separate broker and a bench; the bench has the time of the recording."""
    broker = EmbeddedKafka(directory / "broker", default_home())
    with tape(f"apis/{name}", settings) as recording, started(broker, settings) as address:
        both = Both(recording, broker, address)
        both.bench.now = recording.drawn("now", lambda: int(time.time() * 1000))
        yield both
        both.wire.close()


@pytest.mark.compares
def test_snapshot_of_a_stopped_broker_has_the_same_bytes(tmp_path: Path) -> None:
    with both_sides(tmp_path, "producer_snapshot") as both:
        both.topic("orders")
        timestamp = both.bench.now
        for number, (producer_id, sequence, count) in enumerate(PRODUCED):
            both.produce(producer_id, sequence, count, timestamp + number)
        theirs, ours = both.known()
        assert theirs == ours
        offset = sum(count for _, _, count in PRODUCED)
        assert_the_same_snapshot(both, offset)


def assert_the_same_snapshot(both: Both, offset: int) -> None:
    """Stop the real broker and compare its file with ours."""

    def written() -> tuple[str, bytes]:
        both.wire.close()
        assert both.broker.stop()
        (file,) = both.broker.home.glob("data/**/orders-0/*.snapshot")
        return file.name, file.read_bytes()

    topic_id = both.bench.request("METADATA", 12, name="orders")["topics"][0]
    partition = producers.of_partition(both.bench.cell.tables.of(1), topic_id["topicId"], 0)
    ours = producer_snapshots.file_name(offset), producer_snapshots.encode(partition)
    assert ours == both.tape.response("snapshot", written)


@pytest.mark.compares
def test_snapshot_has_the_coordinator_and_the_open_transaction(tmp_path: Path) -> None:
    with both_sides(tmp_path, "transactional_snapshot") as both:
        both.topic("orders")
        timestamp = both.bench.now
        ended, opened = both.take("ended"), both.take("open")
        both.add("ended", ended)
        both.produce(ended, 0, 2, timestamp, "ended")
        both.add("open", opened)
        both.produce(opened, 0, 1, timestamp, "open")
        assert both.known()[0] == both.known()[1]
        both.end("ended", ended, is_commit=False)
        theirs, ours = both.known()
        assert theirs == ours
        first = {each["producerId"]: each["currentTxnStartOffset"] for each in ours}
        assert first == {ended: -1, opened: 2}
        assert_the_same_snapshot(both, 4)


@pytest.mark.compares
def test_producers_of_old_timestamps_are_known_until_a_check(tmp_path: Path) -> None:
    expiration, interval = 600_000, 3000
    settings = {
        "producer.id.expiration.ms": str(expiration),
        "producer.id.expiration.check.interval.ms": str(interval),
    }
    with both_sides(tmp_path, "producer_expiration", settings) as both:
        timestamp = both.bench.now
        both.bench = Bench(
            producer_id_expiration_ms=expiration, producer_id_expiration_check_interval_ms=interval
        )
        both.topic("orders")
        both.bench.now = timestamp // interval * interval
        both.produce(8, 0, 1, timestamp)

        def are_known() -> bool:
            both.produce(7, 0, 1, timestamp - 2 * expiration)
            return [[p["producerId"] for p in each] for each in both.known()] == [[7, 8], [7, 8]]

        wait_until(are_known, "no check comes in between")
        both.produce(7, 0, 1, timestamp - 2 * expiration)
        if IS_LIVE:
            time.sleep(2 * interval / 1000)  # a check comes
        both.bench.tick(interval)
        theirs, ours = both.known()
        assert theirs == ours
        assert [producer["producerId"] for producer in ours] == [8]


@pytest.mark.compares
def test_transactional_ids_get_the_same_ids_and_epochs(tmp_path: Path) -> None:
    with both_sides(tmp_path, "producer_ids") as both:
        compare_ids(both)


def compare_ids(both: Both) -> None:
    body = {"transactionalId": "t", "transactionTimeoutMs": 60_000}
    nobody = {**body, "producerId": -1, "producerEpoch": -1}
    before = [
        both.real("InitProducerId", 4, nobody),
        both.bench.request("INIT_PRODUCER_ID", 4, nobody),
    ]
    assert before[0] == before[1], "no __transaction_state yet"
    first = _first_ids(both, nobody)
    for fields in (
        *({"producerId": pid, "producerEpoch": epoch} for pid, epoch in (*HELD, OTHERS_ID)),
        {"producerId": 5},
        {"transactionTimeoutMs": 0},
        {"transactionTimeoutMs": 900_001},
        {"transactionalId": ""},
    ):
        for version in (3, 4):
            requests = [{**nobody, **fields} for _ in first]
            for each, base in zip(requests, first, strict=True):
                each["producerId"] += base if each["producerEpoch"] >= 0 else 0
            responses = [
                both.real("InitProducerId", version, requests[0]),
                both.bench.request("INIT_PRODUCER_ID", version, requests[1]),
            ]
            for response, base in zip(responses, first, strict=True):
                response["producerId"] -= base if response["producerId"] >= 0 else 0
            assert responses[0] == responses[1], (version, msgspec.json.encode(fields))


def _first_ids(both: Both, nobody: dict[str, Any]) -> list[int]:
    """The producer ids that the transactional id gets, when coordinators and blocks are there."""
    fields = {"keyType": 1, "coordinatorKeys": ["t"]}
    first = []
    for send in (both.real, both.bench.request):
        names = ("FindCoordinator", "InitProducerId")
        if send == both.bench.request:
            names = ("FIND_COORDINATOR", "INIT_PRODUCER_ID")
        response = {"errorCode": -1}
        deadline = time.monotonic() + PATIENCE_S
        while response["errorCode"] and time.monotonic() < deadline:
            send(names[0], 4, fields)
            response = send(names[1], 4, nobody)
        first.append(response["producerId"])
    return first
