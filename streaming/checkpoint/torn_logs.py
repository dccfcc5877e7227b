"""What a power failure may leave of Spark's logs in a checkpoint: a newest file that is not whole.

Spark writes a file under another name and renames it, and asks nobody to put it on the disk: after
a power failure its name may be there and its content not. Spark then refuses the whole checkpoint.
A batch without its commit runs again with the same offsets, and one without its plan is planned
anew: either gives the same rows under the same ids, because only the order of the events counts.
"""

import json
from collections.abc import Callable
from pathlib import Path

from brokertwin.streaming.checkpoint import checkpoint_log

VERSION = "v1"
DOCUMENTS = {"offsets": 2, "commits": 1}
"""How many follow the version: of a plan its settings and the offsets of the only source."""


def mend(checkpoint: Path, say: Callable[[str], None] = lambda _: None) -> None:
    """Take away the newest plans and commits that are torn; the checkpoint is held.

    Args:
        checkpoint: the checkpoint directory; it need not be there yet.
        say: is told of each file.
    """
    for log, newest in (("offsets", checkpoint_log.planned), ("commits", checkpoint_log.committed)):
        while (batch := newest(checkpoint)) != checkpoint_log.NONE:
            if is_whole(checkpoint / log / str(batch)):
                break
            _remove(checkpoint / log, batch)
            say(f"removed {log}/{batch}, which was not written completely; the batch runs again")
    planned = checkpoint_log.planned(checkpoint)
    while (batch := checkpoint_log.committed(checkpoint)) > planned:
        _remove(checkpoint / "commits", batch)


def is_whole(file: Path) -> bool:
    """Whether a file of Spark's logs is as it was written."""
    version, *documents = file.read_text(encoding="utf-8", errors="replace").split("\n")
    if version != VERSION or len(documents) != DOCUMENTS[file.parent.name]:
        return False
    try:
        return all(isinstance(json.loads(each), dict) for each in documents)
    except ValueError:
        return False


def _remove(log: Path, batch: int) -> None:
    """The file and its checksum."""
    (log / f".{batch}.crc").unlink(missing_ok=True)
    (log / str(batch)).unlink()
