"""Errors of groups: their coordinator, members, generations and commits."""

from brokertwin.state.core.errors import Error
from brokertwin.streaming.explain.rules.rule import Rule

JOIN = "state/apis/join_group.py"
RULES_OF_GROUPS = "state/groups/group_rules.py"
CONSUMER = "state/groups/consumer_coordinator.py"
CONSUMER_RULES = "state/groups/consumer_rules.py"
COORDINATORS = "state/cluster/coordinators.py"

RULES: dict[int, Rule] = {
    Error.COORDINATOR_LOAD_IN_PROGRESS: Rule(
        "The coordinator is reading its log.",
        "CoordinatorRuntime, TransactionStateManager, RPCProducerIdManager",
        "Nothing: clients try again by themselves.",
        "A broker that has just become the coordinator: a restart, an election.",
        COORDINATORS,
    ),
    Error.COORDINATOR_NOT_AVAILABLE: Rule(
        "No broker coordinates this group or transactional.id now: the internal topic is being"
        " made, or its partition has no leader.",
        "KafkaApis.handleFindCoordinatorRequest",
        "Nothing: clients look again. If it stays, look at __consumer_offsets and"
        " __transaction_state: their replicas, and the brokers that have them.",
        "The first client of a new cluster; brokers that are down.",
        "state/apis/find_coordinator.py",
    ),
    Error.NOT_COORDINATOR: Rule(
        "Another broker coordinates this group or transactional.id.",
        "GroupCoordinatorService, TransactionStateManager",
        "Nothing: clients look the coordinator up again.",
        "A coordinator that moved: a restart, an election.",
        COORDINATORS,
    ),
    Error.ILLEGAL_GENERATION: Rule(
        "The group has had a rebalance since the member got its generation.",
        "ClassicGroup, GroupCoordinatorService",
        "Join again; what was not committed is read again by whoever has the partitions now. Commit"
        " in the callback for revoked partitions.",
        "A member that worked longer than max.poll.interval.ms and commits afterwards; another"
        " that joined or left.",
        RULES_OF_GROUPS,
    ),
    Error.UNKNOWN_MEMBER_ID: Rule(
        "The group has no member of this id (any more).",
        "ClassicGroup; KIP-62 (session.timeout.ms, max.poll.interval.ms), KIP-394",
        "Clients join again. If it comes often: poll faster or fewer records, or raise"
        " max.poll.interval.ms; look at pauses of the process.",
        "A member that was not heard of for session.timeout.ms; a commit from outside while the"
        " group has members.",
        RULES_OF_GROUPS,
    ),
    Error.REBALANCE_IN_PROGRESS: Rule(
        "The group is in a rebalance: all members have to join again.",
        "ClassicGroup; KIP-429 for cooperative ones",
        "Nothing: clients join again. Commit from the callback for revoked partitions.",
        "Another member that joined or left, or whose session ended.",
        "state/groups/group_coordinator.py",
    ),
    Error.MEMBER_ID_REQUIRED: Rule(
        "Who joins for the first time is told its id, and has to join again with it.",
        "KIP-394",
        "Nothing: clients do so by themselves.",
        "Every new member.",
        JOIN,
    ),
    Error.INCONSISTENT_GROUP_PROTOCOL: Rule(
        "The members have no assignor in common, or are of another protocol type.",
        "GroupMetadataManager, ClassicGroup.supportsProtocols",
        "Give all members one partition.assignment.strategy in common; change it in two steps.",
        "A deployment that changes the assignor in one step; a group.id that two applications"
        " share.",
        JOIN,
    ),
    Error.INVALID_SESSION_TIMEOUT: Rule(
        "session.timeout.ms is not within the broker's group.min. and max.session.timeout.ms.",
        "GroupCoordinatorService, GroupCoordinatorConfig",
        "Change the one or the others.",
        "The client's settings.",
        JOIN,
    ),
    Error.INVALID_GROUP_ID: Rule(
        "The group's id is empty, or none that may be.",
        "GroupCoordinatorService",
        "Set group.id.",
        "A consumer without a group.id that subscribes or commits.",
        RULES_OF_GROUPS,
    ),
    Error.GROUP_MAX_SIZE_REACHED: Rule(
        "The group has as many members as group.max.size allows.",
        "KIP-389; ClassicGroup, GroupMetadataManager",
        "Start fewer members (more than partitions have nothing to do), or raise group.max.size.",
        "Instances that multiply: a pod that starts again and again.",
        JOIN,
    ),
    Error.GROUP_ID_NOT_FOUND: Rule(
        "There is no such group of this kind; a classic one that cannot become a consumer group is"
        " none, either, and the answer's words say why.",
        "GroupMetadataManager",
        "Look at group.id and at group.consumer.migration.policy. A group without members whose"
        " offsets expired is gone.",
        "Tools that ask about a group by a wrong name; a consumer of group.protocol=consumer.",
        "state/apis/delete_groups.py",
    ),
    Error.NON_EMPTY_GROUP: Rule(
        "The group has members: it is neither deleted nor are its offsets.",
        "KIP-229; ClassicGroup.validateDeleteGroup",
        "Stop the group's consumers first, and wait for their sessions to end.",
        "An operator who deletes a group that is in use.",
        RULES_OF_GROUPS,
    ),
    Error.GROUP_SUBSCRIBED_TO_TOPIC: Rule(
        "Members of the group are subscribed to the topic whose offsets are to be deleted.",
        "KIP-496; ClassicGroup, OffsetMetadataManager",
        "Stop them, or let them unsubscribe first.",
        "An operator who deletes offsets of a running group.",
        "state/apis/offset_delete.py",
    ),
    Error.UNSUPPORTED_FOR_MESSAGE_FORMAT: Rule(
        "What keeps the data cannot hold it: here, offsets of a transaction where ZooKeeper keeps"
        " offsets.",
        "TransactionManager.TxnOffsetCommitHandler",
        "Clients give up. Keep offsets in the topic: brokertwin.offset.storage=kafka.",
        "A transactional client at a broker with brokertwin.offset.storage=zookeeper.",
        "state/apis/txn_offset_commit.py",
    ),
    Error.FENCED_INSTANCE_ID: Rule(
        "Another member has joined with the same group.instance.id.",
        "KIP-345; ClassicGroup.validateMember",
        "Give each instance a group.instance.id of its own.",
        "Two instances with the same settings; an old one that still runs beside the new one.",
        "state/groups/classic_group.py",
    ),
    Error.FENCED_MEMBER_EPOCH: Rule(
        "The member's epoch is not the one that the coordinator knows.",
        "KIP-848; GroupMetadataManager",
        "Clients give their partitions back and join again with epoch 0.",
        "A member that was not heard of for its session's time and comes back.",
        CONSUMER,
    ),
    Error.STALE_MEMBER_EPOCH: Rule(
        "The commit was sent in an older epoch of the member.",
        "KIP-848; ConsumerGroup.validateOffsetCommit",
        "Clients commit again with the epoch of their next heartbeat.",
        "A commit that crosses with a heartbeat.",
        CONSUMER_RULES,
    ),
    Error.FENCED_STATE_EPOCH: Rule(
        "A share group's state of a partition is of a later epoch than the request.",
        "KIP-932; ShareCoordinatorShard",
        "Nothing: the group's coordinator has begun it anew, and asks with its present epoch.",
        "A broker that still asks for a share group that is another one by now.",
        "state/share/state_store.py",
    ),
    Error.UNRELEASED_INSTANCE_ID: Rule(
        "The member of this group.instance.id has not left yet.",
        "KIP-848; GroupMetadataManager",
        "Wait until its session ends, or let it leave first.",
        "A static member that is started again while the old one still counts.",
        CONSUMER,
    ),
    Error.UNSUPPORTED_ASSIGNOR: Rule(
        "The member asks for an assignor that the broker does not have.",
        "KIP-848; GroupCoordinatorService, group.consumer.assignors",
        "Choose uniform or range in group.remote.assignor, or none.",
        "The client's settings.",
        "state/apis/consumer_group_heartbeat.py",
    ),
    Error.INVALID_REGULAR_EXPRESSION: Rule(
        "The subscription's regular expression is none of RE2/J.",
        "KIP-848; Utils.throwIfRegularExpressionIsInvalid of the group coordinator",
        "Write it in RE2's syntax: without look-ahead and back-references.",
        "A pattern that was written for Java's own regular expressions.",
        "state/groups/consumer_coordinator.py",
    ),
    Error.STREAMS_INVALID_TOPOLOGY: Rule(
        "The topology of a streams group cannot work: it names topics of Kafka's own, its"
        " repartition topics run in a circle, or a part of it reads nothing.",
        "KIP-1071; InternalTopicManager, KafkaApis.handleStreamsGroupHeartbeat",
        "The message says what; change the application's topology.",
        "An application whose topics are named wrongly; no client of Kafka's makes the others.",
        "state/groups/topology_topics.py",
    ),
    Error.OFFSET_METADATA_TOO_LARGE: Rule(
        "The text of a commit is longer than offset.metadata.max.bytes.",
        "OffsetMetadataManager",
        "Shorten it.",
        "An application that keeps its own state in commits.",
        "state/apis/offset_commit.py",
    ),
    Error.UNSTABLE_OFFSET_COMMIT: Rule(
        "A transaction that has not ended yet holds offsets of this partition.",
        "KIP-447; OffsetMetadataManager.fetchOffsets",
        "Nothing: clients ask again until the transaction has ended. If it stays, a transaction is"
        " left open: `brokertwin explain transaction` says whose.",
        "A consumer that takes partitions over from one that reads, writes and commits in"
        " transactions.",
        "state/apis/offset_fetch.py",
    ),
}
