"""Findings about replicas: in-sync sets that shrink and flap, leaders, high watermarks."""

from collections import Counter, defaultdict
from collections.abc import Iterator

from brokertwin.recordings.audit.finding import AuditFinding, Evidence, counted
from brokertwin.recordings.audit.history import History
from brokertwin.recordings.history.words import times


def shrunk(history: History) -> Iterator[AuditFinding]:
    """Partitions whose in-sync set lost a broker; a warning where that happens again and again."""
    for finding in _grouped(history, "isr-shrunk"):
        brokers = sorted(Counter(each.said for each in finding.evidence).items())
        said = ", ".join(f"{said} {times(count)}" for said, count in brokers)
        yield finding._replace(what=f"The in-sync set shrank: {said}.")


def led(history: History) -> Iterator[AuditFinding]:
    """Partitions whose leader changed; a warning where that happens again and again."""
    for finding in _grouped(history, "leader-changed"):
        count, last = counted(finding.total, "change"), finding.evidence[-1].said
        yield finding._replace(what=f"{count} of the leader; last: {last}.")


def told(history: History) -> Iterator[AuditFinding]:
    """High watermarks that leaders told and the rule does not give, without a reason."""
    for finding in _grouped(history, "hw-differs", is_covered=True):
        count, first = counted(finding.total, "high watermark"), finding.evidence[0].said
        yield finding._replace(what=f"{count} differ; first: {first}.")


def early(history: History) -> Iterator[AuditFinding]:
    """Brokers that a leader wanted in its in-sync set, or out, against the rule."""
    for finding in _grouped(history, "isr-against-rule", is_covered=True):
        count, first = counted(finding.total, "change"), finding.evidence[0].said
        yield finding._replace(what=f"{count} of the in-sync set; first: {first}.")


def _grouped(history: History, kind: str, is_covered: bool = False) -> Iterator[AuditFinding]:
    """Findings of a kind by partition, if required only from where all logs are recorded."""
    by_subject = defaultdict(list)
    for each in history.replication.found(kind):
        if not is_covered or history.is_covered(each.facts["time"]):
            by_subject[each.subject].append(each)
    for subject, found in by_subject.items():
        severity = max(each.severity for each in found)
        evidence = [Evidence(e.line.place, e.facts["time"], "", e.said) for e in found]
        yield AuditFinding(kind, severity, subject, "", found[0].advice, evidence)


FINDERS = (shrunk, led, told, early)
