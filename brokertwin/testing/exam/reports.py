"""The report of an exam: headline, JSON, JUnit XML, SARIF, a card, and the baseline for CI."""

import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from brokertwin.errors import UserError
from brokertwin.protocol.errors import Error
from brokertwin.protocol.kafka_apis import KAFKA_APIS
from brokertwin.protocol.schemas import API_NAMES
from brokertwin.recordings.replay.comparison import ABSENT
from brokertwin.state.core.settings import KAFKA_4_4
from brokertwin.testing.exam.model import ExamSeverity, subjects
from brokertwin.testing.exam.site import Site
from brokertwin.testing.exam.verdicts import (
    ENDED,
    Deviation,
    Key,
    Outcome,
    Result,
    last_name,
    new_deviations,
)

PLAYED = frozenset({Outcome.AGREES, Outcome.DEVIATES, Outcome.EXPLAINED})
TEXT_MAX = 300
"""Longer values are cut in texts, not in JSON."""


class ApiClaim(msgspec.Struct, frozen=True):
    """Versions of an API that a broker announces, and Kafka's; None: not announced."""

    api: str
    announced: tuple[int, int] | None
    kafka: tuple[int, int]

    @property
    def versions(self) -> tuple[int, int]:
        """Number of Kafka's versions that the broker announces, and of all of Kafka's."""
        first, last = self.announced or (0, -1)
        both = range(max(first, self.kafka[0]), min(last, self.kafka[1]) + 1)
        return len(both), self.kafka[1] - self.kafka[0] + 1


class Score(msgspec.Struct, frozen=True):
    """Counts of scenarios of a subject."""

    subject: str
    title: str
    agrees: int
    deviates: int
    explained: int
    not_claimed: int
    other_settings: int
    not_asked: int = 0

    @property
    def played(self) -> int:
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
        apis: versions of APIs that the broker announces.
    """

    broker: str
    kafka: str
    scores: list[Score]
    results: list[Result]
    elapsed_s: float
    apis: list[ApiClaim] = []

    @property
    def headline(self) -> dict[ExamSeverity, int]:
        """Number of scenarios by the worst consequence of their unexplained deviations."""
        worst = Counter(worst_of(each.unexplained) for each in self.results if each.unexplained)
        return {each: worst[each] for each in ExamSeverity}


def claims_of(site: Site, kafka: str) -> list[ApiClaim]:
    """Return the versions of all APIs that a release of Kafka announces to clients."""
    is_4_4 = kafka.startswith(KAFKA_4_4)
    return [
        ApiClaim(API_NAMES[key], site.claims.get(API_NAMES[key]), (api.first, last))
        for key, api in sorted(KAFKA_APIS.items())
        if key in API_NAMES
        and API_NAMES[key] not in OF_A_REPORTER
        and (last := api.last_in(is_4_4)) >= api.first
    ]


OF_A_REPORTER = frozenset({"GetTelemetrySubscriptions", "PushTelemetry"})
"""APIs that Kafka announces only with a plugin that takes clients' metrics (KIP-714)."""


def report_of(
    broker: str,
    kafka: str,
    results: Sequence[Result],
    elapsed_s: float,
    apis: Sequence[ApiClaim] = (),
) -> Report:
    """Return the report on results that were compared with a release of Kafka."""
    scores = []
    for subject in subjects():
        own = [each for each in results if each.subject == subject.name]
        if own:
            scores.append(_score(subject.name, subject.title, own))
    return Report(broker, kafka, scores, list(results), round(elapsed_s, 1), list(apis))


def total(scores: Iterable[Score]) -> Score:
    """Return the sum of all subjects."""
    counts: Counter[str] = Counter()
    for score in scores:
        counts.update({name: getattr(score, name) for name in COUNTS})
    return Score("", "all", **{name: counts[name] for name in COUNTS})


COUNTS = ("agrees", "deviates", "explained", "not_claimed", "other_settings", "not_asked")


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
        counts[Outcome.NOT_ASKED],
    )


def as_json(report: Report) -> bytes:
    """Return the report as JSON, which is also a baseline."""
    document = msgspec.to_builtins(report)
    scores = zip(document["scores"], report.scores, strict=True)
    document["scores"] = [found | {"percent": each.percent} for found, each in scores]
    document["total"] = msgspec.to_builtins(total(report.scores))
    document["headline"] = {each.value: count for each, count in report.headline.items()}
    return msgspec.json.format(msgspec.json.encode(document), indent=1)


class _KnownDeviation(msgspec.Struct):
    step: str
    path: str
    note: str = ""


class _KnownResult(msgspec.Struct):
    scenario: str
    deviations: list[_KnownDeviation] = []


class _Baseline(msgspec.Struct):
    """The part of a report that a baseline needs: those of former versions are read, too."""

    results: list[_KnownResult]


def baseline(data: bytes) -> set[Key]:
    """Return the unexplained deviations of a report in JSON. Raises UserError."""
    try:
        results = msgspec.json.decode(data, type=_Baseline).results
        return {
            (result.scenario, each.step, each.path)
            for result in results
            for each in result.deviations
            if not each.note
        }
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise UserError(
            f"Cannot read the baseline: {error}.", "Pass a report that --json has written."
        ) from None


def as_junit(report: Report, baseline: set[Key]) -> bytes:
    """Return the report as JUnit XML: a suite for each subject, a case for each scenario.

    `baseline`: known deviations, which do not fail a case.
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


LEVELS = {
    ExamSeverity.DATA: "error",
    ExamSeverity.CLIENTS: "error",
    ExamSeverity.FIELD: "warning",
    ExamSeverity.UNREAD: "note",
}
"""Levels of SARIF."""


def as_sarif(report: Report, baseline: set[Key]) -> bytes:
    """Return the deviations as SARIF 2.1.0: a rule for each scenario, a result for each deviation.

    `baseline`: known deviations, with the baseline state `unchanged`.
    """
    deviating = [each for each in report.results if each.unexplained]
    rules = [
        {
            "id": each.scenario,
            "shortDescription": {"text": each.rule},
            "properties": {"kip": each.kip, "source": each.source, "subject": each.subject},
        }
        for each in deviating
    ]
    results = [
        {
            "ruleId": result.scenario,
            "level": LEVELS[each.severity],
            "message": {"text": printable(described(each))},
            "baselineState": "unchanged"
            if (result.scenario, each.step, each.path) in baseline
            else "new",
            "locations": [
                {"logicalLocations": [{"name": each.api, "fullyQualifiedName": each.path}]}
            ],
            "properties": {"consequence": each.severity.value, "broker": report.broker},
        }
        for result in deviating
        for each in result.unexplained
    ]
    tool = {"driver": {"name": "brokertwin exam", "version": report.kafka, "rules": rules}}
    document = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": tool, "results": results}],
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=1)


CARD_DEVIATIONS = 50
"""Deviating scenarios of a card."""


def as_card(report: Report) -> str:
    """Return the report as a card in Markdown, for a README or a pull request."""
    whole = total(report.scores)
    lines = [
        f"# Exam of {report.broker}",
        "",
        (
            f"Compared with Apache Kafka {report.kafka} in {report.elapsed_s} s. {whole.agrees} of"
            f" {whole.played} played scenarios agree."
        ),
        "",
        "| scenarios | consequence |",
        "|---:|---|",
        *(f"| {count} | {each.value} |" for each, count in report.headline.items()),
        "",
        api_summary(report.apis),
        "",
        "| subject | agree | deviate | explained | not played |",
        "|---|---:|---:|---:|---:|",
    ]
    for each in report.scores:
        unplayed = each.not_claimed + each.other_settings + each.not_asked
        cells = (each.title, each.agrees, each.deviates, each.explained, unplayed)
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    order = list(ExamSeverity)
    deviating = [each for each in report.results if each.unexplained]
    deviating.sort(key=lambda each: order.index(worst_of(each.unexplained)))
    lines += ["", "## Deviations", ""] if deviating else []
    for result in deviating[:CARD_DEVIATIONS]:
        worst = worst_of(result.unexplained)
        first = next(each for each in result.unexplained if each.severity is worst)
        text = printable(described(first)).replace("|", "\\|").replace("\n", " ")
        lines.append(f"- **{result.scenario}** ({worst.value}): {result.rule} `{text}`")
    if len(deviating) > CARD_DEVIATIONS:
        lines.append(f"- and {len(deviating) - CARD_DEVIATIONS} more")
    missing = [each for each in report.apis if each.versions[0] < each.versions[1]]
    if missing:
        lines += ["", "## APIs", "", "| API | announced | Kafka |", "|---|---|---|"]
        lines += [f"| {e.api} | {_range(e.announced)} | {_range(e.kafka)} |" for e in missing]
    return "\n".join([*lines, ""])


def api_summary(apis: Sequence[ApiClaim]) -> str:
    """Return how many of Kafka's APIs and versions a broker announces."""
    if not apis:
        return "The versions of APIs are unknown."
    counts = [each.versions for each in apis]
    equal, all_of_them = (sum(each[at] for each in counts) for at in (0, 1))
    announced = sum(each.announced is not None for each in apis)
    return (
        f"APIs announced: {announced} of {len(apis)}, in {equal} of {all_of_them} versions of"
        " Kafka."
    )


def _range(versions: tuple[int, int] | None) -> str:
    if versions is None:
        return "-"
    first, last = versions
    return str(first) if first == last else f"{first} to {last}"


def worst_of(deviations: Iterable[Deviation]) -> ExamSeverity:
    order = list(ExamSeverity)
    return min((each.severity for each in deviations), key=order.index)


def printable(text: str) -> str:
    """Return a text without characters that XML does not allow."""
    return "".join(each if each.isprintable() or each in "\n\t" else "\ufffd" for each in text)


def described(deviation: Deviation) -> str:
    path, ended = deviation.path, deviation.ended
    expected, got = (shown(path, each) for each in (deviation.expected, deviation.got))
    text = f"{deviation.step}: {path}: expected {expected}, got {got}"
    if ended:
        text = str(deviation.got) if path == ENDED else f"{text}, {ended}"
    return f"{text}, prepared by {deviation.prepared}" if deviation.prepared else text


def shown(path: str, value: Any) -> str:
    """Return a value as text, error codes with their names."""
    if isinstance(value, dict) and value.keys() == {"not"}:
        return f"another value than {shown(path, value['not'])}"
    if value == ABSENT:
        return "nothing"
    if last_name(path).lower().endswith("errorcode") and isinstance(value, list):
        return " or ".join(shown(path, each) for each in value)
    if last_name(path).lower().endswith("errorcode") and isinstance(value, int):
        name = Error(value).name if value in set(Error) else "unknown"
        return f"{value} {name}"
    is_text = isinstance(value, str) and value
    text = value if is_text else msgspec.json.encode(value).decode()
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}…"
