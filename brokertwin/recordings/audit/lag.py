"""Findings about lag: groups that fall behind the high watermark, or are beyond the log end."""

from collections.abc import Iterator

from brokertwin.recordings.audit.finding import AuditFinding, grouped
from brokertwin.recordings.audit.history import EntityHistory
from brokertwin.recordings.history.lag import LAGS


def grown(history: EntityHistory) -> Iterator[AuditFinding]:
    """Groups whose lag in a partition grew."""
    for found in grouped(history.found(LAGS, "lag-growing")):
        worst = max(found, key=lambda each: each.facts["to"] - each.facts["from"]).facts
        low, high = worst["from"], worst["to"]
        said = f"The lag grew by {high - low} records, from {low} to {high}."
        yield AuditFinding.of(found, said)


def beyond_end(history: EntityHistory) -> Iterator[AuditFinding]:
    """Groups that committed beyond the log end."""
    for found in grouped(history.found(LAGS, "commit-beyond-end")):
        least = min(each.facts["lag"] for each in found)
        yield AuditFinding.of(found, f"Committed beyond the log end; the lag was {least}.")


FINDERS = (grown, beyond_end)
