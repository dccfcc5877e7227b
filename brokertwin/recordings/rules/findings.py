"""Rules of Kafka for findings that are not about one error code, by the kind of the finding."""

from brokertwin.recordings.rules.rule import Rule

OF_FINDINGS: dict[str, Rule] = {
    "rebalances": Rule(
        "Members that join, leave or are not heard of begin a rebalance, for which all of them"
        " stop.",
        "ClassicGroup, GroupMetadataManager; KIP-62, KIP-345, KIP-848",
        "Look at who began them: give instances that restart a group.instance.id, poll faster or"
        " raise max.poll.interval.ms where members are dropped, deploy fewer members at a time.",
    ),
    "member-dropped": Rule(
        "A member that sends no heartbeat for session.timeout.ms, or does not poll for"
        " max.poll.interval.ms, is not in the next generation.",
        "KIP-62; ClassicGroup, GroupMetadataManager",
        "Look for pauses of its process (GC, slow records) and for lost connections; fewer"
        " max.poll.records or a greater max.poll.interval.ms. A static member sends no"
        " LeaveGroup: one that is stopped is dropped after session.timeout.ms.",
    ),
    "max-poll-exceeded": Rule(
        "A consumer that does not poll for max.poll.interval.ms leaves its group. Its next poll"
        " joins"
        " again.",
        "KIP-62, KIP-800; AbstractCoordinator.HeartbeatThread",
        "Its records take too long: lower max.poll.records, make the processing faster, or raise"
        " max.poll.interval.ms.",
    ),
    "member-came-back": Rule(
        "A member that leaves and joins again begins two rebalances.",
        "KIP-62, KIP-345; AbstractCoordinator.maybeLeaveGroup",
        "It is the same process, because it uses the same connection or member id. Look whether it"
        " exceeded max.poll.interval.ms or subscribes again: only newer Java clients give a"
        " reason.",
    ),
    "join-waits-for-member-id": Rule(
        "A client without a member id is given one and has to join with it. Until it does, or"
        " session.timeout.ms is over, a rebalance waits for it.",
        "KIP-394; ClassicGroup.addPendingMember, hasAllMembersJoined",
        "Look at the client that asked for the id: it was stopped between its two requests, or its"
        " request timed out. A shorter session.timeout.ms shortens the wait.",
    ),
    "offset-back": Rule(
        "A group's committed offset is the last one, whether it is greater or not.",
        "OffsetMetadataManager.commitOffset",
        "Records from there on are read again. Look at who committed: a reset by hand, an older"
        " member"
        " that came late, or a consumer that began again by auto.offset.reset.",
    ),
    "lag-growing": Rule(
        "The lag of a group is the high watermark less the committed offset.",
        "Metrics records-lag-max; kafka-consumer-groups --describe",
        "Consumers commit less than is written: add some (up to the partitions), look at how long"
        " they"
        " take for a poll, and at rebalances.",
    ),
    "commit-beyond-end": Rule(
        "A group may commit any offset; a broker does not compare it with the log end.",
        "OffsetMetadataManager.commitOffset",
        "Consumers that start there apply auto.offset.reset, or skip records. Look for an offset"
        " that"
        " was set by hand, and for a log that was truncated or created again.",
    ),
    "transaction-timed-out": Rule(
        "The coordinator aborts a transaction that is open for longer than transaction.timeout.ms,"
        " and raises the epoch of its producer.",
        "KIP-98, KIP-890; TransactionCoordinator.abortTimedOutTransactions",
        "Nothing of the transaction was committed. Commit more often, or raise"
        " transaction.timeout.ms"
        " (at most transaction.max.timeout.ms). Look for pauses between its first and last request."
        " With transaction.version 2 a late commit gets 48 INVALID_TXN_STATE (KAFKA-20785): close"
        " the"
        " producer and make a new one.",
    ),
    "epoch-back": Rule(
        "The epochs of a producer id only grow.",
        "KIP-98, KIP-360; TransactionMetadata",
        "The coordinator has lost records that it had written: look at __transaction_state and its"
        " replicas.",
    ),
    "written-twice": Rule(
        "For a batch that is in the log, the response has the offset of that batch.",
        "KIP-98; ProducerStateManager, UnifiedLog.analyzeAndValidateProducerState",
        "Look whether consumers get the records twice; if not, the first copy was lost with a"
        " leader"
        " after it had been acknowledged: look at acks, min.insync.replicas, unclean elections.",
    ),
    "sequence-skipped": Rule(
        "A batch has to begin where the producer's last one in the partition ended.",
        "KIP-98; ProducerAppendInfo.checkSequence",
        "The broker had forgotten the producer: look at producer.id.expiration.ms, and for records"
        " that"
        " were deleted. The records in between were never written in this epoch.",
    ),
    "batch-repeated": Rule(
        "A repeated batch is not written again: the response has the offset of the first one.",
        "KIP-98; ProducerStateEntry, NUM_BATCHES_TO_RETAIN",
        "Nothing: it is in the log once. If it comes often, responses are late or lost: look at"
        " request.timeout.ms and at the broker's load.",
    ),
    "offset-reused": Rule(
        "An offset that was acknowledged is never given again.",
        "KIP-101, KIP-279; Partition, UnifiedLog.truncateTo",
        "The batch that was acknowledged first is lost: look at acks, min.insync.replicas, unclean"
        " elections.",
    ),
    "session-churn": Rule(
        "A session is opened once, by a full fetch, and used until its client goes: the broker has"
        " room for max.incremental.fetch.session.cache.slots of them, 1,000 by default.",
        "KIP-227; FetchSessionCache",
        "Let consumers live longer than a poll; a consumer for each poll evicts the sessions"
        " of others.",
    ),
    "session-denied": Rule(
        "A client gets no session while all slots are taken by sessions in use.",
        "KIP-227; FetchSessionCache.maybeCreateSession",
        "Such a client names all its partitions in every fetch: raise"
        " max.incremental.fetch.session.cache.slots, or look at clients that open many.",
    ),
    "isr-shrunk": Rule(
        "A follower that was not caught up for replica.lag.time.max.ms leaves the in-sync set, and"
        " comes back when it has all below the high watermark.",
        "Partition.getOutOfSyncReplicas, isFollowerInSync",
        "Look at the broker that left: stopped, slow disks or network, too few"
        " num.replica.fetchers."
        " While it is away fewer copies are safe, and acks=all may be refused.",
    ),
    "leader-changed": Rule(
        "A partition gets a new leader if its leader goes, if an election is requested, or if the"
        " preferred leader comes back.",
        "PartitionChangeBuilder, KIP-951",
        "Look at why the broker went. Clients try again by themselves.",
    ),
    "hw-differs": Rule(
        "The high watermark is the least log end offset of those in sync, and does not move below"
        " min.insync.replicas.",
        "Partition.maybeIncrementLeaderHW",
        "Look at `brokertwin replication` of this partition, with --broker-config of the brokers:"
        " the response differs from the rule.",
    ),
    "isr-against-rule": Rule(
        "A broker that joins the in-sync set has all records below the high watermark. A broker"
        " that"
        " leaves it was not caught up for replica.lag.time.max.ms.",
        "Partition.isFollowerInSync, getOutOfSyncReplicas",
        "Look at `brokertwin replication` of this partition.",
    ),
    "records-redelivered": Rule(
        "Records that a member gives back, or does not acknowledge within"
        " group.share.record.lock.duration.ms, are given again, group.share.delivery.count.limit"
        " times"
        " in all; then the group has done with them and no member gets them.",
        "KIP-932; SharePartition",
        "Look at the member that had them: a member that is slower than its lock needs a longer"
        " one,"
        " or to renew it; records that are given back again and again belong in another topic.",
    ),
    "records-rejected": Rule(
        "Records that a member rejects are archived: no member of the group gets them again.",
        "KIP-932; SharePartition",
        "Keep elsewhere what cannot be worked on before it is rejected: the group does not.",
    ),
    "records-archived": Rule(
        "Records that were delivered group.share.delivery.count.limit times and not accepted are"
        " archived: no member of the group gets them again.",
        "KIP-932; SharePartition",
        "The group has skipped these records. Read them with a consumer at their offsets, look at"
        " why"
        " members gave them back, and keep such records elsewhere before the last delivery.",
    ),
    "lso-held-back": Rule(
        "Consumers with isolation.level=read_committed read up to the last stable offset: the first"
        " record of the oldest open transaction.",
        "KIP-98; UnifiedLog.fetchLastStableOffsetMetadata",
        "Look at the client of the transaction: it has to commit or abort. The coordinator aborts"
        " the transaction after transaction.timeout.ms; `kafka-transactions.sh"
        " forceTerminateTransaction` ends it at once. `find-hanging` and `abort` are for one that"
        " the coordinator does not know.",
    ),
    "client-throttled": Rule(
        "A client that exceeds a quota is told to wait, and its connection is muted for that time.",
        "KIP-13, KIP-219; ClientQuotaManager",
        "Look at the quotas of its user and client id: `kafka-configs.sh --describe --entity-type"
        " clients`. Raise them, or let the client send less.",
    ),
    "deprecated-api-version": Rule(
        "Kafka 4 does not have these API versions, and closes the connection at such a request: the"
        " server.log names the version, the request log does not show the request.",
        "KIP-896; validVersions in the message schemas of Kafka 4.3.1",
        "Update the library of this client before the brokers are updated to Kafka 4.",
    ),
    "version-refused": Rule(
        "Kafka 4 lacks these API versions, and closes the connection at such a request. Only"
        " its server.log names the version.",
        "KIP-896; SocketServer.processCompletedReceives",
        "Update the library of this client: it cannot use these brokers.",
    ),
    "broker-gone": Rule(
        "Partitions that a broker led get other leaders, and it leaves the in-sync sets. Clients"
        " are"
        " refused with retriable errors until they know the new leaders and coordinators.",
        "KIP-631, KIP-951; ReplicationControlManager",
        "Look at the server.log of that broker. Refusals during that time need no action, unless"
        " writes had fewer in-sync replicas than min.insync.replicas.",
    ),
}
"""Kind of a finding to its rule."""

REMOVED = Rule(
    "The controller removes a broker from the in-sync sets if it shuts down, or if it sends no"
    " heartbeat for broker.session.timeout.ms.",
    "ReplicationControlManager.processBrokerHeartbeat, KIP-631",
    "Look at the broker that left: shut down, stopped, or without connection to the controller.",
)
"""The rule of `isr-shrunk` if the controller removed the broker."""

NEW_EPOCHS = Rule(
    "Members that join, leave or are not heard of begin an epoch of the group. The coordinator"
    " assigns the partitions, and each member changes to its new ones by its own heartbeats: the"
    " others go on.",
    "GroupMetadataManager; KIP-848, KIP-932, KIP-1071",
    "No action if few partitions move. Give consumers that restart a group.instance.id. How long"
    " a member may be silent is a setting of the broker: group.consumer.session.timeout.ms, or"
    " that of share or streams groups.",
)
"""The rule for `rebalances` of the groups whose coordinator assigns the partitions."""
