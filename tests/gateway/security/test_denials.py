"""The log of denials: one line a minute for the same denial."""

from typing import Any

import confluent_kafka
import pytest
from structlog.testing import capture_logs

from brokertwin.gateway.engine.engine import EdgeRequest, internal_header
from brokertwin.gateway.security import denials
from brokertwin.gateway.security.denials import AGAIN_AFTER_S, CLUSTER, DenialLog, denied
from brokertwin.protocol.errors import Error
from brokertwin.testing import KafkaBroker
from tests.support.patience import PATIENCE_S

INJECTED = "injected"
TOPIC, GROUP = Error.TOPIC_AUTHORIZATION_FAILED, Error.GROUP_AUTHORIZATION_FAILED
IDS = Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


COMMIT = {"groupId": "g", "transactionalId": "t"}
"""Fields of TxnOffsetCommit and AddOffsetsToTxn."""

TOPOLOGY = {"subtopologies": [{"sourceTopics": ["a"], "stateChangelogTopics": [{"name": "b"}]}]}


def requested(principal: str = "User:bob", body: dict[str, Any] | None = None) -> EdgeRequest:
    return EdgeRequest(1, "c1", principal, "10.0.0.7", internal_header(1, 12, "c"), body or {})


def refused(*topics: str) -> dict[str, Any]:
    partitions = [{"partitionIndex": 0, "errorCode": 29}, {"partitionIndex": 1, "errorCode": 29}]
    return {
        "errorCode": 0,
        "responses": [{"topic": each, "partitions": partitions} for each in topics],
    }


def in_topic(error: int) -> dict[str, Any]:
    return {"topics": [{"name": "orders", "partitions": [{"errorCode": error}]}]}


@pytest.mark.parametrize(
    ("request_body", "response", "found"),
    [
        ({}, refused("a", "b"), [(TOPIC, "a"), (TOPIC, "a"), (TOPIC, "b"), (TOPIC, "b")]),
        ({"groupId": "g"}, {"errorCode": 30}, [(GROUP, "g")]),
        ({"transactionalId": "t", "groupId": None}, {"errorCode": 53}, [(IDS, "t")]),
        ({}, {"errorCode": 31, "name": "x"}, [(Error.CLUSTER_AUTHORIZATION_FAILED, CLUSTER)]),
        ({}, {"results": [{"resourceName": "t", "errorCode": 29}]}, [(TOPIC, "t")]),
        ({"key": "g"}, {"errorCode": 30}, [(GROUP, "g")]),
        (COMMIT, in_topic(30), [(GROUP, "g")]),
        (COMMIT, in_topic(53), [(IDS, "t")]),
        (COMMIT, in_topic(29), [(TOPIC, "orders")]),
        (COMMIT, {"errorCode": 53}, [(IDS, "t")]),
        (COMMIT, {"errorCode": 30}, [(GROUP, "g")]),
        (
            {"v3AndBelowTransactionalId": "t"},
            {"results": [{"name": "orders", "byPartition": [{"partitionErrorCode": 53}]}]},
            [(IDS, "t")],
        ),
        (
            {},
            {"groups": [{"groupId": "g", "errorCode": 30}, {"groupId": "h", **in_topic(29)}]},
            [(GROUP, "g"), (TOPIC, "orders")],
        ),
        (
            {"groupId": "g", "subscribedTopicNames": ["a", "b"]},
            {"errorCode": 29},
            [(TOPIC, "a"), (TOPIC, "b")],
        ),
        ({"groupId": "g", "topology": TOPOLOGY}, {"errorCode": 29}, [(TOPIC, "a"), (TOPIC, "b")]),
        ({"groupId": "g", "protocols": [{"name": "range"}]}, {"errorCode": 29}, [(TOPIC, "")]),
        ({"groupId": "g"}, {"errorCode": 16, "topics": [{"name": "t", "errorCode": 3}]}, []),
    ],
)
def test_denial_is_logged_with_principal_operation_and_resource(
    request_body: dict[str, Any], response: dict[str, Any], found: list[tuple[Error, str]]
) -> None:
    assert list(denied(request_body, response)) == found


def test_repeated_denial_is_logged_once_a_minute_with_a_count() -> None:
    now = 0.0
    denial_log = DenialLog(lambda: now)
    with capture_logs() as logs:
        for _ in range(5):
            denial_log.look(requested(), refused("b", "a"))
        denial_log.look(requested("User:eve"), refused("a", "b"))
        now += AGAIN_AFTER_S
        denial_log.look(requested(), refused("a", "b"))
        denial_log.look(requested(), refused("a"))
    logged = [(each["principal"], each["resource"], each.get("times")) for each in logs]
    assert logged == [
        ("User:bob", "Topic:a,b", None),
        ("User:eve", "Topic:a,b", None),
        ("User:bob", "Topic:a,b", 5),
        ("User:bob", "Topic:a", None),
    ]
    assert logs[0] == {
        "event": "denied",
        "log_level": "info",
        "principal": "User:bob",
        "host": "10.0.0.7",
        "api": "FETCH",
        "error": "TOPIC_AUTHORIZATION_FAILED",
        "resource": "Topic:a,b",
    }


def test_an_injected_error_is_not_logged_as_denied(kafka_broker: KafkaBroker) -> None:
    kafka_broker.create_topic("orders")
    own = {"bootstrap.servers": kafka_broker.bootstrap, "log_level": 0}
    producer, reports = confluent_kafka.Producer(own), []
    producer.list_topics("orders", timeout=PATIENCE_S)
    kafka_broker.fail_next("PRODUCE", TOPIC)
    kafka_broker.fail_next("METADATA", TOPIC, topic="orders")
    with capture_logs() as logs:
        producer.produce("orders", b"one", on_delivery=lambda error, _: reports.append(error))
        assert producer.flush(PATIENCE_S) == 0
        shown = producer.list_topics("orders", timeout=PATIENCE_S)
    assert (reports[0].code(), shown.topics["orders"].error.code()) == (TOPIC, TOPIC)
    events = [(each["event"], each["api"], each["resource"]) for each in logs]
    assert events == [(INJECTED, api, "Topic:orders") for api in ("PRODUCE", "METADATA")]


def test_a_denial_beside_an_injected_error_is_a_denial() -> None:
    with capture_logs() as logs:
        DenialLog().look(requested(), {"errorCode": 30, "topics": refused("a")}, injected=GROUP)
    assert {each["error"]: each["event"] for each in logs} == {
        "GROUP_AUTHORIZATION_FAILED": INJECTED,
        "TOPIC_AUTHORIZATION_FAILED": "denied",
    }


def test_number_of_remembered_denials_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(denials, "KEPT", 2)
    denial_log = DenialLog(lambda: 0.0)
    with capture_logs() as logs:
        for topic in ("a", "b", "b", "c", "a"):
            denial_log.look(requested(), refused(topic))
    assert [each["resource"][-1] for each in logs] == ["a", "b", "c", "a"]
