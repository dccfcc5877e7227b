"""Rebalance rules beyond the worked examples."""

from typing import Any

import pytest

from brokertwin.state.core import pending
from tests.support.groups import GROUP, RANGE, TOPIC, GroupBench

DELAY = 3000
FOREVER = 1_800_000
"""Longest session timeout that a broker allows, in ms."""
CHANGED = [("range", "QkJC")]
IN_JAVA = [19, 18, 17, 16, 5, 15, 6, 14, 3, 13, 4, 12, 9, 11, 10, 7, 8, 1, 2, 0]
"""member-0 to member-19 in the order of a Java 17 HashMap."""


def statics(bench: GroupBench, *instances: str, **options: Any) -> list[str]:
    """Create a stable group of static members; return their ids, leader first."""
    joins = [bench.join(instance=each, **options) for each in instances]
    bench.after(2 * DELAY)
    members = [str(bench.response(join)["memberId"]) for join in joins]
    for member in members[1:]:
        bench.sync(member, 1)
    bench.sync(members[0], 1, dict.fromkeys(members, "QQ=="))
    assert bench.state() == "Stable"
    return members


@pytest.mark.parametrize(
    ("votes", "chosen"),
    [
        (["range sticky", "sticky range", "range sticky"], "range"),
        (["sticky range", "range sticky", "sticky range"], "sticky"),
        (["range sticky", "sticky range"], "sticky"),
        (["sticky range", "range sticky"], "sticky"),
    ],
)
def test_protocol_with_the_most_votes_wins(votes: list[str], chosen: str) -> None:
    # compared with Apache Kafka 4.3.1; with as many votes the first one in hash order wins
    bench = GroupBench()
    joins = [bench.new_member(protocols=[(name, "") for name in vote.split()])[1] for vote in votes]
    bench.after(2 * DELAY)
    assert {bench.response(join)["protocolName"] for join in joins} == {chosen}


def test_rebalance_waits_for_the_longest_timeout_of_its_members() -> None:
    bench = GroupBench()
    patient, quick = (
        bench.new_member(client=client, session=FOREVER, rebalance=timeout)[0]
        for client, timeout in (("a", 20_000), ("b", 6_000))
    )
    bench.after(20_000)
    bench.sync(quick, 1)
    bench.sync(patient, 1, {})
    join = bench.join(patient, session=FOREVER, rebalance=20_000)
    assert bench.after(19_999).waits(join)
    assert bench.after(1).response(join)["generationId"] == 2


def test_new_member_may_wait_five_minutes_in_its_first_join() -> None:
    bench = GroupBench()
    bench.stable("a", session=FOREVER, rebalance=900_000)
    _, join = bench.new_member(client="b", session=FOREVER, rebalance=900_000)
    assert bench.after(299_999).waits(join)
    response = bench.after(1).response(join)
    assert (response["errorCode"], response["memberId"], response["generationId"]) == (25, "", -1)
    assert bench.state() == "PreparingRebalance"


def test_static_leader_that_has_not_rejoined_loses_leadership_but_stays_a_member() -> None:
    bench = GroupBench()
    leader, follower = statics(bench, "i", "j", session=FOREVER, rebalance=10_000)
    options: dict[str, Any] = {"session": FOREVER, "rebalance": 10_000, "protocols": CHANGED}
    join = bench.join(follower, instance="j", **options)
    assert bench.after(9_999).waits(join)
    response = bench.after(1).response(join)
    assert (response["generationId"], response["leader"]) == (2, follower)
    assert {each["memberId"] for each in response["members"]} == {leader, follower}


def test_static_members_that_miss_a_join_stay_and_dynamic_ones_are_removed() -> None:
    bench = GroupBench()
    joins = [bench.new_member(session=FOREVER, rebalance=10_000)[1] for _ in range(2)]
    joins.append(bench.join(instance="i", session=FOREVER, rebalance=10_000))
    bench.after(2 * DELAY)
    present, absent, static = (bench.response(join)["memberId"] for join in joins)
    for member in (absent, static, present):
        bench.sync(member, 1, {})
    join = bench.join(present, session=FOREVER, rebalance=10_000)
    bench.after(10_000)
    members = {each["memberId"] for each in bench.response(join)["members"]}
    assert members == {present, static}
    assert bench.heartbeat(absent, 2) == 25
    assert bench.heartbeat(static, 2, "i") == 0


@pytest.mark.parametrize(
    "protocols", [CHANGED, [*RANGE, ("sticky", "")]], ids=["metadata", "protocols"]
)
@pytest.mark.parametrize("place", [0, 1], ids=["leader", "follower"])
def test_member_with_changed_protocols_rebalances_a_stable_group(
    place: int, protocols: list[tuple[str, str]]
) -> None:
    bench = GroupBench()
    members = bench.stable("a", "b")
    join = bench.join(members[place], protocols)
    assert bench.waits(join)
    assert bench.state() == "PreparingRebalance"
    bench.join(members[1 - place])
    assert bench.response(join)["generationId"] == 2


def test_repeated_join_gets_the_same_response_in_completing_rebalance() -> None:
    bench = GroupBench()
    follower = [bench.new_member()[0] for _ in range(2)][1]
    bench.after(2 * DELAY)
    assert bench.state() == "CompletingRebalance"
    response = bench.response(bench.join(follower))
    assert (response["errorCode"], response["generationId"]) == (0, 1)
    assert bench.state() == "CompletingRebalance"


def test_changed_join_starts_a_rebalance_in_completing_rebalance() -> None:
    bench = GroupBench()
    leader, follower = (bench.new_member()[0] for _ in range(2))
    bench.after(2 * DELAY)
    sync = bench.sync(leader, 0)
    assert bench.response(sync)["errorCode"] == 22
    join = bench.join(follower, CHANGED)
    assert bench.waits(join)
    assert bench.state() == "PreparingRebalance"
    bench.join(leader)
    assert bench.response(join)["generationId"] == 2


def test_full_group_discards_its_pending_member_id() -> None:
    bench = GroupBench(group_max_size=1)
    refused = bench.response(bench.join(client="late"))
    assert refused["errorCode"] == 79
    member, _ = bench.new_member(client="first")
    full = bench.response(bench.join(refused["memberId"], client="late"))
    assert (full["errorCode"], full["memberId"]) == (81, "")
    bench.after(2 * DELAY)
    bench.sync(member, 1, {})
    # otherwise the next join would wait for the id
    assert bench.response(bench.join(member))["generationId"] == 2


def test_pending_join_of_a_leaving_member_gets_unknown_member_id() -> None:
    bench = GroupBench()
    member, join = bench.new_member()
    assert bench.leave(member) == [0]
    response = bench.response(join)
    assert (response["errorCode"], response["memberId"], response["generationId"]) == (25, "", -1)


@pytest.mark.parametrize(("kind", "error"), [("consumer", 79), ("connect", 23)])
def test_rebalance_without_members_accepts_any_protocol_of_its_type(kind: str, error: int) -> None:
    # compared with Apache Kafka 4.3.1
    bench = GroupBench()
    (leader,) = bench.stable("a")
    assert bench.response(bench.join(client="b"))["errorCode"] == 79
    assert bench.waits(bench.join(leader))
    bench.leave(leader)
    assert bench.state() == "PreparingRebalance"
    join = bench.join(client="c", protocols=[("sticky", "")], kind=kind)
    assert bench.response(join)["errorCode"] == error


def test_group_with_pending_joins_cannot_be_deleted() -> None:
    bench = GroupBench()
    member, join = bench.new_member()

    def delete() -> int:
        (result,) = bench.request("DELETE_GROUPS", 2, groupsNames=[GROUP])["results"]
        return int(result["errorCode"])

    assert delete() == 68
    assert bench.waits(join)
    bench.leave(member)
    bench.after(2 * DELAY)
    assert delete() == 0


def test_duplicate_static_member_fences_the_pending_join() -> None:
    bench = GroupBench()
    first = bench.join(instance="i")
    second = bench.join(instance="i")
    assert bench.response(first)["errorCode"] == 82
    assert bench.waits(second)
    assert bench.after(2 * DELAY).response(second)["generationId"] == 1


def test_duplicate_static_member_fences_the_pending_sync() -> None:
    bench = GroupBench()
    joins = [bench.join(instance=name) for name in ("i", "j")]
    bench.after(2 * DELAY)
    follower = bench.response(joins[1])["memberId"]
    sync = bench.sync(follower, 1)
    assert bench.waits(sync)
    bench.join(instance="j")
    assert bench.response(sync)["errorCode"] == 82


def test_leave_discards_a_pending_member_id() -> None:
    bench = GroupBench()
    (member,) = bench.stable("a")
    member_id = bench.response(bench.join(client="b"))["memberId"]
    assert bench.leave(member_id) == [0]
    assert bench.response(bench.join(member_id, client="b"))["errorCode"] == 25
    assert bench.response(bench.join(member))["generationId"] == 2


def test_heartbeat_restarts_the_session_timeout_exactly() -> None:
    bench = GroupBench()
    (member,) = bench.stable("a", session=10_000)
    for _ in range(3):
        assert bench.after(9_999).heartbeat(member, 1) == 0
    assert bench.after(9_999).state() == "Stable"
    assert bench.after(1).state() == "Empty"
    assert bench.heartbeat(member, 1) == 25


def test_members_have_the_order_of_javas_hash_map() -> None:
    bench = GroupBench()
    for number in range(20):
        chosen = {"memberId": f"member-{number}"}
        body = {"groupId": GROUP, "sessionTimeoutMs": FOREVER, "rebalanceTimeoutMs": 60_000}
        body |= {"memberId": "", "protocolType": "consumer"}
        body |= {"protocols": [{"name": "range", "metadata": ""}]}
        bench.send("JOIN_GROUP", 3, body, id=f"j{number}", choices=chosen)
    bench.after(2 * DELAY)
    in_java = [f"member-{number}" for number in IN_JAVA]
    joined = bench.response("j0")
    assert joined["leader"] == "member-0"
    assert [each["memberId"] for each in joined["members"]] == in_java
    (described,) = bench.request("DESCRIBE_GROUPS", 5, groups=[GROUP])["groups"]
    assert [each["memberId"] for each in described["members"]] == in_java
    assert bench.leave("member-0") == [0]
    joins = [bench.join(member, session=FOREVER) for member in in_java[:-1]]
    assert {bench.response(join)["leader"] for join in joins} == {"member-19"}


def test_groups_are_never_throttled() -> None:
    bench = GroupBench()
    quota = {"entity": [{"entityType": "client-id", "entityName": None}]}
    for kind in ("consumer_byte_rate", "producer_byte_rate", "request_percentage"):
        entry = quota | {"ops": [{"key": kind, "value": 1.0, "remove": False}]}
        bench.request("ALTER_CLIENT_QUOTAS", 1, entries=[entry], validateOnly=False)
    (member,) = bench.stable("a")
    body = {"groupId": GROUP, "generationId": 1, "memberId": member}
    assert bench.request("HEARTBEAT", 4, body) == {"throttleTimeMs": 0, "errorCode": 0}


def test_offsets_rejected_by_offset_delete_stay_committed() -> None:
    # version 0, one topic "foo", no user data
    subscription = "AAAAAAABAANmb28AAAAA"
    bench = GroupBench()
    (member,) = bench.stable("a", protocols=[("range", subscription)])
    assert bench.commit(member, 1) == 0
    body = {"groupId": GROUP, "topics": [{"name": TOPIC, "partitions": [{"partitionIndex": 0}]}]}
    wanted = {"groups": [{"groupId": GROUP, "topics": None}]}

    def after_delete() -> tuple[int, list[int]]:
        deleted = bench.request("OFFSET_DELETE", 0, body)
        fetched = bench.request("OFFSET_FETCH", 8, wanted)["groups"][0]["topics"]
        offsets = [each["committedOffset"] for topic in fetched for each in topic["partitions"]]
        return deleted["topics"][0]["partitions"][0]["errorCode"], offsets

    assert after_delete() == (86, [100])
    bench.leave(member)
    assert after_delete() == (0, [])


def test_topic_rejected_by_offset_delete_is_in_the_response_without_partitions() -> None:
    # compared with Apache Kafka 4.3.1
    bench = GroupBench()
    (member,) = bench.stable("a")
    assert bench.commit(member, 1) == 0
    bench.leave(member)

    def requested(group: str, *topics: tuple[str, list[int]]) -> Any:
        named = [
            {"name": name, "partitions": [{"partitionIndex": each} for each in partitions]}
            for name, partitions in topics
        ]
        response = bench.request("OFFSET_DELETE", 0, groupId=group, topics=named)
        return response["errorCode"], [
            (each["name"], [(p["partitionIndex"], p["errorCode"]) for p in each["partitions"]])
            for each in response["topics"]
        ]

    assert requested("", ("none", [])) == (24, [])
    assert requested("nobody", ("none", [])) == (69, [])
    assert requested(GROUP, (TOPIC, []), ("none", [])) == (0, [("none", [])])
    actual = requested(GROUP, (TOPIC, [9]), ("none", []), (TOPIC, [0]), ("none", [3]))
    assert actual == (0, [(TOPIC, [(9, 3), (0, 0)]), ("none", [(3, 3)])])


def test_pending_member_id_is_not_valid_for_a_static_member() -> None:
    # compared with Apache Kafka 4.3.1
    bench = GroupBench()
    response = bench.response(bench.join())
    assert response["errorCode"] == 79
    refused = bench.response(bench.join(response["memberId"], instance="i"))
    assert (refused["errorCode"], refused["memberId"]) == (-1, "")
    assert bench.waits(bench.join(response["memberId"]))


def test_repeated_join_replaces_the_pending_one() -> None:
    bench = GroupBench()
    first, second = bench.stable("a", "b")
    overtaken = bench.join(second, CHANGED)
    again = bench.join(second, CHANGED)
    assert bench.waits(again)
    assert pending.get(bench.cell.tables.pending, overtaken) is None
    bench.join(first)
    assert bench.response(again)["generationId"] == 2
    assert overtaken not in bench.responses


def test_repeated_sync_replaces_the_pending_one() -> None:
    bench = GroupBench()
    leader, follower = (bench.new_member()[0] for _ in range(2))
    bench.after(2 * DELAY)
    overtaken, again = bench.sync(follower, 1), bench.sync(follower, 1)
    assert bench.waits(again)
    assert pending.get(bench.cell.tables.pending, overtaken) is None
    bench.sync(leader, 1)
    assert bench.response(again)["errorCode"] == 0
    assert overtaken not in bench.responses


def test_pending_sync_of_a_leaving_member_is_dropped() -> None:
    """It stayed pending in the state forever."""
    bench = GroupBench()
    _, follower = (bench.new_member()[0] for _ in range(2))
    bench.after(2 * DELAY)
    left = bench.sync(follower, 1)
    assert bench.leave(follower) == [0]
    assert pending.get(bench.cell.tables.pending, left) is None
    assert left not in bench.responses
