"""Displayed measures of a running job."""

from typing import Any

from brokertwin.state.fetch.fetch_session_counts import CacheCounts
from brokertwin.streaming.job import measures


def test_worker_counts_add_up_and_sizes_are_replaced() -> None:
    total = {"responses": 2, "state/c.0": 10, "load/c.0": 400}
    total = measures.merge(total, {"responses": 3, "state/c.0": 7, "load/c.0": 30, "load/d": 1})
    assert total == {"responses": 5, "state/c.0": 7, "load/c.0": 430, "load/d": 1}
    assert measures.loads_of(total) == {"c.0": 430, "d": 1}


def test_fetch_sessions_are_added_up_over_the_cells() -> None:
    counts = {"sessions/a": 2, "sessions/b": 1, "cached/a": 30, "evictions/a": 4}
    assert measures.progress_of(report(), counts, 0).fetch_sessions == CacheCounts(3, 30, 4)


def report() -> dict[str, Any]:
    return {
        "batchId": 3,
        "numInputRows": 40,
        "durationMs": {"triggerExecution": 1500, "addBatch": 900},
    }


def test_progress_is_a_report_with_counts_and_lag() -> None:
    counts = {"responses": 39, "state/a": 100, "state/b": 11}
    progress = measures.progress_of(report(), counts, 16)
    assert progress == measures.QueryProgress(
        batch=3, events=40, seconds=1.5, lag=16, counts={"responses": 39}, state_bytes=111
    )


def test_metrics_have_machine_readable_names() -> None:
    counts = {"responses": 39, "sessions/a": 2, "cached/a": 30, "evictions/a": 4}
    counts |= {"answers:1": 5, "errors:1:70": 2, "reasons:not JSON": 1}
    document = measures.progress_of(report(), counts, 0).document()
    assert document == {
        "batch": 3,
        "events": 40,
        "seconds": 1.5,
        "lag": 0,
        "counts": {"responses": 39},
        "state_bytes": 0,
        "fetch_sessions": {"sessions": 2, "partitions_cached": 30, "evictions": 4},
        "answers": {"FETCH": 5},
        "errors": {"FETCH": {"FETCH_SESSION_ID_NOT_FOUND": 2}},
        "reasons": {"not JSON": 1},
    }
