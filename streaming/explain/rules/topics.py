"""Errors of topics, settings, and requests that make no sense."""

from brokertwin.state.core.errors import Error
from brokertwin.streaming.explain.rules.rule import Rule

CREATE = "state/apis/create_topics.py"

RULES: dict[int, Rule] = {
    Error.UNKNOWN_TOPIC_OR_PARTITION: Rule(
        "The broker knows no such topic, or no such partition of it.",
        "MetadataCache, ReplicaManager",
        "Look at the name. Where it was created a moment ago clients try again by themselves.",
        "A name that is misspelt; a topic that was deleted; brokers that have not heard of a new"
        " one; a client that may not see it.",
        "state/apis/metadata.py",
    ),
    Error.INCONSISTENT_TOPIC_ID: Rule(
        "A topic of this name is there, but it is another one than the client means: it was deleted"
        " and made anew.",
        "KIP-516; ReplicaManager",
        "Clients look the topic up again by themselves. What they had read of the former one does"
        " not count for this one.",
        "A topic that was deleted and created while it was read.",
        "state/fetch/fetch_errors.py",
    ),
    Error.UNKNOWN_TOPIC_ID: Rule(
        "The broker knows no topic of this id.",
        "KIP-516; KafkaApis",
        "Nothing: clients fetch metadata; a topic that was deleted and created has a new id.",
        "A topic that was deleted and created again, or created a moment ago.",
        "state/apis/fetch.py",
    ),
    Error.INVALID_TOPIC_EXCEPTION: Rule(
        "The name is none that a topic may have, or that of an internal one.",
        "Topic.validate",
        "Letters, digits, `.`, `_` and `-`, at most 249 of them, and not . or .. alone.",
        "A name with spaces or slashes; a client that writes to __consumer_offsets.",
        CREATE,
    ),
    Error.TOPIC_ALREADY_EXISTS: Rule(
        "There is a topic of this name, or one that differs in . and _ alone.",
        "ReplicationControlManager.createTopics",
        "Take it as it is, or choose another name.",
        "Several instances that all create their topics when they start.",
        CREATE,
    ),
    Error.TOPIC_DELETION_DISABLED: Rule(
        "delete.topic.enable is false.",
        "ControllerApis.deleteTopics",
        "Set it to true at the controllers, if topics are to be deleted.",
        "The cluster's settings.",
        "state/apis/delete_topics.py",
    ),
    Error.INVALID_PARTITIONS: Rule(
        "The number of partitions cannot be: below 1, or not above what the topic has.",
        "ReplicationControlManager",
        "Partitions can be added and never taken away.",
        "An operator, or a tool that sets the number anew.",
        "state/apis/create_partitions.py",
    ),
    Error.INVALID_REPLICATION_FACTOR: Rule(
        "The replication factor is below 1, or above the number of brokers that are there.",
        "StripedReplicaPlacer",
        "Choose a lower one, or start more brokers.",
        "Settings of a large cluster on a small one.",
        CREATE,
    ),
    Error.INVALID_REPLICA_ASSIGNMENT: Rule(
        "The brokers that are named for the replicas cannot be: twice the same, unknown, none.",
        "ReplicationControlManager.validateManualPartitionAssignment",
        "Name brokers that are there, each once.",
        "A reassignment that was made for other brokers.",
        "state/apis/alter_partition_reassignments.py",
    ),
    Error.INVALID_CONFIG: Rule(
        "A setting has a name or a value that cannot be.",
        "ConfigurationControlManager, LogConfig.validate",
        "The answer's errorMessage names it.",
        "A setting that is misspelt, or that newer brokers do not have.",
        "state/cluster/config_changes.py",
    ),
    Error.POLICY_VIOLATION: Rule(
        "What is asked for is against a policy of the cluster: records of a topic that is compacted"
        " alone are not deleted, and a request may create 10,000 partitions at most.",
        "KIP-107, KIP-108; Partition.deleteRecordsOnLeader, ReplicationControlManager",
        "The answer's errorMessage says which.",
        "Tools that purge topics; a create.topic.policy.class.name of the cluster.",
        CREATE,
    ),
    Error.INVALID_REQUEST: Rule(
        "The request contradicts itself, or asks for what cannot be asked for in this way.",
        "KafkaApis, ControllerApis",
        "Nothing that is tried again helps: look at the client. Where the answer has an"
        " errorMessage it says what is wrong.",
        "A client with a fault; a tool of another version.",
        "state/apis/create_topics.py",
    ),
    Error.UNSUPPORTED_VERSION: Rule(
        "The broker does not have this version of the API, or not what it asks for.",
        "ApiVersionsRequest, KafkaApis",
        "Let the client ask by ApiVersions what there is; update the older side.",
        "A client that is much newer or older than the broker.",
        "state/apis/api_versions.py",
    ),
    Error.MISMATCHED_ENDPOINT_TYPE: Rule(
        "The request was meant for a controller and came to a broker, or the other way round.",
        "KIP-919; AuthHelper.computeDescribeClusterResponse",
        "Give tools --bootstrap-server for brokers, --bootstrap-controller for controllers.",
        "A tool with the wrong address.",
        "state/apis/describe_cluster.py",
    ),
    Error.UNSUPPORTED_ENDPOINT_TYPE: Rule(
        "There is no such kind of endpoint.",
        "KIP-919; AuthHelper.computeDescribeClusterResponse",
        "Ask for brokers (1) or controllers (2).",
        "A client with a fault.",
        "state/apis/describe_cluster.py",
    ),
    Error.UNKNOWN_SERVER_ERROR: Rule(
        "The broker did not expect what happened; its log has the reason.",
        "ApiError, Errors.forException",
        "Look into the log of the broker at that time.",
        "A fault of the broker, or of a plug-in in it.",
        "state/transactions/transactions.py",
    ),
}
