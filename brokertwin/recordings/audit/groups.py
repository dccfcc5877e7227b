"""Findings about consumer groups: rebalances and their causes, members dropped or refused."""

from collections import Counter
from collections.abc import Iterator, Sequence

from brokertwin.protocol.errors import error_name
from brokertwin.recordings.audit.finding import (
    AuditFinding,
    causers_of,
    clients_of,
    grouped,
)
from brokertwin.recordings.audit.history import EntityHistory
from brokertwin.recordings.history.findings import (
    Cause,
    InstanceFenced,
    JoinWaited,
    MaxPollExceeded,
    MemberCameBack,
    MemberNotInNext,
    MemberRefused,
    Rebalance,
)
from brokertwin.recordings.history.groups import GROUPS
from brokertwin.recordings.history.words import sentence, times
from brokertwin.recordings.sentences import cause, rebalance_cause
from brokertwin.recordings.sentences import said as said_of
from brokertwin.wording import counted

CAUSES_SHOWN = 4
"""Causes of rebalances that are listed, the most frequent ones."""


def storms(history: EntityHistory) -> Iterator[AuditFinding]:
    """How often each group rebalanced, and why; a warning if it is often within a minute."""
    for findings in grouped(history.found(GROUPS, Rebalance)):
        most = max(each.within for each in findings)
        causes = [cause for each in findings for cause in each.causes]
        counts = Counter(map(_who_did, causes))
        # who left or was dropped is looked for; new members are left out first
        shown = sorted(counts, key=lambda each: (each[1] == "joined", -counts[each]))
        ranked = [
            f"{client} {what} {times(count)}{_reasons(causes, client, what)}"
            for (client, what), count in counts.most_common()
            if (client, what) in shown[:CAUSES_SHOWN]
        ]
        more = len(counts) - CAUSES_SHOWN
        ranked += [f"and {counted(more, 'other cause')}"] if more > 0 else []
        noun = "epoch" if all(each.is_epoch for each in findings) else "generation"
        why = f"because of them: {', '.join(ranked)}" if ranked else "their causes are unknown"
        what = f"{counted(len(findings), noun)}, up to {most} within a minute; {why}."
        yield AuditFinding.of(findings, what, often=len(findings))


def _who_did(cause: Cause) -> tuple[str, str]:
    return str(getattr(cause, "client", "?")), rebalance_cause(cause)


def _reasons(causes: Sequence[Cause], client: str, what: str) -> str:
    """The reasons that a client gave, in parentheses."""
    own = [each for each in causes if _who_did(each) == (client, what)]
    reasons = list(dict.fromkeys(filter(None, (getattr(each, "reason", "") for each in own))))
    return f" ({'; '.join(reasons)})" if reasons else ""


def dropped(history: EntityHistory) -> Iterator[AuditFinding]:
    """Members that were in a generation, did not leave, and are not in the next one."""
    for findings in grouped(history.found(GROUPS, MemberNotInNext)):
        said = (
            f"{clients_of(findings)}: {times(len(findings))} a member had not left"
            " and was not in the next generation"
        )
        yield AuditFinding.of(findings, sentence(said))


def refused(history: EntityHistory) -> Iterator[AuditFinding]:
    refusals = history.found(GROUPS, MemberRefused, InstanceFenced)
    for findings in grouped(refusals, lambda each: (each.subject, each.code)):
        by = causers_of(findings)
        who = f"; its group.instance.id went to {by}" if by else ""
        said = (
            f"{clients_of(findings)} got {error_name(findings[0].code)} {times(len(findings))}{who}"
        )
        why = cause(next((each for each in findings if each.causes), findings[0]))
        yield AuditFinding.of(findings, f"{sentence(said)} {why}".rstrip())


def exceeded(history: EntityHistory) -> Iterator[AuditFinding]:
    """Members that left because they did not poll for max.poll.interval.ms, by group."""
    for findings in grouped(history.found(GROUPS, MaxPollExceeded)):
        said = f"{clients_of(findings)} exceeded max.poll.interval.ms {times(len(findings))}"
        yield AuditFinding.of(findings, sentence(f"{said} and left the group"))


def came_back(history: EntityHistory) -> Iterator[AuditFinding]:
    returned = history.found(GROUPS, MemberCameBack)
    for findings in grouped(returned, lambda each: (each.subject, each.line.name)):
        client, often = findings[0].line.name, counted(len(findings), "time")
        said = f"client {client} left and came back {often}; first: {said_of(findings[0])}"
        yield AuditFinding.of(findings, sentence(said))


def waiting(history: EntityHistory) -> Iterator[AuditFinding]:
    """Joins that waited for a member id that was handed out and never used, by group."""
    for findings in grouped(history.found(GROUPS, JoinWaited)):
        said = f"{counted(len(findings), 'join')} of {clients_of(findings)} {said_of(findings[0])}"
        yield AuditFinding.of(findings, sentence(said))


FINDERS = (storms, dropped, refused, exceeded, came_back, waiting)
