"""Keys and timestamps of records, as checked by Apache Kafka 4.3.1."""

from typing import Any

import pytest

from tests.support.machine import START, Bench, header

DAY_MS = 86_400_000
COMPACTED, BOTH = {"cleanup_policy": "compact"}, {"cleanup_policy": "compact,delete"}
OLD = {"message_timestamp_before_max_ms": "1000"}
APPEND_TIME = {"message_timestamp_type": "LogAppendTime"}
BATCH = header(2, baseTimestamp=START, maxTimestamp=START)
LATE = {**BATCH, "maxTimestamp": START + DAY_MS}
KEYLESS = {"hasKeyless": True}


def produced(
    configs: dict[str, str], batch: dict[str, Any], seen: dict[str, Any] | None, **settings: Any
) -> dict[str, Any]:
    """Response to a batch; `seen` is the edge's summary of its records."""
    bench = Bench(**settings)
    bench.topic("t", **configs)
    data = {"index": 0, "batches": [batch], **({"recordsSeen": seen} if seen else {})}
    topics = [{"name": "t", "partitionData": [data]}]
    response = bench.request("PRODUCE", 9, {"acks": -1, "timeoutMs": 1, "topicData": topics})
    return response["responses"][0]["partitionResponses"][0]


@pytest.mark.parametrize(
    ("configs", "batch", "seen", "error"),
    [
        ({}, BATCH, KEYLESS, 0),
        (COMPACTED, BATCH, None, 0),
        (COMPACTED, BATCH, KEYLESS, 87),
        (BOTH, BATCH, KEYLESS, 87),
        (COMPACTED, LATE, KEYLESS, 87),  # no record has a key: timestamps are not checked
        (COMPACTED, LATE, {**KEYLESS, "keyedTimestamps": [START, START + DAY_MS]}, 32),
        (COMPACTED, LATE, {**KEYLESS, "keyedTimestamps": [START, START]}, 87),
        (COMPACTED | APPEND_TIME, LATE, {**KEYLESS, "keyedTimestamps": [1, START]}, 87),
        (COMPACTED, LATE, None, 32),
    ],
)
def test_compacted_topic_requires_keys_and_checks_timestamps_of_keyed_records(
    configs: dict[str, str], batch: dict[str, Any], seen: dict[str, Any] | None, error: int
) -> None:
    assert produced(configs, batch, seen)["errorCode"] == error


@pytest.mark.parametrize(
    ("configs", "first", "seen", "error"),
    [
        (OLD, START - 1000, None, 0),
        (OLD, START - 1001, None, 32),
        (OLD, START, {"leastTimestamp": START - 1001}, 32),
        (OLD, -1, {"leastTimestamp": START - 1000}, 0),
        (OLD, -1, None, 0),
        ({}, 0, None, 0),
        ({}, -5, None, 0),
        (APPEND_TIME, START, {"hasAppendTime": True}, 32),
        ({}, START, {"hasAppendTime": True}, 0),
    ],
)
def test_timestamp_may_be_old_up_to_the_limit(
    configs: dict[str, str], first: int, seen: dict[str, Any] | None, error: int
) -> None:
    batch = {**BATCH, "baseTimestamp": first, "maxTimestamp": max(first, START if seen else first)}
    assert produced(configs, batch, seen)["errorCode"] == error


def test_broker_default_applies_without_a_topic_setting() -> None:
    old = {**BATCH, "baseTimestamp": START - 9, "maxTimestamp": START - 9}
    for before_ms, error in ((9, 0), (8, 32)):
        response = produced({}, old, None, log_message_timestamp_before_max_ms=before_ms)
        assert response["errorCode"] == error
    response = produced({}, BATCH, KEYLESS, given={"log.cleanup.policy": "compact"})
    assert response["errorCode"] == 87


def test_edge_gets_the_reason_only_in_versions_with_record_errors() -> None:
    assert produced(COMPACTED, BATCH, KEYLESS)["refusedRecords"] == {
        "topic": "t",
        "isCompacted": True,
        "takesAppendTime": False,
        "now": START,
        "beforeMaxMs": 2**63 - 1,
        "afterMaxMs": 3_600_000,
    }
    bench = Bench()
    bench.topic("t", **COMPACTED)
    (response,) = bench.request(
        "PRODUCE", 7, acks=-1, timeoutMs=1, name="t", index=0, batches=[BATCH], recordsSeen=KEYLESS
    )["responses"][0]["partitionResponses"]
    assert (response["errorCode"], "refusedRecords" in response) == (87, False)
