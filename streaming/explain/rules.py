"""What errors of producers and groups mean: the rule, its source, what the client should do."""

from typing import NamedTuple

from brokerstream.state.core.errors import Error


class Rule(NamedTuple):
    """One error: why a broker gives it, the KIP and the class in Kafka, what to do."""

    why: str
    source: str
    do: str


RULES: dict[int, Rule] = {
    Error.INVALID_PRODUCER_EPOCH: Rule(
        "The broker knows a newer epoch of this producer than the request has.",
        "KIP-98, KIP-360; ProducerAppendInfo, TransactionCoordinator",
        "Another producer with the same transactional.id has begun, or the transaction timed out:"
        " let one instance alone use the id; close this producer and make a new one.",
    ),
    Error.PRODUCER_FENCED: Rule(
        "Another producer with the same transactional.id has begun since.",
        "KIP-98, KIP-588; TransactionCoordinator",
        "Close this producer. If both instances are to live, give each a transactional.id.",
    ),
    Error.OUT_OF_ORDER_SEQUENCE_NUMBER: Rule(
        "A batch has to begin where the producer's last one in the partition ended.",
        "KIP-98; ProducerAppendInfo.checkSequence",
        "Records in between did not reach the log. A producer without transactions begins a new"
        " epoch (KIP-360); one with transactions aborts. Look for what failed before this batch.",
    ),
    Error.DUPLICATE_SEQUENCE_NUMBER: Rule(
        "The batch repeats sequences older than the last five batches, which the broker keeps.",
        "KIP-98; ProducerStateEntry, NUM_BATCHES_TO_RETAIN",
        "It is in the log already: clients take it for a success.",
    ),
    Error.UNKNOWN_PRODUCER_ID: Rule(
        "The broker has no record of this producer in the partition any more.",
        "KIP-360; brokers from 2.4 on accept such a batch if it begins at 0",
        "Update the broker, or raise producer.id.expiration.ms.",
    ),
    Error.INVALID_PRODUCER_ID_MAPPING: Rule(
        "The coordinator knows this transactional.id with another producer id, or not at all.",
        "KIP-98, KIP-892; TransactionCoordinator",
        "The id expired (transactional.id.expiration.ms) or belongs to a newer producer: make a"
        " new one.",
    ),
    Error.INVALID_TXN_STATE: Rule(
        "The transaction is not in a state in which this may be asked.",
        "KIP-98; TransactionMetadata, UnifiedLog.analyzeAndValidateProducerState",
        "Begin a transaction before writing, and do not end one twice.",
    ),
    Error.CONCURRENT_TRANSACTIONS: Rule(
        "The transaction before is still being ended: markers are on their way to its partitions.",
        "KIP-98, KIP-447; TransactionCoordinator",
        "Nothing: clients try again by themselves, after retry.backoff.ms.",
    ),
    Error.INVALID_TRANSACTION_TIMEOUT: Rule(
        "transaction.timeout.ms is above the broker's transaction.max.timeout.ms.",
        "KIP-98; TransactionCoordinator.handleInitProducerId",
        "Lower the one, or raise the other.",
    ),
    Error.TRANSACTION_ABORTABLE: Rule(
        "The transaction cannot be committed any more; it may be aborted.",
        "KIP-890; verification of partitions that were not added",
        "Abort, and begin a new transaction with the same producer.",
    ),
    Error.COORDINATOR_LOAD_IN_PROGRESS: Rule(
        "The coordinator is reading its log.",
        "TransactionStateManager, BlockProducerIdManager",
        "Nothing: clients try again by themselves.",
    ),
    Error.NOT_COORDINATOR: Rule(
        "Another broker coordinates this transactional.id.",
        "TransactionStateManager",
        "Nothing: clients look the coordinator up again.",
    ),
    Error.NOT_LEADER_OR_FOLLOWER: Rule(
        "Another broker leads the partition.",
        "ReplicaManager.appendToLocalLog; KIP-951",
        "Nothing: clients fetch metadata and try again.",
    ),
    Error.NOT_ENOUGH_REPLICAS: Rule(
        "Fewer replicas are in sync than min.insync.replicas; nothing was written.",
        "Partition.appendRecordsToLeader",
        "Clients try again until delivery.timeout.ms. Look for followers that are away or slow.",
    ),
    Error.REQUEST_TIMED_OUT: Rule(
        "Followers did not copy the batch within the request's time-out; the leader has it.",
        "DelayedProduce",
        "Clients send it again; the broker knows it by its sequence. Look at the followers.",
    ),
    Error.ILLEGAL_GENERATION: Rule(
        "The group has had a rebalance since the member got its generation.",
        "ClassicGroup, GroupCoordinatorService",
        "Join again; what was not committed is read again by whoever has the partitions now. Commit"
        " in the callback for revoked partitions.",
    ),
    Error.UNKNOWN_MEMBER_ID: Rule(
        "The group has no member of this id (any more).",
        "ClassicGroup; KIP-62 (session.timeout.ms, max.poll.interval.ms), KIP-394",
        "Clients join again. If it comes often: poll faster or fewer records, or raise"
        " max.poll.interval.ms; look at pauses of the process.",
    ),
    Error.REBALANCE_IN_PROGRESS: Rule(
        "The group is in a rebalance: all members have to join again.",
        "ClassicGroup; KIP-429 for cooperative ones",
        "Nothing: clients join again. Commit from the callback for revoked partitions.",
    ),
    Error.MEMBER_ID_REQUIRED: Rule(
        "Who joins for the first time is told its id, and has to join again with it.",
        "KIP-394",
        "Nothing: clients do so by themselves.",
    ),
    Error.INCONSISTENT_GROUP_PROTOCOL: Rule(
        "The members have no assignor in common, or are of another protocol type.",
        "ClassicGroup.supportsProtocols",
        "Give all members one partition.assignment.strategy in common; change it in two steps.",
    ),
    Error.INVALID_SESSION_TIMEOUT: Rule(
        "session.timeout.ms is not within the broker's group.min. and max.session.timeout.ms.",
        "GroupCoordinatorConfig",
        "Change the one or the others.",
    ),
    Error.INVALID_GROUP_ID: Rule(
        "The group's id is empty, or none that may be.", "GroupCoordinatorService", "Set group.id."
    ),
    Error.FENCED_INSTANCE_ID: Rule(
        "Another member has joined with the same group.instance.id.",
        "KIP-345; ClassicGroup.validateMember",
        "Give each instance a group.instance.id of its own.",
    ),
    Error.FENCED_MEMBER_EPOCH: Rule(
        "The member's epoch is not the one that the coordinator knows.",
        "KIP-848; GroupMetadataManager",
        "Clients give their partitions back and join again with epoch 0.",
    ),
    Error.STALE_MEMBER_EPOCH: Rule(
        "The commit was sent in an older epoch of the member.",
        "KIP-848; ConsumerGroup.validateOffsetCommit",
        "Clients commit again with the epoch of their next heartbeat.",
    ),
    Error.UNRELEASED_INSTANCE_ID: Rule(
        "The member of this group.instance.id has not left yet.",
        "KIP-848; GroupMetadataManager",
        "Wait until its session ends, or let it leave first.",
    ),
    Error.OFFSET_METADATA_TOO_LARGE: Rule(
        "The text of a commit is longer than offset.metadata.max.bytes.",
        "OffsetMetadataManager",
        "Shorten it.",
    ),
    Error.FETCH_SESSION_ID_NOT_FOUND: Rule(
        "The broker has no fetch session of this id: it was closed, or made room for another.",
        "KIP-227; FetchSessionCache",
        "Nothing: clients ask for a new one with a full fetch. If it comes often, raise"
        " max.incremental.fetch.session.cache.slots, or look at clients that open many.",
    ),
    Error.INVALID_FETCH_SESSION_EPOCH: Rule(
        "The requests of a fetch session are counted, and this one is out of turn.",
        "KIP-227; FetchSession, FetchManager.newContext",
        "Nothing: clients ask for a new session. It shows that an answer, or a request, was lost.",
    ),
    Error.FETCH_SESSION_TOPIC_ID_ERROR: Rule(
        "The session goes by topic ids and the request by names, or the other way round.",
        "KIP-516; FetchSession",
        "Nothing: clients ask for a new session.",
    ),
    Error.GROUP_ID_NOT_FOUND: Rule(
        "There is no such group.", "GroupMetadataManager", "Look at group.id."
    ),
    Error.MESSAGE_TOO_LARGE: Rule(
        "The batch is larger than max.message.bytes of the topic.",
        "UnifiedLog.analyzeAndValidateRecords",
        "Send smaller records, or raise max.message.bytes (and max.request.size of the client).",
    ),
}
