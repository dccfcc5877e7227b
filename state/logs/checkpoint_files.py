"""Kafka's offset checkpoint files as text.

    0                    version
    2                    number of entries
    orders 0 17316       topic, partition, offset
    orders 1 17314

`replication-offset-checkpoint` has the high watermarks; `recovery-point-offset-checkpoint`,
`log-start-offset-checkpoint` and `cleaner-offset-checkpoint` have the same form. In the
`leader-epoch-checkpoint` of a log, an entry is a leader epoch and the offset of its first record.

Source: seed 004; `CheckpointFile`, `OffsetCheckpointFile`, `LeaderEpochCheckpointFile` in Kafka.
"""

from collections.abc import Sequence

VERSION = 0

HIGH_WATERMARKS = "replication-offset-checkpoint"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
CLEANED = "cleaner-offset-checkpoint"
LEADER_EPOCHS = "leader-epoch-checkpoint"


class CheckpointError(ValueError):
    """A text is not a checkpoint file."""


Offsets = dict[tuple[str, int], int]
"""Topic and partition to an offset."""

Epochs = dict[int, int]
"""Leader epoch to the offset of its first record."""


def parse(text: str) -> Offsets:
    """Entries of a file; an empty file has none.

    Raises:
        CheckpointError: another version, a malformed line, or a wrong number of entries.
    """
    return dict(map(_entry, _lines(text)))


def parse_epochs(text: str) -> Epochs:
    """Entries of a log's `leader-epoch-checkpoint`; see `parse`."""
    return dict(map(_epoch, _lines(text)))


def render(offsets: Offsets) -> str:
    lines = [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
    return _text(lines)


def render_epochs(epochs: Epochs) -> str:
    """Text of a log's `leader-epoch-checkpoint`."""
    return _text([f"{epoch} {start}" for epoch, start in epochs.items()])


def _text(lines: Sequence[str]) -> str:
    return "\n".join([str(VERSION), str(len(lines)), *lines, ""])


def _lines(text: str) -> list[str]:
    lines = text.splitlines()
    if not lines:
        return []
    version = _number(lines[0], "version")
    if version != VERSION:
        raise CheckpointError(f"version {version} is not {VERSION}")
    if len(lines) < 2:
        raise CheckpointError("the number of entries is missing")
    expected = _number(lines[1], "number of entries")
    if len(lines) - 2 != expected:
        raise CheckpointError(f"{len(lines) - 2} entries instead of {expected}")
    return lines[2:]


def _entry(line: str) -> tuple[tuple[str, int], int]:
    parts = line.split()
    if len(parts) != 3:
        raise CheckpointError(f"a line is not `topic partition offset`: {line!r}")
    return (parts[0], _number(parts[1], "partition")), _number(parts[2], "offset")


def _epoch(line: str) -> tuple[int, int]:
    parts = line.split()
    if len(parts) != 2:
        raise CheckpointError(f"a line is not `epoch offset`: {line!r}")
    return _number(parts[0], "epoch"), _number(parts[1], "offset")


def _number(text: str, what: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise CheckpointError(f"the {what} is not a number: {text!r}") from None
