"""Failed log directories of a running broker.

Source: KIP-112, KIP-858; `LogDirFailureChannel`, `LogManager.handleLogDirFailure` in Kafka. A
restarted broker uses its directories again. Item of the table `replication`:

    <broker>/failed-dirs    FailedDirs; none without failures
"""

import msgspec

from brokertwin.state.core.tables import Table

KIND = "failed-dirs"


class FailedDirs(msgspec.Struct):
    """Paths in the order of their failures."""

    paths: list[str]


def of(table: Table, broker: int) -> list[str]:
    found = table.get(_key(broker), FailedDirs)
    return found.paths if found is not None else []


def note(table: Table, broker: int, path: str) -> None:
    table.put(_key(broker), FailedDirs([*of(table, broker), path]))


def _key(broker: int) -> str:
    return f"{broker}/{KIND}"
