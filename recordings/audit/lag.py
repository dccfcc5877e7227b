"""Findings about lag: groups that fall behind the high watermark, or are beyond the log end."""

from collections.abc import Iterator

from brokertwin.recordings.audit.finding import AuditFinding, Evidence, Severity, grouped
from brokertwin.recordings.audit.history import EntityHistory
from brokertwin.recordings.history.lag import BEYOND_END, GROWING, LAGS


def grown(history: EntityHistory) -> Iterator[AuditFinding]:
    """Groups whose lag in a partition grew."""
    for subject, found in grouped(history.found(LAGS, "lag-growing")):
        worst = max(found, key=lambda each: each.facts["to"] - each.facts["from"]).facts
        low, high = worst["from"], worst["to"]
        said = f"The lag grew by {high - low} records, from {low} to {high}."
        evidence = [Evidence.shown_by(each) for each in found]
        yield AuditFinding("lag-growing", Severity.WARNING, subject, said, GROWING, evidence)


def beyond_end(history: EntityHistory) -> Iterator[AuditFinding]:
    """Groups that committed beyond the log end."""
    for subject, found in grouped(history.found(LAGS, "commit-beyond-end")):
        said = f"Committed beyond the log end; the lag was {min(e.facts['lag'] for e in found)}."
        evidence = [Evidence.shown_by(each) for each in found]
        yield AuditFinding(
            "commit-beyond-end", Severity.WARNING, subject, said, BEYOND_END, evidence
        )


FINDERS = (grown, beyond_end)
