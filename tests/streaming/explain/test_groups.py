"""The story of a group, of what recorded brokers answered."""

from typing import Any

import pytest

from brokerstream.errors import UserError
from brokerstream.state.core.errors import Error
from brokerstream.streaming.explain.groups import APIS, Groups
from brokerstream.streaming.explain.story import Entry
from brokerstream.streaming.replay.recording import read
from tests.support.sources import ROOT

CAPTURES = ROOT / "tests" / "captures"


def explained(name: str) -> Groups:
    """The group of a capture."""
    exchanges = read([CAPTURES / f"{name}.jsonl.gz"]).exchanges
    group = next(each.body()["groupId"] for each in exchanges if each.api in APIS)
    return Groups(exchanges, group)


def notes(story: list[Entry]) -> list[str]:
    return [note for entry in story for note in entry.notes]


def reasons(story: list[Entry], code: int) -> list[str]:
    return [each.because for entry in story for each in entry.refused if each.code == code]


def test_each_rebalance_has_somebody_who_began_it() -> None:
    said = notes(explained("classic_rebalance_range").story())
    begun = [each.partition(" (")[0] for each in said if "begins" in each]
    assert begun == [
        "generation 1 begins, by this request",
        "generation 2 begins, by this request",
        "generation 3 begins, by client member-2's JOIN_GROUP at 00:46:46.883",
        "generation 4 begins, by client member-1's LEAVE_GROUP at 00:46:49.847",
        "generation 5 begins, by client member-0's LEAVE_GROUP at 00:46:52.866",
        "generation 6 begins, by this request",
        "generation 7 begins, by client member-2's LEAVE_GROUP at 00:46:58.917",
    ]


def test_a_member_that_is_told_of_a_rebalance_is_told_whose() -> None:
    told = reasons(explained("classic_rebalance_range").story(), Error.REBALANCE_IN_PROGRESS)
    assert len(told) == 8
    assert all(each.startswith("A rebalance is under way: client member-") for each in told)


def test_who_took_over_an_instance() -> None:
    (told,) = reasons(explained("static_members_classic").story(), Error.FENCED_INSTANCE_ID)
    assert told.startswith("instance-1 is held by client static-1's JOIN_GROUP at 00:47:14.363")


def test_who_let_offsets_go_back() -> None:
    """By hand, here: an admin client sets them while nobody is there."""
    found = explained("admin_kp")
    story = found.story()
    back = [each for each in notes(story) if "goes back" in each]
    assert len(back) == 3
    assert "goes back from 23 (client kp-consumer's OFFSET_COMMIT at 00:48:49.959" in back[0]
    (told,) = reasons(story, Error.UNKNOWN_MEMBER_ID)
    assert told.startswith("Without a member id offsets are taken only while the group has no")
    assert sorted(committed.offset for committed in found.offsets.values()) == [5, 5]
    assert "the offset of admin_kp.15.t2-0 is deleted" in notes(story)


def test_a_request_of_an_old_generation_is_told_which_there_is() -> None:
    told = reasons(explained("raw_group_errors").story(), Error.ILLEGAL_GENERATION)
    assert len(told) == 5
    assert all("is there since client raw" in each for each in told)


def test_members_of_the_new_protocol_have_epochs() -> None:
    said = notes(explained("consumer_protocol").story())
    assert any("joins in epoch 2" in each for each in said)
    assert any("comes from epoch 2 to 3" in each for each in said)
    assert sum("has left" in each for each in said) == 2


@pytest.mark.parametrize("name", ["group_kp", "raw_group_errors", "consumer_protocol"])
def test_heartbeats_that_say_nothing_are_left_out(name: str) -> None:
    for entry in explained(name).story():
        assert entry.api != "HEARTBEAT" or entry.refused
        assert entry.api != "CONSUMER_GROUP_HEARTBEAT" or entry.refused or entry.notes


def test_a_group_that_is_not_there_is_told_which_are() -> None:
    exchanges: list[Any] = read([CAPTURES / "group_kp.jsonl.gz"]).exchanges
    with pytest.raises(UserError, match="The recording has no group billing") as told:
        Groups(exchanges, "billing")
    assert "It has group_kp.5.group." in str(told.value)
    with pytest.raises(UserError, match="It has none at all"):
        Groups([], "billing")
