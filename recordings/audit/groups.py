"""Findings about consumer groups: rebalances and their causes, members dropped or refused."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
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
from brokertwin.recordings.history import memberships
from brokertwin.recordings.history.exchange import RecordedRequest
from brokertwin.recordings.history.finding import EntityFinding
from brokertwin.recordings.history.group_rules import (
    CAME_BACK,
    DROPPED,
    MAX_POLL,
    REBALANCE,
    UNUSED_ID,
)
from brokertwin.recordings.history.groups import GROUPS
from brokertwin.recordings.history.words import names_of, sentence, times
from brokertwin.state.core.errors import Error, error_name

CAUSES_SHOWN = 4
"""Causes of rebalances that are listed, the most frequent ones."""


class Rebalance(NamedTuple):
    """A generation, or an epoch, that a group reached.

    Attributes:
        group: the group id.
        number: the generation, or the epoch of members.
        lines: the responses that show it, in their order.
        causes: what began it and the client, as far as the recording shows.
    """

    group: str
    number: int
    lines: list[RecordedRequest]
    causes: list[tuple[str, str]]


def rebalances(history: EntityHistory) -> list[Rebalance]:
    """Every rebalance that a recording shows, by group."""
    found: dict[tuple[str, int], list[EntityFinding]] = defaultdict(list)
    for each in history.found(GROUPS, "rebalances"):
        found[each.subject.removeprefix("group "), each.facts["number"]].append(each)
    return [
        Rebalance(
            group,
            number,
            [each.line for each in shown],
            [(what, client) for what, client, _ in shown[-1].facts["causes"]],
        )
        for (group, number), shown in found.items()
    ]


def storms(history: EntityHistory) -> Iterator[AuditFinding]:
    """How often each group rebalanced, and why; a warning if it is often within a minute."""
    for subject, found in grouped(history.found(GROUPS, "rebalances")):
        most = max(each.facts["within"] for each in found)
        numbers = {each.facts["number"]: each for each in found}
        causes = [tuple(cause) for each in numbers.values() for cause in each.facts["causes"]]
        counts = Counter((client, what) for what, client, _ in causes)
        ranked = [
            f"{client} {what} {times(count)}{_reasons(causes, client, what)}"
            for (client, what), count in counts.most_common(CAUSES_SHOWN)
        ]
        yield AuditFinding(
            "rebalances",
            Severity.WARNING if most >= memberships.STORM else Severity.INFO,
            subject,
            f"{counted(len(numbers), 'generation')}, up to {most} within a minute;"
            f" because of them: {', '.join(ranked) or 'no request recorded'}.",
            REBALANCE,
            [Evidence.shown_by(each) for each in found],
            often=len(numbers),
        )


def _reasons(causes: Sequence[tuple[str, ...]], client: str, what: str) -> str:
    """The reasons that a client gave, in parentheses."""
    given = [reason for *of, reason in causes if of == [what, client] and reason]
    return f" ({'; '.join(dict.fromkeys(given))})" if given else ""


def dropped(history: EntityHistory) -> Iterator[AuditFinding]:
    """Members that were in a generation, did not leave, and are not in the next one."""
    for subject, found in grouped(history.found(GROUPS, "member-dropped")):
        evidence = [Evidence.shown_by(each) for each in found]
        said = (
            f"{names_of(e.client for e in evidence)}: {times(len(evidence))} a member had not left"
            " and was not in the next generation"
        )
        yield AuditFinding(
            "member-dropped", Severity.WARNING, subject, sentence(said), DROPPED, evidence
        )


def refused(history: EntityHistory) -> Iterator[AuditFinding]:
    """Members that have to begin again, by group and error."""
    by_code: dict[tuple[str, int], list[EntityFinding]] = defaultdict(list)
    for each in history.found(GROUPS, "member-refused", "instance-fenced"):
        by_code[each.subject, each.code].append(each)
    for (subject, code), found in by_code.items():
        evidence = [Evidence.shown_by(each) for each in found]
        by = [name for each in evidence for name in each.by]
        who = f"; its group.instance.id went to {names_of(by)}" if by else ""
        is_fenced = code == Error.FENCED_INSTANCE_ID
        yield AuditFinding(
            found[0].kind,
            Severity.ERROR if is_fenced else Severity.WARNING,
            subject,
            f"{error_name(code)} was answered {times(len(evidence))} to"
            f" {names_of(e.client for e in evidence)}{who}.",
            rule_of(code),
            evidence,
            code,
        )


def exceeded(history: EntityHistory) -> Iterator[AuditFinding]:
    """Members that left because they did not poll for max.poll.interval.ms, by group."""
    for subject, found in grouped(history.found(GROUPS, "max-poll-exceeded")):
        evidence = [Evidence.shown_by(each) for each in found]
        who = names_of(each.client for each in evidence)
        said = f"{who} exceeded max.poll.interval.ms {times(len(evidence))} and left the group"
        yield AuditFinding(
            "max-poll-exceeded", Severity.WARNING, subject, sentence(said), MAX_POLL, evidence
        )


def came_back(history: EntityHistory) -> Iterator[AuditFinding]:
    """Members that left and joined again, by group and client."""
    by_client: dict[tuple[str, str], list[EntityFinding]] = defaultdict(list)
    for each in history.found(GROUPS, "member-came-back"):
        by_client[each.subject, each.line.name].append(each)
    for (subject, client), found in by_client.items():
        often = counted(len(found), "time")
        said = f"client {client} left and came back {often}; first: {found[0].said}"
        severity = max(each.severity for each in found)
        evidence = [Evidence.shown_by(each) for each in found]
        yield AuditFinding(
            "member-came-back", severity, subject, sentence(said), CAME_BACK, evidence
        )


def waiting(history: EntityHistory) -> Iterator[AuditFinding]:
    """Joins that waited for a member id that was handed out and never used, by group."""
    for subject, found in grouped(history.found(GROUPS, "join-waits-for-member-id")):
        evidence = [Evidence.shown_by(each) for each in found]
        who = names_of(each.client for each in evidence)
        said = f"{counted(len(evidence), 'join')} of {who} {evidence[0].said}"
        kind, severity = "join-waits-for-member-id", Severity.WARNING
        yield AuditFinding(kind, severity, subject, sentence(said), UNUSED_ID, evidence)


FINDERS = (storms, dropped, refused, exceeded, came_back, waiting)
