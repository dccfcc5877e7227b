"""Findings about replicas: in-sync sets that shrink and flap, leaders, high watermarks."""

from collections import Counter
from collections.abc import Iterator

from brokertwin.recordings.audit.finding import AuditFinding, Evidence, grouped
from brokertwin.recordings.audit.history import EntityHistory
from brokertwin.recordings.history.findings import (
    Finding,
    IsrAgainstRule,
    IsrShrank,
    LeaderChanged,
    WatermarkDiffers,
    moment_of,
)
from brokertwin.recordings.history.replication import REPLICATION
from brokertwin.recordings.history.words import times
from brokertwin.recordings.sentences import said
from brokertwin.wording import counted


def shrunk(history: EntityHistory) -> Iterator[AuditFinding]:
    """Partitions whose in-sync set lost a broker; a warning where that happens again and again."""
    for finding in _grouped(history, IsrShrank):
        brokers = sorted(Counter(each.said for each in finding.evidence).items())
        left = ", ".join(f"{broker} {times(count)}" for broker, count in brokers)
        yield finding._replace(what=f"The in-sync set shrank: {left}.")


def led(history: EntityHistory) -> Iterator[AuditFinding]:
    """Partitions whose leader changed; a warning where that happens again and again."""
    for finding in _grouped(history, LeaderChanged):
        count, last = counted(finding.total, "change"), finding.evidence[-1].said
        yield finding._replace(what=f"{count} of the leader; last: {last}.")


def differing(history: EntityHistory) -> Iterator[AuditFinding]:
    """High watermarks that leaders reported and the rule does not give, without a reason."""
    for finding in _grouped(history, WatermarkDiffers):
        count, first = counted(finding.total, "high watermark"), finding.evidence[0].said
        yield finding._replace(what=f"{count} differ; first: {first}.")


def early(history: EntityHistory) -> Iterator[AuditFinding]:
    """Brokers that a leader wanted in its in-sync set, or out, against the rule."""
    for finding in _grouped(history, IsrAgainstRule):
        count, first = counted(finding.total, "change"), finding.evidence[0].said
        yield finding._replace(what=f"{count} of the in-sync set; first: {first}.")


def _grouped(history: EntityHistory, kind: type[Finding]) -> Iterator[AuditFinding]:
    """Findings of a kind by partition, in the order of their moments."""
    for findings in grouped(sorted(history.found(REPLICATION, kind), key=moment_of)):
        evidence = [Evidence(e.line.place, moment_of(e), "", said(e)) for e in findings]
        yield AuditFinding.of(findings, "")._replace(evidence=evidence)


FINDERS = (shrunk, led, differing, early)
