"""Deviations from golden responses, with severities and version notes."""

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from typing import Any

import msgspec

from brokertwin.recordings.replay.comparison import compare, keyed
from brokertwin.testing.exam.model import KEYS, ExamSeverity, ExamSubject, Observation, Scenario
from brokertwin.testing.exam.normal import TEXTS, order_of
from brokertwin.testing.exam.player import Played

ENDED = "end"
"""Step of a deviation that ended the scenario."""


class Outcome(StrEnum):
    """The result of a scenario."""

    AGREES = "agrees"
    DEVIATES = "deviates"
    EXPLAINED = "explained"
    """All its deviations have version notes."""
    NOT_CLAIMED = "not claimed"
    OTHER_SETTINGS = "other settings"
    """A setting of the broker makes the golden inapplicable."""


class Deviation(msgspec.Struct, frozen=True, omit_defaults=True):
    """A difference from the golden response.

    Attributes:
        step: label of the step; `ENDED` if the scenario stopped.
        path: of the field, like `topics[a].partitions[0].errorCode`.
        expected: value in the golden response.
        got: value in the response of the examined broker.
        severity: severity of the deviation.
        api: API of the request.
        version: version of the API.
        request: the request's body, with bytes as text.
        note: the version note that explains it.
    """

    step: str
    path: str
    expected: Any
    got: Any
    severity: ExamSeverity
    api: str = ""
    version: int = 0
    request: Any = None
    note: str = ""


class Result(msgspec.Struct, frozen=True, omit_defaults=True):
    """Result of a scenario; `reason` explains why it was not played."""

    subject: str
    scenario: str
    rule: str
    source: str
    kip: str
    outcome: Outcome
    deviations: list[Deviation] = []
    reason: str = ""
    elapsed_s: float = 0.0

    @property
    def unexplained(self) -> list[Deviation]:
        """Deviations without a version note."""
        return [each for each in self.deviations if not each.note]


class VersionNote(msgspec.Struct, frozen=True):
    """Why a former or later Kafka deviates.

    Attributes:
        versions: versions of Kafka, like `3.9.1`.
        scenarios: names of scenarios.
        note: one sentence.
        paths: the last names of deviating fields, or `ENDED`; empty: any.
    """

    versions: list[str]
    scenarios: list[str]
    note: str
    paths: list[str] = []


def judged(
    subject: ExamSubject, scenario: Scenario, played: Played, notes: Iterable[VersionNote] = ()
) -> Result:
    """Compare the results of a scenario with its golden responses.

    Args:
        subject: subject of the scenario.
        scenario: the scenario.
        played: results of its steps.
        notes: version notes on the examined Kafka.
    """
    deviations = [_noted(each, scenario.name, notes) for each in _deviations(scenario, played)]
    outcome = Outcome.AGREES
    if deviations:
        is_explained = all(each.note for each in deviations)
        outcome = Outcome.EXPLAINED if is_explained else Outcome.DEVIATES
    return Result(
        *_described(subject, scenario), outcome, deviations, elapsed_s=round(played.elapsed_s, 3)
    )


def not_played(subject: ExamSubject, scenario: Scenario, outcome: Outcome, reason: str) -> Result:
    """Return the result of a scenario that does not apply."""
    return Result(*_described(subject, scenario), outcome, reason=reason)


def _described(subject: ExamSubject, scenario: Scenario) -> tuple[str, str, str, str, str]:
    """The fields of a result that do not depend on the broker."""
    return subject.name, scenario.name, scenario.rule, scenario.source, scenario.kip


def _deviations(scenario: Scenario, played: Played) -> list[Deviation]:
    found: list[Deviation] = []
    for place, golden in enumerate(scenario.golden):
        if place >= len(played.observations):
            break
        exchange = played.exchanges[place]
        for path, expected, got in _differences(golden, played.observations[place], exchange):
            found.append(
                Deviation(
                    golden.label,
                    path,
                    expected,
                    got,
                    _severity(scenario.severity, path),
                    exchange.api if exchange else "",
                    exchange.version if exchange else 0,
                    builtins(exchange.request) if exchange else None,
                )
            )
    if played.ended:
        ended = Deviation(ENDED, ENDED, "the scenario continues", played.ended, scenario.severity)
        found.append(ended)
    return found


def _differences(
    golden: Observation, got: Observation, exchange: Any
) -> list[tuple[str, Any, Any]]:
    if golden.response is None or got.response is None:
        return [] if golden == got else [("outcome", golden.value, got.value)]
    order = order_of(KEYS[exchange.api])
    outcome = compare(keyed(golden.response, order), keyed(got.response, order))
    return [(each.path, each.expected, each.got) for each in outcome.differences]


def _severity(given: ExamSeverity, path: str) -> ExamSeverity:
    return ExamSeverity.COSMETIC if last_name(path) in TEXTS else given


def last_name(path: str) -> str:
    """Return the name of the field at the end of a path."""
    return path.rpartition(".")[2].partition("[")[0]


def _noted(deviation: Deviation, scenario: str, notes: Iterable[VersionNote]) -> Deviation:
    for note in notes:
        is_path = not note.paths or last_name(deviation.path) in note.paths
        if is_path and any(_matches(scenario, name) for name in note.scenarios):
            return msgspec.structs.replace(deviation, note=note.note)
    return deviation


def _matches(scenario: str, name: str) -> bool:
    return scenario.startswith(name[:-1]) if name.endswith("*") else scenario == name


def builtins(value: Any) -> Any:
    """Return a body with bytes as hexadecimal text."""
    if isinstance(value, bytes):
        return f"hex:{value.hex()}"
    if isinstance(value, dict):
        return {name: builtins(part) for name, part in value.items()}
    if isinstance(value, list):
        return [builtins(part) for part in value]
    return value


Key = tuple[str, str, str]


def keys_of(results: Iterable[Result]) -> set[Key]:
    """Return scenario, step and path of all deviations without a version note."""
    return {
        (result.scenario, each.step, each.path) for result in results for each in result.unexplained
    }


def new_deviations(results: Iterable[Result], baseline: Collection[Key]) -> list[Deviation]:
    """Return the unexplained deviations that a baseline does not have."""
    return [
        each
        for result in results
        for each in result.unexplained
        if (result.scenario, each.step, each.path) not in baseline
    ]


EXIT_CODES: Mapping[ExamSeverity, int] = {
    ExamSeverity.COSMETIC: 3,
    ExamSeverity.CLIENTS: 4,
    ExamSeverity.DATA: 5,
}
"""Exit codes by the worst severity; 0 without deviations."""


def exit_code(deviations: Iterable[Deviation]) -> int:
    """Return the exit code for deviations."""
    return max((EXIT_CODES[each.severity] for each in deviations), default=0)
