"""Errors of groups: their coordinator, members, generations and commits."""

from brokertwin.protocol.errors import Error
from brokertwin.recordings.rules.rule import Rule

JOIN = "state/apis/join_group.py"
RULES_OF_GROUPS = "state/groups/classic_rules.py"
CONSUMER = "state/groups/consumer_coordinator.py"
CONSUMER_RULES = "state/groups/consumer_rules.py"
COORDINATORS = "state/cluster/coordinators.py"

RULES: dict[int, Rule] = {
    Error.COORDINATOR_LOAD_IN_PROGRESS: Rule(
        "The coordinator is loading its log.",
        "CoordinatorRuntime, TransactionStateManager, RPCProducerIdManager",
        "No action: clients retry.",
        "A broker that has just become coordinator, after a restart or an election.",
        COORDINATORS,
    ),
    Error.COORDINATOR_NOT_AVAILABLE: Rule(
        "No broker coordinates this group or transactional.id: the internal topic is being"
        " created, or its partition has no leader.",
        "KafkaApis.handleFindCoordinatorRequest",
        "No action: clients look the coordinator up again. If it persists, check the replicas and"
        " brokers of __consumer_offsets and __transaction_state.",
        "The first client of a new cluster; brokers that are down.",
        "state/apis/find_coordinator.py",
    ),
    Error.NOT_COORDINATOR: Rule(
        "Another broker coordinates this group or transactional.id.",
        "GroupCoordinatorService, TransactionStateManager",
        "No action: clients look the coordinator up again.",
        "A coordinator that moved, after a restart or an election.",
        COORDINATORS,
    ),
    Error.ILLEGAL_GENERATION: Rule(
        "The group has rebalanced since the member joined.",
        "ClassicGroup, GroupCoordinatorService",
        "Join again. The new owner reads uncommitted records again. Commit in the callback for"
        " revoked partitions.",
        "A member that commits after it exceeded max.poll.interval.ms; another member that joined"
        " or left.",
        RULES_OF_GROUPS,
    ),
    Error.UNKNOWN_MEMBER_ID: Rule(
        "The group has no member with this id, or no longer.",
        "ClassicGroup; KIP-62 (session.timeout.ms, max.poll.interval.ms),"
        " KIP-394, KIP-848 (group.consumer.session.timeout.ms)",
        "Clients join again. If it happens often, poll more often or fewer records, raise"
        " max.poll.interval.ms, and check the process for pauses.",
        "A member without a heartbeat for session.timeout.ms (for KIP-848, the broker's"
        " group.consumer.session.timeout.ms); a commit without membership while the group has"
        " members.",
        RULES_OF_GROUPS,
    ),
    Error.REBALANCE_IN_PROGRESS: Rule(
        "The group is rebalancing; all members have to join again.",
        "ClassicGroup; KIP-429 for cooperative ones",
        "No action: clients join again. Commit in the callback for revoked partitions.",
        "Another member that joined, left or timed out.",
        "state/groups/classic_coordinator.py",
    ),
    Error.MEMBER_ID_REQUIRED: Rule(
        "A new member gets its member id with this error and has to join again with it.",
        "KIP-394",
        "No action: clients do this themselves.",
        "Every new member.",
        JOIN,
    ),
    Error.INCONSISTENT_GROUP_PROTOCOL: Rule(
        "The members have no common assignor, or another protocol type.",
        "GroupMetadataManager, ClassicGroup.supportsProtocols",
        "Give all members a common partition.assignment.strategy, and change it in two steps.",
        "A deployment that changes the assignor in one step; two applications with the same"
        " group.id.",
        JOIN,
    ),
    Error.INVALID_SESSION_TIMEOUT: Rule(
        "session.timeout.ms is outside the broker's group.min.session.timeout.ms and"
        " group.max.session.timeout.ms.",
        "GroupCoordinatorService, GroupCoordinatorConfig",
        "Change session.timeout.ms or the broker's limits.",
        "The client's settings.",
        JOIN,
    ),
    Error.INVALID_GROUP_ID: Rule(
        "The group id is empty or invalid.",
        "GroupCoordinatorService",
        "Set group.id.",
        "A consumer that subscribes or commits without a group.id.",
        RULES_OF_GROUPS,
    ),
    Error.GROUP_MAX_SIZE_REACHED: Rule(
        "The group has group.max.size members.",
        "KIP-389; ClassicGroup, GroupMetadataManager",
        "Start fewer members (more members than partitions are idle), or raise group.max.size.",
        "Instances that multiply, for example a pod that restarts repeatedly.",
        JOIN,
    ),
    Error.GROUP_ID_NOT_FOUND: Rule(
        "No group of this kind has the id. The error also means that a classic group cannot be"
        " converted to a consumer group; the error message has the reason.",
        "GroupMetadataManager",
        "Check group.id and group.consumer.migration.policy. A group without members disappears"
        " when its offsets expire.",
        "Tools with a wrong group id; a consumer with group.protocol=consumer.",
        "state/apis/delete_groups.py",
    ),
    Error.NON_EMPTY_GROUP: Rule(
        "The group has members, so neither the group nor its offsets can be deleted.",
        "KIP-229; ClassicGroup.validateDeleteGroup",
        "Stop the group's consumers and wait until their sessions end.",
        "An operator who deletes an active group.",
        RULES_OF_GROUPS,
    ),
    Error.GROUP_SUBSCRIBED_TO_TOPIC: Rule(
        "Members of the group subscribe to the topic whose offsets should be deleted.",
        "KIP-496; ClassicGroup, OffsetMetadataManager",
        "Stop the members or unsubscribe them first.",
        "An operator who deletes offsets of an active group.",
        "state/apis/offset_delete.py",
    ),
    Error.UNSUPPORTED_FOR_MESSAGE_FORMAT: Rule(
        "The storage cannot hold the data: here, transactional offsets when ZooKeeper stores"
        " offsets.",
        "TransactionManager.TxnOffsetCommitHandler",
        "Clients fail. Store offsets in the topic: brokertwin.offset.storage=kafka.",
        "A transactional client and a broker with brokertwin.offset.storage=zookeeper.",
        "state/apis/txn_offset_commit.py",
    ),
    Error.FENCED_INSTANCE_ID: Rule(
        "Another member has joined with the same group.instance.id.",
        "KIP-345; ClassicGroup.validateMember",
        "Give each instance its own group.instance.id.",
        "Two instances with the same settings; an old instance that still runs.",
        "state/groups/classic_group.py",
    ),
    Error.FENCED_MEMBER_EPOCH: Rule(
        "The member epoch is not the one that the coordinator expects.",
        "KIP-848; GroupMetadataManager",
        "Clients release their partitions and join again with epoch 0.",
        "A member that returns after its session ended.",
        CONSUMER,
    ),
    Error.STALE_MEMBER_EPOCH: Rule(
        "The commit has an older member epoch.",
        "KIP-848; ConsumerGroup.validateOffsetCommit",
        "Clients commit again with the epoch of their next heartbeat.",
        "A commit that was in flight during a heartbeat.",
        CONSUMER_RULES,
    ),
    Error.FENCED_STATE_EPOCH: Rule(
        "The share state of the partition has a later epoch than the request.",
        "KIP-932; ShareCoordinatorShard",
        "No action: the group coordinator has initialized the state again and uses the new epoch.",
        "A broker with an old epoch of a share group.",
        "state/share/state_store.py",
    ),
    Error.UNRELEASED_INSTANCE_ID: Rule(
        "The previous member with this group.instance.id has not left yet.",
        "KIP-848; GroupMetadataManager",
        "Wait until its session ends, or stop it first.",
        "A static member that is restarted before its old session has ended.",
        "state/groups/modern_coordinator.py",
    ),
    Error.UNSUPPORTED_ASSIGNOR: Rule(
        "The broker does not have the requested assignor.",
        "KIP-848; GroupCoordinatorService, group.consumer.assignors",
        "Set group.remote.assignor to uniform or range, or leave it unset.",
        "The client's settings.",
        "state/apis/consumer_group_heartbeat.py",
    ),
    Error.INVALID_REGULAR_EXPRESSION: Rule(
        "The regular expression of the subscription is not valid in RE2/J.",
        "KIP-848; Utils.throwIfRegularExpressionIsInvalid of the group coordinator",
        "Use RE2 syntax, without look-ahead and back-references.",
        "A pattern for Java's own regular expressions.",
        "state/groups/consumer_coordinator.py",
    ),
    Error.STREAMS_INVALID_TOPOLOGY: Rule(
        "The topology of the streams group is invalid: it names internal topics of Kafka, its"
        " repartition topics form a cycle, or a subtopology has no source.",
        "KIP-1071; InternalTopicManager, KafkaApis.handleStreamsGroupHeartbeat",
        "The error message has the details. Change the application's topology.",
        "An application with wrong topic names. Kafka's own clients do not cause the other cases.",
        "state/groups/topology_topics.py",
    ),
    Error.OFFSET_METADATA_TOO_LARGE: Rule(
        "The metadata of a commit exceeds offset.metadata.max.bytes.",
        "OffsetMetadataManager",
        "Shorten the metadata.",
        "An application that stores its own state in commits.",
        "state/apis/offset_commit.py",
    ),
    Error.UNSTABLE_OFFSET_COMMIT: Rule(
        "An open transaction has pending offsets of this partition.",
        "KIP-447; OffsetMetadataManager.fetchOffsets",
        "No action: clients retry until the transaction ends. If it persists, a transaction was"
        " left open; `brokertwin explain transaction` shows its producer.",
        "A consumer that takes over partitions from a transactional application.",
        "state/apis/offset_fetch.py",
    ),
}
