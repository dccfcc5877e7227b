"""WriteTxnMarkers and its effects on readers, without verification."""

from typing import Any

from brokertwin.protocol.control_batches import SIZE_IN_BYTES
from brokertwin.protocol.errors import Error
from tests.support.machine import Bench, header

PRODUCER_ID = 5
COMMITTED = 1


def new_bench(**settings: Any) -> Bench:
    bench = Bench(transaction_partition_verification_enable=False, **settings)
    bench.topic("a", 2)
    return bench


def produce(
    bench: Bench,
    sequence: int,
    producer_id: int = PRODUCER_ID,
    partition: int = 0,
    epoch: int = 0,
    is_transactional: bool = True,
) -> dict[str, Any]:
    kind = {"maxTimestamp": bench.now, "isTransactional": is_transactional}
    batch = header(2, producer_id, epoch, sequence, **kind)
    return bench.append("a", batch, partition=partition, name="tx")


def marker(
    *partitions: int,
    producer_id: int = PRODUCER_ID,
    epoch: int = 0,
    is_commit: bool = True,
    coordinator_epoch: int = 0,
    topic: str = "a",
) -> dict[str, Any]:
    return {
        "producerId": producer_id,
        "producerEpoch": epoch,
        "transactionResult": is_commit,
        "topics": [{"name": topic, "partitionIndexes": list(partitions)}],
        "coordinatorEpoch": coordinator_epoch,
        "transactionVersion": 0,
    }


def write(bench: Bench, *markers: dict[str, Any]) -> list[list[int]]:
    """Return the errors of the partitions by producer."""
    response = bench.request("WRITE_TXN_MARKERS", 2, markers=list(markers))
    return [
        [p["errorCode"] for topic in result["topics"] for p in topic["partitions"]]
        for result in response["markers"]
    ]


def fetch_body(offset: int, max_wait_ms: int = 0) -> dict[str, Any]:
    partition = {"partition": 0, "fetchOffset": offset, "partitionMaxBytes": 1_000_000}
    return {
        "maxWaitMs": max_wait_ms,
        "minBytes": 1,
        "isolationLevel": COMMITTED,
        "topics": [{"topic": "a", "partitions": [partition]}],
    }


def fetched(response: dict[str, Any]) -> dict[str, Any]:
    partition: dict[str, Any] = response["responses"][0]["partitions"][0]
    return partition


def fetch(bench: Bench, offset: int = 0) -> dict[str, Any]:
    return fetched(bench.request("FETCH", 12, fetch_body(offset)))


def last_stable(bench: Bench, isolation_level: int = COMMITTED) -> int:
    body = {
        "replicaId": -1,
        "isolationLevel": isolation_level,
        "topics": [{"name": "a", "partitions": [{"partitionIndex": 0, "timestamp": -1}]}],
    }
    offset: int = bench.request("LIST_OFFSETS", 7, body)["topics"][0]["partitions"][0]["offset"]
    return offset


def test_marker_is_a_batch_and_advances_the_last_stable_offset() -> None:
    bench = new_bench()
    produce(bench, 0, is_transactional=False, producer_id=-1)
    assert produce(bench, 0)["baseOffset"] == 2
    before = fetch(bench)
    assert (before["highWatermark"], before["lastStableOffset"]) == (4, 2)
    assert [b["baseOffset"] for b in before["batches"]] == [0]
    assert (last_stable(bench), last_stable(bench, 0)) == (2, 4)
    assert write(bench, marker(0)) == [[Error.NONE]]
    after = fetch(bench, 4)
    assert (after["highWatermark"], after["lastStableOffset"]) == (5, 5)
    (end,) = after["batches"]
    assert (end["isControl"], end["isTransactional"], end["sizeInBytes"]) == (
        True,
        True,
        SIZE_IN_BYTES,
    )
    assert (end["baseTimestamp"], end["baseSequence"], end["producerId"]) == (
        bench.now,
        -1,
        PRODUCER_ID,
    )
    assert last_stable(bench) == 5


def test_readers_get_aborted_transactions_in_marker_order() -> None:
    bench = new_bench()
    produce(bench, 0, producer_id=5)
    produce(bench, 0, producer_id=6)
    write(bench, marker(0, producer_id=6, is_commit=False))
    assert fetch(bench)["abortedTransactions"] == []
    write(bench, marker(0, producer_id=5, is_commit=False))
    assert fetch(bench)["abortedTransactions"] == [
        {"producerId": 6, "firstOffset": 2},
        {"producerId": 5, "firstOffset": 0},
    ]
    assert fetch(bench, 6)["abortedTransactions"] == []
    uncommitted = bench.request("FETCH", 12, fetch_body(0), isolationLevel=0)
    assert fetched(uncommitted)["abortedTransactions"] is None


def test_marker_wakes_a_reader_at_the_last_stable_offset() -> None:
    bench = new_bench()
    produce(bench, 0)
    event = bench.send("FETCH", 12, fetch_body(0, max_wait_ms=500))
    produce(bench, 2)
    assert event not in bench.responses, "open transactions are not readable"
    write(bench, marker(0))
    batches = fetched(bench.responses[event]["response"])["batches"]
    assert [b["baseOffset"] for b in batches] == [0, 2, 4]


def test_errors_of_markers() -> None:
    bench = new_bench()
    produce(bench, 0, epoch=3)
    assert write(bench, marker(0, epoch=2)) == [[Error.INVALID_PRODUCER_EPOCH]]
    assert write(bench, marker(0, epoch=3, coordinator_epoch=5)) == [[Error.NONE]]
    fenced = write(bench, marker(0, epoch=3, coordinator_epoch=4))
    assert fenced == [[Error.TRANSACTION_COORDINATOR_FENCED]]
    unknown = Error.UNKNOWN_TOPIC_OR_PARTITION
    assert write(bench, marker(0, 9), marker(0, topic="none")) == [
        [Error.INVALID_PRODUCER_EPOCH, unknown, unknown]
    ]


def test_only_the_leader_writes_markers() -> None:
    bench = new_bench(brokers=(1, 2))
    body = {"markers": [marker(0, 1)]}
    errors = []
    for broker in (1, 2):
        response = bench.request("WRITE_TXN_MARKERS", 2, body, broker=broker)
        partitions = response["markers"][0]["topics"][0]["partitions"]
        errors.append([p["errorCode"] for p in partitions])
    assert sorted(map(sorted, errors)) == [[0, 3], [0, 3]]


def test_markers_of_a_request_see_each_other() -> None:
    bench = new_bench()
    produce(bench, 0, epoch=1)
    first, second = marker(0, epoch=2, is_commit=False), marker(0, epoch=1)
    assert write(bench, first, second) == [[Error.INVALID_PRODUCER_EPOCH]]
    produce(bench, 0, producer_id=6)
    assert write(bench, marker(0, epoch=2), marker(0, producer_id=6)) == [[0], [0]]
    assert [b["baseOffset"] for b in fetch(bench)["batches"]] == [0, 2, 3, 5, 6]


def test_new_epoch_in_a_marker_starts_at_sequence_0() -> None:
    bench = new_bench()
    produce(bench, 0)
    write(bench, marker(0, epoch=1))
    assert produce(bench, 2)["errorCode"] == Error.INVALID_PRODUCER_EPOCH
    assert produce(bench, 2, epoch=1)["errorCode"] == Error.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert produce(bench, 0, epoch=1)["errorCode"] == Error.NONE


def test_non_transactional_batch_is_rejected_in_an_open_transaction() -> None:
    bench = new_bench()
    produce(bench, 0)
    response = produce(bench, 2, is_transactional=False)
    assert (response["errorCode"], response["logStartOffset"]) == (Error.INVALID_TXN_STATE, 0)


def described(bench: Bench) -> dict[str, Any]:
    response = bench.request("DESCRIBE_PRODUCERS", 0, name="a", partitionIndexes=[0])
    active_producer: dict[str, Any] = response["topics"][0]["partitions"][0]["activeProducers"][0]
    return active_producer


def test_describe_producers_shows_the_open_transaction() -> None:
    bench = new_bench()
    produce(bench, 0, is_transactional=False)
    produce(bench, 2)
    producer = described(bench)
    assert (producer["currentTxnStartOffset"], producer["coordinatorEpoch"]) == (2, -1)
    bench.now += 10
    write(bench, marker(0, coordinator_epoch=4))
    producer = described(bench)
    assert (producer["currentTxnStartOffset"], producer["coordinatorEpoch"]) == (-1, 4)
    assert (producer["lastSequence"], producer["lastTimestamp"]) == (3, bench.now)


def test_kafka_9144_marker_keeps_its_producer() -> None:
    """Kafka once dropped it, and so the coordinator's epoch."""
    bench = new_bench(producer_id_expiration_ms=1000, producer_id_expiration_check_interval_ms=100)
    produce(bench, 0)
    bench.tick(900)
    assert write(bench, marker(0, coordinator_epoch=3)) == [[Error.NONE]]
    bench.tick(900)
    assert write(bench, marker(0, coordinator_epoch=2)) == [[52]]
    bench.tick(100)
    assert write(bench, marker(0, coordinator_epoch=2)) == [[Error.NONE]], "dropped"


def test_producer_with_an_open_transaction_does_not_expire() -> None:
    bench = new_bench(producer_id_expiration_ms=1000)
    produce(bench, 0)
    bench.tick(3_600_000)
    assert described(bench)["currentTxnStartOffset"] == 0
    write(bench, marker(0))
    bench.tick(3_600_000)
    response = bench.request("DESCRIBE_PRODUCERS", 0, name="a", partitionIndexes=[0])
    assert response["topics"][0]["partitions"][0]["activeProducers"] == []


def test_deleting_records_keeps_the_open_transaction_and_drops_aborted_ones() -> None:
    bench = new_bench()
    produce(bench, 0)
    write(bench, marker(0, is_commit=False))
    produce(bench, 2)
    bench.request("DELETE_RECORDS", 2, name="a", partitionIndex=0, offset=4, timeoutMs=0)
    start_batch = 3
    assert (last_stable(bench), last_stable(bench, 0)) == (start_batch, 5)
    write(bench, marker(0))
    assert fetch(bench, 4)["abortedTransactions"] == []


def test_marker_has_append_time_if_its_topic_has() -> None:
    bench = new_bench()
    bench.topic("b", message_timestamp_type="LogAppendTime")
    write(bench, marker(0, topic="b"))
    body = fetch_body(0)
    body["topics"][0]["topic"] = "b"
    (end,) = fetched(bench.request("FETCH", 12, body))["batches"]
    assert end["endMarker"] == {"isCommit": True, "coordinatorEpoch": 0, "isAppendTime": True}


def test_only_clients_with_cluster_permission_write_markers() -> None:
    bench = new_bench(
        authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        super_users="User:ANONYMOUS",
    )
    denied = bench.request("WRITE_TXN_MARKERS", 2, markers=[marker(0)], principal="User:a")
    partitions = denied["markers"][0]["topics"][0]["partitions"]
    assert [p["errorCode"] for p in partitions] == [Error.CLUSTER_AUTHORIZATION_FAILED]


def test_new_leader_continues_open_and_aborted_transactions() -> None:
    bench = new_bench(brokers=(1, 2))
    bench.settings.may_intervene = True
    response = bench.request("METADATA", 12, name="a")
    leader: int = response["topics"][0]["partitions"][0]["leaderId"]
    bench.settings.brokers.sort(key=lambda broker: broker != leader)
    produce(bench, 0)
    write(bench, marker(0, is_commit=False))
    produce(bench, 2)
    move = {"topic": "a", "partition": 0, "leader": 3 - leader}
    bench.handle({"id": "m", "cluster": "bench", "kind": "move-leader", "move": move})
    bench.settings.brokers.reverse()
    found = fetch(bench)
    assert found["lastStableOffset"] == 3
    assert found["abortedTransactions"] == [{"producerId": PRODUCER_ID, "firstOffset": 0}]
    assert produce(bench, 4)["baseOffset"] == 5
    assert write(bench, marker(0)) == [[Error.NONE]]
    (end,) = [each for each in fetch(bench, 7)["batches"] if each["isControl"]]
    assert (end["baseOffset"], end["partitionLeaderEpoch"]) == (7, 1)
    assert last_stable(bench) == 8
