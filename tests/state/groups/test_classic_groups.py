"""Classic groups, with the worked examples (seed 001; KIP-134, 345, 394)."""

import re
from pathlib import Path

import pytest

from brokertwin.state.core.java_hashes import hash_order
from brokertwin.state.groups.classic_group import PREVIOUS, ClassicGroupState
from tests.support.groups import GROUP, TOPIC, GroupBench

DELAY = 3000
PAGE = Path(__file__).parents[3] / "docs" / "systems" / "groups.md"


def keys(bench: GroupBench) -> set[str]:
    tables = bench.cell.tables
    return {
        key
        for table in (tables.groups, tables.live_groups, tables.pending)
        for key in table.keys("")
    }


def test_example_1_first_member_waits_for_the_initial_delay() -> None:
    bench = GroupBench()
    response = bench.response(bench.join(client="app"))
    assert (response["errorCode"], response["generationId"]) == (79, -1)
    member = response["memberId"]
    assert member.startswith("app-")
    join = bench.join(member)
    assert bench.after(DELAY - 1).waits(join)
    joined = bench.after(1).response(join)
    assert (joined["errorCode"], joined["generationId"], joined["leader"]) == (0, 1, member)
    assert [each["memberId"] for each in joined["members"]] == [member]
    assert bench.state() == "CompletingRebalance"
    synced = bench.response(bench.sync(member, 1, {member: "eA=="}))
    assert (synced["errorCode"], synced["assignment"]) == (0, "eA==")
    assert bench.state() == "Stable"


def test_example_2_joining_member_extends_the_initial_delay() -> None:
    bench = GroupBench()
    _, first = bench.new_member(rebalance=9000)
    _, second = bench.after(DELAY - 1).new_member(rebalance=9000)
    assert bench.after(1).waits(first)
    assert bench.after(DELAY - 1).waits(second)
    bench.after(1)
    assert [bench.response(join)["generationId"] for join in (first, second)] == [1, 1]


def test_example_3_initial_delay_ends_with_the_rebalance_timeout() -> None:
    bench = GroupBench()
    joins = [bench.new_member(rebalance=6000)[1]]
    joins.append(bench.after(DELAY - 1).new_member(rebalance=6000)[1])
    joins.append(bench.after(2).new_member(rebalance=6000)[1])
    assert bench.after(2 * DELAY - DELAY - 2).waits(joins[2])
    bench.after(1)
    assert [bench.response(join)["generationId"] for join in joins] == [1, 1, 1]


def test_example_4_member_without_heartbeats_is_removed() -> None:
    bench = GroupBench()
    a, b = bench.stable("a", "b")
    assert bench.after(30_000).heartbeat(b, 1) == 0
    assert bench.after(14_999).state() == "Stable"
    assert bench.after(1).state() == "PreparingRebalance"
    assert bench.heartbeat(b, 1) == 27
    joined = bench.response(bench.join(b))
    assert (joined["generationId"], joined["leader"]) == (2, b)
    assert bench.heartbeat(a, 2) == 25


def test_example_5_members_that_do_not_sync_in_time_are_removed() -> None:
    bench = GroupBench()
    members = [bench.new_member(rebalance=5000)[0] for _ in range(3)]
    bench.after(5000)
    assert bench.after(4999).state() == "CompletingRebalance"
    assert bench.after(1).state() == "Empty"
    assert bench.commit("", -1) == 0
    assert [bench.heartbeat(member, 2) for member in members] == [25, 25, 25]
    written = bench.records()[-2]["record"]
    assert (written["key"]["group"], written["value"]["generation"]) == (GROUP, 2)


def test_example_6_stale_and_foreign_requests_are_rejected() -> None:
    bench = GroupBench()
    (member,) = bench.stable("a")
    assert bench.heartbeat("stranger", 1) == 25
    body = {"groupId": GROUP, "generationId": 1, "memberId": member, "protocolType": "consumer"}
    wrong = bench.send("SYNC_GROUP", 5, {**body, "protocolName": "roundrobin"})
    assert bench.response(wrong)["errorCode"] == 23
    bench.join(member)
    assert bench.state() == "CompletingRebalance"
    assert bench.heartbeat(member, 1) == 22, "the generation is 2"
    bench.new_member(client="b")
    assert bench.response(bench.sync(member, 2))["errorCode"] == 27
    bench = GroupBench()
    joined = bench.join(instance="i")
    bench.after(2 * DELAY)
    old = bench.response(joined)["memberId"]
    bench.sync(old, 1, {old: "QQ=="})
    assert bench.response(bench.join(instance="i"))["memberId"] != old
    assert bench.heartbeat(old, 1, "i") == 82


def test_example_7_protocol_supported_by_all_members_wins() -> None:
    bench = GroupBench()
    both = [("range", ""), ("sticky", "")]
    joins = [
        bench.new_member(protocols=both)[1],
        bench.new_member(protocols=both[::-1])[1],
        bench.new_member(protocols=[("sticky", "")])[1],
    ]
    assert bench.response(bench.join(protocols=[("range", "")]))["errorCode"] == 23
    bench.after(2 * DELAY)
    assert {bench.response(join)["protocolName"] for join in joins} == {"sticky"}


def test_example_8_rejoining_leader_starts_a_rebalance_a_follower_does_not() -> None:
    bench = GroupBench()
    leader, follower = bench.stable("a", "b")
    again = bench.response(bench.join(follower))
    assert (again["generationId"], again["members"]) == (1, [])
    assert bench.state() == "Stable"
    join = bench.join(leader)
    assert bench.waits(join)
    assert bench.state() == "PreparingRebalance"
    bench.join(follower)
    assert bench.response(join)["generationId"] == 2


@pytest.mark.parametrize(("version", "is_reported"), [(8, False), (9, True)])
def test_example_9_static_member_rejoins_without_a_rebalance(
    version: int, is_reported: bool
) -> None:
    bench = GroupBench()
    joins = [bench.join(instance=name, version=version) for name in ("i", "j")]
    bench.after(2 * DELAY)
    leader, follower = (bench.response(join)["memberId"] for join in joins)
    bench.sync(follower, 1)
    bench.sync(leader, 1, {leader: "TA==", follower: "Rg=="})
    back = bench.response(bench.join(instance="j", version=version))
    assert (back["errorCode"], back["generationId"], back["leader"]) == (0, 1, leader)
    assert back["memberId"].startswith("j-") and back["memberId"] != follower
    assert bench.response(bench.sync(back["memberId"], 1))["assignment"] == "Rg=="
    assert bench.heartbeat(follower, 1, "j") == 82
    back = bench.response(bench.join(instance="i", version=version))
    assert back["leader"] == (back["memberId"] if is_reported else leader)
    assert back.get("skipAssignment", False) is is_reported
    assert bool(back["members"]) is is_reported
    assert bench.state() == "Stable"


def test_example_10_commits_by_group_state() -> None:
    bench = GroupBench()
    assert bench.commit(generation=5, version=9) == 69
    assert bench.commit(generation=5, version=8) == 22
    assert bench.commit() == 0
    (simple,) = bench.request("LIST_GROUPS", 5, {})["groups"]
    assert (simple["groupId"], simple["protocolType"], simple["groupState"]) == (GROUP, "", "Empty")
    member, _ = bench.new_member()
    bench.after(2 * DELAY)
    assert bench.state() == "CompletingRebalance"
    assert bench.commit(member, 1) == 27
    bench.sync(member, 1, {member: ""})
    assert bench.commit() == 25
    assert bench.commit(member, 1) == 0
    assert bench.commit(member, 2) == 22


def test_commit_restarts_the_session_timeout() -> None:
    bench = GroupBench()
    (member,) = bench.stable("a")
    assert bench.after(40_000).commit(member, 1) == 0
    assert bench.after(40_000).heartbeat(member, 1) == 0


def test_dynamic_member_that_does_not_rejoin_in_time_is_removed() -> None:
    bench = GroupBench()
    leader, follower = bench.stable("a", "b", rebalance=10_000)
    join = bench.join(leader, rebalance=10_000)
    assert bench.after(9999).waits(join)
    assert bench.after(1).response(join)["generationId"] == 2
    assert bench.heartbeat(follower, 2) == 25


def test_pending_member_id_delays_the_join_until_it_expires() -> None:
    bench = GroupBench()
    (member,) = bench.stable("a", session=20_000)
    bench.join(session=6000)
    join = bench.join(member, session=20_000)
    assert bench.after(5999).waits(join)
    assert bench.after(1).response(join)["generationId"] == 2


def test_leaving_member_is_removed_and_others_rebalance() -> None:
    bench = GroupBench()
    leader, follower = bench.stable("a", "b")
    assert bench.leave(follower, "stranger") == [0, 25]
    assert bench.heartbeat(leader, 1) == 27
    assert bench.leave(leader) == [0]
    assert bench.state() == "Empty"


def test_full_group_rejects_new_members() -> None:
    bench = GroupBench(group_max_size=1)
    (member,) = bench.stable("a")
    assert bench.response(bench.join())["errorCode"] == 81
    assert bench.response(bench.join(member))["generationId"] == 2


def test_group_with_members_cannot_be_deleted_but_an_empty_one_can() -> None:
    bench = GroupBench()
    (member,) = bench.stable("a")
    assert bench.commit(member, 1) == 0
    delete = {"groupsNames": [GROUP, "other"]}
    results = bench.request("DELETE_GROUPS", 2, delete)["results"]
    assert [each["errorCode"] for each in results] == [68, 69]
    bench.leave(member)
    results = bench.request("DELETE_GROUPS", 2, delete)["results"]
    assert [each["errorCode"] for each in results] == [0, 69]
    assert bench.state() == "Dead"
    assert bench.request("OFFSET_FETCH", 8, groupId=GROUP, topics=None)["groups"][0]["topics"] == []


def test_group_deleted_with_a_pending_member_id_is_not_recreated() -> None:
    # compared with Apache Kafka 4.3.1
    bench = GroupBench()
    before = keys(bench)
    assert bench.response(bench.join())["errorCode"] == 79
    deleted = bench.request("DELETE_GROUPS", 2, groupsNames=[GROUP])
    assert deleted["results"][0]["errorCode"] == 0
    bench.after(60_000)
    (described,) = bench.request("DESCRIBE_GROUPS", 6, groups=[GROUP])["groups"]
    assert (described["errorCode"], described["groupState"]) == (69, "Dead")
    assert bench.request("LIST_GROUPS", 5)["groups"] == []
    assert keys(bench) == before


# version 0, one topic, no user data; the last one is cut off before that
READS_FOO, READS_BAR = "AAAAAAABAANmb2//////", "AAAAAAABAANiYXL/////"
CUT = "AAAAAAABAANmb28="


def _deletion(bench: GroupBench) -> int:
    """Return the error of a deletion of partition 0's offset."""
    response = bench.request("OFFSET_DELETE", 0, groupId=GROUP, name=TOPIC, partitionIndex=0)
    return int(response["topics"][0]["partitions"][0]["errorCode"])


def test_offsets_of_subscribed_topics_are_not_deleted() -> None:
    bench = GroupBench()
    (member,) = bench.stable("a", protocols=[("range", READS_FOO)])
    bench.commit(member, 1)
    assert _deletion(bench) == 86
    bench.leave(member)
    assert _deletion(bench) == 0


def test_subscriptions_are_those_at_the_start_of_the_generation() -> None:
    # compared with Apache Kafka 4.3.1 (tests/gateway/test_classic_groups_like_kafka.py)
    bench = GroupBench()
    reads_foo, reads_bar = [("range", READS_FOO)], [("range", READS_BAR)]
    of_foo, of_bar = ({"protocols": each, "version": 3} for each in (reads_foo, reads_bar))
    bench.join(**of_bar)
    assert _deletion(bench) == 86  # subscriptions are not known yet
    bench.after(10_000)
    assert _deletion(bench) == 0
    bench.join(**of_foo)
    assert _deletion(bench) == 0
    bench.after(60_000)
    assert _deletion(bench) == 86


@pytest.mark.parametrize("message", ["", CUT])
def test_group_with_unreadable_subscriptions_subscribes_to_any_topic(message: str) -> None:
    bench = GroupBench()
    (member,) = bench.stable("a", protocols=[("range", message)])
    assert _deletion(bench) == 86
    bench.leave(member)
    assert _deletion(bench) == 0


def test_new_group_is_written_before_its_first_member_joins() -> None:
    # compared with Apache Kafka 4.3.1 (tests/gateway/test_classic_groups_like_kafka.py)
    bench = GroupBench()
    bench.join(instance="i")
    written = bench.records()[-1]["record"]
    assert written["key"] == {"type": "GroupMetadataKey", "group": GROUP}
    assert (written["value"]["protocolType"], written["value"]["members"]) == ("", [])


def test_group_is_restored_from_the_stored_state() -> None:
    bench = GroupBench()
    leader, follower = bench.stable("a", "b")
    bench.reload()
    join = bench.join(leader)
    bench.reload()
    bench.join(follower)
    assert bench.response(join)["generationId"] == 2


def test_diagram_in_the_docs_has_all_transitions() -> None:
    diagram = PAGE.read_text(encoding="utf-8").split("```")[1]
    arrows = re.findall(r"^    (\w+) --> (\w+):", diagram, re.MULTILINE)
    drawn = {(ClassicGroupState(before), ClassicGroupState(after)) for before, after in arrows}
    assert drawn == {(before, after) for after in PREVIOUS for before in PREVIOUS[after]}


def test_keys_have_the_order_of_a_java_hash_map() -> None:
    # new HashMap<String, Integer>() with these keys, printed by Java 17
    protocols = ["range", "sticky", "roundrobin", "cooperative-sticky"]
    in_java = ["sticky", "range", "roundrobin", "cooperative-sticky"]
    assert hash_order(protocols, 4) == in_java
    in_java = [19, 18, 17, 16, 5, 15, 6, 14, 3, 13, 4, 12, 9, 11, 10, 7, 8, 1, 2, 0]
    keys = [f"member-{number}" for number in range(20)]
    assert hash_order(keys, 20) == [f"member-{number}" for number in in_java]


@pytest.mark.parametrize("api", ["JOIN_GROUP", "SYNC_GROUP", "HEARTBEAT", "LEAVE_GROUP"])
def test_client_without_read_permission_gets_group_authorization_failed(api: str) -> None:
    bench = GroupBench(
        authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        super_users="User:ANONYMOUS",
    )
    (member,) = bench.stable("a")
    body: dict[str, object] = {"groupId": GROUP, "memberId": member}
    if api == "JOIN_GROUP":
        body |= {"sessionTimeoutMs": 45_000, "protocolType": "consumer", "protocols": []}
    elif api != "LEAVE_GROUP":
        body["generationId"] = 1
    version = {"JOIN_GROUP": 3, "SYNC_GROUP": 2, "HEARTBEAT": 2, "LEAVE_GROUP": 2}[api]
    assert bench.request(api, version, body, principal="User:eve")["errorCode"] == 30
    assert bench.state() == "Stable"
