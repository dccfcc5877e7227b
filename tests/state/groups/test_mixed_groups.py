"""Members of the classic protocol in consumer groups, and groups that change their kind.

What a real broker answers is in the capture `mixed_groups`; here are the rules, one by one.
"""

from random import Random
from typing import Any

import pytest

from brokertwin.state.groups import groups
from brokertwin.state.groups.classic_group import ClassicGroup
from tests.support.consumer_groups import GROUP, Consumer, ConsumerBench
from tests.support.mixed_groups import Classic, assignment, classic_group, send_join

ALL = list(range(6))


def mixed(**settings: Any) -> tuple[ConsumerBench, Classic, Consumer]:
    """A classic member that had everything, and a consumer that has just joined it."""
    bench = ConsumerBench(**settings)
    classic, consumer = Classic(bench), Consumer(bench, "new")
    classic_group(bench, classic)
    consumer.beat()
    return bench, classic, consumer


def rounds(bench: ConsumerBench, *members: Classic | Consumer, count: int = 8) -> None:
    """Lets members send heartbeats, 1.1 s apart; no partition is with two of them ever."""
    for _ in range(count):
        bench.tick(1_100)
        for each in members:
            each.beat()
            places = [place for other in members for place in other.places()]
            assert len(places) == len(set(places)), places


def classic(bench: ConsumerBench) -> ClassicGroup:
    """The group, which is a classic one."""
    found = groups.find_in_tables(bench.cell.tables, 1, GROUP)
    assert isinstance(found, ClassicGroup), found
    return found


def listed(bench: ConsumerBench) -> tuple[str, str]:
    """The group's type and state, as ListGroups has them."""
    answer = bench.request("LIST_GROUPS", 5, {"statesFilter": [], "typesFilter": []})
    return answer["groups"][0]["groupType"], answer["groups"][0]["groupState"]


# Up


def test_a_classic_group_becomes_a_consumer_group_with_the_first_who_joins() -> None:
    bench, member, consumer = mixed()
    assert listed(bench) == ("consumer", "Reconciling")
    described = bench.describe()
    assert (described["groupEpoch"], described["assignmentEpoch"]) == (2, 2), "generation 1, and 1"
    types = {each["memberId"]: each["memberType"] for each in described["members"]}
    assert types == {member.member: 0, "new": 1}
    assert bench.group().members[member.member].assigned == {
        bench.ids["foo"]: dict.fromkeys(ALL, 1)
    }
    assert (consumer.epoch, consumer.owned) == (2, {}), "the other has not given anything back"


def test_members_of_both_protocols_share_the_partitions() -> None:
    bench, member, consumer = mixed()
    assert member.heartbeat() == 27
    assert (member.join(), member.generation, member.sync()) == (0, 1, 0)
    assert member.owned == {"foo": [0, 1, 2]}
    assert member.heartbeat() == 27, "it has to say that it has given the others back"
    assert (member.join(), member.generation, member.sync()) == (0, 2, 0)
    assert member.heartbeat() == 0
    consumer.beat()
    assert consumer.owned == {"foo": [3, 4, 5]}
    second = Classic(bench)
    rounds(bench, member, consumer, second)
    assert [len(each.places()) for each in (member, consumer, second)] == [2, 2, 2]
    assert listed(bench) == ("consumer", "Stable")


def test_a_member_that_is_behind_by_its_state_alone_is_asked_to_join() -> None:
    """It has given up a topic: its epoch is the assignment's, and it still owns partitions."""
    bench, member, consumer = mixed(group_consumer_assignment_interval_ms=15_000)
    rounds(bench, member, consumer, count=4)
    member.topics, had = ["bar"], member.owned
    assert (member.join(), member.generation) == (0, 2)
    assert had == {"foo": [0, 1, 2]}
    state = bench.group().members[member.member].state
    assert (state.name, bench.group().assignment_epoch) == ("UNREVOKED_PARTITIONS", 2)
    assert member.heartbeat() == 27


def test_a_classic_member_is_told_when_what_it_waits_for_is_free() -> None:
    bench = ConsumerBench()
    consumer, member = Consumer(bench, "a"), Classic(bench)
    consumer.beat()
    bench.tick(1_000)
    assert member.beat() == 0
    assert (member.owned, member.heartbeat()) == ({}, 0), "nothing is free yet"
    consumer.beat()
    assert member.heartbeat() == 0
    consumer.beat()
    assert member.heartbeat() == 27
    assert (member.beat(), member.owned) == (0, {"foo": [3, 4, 5]})


def test_who_waits_in_a_join_is_told_of_the_change() -> None:
    bench, member = ConsumerBench(), Classic(ConsumerBench())
    member = Classic(bench)
    member.join()
    waiting = send_join(bench, member)
    bench.tick(6_000)
    bench.request("SYNC_GROUP", 5, _sync(member, 1, [assignment({"foo": ALL})]))
    other = Classic(bench)
    other.join()
    waiting = send_join(bench, other)
    assert waiting not in bench.answers
    Consumer(bench, "new").beat()
    told = bench.answers[waiting]["response"]
    assert (told["errorCode"], told["memberId"]) == (27, other.member)
    assert other.join() == 0


def _sync(member: Classic, generation: int, given: list[str]) -> dict[str, Any]:
    return {
        "groupId": GROUP,
        "generationId": generation,
        "memberId": member.member,
        "protocolType": "consumer",
        "protocolName": "range",
        "assignments": [{"memberId": member.member, "assignment": each} for each in given],
    }


USER_DATA = "AAAAAAABAANmb28AAAABAAAAAAAAAAJ4eQ=="


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        (assignment({"foo": [0]})[:-8], 69, "is malformed."),
        (USER_DATA, 69, "an unsupported custom assignor is in use"),
    ],
)
def test_a_group_whose_assignment_cannot_be_read_stays_classic(
    given: str, error: int, words: str
) -> None:
    bench, member = ConsumerBench(), None
    member = Classic(bench)
    member.join()
    send_join(bench, member)
    bench.tick(6_000)
    assert bench.request("SYNC_GROUP", 5, _sync(member, 1, [given]))["errorCode"] == 0
    answer = bench.join("new")
    assert answer["errorCode"] == error
    assert words in answer["errorMessage"]
    assert (listed(bench), Classic.heartbeat(member)) == (("classic", "Stable"), 22)


def test_in_its_first_delay_a_group_cannot_be_converted_and_who_waits_is_told() -> None:
    """Kafka's own slip (4.3.1): it asks a group without a protocol for its protocol."""
    bench = ConsumerBench()
    member = Classic(bench)
    member.join()
    waiting = send_join(bench, member)
    assert bench.join("new")["errorCode"] == -1
    assert bench.answers[waiting]["response"]["errorCode"] == 27
    assert listed(bench) == ("classic", "PreparingRebalance")


@pytest.mark.parametrize(
    ("policy", "up", "down"),
    [("bidirectional", 0, "classic"), ("UPGRADE", 0, "consumer"), ("downgrade", 69, ""),
     ("disabled", 69, "")],
)  # fmt: skip
def test_the_policy_says_which_way_groups_may_go(policy: str, up: int, down: str) -> None:
    bench = ConsumerBench(group_consumer_migration_policy=policy)
    member, consumer = Classic(bench), Consumer(bench, "new")
    classic_group(bench, member)
    assert consumer.beat() == up
    if up == 0:
        consumer.leave()
        assert listed(bench)[0] == down
    else:
        assert "online upgrade is disabled" in bench.join("new")["errorMessage"]


def test_where_migration_is_disabled_no_classic_member_joins_consumers() -> None:
    bench = ConsumerBench(group_consumer_migration_policy="disabled")
    bench.join("a")
    assert Classic(bench).join() == 23


# Down


def test_when_the_last_consumer_leaves_the_group_is_classic_and_rebalances() -> None:
    bench, member, consumer = mixed()
    rounds(bench, member, consumer)
    consumer.leave()
    assert listed(bench) == ("classic", "PreparingRebalance")
    group = classic(bench)
    assert (group.generation_id, group.leader_id) == (2, member.member)
    assert member.heartbeat() == 27
    waiting = send_join(bench, member)
    assert bench.answers[waiting]["response"]["generationId"] == 3
    assert bench.request("SYNC_GROUP", 5, _sync(member, 3, [assignment({"foo": ALL})]))
    assert listed(bench) == ("classic", "Stable")


def test_when_the_last_consumer_is_silent_the_group_is_classic() -> None:
    bench, member, consumer = mixed()
    rounds(bench, member, consumer)
    for _ in range(3):
        bench.tick(15_000)
        member.heartbeat()
    assert listed(bench) == ("classic", "PreparingRebalance")
    assert member.heartbeat() == 27


def test_a_consumer_can_be_sent_away_by_leave_group() -> None:
    bench, _member, _consumer = mixed()
    body = {"groupId": GROUP, "members": [{"memberId": "new", "groupInstanceId": None}]}
    assert bench.request("LEAVE_GROUP", 5, body)["members"][0]["errorCode"] == 0
    assert listed(bench)[0] == "classic"


def test_a_group_that_would_be_too_large_for_a_classic_one_stays() -> None:
    bench, member, consumer = mixed(group_max_size=1)
    second = Classic(bench)
    rounds(bench, member, consumer, second)
    consumer.leave()
    assert listed(bench) == ("consumer", "Assigning")
    rounds(bench, member, second)
    assert [len(each.places()) for each in (member, second)] == [2, 2], (
        "a heartbeat of the classic protocol computes no target (4.3.1): who joins does"
    )
    assert (member.join(), member.sync()) == (0, 0)
    rounds(bench, member, second)
    assert [len(each.places()) for each in (member, second)] == [3, 3]


def test_the_last_static_consumer_comes_back_with_the_classic_protocol() -> None:
    bench = ConsumerBench()
    first, second = Consumer(bench, "a", instanceId="i"), Consumer(bench, "b", instanceId="j")
    first.beat()
    second.beat()
    rounds(bench, first, second)
    back = [Classic(bench, groupInstanceId=name) for name in "ij"]
    assert (back[0].join(), back[0].sync(), back[0].owned) == (0, 0, first.owned)
    assert listed(bench) == ("consumer", "Stable")
    assert (back[1].join(), back[1].heartbeat()) == (0, 0)
    assert listed(bench) == ("classic", "Stable"), "nothing has changed, nobody has to join again"
    assert (back[1].sync(), back[1].owned) == (0, second.owned)
    assert second.beat() == 69


def test_a_static_member_changes_its_protocol_in_its_place() -> None:
    bench = ConsumerBench()
    member = Classic(bench, groupInstanceId="i")
    Consumer(bench, "a").beat()
    bench.tick(1_000)
    member.beat()
    again = Consumer(bench, "b", instanceId="i")
    assert again.beat() == 0, "a classic one need not have left"
    assert member.heartbeat() == 82
    assert [bench.group().members[each].uses_classic_protocol for each in ("a", "b")] == [
        False,
        False,
    ]


def test_a_static_member_changes_its_protocol_and_the_group_with_it() -> None:
    """Its former id has a time-out no more: the bench checks that timers have owners."""
    bench = ConsumerBench()
    member = Classic(bench, groupInstanceId="i")
    joins = send_join(bench, member)
    bench.tick(bench.settings.broker_settings.group_initial_rebalance_delay_ms)
    told = bench.answers[joins]["response"]
    member.member, member.generation = told["memberId"], told["generationId"]
    given = [{"memberId": member.member, "assignment": assignment({"foo": [0]})}]
    assert member.sync(assignments=given) == 0
    assert Consumer(bench, "b", instanceId="i").beat() == 0
    assert list(bench.group().members) == ["b"]


# What is refused


def test_requests_of_classic_members_that_do_not_fit() -> None:
    bench, member, _consumer = mixed()
    stranger = Classic(bench)
    stranger.member, stranger.generation = "new", 2
    assert (stranger.heartbeat(), stranger.sync()) == (25, 25), "the other's own protocol"
    stranger.member = "nobody"
    assert (stranger.heartbeat(), stranger.sync()) == (25, 25)
    assert member.sync() == 27, "a target waits for it"
    assert member.sync(generationId=5) == 22
    assert member.join() == 0
    assert member.sync(protocolName="sticky") == 23
    assert member.sync(protocolType="connect") == 23
    assert member.join(protocolType="connect") == 23
    other = Classic(bench)
    assert other.join(protocols=[{"name": "sticky", "metadata": ""}]) == 23, "nobody else has it"
    assert other.join(memberId="x", protocols=[{"name": "range", "metadata": "AA=="}]) == -1
    assert other.join(memberId="x", groupInstanceId="i") == 25
    assert other.join() == 79
    assert other.heartbeat() == 25, "its id is nobody's yet"


def test_a_full_group_takes_nobody() -> None:
    bench, _member, _consumer = mixed(group_consumer_max_size=2)
    assert Classic(bench).join() == 81


def test_commits_of_classic_members_have_generations() -> None:
    bench, member, consumer = mixed()
    name = member.member
    assert bench.commit(name, 1) == 0
    assert bench.commit(name, 1, version=8) == 0, "in any version"
    assert bench.commit("new", 2, version=8) == 35
    assert (bench.commit(name, 0), bench.commit(name, 2)) == (22, 22)
    rounds(bench, member, consumer)
    assert (bench.commit(name, 1), bench.commit(name, 1, partition=5)) == (0, 22)
    asked = {"groupId": GROUP, "memberId": name, "topics": None}

    def fetched(epoch: int) -> int:
        body = {"groups": [{**asked, "memberEpoch": epoch}], "requireStable": False}
        return int(bench.request("OFFSET_FETCH", 9, body)["groups"][0]["errorCode"])

    assert (fetched(2), fetched(3)) == (0, 22)


# Time


def test_a_classic_member_has_its_own_session_time_out() -> None:
    bench, member, consumer = mixed()
    rounds(bench, member, consumer)
    bench.tick(29_999)
    consumer.beat()
    assert member.member in bench.group().members
    bench.tick(1)
    assert member.member not in bench.group().members
    assert member.heartbeat() == 25


def test_who_is_to_join_again_has_its_rebalance_time_out_for_it() -> None:
    bench, member, _consumer = mixed()
    assert member.heartbeat() == 27
    bench.tick(15_000)
    assert member.heartbeat() == 27, "that does not begin it anew"
    bench.tick(4_999)
    assert member.heartbeat() == 27
    bench.tick(1)
    assert member.heartbeat() == 25


def test_who_has_joined_has_as_long_to_sync() -> None:
    bench, member, _consumer = mixed()
    member.join()
    bench.tick(19_999)
    assert member.heartbeat() == 27
    bench.tick(1)
    assert member.heartbeat() == 25


def test_who_joins_and_syncs_in_time_has_no_time_out_any_more() -> None:
    bench, member, consumer = mixed()
    rounds(bench, member, consumer)
    for _ in range(4):
        bench.tick(25_000)
        assert (member.heartbeat(), consumer.beat()) == (0, 0)


# Any order


@pytest.mark.parametrize("seed", range(6))
def test_no_partition_has_two_owners_however_members_come_and_go(seed: int) -> None:
    """Both protocols, in any order, with groups that change their kind meanwhile."""
    source = Random(seed)
    bench = ConsumerBench(group_initial_rebalance_delay_ms=0)
    there: list[Consumer] = []
    classics: list[Classic] = []
    first = Classic(bench)
    classic_group(bench, first)
    classics.append(first)
    for number in range(60):
        bench.tick(1_100)
        act = source.randrange(8)
        if act == 0 and len(there) < 3:
            there.append(Consumer(bench, f"n{number}"))
        elif act == 1 and len(there) > 1:
            there.pop(source.randrange(len(there))).leave()
        elif act == 2 and there and len(classics) < 3:
            classics.append(Classic(bench))
        for each in source.sample([*there, *classics], len(there) + len(classics)):
            if there:
                each.beat()
            places = [place for other in (*there, *classics) for place in other.places()]
            assert len(places) == len(set(places)), (number, places)
    for each in (*there, *classics):
        assert each.places() or len(there) + len(classics) > 6
