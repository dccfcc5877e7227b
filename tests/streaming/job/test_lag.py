"""The lag of a query that reads slowly, is stuck, or has not begun."""

import json
import uuid
from pathlib import Path

import pytest
from confluent_kafka import Producer

from brokertwin.kafka_io import topics
from brokertwin.kafka_io.kafka_clients import ClientProperties
from brokertwin.kafka_io.topics import TopicSpec
from brokertwin.streaming.job import lag
from brokertwin.streaming.job.lag import NO_LAG, LagReader
from tests.support.patience import PATIENCE_S


def commit(checkpoint: Path, batch: int, positions: dict[str, dict[str, int]] | None) -> None:
    """Plan a micro-batch with these ends, or commit the planned one."""
    log = "commits" if positions is None else "offsets"
    (checkpoint / log).mkdir(parents=True, exist_ok=True)
    text = "v1\n{}" if positions is None else f"v1\n{{}}\n{json.dumps(positions)}"
    (checkpoint / log / str(batch)).write_text(text)


@pytest.mark.kafka
def test_rows_after_the_last_commit_are_unread(kafka: str, tmp_path: Path) -> None:
    client = ClientProperties({"bootstrap.servers": kafka})
    topic = f"lag-{uuid.uuid4().hex}"
    topics.create(topics.admin_client(client), {topic: TopicSpec(topic, 2)})
    writer = Producer(topics.writer_configuration(client))

    def write(partition: int, count: int) -> None:
        for _ in range(count):
            writer.produce(topic, b"row", partition=partition)
        assert writer.flush(PATIENCE_S) == 0

    reader = LagReader(client, [topic], tmp_path)
    write(0, 30)
    assert reader.read().rows == {(topic, 0): 30, (topic, 1): 0}, "nothing is committed"
    commit(tmp_path, 0, {topic: {"0": 20, "1": 0}})
    assert reader.read().total == 30, "a planned micro-batch is not read"
    commit(tmp_path, 0, None)
    assert reader.read().rows == {(topic, 0): 10, (topic, 1): 0}
    write(1, 7)
    found = reader.read()
    assert found.rows == {(topic, 0): 10, (topic, 1): 7}, "the query is stuck"
    assert found.time_ms > 1_700_000_000_000


def test_kafka_is_not_asked_again_at_once(tmp_path: Path) -> None:
    now, asked = 100.0, []

    class Counting(LagReader):
        def _read(self) -> dict[tuple[str, int], int]:
            asked.append(now)
            return {("t", 0): len(asked)}

    client = ClientProperties({"bootstrap.servers": "127.0.0.1:1"})
    reader = Counting(client, ["t"], tmp_path, clock=lambda: now)
    assert [reader.newest().total, reader.newest().total] == [1, 1]
    now += lag.LEAST_S
    assert reader.newest().total == 2


def test_without_kafka_the_last_lag_stays_with_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "KAFKA_TIMEOUT_S", 0.1)
    reader = LagReader(ClientProperties({"bootstrap.servers": "127.0.0.1:1"}), ["t"], tmp_path)
    assert reader.read() is NO_LAG
