"""Errors of producers, their transactions, and invalid batches."""

from brokertwin.protocol.errors import Error
from brokertwin.recordings.rules.rule import Rule

PRODUCER = "state/logs/producer.py"
PRODUCE = "state/apis/produce.py"
COORDINATOR = "state/transactions/transactions.py"
VERIFICATION = "state/transactions/transaction_verification.py"

RULES: dict[int, Rule] = {
    Error.INVALID_PRODUCER_EPOCH: Rule(
        "The request has an older producer epoch than the broker knows.",
        "KIP-98, KIP-360; ProducerAppendInfo, TransactionCoordinator",
        "Another producer with the same transactional.id has begun, or the transaction timed out:"
        " use each id in one instance only. Close this producer and create a new one.",
        "A second instance with the same transactional.id (overlapping deployments, or a"
        " reassigned partition), or a transaction that exceeded transaction.timeout.ms.",
        PRODUCER,
    ),
    Error.PRODUCER_FENCED: Rule(
        "Another producer with the same transactional.id has started since.",
        "KIP-98, KIP-588; TransactionCoordinator",
        "Close this producer. If both instances are needed, give each its own transactional.id.",
        "The same as for 47 INVALID_PRODUCER_EPOCH. Coordinators return this error to newer"
        " clients.",
        COORDINATOR,
    ),
    Error.OUT_OF_ORDER_SEQUENCE_NUMBER: Rule(
        "A batch does not start where the producer's previous batch in the partition ended.",
        "KIP-98; ProducerAppendInfo.checkSequence",
        "Records in between did not reach the log. A producer without transactions starts a new"
        " epoch (KIP-360); one with transactions aborts. Find the failure before this batch.",
        "A batch that the client gave up (delivery.timeout.ms, or an ignored error in a callback)"
        " while later batches were in flight; an unclean election that truncated the log; a client"
        " bug.",
        PRODUCER,
    ),
    Error.DUPLICATE_SEQUENCE_NUMBER: Rule(
        "The batch is below the expected sequence and is not one of the last five batches. Kafka"
        " returns 45 OUT_OF_ORDER_SEQUENCE_NUMBER instead; brokertwin returns this error with"
        " brokertwin.duplicates.below.expected.",
        "KIP-98; Sender takes it from old brokers",
        "The batch is already in the log, and clients treat the error as success.",
        "A batch that was resent long after its response was lost.",
        PRODUCER,
    ),
    Error.UNKNOWN_PRODUCER_ID: Rule(
        "The broker no longer has any state of this producer in the partition.",
        "KIP-360; brokers from 2.4 on accept such a batch if it begins at 0",
        "Update the broker, or raise producer.id.expiration.ms.",
        "A producer that was idle until its records or its state were deleted.",
        PRODUCER,
    ),
    Error.INVALID_PRODUCER_ID_MAPPING: Rule(
        "The coordinator has another producer id for this transactional.id, or does not know it.",
        "KIP-98; TransactionCoordinator",
        "The id expired (transactional.id.expiration.ms) or belongs to a newer producer. Create a"
        " new producer.",
        "A producer that was idle for a week; a producer that was replaced by another with the"
        " same id.",
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
        "The previous transaction is still ending: its markers are being written.",
        "KIP-98, KIP-447; TransactionCoordinator",
        "No action: clients retry after retry.backoff.ms.",
        "Clients with transactions in quick succession; a new instance that fences one with an"
        " open transaction.",
        "state/transactions/transaction_coordinator.py",
    ),
    Error.INVALID_TRANSACTION_TIMEOUT: Rule(
        "transaction.timeout.ms is above the broker's transaction.max.timeout.ms.",
        "KIP-98; TransactionCoordinator.handleInitProducerId",
        "Lower transaction.timeout.ms or raise transaction.max.timeout.ms.",
        "The client's settings; stream processors with long checkpoints.",
        "state/apis/init_producer_id.py",
    ),
    Error.TRANSACTION_ABORTABLE: Rule(
        "The transaction cannot be committed any more, but it can be aborted.",
        "KIP-890; verification of partitions that were not added",
        "Abort it and start a new transaction with the same producer.",
        "A request that arrived after its transaction had ended.",
        VERIFICATION,
    ),
    Error.TRANSACTION_COORDINATOR_FENCED: Rule(
        "A marker was sent by a coordinator that has been replaced.",
        "KIP-98; ProducerAppendInfo.checkCoordinatorEpoch",
        "No action: the new coordinator writes the marker.",
        "A transaction coordinator that moved to another broker.",
        PRODUCER,
    ),
    Error.TRANSACTIONAL_ID_NOT_FOUND: Rule(
        "The coordinator has no transaction with this transactional.id.",
        "KIP-664; TransactionCoordinator.handleDescribeTransactions",
        "Check the id: `kafka-transactions.sh list` shows the existing ones. It may have expired.",
        "A request for an id that was never used, or not for a week.",
        "state/apis/describe_transactions.py",
    ),
    Error.OPERATION_NOT_ATTEMPTED: Rule(
        "Another partition of the request was rejected, so this one was not processed.",
        "KIP-98; KafkaApis.handleAddPartitionsToTxnRequest",
        "Check the errors of the other partitions and retry without them.",
        "A topic that does not exist, or that the client may not write.",
        "state/apis/add_partitions_to_txn.py",
    ),
    Error.MESSAGE_TOO_LARGE: Rule(
        "The batch is larger than max.message.bytes of the topic.",
        "UnifiedLog.analyzeAndValidateRecords",
        "Send smaller records, or raise max.message.bytes and the client's max.request.size."
        " Clients split batches of several records themselves.",
        "A single large record; compression that was disabled.",
        PRODUCE,
    ),
    Error.RECORD_LIST_TOO_LARGE: Rule(
        "The batch is larger than segment.bytes of the topic.",
        "UnifiedLog.append",
        "Send smaller batches, or raise segment.bytes of the topic.",
        "A topic with small segments, and a producer with a large batch.size.",
        PRODUCE,
    ),
    Error.CORRUPT_MESSAGE: Rule(
        "The checksum of the batch does not match, or the bytes are not a batch.",
        "LogValidator; DefaultRecordBatch.ensureValid",
        "Clients retry. If it persists, check the memory and network of the client, and proxies in"
        " between.",
        "A client or proxy that changes bytes; missing keys on a compacted topic.",
        PRODUCE,
    ),
    Error.INVALID_RECORD: Rule(
        "The topic does not accept the records: an old format, a wrong count or order of offsets,"
        " or a control batch from a client.",
        "KIP-467; LogValidator",
        "Retrying does not help. Check the client, and recordErrors in the response.",
        "An old or custom client; a record without a key on a compacted topic.",
        PRODUCE,
    ),
    Error.INVALID_TIMESTAMP: Rule(
        "A record's timestamp is outside message.timestamp.before.max.ms and"
        " message.timestamp.after.max.ms.",
        "KIP-32, KIP-937; LogValidator.validateTimestamp",
        "Correct the client's clock, or change the limits of the topic.",
        "A wrong clock; seconds or microseconds instead of milliseconds.",
        PRODUCE,
    ),
    Error.INVALID_REQUIRED_ACKS: Rule(
        "acks is invalid; only 0, 1 and all (-1) are allowed.",
        "ReplicaManager.isValidRequiredAcks",
        "Set acks to all.",
        "An old client that sets acks to a number of replicas.",
        PRODUCE,
    ),
    Error.UNSUPPORTED_COMPRESSION_TYPE: Rule(
        "The request version does not support the compression: zstd needs Produce 7 or Fetch 10.",
        "KIP-110; ProduceRequest.validateRecords",
        "Update the client, or use another compression.type.",
        "An old client that reads or writes a topic with zstd.",
        PRODUCE,
    ),
}
