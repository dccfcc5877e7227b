"""Findings about all other errors, and about writes with too few in-sync replicas."""

from collections import defaultdict
from collections.abc import Iterator

from brokertwin.protocol.errors import Error, error_name
from brokertwin.recordings.audit import producers
from brokertwin.recordings.audit.finding import (
    AuditFinding,
    Evidence,
    clients_of,
    grouped,
)
from brokertwin.recordings.audit.history import EntityHistory
from brokertwin.recordings.history.batches import PARTITIONS
from brokertwin.recordings.history.clients import CLIENTS, severity_of
from brokertwin.recordings.history.findings import Refused, Severity, UnderMinIsr
from brokertwin.recordings.history.producers import LATE
from brokertwin.recordings.history.words import names_of
from brokertwin.recordings.sentences import rule_of_code
from brokertwin.wording import counted


def too_few(history: EntityHistory) -> Iterator[AuditFinding]:
    """Produces that were refused because too few replicas were in sync, by partition."""
    refused = history.found(PARTITIONS, UnderMinIsr)
    for findings in grouped(refused, lambda each: (each.subject, each.code)):
        is_written = findings[0].code == Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        became = "written, and not acknowledged" if is_written else "not written"
        said = f"{counted(len(findings), 'Produce', 'Produces')} of {clients_of(findings)} {became}"
        yield AuditFinding.of(
            findings, f"{said}: fewer replicas were in sync than min.insync.replicas."
        )


def others(history: EntityHistory) -> Iterator[AuditFinding]:
    """Every error that no other finder reports, by API.

    A request that a broker sent for a client counts as the client's.
    """
    by_api: dict[tuple[str, int, bool], list[Evidence]] = defaultdict(list)
    late, owners = producers.late(history), producers.owners(history)
    for each in history.found(CLIENTS, Refused):
        if each.line.place in late and each.code in LATE:
            continue
        (shown,) = Evidence.shown_by(each)
        if each.line.is_own:
            shown = shown._replace(client=owners.get(each.line.place, ""))
        by_api[each.line.api, each.code, not shown.client].append(shown)
    for (api, code, is_own), evidence in by_api.items():
        who = "brokers" if is_own else names_of(each.client for each in evidence)
        severity = severity_of(code)
        yield AuditFinding(
            "refused",
            min(severity, Severity.INFO) if is_own else severity,
            f"{api} {error_name(code)}",
            f"{counted(len(evidence), 'response')} to {who}. {rule_of_code(code).why}",
            rule_of_code(code),
            evidence,
            code,
        )


FINDERS = (too_few, others)
