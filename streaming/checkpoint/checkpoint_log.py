"""Spark's logs in a checkpoint: planned and committed micro-batches.

A batch is planned if `offsets/<batch>` exists, and committed if `commits/<batch>` exists. A planned
batch without a commit runs again, with the same offsets, at the next start.

Source: org.apache.spark.sql.execution.streaming.OffsetSeqLog and CommitLog (format v1).
"""

import json
from collections.abc import Mapping
from pathlib import Path

from brokertwin.errors import UserError
from brokertwin.sinks import files

LIVE = "brokertwin-live.json"
"""File in a checkpoint of `brokertwin live`, with the settings that are fixed."""

NONE = -1
"""No batch yet."""


def planned(checkpoint: Path) -> int:
    return _newest(checkpoint / "offsets")


def committed(checkpoint: Path) -> int:
    return _newest(checkpoint / "commits")


def query_id(checkpoint: Path) -> str:
    """Return Spark's query id, which is unique for each checkpoint."""
    text: str = json.loads((checkpoint / "metadata").read_text(encoding="utf-8"))["id"]
    return text


def end_offsets(checkpoint: Path, batch: int) -> dict[str, dict[int, int]]:
    """Return the end offsets of a batch by topic and partition.

    An offset is that of the first row after the batch. Empty without a batch.
    """
    if batch == NONE:
        return {}
    by_topic: dict[str, dict[str, int]] = json.loads(_plan(checkpoint, batch)[2])
    return {
        topic: {int(partition): offset for partition, offset in offsets.items()}
        for topic, offsets in by_topic.items()
    }


def configuration(checkpoint: Path, batch: int) -> dict[str, str]:
    fixed: dict[str, str] = json.loads(_plan(checkpoint, batch)[1])["conf"]
    return fixed


def begun_ms(checkpoint: Path, batch: int) -> int:
    """Return when a batch was planned, in ms since 1970. Its input was written before that time."""
    began: int = json.loads(_plan(checkpoint, batch)[1])["batchTimestampMs"]
    return began


def _plan(checkpoint: Path, batch: int) -> list[str]:
    """The lines of a planned batch: format, metadata, offsets."""
    return (checkpoint / "offsets" / str(batch)).read_text(encoding="utf-8").splitlines()


def move_offsets(checkpoint: Path, batch: int, moved: Mapping[str, Mapping[int, int]]) -> None:
    """Set end offsets of a batch by topic and partition, while no query runs.

    Hadoop's checksum of the file, if there is one, is removed.
    """
    path = checkpoint / "offsets" / str(batch)
    *head, offsets = _plan(checkpoint, batch)[:3]
    by_topic = json.loads(offsets)
    for topic, partitions in moved.items():
        by_topic.setdefault(topic, {}).update({str(n): at for n, at in partitions.items()})
    (path.parent / f".{batch}.crc").unlink(missing_ok=True)
    with files.replacing(path) as temporary:
        temporary.write_text("\n".join([*head, json.dumps(by_topic)]), encoding="utf-8")


def kept(checkpoint: Path) -> range:
    """The committed batches whose offsets Spark has not removed yet."""
    newest = committed(checkpoint)
    batches = _batches(checkpoint / "offsets")
    return range(min(batches), newest + 1) if batches and newest != NONE else range(0)


def committed_batch(checkpoint: Path, batch: int | None = None) -> int:
    """Return the given batch, or the newest committed one.

    Raises:
        UserError: nothing is committed, or not this batch.
    """
    batches = kept(checkpoint)
    if not batches:
        raise no_checkpoint(checkpoint)
    if batch is not None and batch not in batches:
        raise UserError(
            f"{checkpoint} has no state of micro-batch {batch}.",
            f"Pass a micro-batch from {batches[0]} to {batches[-1]}.",
        )
    return batches[-1] if batch is None else batch


def no_checkpoint(checkpoint: Path) -> UserError:
    """Return the error for a directory without a committed micro-batch of the right kind."""
    if (checkpoint / LIVE).is_file():
        return UserError(
            f"{checkpoint} is a checkpoint of `brokertwin live`.",
            f"Pass that of `brokertwin run`, or: brokertwin query 'from groups' {checkpoint}",
        )
    if checkpoint.is_file():
        return UserError(f"{checkpoint} is a file, not a checkpoint.", "Pass the directory.")
    return UserError(
        f"{checkpoint} is not a checkpoint with a committed micro-batch.",
        "Check --checkpoint or --prefix, or run the job first.",
    )


def _newest(directory: Path) -> int:
    return max(_batches(directory), default=NONE)


def _batches(directory: Path) -> list[int]:
    if not directory.is_dir():
        return []
    return [int(file.name) for file in directory.iterdir() if file.name.isdigit()]
