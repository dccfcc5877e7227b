"""Limits of a live query with a real Kafka broker, without Spark."""

from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer

from brokertwin.kafka_io import topics
from brokertwin.kafka_io.topics import TopicSpec
from brokertwin.streaming.live import runner
from tests.support.example_live import LiveExample
from tests.support.patience import PATIENCE_S

pytestmark = pytest.mark.kafka

SMALL, LARGE = 1_000, 100_000


def test_a_micro_batch_has_fewer_rows_if_the_newest_ones_are_large(
    kafka: str, tmp_path: Path
) -> None:
    source = "live-limited"
    example = LiveExample(kafka, tmp_path)
    query = replace(example.query, sources={source: ""}, rows_max=100_000)
    admin = topics.admin_client(example.client)
    topics.create(admin, {source: TopicSpec(source, 2)})
    topics.topic_id(admin, source)
    assert runner.limited(query) == query, "an empty topic shows no size"
    writer = Producer(topics.writer_configuration(example.client))
    for size, most in ((SMALL, query.rows_max), (LARGE, runner.BYTES_MAX // LARGE)):
        for _ in range(runner.SAMPLE):
            writer.produce(source, b"x" * size, partition=1)
        assert writer.flush(PATIENCE_S) == 0
        assert runner.limited(query).rows_max == pytest.approx(most, rel=0.02)
