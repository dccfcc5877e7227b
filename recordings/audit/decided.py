"""Findings about responses that differ from those of the broker model.

The model needs the whole history of the broker. If a recording begins later, correct responses
would differ. A recording does not show where it begins, so the user declares it with `--decide`.
If many responses differ, the declaration is rejected.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from brokertwin.errors import UserError
from brokertwin.recordings.audit.finding import AuditFinding, Evidence, Severity, counted
from brokertwin.recordings.history.exchange import exchange_of
from brokertwin.recordings.history.words import names_of
from brokertwin.recordings.replay.comparison import FINE, CompareVerdict, FieldDifference
from brokertwin.recordings.replay.report import Compared
from brokertwin.recordings.rules import Rule

KIND = "answer-differs"

MANY = 0.3
"""Share of different responses from which on the recording is rejected."""

FEW = 20
"""Minimum number of responses for `MANY`."""

SHOWN = 80
"""Maximum number of characters of a value in a finding."""

RULE = Rule(
    "The same requests, decided again in their order by the rules of Kafka 4.3.1, have other"
    " answers.",
    "docs/comparison.md lists the fields that are compared, and those that may differ",
    "See all of it with `brokertwin replay --compare`. Another version of Kafka, settings that"
    " are not those of --broker-config, and lines that are missing make answers differ, too.",
)


def differing(compared: Sequence[Compared]) -> Iterator[AuditFinding]:
    """The responses that differ, by API.

    Raises:
        UserError: more than `MANY` differ, so the recording does not begin with its broker.
    """
    found: dict[str, list[tuple[Compared, FieldDifference]]] = defaultdict(list)
    for each in compared:
        if each.outcome.verdict is CompareVerdict.DIFFER:
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
        evidence = [
            Evidence.at(exchange_of(each.exchange).line, _said(difference))
            for each, difference in those
        ]
        yield AuditFinding(
            KIND,
            Severity.ERROR,
            f"answers of {api}",
            f"{counted(len(evidence), 'answer')} to {names_of(e.client for e in evidence)}"
            f" {'is' if len(evidence) == 1 else 'are'} not those of the rules:"
            f" {evidence[0].said}.",
            RULE,
            evidence,
        )


def _said(difference: FieldDifference) -> str:
    return (
        f"{difference.path} is {_value(difference.expected)}, by the rules {_value(difference.got)}"
    )


def _value(value: object) -> str:
    text = repr(value) if isinstance(value, str) and " " in value else str(value)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"
