"""Deviations, version notes, baseline and exit codes."""

from typing import Any

import msgspec

from brokertwin.testing.exam.model import (
    KEYS,
    ExamSeverity,
    ExamSubject,
    Observation,
    Scenario,
    Step,
)
from brokertwin.testing.exam.player import ExamExchange, Played
from brokertwin.testing.exam.verdicts import (
    ENDED,
    Outcome,
    Result,
    VersionNote,
    exit_code,
    judged,
    keys_of,
    new_deviations,
)

GOLDEN = {"responses": [{"name": "a", "partitionResponses": [{"index": 0, "errorCode": 0}]}]}


def scenario(golden: Any = GOLDEN, severity: ExamSeverity = ExamSeverity.DATA) -> Scenario:
    steps = [Step(label="produce", api="Produce", version=9)]
    return Scenario("idem", "A rule.", "Class", severity, steps, [Observation("produce", golden)])


def result(got: Any, notes: Any = (), ended: str = "", **known: Any) -> Result:
    examined = scenario(**known)
    subject = ExamSubject("idempotence", "Idempotent producers", "4.3.1", [examined])
    exchange = ExamExchange("Produce", 9, {"acks": -1, "data": b"\x01"}, got)
    observations = [] if got is None else [Observation("produce", response=got)]
    return judged(subject, examined, Played(observations, [exchange], ended, 0.5), notes)


def with_code(code: int) -> Any:
    partition = {"index": 0, "errorCode": code}
    return {"responses": [{"name": "a", "partitionResponses": [partition]}]}


def test_equal_responses_agree() -> None:
    assert result(GOLDEN).outcome is Outcome.AGREES


def test_a_deviation_has_path_values_and_request() -> None:
    (found,) = result(with_code(45)).deviations
    assert found.path == "responses[a].partitionResponses[0].errorCode"
    assert (found.expected, found.got, found.severity) == (0, 45, ExamSeverity.DATA)
    assert (found.api, found.version, found.request) == (
        "Produce",
        9,
        {"acks": -1, "data": "hex:01"},
    )


def test_lists_are_compared_by_key() -> None:
    golden = {"responses": [{"name": "a"}, {"name": "b"}]}
    assert result({"responses": [{"name": "b"}, {"name": "a"}]}, golden=golden).outcome is (
        Outcome.AGREES
    )


def test_a_message_is_cosmetic() -> None:
    golden = {"errorCode": 1, "errorMessage": "one"}
    (found,) = result({"errorCode": 1, "errorMessage": "other"}, golden=golden).deviations
    assert found.severity is ExamSeverity.COSMETIC


def test_a_scenario_that_ends_early_deviates_once() -> None:
    found = result(None, ended="produce: the broker closed the connection")
    assert [each.path for each in found.deviations] == [ENDED]
    assert found.outcome is Outcome.DEVIATES


def test_a_version_note_explains_deviations_of_its_fields_alone() -> None:
    note = VersionNote(["3.9.1"], ["id*"], "Kafka before 4.0 did not.", ["errorCode"])
    assert result(with_code(45), [note]).outcome is Outcome.EXPLAINED
    other = msgspec.structs.replace(note, paths=["baseOffset"])
    assert result(with_code(45), [other]).outcome is Outcome.DEVIATES
    assert not result(with_code(45), [note]).unexplained


def test_only_deviations_outside_the_baseline_are_new() -> None:
    known = keys_of([result(with_code(45))])
    assert new_deviations([result(with_code(46))], known) == []
    assert len(new_deviations([result(None, ended="closed")], known)) == 1


def test_exit_code_is_that_of_the_worst_severity() -> None:
    assert exit_code([]) == 0
    worst = {ExamSeverity.COSMETIC: 3, ExamSeverity.CLIENTS: 4, ExamSeverity.DATA: 5}
    for severity, code in worst.items():
        assert exit_code(result(with_code(1), severity=severity).deviations) == code
    both = [
        *result(with_code(1)).deviations,
        *result(with_code(1), severity=ExamSeverity.COSMETIC).deviations,
    ]
    assert exit_code(both) == 5


def test_api_names_are_those_of_the_message_schemas() -> None:
    assert KEYS["Produce"] == 0
    assert KEYS["ShareGroupHeartbeat"] == 76
