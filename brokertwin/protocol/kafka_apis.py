"""The APIs of Kafka 4.3.1 and those that 4.4 adds (`newest`): one row each.

A row has every fact that does not need the API's code.

The rows include APIs that are not built here. `state/core/api.py` adds the handlers of those that
are. Other modules query a row and keep no list of API keys themselves.

Source: `ApiKeys` and the message schemas in Kafka.
"""

from collections.abc import Set as AbstractSet
from enum import StrEnum

import msgspec

from brokertwin.protocol import repeated_lists as lists
from brokertwin.protocol.repeated_lists import RepeatedList


class Decider(StrEnum):
    """The component that decides on a request. A broker forwards requests to the controller."""

    EDGE = "edge"
    BROKER = "broker"
    CONTROLLER = "controller"
    GROUP_COORDINATOR = "group coordinator"
    TRANSACTION_COORDINATOR = "transaction coordinator"
    SHARE_COORDINATOR = "share coordinator"


class Trait(StrEnum):
    READS = "reads"
    """Changes nothing that other clients see or that outlives the broker process."""
    UNLISTED = "unlisted"
    """Not named by ApiVersions: used between brokers and controllers, or needs a plugin."""
    KRAFT_ONLY = "KRaft only"
    """Only KRaft controllers serve it, on separate listeners."""
    ANY_VERSION = "any version"
    """Answered in every version, so that a client finds one that both sides support."""
    QUOTA_EXEMPT = "quota exempt"
    """No request quota applies."""
    BINDS_CONNECTION = "binds connection"
    """The broker keeps state for the connection until it ends: share sessions, client metrics."""
    NAMES_BROKERS = "names brokers"
    """The response depends on the listener that the client used."""
    PIPELINED = "pipelined"
    """Clients repeat it on a timer without waiting for responses, so a connection submits the next
    one at once. In separate micro-batches, responses would be later and later, and time out."""
    HAS_RECORDS = "has records"
    """The request has record batches, which the gateway stores."""
    CHANGES_SETTINGS = "changes settings"
    """Settings that a gateway applies itself may differ afterwards."""
    MAY_WAIT = "may wait"
    """A broker may delay the response, even without followers."""
    COMMITS_OFFSETS = "commits offsets"
    MAKES_GROUPS = "makes groups"
    """A group may begin with such a request."""
    IN_TRANSACTION = "in transaction"
    """Belongs to the transaction of the transactional id that it names."""
    ENDS_TRANSACTION = "ends transaction"
    """The coordinator may write markers afterwards."""
    LISTS_ALL = "lists all"
    """Lists everything without naming anything."""
    LISTS_ALL_TOPICS = "lists all topics"
    """Lists all topics if the request names none."""
    BARE_TOPIC_IDS = "bare topic ids"
    """Frequent, and its response has topic ids without names beside them."""
    EMPTY_IN_ERROR = "empty in error"
    """Without an error code, an error response is empty; clients see an error."""


class KafkaApi(msgspec.Struct, frozen=True):
    """An API of Kafka's protocol.

    Attributes:
        key: the API key.
        name: as in the request log.
        first: the first supported version.
        last: the last version in Kafka 4.3; -1 if it has no such API.
        handler: the component that decides.
        traits: facts about it.
        endpoints_since: the first version whose response says where a new leader is reached
            (KIP-951), or None.
        unordered: lists of the response that are maps in Kafka, with the fields of their keys.
        repeated: lists of the request that an error response repeats; the first one sent is used.
        newest: the last version in Kafka 4.4, if 4.3 does not have it.
    """

    key: int
    name: str
    first: int
    last: int
    handler: Decider = Decider.BROKER
    traits: frozenset[Trait] = frozenset()
    endpoints_since: int | None = None
    unordered: dict[str, tuple[str, ...]] | None = None
    repeated: tuple[RepeatedList, ...] = ()
    newest: int | None = None

    def last_in(self, is_4_4: bool) -> int:
        """Return the last version in Kafka 4.4 or 4.3; -1 if it has no such API."""
        return self.newest if is_4_4 and self.newest is not None else self.last

    @property
    def only_reads(self) -> bool:
        """True if it changes nothing visible or durable."""
        return Trait.READS in self.traits

    @property
    def is_listed(self) -> bool:
        """Whether ApiVersions names it to clients."""
        return Trait.UNLISTED not in self.traits

    @property
    def is_coordinated(self) -> bool:
        return self.handler in _COORDINATORS


KAFKA_APIS: dict[int, KafkaApi] = {}
"""The rows by key. Kafka 4 has no APIs with the keys 4 to 7."""

UNKNOWN = KafkaApi(-1, "", 0, -1, traits=frozenset({Trait.UNLISTED}))
"""In place of the row of a key that Kafka does not have."""


def api_of_key(key: int) -> KafkaApi:
    """Return the row of a key, or `UNKNOWN` if Kafka has no such API."""
    return KAFKA_APIS.get(key, UNKNOWN)


def keys_with(trait: Trait) -> frozenset[int]:
    return frozenset(key for key, api in KAFKA_APIS.items() if trait in api.traits)


def _row(
    key: int,
    name: str,
    first: int,
    last: int,
    handler: Decider = Decider.BROKER,
    traits: AbstractSet[Trait] = frozenset(),
    *,
    endpoints_since: int | None = None,
    unordered: dict[str, tuple[str, ...]] | None = None,
    repeated: tuple[RepeatedList, ...] = (),
    newest: int | None = None,
) -> KafkaApi:
    api = KAFKA_APIS[key] = KafkaApi(
        key,
        name,
        first,
        last,
        handler,
        frozenset(traits),
        endpoints_since,
        unordered,
        repeated,
        newest,
    )
    return api


_By, _T = Decider, Trait
_COORDINATORS = frozenset(
    {_By.GROUP_COORDINATOR, _By.TRANSACTION_COORDINATOR, _By.SHARE_COORDINATOR}
)

PRODUCE = _row(
    0,
    "PRODUCE",
    3,
    13,
    _By.BROKER,
    {_T.HAS_RECORDS, _T.PIPELINED, _T.IN_TRANSACTION, _T.BARE_TOPIC_IDS},
    endpoints_since=10,
    unordered={"responses": ("name", "topicId"), "partitionResponses": ("index",)},
    repeated=(lists.PRODUCED,),
)
FETCH = _row(
    1,
    "FETCH",
    4,
    18,
    _By.BROKER,
    {_T.READS, _T.MAY_WAIT, _T.BARE_TOPIC_IDS},
    endpoints_since=16,
    repeated=(lists.FETCHED,),
)
LIST_OFFSETS = _row(
    2,
    "LIST_OFFSETS",
    1,
    11,
    _By.BROKER,
    {_T.READS},
    unordered={"topics": ("name",), "partitions": ("partitionIndex",)},
    repeated=(lists.PARTITIONS_BY_INDEX,),
)
METADATA = _row(
    3,
    "METADATA",
    0,
    13,
    _By.BROKER,
    {_T.NAMES_BROKERS, _T.LISTS_ALL_TOPICS},
    unordered={
        "brokers": ("nodeId",),
        "topics": ("name", "topicId"),
        "partitions": ("partitionIndex",),
    },
    repeated=(lists.TOPICS_OR_IDS,),
)
OFFSET_COMMIT = _row(
    8,
    "OFFSET_COMMIT",
    2,
    10,
    _By.GROUP_COORDINATOR,
    {_T.PIPELINED, _T.COMMITS_OFFSETS, _T.MAKES_GROUPS, _T.BARE_TOPIC_IDS},
    repeated=(lists.PARTITIONS_BY_INDEX_OR_ID,),
)
OFFSET_FETCH = _row(
    9,
    "OFFSET_FETCH",
    1,
    10,
    _By.GROUP_COORDINATOR,
    {_T.READS, _T.BARE_TOPIC_IDS},
    repeated=(
        lists.GROUPS,
        lists.PARTITIONS_BY_NUMBER,
    ),
)
FIND_COORDINATOR = _row(
    10,
    "FIND_COORDINATOR",
    0,
    6,
    _By.BROKER,
    {_T.NAMES_BROKERS, _T.PIPELINED},
    repeated=(lists.COORDINATOR_KEYS,),
)
JOIN_GROUP = _row(11, "JOIN_GROUP", 0, 9, _By.GROUP_COORDINATOR, {_T.MAY_WAIT, _T.MAKES_GROUPS})
HEARTBEAT = _row(12, "HEARTBEAT", 0, 4, _By.GROUP_COORDINATOR, {_T.PIPELINED})
LEAVE_GROUP = _row(13, "LEAVE_GROUP", 0, 5, _By.GROUP_COORDINATOR)
SYNC_GROUP = _row(14, "SYNC_GROUP", 0, 5, _By.GROUP_COORDINATOR, {_T.MAY_WAIT})
DESCRIBE_GROUPS = _row(
    15, "DESCRIBE_GROUPS", 0, 6, _By.GROUP_COORDINATOR, {_T.READS}, repeated=(lists.GROUP_NAMES,)
)
LIST_GROUPS = _row(
    16,
    "LIST_GROUPS",
    0,
    5,
    _By.BROKER,
    {_T.READS, _T.LISTS_ALL},
    unordered={"groups": ("groupId",)},
)
SASL_HANDSHAKE = _row(17, "SASL_HANDSHAKE", 0, 1, _By.EDGE)
API_VERSIONS = _row(18, "API_VERSIONS", 0, 4, _By.BROKER, {_T.READS, _T.ANY_VERSION}, newest=5)
CREATE_TOPICS = _row(
    19,
    "CREATE_TOPICS",
    2,
    7,
    _By.CONTROLLER,
    {_T.CHANGES_SETTINGS},
    unordered={"topics": ("name",)},
    repeated=(lists.TOPICS,),
)
DELETE_TOPICS = _row(
    20,
    "DELETE_TOPICS",
    1,
    6,
    _By.CONTROLLER,
    {_T.CHANGES_SETTINGS},
    unordered={"responses": ("name", "topicId")},
    repeated=(
        lists.DELETED_TOPICS,
        lists.DELETED_TOPIC_NAMES,
    ),
)
DELETE_RECORDS = _row(
    21,
    "DELETE_RECORDS",
    0,
    2,
    unordered={"topics": ("name",), "partitions": ("partitionIndex",)},
    repeated=(lists.PARTITIONS_BY_INDEX,),
)
INIT_PRODUCER_ID = _row(
    22, "INIT_PRODUCER_ID", 0, 5, _By.TRANSACTION_COORDINATOR, {_T.ENDS_TRANSACTION}
)
OFFSET_FOR_LEADER_EPOCH = _row(
    23, "OFFSET_FOR_LEADER_EPOCH", 2, 4, _By.BROKER, {_T.READS}, repeated=(lists.PARTITION_EPOCHS,)
)
ADD_PARTITIONS_TO_TXN = _row(
    24,
    "ADD_PARTITIONS_TO_TXN",
    0,
    5,
    _By.TRANSACTION_COORDINATOR,
    {_T.IN_TRANSACTION},
    unordered={"resultsByTopicV3AndBelow": ("name",), "resultsByPartition": ("partitionIndex",)},
    repeated=(lists.TRANSACTION_PARTITIONS,),
)
ADD_OFFSETS_TO_TXN = _row(
    25, "ADD_OFFSETS_TO_TXN", 0, 4, _By.TRANSACTION_COORDINATOR, {_T.IN_TRANSACTION}
)
END_TXN = _row(26, "END_TXN", 0, 5, _By.TRANSACTION_COORDINATOR, {_T.ENDS_TRANSACTION})
WRITE_TXN_MARKERS = _row(
    27, "WRITE_TXN_MARKERS", 1, 2, _By.BROKER, {_T.QUOTA_EXEMPT}, repeated=(lists.MARKERS,)
)
TXN_OFFSET_COMMIT = _row(
    28,
    "TXN_OFFSET_COMMIT",
    0,
    5,
    _By.GROUP_COORDINATOR,
    {_T.COMMITS_OFFSETS, _T.MAKES_GROUPS, _T.IN_TRANSACTION},
    repeated=(lists.PARTITIONS_BY_INDEX_OR_ID,),
    newest=6,
)
DESCRIBE_ACLS = _row(29, "DESCRIBE_ACLS", 1, 3, _By.BROKER, {_T.READS})
CREATE_ACLS = _row(30, "CREATE_ACLS", 1, 3, _By.CONTROLLER, repeated=(lists.ACL_CREATIONS,))
DELETE_ACLS = _row(31, "DELETE_ACLS", 1, 3, _By.CONTROLLER, repeated=(lists.ACL_FILTERS,))
DESCRIBE_CONFIGS = _row(
    32, "DESCRIBE_CONFIGS", 1, 4, _By.BROKER, {_T.READS}, repeated=(lists.DESCRIBED_RESOURCES,)
)
ALTER_CONFIGS = _row(
    33,
    "ALTER_CONFIGS",
    0,
    2,
    _By.CONTROLLER,
    {_T.CHANGES_SETTINGS},
    repeated=(lists.ALTERED_RESOURCES,),
)
ALTER_REPLICA_LOG_DIRS = _row(34, "ALTER_REPLICA_LOG_DIRS", 1, 2, repeated=(lists.LOG_DIRS,))
DESCRIBE_LOG_DIRS = _row(35, "DESCRIBE_LOG_DIRS", 1, 5, _By.BROKER, {_T.READS, _T.EMPTY_IN_ERROR})
SASL_AUTHENTICATE = _row(36, "SASL_AUTHENTICATE", 0, 2, _By.EDGE)
CREATE_PARTITIONS = _row(
    37,
    "CREATE_PARTITIONS",
    0,
    3,
    _By.CONTROLLER,
    unordered={"results": ("name",)},
    repeated=(lists.PARTITIONED_TOPICS,),
)
CREATE_DELEGATION_TOKEN = _row(38, "CREATE_DELEGATION_TOKEN", 1, 3, _By.CONTROLLER)
RENEW_DELEGATION_TOKEN = _row(39, "RENEW_DELEGATION_TOKEN", 1, 2, _By.CONTROLLER)
EXPIRE_DELEGATION_TOKEN = _row(40, "EXPIRE_DELEGATION_TOKEN", 1, 2, _By.CONTROLLER)
DESCRIBE_DELEGATION_TOKEN = _row(41, "DESCRIBE_DELEGATION_TOKEN", 1, 3, _By.BROKER, {_T.READS})
DELETE_GROUPS = _row(
    42,
    "DELETE_GROUPS",
    0,
    2,
    _By.GROUP_COORDINATOR,
    unordered={"results": ("groupId",)},
    repeated=(lists.GROUPS_NAMES,),
    newest=3,
)
ELECT_LEADERS = _row(43, "ELECT_LEADERS", 0, 2, _By.CONTROLLER, repeated=(lists.ELECTED,))
INCREMENTAL_ALTER_CONFIGS = _row(
    44,
    "INCREMENTAL_ALTER_CONFIGS",
    0,
    1,
    _By.CONTROLLER,
    {_T.CHANGES_SETTINGS},
    repeated=(lists.ALTERED_RESOURCES,),
)
ALTER_PARTITION_REASSIGNMENTS = _row(45, "ALTER_PARTITION_REASSIGNMENTS", 0, 1, _By.CONTROLLER)
LIST_PARTITION_REASSIGNMENTS = _row(
    46, "LIST_PARTITION_REASSIGNMENTS", 0, 0, _By.CONTROLLER, {_T.READS}
)
OFFSET_DELETE = _row(47, "OFFSET_DELETE", 0, 0, _By.GROUP_COORDINATOR)
DESCRIBE_CLIENT_QUOTAS = _row(48, "DESCRIBE_CLIENT_QUOTAS", 0, 1, _By.BROKER, {_T.READS})
ALTER_CLIENT_QUOTAS = _row(
    49,
    "ALTER_CLIENT_QUOTAS",
    0,
    1,
    _By.CONTROLLER,
    {_T.CHANGES_SETTINGS},
    repeated=(lists.QUOTA_ENTRIES,),
)
DESCRIBE_USER_SCRAM_CREDENTIALS = _row(
    50, "DESCRIBE_USER_SCRAM_CREDENTIALS", 0, 0, _By.EDGE, {_T.READS}
)
ALTER_USER_SCRAM_CREDENTIALS = _row(51, "ALTER_USER_SCRAM_CREDENTIALS", 0, 0, _By.EDGE)
VOTE = _row(52, "VOTE", 0, 2, _By.CONTROLLER, {_T.UNLISTED, _T.KRAFT_ONLY})
BEGIN_QUORUM_EPOCH = _row(
    53, "BEGIN_QUORUM_EPOCH", 0, 1, _By.CONTROLLER, {_T.UNLISTED, _T.KRAFT_ONLY}
)
END_QUORUM_EPOCH = _row(54, "END_QUORUM_EPOCH", 0, 1, _By.CONTROLLER, {_T.UNLISTED, _T.KRAFT_ONLY})
DESCRIBE_QUORUM = _row(55, "DESCRIBE_QUORUM", 0, 2, _By.CONTROLLER, {_T.READS})
ALTER_PARTITION = _row(
    56, "ALTER_PARTITION", 2, 3, _By.CONTROLLER, {_T.UNLISTED, _T.QUOTA_EXEMPT, _T.BARE_TOPIC_IDS}
)
UPDATE_FEATURES = _row(57, "UPDATE_FEATURES", 0, 2, _By.CONTROLLER)
ENVELOPE = _row(58, "ENVELOPE", 0, 0, _By.CONTROLLER, {_T.UNLISTED})
FETCH_SNAPSHOT = _row(59, "FETCH_SNAPSHOT", 0, 1, _By.CONTROLLER, {_T.UNLISTED, _T.KRAFT_ONLY})
DESCRIBE_CLUSTER = _row(60, "DESCRIBE_CLUSTER", 0, 2, _By.BROKER, {_T.READS, _T.NAMES_BROKERS})
DESCRIBE_PRODUCERS = _row(
    61, "DESCRIBE_PRODUCERS", 0, 0, _By.BROKER, {_T.READS}, repeated=(lists.PARTITIONS_BY_NUMBER,)
)
BROKER_REGISTRATION = _row(
    62, "BROKER_REGISTRATION", 0, 4, _By.CONTROLLER, {_T.UNLISTED, _T.KRAFT_ONLY}
)
BROKER_HEARTBEAT = _row(
    63, "BROKER_HEARTBEAT", 0, 2, _By.CONTROLLER, {_T.UNLISTED, _T.KRAFT_ONLY, _T.BARE_TOPIC_IDS}
)
UNREGISTER_BROKER = _row(64, "UNREGISTER_BROKER", 0, 0, _By.CONTROLLER)
DESCRIBE_TRANSACTIONS = _row(
    65,
    "DESCRIBE_TRANSACTIONS",
    0,
    0,
    _By.TRANSACTION_COORDINATOR,
    {_T.READS},
    unordered={"topics": ("topic",)},
    repeated=(lists.TRANSACTIONAL_IDS,),
)
LIST_TRANSACTIONS = _row(
    66,
    "LIST_TRANSACTIONS",
    0,
    2,
    _By.BROKER,
    {_T.READS, _T.LISTS_ALL},
    unordered={"transactionStates": ("transactionalId",)},
)
ALLOCATE_PRODUCER_IDS = _row(67, "ALLOCATE_PRODUCER_IDS", 0, 0, _By.CONTROLLER, {_T.UNLISTED})
CONSUMER_GROUP_HEARTBEAT = _row(
    68,
    "CONSUMER_GROUP_HEARTBEAT",
    0,
    1,
    _By.GROUP_COORDINATOR,
    {_T.PIPELINED, _T.MAKES_GROUPS, _T.BARE_TOPIC_IDS},
)
CONSUMER_GROUP_DESCRIBE = _row(
    69,
    "CONSUMER_GROUP_DESCRIBE",
    0,
    1,
    _By.GROUP_COORDINATOR,
    {_T.READS},
    repeated=(lists.GROUP_IDS,),
)
CONTROLLER_REGISTRATION = _row(
    70, "CONTROLLER_REGISTRATION", 0, 0, _By.CONTROLLER, {_T.UNLISTED, _T.KRAFT_ONLY}
)
GET_TELEMETRY_SUBSCRIPTIONS = _row(
    71,
    "GET_TELEMETRY_SUBSCRIPTIONS",
    0,
    0,
    _By.BROKER,
    {_T.READS, _T.UNLISTED, _T.BINDS_CONNECTION},
)
PUSH_TELEMETRY = _row(
    72, "PUSH_TELEMETRY", 0, 0, _By.BROKER, {_T.READS, _T.UNLISTED, _T.BINDS_CONNECTION}
)
ASSIGN_REPLICAS_TO_DIRS = _row(
    73, "ASSIGN_REPLICAS_TO_DIRS", 0, 0, _By.CONTROLLER, {_T.UNLISTED, _T.KRAFT_ONLY}
)
LIST_CONFIG_RESOURCES = _row(
    74,
    "LIST_CONFIG_RESOURCES",
    0,
    1,
    _By.BROKER,
    {_T.READS},
    unordered={"configResources": ("resourceType", "resourceName")},
)
DESCRIBE_TOPIC_PARTITIONS = _row(
    75,
    "DESCRIBE_TOPIC_PARTITIONS",
    0,
    0,
    _By.BROKER,
    {_T.READS, _T.NAMES_BROKERS, _T.LISTS_ALL_TOPICS},
    repeated=(lists.TOPICS,),
)
SHARE_GROUP_HEARTBEAT = _row(
    76,
    "SHARE_GROUP_HEARTBEAT",
    1,
    1,
    _By.GROUP_COORDINATOR,
    {_T.PIPELINED, _T.MAKES_GROUPS, _T.BARE_TOPIC_IDS},
)
SHARE_GROUP_DESCRIBE = _row(
    77, "SHARE_GROUP_DESCRIBE", 1, 1, _By.GROUP_COORDINATOR, {_T.READS}, repeated=(lists.GROUP_IDS,)
)
SHARE_FETCH = _row(
    78,
    "SHARE_FETCH",
    1,
    2,
    _By.BROKER,
    {_T.BINDS_CONNECTION, _T.MAY_WAIT, _T.BARE_TOPIC_IDS},
    endpoints_since=1,
    unordered={"responses": ("topicId",), "partitions": ("partitionIndex",)},
)
SHARE_ACKNOWLEDGE = _row(
    79,
    "SHARE_ACKNOWLEDGE",
    1,
    2,
    _By.BROKER,
    {_T.BARE_TOPIC_IDS},
    endpoints_since=1,
    unordered={"responses": ("topicId",), "partitions": ("partitionIndex",)},
)
ADD_RAFT_VOTER = _row(80, "ADD_RAFT_VOTER", 0, 1, _By.CONTROLLER)
REMOVE_RAFT_VOTER = _row(81, "REMOVE_RAFT_VOTER", 0, 0, _By.CONTROLLER)
UPDATE_RAFT_VOTER = _row(
    82, "UPDATE_RAFT_VOTER", 0, 0, _By.CONTROLLER, {_T.UNLISTED, _T.KRAFT_ONLY}
)
INITIALIZE_SHARE_GROUP_STATE = _row(
    83, "INITIALIZE_SHARE_GROUP_STATE", 0, 0, _By.SHARE_COORDINATOR, repeated=(lists.SHARE_STATES,)
)
READ_SHARE_GROUP_STATE = _row(
    84, "READ_SHARE_GROUP_STATE", 0, 0, _By.SHARE_COORDINATOR, repeated=(lists.SHARE_STATES,)
)
WRITE_SHARE_GROUP_STATE = _row(
    85, "WRITE_SHARE_GROUP_STATE", 0, 1, _By.SHARE_COORDINATOR, repeated=(lists.SHARE_STATES,)
)
DELETE_SHARE_GROUP_STATE = _row(
    86, "DELETE_SHARE_GROUP_STATE", 0, 0, _By.SHARE_COORDINATOR, repeated=(lists.SHARE_STATES,)
)
READ_SHARE_GROUP_STATE_SUMMARY = _row(
    87,
    "READ_SHARE_GROUP_STATE_SUMMARY",
    0,
    1,
    _By.SHARE_COORDINATOR,
    repeated=(lists.SHARE_STATES,),
)
STREAMS_GROUP_HEARTBEAT = _row(
    88,
    "STREAMS_GROUP_HEARTBEAT",
    0,
    0,
    _By.GROUP_COORDINATOR,
    {_T.PIPELINED, _T.MAKES_GROUPS},
    newest=1,
)
STREAMS_GROUP_DESCRIBE = _row(
    89,
    "STREAMS_GROUP_DESCRIBE",
    0,
    0,
    _By.GROUP_COORDINATOR,
    {_T.READS},
    repeated=(lists.GROUP_IDS,),
    newest=1,
)
DESCRIBE_SHARE_GROUP_OFFSETS = _row(
    90,
    "DESCRIBE_SHARE_GROUP_OFFSETS",
    0,
    1,
    _By.GROUP_COORDINATOR,
    {_T.READS},
    repeated=(lists.GROUPS,),
)
ALTER_SHARE_GROUP_OFFSETS = _row(91, "ALTER_SHARE_GROUP_OFFSETS", 0, 0, _By.GROUP_COORDINATOR)
DELETE_SHARE_GROUP_OFFSETS = _row(92, "DELETE_SHARE_GROUP_OFFSETS", 0, 0, _By.GROUP_COORDINATOR)
STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE = _row(
    93, "STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE", 0, -1, _By.GROUP_COORDINATOR, newest=0
)
UNREGISTER_CONTROLLER = _row(94, "UNREGISTER_CONTROLLER", 0, -1, _By.CONTROLLER, newest=0)

API_KEYS = {api.name: key for key, api in KAFKA_APIS.items()}
"""Name in the request log (`CREATE_TOPICS`) to API key."""


def is_removed(api: str, version: int) -> bool:
    """Return whether older releases have an API version that Kafka 4 does not have (KIP-896)."""
    return 0 <= version < api_of_key(API_KEYS.get(api, UNKNOWN.key)).first
