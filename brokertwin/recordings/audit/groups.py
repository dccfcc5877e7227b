"""Findings about consumer groups: rebalances and their causes, members dropped or refused."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from brokertwin.protocol.errors import error_name
from brokertwin.recordings.audit.finding import (
    AuditFinding,
    causers_of,
    clients_of,
    counted,
    grouped,
)
from brokertwin.recordings.audit.history import EntityHistory
from brokertwin.recordings.history.exchange import RecordedRequest
from brokertwin.recordings.history.groups import GROUPS
from brokertwin.recordings.history.words import sentence, times

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
    found = history.found(GROUPS, "rebalances")
    return [
        Rebalance(
            shown[0].subject.removeprefix("group "),
            shown[0].facts["number"],
            [each.line for each in shown],
            [(what, client) for what, client, _ in shown[-1].facts["causes"]],
        )
        for shown in grouped(found, lambda each: (each.subject, each.facts["number"]))
    ]


def storms(history: EntityHistory) -> Iterator[AuditFinding]:
    """How often each group rebalanced, and why; a warning if it is often within a minute."""
    for found in grouped(history.found(GROUPS, "rebalances")):
        most = max(each.facts["within"] for each in found)
        numbers = {each.facts["number"]: each for each in found}
        causes = [tuple(cause) for each in numbers.values() for cause in each.facts["causes"]]
        counts = Counter((client, what) for what, client, _ in causes)
        ranked = [
            f"{client} {what} {times(count)}{_reasons(causes, client, what)}"
            for (client, what), count in counts.most_common(CAUSES_SHOWN)
        ]
        what = (
            f"{counted(len(numbers), 'generation')}, up to {most} within a minute;"
            f" because of them: {', '.join(ranked) or 'no request recorded'}."
        )
        yield AuditFinding.of(found, what, often=len(numbers))


def _reasons(causes: Sequence[tuple[str, ...]], client: str, what: str) -> str:
    """The reasons that a client gave, in parentheses."""
    given = [reason for *of, reason in causes if of == [what, client] and reason]
    return f" ({'; '.join(dict.fromkeys(given))})" if given else ""


def dropped(history: EntityHistory) -> Iterator[AuditFinding]:
    """Members that were in a generation, did not leave, and are not in the next one."""
    for found in grouped(history.found(GROUPS, "member-dropped")):
        said = (
            f"{clients_of(found)}: {times(len(found))} a member had not left"
            " and was not in the next generation"
        )
        yield AuditFinding.of(found, sentence(said))


def refused(history: EntityHistory) -> Iterator[AuditFinding]:
    """Members that have to begin again, by group and error."""
    refusals = history.found(GROUPS, "member-refused", "instance-fenced")
    for found in grouped(refusals, lambda each: (each.subject, each.code)):
        by = causers_of(found)
        who = f"; its group.instance.id went to {by}" if by else ""
        said = f"{error_name(found[0].code)} was answered {times(len(found))} to"
        yield AuditFinding.of(found, f"{said} {clients_of(found)}{who}.")


def exceeded(history: EntityHistory) -> Iterator[AuditFinding]:
    """Members that left because they did not poll for max.poll.interval.ms, by group."""
    for found in grouped(history.found(GROUPS, "max-poll-exceeded")):
        said = f"{clients_of(found)} exceeded max.poll.interval.ms {times(len(found))}"
        yield AuditFinding.of(found, sentence(f"{said} and left the group"))


def came_back(history: EntityHistory) -> Iterator[AuditFinding]:
    """Members that left and joined again, by group and client."""
    returned = history.found(GROUPS, "member-came-back")
    for found in grouped(returned, lambda each: (each.subject, each.line.name)):
        client, often = found[0].line.name, counted(len(found), "time")
        said = f"client {client} left and came back {often}; first: {found[0].said}"
        yield AuditFinding.of(found, sentence(said))


def waiting(history: EntityHistory) -> Iterator[AuditFinding]:
    """Joins that waited for a member id that was handed out and never used, by group."""
    for found in grouped(history.found(GROUPS, "join-waits-for-member-id")):
        said = f"{counted(len(found), 'join')} of {clients_of(found)} {found[0].said}"
        yield AuditFinding.of(found, sentence(said))


FINDERS = (storms, dropped, refused, exceeded, came_back, waiting)
