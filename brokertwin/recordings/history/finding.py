"""A report of a machine about one exchange: evidence, cause, rule and advice."""

from enum import IntEnum
from typing import Any

import msgspec

from brokertwin.protocol.errors import Error, error_name
from brokertwin.recordings.history.exchange import RecordedRequest
from brokertwin.recordings.rules import RULES, Rule


class Severity(IntEnum):
    """Severity of a finding. A `NOTE` is an ordinary event, which only timelines show."""

    NOTE = -1
    INFO = 0
    WARNING = 1
    ERROR = 2

    @property
    def label(self) -> str:
        """Name in lower case."""
        return self.name.lower()


class EntityFinding(msgspec.Struct, frozen=True, kw_only=True):
    """A finding about one exchange of an entity.

    A machine emits it once. A later finding with the same `id` replaces it: it completes the cause,
    or withdraws the finding.

    Attributes:
        kind: `session-lost`.
        severity: how bad it is.
        subject: the entity that is concerned, in words: `client a`.
        line: the exchange that shows it.
        part: distinguishes findings of one kind about one exchange, for example a partition.
        said: the evidence in a few words.
        cause: a sentence about the cause; "" if it is unknown.
        by: names of the clients whose requests caused it.
        code: the error code; 0 if it is not about an error.
        rule: Kafka's rule with its source and advice, if it is not that of the error.
        facts: further values, by name.
        is_withdrawn: whether later exchanges have disproved it.
    """

    kind: str
    severity: Severity
    subject: str
    line: RecordedRequest
    part: str = ""
    said: str = ""
    cause: str = ""
    by: tuple[str, ...] = ()
    code: int = Error.NONE
    rule: Rule | None = None
    facts: dict[str, Any] = {}
    is_withdrawn: bool = False

    @property
    def id(self) -> str:
        """Identity of the finding: the same in every run over the same exchanges."""
        return " ".join(filter(None, (self.kind, self.subject, self.line.place, self.part)))

    @property
    def advice(self) -> Rule:
        """Kafka's rule, its source, and what to do."""
        return self.rule or rule_of(self.code)


def rule_of(code: int) -> Rule:
    """Return the description of an error; its name if the table has none."""
    known = RULES.get(code)
    name = error_name(code)
    return known or Rule(f"The broker refused it: {name}.", "Errors", f"Look up {name}.")
