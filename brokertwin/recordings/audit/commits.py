"""Findings about committed offsets: those that go back, and commits that came too late."""

from collections.abc import Iterator

from brokertwin.protocol.errors import error_name
from brokertwin.recordings.audit.finding import (
    AuditFinding,
    causers_of,
    clients_of,
    counted,
    grouped,
)
from brokertwin.recordings.audit.history import EntityHistory
from brokertwin.recordings.history.findings import CommitRefused, OffsetWentBack
from brokertwin.recordings.history.groups import GROUPS
from brokertwin.recordings.history.words import sentence, times
from brokertwin.recordings.sentences import cause
from brokertwin.recordings.sentences import said as said_of


def back(history: EntityHistory) -> Iterator[AuditFinding]:
    for found in grouped(
        history.found(GROUPS, OffsetWentBack), lambda each: (each.subject, each.line.name)
    ):
        count, first = times(len(found)), said_of(found[0])
        said = f"{causers_of(found)} committed {count} less than before; first: {first}"
        yield AuditFinding.of(found, sentence(said))


def stale(history: EntityHistory) -> Iterator[AuditFinding]:
    """Commits with an old generation, epoch or member, by group and error."""
    refused = history.found(GROUPS, CommitRefused)
    for found in grouped(refused, lambda each: (each.subject, each.code)):
        said = f"{counted(len(found), 'commit')} of {clients_of(found)} refused"
        error = error_name(found[0].code)
        why = cause(found[0])
        said += f": {error}. What was not committed is read again."
        yield AuditFinding.of(found, f"{said} {why}".rstrip())


FINDERS = (back, stale)
