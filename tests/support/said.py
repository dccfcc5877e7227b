"""What the tools say of recordings, kept: a changed sentence is seen in every run.

Kept texts show what is said, not that it is true; other tests and the score do that. `make record
NAME=said` writes them again: read the difference before it is committed.
"""

import difflib
import gzip
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "said"
IS_WRITING = os.environ.get("SAID") == "write"
PARTS_SHOWN, LINES_SHOWN = 8, 8
"""Of a difference: commands, and lines of each."""

Said = Mapping[str, Sequence[str]]
"""Lines by the command that prints them."""


def assert_said(name: str, said: Said) -> None:
    """Compare with the kept text; the message has the first lines that differ."""
    path = FOLDER / f"{name}.json.gz"
    if IS_WRITING:
        path.parent.mkdir(parents=True, exist_ok=True)
        document = json.dumps(said, indent=0, ensure_ascii=False).encode()
        path.write_bytes(gzip.compress(document, mtime=0))
    kept: Said = json.loads(gzip.decompress(path.read_bytes()))
    differing = [each for each in {**kept, **said} if kept.get(each) != said.get(each)]
    if differing:
        lines = [line for each in differing[:PARTS_SHOWN] for line in _difference(each, kept, said)]
        raise AssertionError(
            f"{name}: {len(differing)} of {len(kept)} commands say something else"
            " (make record NAME=said writes it again):\n" + "\n".join(lines)
        )


def _difference(part: str, kept: Said, said: Said) -> Iterator[str]:
    yield part
    lines = difflib.unified_diff(kept.get(part, ()), said.get(part, ()), n=0, lineterm="")
    shown = [each for each in lines if not each.startswith(("---", "+++", "@@"))]
    yield from shown[:LINES_SHOWN]
