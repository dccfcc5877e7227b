"""Streams groups (KIP-1071)."""

from collections.abc import Callable
from typing import Any

from tests.exam.author import Author, Ref, until, uuid, view
from tests.exam.script import Script

STREAMS = Author(
    "streams_groups",
    "Streams groups",
    kip="KIP-1071",
    source="GroupMetadataManager",
    features={"streams.version": 1},
    settings={"group.streams.heartbeat.interval.ms": "5000"},
)
ASSIGNED = until("activeTasks.0.subtopologyId", None, is_not=True)
NO_TASKS: dict[str, Any] = {"activeTasks": [], "standbyTasks": [], "warmupTasks": []}


def beat(s: Script, group: Any, member: Any, epoch: Any, label: str = "", **more: Any) -> Ref:
    """Send a heartbeat of a streams group's member."""
    call = {name: more.pop(name) for name in ("until", "view", "follow") if name in more}
    body = {
        "groupId": group,
        "memberId": member,
        "memberEpoch": epoch,
        "endpointInformationEpoch": 0,
        **more,
    }
    return s.call("StreamsGroupHeartbeat", 0, body, label, **call)


def subtopology(*sources: Any, name: str = "0", **more: Any) -> dict[str, Any]:
    """Return a subtopology that reads topics."""
    return {
        "subtopologyId": name,
        "sourceTopics": list(sources),
        "sourceTopicRegex": [],
        "stateChangelogTopics": [],
        "repartitionSinkTopics": [],
        "repartitionSourceTopics": [],
        "copartitionGroups": [],
        **more,
    }


def topology(*parts: dict[str, Any], epoch: int = 0) -> dict[str, Any]:
    """Return a topology."""
    return {"epoch": epoch, "subtopologies": list(parts)}


def internal(name: Any, partitions: int = 0, **more: Any) -> dict[str, Any]:
    """Return an internal topic of a topology."""
    return {
        "name": name,
        "partitions": partitions,
        "replicationFactor": 1,
        "topicConfigs": [],
        **more,
    }


def joining(runs: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return the fields of a first heartbeat."""
    return {
        "rebalanceTimeoutMs": 30_000,
        "topology": runs,
        **NO_TASKS,
        "processId": "process",
        "clientTags": [],
        **more,
    }


def describe(s: Script, group: Any, label: str = "StreamsGroupDescribe") -> Ref:
    """Describe a streams group."""
    shown = view(without=["topicConfigs", "assignmentEpoch"])
    return s.call("StreamsGroupDescribe", 0, {"groupIds": [group]}, label, view=shown)


def joined(s: Script, parts: int = 2) -> tuple[Any, Any, Any, Ref]:
    """Return group, topic, the only member and its epoch."""
    g, t, m = s.group(), s.topic("a", parts), uuid("m1")
    fields = joining(topology(subtopology(t)))
    e = beat(s, g, m, 0, until=ASSIGNED, **fields)["memberEpoch"]
    owned = [{"subtopologyId": "0", "partitions": list(range(parts))}]
    beat(s, g, m, e, **{**NO_TASKS, "activeTasks": owned})
    return g, t, m, e


@STREAMS
def streams_join(s: Script) -> None:
    """The only member gets a task for each partition of the source topic."""
    g, t, m = s.group(), s.topic("a", 2), uuid("m1")
    fields = joining(topology(subtopology(t)))
    e = beat(s, g, m, 0, "join", until=ASSIGNED, **fields)["memberEpoch"]
    beat(s, g, m, e, "heartbeat")
    describe(s, g)
    s.list_groups()


@STREAMS
def streams_leave(s: Script) -> None:
    """Epoch -1 leaves the group, which can then be deleted."""
    g, _, m, e = joined(s)
    s.delete_groups(g, label="with a member")
    beat(s, g, m, -1, "leave")
    beat(s, g, m, e, "heartbeat afterwards")
    describe(s, g, "empty")
    s.delete_groups(g, label="empty")
    describe(s, g, "deleted")


@STREAMS
def streams_epochs(s: Script) -> None:
    """Heartbeats with a wrong epoch or of an unknown member are refused."""
    g, _, m, e = joined(s)
    beat(s, g, m, e + 9, "future epoch")
    beat(s, g, uuid("other"), 1, "unknown member")
    beat(s, g, uuid("other"), -1, "unknown member leaves")
    beat(s, g, m, -5, "epoch -5")


@STREAMS
def streams_missing_source(s: Script) -> None:
    """A topology with a missing source topic has a status and no tasks."""
    g, m = s.group(), uuid("m1")
    beat(s, g, m, 0, "join", **joining(topology(subtopology(s.name("none")))))
    describe(s, g)


@STREAMS(is_single=True)
def streams_internal_topics(s: Script) -> None:
    """Missing changelog topics are created by the coordinator, with a status meanwhile."""
    g, t, m = s.group(), s.topic("a", 2), uuid("m1")
    changelog = internal(s.name("changelog"))
    runs = topology(subtopology(t, stateChangelogTopics=[changelog]))
    known = until("activeTasks.0.subtopologyId", None, is_not=True)
    beat(s, g, m, 0, "join", until=known, **joining(runs))
    s.metadata([{"name": s.name("changelog")}], "the changelog topic")


@STREAMS
def streams_two_subtopologies(s: Script) -> None:
    """A repartition topic connects two subtopologies and gets its number of partitions."""
    g, t, m = s.group(), s.topic("a", 2), uuid("m1")
    between = s.name("repartition")
    runs = topology(
        subtopology(t, repartitionSinkTopics=[between]),
        subtopology(name="1", repartitionSourceTopics=[internal(between)]),
    )
    both = until("activeTasks.1.subtopologyId", None, is_not=True)
    beat(s, g, m, 0, "join", until=both, **joining(runs))
    describe(s, g)


@STREAMS
def streams_copartition_error(s: Script) -> None:
    """Copartitioned topics with different numbers of partitions are a status, not an error."""
    g, t, u, m = s.group(), s.topic("a", 1), s.topic("b", 2), uuid("m1")
    groups = [{"sourceTopics": [0, 1], "sourceTopicRegex": [], "repartitionSourceTopics": []}]
    runs = topology(subtopology(t, u, copartitionGroups=groups))
    known = until("status.0.statusCode", 2)
    beat(s, g, m, 0, "join", until=known, **joining(runs))


BAD_JOINS: dict[str, tuple[str, Callable[[Script, Any], dict[str, Any]]]] = {
    "without_topology": (
        "A first heartbeat needs a topology.",
        lambda s, t: {**joining({}), "topology": None},
    ),
    "without_timeout": (
        "A streams member's first heartbeat needs a rebalance timeout.",
        lambda s, t: {**joining(topology(subtopology(t))), "rebalanceTimeoutMs": -1},
    ),
    "without_process": (
        "A first heartbeat may omit the process id.",
        lambda s, t: {**joining(topology(subtopology(t))), "processId": None},
    ),
    "empty_process": (
        "A process id may be empty.",
        lambda s, t: {**joining(topology(subtopology(t))), "processId": ""},
    ),
    "without_tasks": (
        "A first heartbeat needs empty lists of tasks.",
        lambda s, t: {**joining(topology(subtopology(t))), "activeTasks": None},
    ),
    "with_tasks": (
        "A first heartbeat must not own tasks.",
        lambda s, t: {
            **joining(topology(subtopology(t))),
            "activeTasks": [{"subtopologyId": "0", "partitions": [0]}],
        },
    ),
    "empty_instance": (
        "A streams member must not have an empty instance id.",
        lambda s, t: {**joining(topology(subtopology(t))), "instanceId": ""},
    ),
    "empty_topology": (
        "A topology without subtopologies is accepted.",
        lambda s, t: joining(topology()),
    ),
    "twice_a_subtopology": (
        "Two subtopologies with the same id are an unknown server error.",
        lambda s, t: joining(topology(subtopology(t), subtopology(t))),
    ),
    "negative_partitions": (
        "A repartition topic with -1 partitions is an unknown server error.",
        lambda s, t: joining(
            topology(subtopology(t, repartitionSourceTopics=[internal(s.name("r"), -1)]))
        ),
    ),
    "client_tags": (
        "A first heartbeat may have client tags.",
        lambda s, t: joining(topology(subtopology(t)), clientTags=[{"key": "zone", "value": "a"}]),
    ),
    "bad_regex": (
        "A source topic that is a pattern must be a valid regular expression.",
        lambda s, t: joining(topology(subtopology(sourceTopicRegex=["("]))),
    ),
}


KNOWN = {
    "negative_partitions": until("errorCode", -1),
    "client_tags": ASSIGNED,
    "without_process": ASSIGNED,
    "empty_process": ASSIGNED,
}
"""How the response shows that the coordinator knows the topic."""


def _bad(name: str, fields: Callable[[Script, Any], dict[str, Any]]) -> Callable[[Script], None]:
    def play(s: Script) -> None:
        g, t = s.group(), s.topic()
        shown = view(only=["errorCode", "errorMessage", "statusCode"], without=NOT_SHOWN)
        known = KNOWN.get(name)
        beat(s, g, uuid("m1"), 0, "join", view=shown, until=known, **fields(s, t))

    return play


NOT_SHOWN = ["activeTasks", "partitionsByUserEndpoint"]
"""Not compared where a topic may be unknown to the coordinator yet."""

for _name, (_rule, _fields) in BAD_JOINS.items():
    STREAMS.case(f"streams_join_{_name}", _rule, _bad(_name, _fields), source="KafkaApis")


@STREAMS
def streams_empty_ids(s: Script) -> None:
    """A heartbeat needs a group id and a member id."""
    g, t = s.group(), s.topic()
    runs = topology(subtopology(t))
    beat(s, "", uuid("m1"), 0, "empty group id", **joining(runs))
    beat(s, g, "", 0, "empty member id", **joining(runs))


@STREAMS
def streams_stale_topology(s: Script) -> None:
    """A member with another topology, in the same or in a newer epoch, is refused."""
    g, t, m = s.group(), s.topic("a"), uuid("m1")
    runs = topology(subtopology(t), epoch=3)
    beat(s, g, m, 0, until=ASSIGNED, **joining(runs))
    other = topology(subtopology(t, name="x"), epoch=3)
    beat(s, g, uuid("m2"), 0, "other topology, same epoch", **joining(other))
    newer = topology(subtopology(t), epoch=4)
    shown = view(without=["activeTasks", "standbyTasks", "warmupTasks", "memberEpoch"])
    beat(s, g, uuid("m3"), 0, "newer epoch", view=shown, **joining(newer))


@STREAMS
def streams_static_member(s: Script) -> None:
    """Static members are refused: they are not implemented in this release."""
    g, t, m = s.group(), s.topic("a"), uuid("m1")
    runs = joining(topology(subtopology(t)), instanceId="i1")
    shown = view(only=["errorCode", "errorMessage"], without=NOT_SHOWN)
    beat(s, g, m, 0, "join", view=shown, **runs)
    beat(s, g, m, -2, "leaves for a while", view=shown, instanceId="i1")


@STREAMS
def streams_shutdown(s: Script) -> None:
    """A member that asks for a shutdown of the application sets a status for all members."""
    g, _, m, e = joined(s)
    beat(s, g, m, e, "shutdownApplication", shutdownApplication=True)


@STREAMS
def streams_classic_apis(s: Script) -> None:
    """A streams group refuses members of other kinds."""
    g, t, _, _ = joined(s)
    s.join(g, label="JoinGroup")
    body = {
        "groupId": g,
        "memberId": uuid("c"),
        "memberEpoch": 0,
        "rebalanceTimeoutMs": 30_000,
        "subscribedTopicNames": [t],
        "topicPartitions": [],
    }
    s.call("ConsumerGroupHeartbeat", 1, body, "ConsumerGroupHeartbeat")
    s.call(
        "ShareGroupHeartbeat",
        1,
        {"groupId": g, "memberId": uuid("c"), "memberEpoch": 0, "subscribedTopicNames": [t]},
        "ShareGroupHeartbeat",
    )


@STREAMS
def streams_join_of_other_kinds(s: Script) -> None:
    """A streams member cannot join a group of another kind that has members."""
    g, t = s.group(), s.topic()
    s.stable(g)
    beat(s, g, uuid("m1"), 0, "join", **joining(topology(subtopology(t))))


@STREAMS
def streams_commit(s: Script) -> None:
    """OffsetCommit v9 of a streams member needs its current epoch."""
    g, t, m, e = joined(s)
    s.commit(g, t, [(0, 3)], "current epoch", member=m, gen=e, version=9)
    s.commit(g, t, [(0, 4)], "future epoch", member=m, gen=e + 1, version=9)
    s.commit(g, t, [(0, 4)], "unknown member", member="nobody", gen=e, version=9)
    s.commit(g, t, [(0, 4)], "no member", version=9)
    s.offsets(g, t)


@STREAMS
def streams_fetch_offsets(s: Script) -> None:
    """OffsetFetch v9 of a streams member needs its current epoch."""
    g, t, m, e = joined(s)
    s.commit(g, t, [(0, 3)], member=m, gen=e, version=9)
    for label, member, epoch in (("current", m, e), ("future", m, e + 1), ("unknown", "n", e)):
        wanted = {"name": t, "partitionIndexes": [0]}
        group = {"groupId": g, "memberId": member, "memberEpoch": epoch, "topics": [wanted]}
        s.call("OffsetFetch", 9, {"groups": [group]}, label)


@STREAMS
def streams_describe_errors(s: Script) -> None:
    """StreamsGroupDescribe reports unknown groups, groups of another kind and an empty id."""
    g, h = s.group("g"), s.group("h")
    s.stable(g)
    s.call("StreamsGroupDescribe", 0, {"groupIds": [g, h, ""]}, "classic, unknown, empty")
