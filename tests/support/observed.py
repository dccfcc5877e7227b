"""Findings about replication in the recordings of `tests/requestlogs`."""

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

from brokertwin.recordings.formats.pipeline import FileReading, read_files
from brokertwin.recordings.history.exchange import KnownFacts, RecordedExchange
from brokertwin.recordings.observed.watching import ObservedReplication, watch
from tests.support.requestlogs import REQUEST_LOGS, logs_of


@cache
def exchanges(run: str) -> Sequence[RecordedExchange]:
    watched = watch(lambda summary: read_files(logs_of(run), FileReading(), summary))
    return watched.replication.exchanges


def observed(
    run_exchanges: Sequence[RecordedExchange],
    lag_time_max_ms: int | None = None,
    min_isr: int | None = None,
) -> ObservedReplication:
    known = KnownFacts(lag_time_max_ms=lag_time_max_ms, takes_all=True)
    if min_isr is not None:
        known.min_isr[""] = min_isr
    return ObservedReplication(run_exchanges, known)


def agreed(found: ObservedReplication) -> int:
    """Number of high watermarks equal to the rule."""
    return sum(each.agreed for each in found.partitions.values())


def adopted(found: ObservedReplication) -> int:
    """Number of high watermarks without a verdict."""
    return sum(each.adopted for each in found.partitions.values())


def snapshots(run: str) -> list[dict[str, Any]]:
    """Actual states at some moments of a run, read from the brokers and from their disks."""
    document: list[dict[str, Any]] = json.loads((REQUEST_LOGS / run / "snapshots.json").read_text())
    return document
