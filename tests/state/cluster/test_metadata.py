"""Metadata: brokers and topics for clients, and automatic topic creation."""

from typing import Any

import pytest
from msgspec.structs import replace

from brokertwin.state.apis.metadata import cluster_id
from brokertwin.state.cluster.topics import is_uuid
from tests.support.machine import Bench
from tests.support.recorded import exchanges, replay

NOT_REQUESTED = -2147483648


def metadata(bench: Bench, names: list[str] | None, version: int = 12, **body: Any) -> Any:
    topics = None if names is None else [{"name": name} for name in names]
    return bench.request("METADATA", version, body, topics=topics)


def errors(response: Any) -> dict[str, int]:
    return {topic["name"]: topic["errorCode"] for topic in response["topics"]}


def test_whole_session_agrees_with_the_recorded_broker() -> None:
    bench = Bench(offsets_topic_num_partitions=10, transaction_state_log_num_partitions=4)
    recorded = exchanges("topics")
    assert sum(each["api"] == "METADATA" for each in recorded) > 50
    assert replay(bench, recorded) == []


def test_brokers_have_placeholder_addresses_for_the_edge() -> None:
    response = metadata(Bench(brokers=(3, 5)), [])
    assert response["brokers"] == [
        {"nodeId": 3, "host": "localhost", "port": 9095, "rack": None},
        {"nodeId": 5, "host": "localhost", "port": 9097, "rack": None},
    ]
    assert response["controllerId"] == 3


def test_cluster_id_is_chosen_or_derived_from_its_name() -> None:
    bench = Bench()
    body = {"topics": []}
    assert bench.request("METADATA", 12, body)["clusterId"] == cluster_id("bench", None)
    chosen = bench.request("METADATA", 12, body, choices={"clusterId": "eEKE0xL-Q3SH5ckWMqROvA"})
    assert chosen["clusterId"] == "eEKE0xL-Q3SH5ckWMqROvA"
    assert is_uuid(cluster_id("bench", None))
    assert cluster_id("bench", None) != cluster_id("other", None)


@pytest.mark.parametrize("version", range(14))
def test_null_means_all_topics_and_an_empty_list_none_except_in_version_0(version: int) -> None:
    bench = Bench()
    bench.topic("b")
    bench.topic("a")
    assert errors(metadata(bench, [], version)) == ({"a": 0, "b": 0} if version == 0 else {})
    if version > 0:
        assert errors(metadata(bench, None, version)) == {"a": 0, "b": 0}


def test_missing_topic_is_created_for_the_next_request() -> None:
    bench = Bench(num_partitions=3)
    assert errors(metadata(bench, ["new"])) == {"new": 3}
    response = metadata(bench, ["new"])
    assert errors(response) == {"new": 0}
    assert len(response["topics"][0]["partitions"]) == 3


def test_broker_and_client_can_disable_creation() -> None:
    forbidden_by_client = Bench()
    metadata(forbidden_by_client, ["new"], allowAutoTopicCreation=False)
    assert errors(metadata(forbidden_by_client, None)) == {}
    forbidden_by_broker = Bench(auto_create_topics_enable=False)
    metadata(forbidden_by_broker, ["new"], allowAutoTopicCreation=True)
    assert errors(metadata(forbidden_by_broker, None)) == {}


def test_invalid_and_colliding_names_are_not_created() -> None:
    bench = Bench()
    bench.topic("a.b")
    assert errors(metadata(bench, ["bad name", "a_b"])) == {"bad name": 17, "a_b": 3}
    assert errors(metadata(bench, None)) == {"a.b": 0}


def test_id_of_an_automatic_topic_derives_from_the_event() -> None:
    def drawn(**event: Any) -> str:
        bench = Bench()
        bench.request("METADATA", 12, name="new", **event)
        return str(metadata(bench, ["new"])["topics"][0]["topicId"])

    chosen = "12345678901234567890AA"
    assert is_uuid(drawn(nonce="x"))
    assert drawn(nonce="x") == drawn(nonce="x") != drawn(nonce="y")
    assert drawn(choices={"topicIds": {"new": chosen}}) == chosen


def test_authorized_operations_are_returned_on_request_only() -> None:
    bench = Bench()
    bench.topic("a")
    silent = metadata(bench, ["a"], 10)
    assert silent["clusterAuthorizedOperations"] == NOT_REQUESTED
    assert silent["topics"][0]["topicAuthorizedOperations"] == NOT_REQUESTED
    response = metadata(
        bench,
        ["a"],
        10,
        includeClusterAuthorizedOperations=True,
        includeTopicAuthorizedOperations=True,
    )
    assert response["clusterAuthorizedOperations"] == 8096
    assert response["topics"][0]["topicAuthorizedOperations"] == 3576
    assert metadata(bench, ["a"], 10) == silent


def test_cached_description_of_a_topic_is_dropped_when_it_changes() -> None:
    bench = Bench(brokers=(1, 2))
    bench.cell.settings = replace(bench.cell.settings, may_intervene=True)
    bench.topic("a", 2)

    def leaders() -> list[int]:
        (topic,) = metadata(bench, ["a"])["topics"]
        return [each["leaderId"] for each in topic["partitions"]]

    assert leaders() == leaders() == [2, 1]
    bench.request("CREATE_PARTITIONS", 3, name="a", count=3, brokerIds=[2], timeoutMs=1000)
    assert leaders() == [2, 1, 2]
    stop = {"id": "s", "cluster": "bench", "kind": "stop-broker", "broker": 2, "time": bench.now}
    bench.handle(stop)
    assert leaders() == [-1, 1, -1]
    bench.request("DELETE_TOPICS", 6, name="a", timeoutMs=1000)
    assert errors(metadata(bench, ["a"], allowAutoTopicCreation=False)) == {"a": 3}


def test_broker_returns_leaders_and_replicas_of_all_brokers() -> None:
    bench = Bench(brokers=(1, 2, 3), default_replication_factor=2, num_partitions=6)
    metadata(bench, ["new"])
    for broker in (1, 2, 3):
        response = bench.request("METADATA", 12, name="new", broker=broker)
        partitions = response["topics"][0]["partitions"]
        assert sorted(each["leaderId"] for each in partitions) == [1, 1, 2, 2, 3, 3]
        assert all(each["replicaNodes"] == each["isrNodes"] for each in partitions)
