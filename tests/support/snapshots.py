"""Snapshots without a job: of made-up cells."""

from pathlib import Path

from brokertwin.sinks import snapshot_store
from brokertwin.sinks.offsets_snapshot import SnapshotRow
from brokertwin.sinks.snapshot_store import Judge, Published, SnapshotContent

NOON_MS = 1_795_348_800_123
"""2026-11-22 12:00:00.123 UTC."""


def taken(batch: int = 3, at_ms: int = NOON_MS, payload: bytes = b"logs") -> SnapshotContent:
    return SnapshotContent(
        taken_ms=at_ms,
        batch=batch,
        query_id="q",
        state_version=4,
        source_offsets={"p.requests": {"0": batch * 10, "1": 0}},
        cells={"b": {"logs": payload, "meta": b"1"}, "a": {"logs": b"", "meta": b"2"}},
        offsets=[SnapshotRow("a", "g", "t", 0, batch, -1, "", 1_000, -1)],
        facts={"prefix": "p"},
        spark={"schema": b"\0columns", "configuration.json": b"{}"},
    )


def written(directory: Path, batch: int = 3, judge: Judge | None = None) -> Published:
    """A snapshot, `batch` seconds after noon."""
    return snapshot_store.write(directory, taken(batch, NOON_MS + batch * 1000), judge)
