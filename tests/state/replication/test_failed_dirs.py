"""Failed log directories: offline replicas, elections, and errors for clients."""

from typing import Any

import msgspec
import pytest

from brokertwin.state.cluster.coordinators import GROUP_TOPIC, partition_for
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.replication import disk
from tests.support.machine import CLUSTER, Bench, header, produce_body
from tests.support.replicas import BROKERS, Replicas
from tests.support.replicas import TOPIC as ORDERS

ONE, TWO = "/disk-1", "/disk-2"
OTHER = "other"
STORAGE_ERROR = 56


def replicas_on(*assignments: list[int], brokers: tuple[int, ...] = BROKERS, **given: Any) -> Any:
    """`orders` in the first directories; `other`: partition 0 in the second, 1 in the first."""
    bench = Bench(brokers, log_dirs=(ONE, TWO), **given)
    replicas = Replicas(bench=bench, min_insync_replicas="1")
    named = assignments or ([1, 2, 3], [1, 2, 3])
    topic: dict[str, Any] = {"name": OTHER, "numPartitions": -1, "replicationFactor": -1}
    topic["assignments"] = [
        {"partitionIndex": number, "brokerIds": each} for number, each in enumerate(named)
    ]
    response = bench.request("CREATE_TOPICS", 7, topics=[topic], timeoutMs=1000)
    assert response["topics"][0]["errorCode"] == 0
    return replicas


def described(replicas: Replicas, partition: int = 0, broker: int = 3, version: int = 12) -> Any:
    """Error, leader, epoch, in-sync and offline replicas of a partition of `other`."""
    response = replicas.bench.request("METADATA", version, name=OTHER, broker=broker)
    part = response["topics"][0]["partitions"][partition]
    names = ("errorCode", "leaderId", "leaderEpoch", "isrNodes", "offlineReplicas")
    return tuple(part[name] for name in names)


def produce(
    replicas: Replicas, broker: int, partition: int = 0, acks: int = -1, **event: Any
) -> Any:
    body = produce_body(OTHER, header(1), acks=acks, timeoutMs=5000)
    body["topicData"][0]["partitionData"][0]["index"] = partition
    response = replicas.bench.request("PRODUCE", 9, body, broker=broker, **event)
    return response and response["responses"][0]["partitionResponses"][0]["errorCode"]


def fetch(
    replicas: Replicas, broker: int, max_wait_ms: int = 0, offset: int = 0, **event: Any
) -> Any:
    partition = {"partition": 0, "fetchOffset": offset, "partitionMaxBytes": 1000}
    topics = [{"topic": OTHER, "partitions": [partition]}]
    body = {"maxWaitMs": max_wait_ms, "minBytes": 1, "sessionEpoch": -1, "topics": topics}
    response = replicas.bench.request("FETCH", 12, body, broker=broker, **event)
    return response and response["responses"][0]["partitions"][0]["errorCode"]


def test_lost_leader_causes_an_election_but_lost_follower_does_not() -> None:
    replicas = replicas_on([1, 2, 3], [1, 2, 3], [3, 1, 2])
    produce(replicas, 1)
    replicas.fail_dir(1, TWO)
    assert described(replicas) == (0, 2, 1, [2, 3], [1])
    assert described(replicas, 1) == (0, 1, 0, [1, 2, 3], []), "it is in the other directory"
    assert described(replicas, 2) == (0, 3, 0, [3, 2], [1])
    assert described(replicas, broker=1) == described(replicas)
    response = replicas.bench.request("DESCRIBE_TOPIC_PARTITIONS", 0, name=OTHER, broker=2)
    partition = response["topics"][0]["partitions"][0]
    assert (partition["leaderId"], partition["offlineReplicas"]) == (2, [1])
    assert produce(replicas, 2) == 0
    assert produce(replicas, 1, partition=1) == 0


def test_partition_without_another_replica_has_no_leader_until_the_directory_returns() -> None:
    replicas = replicas_on([1], [1])
    produce(replicas, 1)
    replicas.fail_dir(1, TWO)
    assert described(replicas) == (5, -1, 1, [], [1])
    body = {"electionType": 1, "timeoutMs": 1000}
    body["topicPartitions"] = [{"topic": OTHER, "partitions": [0]}]  # type: ignore[assignment]
    response = replicas.bench.request("ELECT_LEADERS", 2, body, broker=2)
    assert response["replicaElectionResults"][0]["partitionResult"][0]["errorCode"] == 83
    replicas.stop(1)
    replicas.start(1)
    assert described(replicas) == (0, 1, 2, [1], [])
    assert fetch(replicas, 1) == 0, "its records are back"


def test_replicas_in_a_failed_directory_return_storage_error() -> None:
    replicas = replicas_on()
    produce(replicas, 1)
    replicas.fail_dir(1, TWO)
    bench = replicas.bench

    def errors(
        api: str, version: int, of_topic: dict[str, Any], *path: str, **more: int
    ) -> list[int]:
        body = {"topics": [of_topic], **more}
        response = bench.request(api, version, body, broker=1)
        return [each["errorCode"] for each in response[path[0]][0][path[1]]]

    topic = {"name": OTHER}
    listed = [{"partitionIndex": each, "timestamp": -1} for each in (0, 1)]
    request = {**topic, "partitions": listed}
    assert errors("LIST_OFFSETS", 7, request, "topics", "partitions", replicaId=-1) == [56, 0]
    ends = [{"partition": each, "leaderEpoch": 0} for each in (0, 1)]
    ended = {"topic": OTHER, "partitions": ends}
    assert errors("OFFSET_FOR_LEADER_EPOCH", 4, ended, "topics", "partitions") == [56, 0]
    deleted = {**topic, "partitions": [{"partitionIndex": each, "offset": 0} for each in (0, 1)]}
    assert errors("DELETE_RECORDS", 2, deleted, "topics", "partitions", timeoutMs=1000) == [56, 0]
    active = {**topic, "partitionIndexes": [0, 1]}
    assert errors("DESCRIBE_PRODUCERS", 0, active, "topics", "partitions") == [56, 0]
    assert [produce(replicas, 1, partition) for partition in (0, 1)] == [56, 0]
    assert fetch(replicas, 1) == STORAGE_ERROR
    marker = {"producerId": 1, "producerEpoch": 0, "transactionResult": True, "coordinatorEpoch": 0}
    marker["topics"] = [{"name": OTHER, "partitionIndexes": [0, 1]}]
    response = bench.request("WRITE_TXN_MARKERS", 1, markers=[marker], broker=1)
    partitions = response["markers"][0]["topics"][0]["partitions"]
    assert [each["errorCode"] for each in partitions] == [3, 0]


def test_failed_directory_is_described_and_accepts_no_moves() -> None:
    replicas = replicas_on([1, 2], [1, 2], [1, 2])
    bench = replicas.bench
    replicas.fail_dir(1, TWO)
    response = bench.request("DESCRIBE_LOG_DIRS", 5, topics=None, broker=1)
    there, gone = response["results"]
    assert (there["errorCode"], there["logDir"], gone["errorCode"], gone["logDir"]) == (
        0,
        ONE,
        56,
        TWO,
    )
    assert gone["topics"] == []
    assert (gone["totalBytes"], gone["usableBytes"]) == (-1, -1)
    moves = [
        {
            "path": TWO,
            "topics": [{"name": OTHER, "partitions": [1]}, {"name": "new", "partitions": [0]}],
        }
    ]
    moves += [
        {
            "path": ONE,
            "topics": [{"name": OTHER, "partitions": [0]}, {"name": "orders", "partitions": [0]}],
        }
    ]
    response = bench.request("ALTER_REPLICA_LOG_DIRS", 2, dirs=moves, broker=1)
    actual = {
        (topic["topicName"], each["partitionIndex"]): each["errorCode"]
        for topic in response["results"]
        for each in topic["partitions"]
    }
    assert actual == {(OTHER, 1): 56, ("new", 0): 56, (OTHER, 0): 56, ("orders", 0): 0}


def test_no_move_between_two_directories_while_a_third_one_has_failed() -> None:
    bench = Bench(log_dirs=(ONE, TWO, "/disk-3"))
    bench.settings.may_intervene = True
    bench.topic("a", 2)
    bench.handle(event("fail-log-dir", 1, "/disk-3"))
    response = bench.request("ALTER_REPLICA_LOG_DIRS", 2, path=TWO, name="a", partitions=[0, 1])
    error_codes = [each["errorCode"] for each in response["results"][0]["partitions"]]
    assert error_codes == [56, 0]


def event(kind: str, broker: int, directory: str) -> dict[str, Any]:
    named = {"id": f"{kind}-{broker}-{directory}", "cluster": CLUSTER, "kind": kind}
    return {**named, "broker": broker, "directory": directory}


def test_pending_fetch_and_produce_return_at_once() -> None:
    replicas = replicas_on([1, 2], [1, 2])
    produce(replicas, 1)
    assert fetch(replicas, 1, max_wait_ms=5000, offset=1, id="waits") is None
    replicas.isolate(2)
    assert produce(replicas, 1, id="acks") is None
    replicas.fail_dir(1, TWO)
    responses = replicas.bench.responses
    fetched = responses["waits"]["response"]["responses"][0]["partitions"][0]
    assert fetched["errorCode"] == STORAGE_ERROR
    acked = responses["acks"]["response"]["responses"][0]["partitionResponses"][0]
    assert acked["errorCode"] == STORAGE_ERROR


def test_new_logs_are_placed_in_other_directories() -> None:
    replicas = replicas_on()
    bench = replicas.bench
    replicas.fail_dir(1, TWO)
    bench.topic("late", 3)
    files = disk.files(Broker(1, bench.cell.tables, bench.settings, bench.now))
    assert {path.split("/")[1] for path in files} == {"disk-1"}
    assert sum("late-" in path for path in files) in (1, 3)


def test_replica_catches_up_and_joins_after_a_restart() -> None:
    replicas = replicas_on()
    produce(replicas, 1)
    replicas.fail_dir(1, TWO)
    for _ in range(3):
        assert produce(replicas, 2) == 0
    replicas.stop(1)
    replicas.start(1)
    assert described(replicas) == (0, 2, 1, [1, 2, 3], [])
    assert produce(replicas, 1) == 6
    replicas.bench.tick(400_000)
    assert described(replicas)[:2] == (0, 1), "the preferred leader"
    assert produce(replicas, 1) == 0


def test_offline_replica_cannot_join_the_in_sync_set() -> None:
    replicas = replicas_on([2, 1, 3], [2, 1, 3])
    produce(replicas, 2)
    replicas.fail_dir(1, TWO)
    assert described(replicas)[3] == [2, 3]
    for _ in range(3):
        produce(replicas, 2)
        replicas.bench.tick(40_000)
        assert described(replicas)[3] == [2, 3]


@pytest.mark.parametrize("path", [ONE, TWO])
def test_broker_halts_with_its_metadata_directory_or_the_last_one(path: str) -> None:
    replicas = replicas_on(given={"metadata.log.dir": TWO} if path == TWO else {})
    replicas.fail_dir(1, path)
    assert replicas.is_stopped(1)
    assert described(replicas)[1] == 1, "the controller does not know yet"
    replicas.end_sessions()
    assert described(replicas) == (0, 2, 1, [2, 3], [1])
    replicas.start(1)
    assert described(replicas)[3] == [1, 2, 3]


def test_broker_with_one_directory_halts_without_a_report() -> None:
    bench = Bench(BROKERS, given={"log.dirs": "/only"})
    replicas = Replicas(bench=bench, min_insync_replicas="1")
    assert replicas.partition().directories == {}
    replicas.fail_dir(1, "/only")
    assert replicas.is_stopped(1)


def with_another_dir(values: dict[str, str]) -> Replicas:
    """`orders` is in the former only directory; its brokers now have two."""
    bench = Bench(BROKERS, given={"log.dirs": ONE})
    replicas = Replicas(bench=bench, min_insync_replicas="1")
    replicas.produce()
    bench.settings.broker_settings = msgspec.structs.replace(
        bench.settings.broker_settings, log_dirs=(ONE, TWO), given=values
    )
    bench.reload()
    return replicas


def test_logs_of_the_former_only_directory_are_lost_with_it() -> None:
    replicas = with_another_dir({"metadata.log.dir": "/metadata"})
    replicas.fail_dir(1, ONE)
    partition = replicas.partition()
    assert (partition.leader, partition.isr) == (2, [2, 3])
    body = produce_body(ORDERS, header(1), acks=1, timeoutMs=1000)
    response = replicas.bench.request("PRODUCE", 9, body, broker=1)
    assert response["responses"][0]["partitionResponses"][0]["errorCode"] == STORAGE_ERROR
    lying = replicas.bench.request("DESCRIBE_LOG_DIRS", 4, topics=None, broker=1)
    assert [each["topics"] for each in lying["results"]] == [[], []]


def test_logs_of_the_former_only_directory_stay_there_after_a_reassignment() -> None:
    replicas = with_another_dir({})
    bench = replicas.bench
    late: dict[str, Any] = {"name": "late", "numPartitions": -1, "replicationFactor": -1}
    late["assignments"] = [{"partitionIndex": 0, "brokerIds": [1, 2, 3]}]
    bench.request("CREATE_TOPICS", 7, topics=[late], timeoutMs=1000)
    replicas.stop(3)
    wanted = {"topics": [{"name": ORDERS, "count": 2, "assignments": [{"brokerIds": [1, 2]}]}]}
    bench.request("CREATE_PARTITIONS", 3, {**wanted, "timeoutMs": 1000})
    lying = bench.request("DESCRIBE_LOG_DIRS", 4, topics=None, broker=1)
    found = {
        (topic["name"], each["partitionIndex"]): directory["logDir"]
        for directory in lying["results"]
        for topic in directory["topics"]
        for each in topic["partitions"]
    }
    assert (found[ORDERS, 0], found["late", 0]) == (ONE, TWO)


@pytest.mark.parametrize("path", ["/nowhere", "", TWO])
def test_only_a_live_directory_can_fail(path: str) -> None:
    replicas = replicas_on()
    replicas.fail_dir(1, TWO)
    replicas.bench.handle(event("fail-log-dir", 1, path))
    (letter,) = replicas.bench.dead_letters(replicas.bench.last)
    assert letter["reason"] == "not possible"
    assert "those that have not failed: ['/disk-1']" in letter["detail"]
    replicas.stop(1)
    replicas.bench.handle(event("fail-log-dir", 1, ONE))
    assert replicas.bench.dead_letters(replicas.bench.last)[0]["detail"] == "broker 1 is stopped"


def test_severed_broker_reports_the_failure_when_it_rejoins() -> None:
    replicas = replicas_on()
    produce(replicas, 1)
    replicas.sever(1)
    replicas.fail_dir(1, TWO)
    assert described(replicas)[:2] == (0, 1), "the controller does not know yet"
    assert produce(replicas, 1, acks=1) == STORAGE_ERROR
    assert produce(replicas, 1, partition=1, acks=1) == 0
    replicas.rejoin(1)
    assert described(replicas) == (0, 2, 1, [2, 3], [1])


def test_severed_broker_reads_missed_metadata_before_the_effects_of_its_report() -> None:
    replicas = replicas_on([3, 1, 2], [1, 2, 3])
    produce(replicas, 3)
    replicas.sever(1)
    replicas.fail_dir(1, TWO)
    replicas.stop(3)
    assert described(replicas, broker=2)[:3] == (0, 1, 1), "the controller does not know yet"
    replicas.rejoin(1)
    assert described(replicas, broker=2) == (0, 2, 2, [2], [3, 1])
    assert described(replicas, broker=1) == described(replicas, broker=2)
    assert [produce(replicas, each, acks=1) for each in (1, 2)] == [STORAGE_ERROR, 0]


def test_severed_broker_reads_changes_of_a_lost_partition_in_order() -> None:
    replicas = replicas_on([1, 2], [1, 2])
    produce(replicas, 1)
    replicas.sever(1)
    replicas.fail_dir(1, TWO)
    body = {"timeoutMs": 1000, "name": OTHER, "partitionIndex": 0, "replicas": [1, 2, 3]}
    replicas.bench.request("ALTER_PARTITION_REASSIGNMENTS", 0, body, broker=2)
    replicas.rejoin(1)
    replicas.bench.tick(10_000)
    assert described(replicas, broker=2)[:2] == (0, 2)
    assert (
        described(replicas, broker=1)
        == described(replicas, broker=2)
        == described(replicas, broker=3)
    )


def test_log_moved_to_a_directory_fails_with_it() -> None:
    replicas = replicas_on()
    moves = [{"path": TWO, "topics": [{"name": OTHER, "partitions": [1]}]}]
    replicas.bench.request("ALTER_REPLICA_LOG_DIRS", 2, {"dirs": moves}, broker=1)
    replicas.fail_dir(1, TWO)
    assert [described(replicas, each)[1] for each in (0, 1)] == [2, 2]


def test_moved_leader_is_in_its_new_brokers_directory() -> None:
    replicas = replicas_on([1], [1])
    replicas.fail_dir(2, TWO)
    move = {"topic": OTHER, "partition": 0, "leader": 2}
    moved = {"id": "m", "cluster": CLUSTER, "kind": "move-leader", "move": move}
    replicas.bench.handle({**moved, "broker": 1, "time": replicas.bench.now})
    assert described(replicas) == (0, 2, 1, [2], [])
    assert produce(replicas, 2) == 0


def test_severed_coordinator_with_a_lost_log_rejects_commits_without_followers() -> None:
    sizes = {"offsets_topic_num_partitions": 2, "offsets_topic_replication_factor": 1}
    bench = Bench(BROKERS, log_dirs=(ONE, TWO), **sizes)
    replicas = Replicas(bench=bench, min_insync_replicas="1")
    bench.request("FIND_COORDINATOR", 4, keyType=0, coordinatorKeys=["a"])
    broker = Broker(1, bench.cell.tables, bench.settings, bench.now)
    offsets = next(each for each in broker.all_topics() if each.name == GROUP_TOPIC)
    led = next(n for n, each in enumerate(offsets.partitions) if each.leader == 1)
    log = broker.held_log(offsets.topic_id, led)
    assert log is not None
    assert log.directory == TWO
    group = next(name for name in "abcdefgh" if partition_for(name, 2) == led)
    partition = {"partitionIndex": 0, "committedOffset": 1, "committedMetadata": ""}
    body = {"groupId": group, "generationIdOrMemberEpoch": -1, "memberId": ""}
    wanted = {**body, "topics": [{"name": ORDERS, "partitions": [partition]}]}

    def commit() -> int:
        response = bench.request("OFFSET_COMMIT", 8, wanted, broker=1)
        return int(response["topics"][0]["partitions"][0]["errorCode"])

    replicas.sever(1)
    assert commit() == 0
    replicas.fail_dir(1, TWO)
    assert commit() == 16


def test_coordinators_of_lost_partitions_move() -> None:
    replicas = replicas_on()
    bench = replicas.bench
    body = {"keyType": 0, "coordinatorKeys": ["g"]}
    bench.request("FIND_COORDINATOR", 4, body)
    bench.tick(1)
    first = bench.request("FIND_COORDINATOR", 4, body)["coordinators"][0]["nodeId"]
    alive = next(each for each in BROKERS if each != first)
    name = "__consumer_offsets"
    response = bench.request("DESCRIBE_LOG_DIRS", 4, topics=None, broker=first)
    assert any(topic["name"] == name for each in response["results"] for topic in each["topics"])
    replicas.fail_dir(first, TWO)
    found = bench.request("METADATA", 12, name=name, broker=alive)
    partitions = found["topics"][0]["partitions"]
    offline = [each for each in partitions if first in each["offlineReplicas"]]
    assert offline
    assert not any(each["leaderId"] in (first, -1) for each in offline)
