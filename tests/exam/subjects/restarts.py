"""What survives a restart of the broker, and what does not.

They are played only with `--restart-command`.
"""

from tests.exam.author import CONCURRENT, DATA, Author, batch, until, uuid, view
from tests.exam.script import Script

RESTARTS = Author(
    "restarts",
    "Restarts",
    source="LogManager",
    severity=DATA,
    is_single=True,
    is_alone=True,
    limit_s=60,
)
NO_EPOCH = view(without=["partitionLeaderEpoch", "leaderEpoch"])
PATIENT = [5, 6, 14, 15, 16]
"""Codes while partitions and coordinators are loaded."""


@RESTARTS
def restart_records(s: Script) -> None:
    """Acknowledged records and the ends of a log survive."""
    t = s.topic()
    s.produce(t, batch(3), label="before")
    s.restart()
    s.produce(t, batch(1), label="after", retry=PATIENT)
    s.fetch([(t, [(0, 0)])], "all records", more={"view": NO_EPOCH})


@RESTARTS(source="ProducerStateManager")
def restart_sequences(s: Script) -> None:
    """The sequences of a producer survive: duplicates and gaps are recognised."""
    t = s.topic()
    p, e = s.init_pid()
    s.produce(t, batch(2, p, e, 0), label="0 and 1")
    s.restart()
    s.produce(t, batch(2, p, e, 0), label="again", retry=PATIENT)
    s.produce(t, batch(1, p, e, 5), label="a gap")
    s.produce(t, batch(1, p, e, 2), label="2")


@RESTARTS(source="TransactionCoordinator")
def restart_open_transaction(s: Script) -> None:
    """An open transaction survives and can be committed."""
    t, x = s.topic(), s.txn_id()
    p, e = s.init_pid(x)
    s.add_parts(x, p, e, t)
    s.produce(t, batch(2, p, e, 0, True), txn=x, label="before")
    s.restart()
    s.describe_txn(x, "open", retry=PATIENT)
    s.produce(t, batch(1, p, e, 2, True), txn=x, label="after", retry=[*PATIENT, 51])
    s.end_txn(x, p, e, True, "commit", retry=CONCURRENT)
    s.wait_lso(t, 4)
    s.fetch([(t, [(0, 0)])], "committed", iso=1, more={"view": NO_EPOCH})


@RESTARTS(source="TransactionCoordinator")
def restart_transactional_id(s: Script) -> None:
    """A transactional id keeps its producer id, and its epoch goes on."""
    x = s.txn_id()
    s.init_pid(x, label="before")
    s.restart()
    s.init_pid(x, label="after", retry=[*PATIENT, 51])


@RESTARTS(source="OffsetMetadataManager")
def restart_offsets(s: Script) -> None:
    """Committed offsets and their metadata survive."""
    t, g = s.topic("a", 2), s.group()
    s.commit(g, t, [(0, 5, "meta"), (1, 7)], "commit")
    s.restart()
    s.offsets(g, t, [0, 1], "after", retry=PATIENT)


@RESTARTS(source="OffsetMetadataManager")
def restart_pending_offsets(s: Script) -> None:
    """Offsets of an open transaction survive, still pending."""
    t, x, g = s.topic(), s.txn_id(), s.group()
    p, e = s.init_pid(x)
    s.add_offsets(x, p, e, g)
    s.txn_commit(x, p, e, g, t, [(0, 7)], "pending")
    s.restart()
    s.offsets(g, t, label="requireStable", stable=True, retry=PATIENT)
    s.end_txn(x, p, e, True, "commit", retry=CONCURRENT)
    stable = until("groups.0.topics.0.partitions.0.errorCode", 0)
    s.offsets(g, t, label="committed", stable=True, until=stable)


@RESTARTS(source="GroupMetadataManager")
def restart_classic_group(s: Script) -> None:
    """A member of a stable classic group goes on in its generation."""
    g = s.group()
    m, gen = s.stable(g)
    s.restart()
    s.heartbeat(g, m, gen, "same generation", retry=PATIENT)
    s.describe(g)


@RESTARTS(source="GroupMetadataManager", kip="KIP-848", features={"group.version": 1})
def restart_consumer_group(s: Script) -> None:
    """A member of a consumer group goes on in its epoch, with its assignment."""
    g, t, m = s.group(), s.topic("a", 2), uuid("m1")
    join = {"rebalanceTimeoutMs": 30_000, "subscribedTopicNames": [t], "topicPartitions": []}
    body = {"groupId": g, "memberId": m, "memberEpoch": 0, **join}
    assigned = until("assignment.topicPartitions.0.topicId", None, is_not=True)
    epoch = s.call("ConsumerGroupHeartbeat", 1, body, until=assigned)["memberEpoch"]
    owned = [{"topicId": t.id, "partitions": [0, 1]}]
    body = {"groupId": g, "memberId": m, "memberEpoch": epoch, "topicPartitions": owned}
    s.call("ConsumerGroupHeartbeat", 1, body)
    s.restart()
    body = {"groupId": g, "memberId": m, "memberEpoch": epoch}
    s.call("ConsumerGroupHeartbeat", 1, body, "same epoch", retry=PATIENT)
    s.call("ConsumerGroupDescribe", 1, {"groupIds": [g]}, "described")


@RESTARTS(source="FetchSession", kip="KIP-227")
def restart_fetch_session(s: Script) -> None:
    """A fetch session does not survive."""
    t = s.topic()
    sid = s.fetch([(t, [(0, 0)])], "new session", epoch=0)["sessionId"]
    s.restart()
    s.fetch([], "after", session=sid, epoch=1)


@RESTARTS(source="ReplicationControlManager")
def restart_topic(s: Script) -> None:
    """A topic keeps its id, its partitions and its configurations."""
    t = s.topic("a", 3, configs={"retention.ms": "7200000"})
    s.restart()
    led = until("topics.0.partitions.2.leaderId", -1, is_not=True)
    shown = view(own=["topics"], without=["brokers", "clusterId", "controllerId", "leaderEpoch"])
    body = {"topics": [{"name": t}], "allowAutoTopicCreation": False}
    s.call("Metadata", 12, body, "metadata", until=led, view=shown)
    resource = {"resourceType": 2, "resourceName": t, "configurationKeys": ["retention.ms"]}
    s.call("DescribeConfigs", 4, {"resources": [resource]}, "retention.ms")


@RESTARTS(source="ClientQuotaManager")
def restart_quota(s: Script) -> None:
    """A quota of a client id survives."""
    entity = [{"entityType": "client-id", "entityName": s.name("c")}]
    ops = [{"key": "producer_byte_rate", "value": 1500, "remove": False}]
    s.call("AlterClientQuotas", 1, {"entries": [{"entity": entity, "ops": ops}]})
    s.restart()
    match = {"entityType": "client-id", "matchType": 0, "match": s.name("c")}
    s.call("DescribeClientQuotas", 1, {"components": [match], "strict": True}, "quota")


@RESTARTS(source="DeleteRecords")
def restart_log_start(s: Script) -> None:
    """The start of a log after DeleteRecords survives."""
    t = s.topic()
    s.fill(t, 5)
    s.delete_records(t, 3, label="to 3")
    s.restart()
    s.produce(t, batch(1), retry=PATIENT)
    s.list_offsets(t, -2, label="start")
    s.fetch([(t, [(0, 2)])], "below the start")
