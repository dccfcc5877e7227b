"""The log cleaner of a job: its passes, sealed parts, and deleted bytes.

The job is a cell in this process that reads `requests` like a micro-batch.
"""

import asyncio
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from confluent_kafka import Producer

from brokertwin.cli.job import run_cleaning
from brokertwin.cli.job.run_cleaning import Cleaning
from brokertwin.gateway.records import log_cleaner
from brokertwin.gateway.records.data_topic import DataTopic
from brokertwin.gateway.records.job_cleaner import CellState, JobCleaner, JobState
from brokertwin.kafka_io import topics
from brokertwin.protocol import record_batches as records
from brokertwin.state.cell.cell import Cell
from brokertwin.state.core.outputs import DEAD_LETTERS, SEGMENTS
from brokertwin.state.core.tables import CellTables
from brokertwin.state.logs import log as logs
from brokertwin.state.logs.log import Log
from brokertwin.streaming.checkpoint import garbage
from brokertwin.streaming.job import job, runner
from brokertwin.testing.exam.batches import shown
from tests.gateway.test_cleaner_like_kafka import CONFIGS, LATER_MS
from tests.support.batches import numbered
from tests.support.jobs import JobBench
from tests.support.patience import PATIENCE_S

pytestmark = pytest.mark.kafka

ORDINARY = CONFIGS | {"cleanup.policy": "delete"}


class Compacted:
    """A job with a topic whose data is in one partition."""

    def __init__(self, kafka: str, directory: Path, configs: dict[str, str] = CONFIGS) -> None:
        self.bench = JobBench(kafka, directory, data_partitions=1)
        self.cell = Cell(self.bench.cell_settings("a"))
        self.now = int(time.time() * 1000)
        self.letters: list[Any] = []
        self._read: dict[int, int] = {}
        self._events = 0
        self._sent: list[bytes] = []
        given = [{"name": name, "value": value} for name, value in configs.items()]
        topic = {"name": "t", "numPartitions": 1, "replicationFactor": 1, "configs": given}
        self.send(19, 7, {"topics": [topic], "timeoutMs": 1000})

    def send(self, key: int, version: int, body: dict[str, Any]) -> None:
        self._events += 1
        header = {"requestApiKey": key, "requestApiVersion": version, "clientId": "test"}
        event = {"id": f"e{self._events}", "cluster": "a", "requestHeader": header, "request": body}
        self._sent.append(msgspec.json.encode(event))

    def flush(self) -> None:
        """Flush the producer of `requests`."""
        self.bench.produce(self._sent, b"a")
        self._sent.clear()

    def write(self, wave: int) -> None:
        """Write a unique key, a repeated key, and the batch that rolls the segment."""
        later = self.now + (wave + 1) * LATER_MS
        keys = ((f"only-{wave}", self.now), ("again", self.now), (f"cut-{wave}", later))
        made = [numbered(1, time=at, keys=[key.encode()], values=[b"v"]) for key, at in keys]

        async def put(data: DataTopic) -> list[str]:
            return [await data.put(each) for each in made]

        for each, locator in zip(made, asyncio.run(self._data(put)), strict=True):
            (header,) = records.parse(each).batches
            batch = {**msgspec.to_builtins(header), "locator": locator}
            topic = {"name": "t", "partitionData": [{"index": 0, "batches": [batch]}]}
            self.send(0, 9, {"acks": -1, "timeoutMs": 1000, "topicData": [topic]})

    async def _data(self, send: Any) -> Any:
        data = DataTopic(self.bench.client, self.bench.prefix)
        await data.start()
        try:
            return await send(data)
        finally:
            await data.close()

    def run(self) -> JobState:
        """Let the cell handle all requests, and write its sealed parts to their topic."""
        self.flush()
        writer = Producer(topics.writer_configuration(self.bench.client))
        for row in self.bench.all_rows("requests"):
            if row.offset < self._read.get(row.partition, 0):
                continue
            self._read[row.partition] = row.offset + 1
            for made in self.cell.handle(row.value or b"", row.position):
                if made.topic == SEGMENTS:
                    topic = topics.full_name(self.bench.prefix, SEGMENTS)
                    writer.produce(topic, made.value, made.key)
                elif made.topic == DEAD_LETTERS:
                    self.letters.append(made.value)
        assert writer.flush(PATIENCE_S) == 0
        (placed,) = job.placements(self.bench.settings)
        return JobState([CellState(placed, "a", CellTables(self.cell.columns()))], dict(self._read))

    def cleaner(self) -> JobCleaner:
        return JobCleaner(self.bench.client, self.bench.prefix, self.bench.broker_settings)

    @property
    def log(self) -> Log:
        (key,) = (k for k in self.cell.tables.logs.keys("1/log/") if self._is_of_topic(k))
        log = self.cell.tables.logs.get(key, Log)
        assert log is not None
        return log

    def _is_of_topic(self, key: str) -> bool:
        log = self.cell.tables.logs.get(key, Log)
        return log is not None and log.topic == "t"

    def keys(self) -> list[str]:
        """Return the remaining keys in order."""
        found = list(logs.batches_from(self.cell.tables.of(1), self.log, 0))

        async def read(data: DataTopic) -> list[bytes | None]:
            return [await data.get(each.locator or "") for each in found]

        batches = asyncio.run(self._data(read))
        notices = [shown(each)[0]["records"][0] for each in batches]
        return [each.partition(":")[2].partition("=")[0] for each in notices]

    def oldest_needed(self) -> int:
        """Return the offset up to which `brokertwin gc` may delete in `data`."""
        needs = garbage.needed_by_logs("a", self.cell.tables)
        return min(need.locator.offset for need in needs)


def test_job_is_notified_once_and_the_head_of_the_data_is_released(
    kafka: str, tmp_path: Path
) -> None:
    made = Compacted(kafka, tmp_path)
    cleaner = made.cleaner()
    made.write(0)
    state = made.run()
    assert [cleaner.round(state), cleaner.round(state)] == [1, 0], "the job has not taken it yet"
    made.write(1)
    assert cleaner.round(made.run()) == 1
    assert made.oldest_needed() == 0
    state = made.run()
    assert made.keys() == ["only-0", "cut-0", "only-1", "again", "cut-1"]
    assert made.oldest_needed() == 2, "what has lain before has another place"
    assert cleaner.round(state) == 0
    assert made.letters == []


def test_state_changed_during_a_pass_is_checked_again(kafka: str, tmp_path: Path) -> None:
    """Records are deleted after the pass has read the state; then an event is repeated."""
    made = Compacted(kafka, tmp_path, CONFIGS | {"cleanup.policy": "compact,delete"})
    made.write(0)
    made.write(1)
    state, twin = made.run(), made.cleaner()
    partition = {"partitionIndex": 0, "offset": 1}
    body = {"topics": [{"name": "t", "partitions": [partition]}], "timeoutMs": 1000}
    made.send(21, 2, body)
    made.flush()
    cleaner = made.cleaner()
    assert cleaner.round(state) == 1
    state = made.run()
    assert (made.log.log_start_offset, made.log.cleaned_to) == (1, 0)
    assert [cleaner.round(state), twin.round(state)] == [1, 1]
    made.run()
    assert made.keys() == ["cut-0", "only-1", "again", "cut-1"]
    assert made.letters == []


def test_sealed_parts_are_restored_when_a_topic_becomes_compacted(
    kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "CHUNK_BATCHES_MAX", 2)
    monkeypatch.setattr(logs, "INDEX_CHUNKS_MAX", 2)
    made = Compacted(kafka, tmp_path, ORDINARY)
    for wave in range(3):
        made.write(wave)
    policy = {"name": "cleanup.policy", "configOperation": 0, "value": "compact"}
    resource = {"resourceType": 2, "resourceName": "t", "configs": [policy]}
    made.send(44, 1, {"resources": [resource], "validateOnly": False})
    state = made.run()
    assert len(made.log.segments) == 3
    assert made.cleaner().round(state) == 1
    made.run()
    assert made.keys() == ["only-0", "cut-0", "only-1", "cut-1", "only-2", "again", "cut-2"]
    assert not made.log.segments


def test_abandoned_pass_is_cancelled(
    kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_cleaner, "SLICE", 1)
    made = Compacted(kafka, tmp_path)
    made.write(0)
    state, bench = made.run(), made.bench
    for is_ended, notices in ((True, 0), (False, 1)):
        given = (bench.client, bench.prefix, bench.broker_settings, lambda ended=is_ended: ended)
        assert JobCleaner(*given).round(state) == notices


@pytest.mark.parametrize("name", [None, "min.compaction.lag.ms"])
def test_state_is_read_once_per_hour(
    kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str | None
) -> None:
    configs = CONFIGS if name is None else CONFIGS | {name: "1"}
    made = Compacted(kafka, tmp_path, configs)
    made.write(0)
    state, reads = made.run(), []

    def read(settings: Any, *_: Any) -> JobState:
        reads.append(settings)
        return state

    monkeypatch.setattr(run_cleaning, "state_of", read)
    commits = made.bench.checkpoint / "commits"
    with runner.prepared(made.bench.settings, made.bench.broker_settings) as prepared:
        cleaning = Cleaning(prepared, made.bench.broker_settings, pytest.fail)
        commits.mkdir(parents=True, exist_ok=True)
        cleaning.at_end()
        assert reads == [], "no micro-batch was committed yet"
        for batch, expected in enumerate((1, 2) if name is None else (2, 4)):
            (commits / str(batch)).write_text("v1\n{}")
            cleaning.at_end()
            cleaning.at_end()
            assert len(reads) == expected
