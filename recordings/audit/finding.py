"""One thing that went wrong, how bad it is, and the lines of the recording that show it."""

from collections import Counter
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from brokertwin.recordings.explain.rules import RULES, Rule
from brokertwin.recordings.replay.recording import Exchange
from brokertwin.state.core.errors import Error, error_name


class Severity(IntEnum):
    """How bad a finding is."""

    INFO = 0
    WARNING = 1
    ERROR = 2

    @property
    def label(self) -> str:
        """In small letters."""
        return self.name.lower()


class Evidence(NamedTuple):
    """A line that shows a finding.

    Attributes:
        place: file and line, as `replay` and `explain line` name it.
        time: when the request arrived, in ms since 1970.
        client: who asked; "" where nobody is said.
        said: what the line shows, in a few words.
        by: the clients whose requests brought it about, as far as the recording shows them.
    """

    place: str
    time: float
    client: str
    said: str = ""
    by: tuple[str, ...] = ()

    @classmethod
    def of(cls, exchange: Exchange, said: str = "", by: Iterable[str] = ()) -> "Evidence":
        """That of an exchange."""
        return cls(exchange.id, exchange.time, client_of(exchange), said, tuple(dict.fromkeys(by)))


class Finding(NamedTuple):
    """What went wrong with a subject: a producer, a group, a client's sessions, a partition.

    Attributes:
        kind: what it is, `offset-back`.
        severity: how bad.
        subject: of whom.
        what: one sentence.
        rule: Kafka's rule, its source, and what to do.
        evidence: the lines, in the order of their answers.
        code: the error, where it is about one.
        often: how often, where that is not once for each line.
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
        """How often it happened."""
        return len(self.evidence) if self.often is None else self.often

    @property
    def begin(self) -> float:
        """When it was seen first, in ms since 1970."""
        return min(each.time for each in self.evidence)

    @property
    def end(self) -> float:
        """When it was seen last, in ms since 1970."""
        return max(each.time for each in self.evidence)

    @property
    def clients(self) -> list[str]:
        """Whom it befell, the most frequent first."""
        return [name for name, _ in Counter(e.client for e in self.evidence).most_common() if name]

    @property
    def by(self) -> list[str]:
        """Who brought it about, the most frequent first."""
        return [name for name, _ in Counter(n for e in self.evidence for n in e.by).most_common()]

    def document(self, shown: int) -> dict[str, Any]:
        """For programs, with so many lines of the evidence at most."""
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


def client_of(exchange: Exchange) -> str:
    """The client id of a request; `?` where it has none."""
    return exchange.header.client_id or "?"


def rule_of(code: int) -> Rule:
    """What an error means; of one without a rule its name alone."""
    known = RULES.get(code)
    name = error_name(code)
    return known or Rule(f"The broker refused it: {name}.", "Errors", f"Look up {name}.")


def names_of(names: Iterable[str]) -> str:
    """`client a`, `clients a and b`; each once, in the order given."""
    found = list(dict.fromkeys(names))
    *most, last = found or ["?"]
    return f"client{'s' if most else ''} " + (f"{', '.join(most)} and {last}" if most else last)


def counted(count: int, one: str, many: str = "") -> str:
    """`1 batch`, `7 batches`."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def times(count: int) -> str:
    """`once`, `twice`, `7 times`."""
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
