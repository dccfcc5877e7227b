"""The log directories of a broker that have failed while it ran: what it remembers of them.

Source: KIP-112, KIP-858; `LogDirFailureChannel`, `LogManager.handleLogDirFailure` in Kafka. A
broker forgets them when it stops: it looks at its directories anew when it starts. In the table
`replication` lies

    <broker>/failed-dirs    FailedDirs; no item where all are there
"""

import msgspec

from brokertwin.state.core.tables import Table

KIND = "failed-dirs"


class FailedDirs(msgspec.Struct):
    """Paths, in the order in which they have failed."""

    paths: list[str]


def of(table: Table, broker: int) -> list[str]:
    """The directories of a broker that have failed."""
    found = table.get(_key(broker), FailedDirs)
    return found.paths if found is not None else []


def note(table: Table, broker: int, path: str) -> None:
    """Another directory of a broker has failed."""
    table.put(_key(broker), FailedDirs([*of(table, broker), path]))


def _key(broker: int) -> str:
    return f"{broker}/{KIND}"
