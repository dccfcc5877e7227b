"""Findings about share groups: records that are delivered again, rejected or not held any more."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from brokertwin.recordings.audit.finding import (
    AuditFinding,
    Evidence,
    Severity,
    counted,
    grouped,
    rule_of,
)
from brokertwin.recordings.audit.history import EntityHistory
from brokertwin.recordings.history.finding import EntityFinding
from brokertwin.recordings.history.shares import AGAIN, REJECTED, SHARE_GROUPS
from brokertwin.recordings.history.words import names_of, sentence, times
from brokertwin.state.core.errors import Error, error_name


def redelivered(history: EntityHistory) -> Iterator[AuditFinding]:
    """Records that were delivered more than once, by group: a warning if a lock expired."""
    for subject, found in grouped(history.found(SHARE_GROUPS, "records-redelivered")):
        kept = [each for each in found if each.facts["was"] == "kept"]
        back = [each for each in found if each.facts["was"] == "released"]
        records = _records(found)
        most = max(each.facts["deliveries"] for each in found)
        said = [f"{counted(records, 'redelivery', 'redeliveries')}, of one record up to {most - 1}"]
        said += [f"{_records(back)} because {_by(back)} gave records back"] if back else []
        said += [f"{_records(kept)} because {_by(kept)} kept them too long"] if kept else []
        yield AuditFinding(
            "records-redelivered",
            max(each.severity for each in found),
            subject,
            sentence("; ".join(said)),
            AGAIN,
            [Evidence.shown_by(each) for each in found],
            often=records,
        )


def _records(found: Sequence[EntityFinding]) -> int:
    return sum(each.facts["records"] for each in found)


def _by(found: Sequence[EntityFinding]) -> str:
    return names_of(name for each in found for name in each.by)


def rejected(history: EntityHistory) -> Iterator[AuditFinding]:
    """Records that members rejected, by group and client."""
    by_client: dict[tuple[str, str], list[EntityFinding]] = defaultdict(list)
    for each in history.found(SHARE_GROUPS, "records-rejected"):
        by_client[each.subject, each.line.name].append(each)
    for (subject, client), found in by_client.items():
        records = _records(found)
        yield AuditFinding(
            "records-rejected",
            Severity.WARNING,
            f"{subject}, client {client}",
            f"Client {client} rejected {counted(records, 'record')}: nobody gets them again.",
            REJECTED,
            [Evidence.shown_by(each) for each in found],
            often=records,
        )


def not_held(history: EntityHistory) -> Iterator[AuditFinding]:
    """Acknowledgements of records that the member does not hold (121), by group."""
    for subject, found in grouped(history.found(SHARE_GROUPS, "acknowledge-refused")):
        by = [name for each in found for name in each.by]
        since = f"; they were given to {names_of(by)} since" if by else ""
        yield AuditFinding(
            "acknowledge-refused",
            Severity.WARNING,
            subject,
            f"{counted(len(found), 'acknowledgement')} of {names_of(e.line.name for e in found)}"
            f" refused: the member did not hold the records{since}.",
            rule_of(Error.INVALID_RECORD_STATE),
            [Evidence.shown_by(each) for each in found],
            Error.INVALID_RECORD_STATE,
        )


def sessions(history: EntityHistory) -> Iterator[AuditFinding]:
    """Share sessions that were unknown, out of turn, or had no room, by client."""
    by_client: dict[tuple[str, int], list[EntityFinding]] = defaultdict(list)
    for each in history.found(SHARE_GROUPS, "share-session-lost", "share-session-denied"):
        by_client[each.line.name, each.code].append(each)
    for (client, code), found in by_client.items():
        yield AuditFinding(
            found[0].kind,
            found[0].severity,
            f"client {client}",
            f"{error_name(code)} was answered {times(len(found))} to client {client}."
            f" {rule_of(code).why}",
            rule_of(code),
            [Evidence.shown_by(each) for each in found],
            code,
        )


FINDERS = (redelivered, rejected, not_held, sessions)
