"""Error codes by the texts and names of clients.

Source: Kafka's `Errors`, `rdkafka.c`, KafkaJS's `protocol/error.js`, Sarama's `errors.go`,
franz-go's `kerr`.
"""

from functools import cache

from brokertwin.patterns import later
from brokertwin.protocol.errors import Error

TEXTS: dict[Error, tuple[str, ...]] = {
    Error.OFFSET_OUT_OF_RANGE: ("Offset out of range", "The requested offset"),
    Error.CORRUPT_MESSAGE: ("Invalid message", "Message contents", "This message has"),
    Error.UNKNOWN_TOPIC_OR_PARTITION: (
        "Request was for a topic",
        "This server does",
        "Unknown topic or",
    ),
    Error.INVALID_FETCH_SIZE: ("Invalid message size", "The requested fetch size"),
    Error.LEADER_NOT_AVAILABLE: ("In the middle of", "Leader not available", "There is no leader"),
    Error.NOT_LEADER_OR_FOLLOWER: (
        "For requests intended only",
        "Not leader for partition",
        "This server is not",
        "Tried to send a message",
    ),
    Error.REQUEST_TIMED_OUT: ("Request exceeded", "Request timed out", "The request timed"),
    Error.BROKER_NOT_AVAILABLE: ("Broker not available", "The broker is not available"),
    Error.REPLICA_NOT_AVAILABLE: (
        "Replica information",
        "Replica not available",
        "The replica is not",
    ),
    Error.MESSAGE_TOO_LARGE: (
        "Message size too",
        "Message was too large",
        "The request included a",
    ),
    Error.STALE_CONTROLLER_EPOCH: ("StaleControllerEpochCode", "The controller moved"),
    Error.OFFSET_METADATA_TOO_LARGE: (
        "Offset metadata string",
        "Specified a string",
        "The metadata field",
    ),
    Error.NETWORK_EXCEPTION: ("Broker disconnected", "The server disconnected"),
    Error.COORDINATOR_LOAD_IN_PROGRESS: (
        "Coordinator load",
        "The coordinator is loading",
        "The coordinator is still",
    ),
    Error.COORDINATOR_NOT_AVAILABLE: (
        "Coordinator not available",
        "The coordinator is not available",
        "The group coordinator",
    ),
    Error.NOT_COORDINATOR: (
        "Not coordinator",
        "Request was for a consumer",
        "This is not the correct coordinator",
    ),
    Error.INVALID_TOPIC_EXCEPTION: ("Invalid topic", "The request attempted"),
    Error.NOT_ENOUGH_REPLICAS: ("Messages are rejected", "Not enough in-sync"),
    Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ("Message(s) written", "Messages are written"),
    Error.INVALID_REQUIRED_ACKS: (
        "Invalid required",
        "Produce request specified",
        "The number of required",
    ),
    Error.ILLEGAL_GENERATION: ("Specified group generation", "The provided generation"),
    Error.INCONSISTENT_GROUP_PROTOCOL: (
        "Inconsistent group",
        "The group member's",
        "The provider group",
    ),
    Error.INVALID_GROUP_ID: (
        "Invalid group.id",
        "The configured groupId",
        "The provided group",
        "The group id is invalid",
    ),
    Error.UNKNOWN_MEMBER_ID: (
        "The coordinator is not aware",
        "The provided member",
        "Unknown member",
    ),
    Error.INVALID_SESSION_TIMEOUT: (
        "Invalid session timeout",
        "The provided session",
        "The session timeout",
    ),
    Error.REBALANCE_IN_PROGRESS: (
        "A rebalance for the",
        "Group rebalance in",
        "The group is rebalancing",
    ),
    Error.TOPIC_AUTHORIZATION_FAILED: (
        "Not authorized to access topics",
        "The client is not authorized to access this topic",
        "Topic authorization",
    ),
    Error.GROUP_AUTHORIZATION_FAILED: (
        "Group authorization",
        "Not authorized to access group",
        "The client is not authorized to access this group",
    ),
    Error.CLUSTER_AUTHORIZATION_FAILED: (
        "Cluster authorization",
        "The client is not authorized to send",
    ),
    Error.INVALID_TIMESTAMP: ("Invalid timestamp", "The timestamp of"),
    Error.UNSUPPORTED_SASL_MECHANISM: ("The broker does not", "Unsupported SASL"),
    Error.ILLEGAL_SASL_STATE: ("Request is not valid", "Request not valid"),
    Error.UNSUPPORTED_VERSION: ("API version not supported", "The version of API"),
    Error.TOPIC_ALREADY_EXISTS: ("Topic already exists", "Topic with this name"),
    Error.INVALID_PARTITIONS: ("Invalid number of", "Number of partitions"),
    Error.INVALID_REPLICATION_FACTOR: (
        "Invalid replication",
        "Replication-factor",
        "Replication factor is",
    ),
    Error.INVALID_REPLICA_ASSIGNMENT: ("Invalid replica assignment", "Replica assignment"),
    Error.INVALID_CONFIG: ("Configuration is",),
    Error.NOT_CONTROLLER: ("Not controller for", "This is not the correct controller"),
    Error.INVALID_REQUEST: ("Invalid request", "This most likely"),
    Error.UNSUPPORTED_FOR_MESSAGE_FORMAT: (
        "Message format on",
        "The message format",
        "The requested operation",
    ),
    Error.POLICY_VIOLATION: ("Policy violation", "Request parameters"),
    Error.OUT_OF_ORDER_SEQUENCE_NUMBER: ("Broker received an", "The broker received an"),
    Error.DUPLICATE_SEQUENCE_NUMBER: (
        "Broker received a duplicate",
        "The broker received a duplicate",
    ),
    Error.INVALID_PRODUCER_EPOCH: ("Producer attempted an", "Producer attempted to produce"),
    Error.INVALID_TXN_STATE: ("Producer attempted a transactional", "The producer attempted a"),
    Error.INVALID_PRODUCER_ID_MAPPING: (
        "Producer attempted to use a producer id",
        "The producer attempted to use a producer id",
    ),
    Error.INVALID_TRANSACTION_TIMEOUT: ("The transaction timeout", "Transaction timeout"),
    Error.CONCURRENT_TRANSACTIONS: (
        "Producer attempted to update",
        "The producer attempted to update",
    ),
    Error.TRANSACTION_COORDINATOR_FENCED: (
        "Indicates that the transaction",
        "The transaction coordinator",
    ),
    Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: ("Transactional ID", "Transactional Id"),
    Error.SECURITY_DISABLED: ("Security features",),
    Error.OPERATION_NOT_ATTEMPTED: ("Operation not attempted", "The broker did not"),
    Error.KAFKA_STORAGE_ERROR: ("Disk error when trying",),
    Error.LOG_DIR_NOT_FOUND: ("The specified log", "The user-specified"),
    Error.SASL_AUTHENTICATION_FAILED: ("SASL Authentication",),
    Error.UNKNOWN_PRODUCER_ID: ("The broker could", "This exception is", "Unknown Producer"),
    Error.DELEGATION_TOKEN_AUTH_DISABLED: ("Delegation Token feature",),
    Error.DELEGATION_TOKEN_NOT_FOUND: ("Delegation Token is not",),
    Error.DELEGATION_TOKEN_OWNER_MISMATCH: ("Specified Principal",),
    Error.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: ("Delegation Token requests",),
    Error.DELEGATION_TOKEN_AUTHORIZATION_FAILED: ("Delegation Token authorization",),
    Error.DELEGATION_TOKEN_EXPIRED: ("Delegation Token is expired",),
    Error.INVALID_PRINCIPAL_TYPE: ("Supplied principalType",),
    Error.NON_EMPTY_GROUP: ("The group is not",),
    Error.GROUP_ID_NOT_FOUND: ("The group id does", "The group id was"),
    Error.FETCH_SESSION_ID_NOT_FOUND: ("The fetch session ID",),
    Error.INVALID_FETCH_SESSION_EPOCH: ("The fetch session epoch",),
    Error.LISTENER_NOT_FOUND: ("No matching listener", "There is no listener"),
    Error.TOPIC_DELETION_DISABLED: ("Topic deletion is",),
    Error.FENCED_LEADER_EPOCH: (
        "Leader epoch is older",
        "The leader epoch in the request is older",
    ),
    Error.UNKNOWN_LEADER_EPOCH: (
        "Leader epoch is newer",
        "The leader epoch in the request is newer",
    ),
    Error.UNSUPPORTED_COMPRESSION_TYPE: ("The requesting client", "Unsupported compression"),
    Error.STALE_BROKER_EPOCH: ("Broker epoch has",),
    Error.OFFSET_NOT_AVAILABLE: ("Leader high watermark", "The leader high watermark"),
    Error.MEMBER_ID_REQUIRED: ("Group member needs", "The group member needs"),
    Error.PREFERRED_LEADER_NOT_AVAILABLE: ("Preferred leader", "The preferred leader"),
    Error.GROUP_MAX_SIZE_REACHED: (
        "Consumer group The",
        "Consumer group has",
        "The consumer group",
        "The group has reached",
    ),
    Error.FENCED_INSTANCE_ID: ("Static consumer fenced", "The broker rejected"),
    Error.ELIGIBLE_LEADERS_NOT_AVAILABLE: ("Eligible partition", "Eligible topic partition"),
    Error.ELECTION_NOT_NEEDED: ("Leader election not",),
    Error.NO_REASSIGNMENT_IN_PROGRESS: ("No partition reassignment",),
    Error.GROUP_SUBSCRIBED_TO_TOPIC: ("Deleting offsets",),
    Error.INVALID_RECORD: ("Broker failed to", "This record has failed"),
    Error.UNSTABLE_OFFSET_COMMIT: ("There are unstable",),
    Error.THROTTLING_QUOTA_EXCEEDED: ("The throttling quota", "Throttling quota"),
    Error.PRODUCER_FENCED: ("There is a newer",),
    Error.RESOURCE_NOT_FOUND: (
        "Request illegally referred to resource",
        "A request illegally referred to a resource",
    ),
    Error.DUPLICATE_RESOURCE: (
        "Request illegally referred to the",
        "A request illegally referred to the",
    ),
    Error.UNACCEPTABLE_CREDENTIAL: ("Requested credential",),
    Error.INVALID_UPDATE_VERSION: ("Invalid update version", "The given update"),
    Error.UNKNOWN_TOPIC_ID: ("Unknown topic id", "This server does not host this topic ID"),
    Error.INCONSISTENT_TOPIC_ID: ("The log's topic ID",),
    Error.FENCED_MEMBER_EPOCH: ("The member epoch is fenced",),
    Error.UNRELEASED_INSTANCE_ID: ("The instance ID is",),
    Error.UNSUPPORTED_ASSIGNOR: ("The assignor or its",),
    Error.STALE_MEMBER_EPOCH: ("The member epoch is stale",),
    Error.MISMATCHED_ENDPOINT_TYPE: ("The request was sent",),
    Error.UNSUPPORTED_ENDPOINT_TYPE: ("This endpoint type",),
    Error.UNKNOWN_SUBSCRIPTION_ID: ("Client sent a push telemetry request with",),
    Error.TELEMETRY_TOO_LARGE: ("Client sent a push telemetry request larger",),
    Error.INVALID_REGISTRATION: ("The controller has",),
    Error.TRANSACTION_ABORTABLE: ("The server encountered",),
    Error.INVALID_RECORD_STATE: ("The record state",),
    Error.SHARE_SESSION_NOT_FOUND: ("The share session was",),
    Error.INVALID_SHARE_SESSION_EPOCH: ("The share session epoch",),
    Error.FENCED_STATE_EPOCH: ("The share-group state", "The share coordinator rejected"),
    Error.INVALID_REGULAR_EXPRESSION: ("The regular expression",),
    Error.STREAMS_INVALID_TOPOLOGY: ("The supplied topology is",),
    Error.SHARE_SESSION_LIMIT_REACHED: ("The limit of share",),
    Error.RECORD_LIST_TOO_LARGE: ("Message batch larger", "The request included message batch"),
    Error.INVALID_COMMIT_OFFSET_SIZE: ("Commit offset data", "The committing offset"),
    Error.REASSIGNMENT_IN_PROGRESS: ("Partition reassignment is", "A partition reassignment"),
    Error.INCONSISTENT_VOTER_SET: ("Indicates that the either",),
    Error.FEATURE_UPDATE_FAILED: ("Unable to update finalized",),
    Error.PRINCIPAL_DESERIALIZATION_FAILURE: ("Request principal",),
    Error.SNAPSHOT_NOT_FOUND: ("Requested snapshot",),
    Error.POSITION_OUT_OF_RANGE: ("Requested position",),
    Error.DUPLICATE_BROKER_REGISTRATION: ("This broker ID",),
    Error.BROKER_ID_NOT_REGISTERED: ("The given broker ID",),
    Error.INCONSISTENT_CLUSTER_ID: ("The clusterId in",),
    Error.TRANSACTIONAL_ID_NOT_FOUND: ("The transactionalId could",),
    Error.FETCH_SESSION_TOPIC_ID_ERROR: ("The fetch session encountered",),
    Error.INELIGIBLE_REPLICA: ("The new ISR",),
    Error.NEW_LEADER_ELECTED: ("The AlterPartition request",),
    Error.OFFSET_MOVED_TO_TIERED_STORAGE: ("The requested offset is moved",),
    Error.UNKNOWN_CONTROLLER_ID: ("This controller ID",),
    Error.INVALID_VOTER_KEY: ("The voter key",),
    Error.DUPLICATE_VOTER: ("The voter is already",),
    Error.VOTER_NOT_FOUND: ("The voter is not",),
    Error.REBOOTSTRAP_REQUIRED: ("Client metadata is stale",),
    Error.STREAMS_INVALID_TOPOLOGY_EPOCH: ("The supplied topology epoch is invalid",),
    Error.STREAMS_TOPOLOGY_FENCED: ("The supplied topology epoch is outdated",),
}
"""Beginnings of error texts, as long as needed to tell one from another."""

OLDER_NAMES = {
    "INVALID_MSG": Error.CORRUPT_MESSAGE,
    "UNKNOWN_TOPIC_OR_PART": Error.UNKNOWN_TOPIC_OR_PARTITION,
    "INVALID_MSG_SIZE": Error.INVALID_FETCH_SIZE,
    "NOT_LEADER_FOR_PARTITION": Error.NOT_LEADER_OR_FOLLOWER,
    "MSG_SIZE_TOO_LARGE": Error.MESSAGE_TOO_LARGE,
    "TOPIC_EXCEPTION": Error.INVALID_TOPIC_EXCEPTION,
    "STALE_CTRL_EPOCH": Error.STALE_CONTROLLER_EPOCH,
}
"""Names of librdkafka, and of Kafka before 2.6."""

EXCEPTIONS = {
    "CorruptRecord": Error.CORRUPT_MESSAGE,
    "RecordTooLarge": Error.MESSAGE_TOO_LARGE,
    "MessageSizeTooLarge": Error.MESSAGE_TOO_LARGE,
    "ControllerMoved": Error.STALE_CONTROLLER_EPOCH,
    "RecordBatchTooLarge": Error.RECORD_LIST_TOO_LARGE,
    "TopicExists": Error.TOPIC_ALREADY_EXISTS,
    "InvalidConfiguration": Error.INVALID_CONFIG,
    "InvalidReplicationAssignment": Error.INVALID_REPLICA_ASSIGNMENT,
    "OutOfOrderSequence": Error.OUT_OF_ORDER_SEQUENCE_NUMBER,
    "DuplicateSequence": Error.DUPLICATE_SEQUENCE_NUMBER,
    "InvalidPidMapping": Error.INVALID_PRODUCER_ID_MAPPING,
    "InvalidTxnTimeout": Error.INVALID_TRANSACTION_TIMEOUT,
    "DelegationTokenDisabled": Error.DELEGATION_TOKEN_AUTH_DISABLED,
    "UnsupportedByAuthentication": Error.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
    "GroupNotEmpty": Error.NON_EMPTY_GROUP,
}
"""Exceptions of Java's and Python's clients that do not have the error's name."""

_LONGEST_FIRST = sorted(
    ((start, code) for code, starts in TEXTS.items() for start in starts),
    key=lambda each: -len(each[0]),
)
_NAME = later(r"[A-Z][A-Z0-9_]+(?=$|[:.])")
_ENDING = later(r"(?:FAILED|FAILURE)?(?:EXCEPTION|ERROR)$|(?:FAILED|FAILURE)$")
_PREFIX = later(r"^(?:Broker|kafka server): ")


def code_of(text: str) -> Error | None:
    """The error that a client's text or name is of; None if it is unknown, or the client's own."""
    name = _NAME.match(text)
    if name is not None:
        return OLDER_NAMES.get(name[0]) or Error.__members__.get(name[0]) or None
    text = _PREFIX.sub("", text, count=1)
    return next((code for start, code in _LONGEST_FIRST if text.startswith(start)), None)


def of_exception(name: str) -> Error | None:
    """The error by its name, or by a client's exception with or without its package."""
    return _by_letters().get(letters(name))


@cache
def _by_letters() -> dict[str, Error]:
    names = {**EXCEPTIONS, **OLDER_NAMES, **{each.name: each for each in Error}}
    return {letters(name): error for name, error in names.items()}


def letters(name: str) -> str:
    """What is the same in an error's name and in that of a client's exception."""
    *_, last = name.split(".")
    return _ENDING.sub("", last.replace("-", "").replace("_", "").upper())
