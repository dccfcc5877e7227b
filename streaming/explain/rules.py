"""What the errors of producers mean: the rule, where it is from, what the client should do."""

from typing import NamedTuple

from brokerstream.state.core.errors import Error


class Rule(NamedTuple):
    """One error: why a broker gives it, the KIP and the class in Kafka, what to do."""

    why: str
    source: str
    do: str


RULES: dict[Error, Rule] = {
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
    Error.MESSAGE_TOO_LARGE: Rule(
        "The batch is larger than max.message.bytes of the topic.",
        "UnifiedLog.analyzeAndValidateRecords",
        "Send smaller records, or raise max.message.bytes (and max.request.size of the client).",
    ),
}
