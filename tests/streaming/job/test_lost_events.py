"""`requests` is truncated under a job, which reports it and fails."""

import json
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from brokertwin.errors import UserError
from brokertwin.kafka_io import topics
from brokertwin.state.core.murmur2 import partition_of
from brokertwin.streaming.job import runner
from tests.support.jobs import JobBench

pytestmark = pytest.mark.kafka


def prepare(bench: JobBench) -> list[str]:
    """Return warnings before the query starts. Raises UserError."""
    messages: list[str] = []
    with runner.prepared(bench.settings, bench.broker_settings, messages.append):
        return messages


def delete_before(bench: JobBench, offset: int) -> None:
    partition = partition_of(b"a", 3)
    place = TopicPartition(topics.full_name(bench.prefix, topics.REQUESTS), partition, offset)
    admin = AdminClient({"bootstrap.servers": bench.client.bootstrap})
    for done in admin.delete_records([place]).values():
        done.result()


def take(bench: JobBench, offset: int) -> None:
    """A micro-batch that has committed, in Spark's logs."""
    name, partition = topics.full_name(bench.prefix, topics.REQUESTS), partition_of(b"a", 3)
    ends = {str(each): offset if each == partition else 0 for each in range(3)}
    for log, lines in (("offsets", ["{}", json.dumps({name: ends})]), ("commits", ["{}"])):
        (bench.checkpoint / log).mkdir(exist_ok=True)
        (bench.checkpoint / log / "0").write_text("\n".join(["v1", *lines]))


def test_a_job_fails_if_events_are_lost(kafka: str, tmp_path: Path) -> None:
    bench = JobBench(kafka, tmp_path)
    bench.produce([b"{}"] * 9, b"a")
    assert prepare(bench) == []
    take(bench, 5)
    delete_before(bench, 5)
    assert prepare(bench) == [], "what was taken may go"
    delete_before(bench, 7)
    with pytest.raises(UserError, match="starts at offset 7, and the job is at 5") as refused:
        prepare(bench)
    assert "--to-prefix" in refused.value.hint
    take(bench, 8)
    assert prepare(bench) == []


def test_a_new_checkpoint_on_a_truncated_topic_is_reported(kafka: str, tmp_path: Path) -> None:
    bench = JobBench(kafka, tmp_path)
    bench.produce([b"{}"] * 3, b"a")
    delete_before(bench, 2)
    (given,) = prepare(bench)
    assert "starts at offset 2: earlier events are not in the state" in given
