"""Classic groups: joining, synchronizing, heartbeats, static members, leaving."""

from collections.abc import Callable
from typing import Any

from tests.exam.author import Author, Ref, repeat, subscription, until, view
from tests.exam.script import Script, join_body, sync_body

CLASSIC = Author("classic_groups", "Classic groups", source="GroupMetadataManager")
REBALANCING = until("errorCode", 27)


def two_members(s: Script, group: Any) -> tuple[Ref, Ref]:
    """Bring a group with two members to generation 2; returns their ids, the leader's first."""
    m = s.new_member(group)
    s.join(group, m, "")
    s.sync(group, m, 1, [(m, b"all")], "")
    n = s.new_member(group, "second")
    s.send("JoinGroup", 7, join_body(group, n), "second")
    body = {"groupId": group, "generationId": 1, "memberId": m}
    s.call("Heartbeat", 4, body, until=REBALANCING)
    s.join(group, m, "")
    s.receive("", "second")
    s.send("SyncGroup", 5, sync_body(group, n, 2), "second")
    s.sync(group, m, 2, [(m, b"left"), (n, b"right")], "")
    s.receive("", "second")
    return m, n


@CLASSIC(kip="KIP-394")
def grp_member_id_required(s: Script) -> None:
    """From JoinGroup v4 on, a member joins with the id that the coordinator generated."""
    g = s.group()
    m = s.join(g, label="v7 without a member id")["memberId"]
    s.join(g, m, "with the generated id")


@CLASSIC(kip="KIP-394")
def grp_old_join_without_id(s: Script) -> None:
    """JoinGroup v3 without a member id joins at once."""
    s.join(s.group(), version=3, label="v3")


@CLASSIC
def grp_unknown_member_joins(s: Script) -> None:
    """A JoinGroup with an id that the coordinator did not generate is refused."""
    g = s.group()
    s.join(g, "made-up", "unknown group")
    s.stable(g)
    s.join(g, "made-up", "known group")


@CLASSIC
def grp_leader_and_follower(s: Script) -> None:
    """A second member causes a rebalance; the leader gets all members and assigns."""
    g = s.group()
    m = s.new_member(g, protos=[("range", b"m1")])
    s.join(g, m, "first", protos=[("range", b"m1")])
    s.sync(g, m, 1, [(m, b"everything")])
    n = s.new_member(g, "second", protos=[("range", b"m2")])
    s.send("JoinGroup", 7, join_body(g, n, [("range", b"m2")]), "second")
    s.heartbeat(g, m, 1, "during the rebalance", until=REBALANCING)
    s.describe(g, "PreparingRebalance")
    s.join(g, m, "leader", protos=[("range", b"m1")])
    s.receive("follower", "second")
    s.describe(g, "CompletingRebalance")
    s.heartbeat(g, m, 2, "while completing")
    s.send("SyncGroup", 5, sync_body(g, n, 2), "second")
    s.sync(g, m, 2, [(m, b"left"), (n, b"right")], "leader synchronizes")
    s.receive("follower synchronizes", "second")
    s.describe(g, "Stable")


@CLASSIC
def grp_heartbeat_errors(s: Script) -> None:
    """A heartbeat needs a known group, a member of it and the current generation."""
    g = s.group()
    s.heartbeat(g, "nobody", 1, "unknown group")
    m, gen = s.stable(g)
    s.heartbeat(g, m, gen, "current")
    s.heartbeat(g, m, gen + 1, "next generation")
    s.heartbeat(g, m, gen - 1, "former generation")
    s.heartbeat(g, "nobody", gen, "unknown member")
    s.heartbeat("", m, gen, "empty group id")


@CLASSIC
def grp_sync_errors(s: Script) -> None:
    """SyncGroup needs a known group, a member of it and the current generation."""
    g = s.group()
    s.sync(g, "nobody", 1, label="unknown group")
    m, gen = s.stable(g)
    s.sync(g, m, gen + 1, label="next generation")
    s.sync(g, m, gen - 1, label="former generation")
    s.sync(g, "nobody", gen, label="unknown member")


@CLASSIC
def grp_sync_again(s: Script) -> None:
    """A member of a stable group that synchronizes again gets its assignment."""
    g = s.group()
    m, gen = s.stable(g)
    s.sync(g, m, gen, label="no assignments")
    s.sync(g, m, gen, [(m, b"other")], "other assignments")


@CLASSIC(kip="KIP-559")
def grp_sync_other_protocol(s: Script) -> None:
    """SyncGroup v5 with another protocol name or type than the group's is refused."""
    g = s.group()
    m = s.new_member(g)
    s.join(g, m, "")
    s.sync(g, m, 1, [(m, b"all")], "other name", proto="roundrobin")
    s.sync(g, m, 1, [(m, b"all")], "other type", kind="connect")
    s.sync(g, m, 1, [(m, b"all")], "neither", proto=None, kind=None)


@CLASSIC
def grp_sync_by_follower_waits(s: Script) -> None:
    """A follower waits in SyncGroup for the assignment of the leader."""
    g = s.group()
    m = s.new_member(g)
    s.join(g, m, "")
    s.sync(g, m, 1, [(m, b"all")], "")
    n = s.new_member(g, "second")
    s.send("JoinGroup", 7, join_body(g, n), "second")
    s.heartbeat(g, m, 1, "", until=REBALANCING)
    s.join(g, m, "")
    s.receive("", "second")
    s.send("SyncGroup", 5, sync_body(g, n, 2), "second")
    s.silent("the leader has not assigned", "second")
    s.sync(g, m, 2, [(n, b"right")], "leader, nothing for itself")
    s.receive("follower", "second")


@CLASSIC
def grp_sync_without_follower(s: Script) -> None:
    """A member that the leader does not assign gets an empty assignment."""
    g = s.group()
    m = s.new_member(g)
    s.join(g, m, "")
    s.sync(g, m, 1, [("nobody", b"x")], "assigned to another member")
    s.describe(g)


@CLASSIC
def grp_inconsistent_protocol(s: Script) -> None:
    """Members must have the protocol type of their group and a protocol in common."""
    g = s.group()
    s.stable(g)
    s.join(g, kind="connect", label="other type", version=3)
    s.join(g, protos=[("roundrobin", b"")], label="no common protocol", version=3)


@CLASSIC
def grp_no_protocols(s: Script) -> None:
    """A member needs a protocol type and at least one protocol."""
    s.join(s.group("h"), protos=[], label="no protocols", version=3)
    s.join(s.group("i"), kind="", label="empty type", version=3)


@CLASSIC
def grp_protocol_vote(s: Script) -> None:
    """The group uses the first protocol of most members that all of them support."""
    g = s.group()
    both = [("range", b"1"), ("roundrobin", b"2")]
    m = s.new_member(g, protos=both)
    s.join(g, m, "range is first", protos=both)
    s.sync(g, m, 1, [(m, b"")], "")
    n = s.new_member(g, "second", protos=[("roundrobin", b"3")])
    s.send("JoinGroup", 7, join_body(g, n, [("roundrobin", b"3")]), "second")
    s.heartbeat(g, m, 1, "", until=REBALANCING)
    s.join(g, m, "only roundrobin is common", protos=both)
    s.receive("second member", "second")


@CLASSIC(
    settings={"group.min.session.timeout.ms": "6000", "group.max.session.timeout.ms": "1800000"}
)
def grp_session_timeout_bounds(s: Script) -> None:
    """The session timeout must be within the broker's bounds."""
    for ms in (5999, 6000, 1_800_000, 1_800_001):
        s.join(s.group(f"g{ms}"), session=ms, version=3, label=f"{ms} ms")


@CLASSIC(limit_s=60)
def grp_session_expires(s: Script) -> None:
    """A member without heartbeats is removed after its session timeout."""
    g = s.group()
    m, gen = s.stable(g, session=6000)
    gone = until("groups.0.groupState", "Stable", is_not=True)
    s.call("DescribeGroups", 5, {"groups": [g]}, "expired", until=gone)
    s.heartbeat(g, m, gen, "heartbeat")


@CLASSIC(limit_s=60)
def grp_rebalance_timeout(s: Script) -> None:
    """A member that does not rejoin within its rebalance timeout is removed."""
    g = s.group()
    m = s.new_member(g, rebalance=1000)
    s.join(g, m, "", rebalance=1000)
    s.sync(g, m, 1, [(m, b"")], "")
    n = s.new_member(g, "second", rebalance=1000)
    s.send("JoinGroup", 7, join_body(g, n, rebalance=1000), "second")
    s.receive("alone in generation 2", "second")
    s.heartbeat(g, m, 1, "the first member")


@CLASSIC
def grp_leader_rejoins(s: Script) -> None:
    """The leader of a stable group causes a rebalance if it joins again."""
    g = s.group()
    m, _ = s.stable(g)
    s.join(g, m, "leader, same metadata")


@CLASSIC
def grp_follower_rejoins(s: Script) -> None:
    """A follower that joins again with the same metadata gets the current generation."""
    g = s.group()
    _, n = two_members(s, g)
    s.join(g, n, "same metadata", on="second")
    s.describe(g)


@CLASSIC
def grp_follower_changes_metadata(s: Script) -> None:
    """A follower with other metadata causes a rebalance."""
    g = s.group()
    m, n = two_members(s, g)
    s.send("JoinGroup", 7, join_body(g, n, [("range", b"new")]), "second")
    s.heartbeat(g, m, 2, "leader", until=REBALANCING)


@CLASSIC
def grp_join_while_completing(s: Script) -> None:
    """A member that joins again before the leader assigns gets the same generation."""
    g = s.group()
    m = s.new_member(g)
    s.join(g, m, "first")
    s.join(g, m, "again")


@CLASSIC
def grp_leave(s: Script) -> None:
    """A group whose last member leaves is Empty with the next generation."""
    g = s.group()
    m, gen = s.stable(g)
    s.leave(g, [(m, None)])
    s.heartbeat(g, m, gen, "heartbeat")
    s.describe(g)
    s.leave(g, [(m, None)], "again")


@CLASSIC(kip="KIP-345")
def grp_leave_batch(s: Script) -> None:
    """LeaveGroup v3 removes several members, each with its own error."""
    g = s.group()
    m = s.join(g, instance="i1", label="")["memberId"]
    s.sync(g, m, 1, [(m, b"x")], "", instance="i1")
    members = [("", "i1"), ("nobody", None), ("", "i9")]
    s.leave(g, members, "by instance, unknown member, unknown instance")
    s.describe(g, "empty")
    s.leave(s.group("none"), [("x", None)], "unknown group")


@CLASSIC(kip="KIP-345")
def grp_leave_static_with_other_id(s: Script) -> None:
    """LeaveGroup with an instance and another member's id is fenced."""
    g = s.group()
    m = s.join(g, instance="i1", label="")["memberId"]
    s.sync(g, m, 1, [(m, b"x")], "", instance="i1")
    s.leave(g, [("other", "i1")], "other id")
    s.leave(g, [(m, "i1")], "own id")


@CLASSIC
def grp_leave_one_of_two(s: Script) -> None:
    """When one of two members leaves, the other one has to rejoin."""
    g = s.group()
    m, n = two_members(s, g)
    s.leave(g, [(n, None)])
    s.heartbeat(g, m, 2, "the other one")
    s.join(g, m, "rejoins")


@CLASSIC
def grp_leader_leaves(s: Script) -> None:
    """When the leader leaves, another member becomes the leader."""
    g = s.group()
    m, n = two_members(s, g)
    s.leave(g, [(m, None)])
    s.join(g, n, "the follower rejoins")


@CLASSIC(kip="KIP-345")
def grp_static_takes_over(s: Script) -> None:
    """A static member that joins without an id replaces its former id without a rebalance."""
    g = s.group()
    m = s.join(g, instance="i1", label="first")["memberId"]
    s.sync(g, m, 1, [(m, b"all")], instance="i1")
    n = s.join(g, instance="i1", label="again without an id")["memberId"]
    s.sync(g, n, 1, label="the new id", instance="i1")
    s.describe(g)


@CLASSIC(kip="KIP-345")
def grp_static_fencing(s: Script) -> None:
    """The former id of a static member is fenced if the request names its instance."""
    g = s.group()
    t = s.topic()
    m = s.join(g, instance="i1", label="")["memberId"]
    s.sync(g, m, 1, [(m, b"all")], "", instance="i1")
    s.join(g, instance="i1", label="")
    s.heartbeat(g, m, 1, "Heartbeat with the instance", instance="i1")
    s.heartbeat(g, m, 1, "Heartbeat without it")
    s.sync(g, m, 1, label="SyncGroup", instance="i1")
    s.join(g, m, "JoinGroup", instance="i1")
    s.commit(g, t, [(0, 1)], member=m, gen=1, instance="i1")


@CLASSIC(kip="KIP-345")
def grp_static_with_new_metadata(s: Script) -> None:
    """A static member that comes back with other metadata causes a rebalance."""
    g = s.group()
    m = s.join(g, instance="i1", label="")["memberId"]
    s.sync(g, m, 1, [(m, b"all")], "", instance="i1")
    s.join(g, instance="i1", protos=[("range", b"new")], label="other metadata")


@CLASSIC(kip="KIP-345")
def grp_static_unknown_id(s: Script) -> None:
    """A static member with an id in a group that does not know its instance is refused."""
    g = s.group()
    s.join(g, "made-up", "unknown instance", instance="i1")
    s.heartbeat(g, "made-up", 1, "unknown instance", instance="i1")


@CLASSIC(kip="KIP-345")
def grp_two_instances(s: Script) -> None:
    """Two static members of a group are described with their instances."""
    g = s.group()
    m = s.join(g, instance="i1", label="")["memberId"]
    s.sync(g, m, 1, [(m, b"all")], "", instance="i1")
    s.send("JoinGroup", 7, join_body(g, instance="i2"), "second")
    s.heartbeat(g, m, 1, "", instance="i1", until=REBALANCING)
    s.join(g, m, "first", instance="i1")
    s.receive("second", "second")
    s.describe(g)


@CLASSIC(kip="KIP-814")
def grp_skip_assignment(s: Script) -> None:
    """A static leader that comes back is told to skip its assignment (JoinGroup v9)."""
    g = s.group()
    m = s.join(g, instance="i1", label="first", version=9)["memberId"]
    s.sync(g, m, 1, [(m, b"all")], "", instance="i1")
    s.join(g, instance="i1", label="again", version=9)


@CLASSIC(kip="KIP-800")
def grp_reasons_are_ignored(s: Script) -> None:
    """JoinGroup v8 and LeaveGroup v5 accept a reason."""
    g = s.group()
    body = {**join_body(g, version=8), "reason": "rebooted"}
    m = s.call("JoinGroup", 8, body, "join")["memberId"]
    s.call("JoinGroup", 8, {**join_body(g, m, version=8), "reason": "rebooted"}, "again")
    members = [{"memberId": m, "groupInstanceId": None, "reason": "done"}]
    s.call("LeaveGroup", 5, {"groupId": g, "members": members}, "leave")


@CLASSIC
def grp_empty_group_id(s: Script) -> None:
    """JoinGroup, SyncGroup and LeaveGroup refuse the empty group id."""
    s.group()
    s.join("", version=3, label="JoinGroup")
    s.sync("", "m", 1, label="SyncGroup")
    s.leave("", [("m", None)], "LeaveGroup")


@CLASSIC
def grp_states_listed(s: Script) -> None:
    """ListGroups shows state and type, and filters by both without regard to case."""
    g, h = s.group("g"), s.group("h")
    t = s.topic()
    m, _ = s.stable(g)
    s.commit(h, t, [(0, 1)])
    s.list_groups("both")
    s.list_groups("Stable", statesFilter=["Stable"])
    s.list_groups("lower case", statesFilter=["empty"])
    s.list_groups("unknown state", statesFilter=["Nonsense"])
    s.list_groups("classic", typesFilter=["classic"])
    s.list_groups("consumer", typesFilter=["consumer"])
    s.list_groups("v4", version=4)
    s.leave(g, [(m, None)])
    s.list_groups("at the end")


@CLASSIC(kip="KIP-1043")
def grp_describe_unknown(s: Script) -> None:
    """An unknown group is Dead up to DescribeGroups v5, and an error from v6 on."""
    g = s.group()
    s.describe(g, "v5")
    s.describe(g, "v6", version=6)


@CLASSIC
def grp_describe_several(s: Script) -> None:
    """DescribeGroups describes each group of a request, also one that it has twice."""
    g, h = s.group("g"), s.group("h")
    s.stable(g)
    s.call("DescribeGroups", 5, {"groups": [g, h, g]}, "g, h, g")


@CLASSIC(kip="KIP-430")
def grp_authorized_operations(s: Script) -> None:
    """DescribeGroups v3 returns authorized operations on request."""
    g = s.group()
    s.stable(g)
    body = {"groups": [g], "includeAuthorizedOperations": True}
    s.call("DescribeGroups", 5, body, "requested")


@CLASSIC
def grp_delete(s: Script) -> None:
    """DeleteGroups removes groups without members, with their offsets."""
    g, h = s.group("g"), s.group("h")
    t = s.topic()
    m, _ = s.stable(g)
    s.commit(h, t, [(0, 1)])
    s.delete_groups(g, h, s.group("none"), label="with a member, empty, unknown")
    s.offsets(h, t, label="offsets of the deleted group")
    s.leave(g, [(m, None)])
    s.delete_groups(g, label="after leaving")
    s.describe(g)


@CLASSIC(kip="KIP-394")
def grp_delete_with_pending_member(s: Script) -> None:
    """A group with offsets and a generated id but without members can be deleted."""
    g, t = s.group(), s.topic()
    s.commit(g, t, [(0, 1)])  # a group without records is visible or not, by chance
    m = s.new_member(g)
    s.describe(g, "an id is generated", version=6)
    s.delete_groups(g)
    s.join(g, m, "the generated id")


@CLASSIC
def grp_join_of_deleted_group(s: Script) -> None:
    """A deleted group can be joined again and starts with generation 1."""
    g = s.group()
    m, _ = s.stable(g)
    s.leave(g, [(m, None)])
    s.delete_groups(g)
    n = s.new_member(g)
    s.join(g, n, "joins again")


@CLASSIC
def grp_generation_continues(s: Script) -> None:
    """An empty group continues its generations."""
    g = s.group()
    m, _ = s.stable(g)
    s.leave(g, [(m, None)])
    n = s.new_member(g)
    s.join(g, n, "next generation")


@CLASSIC
def grp_first_commit_then_members(s: Script) -> None:
    """A group that commits made can be joined, and keeps its offsets."""
    g = s.group()
    t = s.topic()
    s.commit(g, t, [(0, 5)])
    s.stable(g)
    s.offsets(g, t)
    s.describe(g)


@CLASSIC
def grp_large_metadata(s: Script) -> None:
    """Metadata and assignments of 50 kB are returned unchanged."""
    g = s.group()
    m = s.new_member(g)
    s.join(g, m, "", protos=[("range", subscription(repeat("x", 30_000)))])
    s.sync(g, m, 1, [(m, subscription(repeat("y", 30_000)))], "sync")


JOIN_VERSIONS = {
    0: "JoinGroup v0 has no rebalance timeout.",
    1: "JoinGroup v1 has a rebalance timeout.",
    2: "JoinGroup v2 has a throttle time.",
    4: "JoinGroup v4 requires a member id.",
    5: "JoinGroup v5 has the instance id.",
    6: "JoinGroup v6 has tagged fields.",
    7: "JoinGroup v7 returns the protocol type.",
    9: "JoinGroup v9 returns whether to skip the assignment.",
}
SYNC_VERSIONS = {0: (), 1: (), 3: (), 4: (), 5: ()}


def _joined(version: int) -> Callable[[Script], None]:
    def play(s: Script) -> None:
        g = s.group()
        m = s.join(g, "", "first", version=version)["memberId"]
        if version >= 4:
            s.join(g, m, "with the id", version=version)
        s.join(g, "made-up", "unknown id", version=version)
        s.join("", "", "empty group id", version=version)

    return play


for _version, _rule in JOIN_VERSIONS.items():
    CLASSIC.case(f"grp_join_v{_version}", _rule, _joined(_version), source="JoinGroupResponse")


@CLASSIC(source="SyncGroupResponse")
def grp_old_syncs(s: Script) -> None:
    """SyncGroup v0 to v5 return the assignment; from v5 on, protocol type and name."""
    g = s.group()
    m, gen = s.stable(g)
    for version in SYNC_VERSIONS:
        s.sync(g, m, gen, label=f"v{version}", version=version)


@CLASSIC(source="HeartbeatResponse")
def grp_old_heartbeats(s: Script) -> None:
    """Heartbeat v0 to v4 return the same errors."""
    g = s.group()
    m, gen = s.stable(g)
    for version in range(5):
        s.heartbeat(g, m, gen, f"v{version}", version=version)
        s.heartbeat(g, m, gen + 1, f"v{version}, next generation", version=version)


@CLASSIC(source="LeaveGroupResponse")
def grp_old_leaves(s: Script) -> None:
    """LeaveGroup v0 to v2 have one member and its error in the response."""
    for version in range(3):
        g = s.group(f"g{version}")
        m, _ = s.stable(g)
        s.leave(g, [("nobody", None)], f"v{version}, unknown member", version=version)
        s.leave(g, [(m, None)], f"v{version}", version=version)


@CLASSIC(source="KafkaApis", kip="KIP-699")
def grp_find_coordinator(s: Script) -> None:
    """FindCoordinator v4 finds several coordinators at once; keys may repeat."""
    g = s.group()
    shown = view(without=["host", "port"])
    s.call("FindCoordinator", 3, {"key": g, "keyType": 0}, "v3", view=shown)
    for label, keys in (("three keys", [g, s.group("h"), g]), ("no keys", [])):
        s.call("FindCoordinator", 4, {"keyType": 0, "coordinatorKeys": keys}, label, view=shown)


@CLASSIC(source="KafkaApis")
def grp_find_coordinator_of_unknown_type(s: Script) -> None:
    """FindCoordinator refuses an unknown type of key."""
    g = s.group()
    s.call("FindCoordinator", 4, {"keyType": 9, "coordinatorKeys": [g]}, "type 9")
    s.call("FindCoordinator", 3, {"keyType": -1, "key": g}, "type -1")


@CLASSIC
def grp_sync_while_preparing(s: Script) -> None:
    """SyncGroup while a group prepares a rebalance tells the member to join again."""
    g = s.group()
    m, gen = s.stable(g)
    n = s.new_member(g, "two")
    s.send("JoinGroup", 7, join_body(g, n), "two")
    preparing = until("errorCode", 27)
    body = {"groupId": g, "generationId": gen, "memberId": m}
    s.call("Heartbeat", 4, body, until=preparing)
    s.sync(g, m, gen, label="SyncGroup of the first member")
