"""DeleteRecords waits until every live replica has raised its log start."""

from typing import Any

import pytest

from brokertwin.protocol.errors import Error
from tests.support.replicas import BROKERS, Replicas


@pytest.fixture
def replicas() -> Replicas:
    """`orders` on brokers 1 to 3, with eight records."""
    made = Replicas(min_insync_replicas="1")
    assert made.produce(count=5)["errorCode"] == 0
    assert made.produce(count=3)["errorCode"] == 0
    return made


def delete(replicas: Replicas, offset: int, timeout_ms: int = 1000, **event: Any) -> Any:
    """Error and low watermark, or None while it is pending."""
    body = {"name": "orders", "partitionIndex": 0, "offset": offset, "timeoutMs": timeout_ms}
    event.setdefault("broker", replicas.partition().leader)
    response = replicas.bench.request("DELETE_RECORDS", 2, body, id="delete", **event)
    return response and outcome(response)


def outcome(response: dict[str, Any]) -> tuple[int, int]:
    partition = response["topics"][0]["partitions"][0]
    return partition["errorCode"], partition["lowWatermark"]


def late(replicas: Replicas) -> tuple[int, int] | None:
    response = replicas.bench.responses.get("delete")
    return None if response is None else outcome(response["response"])


def starts(replicas: Replicas) -> dict[int, int]:
    return {broker: replicas.log(broker).log_start_offset for broker in BROKERS}


def test_fetching_followers_raise_their_start_at_once(replicas: Replicas) -> None:
    assert delete(replicas, 5) == (0, 5)
    assert starts(replicas) == {1: 5, 2: 5, 3: 5}
    assert delete(replicas, 2) == (0, 5)
    assert delete(replicas, 9) == (Error.OFFSET_OUT_OF_RANGE, -1)
    assert delete(replicas, -1) == (0, 8)


def test_example_21_request_waits_for_a_lagging_follower(replicas: Replicas) -> None:
    replicas.isolate(2)
    assert delete(replicas, 5) is None
    assert starts(replicas) == {1: 5, 2: 0, 3: 5}
    replicas.rejoin(2)
    assert late(replicas) == (0, 5)
    assert starts(replicas) == {1: 5, 2: 5, 3: 5}


def test_timeout_returns_the_low_watermark(replicas: Replicas) -> None:
    replicas.isolate(2)
    assert delete(replicas, 5) is None
    replicas.bench.tick(999)
    assert late(replicas) is None
    replicas.bench.tick(1)
    assert late(replicas) == (Error.REQUEST_TIMED_OUT, 0)
    assert replicas.log(1).log_start_offset == 5, "the leader has deleted anyway"


def test_request_does_not_wait_for_a_stopped_broker(replicas: Replicas) -> None:
    replicas.stop(2)
    assert delete(replicas, 5) == (0, 5)


def test_former_leader_returns_not_leader_or_follower(replicas: Replicas) -> None:
    replicas.stop(1)
    replicas.start(1)
    replicas.isolate(3)
    assert delete(replicas, 5) is None
    replicas.bench.request("ELECT_LEADERS", 2, topic="orders", partitions=[0], timeoutMs=1000)
    assert replicas.leader() == (1, 2)
    assert late(replicas) == (Error.NOT_LEADER_OR_FOLLOWER, -1)


def test_deleted_topic_returns_unknown_topic_or_partition(replicas: Replicas) -> None:
    replicas.isolate(2)
    assert delete(replicas, 5) is None
    replicas.bench.request("DELETE_TOPICS", 5, topicNames=["orders"], timeoutMs=1000)
    assert late(replicas) == (Error.UNKNOWN_TOPIC_OR_PARTITION, -1)


def test_partition_with_an_error_keeps_it_while_others_wait(replicas: Replicas) -> None:
    replicas.isolate(2)
    wanted = [{"partitionIndex": 7, "offset": 1}, {"partitionIndex": 0, "offset": 5}]
    body = {"topics": [{"name": "orders", "partitions": wanted}], "timeoutMs": 1000}
    assert replicas.bench.request("DELETE_RECORDS", 2, body, id="delete") is None
    replicas.rejoin(2)
    partitions = replicas.bench.responses["delete"]["response"]["topics"][0]["partitions"]
    actual = [(p["partitionIndex"], p["errorCode"], p["lowWatermark"]) for p in partitions]
    assert actual == [(7, 3, -1), (0, 0, 5)]
