"""Removes incomplete files of Spark's logs after a power failure.

Spark writes a file under another name and renames it, without fsync. After a power failure the name
can exist without the content, and Spark then rejects the whole checkpoint. A batch without its
commit runs again with the same offsets, and one without its plan is planned again. Either gives the
same rows with the same ids, because only the order of events counts.
"""

import json
from collections.abc import Callable
from pathlib import Path

from brokertwin.streaming.checkpoint import checkpoint_log

VERSION = "v1"
DOCUMENTS = {"offsets": 2, "commits": 1}
"""Number of JSON documents after the version."""


def mend(checkpoint: Path, report: Callable[[str], None] = lambda _: None) -> None:
    """Remove the newest incomplete plans and commits of a locked checkpoint.

    Args:
        checkpoint: the checkpoint directory; it may not exist yet.
        report: called with a text about each removed file.
    """
    for log, newest in (("offsets", checkpoint_log.planned), ("commits", checkpoint_log.committed)):
        while (batch := newest(checkpoint)) != checkpoint_log.NONE:
            if is_whole(checkpoint / log / str(batch)):
                break
            _remove(checkpoint / log, batch)
            report(f"removed {log}/{batch}, which was not written completely; the batch runs again")
    planned = checkpoint_log.planned(checkpoint)
    while (batch := checkpoint_log.committed(checkpoint)) > planned:
        _remove(checkpoint / "commits", batch)


def is_whole(file: Path) -> bool:
    """Whether a file of Spark's logs is complete."""
    version, *documents = file.read_text(encoding="utf-8", errors="replace").split("\n")
    if version != VERSION or len(documents) != DOCUMENTS[file.parent.name]:
        return False
    try:
        return all(isinstance(json.loads(each), dict) for each in documents)
    except ValueError:
        return False


def _remove(log: Path, batch: int) -> None:
    (log / f".{batch}.crc").unlink(missing_ok=True)
    (log / str(batch)).unlink()
