"""Kafka's checkpoint files of offsets: text <-> values.

    0                    version
    2                    how many entries follow
    orders 0 17316       topic, partition, offset
    orders 1 17314

`replication-offset-checkpoint` has the high watermarks, `recovery-point-offset-checkpoint`,
`log-start-offset-checkpoint` and `cleaner-offset-checkpoint` are of the same form.

Source: seed 004; `CheckpointFile`, `OffsetCheckpointFile` in Kafka.
"""

VERSION = 0


class CheckpointError(ValueError):
    """A text is no checkpoint file; the message says why."""


Offsets = dict[tuple[str, int], int]
"""Topic and partition to an offset."""


def parse(text: str) -> Offsets:
    """The entries of a file; an empty one has none.

    Raises:
        CheckpointError: another version, a malformed line, or another number of entries.
    """
    lines = text.splitlines()
    if not lines:
        return {}
    version = _number(lines[0], "version")
    if version != VERSION:
        raise CheckpointError(f"its version is {version}, not {VERSION}")
    if len(lines) < 2:
        raise CheckpointError("the number of entries is missing")
    expected = _number(lines[1], "number of entries")
    entries = dict(map(_entry, lines[2:]))
    if len(entries) != expected:
        raise CheckpointError(f"it has {len(entries)} entries, and says {expected}")
    return entries


def render(offsets: Offsets) -> str:
    """The text of a file with these entries, in their order."""
    lines = [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
    return "\n".join([str(VERSION), str(len(lines)), *lines, ""])


def _entry(line: str) -> tuple[tuple[str, int], int]:
    parts = line.split()
    if len(parts) != 3:
        raise CheckpointError(f"a line is not `topic partition offset`: {line!r}")
    return (parts[0], _number(parts[1], "partition")), _number(parts[2], "offset")


def _number(text: str, what: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise CheckpointError(f"the {what} is no number: {text!r}") from None
