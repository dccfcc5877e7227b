"""Findings about fetch sessions: lost ones, clients that open many, and a cache without room."""

from collections import Counter, defaultdict
from collections.abc import Iterator

from brokertwin.recordings.audit.finding import AuditFinding, grouped
from brokertwin.recordings.audit.history import EntityHistory
from brokertwin.recordings.history import sessions
from brokertwin.recordings.history.clients import CLIENTS
from brokertwin.recordings.history.findings import (
    SessionChurn,
    SessionDenied,
    SessionEvicted,
    SessionLost,
    SessionOpened,
    SessionOutOfTurn,
)
from brokertwin.recordings.history.words import names_of, sentence, times
from brokertwin.wording import counted

HOLDERS_SHOWN = 3
"""Clients with the most open sessions that a finding names."""


def lost(history: EntityHistory) -> Iterator[AuditFinding]:
    """Sessions that the broker does not know (70), or with the wrong epoch (71), by client."""
    refused = history.found(sessions.CACHES, SessionLost, SessionOutOfTurn)
    of_clients = (each for each in refused if not each.line.is_own)
    for findings in grouped(of_clients, lambda each: (each.kind, each.subject)):
        evicted = sum(
            isinstance(why, SessionEvicted) and bool(why.openers)
            for each in findings
            for why in each.causes
        )
        is_lost = isinstance(findings[0], SessionLost)
        name, of_sessions = findings[0].subject.name, counted(len(findings), "fetch session")
        said = f"the broker did not know {of_sessions} of client {name} (closed or evicted)"
        if not is_lost:
            said = f"client {name} sent a wrong session epoch {times(len(findings))}"
        elif evicted:
            said += f", {evicted} of which had been in use"
        by = [name for each in findings for name in each.by]
        said += f"; in between {names_of(by)} opened {counted(len(by), 'session')}" if by else ""
        yield AuditFinding.of(findings, sentence(said))


def churn(history: EntityHistory) -> Iterator[AuditFinding]:
    opened: dict[str, list[SessionOpened]] = defaultdict(list)
    for each in history.found(sessions.CACHES, SessionOpened):
        opened[each.line.name].append(each)
    for findings in grouped(history.found(CLIENTS, SessionChurn)):
        client = findings[0].line.name
        most = max(each.most for each in findings)
        in_all = opened[client]
        connections = len({each.line.connection for each in in_all})
        said = f"Client {client} opened {most} fetch sessions within a minute"
        if in_all:
            said += f", {len(in_all)} in all, over {counted(connections, 'connection')}"
        yield AuditFinding.of(findings, f"{said}.", often=most)


def without_room(history: EntityHistory) -> Iterator[AuditFinding]:
    for findings in grouped(history.found(sessions.CACHES, SessionDenied)):
        client, count = findings[0].line.name, times(len(findings))
        said = f"The cache was full: session requests of client {client} were refused {count}."
        holders = Counter(findings[-1].holders).most_common(HOLDERS_SHOWN)
        if holders:
            held = ", ".join(f"{name} ({number})" for name, number in holders)
            said += f" In the two minutes before, sessions were used by {held}."
        yield AuditFinding.of(findings, said)


FINDERS = (lost, churn, without_room)
