"""Committed offsets, offsets by time, and deleted records."""

from collections.abc import Callable
from typing import Any

from tests.exam.author import DATA, Author, at, batch, repeat, subscription, until, uuid
from tests.exam.script import Script

OFFSETS = Author("offsets", "Offsets", source="OffsetMetadataManager", severity=DATA)
GROUPS = "GroupMetadataManager"


@OFFSETS
def off_simple_commit(s: Script) -> None:
    """A commit without a member replaces offset and metadata; the group stays Empty."""
    t = s.topic("a", 2)
    g = s.group()
    s.commit(g, t, [(0, 5, "meta"), (1, 0)], "two partitions")
    s.offsets(g, t, [0, 1], "both")
    s.commit(g, t, [(0, 3)], "back to 3, empty metadata")
    s.offsets(g, t, [0, 1], "both again")
    s.describe(g)
    s.list_groups()


@OFFSETS
def off_fetch_uncommitted(s: Script) -> None:
    """Partitions without a committed offset have offset -1 and no error, even if unknown."""
    t = s.topic("a", 2)
    g = s.group()
    s.offsets(g, t, [0, 1], "unknown group")
    s.commit(g, t, [(0, 1)])
    s.offsets(g, t, [1], "not committed")
    s.offsets(g, s.name("none"), [0], "unknown topic")
    s.offsets(g, t, [9], "unknown partition")


@OFFSETS(settings={"offset.metadata.max.bytes": "4096"})
def off_metadata_limit(s: Script) -> None:
    """Metadata above offset.metadata.max.bytes is refused for its partition alone."""
    t = s.topic("a", 2)
    g = s.group()
    s.commit(g, t, [(0, 1, repeat("x", 4096)), (1, 1, repeat("x", 4097))], "4096 and 4097")
    s.offsets(g, t, [0, 1], "what was committed")


@OFFSETS
def off_null_metadata(s: Script) -> None:
    """Null metadata is stored as an empty text."""
    t = s.topic()
    g = s.group()
    s.commit(g, t, [(0, 1, None)], "null")
    s.offsets(g, t, label="fetched")


@OFFSETS(kip="KIP-320")
def off_leader_epoch(s: Script) -> None:
    """The committed leader epoch is returned with the offset."""
    t = s.topic("a", 2)
    g = s.group()
    s.commit(g, t, [(0, 1, "", 0), (1, 2, "", 7)], "epochs 0 and 7")
    s.offsets(g, t, [0, 1], "v8")


@OFFSETS
def off_odd_offsets(s: Script) -> None:
    """The broker stores any offset, even negative ones and those behind the end."""
    t = s.topic("a", 3)
    g = s.group()
    s.commit(g, t, [(0, -1), (1, 1_000_000), (2, -5)], "odd offsets")
    s.offsets(g, t, [0, 1, 2], "what was stored")


@OFFSETS(source="KafkaApis")
def off_commit_unknown_topic(s: Script) -> None:
    """A commit reports unknown topics and partitions one by one."""
    t = s.topic()
    g = s.group()
    s.commit(g, s.name("none"), [(0, 1)], "unknown topic")
    s.commit(g, t, [(0, 1), (4, 1), (-1, 1)], "unknown partitions beside a known one")
    s.offsets(g, label="all")


@OFFSETS(source="KafkaApis")
def off_commit_without_topics(s: Script) -> None:
    """A commit without topics succeeds with an empty response and creates no group."""
    g = s.group()
    body = {
        "groupId": g,
        "generationIdOrMemberEpoch": -1,
        "memberId": "",
        "groupInstanceId": None,
        "topics": [],
    }
    s.call("OffsetCommit", 8, body, "no topics")
    s.describe(g, version=6)


@OFFSETS(source=GROUPS)
def off_commit_with_generation_creates_nothing(s: Script) -> None:
    """A commit with a generation to an unknown group is refused."""
    t = s.topic()
    g = s.group()
    s.commit(g, t, [(0, 2)], "generation 3", member="nobody", gen=3)
    s.offsets(g, t, label="nothing")
    s.list_groups()


@OFFSETS(source=GROUPS)
def off_commit_checks(s: Script) -> None:
    """A commit to a group with members needs a current member id and generation."""
    g = s.group()
    t = s.topic()
    m, gen = s.stable(g)
    s.commit(g, t, [(0, 1)], "current", member=m, gen=gen)
    s.commit(g, t, [(0, 2)], "former generation", member=m, gen=gen - 1)
    s.commit(g, t, [(0, 2)], "next generation", member=m, gen=gen + 1)
    s.commit(g, t, [(0, 2)], "unknown member", member="nobody", gen=gen)
    s.commit(g, t, [(0, 2)], "no member, no generation")
    s.offsets(g, t)


@OFFSETS(source=GROUPS)
def off_commit_during_rebalance(s: Script) -> None:
    """A member may commit while its group prepares a rebalance, but not while it completes one."""
    g = s.group()
    t = s.topic()
    m, gen = s.stable(g)
    s.send("JoinGroup", 3, {**_joining(g)}, "second")
    body = {"groupId": g, "generationId": gen, "memberId": m}
    s.call("Heartbeat", 4, body, until=until("errorCode", 27))
    s.commit(g, t, [(0, 4)], "preparing", member=m, gen=gen)
    s.join(g, m, "rejoin")
    s.receive("second member", "second")
    s.commit(g, t, [(0, 5)], "former generation", member=m, gen=gen)
    s.commit(g, t, [(0, 6)], "completing", member=m, gen=gen + 1)
    s.offsets(g, t)


def _joining(group: Any) -> dict[str, Any]:
    return {
        "groupId": group,
        "sessionTimeoutMs": 30_000,
        "rebalanceTimeoutMs": 30_000,
        "memberId": "",
        "protocolType": "consumer",
        "protocols": [{"name": "range", "metadata": b"m"}],
    }


@OFFSETS(kip="KIP-709")
def off_several_groups(s: Script) -> None:
    """OffsetFetch v8 returns the offsets of several groups, each with its own error."""
    t = s.topic("a", 2)
    g, h = s.group("g"), s.group("h")
    s.commit(g, t, [(0, 1)])
    s.commit(h, t, [(1, 2)])
    groups = [
        {"groupId": g, "topics": None},
        {"groupId": h, "topics": [{"name": t, "partitionIndexes": [0, 1]}]},
        {"groupId": s.group("nobody"), "topics": None},
    ]
    s.call("OffsetFetch", 8, {"groups": groups}, "three groups")
    s.call("OffsetFetch", 8, {"groups": []}, "no groups")


@OFFSETS(kip="KIP-709")
def off_same_group_twice(s: Script) -> None:
    """A group that an OffsetFetch has twice is in the response twice."""
    t = s.topic()
    g = s.group()
    s.commit(g, t, [(0, 1)])
    groups = [{"groupId": g, "topics": None}, {"groupId": g, "topics": None}]
    s.call("OffsetFetch", 8, {"groups": groups}, "twice")


@OFFSETS(kip="KIP-496")
def off_delete(s: Script) -> None:
    """OffsetDelete removes offsets of a group without members; a missing offset is no error."""
    t = s.topic("a", 2)
    g = s.group()
    _delete(s, g, t, [0], "unknown group")
    s.commit(g, t, [(0, 1), (1, 2)])
    _delete(s, g, t, [0], "partition 0")
    _delete(s, g, t, [0], "again")
    _delete(s, g, s.name("none"), [0], "unknown topic")
    s.offsets(g, label="all")


@OFFSETS(kip="KIP-496", source="ClassicGroup")
def off_delete_while_subscribed(s: Script) -> None:
    """OffsetDelete refuses topics to which a member of the group subscribes."""
    t, u = s.topic("a"), s.topic("b")
    g = s.group()
    m, gen = s.stable(g, protos=[("range", subscription(t))])
    s.commit(g, t, [(0, 1)], member=m, gen=gen)
    s.commit(g, u, [(0, 1)], member=m, gen=gen)
    _delete(s, g, t, [0], "subscribed")
    _delete(s, g, u, [0], "not subscribed")
    s.offsets(g, label="all")


@OFFSETS(kip="KIP-496", source="ClassicGroup")
def off_delete_in_other_protocol(s: Script) -> None:
    """OffsetDelete is refused for a group with members that are no consumers."""
    t = s.topic()
    g = s.group()
    s.stable(g, kind="connect")
    _delete(s, g, t, [0], "group of type connect")


def _delete(s: Script, group: Any, topic: Any, parts: list[int], label: str) -> None:
    partitions = [{"partitionIndex": part} for part in parts]
    body = {"groupId": group, "topics": [{"name": topic, "partitions": partitions}]}
    s.call("OffsetDelete", 0, body, label)


@OFFSETS
def off_topic_deleted(s: Script) -> None:
    """The committed offsets of a topic are deleted with the topic."""
    t, u = s.topic("a"), s.topic("b")
    g = s.group()
    s.commit(g, t, [(0, 1)])
    s.commit(g, u, [(0, 2)])
    s.delete_topic(t)
    gone = until("groups.0.topics.0.partitions.0.committedOffset", -1)
    s.offsets(g, t, label="the deleted topic", until=gone)
    s.offsets(g, label="all")


COMMIT_VERSIONS = {
    2: "OffsetCommit v2 has a retention time.",
    5: "OffsetCommit v5 has no retention time.",
    6: "OffsetCommit v6 has leader epochs.",
    7: "OffsetCommit v7 has the instance id.",
    8: "OffsetCommit v8 has tagged fields.",
    9: "OffsetCommit v9 accepts member epochs of KIP-848.",
    10: "OffsetCommit v10 has topic ids in place of names.",
}


def _committed(version: int) -> Callable[[Script], None]:
    def play(s: Script) -> None:
        t = s.topic()
        g = s.group()
        s.commit(g, t, [(0, 4, "m")], "commit", version=version)
        s.commit(g, t, [(9, 4)], "unknown partition", version=version)
        other = uuid("other") if version >= 10 else s.name("none")
        s.commit(g, other, [(0, 4)], "unknown topic", version=version)
        s.commit(s.name("g"), t, [(0, 4)], "unknown member", member="m", gen=1, version=version)
        s.offsets(g, t)

    return play


FETCH_VERSIONS = {
    1: "OffsetFetch v1 has one group and no error of the group.",
    2: "OffsetFetch v2 returns all topics if the request has null.",
    5: "OffsetFetch v5 adds leader epochs.",
    6: "OffsetFetch v6 has tagged fields.",
    7: "OffsetFetch v7 can require stable offsets.",
    8: "OffsetFetch v8 has several groups.",
    9: "OffsetFetch v9 has member id and epoch.",
    10: "OffsetFetch v10 has topic ids in place of names.",
}


def _fetched(version: int) -> Callable[[Script], None]:
    def play(s: Script) -> None:
        t = s.topic("a", 2)
        g = s.group()
        s.commit(g, t, [(0, 4, "m", 0)])
        if version >= 8:
            s.offsets(g, t, [0, 1], "two partitions", version=version)
            s.offsets(g, None, label="all", version=version)
            return
        body = {"groupId": g, "topics": [{"name": t, "partitionIndexes": [0, 1]}]}
        s.call("OffsetFetch", version, body, "two partitions")
        if version >= 2:
            s.call("OffsetFetch", version, {"groupId": g, "topics": None}, "all")

    return play


for _version, _rule in COMMIT_VERSIONS.items():
    OFFSETS.case(f"off_commit_v{_version}", _rule, _committed(_version), source="OffsetCommit")
for _version, _rule in FETCH_VERSIONS.items():
    OFFSETS.case(f"off_fetch_v{_version}", _rule, _fetched(_version), source="OffsetFetch")


@OFFSETS(source="UnifiedLog", kip="KIP-79")
def list_by_time(s: Script) -> None:
    """ListOffsets by time returns the first record with that time or a later one."""
    t = s.topic()
    for ms in (100, 300, 200):
        s.produce(t, batch(2, at=ms, step=10))
    for label, time in (("latest", -1), ("earliest", -2), ("greatest time", -3)):
        s.list_offsets(t, time, label=label)
    for ms in (0, 105, 110, 111, 250, 305, 311):
        s.list_offsets(t, at(ms), label=f"t0+{ms}")


@OFFSETS(source="KafkaApis")
def list_errors(s: Script) -> None:
    """ListOffsets reports unknown topics and partitions."""
    t = s.topic()
    s.list_offsets(t, -1, part=4, label="unknown partition")
    s.list_offsets(t, -1, part=-1, label="partition -1")
    s.list_offsets(s.name("none"), -1, label="unknown topic")


@OFFSETS(source="ListOffsetsRequest")
def list_same_partition_twice(s: Script) -> None:
    """A partition that a ListOffsets has twice is refused."""
    t = s.topic()
    s.fill(t, 2)
    twice = [{"partitionIndex": 0, "timestamp": -1}, {"partitionIndex": 0, "timestamp": -2}]
    body = {"replicaId": -1, "topics": [{"name": t, "partitions": twice}]}
    s.call("ListOffsets", 7, body, "twice")


@OFFSETS(source="UnifiedLog")
def list_of_empty_log(s: Script) -> None:
    """In an empty log, latest and earliest are 0, and no record has a time."""
    t = s.topic()
    for label, time in (("latest", -1), ("earliest", -2), ("greatest time", -3), ("time 0", 0)):
        s.list_offsets(t, time, label=label)


@OFFSETS(source="Partition", kip="KIP-320")
def list_leader_epoch(s: Script) -> None:
    """ListOffsets with a future leader epoch is refused."""
    t = s.topic()
    s.fill(t)
    for epoch in (-1, 0, 4):
        s.list_offsets(t, -1, label=f"current epoch {epoch}", currentLeaderEpoch=epoch)


LISTED_TIMES = {
    -3: "ListOffsets for the greatest timestamp (-3) needs v7.",
    -4: "ListOffsets for the earliest local offset (-4) needs v8.",
    -5: "ListOffsets for the latest tiered offset (-5) needs v9.",
    -6: "ListOffsets for the earliest offset to upload (-6) needs v11.",
    -7: "No version of ListOffsets knows timestamp -7.",
}


def _listed(time: int) -> Callable[[Script], None]:
    def play(s: Script) -> None:
        t = s.topic()
        s.fill(t, 3)
        s.delete_records(t, 1)
        for version in range(1, 12):
            s.list_offsets(t, time, label=f"v{version}", version=version)

    return play


for _time, _rule in LISTED_TIMES.items():
    OFFSETS.case(
        f"list_special_time_{-_time}", _rule, _listed(_time), source="ReplicaManager", kip="KIP-405"
    )


@OFFSETS(source="ReplicaManager", kip="KIP-107")
def records_delete(s: Script) -> None:
    """DeleteRecords moves the log start forward, never back and never behind the end."""
    t = s.topic()
    s.fill(t, 3)
    s.fill(t, 3)
    steps = (
        ("to 2", 2),
        ("to 1: before the start", 1),
        ("behind the end", 7),
        ("-1: to the high watermark", -1),
        ("-2", -2),
    )
    for label, offset in steps:
        s.delete_records(t, offset, label=label)
    s.list_offsets(t, -2, label="earliest")
    s.list_offsets(t, at(0), label="by time: nothing left")


@OFFSETS(source="ReplicaManager", kip="KIP-107")
def records_delete_errors(s: Script) -> None:
    """DeleteRecords reports unknown partitions, and refuses topics that are only compacted."""
    t = s.topic()
    c = s.topic("c", configs={"cleanup.policy": "compact"})
    d = s.topic("d", configs={"cleanup.policy": "compact,delete"})
    s.fill(t)
    s.produce(c, batch(1, keys=[b"k"]))
    s.produce(d, batch(1, keys=[b"k"]))
    s.delete_records(t, 0, part=5, label="unknown partition")
    s.delete_records(s.name("none"), 0, label="unknown topic")
    s.delete_records(c, 1, label="compacted")
    s.delete_records(d, 1, label="compacted and deleted")


@OFFSETS(source="ReplicaManager", kip="KIP-320")
def epoch_ends(s: Script) -> None:
    """OffsetForLeaderEpoch returns the end of the last epoch up to the requested one."""
    t = s.topic()
    s.fill(t, 3)

    def requested(label: str, epoch: int, current: int = -1, part: int = 0) -> None:
        wanted = {"partition": part, "currentLeaderEpoch": current, "leaderEpoch": epoch}
        body = {"replicaId": -1, "topics": [{"topic": t, "partitions": [wanted]}]}
        s.call("OffsetForLeaderEpoch", 4, body, label)

    requested("epoch 0", 0)
    requested("epoch 5", 5)
    requested("epoch -1", -1)
    requested("future current epoch", 0, 9)
    requested("unknown partition", 0, part=7)


def pending(s: Script, parts: int = 2) -> tuple[Any, Any, Any, Any, Any]:
    """Return group, topic and producer of a transaction with offset 7 of partition 0."""
    t = s.topic("a", parts)
    x, g = s.txn_id(), s.group()
    s.commit(g, t, [(part, 3) for part in range(parts)], "")
    p, e = s.init_pid(x)
    s.add_offsets(x, p, e, g)
    s.txn_commit(x, p, e, g, t, [(0, 7)])
    return g, t, x, p, e


def _stable(version: int) -> Callable[[Script], None]:
    def play(s: Script) -> None:
        g, t, x, p, e = pending(s)
        if version < 8:
            topics = [{"name": t, "partitionIndexes": [0, 1]}]
            body: dict[str, Any] = {"groupId": g, "topics": topics, "requireStable": True}
            s.call("OffsetFetch", version, body, "pending")
            s.call("OffsetFetch", version, {**body, "requireStable": False}, "not required")
        else:
            s.offsets(g, t, [0, 1], "pending", stable=True, version=version)
            s.offsets(g, t, [0, 1], "not required", version=version)
        s.end_txn(x, p, e, False)

    return play


for _number in (7, 8, 9, 10):
    OFFSETS.case(
        f"off_stable_v{_number}",
        f"OffsetFetch v{_number} with requireStable reports pending partitions alone as unstable.",
        _stable(_number),
        kip="KIP-447",
        source="OffsetMetadataManager",
        severity=DATA,
    )


@OFFSETS(kip="KIP-447", source="OffsetMetadataManager", severity=DATA)
def off_stable_of_all_topics(s: Script) -> None:
    """OffsetFetch without topics and with requireStable reports all partitions."""
    g, _, x, p, e = pending(s, 1)
    s.offsets(g, None, label="pending", stable=True)
    s.end_txn(x, p, e, True)
    stable = until("groups.0.topics.0.partitions.0.errorCode", 0)
    s.offsets(g, None, label="after the commit", stable=True, until=stable)


@OFFSETS(kip="KIP-447", source="OffsetMetadataManager", severity=DATA)
def off_stable_of_two_groups(s: Script) -> None:
    """Pending offsets of one group do not make those of another one unstable."""
    g, t, x, p, e = pending(s)
    h = s.group("h")
    s.commit(h, t, [(0, 2)], "")
    groups = [
        {"groupId": each, "topics": [{"name": t, "partitionIndexes": [0]}]} for each in (g, h)
    ]
    s.call("OffsetFetch", 8, {"groups": groups, "requireStable": True}, "both groups")
    s.end_txn(x, p, e, False)


@OFFSETS(kip="KIP-447", source="OffsetMetadataManager", severity=DATA)
def off_stable_after_abort(s: Script) -> None:
    """After an abort, the former offset is stable again."""
    g, t, x, p, e = pending(s)
    s.end_txn(x, p, e, False)
    stable = until("groups.0.topics.0.partitions.0.errorCode", 0)
    s.offsets(g, t, label="after the abort", stable=True, until=stable)


@OFFSETS(kip="KIP-447", source="OffsetMetadataManager", severity=DATA)
def off_stable_never_committed(s: Script) -> None:
    """A pending offset makes its partition unstable even if nothing was committed before."""
    t = s.topic("a", 2)
    x, g = s.txn_id(), s.group()
    p, e = s.init_pid(x)
    s.add_offsets(x, p, e, g)
    s.txn_commit(x, p, e, g, t, [(1, 7)])
    s.offsets(g, t, [0, 1], "pending", stable=True)
    s.end_txn(x, p, e, False)


@OFFSETS(kip="KIP-447", source="OffsetMetadataManager", severity=DATA)
def off_stable_of_two_transactions(s: Script) -> None:
    """A partition stays unstable until both transactions with an offset of it have ended."""
    g, t, x, p, e = pending(s)
    y = s.txn_id("u")
    q, f = s.init_pid(y)
    s.add_offsets(y, q, f, g)
    s.txn_commit(y, q, f, g, t, [(0, 9)])
    s.end_txn(x, p, e, False)
    s.wait_txn(x, "CompleteAbort")
    s.offsets(g, t, label="one is open", stable=True)
    s.end_txn(y, q, f, True)
    stable = until("groups.0.topics.0.partitions.0.errorCode", 0)
    s.offsets(g, t, label="both have ended", stable=True, until=stable)


def _old_fetch(version: int) -> Callable[[Script], None]:
    def play(s: Script) -> None:
        t = s.topic()
        topics = [{"name": t, "partitionIndexes": [0]}]
        s.call("OffsetFetch", version, {"groupId": s.group("none"), "topics": topics}, "no group")

    return play


for _number in (1, 2, 3, 5):
    OFFSETS.case(
        f"off_fetch_of_no_group_v{_number}",
        f"OffsetFetch v{_number} of an unknown group returns offset -1 for each partition.",
        _old_fetch(_number),
        source="OffsetFetchResponse",
    )
