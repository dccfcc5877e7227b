"""Findings about answers that differ from the rules: every request is decided again.

That needs all of a broker's life. A recording that begins in the middle of it lacks what was there
before, and answers that are right would be accused; nothing in the recording says for sure which of
the two it is, so it is the user who says that it begins with its broker. One in which many answers
differ is not believed to.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from brokertwin.errors import UserError
from brokertwin.recordings.audit.finding import Evidence, Finding, Severity, counted
from brokertwin.recordings.history.words import names_of
from brokertwin.recordings.replay.comparison import FINE, Difference, Verdict
from brokertwin.recordings.replay.report import Compared
from brokertwin.recordings.rules import Rule

KIND = "answer-differs"

MANY = 0.3
"""The share of answers from which on the recording, and not the broker, is taken to be at fault."""

FEW = 20
"""Of fewer answers than these no share says anything."""

SHOWN = 80
"""Characters of a value that are shown."""

RULE = Rule(
    "The same requests, decided again in their order by the rules of Kafka 4.3.1, have other"
    " answers.",
    "docs/comparison.md has what is compared, and what is free",
    "See all of it with `brokertwin replay --compare`. Another version of Kafka, settings that"
    " are not those of --broker-config, and lines that are missing make answers differ, too.",
)


def differing(compared: Sequence[Compared]) -> Iterator[Finding]:
    """The answers that differ, by API.

    Raises:
        UserError: so many differ that the recording does not begin with its broker.
    """
    found: dict[str, list[tuple[Compared, Difference]]] = defaultdict(list)
    for each in compared:
        if each.outcome.verdict is Verdict.DIFFER:
            found[each.exchange.api].append((each, each.outcome.differences[0]))
    held = sum(each.outcome.verdict in FINE for each in compared)
    count = sum(map(len, found.values()))
    if held + count >= FEW and count > MANY * (held + count):
        raise UserError(
            f"{count:,} of {counted(held + count, 'response')} differ from the broker model, so"
            " the recording does not start with its broker, or the settings differ.",
            "Leave out --decide, or pass the settings with --broker-config.",
        )
    for api, those in found.items():
        evidence = [Evidence.of(each.exchange, _said(difference)) for each, difference in those]
        yield Finding(
            KIND,
            Severity.ERROR,
            f"answers of {api}",
            f"{counted(len(evidence), 'answer')} to {names_of(e.client for e in evidence)}"
            f" {'is' if len(evidence) == 1 else 'are'} not what the rules give:"
            f" {evidence[0].said}.",
            RULE,
            evidence,
        )


def _said(difference: Difference) -> str:
    return (
        f"{difference.path} is {_value(difference.expected)}, by the rules {_value(difference.got)}"
    )


def _value(value: object) -> str:
    text = repr(value) if isinstance(value, str) and " " in value else str(value)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"
