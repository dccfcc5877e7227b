"""Incidents of a live audit: findings that belong together are one entry.

Findings of one kind, error and subject about the same clients are an incident while each comes
within a minute of the one before. So are those about partitions, whichever partitions they are.
Changes of leaders and in-sync sets, and what brokers refuse meanwhile, are one incident of their
cluster. It says that they were at one time: which broker was gone is shown by `audit` of the log.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from brokertwin.cli.watching.status import LiveFinding, LiveIncident
from brokertwin.protocol.errors import error_name
from brokertwin.recordings.history.incidents import RESTART

APART_MS = 60_000.0
"""Findings that are so far apart belong to different incidents."""

SEVERITIES = ("info", "warning", "error")
MOVES = frozenset({"leader-changed", "isr-shrunk"})
"""Kinds of findings that show a broker that came or went."""

MEANWHILE = frozenset({"under-min-isr", "session-lost", "share-session-lost"})
"""Kinds of findings that may follow from it, as refusals with the errors `REFUSALS` may."""

REFUSALS = frozenset(map(error_name, RESTART))


class _Part:
    """Findings of one incident; `moves` is True if brokers came or went."""

    def __init__(self, moves: bool) -> None:
        self.moves = moves
        self.findings: list[LiveFinding] = []
        self.begin, self.end = float("inf"), float("-inf")

    def add(self, findings: Sequence[LiveFinding]) -> None:
        self.findings += findings
        self.begin = min(self.begin, *(each.begin for each in findings))
        self.end = max(self.end, *(each.to for each in findings))


def incidents(findings: Iterable[LiveFinding]) -> list[LiveIncident]:
    """Fold findings that are not withdrawn.

    Returns:
        the incidents, the newest first.
    """
    newest: dict[tuple[str, ...], _Part] = {}
    parts: list[_Part] = []
    for each in sorted(findings, key=lambda one: one.begin):
        key, moves = _key(each), each.kind in MOVES
        part = newest.get(key)
        if part is None or each.begin > part.end + APART_MS:
            part = newest[key] = _Part(moves)
            parts.append(part)
        part.add([each])
    roots = [part for part in parts if part.moves]
    kept = []
    for part in parts:
        root = next((e for e in roots if not part.moves and _is_meanwhile(part, e)), None)
        if root is None:
            kept.append(part)
        else:
            root.add(part.findings)
    return sorted((_incident(part.findings) for part in kept), key=lambda each: -each.to)


def _key(of: LiveFinding) -> tuple[str, ...]:
    if of.kind in MOVES:
        return of.cluster, "moves"
    subject = "partition" if of.subject.startswith("partition ") else of.subject
    return of.cluster, of.kind, of.error or "", subject, *of.clients


def _is_meanwhile(part: _Part, root: _Part) -> bool:
    """Return whether findings may follow from a broker that came or went."""
    first = part.findings[0]
    may_follow = first.kind in MEANWHILE or (first.kind == "refused" and first.error in REFUSALS)
    is_near = part.begin <= root.end + APART_MS and part.end >= root.begin - APART_MS
    return may_follow and is_near and first.cluster == root.findings[0].cluster


def _incident(of: Sequence[LiveFinding]) -> LiveIncident:
    """The first kind of the findings, with the others in `also`."""
    kind = of[0].kind
    own = [each for each in of if each.kind == kind]
    newest = max(own, key=lambda each: each.to)
    subjects = list(dict.fromkeys(each.subject for each in own))
    others: Counter[str] = Counter()
    for each in of:
        if each.kind != kind:
            others[" ".join(filter(None, (each.kind, each.error)))] += each.count
    return LiveIncident(
        cluster=newest.cluster,
        severity=max((each.severity for each in of), key=SEVERITIES.index),
        kind=kind,
        subject=f"{subjects[0]} and {len(subjects) - 1} more" if subjects[1:] else subjects[0],
        what=newest.what,
        cause=newest.cause,
        clients=list(dict.fromkeys(name for each in of for name in each.clients)),
        begin=min(each.begin for each in of),
        to=max(each.to for each in of),
        count=sum(each.count for each in own),
        also=[f"{name} ({count})" for name, count in others.most_common()],
    )
