"""How many events a micro-batch may take for their bytes to stay within a bound."""

import json
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

import msgspec
import pytest
from confluent_kafka import TopicPartition
from hypothesis import given
from hypothesis import strategies as st

from brokertwin.kafka_io.topics import REQUESTS, ROW_BYTES_MAX, full_name
from brokertwin.settings import Settings
from brokertwin.state.core import outputs
from brokertwin.streaming.checkpoint import checkpoint_log
from brokertwin.streaming.job import read_ahead
from brokertwin.streaming.job.read_ahead import Ahead, ReadAhead, rows_within
from tests.support.jobs import JobBench

if TYPE_CHECKING:
    from confluent_kafka import Consumer
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

MOST = 100_000
BYTES_MAX = 4 * 1024 * 1024
LARGE = 1_000_000


def read(sizes: list[int], more: int = 0, first: int = 0) -> Ahead:
    """A partition whose events have these sizes, and further ones of which nothing is known."""
    found = Ahead(first, first + len(sizes) + more)
    for offset, size in enumerate(sizes, first):
        found.add(offset, size)
    return found


def test_fitting_batches_keep_the_row_limit() -> None:
    assert rows_within([read([])], MOST, 1000) == MOST
    assert rows_within([read([100] * 10)], MOST, 1000) == MOST


def test_rows_are_limited_by_bytes() -> None:
    assert rows_within([read([100] * 11)], MOST, 1000) == 10
    assert rows_within([read([100] * 11)], 7, 1000) == 7


def test_batches_before_large_events_are_short_enough() -> None:
    """It may begin with the same bound."""
    assert rows_within([read([100] * 8 + [500] * 50)], MOST, 1000) == 5
    assert rows_within([read([1] * 100 + [5000])], MOST, 1000) == 50


def test_a_too_large_event_is_alone_in_its_batch() -> None:
    assert rows_within([read([5000, 1])], MOST, 1000) == 1


@pytest.mark.parametrize(("sizes", "rows"), [([100], 10), ([], 1)])
def test_unknown_sizes_are_estimated(sizes: list[int], rows: int) -> None:
    assert rows_within([read(sizes, more=500)], MOST, 1000) == rows
    assert rows_within([read([], more=500)], MOST, 3 * ROW_BYTES_MAX) == 3


def test_partitions_contribute_in_proportion_to_their_backlog() -> None:
    """As in Spark's source: 10 and 30 of 41 rows; a small one contributes at least one."""
    assert rows_within([read([10] * 100), read([1] * 300)], MOST, 130) == 41
    assert rows_within([read([10]), read([1] * 999)], MOST, 110) == 101


def test_consumed_rows_are_forgotten() -> None:
    ahead = read([1000] * 5 + [1] * 1000, first=7)
    ahead.plan(12)
    assert (ahead.first, ahead.known, ahead.known_bytes, ahead.lag) == (12, 1000, 1000, 1000)
    ahead.plan(10)
    assert ahead.first == 12, "what was planned before the topic's beginning"
    ahead.plan(2000)
    assert (ahead.first, ahead.known, ahead.known_bytes, ahead.lag) == (2000, 0, 0, 0)
    ahead.add(1500, 10)
    assert ahead.known == 0, "an event that a micro-batch took before it was read"


def test_offsets_left_out_have_no_bytes() -> None:
    """Markers of transactions are rows to Spark."""
    ahead = read([10, 10])
    ahead.add(4, 10)
    assert (ahead.known, ahead.known_bytes) == (5, 30)
    assert rows_within([ahead], MOST, 25) == 4


@given(st.lists(st.integers(1, 100), min_size=1), st.integers(1, 3000))
def test_the_row_limit_is_maximal(sizes: list[int], bytes_max: int) -> None:
    ahead = read(sizes)

    def fits(rows: int) -> bool:
        both = ahead.bytes_of(min(2 * rows, len(sizes)))
        return max(ahead.bytes_of(rows), both // 2) <= bytes_max

    rows = rows_within([ahead], len(sizes), bytes_max)
    assert rows == 1 or fits(rows)
    assert rows == len(sizes) or not fits(rows + 1)


class Event(NamedTuple):
    """A message of a consumer; its length is that of its event."""

    number: int
    at: int
    size: int

    def partition(self) -> int:
        return self.number

    def offset(self) -> int:
        return self.at

    def error(self) -> None:
        """It is none."""

    def __len__(self) -> int:
        return self.size


class Reader:
    """A consumer that fetches the first of its partitions as long as it has anything.

    Attributes:
        sizes: of the events of each partition.
        paused: of which nothing is fetched.
    """

    def __init__(self, *sizes: list[int]) -> None:
        self.sizes = list(sizes)
        self.at, self.ends = [0] * len(sizes), [0] * len(sizes)
        self.paused: set[int] = set()

    def get_watermark_offsets(self, at: TopicPartition, *_: float, **__: bool) -> tuple[int, int]:
        """The first and the end offset; the latter as of the last fetch."""
        if at.partition not in self.paused:
            self.ends[at.partition] = len(self.sizes[at.partition])
        return 0, self.ends[at.partition]

    def assign(self, places: list[TopicPartition]) -> None:
        self.at = [each.offset for each in places]

    def pause(self, places: list[TopicPartition]) -> None:
        self.paused.update(each.partition for each in places)

    def resume(self, places: list[TopicPartition]) -> None:
        self.paused.difference_update(each.partition for each in places)

    def consume(self, count: int, timeout_s: float) -> list[Event]:
        for number, sizes in enumerate(self.sizes):
            if number not in self.paused and self.at[number] < len(sizes):
                self.at[number] += 1
                return [Event(number, self.at[number] - 1, sizes[self.at[number] - 1])]
        return []


def reading(monkeypatch: pytest.MonkeyPatch, directory: Path, reader: Reader) -> ReadAhead:
    """Limit micro-batches to 1,000 bytes or 100 rows each; none is planned."""
    monkeypatch.setattr(read_ahead, "_limit", lambda *_: True)
    settings = Settings(
        checkpoint=directory,
        requests_partitions=len(reader.sizes),
        max_bytes_per_trigger=1_000,
        max_offsets_per_trigger=100,
    )
    return ReadAhead(cast("Consumer", reader), settings)


def plan(directory: Path, batch: int, *ends: int) -> None:
    offsets = {full_name("brokertwin", REQUESTS): dict(enumerate(ends))}
    (directory / "offsets").mkdir(exist_ok=True)
    text = f"v1\n{{}}\n{json.dumps(offsets)}"
    (directory / "offsets" / str(batch)).write_text(text, encoding="utf-8")


@pytest.mark.parametrize("sizes", [[100] * 1_000, [1] * 1_000])
def test_one_backlog_does_not_delay_other_partitions(
    sizes: list[int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    reader = Reader(sizes, [500] * 3)
    ahead = reading(monkeypatch, tmp_path, reader)
    ahead.at_start()
    assert reader.at[1] == 3, "all of the other one"
    enough = 200 if sizes[0] == 1 else 21
    assert reader.at[0] == enough, "two micro-batches of it"
    plan(tmp_path, 0, 10, 3)
    look(ahead)
    assert reader.at[0] == enough + 10, "it is read on when a micro-batch has taken some"


def test_a_partition_read_to_its_end_is_fetched_further(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    reader = Reader([10] * 5, [10] * 1_000)
    ahead = reading(monkeypatch, tmp_path, reader)
    ahead.at_start()
    for count in (7, 9):
        reader.sizes[0] += [10] * 2
        look(ahead)
        assert (reader.at[0], reader.paused) == (count, {1})


def look(ahead: ReadAhead) -> None:
    ahead.look(cast("SparkSession", None), cast("StreamingQuery", None))


def sync(event_id: int, size: int) -> bytes:
    """Return a SyncGroup with an assignment of `size` characters."""
    header = {"requestApiKey": 14, "requestApiVersion": 0, "clientId": "test"}
    assignments = [{"memberId": "m", "assignment": "A" * size}]
    body = {"groupId": "g", "generationId": 1, "memberId": "m", "assignments": assignments}
    event = {"id": f"e{event_id}", "cluster": "a", "requestHeader": header, "request": body}
    return msgspec.json.encode(event)


def batches(bench: JobBench) -> list[tuple[int, int]]:
    """Return rows and bytes of each micro-batch of the one partition."""
    sizes = [len(row.value or b"") for row in bench.all_rows(REQUESTS)]
    topic = full_name(bench.prefix, REQUESTS)
    ends = [0] + [
        sum(checkpoint_log.end_offsets(bench.checkpoint, batch)[topic].values())
        for batch in checkpoint_log.kept(bench.checkpoint)
    ]
    return [(end - begin, sum(sizes[begin:end])) for begin, end in pairwise(ends)]


@pytest.mark.spark
@pytest.mark.kafka
def test_large_events_are_handled_in_small_batches(
    kafka: str, spark: "SparkSession", tmp_path: Path
) -> None:
    bench = JobBench(kafka, tmp_path, records=False, max_bytes_per_trigger=BYTES_MAX)
    sizes = [4] * 20 + [LARGE] * 16 + [4] * 400
    bench.produce((sync(number, size) for number, size in enumerate(sizes)), b"a")
    assert bench.run(spark).is_clean
    assert len(bench.rows(outputs.RESPONSES)) == len(sizes)
    taken = batches(bench)
    assert max(size for _, size in taken) <= 2 * BYTES_MAX, taken
    assert max(rows for rows, _ in taken) >= 400, taken
