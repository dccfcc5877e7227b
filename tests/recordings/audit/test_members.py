"""Findings about members that left and came back, reasons of clients, and brokers' own requests."""

from typing import Any

import msgspec
import pytest

from brokertwin.protocol.errors import Error
from brokertwin.recordings.audit import groups, refusals, sessions
from brokertwin.recordings.explain.groups import GroupTimeline
from brokertwin.recordings.history.clients import MANY
from brokertwin.recordings.history.findings import Severity
from tests.support.synthetic_recording import GROUP, SyntheticRecording

POLL_TIMEOUT = "consumer poll timeout has expired."


def leave(
    recording: SyntheticRecording, client: str, member: str, reason: str | None, **when: int
) -> None:
    """A LeaveGroup of version 5 or later."""
    gone = {"memberId": member, "groupInstanceId": None, "reason": reason}
    became = [{"memberId": member, "groupInstanceId": None, "errorCode": 0}]
    response = {"errorCode": 0, "members": became}
    recording.add(client, "LEAVE_GROUP", {"groupId": GROUP, "members": [gone]}, response, **when)


def over(recording: SyntheticRecording, connection: str) -> None:
    recording.exchanges[-1] = msgspec.structs.replace(
        recording.exchanges[-1], connection=connection
    )


def test_member_that_does_not_poll_exceeded_the_interval() -> None:
    recording = SyntheticRecording()
    recording.join("a", 1, is_new=True)
    leave(recording, "a", "a", POLL_TIMEOUT)
    (found,) = recording.found(groups.exceeded)
    assert (found.kind, found.severity) == ("max-poll-exceeded", Severity.WARNING)
    assert found.what == "Client a exceeded max.poll.interval.ms once and left the group."
    leave(recording, "a", "a", "the consumer is being closed")
    assert recording.found(groups.exceeded)[0].total == 1


@pytest.mark.parametrize("is_skipped", [False, True])
def test_first_join_of_a_static_leader_began_its_generation_unless_it_was_restarted(
    is_skipped: bool,
) -> None:
    """A restarted leader of a stable group gets the members, too, but no assignment to do."""
    recording = SyntheticRecording()
    request = {"groupId": GROUP, "memberId": "", "groupInstanceId": "i"}
    became = {"errorCode": 0, "generationId": 1, "memberId": "i-1", "leader": "i-1"}
    members = [{"memberId": "i-1", "groupInstanceId": "i"}]
    recording.add(
        "a", "JOIN_GROUP", request, became | {"members": members, "skipAssignment": is_skipped}
    )
    (found,) = recording.found(groups.storms)
    assert ("a joined once" in found.what) == (not is_skipped)


def test_reasons_of_clients_are_shown() -> None:
    recording = SyntheticRecording()
    recording.join("a", 1, ["a", "b"], is_new=True)
    recording.join("b", 1, is_new=True)
    leave(recording, "b", "b", "the consumer is being closed")
    recording.join("a", 2, ["a"])
    (found,) = recording.found(groups.storms)
    assert "b left once (the consumer is being closed)" in found.what
    assert found.evidence[-1].said == "generation 2: b left: the consumer is being closed"
    request = {"groupId": GROUP, "memberId": "a", "reason": "rebalance enforced by user"}
    response = {"errorCode": 0, "generationId": 3, "memberId": "a", "leader": "a"}
    recording.add("a", "JOIN_GROUP", request, response | {"members": [{"memberId": "a"}]})
    (found,) = recording.found(groups.storms)
    assert "a joined again once (rebalance enforced by user)" in found.what
    story = GroupTimeline(recording.exchanges, GROUP).story()
    assert "member b has left: the consumer is being closed" in story[2].notes
    assert "reason: rebalance enforced by user" in story[-1].said
    assert story[-1].notes == ["generation 3 begins: a joined again: rebalance enforced by user"]
    recording.add("b", "HEARTBEAT", {"groupId": GROUP, "memberId": "b"}, {"errorCode": 25})
    (refused,) = GroupTimeline(recording.exchanges, GROUP).story()[-1].refused
    assert refused.because.endswith("(h:2000) (the consumer is being closed).")


@pytest.mark.parametrize(
    ("connection", "member", "reason", "severities"),
    [
        ("c", "second", None, [Severity.WARNING]),
        ("c", "second", "the consumer unsubscribed", [Severity.INFO]),
        ("other", "first", None, [Severity.WARNING]),
        ("other", "second", None, []),
    ],
    ids=["same connection", "with a reason", "same member id", "another instance"],
)
def test_member_that_left_and_came_back(
    connection: str, member: str, reason: str | None, severities: list[Severity]
) -> None:
    recording = SyntheticRecording()
    recording.join("first", 1, is_new=True)
    leave(recording, "app", "first", reason)
    request = {"groupId": GROUP, "memberId": ""}
    response = {"errorCode": 0, "generationId": 2, "memberId": member, "leader": ""}
    recording.exchanges[0] = msgspec.structs.replace(
        recording.exchanges[0],
        header=msgspec.structs.replace(recording.exchanges[0].header, client_id="app"),
    )
    recording.add("app", "JOIN_GROUP", request, response, at=8005)
    over(recording, connection)
    found = recording.found(groups.came_back)
    assert [each.severity for each in found] == severities
    if found:
        given = f" ({reason})" if reason else ""
        assert found[0].what == (
            f"Client app left and came back 1 time; first: left by h:1000{given}, and came back"
            " after 7.0 s."
        )


def test_member_of_the_consumer_protocol_that_left_and_came_back() -> None:
    recording = SyntheticRecording()
    for epoch in (0, -1, 0):
        request = {"groupId": GROUP, "memberId": "m", "memberEpoch": epoch}
        request |= {"rebalanceTimeoutMs": 6000}
        response = {"errorCode": 0, "memberId": "m", "memberEpoch": epoch}
        recording.add("a", "CONSUMER_GROUP_HEARTBEAT", request, response)
    (found,) = recording.found(groups.came_back)
    assert found.evidence[0].said == (
        "left by h:1000, and came back after 1.0 s; its rebalance timeout (max.poll.interval.ms) is"
        " 6000 ms"
    )


def handed_out(recording: SyntheticRecording, member: str, timeout_ms: int) -> None:
    request = {"groupId": GROUP, "memberId": "", "sessionTimeoutMs": timeout_ms}
    response = {"errorCode": Error.MEMBER_ID_REQUIRED, "memberId": member, "generationId": -1}
    recording.add("starter", "JOIN_GROUP", request, response, at=0)


@pytest.mark.parametrize(
    ("user_at", "responded", "until", "is_found"),
    [
        (None, 45_010, 60_000, True),
        (900, 45_010, 60_000, False),
        (None, 3_000, 60_000, False),
        (None, 45_010, 45_100, False),
    ],
    ids=["never used", "used", "did not wait", "the recording ends"],
)
def test_join_that_waits_for_a_member_id_that_is_never_used(
    user_at: int | None, responded: int, until: int, is_found: bool
) -> None:
    recording = SyntheticRecording()
    handed_out(recording, "unused", 45_000)
    if user_at is not None:
        recording.join("unused", 1, at=user_at, end=responded)
    recording.join("a", 1, is_new=True, at=500, end=responded)
    recording.add("x", "METADATA", {"topics": []}, {"topics": []}, at=until)
    found = recording.found(groups.waiting)
    assert [each.kind for each in found] == ["join-waits-for-member-id"] * is_found
    if found:
        assert found[0].by == ["starter"]
        assert found[0].what == (
            "1 join of client a waited 44.5 s for member id unused, handed out to client starter's"
            " JOIN_GROUP at 12:00:00.000 (h:0) and never used."
        )


def test_topic_ids_get_their_names_from_any_response() -> None:
    recording = SyntheticRecording()
    topic_id = "proV-njWQMK18X_IsbE8Aw"
    place = {"partitionIndex": 0, "committedOffset": 6}
    request: dict[str, Any] = {"groupId": GROUP, "memberId": "a", "generationIdOrMemberEpoch": 1}
    request |= {"topics": [{"topicId": topic_id, "partitions": [place]}]}
    became = [{"topicId": topic_id, "partitions": [{"partitionIndex": 0, "errorCode": 0}]}]
    recording.add("a", "OFFSET_COMMIT", request, {"topics": became})
    owned = {"topicPartitions": [{"topicId": topic_id, "topicName": "scans", "partitions": [0]}]}
    response = {"groups": [{"groupId": GROUP, "members": [{"assignment": owned}]}]}
    recording.add("admin", "CONSUMER_GROUP_DESCRIBE", {"groupIds": [GROUP]}, response)
    group = GroupTimeline(recording.exchanges, GROUP)
    assert group.story()[0].said == "member a, generation 1, scans-0 at 6"
    assert group.ending()[-1].startswith("scans-0 at 6, by ")


def test_brokers_own_clients_are_not_accused() -> None:
    recording = SyntheticRecording()
    markers = {"markers": [{"producerId": 9, "topics": [{"partitions": [{"errorCode": 6}]}]}]}
    request = {"markers": [{"producerId": 9, "producerEpoch": 1, "transactionResult": True}]}
    recording.add("broker-2-txn-marker-sender", "WRITE_TXN_MARKERS", request, markers)
    (found,) = recording.found(refusals.others)
    assert (found.clients, found.severity) == ([], Severity.INFO)
    assert found.what.startswith("1 response to brokers. ")
    recording.init("a", 0)
    recording.take_in("AddPartitionsManager-client-1", 0, Error.INVALID_TXN_STATE)
    of_client = [each for each in recording.found(refusals.others) if each.code == 48]
    assert [each.clients for each in of_client] == [["a"]]
    follower = SyntheticRecording()
    for _ in range(MANY):
        body = {"replicaState": {"replicaId": 2}, "sessionId": 0, "sessionEpoch": 0, "topics": []}
        follower.add("broker-2-fetcher-0", "FETCH", body, {"errorCode": 0, "sessionId": 0})
    assert follower.found(sessions.churn) == follower.found(sessions.without_room) == []


def test_an_epoch_that_no_other_line_shows_gives_no_finding() -> None:
    """The line in which the coordinator raised the epoch of a new member is lost."""
    recording = SyntheticRecording()
    for member, former, epoch in (("b", 0, 4), ("a", 0, 4), ("a", 5, 5)):
        request = {"groupId": GROUP, "memberId": member, "memberEpoch": former}
        response = {"errorCode": 0, "memberId": member, "memberEpoch": epoch}
        recording.add(member, "CONSUMER_GROUP_HEARTBEAT", request, response)
    assert not recording.found(groups.dropped)
