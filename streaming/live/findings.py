"""Findings of machines as the documents that `audit --json` writes, one for each finding.

Audit sums the findings of a subject up at the end. Here each finding has a document, made by the
same finders from this finding alone, with a stable id. A later document with the same id
replaces it: it completes the cause, adds refusals, or withdraws it.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from brokertwin.recordings import sentences
from brokertwin.recordings.audit.finders import FINDERS
from brokertwin.recordings.audit.undecoded import Undecoded
from brokertwin.recordings.history.entity import EntityKind
from brokertwin.recordings.history.findings import Finding, Incident, Severity

EVIDENCE_MAX = 100
"""Maximum number of evidence lines in a document."""


F = TypeVar("F", bound=Finding)


class FoundOnly:
    """The findings of machines as the finders of audit read them, without a recording.

    Args:
        findings: by any machines of one cluster, in any order; the last with an id counts.
    """

    incidents: Sequence[Incident] = ()
    """An entity does not see the others that an incident is made of."""

    undecoded = Undecoded()
    """No entity takes requests without a body."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        newest = {each.id: each for each in findings}
        kept = [each for each in newest.values() if not each.is_withdrawn]
        self._kept = sorted(kept, key=lambda each: (each.line.order, each.subject.name))

    def found(self, _kind: EntityKind, *classes: type[F]) -> Iterator[F]:
        """The findings of these classes, in the order of `observe`."""
        yield from (each for each in self._kept if isinstance(each, classes))


class FindingRow(NamedTuple):
    id: str
    value: bytes


_encoder = msgspec.json.Encoder()


def rows_of(cluster: str, findings: Iterable[Sequence[Finding]]) -> Iterator[FindingRow]:
    """The rows of findings, the last for each id; ordinary events (`NOTE`) have none.

    `findings`: those of each row. Its id is that of the first one.
    """
    newest = {each[0].id: each for each in findings if each[-1].severity > Severity.NOTE}
    for name, each in newest.items():
        id_ = f"{cluster} {name}"
        for document in _documents(each):
            named = {"id": id_, "cluster": cluster, **document, "withdrawn": each[-1].is_withdrawn}
            yield FindingRow(id_, _encoder.encode(named))


def _documents(findings: Sequence[Finding]) -> Iterator[dict[str, Any]]:
    shown = FoundOnly(msgspec.structs.replace(each, is_withdrawn=False) for each in findings)
    for finder in FINDERS:
        for found in finder(shown):
            yield {**found.document(EVIDENCE_MAX), "cause": sentences.cause(findings[-1])}
