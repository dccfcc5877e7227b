"""Preparation and limits of a live query with a Kafka broker, without Spark."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer

from brokertwin.errors import UserError
from brokertwin.kafka_io import topics
from brokertwin.kafka_io.topics import TopicSpec
from brokertwin.streaming.live import query as plan
from brokertwin.streaming.live import runner
from brokertwin.testing import KafkaBroker
from tests.support.example_live import SOURCE, LiveExample
from tests.support.patience import PATIENCE_S

SMALL, LARGE = 1_000, 100_000


def test_topics_with_rows_of_another_checkpoint_are_refused(tmp_path: Path) -> None:
    with KafkaBroker(topics=[SOURCE]) as broker:
        query = LiveExample(broker.bootstrap, tmp_path / "first").query
        with runner.prepared(query):
            (query.checkpoint / "metadata").write_text(json.dumps({"id": "first"}))
        other = replace(query, checkpoint=tmp_path / "other")
        with runner.prepared(other):
            pass  # they are empty
        writer = Producer(topics.writer_configuration(query.client))
        writer.produce(query.topic(plan.PROGRESS), b"{}", b"live")
        assert writer.flush(PATIENCE_S) == 0
        with runner.prepared(query):
            pass  # the rows are its own
        with pytest.raises(UserError, match="rows of another checkpoint"), runner.prepared(other):
            pass


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
