"""The report of an exam: score by subject, JSON, JUnit XML, and the baseline for CI."""

import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from brokertwin.errors import UserError
from brokertwin.protocol.errors import Error
from brokertwin.testing.exam.model import ExamSeverity, subjects
from brokertwin.testing.exam.verdicts import (
    Deviation,
    Key,
    Outcome,
    Result,
    keys_of,
    last_name,
    new_deviations,
)

PLAYED = frozenset({Outcome.AGREES, Outcome.DEVIATES, Outcome.EXPLAINED})
TEXT_MAX = 300
"""Longer values are cut in texts, not in JSON."""


class Score(msgspec.Struct, frozen=True):
    """Counts of scenarios of a subject."""

    subject: str
    title: str
    agrees: int
    deviates: int
    explained: int
    not_claimed: int
    other_settings: int

    @property
    def played(self) -> int:
        """Number of scenarios that were played."""
        return self.agrees + self.deviates + self.explained

    @property
    def percent(self) -> str:
        """Share of played scenarios that agree; a dash if none was played."""
        if not self.played:
            return "-"
        share = 100 * self.agrees / self.played
        return "100 %" if self.agrees == self.played else f"{min(share, 99.9):.1f} %"


class Report(msgspec.Struct, frozen=True):
    """Report of an exam.

    Attributes:
        broker: address of the examined broker.
        kafka: version of Kafka that the golden responses are from.
        scores: scores by subject.
        results: results of all scenarios.
        elapsed_s: duration.
    """

    broker: str
    kafka: str
    scores: list[Score]
    results: list[Result]
    elapsed_s: float


def report_of(broker: str, results: Sequence[Result], elapsed_s: float) -> Report:
    """Return the report on results."""
    kafka = subjects()[0].kafka
    scores = []
    for subject in subjects():
        own = [each for each in results if each.subject == subject.name]
        if own:
            scores.append(_score(subject.name, subject.title, own))
    return Report(broker, kafka, scores, list(results), round(elapsed_s, 1))


def total(scores: Iterable[Score]) -> Score:
    """Return the sum of all subjects."""
    counts: Counter[str] = Counter()
    for score in scores:
        counts.update({name: getattr(score, name) for name in COUNTS})
    return Score("", "all", **{name: counts[name] for name in COUNTS})


COUNTS = ("agrees", "deviates", "explained", "not_claimed", "other_settings")


def _score(subject: str, title: str, results: Sequence[Result]) -> Score:
    counts = Counter(each.outcome for each in results)
    return Score(
        subject,
        title,
        counts[Outcome.AGREES],
        counts[Outcome.DEVIATES],
        counts[Outcome.EXPLAINED],
        counts[Outcome.NOT_CLAIMED],
        counts[Outcome.OTHER_SETTINGS],
    )


def as_json(report: Report) -> bytes:
    """Return the report as JSON, which is also a baseline."""
    document = msgspec.to_builtins(report)
    scores = zip(document["scores"], report.scores, strict=True)
    document["scores"] = [found | {"percent": each.percent} for found, each in scores]
    document["total"] = msgspec.to_builtins(total(report.scores))
    return msgspec.json.format(msgspec.json.encode(document), indent=1)


def baseline(data: bytes) -> set[Key]:
    """Return the deviations of a report in JSON. Raises UserError."""
    try:
        return keys_of(msgspec.json.decode(data, type=Report).results)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise UserError(
            f"Cannot read the baseline: {error}.", "Pass a report that --json has written."
        ) from None


def as_junit(report: Report, baseline: set[Key]) -> bytes:
    """Return the report as JUnit XML: a suite for each subject, a case for each scenario.

    Args:
        report: the report.
        baseline: known deviations, which do not fail a case.
    """
    root = ElementTree.Element("testsuites", name="brokertwin exam")
    for score in report.scores:
        own = [each for each in report.results if each.subject == score.subject]
        suite = ElementTree.SubElement(root, "testsuite", name=score.title)
        suite.set("tests", str(len(own)))
        suite.set("failures", str(sum(bool(new_deviations([each], baseline)) for each in own)))
        suite.set("skipped", str(sum(each.outcome not in PLAYED for each in own)))
        for result in own:
            _case(suite, result, baseline)
    ElementTree.indent(root)
    return b'<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root)


def _case(suite: ElementTree.Element, result: Result, baseline: set[Key]) -> None:
    case = ElementTree.SubElement(suite, "testcase", name=result.scenario)
    case.set("classname", f"exam.{result.subject}")
    case.set("time", f"{result.elapsed_s:.3f}")
    if result.outcome not in PLAYED:
        ElementTree.SubElement(case, "skipped", message=f"{result.outcome}: {result.reason}")
        return
    failing = new_deviations([result], baseline)
    if failing:
        worst = worst_of(failing)
        failure = ElementTree.SubElement(case, "failure", type=worst, message=result.rule)
        failure.text = printable("\n".join(map(described, failing)))


def worst_of(deviations: Iterable[Deviation]) -> ExamSeverity:
    """Return the worst severity of some deviations."""
    order = list(ExamSeverity)
    return min((each.severity for each in deviations), key=order.index)


def printable(text: str) -> str:
    """Return a text without characters that XML does not allow."""
    return "".join(each if each.isprintable() or each in "\n\t" else "\ufffd" for each in text)


def described(deviation: Deviation) -> str:
    """Return a deviation as a line."""
    expected, got = (shown(deviation.path, each) for each in (deviation.expected, deviation.got))
    return f"{deviation.step}: {deviation.path}: expected {expected}, got {got}"


def shown(path: str, value: Any) -> str:
    """Return a value as text, error codes with their names."""
    if last_name(path).lower().endswith("errorcode") and isinstance(value, int):
        name = Error(value).name if value in set(Error) else "unknown"
        return f"{value} {name}"
    is_text = isinstance(value, str) and value
    text = value if is_text else msgspec.json.encode(value).decode()
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}…"
