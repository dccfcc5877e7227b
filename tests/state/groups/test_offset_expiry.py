"""Expiry of offsets, by kind of group, and of groups without offsets."""

import base64
import struct
from typing import Any

import pytest

from tests.support.consumer_groups import ConsumerBench
from tests.support.groups import GROUP, GroupBench
from tests.support.machine import START, Bench
from tests.support.share_groups import ShareBench
from tests.support.streams_groups import StreamsBench, part, topology
from tests.support.transactions import TOPIC, TransactionBench

MINUTE = 60_000
DAY = 86_400_000
NO_USER_DATA = struct.pack(">i", -1)
TOPICS = ("first", "second")
CHECKED_EACH_SECOND = {
    "offsets_retention_minutes": 1,
    "offsets_retention_check_interval_ms": 1_000,
}


def subscription(*topics: str) -> str:
    """Return a consumer's subscription metadata in base64."""
    names = b"".join(struct.pack(">h", len(topic)) + topic.encode() for topic in topics)
    return base64.b64encode(struct.pack(">hi", 0, len(topics)) + names + NO_USER_DATA).decode()


def groups_of(kind: type[Any] = GroupBench, **settings: Any) -> Any:
    bench = kind(**{**CHECKED_EACH_SECOND, **settings})
    for topic in TOPICS:
        bench.topic(topic, 2)
    return bench


def commit(
    bench: Bench, topic: str, partition: int = 0, version: int = 9, group: str = GROUP, **who: Any
) -> None:
    """Commit offset 7; `who` are fields of the request."""
    partitions = [{"partitionIndex": partition, "committedOffset": 7, "committedMetadata": ""}]
    body = {"groupId": group, "topics": [{"name": topic, "partitions": partitions}], **who}
    response = bench.request("OFFSET_COMMIT", version, body)
    assert response["topics"][0]["partitions"][0]["errorCode"] == 0, response


def kept(bench: Bench, group: str = GROUP) -> set[str]:
    """Return partitions with an offset, as `first-0`."""
    response = bench.request("OFFSET_FETCH", 8, groupId=group, topics=None)["groups"][0]
    assert response["errorCode"] == 0
    return {
        f"{topic['name']}-{each['partitionIndex']}"
        for topic in response["topics"]
        for each in topic["partitions"]
    }


def listed(bench: Bench) -> list[str]:
    return [each["groupId"] for each in bench.request("LIST_GROUPS", 5, {})["groups"]]


def member_of(bench: GroupBench, *topics: str) -> dict[str, Any]:
    """Return commit fields of a member of a stable, subscribed group."""
    protocols = [("range", subscription(*topics))]
    (member,) = bench.stable("app", protocols=protocols, session=1_800_000)
    return {"memberId": member, "generationIdOrMemberEpoch": 1}


def tombstones(bench: Bench) -> list[str]:
    """Return partitions with tombstones so far, as `first-0`."""
    records = [row["record"] for row in bench.records()]
    gone = [each for each in records if each["type"] == "OffsetDeleted"]
    return [f"{each['topic']}-{each['partition']}" for each in gone]


def test_example_13_offsets_of_subscribed_topics_stay_and_others_expire_by_commit_time() -> None:
    bench = groups_of(offsets_retention_check_interval_ms=500)
    member = member_of(bench, "first")
    commit(bench, "first", 0, **member)
    commit(bench, "second", 0, **member)
    bench.after(500)
    commit(bench, "second", 1, **member)
    bench.after(59_499)
    assert (tombstones(bench), kept(bench)) == ([], {"first-0", "second-0", "second-1"})
    bench.after(1)
    assert (tombstones(bench), kept(bench)) == (["second-0"], {"first-0", "second-1"})
    bench.after(499)
    assert tombstones(bench) == ["second-0"]
    bench.after(1)
    assert (tombstones(bench), kept(bench)) == (["second-0", "second-1"], {"first-0"})
    bench.join(member["memberId"], [("range", subscription("other"))], session=1_800_000)
    bench.sync(member["memberId"], 2, {member["memberId"]: "QQ=="})
    commit(bench, "second", 0, **{**member, "generationIdOrMemberEpoch": 2})
    bench.after(MINUTE)
    assert tombstones(bench)[2:] == ["first-0", "second-0"], "each by its own commit time"
    assert kept(bench) == set()
    assert bench.leave(member["memberId"]) == [0]
    bench.after(500)
    assert listed(bench) == []


def test_example_14_offsets_with_a_pending_transactional_offset_do_not_expire() -> None:
    bench = groups_of(TransactionBench)
    holder = bench.init("t1")
    commit(bench, TOPIC)
    assert bench.add_offsets("t1", holder) == 0
    assert bench.commit_offset("t1", holder, 9) == 0
    bench.tick(MINUTE + 1_000)
    assert kept(bench) == {f"{TOPIC}-0"}
    bench.end("t1", holder, False)
    bench.tick(1_000)
    assert (kept(bench), listed(bench)) == (set(), [])


def test_simple_group_offsets_expire_by_commit_time() -> None:
    bench = groups_of()
    commit(bench, "first")
    bench.after(MINUTE - 1_000)
    commit(bench, "second")
    bench.after(1_000)
    assert kept(bench) == {"second-0"}
    bench.after(MINUTE)
    assert (kept(bench), listed(bench)) == (set(), [])


def test_retention_of_a_group_without_members_starts_when_the_last_one_leaves() -> None:
    """KIP-211: offsets committed early and late expire together."""
    bench = groups_of()
    member = member_of(bench, *TOPICS)
    commit(bench, "first", **member)
    bench.after(10 * MINUTE)
    bench.leave(member["memberId"])
    bench.after(MINUTE - 1_000)
    assert kept(bench) == {"first-0"}
    bench.after(2_000)
    assert (kept(bench), listed(bench)) == (set(), [])


def test_fetch_restarts_the_retention_of_a_group_without_members_if_the_option_is_on() -> None:
    bench = groups_of(brokertwin_offset_age_from_fetch=True)
    member = member_of(bench, *TOPICS)
    commit(bench, "first", **member)
    bench.leave(member["memberId"])
    bench.after(MINUTE - 1_000)
    assert kept(bench) == {"first-0"}
    bench.after(MINUTE - 1_000)
    assert kept(bench) == {"first-0"}
    bench.after(MINUTE + 1_000)
    assert kept(bench) == set()


def test_retention_time_of_an_offset_overrides_the_setting() -> None:
    bench = groups_of()
    commit(bench, "first", version=4, retentionTimeMs=5_000)
    commit(bench, "second", version=4, retentionTimeMs=3 * MINUTE)
    bench.after(5_000)
    assert kept(bench) == {"second-0"}
    bench.after(2 * MINUTE)
    assert kept(bench) == {"second-0"}
    bench.after(MINUTE)
    assert kept(bench) == set()


@pytest.mark.parametrize("state", ["CompletingRebalance", "Stable"])
def test_offsets_of_rebalancing_and_non_consumer_groups_do_not_expire(state: str) -> None:
    bench = groups_of()
    kind = "connect" if state == "Stable" else "consumer"
    member, _ = bench.new_member(kind=kind, session=1_800_000, rebalance=1_800_000)
    commit(bench, "second", memberId=member, generationIdOrMemberEpoch=0)
    bench.after(6_000)
    if kind == "connect":
        bench.sync(member, 1, {member: "QQ=="}, kind)
    assert bench.state() == state
    bench.after(10 * MINUTE)
    assert kept(bench) == {"second-0"}


def test_consumer_group_keeps_offsets_of_subscribed_topics() -> None:
    bench = groups_of(ConsumerBench)
    first = bench.join("A", "first")
    assert first["errorCode"] == 0
    who = {"memberId": "A", "generationIdOrMemberEpoch": first["memberEpoch"]}
    commit(bench, "first", **who)
    commit(bench, "second", **who)
    for _ in range(3):
        bench.tick(MINUTE // 2)
        bench.beat("A", first["memberEpoch"])
    assert kept(bench) == {"first-0"}


def test_streams_group_keeps_offsets_of_source_topics() -> None:
    bench = groups_of(StreamsBench)
    epoch = bench.join("A", topology(part("0", "first")))["memberEpoch"]
    who = {"memberId": "A", "generationIdOrMemberEpoch": epoch}
    commit(bench, "first", **who)
    commit(bench, "second", **who)
    for _ in range(3):
        bench.tick(MINUTE // 2)
        epoch = bench.beat("A", epoch)["memberEpoch"]
    assert kept(bench) == {"first-0"}
    bench.beat("A", -1)
    bench.tick(1_000)
    assert (kept(bench), listed(bench)) == (set(), [])


def test_offsets_expired_long_ago_are_not_returned() -> None:
    """No timer has fired meanwhile: the first request finds it expired."""
    bench = groups_of(offsets_retention_check_interval_ms=600_000)
    commit(bench, "first")
    bench.now += 30 * DAY
    assert (kept(bench), listed(bench)) == (set(), [])


def test_group_without_offsets_and_members_is_deleted_by_a_check() -> None:
    """Not in the first check, when the offsets topic has just been created."""
    interval = 10 * MINUTE
    first_check = START // interval * interval + interval
    bench = groups_of(offsets_retention_check_interval_ms=interval)
    member = member_of(bench, "first")
    bench.leave(member["memberId"])
    for bench.now in (first_check, first_check + interval - 1):
        assert listed(bench) == [GROUP]
    bench.now += 1
    assert listed(bench) == []


def test_group_without_records_is_deleted_by_a_check() -> None:
    """Its first commit was rejected; it can be deleted until the check."""
    for waits, error in ((999, 0), (1_001, 69)):
        bench = groups_of()
        partitions = [{"partitionIndex": 0, "committedOffset": 7, "committedMetadata": "x" * 5000}]
        body = {"groupId": GROUP, "topics": [{"name": "first", "partitions": partitions}]}
        response = bench.request("OFFSET_COMMIT", 9, body)
        assert response["topics"][0]["partitions"][0]["errorCode"] == 12
        bench.after(waits)
        deletion = bench.request("DELETE_GROUPS", 2, groupsNames=[GROUP])
        assert deletion["results"][0]["errorCode"] == error


def test_expired_offset_is_a_tombstone_in_the_offsets_topic() -> None:
    bench = groups_of()
    commit(bench, "first")
    before = len(bench.records())
    bench.after(MINUTE)
    types = [row["record"]["type"] for row in bench.records()[before:]]
    assert types == ["OffsetDeleted", "GroupRecord"]


def test_group_with_a_member_stays_without_offsets() -> None:
    bench = groups_of()
    member = member_of(bench, "first")
    commit(bench, "second", **member)
    bench.after(2 * MINUTE)
    assert (kept(bench), bench.state()) == (set(), "Stable")


def test_empty_share_group_stays_until_it_is_deleted() -> None:
    """According to `ShareGroup.shouldExpire`; a streams group expires."""
    bench = ShareBench(**CHECKED_EACH_SECOND)
    bench.beat("m", 0, "foo")
    bench.beat("m", -1)
    bench.tick(30 * DAY)
    assert bench.group() is not None
    assert bench.states() != []
    response = bench.request("DELETE_GROUPS", 2, groupsNames=[GROUP])
    assert response["results"][0]["errorCode"] == 0
    assert (bench.group(), bench.states()) == (None, [])
