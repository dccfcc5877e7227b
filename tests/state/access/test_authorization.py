"""Authorization of each API: permission, order of checks, and error."""

from typing import Any

import pytest

from brokertwin.protocol.errors import Error
from brokertwin.state.access.authorizer import CLASS_NAME, Operation, PatternType, ResourceType
from tests.support.machine import Bench, header, produce_body
from tests.support.recorded import exchanges, replay

ALICE = "User:alice"
ADMIN = "User:admin"
NO_TRANSACTIONAL_ID = {"transactionalId": None, "transactionTimeoutMs": 60000}

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID


def secured(**settings: Any) -> Bench:
    """A broker with topic `t` that allows everything to `User:admin` only."""
    bench = Bench(
        authorizer_class_name=CLASS_NAME,
        super_users=f"{ADMIN};User:broker",
        offsets_topic_num_partitions=10,
        transaction_state_log_num_partitions=4,
        **settings,
    )
    topic = {"name": "t", "numPartitions": 1, "replicationFactor": 1}
    bench.request("CREATE_TOPICS", 7, {"topics": [topic]}, principal=ADMIN)
    bench.request("FIND_COORDINATOR", 2, key="g", keyType=0, principal=ADMIN)
    bench.request("INIT_PRODUCER_ID", 4, NO_TRANSACTIONAL_ID, principal=ADMIN)
    return bench


def grant(
    bench: Bench,
    operation: Operation,
    resource_type: ResourceType = TOPIC,
    name: str = "t",
    **other: Any,
) -> None:
    acl = {
        "resourceType": resource_type,
        "resourceName": "kafka-cluster" if resource_type is CLUSTER else name,
        "resourcePatternType": PatternType.LITERAL,
        "principal": ALICE,
        "host": "*",
        "operation": operation,
        "permissionType": 3,
        **other,
    }
    response = bench.request("CREATE_ACLS", 3, {"creations": [acl]}, principal=ADMIN)
    assert response["results"][0]["errorCode"] == Error.NONE, response


def partition_of(response: dict[str, Any]) -> int:
    topic = (response.get("topics") or response["responses"])[0]
    partition = (topic.get("partitions") or topic["partitionResponses"])[0]
    return int(partition["errorCode"])


def first_error(response: dict[str, Any]) -> int:
    for kind in ("topics", "responses", "results", "coordinators", "groups"):
        if response.get(kind):
            return int(response[kind][0]["errorCode"])
    return int(response["errorCode"])


def on_partition(**fields: Any) -> dict[str, Any]:
    return {"topics": [{"name": "t", "partitions": [{"partitionIndex": 0, **fields}]}]}


PRODUCE = produce_body("t", header(magic=2))
FETCH = {
    "sessionEpoch": -1,
    "topics": [{"topic": "t", "partitions": [{"partition": 0, "fetchOffset": 0}]}],
}
COMMIT = {"groupId": "g", **on_partition(committedOffset=1)}
OFFSETS = {"groups": [{"groupId": "g", "topics": None}]}
EPOCHS = {"topics": [{"topic": "t", "partitions": [{"partition": 0, "leaderEpoch": 0}]}]}
PRODUCERS = {"topics": [{"name": "t", "partitionIndexes": [0]}]}
NEW = {"topics": [{"name": "n", "numPartitions": 1, "replicationFactor": 1}]}
READ, WRITE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.DESCRIBE

CASES = [
    ("PRODUCE", 9, PRODUCE, partition_of, 29, [(WRITE, TOPIC, "t")]),
    ("FETCH", 12, FETCH, partition_of, 29, [(READ, TOPIC, "t")]),
    ("LIST_OFFSETS", 7, on_partition(timestamp=-1) | {"replicaId": -1}, partition_of, 29,
     [(DESCRIBE, TOPIC, "t")]),
    ("METADATA", 12, {"topics": [{"name": "t"}]}, first_error, 29, [(DESCRIBE, TOPIC, "t")]),
    ("OFFSET_COMMIT", 8, COMMIT, partition_of, 30, [(READ, GROUP, "g"), (READ, TOPIC, "t")]),
    ("OFFSET_FETCH", 8, OFFSETS, first_error, 30, [(DESCRIBE, GROUP, "g")]),
    ("FIND_COORDINATOR", 2, {"key": "g", "keyType": 0}, first_error, 30, [(DESCRIBE, GROUP, "g")]),
    ("CREATE_TOPICS", 7, NEW, first_error, 29, [(Operation.CREATE, TOPIC, "n")]),
    ("CREATE_TOPICS", 7, NEW, first_error, 29, [(Operation.CREATE, CLUSTER, "")]),
    ("CREATE_PARTITIONS", 3, {"topics": [{"name": "t", "count": 2}]}, first_error, 29,
     [(Operation.ALTER, TOPIC, "t")]),
    ("DELETE_TOPICS", 6, {"topics": [{"name": "t"}]}, first_error, 29,
     [(Operation.DELETE, TOPIC, "t")]),
    ("DELETE_TOPICS", 6, {"topics": [{"name": "t"}]}, first_error, 29,
     [(Operation.DELETE, CLUSTER, "")]),
    ("DELETE_RECORDS", 2, on_partition(offset=-1), partition_of, 29,
     [(Operation.DELETE, TOPIC, "t")]),
    ("INIT_PRODUCER_ID", 4, NO_TRANSACTIONAL_ID, first_error, 31, [(WRITE, TOPIC, "other")]),
    ("INIT_PRODUCER_ID", 4, NO_TRANSACTIONAL_ID, first_error, 31,
     [(Operation.IDEMPOTENT_WRITE, CLUSTER, "")]),
    ("OFFSET_FOR_LEADER_EPOCH", 4, EPOCHS, partition_of, 29, [(DESCRIBE, TOPIC, "t")]),
    ("OFFSET_FOR_LEADER_EPOCH", 4, EPOCHS, partition_of, 29,
     [(Operation.CLUSTER_ACTION, CLUSTER, "")]),
    ("DESCRIBE_PRODUCERS", 0, PRODUCERS, partition_of, 29, [(READ, TOPIC, "t")]),
    ("DESCRIBE_TOPIC_PARTITIONS", 0, {"topics": [{"name": "t"}]}, first_error, 29,
     [(DESCRIBE, TOPIC, "t")]),
    ("ALLOCATE_PRODUCER_IDS", 0, {"brokerId": 1, "brokerEpoch": 0}, first_error, 31,
     [(Operation.CLUSTER_ACTION, CLUSTER, "")]),
    ("ALTER_PARTITION", 3, {"brokerId": 1, "brokerEpoch": 0, "topics": []},
     lambda response: response["errorCode"], 31, [(Operation.CLUSTER_ACTION, CLUSTER, "")]),
    ("ELECT_LEADERS", 2, {"electionType": 0, "topicPartitions": []},
     lambda response: response["errorCode"], 31, [(Operation.ALTER, CLUSTER, "")]),
    ("ALTER_PARTITION_REASSIGNMENTS", 1, {"topics": []}, lambda response: response["errorCode"], 31,
     [(Operation.ALTER, CLUSTER, "")]),
    ("LIST_PARTITION_REASSIGNMENTS", 0, {"topics": None}, lambda response: response["errorCode"],
     31, [(DESCRIBE, CLUSTER, "")]),
    ("BROKER_HEARTBEAT", 2, {"brokerId": 1, "brokerEpoch": 0}, first_error, 31,
     [(Operation.CLUSTER_ACTION, CLUSTER, "")]),
    ("UNREGISTER_BROKER", 0, {"brokerId": 1}, first_error, 31, [(Operation.ALTER, CLUSTER, "")]),
    ("UPDATE_FEATURES", 2, {"featureUpdates": []}, lambda response: response["errorCode"], 31,
     [(Operation.ALTER, CLUSTER, "")]),
    ("DESCRIBE_QUORUM", 2, {"topics": []}, lambda response: response["errorCode"], 31,
     [(DESCRIBE, CLUSTER, "")]),
    ("ALTER_REPLICA_LOG_DIRS", 2,
     {"dirs": [{"path": "/tmp/kafka-logs", "topics": [{"name": "t", "partitions": [0]}]}]},
     lambda response: response["results"][0]["partitions"][0]["errorCode"], 31,
     [(Operation.ALTER, CLUSTER, "")]),
    ("DESCRIBE_LOG_DIRS", 5, {"topics": []}, lambda response: response["errorCode"], 31,
     [(DESCRIBE, CLUSTER, "")]),
    ("DESCRIBE_ACLS", 3, {"resourceTypeFilter": 2}, first_error, 31, [(DESCRIBE, CLUSTER, "")]),
]  # fmt: skip


@pytest.mark.parametrize(("api", "version", "body", "error_of", "error", "needed"), CASES)
def test_api_requires_its_permission(
    api: str, version: int, body: dict[str, Any], error_of: Any, error: int, needed: Any
) -> None:
    bench = secured()
    for operation, resource_type, name in needed:
        assert error_of(bench.request(api, version, body, principal=ALICE)) != Error.NONE
        grant(bench, operation, resource_type, name)
    assert error_of(bench.request(api, version, body, principal=ALICE)) == Error.NONE
    assert error_of(secured().request(api, version, body, principal=ALICE)) == error


@pytest.mark.parametrize(("is_required", "error"), [(False, 0), (True, 31)])
def test_write_on_a_topic_suffices_for_idempotence_since_kip_679(
    is_required: bool, error: int
) -> None:
    """Before it, a producer needs IDEMPOTENT_WRITE at both requests (seed 002)."""
    bench = secured(brokertwin_require_idempotent_write=is_required)
    grant(bench, WRITE)
    first = bench.request("INIT_PRODUCER_ID", 4, NO_TRANSACTIONAL_ID, principal=ALICE)
    assert first["errorCode"] == error
    batch = header(1, 7, 0, 0)
    topics = [{"name": "t", "partitionData": [{"index": 0, "batches": [batch]}]}]
    body = {"acks": -1, "timeoutMs": 1000, "topicData": topics}
    assert partition_of(bench.request("PRODUCE", 9, body, principal=ALICE)) == error
    assert partition_of(bench.request("PRODUCE", 9, PRODUCE, principal=ALICE)) == 0
    grant(bench, Operation.IDEMPOTENT_WRITE, CLUSTER, "")
    assert partition_of(bench.request("PRODUCE", 9, body, principal=ALICE)) == 0


def test_whole_session_of_several_clients_agrees_with_the_recorded_broker() -> None:
    """A super user, two clients with ACLs and one without, and every API."""
    bench = Bench(
        authorizer_class_name=CLASS_NAME,
        super_users=f"{ADMIN};User:broker",
        offsets_topic_num_partitions=10,
        transaction_state_log_num_partitions=4,
    )
    bench.request("INIT_PRODUCER_ID", 4, NO_TRANSACTIONAL_ID, principal=ADMIN)
    assert replay(bench, exchanges("authorization")) == []


def test_denied_produce_leaves_the_log_unchanged() -> None:
    bench = secured()
    before = len(bench.records())
    assert partition_of(bench.request("PRODUCE", 9, PRODUCE, principal=ALICE)) == 29
    assert len(bench.records()) == before


def test_acl_of_a_host_applies_to_clients_of_that_host() -> None:
    bench = secured()
    grant(bench, READ, host="10.0.0.1")
    for host, error in (("10.0.0.1", 0), ("10.0.0.2", 29), ("", 29)):
        response = bench.request("FETCH", 12, FETCH, principal=ALICE, host=host)
        assert partition_of(response) == error


def test_requests_of_a_broker_to_the_controller_need_no_acl() -> None:
    """A client without CREATE still causes the creation of `__consumer_offsets`."""
    bench = Bench(authorizer_class_name=CLASS_NAME, super_users=ADMIN)
    grant(bench, DESCRIBE, GROUP, "g")
    body = {"key": "g", "keyType": 0}
    assert first_error(bench.request("FIND_COORDINATOR", 2, body, principal=ALICE)) == 15
    assert first_error(bench.request("FIND_COORDINATOR", 2, body, principal=ALICE)) == 0


def test_topic_is_created_only_with_create_permission() -> None:
    bench = secured(auto_create_topics_enable=True)
    body = {"topics": [{"name": "new"}], "allowAutoTopicCreation": True}
    grant(bench, DESCRIBE, name="new")
    assert first_error(bench.request("METADATA", 12, body, principal=ALICE)) == 29
    assert first_error(bench.request("METADATA", 12, body, principal=ALICE)) == 29
    grant(bench, Operation.CREATE, name="new")
    assert first_error(bench.request("METADATA", 12, body, principal=ALICE)) == 3
    assert first_error(bench.request("METADATA", 12, body, principal=ALICE)) == 0


def test_transactional_batches_require_the_transactional_id() -> None:
    bench = secured()
    grant(bench, WRITE)
    batch = header(1, 1, 0, 0, magic=2, isTransactional=True)
    body = produce_body("t", batch, transactionalId="x")
    assert partition_of(bench.request("PRODUCE", 9, body, principal=ALICE)) == 53
    event_id = bench.send("PRODUCE", 9, body, acks=0, principal=ALICE)
    assert bench.responses[event_id]["closesConnection"] is True


def test_without_an_authorizer_everything_is_allowed() -> None:
    bench = Bench()
    bench.topic("t")
    assert partition_of(bench.request("PRODUCE", 9, PRODUCE, principal=ALICE)) == 0
    body = {"topics": [{"name": "t"}], "includeTopicAuthorizedOperations": True}
    response = bench.request("METADATA", 9, {**body, "includeClusterAuthorizedOperations": True})
    assert response["topics"][0]["topicAuthorizedOperations"] == 3576
    assert response["clusterAuthorizedOperations"] == 8096
