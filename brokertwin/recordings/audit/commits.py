"""Findings about committed offsets: those that go back, and commits that came too late."""

from collections.abc import Iterator

from brokertwin.protocol.errors import error_name
from brokertwin.recordings.audit.finding import (
    AuditFinding,
    causers_of,
    clients_of,
    grouped,
)
from brokertwin.recordings.audit.history import EntityHistory
from brokertwin.recordings.history.findings import CommitRefused, OffsetWentBack
from brokertwin.recordings.history.groups import GROUPS
from brokertwin.recordings.history.words import sentence, times
from brokertwin.recordings.sentences import cause
from brokertwin.recordings.sentences import said as said_of
from brokertwin.wording import counted


def back(history: EntityHistory) -> Iterator[AuditFinding]:
    for findings in grouped(
        history.found(GROUPS, OffsetWentBack), lambda each: (each.subject, each.line.name)
    ):
        partitions = len({each.partition for each in findings})
        said = f"{causers_of(findings)} set {counted(partitions, 'partition')} of the group back"
        if len(findings) > partitions:
            said += f" {times(len(findings))}"
        said += f"; first: {said_of(findings[0])}"
        yield AuditFinding.of(findings, sentence(said))


def stale(history: EntityHistory) -> Iterator[AuditFinding]:
    """Commits with an old generation, epoch or member, by group and error."""
    refused = history.found(GROUPS, CommitRefused)
    for findings in grouped(refused, lambda each: (each.subject, each.code)):
        said = f"{counted(len(findings), 'commit')} of {clients_of(findings)} refused"
        error = error_name(findings[0].code)
        why = cause(findings[0])
        said += f": {error}. What was not committed is read again."
        yield AuditFinding.of(findings, f"{said} {why}".rstrip())


FINDERS = (back, stale)
