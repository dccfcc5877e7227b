"""`brokertwin gc`: deletes from the topic `data`, and nothing that a log has."""

import asyncio
import io
import shutil
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from confluent_kafka import TopicPartition
from msgspec.structs import replace
from rich.console import Console
from typer.testing import CliRunner

from brokertwin.cli import output
from brokertwin.cli.job import gc
from brokertwin.cli.main import app
from brokertwin.errors import UserError
from brokertwin.gateway.records.data_topic import DataTopic
from brokertwin.gateway.records.sealed_segments import SealedSegments
from brokertwin.kafka_io import placement, topics
from brokertwin.kafka_io.topic_reader import consumer, first_and_end
from brokertwin.protocol import record_batches as records
from brokertwin.settings import load
from brokertwin.state.core import outputs
from brokertwin.state.core.outputs import SegmentKey
from brokertwin.state.logs.log import CHUNK_BATCHES_MAX, INDEX_CHUNKS_MAX
from brokertwin.streaming.checkpoint import facts, garbage
from brokertwin.streaming.checkpoint.garbage import NOT_DECIDED, Cut, NamedSegment
from brokertwin.streaming.checkpoint.garbage_sources import Sources
from brokertwin.streaming.job import job
from tests.support.batches import batch
from tests.support.commands import Commands
from tests.support.jobs import JobBench

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEPT = CHUNK_BATCHES_MAX * INDEX_CHUNKS_MAX
"""Batches of a log that the state keeps at most."""

BATCHES = KEPT + 3 * CHUNK_BATCHES_MAX


@pytest.mark.parametrize("text", ["1", "h", "-1h", "1.5h", "1 h", "599s", "9m", "0d"])
def test_a_time_that_is_none_or_too_short_is_refused(text: str) -> None:
    result = CliRunner().invoke(app, ["gc", "--older-than", text])
    assert isinstance(result.exception, UserError)
    assert "--older-than" in result.exception.message and text in result.exception.message


def test_a_terminal_shows_how_far_a_topic_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(output, "err", Console(file=shown, force_terminal=True, width=100))
    with output.progress_bars() as bars:
        observe = gc._observer(bars)
        for left in (8, 4, 0):
            observe("demo.requests", left)
    assert "demo.requests" in shown.getvalue()
    assert "100%" in shown.getvalue()


class Job:
    """A job with one data partition; `locators` are those of the last written batches."""

    def __init__(self, bootstrap: str, directory: Path) -> None:
        self.bench = JobBench(bootstrap, directory, data_partitions=1)
        placement.write(self.bench.client, self.bench.prefix, job.placements(self.bench.settings))
        self.count = 0
        self.locators: list[str] = []

    def event(self, key: int, version: int, body: dict[str, Any]) -> bytes:
        self.count += 1
        header = {"requestApiKey": key, "requestApiVersion": version, "clientId": "test"}
        frame = {"id": f"e{self.count}", "cluster": "a", "nonce": f"n{self.count}"}
        return msgspec.json.encode({**frame, "requestHeader": header, "request": body})

    def send(self, *events: bytes) -> None:
        self.bench.produce(events, b"a")

    def create(self, name: str) -> None:
        topic = {"name": name, "numPartitions": 1, "replicationFactor": 1}
        self.send(self.event(19, 7, {"topics": [topic], "timeoutMs": 1000}))

    def write(self, topic: str, count: int) -> list[bytes]:
        """Batches to `data`, then the events of their Produce requests."""
        batches = [batch(b"%s %d" % (topic.encode(), number)) for number in range(count)]
        events = []
        self.locators = asyncio.run(self._put(batches))
        for data, locator in zip(batches, self.locators, strict=True):
            (header,) = records.parse(data).batches
            partition = {"index": 0, "batches": [replace(header, locator=locator)]}
            topic_data = [{"name": topic, "partitionData": [partition]}]
            events.append(self.event(0, 11, {"acks": -1, "topicData": topic_data}))
        self.send(*events)
        return batches

    async def _put(self, batches: list[bytes]) -> list[str]:
        data = DataTopic(self.bench.client, self.bench.prefix)
        await data.start()
        try:
            return await asyncio.gather(*(data.put(each) for each in batches))
        finally:
            await data.close()

    def collect(self, spark: "SparkSession") -> Cut:
        """As `gc` does, if nothing is too young."""
        sources = Sources(self.bench.settings)
        extents = sources.extents(older_than_ms=-60_000)
        (cut,) = garbage.plan(extents, sources.needs(lambda: spark, lambda *_: None))
        assert self.start() == cut.start, "a plan deletes nothing"
        sources.delete([cut])
        assert self.start() == cut.below
        return cut

    def start(self) -> int:
        """The first offset that is left in `data`."""
        topic = topics.full_name(self.bench.prefix, topics.DATA)
        with closing(consumer(self.bench.client)) as reader:
            return first_and_end(reader, TopicPartition(topic, 0))[0]

    def delete_records(self, topic: str, offset: int) -> None:
        partitions = [{"partitionIndex": 0, "offset": offset}]
        body = {"topics": [{"name": topic, "partitions": partitions}], "timeoutMs": 1000}
        self.send(self.event(21, 2, body))

    def fetch(self, topic: str, offset: int) -> str:
        """Send a Fetch; gives back its id."""
        partition = {"partition": 0, "fetchOffset": offset, "partitionMaxBytes": 1 << 20}
        partitions = [{"topic": topic, "partitions": [partition]}]
        self.send(
            self.event(1, 12, {"maxBytes": 1 << 20, "sessionEpoch": -1, "topics": partitions})
        )
        return f"e{self.count}"

    def fetched(self, *ids: str) -> list[list[bytes]]:
        """Return the record bytes of responses, read from `segments` if they are stored there."""
        responses = {
            document["id"]: document for document in self.bench.documents(outputs.RESPONSES)
        }
        partitions = [responses[each]["response"]["responses"][0]["partitions"][0] for each in ids]
        assert [partition["errorCode"] for partition in partitions] == [0] * len(ids)
        return asyncio.run(self._bytes(partitions))

    async def _bytes(self, partitions: list[dict[str, Any]]) -> list[list[bytes]]:
        segments = SealedSegments(self.bench.client, self.bench.prefix, "a")
        await segments.start()
        result = []
        try:
            for partition in partitions:
                batches = partition.get("batches") or []
                if sealed := partition.get("sealed"):
                    place = (sealed["topicId"], 0, sealed["baseOffset"])
                    batches = await segments.segment(*place) or []
                result.append(await self.read([each["locator"] for each in batches]))
        finally:
            await segments.close()
        return result

    async def read(self, locators: list[str]) -> list[bytes]:
        """Return the bytes in `data`; empty if they are deleted."""
        data = DataTopic(self.bench.client, self.bench.prefix)
        await data.start()
        try:
            return [await data.get(locator) or b"" for locator in locators]
        finally:
            await data.close()


def test_gc_deletes_unreferenced_data_and_keeps_log_data_readable(
    spark: "SparkSession", kafka: str, tmp_path: Path
) -> None:
    """A log longer than the index in state, a refused batch, a deleted topic, a job behind."""
    made = Job(kafka, tmp_path)
    with pytest.raises(UserError, match="is not a checkpoint with a committed micro-batch"):
        Sources(made.bench.settings)
    made.create("long")
    made.create("short")
    made.write("nowhere", 1)
    long = made.write("long", BATCHES)
    short = made.write("short", 2)
    oldest = made.fetch("long", 0)
    made.bench.run(spark)
    assert made.collect(spark) == Cut(0, 0, 1, BATCHES + 3, "long-0 of a")
    assert made.fetched(oldest) == [long[:CHUNK_BATCHES_MAX]]

    start = CHUNK_BATCHES_MAX + 5
    made.delete_records("long", start)
    requested = made.fetch("long", start), made.fetch("long", BATCHES - 1), made.fetch("short", 0)
    made.bench.run(spark)
    assert made.collect(spark) == Cut(0, 1, 1 + start, BATCHES + 3, "long-0 of a")
    in_segment, newest, others = made.fetched(*requested)
    assert in_segment[5:] == long[start : 2 * CHUNK_BATCHES_MAX]
    assert set(in_segment[:5]) == {b""}, "they lie below the log's start"
    assert [newest, others] == [[long[-1]], short]
    _assert_nothing_is_deleted_where_something_is_lost(made)

    made.send(made.event(20, 5, {"topicNames": ["long"], "timeoutMs": 1000}))
    made.delete_records("short", 2)
    made.bench.run(spark)
    late = made.write("short", 1)
    assert made.collect(spark) == Cut(0, 1 + start, BATCHES + 3, BATCHES + 4, NOT_DECIDED)
    assert asyncio.run(made.read([made.locators[-1]])) == late
    _assert_the_command_shows_what_holds(made)


def _assert_nothing_is_deleted_where_something_is_lost(made: Job) -> None:
    sources = Sources(made.bench.settings)
    named = {SegmentKey("a", "x" * 22, 0, 0): NamedSegment(0, "x-0 of a")}
    with pytest.raises(UserError, match="has lost 1 sealed segment that the state names"):
        list(sources._needed_by_segments(named, lambda *_: None))
    with pytest.raises(UserError, match="the job has read to 1000000"):
        list(sources._not_decided({0: 1_000_000}, lambda *_: None))
    other = made.bench.checkpoint.with_name("other")
    shutil.copytree(made.bench.checkpoint, other)
    known = facts.read(other)
    assert known is not None
    facts.write(other, msgspec.structs.replace(known, requests_topic_id="another"))
    with pytest.raises(UserError, match="a job that does not read"):
        Sources(load({**made.bench.flags, "checkpoint": other}).settings)


def _assert_the_command_shows_what_holds(made: Job) -> None:
    commands = Commands(made.bench)
    try:
        code, out, errors = commands.call("gc", "--older-than", "1d")
    finally:
        commands.close()
    assert code == 0, errors
    assert "freed 0 batches" in out
    assert NOT_DECIDED in out
