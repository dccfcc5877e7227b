"""Spark's own logs in a checkpoint: which micro-batches are planned, which have committed.

A batch is planned when `offsets/<batch>` is there, and done when `commits/<batch>` is. A planned
batch that has not committed runs again, with the same offsets, at the next start.

Source: org.apache.spark.sql.execution.streaming.OffsetSeqLog and CommitLog (format v1).
"""

import json
from pathlib import Path

NONE = -1
"""There is no batch yet."""


def planned(checkpoint: Path) -> int:
    """The newest planned batch."""
    return _newest(checkpoint / "offsets")


def committed(checkpoint: Path) -> int:
    """The newest committed batch."""
    return _newest(checkpoint / "commits")


def query_id(checkpoint: Path) -> str:
    """Spark's id of the query whose checkpoint this is: a new one for each checkpoint."""
    known: str = json.loads((checkpoint / "metadata").read_text(encoding="utf-8"))["id"]
    return known


def end_offsets(checkpoint: Path, batch: int) -> dict[str, dict[int, int]]:
    """Topic, then partition, to the offset of the first row after a batch; empty for no batch."""
    if batch == NONE:
        return {}
    by_topic: dict[str, dict[str, int]] = json.loads(_plan(checkpoint, batch)[2])
    return {
        topic: {int(partition): offset for partition, offset in offsets.items()}
        for topic, offsets in by_topic.items()
    }


def configuration(checkpoint: Path, batch: int) -> dict[str, str]:
    """What a planned batch has fixed of Spark's configuration: names and values."""
    fixed: dict[str, str] = json.loads(_plan(checkpoint, batch)[1])["conf"]
    return fixed


def begun_ms(checkpoint: Path, batch: int) -> int:
    """When a planned batch began, in ms since 1970: what it reads was written before."""
    began: int = json.loads(_plan(checkpoint, batch)[1])["batchTimestampMs"]
    return began


def _plan(checkpoint: Path, batch: int) -> list[str]:
    """The lines of a batch's plan: format, metadata, the offsets of its only source."""
    return (checkpoint / "offsets" / str(batch)).read_text(encoding="utf-8").splitlines()


def kept(checkpoint: Path) -> range:
    """The committed batches of which Spark still keeps the plan; it removes old ones."""
    newest = committed(checkpoint)
    found = _batches(checkpoint / "offsets")
    return range(min(found), newest + 1) if found and newest != NONE else range(0)


def _newest(directory: Path) -> int:
    return max(_batches(directory), default=NONE)


def _batches(directory: Path) -> list[int]:
    if not directory.is_dir():
        return []
    return [int(file.name) for file in directory.iterdir() if file.name.isdigit()]
