"""Retention beside a real broker: the same batches and settings, the same records stay."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from brokerstream.kafka_io.kafka_broker import EmbeddedKafka
from brokerstream.settings import default_home
from tests.conformance import wire
from tests.state.logs.test_retention import DAY, INTERVAL, earliest
from tests.support.machine import Bench, header
from tests.support.patience import PATIENCE_S


class Case(NamedTuple):
    """A topic: its settings from the beginning, those set at the end, and its batches.

    Of each batch its age in ms and the bytes of its record's value.
    """

    configs: dict[str, str]
    at_last: dict[str, str]
    batches: list[tuple[int, int]]


HOUR = 3_600_000
CASES = {
    "one-segment": Case({}, {"retention.ms": str(HOUR)}, [(DAY, 10), (0, 10)]),
    "all-old": Case({}, {"retention.ms": "1000"}, [(DAY, 10), (HOUR, 10)]),
    "rolled-by-time": Case(
        {"segment.ms": "1000"},
        {"retention.ms": str(HOUR)},
        [(DAY, 10), (DAY - 500, 10), (3 * HOUR, 10), (0, 10)],
    ),
    "out-of-order": Case(
        {"segment.ms": "1000"},
        {"retention.ms": str(HOUR)},
        [(2 * HOUR, 10), (DAY, 10), (0, 10), (DAY, 10)],
    ),
    "rolled-by-size": Case(
        {"internal.segment.bytes": "1000"},
        {"retention.bytes": "1500"},
        [(0, 400), (0, 400), (0, 400), (0, 400), (0, 400), (0, 10)],
    ),
    "exactly-as-many-bytes": Case(
        {"internal.segment.bytes": "500"},
        {"retention.bytes": str(2 * 470)},
        [(0, 400), (0, 400), (0, 400)],
    ),
    "size-then-age": Case(
        {"internal.segment.bytes": "500"},
        {"retention.bytes": "1500", "retention.ms": str(HOUR)},
        [(0, 400), (DAY, 400), (DAY, 400), (0, 400), (0, 400)],
    ),
    "compacted": Case({"cleanup.policy": "compact"}, {"retention.ms": "1000"}, [(DAY, 10)]),
    "nothing-stays": Case({}, {"retention.bytes": "0"}, [(0, 10), (0, 10)]),
}


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    broker = EmbeddedKafka(tmp_path / "broker", default_home())
    settings = {"log.initial.task.delay.ms": "100", "log.retention.check.interval.ms": "500"}
    try:
        yield broker.start(settings)
    finally:
        broker.stop()


@pytest.mark.kafka
def test_a_real_broker_keeps_the_same_records(address: str) -> None:
    """Settings that let records go come last, so that no check sees half of a topic."""
    host, _, port = address.rpartition(":")
    real, bench, now = wire.Conn(host, int(port)), Bench(), int(time.time() * 1000)
    bench.now = now
    for name, case in CASES.items():
        both_create(real, bench, name, case.configs | {"retention.ms": "-1"})
        for age, size in case.batches:
            both_produce(real, bench, name, now - age, size)
    for name, case in CASES.items():
        both_alter(real, bench, name, case.at_last)
    bench.now = now // INTERVAL * INTERVAL + INTERVAL
    bench.now += INTERVAL  # past the delay of a new topic
    ours = {name: earliest(bench, name) for name in CASES}
    deadline = time.monotonic() + PATIENCE_S
    while (theirs := {name: real_earliest(real, name) for name in CASES}) != ours:
        assert time.monotonic() < deadline, (theirs, ours)
        time.sleep(0.1)
    time.sleep(2)  # some checks more
    assert {name: real_earliest(real, name) for name in CASES} == ours
    gone = {name for name, case in CASES.items() if ours[name] == len(case.batches)}
    assert gone == {"all-old", "nothing-stays"}
    assert len(set(ours.values())) > 3
    real.close()


def both_create(real: Any, bench: Bench, name: str, configs: dict[str, str]) -> None:
    topic = {"name": name, "numPartitions": 1, "replicationFactor": 1, "assignments": []}
    given = [{"name": key, "value": value} for key, value in configs.items()]
    body = {"topics": [{**topic, "configs": given}], "timeoutMs": 10_000, "validateOnly": False}
    for answer in (real.call("CreateTopics", 7, body), bench.request("CREATE_TOPICS", 7, body)):
        assert answer["topics"][0]["errorCode"] == 0, answer


def both_produce(real: Any, bench: Bench, name: str, timestamp: int, size: int) -> None:
    records = wire.batch(1, ts=timestamp, values=[b"v" * size], keys=[b"k"])
    body: dict[str, Any] = {"transactionalId": None, "acks": -1, "timeoutMs": 10_000}
    deadline = time.monotonic() + PATIENCE_S
    while True:
        data = [{"name": name, "partitionData": [{"index": 0, "records": records}]}]
        answer = real.call("Produce", 9, {**body, "topicData": data})
        if answer["responses"][0]["partitionResponses"][0]["errorCode"] == 0:
            break
        assert time.monotonic() < deadline, answer
        time.sleep(0.05)
    batch = header(1, size=len(records), maxTimestamp=timestamp)
    assert bench.append(name, batch)["errorCode"] == 0


def both_alter(real: Any, bench: Bench, name: str, configs: dict[str, str]) -> None:
    changes = [{"name": k, "configOperation": 0, "value": v} for k, v in configs.items()]
    resource = {"resourceType": 2, "resourceName": name, "configs": changes}
    body = {"resources": [resource], "validateOnly": False}
    for answer in (
        real.call("IncrementalAlterConfigs", 1, body),
        bench.request("INCREMENTAL_ALTER_CONFIGS", 1, body),
    ):
        assert answer["responses"][0]["errorCode"] == 0, answer


def real_earliest(real: Any, name: str) -> int:
    partition = {"partitionIndex": 0, "timestamp": -2, "currentLeaderEpoch": -1}
    body = {"replicaId": -1, "isolationLevel": 0}
    body["topics"] = [{"name": name, "partitions": [partition]}]
    answer = real.call("ListOffsets", 7, body)
    return int(answer["topics"][0]["partitions"][0]["offset"])
