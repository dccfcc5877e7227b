"""Transactional Produce: verification and errors."""

from typing import Any

import pytest

from brokertwin.protocol.errors import Error
from brokertwin.state.transactions import transaction_verification as verifications
from tests.support.machine import Bench, header

NAME = "tx"
V1, V2 = 11, 12
Holder = tuple[int, int]


def new_bench(**settings: Any) -> Bench:
    bench = Bench(**settings)
    bench.topic("a", 3)
    bench.request("FIND_COORDINATOR", 4, keyType=1, coordinatorKeys=[NAME])
    bench.request("INIT_PRODUCER_ID", 4, transactionalId=None, transactionTimeoutMs=1)
    return bench


def take(bench: Bench) -> Holder:
    body = {"transactionalId": NAME, "transactionTimeoutMs": 60_000}
    response = bench.request("INIT_PRODUCER_ID", 4, body)
    assert response["errorCode"] == 0, response
    return response["producerId"], response["producerEpoch"]


def add(bench: Bench, holder: Holder, *partitions: int) -> None:
    body = {
        "v3AndBelowTransactionalId": NAME,
        "v3AndBelowProducerId": holder[0],
        "v3AndBelowProducerEpoch": holder[1],
        "v3AndBelowTopics": [{"name": "a", "partitions": list(partitions)}],
    }
    response = bench.request("ADD_PARTITIONS_TO_TXN", 3, body)
    (topic,) = response["resultsByTopicV3AndBelow"]
    assert {p["partitionErrorCode"] for p in topic["resultsByPartition"]} == {0}


def end(bench: Bench, holder: Holder, is_commit: bool = True, version: int = 3) -> Holder:
    """Return the producer's id and epoch after an EndTxn."""
    body = {
        "transactionalId": NAME,
        "producerId": holder[0],
        "producerEpoch": holder[1],
        "committed": is_commit,
    }
    response = bench.request("END_TXN", version, body)
    assert response["errorCode"] == 0, response
    return (response["producerId"], response["producerEpoch"]) if version >= 5 else holder


def batch(holder: Holder, sequence: int) -> dict[str, Any]:
    return header(1, *holder, sequence, isTransactional=True)


def body_of(*batches: dict[str, Any], acks: int = -1) -> dict[str, Any]:
    partitions = [{"index": index, "batches": [each]} for index, each in enumerate(batches)]
    topic = {"name": "a", "partitionData": partitions}
    return {"transactionalId": NAME, "acks": acks, "topicData": [topic]}


def produce(bench: Bench, version: int, *batches: dict[str, Any]) -> list[tuple[int, int]]:
    response = bench.request("PRODUCE", version, body_of(*batches))
    parts = response["responses"][0]["partitionResponses"]
    return [(part["errorCode"], part["baseOffset"]) for part in parts]


@pytest.mark.parametrize(
    ("version", "error"), [(10, Error.INVALID_TXN_STATE), (11, Error.TRANSACTION_ABORTABLE)]
)
def test_partition_that_was_not_added_is_rejected_in_v1(version: int, error: Error) -> None:
    bench = new_bench()
    holder = take(bench)
    assert produce(bench, version, batch(holder, 0)) == [(error, -1)]
    add(bench, holder, 0)
    responses = produce(bench, version, batch(holder, 0), batch(holder, 0))
    assert responses == [(0, 0), (error, -1)]
    assert bench.records()[-1]["record"]["type"] == "BatchAppended"


def text(bench: Bench, version: int, *batches: dict[str, Any]) -> str | None:
    response = bench.request("PRODUCE", version, body_of(*batches))
    error_message: str | None = response["responses"][0]["partitionResponses"][0]["errorMessage"]
    return error_message


def test_error_messages_of_failed_verifications() -> None:
    # compared with Apache Kafka 4.3.1
    bench = new_bench()
    holder = take(bench)
    assert text(bench, 10, batch(holder, 0)) == "Partition was not added to the transaction"
    assert text(bench, 11, batch(holder, 0)) is None
    assert text(bench, V1, batch((77, 0), 0)) is None
    without_coordinator = Bench()
    without_coordinator.topic("a")
    assert text(without_coordinator, V1, batch((7, 0), 0)) == (
        "Unable to verify the partition has been added to the transaction."
        " Underlying error: COORDINATOR_NOT_AVAILABLE"
    )


def test_leader_adds_the_partition_in_v2() -> None:
    bench = new_bench()
    holder = take(bench)
    assert produce(bench, V2, batch(holder, 0), batch(holder, 0)) == [(0, 0), (0, 0)]
    types = [entry["record"]["type"] for entry in bench.records()][-3:]
    assert types == ["TransactionMetadataWritten", "BatchAppended", "BatchAppended"]


def test_only_the_first_batch_is_verified() -> None:
    bench = new_bench()
    holder = take(bench)
    produce(bench, V2, batch(holder, 0))
    before = len(bench.records())
    assert produce(bench, V2, batch(holder, 1)) == [(0, 1)]
    assert len(bench.records()) == before + 1


def test_fenced_producer_gets_invalid_producer_epoch() -> None:
    bench = new_bench()
    old = take(bench)
    new = take(bench)
    assert produce(bench, V1, batch(old, 0)) == [(Error.INVALID_PRODUCER_EPOCH, -1)]
    assert produce(bench, V2, batch(old, 0)) == [(Error.INVALID_PRODUCER_EPOCH, -1)]
    assert produce(bench, V2, batch(new, 0)) == [(0, 0)]


def test_old_batch_is_fenced_in_v2_and_not_verified_in_v1() -> None:
    bench = new_bench()
    holder = take(bench)
    produce(bench, V2, batch(holder, 0))
    bumped = end(bench, holder, version=5)
    assert bumped == (holder[0], holder[1] + 1)
    assert produce(bench, V2, batch(holder, 1)) == [(Error.INVALID_PRODUCER_EPOCH, -1)]
    add(bench, bumped, 0)
    assert produce(bench, V1, batch(bumped, 0)) == [(0, 2)]
    end(bench, bumped)
    assert produce(bench, V1, batch(bumped, 1)) == [(Error.TRANSACTION_ABORTABLE, -1)]


def test_unknown_transactional_id_is_reported_by_the_coordinator() -> None:
    bench = new_bench()
    assert produce(bench, V1, batch((7, 0), 0)) == [(Error.INVALID_PRODUCER_ID_MAPPING, -1)]


@pytest.mark.parametrize("version", [V1, V2])
def test_producer_retries_without_a_coordinator(version: int) -> None:
    bench = Bench()
    bench.topic("a")
    assert produce(bench, version, batch((7, 0), 0)) == [(Error.NOT_ENOUGH_REPLICAS, -1)]


def test_request_must_have_one_producer() -> None:
    bench = new_bench()
    holder = take(bench)
    responses = produce(bench, V2, batch(holder, 0), batch((holder[0] + 1, 0), 0))
    assert responses == [(Error.INVALID_PRODUCER_ID_MAPPING, -1)] * 2


def test_transactional_batch_without_a_producer_is_in_no_transaction() -> None:
    """As in Kafka, it is appended without verification."""
    bench = new_bench()
    holder = take(bench)
    assert produce(bench, V1, batch((-1, -1), -1)) == [(0, 0)]
    assert produce(bench, V2, batch(holder, 0), batch((-1, -1), -1)) == [(0, 1), (0, 0)]
    end(bench, holder)
    assert kept(bench) == []


def test_invalid_batch_is_rejected_without_verification() -> None:
    bench = new_bench()
    holder = take(bench)
    wrong = {**batch(holder, 0), "magic": 1}
    before = len(bench.records())
    assert produce(bench, V2, wrong) == [(Error.INVALID_RECORD, -1)]
    assert len(bench.records()) == before


def test_kafka_14920_lowest_verified_sequence_is_expected() -> None:
    """After a failed verification, batches arrived out of order."""
    bench = new_bench()
    holder = take(bench)
    assert produce(bench, V1, batch(holder, 4)) == [(Error.TRANSACTION_ABORTABLE, -1)]
    add(bench, holder, 0)
    out_of_order = Error.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert produce(bench, V1, batch(holder, 5)) == [(out_of_order, -1)]
    assert produce(bench, V1, batch(holder, 4)) == [(0, 0)]


def test_transaction_v2_of_a_new_producer_starts_at_sequence_0() -> None:
    bench = new_bench()
    holder = take(bench)
    assert produce(bench, V2, batch(holder, 4)) == [(Error.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)]


def test_verification_is_dropped_by_the_first_batch_and_after_a_day() -> None:
    bench = new_bench()
    holder = take(bench)
    produce(bench, V1, batch(holder, 4), batch(holder, 4))
    assert kept(bench) == [0, 1]
    add(bench, holder, 0, 1)
    produce(bench, V1, batch(holder, 4))
    assert kept(bench) == [1]
    end(bench, holder, is_commit=False)
    assert kept(bench) == []
    produce(bench, V1, batch(holder, 4))
    bench.now += bench.settings.broker_settings.producer_id_expiration_ms
    assert produce(bench, V1, batch(holder, 5)) == [(Error.TRANSACTION_ABORTABLE, -1)]
    add(bench, holder, 0)
    assert produce(bench, V1, batch(holder, 5)) == [(0, 2)], "4 is dropped"


def test_deleting_a_topic_drops_its_verifications() -> None:
    bench = new_bench()
    produce(bench, V1, batch(take(bench), 0))
    assert kept(bench) == [0]
    bench.request("DELETE_TOPICS", 6, name="a")
    assert kept(bench) == []


def kept(bench: Bench) -> list[int]:
    keys = bench.cell.tables.in_flight.keys("1/verifications/")
    return [int(key.rsplit("/", 1)[1]) for key in keys]


def test_failed_verification_with_acks_0_closes_the_connection() -> None:
    bench = new_bench()
    holder = take(bench)
    failed = bench.send("PRODUCE", V1, body_of(batch(holder, 0), acks=0))
    assert bench.responses[failed]["closesConnection"]
    add(bench, holder, 0)
    bench.send("PRODUCE", V1, body_of(batch(holder, 0), acks=0))
    assert bench.records()[-1]["record"]["type"] == "BatchAppended"


def test_produce_needs_transactional_id_permission() -> None:
    bench = new_bench(
        authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        super_users="User:ANONYMOUS",
    )
    holder = take(bench)
    response = bench.request("PRODUCE", V2, body_of(batch(holder, 0)), principal="User:a")
    (part,) = response["responses"][0]["partitionResponses"]
    assert part["errorCode"] == Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_coordinator_errors_are_mapped() -> None:
    retried = Error.NOT_ENOUGH_REPLICAS
    for version in (10, 11, 12):
        assert verifications.produce_error(Error.NOT_COORDINATOR, version) is retried
        assert verifications.produce_error(Error.NETWORK_EXCEPTION, version) is retried
    assert verifications.produce_error(Error.CONCURRENT_TRANSACTIONS, V1) is retried
    concurrent = Error.CONCURRENT_TRANSACTIONS
    assert verifications.produce_error(concurrent, V2) is concurrent


def end_late(bench: Bench, holder: Holder, version: int) -> str:
    """Return an EndTxn whose markers are delivered by `complete`."""
    body = {
        "transactionalId": NAME,
        "producerId": holder[0],
        "producerEpoch": holder[1],
        "committed": True,
    }
    event = bench.send("END_TXN", version, body, isHeld=True)
    assert bench.responses[event]["response"]["errorCode"] == 0
    return event


def complete(bench: Bench, event: str) -> None:
    bench.handle({"id": "c", "cluster": "bench", "kind": "complete", "of": event})


def test_no_new_batch_is_accepted_while_markers_are_pending() -> None:
    bench = new_bench(may_hold=True)
    holder = take(bench)
    add(bench, holder, 0)
    produce(bench, V1, batch(holder, 0))
    event = end_late(bench, holder, 3)
    assert produce(bench, V1, batch(holder, 1)) == [(0, 1)], (
        "the partition is still in the transaction"
    )
    second = {"index": 1, "batches": [batch(holder, 0)]}
    request = {**body_of(), "topicData": [{"name": "a", "partitionData": [second]}]}
    (part,) = bench.request("PRODUCE", V1, request)["responses"][0]["partitionResponses"]
    assert part["errorCode"] == Error.NOT_ENOUGH_REPLICAS
    complete(bench, event)
    assert bench.records()[-1]["record"]["type"] == "TransactionMetadataWritten"
    assert bench.dead_letters() == []


@pytest.mark.parametrize("waits_ms", [0, 60, 100])
def test_leader_retries_while_a_transaction_v2_ends(waits_ms: int) -> None:
    bench = new_bench(may_hold=True)
    holder = take(bench)
    produce(bench, V2, batch(holder, 0))
    ended = end_late(bench, holder, 5)
    waiting = bench.send("PRODUCE", V2, body_of(batch((holder[0], holder[1] + 1), 0)))
    bench.tick(waits_ms)
    complete(bench, ended)
    bench.tick(20)
    (part,) = bench.responses[waiting]["response"]["responses"][0]["partitionResponses"]
    expected = (0, 2) if waits_ms < 100 else (Error.CONCURRENT_TRANSACTIONS, -1)
    assert (part["errorCode"], part["baseOffset"]) == expected


def test_partitions_are_added_in_v2_even_without_verification() -> None:
    bench = new_bench(transaction_partition_verification_enable=False)
    holder = take(bench)
    assert produce(bench, V1, batch(holder, 0)) == [(0, 0)]
    with pytest.raises(AssertionError, match=str(int(Error.INVALID_TXN_STATE))):
        end(bench, holder)
    second = {"index": 1, "batches": [batch(holder, 0)]}
    request = {**body_of(), "topicData": [{"name": "a", "partitionData": [second]}]}
    (part,) = bench.request("PRODUCE", V2, request)["responses"][0]["partitionResponses"]
    assert part["errorCode"] == 0
    end(bench, holder)


@pytest.mark.parametrize(
    ("requests", "verifies", "reported"),
    [
        (
            [("pr-1", [0, 0, 2]), ("pr-0", [0, 0])],
            False,
            [("pr-0", [(0, 55)]), ("pr-1", [(2, 3), (0, 55)])],
        ),
        (
            [("pr-0", [0, 0]), ("aa", [2, 0, 2])],
            True,
            [("aa", [(0, 3), (2, 3)]), ("pr-0", [(0, 55)])],
        ),
        ([("pr-0", [0]), ("no", [0])], False, [("no", [(0, 3)]), ("pr-0", [(0, 55)])]),
        ([("no", [0]), ("pr-0", [2])], True, [("pr-0", [(2, 3)]), ("no", [(0, 3)])]),
        ([("pr-0", [0, 1, 0])], True, [("pr-0", [(1, 49), (0, 49)])]),
        ([("pr-1", [0]), ("pr-0", [])], True, [("pr-1", [(0, 49)])]),
        (
            [("pr-1", [0, 0]), ("pr-0", [0]), ("no", [])],
            False,
            [("pr-1", [(0, 49), (0, 49)]), ("pr-0", [(0, 49)]), ("no", [])],
        ),
    ],
)
def test_different_partition_errors_have_the_order_of_kafkas_maps(
    requests: list[tuple[str, list[int]]], verifies: bool, reported: list[tuple[str, list[Any]]]
) -> None:
    bench = Bench()
    bench.topic("pr-0", 2)
    bench.topic("pr-1", 1)
    bench.request("FIND_COORDINATOR", 4, keyType=1, coordinatorKeys=[NAME])
    topics = [{"name": name, "partitions": partitions} for name, partitions in requests]
    transaction = {"transactionalId": NAME, "producerId": 1, "producerEpoch": 0, "topics": topics}
    body = {"transactions": [{**transaction, "verifyOnly": verifies}]}
    (result,) = bench.request("ADD_PARTITIONS_TO_TXN", 5, body)["resultsByTransaction"]
    assert [
        (
            topic["name"],
            [(p["partitionIndex"], p["partitionErrorCode"]) for p in topic["resultsByPartition"]],
        )
        for topic in result["topicResults"]
    ] == reported
