"""Differences of the model's bodies from Kafka's messages."""

ADDITIONS = "brokertwin.protocol.additions"
IMPORTS = {
    "brokertwin.protocol.batch_headers": ("Batch",),
    ADDITIONS: (
        *("AlterConfigsEdge", "FetchedBatch", "TokenEdge", "ClientSoftware"),
        *("RecordsSummary", "RefusedRecords", "SealedRead", "Within"),
        *("ConditionalWrite", "VersionedDocument"),
    ),
}
"""What modules import beside types of Kafka, by the modules that have it."""
NOT_MODELLED = frozenset(
    {
        *("AddRaftVoter", "AlterUserScramCredentials", "DescribeUserScramCredentials"),
        *("RemoveRaftVoter", "SaslAuthenticate", "SaslHandshake"),
        *("ConsumerGroupPartitionMetadataValue", "LegacyOffsetCommitKey"),
        "LegacyOffsetCommitValue",
    }
)
"""Messages that the model does not have."""
_SHARED = {
    "EntityData": (
        "AlterClientQuotasRequest.EntityData",
        "AlterClientQuotasResponse.EntityData",
        "DescribeClientQuotasResponse.EntityData",
    ),
    "ConsumerGroupHeartbeatTopicPartitions": (
        "ConsumerGroupHeartbeatRequest.TopicPartitions",
        "ConsumerGroupHeartbeatResponse.TopicPartitions",
    ),
    "AclFilter": ("DeleteAclsRequest.DeleteAclsFilter", "DescribeAclsRequest"),
    "ShareGroupStateResponse": (
        "DeleteShareGroupStateResponse",
        "InitializeShareGroupStateResponse",
        "WriteShareGroupStateResponse",
    ),
    "ShareGroupStateResult": (
        "DeleteShareGroupStateResponse.DeleteStateResult",
        "InitializeShareGroupStateResponse.InitializeStateResult",
        "WriteShareGroupStateResponse.WriteStateResult",
    ),
    "ShareGroupStatePartitionResult": (
        "DeleteShareGroupStateResponse.PartitionResult",
        "InitializeShareGroupStateResponse.PartitionResult",
        "WriteShareGroupStateResponse.PartitionResult",
    ),
    "Cursor": ("DescribeTopicPartitionsRequest.Cursor", "DescribeTopicPartitionsResponse.Cursor"),
    "LeaderIdAndEpoch": ("FetchResponse.LeaderIdAndEpoch", "ProduceResponse.LeaderIdAndEpoch"),
    "OffsetCommitResponsePartition": (
        "OffsetCommitResponse.OffsetCommitResponsePartition",
        "TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition",
    ),
    "ReadShareGroupStateRequest": (
        "ReadShareGroupStateRequest",
        "ReadShareGroupStateSummaryRequest",
    ),
    "ReadStateData": (
        "ReadShareGroupStateRequest.ReadStateData",
        "ReadShareGroupStateSummaryRequest.ReadStateSummaryData",
    ),
    "ReadStatePartition": (
        "ReadShareGroupStateRequest.PartitionData",
        "ReadShareGroupStateSummaryRequest.PartitionData",
    ),
    "StateBatch": (
        "ReadShareGroupStateResponse.StateBatch",
        "WriteShareGroupStateRequest.StateBatch",
    ),
    "ShareFetchTopic": (
        "ShareAcknowledgeRequest.AcknowledgeTopic",
        "ShareFetchRequest.FetchTopic",
    ),
    "ShareFetchPartition": (
        "ShareAcknowledgeRequest.AcknowledgePartition",
        "ShareFetchRequest.FetchPartition",
    ),
    "AcknowledgementBatch": (
        "ShareAcknowledgeRequest.AcknowledgementBatch",
        "ShareFetchRequest.AcknowledgementBatch",
    ),
    "ShareLeaderIdAndEpoch": (
        "ShareAcknowledgeResponse.LeaderIdAndEpoch",
        "ShareFetchResponse.LeaderIdAndEpoch",
    ),
    "NodeEndpoint": (
        "FetchResponse.NodeEndpoint",
        "ProduceResponse.NodeEndpoint",
        "ShareAcknowledgeResponse.NodeEndpoint",
        "ShareFetchResponse.NodeEndpoint",
    ),
    "StreamsTopicInfo": (
        "StreamsGroupDescribeResponse.TopicInfo",
        "StreamsGroupHeartbeatRequest.TopicInfo",
    ),
    "StreamsKeyValue": (
        "StreamsGroupDescribeResponse.KeyValue",
        "StreamsGroupHeartbeatRequest.KeyValue",
    ),
    "StreamsEndpoint": (
        "StreamsGroupDescribeResponse.Endpoint",
        "StreamsGroupHeartbeatRequest.Endpoint",
        "StreamsGroupHeartbeatResponse.Endpoint",
    ),
    "StreamsTaskOffset": (
        "StreamsGroupDescribeResponse.TaskOffset",
        "StreamsGroupHeartbeatRequest.TaskOffset",
    ),
    "StreamsTaskIds": (
        "StreamsGroupDescribeResponse.TaskIds",
        "StreamsGroupHeartbeatRequest.TaskIds",
        "StreamsGroupHeartbeatResponse.TaskIds",
    ),
    **{
        f"Streams{name}": (
            f"StreamsGroupDescribeResponse.{name}",
            f"StreamsGroupTopologyDescriptionUpdateRequest.{name}",
        )
        for name in (
            "TopologyDescription",
            "TopologyDescriptionGlobalStore",
            "TopologyDescriptionNode",
            "TopologyDescriptionSubtopology",
        )
    },
    "AlterConfigsResponse": ("AlterConfigsResponse", "IncrementalAlterConfigsResponse"),
    "AlterConfigsResourceResponse": (
        "AlterConfigsResponse.AlterConfigsResourceResponse",
        "IncrementalAlterConfigsResponse.AlterConfigsResourceResponse",
    ),
}
"""Structs that several messages have, by their names here."""

_OFFSET_FETCH = {
    "OffsetFetchRequest.OffsetFetchRequestTopic": "OffsetFetchRequestTopics",
    "OffsetFetchResponse.OffsetFetchResponseTopic": "OffsetFetchResponseTopics",
    "OffsetFetchResponse.OffsetFetchResponsePartition": "OffsetFetchResponsePartitions",
}
"""Structs of OffsetFetch up to version 7, and the later versions that replace them."""

NOT_GENERATED = frozenset(_OFFSET_FETCH)
NAMES = {
    **_OFFSET_FETCH,
    "FetchRequest.FetchPartition": "FetchRequestPartition",
    "FetchRequest.FetchTopic": "FetchRequestTopic",
    **{key: name for name, keys in _SHARED.items() for key in keys},
    "ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions": "ConsumerGroupTopicPartitions",
    "ConsumerGroupTargetAssignmentMemberValue.TopicPartition": "ConsumerGroupTopicPartition",
    "ConsumerProtocolAssignment.TopicPartition": "ConsumerProtocolTopicPartition",
    "ConsumerProtocolSubscription.TopicPartition": "ConsumerProtocolTopicPartition",
    "ShareSnapshotValue.StateBatch": "ShareRowBatch",
    "ShareUpdateValue.StateBatch": "ShareRowBatch",
    "ShareGroupCurrentMemberAssignmentValue.TopicPartitions": "ShareGroupTopicPartitions",
    "ShareGroupStatePartitionMetadataValue.TopicInfo": "ShareGroupTopicInfo",
    "ShareGroupTargetAssignmentMemberValue.TopicPartition": "ShareGroupTopicPartition",
    "StreamsGroupCurrentMemberAssignmentValue.TaskIds": "StreamsGroupTaskIds",
    "StreamsGroupTargetAssignmentMemberValue.TaskIds": "StreamsGroupTargetTaskIds",
    "StreamsGroupTopologyValue.TopicInfo": "StreamsGroupTopicInfo",
}
"""Names of structs whose names in Kafka's schemas others have, too."""
OPTIONAL = {
    "AlterClientQuotasRequest": "validateOnly",
    "AlterClientQuotasRequest.entries.entity": "entityName",
    "AlterClientQuotasRequest.entries.ops": "value remove",
    "AlterConfigsRequest": "resources validateOnly",
    "AlterConfigsRequest.resources": "resourceType resourceName configs",
    "AlterConfigsRequest.resources.configs": "name value",
    "AlterPartitionReassignmentsRequest": "topics",
    "AlterPartitionRequest": "topics",
    "AlterPartitionRequest.topics": "partitions",
    "AlterPartitionRequest.topics.partitions": "partitionEpoch",
    "AssignReplicasToDirsRequest": "directories",
    "AssignReplicasToDirsRequest.directories": "topics",
    "AssignReplicasToDirsRequest.directories.topics": "partitions",
    "BrokerHeartbeatRequest": "currentMetadataOffset wantFence wantShutDown",
    "BrokerRegistrationRequest": "listeners features rack",
    "BrokerRegistrationRequest.listeners": "securityProtocol",
    "ConsumerGroupDescribeRequest": "includeAuthorizedOperations",
    "CreateAclsRequest": "creations",
    "CreateDelegationTokenRequest": "renewers maxLifetimeMs",
    "CreatePartitionsRequest": "topics timeoutMs validateOnly",
    "CreatePartitionsRequest.topics": "count assignments",
    "CreatePartitionsRequest.topics.assignments": "brokerIds",
    "CreateTopicsRequest": "topics",
    "CreateTopicsRequest.topics": "numPartitions replicationFactor assignments configs",
    "CreateTopicsRequest.topics.assignments": "brokerIds",
    "CreateTopicsRequest.topics.configs": "value",
    "DeleteAclsRequest": "filters",
    "DeleteAclsRequest.filters": "*",
    "DeleteRecordsRequest": "timeoutMs",
    "DeleteTopicsRequest": "timeoutMs",
    "DeleteTopicsRequest.topics": "topicId",
    "DescribeAclsRequest": "*",
    "DescribeClientQuotasRequest": "strict",
    "DescribeClientQuotasRequest.components": "match",
    "DescribeClusterRequest": "includeClusterAuthorizedOperations",
    "DescribeConfigsRequest": "resources",
    "DescribeConfigsRequest.resources": "resourceType resourceName configurationKeys",
    "DescribeDelegationTokenRequest": "owners",
    "DescribeLogDirsRequest": "topics",
    "DescribeProducersRequest": "topics",
    "DescribeProducersRequest.topics": "name partitionIndexes",
    "DescribeShareGroupOffsetsRequest.groups": "topics",
    "DescribeTopicPartitionsRequest": "topics",
    "DescribeTopicPartitionsRequest.topics": "name",
    "ElectLeadersRequest": "topicPartitions",
    "ExpireDelegationTokenRequest": "hmac expiryTimePeriodMs",
    "FetchRequest": "maxWaitMs minBytes topics",
    "FetchRequest.forgottenTopicsData": "partitions",
    "FetchRequest.topics": "partitions",
    "FetchRequest.topics.partitions": "partition fetchOffset partitionMaxBytes",
    "GetTelemetrySubscriptionsRequest": "clientInstanceId",
    "IncrementalAlterConfigsRequest": "resources validateOnly",
    "IncrementalAlterConfigsRequest.resources": "resourceType resourceName configs",
    "IncrementalAlterConfigsRequest.resources.configs": "name configOperation value",
    "JoinGroupRequest.protocols": "metadata",
    "ListTransactionsRequest": "stateFilters producerIdFilters",
    "MetadataRequest": "topics",
    "MetadataRequest.topics": "name",
    "OffsetCommitRequest": "memberId",
    "OffsetCommitRequest.topics.partitions": "committedMetadata",
    "OffsetForLeaderEpochRequest": "topics",
    "OffsetForLeaderEpochRequest.topics": "topic partitions",
    "OffsetForLeaderEpochRequest.topics.partitions": "partition leaderEpoch",
    "ProduceRequest": "acks timeoutMs topicData",
    "ProduceRequest.topicData": "partitionData",
    "ProduceRequest.topicData.partitionData": "index",
    "PushTelemetryRequest": "clientInstanceId subscriptionId terminating compressionType",
    "ReadShareGroupStateRequest.topics.partitions": "leaderEpoch",
    "RenewDelegationTokenRequest": "hmac renewPeriodMs",
    "ShareAcknowledgeRequest.topics": "partitions",
    "ShareAcknowledgeRequest.topics.partitions": "acknowledgementBatches",
    "ShareFetchRequest.forgottenTopicsData": "partitions",
    "ShareFetchRequest.topics": "partitions",
    "ShareGroupDescribeRequest": "includeAuthorizedOperations",
    "StreamsGroupDescribeRequest": "includeAuthorizedOperations",
    "StreamsGroupHeartbeatRequest": "endpointInformationEpoch",
    "StreamsGroupHeartbeatRequest.topology": "subtopologies",
    "StreamsGroupHeartbeatRequest.topology.subtopologies": (
        "sourceTopics sourceTopicRegex stateChangelogTopics "
        "repartitionSinkTopics repartitionSourceTopics copartitionGroups"
    ),
    "StreamsGroupHeartbeatRequest.topology.subtopologies.copartitionGroups": "*",
    "StreamsGroupHeartbeatRequest.topology.subtopologies.repartitionSourceTopics": (
        "partitions replicationFactor topicConfigs"
    ),
    "StreamsGroupHeartbeatRequest.topology.subtopologies.stateChangelogTopics": (
        "partitions replicationFactor topicConfigs"
    ),
    "SyncGroupRequest": "assignments",
    "SyncGroupRequest.assignments": "assignment",
    "TxnOffsetCommitRequest.topics.partitions": "committedMetadata",
    "UpdateFeaturesRequest": "featureUpdates",
    "UpdateFeaturesRequest.featureUpdates": "feature maxVersionLevel",
    "WriteShareGroupStateRequest.topics.partitions": "stateBatches",
}
"""Fields without a default in Kafka's schemas that a request may leave out; `*` is all of them."""
DEFAULTS = {
    "CreateAclsResponse.results.errorMessage": '""',
    "CreateDelegationTokenRequest.maxLifetimeMs": "-1",
    "CreatePartitionsRequest.timeoutMs": "60000",
    "CreateTopicsRequest.topics.numPartitions": "-1",
    "CreateTopicsRequest.topics.replicationFactor": "-1",
    "CreateTopicsResponse.topics.configs": "[]",
    "DeleteAclsRequest.filters.operation": "1",
    "DeleteAclsRequest.filters.permissionType": "1",
    "DeleteAclsRequest.filters.resourceTypeFilter": "1",
    "DeleteRecordsResponse.topics.partitions.lowWatermark": "-1",
    "DeleteTopicsRequest.timeoutMs": "60000",
    "DescribeAclsRequest.operation": "1",
    "DescribeAclsRequest.permissionType": "1",
    "DescribeAclsRequest.resourceTypeFilter": "1",
    "DescribeAclsResponse.errorMessage": '""',
    "DescribeClientQuotasResponse.errorMessage": '""',
    "DescribeConfigsResponse.results.errorMessage": '""',
    "DescribeProducersResponse.topics.partitions.activeProducers.coordinatorEpoch": "-1",
    "DescribeQuorumResponse.errorMessage": '""',
    "DescribeQuorumResponse.topics.partitions.errorMessage": '""',
    "DescribeShareGroupOffsetsResponse.groups.topics.partitions.startOffset": "-1",
    "DescribeTopicPartitionsResponse.topics.partitions.eligibleLeaderReplicas": "[]",
    "DescribeTopicPartitionsResponse.topics.partitions.lastKnownElr": "[]",
    "ExpireDelegationTokenRequest.expiryTimePeriodMs": "-1",
    "FetchResponse.nodeEndpoints": "UNSET",
    "FetchResponse.responses.partitions.currentLeader": "UNSET",
    "FetchResponse.responses.partitions.divergingEpoch": "UNSET",
    "FetchResponse.responses.partitions.highWatermark": "-1",
    "FindCoordinatorResponse.coordinators.errorMessage": '""',
    "FindCoordinatorResponse.coordinators.nodeId": "-1",
    "FindCoordinatorResponse.coordinators.port": "-1",
    "FindCoordinatorResponse.errorMessage": '""',
    "FindCoordinatorResponse.nodeId": "-1",
    "FindCoordinatorResponse.port": "-1",
    "InitProducerIdResponse.producerEpoch": "-1",
    "OffsetCommitResponse.topics.name": "UNSET",
    "OffsetCommitResponse.topics.topicId": "UNSET",
    "OffsetFetchResponse.groups.topics.partitions.committedOffset": "-1",
    "OffsetFetchResponse.groups.topics.partitions.metadata": '""',
    "OffsetForLeaderEpochRequest.topics.partitions.leaderEpoch": "-1",
    "ProduceRequest.acks": "-1",
    "ProduceResponse.nodeEndpoints": "UNSET",
    "ProduceResponse.responses.name": "UNSET",
    "ProduceResponse.responses.partitionResponses.baseOffset": "-1",
    "ProduceResponse.responses.partitionResponses.currentLeader": "UNSET",
    "ProduceResponse.responses.topicId": "UNSET",
    "RenewDelegationTokenRequest.renewPeriodMs": "-1",
    "StreamsGroupHeartbeatResponse.acceptableRecoveryLag": "0",
    "StreamsGroupHeartbeatResponse.partitionsByUserEndpoint.userEndpoint": (
        'field(default_factory=lambda: StreamsEndpoint(host="", port=0))'
    ),
    "StreamsGroupHeartbeatResponse.status": "[]",
    **dict.fromkeys(
        ("TxnOffsetCommitResponse.topics.name", "TxnOffsetCommitResponse.topics.topicId"), "UNSET"
    ),
    "UnregisterBrokerResponse.errorMessage": '""',
    "UpdateFeaturesResponse.results.errorMessage": '"NONE"',
}
"""Defaults of the model; a nullable field without a default in Kafka's schema has None."""
MARKS = {
    "FetchResponse.responses.partitions.divergingEpoch": "tagged(12)",
    "FetchResponse.responses.partitions.currentLeader": "tagged(16)",
    "OffsetFetchRequest.groups.topics.name": "since(0, 9)",
    "OffsetFetchResponse.groups.topics.name": "since(0, 9)",
    "OffsetFetchResponse.groups.topics.partitions.committedLeaderEpoch": "since(5)",
    "OffsetCommitResponse.topics.name": "given(0, 9)",
    "OffsetCommitResponse.topics.topicId": "given(10)",
    "ProduceResponse.responses.name": "given(0, 12)",
    "ProduceResponse.responses.topicId": "given(13)",
    "ProduceResponse.responses.partitionResponses.currentLeader": "tagged(10)",
    "TxnOffsetCommitResponse.topics.name": "given(0, 5)",
    "TxnOffsetCommitResponse.topics.topicId": "given(6)",
}
"""Versions of fields; Kafka's schema has the current leader in Fetch since 12, brokers since 16."""
LEFT_OUT = frozenset(
    {
        "FetchRequest.clusterId",
        "FetchRequest.topics.partitions.highWatermark",
        "FetchRequest.topics.partitions.replicaDirectoryId",
        "FetchResponse.responses.partitions.snapshotId",
        "PushTelemetryRequest.metrics",
    }
)
"""Fields that no part of the model reads or writes; those of requests are accepted."""
ADDED = {
    "AllocateProducerIdsRequest": ("write: ConditionalWrite | None = None",),
    "AllocateProducerIdsResponse": ("stored: VersionedDocument | None = None",),
    "AlterConfigsRequest": ("edge: AlterConfigsEdge = field(default_factory=AlterConfigsEdge)",),
    "IncrementalAlterConfigsRequest": (
        "edge: AlterConfigsEdge = field(default_factory=AlterConfigsEdge)",
    ),
    **dict.fromkeys(
        (
            *("CreateDelegationTokenRequest", "DescribeDelegationTokenRequest"),
            *("ExpireDelegationTokenRequest", "RenewDelegationTokenRequest"),
        ),
        ("edge: TokenEdge = field(default_factory=TokenEdge)",),
    ),
    "FetchResponse.responses.partitions": (
        "records: bytes | None = None",
        "records_size_in_bytes: Int32 = 0",
        "batches: list[FetchedBatch] = []",
        "sealed: Annotated[SealedRead | UnsetType, tagged(0)] = UNSET",
    ),
    "ListOffsetsResponse.topics.partitions": (
        "within: Annotated[Within | None, tagged(1)] = None",
    ),
    "OffsetFetchResponse.groups.topics.partitions": (
        "commit_timestamp: Int64 | UnsetType = UNSET",
    ),
    "ProduceRequest": ("request_size_in_bytes: Int32 = 0",),
    "ProduceRequest.topicData.partitionData": (
        "records: UnsetType | None = UNSET",
        "records_size_in_bytes: Int32 = 0",
        "batches: list[Batch] = []",
        "records_error: Int16 = 0",
        "records_seen: RecordsSummary | None = None",
    ),
    "ProduceResponse.responses.partitionResponses": (
        "refused_records: Annotated[RefusedRecords | UnsetType | None, tagged(8)] = UNSET",
    ),
    "PushTelemetryRequest": (
        "metrics_size_in_bytes: Int32 = 0",
        "decompressed_size_in_bytes: Int32 = 0",
    ),
    **dict.fromkeys(
        (
            "ShareGroupStatePartitionMetadataValue.initializingTopics",
            "ShareGroupStatePartitionMetadataValue.initializedTopics",
        ),
        ("timestamp: int = 0",),
    ),
    "ShareFetchResponse.responses.partitions": (
        "records: bytes | None = None",
        "records_size_in_bytes: Int32 = 0",
        "batches: list[Batch] = []",
        "sealed: Annotated[SealedRead | None, tagged(0)] = None",
    ),
}
"""Fields that the model has beside Kafka's: batches in place of records, facts from the edge."""
BASES = {
    "FetchResponse.responses.partitions": "Body, gc=False",
    "GetTelemetrySubscriptionsRequest": "ClientSoftware",
    "MetadataResponse.topics": "CachedBody",
    "ProduceResponse.responses.partitionResponses": "Body, gc=False",
    "PushTelemetryRequest": "ClientSoftware",
}
"""Bases that are not `Body`."""
UNVERSIONED = frozenset(
    {"StickyAssignorUserData", "StreamsAssignmentInfo", "StreamsSubscriptionInfo"}
)
"""Messages whose bytes do not begin with a version as an int16."""
ROOMS_OF_ROWS = {
    "Connect": "connect_protocol",
    "StickyAssignorUserData": "consumer_protocol",
    "StreamsAssignmentInfo": "streams_protocol",
    "StreamsSubscriptionInfo": "streams_protocol",
    "OffsetCommit": "offset_rows",
    "GroupMetadata": "group_rows",
    "ConsumerGroup": "consumer_group_rows",
    "ConsumerProtocol": "consumer_protocol",
    "ShareGroup": "share_group_rows",
    "StreamsGroup": "streams_group_rows",
    "Share": "share_state_rows",
    "Transaction": "transaction_rows",
}
"""The module of a row by the beginning of its name; the first one counts."""
TITLES = {
    "connect_protocol": "States and assignments of workers in Connect's groups.",
    "streams_protocol": "The user data of threads in groups of Kafka Streams.",
    "offset_rows": "Committed offsets in `__consumer_offsets`.",
    "group_rows": "Classic groups in `__consumer_offsets`.",
    "consumer_group_rows": "Consumer groups in `__consumer_offsets`.",
    "consumer_protocol": "Subscriptions and assignments of consumers in classic groups.",
    "share_group_rows": "Share groups in `__consumer_offsets`.",
    "streams_group_rows": "Streams groups in `__consumer_offsets`.",
    "share_state_rows": "Share partitions in `__share_group_state`.",
    "transaction_rows": "Transactional ids in `__transaction_state`.",
}
