"""Elections after brokers stop and start, and truncation of former leaders."""

from typing import Any

import pytest

from brokertwin.protocol.errors import Error
from brokertwin.state.cluster.image import Partition
from brokertwin.state.logs.log import EpochEnd
from brokertwin.state.replication import elections
from brokertwin.state.replication.elections import NO_LEADER, Election, ElectionRules, TargetState
from tests.support.machine import Bench
from tests.support.replicas import BROKERS, Replicas

LAG_MS = 30_000


def elect(
    leader: int,
    replicas: list[int],
    isr: list[int],
    alive: list[int],
    unclean: bool = False,
    lost: tuple[int, ...] = (),
) -> Any:
    partition = Partition(leader, 3, 7, replicas, isr)
    election = Election.UNCLEAN if unclean else Election.ONLINE
    rules = ElectionRules(
        alive.__contains__, election, None, lambda _partition, broker: broker in lost
    )
    record = elections.broker_change(("T", 0), partition, leader, rules)
    return record and (record.leader, record.isr, record.leader_recovery_state)


def test_example_20_leader_is_the_first_of_the_assignment() -> None:
    assert elect(2, [2, 3, 1], [1, 2, 3], [1, 3]) == (3, [1, 3], None)
    assert elect(2, [2, 3, 1], [1, 2], [1, 3]) == (1, [1], None)


def test_example_19_last_replica_stays_in_sync_unless_elections_may_be_unclean() -> None:
    assert elect(1, [1, 2], [1], [2]) == (NO_LEADER, None, None)
    assert elect(1, [1, 2], [1], [2], unclean=True) == (2, [2], 1)


def test_preferred_election_tries_the_first_replica() -> None:
    partition = Partition(3, 3, 7, [2, 3, 1], [1, 2, 3])
    online, preferred = (
        ElectionRules({1, 2, 3}.__contains__, election, None, lambda *_: False)
        for election in (Election.ONLINE, Election.PREFERRED)
    )
    target = TargetState.of(partition)
    assert elections.elect(partition, target, online) == (3, False)
    assert elections.elect(partition, target, preferred) == (2, False)
    target.isr = [1, 3]
    assert elections.elect(partition, target, preferred) == (3, False)


@pytest.mark.parametrize("stopped", BROKERS)
def test_stopping_any_broker_loses_nothing_acknowledged(stopped: int) -> None:
    replicas = Replicas(min_insync_replicas="2")
    assert replicas.produce(count=3)["errorCode"] == 0
    replicas.stop(stopped)
    assert replicas.leader() == ((2, 1) if stopped == 1 else (1, 0))
    assert replicas.isr() == [broker for broker in BROKERS if broker != stopped]
    assert replicas.produce(count=2)["baseOffset"] == 3
    replicas.start(stopped)
    assert replicas.isr() == list(BROKERS)
    assert replicas.watermarks() == dict.fromkeys(BROKERS, (5, 5))
    assert replicas.leader() == ((2, 1) if stopped == 1 else (1, 0)), "a live leader stays"


def test_stopped_broker_is_unavailable_to_clients() -> None:
    replicas = Replicas()
    replicas.stop(1)
    bench = replicas.bench
    response = bench.request("METADATA", 12, name="orders", broker=2)
    assert [each["nodeId"] for each in response["brokers"]] == [2, 3]
    (partition,) = response["topics"][0]["partitions"]
    assert (partition["leaderId"], partition["offlineReplicas"]) == (2, [1])
    bench.send("METADATA", 12, topics=[], broker=1)
    (letter,) = bench.dead_letters(bench.last)
    assert letter["detail"] == "broker 1 is stopped"


def test_pending_request_at_a_stopping_broker_loses_its_connection() -> None:
    replicas = Replicas()
    replicas.isolate(2)
    assert replicas.produce(id="waits") is None
    replicas.stop(1)
    assert replicas.bench.responses["waits"]["closesConnection"] is True
    assert replicas.bench.cell.tables.pending.keys("wait/") == []


def test_pending_produce_returns_the_new_leader() -> None:
    """The old leader is alive but isolated when the controller elects another one."""
    replicas = Replicas()
    replicas.isolate(2)
    assert replicas.produce() is None
    event = {"id": "move", "cluster": "bench", "kind": "move-leader", "time": replicas.bench.now}
    replicas.bench.handle({**event, "move": {"topic": "orders", "partition": 0, "leader": 3}})
    assert replicas.late_errors() == [Error.NOT_LEADER_OR_FOLLOWER]


def test_returning_leader_truncates_uncommitted_records() -> None:
    """Acks=1 promises nothing: no consumer has read the record."""
    replicas = Replicas()
    replicas.produce(count=2)
    replicas.isolate(1)
    assert replicas.produce(acks=1, count=5)["baseOffset"] == 2
    assert replicas.latest() == 2
    replicas.stop(1)
    replicas.rejoin(1)
    assert replicas.produce(count=1)["baseOffset"] == 2
    replicas.start(1)
    assert replicas.watermarks() == dict.fromkeys(BROKERS, (3, 3))
    kinds = [e["record"] for e in replicas.bench.records() if e["machine"] == 1]
    cuts = [each["logEndOffset"] for each in kinds if each["type"] == "LogTruncated"]
    assert cuts == [2]
    assert replicas.log(1).leader_epoch == 1


def test_epoch_without_records_is_dropped_if_the_leader_does_not_know_it() -> None:
    """Broker 2 led briefly and wrote nothing; the next leader does not know its epoch."""
    replicas = Replicas(min_insync_replicas="1")
    replicas.produce(count=3)
    replicas.stop(1, 2)
    replicas.start(1, 2)
    assert replicas.leader() == (3, 2)
    assert replicas.isr() == list(BROKERS)
    replicas.produce()
    assert [replicas.log(broker).leader_epoch for broker in BROKERS] == [2, 2, 2]
    assert [replicas.log(broker).former_epochs for broker in BROKERS] == [[EpochEnd(0, 3)]] * 3


def test_example_19_unclean_election_loses_records() -> None:
    replicas = Replicas(unclean_leader_election_enable="true", min_insync_replicas="1")
    replicas.leave_only_the_leader()
    assert replicas.produce(count=4)["baseOffset"] == 1
    replicas.rejoin(2, 3)
    assert replicas.isr() == [1, 2, 3]
    replicas.leave_only_the_leader()
    committed = replicas.watermarks()[1][0]
    replicas.stop(1)
    assert (replicas.leader()[0], replicas.isr()) == (2, [2])
    assert replicas.partition().leader_recovery_state == 1
    replicas.rejoin(2, 3)
    assert replicas.watermarks()[2][0] < committed
    replicas.start(1)
    assert len(set(replicas.watermarks().values())) == 1, "broker 1 has truncated its log"
    assert replicas.isr() == [1, 2, 3]
    assert replicas.partition().leader_recovery_state == 0


def test_partition_has_no_leader_until_the_last_one_returns() -> None:
    replicas = Replicas(min_insync_replicas="1")
    replicas.leave_only_the_leader()
    replicas.produce(count=4)
    replicas.stop(1)
    assert (replicas.leader(), replicas.isr()) == ((-1, 1), [])
    assert replicas.produce(broker=2)["errorCode"] == Error.NOT_LEADER_OR_FOLLOWER
    replicas.rejoin(2, 3)
    replicas.start(1)
    assert replicas.leader() == (1, 2)
    assert replicas.isr() == [1, 2, 3]
    assert replicas.watermarks() == dict.fromkeys(BROKERS, (5, 5))


def test_example_18_follower_below_the_leaders_start_restarts_there() -> None:
    replicas = Replicas()
    replicas.produce(count=1)
    replicas.isolate(3)
    replicas.produce(acks=1, count=4)
    replicas.bench.tick(2 * LAG_MS)
    assert replicas.isr() == [1, 2]
    delete = {"name": "orders", "partitions": [{"partitionIndex": 0, "offset": 3}]}
    replicas.bench.request("DELETE_RECORDS", 2, {"topics": [delete], "timeoutMs": 1000})
    assert replicas.log(1).log_start_offset == 3
    replicas.rejoin(3)
    log = replicas.log(3)
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (3, 5, 5)
    assert replicas.isr() == [1, 2, 3]
    replicas.produce(count=2)
    assert replicas.watermarks() == dict.fromkeys(BROKERS, (7, 7))


def test_started_broker_reads_missed_metadata() -> None:
    replicas = Replicas()
    replicas.stop(3)
    bench = replicas.bench
    other = {"name": "other", "numPartitions": 2, "replicationFactor": 2}
    bench.request("CREATE_TOPICS", 7, {"topics": [other], "timeoutMs": 30_000})
    bench.request("DELETE_TOPICS", 5, topicNames=["orders"], timeoutMs=1000)
    replicas.start(3)
    response = bench.request("METADATA", 12, {}, broker=3)
    assert [topic["name"] for topic in response["topics"]] == ["other"]
    partitions = response["topics"][0]["partitions"]
    assert all(3 not in partition["replicaNodes"] for partition in partitions)


def test_assignment_without_live_replicas_is_rejected() -> None:
    bench = Replicas().bench
    for broker in (2, 3):
        bench.handle(
            {"id": f"stop-{broker}", "cluster": "bench", "kind": "stop-broker", "broker": broker}
            | {"time": bench.now}
        )
    topic = {"name": "dead", "numPartitions": -1, "replicationFactor": -1}
    topic["assignments"] = [{"partitionIndex": 0, "brokerIds": [2, 3]}]
    response = bench.request("CREATE_TOPICS", 7, topics=[topic], timeoutMs=30_000)
    assert response["topics"][0]["errorCode"] == Error.INVALID_REPLICA_ASSIGNMENT


def test_groups_move_to_the_elected_replica() -> None:
    bench = Bench(BROKERS, offsets_topic_num_partitions=1)
    bench.settings.may_intervene = True
    replicas = Replicas(bench=bench)
    found = bench.request("FIND_COORDINATOR", 3, key="g", keyType=0)
    found = bench.request("FIND_COORDINATOR", 3, key="g", keyType=0)
    first = found["nodeId"]
    offsets = [{"partitionIndex": 0, "committedOffset": 7}]
    body = {"groupId": "g", "generationIdOrMemberEpoch": -1, "topics": [{"name": "orders"}]}
    body["topics"] = [{"name": "orders", "partitions": offsets}]
    bench.request("OFFSET_COMMIT", 8, body, broker=first)
    replicas.stop(first)
    alive = next(broker for broker in BROKERS if broker != first)
    second = bench.request("FIND_COORDINATOR", 3, key="g", keyType=0, broker=alive)
    assert second["nodeId"] not in (first, -1)
    groups = [{"groupId": "g", "topics": [{"name": "orders", "partitionIndexes": [0]}]}]
    response = bench.request("OFFSET_FETCH", 8, {"groups": groups}, broker=second["nodeId"])
    (partition,) = response["groups"][0]["topics"][0]["partitions"]
    assert partition["committedOffset"] == 7
    replicas.start(first)
