"""A small request of every API that a broker offers to clients, for a named client.

Each client has its own resources: the topic `t-<who>`, the groups `g-<who>`, `j-<who>-…`, the
transactional id `x-<who>`. So a change by one client does not affect the next.
"""

import base64
from collections.abc import Mapping
from typing import Any, NamedTuple

from kafka.record.default_records import DefaultRecordBatchBuilder

from brokertwin.state.cluster.topics import derive_uuid
from tests.support.batches import batch
from tests.support.goldens import WRITTEN_MS

NOBODY = "AAAAAAAAAAAAAAAAAAAAAA"
BROKER, LOGGERS, METRICS, GROUP, TOPIC = 4, 8, 16, 32, 2
"""Types of resources that have settings."""

Body = dict[str, Any]


class ApiRequest(NamedTuple):
    """A request: its API by name, its subject, and the body, with all versions' fields."""

    api: str
    case: str
    body: Body


def _transactional() -> bytes:
    builder = DefaultRecordBatchBuilder(2, 0, 1, 4_000_000, 0, 0, 1 << 20)
    builder.append(0, WRITTEN_MS, b"key", b"value", [])
    return bytes(builder.build())


PLAIN_RECORDS, TRANSACTIONAL_RECORDS = batch(b"value", timestamps=[WRITTEN_MS]), _transactional()


def all_of(who: str, version: int, topic_id: str) -> list[ApiRequest]:
    """Every request that `who` sends; APIs without that version are the caller's to leave out."""
    topic, group, transactional_id = f"t-{who}", f"g-{who}", f"x-{who}"
    names = {"topic": topic, "group": group, "xid": transactional_id, "topic_id": topic_id}
    return [
        *_records(**names),
        *_groups(who, version, **names),
        *_transactions(**names),
        *_share_groups(**names),
        *_settings(who, **names),
        *_cluster(who, version, **names),
        *_metrics(who),
        *_deletions(**names),
    ]


def _place(topic: str, topic_id: str, **fields: Any) -> Body:
    """A topic with its first partition, by whatever name an API gives them."""
    partition = {"partitionIndex": 0, "partition": 0, **fields}
    named = {"name": topic, "topic": topic, "topicName": topic, "topicId": topic_id}
    return {**named, "partitions": [partition], "partitionIndexes": [0]}


def _numbers(topic: str, topic_id: str = NOBODY) -> Body:
    return {**_place(topic, topic_id), "partitions": [0]}


def _records(topic: str, topic_id: str, xid: str, **_: str) -> list[ApiRequest]:
    def produced(records: bytes, transactional_id: str | None) -> Body:
        data = [{"index": 0, "records": records}]
        topics = [{"name": topic, "topicId": topic_id, "partitionData": data}]
        return {
            "acks": 1,
            "timeoutMs": 5000,
            "transactionalId": transactional_id,
            "topicData": topics,
        }

    fetched = _place(topic, topic_id, fetchOffset=0, partitionMaxBytes=1000, currentLeaderEpoch=-1)
    look_up = _place(topic, topic_id, timestamp=-1, currentLeaderEpoch=-1)
    epoch = _place(topic, topic_id, leaderEpoch=0, currentLeaderEpoch=-1)
    fetch = {"maxWaitMs": 0, "maxBytes": 1000, "sessionEpoch": -1, "topics": [fetched]}
    return [
        ApiRequest("PRODUCE", "plain", produced(PLAIN_RECORDS, None)),
        ApiRequest("PRODUCE", "transactional", produced(TRANSACTIONAL_RECORDS, xid)),
        ApiRequest("FETCH", "as a client", fetch | {"replicaId": -1}),
        ApiRequest(
            "FETCH",
            "as a replica",
            fetch | {"replicaId": 5, "replicaState": {"replicaId": 5, "replicaEpoch": -1}},
        ),
        ApiRequest("LIST_OFFSETS", "latest", {"replicaId": -1, "topics": [look_up]}),
        ApiRequest("OFFSET_FOR_LEADER_EPOCH", "first", {"replicaId": -2, "topics": [epoch]}),
        ApiRequest("DELETE_RECORDS", "none", {"topics": [_place(topic, topic_id, offset=0)]}),
        ApiRequest("DESCRIBE_PRODUCERS", "of a topic", {"topics": [_place(topic, topic_id)]}),
    ]


def _groups(
    who: str, version: int, topic: str, topic_id: str, group: str, xid: str
) -> list[ApiRequest]:
    place = _place(topic, topic_id, committedOffset=1, committedLeaderEpoch=-1)
    member = {"memberId": "nobody", "groupInstanceId": None}
    here = {"groupId": group, "generationId": 1, **member}
    join = {
        "groupId": f"j-{who}-{version}",
        "sessionTimeoutMs": 600_000,
        "rebalanceTimeoutMs": 600_000,
        "memberId": "",
        "protocolType": "consumer",
        "protocols": [{"name": "range", "metadata": ""}],
    }
    commit = {"generationIdOrMemberEpoch": -1, "memberId": "", "groupInstanceId": None}
    fetched = {"groupId": group, "topics": [place]}
    every = [{"groupId": group, "topics": None}]
    beat = {
        "groupId": f"c-{who}-{version}",
        "memberId": "AAAAAAAAAAAAAAAAAAAAAQ" if version else "",
        "memberEpoch": 0,
        "rebalanceTimeoutMs": 10_000,
        "subscribedTopicNames": [topic],
        "topicPartitions": [],
    }
    by_expression = {"groupId": f"e-{who}-{version}", "subscribedTopicNames": None}
    sync = here | {"protocolType": "consumer", "protocolName": "range"}
    return [
        *[
            ApiRequest(
                "FIND_COORDINATOR",
                f"of type {kind}",
                {"key": key, "keyType": kind, "coordinatorKeys": [key]},
            )
            for kind, key in enumerate((group, xid, f"{group}:{topic_id}:0"))
        ],
        ApiRequest("OFFSET_COMMIT", "one", {"groupId": group, **commit, "topics": [place]}),
        ApiRequest(
            "OFFSET_FETCH", "one", {"groupId": group, "topics": [place], "groups": [fetched]}
        ),
        ApiRequest("OFFSET_FETCH", "all", {"groupId": group, "topics": None, "groups": every}),
        ApiRequest("JOIN_GROUP", "new", join),
        ApiRequest("SYNC_GROUP", "nobody", sync),
        ApiRequest("HEARTBEAT", "nobody", here),
        ApiRequest("LEAVE_GROUP", "nobody", {"groupId": group, **member, "members": [member]}),
        ApiRequest(
            "DESCRIBE_GROUPS", "one", {"groups": [group], "includeAuthorizedOperations": True}
        ),
        ApiRequest("LIST_GROUPS", "all", {}),
        ApiRequest("CONSUMER_GROUP_HEARTBEAT", "new", beat),
        ApiRequest(
            "CONSUMER_GROUP_HEARTBEAT",
            "by an expression",
            beat | by_expression | {"subscribedTopicRegex": "t-.*"},
        ),
        ApiRequest(
            "CONSUMER_GROUP_DESCRIBE",
            "one",
            {"groupIds": [group], "includeAuthorizedOperations": True},
        ),
        ApiRequest(
            "OFFSET_DELETE",
            "one",
            {"groupId": group, "topics": [_place(topic, topic_id)]},
        ),
    ]


def _transactions(topic: str, topic_id: str, group: str, xid: str) -> list[ApiRequest]:
    holder = {"transactionalId": xid, "producerId": 4_000_000, "producerEpoch": 0}
    topics = [_numbers(topic)]
    offset = _place(topic, topic_id, committedOffset=1, committedLeaderEpoch=-1)
    added = {
        "v3AndBelowTransactionalId": xid,
        "v3AndBelowProducerId": 4_000_000,
        "v3AndBelowTopics": topics,
        "transactions": [{**holder, "topics": topics}],
    }
    marker = {"producerId": 4_000_000, "topics": [_place(topic, topic_id)]}
    new = {"transactionTimeoutMs": 60_000, "producerId": -1, "producerEpoch": -1}
    commit = holder | {"groupId": group, "generationId": -1, "topics": [offset]}
    return [
        ApiRequest("INIT_PRODUCER_ID", "idempotent", {"transactionalId": None, **new}),
        ApiRequest("INIT_PRODUCER_ID", "transactional", {"transactionalId": xid, **new}),
        ApiRequest(
            "INIT_PRODUCER_ID",
            "two phases",
            {"transactionalId": xid, **new, "enable2Pc": True},
        ),
        ApiRequest("ADD_PARTITIONS_TO_TXN", "one", added),
        ApiRequest("ADD_OFFSETS_TO_TXN", "a group", holder | {"groupId": group}),
        ApiRequest("END_TXN", "commit", holder | {"committed": True}),
        ApiRequest("TXN_OFFSET_COMMIT", "one", commit),
        ApiRequest("WRITE_TXN_MARKERS", "one", {"markers": [marker]}),
        ApiRequest("DESCRIBE_TRANSACTIONS", "one", {"transactionalIds": [xid]}),
        ApiRequest("LIST_TRANSACTIONS", "all", {"durationFilter": -1}),
    ]


def _share_groups(topic: str, topic_id: str, group: str, xid: str) -> list[ApiRequest]:
    del xid
    state = {"partition": 0, "stateEpoch": 0, "leaderEpoch": 0, "startOffset": 0}
    states = {
        "groupId": group,
        "topics": [{"topicId": topic_id, "partitions": [state]}],
    }
    beat = {
        "groupId": f"s{group}",
        "memberId": "AAAAAAAAAAAAAAAAAAAAAQ",
        "memberEpoch": 0,
        "subscribedTopicNames": [topic],
    }
    share = {"groupId": f"s{group}", "memberId": "AAAAAAAAAAAAAAAAAAAAAQ", "maxRecords": 1}
    fetched = share | {"topics": [_place(topic, topic_id)], "batchSize": 1, "maxWaitMs": 500}
    runs = {"epoch": 0, "subtopologies": [{"subtopologyId": "0", "sourceTopics": [topic]}]}
    streams = {"memberId": "m", "rebalanceTimeoutMs": 60_000, "topology": runs}
    tasks: Body = {"activeTasks": [], "standbyTasks": [], "warmupTasks": []}
    request = {"groupIds": [group], "includeAuthorizedOperations": True}
    by_topic = {"groupId": group, "topics": [_numbers(topic)]}
    return [
        ApiRequest("SHARE_GROUP_HEARTBEAT", "new", beat),
        ApiRequest("SHARE_GROUP_DESCRIBE", "one", request),
        ApiRequest("SHARE_FETCH", "new", fetched),
        ApiRequest("SHARE_ACKNOWLEDGE", "no session", fetched | {"shareSessionEpoch": 1}),
        *[
            ApiRequest(f"{what}_SHARE_GROUP_STATE{more}", "one", states)
            for what, more in [
                ("INITIALIZE", ""),
                ("READ", ""),
                ("WRITE", ""),
                ("READ", "_SUMMARY"),
                ("DELETE", ""),
            ]
        ],
        ApiRequest(
            "STREAMS_GROUP_HEARTBEAT",
            "new",
            {"groupId": f"k{group}", **streams, **tasks, "processId": "p"},
        ),
        ApiRequest("STREAMS_GROUP_DESCRIBE", "one", request),
        ApiRequest("DESCRIBE_SHARE_GROUP_OFFSETS", "one", {"groups": [by_topic]}),
        ApiRequest(
            "ALTER_SHARE_GROUP_OFFSETS",
            "one",
            {"groupId": group, "topics": [_place(topic, topic_id, startOffset=0)]},
        ),
        ApiRequest("DELETE_SHARE_GROUP_OFFSETS", "one", by_topic),
    ]


def _settings(who: str, topic: str, group: str, **_: str) -> list[ApiRequest]:
    resources = {
        "a topic": (TOPIC, topic, "retention.ms", "100000"),
        "a broker": (BROKER, "1", "log.cleaner.threads", "1"),
        "all brokers": (BROKER, "", "log.cleaner.threads", "1"),
        "a logger": (LOGGERS, "1", "kafka.server.KafkaApis", "INFO"),
        "metrics": (METRICS, f"m-{who}", "interval.ms", "10000"),
        "a group": (GROUP, group, "consumer.session.timeout.ms", "50000"),
    }
    found = []
    for case, (kind, name, key, value) in resources.items():
        resource = {"resourceType": kind, "resourceName": name}
        config = {"name": key, "value": value, "configOperation": 0}
        altered = {"resources": [{**resource, "configs": [config]}], "validateOnly": True}
        described = {"resources": [{**resource, "configurationKeys": [key]}]}
        found.append(ApiRequest("DESCRIBE_CONFIGS", case, described))
        found.append(ApiRequest("INCREMENTAL_ALTER_CONFIGS", case, altered))
        if kind != LOGGERS:
            found.append(ApiRequest("ALTER_CONFIGS", case, altered))
    entity = [{"entityType": "user", "entityName": who}]
    quota = {"entity": entity, "ops": [{"key": "consumer_byte_rate", "value": 1.0}]}
    return [
        *found,
        ApiRequest("LIST_CONFIG_RESOURCES", "metrics", {"resourceTypes": [METRICS]}),
        ApiRequest("LIST_CONFIG_RESOURCES", "all", {"resourceTypes": []}),
        ApiRequest("DESCRIBE_CLIENT_QUOTAS", "all", {"components": []}),
        ApiRequest("ALTER_CLIENT_QUOTAS", "one", {"entries": [quota], "validateOnly": True}),
    ]


def _acls(who: str) -> list[ApiRequest]:
    about = {"principal": f"User:of-{who}", "host": "*", "operation": 3, "permissionType": 3}
    named = {"resourceType": 2, "resourceName": who, "resourcePatternType": 3}
    acl = {
        "resourceTypeFilter": 2,
        "resourceNameFilter": who,
        "patternTypeFilter": 3,
        "principalFilter": about["principal"],
        "hostFilter": None,
        "operation": 1,
        "permissionType": 1,
    }
    known = acl | {"resourceNameFilter": None, "principalFilter": f"User:{who}"}
    return [
        ApiRequest("CREATE_ACLS", "one", {"creations": [named | about]}),
        ApiRequest("DESCRIBE_ACLS", "its own", known),
        ApiRequest("DELETE_ACLS", "one", {"filters": [acl]}),
    ]


def _users(who: str) -> list[ApiRequest]:
    deletion = {"name": f"of-{who}", "mechanism": 1}
    hmac = base64.b64encode(b"nobody's").decode()
    return [
        ApiRequest("DESCRIBE_USER_SCRAM_CREDENTIALS", "one", {"users": [{"name": f"of-{who}"}]}),
        ApiRequest("ALTER_USER_SCRAM_CREDENTIALS", "a deletion", {"deletions": [deletion]}),
        ApiRequest("DESCRIBE_DELEGATION_TOKEN", "all", {"owners": None}),
        ApiRequest(
            "DESCRIBE_DELEGATION_TOKEN",
            "another's",
            {"owners": [{"principalType": "User", "principalName": "other"}]},
        ),
        ApiRequest("CREATE_DELEGATION_TOKEN", "own", {"renewers": [], "maxLifetimeMs": -1}),
        ApiRequest(
            "CREATE_DELEGATION_TOKEN",
            "another's",
            {"ownerPrincipalType": "User", "ownerPrincipalName": "other", "maxLifetimeMs": -1},
        ),
        ApiRequest("RENEW_DELEGATION_TOKEN", "nobody's", {"hmac": hmac, "renewPeriodMs": -1}),
        ApiRequest("EXPIRE_DELEGATION_TOKEN", "nobody's", {"hmac": hmac, "expiryTimePeriodMs": -1}),
    ]


def _cluster(who: str, version: int, topic: str, topic_id: str, **_: str) -> list[ApiRequest]:
    new = {"numPartitions": 1, "replicationFactor": 1}
    created = [{"name": f"n-{who}-{version}", **new}]
    moved = {"name": topic, "partitions": [{"partitionIndex": 0, "replicas": [1]}]}
    fields = {"includeClusterAuthorizedOperations": True, "includeTopicAuthorizedOperations": True}
    by_id = {"topics": [{"name": None, "topicId": topic_id}], "allowAutoTopicCreation": False}
    no_creation = {"allowAutoTopicCreation": False}
    directory = {"path": "/nowhere", "topics": [_numbers(topic)]}
    quorum = {"topicName": "__cluster_metadata", "partitions": [{"partitionIndex": 0}]}
    return [
        ApiRequest("METADATA", "one", {"topics": [{"name": topic}], **no_creation, **fields}),
        ApiRequest("METADATA", "absent", {"topics": [{"name": "absent"}], **no_creation}),
        ApiRequest("METADATA", "of an id", by_id),
        ApiRequest("DESCRIBE_TOPIC_PARTITIONS", "one", {"topics": [{"name": topic}]}),
        ApiRequest("DESCRIBE_CLUSTER", "all", fields | {"endpointType": 1}),
        ApiRequest("CREATE_TOPICS", "one", {"topics": created, "timeoutMs": 5000}),
        ApiRequest(
            "CREATE_PARTITIONS",
            "one more",
            {"topics": [{"name": topic, "count": 2}], "timeoutMs": 5000, "validateOnly": True},
        ),
        ApiRequest("DESCRIBE_LOG_DIRS", "one", {"topics": [_numbers(topic)]}),
        ApiRequest("ALTER_REPLICA_LOG_DIRS", "one", {"dirs": [directory]}),
        ApiRequest(
            "ELECT_LEADERS", "one", {"topicPartitions": [_numbers(topic)], "timeoutMs": 5000}
        ),
        ApiRequest("ALTER_PARTITION_REASSIGNMENTS", "one", {"topics": [moved], "timeoutMs": 5000}),
        ApiRequest("LIST_PARTITION_REASSIGNMENTS", "all", {"topics": None, "timeoutMs": 5000}),
        ApiRequest("DESCRIBE_QUORUM", "its topic", {"topics": [quorum]}),
        ApiRequest("UPDATE_FEATURES", "none", {"featureUpdates": [], "validateOnly": True}),
        ApiRequest("UNREGISTER_BROKER", "absent", {"brokerId": 9}),
        *_acls(who),
        *_users(who),
    ]


def _metrics(who: str) -> list[ApiRequest]:
    fields = {"clientInstanceId": derive_uuid(who)}
    return [
        ApiRequest("GET_TELEMETRY_SUBSCRIPTIONS", "its own", fields),
        ApiRequest("PUSH_TELEMETRY", "its own", fields),
    ]


def _deletions(topic: str, topic_id: str, group: str, **_: str) -> list[ApiRequest]:
    absent = f"absent-{topic}"
    named: Mapping[str, Any] = {"timeoutMs": 5000}
    return [
        ApiRequest("DELETE_GROUPS", "one", {"groupsNames": [group]}),
        ApiRequest(
            "DELETE_TOPICS",
            "absent",
            {"topicNames": [absent], "topics": [{"name": absent}], **named},
        ),
        ApiRequest(
            "DELETE_TOPICS",
            "by its id",
            {"topicNames": [absent], "topics": [{"name": None, "topicId": topic_id}], **named},
        ),
    ]
