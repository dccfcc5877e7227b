"""Fetch times in sessions of many partitions, few of them changed.

    python bench/fetch_sessions.py [--sizes 10 100 1000 10000] [--changed 5] [--repeats 30]

One cell in this process, Fetch version 17. The cell always has as many partitions as the largest
session, 100 per topic, and each changed partition is in another topic: only the session differs.
Each step is repeated on a copy of the same undecoded state, so its time includes decoding the items
that it uses:

    fetch    an incremental request after the appends, with a response at once
    park     an incremental request that names the changed partitions and waits (long poll)
    wake     one Produce to the changed partitions, which completes the waiting request
    swap     an incremental request that forgets the changed partitions and adds as many others
    produce  the same Produce without a waiting request
    burst    the same Produce after every partition of the session has changed
    batch    decode the state row, `fetch`, encode the state row: the share of a micro-batch

Times are medians of processor time in ms; `ratio` is to the smallest size. A run is valid only if
each response has exactly the changed partitions; otherwise no figure is printed.
"""

import argparse
import gc
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from brokertwin.state.cell.cell import Cell
from brokertwin.state.core.outputs import DEAD_LETTERS, RESPONSES, Output, Position
from brokertwin.state.core.settings import CellSettings

START = 1_700_000_000_000
TOPIC_PARTITIONS = 100
OUTPUT_BYTES_MAX = 2**30
"""Above the default of the topic `responses`, for full responses over 10,000 partitions."""

CREATE_TOPICS, PRODUCE, FETCH = (19, 7), (0, 11), (1, 17)


class SessionMismatch(Exception):
    """A response differs from the expected one."""


class SessionPartition(NamedTuple):
    """A partition, by its topic's name and id."""

    topic: str
    topic_id: str
    index: int


class SessionBed:
    """A cell with `total` empty partitions, and a session over `size` of them."""

    def __init__(self, size: int, total: int) -> None:
        settings = CellSettings(
            name="bench", cluster="bench", event_time="recorded", output_bytes_max=OUTPUT_BYTES_MAX
        )
        self.settings = settings
        self.cell = Cell(settings)
        self.count = 0
        self.partitions: list[SessionPartition] = []
        for first in range(0, total, TOPIC_PARTITIONS):
            self._create(f"t{first}", min(TOPIC_PARTITIONS, total - first))
        # # partitions of the topics alternate
        self.partitions.sort(key=lambda partition: partition.index)
        self.others = self.partitions[size:]
        del self.partitions[size:]
        answer, self.full_bytes = self._open()
        self.session_id = answer["sessionId"]
        if self.session_id == 0 or shown(answer) != size:
            raise SessionMismatch(f"no session over {size} partitions: {answer['errorCode']}")

    def changed(self, count: int) -> list[SessionPartition]:
        """Return the last `count` partitions of the session, alternating topics."""
        return self.partitions[-count:]

    def event(self, api: tuple[int, int], body: dict[str, Any]) -> bytes:
        """Return an event as an edge writes it."""
        self.count += 1
        header = {"requestApiKey": api[0], "requestApiVersion": api[1], "clientId": "bench"}
        return msgspec.json.encode(
            {
                "id": f"r{self.count}",
                "cluster": "bench",
                "broker": 1,
                "time": START,
                "connection": "c1",
                "nonce": f"n{self.count}",
                "requestHeader": header,
                "request": body,
            }
        )

    def produce(self, partitions: list[SessionPartition]) -> bytes:
        """Return one Produce of a batch to each partition."""
        batch = {"baseOffset": 0, "lastOffsetDelta": 0, "recordCount": 1, "sizeInBytes": 100}
        topics = [
            {"name": p.topic, "partitionData": [{"index": p.index, "batches": [batch]}]}
            for p in partitions
        ]
        return self.event(PRODUCE, {"acks": 1, "topicData": topics})

    def fetch(
        self,
        named: list[SessionPartition],
        offset: int,
        epoch: int,
        max_wait_ms: int,
        forgotten: list[SessionPartition] | None = None,
    ) -> bytes:
        """Return a request with session epoch `epoch` that names some partitions."""
        return self.event(
            FETCH,
            {
                "maxWaitMs": max_wait_ms,
                "minBytes": 1,
                "maxBytes": 1 << 25,
                "sessionId": self.session_id if epoch else 0,
                "sessionEpoch": epoch,
                "topics": [self._asked(p, offset) for p in named],
                "forgottenTopicsData": [
                    {"topicId": p.topic_id, "partitions": [p.index]} for p in forgotten or []
                ],
            },
        )

    @staticmethod
    def _asked(partition: SessionPartition, offset: int) -> dict[str, Any]:
        asked = {
            "partition": partition.index,
            "fetchOffset": offset,
            "partitionMaxBytes": 1 << 20,
        }
        return {"topicId": partition.topic_id, "partitions": [asked]}

    def _create(self, name: str, partitions: int) -> None:
        topic = {"name": name, "numPartitions": partitions, "replicationFactor": 1}
        answer = self._handle(self.event(CREATE_TOPICS, {"topics": [topic], "timeoutMs": 1000}))[0]
        topic_id = answer["topics"][0]["topicId"]
        self.partitions += [SessionPartition(name, topic_id, index) for index in range(partitions)]

    def _open(self) -> tuple[dict[str, Any], int]:
        return self._handle(self.fetch(self.partitions, 0, 0, 0))

    def _handle(self, event: bytes) -> tuple[dict[str, Any], int]:
        row = answer_row(self.cell.handle(event, Position(0, self.count)))
        assert row is not None and row.value is not None
        return msgspec.json.decode(row.value)["response"], len(row.value)


def answer_row(rows: list[Output]) -> Output | None:
    """Return the last response row of an event."""
    return next((row for row in reversed(rows) if row.topic == RESPONSES), None)


def shown(answer: dict[str, Any]) -> int:
    """Return the number of partitions in a Fetch response."""
    return sum(len(topic["partitions"]) for topic in answer["responses"])


def timed(cell: Cell, event: bytes, check: Callable[[list[Output]], None], repeats: int) -> float:
    """Return the median time in ms of an event on copies of an undecoded cell."""
    times = []
    for _ in range(repeats):
        copy = cell.copy()
        gc.collect()
        begin = time.process_time_ns()
        rows = copy.handle(event, Position(0, 0))
        times.append(time.process_time_ns() - begin)
        check(rows)
    return statistics.median(times) / 1e6


def timed_batch(
    bed: SessionBed, event: bytes, check: Callable[[list[Output]], None], repeats: int
) -> float:
    """Return the median time in ms of an event with decoding and encoding the state row."""
    columns = bed.cell.columns()
    times = []
    for _ in range(repeats):
        gc.collect()
        begin = time.process_time_ns()
        cell = Cell(bed.settings, columns)
        rows = cell.handle(event, Position(0, 0))
        cell.columns()
        times.append(time.process_time_ns() - begin)
        check(rows)
    return statistics.median(times) / 1e6


def must_show(count: int) -> Callable[[list[Output]], None]:
    """Return a check that a Fetch response has `count` partitions."""

    def check(rows: list[Output]) -> None:
        fetched = [
            document["response"]
            for document in (
                msgspec.json.decode(r.value or b"") for r in rows if r.topic == RESPONSES
            )
            if document["requestHeader"]["requestApiKey"] == FETCH[0]
        ]
        if [shown(answer) for answer in fetched] != [count]:
            raise SessionMismatch(
                f"{[shown(answer) for answer in fetched]} partitions shown, not [{count}]"
            )

    return check


def must_wait(rows: list[Output]) -> None:
    """Check that the request waits."""
    if answer_row(rows) is not None:
        raise SessionMismatch("the request was answered and should wait")


def measure(size: int, total: int, changed: int, repeats: int) -> dict[str, float]:
    """Measure each step over a session of `size` partitions, in ms; `full` is in bytes."""
    bed = SessionBed(size, total + changed)
    moved = bed.changed(changed)
    produce = bed.produce(moved)
    times = {"produce": timed(bed.cell, produce, must_answer, repeats)}
    bed.cell.handle(produce, Position(0, 0))
    first = bed.fetch([], 0, 1, 0)
    times["fetch"] = timed(bed.cell, first, must_show(changed), repeats)
    times["batch"] = timed_batch(bed, first, must_show(changed), repeats)
    bed.cell.handle(first, Position(0, 0))
    second = bed.fetch(moved, 1, 2, 500)
    times["park"] = timed(bed.cell, second, must_wait, repeats)
    swap = bed.fetch(bed.others[:changed], 0, 2, 0, moved)
    times["swap"] = timed(bed.cell, swap, must_show(changed), repeats)
    bed.cell.handle(second, Position(0, 0))
    again = bed.produce(moved)
    times["wake"] = timed(bed.cell, again, must_show(changed), repeats)
    bed.cell.handle(again, Position(0, 0))
    for partition in bed.partitions:
        bed.cell.handle(bed.produce([partition]), Position(0, 0))
    times["burst"] = timed(bed.cell, bed.produce(moved), must_answer, repeats)
    times["full"] = bed.full_bytes
    return times


def must_answer(rows: list[Output]) -> None:
    """Check that the request has a response and no dead letter."""
    if [row.topic for row in rows if row.topic in (RESPONSES, DEAD_LETTERS)] != [RESPONSES]:
        raise SessionMismatch("the Produce was not answered")


def report(results: dict[int, dict[str, float]]) -> str:
    """The table, with the ratio of each step to the smallest size."""
    steps = ("fetch", "park", "wake", "swap", "produce", "burst", "batch")
    base = results[min(results)]
    head = "partitions" + "".join(f"{step:>9} {'ratio':>6}" for step in steps) + "   full answer"
    lines = [head]
    for size, times in sorted(results.items()):
        cells = "".join(f"{times[step]:>9.3f} {times[step] / base[step]:>6.2f}" for step in steps)
        lines.append(f"{size:>10}{cells}{times['full']:>12.0f} B")
    return "\n".join(lines)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[10, 100, 1000, 10_000])
    parser.add_argument("--changed", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=30)
    options = parser.parse_args()
    gc.disable()
    total = max(options.sizes)
    results = {
        size: measure(size, total, options.changed, options.repeats) for size in options.sizes
    }
    print(report(results))


if __name__ == "__main__":
    main()
