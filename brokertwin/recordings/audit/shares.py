"""Findings about share groups: records that are delivered again, rejected or not held any more."""

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
    AcknowledgeRefused,
    DeliveredBefore,
    RecordsArchived,
    RecordsDeliveredAgain,
    RecordsFinding,
    RecordsRejected,
    ShareSessionDenied,
    ShareSessionLost,
)
from brokertwin.recordings.history.shares import SHARE_GROUPS
from brokertwin.recordings.history.words import sentence, times
from brokertwin.recordings.sentences import advice
from brokertwin.recordings.sentences import said as said_of
from brokertwin.wording import counted


def redelivered(history: EntityHistory) -> Iterator[AuditFinding]:
    """Records that were delivered more than once, by group: a warning if a lock expired."""
    for findings in grouped(history.found(SHARE_GROUPS, RecordsDeliveredAgain)):
        kept = [each for each in findings if _was(each, is_released=False)]
        back = [each for each in findings if _was(each, is_released=True)]
        records = _records(findings)
        most = max(each.count for each in findings)
        said = [f"{counted(records, 'redelivery', 'redeliveries')}, of one record up to {most - 1}"]
        said += [f"{_records(back)} because {causers_of(back)} gave records back"] if back else []
        said += [f"{_records(kept)} because {causers_of(kept)} kept them too long"] if kept else []
        yield AuditFinding.of(findings, sentence("; ".join(said)), often=records)


def _was(finding: RecordsDeliveredAgain, is_released: bool) -> bool:
    """Return whether the records were given back before, or kept too long."""
    before = [each for each in finding.causes if isinstance(each, DeliveredBefore)]
    return any((each.released is not None) == is_released for each in before)


def _records(findings: Sequence[RecordsFinding]) -> int:
    return sum(each.records for each in findings)


def archived(history: EntityHistory) -> Iterator[AuditFinding]:
    """Records that were delivered as often as the limit allows, by group and partition."""
    given_up = history.found(SHARE_GROUPS, RecordsArchived)
    for findings in grouped(given_up, lambda each: (each.subject, each.partition)):
        records, count = _records(findings), max(each.count for each in findings)
        by = causers_of(findings)
        said = f"{counted(records, 'record')} of {findings[0].partition.place} archived after"
        said += f" {count} deliveries, and not read any more"
        said += f"; the last ones went to {by}" if by else ""
        yield AuditFinding.of(findings, f"{said}. First: {said_of(findings[0])}.", often=records)


def rejected(history: EntityHistory) -> Iterator[AuditFinding]:
    rejections = history.found(SHARE_GROUPS, RecordsRejected)
    for findings in grouped(rejections, lambda each: (each.subject, each.line.name)):
        records, client = _records(findings), findings[0].line.name
        said = f"Client {client} rejected {counted(records, 'record')}: no member gets them again."
        subject = f"{findings[0].subject.name}, client {client}"
        yield AuditFinding.of(findings, said, subject, often=records)


def not_held(history: EntityHistory) -> Iterator[AuditFinding]:
    """Acknowledgements of records that the member does not hold (121), by group."""
    for findings in grouped(history.found(SHARE_GROUPS, AcknowledgeRefused)):
        by = causers_of(findings)
        since = f"; they were given to {by} since" if by else ""
        said = f"{counted(len(findings), 'acknowledgement')} of {clients_of(findings)} refused"
        yield AuditFinding.of(findings, f"{said}: the member did not hold the records{since}.")


def sessions(history: EntityHistory) -> Iterator[AuditFinding]:
    """Share sessions that were unknown, out of turn, or had no room, by client."""
    lost = history.found(SHARE_GROUPS, ShareSessionLost, ShareSessionDenied)
    for findings in grouped(lost, lambda each: (each.line.name, each.error)):
        subject = f"client {findings[0].line.name}"
        error, why = error_name(findings[0].error), advice(findings[0]).why
        said = f"{error} was returned {times(len(findings))} to {subject}. {why}"
        yield AuditFinding.of(findings, said, subject)


FINDERS = (redelivered, archived, rejected, not_held, sessions)
