"""Deviations, version notes, baseline and exit codes."""

from typing import Any

import msgspec
import pytest

from brokertwin.protocol.schemas import API_KEYS
from brokertwin.testing.exam.model import (
    ExamSeverity,
    ExamSubject,
    Observation,
    Scenario,
    Step,
    Until,
)
from brokertwin.testing.exam.player import ABSENT, Ended, ExamExchange, Played, never
from brokertwin.testing.exam.reports import described
from brokertwin.testing.exam.verdicts import (
    ENDED,
    Outcome,
    Result,
    VersionNote,
    consequence,
    differences,
    exit_code,
    judged,
    keys_of,
    new_deviations,
)

GOLDEN = {"responses": [{"name": "a", "partitionResponses": [{"index": 0, "errorCode": 0}]}]}


def scenario(golden: Any = GOLDEN, severity: ExamSeverity = ExamSeverity.DATA) -> Scenario:
    steps = [Step(label="produce", api="Produce", version=9)]
    return Scenario("idem", "A rule.", "Class", severity, steps, [Observation("produce", golden)])


CLOSED = Ended("produce", "the broker closed the connection")


def result(
    got: Any, notes: Any = (), ended: Ended | None = None, is_user: bool = False, **known: Any
) -> Result:
    examined = scenario(**known)
    subject = ExamSubject("idempotence", "Idempotent producers", "4.3.1", [examined])
    exchange = ExamExchange("Produce", 9, {"acks": -1, "data": b"\x01"}, got)
    observations = [] if got is None else [Observation("produce", response=got)]
    return judged(subject, examined, Played(observations, [exchange], ended, 0.5), notes, is_user)


def with_code(code: int) -> Any:
    partition = {"index": 0, "errorCode": code}
    return {"responses": [{"name": "a", "partitionResponses": [partition]}]}


def test_equal_responses_agree() -> None:
    assert result(GOLDEN).outcome is Outcome.AGREES


def test_a_deviation_has_path_values_and_request() -> None:
    (found,) = result(with_code(45)).deviations
    assert found.path == "responses[a].partitionResponses[0].errorCode"
    assert (found.expected, found.got, found.severity) == (0, 45, ExamSeverity.CLIENTS)
    assert (found.api, found.version, found.request) == (
        "Produce",
        9,
        {"acks": -1, "data": "hex:01"},
    )


@pytest.mark.parametrize(("golden", "got"), [("a", None), (None, "a"), (0, None), ([], None)])
def test_null_does_not_agree_with_a_value(golden: Any, got: Any) -> None:
    found = result({"errorCode": 0, "value": got}, golden={"errorCode": 0, "value": golden})
    assert found.outcome is Outcome.DEVIATES
    (deviation,) = found.deviations
    assert (deviation.path, deviation.expected, deviation.got) == ("value", golden, got)


def test_the_worst_deviation_of_a_response_comes_first_and_error_codes_before_fields() -> None:
    def response(code: int, offset: int) -> Any:
        part = {"index": 0, "baseOffset": offset, "errorCode": code, "errorMessage": str(code)}
        part["logStartOffset"] = offset
        return {"responses": [{"name": "a", "partitionResponses": [part]}]}

    found = result(response(0, 5), golden=response(48, -1)).deviations
    names = [each.path.rpartition(".")[2] for each in found]
    assert names == ["errorCode", "baseOffset", "logStartOffset", "errorMessage"]


def test_lists_are_compared_by_key() -> None:
    golden = {"responses": [{"name": "a"}, {"name": "b"}]}
    assert result({"responses": [{"name": "b"}, {"name": "a"}]}, golden=golden).outcome is (
        Outcome.AGREES
    )


DATA, CLIENTS, FIELD, UNREAD = ExamSeverity


@pytest.mark.parametrize(
    ("path", "expected", "got", "severity"),
    [
        ("responses[a].partitions[0].errorCode", 46, 0, DATA),
        ("responses[a].partitions[0].errorCode", 0, 46, CLIENTS),
        ("responses[a].partitions[0].errorCode", 46, 3, CLIENTS),
        ("responses[a].partitions[0].errorCode", 46, 45, FIELD),
        ("responses[a].partitions[0].errorCode", 3, 6, FIELD),
        ("responses[a].partitions[0].baseOffset", 3, 4, DATA),
        ("responses[a].partitions[0].records[0].records[1]", "1:b", "(absent)", DATA),
        ("topics[a].partitions[0].leaderId", "<node1>", "<node2>", CLIENTS),
        ("topics[a].partitions[1]", {"partitionIndex": 1}, "(absent)", CLIENTS),
        ("topics[a].isInternal", False, True, FIELD),
        ("topics[a].errorMessage", "one", "other", UNREAD),
        ("results[0].configs[x].synonyms[0].name", "a", "b", UNREAD),
    ],
)
def test_a_deviation_has_the_consequence_of_its_field(
    path: str, expected: Any, got: Any, severity: ExamSeverity
) -> None:
    assert consequence(DATA, "Fetch", path, expected, got) is severity
    milder = CLIENTS if severity is DATA else severity
    assert consequence(CLIENTS, "Fetch", path, expected, got) is milder


def test_values_beside_the_same_error_are_not_read() -> None:
    def failed(code: int, offset: int) -> Any:
        partition = {"index": 0, "errorCode": code, "baseOffset": offset}
        return {"responses": [{"name": "a", "partitionResponses": [partition]}]}

    (same,) = result(failed(45, 0), golden=failed(45, -1)).deviations
    assert (same.path.rpartition(".")[2], same.severity) == ("baseOffset", UNREAD)
    other = result(failed(0, 0), golden=failed(45, -1)).deviations
    assert [each.severity for each in other] == [DATA, DATA]
    (fine,) = result(failed(0, 1), golden=failed(0, 0)).deviations
    assert fine.severity is DATA


def test_a_scenario_that_ends_early_deviates_once() -> None:
    found = result(None, ended=CLOSED)
    assert [(each.path, each.severity) for each in found.deviations] == [(ENDED, CLIENTS)]
    assert found.outcome is Outcome.DEVIATES


@pytest.mark.parametrize("count", [0, 1, 2])
def test_another_number_of_observations_is_a_difference(count: int) -> None:
    shown = [Observation("produce", GOLDEN)] * count
    expected = [("observations", 1, count)] if count != 1 else []
    assert differences(scenario(), shown) == expected


def test_a_value_that_never_comes_is_the_deviation() -> None:
    last = ExamExchange("Heartbeat", 4, {"groupId": "g"}, {"errorCode": 0})
    missing = Ended("call Heartbeat", "after 9 responses in 20 s", "errorCode", 27, 0, last)
    (found,) = result(None, ended=missing).deviations
    assert described(found) == (
        "call Heartbeat: errorCode: expected 27 REBALANCE_IN_PROGRESS, got 0 NONE,"
        " after 9 responses in 20 s"
    )
    assert (found.api, found.request, found.severity) == ("Heartbeat", {"groupId": "g"}, DATA)


@pytest.mark.parametrize(
    ("until", "response", "reason"),
    [
        (Until("errorCode", [27]), {"errorCode": 0}, ("errorCode", 27, 0)),
        (Until("errorCode", [25, 27]), {"errorCode": 0}, ("errorCode", [25, 27], 0)),
        (Until("errorCode", [0], is_not=True), {"errorCode": 0}, ("errorCode", {"not": 0}, 0)),
        (Until("members[0].id", ["m"]), {"members": []}, ("members[0].id", "m", ABSENT)),
        (Until("state", ["Empty"]), {"errorCode": 16, "state": ""}, ("errorCode", 0, 16)),
        (None, {"topics": [{"errorCode": 3}]}, ("topics[0].errorCode", 0, 3)),
        (None, {"topics": []}, ("", 0, 0)),
    ],
)
def test_a_repeated_request_ends_with_the_value_that_it_waits_for_or_an_error(
    until: Until | None, response: Any, reason: tuple[str, Any, Any]
) -> None:
    last = ExamExchange("DescribeGroups", 5, {}, response)
    ended = never(Step(api="DescribeGroups"), until, last, 9, 20)
    assert (ended.path, ended.expected, ended.got) == reason
    assert ended.text == "after 9 responses in 20 s"


def test_a_denied_request_of_a_normal_user_is_not_asked() -> None:
    found = result(with_code(29), is_user=True)
    assert (found.outcome, found.deviations) == (Outcome.NOT_ASKED, [])
    assert found.reason == "Produce is denied: 29 TOPIC_AUTHORIZATION_FAILED"
    assert result(with_code(29)).outcome is Outcome.DEVIATES
    expected = result(with_code(0), golden=with_code(29), is_user=True)
    assert expected.outcome is Outcome.DEVIATES


def test_a_scenario_that_a_denied_request_ends_is_not_asked() -> None:
    last = ExamExchange("DescribeGroups", 5, {}, {"groups": [{"errorCode": 30}]})
    ended = Ended("call DescribeGroups", "after 9 responses in 20 s", "state", "Empty", "", last)
    found = result(None, ended=ended, is_user=True)
    assert (found.outcome, found.deviations) == (Outcome.NOT_ASKED, [])
    assert found.reason == "DescribeGroups is denied: 30 GROUP_AUTHORIZATION_FAILED"


def test_a_version_note_explains_deviations_of_its_fields_alone() -> None:
    note = VersionNote(["3.9.1"], ["id*"], "Kafka before 4.0 did not.", ["errorCode"])
    assert result(with_code(45), [note]).outcome is Outcome.EXPLAINED
    other = msgspec.structs.replace(note, paths=["baseOffset"])
    assert result(with_code(45), [other]).outcome is Outcome.DEVIATES
    assert not result(with_code(45), [note]).unexplained


def test_only_deviations_outside_the_baseline_are_new() -> None:
    known = keys_of([result(with_code(45))])
    assert new_deviations([result(with_code(46))], known) == []
    assert len(new_deviations([result(None, ended=CLOSED)], known)) == 1


def test_exit_code_is_that_of_the_worst_severity() -> None:
    assert exit_code([]) == 0
    (found,) = result(with_code(1)).deviations
    each = {one: msgspec.structs.replace(found, severity=one) for one in ExamSeverity}
    assert [exit_code([each[one]]) for one in ExamSeverity] == [5, 4, 3, 3]
    assert exit_code(each.values()) == 5


def test_api_names_are_those_of_the_message_schemas() -> None:
    assert API_KEYS["Produce"] == 0
    assert API_KEYS["ShareGroupHeartbeat"] == 76


def test_only_deviations_after_a_refused_preparation_may_come_from_it() -> None:
    steps = [
        Step(label="before", api="Produce", version=9),
        Step(api="OffsetCommit", version=8),
        Step(label="after", api="Produce", version=9),
    ]
    golden = [Observation(label, {"baseOffset": 1}) for label in ("before", "after")]
    examined = Scenario("idem", "A rule.", "Class", ExamSeverity.DATA, steps, golden)
    shown = [Observation(each.label, {"baseOffset": 7}) for each in golden]
    exchanges = [ExamExchange("Produce", 9, {}, each.response) for each in shown]
    subject = ExamSubject("idempotence", "Idempotent producers", "4.3.1", [examined])
    refused = "OffsetCommit: got 15 COORDINATOR_NOT_AVAILABLE"
    played = Played(shown, exchanges, None, 0.5, refused, 1)
    before, after = judged(subject, examined, played).deviations
    assert (before.severity, before.prepared) == (ExamSeverity.DATA, "")
    assert (after.severity, after.prepared) == (ExamSeverity.CLIENTS, refused)
