"""Findings about fetch sessions: lost ones, clients that open many, and a cache without room."""

from collections import defaultdict
from collections.abc import Iterator

from brokertwin.recordings.audit.finding import AuditFinding, Evidence, Severity, counted
from brokertwin.recordings.audit.history import EntityHistory
from brokertwin.recordings.history import sessions
from brokertwin.recordings.history.clients import CLIENTS
from brokertwin.recordings.history.finding import EntityFinding, rule_of
from brokertwin.recordings.history.words import names_of, sentence, times

EVENTS = {
    "session-opened": "opened",
    "session-closed": "closed",
    "session-lost": "lost",
    "session-out-of-turn": "out of turn",
}
"""Findings that the page draws, and their names there."""


def lost(history: EntityHistory) -> Iterator[AuditFinding]:
    """Sessions that the broker does not know (70), or with the wrong epoch (71), by client."""
    found: dict[tuple[str, str], list[EntityFinding]] = defaultdict(list)
    for each in history.found(sessions.CACHES, "session-lost", "session-out-of-turn"):
        if not each.line.is_own:
            found[each.kind, each.line.name].append(each)
    for (kind, client), group in found.items():
        evicted = sum(each.severity == Severity.WARNING for each in group if each.said)
        is_lost = kind == "session-lost"
        became = "not known any more" if is_lost else "asked out of turn"
        said = f"{times(len(group))} a fetch session of client {client} was {became}"
        if is_lost and evicted:
            said += f", {times(evicted)} though it had been in use"
        by = [name for each in group for name in each.by]
        said += f"; in between {names_of(by)} opened {counted(len(by), 'session')}" if by else ""
        yield AuditFinding(
            kind,
            max(each.severity for each in group),
            f"client {client}",
            sentence(said),
            rule_of(group[0].code),
            [Evidence.shown_by(each) for each in group],
            group[0].code,
        )


def churn(history: EntityHistory) -> Iterator[AuditFinding]:
    """Clients that open many sessions a minute."""
    opened: dict[str, list[EntityFinding]] = defaultdict(list)
    for each in history.found(sessions.CACHES, "session-opened"):
        opened[each.line.name].append(each)
    found: dict[str, list[EntityFinding]] = defaultdict(list)
    for each in history.found(CLIENTS, "session-churn"):
        found[each.line.name].append(each)
    for client, members in found.items():
        most = max(each.facts["most"] for each in members)
        in_all = opened[client]
        connections = len({each.line.connection for each in in_all})
        said = f"Client {client} opened {most} fetch sessions within a minute"
        if in_all:
            said += f", {len(in_all)} in all, over {counted(connections, 'connection')}"
        yield AuditFinding(
            "session-churn",
            Severity.WARNING,
            f"client {client}",
            f"{said}.",
            sessions.CHURN,
            [Evidence.shown_by(each) for each in members],
            often=most,
        )


def without_room(history: EntityHistory) -> Iterator[AuditFinding]:
    """Clients that wanted a session while the cache had no room."""
    found: dict[str, list[Evidence]] = defaultdict(list)
    for each in history.found(sessions.CACHES, "session-denied"):
        found[each.line.name].append(Evidence.shown_by(each))
    for client, evidence in found.items():
        said = f"Client {client} asked for a fetch session {times(len(evidence))} and got none."
        subject, rule = f"client {client}", sessions.NO_ROOM
        yield AuditFinding("session-denied", Severity.WARNING, subject, said, rule, evidence)


FINDERS = (lost, churn, without_room)
