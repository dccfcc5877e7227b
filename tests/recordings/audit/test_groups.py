"""Findings about consumer groups."""

from brokertwin.protocol.errors import Error
from brokertwin.recordings.audit import groups
from brokertwin.recordings.audit.history import History
from brokertwin.recordings.history.findings import Rebalance, Severity
from brokertwin.recordings.history.groups import GROUPS
from brokertwin.recordings.sentences import rebalance_cause
from tests.support.audits import whole
from tests.support.synthetic_recording import GROUP, SyntheticRecording


def begun(recording: SyntheticRecording) -> list[tuple[int, list[tuple[str, str]]]]:
    found = History(recording.exchanges).found(GROUPS, Rebalance)
    return [(e.number, [(rebalance_cause(why), why.client) for why in e.causes]) for e in found]


def test_causes_of_the_rebalances_of_a_recorded_group() -> None:
    (found,) = groups.storms(whole("classic_rebalance_range").history)
    assert (found.total, found.severity) == (7, Severity.WARNING)
    given = list(dict.fromkeys(each.said for each in found.evidence))
    assert given == [
        "generation 1: member-0 joined",
        "generation 2: member-1 joined",
        "generation 3: member-2 joined",
        "generation 4: member-1 left",
        "generation 5: member-0 left",
        "generation 6: member-0 joined",
        "generation 7: member-2 left",
    ]


def test_member_that_joins_with_a_new_id_is_new() -> None:
    recording = SyntheticRecording()
    request = {"groupId": GROUP, "memberId": ""}
    response = {"errorCode": Error.MEMBER_ID_REQUIRED, "memberId": "a", "generationId": -1}
    recording.add("a", "JOIN_GROUP", request, response)
    recording.join("a", 1)
    recording.join("b", 2)  # where it comes from is not recorded
    recording.join("a", 2)
    assert begun(recording) == [(1, [("joined", "a")]), (2, [])]


def test_member_that_is_not_in_the_next_generation_and_has_not_left_was_dropped() -> None:
    recording = SyntheticRecording()
    recording.join("b", 1, is_new=True)
    recording.join("a", 1, ["a", "b"])
    recording.join("a", 2, ["a"])
    assert begun(recording)[1] == (2, [("dropped", "b")])
    (found,) = recording.found(groups.dropped)
    assert (found.clients, found.severity) == (["b"], Severity.WARNING)


def test_member_that_left_or_whose_former_generation_is_unknown_was_not_dropped() -> None:
    recording = SyntheticRecording()
    recording.join("b", 1, is_new=True)
    recording.join("a", 1, ["a", "b"])
    recording.leave("b")
    recording.join("a", 2, ["a"])
    assert begun(recording)[1] == (2, [("left", "b")])
    recording = SyntheticRecording()
    recording.join("b", 1, is_new=True)
    recording.join("a", 1, ["a", "b"])
    recording.join("a", 3, ["a"])
    assert begun(recording)[1] == (3, [])


def test_first_member_that_joins_again_caused_the_rebalance() -> None:
    recording = SyntheticRecording()
    recording.join("a", 1, ["a", "b"], at=0)
    recording.join("b", 1, at=0)
    recording.join("a", 2, ["a", "b"], at=1000, end=1100)
    recording.join("b", 2, at=900, end=1101)
    assert begun(recording)[1] == (2, [("joined again", "b")])


def test_the_causes_that_are_not_listed_are_counted() -> None:
    recording = SyntheticRecording()
    for number, name in enumerate("abcde", 1):
        recording.join(name, number, [*"abcde"[:number]], is_new=True)
    recording.join("a", 6, [*"abcd"])
    for number in (7, 8):
        recording.leave("d")
        recording.join("d", number, [*"abcd"], is_new=True)
    (found,) = recording.found(groups.storms)
    listed = "d joined 3 times, a joined once, e dropped once, d left once, and 3 other causes."
    assert found.what.endswith(f"because of them: {listed}")


def test_a_storm_is_five_generations_within_a_minute() -> None:
    def severity(every_ms: int) -> Severity:
        recording = SyntheticRecording()
        for number in range(5):
            recording.join("a", number, at=number * every_ms)
        (found,) = recording.found(groups.storms)
        assert found.total == 5
        return found.severity

    assert severity(15_000) == Severity.WARNING
    assert severity(15_001) == Severity.INFO


def test_client_that_took_over_an_instance_is_named() -> None:
    found = [e for e in whole("static_members_classic").findings if e.kind == "instance-fenced"]
    assert [(each.severity, each.by) for each in found] == [(Severity.ERROR, ["static-1"])]
    assert "instance-1 is held by client static-1's JOIN_GROUP" in found[0].evidence[0].said


def test_members_of_the_new_protocol_come_and_go() -> None:
    (found,) = groups.storms(whole("consumer_protocol").history)
    assert found.what == (
        "4 epochs, up to 4 within a minute; because of them: member-0 joined once,"
        " member-1 joined once, member-1 left once."
    )


def test_members_that_are_refused_are_counted_by_error() -> None:
    found = [e for e in whole("raw_group_errors").findings if e.kind == "member-refused"]
    assert {each.code: each.total for each in found} == {
        Error.UNKNOWN_MEMBER_ID: 11,
        Error.INVALID_SESSION_TIMEOUT: 2,
        Error.INCONSISTENT_GROUP_PROTOCOL: 6,
        Error.ILLEGAL_GENERATION: 4,
    }
