"""ElectLeaders: preferred and unclean elections, with every error of Kafka 4.3.1."""

from typing import Any

import pytest

from brokertwin.protocol.errors import Error
from tests.support.machine import Bench
from tests.support.replicas import BROKERS, Replicas

PREFERRED, UNCLEAN = 0, 1


def elect(
    bench: Bench, election_type: int, partitions: list[int] | None, version: int = 2, **other: Any
) -> dict[str, Any]:
    topics = None if partitions is None else [{"topic": "orders", "partitions": partitions}]
    alive = other.pop("broker", bench.settings.brokers[0])
    body = {"electionType": election_type, "topicPartitions": topics, "timeoutMs": 10_000, **other}
    response: dict[str, Any] = bench.request("ELECT_LEADERS", version, body, broker=alive)
    return response


def errors(response: dict[str, Any]) -> list[tuple[int, int]]:
    return [
        (each["partitionId"], each["errorCode"])
        for topic in response["replicaElectionResults"]
        for each in topic["partitionResult"]
    ]


@pytest.fixture
def replicas() -> Replicas:
    """`orders` on brokers 1 to 3; 2 has led since 1 was stopped."""
    made = Replicas()
    made.produce(count=3)
    made.stop(1)
    made.start(1)
    assert made.leader() == (2, 1)
    return made


def test_preferred_replica_leads_again_in_a_new_epoch(replicas: Replicas) -> None:
    response = elect(replicas.bench, PREFERRED, [0])
    result = {"partitionId": 0, "errorCode": 0, "errorMessage": None}
    results = [{"topic": "orders", "partitionResult": [result]}]
    fields = {"throttleTimeMs": 0, "errorCode": 0, "replicaElectionResults": results}
    assert response == fields
    assert replicas.leader() == (1, 2)
    assert replicas.isr() == [1, 2, 3]
    assert replicas.produce(count=2)["baseOffset"] == 3
    assert replicas.watermarks() == dict.fromkeys(BROKERS, (5, 5))


def test_pending_produce_at_the_old_leader_returns_the_new_one(replicas: Replicas) -> None:
    replicas.isolate(3)
    assert replicas.produce(broker=2) is None
    elect(replicas.bench, PREFERRED, [0])
    assert replicas.late_errors() == [Error.NOT_LEADER_OR_FOLLOWER]


def test_election_of_the_current_leader_is_not_needed(replicas: Replicas) -> None:
    elect(replicas.bench, PREFERRED, [0])
    response = elect(replicas.bench, PREFERRED, [0, 0])
    (topic,) = response["replicaElectionResults"]
    text = "Leader election not needed for topic partition."
    refused = {"partitionId": 0, "errorCode": Error.ELECTION_NOT_NEEDED, "errorMessage": text}
    assert topic["partitionResult"] == [refused] * 2
    assert errors(elect(replicas.bench, UNCLEAN, [0])) == [(0, Error.ELECTION_NOT_NEEDED)]
    assert replicas.leader() == (1, 2)


def test_unknown_topics_and_partitions(replicas: Replicas) -> None:
    topics = [{"topic": "orders", "partitions": [7]}, {"topic": "nope", "partitions": [0]}]
    response = elect(replicas.bench, PREFERRED, [], topicPartitions=topics)
    replica_election_results = [
        each for topic in response["replicaElectionResults"] for each in topic["partitionResult"]
    ]
    assert [each["errorCode"] for each in replica_election_results] == [
        Error.UNKNOWN_TOPIC_OR_PARTITION
    ] * 2
    texts = ["No such partition as orders-7", "No such topic as nope"]
    assert [each["errorMessage"] for each in replica_election_results] == texts


def test_stopped_or_out_of_sync_preferred_replica_is_not_available() -> None:
    replicas = Replicas(min_insync_replicas="1")
    replicas.stop(1)
    response = elect(replicas.bench, PREFERRED, [0], broker=2)
    assert errors(response) == [(0, Error.PREFERRED_LEADER_NOT_AVAILABLE)]
    replicas.isolate(1)
    replicas.start(1)
    assert replicas.isr() == [2, 3]
    response = elect(replicas.bench, PREFERRED, [0])
    assert errors(response) == [(0, Error.PREFERRED_LEADER_NOT_AVAILABLE)]
    text = "The preferred leader was not available."
    (topic,) = response["replicaElectionResults"]
    assert topic["partitionResult"][0]["errorMessage"] == text
    assert replicas.leader() == (2, 1)


def test_unclean_election_chooses_a_live_replica_and_loses_records() -> None:
    replicas = Replicas(min_insync_replicas="1")
    replicas.leave_only_the_leader()
    replicas.produce(count=4)
    replicas.stop(1, 2, 3)
    replicas.rejoin(2, 3)
    replicas.start(2)
    assert replicas.leader() == (-1, 1), "2 is not in sync"
    assert errors(elect(replicas.bench, PREFERRED, [0], broker=2)) == [
        (0, Error.PREFERRED_LEADER_NOT_AVAILABLE)
    ]
    assert errors(elect(replicas.bench, UNCLEAN, [0], broker=2)) == [(0, Error.NONE)]
    assert (replicas.leader(), replicas.isr()) == ((2, 2), [2])
    assert replicas.partition().leader_recovery_state == 1
    lost = replicas.watermarks()[1]
    replicas.start(1, 3)
    assert replicas.watermarks()[1] < lost
    assert sorted(replicas.isr()) == [1, 2, 3]
    assert replicas.partition().leader_recovery_state == 0


def test_no_live_replica_is_not_eligible() -> None:
    replicas = Replicas(bench=Bench((1, 2, 3, 4)))
    replicas.stop(1, 2, 3)
    response = elect(replicas.bench, UNCLEAN, [0], broker=4)
    assert errors(response) == [(0, Error.ELIGIBLE_LEADERS_NOT_AVAILABLE)]
    text = "Eligible topic partition leaders are not available."
    (topic,) = response["replicaElectionResults"]
    assert topic["partitionResult"][0]["errorMessage"] == text


def test_null_elects_all_and_omits_partitions_without_need(replicas: Replicas) -> None:
    topic = {"name": "other", "numPartitions": 3, "replicationFactor": 1}
    replicas.bench.request("CREATE_TOPICS", 7, {"topics": [topic], "timeoutMs": 1000})
    response = elect(replicas.bench, PREFERRED, None)
    results = {
        each["topic"]: each["partitionResult"] for each in response["replicaElectionResults"]
    }
    done = [{"partitionId": 0, "errorCode": 0, "errorMessage": None}]
    assert results == {"orders": done, "other": []}
    assert replicas.leader() == (1, 2)


@pytest.mark.parametrize(
    ("body", "error", "text"),
    [
        ({"electionType": 5}, Error.INVALID_REQUEST, "Unknown election type 5"),
        ({"timeoutMs": 0}, Error.REQUEST_TIMED_OUT, None),
        ({"timeoutMs": -1}, Error.REQUEST_TIMED_OUT, None),
    ],
)
def test_request_error_is_returned_for_each_partition(
    replicas: Replicas, body: dict[str, Any], error: Error, text: str | None
) -> None:
    response = elect(replicas.bench, PREFERRED, [0], **body)
    result = {"partitionId": 0, "errorCode": error, "errorMessage": text}
    results = [{"topic": "orders", "partitionResult": [result]}]
    fields = {"throttleTimeMs": 0, "errorCode": error, "replicaElectionResults": results}
    assert response == fields
    assert replicas.leader() == (2, 1)


def test_empty_request_has_an_empty_response(replicas: Replicas) -> None:
    response = elect(replicas.bench, 5, [], topicPartitions=[], timeoutMs=0)
    assert response == {"throttleTimeMs": 0, "errorCode": 0, "replicaElectionResults": []}


def test_version_0_has_only_preferred_elections(replicas: Replicas) -> None:
    response = elect(replicas.bench, UNCLEAN, [0], version=0)
    assert "errorCode" not in response
    assert errors(response) == [(0, Error.NONE)]
    assert replicas.leader() == (1, 2)


def test_groups_move_with_an_election_and_back() -> None:
    bench = Bench(BROKERS, offsets_topic_num_partitions=1)
    bench.settings.may_intervene = True
    replicas = Replicas(bench=bench)
    bench.request("FIND_COORDINATOR", 3, key="g", keyType=0)
    first = bench.request("FIND_COORDINATOR", 3, key="g", keyType=0)["nodeId"]
    offsets = [{"partitionIndex": 0, "committedOffset": 7}]
    body = {"groupId": "g", "generationIdOrMemberEpoch": -1}
    body["topics"] = [{"name": "orders", "partitions": offsets}]
    bench.request("OFFSET_COMMIT", 8, body, broker=first)
    replicas.stop(first)
    replicas.start(first)
    second = bench.request("FIND_COORDINATOR", 3, key="g", keyType=0)["nodeId"]
    assert second != first
    topics = [{"topic": "__consumer_offsets", "partitions": [0]}]
    assert errors(elect(bench, PREFERRED, [], topicPartitions=topics)) == [(0, Error.NONE)]
    third = bench.request("FIND_COORDINATOR", 3, key="g", keyType=0)["nodeId"]
    assert third == first
    groups = {"groups": [{"groupId": "g", "topics": [{"name": "orders", "partitionIndexes": [0]}]}]}
    response = bench.request("OFFSET_FETCH", 8, groups, broker=third)
    (partition,) = response["groups"][0]["topics"][0]["partitions"]
    assert partition["committedOffset"] == 7
    refused = bench.request("OFFSET_FETCH", 8, groups, broker=second)
    assert refused["groups"][0]["errorCode"] == Error.NOT_COORDINATOR
    assert bench.cell.tables.groups.keys(f"{second}/") == []


def test_unclean_election_of_an_internal_topic_loses_offsets() -> None:
    bench = Bench(BROKERS, offsets_topic_num_partitions=1)
    bench.settings.may_intervene = True
    replicas = Replicas(bench=bench)
    bench.request("FIND_COORDINATOR", 3, key="g", keyType=0)
    first = bench.request("FIND_COORDINATOR", 3, key="g", keyType=0)["nodeId"]
    others = [broker for broker in BROKERS if broker != first]
    replicas.isolate(*others)
    offsets = [{"partitionIndex": 0, "committedOffset": 7}]
    body = {"groupId": "g", "generationIdOrMemberEpoch": -1}
    body["topics"] = [{"name": "orders", "partitions": offsets}]
    bench.request("OFFSET_COMMIT", 8, body, broker=first)
    bench.tick(120_000)
    replicas.stop(first)
    replicas.rejoin(*others)
    topics = [{"topic": "__consumer_offsets", "partitions": [0]}]
    body = {"electionType": UNCLEAN, "topicPartitions": topics, "timeoutMs": 1000}
    response = bench.request("ELECT_LEADERS", 2, body, broker=others[0])
    assert errors(response) == [(0, Error.NONE)]
    groups = {"groups": [{"groupId": "g", "topics": [{"name": "orders", "partitionIndexes": [0]}]}]}
    node_id = bench.request("FIND_COORDINATOR", 3, key="g", keyType=0, broker=others[0])["nodeId"]
    response = bench.request("OFFSET_FETCH", 8, groups, broker=node_id)
    (partition,) = response["groups"][0]["topics"][0]["partitions"]
    assert partition["committedOffset"] == -1
