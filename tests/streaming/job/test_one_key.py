"""Many events of one cell in one micro-batch: one response each.

`ROWS` is 100,000 in total; figures are printed (`-s`).
"""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import psutil
import pytest

from brokertwin.kafka_io.topics import REQUESTS, full_name
from brokertwin.state.core import outputs
from brokertwin.streaming.checkpoint import checkpoint_log
from tests.support.jobs import JobBench

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = int(os.environ.get("ROWS", "100000"))
WORKERS, LOOK_S = "worker_daemon", 0.2
BYTES_MAX = 1 << 30
MEMORY_MIB = 800
"""The memory limit of a worker, including shared memory."""


@contextmanager
def memory_of_workers() -> Iterator[list[int]]:
    """Yield the peak memory of the largest Python worker in bytes; the JVM options name it, too."""
    most, ended = [0], threading.Event()

    def look() -> None:
        while not ended.wait(LOOK_S):
            for each in psutil.Process().children(recursive=True):
                try:
                    if each.name() != "java" and WORKERS in " ".join(each.cmdline()):
                        most[0] = max(most[0], each.memory_info().rss)
                except psutil.Error:  # it has ended meanwhile
                    continue

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield most
    finally:
        ended.set()
        thread.join()


def event(number: int) -> bytes:
    header = {"requestApiKey": 3, "requestApiVersion": 9, "correlationId": number}
    body = {"topics": [{"name": f"t{number % 1000}"}], "allowAutoTopicCreation": False}
    given = {"id": f"e{number}", "cluster": "a", "requestHeader": header, "request": body}
    return msgspec.json.encode(given)


@pytest.mark.spark
@pytest.mark.kafka
def test_all_of_one_micro_batch_are_of_one_key(
    kafka: str, spark: "SparkSession", tmp_path: Path
) -> None:
    limits = {"max_offsets_per_trigger": ROWS, "max_bytes_per_trigger": BYTES_MAX}
    bench = JobBench(kafka, tmp_path, records=False, **limits)
    bench.produce((event(number) for number in range(ROWS)), b"a")
    begin = time.monotonic()
    with memory_of_workers() as most:
        assert bench.run(spark).is_clean
    took = time.monotonic() - begin
    topic = full_name(bench.prefix, REQUESTS)
    ends = [
        sum(checkpoint_log.end_offsets(bench.checkpoint, batch).get(topic, {}).values())
        for batch in checkpoint_log.kept(bench.checkpoint)
    ]
    assert ROWS in ends
    assert max(e - b for b, e in zip([0, *ends], ends, strict=False)) == ROWS, ends
    responses = [row.id for row in bench.all_rows(outputs.RESPONSES)]
    assert sorted(responses) == sorted(f"e{number}" for number in range(ROWS))
    assert bench.rows(outputs.DEAD_LETTERS) == []
    assert 0 < most[0] < MEMORY_MIB << 20, most
    print(f"{ROWS} rows in {took:.0f} s, a worker of {most[0] >> 20} MiB")  # noqa: T201
