"""FindCoordinator of groups, transactional ids and share partitions."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokertwin.state.cluster.coordinators import GROUP_TOPIC, leads, partition_for
from brokertwin.state.core.java_hashes import java_hash
from tests.support.machine import Bench
from tests.support.recorded import exchanges, replay

TYPES = {"__consumer_offsets": 0, "__transaction_state": 1}


def look_up(bench: Bench, key_type: int, *keys: str) -> list[dict[str, Any]]:
    body = {"keyType": key_type, "coordinatorKeys": list(keys)}
    coordinators: list[dict[str, Any]] = bench.request("FIND_COORDINATOR", 6, body)["coordinators"]
    return coordinators


def topic(bench: Bench, name: str) -> dict[str, Any]:
    body = {"topics": [{"name": name}], "allowAutoTopicCreation": False}
    result: dict[str, Any] = bench.request("METADATA", 12, body)["topics"][0]
    return result


def test_every_look_up_agrees_with_the_recorded_broker() -> None:
    recorded = [each for each in exchanges("topics") if each["api"] == "FIND_COORDINATOR"]
    assert len(recorded) == 25
    assert replay(Bench(), recorded) == []


@pytest.mark.parametrize(("name", "key_type"), TYPES.items())
def test_first_look_up_creates_the_internal_topic(name: str, key_type: int) -> None:
    bench = Bench(offsets_topic_num_partitions=7, transaction_state_log_num_partitions=7)
    assert topic(bench, name)["errorCode"] == 3
    (first,) = look_up(bench, key_type, "key")
    assert (first["errorCode"], first["nodeId"]) == (15, -1)
    created = topic(bench, name)
    assert (created["isInternal"], len(created["partitions"])) == (True, 7)
    (second,) = look_up(bench, key_type, "key")
    assert (second["errorCode"], second["nodeId"]) == (0, 1)


def test_returned_coordinator_is_the_leader_used_by_checks() -> None:
    """Without the internal topic each broker counts."""
    brokers = (1, 2, 3)
    bench = Bench(brokers, offsets_topic_num_partitions=7)

    def leading(group_id: str) -> list[int]:
        return [
            each for each in brokers if leads(bench.cell.tables.of(each), GROUP_TOPIC, group_id)
        ]

    assert leading("a") == [1, 2, 3]
    look_up(bench, 0, "a")
    actual = {each["key"]: [each["nodeId"]] for each in look_up(bench, 0, *"abcdef")}
    assert {group_id: leading(group_id) for group_id in "abcdef"} == actual


def test_internal_topics_are_created_once() -> None:
    bench = Bench()
    look_up(bench, 0, "a")
    topic_id = topic(bench, "__consumer_offsets")["topicId"]
    look_up(bench, 0, "a", "b")
    assert topic(bench, "__consumer_offsets")["topicId"] == topic_id


def test_replication_factor_is_limited_to_the_number_of_brokers() -> None:
    for brokers, replicas in ((1,), 1), ((1, 2), 2), ((1, 2, 3, 4), 3):
        bench = Bench(brokers=brokers)
        look_up(bench, 0, "a")
        partitions = topic(bench, "__consumer_offsets")["partitions"]
        assert {len(each["replicaNodes"]) for each in partitions} == {replicas}


@given(st.lists(st.text(max_size=12), min_size=1, max_size=20))
def test_coordinator_leads_the_partition_of_the_hash(keys: list[str]) -> None:
    bench = Bench(brokers=(1, 2, 3))
    look_up(bench, 0, *keys)
    partitions = topic(bench, "__consumer_offsets")["partitions"]
    found = look_up(bench, 0, *keys)
    assert [each["key"] for each in found] == keys
    for each in found:
        leader = partitions[partition_for(each["key"], 50)]["leaderId"]
        assert (each["nodeId"], each["port"]) == (leader, 9092 + leader)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("", 0),
        ("a", 97),
        ("group", 98629247),
        ("polygenelubricants", -(2**31)),
        ("\U0001f600", 1772899),
    ],
)
def test_keys_are_hashed_like_java_strings(text: str, number: int) -> None:
    assert java_hash(text) == number
    assert 0 <= partition_for(text, 50) < 50


def test_unknown_key_type_is_an_invalid_request() -> None:
    assert [each["errorCode"] for each in look_up(Bench(), 9, "a", "b")] == [42, 42]


@pytest.mark.parametrize(
    ("key", "java", "partition"),
    [
        ("g", 103, 3),
        ("abcdefg", -1206291356, 6),
        ("polygenelubricants", -2147483648, 0),
    ],
)
def test_negative_hash_counts_without_sign_and_the_least_as_0(
    key: str, java: int, partition: int
) -> None:
    assert java_hash(key) == java
    assert partition_for(key, 50) == partition
