"""Results of the observer for the recordings of `tests/requestlogs`."""

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

from brokertwin.recordings.formats.pipeline import FileReading
from brokertwin.recordings.formats.summary import Summary
from brokertwin.recordings.observed.exchanges import exchanges_of
from brokertwin.state.observed.exchanges import ObservedExchange
from brokertwin.state.observed.replication import ReplicationObserver
from tests.support.requestlogs import REQUEST_LOGS, logs_of


@cache
def exchanges(run: str) -> Sequence[ObservedExchange]:
    """A run's exchanges, read once."""
    return list(exchanges_of(logs_of(run), FileReading(), Summary()))


def observed(
    run_exchanges: Sequence[ObservedExchange], replica_lag_time_max_ms: int | None = None
) -> ReplicationObserver:
    """An observer that has seen these."""
    observer = ReplicationObserver(replica_lag_time_max_ms=replica_lag_time_max_ms)
    observer.observe(run_exchanges)
    return observer


def snapshots(run: str) -> list[dict[str, Any]]:
    """Actual states at some moments of a run, read from the brokers and from their disks."""
    found: list[dict[str, Any]] = json.loads((REQUEST_LOGS / run / "snapshots.json").read_text())
    return found
