"""Every API of Kafka 4.3.1, implemented here or not.

Source: `ApiKeys` and the message schemas in Kafka.
"""

import msgspec


class KafkaApi(msgspec.Struct, frozen=True):
    """An API: its name in the request log, first and last version.

    `is_listed` if ApiVersions has it. The others are used between brokers and controllers, or need
    a plugin (telemetry).
    """

    name: str
    first: int
    last: int
    is_listed: bool = True


KAFKA_APIS: dict[int, KafkaApi] = {
    0: KafkaApi("PRODUCE", 3, 13),
    1: KafkaApi("FETCH", 4, 18),
    2: KafkaApi("LIST_OFFSETS", 1, 11),
    3: KafkaApi("METADATA", 0, 13),
    8: KafkaApi("OFFSET_COMMIT", 2, 10),
    9: KafkaApi("OFFSET_FETCH", 1, 10),
    10: KafkaApi("FIND_COORDINATOR", 0, 6),
    11: KafkaApi("JOIN_GROUP", 0, 9),
    12: KafkaApi("HEARTBEAT", 0, 4),
    13: KafkaApi("LEAVE_GROUP", 0, 5),
    14: KafkaApi("SYNC_GROUP", 0, 5),
    15: KafkaApi("DESCRIBE_GROUPS", 0, 6),
    16: KafkaApi("LIST_GROUPS", 0, 5),
    17: KafkaApi("SASL_HANDSHAKE", 0, 1),
    18: KafkaApi("API_VERSIONS", 0, 4),
    19: KafkaApi("CREATE_TOPICS", 2, 7),
    20: KafkaApi("DELETE_TOPICS", 1, 6),
    21: KafkaApi("DELETE_RECORDS", 0, 2),
    22: KafkaApi("INIT_PRODUCER_ID", 0, 5),
    23: KafkaApi("OFFSET_FOR_LEADER_EPOCH", 2, 4),
    24: KafkaApi("ADD_PARTITIONS_TO_TXN", 0, 5),
    25: KafkaApi("ADD_OFFSETS_TO_TXN", 0, 4),
    26: KafkaApi("END_TXN", 0, 5),
    27: KafkaApi("WRITE_TXN_MARKERS", 1, 2),
    28: KafkaApi("TXN_OFFSET_COMMIT", 0, 5),
    29: KafkaApi("DESCRIBE_ACLS", 1, 3),
    30: KafkaApi("CREATE_ACLS", 1, 3),
    31: KafkaApi("DELETE_ACLS", 1, 3),
    32: KafkaApi("DESCRIBE_CONFIGS", 1, 4),
    33: KafkaApi("ALTER_CONFIGS", 0, 2),
    34: KafkaApi("ALTER_REPLICA_LOG_DIRS", 1, 2),
    35: KafkaApi("DESCRIBE_LOG_DIRS", 1, 5),
    36: KafkaApi("SASL_AUTHENTICATE", 0, 2),
    37: KafkaApi("CREATE_PARTITIONS", 0, 3),
    38: KafkaApi("CREATE_DELEGATION_TOKEN", 1, 3),
    39: KafkaApi("RENEW_DELEGATION_TOKEN", 1, 2),
    40: KafkaApi("EXPIRE_DELEGATION_TOKEN", 1, 2),
    41: KafkaApi("DESCRIBE_DELEGATION_TOKEN", 1, 3),
    42: KafkaApi("DELETE_GROUPS", 0, 2),
    43: KafkaApi("ELECT_LEADERS", 0, 2),
    44: KafkaApi("INCREMENTAL_ALTER_CONFIGS", 0, 1),
    45: KafkaApi("ALTER_PARTITION_REASSIGNMENTS", 0, 1),
    46: KafkaApi("LIST_PARTITION_REASSIGNMENTS", 0, 0),
    47: KafkaApi("OFFSET_DELETE", 0, 0),
    48: KafkaApi("DESCRIBE_CLIENT_QUOTAS", 0, 1),
    49: KafkaApi("ALTER_CLIENT_QUOTAS", 0, 1),
    50: KafkaApi("DESCRIBE_USER_SCRAM_CREDENTIALS", 0, 0),
    51: KafkaApi("ALTER_USER_SCRAM_CREDENTIALS", 0, 0),
    52: KafkaApi("VOTE", 0, 2, False),
    53: KafkaApi("BEGIN_QUORUM_EPOCH", 0, 1, False),
    54: KafkaApi("END_QUORUM_EPOCH", 0, 1, False),
    55: KafkaApi("DESCRIBE_QUORUM", 0, 2),
    56: KafkaApi("ALTER_PARTITION", 2, 3, False),
    57: KafkaApi("UPDATE_FEATURES", 0, 2),
    58: KafkaApi("ENVELOPE", 0, 0, False),
    59: KafkaApi("FETCH_SNAPSHOT", 0, 1, False),
    60: KafkaApi("DESCRIBE_CLUSTER", 0, 2),
    61: KafkaApi("DESCRIBE_PRODUCERS", 0, 0),
    62: KafkaApi("BROKER_REGISTRATION", 0, 4, False),
    63: KafkaApi("BROKER_HEARTBEAT", 0, 2, False),
    64: KafkaApi("UNREGISTER_BROKER", 0, 0),
    65: KafkaApi("DESCRIBE_TRANSACTIONS", 0, 0),
    66: KafkaApi("LIST_TRANSACTIONS", 0, 2),
    67: KafkaApi("ALLOCATE_PRODUCER_IDS", 0, 0, False),
    68: KafkaApi("CONSUMER_GROUP_HEARTBEAT", 0, 1),
    69: KafkaApi("CONSUMER_GROUP_DESCRIBE", 0, 1),
    70: KafkaApi("CONTROLLER_REGISTRATION", 0, 0, False),
    71: KafkaApi("GET_TELEMETRY_SUBSCRIPTIONS", 0, 0, False),
    72: KafkaApi("PUSH_TELEMETRY", 0, 0, False),
    73: KafkaApi("ASSIGN_REPLICAS_TO_DIRS", 0, 0, False),
    74: KafkaApi("LIST_CONFIG_RESOURCES", 0, 1),
    75: KafkaApi("DESCRIBE_TOPIC_PARTITIONS", 0, 0),
    76: KafkaApi("SHARE_GROUP_HEARTBEAT", 1, 1),
    77: KafkaApi("SHARE_GROUP_DESCRIBE", 1, 1),
    78: KafkaApi("SHARE_FETCH", 1, 2),
    79: KafkaApi("SHARE_ACKNOWLEDGE", 1, 2),
    80: KafkaApi("ADD_RAFT_VOTER", 0, 1),
    81: KafkaApi("REMOVE_RAFT_VOTER", 0, 0),
    82: KafkaApi("UPDATE_RAFT_VOTER", 0, 0, False),
    83: KafkaApi("INITIALIZE_SHARE_GROUP_STATE", 0, 0),
    84: KafkaApi("READ_SHARE_GROUP_STATE", 0, 0),
    85: KafkaApi("WRITE_SHARE_GROUP_STATE", 0, 1),
    86: KafkaApi("DELETE_SHARE_GROUP_STATE", 0, 0),
    87: KafkaApi("READ_SHARE_GROUP_STATE_SUMMARY", 0, 1),
    88: KafkaApi("STREAMS_GROUP_HEARTBEAT", 0, 0),
    89: KafkaApi("STREAMS_GROUP_DESCRIBE", 0, 0),
    90: KafkaApi("DESCRIBE_SHARE_GROUP_OFFSETS", 0, 1),
    91: KafkaApi("ALTER_SHARE_GROUP_OFFSETS", 0, 0),
    92: KafkaApi("DELETE_SHARE_GROUP_OFFSETS", 0, 0),
}
"""APIs of Kafka 4.3.1 by key, with their stable versions; the keys 4 to 7 were removed."""

JOIN_GROUP = 11
SYNC_GROUP = 14
SHARE_FETCH = 78
OF_CLIENT_METRICS = frozenset({71, 72})
BOUND = OF_CLIENT_METRICS | {SHARE_FETCH}
"""APIs that bind state to a connection until it ends: client instances and share sessions."""

API_VERSIONS = 18
