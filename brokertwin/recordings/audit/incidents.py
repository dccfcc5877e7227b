"""Incidents: brokers that were gone, with the findings that follow, as one finding each."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from brokertwin.protocol.errors import Error, error_name
from brokertwin.recordings.audit.finding import AuditFinding, Evidence
from brokertwin.recordings.audit.history import EntityHistory
from brokertwin.recordings.history.findings import (
    BrokerGone,
    Finding,
    IsrGrew,
    IsrShrank,
    LeaderChanged,
    Refused,
    SessionLost,
    ShareSessionLost,
    UnderMinIsr,
)
from brokertwin.recordings.history.words import names_of, sentence
from brokertwin.recordings.sentences import advice, said
from brokertwin.wording import counted

PLACES_SHOWN = 5
"""Partitions that are named, those with the most refusals."""


def gone(history: EntityHistory) -> Iterator[AuditFinding]:
    """Brokers that were gone, and what followed."""
    for incident in history.incidents:
        root, more = incident.root, incident.consequences
        assert isinstance(root, BrokerGone)
        parts = list(filter(None, _parts(more)))
        what = f"{said(root)}{': ' if parts else ''}{'; '.join(parts)}"
        evidence = [shown for each in more for shown in _evidence(each)]
        moves = LeaderChanged, IsrShrank, IsrGrew  # what each absence brings
        worst = max(e.severity for e in (root, *more) if not isinstance(e, moves))
        yield AuditFinding(
            root.kind,
            worst,
            root.subject.name,
            sentence(what),
            advice(root),
            evidence or Evidence.shown_by(root),
            Error.NONE,
            1,
            consequences=_documents(more),
        )


def _parts(findings: Sequence[Finding]) -> Iterator[str]:
    """What followed, in words."""
    led = {each.partition for each in findings if isinstance(each, LeaderChanged)}
    left = {each.partition for each in findings if isinstance(each, IsrShrank)}
    back = {each.partition for each in findings if isinstance(each, IsrGrew)}
    if led:
        yield f"{counted(len(led), 'partition')} changed leader"
    if left:
        came = f", {len(back)} again have it in sync" if back else ""
        yield f"it left the in-sync set of {counted(len(left), 'partition')}{came}"
    few = [each for each in findings if isinstance(each, UnderMinIsr)]
    if few:
        at = Counter(each.partition.place for each in few).most_common(PLACES_SHOWN)
        names = ", ".join(place for place, _ in at)
        yield (
            f"{names} fell below min.insync.replicas, and {counted(len(few), 'Produce')} of"
            f" {names_of(each.affected for each in few)} "
            f"{'was' if len(few) == 1 else 'were'} refused"
        )
    refused: dict[int, list[Refused]] = defaultdict(list)
    for each in findings:
        if isinstance(each, Refused):
            refused[each.code].append(each)
    for code, own in sorted(refused.items(), key=lambda each: -len(each[1])):
        clients = [each.line.name for each in own if not each.line.is_own]
        to = names_of(clients) if clients else "brokers"
        yield f"{counted(len(own), 'response')} with {error_name(code)} to {to}"
    lost = [each for each in findings if isinstance(each, SessionLost | ShareSessionLost)]
    clients = [each.line.name for each in lost if not each.line.is_own]
    if clients:
        yield f"{counted(len(clients), 'session')} of {names_of(clients)} ended"


def _evidence(finding: Finding) -> Iterator[Evidence]:
    """The evidence with its partition; requests among brokers have no client."""
    where = ""
    if isinstance(finding, IsrShrank | IsrGrew | LeaderChanged):
        where = f"{finding.partition.place}: "
    for each in Evidence.shown_by(finding):
        client = "" if finding.line.is_own else each.client
        yield each._replace(said=where + each.said, client=client)


def _documents(findings: Sequence[Finding]) -> list[dict[str, object]]:
    groups: dict[tuple[str, str, int], list[Finding]] = defaultdict(list)
    for each in findings:
        groups[each.kind, each.subject.name, each.error].append(each)
    return [
        {
            "kind": kind,
            "subject": subject,
            "error": error_name(code) if code else None,
            "count": len(own),
            "from": min(each.line.time for each in own),
            "to": max(each.line.time for each in own),
            "clients": list(dict.fromkeys(each.affected for each in own if not each.line.is_own)),
        }
        for (kind, subject, code), own in groups.items()
    ]


FINDERS = (gone,)
