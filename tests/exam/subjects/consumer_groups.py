"""Consumer groups of the new protocol (KIP-848)."""

from collections.abc import Callable
from typing import Any

from tests.exam.author import Author, Ref, concat, repeat, until, uuid, view
from tests.exam.script import Script

CONSUMER = Author(
    "consumer_groups",
    "Consumer groups (KIP-848)",
    kip="KIP-848",
    source="GroupMetadataManager",
    features={"group.version": 1},
    settings={"group.consumer.heartbeat.interval.ms": "5000"},
)
API = "ConsumerGroupHeartbeat"
ASSIGNED = until("assignment.topicPartitions.0.topicId", None, is_not=True)
"""Coordinators learn of a new topic a moment later than its leader."""

TWO_PARTITIONS = until("assignment.topicPartitions.0.partitions.1", None, is_not=True)
LATE = view(without=["assignmentEpoch"])
"""Assignments of a group are computed at most every second."""

BOTH = until("assignment.topicPartitions.1.topicId", None, is_not=True)
"""Two topics are assigned."""


def beat(
    s: Script, group: Any, member: Any, epoch: Any, label: str = "", version: int = 1, **more: Any
) -> Ref:
    """Send a heartbeat; `more` are fields, `on` and `until` as of `call`."""
    call = {name: more.pop(name) for name in ("on", "until", "view") if name in more}
    if "until" in call and label != "join":
        call["follow"] = ["memberEpoch"]
    body = {"groupId": group, "memberId": member, "memberEpoch": epoch, **more}
    return s.call(API, version, body, label, **call)


def joining(*topics: Any, **more: Any) -> dict[str, Any]:
    """Return the fields of a first heartbeat."""
    return {
        "rebalanceTimeoutMs": 30_000,
        "subscribedTopicNames": list(topics),
        "topicPartitions": [],
        **more,
    }


def owning(topic: Any, *parts: int) -> dict[str, Any]:
    """Return the field of owned partitions."""
    return {"topicPartitions": [{"topicId": topic.id, "partitions": list(parts)}]}


def describe(s: Script, group: Any, label: str = "ConsumerGroupDescribe", **more: Any) -> Ref:
    """Describe a consumer group."""
    return s.call("ConsumerGroupDescribe", 1, {"groupIds": [group]}, label, **more)


def joined(s: Script, parts: int = 3) -> tuple[Any, Any, Any, Ref]:
    """Return group, topic, member id and epoch of the only member."""
    g, t, m = s.group(), s.topic("a", parts), uuid("m1")
    epoch = beat(s, g, m, 0, until=ASSIGNED, **joining(t))["memberEpoch"]
    beat(s, g, m, epoch, **owning(t, *range(parts)))
    return g, t, m, epoch


@CONSUMER
def cons_join(s: Script) -> None:
    """The only member gets all partitions at once; later heartbeats have no assignment."""
    g, t, m = s.group(), s.topic("a", 3), uuid("m1")
    e = beat(s, g, m, 0, "join", until=ASSIGNED, **joining(t))["memberEpoch"]
    beat(s, g, m, e, "heartbeat")
    beat(s, g, m, e, "owned partitions", **owning(t, 0, 1, 2))
    describe(s, g)
    s.list_groups()


@CONSUMER
def cons_leave(s: Script) -> None:
    """Epoch -1 leaves the group, which then is Empty and can be deleted."""
    g, _, m, e = joined(s)
    beat(s, g, m, -1, "leave")
    beat(s, g, m, e, "heartbeat afterwards")
    describe(s, g, "empty", view=LATE)
    s.delete_groups(g)
    describe(s, g, "deleted")


@CONSUMER
def cons_epochs(s: Script) -> None:
    """A heartbeat with a future epoch, or with an epoch below -2, is refused."""
    g, _, m, e = joined(s)
    beat(s, g, m, e + 7, "future epoch")
    beat(s, g, m, e, "current")
    beat(s, g, m, -3, "epoch -3")


@CONSUMER
def cons_join_again(s: Script) -> None:
    """A known member that joins again with epoch 0 gets its assignment again."""
    g, t, m, _ = joined(s)
    beat(s, g, m, 0, "epoch 0", **joining(t))


def two_members(s: Script, label: str = "") -> tuple[Any, Any, Any, Any, Ref, Ref]:
    """Return group, topic, both members and their epochs; each has one of two partitions."""
    g, t, m, e = joined(s, 2)
    n = uuid("m2")
    f = beat(s, g, n, 0, **joining(t))["memberEpoch"]
    shown = view(without=["memberEpoch"])
    revoke = label and f"{label}: first is asked to revoke"
    beat(s, g, m, e, revoke, until=ASSIGNED, view=shown)
    moved = beat(s, g, m, e, label and f"{label}: first has revoked", **owning(t, 0))
    second = beat(s, g, n, f, label and f"{label}: second", until=ASSIGNED)
    return g, t, m, n, moved["memberEpoch"], second["memberEpoch"]


@CONSUMER
def cons_second_member(s: Script) -> None:
    """Partitions move to a second member after the first one has revoked them."""
    g, _, m, _, e, _ = two_members(s, "reconciliation")
    beat(s, g, m, e, "first goes on")
    describe(s, g, "reconciled")


@CONSUMER
def cons_member_leaves(s: Script) -> None:
    """The partitions of a member that leaves go to the other one."""
    g, t, m, n, e, _ = two_members(s)
    beat(s, g, n, -1, "second leaves")
    beat(s, g, m, e, "first gets all", until=TWO_PARTITIONS, **owning(t, 0))
    describe(s, g)


@CONSUMER
def cons_two_topics(s: Script) -> None:
    """The range assignor gives each member a contiguous range of each topic."""
    g, t, u = s.group(), s.topic("a", 2), s.topic("b", 2)
    beat(s, g, uuid("m1"), 0, "join", until=BOTH, **joining(t, u), serverAssignor="range")
    describe(s, g)


@CONSUMER
def cons_assignors(s: Script) -> None:
    """A member may name a server assignor; an unknown one is refused."""
    g, t = s.group(), s.topic("a", 2)
    beat(s, g, uuid("m1"), 0, "unknown", **joining(t), serverAssignor="nonsense")
    uniform = {**joining(t), "serverAssignor": "uniform"}
    beat(s, g, uuid("m1"), 0, "uniform", until=ASSIGNED, **uniform)
    describe(s, g)


@CONSUMER
def cons_unknown_topic(s: Script) -> None:
    """A member may subscribe to a topic that does not exist yet and is assigned it later."""
    g, m = s.group(), uuid("m1")
    e = beat(s, g, m, 0, "nothing to assign", **joining(s.name("later")))["memberEpoch"]
    s.topic("later", 2)
    news = until("assignment", None, is_not=True)
    beat(s, g, m, e, "after its creation", until=news)


@CONSUMER
def cons_change_subscription(s: Script) -> None:
    """A changed subscription bumps the group epoch and changes the assignment."""
    g, t, m, e = joined(s, 2)
    u = s.topic("b")
    owned = owning(t, 0, 1)
    beat(s, g, m, e, "both topics", until=BOTH, subscribedTopicNames=[t, u], **owned)
    describe(s, g)


@CONSUMER
def cons_no_subscription(s: Script) -> None:
    """A member may subscribe to nothing."""
    g = s.group()
    beat(s, g, uuid("m1"), 0, "empty list", **joining())
    describe(s, g)


BAD_JOINS: dict[str, tuple[str, dict[str, Any]]] = {
    "no_subscription": (
        "A first heartbeat needs a subscription.",
        {"rebalanceTimeoutMs": 30_000, "topicPartitions": []},
    ),
    "no_timeout": (
        "A first heartbeat needs a rebalance timeout.",
        {"subscribedTopicNames": ["x"], "topicPartitions": []},
    ),
    "no_partitions": (
        "A first heartbeat needs an empty list of owned partitions.",
        {"subscribedTopicNames": ["x"], "rebalanceTimeoutMs": 30_000},
    ),
    "owned_partitions": (
        "A first heartbeat must not own partitions.",
        {
            "subscribedTopicNames": ["x"],
            "rebalanceTimeoutMs": 30_000,
            "topicPartitions": [{"topicId": uuid("t"), "partitions": [0]}],
        },
    ),
    "empty_instance": (
        "An instance id must not be empty.",
        {**joining("x"), "instanceId": ""},
    ),
    "empty_rack": ("A rack id must not be empty.", {**joining("x"), "rackId": ""}),
    "empty_assignor": (
        "The name of a server assignor must not be empty.",
        {**joining("x"), "serverAssignor": ""},
    ),
    "bad_regex": (
        "A regular expression that cannot be parsed is refused.",
        {**joining(), "subscribedTopicNames": None, "subscribedTopicRegex": "(["},
    ),
}


def _bad_join(fields: dict[str, Any]) -> Callable[[Script], None]:
    def play(s: Script) -> None:
        g = s.group()
        beat(s, g, uuid("m1"), 0, "join", **fields)
        describe(s, g)

    return play


for _name, (_rule, _fields) in BAD_JOINS.items():
    CONSUMER.case(f"cons_join_{_name}", _rule, _bad_join(_fields), source="KafkaApis")


@CONSUMER
def cons_empty_ids(s: Script) -> None:
    """A heartbeat needs a group id, and from v1 on a member id."""
    g, t = s.group(), s.topic()
    beat(s, "", uuid("m1"), 0, "empty group id", **joining(t))
    beat(s, g, "", 0, "empty member id", **joining(t))
    s.call(
        API,
        0,
        {"groupId": g, "memberId": "", "memberEpoch": 0, **joining(t)},
        "empty member id, v0",
        until=ASSIGNED,
        follow=["memberId", "memberEpoch"],
    )


@CONSUMER
def cons_unknown_member(s: Script) -> None:
    """A heartbeat with an epoch needs a known group and member."""
    g = s.group()
    beat(s, g, uuid("m1"), 3, "unknown group")
    joined(s)
    beat(s, g, uuid("other"), 1, "unknown member")
    beat(s, g, uuid("other"), -1, "unknown member leaves")


@CONSUMER(limit_s=80)
def cons_static_member(s: Script) -> None:
    """A static member that leaves with epoch -2 keeps its assignment for its instance."""
    g, t, m = s.group(), s.topic("a", 2), uuid("m1")
    e = beat(s, g, m, 0, "join", until=ASSIGNED, **joining(t), instanceId="i1")["memberEpoch"]
    beat(s, g, uuid("m2"), 0, "the instance is in use", **joining(t), instanceId="i1")
    beat(s, g, m, e, "goes on", instanceId="i1")
    beat(s, g, m, -2, "leaves for a while", instanceId="i1")
    describe(s, g, "away")
    beat(s, g, uuid("m2"), 0, "another member takes over", **joining(t), instanceId="i1")
    beat(s, g, m, e, "the former member", instanceId="i1")
    describe(s, g, "taken over")


@CONSUMER
def cons_static_leaves_for_good(s: Script) -> None:
    """A static member that leaves with epoch -1 is removed."""
    g, t, m = s.group(), s.topic("a", 2), uuid("m1")
    beat(s, g, m, 0, "join", until=ASSIGNED, **joining(t), instanceId="i1")
    beat(s, g, m, -1, "leave", instanceId="i1")
    describe(s, g, view=LATE)


@CONSUMER
def cons_epoch_minus_2_without_instance(s: Script) -> None:
    """Epoch -2 needs an instance id."""
    g, _, m, _ = joined(s)
    beat(s, g, m, -2, "no instance")


@CONSUMER
def cons_commit(s: Script) -> None:
    """OffsetCommit v9 of a member needs its current epoch."""
    g, t, m, e = joined(s)
    s.commit(g, t, [(0, 3)], "current epoch", member=m, gen=e, version=9)
    s.commit(g, t, [(0, 4)], "future epoch", member=m, gen=e + 1, version=9)
    s.commit(g, t, [(0, 4)], "former epoch", member=m, gen=e - 1, version=9)
    s.commit(g, t, [(0, 4)], "unknown member", member="nobody", gen=e, version=9)
    s.commit(g, t, [(0, 4)], "no member", version=9)
    s.offsets(g, t)


@CONSUMER
def cons_commit_old_version(s: Script) -> None:
    """OffsetCommit v8 of a member of a consumer group is refused as an unsupported version."""
    g, t, m, e = joined(s)
    s.commit(g, t, [(0, 3)], "current epoch", member=m, gen=e, version=8)
    s.commit(g, t, [(0, 4)], "future epoch", member=m, gen=e + 1, version=8)


@CONSUMER
def cons_fetch_offsets(s: Script) -> None:
    """OffsetFetch v9 of a member needs its current epoch."""
    g, t, m, e = joined(s)
    s.commit(g, t, [(0, 3)], member=m, gen=e, version=9)

    def fetched(label: str, member: Any, epoch: Any) -> None:
        wanted = {"name": t, "partitionIndexes": [0]}
        group = {"groupId": g, "memberId": member, "memberEpoch": epoch, "topics": [wanted]}
        s.call("OffsetFetch", 9, {"groups": [group]}, label)

    fetched("current epoch", m, e)
    fetched("future epoch", m, e + 1)
    fetched("unknown member", "nobody", e)
    fetched("no member", None, -1)


@CONSUMER
def cons_classic_apis(s: Script) -> None:
    """A consumer group refuses the APIs of classic groups."""
    g, _, m, e = joined(s)
    s.heartbeat(g, m, e, "Heartbeat")
    s.sync(g, m, e, label="SyncGroup")
    s.leave(g, [("nobody", None)], "LeaveGroup")
    s.describe(g, "DescribeGroups v5")
    s.describe(g, "DescribeGroups v6", version=6)


@CONSUMER
def cons_delete_with_members(s: Script) -> None:
    """A consumer group with members cannot be deleted."""
    g, _, m, _ = joined(s)
    s.delete_groups(g, label="with a member")
    beat(s, g, m, -1)
    s.delete_groups(g, label="without members")


@CONSUMER
def cons_delete_offsets(s: Script) -> None:
    """OffsetDelete refuses topics to which a member subscribes."""
    g, t, m, e = joined(s)
    s.commit(g, t, [(0, 3)], member=m, gen=e, version=9)
    partitions = [{"partitionIndex": 0}]
    body = {"groupId": g, "topics": [{"name": t, "partitions": partitions}]}
    s.call("OffsetDelete", 0, body, "subscribed")
    beat(s, g, m, -1)
    s.call("OffsetDelete", 0, body, "after leaving")


@CONSUMER
def cons_regex(s: Script) -> None:
    """A member may subscribe by a regular expression (RE2)."""
    g, t, m = s.group(), s.topic("a", 2), uuid("m1")
    del t
    pattern = s.name("a")
    fields = {"subscribedTopicNames": None, "subscribedTopicRegex": pattern}
    e = beat(s, g, m, 0, "join", **{**joining(), **fields})["memberEpoch"]
    news = until("assignment", None, is_not=True)
    beat(s, g, m, e, "assigned", until=news, topicPartitions=[])
    describe(s, g)


@CONSUMER
def cons_regex_and_names(s: Script) -> None:
    """A member may subscribe by names and by a regular expression at once."""
    g, t, m = s.group(), s.topic("a"), uuid("m1")
    fields = {"subscribedTopicNames": [t], "subscribedTopicRegex": s.name("nothing")}
    beat(s, g, m, 0, "join", until=ASSIGNED, **{**joining(), **fields})
    describe(s, g)


@CONSUMER
def cons_more_partitions(s: Script) -> None:
    """New partitions of a subscribed topic are assigned."""
    g, t, m, e = joined(s, 1)
    topics = [{"name": t, "count": 3, "assignments": None}]
    s.call("CreatePartitions", 3, {"topics": topics, "timeoutMs": 10_000})
    news = until("assignment", None, is_not=True)
    beat(s, g, m, e, "three partitions", until=news)


@CONSUMER
def cons_topic_deleted(s: Script) -> None:
    """Partitions of a deleted topic leave the assignment."""
    g, t, u, m = s.group(), s.topic("a"), s.topic("b"), uuid("m1")
    e = beat(s, g, m, 0, until=BOTH, **joining(t, u))["memberEpoch"]
    s.delete_topic(u)
    news = until("assignment", None, is_not=True)
    beat(s, g, m, e, "b is gone", until=news, **owning(t, 0))


@CONSUMER
def cons_describe_errors(s: Script) -> None:
    """ConsumerGroupDescribe reports unknown and classic groups, and an empty id."""
    g, h = s.group("g"), s.group("h")
    s.stable(g)
    s.call("ConsumerGroupDescribe", 1, {"groupIds": [g, h, ""]}, "classic, unknown, empty")
    s.call("ConsumerGroupDescribe", 1, {"groupIds": []}, "none")


@CONSUMER
def cons_describe_version_0(s: Script) -> None:
    """ConsumerGroupDescribe v0 has no member type."""
    g, *_ = joined(s)
    s.call("ConsumerGroupDescribe", 0, {"groupIds": [g]}, "v0")


@CONSUMER
def cons_join_of_classic_group(s: Script) -> None:
    """A classic group with members that are no consumers cannot become a consumer group."""
    g, t = s.group(), s.topic()
    s.stable(g, kind="connect")
    beat(s, g, uuid("m1"), 0, "join", **joining(t))


@CONSUMER
def cons_upgrade_of_empty_group(s: Script) -> None:
    """An empty classic group becomes a consumer group and keeps its offsets."""
    g, t = s.group(), s.topic()
    s.commit(g, t, [(0, 8)])
    beat(s, g, uuid("m1"), 0, "join", until=ASSIGNED, **joining(t))
    s.offsets(g, t)
    s.list_groups()


@CONSUMER
def cons_downgrade_of_empty_group(s: Script) -> None:
    """An empty consumer group becomes a classic group when a classic member joins."""
    g, _, m, _ = joined(s)
    beat(s, g, m, -1)
    s.join(g, version=3, label="classic member")
    s.list_groups()


@CONSUMER(limit_s=40)
def cons_rebalance_timeout(s: Script) -> None:
    """A member that does not revoke within its rebalance timeout is removed."""
    g, t, m = s.group(), s.topic("a", 2), uuid("m1")
    e = beat(s, g, m, 0, until=ASSIGNED, **joining(t, rebalanceTimeoutMs=1000))["memberEpoch"]
    n = uuid("m2")
    f = beat(s, g, n, 0, **joining(t))["memberEpoch"]
    beat(s, g, m, e, "is asked to revoke", until=ASSIGNED, view=view(without=["memberEpoch"]))
    beat(s, g, n, f, "the other one gets all", until=TWO_PARTITIONS, topicPartitions=[])
    beat(s, g, m, e, "heartbeat of the removed one")


@CONSUMER
def cons_many_names(s: Script) -> None:
    """A subscription may repeat a name and have unknown ones."""
    g, t, m = s.group(), s.topic("a"), uuid("m1")
    names = joining(t, t, s.name("none"), repeat("n", 249))
    beat(s, g, m, 0, "join", until=ASSIGNED, **names)
    describe(s, g)


def by_pattern(pattern: Any, **more: Any) -> dict[str, Any]:
    """Return the fields of a first heartbeat with a regular expression."""
    fields = {"subscribedTopicNames": None, "subscribedTopicRegex": pattern}
    return {**joining(), **fields, **more}


NEWS = until("assignment", None, is_not=True)


@CONSUMER
def cons_regex_of_two_topics(s: Script) -> None:
    """A regular expression assigns all topics that match as a whole, and no other one."""
    g, m = s.group(), uuid("m1")
    s.topic("a1"), s.topic("a2"), s.topic("b1")
    e = beat(s, g, m, 0, "join", **by_pattern(concat(s.name("a"), "[0-9]")))["memberEpoch"]
    beat(s, g, m, e, "assigned", until=BOTH, topicPartitions=[])


@CONSUMER
def cons_regex_is_anchored(s: Script) -> None:
    """A regular expression that matches the beginning of a name alone assigns nothing."""
    g, m = s.group(), uuid("m1")
    s.topic("abc"), s.topic("a")
    e = beat(s, g, m, 0, "join", **by_pattern(s.name("a")))["memberEpoch"]
    beat(s, g, m, e, "assigned", until=NEWS, topicPartitions=[])
    describe(s, g)


@CONSUMER
def cons_regex_changes(s: Script) -> None:
    """A heartbeat may change the regular expression, and the assignment follows."""
    g, m = s.group(), uuid("m1")
    a, b = s.topic("a"), s.topic("b")
    e = beat(s, g, m, 0, **by_pattern(s.name("a")))["memberEpoch"]
    e = beat(s, g, m, e, "a", until=NEWS, topicPartitions=[])["memberEpoch"]
    e = beat(s, g, m, e, **owning(a, 0))["memberEpoch"]
    e = beat(s, g, m, e, "b", subscribedTopicRegex=s.name("b"))["memberEpoch"]
    lost = until("assignment.topicPartitions.0.topicId", None, is_not=True)
    beat(s, g, m, e, "owns nothing", until=lost, topicPartitions=[])
    del b


@CONSUMER
def cons_regex_is_removed(s: Script) -> None:
    """An empty regular expression ends the subscription by it."""
    g, m = s.group(), uuid("m1")
    a = s.topic("a")
    e = beat(s, g, m, 0, **by_pattern(s.name("a")))["memberEpoch"]
    e = beat(s, g, m, e, "a", until=NEWS, topicPartitions=[])["memberEpoch"]
    e = beat(s, g, m, e, **owning(a, 0))["memberEpoch"]
    beat(s, g, m, e, "removed", until=NEWS, subscribedTopicRegex="")
    describe(s, g)


BAD_PATTERNS = {
    "bracket": ("An unclosed bracket is no regular expression.", "["),
    "repetition": ("A repetition without an operand is no regular expression.", "*a"),
    "lookahead": ("A lookahead is refused: RE2 does not have it.", "(?=a)b"),
    "backreference": ("A backreference is refused: RE2 does not have it.", r"(a)\1"),
}


def _bad_pattern(pattern: str) -> Callable[[Script], None]:
    def play(s: Script) -> None:
        g, m = s.group(), uuid("m1")
        beat(s, g, m, 0, "join", **by_pattern(pattern))
        t = s.topic("a")
        e = beat(s, g, m, 0, until=ASSIGNED, **joining(t))["memberEpoch"]
        beat(s, g, m, e, "later heartbeat", subscribedTopicRegex=pattern)

    return play


for _name, (_rule, _pattern) in BAD_PATTERNS.items():
    CONSUMER.case(f"cons_regex_bad_{_name}", _rule, _bad_pattern(_pattern))


@CONSUMER
def cons_regex_of_two_members(s: Script) -> None:
    """Two members with one regular expression share the partitions of its topics."""
    g, m1, m2 = s.group(), uuid("m1"), uuid("m2")
    t = s.topic("a", 2)
    pattern = concat(s.name("a"), ".*")
    e = beat(s, g, m1, 0, **by_pattern(pattern))["memberEpoch"]
    e = beat(s, g, m1, e, "both", until=TWO_PARTITIONS, topicPartitions=[])["memberEpoch"]
    e = beat(s, g, m1, e, **owning(t, 0, 1))["memberEpoch"]
    beat(s, g, m2, 0, "second member", view=LATE, **by_pattern(pattern))
    one = until("assignment.topicPartitions.0.partitions.0", None, is_not=True)
    beat(s, g, m1, e, "one is revoked", until=one)
