"""Errors of fetch sessions, leaders, in-sync sets, elections and brokers."""

from brokertwin.state.core.errors import Error
from brokertwin.streaming.explain.rules.rule import Rule

SESSION = "state/fetch/fetch_session.py"
ISR = "state/replication/isr_controller.py"
MACHINES = "state/cluster/machines.py"
REGISTRATION = "state/apis/broker_registration.py"
ELECT = "state/apis/elect_leaders.py"

RULES: dict[int, Rule] = {
    Error.FETCH_SESSION_ID_NOT_FOUND: Rule(
        "The broker has no fetch session of this id: it was closed, or made room for another.",
        "KIP-227; FetchManager.newContext",
        "Nothing: clients ask for a new one with a full fetch. If it comes often, raise"
        " max.incremental.fetch.session.cache.slots, or look at clients that open many.",
        "Clients that open a session for each fetch; more consumers than the cache has slots; a"
        " broker that was started again.",
        SESSION,
    ),
    Error.INVALID_FETCH_SESSION_EPOCH: Rule(
        "The requests of a fetch session are counted, and this one is out of turn.",
        "KIP-227; FetchSession, FetchManager.newContext",
        "Nothing: clients ask for a new session. It shows that an answer, or a request, was lost.",
        "A connection that broke while an answer was on its way.",
        SESSION,
    ),
    Error.FETCH_SESSION_TOPIC_ID_ERROR: Rule(
        "The session goes by topic ids and the request by names, or the other way round.",
        "KIP-516; FetchManager, FetchSession",
        "Nothing: clients ask for a new session.",
        "A cluster, or a client, that is being updated across 3.1.",
        SESSION,
    ),
    Error.OFFSET_OUT_OF_RANGE: Rule(
        "The offset that is asked for is before the log's first one, or behind its end.",
        "ReplicaManager.readFromLog, LocalLog.read",
        "Consumers go where auto.offset.reset says. Where records are lost that way: read faster"
        " than retention deletes, or keep records longer.",
        "A consumer that was away longer than the retention; offsets of another cluster; a log that"
        " lost its end in an unclean election.",
        "state/replication/reading.py",
    ),
    Error.OFFSET_NOT_AVAILABLE: Rule(
        "A new leader does not know yet how far its log was acknowledged.",
        "KIP-207; Partition.fetchOffsetForTimestamp",
        "Nothing: clients ask again.",
        "A leader that was elected a moment ago.",
    ),
    Error.NOT_LEADER_OR_FOLLOWER: Rule(
        "Another broker leads the partition, or this one has no replica of it.",
        "ReplicaManager.appendToLocalLog; KIP-951",
        "Nothing: clients fetch metadata and try again.",
        "A leader that moved: a restart, an election, a reassignment.",
        MACHINES,
    ),
    Error.LEADER_NOT_AVAILABLE: Rule(
        "The partition has no leader now: it is being made, or all its in-sync replicas are away.",
        "KRaftMetadataCache",
        "Nothing: clients ask again. If it stays, bring one of the in-sync brokers back; an unclean"
        " election loses records.",
        "A topic that was created a moment ago; brokers that are down.",
        "state/apis/metadata.py",
    ),
    Error.LISTENER_NOT_FOUND: Rule(
        "The partition's leader has not the listener by which the client came.",
        "KRaftMetadataCache",
        "Give all brokers the same `listeners`, or connect by one that all of them have.",
        "A listener that was added to some brokers of a cluster and not to all.",
        "state/apis/metadata.py",
    ),
    Error.REPLICA_NOT_AVAILABLE: Rule(
        "A replica of the partition is on a broker that the client cannot reach.",
        "KRaftMetadataCache; Metadata version 0",
        "Nothing: the partition can be used. A client of today is told which replicas are offline.",
        "A client of before Kafka 0.10, while a broker is down.",
        "state/apis/metadata.py",
    ),
    Error.FENCED_LEADER_EPOCH: Rule(
        "The request is of an older leader epoch than the broker's.",
        "KIP-320; Partition.checkCurrentLeaderEpoch",
        "Nothing: clients fetch metadata and try again.",
        "A client or follower that has not heard of an election yet.",
        MACHINES,
    ),
    Error.UNKNOWN_LEADER_EPOCH: Rule(
        "The request is of a newer leader epoch than the broker has heard of.",
        "KIP-320; Partition.checkCurrentLeaderEpoch",
        "Nothing: clients try again, and the broker will have heard.",
        "A broker that is behind in reading the cluster's metadata.",
        MACHINES,
    ),
    Error.NOT_ENOUGH_REPLICAS: Rule(
        "Fewer replicas are in sync than min.insync.replicas; nothing was written.",
        "Partition.appendRecordsToLeader",
        "Clients try again until delivery.timeout.ms. Look for followers that are away or slow.",
        "Brokers that are down, or too slow to stay in sync; min.insync.replicas as high as the"
        " replication factor.",
        "state/apis/produce.py",
    ),
    Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND: Rule(
        "The batch was written, and then too few replicas were in sync to acknowledge it.",
        "Partition.checkEnoughReplicasReachOffset, DelayedProduce",
        "Clients send it again: without idempotence it may then be there twice.",
        "A follower that went while the batch was being copied.",
        "state/replication/acks.py",
    ),
    Error.REQUEST_TIMED_OUT: Rule(
        "What was asked for was not done within the request's time-out; of a Produce, the leader"
        " has the batch and followers have not.",
        "DelayedProduce, DelayedDeleteRecords, ReplicationControlManager",
        "Clients send it again; the broker knows a batch by its sequence. Look at the followers.",
        "Followers that are slow or away.",
        "state/replication/acks.py",
    ),
    Error.NETWORK_EXCEPTION: Rule(
        "A broker lost the connection to another one that had to be asked.",
        "AddPartitionsToTxnManager",
        "Nothing: clients try again.",
        "A transaction coordinator that does not answer in time.",
        "state/transactions/transaction_verification.py",
    ),
    Error.KAFKA_STORAGE_ERROR: Rule(
        "The broker cannot read or write the partition's log directory.",
        "KIP-112; ReplicaManager.handleLogDirFailure, LogDirFailureChannel",
        "Look at the broker's disks and its log; DescribeLogDirs says which directory has failed."
        " Clients fetch metadata and try again.",
        "A disk that is full or broken.",
        "state/cluster/machines.py",
    ),
    Error.LOG_DIR_NOT_FOUND: Rule(
        "The broker has no log directory of this path.",
        "KIP-113; ReplicaManager.alterReplicaLogDirs",
        "Name one of the broker's log.dirs: DescribeLogDirs lists them.",
        "A path that is mistyped, or of another broker.",
        "state/apis/alter_replica_log_dirs.py",
    ),
    Error.INVALID_UPDATE_VERSION: Rule(
        "The leader's change of the in-sync set is based on an older one than the controller has.",
        "KIP-497; ReplicationControlManager.validateAlterPartitionData",
        "Nothing: the leader takes the newer one and asks again.",
        "Two changes of one partition that cross.",
        ISR,
    ),
    Error.INELIGIBLE_REPLICA: Rule(
        "A broker that is fenced, stopping or started again may not come into the in-sync set.",
        "KIP-841, KIP-966; ReplicationControlManager.validateAlterPartitionData",
        "Nothing: the leader asks again when the broker may.",
        "A broker that is about to stop, or has just started.",
        ISR,
    ),
    Error.NOT_CONTROLLER: Rule(
        "The broker or controller that was asked is not the active controller.",
        "ReplicationControlManager, ControllerApis",
        "Nothing: who asked looks for the controller again.",
        "An election among the controllers.",
        ISR,
    ),
    Error.STALE_CONTROLLER_EPOCH: Rule(
        "The command came from a controller that was replaced since (clusters with ZooKeeper).",
        "until Kafka 3.9: ReplicaManager.becomeLeaderOrFollower",
        "Nothing: the new controller tells the broker.",
        "Two controllers that both took themselves for the active one.",
        "state/replication/leader_and_isr.py",
    ),
    Error.NEW_LEADER_ELECTED: Rule(
        "By the change that was asked for the partition has got another leader.",
        "KIP-841; ReplicationControlManager.alterPartition",
        "Nothing: the former leader waits for the cluster's metadata.",
        "The last step of a reassignment whose new replicas do not have the leader.",
        "state/apis/alter_partition.py",
    ),
    Error.PREFERRED_LEADER_NOT_AVAILABLE: Rule(
        "The first of the partition's replicas is not in sync, so it cannot lead.",
        "KIP-460; ReplicationControlManager.electLeader",
        "Bring that broker back, wait until it is in sync, and try again.",
        "An election that an operator asked for too early.",
        ELECT,
    ),
    Error.ELIGIBLE_LEADERS_NOT_AVAILABLE: Rule(
        "None of the partition's replicas may lead.",
        "KIP-460; ReplicationControlManager.electLeader",
        "Bring one of its brokers back.",
        "All brokers of a partition that are down.",
        ELECT,
    ),
    Error.ELECTION_NOT_NEEDED: Rule(
        "The preferred leader leads, or the partition has a leader already.",
        "KIP-460; ReplicationControlManager.electLeader",
        "Nothing is to be done.",
        "Tools that ask for an election of all partitions.",
        ELECT,
    ),
    Error.NO_REASSIGNMENT_IN_PROGRESS: Rule(
        "There is no reassignment of the partition that could be cancelled.",
        "KIP-455; ReplicationControlManager.cancelPartitionReassignment",
        "Nothing is to be done: it has ended, or never began.",
        "An operator who cancels what is done.",
        "state/apis/alter_partition_reassignments.py",
    ),
    Error.BROKER_ID_NOT_REGISTERED: Rule(
        "The controller knows no broker of this id.",
        "ReplicationControlManager.unregisterBroker",
        "Look at the id.",
        "An operator who removes a broker that is gone already.",
        "state/apis/unregister_broker.py",
    ),
    Error.DUPLICATE_BROKER_REGISTRATION: Rule(
        "Another process with this broker id is alive.",
        "KIP-631; ClusterControlManager.registerBroker",
        "Give each broker a node.id of its own; after a crash wait for broker.session.timeout.ms.",
        "Two brokers with the same settings; a broker that is started again at once.",
        REGISTRATION,
    ),
    Error.INCONSISTENT_CLUSTER_ID: Rule(
        "The broker's disks are of another cluster.",
        "KIP-631; ClusterControlManager.registerBroker",
        "Look at controller.quorum.bootstrap.servers, and at meta.properties of its log"
        " directories.",
        "Disks, or addresses, of another environment.",
        REGISTRATION,
    ),
    Error.INVALID_REGISTRATION: Rule(
        "What a broker says when it registers cannot be: its log directories.",
        "KIP-858; ClusterControlManager.registerBroker",
        "Look at log.dirs and at meta.properties in each of them.",
        "A log directory that was copied.",
        REGISTRATION,
    ),
    Error.STALE_BROKER_EPOCH: Rule(
        "The request is of a former life of the broker: it has registered again since.",
        "KIP-380, KIP-631; ClusterControlManager.checkBrokerEpoch",
        "Nothing: the broker goes on with its new epoch.",
        "A request that was on its way while the broker was started again.",
        "state/apis/broker_heartbeat.py",
    ),
}
