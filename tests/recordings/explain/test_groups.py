"""Timelines of groups in recordings of real brokers, and in invented ones."""

from typing import Any

import pytest
from msgspec.structs import replace

from brokertwin.errors import UserError
from brokertwin.protocol.errors import Error
from brokertwin.recordings.explain.groups import APIS, GroupTimeline
from brokertwin.recordings.explain.story import TimelineEntry, of_several_hosts
from brokertwin.recordings.replay.recording import Exchange, read
from tests.support.sources import ROOT
from tests.support.synthetic_recording import GROUP, SyntheticRecording, exchange

CAPTURES = ROOT / "tests" / "captures"


def explained(name: str) -> GroupTimeline:
    exchanges = read([CAPTURES / f"{name}.jsonl.gz"]).exchanges
    group = next(e.body()["groupId"] for e in exchanges if e.api in APIS and "groupId" in e.body())
    return GroupTimeline(exchanges, group)


def notes(story: list[TimelineEntry]) -> list[str]:
    return [note for entry in story for note in entry.notes]


def reasons(story: list[TimelineEntry], code: int) -> list[str]:
    return [each.because for entry in story for each in entry.refused if each.code == code]


def test_members_with_one_client_id_are_told_apart_by_host() -> None:
    recording = SyntheticRecording()
    recording.join("a", 1, is_new=True)
    recording.join("a", 2, is_new=True)
    recording.join("b", 3, is_new=True)
    hosts = "10.0.0.1", "10.0.0.2", "10.0.0.2"
    pairs = zip(recording.exchanges, hosts, strict=True)
    story = GroupTimeline([replace(each, host=of) for each, of in pairs], GROUP).story()
    shared = of_several_hosts(story)
    heads = [next(iter(each.lines(set(), shared))).text for each in story]
    clients = [head.partition("client ")[2].partition("  ")[0] for head in heads]
    assert clients == ["a at 10.0.0.1", "a at 10.0.0.2", "b"]


def test_each_rebalance_has_a_cause() -> None:
    found = notes(explained("classic_rebalance_range").story())
    begun = [each.partition(" (")[0] for each in found if "begins" in each]
    assert begun == [
        "generation 1 begins, by this request",
        "generation 2 begins, by this request",
        "generation 3 begins, by client member-2's JOIN_GROUP at 00:46:46.883",
        "generation 4 begins, by client member-1's LEAVE_GROUP at 00:46:49.847",
        "generation 5 begins, by client member-0's LEAVE_GROUP at 00:46:52.866",
        "generation 6 begins, by this request",
        "generation 7 begins, by client member-2's LEAVE_GROUP at 00:46:58.917",
    ]


def test_refusal_for_a_rebalance_has_its_cause() -> None:
    reported = reasons(explained("classic_rebalance_range").story(), Error.REBALANCE_IN_PROGRESS)
    assert len(reported) == 8
    assert all(each.startswith("A rebalance is under way: client member-") for each in reported)


def test_fenced_instance_has_its_new_member() -> None:
    (result,) = reasons(explained("static_members_classic").story(), Error.FENCED_INSTANCE_ID)
    assert result.startswith("instance-1 is held by client static-1's JOIN_GROUP at 00:47:14.363")


def test_offsets_that_went_back_have_their_commits() -> None:
    """An admin client sets them while the group is empty."""
    found = explained("admin_kp")
    story = found.story()
    back = [each for each in notes(story) if "goes back" in each]
    assert len(back) == 3
    assert "goes back from 23 (client kp-consumer's OFFSET_COMMIT at 00:48:49.959" in back[0]
    (result,) = reasons(story, Error.UNKNOWN_MEMBER_ID)
    assert result.startswith("Without a member id offsets are taken only while the group has no")
    assert found.entity.offsets.offsets == {}
    assert any("is deleted with the group" in each for each in notes(story))
    assert "the offset of admin_kp.15.t2-0 is deleted" in notes(story)


def test_old_generation_is_explained_by_the_new_one() -> None:
    reported = reasons(explained("raw_group_errors").story(), Error.ILLEGAL_GENERATION)
    assert len(reported) == 5
    assert all("is there since client raw" in each for each in reported)


def test_members_of_the_new_protocol_have_epochs() -> None:
    found = notes(explained("consumer_protocol").story())
    assert any("joins in epoch 2" in each for each in found)
    assert any("comes from epoch 2 to 3" in each for each in found)
    assert sum("has left" in each for each in found) == 2


class History:
    """A group's requests made up: each takes 5 ms, unless it says when it was answered."""

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []

    def add(
        self, at: int, client: str, api: str, response: Any, end: int = 0, **request: Any
    ) -> None:
        query = {"groupId": GROUP, **request}
        self.exchanges.append(exchange(at, client, api, query, response, end))

    def join(self, at: int, member: str, generation: int, end: int = 0, **request: Any) -> None:
        response = {"errorCode": 0, "memberId": member, "generationId": generation}
        self.add(at, member, "JOIN_GROUP", response, end, memberId=member, **request)

    def leave(self, at: int, member: str) -> None:
        self.add(at, member, "LEAVE_GROUP", {"errorCode": 0}, memberId=member)

    def beat(self, at: int, member: str, error: int, **request: Any) -> None:
        self.add(at, member, "HEARTBEAT", {"errorCode": error}, memberId=member, **request)

    def story(self) -> list[TimelineEntry]:
        return GroupTimeline(self.exchanges, GROUP).story()


def test_status_of_a_streams_member_is_noted_once() -> None:
    exchanges = read([CAPTURES / "streams_groups.jsonl.gz"]).exchanges
    reported = notes(GroupTimeline(exchanges, "sg-count").story())
    assert reported[:5] == [
        "member a joins in epoch 2",
        "status MISSING_SOURCE_TOPICS: Source topics sg-late are missing.",
        "member a comes from epoch 2 to 3",
        "status MISSING_INTERNAL_TOPICS: Internal topics are missing: sg-count-r, sg-count-c",
        "member a comes from epoch 3 to 4",
    ]
    assert "member b has left" in reported


@pytest.mark.parametrize("is_silent", [False, True])
def test_member_of_the_new_protocol_that_is_silent_is_named(is_silent: bool) -> None:
    """No response shows group.consumer.session.timeout.ms, so it may be a member still."""
    history = History()
    brokers = {"brokers": [{"nodeId": 1}], "topics": []}
    history.exchanges.append(exchange(0, "a", "METADATA", {}, brokers))
    for at in range(0, 25_000, 5_000):
        for member in "ab" if at < 5_000 or not is_silent else "a":
            epoch = 0 if at < 5_000 else 2
            shown = {"errorCode": 0, "memberId": member, "memberEpoch": 2}
            shown["heartbeatIntervalMs"] = 5_000
            fields = {"memberId": member, "memberEpoch": epoch}
            history.add(at + 1, member, "CONSUMER_GROUP_HEARTBEAT", shown, **fields)
    lines = GroupTimeline(history.exchanges, GROUP).ending()
    named = [each for each in lines if "silent since" in each]
    assert [each.partition(" is ")[0] for each in named] == ["member b of client b"] * is_silent


def test_of_several_reasons_the_first_began_it() -> None:
    history = History()
    history.join(0, "a", 1, 20)
    history.join(1, "b", 1, 21)
    history.leave(100, "b")
    history.join(200, "c", 2, 300)
    history.join(210, "a", 2, 301)
    assert "generation 2 begins, by client b's LEAVE_GROUP at 12:00:00.100 (h:100)" in notes(
        history.story()
    )


def test_empty_group_restarts_with_the_next_member() -> None:
    assert notes(explained("group_kp").story()).count("generation 3 begins, by this request") == 1
    history = History()
    history.join(0, "a", 1, 20)
    history.join(1, "b", 1, 21)
    history.leave(100, "a")
    history.leave(110, "b")
    response = {"errorCode": 0, "memberId": "c", "generationId": 4}
    history.add(200, "c", "JOIN_GROUP", response, memberId="")
    assert notes(history.story())[-1] == "generation 4 begins, by this request"


def test_join_with_a_response_is_no_rebalance_in_progress() -> None:
    history = History()
    history.join(0, "a", 1, 20)
    history.beat(100, "a", Error.REBALANCE_IN_PROGRESS)
    history.beat(200, "a", Error.REBALANCE_IN_PROGRESS)
    history.join(150, "b", 2, 300)
    history.join(210, "a", 2, 301)
    assert reasons(history.story(), Error.REBALANCE_IN_PROGRESS) == [
        "",
        "A rebalance is under way: client b's JOIN_GROUP at 12:00:00.150 (h:150).",
    ]


def test_later_takeover_of_an_instance_is_no_cause() -> None:
    history = History()
    history.join(0, "a", 1, groupInstanceId="i")
    history.beat(100, "old", Error.FENCED_INSTANCE_ID, groupInstanceId="i")
    history.join(200, "b", 1, groupInstanceId="i")
    (result,) = reasons(history.story(), Error.FENCED_INSTANCE_ID)
    assert result == "i is held by client a's JOIN_GROUP at 12:00:00.000 (h:0)."


def test_member_that_came_back_has_not_left() -> None:
    history = History()
    history.join(0, "a", 1)
    history.leave(100, "a")
    history.join(200, "a", 2)
    history.beat(300, "a", Error.UNKNOWN_MEMBER_ID)
    (result,) = reasons(history.story(), Error.UNKNOWN_MEMBER_ID)
    assert result.startswith("The coordinator removed member a: its last request is client a's JOI")


def test_the_same_offset_again_does_not_go_back() -> None:
    history = History()
    for at in (0, 100):
        fields = {"topics": [{"name": "t", "partitions": [{"partitionIndex": 0, "errorCode": 0}]}]}
        requests = [{"name": "t", "partitions": [{"partitionIndex": 0, "committedOffset": 5}]}]
        history.add(at, "a", "OFFSET_COMMIT", fields, topics=requests)
    assert notes(history.story()) == []


@pytest.mark.parametrize("name", ["group_kp", "raw_group_errors", "consumer_protocol"])
def test_successful_heartbeats_are_left_out(name: str) -> None:
    for entry in explained(name).story():
        assert entry.api != "HEARTBEAT" or entry.refused
        assert entry.api != "CONSUMER_GROUP_HEARTBEAT" or entry.refused or entry.notes


def test_unknown_group_lists_the_existing_ones() -> None:
    exchanges: list[Any] = read([CAPTURES / "group_kp.jsonl.gz"]).exchanges
    with pytest.raises(UserError, match="The recording has no group billing") as error:
        GroupTimeline(exchanges, "billing")
    assert "It has group_kp.5.group." in str(error.value)
    with pytest.raises(UserError, match="It has no "):
        GroupTimeline([], "billing")
