"""Share groups (KIP-932)."""

from collections.abc import Callable, Sequence
from typing import Any

from tests.exam.author import DATA, Author, Ref, batch, until, uuid, view
from tests.exam.script import Script

SHARE = Author(
    "share_groups",
    "Share groups",
    kip="KIP-932",
    source="SharePartition",
    severity=DATA,
    features={"share.version": 1},
    settings={
        "group.share.heartbeat.interval.ms": "5000",
        "group.share.delivery.count.limit": "5",
        "group.share.record.lock.duration.ms": "30000",
    },
)
GROUP_RESOURCE = 32
SET, UNSET = 0, 1
ACCEPT, RELEASE, REJECT, RENEW, GAP = 1, 2, 3, 4, 0


def beat(s: Script, group: Any, member: Any, epoch: Any, label: str = "", **more: Any) -> Ref:
    """Send a heartbeat of a share group's member."""
    call = {name: more.pop(name) for name in ("until",) if name in more}
    body = {"groupId": group, "memberId": member, "memberEpoch": epoch, **more}
    return s.call("ShareGroupHeartbeat", 1, body, label, **call)


def describe(s: Script, group: Any, label: str = "ShareGroupDescribe", **more: Any) -> Ref:
    """Describe a share group."""
    return s.call("ShareGroupDescribe", 1, {"groupIds": [group]}, label, **more)


def fetch(
    s: Script,
    group: Any,
    member: Any,
    epoch: Any,
    topic: Any = None,
    label: str = "",
    acks: Sequence[tuple[int, int, int]] = (),
    parts: Sequence[int] = (0,),
    version: int = 1,
    **more: Any,
) -> Ref:
    """Fetch; acks as (first offset, last offset, type). A topic adds its partitions."""
    call = {name: more.pop(name) for name in ("on", "until") if name in more}
    topics = [] if topic is None else [_topic(topic, parts, acks)]
    body = {
        "groupId": group,
        "memberId": member,
        "shareSessionEpoch": epoch,
        "maxWaitMs": 500,
        "minBytes": 1,
        "maxBytes": 1 << 20,
        "maxRecords": 500,
        "batchSize": 500,
        "topics": topics,
        "forgottenTopicsData": [],
        **more,
    }
    return s.call("ShareFetch", version, body, label, **call)


def acknowledge(
    s: Script,
    group: Any,
    member: Any,
    epoch: Any,
    topic: Any,
    acks: Sequence[tuple[int, int, int]],
    label: str = "",
    part: int = 0,
) -> Ref:
    """Acknowledge without fetching."""
    body = {
        "groupId": group,
        "memberId": member,
        "shareSessionEpoch": epoch,
        "topics": [_topic(topic, [part], acks)],
    }
    return s.call("ShareAcknowledge", 1, body, label)


def _topic(
    topic: Any, parts: Sequence[int], acks: Sequence[tuple[int, int, int]]
) -> dict[str, Any]:
    batches = [
        {"firstOffset": first, "lastOffset": last, "acknowledgeTypes": [kind]}
        for first, last, kind in acks
    ]
    partitions = [{"partitionIndex": p, "acknowledgementBatches": batches} for p in parts]
    return {"topicId": getattr(topic, "id", topic), "partitions": partitions}


def set_config(
    s: Script, group: Any, name: str, value: str, operation: int = SET, label: str = ""
) -> None:
    """Set or unset a configuration of a group."""
    config = {"name": name, "configOperation": operation, "value": value}
    resource = {"resourceType": GROUP_RESOURCE, "resourceName": group, "configs": [config]}
    body = {"resources": [resource], "validateOnly": False}
    s.call("IncrementalAlterConfigs", 1, body, label)


def wait_config(s: Script, group: Any, name: str, value: str) -> None:
    """Wait until the broker knows a configuration of a group.

    Kafka applies it a moment later, but before it serves a topic that is created after this.
    """
    resource = {"resourceType": GROUP_RESOURCE, "resourceName": group, "configurationKeys": [name]}
    known = until("results.0.configs.0.value", value)
    s.call("DescribeConfigs", 4, {"resources": [resource]}, until=known)


def sharing(s: Script, records: int = 0, parts: int = 1) -> tuple[Any, Any, Any]:
    """Return group, topic and the only member of a group that starts with the first record."""
    g, m = s.group(), uuid("m1")
    set_config(s, g, "share.auto.offset.reset", "earliest")
    wait_config(s, g, "share.auto.offset.reset", "earliest")
    t = s.topic("a", parts)
    joined = until("assignment.topicPartitions.0.topicId", None, is_not=True)
    beat(s, g, m, 0, subscribedTopicNames=[t], until=joined)
    for _ in range(records):
        s.fill(t)
    return g, t, m


def first(s: Script, records: int = 3, **more: Any) -> tuple[Any, Any, Any]:
    """As `sharing`, after a first fetch has acquired all records."""
    g, t, m = sharing(s, records)
    has_all = until("responses.0.partitions.0.acquiredRecords.0.firstOffset", 0)
    fetch(s, g, m, 0, t, until=has_all, **more)
    return g, t, m


@SHARE(source="GroupMetadataManager")
def share_join(s: Script) -> None:
    """The only member of a share group is assigned all partitions."""
    g, t, m = s.group(), s.topic("a", 2), uuid("m1")
    assigned = until("assignment.topicPartitions.0.topicId", None, is_not=True)
    e = beat(s, g, m, 0, "join", subscribedTopicNames=[t], until=assigned)["memberEpoch"]
    beat(s, g, m, e, "heartbeat")
    describe(s, g)
    s.list_groups()


@SHARE(source="GroupMetadataManager")
def share_leave(s: Script) -> None:
    """Epoch -1 leaves the group, which can be deleted when it is empty."""
    g, _, m = sharing(s)
    s.delete_groups(g, label="with a member")
    beat(s, g, m, -1, "leave")
    describe(s, g, "empty", view=view(without=["assignmentEpoch"]))
    s.delete_groups(g, label="empty")
    describe(s, g, "deleted")


@SHARE(source="GroupMetadataManager")
def share_epochs(s: Script) -> None:
    """A heartbeat with a wrong epoch is fenced."""
    g, _, m = sharing(s)
    beat(s, g, m, 99, "future epoch")
    beat(s, g, m, -2, "epoch -2")
    beat(s, g, uuid("other"), 1, "unknown member")
    beat(s, g, uuid("other"), -1, "unknown member leaves")


@SHARE(source="KafkaApis")
def share_heartbeat_errors(s: Script) -> None:
    """A first heartbeat needs group id, member id and a subscription."""
    g, t = s.group(), s.topic()
    beat(s, "", uuid("m1"), 0, "empty group id", subscribedTopicNames=[t])
    beat(s, g, "", 0, "empty member id", subscribedTopicNames=[t])
    beat(s, g, uuid("m1"), 0, "no subscription")
    beat(s, g, uuid("m1"), 0, "empty rack", subscribedTopicNames=[t], rackId="")
    beat(s, g, uuid("m1"), 4, "unknown group")


@SHARE(source="GroupMetadataManager")
def share_two_members(s: Script) -> None:
    """Both members of a share group may have the only partition."""
    g, t, m = sharing(s)
    n = uuid("m2")
    assigned = until("assignment.topicPartitions.0.topicId", None, is_not=True)
    beat(s, g, n, 0, "second joins", subscribedTopicNames=[t], until=assigned)
    del m
    describe(s, g)


@SHARE(source="GroupMetadataManager")
def share_other_kinds(s: Script) -> None:
    """A group is of one kind: members and commits of other kinds are refused."""
    g, t, _ = sharing(s)
    h = s.group("h")
    s.stable(h)
    body = {
        "groupId": g,
        "memberId": uuid("c"),
        "memberEpoch": 0,
        "rebalanceTimeoutMs": 30_000,
        "subscribedTopicNames": [t],
        "topicPartitions": [],
    }
    s.call("ConsumerGroupHeartbeat", 1, body, "a consumer joins a share group")
    s.join(g, label="a classic member joins a share group")
    beat(s, h, uuid("m1"), 0, "a share member joins a classic group", subscribedTopicNames=[t])
    s.commit(g, t, [(0, 1)], "OffsetCommit")


@SHARE
def share_acquire(s: Script) -> None:
    """A fetch acquires records with delivery count 1."""
    g, t, m = sharing(s, 3)
    got = until("responses.0.partitions.0.acquiredRecords.0.firstOffset", 0)
    fetch(s, g, m, 0, t, "three records", until=got)


@SHARE
def share_accept(s: Script) -> None:
    """Accepted records are not delivered again, and the start offset moves."""
    g, t, m = first(s)
    acknowledge(s, g, m, 1, t, [(0, 2, ACCEPT)], "accept all")
    fetch(s, g, m, 2, None, "nothing left")
    offsets(s, g, t)


@SHARE
def share_release(s: Script) -> None:
    """Released records are delivered again with a greater delivery count."""
    g, t, m = first(s)
    acknowledge(s, g, m, 1, t, [(0, 2, RELEASE)], "release all")
    fetch(s, g, m, 2, None, "again")


@SHARE
def share_reject(s: Script) -> None:
    """Rejected records are not delivered again."""
    g, t, m = first(s)
    acknowledge(s, g, m, 1, t, [(0, 2, REJECT)], "reject all")
    fetch(s, g, m, 2, None, "nothing left")


@SHARE
def share_mixed(s: Script) -> None:
    """One acknowledgement may accept, release and reject different records."""
    g, t, m = first(s)
    kinds = [(0, 0, ACCEPT), (1, 1, RELEASE), (2, 2, REJECT)]
    acknowledge(s, g, m, 1, t, kinds, "one of each")
    fetch(s, g, m, 2, None, "the released one")


@SHARE
def share_acknowledge_by_fetch(s: Script) -> None:
    """A fetch may acknowledge, and its response has both errors."""
    g, t, m = first(s)
    fetch(s, g, m, 1, t, "accept 0, release the rest", acks=[(0, 0, ACCEPT), (1, 2, RELEASE)])


@SHARE
def share_delivery_limit(s: Script) -> None:
    """After five deliveries a record is archived."""
    g, t, m = first(s, 1)
    for count in range(1, 6):
        acknowledge(s, g, m, 2 * count - 1, t, [(0, 0, RELEASE)], f"release {count}")
        fetch(s, g, m, 2 * count, None, f"fetch {count}")


@SHARE
def share_gap(s: Script) -> None:
    """Type 0 acknowledges a gap in the log."""
    g, t, m = first(s, 1)
    acknowledge(s, g, m, 1, t, [(0, 0, GAP)], "a gap where a record is")


BAD_ACKS: dict[str, tuple[str, Sequence[tuple[int, int, int]]]] = {
    "behind_end": ("Records that were not acquired cannot be acknowledged.", [(5, 6, ACCEPT)]),
    "overlap": ("Acknowledged ranges must not overlap.", [(0, 1, ACCEPT), (1, 2, ACCEPT)]),
    "backwards": ("A range must not end before it begins.", [(2, 0, ACCEPT)]),
    "order": ("Acknowledged ranges must be in order.", [(2, 2, ACCEPT), (0, 1, ACCEPT)]),
    "unknown_type": ("An unknown type of acknowledgement is refused.", [(0, 2, 9)]),
    "renew": ("ShareAcknowledge v1 does not know type 4.", [(0, 2, RENEW)]),
    "beyond": ("A range that goes beyond the acquired records is refused.", [(0, 9, ACCEPT)]),
}


def _bad_ack(acks: Sequence[tuple[int, int, int]]) -> Callable[[Script], None]:
    def play(s: Script) -> None:
        g, t, m = first(s)
        acknowledge(s, g, m, 1, t, acks, "acknowledge")
        acknowledge(s, g, m, 2, t, [(0, 2, ACCEPT)], "accept all")

    return play


for _name, (_rule, _acks) in BAD_ACKS.items():
    SHARE.case(f"share_ack_{_name}", _rule, _bad_ack(_acks))


@SHARE
def share_acknowledge_twice(s: Script) -> None:
    """Records before the start offset can be acknowledged again without effect."""
    g, t, m = first(s)
    acknowledge(s, g, m, 1, t, [(0, 2, ACCEPT)], "accept")
    acknowledge(s, g, m, 2, t, [(0, 2, ACCEPT)], "accept again")


@SHARE
def share_acknowledge_of_other_member(s: Script) -> None:
    """A member cannot acknowledge records that another member has acquired."""
    g, t, _ = first(s)
    n = uuid("m2")
    assigned = until("assignment.topicPartitions.0.topicId", None, is_not=True)
    beat(s, g, n, 0, subscribedTopicNames=[t], until=assigned)
    fetch(s, g, n, 0, t, on="second")
    body = {
        "groupId": g,
        "memberId": n,
        "shareSessionEpoch": 1,
        "topics": [_topic(t, [0], [(0, 2, ACCEPT)])],
    }
    s.call("ShareAcknowledge", 1, body, "other member", on="second")


@SHARE(source="SharePartitionManager")
def share_session_errors(s: Script) -> None:
    """Requests with another session epoch than the next one, or without a session, are refused."""
    g, t, m = sharing(s, 1)
    fetch(s, g, m, 3, t, "no session, epoch 3")
    fetch(s, g, m, -1, None, "no session, epoch -1")
    fetch(s, g, m, 0, t, "new session")
    fetch(s, g, m, 5, None, "epoch 5")
    fetch(s, g, m, 1, None, "epoch 1")


@SHARE(source="SharePartitionManager")
def share_acknowledge_without_session(s: Script) -> None:
    """ShareAcknowledge needs a session and an epoch above 0."""
    g, t, m = sharing(s, 1)
    acknowledge(s, g, m, 1, t, [(0, 0, ACCEPT)], "no session")
    acknowledge(s, g, m, 0, t, [(0, 0, ACCEPT)], "epoch 0")


@SHARE(source="SharePartitionManager")
def share_close_releases(s: Script) -> None:
    """Closing a session releases the acquired records of its member."""
    g, t, m = first(s)
    fetch(s, g, m, -1, None, "close")
    got = until("responses.0.partitions.0.acquiredRecords.0.firstOffset", 0)
    fetch(s, g, m, 0, t, "new session", until=got)


@SHARE(source="SharePartitionManager", limit_s=60)
def share_lost_connection_releases(s: Script) -> None:
    """When the connection of a session ends, its acquired records are released."""
    g, t, m = sharing(s, 2)
    got = until("responses.0.partitions.0.acquiredRecords.0.firstOffset", 0)
    fetch(s, g, m, 0, t, "first connection", on="one", until=got)
    s.close("one")
    fetch(s, g, m, 0, t, "second connection", on="two", until=got)


@SHARE(source="KafkaApis")
def share_fetch_errors(s: Script) -> None:
    """An unknown topic id or an empty group id fails the whole ShareFetch."""
    g, t, m = sharing(s, 1)
    fetch(s, g, m, 0, uuid("other"), "unknown topic")
    fetch(s, g, m, 0, t, "unknown partition", parts=[7])
    fetch(s, "", m, 0, t, "empty group id")
    fetch(s, g, "", 0, t, "empty member id")


@SHARE
def share_max_records(s: Script) -> None:
    """MaxRecords ends the acquired records at a batch."""
    g, t, m = sharing(s, 5)
    got = until("responses.0.partitions.0.acquiredRecords.0.firstOffset", 0)
    fetch(s, g, m, 0, t, "at most two", until=got, maxRecords=2, batchSize=2)
    fetch(s, g, m, 1, None, "the next two", maxRecords=2, batchSize=2)


@SHARE(kip="KIP-1206")
def share_strict_limit(s: Script) -> None:
    """With the strict mode of ShareFetch v2, maxRecords is a limit of records inside a batch."""
    g, t, m = sharing(s)
    s.produce(t, batch(5))
    got = until("responses.0.partitions.0.acquiredRecords.0.firstOffset", 0)
    fetch(
        s, g, m, 0, t, "at most two", until=got, version=2, maxRecords=2, batchSize=2,
        shareAcquireMode=1,
    )  # fmt: skip


@SHARE
def share_batch_size(s: Script) -> None:
    """BatchSize cuts the acquired ranges at batches of the log."""
    g, t, m = sharing(s)
    for _ in range(3):
        s.produce(t, batch(2))
    got = until("responses.0.partitions.0.acquiredRecords.0.firstOffset", 0)
    fetch(s, g, m, 0, t, "ranges of two", until=got, batchSize=2)


@SHARE
def share_read_committed(s: Script) -> None:
    """With share.isolation.level=read_committed, aborted records are not delivered."""
    group = s.group()
    set_config(s, group, "share.isolation.level", "read_committed")
    wait_config(s, group, "share.isolation.level", "read_committed")
    g, t, m = sharing(s)
    x = s.txn_id()
    p, e = s.init_pid(x)
    s.add_parts(x, p, e, t)
    s.produce(t, batch(2, p, e, 0, True), txn=x)
    s.end_txn(x, p, e, False)
    s.wait_lso(t, 3)
    s.fill(t)
    got = until("responses.0.partitions.0.acquiredRecords.0.firstOffset", None, is_not=True)
    fetch(s, g, m, 0, t, "the record behind the marker", until=got)


def offsets(s: Script, group: Any, topic: Any, label: str = "DescribeShareGroupOffsets") -> Ref:
    """Describe the start offset of the first partition."""
    wanted = [{"topicName": topic, "partitions": [0]}]
    body = {"groups": [{"groupId": group, "topics": wanted}]}
    return s.call("DescribeShareGroupOffsets", 0, body, label)


@SHARE(source="GroupCoordinatorService")
def share_alter_offsets(s: Script) -> None:
    """AlterShareGroupOffsets sets the start offset of an empty group."""
    g, t, m = first(s)

    def altered(label: str, part: int = 0) -> None:
        partitions = [{"partitionIndex": part, "startOffset": 2}]
        body = {"groupId": g, "topics": [{"topicName": t, "partitions": partitions}]}
        s.call("AlterShareGroupOffsets", 0, body, label)

    altered("with a member")
    beat(s, g, m, -1)
    altered("empty")
    altered("unknown partition", 8)
    offsets(s, g, t)


@SHARE(source="GroupCoordinatorService")
def share_delete_offsets(s: Script) -> None:
    """DeleteShareGroupOffsets needs an empty group."""
    g, t, m = first(s)
    body = {"groupId": g, "topics": [{"topicName": t}]}
    s.call("DeleteShareGroupOffsets", 0, body, "with a member")
    beat(s, g, m, -1)
    s.call("DeleteShareGroupOffsets", 0, body, "empty")
    s.call("DeleteShareGroupOffsets", 0, {**body, "groupId": s.group("no")}, "unknown group")


@SHARE(source="GroupCoordinatorService")
def share_describe_offsets_errors(s: Script) -> None:
    """DescribeShareGroupOffsets of an unknown group or topic reports errors or offset -1."""
    g, t, _ = sharing(s)
    offsets(s, s.group("none"), t, "unknown group")
    offsets(s, g, s.name("none"), "unknown topic")


@SHARE(source="GroupMetadataManager")
def share_describe_errors(s: Script) -> None:
    """ShareGroupDescribe reports unknown groups and groups of another kind."""
    g, h = s.group("g"), s.group("h")
    s.stable(g)
    s.call("ShareGroupDescribe", 1, {"groupIds": [g, h, ""]}, "classic, unknown, empty")


LIMITS = {
    "delivery_count": ("share.delivery.count.limit", "1"),
    "lock_duration": ("share.record.lock.duration.ms", "1000"),
    "record_locks": ("share.partition.max.record.locks", "10"),
}


def _limit_of_group(name: str, value: str) -> Callable[[Script], None]:
    def play(s: Script) -> None:
        set_config(s, s.group(), name, value, label="below the minimum")

    return play


for _limit, (_setting, _value) in LIMITS.items():
    SHARE.case(
        f"share_minimum_of_{_limit}",
        f"A group's {_setting} below its minimum is refused.",
        _limit_of_group(_setting, _value),
    )


@SHARE
def share_delivery_limit_of_two_records(s: Script) -> None:
    """The limit of deliveries counts for each record: an accepted one does not hold others back."""
    g, t, m = first(s, 2)
    acknowledge(s, g, m, 1, t, [(0, 0, RELEASE), (1, 1, ACCEPT)], "release the first one")
    for count in range(2, 6):
        fetch(s, g, m, 2 * count - 2, None, f"delivery {count}")
        acknowledge(s, g, m, 2 * count - 1, t, [(0, 0, RELEASE)], f"release {count}")
    fetch(s, g, m, 10, None, "archived")


@SHARE
def share_delivery_count_after_closed_sessions(s: Script) -> None:
    """Records of a closed session are delivered again with a greater count, up to the limit."""
    g, t, m = first(s, 1)
    for count in range(2, 6):
        fetch(s, g, m, -1, None, f"close {count - 1}")
        fetch(s, g, m, 0, t, f"delivery {count}")
    fetch(s, g, m, -1, None, "close 5")
    fetch(s, g, m, 0, t, "archived")


@SHARE(limit_s=60)
def share_lock_expires(s: Script) -> None:
    """Records that are not acknowledged within the lock duration are delivered again."""
    g = s.group()
    set_config(s, g, "share.record.lock.duration.ms", "15000")
    wait_config(s, g, "share.record.lock.duration.ms", "15000")
    g, t, m = first(s, 1)
    s.wait(16_000)
    fetch(s, g, m, 1, None, "delivered again")
    acknowledge(s, g, m, 2, t, [(0, 0, ACCEPT)], "accept")
