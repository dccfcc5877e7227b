"""Errors of producers and their transactions, and of batches that are not right."""

from brokertwin.state.core.errors import Error
from brokertwin.streaming.explain.rules.rule import Rule

PRODUCER = "state/logs/producer.py"
PRODUCE = "state/apis/produce.py"
COORDINATOR = "state/transactions/transactions.py"
VERIFICATION = "state/transactions/transaction_verification.py"

RULES: dict[int, Rule] = {
    Error.INVALID_PRODUCER_EPOCH: Rule(
        "The broker knows a newer epoch of this producer than the request has.",
        "KIP-98, KIP-360; ProducerAppendInfo, TransactionCoordinator",
        "Another producer with the same transactional.id has begun, or the transaction timed out:"
        " let one instance alone use the id; close this producer and make a new one.",
        "A second instance with the same transactional.id: a deployment that overlaps, a consumer"
        " group that gave a partition away; or a transaction above transaction.timeout.ms.",
        PRODUCER,
    ),
    Error.PRODUCER_FENCED: Rule(
        "Another producer with the same transactional.id has begun since.",
        "KIP-98, KIP-588; TransactionCoordinator",
        "Close this producer. If both instances are to live, give each a transactional.id.",
        "The same as INVALID_PRODUCER_EPOCH: newer clients are told this by the coordinator.",
        COORDINATOR,
    ),
    Error.OUT_OF_ORDER_SEQUENCE_NUMBER: Rule(
        "A batch has to begin where the producer's last one in the partition ended.",
        "KIP-98; ProducerAppendInfo.checkSequence",
        "Records in between did not reach the log. A producer without transactions begins a new"
        " epoch (KIP-360); one with transactions aborts. Look for what failed before this batch.",
        "A batch that the client gave up (delivery.timeout.ms, a callback that went on after an"
        " error) while later ones were on their way; a log that lost its end in an unclean"
        " election; a client with a fault.",
        PRODUCER,
    ),
    Error.DUPLICATE_SEQUENCE_NUMBER: Rule(
        "The batch lies below the next sequence and is none of the last five that the broker keeps."
        " Kafka's brokers give 45 today; a machine here gives this with its setting for old ones.",
        "KIP-98; Sender takes it from old brokers",
        "It is in the log already: clients take it for a success.",
        "A batch that was sent again long after its answer was lost.",
        PRODUCER,
    ),
    Error.UNKNOWN_PRODUCER_ID: Rule(
        "The broker has no record of this producer in the partition any more.",
        "KIP-360; brokers from 2.4 on accept such a batch if it begins at 0",
        "Update the broker, or raise producer.id.expiration.ms.",
        "A producer that was idle until its records, or what the broker knew of it, were deleted.",
        PRODUCER,
    ),
    Error.INVALID_PRODUCER_ID_MAPPING: Rule(
        "The coordinator knows this transactional.id with another producer id, or not at all.",
        "KIP-98; TransactionCoordinator",
        "The id expired (transactional.id.expiration.ms) or belongs to a newer producer: make a"
        " new one.",
        "A producer that was idle for a week; one whose id was given to another.",
        COORDINATOR,
    ),
    Error.INVALID_TXN_STATE: Rule(
        "The transaction is not in a state that allows the request. With transaction.version 2 a"
        " commit gets this error if the coordinator has aborted the transaction before, because it"
        " was open for longer than transaction.timeout.ms (KAFKA-20785).",
        "KIP-98, KIP-890, KAFKA-20785; TransactionCoordinator.endTransaction, TransactionMetadata,"
        " UnifiedLog.analyzeAndValidateProducerState",
        "On a commit: compare the time since the transaction began with transaction.timeout.ms."
        " After a time-out nothing was committed; close the producer, make a new one, and repeat"
        " the transaction. Otherwise: begin a transaction before writing, and end it once.",
        "A client whose transaction timed out before its commit; one that commits after it has"
        " aborted, or writes to a partition that it has not added.",
        COORDINATOR,
    ),
    Error.CONCURRENT_TRANSACTIONS: Rule(
        "The transaction before is still being ended: markers are on their way to its partitions.",
        "KIP-98, KIP-447; TransactionCoordinator",
        "Nothing: clients try again by themselves, after retry.backoff.ms.",
        "Every client whose transactions follow each other quickly; a new instance that fences"
        " one with an open transaction.",
        "state/transactions/transaction_coordinator.py",
    ),
    Error.INVALID_TRANSACTION_TIMEOUT: Rule(
        "transaction.timeout.ms is above the broker's transaction.max.timeout.ms.",
        "KIP-98; TransactionCoordinator.handleInitProducerId",
        "Lower the one, or raise the other.",
        "The client's settings; stream processors whose checkpoints take long.",
        "state/apis/init_producer_id.py",
    ),
    Error.TRANSACTION_ABORTABLE: Rule(
        "The transaction cannot be committed any more; it may be aborted.",
        "KIP-890; verification of partitions that were not added",
        "Abort, and begin a new transaction with the same producer.",
        "A request of a transaction that had ended when it arrived.",
        VERIFICATION,
    ),
    Error.TRANSACTION_COORDINATOR_FENCED: Rule(
        "A marker came from a coordinator that was replaced since.",
        "KIP-98; ProducerAppendInfo.checkCoordinatorEpoch",
        "Nothing: the new coordinator writes the marker.",
        "A transaction coordinator that moved to another broker.",
        PRODUCER,
    ),
    Error.TRANSACTIONAL_ID_NOT_FOUND: Rule(
        "The coordinator has no transaction of this transactional.id.",
        "KIP-664; TransactionCoordinator.handleDescribeTransactions",
        "Look at the id: `kafka-transactions.sh list` has those that there are. It may have"
        " expired.",
        "Somebody who asks about an id that was never used, or not for a week.",
        "state/apis/describe_transactions.py",
    ),
    Error.OPERATION_NOT_ATTEMPTED: Rule(
        "Another partition of the request was refused, so nothing was done for this one.",
        "KIP-98; KafkaApis.handleAddPartitionsToTxnRequest",
        "Look at the other partitions' errors, and try again without them.",
        "One topic that is not there, or may not be written.",
        "state/apis/add_partitions_to_txn.py",
    ),
    Error.MESSAGE_TOO_LARGE: Rule(
        "The batch is larger than max.message.bytes of the topic.",
        "UnifiedLog.analyzeAndValidateRecords",
        "Send smaller records, or raise max.message.bytes (and max.request.size of the client)."
        " Clients split a batch of several records by themselves.",
        "A single large record; compression that was turned off.",
        PRODUCE,
    ),
    Error.CORRUPT_MESSAGE: Rule(
        "The batch is not as it was when its checksum was made, or is no batch.",
        "LogValidator; DefaultRecordBatch.ensureValid",
        "Clients send it again. If it comes back: look at memory and network of the client, and at"
        " proxies in between.",
        "A client or proxy that changes bytes; keys that lack on a compacted topic.",
        PRODUCE,
    ),
    Error.INVALID_RECORD: Rule(
        "The records are not what this topic takes: a format that is too old, a wrong count or"
        " order of offsets, a control batch of a client.",
        "KIP-467; LogValidator",
        "Nothing that is tried again helps: look at the client, and at recordErrors in the answer.",
        "An old or home-made client; a record without a key on a compacted topic.",
        PRODUCE,
    ),
    Error.INVALID_TIMESTAMP: Rule(
        "A record's time is further from the broker's than message.timestamp.before.max.ms or"
        " message.timestamp.after.max.ms allow.",
        "KIP-32, KIP-937; LogValidator.validateTimestamp",
        "Set the clock of the client right, or the limits of the topic.",
        "A clock that is wrong; seconds or microseconds in the place of milliseconds.",
        PRODUCE,
    ),
    Error.INVALID_REQUIRED_ACKS: Rule(
        "acks is neither 0, 1 nor -1 (all).",
        "ReplicaManager.isValidRequiredAcks",
        "Set acks to all.",
        "A client that still takes a number of replicas.",
        PRODUCE,
    ),
    Error.UNSUPPORTED_COMPRESSION_TYPE: Rule(
        "The request's version does not know the compression: zstd needs Produce 7, Fetch 10.",
        "KIP-110; ProduceRequest.validateRecords",
        "Update the client, or choose another compression.type.",
        "An old client on a topic that was written, or is to be written, with zstd.",
        PRODUCE,
    ),
}
