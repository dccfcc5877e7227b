"""What a checkpoint knows of a producer, a transactional id, a group, a session or a partition.

It is a state without its story: who brought it about is in the job's topics.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from brokertwin.recordings.explain.story import absent
from brokertwin.sinks.state_rows import Columns, Kind, Row, rows

Named = Callable[[Row], set[str]]
"""What a row of a kind may be called."""


class Found(NamedTuple):
    """The rows of a kind that are about what was asked for."""

    kind: Kind
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


SUBJECTS: Mapping[str, Mapping[Kind, Named]] = {
    "client": {Kind.MEMBERS: _client, Kind.SESSIONS: _client, Kind.CLIENTS: _client},
    "producer": {Kind.TRANSACTIONAL_IDS: _producer, Kind.PRODUCERS: _producer},
    "transaction": {Kind.TRANSACTIONAL_IDS: _producer},
    "group": {Kind.GROUPS: _group, Kind.OFFSETS: _group},
    "session": {Kind.SESSIONS: _session},
    "partition": {Kind.LOGS: _partition, Kind.PRODUCERS: _partition},
}
"""What may be asked for, to the kinds of items that tell of it."""


def stored(subject: str, key: str, cells: Mapping[str, Columns]) -> list[Found]:
    """The items about one thing, by kind.

    Args:
        subject: what it is, one of `SUBJECTS`.
        key: how it is called, as a recording's story takes it.
        cells: the state.

    Raises:
        UserError: there is no such thing in the state.
    """
    keys = {key}
    if subject == "producer":  # what it wrote goes by its id alone
        of_name = rows(Kind.TRANSACTIONAL_IDS, cells)
        keys |= {str(row["producerId"]) for row in of_name if row["transactionalId"] == key}
    found, known = [], set()
    for kind, named in SUBJECTS[subject].items():
        all_rows = rows(kind, cells)
        known |= {name for row in all_rows for name in named(row)} - {""}
        found.append(Found(kind, [row for row in all_rows if named(row) & keys]))
    if not any(each.rows for each in found):
        raise absent(subject, key, sorted(known), "checkpoint")
    return found
