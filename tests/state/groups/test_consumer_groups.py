"""Consumer groups (KIP-848): epochs, assignments, timeouts, fencing."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from brokertwin.state.access.authorizer import CLASS_NAME
from brokertwin.state.cell import check
from brokertwin.state.cell.apply import apply
from brokertwin.state.groups import consumer_group_records as rows
from brokertwin.state.groups import groups, target_assignment
from brokertwin.state.groups.consumer_group import (
    ConsumerGroup,
    ConsumerMember,
    ConsumerMemberState,
)
from tests.support.consumer_groups import GROUP, TIMEOUT_MS, Consumer, ConsumerBench, settle
from tests.support.machine import Bench

ALL = list(range(6))


# Joining


def test_first_member_gets_all_partitions_at_once() -> None:
    bench = ConsumerBench()
    response = bench.join("a")
    assert bench.reported(response) == {"foo": ALL}
    assert (response["memberId"], response["memberEpoch"]) == ("a", 2), "a new group is in epoch 1"
    assert response["heartbeatIntervalMs"] == 5000
    assert bench.state() == "Stable"
    again = bench.beat("a", 2, owned={"foo": ALL})
    assert (again["errorCode"], again["memberEpoch"], again["assignment"]) == (0, 2, None)


def test_partition_moves_after_its_owner_has_revoked_it() -> None:
    bench = ConsumerBench()
    bench.join("a")
    bench.tick(1000)
    second = bench.join("b")
    assert (second["memberEpoch"], bench.reported(second)) == (3, {})
    assert bench.state() == "Reconciling"
    first = bench.beat("a", 2)
    assert (first["memberEpoch"], bench.reported(first)) == (2, {"foo": [0, 1, 2]})
    assert bench.beat("a", 2)["assignment"] is None, "owned partitions not reported"
    assert bench.beat("a", 2, owned={"foo": ALL})["memberEpoch"] == 2, "still owns them"
    assert bench.beat("b", 3)["assignment"] is None, "not released yet"
    done = bench.beat("a", 2, owned={"foo": [0, 1, 2]})
    assert (done["memberEpoch"], done["assignment"]) == (3, None)
    got = bench.beat("b", 3)
    assert (got["memberEpoch"], bench.reported(got)) == (3, {"foo": [3, 4, 5]})
    assert bench.state() == "Stable"


def test_target_assignment_is_computed_at_most_once_a_second() -> None:
    bench = ConsumerBench()
    bench.join("a")
    bench.tick(999)
    assert bench.join("b")["memberEpoch"] == 2, "epoch of the last assignment, without partitions"
    assert bench.state() == "Assigning"
    assert bench.beat("a", 2)["assignment"] is None
    bench.tick(1)
    assert bench.reported(bench.beat("a", 2)) == {"foo": [0, 1, 2]}
    assert bench.group().assignment_epoch == 3


def test_without_an_interval_each_join_computes_an_assignment() -> None:
    bench = ConsumerBench(group_consumer_assignment_interval_ms=0)
    assert [bench.join(name)["memberEpoch"] for name in "abc"] == [2, 3, 4]


def test_member_without_topics_is_in_the_group() -> None:
    bench = ConsumerBench()
    response = bench.join("a", subscribedTopicNames=[])
    assert (response["memberEpoch"], bench.reported(response)) == (1, {})
    assert bench.state() == "Stable"


def test_coordinator_generates_member_ids_in_version_0() -> None:
    bench = ConsumerBench()
    response = bench.join("", version=0)
    assert len(response["memberId"]) == 22
    assert bench.join("", version=0)["memberId"] != response["memberId"]
    chosen = {"memberId": "chosen"}
    body = {"groupId": GROUP, "memberId": "", "memberEpoch": 0, "rebalanceTimeoutMs": 1}
    body |= {"subscribedTopicNames": ["foo"], "topicPartitions": []}
    taken = bench.request("CONSUMER_GROUP_HEARTBEAT", 0, body, choices=chosen)
    assert taken["memberId"] == "chosen"


def test_full_heartbeat_gets_the_assignment_again() -> None:
    bench = ConsumerBench()
    bench.join("a")
    fields: dict[str, Any] = {"rebalanceTimeoutMs": TIMEOUT_MS, "subscribedTopicNames": ["foo"]}
    assert bench.reported(bench.beat("a", 2, owned={"foo": ALL}, **fields)) == {"foo": ALL}
    assert bench.beat("a", 2, **fields)["assignment"] is None


def test_rejoin_keeps_epoch_and_partitions() -> None:
    bench = ConsumerBench()
    bench.join("a")
    again = bench.join("a")
    assert (again["memberEpoch"], bench.reported(again)) == (2, {"foo": ALL})


# Examples of the protocol


def test_example_19_three_members_reconcile() -> None:
    bench = ConsumerBench()
    for member in "ab":
        bench.join(member, "foo", "bar")
    has = {"a": {"foo": [0, 1, 2], "bar": [0, 1]}, "b": {"foo": [3, 4, 5], "bar": [2]}}
    _impose(bench, 10, has, has)
    bench.tick(1000)
    bench.join("c", "foo", "bar")
    target = {"a": {"foo": [0, 1], "bar": [0]}, "b": {"foo": [2, 3], "bar": [2]}}
    target["c"] = {"foo": [4, 5], "bar": [1]}
    _impose(bench, 11, target, {**has, "c": {}}, {"c": 11})

    def beat(
        member: str, epoch: int, **owned: list[int]
    ) -> tuple[int, dict[str, list[int]] | None]:
        response = bench.beat(member, epoch, **({"owned": owned} if owned else {}))
        return response["memberEpoch"], bench.reported(response)

    assert beat("c", 11) == (11, None)
    assert beat("a", 10) == (10, {"foo": [0, 1], "bar": [0]})
    assert beat("b", 10) == (10, {"foo": [3], "bar": [2]})
    states = {each.member_id: each.state.name for each in bench.group().members.values()}
    revoking = "UNREVOKED_PARTITIONS"
    assert states == {"a": revoking, "b": revoking, "c": "UNRELEASED_PARTITIONS"}
    assert beat("a", 10, foo=[0, 1], bar=[0]) == (11, None)
    assert beat("c", 11) == (11, {"bar": [1]})
    assert beat("b", 10, foo=[3], bar=[2]) == (11, {"foo": [2, 3], "bar": [2]})
    assert beat("c", 11) == (11, {"foo": [4, 5], "bar": [1]})
    assert bench.state() == "Stable"


def _impose(
    bench: ConsumerBench,
    epoch: int,
    target: dict[str, dict[str, list[int]]],
    has: dict[str, dict[str, list[int]]],
    epochs: dict[str, int] | None = None,
) -> None:
    """Write records of a group epoch with members, targets and assignments."""
    group = bench.group()
    at = bench.cell.tables.of(1)
    apply(at, rows.group_epoch(GROUP, epoch, group.metadata_hash))
    for member, topics in target.items():
        wanted = {bench.ids[name]: parts for name, parts in topics.items()}
        apply(at, rows.member_target(GROUP, member, wanted))
    for member in has:
        apply(at, rows.current_assignment(GROUP, ConsumerMember(member, 0, 0)))
    for member, topics in has.items():
        own = (epochs or {}).get(member, 10)
        assigned = {bench.ids[name]: dict.fromkeys(parts, 10) for name, parts in topics.items()}
        state = ConsumerMemberState(2 if own > 10 else 0)
        written = ConsumerMember(member, own, own - 1, state, assigned=assigned)
        apply(at, rows.current_assignment(GROUP, written))
    apply(at, rows.target_epoch(GROUP, epoch, bench.now))
    at.tables.commit()


def test_example_20_invalid_member_epochs() -> None:
    bench = ConsumerBench()
    bench.join("a")
    _impose(bench, 10, {"a": {"foo": [0, 1]}}, {"a": {"foo": [0, 1]}})
    assert bench.beat("a", 11)["errorCode"] == 110
    assert bench.beat("a", 9, owned={"foo": [0]})["memberEpoch"] == 10, "lost response"
    assert bench.beat("a", 9, owned={"foo": [0, 5]})["errorCode"] == 110
    assert bench.beat("a", 9, owned={"bar": [0]})["errorCode"] == 110
    assert bench.beat("a", 9)["errorCode"] == 110
    assert bench.beat("a", 8, owned={"foo": [0]})["errorCode"] == 110
    assert bench.commit("a", 9) == 113
    assert bench.commit("a", 10) == 0


def test_offset_fetch_checks_the_epoch_only_with_a_member_id() -> None:
    bench = ConsumerBench()
    bench.join("a")
    requests = [(None, -1), (None, 2), (None, 0), ("", -1), ("b", 2), ("a", -1), ("a", 1), ("a", 2)]
    bodies = [
        {"groupId": GROUP, "memberId": member, "memberEpoch": epoch, "topics": None}
        for member, epoch in requests
    ]
    reported = bench.request("OFFSET_FETCH", 9, groups=bodies)["groups"]
    assert [each["errorCode"] for each in reported] == [0, -1, -1, 25, 25, 113, 113, 0]


# Errors

JOIN: dict[str, Any] = {
    "rebalanceTimeoutMs": 1,
    "subscribedTopicNames": ["foo"],
    "topicPartitions": [],
}
BEFORE_THE_GROUP: list[tuple[dict[str, Any], int, str | None]] = [
    ({"memberId": ""}, 42, "MemberId can't be empty."),
    ({"memberId": " "}, 42, "MemberId can't be empty."),
    ({"groupId": ""}, 42, "GroupId can't be empty."),
    ({"instanceId": ""}, 42, "InstanceId can't be empty."),
    ({"rackId": ""}, 42, "RackId can't be empty."),
    ({"rebalanceTimeoutMs": -1}, 42, "RebalanceTimeoutMs must be provided in first request."),
    ({"topicPartitions": None}, 42, "TopicPartitions must be empty when (re-)joining."),
    (
        {"subscribedTopicNames": None},
        42,
        "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
    ),
    ({"memberEpoch": -2}, 42, "InstanceId can't be null."),
    ({"memberEpoch": -3}, 42, "MemberEpoch is invalid."),
    (
        {"serverAssignor": "sticky"},
        112,
        "ServerAssignor sticky is not supported. Supported assignors: uniform, range.",
    ),
    ({"memberEpoch": 1}, 69, f"Consumer group {GROUP} not found."),
    ({"memberEpoch": -1}, 69, f"Group {GROUP} not found."),
]


@pytest.mark.parametrize(("fields", "code", "message"), BEFORE_THE_GROUP)
def test_errors_without_a_group(fields: dict[str, Any], code: int, message: str | None) -> None:
    bench = ConsumerBench()
    response = bench.beat("a", 0, **{**JOIN, **fields})
    assert (response["errorCode"], response["errorMessage"]) == (code, message)
    assert response["memberId"] is None
    assert not bench.cell.tables.groups.keys()


def test_unknown_members_and_a_full_group() -> None:
    bench = ConsumerBench(group_consumer_max_size=1)
    bench.join("a", instanceId="i")
    refused = bench.beat("b", 2)
    assert refused["errorCode"] == 81, "the size is checked first, as in Kafka"
    full = "The consumer group has reached its maximum capacity of 1 members."
    assert bench.join("b")["errorMessage"] == full
    bench = ConsumerBench()
    bench.join("a", instanceId="i")
    for fields, code in (
        ({}, 25),
        ({"instanceId": "other"}, 25),
        ({"instanceId": "i"}, 82),
    ):
        assert bench.beat("b", 2, **fields)["errorCode"] == code
        assert bench.beat("b", -1, **fields)["errorCode"] == code
    owned = bench.join("b", instanceId="i")
    why = "Static member b with instance id i cannot join the group because the instance id is"
    assert (owned["errorCode"], owned["errorMessage"]) == (111, f"{why} owned by a member.")


def test_errors_without_permissions_for_the_group_or_its_topics() -> None:
    bench = ConsumerBench(authorizer_class_name=CLASS_NAME, super_users="User:ANONYMOUS")
    assert bench.join("a", principal="User:eve")["errorCode"] == 30
    everyone = {"principal": "User:*", "host": "*", "permissionType": 3, "resourcePatternType": 3}
    rights = [{"resourceType": 3, "resourceName": GROUP, "operation": 3}]
    bench.request("CREATE_ACLS", 3, creations=[everyone | rights[0]])
    assert bench.join("a", principal="User:eve")["errorCode"] == 29
    request = {"groupIds": [GROUP], "includeAuthorizedOperations": True}
    bench.join("a")
    shown = bench.request("CONSUMER_GROUP_DESCRIBE", 1, request, principal="User:eve")
    (described,) = shown["groups"]
    assert (described["errorCode"], described["members"]) == (29, [])
    bench.request(
        "CREATE_ACLS",
        3,
        creations=[everyone | {"resourceType": 2, "resourceName": "foo", "operation": 8}],
    )
    assert bench.join("b", principal="User:eve")["errorCode"] == 0


def test_coordinator_is_unavailable_without_the_offsets_topic() -> None:
    bench = ConsumerBench()
    other = Bench()
    assert bench.join("a")["errorCode"] == 0
    body = {"groupId": GROUP, "memberId": "a", "memberEpoch": 0, **JOIN}
    assert other.request("CONSUMER_GROUP_HEARTBEAT", 1, body)["errorCode"] == 16


# Timeouts and leaving


def test_member_without_heartbeats_is_removed_after_its_session() -> None:
    bench = ConsumerBench()
    a, b = Consumer(bench, "a"), Consumer(bench, "b")
    settle(bench, a, b)
    for _ in range(9):
        bench.tick(5000)
        assert a.beat() == 0
    assert list(bench.group().members) == ["a"], "45 s without a heartbeat of b"
    assert a.beat() == 0
    assert a.places() == {("foo", partition) for partition in ALL}
    assert b.beat() == 25


def test_each_heartbeat_restarts_the_session() -> None:
    bench = ConsumerBench(group_consumer_session_timeout_ms=50_000)
    bench.join("a")
    bench.tick(49_999)
    assert bench.beat("a", 2)["errorCode"] == 0
    bench.tick(49_999)
    assert bench.state() == "Stable"
    bench.tick(1)
    assert bench.state() == "Empty"


def test_member_that_does_not_revoke_in_time_is_fenced() -> None:
    bench = ConsumerBench()
    bench.join("a", rebalanceTimeoutMs=10_000)
    bench.tick(1000)
    bench.join("b")
    bench.beat("a", 2)
    for _ in range(10):
        bench.tick(999)
        assert bench.beat("a", 2, owned={"foo": ALL})["errorCode"] == 0
    bench.tick(10)
    assert bench.beat("a", 2)["errorCode"] == 25
    assert bench.reported(bench.beat("b", 3)) == {"foo": ALL}


def test_rebalance_timeout_stops_after_revocation() -> None:
    bench = ConsumerBench()
    bench.join("a", rebalanceTimeoutMs=10_000)
    bench.tick(1000)
    bench.join("b")
    bench.beat("a", 2)
    assert bench.beat("a", 2, owned={"foo": [0, 1, 2]})["memberEpoch"] == 3
    bench.tick(20_000)
    assert bench.state() == "Reconciling"
    assert set(bench.group().members) == {"a", "b"}


def test_last_member_leaves_an_empty_group() -> None:
    bench = ConsumerBench()
    a, b = Consumer(bench, "a"), Consumer(bench, "b")
    settle(bench, a, b)
    response = bench.beat("b", -1)
    fields = {"memberId": "b", "memberEpoch": -1, "heartbeatIntervalMs": 0, "assignment": None}
    assert {name: response[name] for name in fields} == fields
    bench.tick(1000)
    a.beat()
    assert a.owned == {"foo": ALL}
    a.leave()
    assert bench.state() == "Empty"
    described = bench.describe()
    assert (described["groupEpoch"], described["assignmentEpoch"]) == (5, 4)
    assert not bench.cell.tables.pending.keys("timer/group/")


# Static members


def test_static_member_rejoins_with_another_id() -> None:
    bench = ConsumerBench()
    bench.join("a1", instanceId="i")
    bench.tick(1000)
    assert bench.beat("a1", -2, instanceId="i")["memberEpoch"] == -2
    assert bench.group().members["a1"].assigned == {bench.ids["foo"]: dict.fromkeys(ALL, 0)}
    back = bench.join("a2", instanceId="i")
    assert (back["memberEpoch"], bench.reported(back)) == (2, {"foo": ALL})
    assert list(bench.group().members) == ["a2"]
    assert bench.group().group_epoch == 2, "other members need not do anything"
    assert bench.beat("a1", 2, instanceId="i")["errorCode"] == 82
    assert bench.beat("a1", 2)["errorCode"] == 25


def test_replacing_static_member_keeps_the_partitions() -> None:
    # compared with Apache Kafka 4.3.1
    bench = ConsumerBench(group_consumer_assignment_interval_ms=0)
    bench.join("a", instanceId="i")
    bench.join("b")
    bench.join("c")
    had = bench.group().target["a"][bench.ids["foo"]]
    bench.beat("a", -2, instanceId="i")
    bench.join("b", "foo", "bar", instanceId="i")
    assert set(had) <= set(bench.group().target["b"][bench.ids["foo"]])


def test_static_member_that_does_not_return_is_removed_after_its_session() -> None:
    bench = ConsumerBench()
    bench.join("a1", instanceId="i")
    bench.beat("a1", -2, instanceId="i")
    bench.tick(44_999)
    assert bench.join("b", instanceId="i", rebalanceTimeoutMs=-1)["errorCode"] == 42
    bench.tick(1)
    assert bench.state() == "Empty"


def test_operator_removes_a_static_member() -> None:
    bench = ConsumerBench()
    bench.join("a", instanceId="i")
    bench.join("b")
    members = [
        {"memberId": "", "groupInstanceId": "i"},
        {"memberId": "", "groupInstanceId": "j"},
        {"memberId": "x", "groupInstanceId": None},
        {"memberId": "b", "groupInstanceId": None},
    ]
    left = bench.request("LEAVE_GROUP", 5, {"groupId": GROUP, "members": members})
    assert [each["errorCode"] for each in left["members"]] == [0, 25, 25, 0]
    assert bench.state() == "Empty"
    assert bench.group().group_epoch == 4, "one epoch for all members that left together"


# Topics


def test_new_partitions_are_assigned_with_the_next_heartbeat() -> None:
    bench = ConsumerBench()
    bench.join("a")
    bench.tick(1000)
    bench.request("CREATE_PARTITIONS", 3, name="foo", count=8, assignments=None, timeoutMs=1000)
    response = bench.beat("a", 2)
    assert (response["memberEpoch"], bench.reported(response)) == (3, {"foo": list(range(8))})


def test_created_and_deleted_topics_change_the_assignment() -> None:
    bench = ConsumerBench()
    response = bench.join("a", "foo", "baz")
    assert bench.reported(response) == {"foo": ALL}
    bench.tick(1000)
    bench.ids["baz"] = bench.topic("baz", 1)
    assert bench.reported(bench.beat("a", 2)) == {"foo": ALL, "baz": [0]}
    bench.tick(1000)
    bench.request("DELETE_TOPICS", 5, topicNames=["foo"], timeoutMs=1000)
    response = bench.beat("a", 3)
    assert (response["memberEpoch"], bench.reported(response)) == (3, {"baz": [0]})
    assert bench.beat("a", 3, owned={"baz": [0]})["memberEpoch"] == 4
    assert bench.state() == "Stable"


def test_partitions_of_an_unsubscribed_topic_are_revoked_at_once() -> None:
    bench = ConsumerBench()
    bench.join("a", "foo", "bar")
    response = bench.beat("a", 2, subscribedTopicNames=["bar"])
    assert (response["memberEpoch"], bench.reported(response)) == (2, {"bar": [0, 1, 2]})
    assert bench.state() == "Assigning", "less than a second has passed"
    bench.tick(1000)
    assert bench.beat("a", 2, owned={"bar": [0, 1, 2]})["memberEpoch"] == 3


# Assignors


def test_assignor_preferred_by_most_members_is_used() -> None:
    bench = ConsumerBench(group_consumer_assignment_interval_ms=0)
    bench.join("a", "foo", "bar")
    assert bench.describe()["assignorName"] == "uniform"
    bench.join("b", "foo", "bar", serverAssignor="range")
    assert bench.describe()["assignorName"] == "range"
    target = bench.group().target
    assert {member: {k: sorted(v) for k, v in target[member].items()} for member in "ab"} == {
        "a": {bench.ids["foo"]: [0, 1, 2], bench.ids["bar"]: [0, 1]},
        "b": {bench.ids["foo"]: [3, 4, 5], bench.ids["bar"]: [2]},
    }


def test_requesting_member_breaks_a_tie_between_assignors() -> None:
    # compared with Apache Kafka 4.3.1: describe and assignment read different maps
    bench = ConsumerBench(group_consumer_assignment_interval_ms=0)
    bench.join("a", "foo", serverAssignor="range")
    bench.join("b", "foo", serverAssignor="uniform")
    assert bench.describe()["assignorName"] == "uniform"
    bench.beat("b", 3, subscribedTopicNames=["foo", "bar"])
    assert len(bench.group().target["b"][bench.ids["foo"]]) == 2, "evenly, as it has all of bar"
    bench.join("a", "foo", "bar")
    target = bench.group().target["a"]
    assert {topic: sorted(target[topic]) for topic in target} == {
        bench.ids["foo"]: [0, 1, 2],
        bench.ids["bar"]: [0, 1],
    }, "ranges"


def test_first_configured_assignor_is_the_default() -> None:
    bench = ConsumerBench(group_consumer_assignors=("range",))
    bench.join("a")
    assert bench.describe()["assignorName"] == "range"
    assert bench.join("b", serverAssignor="uniform")["errorCode"] == 112


# Properties


@pytest.mark.parametrize("seed", range(12))
def test_no_partition_has_two_owners_and_all_are_assigned_in_the_end(seed: int) -> None:
    """Members join, leave, stop and change subscriptions at random."""
    chance = Random(seed)
    bench = ConsumerBench(group_consumer_assignment_interval_ms=chance.choice([0, 1000]))
    topics = [["foo"], ["bar"], ["foo", "bar"]] if seed % 2 else [["foo", "bar"]]
    consumers = [
        Consumer(bench, f"m{n}", *chance.choice(topics), rebalanceTimeoutMs=5000) for n in range(5)
    ]
    consumers[0].beat()
    for _ in range(150):
        consumer = chance.choice(consumers)
        act = chance.random()
        if act < 0.05 and consumer.epoch:
            consumer.leave()
        elif act < 0.08:
            consumer.epoch, consumer.owned = 0, {}  # restarted without notice
        elif act < 0.1:
            bench.tick(46_000)
        elif act < 0.13:
            bench.reload()
        else:
            consumer.beat()
        bench.tick(chance.choice([0, 10, 300]))
        _one_owner_each(bench, consumers)
    settle(bench, *consumers)
    _one_owner_each(bench, consumers)
    wanted = {topic for consumer in consumers for topic in consumer.topics}
    shared = {place for consumer in consumers for place in consumer.places()}
    counts = {"foo": 6, "bar": 3}
    assert shared == {(topic, number) for topic in wanted for number in range(counts[topic])}
    if seed % 2 == 0:
        sizes = [len(consumer.places()) for consumer in consumers]
        assert max(sizes) - min(sizes) <= 1


def _one_owner_each(bench: ConsumerBench, consumers: list[Consumer]) -> None:
    """Check that members known to the coordinator have disjoint partitions."""
    known = [each for each in consumers if each.member in bench.group().members and each.epoch]
    owned = [place for consumer in known for place in consumer.places()]
    assert len(owned) == len(set(owned)), [(each.member, each.owned) for each in known]


def test_check_finds_violations() -> None:
    bench = ConsumerBench()
    bench.join("a")
    bench.cell.tables.commit()
    assert check.check(bench.cell) == []
    found = []
    broken: list[Callable[[ConsumerGroup], None]] = [
        lambda group: group.partition_epochs.clear(),
        lambda group: group.subscribers.update(foo=2),
        lambda group: group.target.update(b={bench.ids["foo"]: [0]}),
        lambda group: setattr(group, "group_epoch", 1),
        lambda group: group.remove("a"),
    ]
    for breaks in broken:
        breaks(groups.change_stored(bench.cell.tables.of(1), GROUP, ConsumerGroup))
        found.append(" ".join(check.check(bench.cell)))
        bench.cell.tables.rollback()
        assert check.check(bench.cell) == []
    wanted = [
        "partition epochs are",
        "counts of topics",
        "in several targets",
        "above group epoch 1",
        "needs",
    ]
    assert [words in text for words, text in zip(wanted, found, strict=True)] == [True] * 5, found


@pytest.mark.parametrize(("hashes", "names"), [(3, 100), (100, 30)])
def test_cached_hashes_are_bounded(
    monkeypatch: pytest.MonkeyPatch, hashes: int, names: int
) -> None:
    monkeypatch.setattr(target_assignment, "HASHES_MAX", hashes)
    monkeypatch.setattr(target_assignment, "HASHED_NAMES_MAX", names)
    broker = ConsumerBench().cell.broker(1)
    for number in range(20):
        target_assignment.metadata_hash(broker, [f"topic-{number + n}" for n in range(10)])
        assert len(broker.hashes) <= 3
    target_assignment.metadata_hash(broker, map(str, range(1_000)))
    assert len(broker.hashes) == 1
