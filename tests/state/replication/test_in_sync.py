"""In-sync sets: lagging followers, responses to producers, removal and return."""

from typing import Any

import pytest

from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.alter_partition import AlterPartitionResponse
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.configs.broker_config import parse
from brokertwin.state.core import pending
from brokertwin.state.eras.versions import SETTINGS
from brokertwin.state.replication import acks, copying, in_sync
from tests.support.machine import Bench, header
from tests.support.replicas import BROKERS, TOPIC, Replicas

LAG_MS = 30_000


@pytest.fixture
def replicas() -> Replicas:
    """`orders` on brokers [1, 2, 3] with leader 1 and min.insync.replicas=2."""
    return Replicas(min_insync_replicas="2")


def test_nothing_is_acknowledged_if_followers_never_fetch(replicas: Replicas) -> None:
    """With min.insync.replicas 2."""
    replicas.isolate(2, 3)
    responses = [replicas.produce() for _ in range(3)]
    assert responses == [None] * 3
    assert replicas.watermarks()[1] == (0, 3)
    replicas.bench.tick(1000)
    assert replicas.late_errors() == [Error.REQUEST_TIMED_OUT] * 3
    replicas.bench.tick(LAG_MS)
    assert replicas.isr() == [1, 2, 3], "checks are half the lag time apart"
    replicas.bench.tick(LAG_MS // 2)
    assert replicas.isr() == [1]
    assert replicas.produce()["errorCode"] == Error.NOT_ENOUGH_REPLICAS
    assert replicas.watermarks()[1] == (0, 3), "nothing was appended, the high watermark stays"


@pytest.mark.parametrize("patience", [0, 60_000])
def test_partition_named_twice_waits_for_its_append(replicas: Replicas, patience: int) -> None:
    """The one without a record set keeps its error."""
    replicas.isolate(2, 3)
    named = [{"index": 0, "batches": [header(size=80)]}, {"index": 0, "batches": []}]
    topics = [{"name": TOPIC, "partitionData": named}]
    body = {"acks": -1, "timeoutMs": 1000 + patience, "topicData": topics}
    assert replicas.bench.request("PRODUCE", 10, body, broker=1, id="twice") is None
    assert replicas.watermarks()[1] == (0, 1)
    if patience:
        replicas.rejoin(2, 3)
    replicas.bench.tick(1000)
    response = replicas.bench.responses["twice"]["response"]
    (result,) = response["responses"][0]["partitionResponses"]
    assert result["errorCode"] == Error.INVALID_RECORD
    assert replicas.watermarks()[1] == ((1, 1) if patience else (0, 1))


def test_example_5_timeout_returns_request_timed_out(replicas: Replicas) -> None:
    replicas.isolate(2, 3)
    assert replicas.produce(timeout_ms=60_000) is None
    replicas.bench.tick(2 * LAG_MS - 1)
    assert (replicas.isr(), replicas.watermarks()[1]) == ([1], (0, 1))
    assert replicas.late_errors() == []
    replicas.bench.tick(1)
    assert replicas.late_errors() == [Error.REQUEST_TIMED_OUT]


def test_before_kip_966_a_shrunk_isr_completes_the_request_with_20() -> None:
    """Seed 004: the high watermark reaches the append, but min.insync.replicas is missed."""
    bench = Bench(BROKERS)
    bench.settings.broker_settings = parse(SETTINGS["0.10"])[0]
    replicas = Replicas(bench=bench, min_insync_replicas="2")
    replicas.isolate(2, 3)
    assert replicas.produce(timeout_ms=60_000) is None
    replicas.bench.tick(LAG_MS)
    assert (replicas.isr(), replicas.watermarks()[1]) == ([1], (1, 1))
    assert replicas.late_errors() == [Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND]


def test_example_6_acks_1_is_written_but_not_committed(replicas: Replicas) -> None:
    replicas.leave_only_the_leader()
    refused = replicas.produce()
    assert (refused["errorCode"], refused["logStartOffset"]) == (Error.NOT_ENOUGH_REPLICAS, 0)
    before = replicas.watermarks()[1]
    assert replicas.produce(acks=1)["errorCode"] == 0
    assert replicas.watermarks()[1] == (before[0], before[1] + 1)


def test_example_7_one_in_sync_replica_is_enough_with_one_replica() -> None:
    bench = Bench()
    bench.topic("orders", min_insync_replicas="2")
    assert Replicas.produce_on(bench)["errorCode"] == 0


def test_pending_produce_completes_when_the_follower_returns(replicas: Replicas) -> None:
    replicas.isolate(2, 3)
    assert replicas.produce(count=5) is None
    replicas.rejoin(2)
    assert replicas.late_errors() == [], "broker 3 is in sync, but does not have it"
    replicas.rejoin(3)
    assert replicas.late_errors() == [Error.NONE]
    assert set(replicas.watermarks().values()) == {(5, 5)}


def test_too_few_in_sync_replicas_after_the_append() -> None:
    """The in-sync set has copied it; min.insync.replicas was raised meanwhile."""
    replicas = Replicas(min_insync_replicas="1")
    replicas.leave_only_the_leader()
    bench = replicas.bench
    replicas.alter_config("min.insync.replicas", "2")
    broker = Broker(1, bench.cell.tables, bench.settings, bench.now)
    place = (replicas.topic_id, 0)
    assert replicas.watermarks()[1] == (1, 1)
    assert acks.outcome(broker, place, 1) is Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    assert acks.outcome(broker, place, 2) is None


def test_completed_partition_keeps_its_result_while_another_waits(replicas: Replicas) -> None:
    """`orders` is copied in time, `late` is not; by then `orders` has too few in sync."""
    bench = replicas.bench
    topic = {"name": "late", "numPartitions": -1, "replicationFactor": -1}
    topic["assignments"] = [{"partitionIndex": 0, "brokerIds": [1, 3]}]
    bench.request("CREATE_TOPICS", 7, topics=[topic], timeoutMs=30_000)
    replicas.alter_config("min.insync.replicas", "1")
    replicas.isolate(3)
    bench.request("ALTER_PARTITION", 3, replicas.wish([1, 2]))
    bench.tick(LAG_MS + 1)
    data = [{"index": 0, "batches": [header()]}]
    body = {"acks": -1, "timeoutMs": 2 * LAG_MS}
    body["topicData"] = [{"name": name, "partitionData": data} for name in ("orders", "late")]
    assert bench.request("PRODUCE", 10, body, id="both") is None
    bench.request("ALTER_PARTITION", 3, replicas.wish([1]))
    replicas.alter_config("min.insync.replicas", "2")
    bench.now += 1
    replicas.produce(acks=1)
    assert replicas.isr() == [1, 2], "broker 2 has joined again"
    replicas.isolate(2)
    replicas.produce(acks=1)
    bench.tick(2 * LAG_MS)
    assert replicas.isr() == [1]
    responses = bench.responses["both"]["response"]["responses"]
    codes = [topic["partitionResponses"][0]["errorCode"] for topic in responses]
    assert codes == [Error.NONE, Error.NONE], "the other in-sync replica of `late` has left"


def test_returning_replica_joins_once_it_has_all_records(replicas: Replicas) -> None:
    replicas.leave_only_the_leader()
    replicas.produce(acks=1, count=7)
    replicas.rejoin(2)
    assert replicas.isr() == [1, 2]
    assert replicas.watermarks()[2] == replicas.watermarks()[1]
    replicas.rejoin(3)
    assert replicas.isr() == [1, 2, 3]
    assert replicas.produce()["errorCode"] == 0
    assert len(set(replicas.watermarks().values())) == 1


def test_two_returning_replicas_both_join() -> None:
    """The second one returns while a change is pending; it is checked afterwards."""
    replicas = Replicas(min_insync_replicas="1")
    replicas.leave_only_the_leader()
    replicas.stop(2, 3)
    replicas.isolate(1)
    for broker in (2, 3):
        replicas.rejoin(broker)
        replicas.start(broker)
    assert replicas.isr() == [1]
    replicas.rejoin(1)
    assert replicas.isr() == [1, 2, 3]


def test_caught_up_replica_may_be_idle_forever(replicas: Replicas) -> None:
    replicas.produce()
    replicas.isolate(2, 3)
    assert replicas.bench.tick(100 * LAG_MS) == []
    assert replicas.isr() == [1, 2, 3]
    replicas.produce(acks=1)
    replicas.bench.tick(LAG_MS // 2)
    assert replicas.isr() == [1], "the next append finds their last fetch too old"


def test_consumers_read_up_to_the_high_watermark(replicas: Replicas) -> None:
    replicas.produce(count=3)
    replicas.isolate(2)
    replicas.produce(acks=1, count=4)
    assert replicas.latest() == 3
    assert replicas.latest(replica_id=-2) == 7
    replicas.rejoin(2)
    assert replicas.latest() == 7


def test_each_change_raises_the_partition_epoch_but_not_the_leader_epoch(
    replicas: Replicas,
) -> None:
    replicas.leave_only_the_leader()
    replicas.rejoin(2)
    replicas.rejoin(3)
    changes = [e for e in replicas.bench.records() if e["record"]["type"] == "PartitionAltered"]
    controllers = [entry["record"] for entry in changes if entry["machine"] == -1]
    assert [each["isr"] for each in controllers] == [[1], [1, 2], [1, 2, 3]]
    partition = replicas.partition()
    assert (partition.partition_epoch, partition.leader_epoch) == (3, 0)


def alter(replicas: Replicas, **fields: Any) -> Any:
    """Response to the leader's AlterPartition without changes except `fields`."""
    body = replicas.wish(fields.pop("isr", BROKERS))
    body["brokerId"] = fields.pop("broker_id", 1)
    body["topics"][0]["topicId"] = fields.pop("topicId", replicas.topic_id)
    body["topics"][0]["partitions"][0].update(fields)
    body["brokerEpoch"] = replicas.epoch(body["brokerId"])
    response = replicas.bench.request("ALTER_PARTITION", 3, body)
    return response["topics"][0]["partitions"][0]


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({}, Error.NONE),
        ({"partitionIndex": 7}, Error.UNKNOWN_TOPIC_OR_PARTITION),
        ({"topicId": "AAAAAAAAAAAAAAAAAAAAAA"}, Error.UNKNOWN_TOPIC_ID),
        ({"leaderEpoch": 1}, Error.NOT_CONTROLLER),
        ({"partitionEpoch": 1, "leaderEpoch": -1}, Error.NOT_CONTROLLER),
        ({"leaderEpoch": -1, "broker_id": 2}, Error.FENCED_LEADER_EPOCH),
        ({"broker_id": 2, "partitionEpoch": -1}, Error.INVALID_REQUEST),
        ({"partitionEpoch": -1, "isr": [2]}, Error.INVALID_UPDATE_VERSION),
        ({"isr": [1, 4]}, Error.INVALID_REQUEST),
        ({"isr": [2, 3]}, Error.INVALID_REQUEST),
        ({"isr": [1, 1]}, Error.INVALID_REQUEST),
        ({"leaderRecoveryState": 1}, Error.INVALID_REQUEST),
        ({"leaderRecoveryState": 1, "isr": [1]}, Error.INVALID_REQUEST),
    ],
)
def test_checks_of_the_controller_and_their_order(
    replicas: Replicas, fields: dict[str, Any], error: Error
) -> None:
    response = alter(replicas, **fields)
    assert response["errorCode"] == error
    if error is Error.NONE:
        assert (response["leaderId"], response["isr"], response["partitionEpoch"]) == (
            1,
            [1, 2, 3],
            0,
        )


def test_valid_in_sync_set_is_accepted(replicas: Replicas) -> None:
    response = alter(replicas, isr=[1, 3])
    assert (response["errorCode"], response["isr"], response["partitionEpoch"]) == (0, [1, 3], 1)
    assert replicas.isr() == [1, 3]


def test_fetch_request_shows_the_followers_log_end(replicas: Replicas) -> None:
    replicas.produce(count=5)
    replicas.isolate(2)
    replicas.produce(acks=1, count=5)
    replicas.bench.now += 400
    session_id = replicas.fetch_as(2, offset=4)["sessionId"]
    replica = replicas.leadership().replicas[2]
    assert (replica.log_end_offset, replica.last_fetch_time) == (4, replicas.bench.now)
    caught_up = replica.last_caught_up
    replicas.bench.now += 400
    replicas.fetch_as(2, session_id=session_id, epoch=1)
    replica = replicas.leadership().replicas[2]
    assert (replica.log_end_offset, replica.last_fetch_time) == (4, replicas.bench.now)
    assert replica.last_caught_up == caught_up, "it was behind at the fetch before, too"


def test_stopped_broker_cannot_be_in_sync(replicas: Replicas) -> None:
    replicas.stop(3)
    assert alter(replicas, isr=[1, 2, 3])["errorCode"] == Error.INELIGIBLE_REPLICA
    replicas.start(3)
    replicas.isolate(3)
    in_epoch = [{"brokerId": 1}, {"brokerId": 2}, {"brokerId": 3, "brokerEpoch": 0}]
    refused = alter(replicas, newIsrWithEpochs=in_epoch)
    assert refused["errorCode"] == Error.INELIGIBLE_REPLICA, "it has been restarted"
    in_epoch[2]["brokerEpoch"] = replicas.epoch(3)
    assert alter(replicas, newIsrWithEpochs=in_epoch)["errorCode"] == Error.NONE


def test_request_in_another_broker_epoch_is_rejected(replicas: Replicas) -> None:
    for broker_epoch in (-1, 7):
        body = {**replicas.wish(BROKERS), "brokerEpoch": broker_epoch}
        response = replicas.bench.request("ALTER_PARTITION", 3, body)
        error = int(Error.STALE_BROKER_EPOCH)
        assert response == {"throttleTimeMs": 0, "errorCode": error, "topics": []}


def test_version_2_has_in_sync_replicas_without_epochs(replicas: Replicas) -> None:
    replicas.isolate(2, 3)
    body = replicas.wish([])
    (partition,) = body["topics"][0]["partitions"]
    del partition["newIsrWithEpochs"]
    partition["newIsr"] = [1, 3]
    response = replicas.bench.request("ALTER_PARTITION", 2, body)
    assert response["topics"][0]["partitions"][0]["isr"] == [1, 3]
    assert replicas.isr() == [1, 3]


def test_rejected_change_is_sent_again(replicas: Replicas) -> None:
    replicas.isolate(2)
    replicas.produce(acks=1)
    bench, place = replicas.bench, (replicas.topic_id, 0)
    broker = Broker(1, bench.cell.tables, bench.settings, bench.now)
    pending.set_timer(bench.cell.tables.pending, f"{copying.IN_SYNC_TIMER}/1/", None)
    leadership = copying.mutable_view(broker, place)
    leadership.pending = [1, 3]
    wish = copying.request_isr_change(broker, place, leadership)
    refused = AlterPartitionResponse(error_code=Error.STALE_BROKER_EPOCH)
    in_sync.on_reply(broker, wish, refused)
    assert replicas.isr() == [1, 2, 3]
    bench.tick(16_000)
    assert replicas.isr() == [1, 3]


def test_followers_offset_counts_in_older_segments() -> None:
    """A read ends with its segment; the follower's offset is noted anyway."""
    replicas = Replicas((1, 2), internal_segment_bytes="71")
    for _ in range(3):
        replicas.produce()
    replicas.isolate(2)
    for offset in (1, 2):
        replicas.fetch_as(2, offset)
        assert replicas.leadership().replicas[2].log_end_offset == offset
