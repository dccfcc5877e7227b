"""Findings about share groups: records that are delivered again, rejected or not held any more."""

from collections.abc import Iterator, Sequence

from brokertwin.protocol.errors import error_name
from brokertwin.recordings.audit.finding import (
    AuditFinding,
    causers_of,
    clients_of,
    counted,
    grouped,
)
from brokertwin.recordings.audit.history import EntityHistory
from brokertwin.recordings.history.finding import EntityFinding
from brokertwin.recordings.history.shares import SHARE_GROUPS
from brokertwin.recordings.history.words import sentence, times


def redelivered(history: EntityHistory) -> Iterator[AuditFinding]:
    """Records that were delivered more than once, by group: a warning if a lock expired."""
    for found in grouped(history.found(SHARE_GROUPS, "records-redelivered")):
        kept = [each for each in found if each.facts["was"] == "kept"]
        back = [each for each in found if each.facts["was"] == "released"]
        records = _records(found)
        most = max(each.facts["deliveries"] for each in found)
        said = [f"{counted(records, 'redelivery', 'redeliveries')}, of one record up to {most - 1}"]
        said += [f"{_records(back)} because {causers_of(back)} gave records back"] if back else []
        said += [f"{_records(kept)} because {causers_of(kept)} kept them too long"] if kept else []
        yield AuditFinding.of(found, sentence("; ".join(said)), often=records)


def _records(found: Sequence[EntityFinding]) -> int:
    return sum(each.facts["records"] for each in found)


def rejected(history: EntityHistory) -> Iterator[AuditFinding]:
    """Records that members rejected, by group and client."""
    rejections = history.found(SHARE_GROUPS, "records-rejected")
    for found in grouped(rejections, lambda each: (each.subject, each.line.name)):
        records, client = _records(found), found[0].line.name
        said = f"Client {client} rejected {counted(records, 'record')}: nobody gets them again."
        subject = f"{found[0].subject}, client {client}"
        yield AuditFinding.of(found, said, subject, often=records)


def not_held(history: EntityHistory) -> Iterator[AuditFinding]:
    """Acknowledgements of records that the member does not hold (121), by group."""
    for found in grouped(history.found(SHARE_GROUPS, "acknowledge-refused")):
        by = causers_of(found)
        since = f"; they were given to {by} since" if by else ""
        said = f"{counted(len(found), 'acknowledgement')} of {clients_of(found)} refused"
        yield AuditFinding.of(found, f"{said}: the member did not hold the records{since}.")


def sessions(history: EntityHistory) -> Iterator[AuditFinding]:
    """Share sessions that were unknown, out of turn, or had no room, by client."""
    lost = history.found(SHARE_GROUPS, "share-session-lost", "share-session-denied")
    for found in grouped(lost, lambda each: (each.line.name, each.code)):
        subject = f"client {found[0].line.name}"
        error, why = error_name(found[0].code), found[0].advice.why
        said = f"{error} was answered {times(len(found))} to {subject}. {why}"
        yield AuditFinding.of(found, said, subject)


FINDERS = (redelivered, rejected, not_held, sessions)
