"""The table of the finders: each a function from a history to findings."""

from collections.abc import Callable, Iterable

from brokertwin.recordings.audit import (
    commits,
    groups,
    lag,
    producers,
    refusals,
    replication,
    sessions,
    shares,
)
from brokertwin.recordings.audit.finding import AuditFinding
from brokertwin.recordings.audit.history import EntityHistory, History

Finder = Callable[[History], Iterable[AuditFinding]]
EntityFinder = Callable[[EntityHistory], Iterable[AuditFinding]]

OF_ENTITIES: tuple[EntityFinder, ...] = (
    *producers.FINDERS,
    *sessions.FINDERS,
    *groups.FINDERS,
    *commits.FINDERS,
    *shares.FINDERS,
    *refusals.FINDERS,
)
"""Finders that need the findings of machines alone, not the recording."""

FINDERS: tuple[Finder, ...] = (*OF_ENTITIES, *lag.FINDERS, *replication.FINDERS)


def findings(history: History) -> list[AuditFinding]:
    """All that was found, the worst first, then by time."""
    return in_order(finding for finder in FINDERS for finding in finder(history))


def in_order(found: Iterable[AuditFinding]) -> list[AuditFinding]:
    """The worst first, then by time."""
    return sorted(found, key=lambda each: (-each.severity, each.begin, each.kind, each.subject))
