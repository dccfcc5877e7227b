"""The state of a producer, a transactional id, a group, a session or a partition in a checkpoint.

A checkpoint has no timeline: the requests are in the job's topics.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from brokertwin.recordings.explain.story import absent
from brokertwin.tables.state_rows import Columns, ItemKind, Row, rows

Named = Callable[[Row], set[str]]
"""Function from a row to its names."""


class Found(NamedTuple):
    """The rows of a kind about a subject."""

    kind: ItemKind
    rows: list[Row]


def _partition(row: Row) -> set[str]:
    return {f"{row['topic']}-{row['partition']}"}


def _producer(row: Row) -> set[str]:
    return {str(row["producerId"]), row.get("transactionalId", "")}


def _group(row: Row) -> set[str]:
    return {row["groupId"]}


def _session(row: Row) -> set[str]:
    return {str(row["sessionId"])}


def _client(row: Row) -> set[str]:
    return {row["clientId"] or ""}


SUBJECTS: Mapping[str, Mapping[ItemKind, Named]] = {
    "client": {ItemKind.MEMBERS: _client, ItemKind.SESSIONS: _client, ItemKind.CLIENTS: _client},
    "producer": {ItemKind.TRANSACTIONAL_IDS: _producer, ItemKind.PRODUCERS: _producer},
    "transaction": {ItemKind.TRANSACTIONAL_IDS: _producer},
    "group": {ItemKind.GROUPS: _group, ItemKind.OFFSETS: _group},
    "session": {ItemKind.SESSIONS: _session},
    "partition": {ItemKind.LOGS: _partition, ItemKind.PRODUCERS: _partition},
}
"""Subject to the kinds of items about it, with the names of their rows."""


def stored(
    subject: str, key: str, cells: Mapping[str, Columns], without_ends: frozenset[str] = frozenset()
) -> list[Found]:
    """The items about one thing, by kind.

    Args:
        subject: one of `SUBJECTS`.
        key: its name, as for a timeline of a recording.
        cells: the state.
        without_ends: topics whose log ends are not known.

    Raises:
        UserError: there is no such thing in the state.
    """
    keys = {key}
    if subject == "producer":  # its batches have the producer id alone
        of_name = rows(ItemKind.TRANSACTIONAL_IDS, cells)
        keys |= {str(row["producerId"]) for row in of_name if row["transactionalId"] == key}
    found, known = [], set()
    for kind, named in SUBJECTS[subject].items():
        all_rows = rows(kind, cells, without_ends)
        known |= {name for row in all_rows for name in named(row)} - {""}
        found.append(Found(kind, [row for row in all_rows if named(row) & keys]))
    if not any(each.rows for each in found):
        raise absent(subject, key, sorted(known), "checkpoint")
    return found
