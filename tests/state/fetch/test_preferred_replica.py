"""Fetching from the closest replica (KIP-392): the preferred replica, and reads on followers."""

from typing import Any

import pytest

from brokertwin.protocol.errors import Error
from brokertwin.state.replication.preferred_replica import RACK_AWARE
from tests.support.machine import Bench, header, produce_body
from tests.support.replicas import BROKERS, TOPIC, Replicas

RACKS = ("1:east", "2:west", "3:west")
SINCE = 11


def bench(
    selector: str | None = RACK_AWARE, racks: tuple[str, ...] = RACKS, **settings: Any
) -> Bench:
    given = {"replica_selector_class": selector, "brokertwin_broker_racks": racks}
    return Bench(BROKERS, **given, **settings)


def fetch(
    replicas: Replicas,
    rack: str = "",
    offset: int = 0,
    version: int = 12,
    wait_ms: int = 0,
    epoch: int = -1,
    isolation: int = 0,
    session: tuple[int, int] = (0, -1),
    replica: int = -1,
    **event: Any,
) -> Any:
    """Response to a consumer from broker 1 or `broker`; None while it is pending."""
    part = {"partition": 0, "fetchOffset": offset, "partitionMaxBytes": 100_000}
    body: dict[str, Any] = {"replicaId": replica, "rackId": rack}
    body |= {
        "maxWaitMs": wait_ms,
        "minBytes": 1,
        "sessionId": session[0],
        "sessionEpoch": session[1],
        "isolationLevel": isolation,
    }
    partition = part | {"currentLeaderEpoch": epoch}
    body["topics"] = [{"topic": TOPIC, "partitions": [partition]}] if session[1] < 1 else []
    return replicas.bench.request("FETCH", version, body, **{"broker": 1} | event)


def partition_of(response: Any) -> dict[str, Any]:
    partition: dict[str, Any] = response["responses"][0]["partitions"][0]
    return partition


def named(response: Any) -> int:
    part = partition_of(response)
    if part["preferredReadReplica"] >= 0:
        assert (part["errorCode"], part["recordsSizeInBytes"], part["batches"]) == (0, 0, [])
    return int(part["preferredReadReplica"])


@pytest.mark.parametrize(
    ("selector", "rack", "version", "replica"),
    [
        (RACK_AWARE, "west", 12, 3),
        (RACK_AWARE, "west", SINCE, 3),
        (RACK_AWARE, "east", 12, -1),
        (RACK_AWARE, "north", 12, -1),
        (RACK_AWARE, "", 12, -1),
        ("org.apache.kafka.common.replica.LeaderSelector", "west", 12, -1),
        (None, "west", 12, -1),
        ("com.example.Nearest", "west", 12, -1),
    ],
)
def test_preferred_replica(selector: str | None, rack: str, version: int, replica: int) -> None:
    replicas = Replicas(bench=bench(selector))
    replicas.produce(count=3)
    response = fetch(replicas, rack, version=version)
    assert named(response) == replica
    assert (partition_of(response)["recordsSizeInBytes"] > 0) == (replica == -1)
    assert partition_of(response)["highWatermark"] == 3


def test_before_version_11_there_is_no_preferred_replica_and_followers_do_not_serve() -> None:
    replicas = Replicas(bench=bench())
    replicas.produce()
    body: dict[str, Any] = {"maxWaitMs": 0, "sessionEpoch": -1}
    partition = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 1000}
    body["topics"] = [{"topic": TOPIC, "partitions": [partition]}]
    for broker, error in ((1, Error.NONE), (2, Error.NOT_LEADER_OR_FOLLOWER)):
        response = replicas.bench.request("FETCH", SINCE - 1, body, broker=broker)
        assert partition_of(response)["errorCode"] == error
        assert "preferredReadReplica" not in partition_of(response)


def test_unlisted_broker_is_in_the_default_rack() -> None:
    replicas = Replicas(bench=bench(racks=("1:east",), broker_rack="west"))
    replicas.produce()
    assert named(fetch(replicas, "west")) == 3
    response = replicas.bench.request("METADATA", 12, topics=[])
    assert {each["nodeId"]: each["rack"] for each in response["brokers"]} == {
        1: "east",
        2: "west",
        3: "west",
    }


def test_new_partition_has_a_preferred_replica_before_its_first_record() -> None:
    assert named(fetch(Replicas(bench=bench()), "west")) == 3


def test_replica_without_the_fetch_offset_is_not_preferred() -> None:
    replicas = Replicas(bench=bench())
    replicas.produce()
    replicas.isolate(3)
    replicas.produce(acks=1, count=2)
    assert named(fetch(replicas, "west", offset=3)) == 2, "broker 3 ends at 1"
    assert named(fetch(replicas, "west", offset=1)) == 2, "it has the greatest log end"
    replicas.isolate(2)
    replicas.produce(acks=1)
    assert named(fetch(replicas, "west", offset=4)) == -1


def test_replica_out_of_sync_is_not_preferred() -> None:
    replicas = Replicas(bench=bench())
    replicas.produce()
    replicas.leave_only_the_leader()
    assert replicas.isr() == [1]
    assert named(fetch(replicas, "west")) == -1


@pytest.mark.parametrize("replica", [0, 3])
def test_followers_fetch_from_the_leader_in_any_rack(replica: int) -> None:
    brokers = (1, replica)
    given = {"brokertwin_broker_racks": ("1:east", f"{replica}:west")}
    replicas = Replicas(brokers, Bench(brokers, replica_selector_class=RACK_AWARE, **given))
    replicas.produce(count=3)
    assert named(fetch(replicas, "west")) == replica
    assert named(fetch(replicas, "west", replica=replica)) == -1


def test_greater_id_is_preferred_among_equals() -> None:
    replicas = Replicas((1, 3, 2), bench=bench())
    replicas.produce()
    assert named(fetch(replicas, "west")) == 3


def test_leader_epoch_is_checked_before_a_preferred_replica() -> None:
    replicas = Replicas(bench=bench())
    response = fetch(replicas, "west", epoch=7)
    assert partition_of(response)["errorCode"] == Error.UNKNOWN_LEADER_EPOCH


def test_offset_without_a_replica_is_an_error_of_the_leader() -> None:
    replicas = Replicas(bench=bench())
    response = fetch(replicas, "west", offset=9)
    assert partition_of(response)["errorCode"] == Error.OFFSET_OUT_OF_RANGE


def test_follower_serves_up_to_its_own_high_watermark() -> None:
    replicas = Replicas(bench=bench())
    replicas.produce(count=3)
    part = partition_of(fetch(replicas, "west", broker=3))
    assert (part["errorCode"], part["highWatermark"], part["recordsSizeInBytes"]) == (0, 3, 73)
    assert part["preferredReadReplica"] == -1
    replicas.isolate(3)
    replicas.produce(count=2)
    replicas.bench.tick(60_000)
    assert replicas.watermarks() == {1: (5, 5), 2: (5, 5), 3: (3, 3)}
    part = partition_of(fetch(replicas, "west", offset=3, broker=3))
    assert (part["errorCode"], part["highWatermark"], part["recordsSizeInBytes"]) == (0, 3, 0)
    part = partition_of(fetch(replicas, "west", offset=4, broker=3))
    assert part["errorCode"] == Error.OFFSET_OUT_OF_RANGE, "the client then fetches from the leader"


def test_follower_rejects_other_epochs_and_accepts_none() -> None:
    replicas = Replicas(bench=bench())
    replicas.produce()
    for epoch, error in (
        (-1, Error.NONE),
        (0, Error.NONE),
        (1, Error.UNKNOWN_LEADER_EPOCH),
    ):
        assert partition_of(fetch(replicas, epoch=epoch, broker=2))["errorCode"] == error


def test_broker_without_a_replica_serves_no_reader() -> None:
    replicas = Replicas((1, 2), bench=bench())
    replicas.produce()
    part = partition_of(fetch(replicas, broker=3))
    assert part["errorCode"] == Error.NOT_LEADER_OR_FOLLOWER


def test_pending_fetch_at_a_follower_completes_when_its_high_watermark_moves() -> None:
    replicas = Replicas(bench=bench())
    replicas.produce()
    event_id = "waits"
    assert fetch(replicas, offset=1, wait_ms=5000, broker=3, id=event_id) is None
    replicas.produce(count=2)
    part = partition_of(replicas.bench.responses[event_id]["response"])
    assert (part["highWatermark"], part["recordsSizeInBytes"]) == (3, 72)


def test_fetch_without_records_returns_the_preferred_replica_at_once() -> None:
    replicas = Replicas(bench=bench())
    replicas.produce()
    assert named(fetch(replicas, "west", offset=1, wait_ms=5000)) == 3
    assert fetch(replicas, "east", offset=1, wait_ms=5000) is None


def test_pending_fetch_at_the_leader_can_return_a_preferred_replica() -> None:
    replicas = Replicas(bench=bench())
    replicas.leave_only_the_leader()
    assert fetch(replicas, "west", offset=1, wait_ms=5000, id="waits") is None
    replicas.rejoin(2, 3)
    replicas.produce(count=2)
    assert named(replicas.bench.responses["waits"]["response"]) == 3


def test_follower_returns_aborted_transactions() -> None:
    replicas = Replicas(bench=bench(transaction_partition_verification_enable=False))
    open_one = header(2, 7, 0, 0, size=80, isTransactional=True)
    replicas.bench.request("PRODUCE", 10, produce_body(TOPIC, open_one, transactionalId="t"))
    part = partition_of(fetch(replicas, isolation=1, broker=2))
    assert (part["highWatermark"], part["lastStableOffset"]) == (2, 0)
    assert (part["recordsSizeInBytes"], part["abortedTransactions"]) == (0, [])
    marker = {"producerId": 7, "producerEpoch": 0, "transactionResult": False}
    marker |= {"topics": [{"name": TOPIC, "partitionIndexes": [0]}], "coordinatorEpoch": 0}
    replicas.bench.request("WRITE_TXN_MARKERS", 1, markers=[marker])
    part = partition_of(fetch(replicas, isolation=1, broker=2))
    assert (part["highWatermark"], part["lastStableOffset"]) == (3, 3)
    assert part["abortedTransactions"] == [{"producerId": 7, "firstOffset": 0}]


def test_partition_with_a_preferred_replica_is_in_each_response_of_a_session() -> None:
    """`CachedPartition.maybeUpdateResponseData`: with or without records."""
    replicas = Replicas(bench=bench())
    replicas.isolate(2, 3)
    replicas.bench.tick(60_000)
    replicas.produce(acks=1)
    first = fetch(replicas, "west", offset=1, session=(0, 0))
    assert named(first) == -1
    session_id = first["sessionId"]
    assert fetch(replicas, "west", session=(session_id, 1))["responses"] == []
    replicas.rejoin(2, 3)
    assert replicas.isr() == [1, 2, 3]
    for epoch in (2, 3):
        assert named(fetch(replicas, "west", session=(session_id, epoch))) == 3


def test_replicas_of_a_new_topic_are_in_different_racks() -> None:
    brokers = (1, 2, 3, 4, 5, 6)
    racks = ("1:a", "2:a", "3:a", "4:b", "5:b", "6:c")
    bench = Bench(brokers, brokertwin_broker_racks=racks)
    topic = {"name": "wide", "numPartitions": 60, "replicationFactor": 3}
    bench.request("CREATE_TOPICS", 7, {"topics": [topic], "timeoutMs": 30_000})
    response = bench.request("METADATA", 12, name="wide")
    rack = dict(each.split(":") for each in racks)
    placed = [each["replicaNodes"] for each in response["topics"][0]["partitions"]]
    assert all({rack[str(each)] for each in nodes} == {"a", "b", "c"} for nodes in placed)
    leaders = [nodes[0] for nodes in placed]
    assert {each: leaders.count(each) for each in brokers} == {
        **dict.fromkeys((1, 3), 7),
        2: 6,
        **dict.fromkeys((4, 5), 10),
        6: 20,
    }


@pytest.mark.parametrize("is_read_again", [False, True])
def test_session_without_a_rack_is_served_by_the_leader_again(is_read_again: bool) -> None:
    """Notes of a request do not apply to the next one, in the same micro-batch."""
    replicas = Replicas(bench=bench())
    replicas.produce(count=3)
    response = fetch(replicas, "west", session=(0, 0))
    session = response["sessionId"]
    assert named(response) == named(fetch(replicas, "west", session=(session, 1))) == 3
    if is_read_again:
        replicas.bench.reload()
    partition = partition_of(fetch(replicas, "", session=(session, 2)))
    assert (partition["preferredReadReplica"], partition["recordsSizeInBytes"] > 0) == (-1, True)
