"""The table of the finders: each a function from a history to findings."""

from collections.abc import Callable, Iterable

from brokertwin.recordings.audit import (
    clients,
    commits,
    groups,
    incidents,
    lag,
    producers,
    refusals,
    replication,
    sessions,
    shares,
)
from brokertwin.recordings.audit.finding import AuditFinding
from brokertwin.recordings.audit.history import EntityHistory

Finder = Callable[[EntityHistory], Iterable[AuditFinding]]

FINDERS: tuple[Finder, ...] = (
    *incidents.FINDERS,
    *producers.FINDERS,
    *sessions.FINDERS,
    *groups.FINDERS,
    *clients.FINDERS,
    *commits.FINDERS,
    *lag.FINDERS,
    *shares.FINDERS,
    *replication.FINDERS,
    *refusals.FINDERS,
)


def findings(history: EntityHistory) -> list[AuditFinding]:
    """All that was found, the worst first, then by time."""
    found = (finding for finder in FINDERS for finding in finder(history))
    return sorted(found, key=lambda each: (-each.severity, each.begin, each.kind, each.subject))
