"""Causes of findings about groups: none from dropped history, none that an error denies."""

from typing import Any

import msgspec
import pytest

from brokertwin.protocol.errors import Error
from brokertwin.recordings import sentences
from brokertwin.recordings.audit.history import History
from brokertwin.recordings.explain.groups import GroupTimeline
from brokertwin.recordings.history.entity import EntityKey
from brokertwin.recordings.history.findings import (
    Cause,
    Certainty,
    CommitRefused,
    EpochChanged,
    GenerationBegan,
    GroupHasMembers,
    GroupRefused,
    InstanceFenced,
    InstanceHeld,
    MemberExpired,
    MemberHasLeft,
    MemberJoined,
    MemberJoinedAgain,
    MemberLeft,
    MemberNotInNext,
    MemberRefused,
    OffsetAborted,
    OffsetCommitted,
    OffsetsPending,
    OffsetVanished,
    OffsetWentBack,
    ProducerIdReplaced,
    ProducerReplaced,
    Rebalance,
    RebalanceUnderWay,
    Vanishing,
)
from brokertwin.recordings.history.groups import GROUPS, ObservedGroup
from brokertwin.recordings.history.memberships import GENERATIONS_MAX, SESSION_MAX_MS
from brokertwin.recordings.history.producers import PRODUCERS
from tests.support.synthetic_recording import GROUP, PRODUCER, TOPIC, SyntheticRecording

BEAT = "CONSUMER_GROUP_HEARTBEAT"
ASSIGNED = {"topicPartitions": [{"topicId": "t", "partitions": [0]}]}


def machine(recording: SyntheticRecording) -> ObservedGroup:
    found = History(recording.exchanges).recording.observed(GROUPS).entities
    group = found[EntityKey("group", GROUP)]
    assert isinstance(group, ObservedGroup)
    return group


def causes(recording: SyntheticRecording) -> dict[int, list[Cause]]:
    found = History(recording.exchanges).found(GROUPS, Rebalance)
    return {each.number: list(each.causes) for each in found}


def heartbeat(
    recording: SyntheticRecording, client: str, generation: int, code: int = 0, member: str = ""
) -> None:
    request = {"groupId": GROUP, "memberId": member, "generationId": generation}
    recording.add(client, "HEARTBEAT", request, {"errorCode": code})


def beat(
    recording: SyntheticRecording,
    member: str,
    epoch: int,
    became: int,
    code: int = 0,
    given: bool = False,
    **body: Any,
) -> None:
    request = {"groupId": GROUP, "memberId": member, "memberEpoch": epoch, **body}
    response = {"errorCode": code, "memberId": member, "memberEpoch": became}
    recording.add(member, BEAT, request, {**response, "assignment": ASSIGNED if given else None})


@pytest.mark.parametrize("is_first", [True, False])
def test_new_member_began_the_epoch_in_which_it_has_partitions_or_a_later_one(
    is_first: bool,
) -> None:
    """An assignment may be older than the join (KIP-1263)."""
    recording = SyntheticRecording()
    beat(recording, "a", 0, 1, given=True)
    beat(recording, "a", 1, 3)
    beat(recording, "b", 0, 4 if is_first else 3)
    assert causes(recording).popitem()[1] == []
    beat(recording, "b", 4 if is_first else 3, 4, given=is_first)
    assert {4: [MemberJoined(member="b", client="b")]}.items() <= causes(recording).items()


@pytest.mark.parametrize("code", [Error.FENCED_MEMBER_EPOCH, Error.UNKNOWN_MEMBER_ID])
def test_member_that_was_fenced_is_not_new_when_it_joins_again(code: Error) -> None:
    """A coordinator returns UNKNOWN_MEMBER_ID for a member that it does not have."""
    recording = SyntheticRecording()
    beat(recording, "b", 0, 1, given=True)
    beat(recording, "a", 7, 0, code=code)
    beat(recording, "a", 0, 9, given=True)
    is_new = code is Error.UNKNOWN_MEMBER_ID
    assert causes(recording)[9] == [MemberJoined(member="a", client="a")] * is_new


@pytest.mark.parametrize(
    ("first", "at", "code", "is_new"),
    [
        (1, 1_000, 0, True),
        (2, 1_000, 0, True),
        (3, 1_000, 0, False),
        (3, SESSION_MAX_MS - 1, 0, False),
        (3, SESSION_MAX_MS, 0, True),
        (3, SESSION_MAX_MS, Error.NOT_COORDINATOR, False),
    ],
)
def test_member_of_a_group_that_began_before_the_log_may_have_joined_before(
    first: int, at: int, code: int, is_new: bool
) -> None:
    """If the response to its join was lost, it joins again with the same id."""
    recording = SyntheticRecording()
    recording.add("x", "METADATA", {"topics": []}, {"brokers": [{"nodeId": 1}], "topics": []})
    beat(recording, "a", first - 1 if first > 2 else 0, first, code, given=True)
    request = {"groupId": GROUP, "memberId": "b", "memberEpoch": 0}
    response = {"errorCode": 0, "memberId": "b", "memberEpoch": 9, "assignment": ASSIGNED}
    recording.add("b", BEAT, request, response, at=at)
    assert causes(recording)[9] == [MemberJoined(member="b", client="b")] * is_new


@pytest.mark.parametrize("instance", ["i", None])
def test_unknown_member_that_names_its_instance_was_not_replaced_by_its_holder(
    instance: str | None,
) -> None:
    """The member that took its group.instance.id has gone, too: that one would fence it."""
    recording = SyntheticRecording()
    for member in "ab":
        request = {"groupId": GROUP, "memberId": "", "groupInstanceId": "i"}
        response = {"errorCode": 0, "generationId": 1, "memberId": member, "leader": ""}
        recording.add(member, "JOIN_GROUP", request, response)
    request = {"groupId": GROUP, "memberId": "a", "generationId": 1, "groupInstanceId": instance}
    recording.add("a", "HEARTBEAT", request, {"errorCode": Error.UNKNOWN_MEMBER_ID})
    (found,) = History(recording.exchanges).found(GROUPS, MemberRefused)
    assert [type(each) for each in found.causes] == [InstanceHeld] * (instance is None)


def test_two_departures_began_no_single_epoch() -> None:
    recording = SyntheticRecording()
    for member in "abc":
        beat(recording, member, 3, 3)
    beat(recording, "a", 2, 3)
    beat(recording, "b", -1, -1)
    beat(recording, "c", -1, -1)
    beat(recording, "a", 3, 4)
    beat(recording, "a", 4, 5)
    found = {
        number: [getattr(e, "member", "") for e in of] for number, of in causes(recording).items()
    }
    assert found == {3: [], 4: ["b"], 5: []}


def test_static_member_that_may_replace_another_began_no_epoch() -> None:
    recording = SyntheticRecording()
    beat(recording, "a", 0, 7, given=True, instanceId="i")
    assert causes(recording) == {7: []}


def test_a_departure_began_the_next_generation_alone_however_many_are_kept() -> None:
    """After the eleventh generation the oldest one kept has lost the one before it."""
    recording = SyntheticRecording()
    last = 3 * GENERATIONS_MAX
    for number in range(1, last, 2):
        recording.join("b", number, is_new=True)
        recording.join("a", number, ["a", "b"], is_new=number == 1)
        recording.leave("b")
        recording.join("a", number + 1, ["a"])
    found = causes(recording)
    left = {n: [e for e in of if isinstance(e, MemberLeft)] for n, of in found.items()}
    assert {n: len(of) for n, of in left.items()} == {
        n: int(n % 2 == 0) for n in range(1, last + 1)
    }


def test_a_late_departure_of_a_member_off_the_list_began_no_later_generation() -> None:
    recording = SyntheticRecording()
    recording.join("a", 1, ["a", "b"], is_new=True)
    recording.join("b", 1, is_new=True)
    recording.add(
        "b", "LEAVE_GROUP", {"groupId": GROUP, "memberId": "b"}, {"errorCode": 0}, 2_000, 2_900
    )
    recording.join("a", 2, ["a"], at=2_200, end=2_300)
    recording.join("c", 4, ["c"], is_new=True, at=9_000)
    (left,) = (e for e in causes(recording)[2] if isinstance(e, MemberLeft))
    assert left.member == "b"
    assert [e for e in causes(recording)[4] if isinstance(e, MemberLeft)] == []


@pytest.mark.parametrize("whole_seconds_in", ["", "each log", "one of two logs"])
def test_whole_seconds_do_not_show_that_a_join_waited(whole_seconds_in: str) -> None:
    is_precise = not whole_seconds_in
    recording = SyntheticRecording()
    recording.join("a", 1, ["a"], is_new=True)
    heartbeat(recording, "a", 1, Error.REBALANCE_IN_PROGRESS, member="a")
    recording.join("b", 2, is_new=True, at=700, end=5_300)
    if not is_precise:
        recording.exchanges = [
            msgspec.structs.replace(e, time=e.time // 1000 * 1000, end=e.end // 1000 * 1000)
            for e in recording.exchanges
        ]
    if whole_seconds_in == "one of two logs":
        recording.add("x", "METADATA", {}, {"brokers": [], "topics": []}, at=700)
        recording.exchanges[-1] = msgspec.structs.replace(recording.exchanges[-1], broker=2)
    found = History(recording.exchanges).found(GROUPS, GroupRefused)
    by = [e.by.client for each in found for e in each.causes if isinstance(e, RebalanceUnderWay)]
    assert by == ["b"] * is_precise


@pytest.mark.parametrize("joins_at", [1_999, 2_000, 2_001])
def test_of_a_join_and_a_departure_at_one_time_none_is_the_first(joins_at: int) -> None:
    recording = SyntheticRecording()
    for client in "ac":
        recording.join(client, 1, ["a", "c"] if client == "a" else None, is_new=True, at=0)
    request = {"groupId": GROUP, "memberId": "c"}
    recording.add("c", "LEAVE_GROUP", request, {"errorCode": 0}, at=2_000)
    recording.join("b", 2, is_new=True, at=joins_at, end=5_300)
    request = {"groupId": GROUP, "memberId": "a", "generationId": 1}
    recording.add("a", "HEARTBEAT", request, {"errorCode": Error.REBALANCE_IN_PROGRESS}, at=3_000)
    found = History(recording.exchanges).found(GROUPS, GroupRefused)
    by = {e.by.client for each in found for e in each.causes if isinstance(e, RebalanceUnderWay)}
    assert by == {1_999: {"b"}, 2_000: set(), 2_001: {"c"}}[joins_at]


@pytest.mark.parametrize("begins_before", [True, False])
def test_a_log_that_begins_within_a_rebalance_does_not_show_what_began_it(
    begins_before: bool,
) -> None:
    recording = SyntheticRecording()
    if begins_before:
        for client in "ab":
            recording.join(client, 4, ["a", "b"], at=0)
    recording.join("b", 5, at=1_000, end=4_000)
    request = {"groupId": GROUP, "memberId": "a", "generationId": 4}
    recording.add("a", "HEARTBEAT", request, {"errorCode": Error.REBALANCE_IN_PROGRESS}, at=3_000)
    recording.join("a", 5, ["a", "b"], at=3_500, end=4_000)
    found = History(recording.exchanges).found(GROUPS, GroupRefused)
    by = [e.by.client for each in found for e in each.causes if isinstance(e, RebalanceUnderWay)]
    assert by == ["b"] * begins_before


def test_a_departure_before_the_recording_shows_a_generation_is_charged_with_none() -> None:
    recording = SyntheticRecording()
    recording.leave("stranger")
    recording.join("a", 7, ["a"])
    assert causes(recording) == {7: []}


def test_a_static_member_that_is_restarted_has_joined_nothing_and_counts_once() -> None:
    recording = SyntheticRecording()
    for number in range(10):
        member = f"i-{number}"
        request = {"groupId": GROUP, "memberId": "", "groupInstanceId": "i"}
        response = {"errorCode": 0, "generationId": 1, "memberId": member, "leader": ""}
        recording.add("a", "JOIN_GROUP", request, response)
    assert causes(recording) == {1: []}
    assert list(machine(recording).membership.members) == ["i-9"]


@pytest.mark.parametrize("is_last", [True, False])
def test_a_group_is_empty_in_the_next_generation_when_its_last_member_has_left(
    is_last: bool,
) -> None:
    recording = SyntheticRecording()
    recording.join("a", 3, ["a"] if is_last else ["a", "b"])
    recording.leave("a")
    (line,) = GroupTimeline(recording.exchanges, GROUP).ending()
    state = "is empty, in generation 4" if is_last else "was in generation 3 at 12:00:00.005"
    assert line == f"group {GROUP} {state}"


def test_a_group_whose_members_are_not_all_recorded_is_not_called_empty() -> None:
    recording = SyntheticRecording()
    recording.join("b", 3)
    recording.leave("b")
    (line,) = GroupTimeline(recording.exchanges, GROUP).ending()
    assert line == f"group {GROUP} was in generation 3; whether it has members is not recorded"


@pytest.mark.parametrize(
    "log", ["of each broker", "that ends early", "of one broker", "of a broker that is restarted"]
)
def test_a_member_whose_session_ended_is_not_in_the_group_if_no_broker_may_have_it(
    log: str,
) -> None:
    has_all_logs = log in ("of each broker", "of a broker that is restarted")
    recording = SyntheticRecording()
    recording.join("a", 3, ["a"])
    made = recording.exchanges[-1]
    body = {**msgspec.json.decode(made.request), "sessionTimeoutMs": 6_000}
    raw = msgspec.Raw(msgspec.json.encode(body))
    recording.exchanges[-1] = msgspec.structs.replace(made, request=raw)
    heartbeat(recording, "a", 3, member="a")
    brokers = [{"nodeId": 1}] if has_all_logs else [{"nodeId": 1}, {"nodeId": 2}]
    shown = {"brokers": brokers, "topics": []}
    if log == "that ends early":
        recording.add("x", "METADATA", {"topics": []}, shown)
        recording.exchanges[-1] = msgspec.structs.replace(recording.exchanges[-1], broker=2)
    recording.add("x", "METADATA", {"topics": []}, shown, at=60_000)
    if log == "of a broker that is restarted":
        recording.exchanges[-1] = msgspec.structs.replace(recording.exchanges[-1], connection="d")
    (line,) = GroupTimeline(recording.exchanges, GROUP).ending()
    assert ("is empty, in generation 4" in line) == (log == "of each broker")
    assert machine(recording).membership.alive == int(not has_all_logs)


@pytest.mark.parametrize(("at", "count"), [(6_000, 2), (50_006, 1)])
def test_a_static_member_that_died_is_not_counted_when_its_session_has_ended(
    at: int, count: int
) -> None:
    recording = SyntheticRecording()
    for number, name in enumerate(("dead", "alive")):
        request = {"groupId": GROUP, "memberId": "", "groupInstanceId": name}
        request |= {"sessionTimeoutMs": 45_000}
        response = {"errorCode": 0, "generationId": 1, "memberId": name, "leader": ""}
        recording.add(name, "JOIN_GROUP", request, response, at=number, end=100)
    heartbeat(recording, "dead", 1, member="dead")
    beat_at = {"groupId": GROUP, "memberId": "alive", "generationId": 1}
    recording.add("x", "METADATA", {"topics": []}, {"brokers": [{"nodeId": 1}], "topics": []})
    recording.add("alive", "HEARTBEAT", beat_at, {"errorCode": 0}, at=at)
    assert machine(recording).membership.alive == count


def test_a_generation_of_an_empty_group_is_begun_by_the_join_and_not_by_old_departures() -> None:
    recording = SyntheticRecording()
    recording.join("b", 3, is_new=True)
    recording.join("a", 3, ["a", "b"])
    heartbeat(recording, "b", 3, member="b")
    recording.leave("b")
    recording.join("a", 4, ["a"])
    recording.leave("a")
    recording.join("c", 6, ["c"], is_new=True)
    began = {
        e.number: e.by_request for e in History(recording.exchanges).found(GROUPS, GenerationBegan)
    }
    assert began[6] is not None and began[6].client == "c"


# Refusals


def refusal(recording: SyntheticRecording, kind: Any = MemberRefused) -> tuple[Cause, ...]:
    (found,) = History(recording.exchanges).found(GROUPS, kind)
    return tuple(found.causes)


def test_a_heartbeat_without_a_member_id_is_explained_by_its_client_that_left() -> None:
    recording = SyntheticRecording()
    recording.join("slow", 1, ["slow", "other"], is_new=True)
    recording.join("other", 1, is_new=True)
    recording.leave("slow")
    heartbeat(recording, "slow", 1, Error.UNKNOWN_MEMBER_ID)
    (cause,) = refusal(recording)
    assert isinstance(cause, MemberHasLeft)
    assert (cause.member, cause.is_by_client) == ("slow", True)


def test_a_heartbeat_without_a_member_id_is_not_explained_by_a_rule_of_commits() -> None:
    recording = SyntheticRecording()
    recording.join("frozen", 1, ["frozen", "healthy"], is_new=True)
    recording.join("healthy", 2, ["healthy"], is_new=True)
    heartbeat(recording, "frozen", 1, Error.UNKNOWN_MEMBER_ID)
    (cause,) = refusal(recording)
    assert isinstance(cause, MemberExpired)
    assert (cause.member, cause.client) == ("frozen", "frozen")


def test_a_commit_without_a_member_id_is_refused_because_another_member_is_there() -> None:
    recording = SyntheticRecording()
    recording.join("other", 1, ["other"], is_new=True)
    request = {"groupId": GROUP, "memberId": "", "generationIdOrMemberEpoch": -1}
    offsets = [{"partitionIndex": 0, "committedOffset": 1}]
    codes = [{"partitionIndex": 0, "errorCode": Error.UNKNOWN_MEMBER_ID}]
    topics, became = ([{"name": TOPIC, "partitions": each}] for each in (offsets, codes))
    recording.add("tool", "OFFSET_COMMIT", request | {"topics": topics}, {"topics": became})
    (cause,) = refusal(recording, CommitRefused)
    assert isinstance(cause, GroupHasMembers)
    assert cause.member.client == "other"


def test_a_member_that_was_heard_of_within_its_session_has_not_expired() -> None:
    recording = SyntheticRecording()
    request = {"groupId": GROUP, "memberId": "", "sessionTimeoutMs": 45_000}
    response = {"errorCode": 0, "generationId": 1, "memberId": "a", "leader": ""}
    recording.add("a", "JOIN_GROUP", request, response)
    heartbeat(recording, "a", 1, Error.UNKNOWN_MEMBER_ID, member="a")
    assert refusal(recording) == ()


@pytest.mark.parametrize(
    ("api", "has_expired"), [("HEARTBEAT", False), ("SYNC_GROUP", True), ("", True)]
)
def test_a_member_that_the_coordinator_waits_for_has_not_expired(
    api: str, has_expired: bool
) -> None:
    """It is removed if it does not join again within the rebalance timeout."""
    recording = SyntheticRecording()
    request = {"groupId": GROUP, "memberId": "", "sessionTimeoutMs": 45_000}
    response = {"errorCode": 0, "generationId": 1, "memberId": "a", "leader": ""}
    recording.add("a", "JOIN_GROUP", request, response, at=0)
    beat = {"groupId": GROUP, "memberId": "a", "generationId": 1}
    if api:
        recording.add("a", api, beat, {"errorCode": Error.REBALANCE_IN_PROGRESS}, at=30_000)
    recording.add("a", "HEARTBEAT", beat, {"errorCode": Error.UNKNOWN_MEMBER_ID}, at=60_000)
    assert [type(each) for each in refusal(recording)] == [MemberExpired] * has_expired


@pytest.mark.parametrize(("silent_ms", "has_expired"), [(5_900, True), (5_899, False)])
def test_a_session_ends_a_tenth_of_a_second_before_its_timeout_at_most(
    silent_ms: int, has_expired: bool
) -> None:
    """A response may be logged late, so that the session began before."""
    recording = SyntheticRecording()
    request = {"groupId": GROUP, "memberId": "", "sessionTimeoutMs": 6_000}
    response = {"errorCode": 0, "generationId": 1, "memberId": "a", "leader": ""}
    recording.add("a", "JOIN_GROUP", request, response, at=0, end=10)
    beat = {"groupId": GROUP, "memberId": "a", "generationId": 1}
    failed = {"errorCode": Error.UNKNOWN_MEMBER_ID}
    recording.add("a", "HEARTBEAT", beat, failed, at=10 + silent_ms)
    assert [type(each) for each in refusal(recording)] == [MemberExpired] * has_expired


def test_a_session_timeout_that_is_not_recorded_may_not_be_what_ended_a_membership() -> None:
    recording = SyntheticRecording()
    beat(recording, "m", 3, 3)
    beat(recording, "m", 3, 0, Error.UNKNOWN_MEMBER_ID)
    (found,) = History(recording.exchanges).found(GROUPS, MemberRefused)
    said = sentences.cause(found)
    assert "removed member m" in said and "session timeout of the broker, or did" in said
    recording = SyntheticRecording()
    heartbeat(recording, "a", 1, member="a")
    recording.join("a", 2)
    heartbeat(recording, "a", 1, Error.UNKNOWN_MEMBER_ID, member="a")
    (found,) = History(recording.exchanges).found(GROUPS, MemberRefused)
    said = sentences.cause(found)
    assert "removed member a" in said and "or did not join again within max.poll" in said


@pytest.mark.parametrize(("broker", "connection"), [(1, "c"), (1, "d"), (2, "c")])
def test_a_member_of_a_coordinator_that_may_be_another_or_restarted_has_not_expired(
    broker: int, connection: str
) -> None:
    recording = SyntheticRecording()
    request = {"groupId": GROUP, "memberId": "", "sessionTimeoutMs": 6_000}
    response = {"errorCode": 0, "generationId": 1, "memberId": "a", "leader": ""}
    recording.add("a", "JOIN_GROUP", request, response)
    refused = {"groupId": GROUP, "memberId": "a", "generationId": 1}
    recording.add("a", "HEARTBEAT", refused, {"errorCode": Error.UNKNOWN_MEMBER_ID}, at=9_000)
    recording.exchanges[-1] = msgspec.structs.replace(
        recording.exchanges[-1], broker=broker, connection=connection
    )
    has_expired = (broker, connection) == (1, "c")
    assert [type(each) for each in refusal(recording)] == [MemberExpired] * has_expired


def test_the_generation_of_the_request_is_no_cause_of_its_refusal() -> None:
    recording = SyntheticRecording()
    recording.join("a", 2, ["a"])
    heartbeat(recording, "a", 2, Error.ILLEGAL_GENERATION, member="a")
    assert refusal(recording) == ()


def test_an_instance_that_is_not_released_is_held_by_its_member() -> None:
    recording = SyntheticRecording()
    beat(recording, "old", 0, 1, instanceId="i")
    beat(recording, "new", 0, 0, Error.UNRELEASED_INSTANCE_ID, instanceId="i")
    (cause,) = refusal(recording)
    assert isinstance(cause, InstanceHeld)
    assert (cause.instance, cause.member) == ("i", "old")


def test_a_replaced_member_is_told_who_holds_its_instance_among_others() -> None:
    recording = SyntheticRecording()
    recording.join("j-0", 1, is_new=True, instance="j")
    recording.join("i-0", 2, is_new=True, instance="i")
    recording.join("i-1", 3, is_new=True, instance="i")
    heartbeat(recording, "a", 2, Error.UNKNOWN_MEMBER_ID, member="i-0")
    (cause,) = refusal(recording)
    assert isinstance(cause, InstanceHeld)
    assert (cause.instance, cause.member) == ("i", "i-1")


def test_an_old_member_epoch_is_explained_by_the_heartbeat_with_the_newer_one() -> None:
    recording = SyntheticRecording()
    beat(recording, "m", 0, 1)
    beat(recording, "m", 1, 4)
    beat(recording, "m", 1, 0, Error.FENCED_MEMBER_EPOCH)
    (cause,) = refusal(recording)
    assert isinstance(cause, EpochChanged)
    assert (cause.requested, cause.number) == (1, 4)


def test_a_producer_id_that_no_other_producer_replaced_has_no_known_cause_of_49() -> None:
    recording = SyntheticRecording()
    recording.init("a", 0)
    recording.end_txn("a", 0, Error.INVALID_PRODUCER_ID_MAPPING)
    (found,) = History(recording.exchanges).found(PRODUCERS, ProducerReplaced)
    assert (found.causes, found.certainty) == ((), Certainty.UNKNOWN)


@pytest.mark.parametrize(("taken", "by"), [(500, []), (1_500, [8])])
def test_a_producer_id_is_replaced_only_by_one_that_was_given_after_it(
    taken: int, by: list[int]
) -> None:
    recording = SyntheticRecording()
    other = {"errorCode": 0, "producerId": 8, "producerEpoch": 0}
    recording.add("b", "INIT_PRODUCER_ID", {"transactionalId": "tx"}, other, at=taken)
    recording.init("a", 0, at=1_000)
    recording.end_txn("a", 0, Error.INVALID_PRODUCER_ID_MAPPING, at=2_000)
    (found,) = History(recording.exchanges).found(PRODUCERS, ProducerReplaced)
    assert [e.producer_id for e in found.causes if isinstance(e, ProducerIdReplaced)] == by


def joined(recording: SyntheticRecording, number: int) -> set[str]:
    return {each.member for each in causes(recording)[number] if isinstance(each, MemberJoined)}


@pytest.mark.parametrize("has_leader", [True, False])
def test_static_members_that_join_the_rebalance_of_a_leader_are_new(has_leader: bool) -> None:
    recording = SyntheticRecording()
    recording.join("a", 1, ["a"])
    for at in (10_000, 10_001, 90_000):
        end = at + 5 if at == 90_000 else 12_000
        recording.join(f"i{at}", 2, is_new=True, instance=f"i{at}", at=at, end=end)
    if has_leader:
        recording.join("a", 2, ["a", "i10000", "i10001"], at=11_990, end=12_001)
    assert joined(recording, 2) == ({"i10000", "i10001"} if has_leader else set())


@pytest.mark.parametrize("before", ["the list", "a leave of the last member", ""])
def test_static_member_is_new_only_if_it_is_known_to_replace_none(before: str) -> None:
    """The log may begin after the member that it replaces joined."""
    recording = SyntheticRecording()
    recording.join("a", 6, ["a"] if before else None, at=0)
    if before == "a leave of the last member":
        recording.leave("a")
    number = 8 if before == "a leave of the last member" else 7
    recording.join("i", number, ["i"], is_new=True, instance="i", at=5_000)
    assert joined(recording, number) == ({"i"} if before else set())


def test_static_members_that_are_restarted_together_have_not_joined() -> None:
    recording = SyntheticRecording()
    recording.join("a", 2, is_new=True, instance="a", at=1_000, end=1_009)
    recording.join("b", 2, is_new=True, instance="b", at=1_001, end=1_010)
    assert joined(recording, 2) == set()


@pytest.mark.parametrize("session_ms", [45_000, 100_000])
def test_static_members_join_a_group_that_was_empty_since_their_sessions_ended(
    session_ms: int,
) -> None:
    """No response shows the generation without members."""
    recording = SyntheticRecording()
    for number, at in ((3, 0), (5, 90_000)):
        members = [f"a{number}", f"b{number}"]
        recording.join(members[0], number, members, True, "a", session_ms, at=at, end=at + 100)
        recording.join(members[1], number, None, True, "b", session_ms, at=at + 1, end=at + 101)
    found = History(recording.exchanges).found(GROUPS, MemberNotInNext)
    shown = joined(recording, 5), {each.member for each in found}
    assert shown == (({"a5", "b5"}, {"a3", "b3"}) if session_ms == 45_000 else (set(), set()))


@pytest.mark.parametrize(("second", "is_known"), [(50_000, False), (50_001, True)])
def test_of_members_that_join_again_at_one_time_none_is_the_cause(
    second: int, is_known: bool
) -> None:
    recording = SyntheticRecording()
    recording.join("a", 1, ["a", "b"], at=0)
    recording.join("b", 1, at=1)
    recording.join("a", 2, ["a", "b"], at=50_000)
    recording.join("b", 2, at=second)
    assert [type(each) for each in causes(recording)[2]] == [MemberJoinedAgain] * is_known


def test_an_instance_is_not_held_by_its_former_member() -> None:
    recording = SyntheticRecording()
    for number in range(2):
        recording.join(f"i-{number}", 1, is_new=True, instance="i")
    fenced = {"groupId": GROUP, "memberId": "i-1", "groupInstanceId": "i", "generationId": 1}
    recording.add("a", "HEARTBEAT", fenced, {"errorCode": Error.FENCED_INSTANCE_ID})
    assert refusal(recording, InstanceFenced) == ()


def test_members_that_join_another_generation_of_the_same_number_did_not_begin_the_first() -> None:
    """A coordinator that is restarted before it stored a generation gives its number again."""
    recording = SyntheticRecording()
    recording.join("a", 3, ["a", "b"], at=1_000)
    recording.join("b", 3, is_new=True, at=1_000)
    recording.join("a", 3, ["a", "c"], at=9_000, end=9_005)
    recording.join("c", 3, is_new=True, at=9_000, end=9_006)
    *_, last = History(recording.exchanges).found(GROUPS, Rebalance)
    assert [each.end % 60_000 for each in last.lines] == [9_005, 9_006]
    assert joined(recording, 3) == {"c"}


# Offsets


@pytest.mark.parametrize("is_precise", [True, False])
def test_whole_seconds_do_not_show_which_transaction_committed_an_offset(is_precise: bool) -> None:
    recording = SyntheticRecording()
    recording.commit(9, api="TXN_OFFSET_COMMIT", at=1_000)
    recording.end_txn("a", 0, at=3_000)
    if not is_precise:
        recording.exchanges = [
            msgspec.structs.replace(e, end=e.end // 1000 * 1000) for e in recording.exchanges
        ]
    found = History(recording.exchanges).found(GROUPS, OffsetCommitted)
    assert [each.offset for each in found] == [9] * is_precise


def test_an_offset_that_an_offset_fetch_no_longer_returns_did_not_go_back() -> None:
    recording = SyntheticRecording()
    recording.commit(40)
    part = {"partitionIndex": 0, "committedOffset": -1, "errorCode": 0}
    response = {"groups": [{"groupId": GROUP, "errorCode": 0}]}
    response["groups"][0]["topics"] = [{"name": TOPIC, "partitions": [part]}]
    recording.add("a", "OFFSET_FETCH", {"groups": [{"groupId": GROUP}]}, response)
    recording.commit(2)
    history = History(recording.exchanges)
    (gone,) = history.found(GROUPS, OffsetVanished)
    assert (gone.offset, gone.why) == (40, Vanishing.NOT_FETCHED)
    assert list(history.found(GROUPS, OffsetWentBack)) == []


def test_an_offset_of_a_topic_that_was_made_again_did_not_go_back() -> None:
    recording = SyntheticRecording()
    recording.commit(40)
    deleted = {"responses": [{"name": TOPIC, "topicId": None, "errorCode": 0}]}
    recording.add("admin", "DELETE_TOPICS", {"topics": [{"name": TOPIC}]}, deleted)
    recording.commit(2)
    assert list(History(recording.exchanges).found(GROUPS, OffsetWentBack)) == []


@pytest.mark.parametrize("is_precise", [True, False])
@pytest.mark.parametrize("by", ["OFFSET_COMMIT", "OFFSET_DELETE", "DELETE_GROUPS"])
def test_an_offset_went_back_only_if_it_was_certainly_the_last_one(
    by: str, is_precise: bool
) -> None:
    """In whole seconds, what else changed the offset may have come after it."""
    recording = SyntheticRecording()
    if by == "OFFSET_COMMIT":
        recording.commit(1, at=1_100)
    elif by == "OFFSET_DELETE":
        gone = {"name": TOPIC, "partitions": [{"partitionIndex": 0, "errorCode": 0}]}
        recording.add("admin", by, {"groupId": GROUP}, {"errorCode": 0, "topics": [gone]}, at=1_100)
    else:
        gone = {"results": [{"groupId": GROUP, "errorCode": 0}]}
        recording.add("admin", by, {"groupsNames": [GROUP]}, gone, at=1_100)
    recording.commit(7, at=1_300)
    recording.commit(0, at=9_000)
    recording.commit(9, at=19_000)
    recording.commit(8, at=29_000)
    if not is_precise:
        recording.exchanges = [
            msgspec.structs.replace(e, time=e.time // 1000 * 1000, end=e.end // 1000 * 1000)
            for e in recording.exchanges
        ]
    found = History(recording.exchanges).found(GROUPS, OffsetWentBack)
    assert [(each.former, each.offset) for each in found] == [(7, 0)] * is_precise + [(9, 8)]


@pytest.mark.parametrize(
    "code",
    [Error.CONCURRENT_TRANSACTIONS, Error.COORDINATOR_LOAD_IN_PROGRESS, Error.NOT_COORDINATOR],
)
def test_a_refused_end_txn_drops_no_pending_offset(code: Error) -> None:
    recording = SyntheticRecording()
    recording.commit(35)
    recording.commit(195, api="TXN_OFFSET_COMMIT")
    recording.end_txn("a", 0, code)
    (*_, pending) = GroupTimeline(recording.exchanges, GROUP).ending()
    assert pending.startswith(f"{TOPIC}-0 at 195 is pending")
    recording.end_txn("a", 0)
    offsets = [e.offset for e in History(recording.exchanges).found(GROUPS, OffsetCommitted)]
    assert offsets == [35, 195]


@pytest.mark.parametrize("is_marked", [True, False])
def test_only_a_marker_shows_that_a_new_epoch_aborted_pending_offsets(is_marked: bool) -> None:
    """The EndTxn of a broker that was killed may have no line."""
    recording = SyntheticRecording()
    recording.init("a", 0)
    recording.commit(20, api="TXN_OFFSET_COMMIT")
    if is_marked:
        marker = {"producerId": PRODUCER, "producerEpoch": 0, "transactionResult": False}
        topics = [{"name": "__consumer_offsets", "partitionIndexes": [0]}]
        request = {"markers": [{**marker, "topics": topics}]}
        recording.add("broker-1-txn-marker-sender", "WRITE_TXN_MARKERS", request, {"markers": []})
    recording.init("a", 1)
    found = History(recording.exchanges).found(GROUPS, OffsetAborted)
    assert [each.offset for each in found] == [20] * is_marked
    assert machine(recording).offsets.pending == []


@pytest.mark.parametrize(("marked", "is_pending"), [(0, True), (1, False), (2, False)])
def test_a_marker_of_an_older_epoch_ends_no_pending_offset(marked: int, is_pending: bool) -> None:
    recording = SyntheticRecording()
    recording.commit(20, api="TXN_OFFSET_COMMIT")
    commit = recording.exchanges[-1]
    raw = msgspec.Raw(bytes(commit.request).replace(b'"producerEpoch":0', b'"producerEpoch":1'))
    recording.exchanges[-1] = msgspec.structs.replace(commit, request=raw)
    marker = {"producerId": PRODUCER, "producerEpoch": marked, "transactionResult": False}
    topics = [{"name": "__consumer_offsets", "partitionIndexes": [0]}]
    request = {"markers": [{**marker, "topics": topics}]}
    recording.add("broker-1-txn-marker-sender", "WRITE_TXN_MARKERS", request, {"markers": []})
    assert bool(machine(recording).offsets.pending) == is_pending


def test_a_later_commit_of_the_partition_wins_over_a_pending_one() -> None:
    recording = SyntheticRecording()
    recording.commit(13, api="TXN_OFFSET_COMMIT")
    recording.commit(14)
    recording.end_txn("a", 0)
    assert machine(recording).offsets.offsets[f"{TOPIC}-0"].offset == 14


def test_an_unstable_offset_names_the_transaction_that_has_it() -> None:
    recording = SyntheticRecording()
    recording.commit(13, api="TXN_OFFSET_COMMIT")
    part = {"partitionIndex": 0, "committedOffset": -1, "errorCode": Error.UNSTABLE_OFFSET_COMMIT}
    topics = [{"name": TOPIC, "partitions": [part]}]
    response = {"groups": [{"groupId": GROUP, "errorCode": 0, "topics": topics}]}
    recording.add("r", "OFFSET_FETCH", {"groups": [{"groupId": GROUP}]}, response)
    (cause,) = refusal(recording, GroupRefused)
    assert isinstance(cause, OffsetsPending)
    assert cause.by.api == "TXN_OFFSET_COMMIT"


@pytest.mark.parametrize(("joined", "holders"), [(2_000, []), (5_000, ["i-2"]), (6_000, [])])
def test_a_join_that_waited_was_fenced_by_one_that_came_when_it_was_refused(
    joined: int, holders: list[str]
) -> None:
    """Without a member id it takes the instance from each former member itself."""
    recording = SyntheticRecording()
    recording.join("i-0", 1, is_new=True, instance="i", at=0)
    request = {"groupId": GROUP, "memberId": "", "groupInstanceId": "i"}
    refused = {"errorCode": Error.FENCED_INSTANCE_ID}
    recording.add("a", "JOIN_GROUP", request, refused, at=1_000, end=5_001)
    recording.join("i-2", 2, is_new=True, instance="i", at=joined, end=7_000)
    held = refusal(recording, InstanceFenced)
    assert [each.member for each in held if isinstance(each, InstanceHeld)] == holders
