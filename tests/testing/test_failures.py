"""Responses of `fail_next`: readable in every version, and nothing is processed."""

from typing import Any

import pytest

from brokertwin.gateway.admin.api_versions import SERVED
from brokertwin.gateway.edge_fields import Address
from brokertwin.gateway.faults.fault import OF_THE_CONNECTION
from brokertwin.protocol.errors import Error
from brokertwin.protocol.kafka_apis import KAFKA_APIS
from brokertwin.protocol.schemas import API_NAMES
from brokertwin.testing import KafkaBroker
from tests.gateway.test_refusals import codes_in
from tests.support.batches import batch
from tests.support.bodies import full_body
from tests.support.gateways import Client

REFUSED = Error.CLUSTER_AUTHORIZATION_FAILED
VERSIONS = [
    (KAFKA_APIS[key].name, version)
    for key, api in SERVED.items()
    for version in range(api.versions[0], api.versions[1] + 1)
    if key not in OF_THE_CONNECTION
]
REPORTED_BY_NO_DIRECTORIES = {("DESCRIBE_LOG_DIRS", 1), ("DESCRIBE_LOG_DIRS", 2)}
"""Without an error code: clients treat a response without directories as rejected."""


@pytest.fixture
def client(kafka_broker: KafkaBroker) -> Client:
    host, port = kafka_broker.bootstrap.split(":")
    return Client(Address(host, int(port)))


def partition(index: int, data: bytes | None = None) -> dict[str, Any]:
    return {"index": index, "records": data or batch(b"value")}


def produce(client: Client, *topics: dict[str, Any], acks: int = -1) -> dict[str, Any]:
    return client.call("PRODUCE", 9, acks=acks, timeoutMs=1000, topicData=list(topics))


def codes(response: dict[str, Any]) -> dict[tuple[str, int], int]:
    return {
        (topic["name"], partition["index"]): partition["errorCode"]
        for topic in response["responses"]
        for partition in topic["partitionResponses"]
    }


def test_every_api_fails_in_every_version(kafka_broker: KafkaBroker, client: Client) -> None:
    kafka_broker.create_topic("there")
    for api, version in VERSIONS:
        check_fails(kafka_broker, client, api, version)


def check_fails(kafka_broker: KafkaBroker, client: Client, api: str, version: int) -> None:
    trouble = kafka_broker.fail_next(api, REFUSED)
    key = next(key for key, known in KAFKA_APIS.items() if known.name == api)
    body = full_body(f"{API_NAMES[key]}Request", version, is_null=False)
    if api == "METADATA":
        body = {**body, "topics": [{"name": "there"}]}
    if api == "FETCH":
        body = {**body, "replicaId": -1, "replicaState": {}, "sessionId": 0, "sessionEpoch": -1}
    before = columns(kafka_broker)
    response = client.call(api, version, body)
    assert trouble.hits == 1, (api, version)
    if (api, version) not in REPORTED_BY_NO_DIRECTORIES:
        assert REFUSED in codes_in(response), (api, version)
    assert codes_in(response) <= {REFUSED, Error.NONE}, (api, version)
    assert columns(kafka_broker) == before, f"{api} has been handled in version {version}"


def columns(broker: KafkaBroker) -> dict[str, bytes]:
    """Return the cluster's state without its clock."""
    return broker._call(lambda: broker._engine.tables.columns())


def test_only_the_selected_partition_fails(kafka_broker: KafkaBroker, client: Client) -> None:
    kafka_broker.create_topic("orders", 3)
    kafka_broker.create_topic("payments")
    kafka_broker.fail_next("PRODUCE", "NOT_LEADER_OR_FOLLOWER", topic="orders", partition=1)
    orders = {"name": "orders", "partitionData": [partition(0), partition(1)]}
    payments = {"name": "payments", "partitionData": [partition(0)]}
    actual = codes(produce(client, orders, payments))
    error = Error.NOT_LEADER_OR_FOLLOWER
    assert actual == {("orders", 0): 0, ("orders", 1): error, ("payments", 0): 0}
    assert [record.partition for record in kafka_broker.records("orders")] == [0]
    assert len(kafka_broker.records("payments")) == 1


def test_a_rule_for_a_topic_does_not_affect_others(
    kafka_broker: KafkaBroker, client: Client
) -> None:
    kafka_broker.create_topic("orders")
    kafka_broker.create_topic("payments")
    trouble = kafka_broker.fail_next("PRODUCE", "KAFKA_STORAGE_ERROR", topic="orders")
    assert codes(produce(client, {"name": "payments", "partitionData": [partition(0)]})) == {
        ("payments", 0): 0
    }
    assert trouble.hits == 0
    produce(client, {"name": "orders", "partitionData": [partition(0)]})
    assert trouble.hits == 1


def test_the_bytes_of_a_failed_batch_are_dropped(kafka_broker: KafkaBroker, client: Client) -> None:
    kafka_broker.create_topic("orders", 2)
    kafka_broker.fail_next("PRODUCE", "KAFKA_STORAGE_ERROR")
    kafka_broker.fail_next("PRODUCE", "KAFKA_STORAGE_ERROR", topic="orders", partition=1)
    both = {"name": "orders", "partitionData": [partition(0), partition(1)]}
    produce(client, both)
    produce(client, both)
    assert len(kafka_broker._engine._store) == 1  # type: ignore[arg-type]


def test_a_failing_produce_with_acks_0_closes_its_connection(
    kafka_broker: KafkaBroker, client: Client
) -> None:
    kafka_broker.create_topic("orders", 2)
    kafka_broker.fail_next("PRODUCE", "KAFKA_STORAGE_ERROR", topic="orders", partition=1)
    both = {"name": "orders", "partitionData": [partition(0), partition(1)]}
    client.send("PRODUCE", 9, {"acks": 0, "timeoutMs": 1000, "topicData": [both]})
    assert client.is_closed()
    assert [record.partition for record in kafka_broker.records("orders")] == [0]


def test_a_failing_commit_creates_no_group(kafka_broker: KafkaBroker, client: Client) -> None:
    kafka_broker.create_topic("orders")
    kafka_broker.fail_next("OFFSET_COMMIT", "NOT_COORDINATOR", topic="orders")
    committed = {"name": "orders", "partitions": [{"partitionIndex": 0, "committedOffset": 5}]}
    body = {"groupId": "g", "generationIdOrMemberEpoch": -1, "memberId": "", "topics": [committed]}
    (topic,) = client.call("OFFSET_COMMIT", 8, body)["topics"]
    assert topic["partitions"][0]["errorCode"] == Error.NOT_COORDINATOR
    assert client.call("LIST_GROUPS", 4, {})["groups"] == []


def fetch(client: Client, version: int, **body: Any) -> dict[str, Any]:
    return client.call("FETCH", version, {"maxBytes": 1000, "sessionEpoch": -1, **body})


def errors_of(response: dict[str, Any]) -> dict[int, int]:
    return {
        partition["partitionIndex"]: partition["errorCode"]
        for topic in response["responses"]
        for partition in topic["partitions"]
    }


@pytest.mark.parametrize("version", [12, 13])
def test_a_partition_fails_in_an_incremental_fetch(
    kafka_broker: KafkaBroker, client: Client, version: int
) -> None:
    topic_id = kafka_broker.create_topic("orders", 2)
    kafka_broker.produce("orders", "first")
    partitions = [{"partition": p, "partitionMaxBytes": 1000} for p in (0, 1)]
    topics = [{"topic": "orders", "topicId": topic_id, "partitions": partitions}]
    opened = fetch(client, version, sessionEpoch=0, topics=topics)
    kafka_broker.fail_next("FETCH", "OFFSET_OUT_OF_RANGE", topic="orders", partition=1)
    session = {"sessionId": opened["sessionId"], "maxWaitMs": 5000, "minBytes": 10_000}
    failed = fetch(client, version, **session, sessionEpoch=1)
    assert errors_of(failed) == {0: 0, 1: Error.OFFSET_OUT_OF_RANGE}
    following = fetch(client, version, **{**session, "maxWaitMs": 0}, sessionEpoch=2)
    assert (following["errorCode"], errors_of(following)) == (0, {0: 0})


@pytest.mark.parametrize(
    ("error", "whole", "parts"),
    [
        (Error.FETCH_SESSION_ID_NOT_FOUND, Error.FETCH_SESSION_ID_NOT_FOUND, {}),
        (Error.NOT_LEADER_OR_FOLLOWER, Error.NONE, {0: Error.NOT_LEADER_OR_FOLLOWER}),
    ],
)
def test_errors_of_a_whole_fetch_and_of_its_partitions(
    kafka_broker: KafkaBroker, client: Client, error: Error, whole: Error, parts: dict[int, Error]
) -> None:
    kafka_broker.produce("orders", "first")
    kafka_broker.fail_next("FETCH", error)
    partitions = [{"partition": 0, "partitionMaxBytes": 1000}]
    response = fetch(client, 12, topics=[{"topic": "orders", "partitions": partitions}])
    assert (response["errorCode"], errors_of(response)) == (whole, parts)


def test_metadata_returns_brokers_and_errors_of_topics(
    kafka_broker: KafkaBroker, client: Client
) -> None:
    kafka_broker.create_topic("orders")
    kafka_broker.create_topic("payments")
    for wanted in (None, [{"name": "orders"}, {"name": "payments"}]):
        kafka_broker.fail_next("METADATA", "LEADER_NOT_AVAILABLE", topic="orders")
        response = client.call("METADATA", 12, topics=wanted)
        found = {topic["name"]: topic["errorCode"] for topic in response["topics"]}
        assert (found["orders"], found["payments"]) == (Error.LEADER_NOT_AVAILABLE, 0)
        assert len(response["brokers"]) == 1


def test_metadata_without_topics_cannot_return_an_error(
    kafka_broker: KafkaBroker, client: Client
) -> None:
    trouble = kafka_broker.fail_next("METADATA", "LEADER_NOT_AVAILABLE")
    client.call("METADATA", 12, topics=[])
    assert trouble.hits == 0


def test_a_failing_topic_in_metadata_is_not_created(
    kafka_broker: KafkaBroker, client: Client
) -> None:
    kafka_broker.fail_next("METADATA", "LEADER_NOT_AVAILABLE")
    client.call("METADATA", 12, name="new", allowAutoTopicCreation=True)
    topics = client.call("METADATA", 12, topics=None)["topics"]
    assert [topic["name"] for topic in topics if not topic["isInternal"]] == []


def test_a_partition_of_a_groups_offsets_fails(kafka_broker: KafkaBroker, client: Client) -> None:
    kafka_broker.create_topic("orders", 2)
    kafka_broker.coordinator("g")
    kafka_broker.fail_next(
        "OFFSET_FETCH", "COORDINATOR_LOAD_IN_PROGRESS", topic="orders", partition=1
    )
    response = client.call("OFFSET_FETCH", 8, groupId="g", name="orders", partitionIndexes=[0, 1])
    (group,) = response["groups"]
    partitions = {p["partitionIndex"]: p["errorCode"] for p in group["topics"][0]["partitions"]}
    assert partitions == {0: 0, 1: Error.COORDINATOR_LOAD_IN_PROGRESS}
