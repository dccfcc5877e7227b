"""Errors of topics, settings and invalid requests."""

from brokertwin.protocol.errors import Error
from brokertwin.recordings.rules.rule import Rule

CREATE = "state/apis/create_topics.py"

RULES: dict[int, Rule] = {
    Error.UNKNOWN_TOPIC_OR_PARTITION: Rule(
        "The broker does not know the topic or the partition.",
        "MetadataCache, ReplicaManager",
        "Check the name. If the topic was just created, clients retry.",
        "A misspelt name; a deleted topic; a broker without the latest metadata; a client without"
        " DESCRIBE permission.",
        "state/apis/metadata.py",
    ),
    Error.INCONSISTENT_TOPIC_ID: Rule(
        "The topic with this name has another id: it was deleted and created again.",
        "KIP-516; ReplicaManager",
        "Clients refresh their metadata. Offsets of the previous topic do not apply to the new"
        " one.",
        "A topic that was deleted and created while clients used it.",
        "state/fetch/fetch_errors.py",
    ),
    Error.UNKNOWN_TOPIC_ID: Rule(
        "The broker has no topic with this id.",
        "KIP-516; KafkaApis",
        "No action: clients refresh their metadata. A topic that is created again has a new id.",
        "A topic that was created again, or created a moment ago.",
        "state/apis/fetch.py",
    ),
    Error.INVALID_TOPIC_EXCEPTION: Rule(
        "The topic name is invalid or belongs to an internal topic.",
        "Topic.validate",
        "Use letters, digits, `.`, `_` and `-`, at most 249 characters, and not . or .. alone.",
        "A name with spaces or slashes; a client that writes to __consumer_offsets.",
        CREATE,
    ),
    Error.TOPIC_ALREADY_EXISTS: Rule(
        "A topic with this name exists, or one that differs only in . and _.",
        "ReplicationControlManager.createTopics",
        "Use the existing topic or another name.",
        "Several instances that create their topics at the start.",
        CREATE,
    ),
    Error.TOPIC_DELETION_DISABLED: Rule(
        "delete.topic.enable is false.",
        "ControllerApis.deleteTopics",
        "Set it to true on the controllers to allow deletions.",
        "The cluster's settings.",
        "state/apis/delete_topics.py",
    ),
    Error.INVALID_PARTITIONS: Rule(
        "The number of partitions is below 1, or not above the current number.",
        "ReplicationControlManager",
        "Partitions can be added but not removed.",
        "An operator, or a tool that sets the number again.",
        "state/apis/create_partitions.py",
    ),
    Error.INVALID_REPLICATION_FACTOR: Rule(
        "The replication factor is below 1 or above the number of live brokers.",
        "StripedReplicaPlacer",
        "Use a lower factor, or start more brokers.",
        "Settings of a large cluster on a small one.",
        CREATE,
    ),
    Error.INVALID_REPLICA_ASSIGNMENT: Rule(
        "The assigned brokers are invalid: duplicate, unknown or none. Or a reassignment is"
        " cancelled whose former replicas would need an unclean election.",
        "ReplicationControlManager.validateManualPartitionAssignment",
        "List each broker once, and only existing ones. Before a cancellation, start a former"
        " replica that was in sync.",
        "A reassignment for another set of brokers.",
        "state/apis/alter_partition_reassignments.py",
    ),
    Error.INVALID_CONFIG: Rule(
        "A setting has an invalid name or value.",
        "ConfigurationControlManager, LogConfig.validate",
        "The errorMessage in the response names the setting.",
        "A misspelt setting, or one that newer brokers no longer have.",
        "state/cluster/config_changes.py",
    ),
    Error.POLICY_VIOLATION: Rule(
        "The request violates a policy of the cluster. Records of a topic with"
        " cleanup.policy=compact cannot be deleted, and a request can create at most 10,000"
        " partitions.",
        "KIP-107, KIP-108; Partition.deleteRecordsOnLeader, ReplicationControlManager",
        "The errorMessage in the response has the reason.",
        "Tools that purge topics; a create.topic.policy.class.name of the cluster.",
        CREATE,
    ),
    Error.INVALID_REQUEST: Rule(
        "The request is inconsistent, or not allowed in this form.",
        "KafkaApis, ControllerApis",
        "Retrying does not help. Check the client, and the errorMessage in the response.",
        "A client bug; a tool of another version.",
        "state/apis/create_topics.py",
    ),
    Error.UNSUPPORTED_VERSION: Rule(
        "The broker does not support this version of the API, or a feature that the request needs.",
        "ApiVersionsRequest, KafkaApis, ConsumerGroup.validateOffsetCommit",
        "Update the older side: clients negotiate versions with ApiVersions. For a feature, see"
        " `kafka-features.sh describe`; without group.version=1, set group.protocol=classic.",
        "A client that is much newer or older than the broker. A KIP-848 member that commits with"
        " OffsetCommit below v9, which has no member epoch. A feature at level 0: group.version,"
        " streams.version or share.version.",
        "state/apis/api_versions.py",
    ),
    Error.REBOOTSTRAP_REQUIRED: Rule(
        "The client has reached another cluster or broker than it expects.",
        "KIP-1242, since Kafka 4.4; ApiVersionsRequest",
        "No action: clients find the brokers again from their bootstrap servers.",
        "A client with old addresses, after a cluster got those of another one.",
        "state/apis/api_versions.py",
    ),
    Error.MISMATCHED_ENDPOINT_TYPE: Rule(
        "A request for a controller was sent to a broker, or the reverse.",
        "KIP-919; AuthHelper.computeDescribeClusterResponse",
        "Use --bootstrap-server for brokers and --bootstrap-controller for controllers.",
        "A tool with the wrong address.",
        "state/apis/describe_cluster.py",
    ),
    Error.UNSUPPORTED_ENDPOINT_TYPE: Rule(
        "The endpoint type is unknown.",
        "KIP-919; AuthHelper.computeDescribeClusterResponse",
        "Request brokers (1) or controllers (2).",
        "A client bug.",
        "state/apis/describe_cluster.py",
    ),
    Error.UNKNOWN_SERVER_ERROR: Rule(
        "An unexpected error occurred in the broker; its log has the reason.",
        "ApiError, Errors.forException",
        "Check the broker's log at that time.",
        "A bug in the broker or in a plug-in.",
        "state/transactions/transactions.py",
    ),
}
