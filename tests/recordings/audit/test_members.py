"""Findings about members that left and came back, reasons of clients, and brokers' own requests."""

from typing import Any

import msgspec
import pytest

from brokertwin.recordings.audit import groups, refusals, sessions
from brokertwin.recordings.explain.groups import GroupTimeline
from brokertwin.recordings.history.clients import MANY
from brokertwin.recordings.history.finding import Severity
from brokertwin.state.core.errors import Error
from tests.support.exchanges_told import GROUP, Told

POLL_TIMEOUT = "consumer poll timeout has expired."


def leave(told: Told, client: str, member: str, reason: str | None, **when: int) -> None:
    """A LeaveGroup of version 5 or later."""
    gone = {"memberId": member, "groupInstanceId": None, "reason": reason}
    became = [{"memberId": member, "groupInstanceId": None, "errorCode": 0}]
    answer = {"errorCode": 0, "members": became}
    told.add(client, "LEAVE_GROUP", {"groupId": GROUP, "members": [gone]}, answer, **when)


def over(told: Told, connection: str) -> None:
    """Move the last exchange to another connection."""
    told.exchanges[-1] = msgspec.structs.replace(told.exchanges[-1], connection=connection)


def test_member_that_does_not_poll_exceeded_the_interval() -> None:
    told = Told()
    told.join("a", 1, is_new=True)
    leave(told, "a", "a", POLL_TIMEOUT)
    (found,) = told.found(groups.exceeded)
    assert (found.kind, found.severity) == ("max-poll-exceeded", Severity.WARNING)
    assert found.what == "Client a exceeded max.poll.interval.ms once and left the group."
    leave(told, "a", "a", "the consumer is being closed")
    assert told.found(groups.exceeded)[0].total == 1


def test_reasons_of_clients_are_shown() -> None:
    told = Told()
    told.join("a", 1, ["a", "b"], is_new=True)
    told.join("b", 1, is_new=True)
    leave(told, "b", "b", "the consumer is being closed")
    told.join("a", 2, ["a"])
    (found,) = told.found(groups.storms)
    assert "b left once (the consumer is being closed)" in found.what
    assert found.evidence[-1].said == "generation 2: b left: the consumer is being closed"
    asked = {"groupId": GROUP, "memberId": "a", "reason": "rebalance enforced by user"}
    answer = {"errorCode": 0, "generationId": 3, "memberId": "a", "leader": "a"}
    told.add("a", "JOIN_GROUP", asked, answer | {"members": [{"memberId": "a"}]})
    (found,) = told.found(groups.storms)
    assert "a joined again once (rebalance enforced by user)" in found.what
    story = GroupTimeline(told.exchanges, GROUP).story()
    assert "member b has left: the consumer is being closed" in story[2].notes
    assert "reason: rebalance enforced by user" in story[-1].said
    told.add("b", "HEARTBEAT", {"groupId": GROUP, "memberId": "b"}, {"errorCode": 25})
    (refused,) = GroupTimeline(told.exchanges, GROUP).story()[-1].refused
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
    told = Told()
    told.join("first", 1, is_new=True)
    leave(told, "app", "first", reason)
    asked = {"groupId": GROUP, "memberId": ""}
    answer = {"errorCode": 0, "generationId": 2, "memberId": member, "leader": ""}
    told.exchanges[0] = msgspec.structs.replace(
        told.exchanges[0],
        header=msgspec.structs.replace(told.exchanges[0].header, client_id="app"),
    )
    told.add("app", "JOIN_GROUP", asked, answer, at=8005)
    over(told, connection)
    found = told.found(groups.came_back)
    assert [each.severity for each in found] == severities
    if found:
        given = f" ({reason})" if reason else ""
        assert found[0].what == (
            f"Client app left and came back 1 time; first: left by h:1000{given}, and came back"
            " after 7.0 s."
        )


def test_member_of_the_consumer_protocol_that_left_and_came_back() -> None:
    told = Told()
    for epoch in (0, -1, 0):
        asked = {"groupId": GROUP, "memberId": "m", "memberEpoch": epoch}
        asked |= {"rebalanceTimeoutMs": 6000}
        answer = {"errorCode": 0, "memberId": "m", "memberEpoch": epoch}
        told.add("a", "CONSUMER_GROUP_HEARTBEAT", asked, answer)
    (found,) = told.found(groups.came_back)
    assert found.evidence[0].said == (
        "left by h:1000, and came back after 1.0 s; its rebalance timeout (max.poll.interval.ms) is"
        " 6000 ms"
    )


def handed_out(told: Told, member: str, timeout_ms: int) -> None:
    """A JoinGroup that gets a member id to join with."""
    asked = {"groupId": GROUP, "memberId": "", "sessionTimeoutMs": timeout_ms}
    answer = {"errorCode": Error.MEMBER_ID_REQUIRED, "memberId": member, "generationId": -1}
    told.add("starter", "JOIN_GROUP", asked, answer, at=0)


@pytest.mark.parametrize(
    ("user_at", "answered", "until", "is_found"),
    [
        (None, 45_010, 60_000, True),
        (900, 45_010, 60_000, False),
        (None, 3_000, 60_000, False),
        (None, 45_010, 45_100, False),
    ],
    ids=["never used", "used", "did not wait", "the recording ends"],
)
def test_join_that_waits_for_a_member_id_that_is_never_used(
    user_at: int | None, answered: int, until: int, is_found: bool
) -> None:
    told = Told()
    handed_out(told, "unused", 45_000)
    if user_at is not None:
        told.join("unused", 1, at=user_at, end=answered)
    told.join("a", 1, is_new=True, at=500, end=answered)
    told.add("x", "METADATA", {"topics": []}, {"topics": []}, at=until)
    found = told.found(groups.waiting)
    assert [each.kind for each in found] == ["join-waits-for-member-id"] * is_found
    if found:
        assert found[0].by == ["starter"]
        assert found[0].what == (
            "1 join of client a waited 44.5 s for member id unused, handed out to client starter's"
            " JOIN_GROUP at 12:00:00.000 (h:0) and never used."
        )


def test_topic_ids_get_their_names_from_any_response() -> None:
    told = Told()
    topic_id = "proV-njWQMK18X_IsbE8Aw"
    place = {"partitionIndex": 0, "committedOffset": 6}
    asked: dict[str, Any] = {"groupId": GROUP, "memberId": "a", "generationIdOrMemberEpoch": 1}
    asked |= {"topics": [{"topicId": topic_id, "partitions": [place]}]}
    became = [{"topicId": topic_id, "partitions": [{"partitionIndex": 0, "errorCode": 0}]}]
    told.add("a", "OFFSET_COMMIT", asked, {"topics": became})
    owned = {"topicPartitions": [{"topicId": topic_id, "topicName": "scans", "partitions": [0]}]}
    answer = {"groups": [{"groupId": GROUP, "members": [{"assignment": owned}]}]}
    told.add("admin", "CONSUMER_GROUP_DESCRIBE", {"groupIds": [GROUP]}, answer)
    group = GroupTimeline(told.exchanges, GROUP)
    assert group.story()[0].said == "member a, generation 1, scans-0 at 6"
    assert group.ending()[-1].startswith("scans-0 at 6, by ")


def test_brokers_own_clients_are_not_accused() -> None:
    told = Told()
    markers = {"markers": [{"producerId": 9, "topics": [{"partitions": [{"errorCode": 6}]}]}]}
    asked = {"markers": [{"producerId": 9, "producerEpoch": 1, "transactionResult": True}]}
    told.add("broker-2-txn-marker-sender", "WRITE_TXN_MARKERS", asked, markers)
    (found,) = told.found(refusals.others)
    assert (found.clients, found.severity) == ([], Severity.INFO)
    assert found.what.startswith("1 response to brokers. ")
    told.init("a", 0)
    told.take_in("AddPartitionsManager-client-1", 0, Error.INVALID_TXN_STATE)
    of_client = [each for each in told.found(refusals.others) if each.code == 48]
    assert [each.clients for each in of_client] == [["a"]]
    follower = Told()
    for _ in range(MANY):
        body = {"replicaState": {"replicaId": 2}, "sessionId": 0, "sessionEpoch": 0, "topics": []}
        follower.add("broker-2-fetcher-0", "FETCH", body, {"errorCode": 0, "sessionId": 0})
    assert follower.found(sessions.churn) == follower.found(sessions.without_room) == []
