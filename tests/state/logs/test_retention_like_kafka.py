"""Retention compared with a real broker: the same batches and settings keep the same records."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from brokertwin.kafka_io.kafka_broker import EmbeddedKafka
from brokertwin.settings import default_home
from tests.state.logs.test_retention import DAY, INTERVAL, earliest
from tests.support.batches import numbered
from tests.support.goldens import Connection, connection_to, started, tape
from tests.support.machine import Bench, header
from tests.support.patience import PATIENCE_S


class Case(NamedTuple):
    """A topic: its batches, and its settings at the start and at the end.

    A batch has an age in ms and the size of its record's value. Afterwards records below an offset
    are deleted, the final settings are set, and more batches are appended.
    """

    configs: dict[str, str]
    at_last: dict[str, str]
    batches: list[tuple[int, int]]
    deleted: int = 0
    meanwhile: dict[str, str] | None = None
    after: Sequence[tuple[int, int]] = ()


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
    "cut-before-a-setting": Case(
        {"internal.segment.bytes": "500"},
        {"retention.bytes": "1000"},
        [(0, 400)] * 3,
        meanwhile={"internal.segment.bytes": "1048576"},
        after=[(0, 400)] * 2,
    ),
    "not-cut-before-a-setting": Case(
        {"segment.ms": str(DAY)},
        {"retention.ms": str(HOUR // 2)},
        [(4 * HOUR, 10), (3 * HOUR, 10)],
        meanwhile={"segment.ms": "1000"},
        after=[(2 * HOUR, 10), (0, 10)],
    ),
    "deleted-in-a-segment": Case(
        {"internal.segment.bytes": "1000"},
        {"retention.bytes": "1000"},
        [(0, 400)] * 5,
        deleted=1,
    ),
    "deleted-whole-segments": Case(
        {"internal.segment.bytes": "1000"},
        {"retention.bytes": "1300"},
        [(0, 400)] * 5,
        deleted=3,
        after=[(0, 400)],
    ),
    "all-deleted": Case(
        {"internal.segment.bytes": "1000"},
        {"retention.bytes": "480"},
        [(0, 400)],
        deleted=1,
        after=[(0, 400)] * 2,
    ),
    "index-of-offsets-full": Case(
        {"segment.index.bytes": "48", "index.interval.bytes": "0"},
        {"retention.bytes": "350"},
        [(0, 30)] * 20,
    ),
    "index-of-times-full": Case(
        {"segment.index.bytes": "48", "index.interval.bytes": "0"},
        {"retention.bytes": "350"},
        [(100 - number, 30) for number in range(20)],
    ),
    "compacted-and-old": Case(
        {
            "cleanup.policy": "compact,delete",
            "segment.ms": "1000",
            "min.cleanable.dirty.ratio": "1.0",
        },
        {"retention.ms": str(HOUR)},
        [(DAY, 10), (3 * HOUR, 10), (0, 10)],
    ),
    "compacted": Case({"cleanup.policy": "compact"}, {"retention.ms": "1000"}, [(DAY, 10)]),
    "nothing-stays": Case({}, {"retention.bytes": "0"}, [(0, 10), (0, 10)]),
}

CUT_AT_APPEND = {
    "compacted-and-old": 2,
    "cut-before-a-setting": 2,
    "not-cut-before-a-setting": 3,
    "deleted-in-a-segment": 2,
    "deleted-whole-segments": 3,
    "all-deleted": 1,
    "index-of-offsets-full": 14,
    "index-of-times-full": 16,
}
"""Earliest offsets if segments were divided by the final settings, or from the log start."""


SETTINGS = {
    "log.initial.task.delay.ms": "100",
    "log.retention.check.interval.ms": "500",
    "log.cleaner.backoff.ms": "500",
}
MORE_CHECKS_S = 2


@pytest.mark.compares
def test_kafka_retains_the_same_records(tmp_path: Path) -> None:
    """Settings that delete records are set last, so that no check sees a part of a topic."""
    broker = EmbeddedKafka(tmp_path / "broker", default_home())
    with tape("logs/retention", SETTINGS) as recording, started(broker, SETTINGS) as address:
        real = recording.connection(lambda: connection_to(address))
        now = recording.drawn("now", lambda: int(time.time() * 1000))
        ours = retained(real, now)
        theirs = recording.response("retained", lambda: settled(connection_to(address), ours))
        real.close()
    assert theirs == ours
    ends = {name: len(case.batches) + len(case.after) for name, case in CASES.items()}
    assert {name for name, end in ends.items() if ours[name][0] == end} == {
        "all-old",
        "nothing-stays",
    }
    assert {name: ours[name][0] for name in CUT_AT_APPEND} == CUT_AT_APPEND


def retained(real: Connection, now: int) -> dict[str, tuple[int, int]]:
    """Run the cases on both sides; return the data retained by the model."""
    bench = Bench()
    bench.now = now
    for name, case in CASES.items():
        both_create(real, bench, name, case.configs | {"retention.ms": "-1"})
        for age, size in case.batches:
            both_produce(real, bench, name, now - age, size)
        if case.deleted:
            both_delete(real, bench, name, case.deleted)
        if case.meanwhile:
            both_alter(real, bench, name, case.meanwhile)
        for age, size in case.after:
            both_produce(real, bench, name, now - age, size)
    for name, case in CASES.items():
        both_alter(real, bench, name, case.at_last)
    bench.now = now // INTERVAL * INTERVAL + INTERVAL
    bench.now += INTERVAL  # past the delay of a new topic
    return {name: (earliest(bench, name), size) for name, size in sizes(bench).items()}


def settled(real: Connection, ours: dict[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
    """Return the real broker's retained data once they equal the model's, and some checks later."""
    deadline = time.monotonic() + PATIENCE_S
    while real_state(real) != ours and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(MORE_CHECKS_S)
    result = real_state(real)
    real.close()
    return result


def both_create(real: Any, bench: Bench, name: str, configs: dict[str, str]) -> None:
    topic = {"name": name, "numPartitions": 1, "replicationFactor": 1, "assignments": []}
    given = [{"name": key, "value": value} for key, value in configs.items()]
    body = {"topics": [{**topic, "configs": given}], "timeoutMs": 10_000, "validateOnly": False}
    for response in (real.call("CreateTopics", 7, body), bench.request("CREATE_TOPICS", 7, body)):
        assert response["topics"][0]["errorCode"] == 0, response


def both_produce(real: Any, bench: Bench, name: str, timestamp: int, size: int) -> None:
    records = numbered(1, time=timestamp, values=[b"v" * size], keys=[b"k"])
    body: dict[str, Any] = {"transactionalId": None, "acks": -1, "timeoutMs": 10_000}
    deadline = time.monotonic() + PATIENCE_S
    while True:
        data = [{"name": name, "partitionData": [{"index": 0, "records": records}]}]
        response = real.call("Produce", 9, {**body, "topicData": data})
        if response["responses"][0]["partitionResponses"][0]["errorCode"] == 0:
            break
        assert time.monotonic() < deadline, response
        time.sleep(0.05)
    batch = header(1, size=len(records), maxTimestamp=timestamp)
    assert bench.append(name, batch)["errorCode"] == 0


def both_alter(real: Any, bench: Bench, name: str, configs: dict[str, str]) -> None:
    changes = [{"name": k, "configOperation": 0, "value": v} for k, v in configs.items()]
    resource = {"resourceType": 2, "resourceName": name, "configs": changes}
    body = {"resources": [resource], "validateOnly": False}
    for response in (
        real.call("IncrementalAlterConfigs", 1, body),
        bench.request("INCREMENTAL_ALTER_CONFIGS", 1, body),
    ):
        assert response["responses"][0]["errorCode"] == 0, response


def both_delete(real: Any, bench: Bench, name: str, offset: int) -> None:
    partition = {"partitionIndex": 0, "offset": offset}
    body = {"topics": [{"name": name, "partitions": [partition]}], "timeoutMs": 10_000}
    responses = real.call("DeleteRecords", 2, body), bench.request("DELETE_RECORDS", 2, body)
    for response in responses:
        (deleted,) = response["topics"][0]["partitions"]
        assert (deleted["lowWatermark"], deleted["errorCode"]) == (offset, 0)


def real_state(real: Any) -> dict[str, tuple[int, int]]:
    described = real.call("DescribeLogDirs", 4, {"topics": None})
    return {name: (real_earliest(real, name), size) for name, size in of_topics(described).items()}


def sizes(bench: Bench) -> dict[str, int]:
    return of_topics(bench.request("DESCRIBE_LOG_DIRS", 4, topics=None))


def of_topics(described: Any) -> dict[str, int]:
    (directory,) = described["results"]
    found = {each["name"]: each["partitions"][0]["partitionSize"] for each in directory["topics"]}
    return {name: found[name] for name in CASES}


def real_earliest(real: Any, name: str) -> int:
    partition = {"partitionIndex": 0, "timestamp": -2, "currentLeaderEpoch": -1}
    body = {"replicaId": -1, "isolationLevel": 0}
    body["topics"] = [{"name": name, "partitions": [partition]}]
    response = real.call("ListOffsets", 7, body)
    return int(response["topics"][0]["partitions"][0]["offset"])
