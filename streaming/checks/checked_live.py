"""Flat rows of the state topics of a live audit for data checks, with columns that compare values.

`streaming/checks/suites.py` has the expectations, and docs/checks.md explains the columns.
"""

from collections.abc import Callable, Iterable
from itertools import pairwise

import msgspec

from brokertwin.kafka_io.topic_reader import TopicRow
from brokertwin.recordings.history.batches import BATCHES_KEPT
from brokertwin.state.logs.producer import sequence_after
from brokertwin.streaming.checks.checked_rows import Flat
from brokertwin.streaming.live.tables import (
    GROUPS,
    OFFSETS,
    PRODUCERS,
    SESSIONS,
    TRANSACTIONS,
)

TABLES = {
    "sessions": SESSIONS,
    "producers": PRODUCERS,
    "producer-ids": TRANSACTIONS,
    "groups": GROUPS,
    "offsets": OFFSETS,
}
"""Kind of rows to their table."""

BATCHES = tuple(f"batch_{number}" for number in range(1, BATCHES_KEPT + 1))


def columns(kind: str) -> list[str]:
    """The columns of a kind."""
    names = ["cluster", *(each for each in TABLES[kind].columns if each not in BATCHES), "keyFits"]
    return names + ["batches", "sequenceGaps"] * (kind == "producers")


def of_kind(kind: str, read: Callable[[str], Iterable[TopicRow]]) -> list[Flat]:
    """Return the newest rows for a suite, each with whether its key fits.

    Args:
        kind: one of `suites.OF_LIVE`.
        read: reads a topic, named without the prefix.
    """
    table = TABLES[kind]
    newest = {row.key: row.value for row in read(table.name)}
    found = []
    for key, value in newest.items():
        if key is not None and value is not None:
            row = msgspec.json.decode(value)
            named = {name: row.get(name) for name in ("cluster", *table.keys)}
            row["keyFits"] = msgspec.json.decode(key) == named
            found.append(_with_gaps(row) if kind == "producers" else row)
    return found


def _with_gaps(row: Flat) -> Flat:
    """A producer with the number of its batches, and of gaps between them and its last sequence."""
    kept = [row[name] for name in BATCHES if row[name] is not None]
    ends = [(each["first_sequence"], each["last_sequence"]) for each in kept]
    gaps = sum(
        sequence_after(before, 1) != first for (_, before), (first, _) in pairwise(ends)
    ) + sum(last != row["last_sequence"] for _, last in ends[-1:])
    return {**row, "batches": len(kept), "sequenceGaps": gaps}
