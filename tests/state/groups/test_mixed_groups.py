"""Classic members in consumer groups, and conversion of groups.

Responses of a real broker are in the capture `mixed_groups`. These tests cover single rules.
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
    bench = ConsumerBench(**settings)
    classic, consumer = Classic(bench), Consumer(bench, "new")
    classic_group(bench, classic)
    consumer.beat()
    return bench, classic, consumer


def rounds(bench: ConsumerBench, *members: Classic | Consumer, count: int = 8) -> None:
    """Send heartbeats every 1.1 s, and check that partitions have one owner."""
    for _ in range(count):
        bench.tick(1_100)
        for each in members:
            each.beat()
            places = [place for other in members for place in other.places()]
            assert len(places) == len(set(places)), places


def classic(bench: ConsumerBench) -> ClassicGroup:
    result = groups.find(bench.cell.tables.of(1), GROUP)
    assert isinstance(result, ClassicGroup), result
    return result


def listed(bench: ConsumerBench) -> tuple[str, str]:
    response = bench.request("LIST_GROUPS", 5, statesFilter=[], typesFilter=[])
    return response["groups"][0]["groupType"], response["groups"][0]["groupState"]


# Upgrade


def test_first_consumer_converts_a_classic_group() -> None:
    bench, member, consumer = mixed()
    assert listed(bench) == ("consumer", "Reconciling")
    described = bench.describe()
    assert (described["groupEpoch"], described["assignmentEpoch"]) == (2, 2), "generation 1 plus 1"
    types = {each["memberId"]: each["memberType"] for each in described["members"]}
    assert types == {member.member: 0, "new": 1}
    assert bench.group().members[member.member].assigned == {
        bench.ids["foo"]: dict.fromkeys(ALL, 1)
    }
    assert (consumer.epoch, consumer.owned) == (2, {}), "the other member has not revoked anything"


def test_members_of_both_protocols_share_the_partitions() -> None:
    bench, member, consumer = mixed()
    assert member.heartbeat() == 27
    assert (member.join(), member.generation, member.sync()) == (0, 1, 0)
    assert member.owned == {"foo": [0, 1, 2]}
    assert member.heartbeat() == 27, "must report the revocation of the others"
    assert (member.join(), member.generation, member.sync()) == (0, 2, 0)
    assert member.heartbeat() == 0
    consumer.beat()
    assert consumer.owned == {"foo": [3, 4, 5]}
    second = Classic(bench)
    rounds(bench, member, consumer, second)
    assert [len(each.places()) for each in (member, consumer, second)] == [2, 2, 2]
    assert listed(bench) == ("consumer", "Stable")


def test_classic_member_that_must_revoke_gets_rebalance_in_progress() -> None:
    """It has unsubscribed a topic and still owns its partitions."""
    bench, member, consumer = mixed(group_consumer_assignment_interval_ms=15_000)
    rounds(bench, member, consumer, count=4)
    member.topics, had = ["bar"], member.owned
    assert (member.join(), member.generation) == (0, 2)
    assert had == {"foo": [0, 1, 2]}
    state = bench.group().members[member.member].state
    assert (state.name, bench.group().assignment_epoch) == ("UNREVOKED_PARTITIONS", 2)
    assert member.heartbeat() == 27


def test_classic_member_gets_rebalance_in_progress_when_partitions_are_free() -> None:
    bench = ConsumerBench()
    consumer, member = Consumer(bench, "a"), Classic(bench)
    consumer.beat()
    bench.tick(1_000)
    assert member.beat() == 0
    assert (member.owned, member.heartbeat()) == ({}, 0), "no partition is released yet"
    consumer.beat()
    assert member.heartbeat() == 0
    consumer.beat()
    assert member.heartbeat() == 27
    assert (member.beat(), member.owned) == (0, {"foo": [3, 4, 5]})


@pytest.mark.parametrize(("regex", "error"), [(None, 0), ("[", 128)])
def test_pending_joins_are_rejected_by_the_conversion(regex: str | None, error: int) -> None:
    """They are rejected even if the heartbeat that converts the group is refused."""
    bench = ConsumerBench()
    member = Classic(bench)
    member.join()
    waiting = send_join(bench, member)
    bench.tick(6_000)
    bench.request("SYNC_GROUP", 5, _sync(member, 1, [assignment({"foo": ALL})]))
    other = Classic(bench)
    other.join()
    waiting = send_join(bench, other)
    assert waiting not in bench.responses
    assert bench.join("new", subscribedTopicRegex=regex)["errorCode"] == error
    reported = bench.responses[waiting]["response"]
    assert (reported["errorCode"], reported["memberId"]) == (27, other.member)
    if not error:
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
def test_group_with_an_unreadable_assignment_stays_classic(
    given: str, error: int, words: str
) -> None:
    bench, member = ConsumerBench(), None
    member = Classic(bench)
    member.join()
    send_join(bench, member)
    bench.tick(6_000)
    assert bench.request("SYNC_GROUP", 5, _sync(member, 1, [given]))["errorCode"] == 0
    response = bench.join("new")
    assert response["errorCode"] == error
    assert words in response["errorMessage"]
    assert (listed(bench), Classic.heartbeat(member)) == (("classic", "Stable"), 22)


def test_group_in_its_initial_delay_cannot_be_converted_but_joins_are_rejected() -> None:
    """A bug of Kafka 4.3.1: it reads the protocol of a group without one."""
    bench = ConsumerBench()
    member = Classic(bench)
    member.join()
    waiting = send_join(bench, member)
    assert bench.join("new")["errorCode"] == -1
    assert bench.responses[waiting]["response"]["errorCode"] == 27
    assert listed(bench) == ("classic", "PreparingRebalance")


@pytest.mark.parametrize(
    ("policy", "up", "down"),
    [("bidirectional", 0, "classic"), ("UPGRADE", 0, "consumer"), ("downgrade", 69, ""),
     ("disabled", 69, "")],
)  # fmt: skip
def test_migration_policy_restricts_conversions(policy: str, up: int, down: str) -> None:
    bench = ConsumerBench(group_consumer_migration_policy=policy)
    member, consumer = Classic(bench), Consumer(bench, "new")
    classic_group(bench, member)
    assert consumer.beat() == up
    if up == 0:
        consumer.leave()
        assert listed(bench)[0] == down
    else:
        assert "online upgrade is disabled" in bench.join("new")["errorMessage"]


def test_disabled_migration_rejects_classic_members_of_a_consumer_group() -> None:
    bench = ConsumerBench(group_consumer_migration_policy="disabled")
    bench.join("a")
    assert Classic(bench).join() == 23


# Downgrade


def test_group_becomes_classic_and_rebalances_when_the_last_consumer_leaves() -> None:
    bench, member, consumer = mixed()
    rounds(bench, member, consumer)
    consumer.leave()
    assert listed(bench) == ("classic", "PreparingRebalance")
    group = classic(bench)
    assert (group.generation_id, group.leader_id) == (2, member.member)
    assert member.heartbeat() == 27
    waiting = send_join(bench, member)
    assert bench.responses[waiting]["response"]["generationId"] == 3
    assert bench.request("SYNC_GROUP", 5, _sync(member, 3, [assignment({"foo": ALL})]))
    assert listed(bench) == ("classic", "Stable")


def test_group_becomes_classic_when_the_last_consumer_expires() -> None:
    bench, member, consumer = mixed()
    rounds(bench, member, consumer)
    for _ in range(3):
        bench.tick(15_000)
        member.heartbeat()
    assert listed(bench) == ("classic", "PreparingRebalance")
    assert member.heartbeat() == 27


def test_leave_group_removes_a_consumer() -> None:
    bench, _member, _consumer = mixed()
    body = {"groupId": GROUP, "members": [{"memberId": "new", "groupInstanceId": None}]}
    assert bench.request("LEAVE_GROUP", 5, body)["members"][0]["errorCode"] == 0
    assert listed(bench)[0] == "classic"


def test_group_too_large_for_a_classic_one_is_not_converted() -> None:
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


def test_last_static_consumer_rejoins_with_the_classic_protocol() -> None:
    bench = ConsumerBench()
    first, second = Consumer(bench, "a", instanceId="i"), Consumer(bench, "b", instanceId="j")
    first.beat()
    second.beat()
    rounds(bench, first, second)
    back = [Classic(bench, groupInstanceId=name) for name in "ij"]
    assert (back[0].join(), back[0].sync(), back[0].owned) == (0, 0, first.owned)
    assert listed(bench) == ("consumer", "Stable")
    assert (back[1].join(), back[1].heartbeat()) == (0, 0)
    assert listed(bench) == ("classic", "Stable"), "nothing has changed, so no member must rejoin"
    assert (back[1].sync(), back[1].owned) == (0, second.owned)
    assert second.beat() == 69


def test_static_member_changes_its_protocol() -> None:
    bench = ConsumerBench()
    member = Classic(bench, groupInstanceId="i")
    Consumer(bench, "a").beat()
    bench.tick(1_000)
    member.beat()
    again = Consumer(bench, "b", instanceId="i")
    assert again.beat() == 0, "a classic member need not have left"
    assert member.heartbeat() == 82
    assert [bench.group().members[each].uses_classic_protocol for each in ("a", "b")] == [
        False,
        False,
    ]


def test_static_member_changes_its_protocol_and_converts_the_group() -> None:
    """The bench checks that the timer of its former id is gone."""
    bench = ConsumerBench()
    member = Classic(bench, groupInstanceId="i")
    joins = send_join(bench, member)
    bench.tick(bench.settings.broker_settings.group_initial_rebalance_delay_ms)
    reported = bench.responses[joins]["response"]
    member.member, member.generation = reported["memberId"], reported["generationId"]
    members = [{"memberId": member.member, "assignment": assignment({"foo": [0]})}]
    assert member.sync(assignments=members) == 0
    assert Consumer(bench, "b", instanceId="i").beat() == 0
    assert list(bench.group().members) == ["b"]


# Errors


def test_invalid_requests_of_classic_members() -> None:
    bench, member, _consumer = mixed()
    stranger = Classic(bench)
    stranger.member, stranger.generation = "new", 2
    assert (stranger.heartbeat(), stranger.sync()) == (25, 25), "the protocol of the other member"
    stranger.member = "nobody"
    assert (stranger.heartbeat(), stranger.sync()) == (25, 25)
    assert member.sync() == 27, "it has a target"
    assert member.sync(generationId=5) == 22
    assert member.join() == 0
    assert member.sync(protocolName="sticky") == 23
    assert member.sync(protocolType="connect") == 23
    assert member.join(protocolType="connect") == 23
    other = Classic(bench)
    assert other.join(protocols=[{"name": "sticky", "metadata": ""}]) == 23, "it has no other owner"
    assert other.join(memberId="x", protocols=[{"name": "range", "metadata": "AA=="}]) == -1
    assert other.join(memberId="x", groupInstanceId="i") == 25
    assert other.join() == 79
    assert other.heartbeat() == 25, "the id is not a member yet"


def test_full_group_rejects_members() -> None:
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
    request = {"groupId": GROUP, "memberId": name, "topics": None}

    def fetched(epoch: int) -> int:
        body = {"groups": [{**request, "memberEpoch": epoch}], "requireStable": False}
        return int(bench.request("OFFSET_FETCH", 9, body)["groups"][0]["errorCode"])

    assert (fetched(2), fetched(3)) == (0, 22)


# Timeouts


def test_classic_member_has_its_own_session_timeout() -> None:
    bench, member, consumer = mixed()
    rounds(bench, member, consumer)
    bench.tick(29_999)
    consumer.beat()
    assert member.member in bench.group().members
    bench.tick(1)
    assert member.member not in bench.group().members
    assert member.heartbeat() == 25


def test_member_must_rejoin_within_its_rebalance_timeout() -> None:
    bench, member, _consumer = mixed()
    assert member.heartbeat() == 27
    bench.tick(15_000)
    assert member.heartbeat() == 27, "does not restart the timeout"
    bench.tick(4_999)
    assert member.heartbeat() == 27
    bench.tick(1)
    assert member.heartbeat() == 25


def test_member_must_sync_within_its_rebalance_timeout() -> None:
    bench, member, _consumer = mixed()
    member.join()
    bench.tick(19_999)
    assert member.heartbeat() == 27
    bench.tick(1)
    assert member.heartbeat() == 25


def test_timers_stop_after_join_and_sync() -> None:
    bench, member, consumer = mixed()
    rounds(bench, member, consumer)
    for _ in range(4):
        bench.tick(25_000)
        assert (member.heartbeat(), consumer.beat()) == (0, 0)


# Random order


@pytest.mark.parametrize("seed", range(6))
def test_no_partition_has_two_owners_in_any_order_of_joins_and_leaves(seed: int) -> None:
    """Both protocols in any order, with conversions in between."""
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
