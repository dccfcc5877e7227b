"""The way of a request through the fixture: few modules to open, few functions to follow.

Counted are the functions of this repository that run from the bytes of a request to those of its
response, on a connection that has served the same request before. `pytest -s` prints them.
"""

import time
from typing import Any

import pytest
from kafka.record.default_records import DefaultRecordBatchBuilder

from brokertwin.testing.broker import KafkaBroker
from tests.support.path_lengths import Body, measured

MEMBER = "AAAAAAAAAAAAAAAAAAAAAQ"
MODULES_MAX = 25


def produce(number: int) -> Body:
    builder = DefaultRecordBatchBuilder(2, 0, 0, 5, 0, number, 1000)
    builder.append(0, int(time.time() * 1000), b"key", b"value", [])
    partition = {"index": 0, "records": bytes(builder.build())}
    topics = [{"name": "events", "partitionData": [partition]}]
    return {"transactionalId": None, "acks": -1, "timeoutMs": 1000, "topicData": topics}


def commit(number: int) -> Body:
    partition = {"partitionIndex": 0, "committedOffset": number, "committedMetadata": ""}
    topics = [{"name": "events", "partitions": [partition]}]
    return {"groupId": "g", "generationIdOrMemberEpoch": -1, "memberId": "", "topics": topics}


def heartbeat(number: int) -> Body:
    body: dict[str, Any] = {"groupId": "h", "memberId": MEMBER, "memberEpoch": number}
    if number:
        return {**body, "rebalanceTimeoutMs": -1}
    joins = {"rebalanceTimeoutMs": 1000, "subscribedTopicNames": ["events"], "topicPartitions": []}
    return {**body, **joins}


@pytest.mark.kafka_broker(topics=["events"])
@pytest.mark.parametrize(
    ("api", "version", "make", "functions_max"),
    [
        ("PRODUCE", 9, produce, 80),
        ("OFFSET_COMMIT", 9, commit, 80),
        ("CONSUMER_GROUP_HEARTBEAT", 1, heartbeat, 103),
    ],
)
def test_a_request_enters_few_modules_and_functions(
    kafka_broker: KafkaBroker, api: str, version: int, make: Any, functions_max: int
) -> None:
    path = measured(kafka_broker, api, version, make)
    text = f"\n{api}: {path.calls} calls, {len(path.functions)} functions in these modules:"
    print("\n".join([text, *sorted(path.modules)]))  # noqa: T201 (`pytest -s` shows it)
    assert len(path.modules) <= MODULES_MAX
    assert len(path.functions) <= functions_max
