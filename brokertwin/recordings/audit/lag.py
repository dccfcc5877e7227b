"""Findings about lag: groups that fall behind the high watermark, or are beyond the log end."""

from collections.abc import Iterator

from brokertwin.recordings.audit.finding import AuditFinding, grouped
from brokertwin.recordings.audit.history import EntityHistory
from brokertwin.recordings.history.findings import CommitBeyondEnd, LagGrew, LsoHeldBack
from brokertwin.recordings.history.lag import LAGS
from brokertwin.recordings.history.words import names_of, sentence
from brokertwin.recordings.sentences import held


def grown(history: EntityHistory) -> Iterator[AuditFinding]:
    """Groups whose lag in a partition grew."""
    for findings in grouped(history.found(LAGS, LagGrew)):
        worst = max(findings, key=lambda each: each.least - each.former)
        low, high = worst.former, worst.least
        said = f"The lag grew by {high - low} records, from {low} to {high}."
        yield AuditFinding.of(findings, said)


def beyond_end(history: EntityHistory) -> Iterator[AuditFinding]:
    for findings in grouped(history.found(LAGS, CommitBeyondEnd)):
        most, names = max(each.beyond for each in findings), names_of(e.affected for e in findings)
        said = f"{names} committed up to {most} records beyond the log end."
        yield AuditFinding.of(findings, f"{said[0].upper()}{said[1:]}")


def held_back(history: EntityHistory) -> Iterator[AuditFinding]:
    """Open transactions that hold back the last stable offset of a partition."""
    for findings in grouped(history.found(LAGS, LsoHeldBack)):
        yield AuditFinding.of(findings, " ".join(sentence(held(each)) for each in findings))


FINDERS = (grown, beyond_end, held_back)
