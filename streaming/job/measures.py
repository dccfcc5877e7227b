"""Counts of the workers: rows by topic, responses, sizes of cells.

A Spark accumulator carries them to the driver. They are for progress reports only: a repeated task
counts again.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from brokertwin.state.fetch.fetch_session_counts import CacheCounts
from brokertwin.streaming.job import tallies
from brokertwin.streaming.job.tallies import Tallies

if TYPE_CHECKING:
    from pyspark import Accumulator, SparkContext

Counts = dict[str, int]

STATE, SESSIONS, PARTITIONS_CACHED, EVICTIONS = "state", "sessions", "cached", "evictions"
"""Measures of a cell: state bytes; fetch sessions, partitions, evictions."""

LOAD = "load"
"""Processor time of a cell's events, in µs."""


def of_cell(measure: str, cell: str) -> str:
    """The name of a cell's measure; other names have no slash."""
    return f"{measure}/{cell}"


def _is_of_cell(name: str) -> bool:
    return "/" in name


def _is_of_topic(name: str) -> bool:
    return not _is_of_cell(name) and tallies.SEPARATOR not in name


def _sum_over_cells(counts: Mapping[str, int], measure: str) -> int:
    return sum(n for name, n in counts.items() if name.startswith(of_cell(measure, "")))


def merge(total: Counts, update: Mapping[str, int]) -> Counts:
    """Add an update: counts and loads are summed, sizes are replaced."""
    for name, value in update.items():
        is_size = _is_of_cell(name) and not name.startswith(of_cell(LOAD, ""))
        total[name] = value if is_size else total.get(name, 0) + value
    return total


def loads_of(counts: Mapping[str, int]) -> Counts:
    start = of_cell(LOAD, "")
    return {name.removeprefix(start): n for name, n in counts.items() if name.startswith(start)}


def accumulator(context: "SparkContext") -> "Accumulator[Counts]":
    from pyspark import AccumulatorParam

    class Param(AccumulatorParam[Counts]):
        def zero(self, value: Counts) -> Counts:
            return {}

        def addInPlace(self, value1: Counts, value2: Counts) -> Counts:  # noqa: N802
            return merge(value1, value2)

    return context.accumulator({}, Param())


class QueryProgress(msgspec.Struct, frozen=True):
    """Progress of a job after a micro-batch.

    Attributes:
        events: number of its rows of `requests`; a pack is one.
        lag: number of rows of `requests` not yet read.
        counts: rows by topic since the job's start; of `requests`, events.
        state_bytes: size of the state rows updated since the job's start.
        fetch_sessions: fetch-session caches of these cells.
        tallies: responses and errors by API, dead letters by reason, since the job's start.
    """

    batch: int
    events: int
    seconds: float
    lag: int
    counts: Counts
    state_bytes: int
    fetch_sessions: CacheCounts = CacheCounts(0, 0, 0)
    tallies: Tallies = Tallies({}, {}, {})

    def document(self) -> dict[str, Any]:
        values = msgspec.to_builtins(self)
        del values["tallies"]
        return {**values, "fetch_sessions": self.fetch_sessions._asdict(), **self.tallies._asdict()}


def progress_of(reported: Mapping[str, object], counts: Counts, lag: int) -> QueryProgress:
    """Combine Spark's report (StreamingQueryProgress as a dict), the counts and the lag."""
    report = msgspec.convert(reported, _Reported)
    return QueryProgress(
        batch=report.batch_id,
        events=report.num_input_rows,
        seconds=report.duration_ms.get("triggerExecution", 0) / 1000,
        lag=lag,
        counts={name: n for name, n in counts.items() if _is_of_topic(name)},
        tallies=tallies.of(counts),
        state_bytes=_sum_over_cells(counts, STATE),
        fetch_sessions=CacheCounts(
            sessions=_sum_over_cells(counts, SESSIONS),
            partitions_cached=_sum_over_cells(counts, PARTITIONS_CACHED),
            evictions=_sum_over_cells(counts, EVICTIONS),
        ),
    )


class _Reported(msgspec.Struct, rename="camel"):
    batch_id: int
    num_input_rows: int
    duration_ms: dict[str, int] = {}
