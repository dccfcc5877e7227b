"""Retention deletes whole segments, by age and size, at the checks only."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from brokertwin.state.logs import log as logs
from brokertwin.state.logs import retention
from brokertwin.state.logs.log import RollingRules
from brokertwin.state.logs.retention import RetentionLimits
from tests.state.logs.test_log import BROKER, TOPIC_ID, Partition
from tests.support.machine import START, Bench, header
from tests.support.replicas import Replicas

INTERVAL = 300_000
DAY = 86_400_000
CUTS = RollingRules(7 * DAY, 2**30)
FOREVER = RetentionLimits(-1, -1)
FIRST_CHECK = START // INTERVAL * INTERVAL + INTERVAL
AGES = st.integers(0, 50)


def earliest(bench: Bench, topic: str = "orders") -> int:
    body = {"topics": [{"name": topic, "partitions": [{"partitionIndex": 0, "timestamp": -2}]}]}
    response = bench.request("LIST_OFFSETS", 7, body | {"replicaId": -1})
    offset: int = response["topics"][0]["partitions"][0]["offset"]
    return offset


def produce(bench: Bench, timestamp: int, size: int = 70) -> None:
    response = bench.append("orders", header(1, size=size, maxTimestamp=timestamp))
    assert response["errorCode"] == 0


def test_segment_is_deleted_a_week_after_its_newest_record() -> None:
    bench = Bench()
    bench.topic("orders")
    produce(bench, START - DAY)
    produce(bench, START)
    bench.now = START + 7 * DAY
    assert earliest(bench) == 0, "the segment's newest record is not a week old"
    bench.now += INTERVAL
    assert earliest(bench) == 2
    assert bench.append("orders", header(1, maxTimestamp=bench.now))["baseOffset"] == 2
    moved = [each for each in bench.records() if each["record"]["type"] == "LogStartMoved"]
    assert [each["time"] % INTERVAL for each in moved] == [0]


def test_cleaner_checks_compacted_topics_more_often() -> None:
    """`log.cleaner.backoff.ms`, 15 s; without a cleaner not."""
    for enabled, kept_from in ((True, 1), (False, 0)):
        bench = Bench(log_cleaner_enable=enabled, log_initial_task_delay_ms=0)
        bench.topic("orders", cleanup_policy="compact,delete", retention_ms="1000")
        produce(bench, START - DAY)
        bench.now = START // 15_000 * 15_000 + 14_999
        assert earliest(bench) == 0
        bench.now += 1
        assert earliest(bench) == kept_from
        bench.now = FIRST_CHECK
        assert earliest(bench) == kept_from


def test_no_deletion_between_checks_and_in_new_topics() -> None:
    bench = Bench(log_initial_task_delay_ms=INTERVAL)
    bench.topic("orders")
    produce(bench, START - 30 * DAY)
    bench.now = FIRST_CHECK
    assert earliest(bench) == 0, "the topic is too new"
    bench.now = FIRST_CHECK + INTERVAL - 1
    assert earliest(bench) == 0
    bench.now += 1
    assert earliest(bench) == 1


@pytest.mark.parametrize(
    ("configs", "kept_from"),
    [
        ({"retention_ms": "-1"}, 0),
        ({"cleanup_policy": "compact", "retention_ms": "0"}, 0),
        ({"cleanup_policy": "compact,delete", "retention_ms": "0"}, 4),
        ({"retention_bytes": "200", "retention_ms": "-1"}, 0),
        ({"retention_bytes": "200", "segment_ms": "1", "retention_ms": "-1"}, 2),
        ({"retention_bytes": "201", "segment_ms": "1", "retention_ms": "-1"}, 1),
        ({"segment_ms": "1", "retention_ms": str(13 * DAY)}, 2),
        ({"retention_bytes": "200", "segment_ms": "1", "retention_ms": "1000"}, 4),
        ({"segment_ms": str(2 * DAY), "retention_ms": str(13 * DAY)}, 2),
        ({"segment_ms": str(2 * DAY), "retention_ms": str(15 * DAY)}, 0),
    ],
)
def test_topic_settings_control_retention(configs: dict[str, str], kept_from: int) -> None:
    """Four records of 100 bytes; ages at the start in days: [16, 14, 12, 10]."""
    bench = Bench()
    bench.topic("orders", **configs)
    for number in range(4):
        produce(bench, START - (16 - 2 * number) * DAY, size=100)
    bench.now = FIRST_CHECK
    assert earliest(bench) == kept_from


def test_records_not_yet_replicated_are_kept() -> None:
    partition = Partition()
    partition.append(5, timestamp=START)
    log = partition.table.change(logs.log_key(BROKER, TOPIC_ID, 0), logs.Log)
    log.high_watermark = 4
    limits = FOREVER._replace(retention_ms=0)
    assert new_start(partition, limits, START + DAY) == 0
    log.high_watermark = 5
    assert new_start(partition, limits, START + DAY) == 5


def test_followers_raise_their_log_start_with_the_leader() -> None:
    replicas = Replicas()
    for _ in range(3):
        response = replicas.bench.append("orders", header(1, maxTimestamp=START - 8 * DAY))
        assert response["errorCode"] == 0
    replicas.isolate(3)
    replicas.bench.tick(INTERVAL)
    assert [replicas.log(broker).log_start_offset for broker in (1, 2, 3)] == [3, 3, 0]
    replicas.rejoin(3)
    replicas.bench.tick(1000)
    assert replicas.log(3).log_start_offset == 3


def test_records_without_timestamp_never_expire() -> None:
    partition = Partition()
    partition.append(1, timestamp=-1)
    assert new_start(partition, FOREVER._replace(retention_ms=0), START) == 0
    assert new_start(partition, FOREVER._replace(retention_bytes=0), START) == 1


def new_start(
    partition: Partition, limits: RetentionLimits, now: int, rules: RollingRules = CUTS
) -> int:
    deleted_to = retention.deletable_end(partition.at, partition.log, rules, limits, now)
    return max(partition.log.log_start_offset, deleted_to)


@given(
    st.lists(st.tuples(AGES, st.integers(1, 9)), max_size=20),
    st.builds(RetentionLimits, st.integers(-1, 60), st.integers(-1, 90)),
    st.tuples(st.integers(1, 40), AGES).map(lambda each: RollingRules(*each)),
)
@example([(0, 9), (50, 1)], RetentionLimits(20, 8), RollingRules(40, 9))
def test_deletion_equals_a_simple_model(
    batches: list[tuple[int, int]], limits: RetentionLimits, rules: RollingRules
) -> None:
    """The model works on lists: segments, then size, then age, never beyond a kept one."""
    partition = Partition()
    for time_of, size in batches:
        partition.append(1, size, START + time_of, rules)
    segments: list[list[tuple[int, int]]] = []
    for batch in batches:
        size = sum(size for _, size in segments[-1]) if segments else 2**30
        is_full = size + batch[1] > rules.segment_bytes
        if is_full or batch[0] - segments[-1][0][0] > rules.segment_ms:
            segments.append([])
        segments[-1].append(batch)
    left = sum(size for _, size in batches)
    kept = list(segments)
    while kept and 0 <= limits.retention_bytes <= left - sum(size for _, size in kept[0]):
        left -= sum(size for _, size in kept.pop(0))
    while kept and 0 <= limits.retention_ms < 60 - max(time_of for time_of, _ in kept[0]):
        kept.pop(0)
    assert new_start(partition, limits, START + 60, rules) == len(batches) - sum(map(len, kept))


def test_sealed_segments_of_a_long_log_are_deleted() -> None:
    partition, count = Partition(), 70 * logs.CHUNK_BATCHES_MAX
    for number in range(count):
        partition.append(1, timestamp=START + number)
    assert partition.sealed
    limits, rules = RetentionLimits(10, -1), replace(CUTS, segment_ms=1)
    start = new_start(partition, limits, START + count, rules)
    assert count - 12 <= start < count
    logs.move_start(partition.at, TOPIC_ID, 0, start)
    assert new_start(partition, limits, START + count, rules) == start
