"""The job's topics, placement and clock with a real Kafka broker, without Spark."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from confluent_kafka.admin import NewPartitions, NewTopic  # type: ignore[attr-defined]

from brokertwin.errors import UserError
from brokertwin.kafka_io import placement, topics
from brokertwin.kafka_io.topic_reader import read_all, without_repeats
from brokertwin.settings import load
from brokertwin.state.core.settings import BrokerSettings
from brokertwin.streaming.job import job, runner
from brokertwin.streaming.job.clock import JobClock, now_ms
from tests.support.jobs import JobBench
from tests.support.patience import PATIENCE_S

pytestmark = pytest.mark.kafka


@pytest.fixture
def bench(kafka: str, tmp_path: Path) -> JobBench:
    return JobBench(kafka, tmp_path, clusters=("a", "b"))


def prepare(bench: JobBench, **flags: Any) -> None:
    """Do what `run` does before it starts Spark."""
    settings = load({**bench.flags, **flags}).settings
    with runner.prepared(settings, BrokerSettings()):
        pass


def create(bench: JobBench, name: str, partitions: int = 1, **config: str) -> None:
    admin = topics.admin_client(bench.client)
    new = NewTopic(name, num_partitions=partitions, config=config)
    admin.create_topics([new])[name].result(PATIENCE_S)


def test_every_topic_is_created_with_its_settings(bench: JobBench) -> None:
    there = topics.existing(topics.admin_client(bench.client), bench.client)
    wanted = {
        f"{bench.prefix}.{spec.name}": spec.partitions for spec in topics.specs(bench.settings)
    }
    assert wanted.items() <= there.items()
    assert {f"{bench.prefix}.offsets.a", f"{bench.prefix}.offsets.b"} <= there.keys()
    prepare(bench)


@pytest.mark.parametrize(
    ("topic", "setting", "value"),
    [
        ("requests", "message.timestamp.type", "CreateTime"),
        ("requests", "max.message.bytes", "1000000"),
        ("offsets.a", "cleanup.policy", "delete"),
        ("responses", "cleanup.policy", "compact"),
    ],
)
def test_a_topic_with_other_settings_is_rejected(
    bench: JobBench, topic: str, setting: str, value: str
) -> None:
    prefix = f"{bench.prefix}x"
    partitions = {"requests": 3, "responses": 2}.get(topic, 1)
    specs = {spec.name: spec for spec in topics.specs(bench.settings)}
    config = {**specs[topic].settings, setting: value}
    create(bench, f"{prefix}.{topic}", partitions, **config)
    with pytest.raises(UserError, match=f"{prefix}.{topic} has {setting}={value}"):
        prepare(bench, prefix=prefix)


@pytest.mark.parametrize(("topic", "count"), [("requests", 3), ("responses", 2), ("data", 4)])
def test_another_partition_count_is_rejected(bench: JobBench, topic: str, count: int) -> None:
    prepare(bench)
    message = f"{topic} has {count} partitions, but the settings have 5"
    with pytest.raises(UserError, match=message) as refused:
        prepare(bench, **{f"{topic}_partitions": 5})
    assert f"{topic}_partitions = {count}" in refused.value.hint


@pytest.mark.parametrize("partitions", [3, 5], ids="settings_of_{}".format)
def test_requests_with_more_partitions_than_the_checkpoint_are_rejected_for_good(
    bench: JobBench, tmp_path: Path, partitions: int
) -> None:
    prepare(bench)
    admin, name = topics.admin_client(bench.client), f"{bench.prefix}.requests"
    admin.create_partitions([NewPartitions(name, 5)])[name].result(PATIENCE_S)
    with pytest.raises(UserError, match="has 5 partitions, but had 3 when the ch") as refused:
        prepare(bench, requests_partitions=partitions)
    assert topics.ANOTHER in refused.value.hint
    prepare(bench, prefix=f"{bench.prefix}z", checkpoint=tmp_path / "another")


def test_a_checkpoint_of_other_cells_clusters_or_topics_is_rejected(bench: JobBench) -> None:
    prepare(bench)
    with pytest.raises(UserError, match="but only 1 broker"):
        prepare(bench, cells=2)
    with pytest.raises(UserError, match="also has the cells b"):
        prepare(bench, clusters=("a",))
    admin = topics.admin_client(bench.client)
    name = f"{bench.prefix}.requests"
    admin.delete_topics([name])[name].result(PATIENCE_S)
    wait_until_gone(bench, name)
    with pytest.raises(UserError, match="which does not exist"):
        prepare(bench)


def wait_until_gone(bench: JobBench, name: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while name in topics.existing(topics.admin_client(bench.client), bench.client):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_an_unresponsive_kafka_is_named(bench: JobBench) -> None:
    with pytest.raises(UserError, match="localhost:1 did not respond"):
        prepare(bench, bootstrap="localhost:1")


def test_writers_read_the_placement(bench: JobBench) -> None:
    with pytest.raises(UserError, match="has no job's placement"):
        placement.read(bench.client, bench.prefix)
    prepare(bench)
    prepare(bench)
    expected = {placed.cluster: placed for placed in job.placements(bench.settings)}
    assert placement.read(bench.client, bench.prefix) == expected


def test_a_missing_topic_is_named(bench: JobBench) -> None:
    with pytest.raises(UserError, match="has no topic nowhere"):
        list(read_all(bench.client, "nowhere"))


def test_a_reader_sees_every_row_once(bench: JobBench) -> None:
    values = [b"%d" % number for number in range(2500)]
    bench.produce(values, b"a")
    bench.produce([b"other"], b"a", 0)
    rows = bench.all_rows("requests")
    home = [row.value for row in rows if row.value != b"other"]
    assert home == values
    assert len(rows) == len(values) + 1
    with_ids = [row._replace(id=f"{n // 2}") for n, row in enumerate(rows)]
    assert len(list(without_repeats(iter(with_ids)))) == (len(rows) + 1) // 2


@contextmanager
def ticking(bench: JobBench) -> Iterator[JobClock]:
    placements = {placed.cluster: placed for placed in job.placements(bench.settings)}
    clock = JobClock(bench.client, bench.prefix, placements, skew_ms=5000)
    clock.start()
    try:
        yield clock
    finally:
        clock.stop()
    assert clock.failure is None


def write_timer(bench: JobBench, cell: str, deadline: int) -> None:
    from confluent_kafka import Producer

    producer = Producer(topics.writer_configuration(bench.client))
    value = msgspec.json.encode({"cluster": cell, "deadline": deadline})
    producer.produce(f"{bench.prefix}.timers", key=cell, value=value)
    assert producer.flush(PATIENCE_S) == 0


def ticks(bench: JobBench) -> list[tuple[str, int]]:
    """Return cluster and time of the ticks in `requests`, each in its cell's partition."""
    result = []
    for row in bench.all_rows("requests"):
        tick = msgspec.json.decode(row.value or b"")
        assert tick["kind"] == "tick"
        assert row.key == tick["cluster"].encode()
        placed = next(p for p in job.placements(bench.settings) if p.cluster == tick["cluster"])
        assert row.partition == placed.partition_of(tick["cluster"])
        result.append((tick["cluster"], tick["time"]))
    return result


def wait_for_ticks(bench: JobBench, number: int) -> list[tuple[str, int]]:
    deadline = time.monotonic() + PATIENCE_S
    while len(result := ticks(bench)) < number and time.monotonic() < deadline:
        time.sleep(0.1)
    return result


def test_the_clock_ticks_at_a_deadline(bench: JobBench) -> None:
    now = now_ms()
    write_timer(bench, "a", now - 60_000)
    write_timer(bench, "a", now + 1_500)
    write_timer(bench, "nobody", now)
    with ticking(bench) as clock:
        [(cluster, at)] = wait_for_ticks(bench, 1)
        assert (cluster, clock.ticks) == ("a", 1)
        assert now + 1_500 <= at
        write_timer(bench, "b", now_ms() + 3_600_000)
        write_timer(bench, "b", now_ms())
        assert {cluster for cluster, _ in wait_for_ticks(bench, 2)} == {"a", "b"}
    assert len(ticks(bench)) == 2


def test_a_clock_that_starts_late_ticks_at_once(bench: JobBench) -> None:
    write_timer(bench, "b", now_ms() - 1)
    with ticking(bench):
        assert [cluster for cluster, _ in wait_for_ticks(bench, 1)] == ["b"]


def names_of(bench: JobBench, prefix: str) -> set[str]:
    there = topics.existing(topics.admin_client(bench.client), bench.client)
    return {name for name in there if name.startswith(f"{prefix}.")}


def test_a_rejected_run_creates_no_topic(bench: JobBench, tmp_path: Path) -> None:
    prepare(bench)
    prefix = f"{bench.prefix}y"
    with pytest.raises(UserError, match="created with prefix"):
        prepare(bench, prefix=prefix)
    assert names_of(bench, prefix) == set()
    create(bench, f"{prefix}.responses", partitions=7)
    with pytest.raises(UserError, match="has 7 partitions, but the settings have 2"):
        prepare(bench, prefix=prefix, checkpoint=tmp_path / "another")
    assert names_of(bench, prefix) == {f"{prefix}.responses"}
