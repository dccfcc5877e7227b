"""Findings about groups that later exchanges complete or withdraw."""

from collections.abc import Sequence

import msgspec
import pytest

from brokertwin.protocol.errors import Error
from brokertwin.recordings.explain.groups import GroupTimeline
from brokertwin.recordings.history.brokers import BrokerPresence, BrokerSpan, BrokerState
from brokertwin.recordings.history.exchange import KnownFacts, exchange_of
from brokertwin.recordings.history.findings import (
    Finding,
    MemberGone,
    MemberJoinedAgain,
    MemberNotInNext,
    MemberRefused,
    OffsetCommitted,
    Rebalance,
)
from brokertwin.recordings.history.groups import group_of
from brokertwin.recordings.history.memberships import STORM
from brokertwin.recordings.history.sessions import WINDOW_MS
from brokertwin.recordings.replay.recording import Exchange
from tests.support.synthetic_recording import GROUP, PRODUCER, START, TOPIC, SyntheticRecording


def emitted(exchanges: Sequence[Exchange], known: KnownFacts | None = None) -> list[Finding]:
    group, found, known = group_of(GROUP), [], known or KnownFacts()
    for each in exchanges:
        found += group.step(exchange_of(each), known)
    return found + group.expire(float("inf"), known)


def test_later_join_completes_the_cause_of_a_refusal() -> None:
    recording = SyntheticRecording()
    recording.join("a", 1, at=0)
    request = {"groupId": GROUP, "memberId": "a", "generationId": 1}
    recording.add("a", "HEARTBEAT", request, {"errorCode": Error.REBALANCE_IN_PROGRESS}, at=20_000)
    recording.join("c", 2, at=19_500, end=60_000)
    recording.join("b", 2, at=19_000, end=70_000)
    found = [e for e in emitted(recording.exchanges) if e.error == Error.REBALANCE_IN_PROGRESS]
    assert [why.by.name for e in found for why in e.causes] == ["c", "b"]
    assert len({each.id for each in found}) == 1


def test_of_joins_that_arrived_at_once_none_began_the_rebalance() -> None:
    recording = SyntheticRecording()
    recording.join("a", 1, at=0)
    request = {"groupId": GROUP, "memberId": "a", "generationId": 1}
    recording.add("a", "HEARTBEAT", request, {"errorCode": Error.REBALANCE_IN_PROGRESS}, at=20_000)
    for name in ("b", "c"):
        recording.join(name, 2, at=19_000, end=21_000)
    found = [e for e in emitted(recording.exchanges) if e.error == Error.REBALANCE_IN_PROGRESS]
    assert [why for each in found for why in each.causes] == []


@pytest.mark.parametrize(
    ("left", "is_coarse", "withdrawn"),
    [
        (9_000, False, [False, True]),
        (10_900, False, [False]),
        (10_900, True, [False, True]),
        (11_100, True, [False]),
    ],
)
def test_later_departure_withdraws_a_dropped_member(
    left: int, is_coarse: bool, withdrawn: list[bool]
) -> None:
    """Whole seconds do not show that the member left after the generation began."""
    recording = SyntheticRecording()
    recording.join("b", 1, is_new=True, at=0)
    recording.join("a", 1, ["a", "b"], at=0)
    recording.join("a", 2, ["a"], at=10_000)
    response = {"errorCode": 0}
    request = {"groupId": GROUP, "memberId": "b"}
    recording.add("b", "LEAVE_GROUP", request, response, at=left, end=11_200)
    known = KnownFacts(logs={1: (START, START)}, precise={} if is_coarse else {1: None})
    found = [e for e in emitted(recording.exchanges, known) if e.kind == "member-dropped"]
    assert [each.is_withdrawn for each in found] == withdrawn
    assert len({each.id for each in found}) == 1


def test_a_slow_member_does_not_make_a_rebalance_storm_smaller() -> None:
    recording = SyntheticRecording()
    for number in range(1, STORM + 1):
        recording.join("a", number, at=number * 1_000)
    recording.join("b", STORM, at=STORM * 1_000, end=WINDOW_MS + 4_000)
    rebalances = [each for each in emitted(recording.exchanges) if isinstance(each, Rebalance)]
    found = [each for each in rebalances if each.number == STORM]
    assert [each.within for each in found] == [STORM] * len(found)
    assert [line.name for line in found[-1].lines] == ["a", "b"]


def test_offset_of_an_aborted_transaction_is_not_committed() -> None:
    recording = SyntheticRecording()
    recording.commit(10)
    recording.commit(20, api="TXN_OFFSET_COMMIT")
    recording.end_txn("a", 0, committed=False)
    (line,) = GroupTimeline(recording.exchanges, GROUP).ending()
    assert line.startswith("orders-0 at 10, by client a's OFFSET_COMMIT")


def test_an_init_producer_id_ends_no_transaction_of_another_transactional_id() -> None:
    """Both have pending offsets of the group."""
    recording = SyntheticRecording()
    other = {"transactionalId": "other", "producerId": PRODUCER + 1, "producerEpoch": 0}
    recording.init("a", 0)
    recording.commit(20, api="TXN_OFFSET_COMMIT")
    places = [{"name": TOPIC, "partitions": [{"partitionIndex": 1, "committedOffset": 30}]}]
    results = [{"name": TOPIC, "partitions": [{"partitionIndex": 1, "errorCode": 0}]}]
    pending = {**other, "groupId": GROUP, "memberId": "b", "topics": places}
    recording.add("b", "TXN_OFFSET_COMMIT", pending, {"topics": results})
    recording.add("b", "INIT_PRODUCER_ID", other, {**other, "producerEpoch": 1, "errorCode": 0})
    recording.end_txn("a", 0, committed=True)
    (line,) = GroupTimeline(recording.exchanges, GROUP).ending()
    assert line.startswith("orders-0 at 20, by client a's TXN_OFFSET_COMMIT")


def test_a_join_after_a_rebalance_has_begun_is_not_its_cause() -> None:
    """The coordinator could not store an assignment, and began a rebalance by itself."""
    sync = {"groupId": GROUP, "memberId": "a", "generationId": 1, "assignments": []}
    refusals = (
        ("SYNC_GROUP", Error.COORDINATOR_NOT_AVAILABLE, True),
        ("HEARTBEAT", Error.REBALANCE_IN_PROGRESS, True),
        ("SYNC_GROUP", Error.ILLEGAL_GENERATION, False),
        ("SYNC_GROUP", Error.NONE, False),
        ("HEARTBEAT", Error.COORDINATOR_NOT_AVAILABLE, False),
        ("HEARTBEAT", Error.NONE, False),
        ("", Error.NONE, False),
    )
    for api, code, has_begun in refusals:
        recording = SyntheticRecording()
        recording.join("a", 1, ["a"], is_new=True, at=0)
        if api:
            recording.add("a", api, sync, {"errorCode": code}, at=1_000)
        recording.join("a", 2, ["a"], at=2_000)
        second = [e for e in emitted(recording.exchanges) if isinstance(e, Rebalance)][-1]
        assert second.number == 2
        causes = [type(each) for each in second.causes]
        assert causes == ([] if has_begun else [MemberJoinedAgain]), f"{api} {code.name}"


def test_a_member_that_expires_alone_is_found_after_the_empty_generation() -> None:
    """No response shows generation 2. A member that was heard of until then has not expired."""
    for heard_at, gone in ((5_000, ["a"]), (15_000, [])):
        recording = SyntheticRecording()
        request = {"groupId": GROUP, "memberId": "", "sessionTimeoutMs": 10_000}
        response = {
            "errorCode": 0,
            "generationId": 1,
            "memberId": "a",
            "leader": "a",
            "members": [{"memberId": "a", "groupInstanceId": None}],
        }
        recording.add("a", "JOIN_GROUP", request, response, at=0)
        beat = {"groupId": GROUP, "memberId": "a", "generationId": 1}
        recording.add("a", "HEARTBEAT", beat, {"errorCode": 0}, at=heard_at)
        recording.join("b", 3, ["b"], is_new=True, at=20_000)
        found = [e for e in emitted(recording.exchanges) if isinstance(e, MemberNotInNext)]
        assert [(each.member, each.number) for each in found] == [(each, 3) for each in gone]


def test_session_does_not_expire_over_a_change_of_the_coordinator() -> None:
    for code, causes in ((0, ["MemberExpired"]), (Error.COORDINATOR_NOT_AVAILABLE, [])):
        recording = SyntheticRecording()
        request = {"groupId": GROUP, "memberId": "", "sessionTimeoutMs": 4_000}
        response = {"errorCode": 0, "generationId": 1, "memberId": "a", "leader": "a"}
        recording.add("a", "JOIN_GROUP", request, {**response, "members": []}, at=0)
        beat = {"groupId": GROUP, "memberId": "a", "generationId": 1}
        if code:
            recording.add("a", "HEARTBEAT", beat, {"errorCode": code}, at=2_000, end=4_990)
        recording.add("a", "HEARTBEAT", beat, {"errorCode": Error.UNKNOWN_MEMBER_ID}, at=5_000)
        (*_, refused) = [e for e in emitted(recording.exchanges) if isinstance(e, MemberRefused)]
        assert [type(each).__name__ for each in refused.causes] == causes


@pytest.mark.parametrize(
    ("code", "by_member", "is_dropped"),
    [
        (Error.NONE, None, True),
        (Error.NOT_COORDINATOR, None, False),
        (Error.NOT_COORDINATOR, ("HEARTBEAT", Error.NONE, 4_000, 1), False),
        (Error.NOT_COORDINATOR, ("HEARTBEAT", Error.NONE, 6_000, 1), True),
        (Error.NOT_COORDINATOR, ("HEARTBEAT", Error.NONE, 6_000, 2), False),
        (Error.NOT_COORDINATOR, ("HEARTBEAT", Error.UNKNOWN_MEMBER_ID, 8_000, 1), True),
        (Error.NOT_COORDINATOR, ("HEARTBEAT", Error.UNKNOWN_MEMBER_ID, 12_000, 1), True),
        (Error.NOT_COORDINATOR, ("LEAVE_GROUP", Error.UNKNOWN_MEMBER_ID, 8_000, 1), False),
    ],
)
@pytest.mark.parametrize("number", [2, 3])
def test_member_may_have_left_at_a_coordinator_that_was_stopped_unless_it_shows_that_it_stayed(
    code: Error, by_member: tuple[str, Error, int, int] | None, is_dropped: bool, number: int
) -> None:
    """No response shows a generation without members, which comes before generation 3."""
    recording = SyntheticRecording()
    is_alone, is_refused = number == 3, by_member is not None and by_member[1] != Error.NONE
    session_ms = 60_000 if is_refused else 1_000  # its end does not show that the member expired
    recording.join("b", 1, ["b"] if is_alone else None, is_new=True, at=0, session_ms=session_ms)
    if not is_alone:
        recording.join("a", 1, ["a", "b"], at=0)
    beat = {"groupId": GROUP, "memberId": "a", "generationId": 1}
    recording.add("a", "HEARTBEAT", beat, {"errorCode": code}, at=5_000)
    recording.join("a", number, ["a"], at=10_000)
    if by_member is not None:
        api, refused, at, broker = by_member
        recording.add("b", api, beat | {"memberId": "b"}, {"errorCode": refused}, at=at)
        each = recording.exchanges.pop()
        recording.exchanges.append(msgspec.structs.replace(each, broker=broker))
    found = [e for e in emitted(recording.exchanges) if isinstance(e, MemberNotInNext)]
    assert [each.member for each in found] == ["b"] * is_dropped


def test_a_leave_of_an_id_that_never_joined_is_no_departure_of_a_member() -> None:
    """The coordinator accepts it (GroupMetadataManager.removePendingMember)."""
    for has_joined in (False, True):
        recording = SyntheticRecording()
        response = {"errorCode": Error.MEMBER_ID_REQUIRED, "generationId": -1, "memberId": "a"}
        recording.add("a", "JOIN_GROUP", {"groupId": GROUP, "memberId": ""}, response)
        if has_joined:
            recording.join("a", 1, ["a"])
        recording.leave("a")
        gone = [each for each in emitted(recording.exchanges) if isinstance(each, MemberGone)]
        assert len(gone) == has_joined


@pytest.mark.parametrize("shown_by", ["leader", "heartbeat"])
def test_a_member_whose_join_is_not_recorded_leaves(shown_by: str) -> None:
    recording = SyntheticRecording()
    recording.join("a", 1, ["a"], is_new=True)
    response = {"errorCode": Error.MEMBER_ID_REQUIRED, "generationId": -1, "memberId": "b"}
    recording.add("b", "JOIN_GROUP", {"groupId": GROUP, "memberId": ""}, response)
    if shown_by == "leader":
        recording.join("a", 2, ["a", "b"])
    else:
        request = {"groupId": GROUP, "memberId": "b", "generationId": 2}
        recording.add("b", "HEARTBEAT", request, {"errorCode": 0})
    recording.leave("b")
    recording.join("a", 3, ["a"])
    found = emitted(recording.exchanges)
    assert [each.member for each in found if isinstance(each, MemberGone)] == ["b"]
    assert [each for each in found if isinstance(each, MemberNotInNext)] == []


def test_order_of_a_commit_and_a_pending_offset_may_be_unknown() -> None:
    """A commit with an answer after the TxnOffsetCommit arrived may have come after it."""
    for answered, shown in ((1_999, [5, 9]), (2_001, [5])):
        recording = SyntheticRecording()
        recording.commit(5, at=1_000, end=answered)
        recording.commit(9, api="TXN_OFFSET_COMMIT", at=2_000, end=2_010)
        end = {"transactionalId": "tx", "producerId": PRODUCER, "producerEpoch": 0}
        recording.add("a", "END_TXN", end | {"committed": True}, {"errorCode": 0}, at=9_000)
        found = [e for e in emitted(recording.exchanges) if isinstance(e, OffsetCommitted)]
        assert [each.offset for each in found] == shown


def test_a_join_after_a_refusal_for_a_rebalance_is_not_its_cause() -> None:
    """The second Heartbeat is refused for a rebalance that the first one shows."""
    recording = SyntheticRecording()
    recording.join("a", 1, ["a"], is_new=True, at=0)
    request = {"groupId": GROUP, "memberId": "a", "generationId": 1}
    for at in (1_000, 2_000):
        recording.add(
            "a", "HEARTBEAT", request, {"errorCode": Error.REBALANCE_IN_PROGRESS}, at=at, end=2_002
        )
    recording.join("a", 2, ["a"], at=2_000, end=2_003)
    refused = [e for e in emitted(recording.exchanges) if e.error == Error.REBALANCE_IN_PROGRESS]
    assert [each for each in refused if each.causes] == []


RESTART = [
    BrokerSpan(BrokerState.LEAVING, START + 6_000, START + 6_000),
    BrokerSpan(BrokerState.FENCED, START + 7_000, START + 7_500),
    BrokerSpan(BrokerState.ACTIVE, START + 8_000, START + 40_000),
]


@pytest.mark.parametrize(
    ("connection", "spans", "expires"),
    [("c", [], 15_005), ("d", [], 18_000), ("c", RESTART, 18_000), ("c", RESTART[:2], 0)],
    ids=["no restart", "another connection", "the controller shows it", "still fenced"],
)
def test_a_restarted_coordinator_begins_sessions_anew(
    connection: str, spans: list[BrokerSpan], expires: int
) -> None:
    recording = SyntheticRecording()
    request = {"groupId": GROUP, "memberId": "", "sessionTimeoutMs": 10_000}
    response = {"errorCode": 0, "generationId": 1, "leader": "a"}
    for member in ("a", "b"):
        recording.add(member, "JOIN_GROUP", request, response | {"memberId": member}, at=0)
    for member, at in (("a", 5_000), ("b", 8_000), ("b", 16_000), ("b", 24_000)):
        beat = {"groupId": GROUP, "memberId": member, "generationId": 1}
        recording.add(member, "HEARTBEAT", beat, {"errorCode": 0}, at=at)
    group = group_of(GROUP)
    known = KnownFacts(brokers={1: None}, presences={1: BrokerPresence(spans)})
    for number, each in enumerate(recording.exchanges):
        moved = connection if number > 2 else each.connection
        seen = exchange_of(msgspec.structs.replace(each, connection=moved))
        known.learn(seen)
        group.step(seen, known)
    group.expire(float("inf"), known)
    alive = [
        "a" in group.membership.alive_at(START + at, known)
        for at in (expires or 20_000, (expires or 20_000) + 1)
    ]
    assert alive == [True, not expires]


def test_a_group_of_kip_848_changes_by_itself_until_all_members_are_silent() -> None:
    recording, group = SyntheticRecording(), group_of(GROUP)
    for member, epoch in (("a", 0), ("b", 0), ("b", -2)):
        request = {"groupId": GROUP, "memberId": member, "memberEpoch": epoch, "instanceId": member}
        response = {"errorCode": 0, "memberId": member, "memberEpoch": epoch or 1}
        response |= {"heartbeatIntervalMs": 5_000 if epoch >= 0 else 0}
        recording.add(member, "CONSUMER_GROUP_HEARTBEAT", request, response)
    for each in recording.exchanges:
        group.step(exchange_of(each), KnownFacts())
    ends = []
    for seconds in (10, 60):
        group.expire(float("inf"), KnownFacts(logs={1: (START, START + 1_000 * seconds)}))
        ends.append((group.membership.silent, group.ends_ms))
    assert ends == [(0, 15_000), (1, None)], "a static member that is away is not silent"


def test_a_group_of_kip_848_without_a_known_interval_does_not_change_by_itself() -> None:
    recording, group = SyntheticRecording(), group_of(GROUP)
    request = {"groupId": GROUP, "memberId": "a", "memberEpoch": 0}
    response = {"errorCode": 0, "memberId": "a", "memberEpoch": 1}
    recording.add("a", "CONSUMER_GROUP_HEARTBEAT", request, response)
    group.step(exchange_of(recording.exchanges[0]), KnownFacts())
    group.expire(float("inf"), KnownFacts())
    assert (group.membership.alive, group.ends_ms) == (1, None)
