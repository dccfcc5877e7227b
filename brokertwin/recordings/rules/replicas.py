"""Errors of fetch sessions, leaders, in-sync sets, elections and brokers."""

from brokertwin.protocol.errors import Error
from brokertwin.recordings.rules.rule import Rule

SESSION = "state/fetch/fetch_session.py"
ISR = "state/replication/isr_controller.py"
MACHINES = "state/cluster/machines.py"
REGISTRATION = "state/apis/broker_registration.py"
ELECT = "state/apis/elect_leaders.py"

RULES: dict[int, Rule] = {
    Error.FETCH_SESSION_ID_NOT_FOUND: Rule(
        "The broker does not have the fetch session: it was closed or evicted.",
        "KIP-227; FetchManager.newContext",
        "No action: clients open a new session. If it happens often, raise"
        " max.incremental.fetch.session.cache.slots, or find clients that open many sessions.",
        "Clients that open a session for each fetch; more consumers than cache slots; a broker"
        " restart.",
        SESSION,
    ),
    Error.INVALID_FETCH_SESSION_EPOCH: Rule(
        "The request does not have the next epoch of the fetch session.",
        "KIP-227; FetchSession, FetchManager.newContext",
        "No action: clients open a new session. A request or a response was lost.",
        "A connection that failed while a response was in flight.",
        SESSION,
    ),
    Error.FETCH_SESSION_TOPIC_ID_ERROR: Rule(
        "The session uses topic ids and the request topic names, or the reverse.",
        "KIP-516; FetchManager, FetchSession",
        "No action: clients open a new session.",
        "A cluster or client during an upgrade across 3.1.",
        SESSION,
    ),
    Error.OFFSET_OUT_OF_RANGE: Rule(
        "The requested offset is below the log start or above the log end.",
        "ReplicaManager.readFromLog, LocalLog.read",
        "Consumers apply auto.offset.reset. If this loses records, read faster than retention"
        " deletes them, or extend the retention.",
        "A consumer that was stopped for longer than the retention; offsets of another cluster; an"
        " unclean election that truncated the log.",
        "state/replication/reading.py",
    ),
    Error.OFFSET_NOT_AVAILABLE: Rule(
        "The new leader does not know its high watermark yet.",
        "KIP-207; Partition.fetchOffsetForTimestamp",
        "No action: clients retry.",
        "A leader that was elected a moment ago.",
    ),
    Error.NOT_LEADER_OR_FOLLOWER: Rule(
        "Another broker leads the partition, or this broker has no replica of it.",
        "ReplicaManager.appendToLocalLog; KIP-951",
        "No action: clients refresh their metadata and retry.",
        "A leader that moved, after a restart, an election or a reassignment.",
        MACHINES,
    ),
    Error.LEADER_NOT_AVAILABLE: Rule(
        "The partition has no leader: it is being created, or all its in-sync replicas are"
        " offline.",
        "KRaftMetadataCache",
        "No action: clients retry. If it persists, restart one of the in-sync brokers; an unclean"
        " election loses records.",
        "A topic that was created a moment ago; brokers that are down.",
        "state/apis/metadata.py",
    ),
    Error.LISTENER_NOT_FOUND: Rule(
        "The partition leader does not have the listener that the client connected to.",
        "KRaftMetadataCache",
        "Configure the same `listeners` on all brokers, or connect to one that all have.",
        "A listener that only some brokers of the cluster have.",
        "state/apis/metadata.py",
    ),
    Error.REPLICA_NOT_AVAILABLE: Rule(
        "A replica of the partition is on a broker that is offline for the client.",
        "KRaftMetadataCache; Metadata version 0",
        "No action: the partition is usable. Newer clients get a list of offline replicas instead.",
        "A client older than Kafka 0.10 while a broker is down.",
        "state/apis/metadata.py",
    ),
    Error.FENCED_LEADER_EPOCH: Rule(
        "The request has an older leader epoch than the broker.",
        "KIP-320; Partition.checkCurrentLeaderEpoch",
        "No action: clients refresh their metadata and retry.",
        "A client or follower that does not know about an election yet.",
        MACHINES,
    ),
    Error.UNKNOWN_LEADER_EPOCH: Rule(
        "The request has a newer leader epoch than the broker knows.",
        "KIP-320; Partition.checkCurrentLeaderEpoch",
        "No action: clients retry until the broker has the metadata.",
        "A broker that lags behind the cluster's metadata.",
        MACHINES,
    ),
    Error.NOT_ENOUGH_REPLICAS: Rule(
        "Fewer replicas are in sync than min.insync.replicas. The batch was not written.",
        "Partition.appendRecordsToLeader",
        "Clients retry until delivery.timeout.ms. Find followers that are offline or slow.",
        "Brokers that are down or too slow; min.insync.replicas equal to the replication factor.",
        "state/apis/produce.py",
    ),
    Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND: Rule(
        "The batch was written, but then too few replicas were in sync to acknowledge it.",
        "Partition.checkEnoughReplicasReachOffset, DelayedProduce",
        "Clients retry. Without idempotence the batch may be duplicated.",
        "A follower that failed while the batch was replicated.",
        "state/replication/acks.py",
    ),
    Error.REQUEST_TIMED_OUT: Rule(
        "The operation did not finish within the request's timeout. For a Produce, the leader has"
        " the batch but followers do not.",
        "DelayedProduce, DelayedDeleteRecords, ReplicationControlManager",
        "Clients retry; the broker detects duplicates by sequence. Check the followers.",
        "Followers that are slow or offline.",
        "state/replication/acks.py",
    ),
    Error.NETWORK_EXCEPTION: Rule(
        "The broker lost its connection to another broker that it needed. Clients use the same name"
        " for the end of their own connection.",
        "AddPartitionsToTxnManager",
        "No action: clients retry.",
        "A transaction coordinator that does not respond in time.",
        "state/transactions/transaction_verification.py",
    ),
    Error.KAFKA_STORAGE_ERROR: Rule(
        "The broker cannot read or write the partition's log directory.",
        "KIP-112; ReplicaManager.handleLogDirFailure, LogDirFailureChannel",
        "Check the broker's disks and log. DescribeLogDirs shows the failed directory. Clients"
        " refresh their metadata and retry.",
        "A full or broken disk.",
        "state/cluster/machines.py",
    ),
    Error.LOG_DIR_NOT_FOUND: Rule(
        "The broker has no log directory with this path.",
        "KIP-113; ReplicaManager.alterReplicaLogDirs",
        "Use one of the broker's log.dirs; DescribeLogDirs lists them.",
        "A mistyped path, or one of another broker.",
        "state/apis/alter_replica_log_dirs.py",
    ),
    Error.INVALID_UPDATE_VERSION: Rule(
        "The leader's change of the in-sync set is based on an older version than the"
        " controller's.",
        "KIP-497; ReplicationControlManager.validateAlterPartitionData",
        "No action: the leader reads the newer version and retries.",
        "Two concurrent changes of one partition.",
        ISR,
    ),
    Error.INELIGIBLE_REPLICA: Rule(
        "A broker that is fenced, shutting down or restarted cannot join the in-sync set.",
        "KIP-841, KIP-966; ReplicationControlManager.validateAlterPartitionData",
        "No action: the leader retries later.",
        "A broker that is about to stop or has just started.",
        ISR,
    ),
    Error.NOT_CONTROLLER: Rule(
        "The broker or controller is not the active controller.",
        "ReplicationControlManager, ControllerApis",
        "No action: the sender looks the controller up again.",
        "An election of the controller.",
        ISR,
    ),
    Error.STALE_CONTROLLER_EPOCH: Rule(
        "The command was sent by a controller that has been replaced (clusters with ZooKeeper).",
        "until Kafka 3.9: ReplicaManager.becomeLeaderOrFollower",
        "No action: the new controller updates the broker.",
        "Two controllers that both considered themselves active.",
        "state/eras/leader_and_isr.py",
    ),
    Error.NEW_LEADER_ELECTED: Rule(
        "The requested change elected another leader of the partition.",
        "KIP-841; ReplicationControlManager.alterPartition",
        "No action: the former leader waits for metadata.",
        "The last step of a reassignment whose new replicas do not include the leader.",
        "state/apis/alter_partition.py",
    ),
    Error.PREFERRED_LEADER_NOT_AVAILABLE: Rule(
        "The preferred replica of the partition is not in sync, so it cannot lead.",
        "KIP-460; ReplicationControlManager.electLeader",
        "Restart that broker, wait until it is in sync, and retry.",
        "An election that was requested too early.",
        ELECT,
    ),
    Error.ELIGIBLE_LEADERS_NOT_AVAILABLE: Rule(
        "No replica of the partition can lead.",
        "KIP-460; ReplicationControlManager.electLeader",
        "Restart one of its brokers.",
        "A partition whose brokers are all down.",
        ELECT,
    ),
    Error.ELECTION_NOT_NEEDED: Rule(
        "The preferred replica already leads, or the partition already has a leader.",
        "KIP-460; ReplicationControlManager.electLeader",
        "No action.",
        "Tools that request an election for all partitions.",
        ELECT,
    ),
    Error.NO_REASSIGNMENT_IN_PROGRESS: Rule(
        "The partition has no reassignment that could be cancelled.",
        "KIP-455; ReplicationControlManager.cancelPartitionReassignment",
        "No action: it has completed or never started.",
        "An operator who cancels a completed reassignment.",
        "state/apis/alter_partition_reassignments.py",
    ),
    Error.BROKER_ID_NOT_REGISTERED: Rule(
        "The controller has no broker with this id.",
        "ReplicationControlManager.unregisterBroker",
        "Check the id.",
        "An operator who removes a broker that is already unregistered.",
        "state/apis/unregister_broker.py",
    ),
    Error.CONTROLLER_ID_NOT_REGISTERED: Rule(
        "The quorum has no registered controller with this id.",
        "QuorumController.unregisterController, since Kafka 4.4",
        "Check the id.",
        "An operator who removes a controller that is already unregistered.",
        "state/apis/unregister_controller.py",
    ),
    Error.DUPLICATE_BROKER_REGISTRATION: Rule(
        "Another process with this broker id is alive.",
        "KIP-631; ClusterControlManager.registerBroker",
        "Give each broker its own node.id. After a crash, wait for broker.session.timeout.ms.",
        "Two brokers with the same settings; a broker that restarts immediately.",
        REGISTRATION,
    ),
    Error.INCONSISTENT_CLUSTER_ID: Rule(
        "The broker's disks belong to another cluster.",
        "KIP-631; ClusterControlManager.registerBroker",
        "Check controller.quorum.bootstrap.servers, and meta.properties in the log directories.",
        "Disks or addresses of another environment.",
        REGISTRATION,
    ),
    Error.INVALID_REGISTRATION: Rule(
        "The broker's registration is invalid: its log directories.",
        "KIP-858; ClusterControlManager.registerBroker",
        "Check log.dirs, and meta.properties in each directory.",
        "A copied log directory.",
        REGISTRATION,
    ),
    Error.STALE_BROKER_EPOCH: Rule(
        "The request has an old broker epoch: the broker has registered again since.",
        "KIP-380, KIP-631; ClusterControlManager.checkBrokerEpoch",
        "No action: the broker continues with its new epoch.",
        "A request that was in flight while the broker restarted.",
        "state/apis/broker_heartbeat.py",
    ),
}
