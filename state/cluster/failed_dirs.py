"""Failed log directories of a running broker.

Source: KIP-112, KIP-858; `LogDirFailureChannel`, `LogManager.handleLogDirFailure` in Kafka. A
restarted broker uses its directories again. Item of the table `replication`:

    <broker>/failed-dirs    FailedDirs; none without failures
"""

import msgspec

from brokertwin.state.core.tables import MachineTables

KIND = "failed-dirs"


class FailedDirs(msgspec.Struct):
    """Paths in the order of their failures."""

    paths: list[str]


def of(at: MachineTables) -> list[str]:
    dirs = at.tables.replication.get(_key(at.id), FailedDirs)
    return dirs.paths if dirs is not None else []


def note(at: MachineTables, path: str) -> None:
    at.tables.replication.put(_key(at.id), FailedDirs([*of(at), path]))


def _key(broker: int) -> str:
    return f"{broker}/{KIND}"
