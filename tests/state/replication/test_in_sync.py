"""In-sync sets: followers that do not come, what producers are told, who leaves and joins again."""

from typing import Any

import pytest

from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core import pending
from brokertwin.state.core.errors import Error
from brokertwin.state.replication import acks, copying, in_sync
from brokertwin.state.replication.isr_controller import AlterPartitionResponse
from tests.support.machine import Bench, header
from tests.support.replicas import BROKERS, TOPIC, Replicas

LAG_MS = 30_000


@pytest.fixture
def replicas() -> Replicas:
    """`orders` on brokers 1 to 3, led by 1, with min.insync.replicas 2."""
    return Replicas(min_insync_replicas="2")


def test_the_most_wrong_answer_of_old(replicas: Replicas) -> None:
    """With min.insync.replicas 2 and followers that never fetch nothing is acknowledged."""
    replicas.isolate(2, 3)
    answers = [replicas.produce() for _ in range(3)]
    assert answers == [None] * 3
    assert replicas.watermarks()[1] == (0, 3)
    replicas.bench.tick(1000)
    assert replicas.late_errors() == [Error.REQUEST_TIMED_OUT] * 3
    replicas.bench.tick(LAG_MS)
    assert replicas.isr() == [1, 2, 3], "half of the lag time is between two looks"
    replicas.bench.tick(LAG_MS // 2)
    assert replicas.isr() == [1]
    assert replicas.produce()["errorCode"] == Error.NOT_ENOUGH_REPLICAS
    assert replicas.watermarks()[1] == (0, 3), "nothing was appended, and the watermark stays"


@pytest.mark.parametrize("patience", [0, 60_000])
def test_of_a_partition_named_twice_the_answer_waits_for_what_was_appended(
    replicas: Replicas, patience: int
) -> None:
    """What is no record set has its answer in the end, whatever becomes of the other."""
    replicas.isolate(2, 3)
    named = [{"index": 0, "batches": [header(size=80)]}, {"index": 0, "batches": []}]
    topics = [{"name": TOPIC, "partitionData": named}]
    body = {"acks": -1, "timeoutMs": 1000 + patience, "topicData": topics}
    assert replicas.bench.request("PRODUCE", 10, body, broker=1, id="twice") is None
    assert replicas.watermarks()[1] == (0, 1)
    if patience:
        replicas.rejoin(2, 3)
    replicas.bench.tick(1000)
    answer = replicas.bench.answers["twice"]["response"]
    (told,) = answer["responses"][0]["partitionResponses"]
    assert told["errorCode"] == Error.INVALID_RECORD
    assert replicas.watermarks()[1] == ((1, 1) if patience else (0, 1))


def test_example_5_the_time_out_says_7_while_the_high_watermark_stays(replicas: Replicas) -> None:
    replicas.isolate(2, 3)
    assert replicas.produce(timeout_ms=60_000) is None
    replicas.bench.tick(2 * LAG_MS - 1)
    assert (replicas.isr(), replicas.watermarks()[1]) == ([1], (0, 1))
    assert replicas.late_errors() == []
    replicas.bench.tick(1)
    assert replicas.late_errors() == [Error.REQUEST_TIMED_OUT]


def test_example_6_with_acks_1_it_is_written_and_not_committed(replicas: Replicas) -> None:
    replicas.leave_only_the_leader()
    refused = replicas.produce()
    assert (refused["errorCode"], refused["logStartOffset"]) == (Error.NOT_ENOUGH_REPLICAS, 0)
    before = replicas.watermarks()[1]
    assert replicas.produce(acks=1)["errorCode"] == 0
    assert replicas.watermarks()[1] == (before[0], before[1] + 1)


def test_example_7_one_replica_is_enough_where_there_is_one() -> None:
    bench = Bench()
    bench.topic("orders", min_insync_replicas="2")
    assert Replicas.produce_on(bench)["errorCode"] == 0


def test_a_produce_that_waits_is_answered_when_the_follower_is_back(replicas: Replicas) -> None:
    replicas.isolate(2, 3)
    assert replicas.produce(count=5) is None
    replicas.rejoin(2)
    assert replicas.late_errors() == [], "broker 3 is still in sync, and has not got it"
    replicas.rejoin(3)
    assert replicas.late_errors() == [Error.NONE]
    assert set(replicas.watermarks().values()) == {(5, 5)}


def test_20_where_fewer_are_in_sync_than_the_topic_wants_by_now() -> None:
    """It is written and copied as far as the in-sync set went; the setting was raised since."""
    replicas = Replicas(min_insync_replicas="1")
    replicas.leave_only_the_leader()
    bench = replicas.bench
    replicas.alter_config("min.insync.replicas", "2")
    broker = Broker(1, bench.cell.tables, bench.settings, bench.now)
    place = (replicas.topic_id, 0)
    assert replicas.watermarks()[1] == (1, 1)
    assert acks.outcome(broker, place, 1) is Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    assert acks.outcome(broker, place, 2) is None


def test_what_is_decided_for_a_partition_stays_while_another_waits(replicas: Replicas) -> None:
    """`orders` is copied in time, `late` is not; by then too few are in sync for `orders`."""
    bench = replicas.bench
    topic = {"name": "late", "numPartitions": -1, "replicationFactor": -1}
    topic["assignments"] = [{"partitionIndex": 0, "brokerIds": [1, 3]}]
    bench.request("CREATE_TOPICS", 7, {"topics": [topic], "timeoutMs": 30_000})
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
    answers = bench.answers["both"]["response"]["responses"]
    codes = [topic["partitionResponses"][0]["errorCode"] for topic in answers]
    assert codes == [Error.NONE, Error.NONE], "the other in-sync replica of `late` has left"


def test_who_is_back_joins_again_when_it_has_all(replicas: Replicas) -> None:
    replicas.leave_only_the_leader()
    replicas.produce(acks=1, count=7)
    replicas.rejoin(2)
    assert replicas.isr() == [1, 2]
    assert replicas.watermarks()[2] == replicas.watermarks()[1]
    replicas.rejoin(3)
    assert replicas.isr() == [1, 2, 3]
    assert replicas.produce()["errorCode"] == 0
    assert len(set(replicas.watermarks().values())) == 1


def test_two_that_are_back_at_once_both_join() -> None:
    """The second comes while the first one's change is pending; it is looked at again then."""
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


def test_who_has_all_may_be_silent_for_ever(replicas: Replicas) -> None:
    replicas.produce()
    replicas.isolate(2, 3)
    assert replicas.bench.tick(100 * LAG_MS) == []
    assert replicas.isr() == [1, 2, 3]
    replicas.produce(acks=1)
    replicas.bench.tick(LAG_MS // 2)
    assert replicas.isr() == [1], "the next append finds them too old"


def test_consumers_read_up_to_the_high_watermark(replicas: Replicas) -> None:
    replicas.produce(count=3)
    replicas.isolate(2)
    replicas.produce(acks=1, count=4)
    assert replicas.latest() == 3
    assert replicas.latest(replica_id=-2) == 7
    replicas.rejoin(2)
    assert replicas.latest() == 7


def test_a_partition_epoch_for_each_change_and_no_leader_epoch(replicas: Replicas) -> None:
    replicas.leave_only_the_leader()
    replicas.rejoin(2)
    replicas.rejoin(3)
    changes = [e for e in replicas.bench.records() if e["record"]["type"] == "PartitionAltered"]
    controllers = [entry["record"] for entry in changes if entry["machine"] == -1]
    assert [each["isr"] for each in controllers] == [[1], [1, 2], [1, 2, 3]]
    partition = replicas.partition()
    assert (partition.partition_epoch, partition.leader_epoch) == (3, 0)


def alter(replicas: Replicas, **fields: Any) -> Any:
    """The answer to an AlterPartition of the leader that changes nothing but for `fields`."""
    body = replicas.wish(fields.pop("isr", BROKERS))
    body["brokerId"] = fields.pop("broker_id", 1)
    body["topics"][0]["topicId"] = fields.pop("topicId", replicas.topic_id)
    body["topics"][0]["partitions"][0].update(fields)
    body["brokerEpoch"] = replicas.epoch(body["brokerId"])
    answer = replicas.bench.request("ALTER_PARTITION", 3, body)
    return answer["topics"][0]["partitions"][0]


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
def test_what_the_controller_looks_at_and_in_which_order(
    replicas: Replicas, fields: dict[str, Any], error: Error
) -> None:
    answer = alter(replicas, **fields)
    assert answer["errorCode"] == error
    if error is Error.NONE:
        assert (answer["leaderId"], answer["isr"], answer["partitionEpoch"]) == (1, [1, 2, 3], 0)


def test_what_the_leader_wants_is_what_it_gets(replicas: Replicas) -> None:
    answer = alter(replicas, isr=[1, 3])
    assert (answer["errorCode"], answer["isr"], answer["partitionEpoch"]) == (0, [1, 3], 1)
    assert replicas.isr() == [1, 3]


def test_a_followers_request_says_how_far_it_has_the_log(replicas: Replicas) -> None:
    replicas.produce(count=5)
    replicas.isolate(2)
    replicas.produce(acks=1, count=5)
    replicas.bench.now += 400
    session_id = replicas.fetch_as(2, offset=4)["sessionId"]
    known = replicas.leadership().replicas[2]
    assert (known.log_end_offset, known.last_fetch_time) == (4, replicas.bench.now)
    caught_up = known.last_caught_up
    replicas.bench.now += 400
    replicas.fetch_as(2, session_id=session_id, epoch=1)
    known = replicas.leadership().replicas[2]
    assert (known.log_end_offset, known.last_fetch_time) == (4, replicas.bench.now)
    assert known.last_caught_up == caught_up, "it did not have all at the fetch before, either"


def test_who_is_not_there_may_not_be_in_sync(replicas: Replicas) -> None:
    replicas.stop(3)
    assert alter(replicas, isr=[1, 2, 3])["errorCode"] == Error.INELIGIBLE_REPLICA
    replicas.start(3)
    replicas.isolate(3)
    in_epoch = [{"brokerId": 1}, {"brokerId": 2}, {"brokerId": 3, "brokerEpoch": 0}]
    refused = alter(replicas, newIsrWithEpochs=in_epoch)
    assert refused["errorCode"] == Error.INELIGIBLE_REPLICA, "it has been started again since"
    in_epoch[2]["brokerEpoch"] = replicas.epoch(3)
    assert alter(replicas, newIsrWithEpochs=in_epoch)["errorCode"] == Error.NONE


def test_who_asks_in_another_epoch_is_refused_as_a_whole(replicas: Replicas) -> None:
    for broker_epoch in (-1, 7):
        body = {**replicas.wish(BROKERS), "brokerEpoch": broker_epoch}
        answer = replicas.bench.request("ALTER_PARTITION", 3, body)
        error = int(Error.STALE_BROKER_EPOCH)
        assert answer == {"throttleTimeMs": 0, "errorCode": error, "topics": []}


def test_version_2_names_in_sync_replicas_without_epochs(replicas: Replicas) -> None:
    replicas.isolate(2, 3)
    body = replicas.wish([])
    (partition,) = body["topics"][0]["partitions"]
    del partition["newIsrWithEpochs"]
    partition["newIsr"] = [1, 3]
    answer = replicas.bench.request("ALTER_PARTITION", 2, body)
    assert answer["topics"][0]["partitions"][0]["isr"] == [1, 3]
    assert replicas.isr() == [1, 3]


def test_a_wish_that_was_refused_for_now_is_told_again(replicas: Replicas) -> None:
    replicas.isolate(2)
    replicas.produce(acks=1)
    bench, place = replicas.bench, (replicas.topic_id, 0)
    broker = Broker(1, bench.cell.tables, bench.settings, bench.now)
    pending.set_timer(bench.cell.tables.pending, f"{copying.IN_SYNC_TIMER}/1/", None)
    leadership = copying.changeable(broker, place)
    leadership.pending = [1, 3]
    wish = copying.wish(broker, place, leadership)
    refused = AlterPartitionResponse(error_code=Error.STALE_BROKER_EPOCH)
    in_sync.on_reply(broker, wish, refused)
    assert replicas.isr() == [1, 2, 3]
    bench.tick(16_000)
    assert replicas.isr() == [1, 3]


def test_how_far_a_follower_is_counts_in_older_segments_too() -> None:
    """Its answer ends with the segment that it reads in; where it is, is noted all the same."""
    replicas = Replicas((1, 2), internal_segment_bytes="71")
    for _ in range(3):
        replicas.produce()
    replicas.isolate(2)
    for offset in (1, 2):
        replicas.fetch_as(2, offset)
        assert replicas.leadership().replicas[2].log_end_offset == offset
