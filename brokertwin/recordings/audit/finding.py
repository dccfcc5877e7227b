"""A finding of the audit: its severity, and the lines of the recording that show it."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from brokertwin.protocol.errors import Error, error_name
from brokertwin.recordings import sentences
from brokertwin.recordings.history.exchange import RecordedRequest
from brokertwin.recordings.history.findings import Certainty, Finding, Rebalance, Severity
from brokertwin.recordings.history.words import names_of
from brokertwin.recordings.rules import Rule

F = TypeVar("F", bound=Finding)


class Evidence(NamedTuple):
    """A line that shows a finding.

    Attributes:
        place: file and line, as `replay` and `explain line` name it.
        time: when the request arrived, in ms since 1970.
        client: client id of the request; "" if it is not known.
        said: the content of the line in a few words.
        by: the clients whose requests caused it, as far as the recording shows them.
    """

    place: str
    time: float
    client: str
    said: str = ""
    by: tuple[str, ...] = ()

    @classmethod
    def shown_by(cls, finding: Finding) -> "list[Evidence]":
        """The evidence of a machine's finding: its exchange, or all responses of a rebalance."""
        lines = finding.lines if isinstance(finding, Rebalance) else (finding.line,)
        said, by = sentences.said(finding), tuple(dict.fromkeys(finding.by))
        return [cls(each.place, each.time, _client(finding, each), said, by) for each in lines]


def _client(finding: Finding, line: RecordedRequest) -> str:
    return line.name if finding.client is None else finding.client


class AuditFinding(NamedTuple):
    """A problem of a subject: a producer, a group, the sessions of a client, a partition.

    Attributes:
        kind: `offset-back`.
        severity: how bad it is.
        subject: `group billing`.
        what: a sentence.
        rule: Kafka's rule, its source, and advice.
        evidence: the lines, in the order of their responses.
        code: the error code; 0 if it is not about an error.
        often: number of occurrences, if it is not the number of lines.
        certainty: how the causes are known; the least certain one counts.
        consequences: of an incident: what followed, by kind and subject.
    """

    kind: str
    severity: Severity
    subject: str
    what: str
    rule: Rule
    evidence: Sequence[Evidence]
    code: int = Error.NONE
    often: int | None = None
    certainty: Certainty = Certainty.SEEN
    consequences: Sequence[dict[str, Any]] = ()

    @classmethod
    def of(
        cls, findings: Sequence[Finding], what: str, subject: str = "", often: int | None = None
    ) -> "AuditFinding":
        """Sum up machines' findings of one kind.

        Args:
            findings: at least one.
            what: a sentence.
            subject: if it is not that of the machines.
            often: number of occurrences, if it is not the number of findings.
        """
        first = findings[0]
        return cls(
            first.kind,
            max(each.severity for each in findings),
            subject or first.subject.name,
            what,
            sentences.advice(first),
            [shown for each in findings for shown in Evidence.shown_by(each)],
            first.error,
            often,
            max((each.certainty for each in findings), key=list(Certainty).index),
        )

    @property
    def total(self) -> int:
        return len(self.evidence) if self.often is None else self.often

    @property
    def begin(self) -> float:
        """Time of the first evidence, in ms since 1970."""
        return min(each.time for each in self.evidence)

    @property
    def end(self) -> float:
        """Time of the last evidence, in ms since 1970."""
        return max(each.time for each in self.evidence)

    @property
    def clients(self) -> list[str]:
        """Clients that are affected, the most frequent first."""
        return [name for name, _ in Counter(e.client for e in self.evidence).most_common() if name]

    @property
    def by(self) -> list[str]:
        """Clients that caused it, the most frequent first."""
        return [name for name, _ in Counter(n for e in self.evidence for n in e.by).most_common()]

    def document(self, shown: int) -> dict[str, Any]:
        """The finding as JSON, with at most `shown` lines of evidence."""
        return {
            "severity": self.severity.label,
            "kind": self.kind,
            "subject": self.subject,
            "error": error_name(self.code) if self.code else None,
            "count": self.total,
            "from": self.begin,
            "to": self.end,
            "clients": self.clients,
            "by": self.by,
            "what": self.what,
            "certainty": self.certainty.value,
            "consequences": list(self.consequences),
            "rule": self.rule.why,
            "source": self.rule.source,
            "do": self.rule.do,
            "evidence": [each._asdict() for each in self.evidence[:shown]],
            "evidenceLeftOut": max(0, len(self.evidence) - shown),
        }


def grouped(
    findings: Iterable[F],
    by: Callable[[F], Hashable] = lambda each: each.subject,
) -> Collection[list[F]]:
    """Machines' findings by subject, or by another key."""
    groups: dict[Hashable, list[F]] = defaultdict(list)
    for each in findings:
        groups[by(each)].append(each)
    return groups.values()


def clients_of(findings: Iterable[Finding]) -> str:
    """List the clients of machines' findings: `clients a and b`."""
    return names_of(each.affected for each in findings)


def causers_of(findings: Iterable[Finding]) -> str:
    """List the clients that caused machines' findings; empty if none is known."""
    names = [name for each in findings for name in each.by]
    return names_of(names) if names else ""
