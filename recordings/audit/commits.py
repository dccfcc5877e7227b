"""Findings about committed offsets: those that go back, and commits that came too late."""

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from brokertwin.recordings.audit.finding import (
    AuditFinding,
    Evidence,
    Severity,
    counted,
    grouped,
    rule_of,
)
from brokertwin.recordings.audit.history import EntityHistory
from brokertwin.recordings.history.exchange import RecordedRequest
from brokertwin.recordings.history.finding import EntityFinding
from brokertwin.recordings.history.group_offsets import BACK
from brokertwin.recordings.history.groups import GROUPS
from brokertwin.recordings.history.words import names_of, sentence, times
from brokertwin.state.core.errors import error_name


class AcceptedCommit(NamedTuple):
    """An offset of a group and a partition that a broker accepted."""

    group: str
    topic: str
    partition: int
    offset: int
    line: RecordedRequest

    @property
    def place(self) -> tuple[str, str, int]:
        """Its group and partition."""
        return self[:3]


def commits(history: EntityHistory) -> Iterator[AcceptedCommit]:
    """Accepted offsets in the order of the responses; those of a transaction once it committed."""
    for each in history.found(GROUPS, "offset-committed"):
        facts = each.facts
        place = facts["group"], facts["topic"], facts["partition"]
        yield AcceptedCommit(*place, facts["offset"], each.line)


def back(history: EntityHistory) -> Iterator[AuditFinding]:
    """Groups whose committed offsets went back."""
    for subject, found in grouped(history.found(GROUPS, "offset-back")):
        evidence = [Evidence.shown_by(each) for each in found]
        who = names_of(name for each in evidence for name in each.by)
        said = f"{who} committed {times(len(evidence))} less than before; first: {evidence[0].said}"
        yield AuditFinding("offset-back", Severity.WARNING, subject, sentence(said), BACK, evidence)


def stale(history: EntityHistory) -> Iterator[AuditFinding]:
    """Commits with an old generation, epoch or member, by group and error."""
    by_code: dict[tuple[str, int], list[EntityFinding]] = defaultdict(list)
    for each in history.found(GROUPS, "commit-refused"):
        by_code[each.subject, each.code].append(each)
    for (subject, code), found in by_code.items():
        evidence = [Evidence.shown_by(each) for each in found]
        who = names_of(each.client for each in evidence)
        yield AuditFinding(
            "commit-refused",
            Severity.WARNING,
            subject,
            f"{counted(len(evidence), 'commit')} of {who} refused: {error_name(code)}. What was not"
            " committed is read again.",
            rule_of(code),
            evidence,
            code,
        )


FINDERS = (back, stale)
