"""Rows of internal topics that a client reads, compared with Kafka's.

The same requests go to a gateway of three brokers, to one of a single broker and to a real broker;
then the topics are read and each record is compared: offset, key, value. Times, member ids and
topic ids differ.
"""

import base64
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import kafka
import pytest
from kafka.record.memory_records import MemoryRecords

from brokertwin.gateway.records import internal_batches
from brokertwin.protocol.batch_headers import Batch
from brokertwin.protocol.bodies import ZERO_UUID
from brokertwin.state.core.records import (
    OffsetCommitted,
    OffsetDeleted,
    Record,
    TransactionalOffset,
    TransactionalOffsetsWritten,
)
from brokertwin.state.replication import internal_logs
from brokertwin.state.replication.internal_logs import CleanedRecords
from tests.support.gateways import Client, Running, running_gateway
from tests.support.goldens import golden, real_broker
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.stopping_brokers import bootstrap_of

OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
SHARES = "__share_group_state"
ONE = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.snapshot.update.records.per.snapshot": "2",
}
RETRIABLE = {3, 5, 6, 14, 15, 16, 51}
Row = tuple[int, bytes | None, bytes | None]


class TopicContents(NamedTuple):
    """Contents of the topics, their coordinators, and the APIs that were called in order."""

    rows: dict[str, list[Row]]
    ends: dict[str, int]
    requested: list[str]


class Side:
    """A cluster whose broker `coordinates` everything."""

    def __init__(self, clients: dict[int, Client]) -> None:
        self._clients = clients
        self._broker = next(iter(clients))
        self._masks: dict[bytes, bytes] = {}
        self._requested: list[str] = []

    def call(
        self, api: str, version: int, body: dict[str, Any] | None = None, **fields: Any
    ) -> dict[str, Any]:
        """Return the response, retrying passing errors."""
        if self._requested[-1:] != [f"{api} {version}"]:  # not a poll
            self._requested.append(f"{api} {version}")
        found: list[dict[str, Any]] = []

        def is_completed() -> bool:
            found.append(self._clients[self._broker].call(api, version, body, **fields))
            return not RETRIABLE.intersection(codes(found[-1]))

        wait_until(is_completed, f"{api} is answered")
        assert set(codes(found[-1])) <= {0, 79}, found[-1]
        return found[-1]

    def coordinator(self, key: str, key_type: int) -> None:
        body = {"keyType": key_type, "coordinatorKeys": [key]}
        self._broker = self.call("FIND_COORDINATOR", 6, body)["coordinators"][0]["nodeId"]

    def play(self) -> TopicContents:
        """Play offsets, a group member, transactions that commit and abort, a deletion."""
        began = int(time.time() * 1000)
        for name, count in (("orders", 2), ("payments", 5)):
            topic = {"name": name, "numPartitions": count, "replicationFactor": 1}
            created = self.call("CREATE_TOPICS", 7, {"topics": [topic], "timeoutMs": 10_000})
            self._mask(uuid_bytes(created["topics"][0]["topicId"]))
        self.coordinator("g", 0)
        for offset in range(3):
            self.call("OFFSET_COMMIT", 8, offsets(offset, "said"), groupId="g")
        self._join("joined")
        self.coordinator("t", 1)
        body = {"transactionalId": "t", "transactionTimeoutMs": 60_000}
        producer = self.call("INIT_PRODUCER_ID", 4, body)
        of_producer = {name: producer[name] for name in ("producerId", "producerEpoch")}
        self._mask(struct.pack(">q", producer["producerId"]))
        for commits in (True, False):
            self._transaction({"transactionalId": "t", **of_producer}, commits)
        self.coordinator("g", 0)
        body = {"groupId": "g", "topics": [{"name": "orders", "partitions": PARTITION}]}
        self.call("OFFSET_DELETE", 0, body)
        key = self._share_state(created["topics"][0]["topicId"])
        places = {OFFSETS: ("g", 0), TRANSACTIONS: ("t", 1), SHARES: (key, 2)}
        return self._contents(began, places)

    def _share_state(self, topic_id: str) -> str:
        """Initialize, write and delete a share state twice; return its key."""
        key = f"s:{topic_id}:0"
        self.coordinator(key, 2)

        def send(api: str, version: int, **fields: Any) -> None:
            partitions = [{"partition": 0, **fields}]
            topics = [{"topicId": topic_id, "partitions": partitions}]
            self.call(f"{api}_SHARE_GROUP_STATE", version, {"groupId": "s", "topics": topics})

        def write(epoch: int, start: int, done: int, *batches: Any, of: int = 1) -> None:
            names = ("firstOffset", "lastOffset", "deliveryState", "deliveryCount")
            states = [dict(zip(names, each, strict=True)) for each in batches]
            fields = {"stateEpoch": of, "leaderEpoch": epoch, "startOffset": start}
            send("WRITE", 1, **fields, deliveryCompleteCount=done, stateBatches=states)

        send("INITIALIZE", 0, stateEpoch=1, startOffset=-1)
        write(0, 0, 3, (0, 4, 0, 1), (3, 6, 2, 1))
        send("READ", 0, leaderEpoch=0)
        send("READ", 0, leaderEpoch=4)
        write(4, -1, 1, (5, 9, 4, 2))
        write(4, 2, 0, (10, 11, 0, 1))
        send("INITIALIZE", 0, stateEpoch=2, startOffset=7)
        for offset in (7, 8):
            write(4, -1, 0, (offset, offset, 0, 1), of=2)
        send("DELETE", 0)
        return key

    def _join(self, group: str) -> None:
        protocol = {"name": "range", "metadata": b"sub"}
        body = {"groupId": group, "sessionTimeoutMs": 30_000, "rebalanceTimeoutMs": 30_000}
        body |= {"protocolType": "consumer", "protocols": [protocol], "memberId": ""}
        member_id = self.call("JOIN_GROUP", 5, body)["memberId"]
        joined = self.call("JOIN_GROUP", 5, body | {"memberId": member_id})
        self._mask(member_id.encode())
        member = {"groupId": group, "memberId": member_id, "generationId": joined["generationId"]}
        assigned = [{"memberId": member_id, "assignment": b"all"}]
        self.call("SYNC_GROUP", 4, member | {"assignments": assigned})
        self.call("LEAVE_GROUP", 4, groupId=group, memberId=member_id)

    def _transaction(self, producer: dict[str, Any], commits: bool) -> None:
        self.coordinator("t", 1)
        plain = {k: v for k, v in producer.items() if k != "transactionalId"}
        named = {"v3AndBelowTransactionalId": producer["transactionalId"]}
        named |= {f"v3AndBelow{k[0].upper()}{k[1:]}": v for k, v in plain.items()}
        named["v3AndBelowTopics"] = [
            {"name": name, "partitions": numbers}
            for name, numbers in (("payments", [4, 0, 3, 1]), ("orders", [1, 0]))
        ]
        self.call("ADD_PARTITIONS_TO_TXN", 3, named)
        self.call("ADD_OFFSETS_TO_TXN", 3, producer, groupId="g")
        self.coordinator("g", 0)
        self.call("TXN_OFFSET_COMMIT", 3, producer, **offsets(7, "of t", 2), groupId="g")
        self.coordinator("t", 1)
        self.call("END_TXN", 3, producer, committed=commits)
        body = {"transactionalIds": ["t"]}

        def is_complete() -> bool:
            (state,) = self.call("DESCRIBE_TRANSACTIONS", 0, body)["transactionStates"]
            return str(state["transactionState"]).startswith("Complete")

        wait_until(is_complete, "the transaction is complete")

    def _mask(self, octets: bytes) -> None:
        self._masks[octets] = b"*" * len(octets)

    def _contents(self, began: int, places: dict[str, tuple[str, int]]) -> TopicContents:
        """Return contents of topics that the coordinators of these keys lead."""
        rows: dict[str, list[Row]] = {}
        ends = {}
        for topic, (key, key_type) in places.items():
            self.coordinator(key, key_type)
            client = self._clients[self._broker]
            end = ends[topic] = client.list_offset(topic, -1)["offset"]
            records, position = bytearray(), 0
            while position < end:
                found = client.fetch(topic, position)
                assert found["errorCode"] == 0
                records += found["records"]
                position = [b.next_offset for b in batches(found["records"])][-1]
            rows[topic] = [
                (each.offset, self._plain(each.key, began), self._plain(each.value, began))
                for batch in batches(bytes(records))
                if not batch.is_control_batch
                for each in batch
            ]
        return TopicContents(rows, ends, self._requested)

    def _plain(self, octets: bytes | None, began: int) -> bytes | None:
        if octets is None:
            return None
        for own, mask in self._masks.items():
            octets = octets.replace(own, mask)
        found = bytearray(octets)
        for at in range(len(found) - 7):
            if began <= struct.unpack_from(">q", found, at)[0] <= time.time() * 1000:
                found[at : at + 8] = b"\0" * 8
        return bytes(found)


PARTITION = [{"partitionIndex": 0}]


def offsets(offset: int, metadata: str, partitions: int = 1) -> dict[str, Any]:
    places = [
        {
            "partitionIndex": n,
            "committedOffset": offset,
            "committedLeaderEpoch": -1,
            "committedMetadata": metadata,
        }
        for n in range(partitions)
    ]
    return {"topics": [{"name": "orders", "partitions": places}]}


def codes(response: Any) -> Iterator[int]:
    """Return every error code in a response."""
    if isinstance(response, dict):
        for name, each in response.items():
            if name.endswith("rrorCode"):
                yield each
            else:
                yield from codes(each)
    elif isinstance(response, list):
        for each in response:
            yield from codes(each)


def batches(data: bytes) -> list[Any]:
    found, every = MemoryRecords(data), []
    while found.has_next():
        every.append(found.next_batch())
        assert every[-1].validate_crc()
    return every


def uuid_bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "==")


@pytest.fixture(scope="module", params=[3, 1], ids=["three brokers", "one broker"])
def gateway(request: pytest.FixtureRequest) -> Iterator[Running]:
    with running_gateway(ONE | {"brokertwin.internal.logs": "true"}, request.param) as running:
        yield running


@pytest.fixture(scope="module")
def ours(gateway: Running) -> TopicContents:
    clients = {broker: gateway.client(broker, PATIENCE_S) for broker in gateway.addresses}
    try:
        return Side(clients).play()
    finally:
        for client in clients.values():
            client.close()


def recorded_by_kafka(home: Path) -> TopicContents:
    with real_broker(home, ONE) as address, Client(address, PATIENCE_S) as client:
        return Side({1: client}).play()


@pytest.mark.compares
def test_internal_topics_have_the_rows_of_a_real_broker(
    ours: TopicContents, tmp_path: Path
) -> None:
    found = golden(
        "logs/internal_topics",
        lambda: recorded_by_kafka(tmp_path / "kafka"),
        scenario=ours.requested,
        settings=ONE,
    )
    real = TopicContents(*found)
    for topic in (TRANSACTIONS, SHARES, OFFSETS):
        assert ours.rows[topic] == real.rows[topic], topic
    assert ours.ends == real.ends


def test_consumer_reads_internal_topics_to_the_end(gateway: Running, ours: TopicContents) -> None:
    consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap_of(gateway))
    place = kafka.TopicPartition(OFFSETS, 0)
    consumer.assign([place])
    consumer.seek_to_beginning(place)
    read = []

    def is_at_the_end() -> bool:
        read.extend(each.offset for each in consumer.poll(timeout_ms=100).get(place, ()))
        return bool(consumer.position(place) == ours.ends[OFFSETS])

    wait_until(is_at_the_end, "the consumer is at the end")
    assert read == [offset for offset, _, _ in ours.rows[OFFSETS]]
    consumer.close()


def batch_of(records: list[Record], last_offset_delta: int, left: list[int] | None = None) -> Any:
    """Return the batch that a client reads of a partly cleaned coordinator batch at offset 7."""
    written = internal_logs.encode(records if left is None else CleanedRecords(records, left))
    header = Batch(
        base_offset=7,
        last_offset_delta=last_offset_delta,
        partition_leader_epoch=4,
        base_timestamp=1000,
        max_timestamp=1000,
        written=written,
    )
    (batch,) = batches(internal_batches.to_bytes(header))
    return batch


def test_rows_of_a_cleaned_batch_keep_their_offsets() -> None:
    gone = OffsetDeleted("g", "orders", 1)
    kept = OffsetCommitted("g", "orders", 0, 42, -1, "", 1000)
    batch = batch_of([kept, gone], 4, left=[1, 3])
    first, second = batch
    assert (batch.base_offset, batch.next_offset) == (7, 12)
    assert [(each.offset, each.timestamp) for each in (first, second)] == [(8, 1000), (10, 1000)]
    assert (first.key[:9], second.value) == (b"\0\1\0\1g\0\6or", None)


def test_cleaned_batch_of_a_former_version_has_its_last_offsets() -> None:
    records: list[Record] = [OffsetDeleted("g", "orders", at) for at in range(2)]
    assert [each.offset for each in batch_of(records, 2)] == [8, 9]


def test_name_that_fits_no_row_takes_its_offset_without_a_row() -> None:
    known = OffsetDeleted("g", "orders", 1)
    batch = batch_of([OffsetDeleted("g" * 40_000, "orders", 1), known], 1)
    assert [each.offset for each in batch] == [8]
    assert batch.next_offset == 9


def test_batch_of_a_former_version_has_no_rows_below_its_base() -> None:
    offsets = [TransactionalOffset("orders", ZERO_UUID, at, at, -1, "") for at in range(3)]
    batch = batch_of([TransactionalOffsetsWritten("g", 1, 1000, offsets)], 0)
    assert [each.offset for each in batch] == [7]
