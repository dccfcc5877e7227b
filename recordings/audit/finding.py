"""A finding of the audit: its severity, and the lines of the recording that show it."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from brokertwin.recordings.history.exchange import RecordedRequest
from brokertwin.recordings.history.finding import EntityFinding, Severity, rule_of
from brokertwin.recordings.rules import Rule
from brokertwin.state.core.errors import Error, error_name


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
    def shown_by(cls, found: EntityFinding) -> "Evidence":
        """The evidence of a machine's finding."""
        line = found.line
        client = found.facts.get("client", line.name)
        return cls(line.place, line.time, client, found.said, tuple(dict.fromkeys(found.by)))

    @classmethod
    def at(cls, line: RecordedRequest, said: str) -> "Evidence":
        """The evidence of an exchange that a machine kept."""
        return cls(line.place, line.time, line.name, said)


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
    """

    kind: str
    severity: Severity
    subject: str
    what: str
    rule: Rule
    evidence: Sequence[Evidence]
    code: int = Error.NONE
    often: int | None = None

    @property
    def total(self) -> int:
        """Number of occurrences."""
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
            "rule": self.rule.why,
            "source": self.rule.source,
            "do": self.rule.do,
            "evidence": [each._asdict() for each in self.evidence[:shown]],
            "evidenceLeftOut": max(0, len(self.evidence) - shown),
        }


def grouped(found: Iterable[EntityFinding]) -> Iterator[tuple[str, list[EntityFinding]]]:
    """Machines' findings by subject."""
    by_subject: dict[str, list[EntityFinding]] = defaultdict(list)
    for each in found:
        by_subject[each.subject].append(each)
    yield from by_subject.items()


def counted(count: int, one: str, many: str = "") -> str:
    """`1 batch`, `7 batches`."""
    return f"{count} {one if count == 1 else many or one + 's'}"


__all__ = ["AuditFinding", "Evidence", "Severity", "counted", "grouped", "rule_of"]
