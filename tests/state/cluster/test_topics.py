"""Creating, deleting and growing topics, with the errors and messages of Kafka 4.3.1."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokertwin.state.cluster import topics
from brokertwin.state.cluster.machines import Usable
from tests.support.examples import examples
from tests.support.machine import Bench
from tests.support.recorded import exchanges, replay

CAPTURES = Path(__file__).parents[2] / "captures"

OTHER_SETTINGS = {
    "compression.lz4.level": "9",
    "compression.type": "zstd",
    "log.cleaner.max.compaction.lag.ms": "500",
    "log.cleanup.policy": "compact",
    "log.flush.scheduler.interval.ms": "777",
    "log.message.timestamp.type": "LogAppendTime",
    "log.retention.hours": "24",
    "log.retention.minutes": "-1",
    "log.roll.hours": "12",
    "log.roll.jitter.hours": "2",
    "message.max.bytes": "2000000",
    "min.insync.replicas": "2",
}

names = st.text(alphabet="ab._- é", max_size=4)


def create(bench: Bench, name: str, partitions: int = 1, **topic: Any) -> dict[str, Any]:
    wanted = {"name": name, "numPartitions": partitions, "replicationFactor": 1, **topic}
    response = bench.request("CREATE_TOPICS", 7, {"topics": [wanted]})
    result: dict[str, Any] = response["topics"][0]
    return result


def all_topics(bench: Bench, **event: Any) -> dict[str, int]:
    response = bench.request("METADATA", 12, topics=None, **event)
    return {topic["name"]: len(topic["partitions"]) for topic in response["topics"]}


@pytest.mark.parametrize("file", ["topics", "topic_configs"])
def test_whole_session_agrees_with_the_recorded_broker(file: str) -> None:
    bench = Bench(offsets_topic_num_partitions=10, transaction_state_log_num_partitions=4)
    assert replay(bench, exchanges(file)) == []


def test_broker_with_other_settings_agrees_with_the_recorded_one() -> None:
    bench = Bench(
        auto_create_topics_enable=False,
        delete_topic_enable=False,
        num_partitions=3,
        given=OTHER_SETTINGS,
    )
    recorded = exchanges("other_settings")
    assert {each["api"] for each in recorded} == {"CREATE_TOPICS", "DELETE_TOPICS", "METADATA"}
    assert replay(bench, recorded) == []


def test_changed_recording_is_found() -> None:
    recorded = exchanges("topic_configs")[:3]
    recorded[1]["response"]["topics"][0]["errorCode"] = 40
    assert [case for case, _, _ in replay(Bench(), recorded)] == ["CREATE_TOPICS v7: setting"]


def test_new_topic_has_all_settings_as_captured() -> None:
    with gzip.open(CAPTURES / "admin_kp.jsonl.gz", "rt", encoding="utf-8") as lines:
        documents = [json.loads(line) for line in lines]
    captured = next(
        document for document in documents if document["requestHeader"]["requestApiKey"] == 19
    )
    ids = {topic["name"]: topic["topicId"] for topic in captured["response"]["topics"]}
    response = Bench().request("CREATE_TOPICS", 7, captured["request"], choices={"topicIds": ids})
    assert json.dumps(response) == json.dumps(captured["response"])


def test_topic_is_deleted_with_its_logs_and_offsets() -> None:
    bench = Bench()
    untouched = bench.cell.columns()["logs"]
    bench.topic("orders", 3)
    assert bench.cell.columns()["logs"] != untouched
    bench.request("DELETE_TOPICS", 5, topicNames=["orders"])
    assert bench.cell.columns()["logs"] in (untouched, b"\x80")
    assert all_topics(bench) == {}


def test_recreated_topic_has_another_id() -> None:
    bench = Bench()
    first = bench.topic("orders")
    bench.request("DELETE_TOPICS", 5, topicNames=["orders"])
    assert bench.topic("orders") != first


@pytest.mark.parametrize(
    "chosen", ["AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAQ", "short", "", "é" * 22, "x" * 22]
)
def test_invalid_chosen_id_is_ignored(chosen: str) -> None:
    body = {"topics": [{"name": "orders", "numPartitions": 1, "replicationFactor": 1}]}
    response = Bench().request("CREATE_TOPICS", 7, body, choices={"topicIds": {"orders": chosen}})
    assert response["topics"][0]["errorCode"] == 0
    assert response["topics"][0]["topicId"] != chosen


def test_chosen_id_of_another_topic_is_ignored() -> None:
    bench = Bench()
    taken = bench.topic("orders")
    body = {"topics": [{"name": "other", "numPartitions": 1, "replicationFactor": 1}]}
    response = bench.request("CREATE_TOPICS", 7, body, choices={"topicIds": {"other": taken}})
    assert response["topics"][0]["topicId"] not in ("", taken)


@pytest.mark.parametrize("timeout", [0, -1])
def test_expired_timeout_changes_nothing(timeout: int) -> None:
    bench = Bench()
    bench.topic("there")
    body = {"topics": [{"name": "new", "numPartitions": 1, "replicationFactor": 1}]}
    created = bench.request("CREATE_TOPICS", 7, body, timeoutMs=timeout)["topics"]
    body = {"topics": [{"name": "there"}], "timeoutMs": timeout}
    deleted = bench.request("DELETE_TOPICS", 6, body)["responses"]
    body = {"topics": [{"name": "there", "count": 2}], "timeoutMs": timeout}
    grown = bench.request("CREATE_PARTITIONS", 3, body)["results"]
    assert [each["errorCode"] for each in (*created, *deleted, *grown)] == [7, 7, 7]
    assert all_topics(bench) == {"there": 1}


def test_choice_does_not_create_a_rejected_topic() -> None:
    body = {"topics": [{"name": "bad name", "numPartitions": 1, "replicationFactor": 1}]}
    choices = {"topicIds": {"bad name": "12345678901234567890AA"}}
    response = Bench().request("CREATE_TOPICS", 7, body, choices=choices)
    assert response["topics"][0]["errorCode"] == 17


def test_replicas_of_several_brokers() -> None:
    bench = Bench(brokers=(1, 2, 3))
    assert create(bench, "a", 4, replicationFactor=3)["replicationFactor"] == 3
    refused = create(bench, "b", 1, replicationFactor=4)
    assert refused["errorCode"] == 38
    assert "only 3 broker(s) are registered" in refused["errorMessage"]
    uneven = [{"partitionIndex": 0, "brokerIds": [1, 2]}, {"partitionIndex": 1, "brokerIds": [3]}]
    refused = create(bench, "c", -1, replicationFactor=-1, assignments=uneven)
    assert refused["errorCode"] == 39
    assert "has 2" not in refused["errorMessage"]
    assert "which have 2 replica(s)" in refused["errorMessage"]


@given(
    st.text(min_size=1, max_size=5),
    st.lists(st.integers(0, 9), unique=True, min_size=1, max_size=5),
    st.integers(0, 20),
    st.integers(1, 30),
    st.data(),
)
def test_replicas_go_round_the_brokers(
    name: str, brokers: list[int], first: int, count: int, data: st.DataObject
) -> None:
    factor = data.draw(st.integers(1, len(brokers)))
    alive = data.draw(st.integers(1, len(brokers)))
    usable = Usable(brokers[:alive], brokers[alive:])
    placed = topics.place(name, usable, first, count, factor)
    assert all(len(set(replicas)) == factor for replicas in placed)
    leads = [sum(replicas[0] == broker for replicas in placed) for broker in usable.alive]
    assert sum(leads) == count
    assert max(leads) - min(leads) <= 1
    fenced = [len(set(replicas) & set(usable.fenced)) for replicas in placed]
    assert fenced == [max(factor - alive, 0)] * count
    assert topics.place(name, usable, 0, first + count, factor)[first:] == placed


@given(st.lists(st.text(max_size=8), max_size=3))
def test_derived_ids_are_valid_and_never_start_with_a_dash(parts: list[str]) -> None:
    derived = topics.derive_uuid(*parts)
    assert topics.is_uuid(derived)
    assert not derived.startswith("-")
    assert derived == topics.derive_uuid(*parts)


requests = st.one_of(
    st.tuples(st.just("create"), names, st.integers(-2, 5)),
    st.tuples(st.just("delete"), names, st.just(0)),
    st.tuples(st.just("grow"), names, st.integers(0, 8)),
)


@settings(max_examples=examples(25))
@given(st.lists(requests, max_size=15))
def test_topics_equal_the_accepted_requests(
    requested: list[tuple[str, str, int]],
) -> None:
    bench = Bench(brokers=(1, 2))
    expected: dict[str, int] = {}
    for kind, name, count in requested:
        if kind == "create":
            result = create(bench, name, count)
            if result["errorCode"] == 0:
                assert name not in expected
                expected[name] = 1 if count == -1 else count
            assert topics.name_error(name) is None or result["errorCode"] == 17
        elif kind == "delete":
            body = {"topics": [{"name": name}]}
            result = bench.request("DELETE_TOPICS", 6, body)["responses"][0]
            assert result["errorCode"] == (0 if name in expected else 3)
            expected.pop(name, None)
        else:
            body = {"topics": [{"name": name, "count": count, "assignments": None}]}
            result = bench.request("CREATE_PARTITIONS", 3, body)["results"][0]
            grows = name in expected and count > expected[name]
            assert result["errorCode"] == (0 if grows else 37 if name in expected else 3)
            expected[name] = max(count, expected[name]) if name in expected else 0
            if not expected[name]:
                del expected[name]
    assert all_topics(bench, broker=1) == all_topics(bench, broker=2) == expected
