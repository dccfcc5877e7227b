"""Flat rows of the state topics of a live audit for data checks, with columns that compare values.

`streaming/checks/suites.py` has the expectations, and docs/checks.md explains the columns.
"""

from collections.abc import Callable, Iterable

import msgspec

from brokertwin.kafka_io.topic_reader import TopicRow
from brokertwin.recordings.history.batches import BATCHES_KEPT
from brokertwin.state.logs.producer import sequence_after
from brokertwin.streaming.checks.checked_rows import Flat
from brokertwin.streaming.live.tables import GROUPS, OFFSETS, PRODUCERS, SESSIONS, TRANSACTIONS

TABLES = {
    "sessions": SESSIONS,
    "producers": PRODUCERS,
    "producer-ids": TRANSACTIONS,
    "groups": GROUPS,
    "offsets": OFFSETS,
}
"""Kind of rows to their table."""

BATCHES = tuple(f"batch_{number}" for number in range(1, BATCHES_KEPT + 1))

OF_BATCHES = [
    *("batches", "last_of_batches"),
    *(f"first_sequence_{number}" for number in range(1, BATCHES_KEPT + 1)),
    *(f"sequence_after_{number}" for number in range(1, BATCHES_KEPT + 1)),
]
"""Columns of a producer for its batches, the oldest is number 1."""


def columns(kind: str) -> list[str]:
    names = [each for each in TABLES[kind].columns if each not in BATCHES]
    return ["cluster", *names, "key", "keyOfValues", *OF_BATCHES * (kind == "producers")]


def of_kind(kind: str, read: Callable[[str], Iterable[TopicRow]]) -> list[Flat]:
    """Return the newest rows for a suite, each with its key and the key that its values make.

    Args:
        kind: one of `suites.OF_LIVE`.
        read: reads a topic, named without the prefix.
    """
    table = TABLES[kind]
    newest = {row.key: row.value for row in read(table.name)}
    rows = []
    for key, value in newest.items():
        if key is not None and value is not None:
            row = msgspec.json.decode(value)
            named = {name: row.get(name) for name in ("cluster", *table.keys)}
            row["key"] = _text(msgspec.json.decode(key))
            row["keyOfValues"] = _text(named)
            rows.append(_with_batches(row) if kind == "producers" else row)
    return rows


def _text(key: Flat) -> str:
    return msgspec.json.encode(key, order="sorted").decode()


def _with_batches(row: Flat) -> Flat:
    """A producer with the columns `OF_BATCHES`."""
    kept = [row[name] for name in BATCHES if row[name] is not None]
    columns = dict.fromkeys(OF_BATCHES) | {"batches": len(kept)}
    for number, each in enumerate(kept, 1):
        columns[f"first_sequence_{number}"] = each["first_sequence"]
        columns[f"sequence_after_{number}"] = sequence_after(each["last_sequence"], 1)
        columns["last_of_batches"] = each["last_sequence"]
    return {**row, **columns}
