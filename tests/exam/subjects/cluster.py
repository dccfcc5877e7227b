"""Several brokers: leaders, followers, epochs, reassignments, and coordinators elsewhere.

Node 1 is the broker that the exam connects to.
"""

from collections.abc import Callable, Sequence
from typing import Any

from tests.exam.author import DATA, Author, Ref, batch, node, until, uuid, view
from tests.exam.script import Script, fetch_body, join_body, sync_body

CLUSTER = Author("cluster", "Several brokers", source="ReplicaManager", brokers=2)
ONE, TWO = "", "two"
"""Connections to the brokers 1 and 2."""


def at_two(s: Script) -> None:
    """Open the connection to broker 2."""
    s.call("ApiVersions", 0, {}, on=TWO, broker=2)


def led(s: Script, topic: Any, leader: int, part: int = 0) -> None:
    """Wait until both brokers show a leader."""
    body = {"topics": [{"name": topic}], "allowAutoTopicCreation": False}
    by = until(f"topics.0.partitions.{part}.leaderId", node(leader))
    for on in (ONE, TWO):
        s.call("Metadata", 12, body, on=on, until=by)


def serving(s: Script, topic: Any, leader: int) -> None:
    """Wait until a broker leads the first partition."""
    wanted = [{"partitionIndex": 0, "timestamp": -1}]
    body = {"replicaId": -1, "topics": [{"name": topic, "partitions": wanted}]}
    ready = until("topics.0.partitions.0.errorCode", 0)
    s.call("ListOffsets", 7, body, on=(ONE, TWO)[leader - 1], until=ready)


def resigned(s: Script, topic: Any, former: int) -> None:
    """Wait until a broker knows that it does not lead any longer."""
    wanted = [{"partitionIndex": 0, "timestamp": -1}]
    body = {"replicaId": -1, "topics": [{"name": topic, "partitions": wanted}]}
    gone = until("topics.0.partitions.0.errorCode", 6)
    s.call("ListOffsets", 7, body, on=(ONE, TWO)[former - 1], until=gone)


def reassign(s: Script, topic: Any, replicas: Sequence[int], label: str = "") -> Ref:
    """Reassign the first partition."""
    partitions = [{"partitionIndex": 0, "replicas": [node(each) for each in replicas]}]
    body = {"timeoutMs": 30_000, "topics": [{"name": topic, "partitions": partitions}]}
    return s.call("AlterPartitionReassignments", 0, body, label)


def move(s: Script, topic: Any, leader: int) -> None:
    """Move the leader of a partition with replicas on both brokers."""
    reassign(s, topic, [leader, 3 - leader])
    body = {"topics": [{"name": topic}], "allowAutoTopicCreation": False}
    first = until("topics.0.partitions.0.replicaNodes.0", node(leader))
    s.call("Metadata", 12, body, until=first)
    everywhere = until("topics.0.partitions.0.isrNodes.1", -1, is_not=True)
    s.call("Metadata", 12, body, until=everywhere)
    topics = [{"topic": topic, "partitions": [0]}]
    elect = {"electionType": 0, "topicPartitions": topics, "timeoutMs": 30_000}
    done = until("replicaElectionResults.0.partitionResult.0.errorCode", 0, 84)
    s.call("ElectLeaders", 2, elect, until=done)
    led(s, topic, leader)
    serving(s, topic, leader)
    resigned(s, topic, 3 - leader)


def on_two(s: Script) -> Any:
    """Return a topic that broker 2 leads alone."""
    at_two(s)
    t = s.topic(replicas=[[2]])
    led(s, t, 2)
    serving(s, t, 2)
    return t


def replicated(s: Script, **configs: str) -> Any:
    """Return a topic with replicas on both brokers, led by broker 1."""
    at_two(s)
    given = {name.replace("_", "."): value for name, value in configs.items()}
    t = s.topic(replicas=[[1, 2]], configs=given)
    led(s, t, 1)
    body = {"topics": [{"name": t}], "allowAutoTopicCreation": False}
    both = until("topics.0.partitions.0.isrNodes.1", -1, is_not=True)
    s.call("Metadata", 12, body, until=both)
    return t


@CLUSTER(severity=DATA, kip="KIP-951")
def clu_produce_to_other_broker(s: Script) -> None:
    """Produce to a broker that does not lead is refused; from v10 on with the leader."""
    t = on_two(s)
    s.produce(t, batch(1), label="v9", version=9)
    s.produce(t, batch(1), label="v10", version=10)
    s.produce(t, batch(1), label="at the leader", on=TWO)


@CLUSTER(kip="KIP-951")
def clu_fetch_from_other_broker(s: Script) -> None:
    """Fetch from a broker without a replica is refused; from v16 on with the leader."""
    t = on_two(s)
    for version in (12, 16):
        s.fetch([(t, [(0, 0)])], f"v{version}", version)


@CLUSTER(kip="KIP-392")
def clu_fetch_from_follower(s: Script) -> None:
    """From Fetch v11 on, a follower serves consumers."""
    t = replicated(s)
    s.fill(t, 2)
    wanted: Any = [(t, [(0, 0)])]
    got = until("responses.0.partitions.0.highWatermark", 2)
    s.fetch(wanted, "v12", on=TWO, more={"until": got})
    s.fetch(wanted, "v10", 10, on=TWO)


@CLUSTER(kip="KIP-320")
def clu_list_offsets_of_follower(s: Script) -> None:
    """ListOffsets is served by the leader alone."""
    t = replicated(s)
    s.list_offsets(t, -1, label="leader")
    wanted = [{"partitionIndex": 0, "timestamp": -1}]
    body = {"replicaId": -1, "topics": [{"name": t, "partitions": wanted}]}
    s.call("ListOffsets", 7, body, "follower", on=TWO)


@CLUSTER
def clu_delete_records_at_follower(s: Script) -> None:
    """DeleteRecords is served by the leader alone."""
    t = replicated(s)
    s.fill(t, 2)
    partitions = [{"partitionIndex": 0, "offset": 1}]
    body = {"topics": [{"name": t, "partitions": partitions}], "timeoutMs": 10_000}
    s.call("DeleteRecords", 2, body, "follower", on=TWO)
    s.call("DeleteRecords", 2, body, "leader")


@CLUSTER(kip="KIP-320")
def clu_epochs_of_follower(s: Script) -> None:
    """OffsetForLeaderEpoch is served by the leader alone."""
    t = replicated(s)
    partitions = [{"partition": 0, "currentLeaderEpoch": -1, "leaderEpoch": 0}]
    body = {"replicaId": -1, "topics": [{"topic": t, "partitions": partitions}]}
    s.call("OffsetForLeaderEpoch", 4, body, "follower", on=TWO)


@CLUSTER(kip="KIP-664")
def clu_producers_of_follower(s: Script) -> None:
    """A follower describes producers, too."""
    t = replicated(s)
    body = {"topics": [{"name": t, "partitionIndexes": [0]}]}
    ready = until("topics.0.partitions.0.errorCode", 0)
    s.call("DescribeProducers", 0, body, "follower", on=TWO, until=ready)


@CLUSTER(severity=DATA)
def clu_acks_all(s: Script) -> None:
    """Produce with acks -1 is answered when all in-sync replicas have the records."""
    t = replicated(s)
    s.produce(t, batch(2), label="acks -1")
    s.list_offsets(t, -1, label="high watermark")


@CLUSTER(severity=DATA)
def clu_min_insync_replicas(s: Script) -> None:
    """min.insync.replicas counts at most the replicas of a partition."""
    at_two(s)
    t = s.topic(replicas=[[1]], configs={"min.insync.replicas": "2"})
    s.produce(t, batch(1), label="acks -1")
    s.produce(t, batch(1), label="acks 1", acks=1)
    s.list_offsets(t, -1, label="high watermark")


@CLUSTER(severity=DATA)
def clu_records_survive(s: Script) -> None:
    """Acknowledged records are at the new leader."""
    t = replicated(s)
    s.produce(t, batch(3), label="at the first leader")
    move(s, t, 2)
    s.produce(t, batch(1), label="at the second leader", on=TWO)
    s.fetch([(t, [(0, 0)])], "all records", on=TWO)


@CLUSTER(severity=DATA, kip="KIP-98", source="ProducerStateManager")
def clu_producers_survive(s: Script) -> None:
    """The new leader knows the sequences of producers: duplicates and gaps are recognised."""
    t = replicated(s)
    p, e = s.init_pid()
    s.produce(t, batch(2, p, e, 0), label="0 and 1")
    move(s, t, 2)
    s.produce(t, batch(2, p, e, 0), label="again", on=TWO)
    s.produce(t, batch(1, p, e, 3), label="a gap", on=TWO)
    s.produce(t, batch(1, p, e, 2), label="2", on=TWO)


@CLUSTER(severity=DATA, source="ProducerStateManager")
def clu_transactions_survive(s: Script) -> None:
    """An open transaction can be committed after its partition has moved."""
    t = replicated(s)
    x = s.txn_id()
    p, e = s.init_pid(x)
    s.add_parts(x, p, e, t)
    s.produce(t, batch(2, p, e, 0, True), txn=x, label="at the first leader")
    move(s, t, 2)
    s.produce(t, batch(1, p, e, 2, True), txn=x, label="at the second leader", on=TWO)
    s.end_txn(x, p, e, True, "commit")
    got = until("responses.0.partitions.0.lastStableOffset", 4)
    s.fetch([(t, [(0, 0)])], "committed", on=TWO, iso=1, more={"until": got})


@CLUSTER(severity=DATA, source="TransactionMarkerChannelManager")
def clu_markers_on_two_brokers(s: Script) -> None:
    """A transaction with partitions of two brokers gets markers on both."""
    at_two(s)
    t = s.topic(replicas=[[1], [2]])
    led(s, t, 2, 1)
    x = s.txn_id()
    p, e = s.init_pid(x)
    s.add_parts(x, p, e, t, [0, 1])
    s.produce(t, batch(1, p, e, 0, True), 0, txn=x, label="broker 1")
    s.produce(t, batch(1, p, e, 0, True), 1, txn=x, label="broker 2", on=TWO, retry=[3, 6])
    s.end_txn(x, p, e, True, "commit")
    got = until("responses.0.partitions.0.lastStableOffset", 2)
    s.fetch([(t, [(0, 0)])], "broker 1", iso=1, more={"until": got})
    s.fetch([(t, [(1, 0)])], "broker 2", iso=1, on=TWO, more={"until": got})


@CLUSTER(kip="KIP-320", source="Partition")
def clu_leader_epochs(s: Script) -> None:
    """After a leader change, the former epoch is fenced and ends where the new one begins."""
    t = replicated(s)
    s.fill(t, 2)
    move(s, t, 2)
    s.produce(t, batch(1), on=TWO)
    shown = view(without=["leaderEpoch", "partitionLeaderEpoch"])
    former = {"currentLeaderEpoch": 0}
    s.fetch([(t, [(0, 0, former)])], "former epoch", on=TWO, more={"view": shown})
    future = {"currentLeaderEpoch": 99}
    s.fetch([(t, [(0, 0, future)])], "future epoch", on=TWO, more={"view": shown})
    partitions = [{"partition": 0, "currentLeaderEpoch": -1, "leaderEpoch": 0}]
    body = {"replicaId": -1, "topics": [{"topic": t, "partitions": partitions}]}
    s.call("OffsetForLeaderEpoch", 4, body, "end of the first epoch", on=TWO)


@CLUSTER(kip="KIP-595", source="Partition", severity=DATA)
def clu_divergence(s: Script) -> None:
    """A consumer that has read behind the end of a former epoch is told where it diverges."""
    t = replicated(s)
    s.fill(t, 2)
    move(s, t, 2)
    s.produce(t, batch(3), on=TWO)
    shown = view(without=["partitionLeaderEpoch"])
    wanted = {"lastFetchedEpoch": 0}
    s.fetch([(t, [(0, 4, wanted)])], "offset 4 of epoch 0", on=TWO, more={"view": shown})
    s.fetch([(t, [(0, 1, wanted)])], "offset 1 of epoch 0", on=TWO, more={"view": shown})


@CLUSTER(source="FetchSession", kip="KIP-227")
def clu_session_and_leader_change(s: Script) -> None:
    """In a session, a partition that moves away becomes an error."""
    t = replicated(s)
    s.fill(t, 1)
    sid = s.fetch([(t, [(0, 1)])], "new session", 10, epoch=0)["sessionId"]
    move(s, t, 2)
    shown = view(without=["currentLeader", "nodeEndpoints"])
    s.fetch([], "after the move", 10, session=sid, epoch=1, more={"view": shown})


@CLUSTER(source="DelayedFetch")
def clu_move_ends_wait(s: Script) -> None:
    """A waiting fetch is answered when its partition moves away."""
    t = replicated(s)
    body = fetch_body([(t, [(0, 0)])], version=10, max_wait=30_000, min_bytes=1)
    s.send("Fetch", 10, body, "waiting")
    move(s, t, 2)
    s.receive("after the move", "waiting")


@CLUSTER(kip="KIP-455", source="ReplicationControlManager")
def clu_reassign(s: Script) -> None:
    """A reassignment to another broker ends with the new replica as leader."""
    at_two(s)
    t = s.topic(replicas=[[1]])
    s.fill(t, 2)
    reassign(s, t, [2], "reassign")
    led(s, t, 2)
    serving(s, t, 2)
    body = {"topics": [{"name": t}], "allowAutoTopicCreation": False}
    shown = view(only=["errorCode", "leaderId", "name"], without=["brokers"])
    s.call(
        "Metadata",
        12,
        body,
        "metadata",
        view=shown,
        until=until("topics.0.partitions.0.leaderId", node(2)),
    )
    s.fetch([(t, [(0, 0)])], "records", on=TWO, more={"view": _NO_EPOCHS})


_NO_EPOCHS = view(without=["partitionLeaderEpoch"])


@CLUSTER(kip="KIP-460", source="ReplicationControlManager")
def clu_preferred_election(s: Script) -> None:
    """ElectLeaders makes the first replica the leader."""
    t = replicated(s)
    reassign(s, t, [2, 1], "other order")
    body = {"topics": [{"name": t}], "allowAutoTopicCreation": False}
    first = until("topics.0.partitions.0.replicaNodes.0", node(2))
    s.call("Metadata", 12, body, until=first)
    topics = [{"topic": t, "partitions": [0]}]
    elect = {"electionType": 0, "topicPartitions": topics, "timeoutMs": 30_000}
    s.call("ElectLeaders", 2, elect, "preferred")
    led(s, t, 2)
    s.call("ElectLeaders", 2, elect, "again")


@CLUSTER(source="ReplicationControlManager")
def clu_replicas_in_metadata(s: Script) -> None:
    """Metadata shows replicas and in-sync replicas of a partition in their order."""
    t = replicated(s)
    s.metadata([{"name": t}], "from broker 1")
    shown = view(own=["topics"], without=["brokers", "clusterId", "controllerId"])
    body = {"topics": [{"name": t}], "allowAutoTopicCreation": False}
    s.call("Metadata", 12, body, "from broker 2", on=TWO, view=shown)


@CLUSTER(source="KafkaApis")
def clu_find_coordinator(s: Script) -> None:
    """All brokers name the same coordinator."""
    at_two(s)
    g, x = s.group(), s.txn_id()
    for kind, key in ((0, g), (1, x)):
        for number, on in enumerate((ONE, TWO), 1):
            body = {"keyType": kind, "coordinatorKeys": [key]}
            s.call("FindCoordinator", 4, body, f"type {kind} at broker {number}", on=on)


def _offsets(s: Script) -> dict[str, Any]:
    partitions = [{"partitionIndex": 0, "committedOffset": 1}]
    return {
        "groupId": s.name("g"),
        "generationIdOrMemberEpoch": -1,
        "memberId": "",
        "topics": [{"name": s.name("a"), "partitions": partitions}],
    }


def _txn(s: Script) -> dict[str, Any]:
    return {"transactionalId": s.name("t"), "producerId": 5, "producerEpoch": 0}


ELSEWHERE: dict[str, tuple[str, int, Callable[[Script], dict[str, Any]]]] = {
    "join": ("JoinGroup", 7, lambda s: join_body(s.name("g"))),
    "sync": ("SyncGroup", 5, lambda s: sync_body(s.name("g"), "m", 1)),
    "heartbeat": (
        "Heartbeat",
        4,
        lambda s: {"groupId": s.name("g"), "generationId": 1, "memberId": "m"},
    ),
    "leave": (
        "LeaveGroup",
        5,
        lambda s: {"groupId": s.name("g"), "members": [{"memberId": "m"}]},
    ),
    "commit": ("OffsetCommit", 8, _offsets),
    "fetch_offsets": (
        "OffsetFetch",
        8,
        lambda s: {"groups": [{"groupId": s.name("g"), "topics": None}]},
    ),
    "describe": ("DescribeGroups", 5, lambda s: {"groups": [s.name("g")]}),
    "delete": ("DeleteGroups", 2, lambda s: {"groupsNames": [s.name("g")]}),
    "consumer_heartbeat": (
        "ConsumerGroupHeartbeat",
        1,
        lambda s: {
            "groupId": s.name("g"),
            "memberId": uuid("m"),
            "memberEpoch": 0,
            "rebalanceTimeoutMs": 30_000,
            "subscribedTopicNames": [s.name("a")],
            "topicPartitions": [],
        },
    ),
    "init_producer_id": (
        "InitProducerId",
        4,
        lambda s: {"transactionalId": s.name("t"), "transactionTimeoutMs": 60_000},
    ),
    "add_offsets": ("AddOffsetsToTxn", 3, lambda s: {**_txn(s), "groupId": s.name("g")}),
    "end_txn": ("EndTxn", 3, lambda s: {**_txn(s), "committed": True}),
    "describe_txn": (
        "DescribeTransactions",
        0,
        lambda s: {"transactionalIds": [s.name("t")]},
    ),
}
"""Requests for a coordinator."""


def _elsewhere(
    api: str, version: int, body: Callable[[Script], dict[str, Any]]
) -> Callable[[Script], None]:
    def play(s: Script) -> None:
        at_two(s)
        s.topic()
        s.group()
        s.txn_id()
        s.call(api, version, body(s), "at broker 2", on=TWO, retry=[14, 15])

    return play


for _name, (_api, _version, _body) in ELSEWHERE.items():
    CLUSTER.case(
        f"clu_elsewhere_{_name}",
        f"{_api} at a broker that is not the coordinator responds NOT_COORDINATOR.",
        _elsewhere(_api, _version, _body),
        source="CoordinatorRuntime",
    )


def _old_offset_fetch(version: int) -> Callable[[Script], None]:
    def play(s: Script) -> None:
        at_two(s)
        t, g = s.topic("a", 2), s.group()
        topics = [{"name": t, "partitionIndexes": [0, 1]}]
        body = {"groupId": g, "topics": topics}
        s.call("OffsetFetch", version, body, "at broker 2", on=TWO, retry=[14, 15])

    return play


for _number in (1, 2, 5, 7):
    _where = "for each partition" if _number == 1 else "for the whole response"
    CLUSTER.case(
        f"clu_offset_fetch_v{_number}",
        f"OffsetFetch v{_number} at another broker responds NOT_COORDINATOR {_where}.",
        _old_offset_fetch(_number),
        source="OffsetFetchResponse (KAFKA-19439)",
        severity=DATA,
    )


@CLUSTER(severity=DATA, source="TransactionCoordinator")
def clu_two_transactions_of_one_partition(s: Script) -> None:
    """Two transactions in one partition end on their own; the last stable offset follows."""
    t = replicated(s)
    x, y = s.txn_id("t"), s.txn_id("u")
    p, e = s.init_pid(x)
    q, f = s.init_pid(y)
    s.add_parts(x, p, e, t)
    s.add_parts(y, q, f, t)
    s.produce(t, batch(1, p, e, 0, True), txn=x)
    s.produce(t, batch(1, q, f, 0, True), txn=y)
    s.end_txn(y, q, f, True, "the second one commits")
    s.wait_txn(y, "CompleteCommit")
    s.list_offsets(t, -1, label="last stable offset", iso=1)
    s.end_txn(x, p, e, False, "the first one aborts")
    got = until("responses.0.partitions.0.lastStableOffset", 4)
    s.fetch([(t, [(0, 0)])], "both have ended", iso=1, more={"until": got})


@CLUSTER(severity=DATA, source="TransactionMarkerChannelManager")
def clu_abort_on_two_brokers(s: Script) -> None:
    """An abort writes markers on the leaders of all partitions of the transaction."""
    at_two(s)
    t = s.topic(replicas=[[1], [2]])
    led(s, t, 2, 1)
    x = s.txn_id()
    p, e = s.init_pid(x)
    s.add_parts(x, p, e, t, [0, 1])
    s.produce(t, batch(2, p, e, 0, True), 0, txn=x)
    s.produce(t, batch(1, p, e, 0, True), 1, txn=x, on=TWO, retry=[3, 6])
    s.end_txn(x, p, e, False, "abort")
    got = until("responses.0.partitions.0.lastStableOffset", 3)
    s.fetch([(t, [(0, 0)])], "broker 1", iso=1, more={"until": got})
    got = until("responses.0.partitions.0.lastStableOffset", 2)
    s.fetch([(t, [(1, 0)])], "broker 2", iso=1, on=TWO, more={"until": got})


@CLUSTER(severity=DATA, source="TransactionMarkerChannelManager")
def clu_commit_after_move(s: Script) -> None:
    """A commit reaches a partition whose leader moves between its records and the EndTxn."""
    t = replicated(s)
    x = s.txn_id()
    p, e = s.init_pid(x)
    s.add_parts(x, p, e, t)
    s.produce(t, batch(2, p, e, 0, True), txn=x)
    move(s, t, 2)
    s.end_txn(x, p, e, True, "commit")
    got = until("responses.0.partitions.0.lastStableOffset", 3)
    s.fetch([(t, [(0, 0)])], "at broker 2", iso=1, on=TWO, more={"until": got, "view": _NO_EPOCHS})


@CLUSTER(severity=DATA, source="OffsetMetadataManager")
def clu_offsets_in_transaction(s: Script) -> None:
    """Offsets committed in a transaction are visible at the group's coordinator after it ended."""
    at_two(s)
    t, x, g = s.topic(), s.txn_id(), s.group()
    p, e = s.init_pid(x)
    s.add_offsets(x, p, e, g, "AddOffsetsToTxn")
    s.txn_commit(x, p, e, g, t, [(0, 7, "m")], "TxnOffsetCommit")
    body = {"groups": [{"groupId": g, "topics": None}]}
    s.call("OffsetFetch", 8, body, "at broker 2", on=TWO, retry=[14, 15])
    s.end_txn(x, p, e, True, "commit")
    stable = until("groups.0.topics.0.partitions.0.errorCode", 0)
    s.offsets(g, t, label="committed", stable=True, until=stable)


@CLUSTER(severity=DATA, source="TransactionCoordinator")
def clu_fenced_on_two_brokers(s: Script) -> None:
    """A former epoch is fenced by the leaders of all partitions of its transaction."""
    at_two(s)
    t = s.topic(replicas=[[1], [2]])
    led(s, t, 2, 1)
    x = s.txn_id()
    p, e = s.init_pid(x)
    s.add_parts(x, p, e, t, [0, 1])
    s.produce(t, batch(1, p, e, 0, True), 0, txn=x)
    s.produce(t, batch(1, p, e, 0, True), 1, txn=x, on=TWO, retry=[3, 6])
    s.init_pid(x)
    s.produce(t, batch(1, p, e, 1, True), 0, "broker 1", txn=x)
    s.produce(t, batch(1, p, e, 1, True), 1, "broker 2", txn=x, on=TWO)


def listed(s: Script, topic: Any, label: str, **more: Any) -> Ref:
    """List the reassignments of the first partition."""
    topics = [{"name": topic, "partitionIndexes": [0]}]
    body = {"timeoutMs": 30_000, "topics": topics}
    return s.call("ListPartitionReassignments", 0, body, label, **more)


@CLUSTER(kip="KIP-455", source="ReplicationControlManager")
def clu_reassign_adds_a_replica(s: Script) -> None:
    """A reassignment may add a replica, which joins the in-sync replicas."""
    at_two(s)
    t = s.topic(replicas=[[1]])
    s.fill(t, 3)
    reassign(s, t, [1, 2], "add")
    body = {"topics": [{"name": t}], "allowAutoTopicCreation": False}
    both = until("topics.0.partitions.0.isrNodes.1", -1, is_not=True)
    shown = view(own=["topics"], without=["brokers", "clusterId", "controllerId", "leaderEpoch"])
    s.call("Metadata", 12, body, "two replicas", until=both, view=shown)
    listed(s, t, "nothing is moving")


@CLUSTER(kip="KIP-455", source="ReplicationControlManager")
def clu_reassign_removes_a_replica(s: Script) -> None:
    """A reassignment may remove a replica at once."""
    t = replicated(s)
    s.fill(t, 3)
    reassign(s, t, [1], "remove")
    body = {"topics": [{"name": t}], "allowAutoTopicCreation": False}
    one = until("topics.0.partitions.0.replicaNodes", [node(1)])
    shown = view(own=["topics"], without=["brokers", "clusterId", "controllerId", "leaderEpoch"])
    s.call("Metadata", 12, body, "one replica", until=one, view=shown)
    s.produce(t, batch(1), label="goes on")


@CLUSTER(kip="KIP-455", source="ReplicationControlManager")
def clu_reassign_cancel_none(s: Script) -> None:
    """A reassignment that is not in progress cannot be cancelled."""
    t = replicated(s)
    partitions = [{"partitionIndex": 0, "replicas": None}]
    body = {"timeoutMs": 30_000, "topics": [{"name": t, "partitions": partitions}]}
    s.call("AlterPartitionReassignments", 0, body, "cancel")


@CLUSTER(kip="KIP-460", source="ReplicationControlManager")
def clu_elect_unknown(s: Script) -> None:
    """ElectLeaders reports unknown topics and partitions one by one."""
    t = replicated(s)
    topics = [{"topic": t, "partitions": [0, 9]}, {"topic": s.name("none"), "partitions": [0]}]
    for kind, name in ((0, "preferred"), (1, "unclean")):
        body = {"electionType": kind, "topicPartitions": topics, "timeoutMs": 30_000}
        s.call("ElectLeaders", 2, body, name)


@CLUSTER(kip="KIP-460", source="ReplicationControlManager")
def clu_elect_unclean_of_led_partition(s: Script) -> None:
    """An unclean election of a partition with a leader is not needed."""
    t = replicated(s)
    topics = [{"topic": t, "partitions": [0]}]
    elect = {"electionType": 1, "topicPartitions": topics, "timeoutMs": 30_000}
    s.call("ElectLeaders", 2, elect, "unclean")
    led(s, t, 1)


@CLUSTER(severity=DATA, source="ReplicaManager")
def clu_produce_after_move(s: Script) -> None:
    """A Produce to a partition that has moved away is refused, and its records are nowhere."""
    t = replicated(s)
    s.fill(t, 1)
    move(s, t, 2)
    s.produce(t, batch(1), label="at the former leader", retry=[14, 15, 16])
    wanted = [{"partitionIndex": 0, "timestamp": -1}]
    body = {"replicaId": -1, "topics": [{"name": t, "partitions": wanted}]}
    shown = view(without=["leaderEpoch"])
    s.call("ListOffsets", 7, body, "end at the new leader", on=TWO, view=shown)


@CLUSTER(kip="KIP-320", source="Partition")
def clu_epochs_in_list_offsets(s: Script) -> None:
    """After a leader change, ListOffsets with the former leader epoch is fenced."""
    t = replicated(s)
    s.fill(t, 1)
    move(s, t, 2)
    for epoch, name in ((0, "former epoch"), (99, "future epoch")):
        wanted = [{"partitionIndex": 0, "timestamp": -1, "currentLeaderEpoch": epoch}]
        body = {"replicaId": -1, "topics": [{"name": t, "partitions": wanted}]}
        s.call("ListOffsets", 7, body, name, on=TWO)


@CLUSTER(kip="KIP-932", source="ReplicaManager", severity=DATA, features={"share.version": 1})
def clu_share_fetch_elsewhere(s: Script) -> None:
    """ShareFetch at a broker that does not lead the partition is refused, with the leader."""
    at_two(s)
    g, t, m = s.group(), s.topic(), uuid("m1")
    joined = {"groupId": g, "memberId": m, "memberEpoch": 0, "subscribedTopicNames": [t]}
    assigned = until("assignment.topicPartitions.0.topicId", None, is_not=True)
    s.call("ShareGroupHeartbeat", 1, joined, until=assigned)
    wanted = [{"topicId": t.id, "partitions": [{"partitionIndex": 0}]}]
    body = {
        "groupId": g,
        "memberId": m,
        "shareSessionEpoch": 0,
        "maxWaitMs": 500,
        "minBytes": 0,
        "maxBytes": 1 << 20,
        "maxRecords": 10,
        "batchSize": 10,
        "topics": wanted,
        "forgottenTopicsData": [],
    }
    s.call("ShareFetch", 1, body, "at broker 2", on=TWO)
