"""Calls of every admin client method at an empty cluster, valid and invalid.

`NOT_CALLED` are the omitted methods with the reason.
"""

from typing import Any

import confluent_kafka as confluent
import kafka
from confluent_kafka import admin as confluents
from kafka import admin as pythons
from kafka.structs import OffsetAndMetadata

from brokertwin.gateway.edge_fields import Address
from brokertwin.protocol.errors import Error
from tests.support.admin_sides import Act, Call, call
from tests.support.batches import batch
from tests.support.gateways import Client, client_at
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.tool_steps import Clients

RECORDS = 5
GROUPS = ("g", "c")


def with_records(topic: str) -> Act:
    def write(bootstrap: str) -> None:
        with client_at(bootstrap) as client:
            for _ in range(RECORDS):
                wait_until(lambda: not client.produce(topic, batch(b"x"))["errorCode"], "written")

    return write


def wait_for_coordinator(bootstrap: str) -> None:
    """Wait until the coordinators of groups exist and have loaded their partitions."""

    def is_there(group: str) -> bool:
        with client_at(bootstrap) as client:
            response = client.call("FIND_COORDINATOR", 2, key=group, keyType=0)
        if response["errorCode"]:
            return False
        with Client(Address(response["host"], response["port"])) as client:
            beat = client.call("HEARTBEAT", 3, groupId=group, generationId=1, memberId="nobody")
        return bool(beat["errorCode"] == Error.UNKNOWN_MEMBER_ID)

    for each in GROUPS:
        wait_until(lambda group=each: is_there(group), "a coordinator")


def with_records_in_three(bootstrap: str) -> None:
    """Somebody has written two records to each of the first partitions of a topic."""
    producer = confluent.Producer({"bootstrap.servers": bootstrap})
    for number in range(6):
        producer.produce(THREE, b"x", partition=number % 3)
    assert producer.flush(PATIENCE_S) == 0


OPEN: dict[str, Clients] = {}
"""The clients whose transaction is open, by whom they have asked."""


def begin_transaction(bootstrap: str) -> None:
    """One of `paying` is open, with a record in notes-0."""
    OPEN[bootstrap] = Clients(bootstrap)
    OPEN[bootstrap].begin_transaction()


def commit_transaction(bootstrap: str) -> None:
    OPEN.pop(bootstrap).commit_transaction()


PY = "python"
P0, P1, ABSENT = (kafka.TopicPartition(*of) for of in ((PY, 0), (PY, 1), ("absent", 0)))
NOTES = kafka.TopicPartition("notes", 0)


def _settings(name: str, configs: Any) -> list[Any]:
    return [pythons.ConfigResource(pythons.ConfigResourceType.TOPIC, name, configs)]


def _acl(kind: type, pattern: type, operation: Any, name: str | None = PY) -> Any:
    where = pattern(pythons.ResourceType.TOPIC, name, pythons.ACLResourcePatternType.LITERAL)
    return kind("User:alice", "*", operation, pythons.ACLPermissionType.ALLOW, where)


READ = _acl(pythons.ACL, pythons.ResourcePattern, pythons.ACLOperation.READ)
WRITE = _acl(pythons.ACL, pythons.ResourcePattern, pythons.ACLOperation.WRITE)
ANY = _acl(pythons.ACLFilter, pythons.ResourcePatternFilter, pythons.ACLOperation.ANY)
NONE = _acl(pythons.ACLFilter, pythons.ResourcePatternFilter, pythons.ACLOperation.ANY, "other")

OF_KAFKA_PYTHON: list[Call | Act] = [
    call("api_versions", "all"),
    call("get_broker_version_data", "the broker", 1),
    call("describe_cluster", "all"),
    call("describe_features", "all"),
    call("describe_metadata_quorum", "all"),
    call(
        "create_topics",
        "settings",
        {PY: {"num_partitions": 3, "replication_factor": 1, "configs": {"retention.ms": "100000"}}},
    ),
    call("create_topics", "is there", {PY: {}}),
    call("create_topics", "is there, told", {PY: {}, "bad name": {}}, raise_errors=False),
    call("create_topics", "checked", {"checked": {"num_partitions": 2}}, validate_only=True),
    call("create_topics", "replicas", {"wide": {"num_partitions": 1, "replication_factor": 7}}),
    call("create_topics", "for a transaction", {"notes": {"num_partitions": 1}}),
    call("wait_for_topics", "are there", [PY, "notes"]),
    call("create_partitions", "more", {PY: 4}),
    call("create_partitions", "fewer", {PY: 2}),
    call("create_partitions", "absent", {"absent": 2}),
    call("list_topics", "all"),
    call("describe_topics", "one, and one that is absent", [PY, "absent"]),
    call("describe_topic_partitions", "in part", [PY, "absent"], response_partition_limit=2),
    with_records(PY),
    call("list_partition_offsets", "end", {P0: pythons.OffsetSpec.LATEST}),
    call("list_partition_offsets", "latest time", {P0: pythons.OffsetSpec.MAX_TIMESTAMP}),
    call("list_partition_offsets", "empty", {P1: pythons.OffsetSpec.EARLIEST}),
    call("list_partition_offsets", "absent", {ABSENT: 0}, timeout_ms=500),
    call("delete_records", "some", {P0: 2}),
    call("delete_records", "beyond", {P0: 99}),
    call("alter_configs", "set", _settings(PY, {"segment.bytes": ("SET", "1048576")})),
    call("alter_configs", "append", _settings(PY, {"cleanup.policy": ("APPEND", "compact")})),
    call("alter_configs", "unknown", _settings(PY, {"no.such": "1"})),
    call("alter_configs", "not a number", _settings(PY, {"retention.ms": "x"})),
    call("alter_configs", "absent", _settings("absent", {"retention.ms": "1"})),
    call("describe_configs", "altered", _settings(PY, None)),
    call("describe_configs", "every", _settings(PY, None), True, config_filter="all"),
    call("reset_configs", "one", _settings(PY, ["segment.bytes"])),
    call("describe_configs", "after a reset", _settings(PY, None)),
    call("list_config_resources", "all"),
    call("list_config_resources", "topics", ["TOPIC"]),
    wait_for_coordinator,
    call("alter_group_offsets", "a new group", "g", {P0: OffsetAndMetadata(3, "m", -1)}),
    call("alter_group_offsets", "absent", "g", {ABSENT: OffsetAndMetadata(3, "m", -1)}),
    call("list_groups", "all"),
    call("list_groups", "in a state", states_filter=["Stable"]),
    call("describe_groups", "one", ["g"]),
    call("describe_groups", "absent", ["absent"]),
    call("list_group_offsets", "all of it", "g"),
    call("list_group_offsets", "some", {"g": [P0, P1]}),
    call("reset_group_offsets", "begin", "g", {P0: pythons.OffsetSpec.EARLIEST, P1: 7}),
    call("delete_group_offsets", "one", "g", [P0]),
    call("delete_group_offsets", "of no group", "absent", [P0]),
    call("remove_group_members", "not in it", "g", [pythons.MemberToRemove(member_id="x")]),
    call("delete_groups", "one, and one that is absent", ["g", "absent"]),
    call("elect_leaders", "preferred", 0, {PY: [0]}, raise_errors=False),
    call("elect_leaders", "unclean, absent", 1, {"absent": [0]}),
    call("alter_partition_reassignments", "as it is", {P0: [1]}),
    call("alter_partition_reassignments", "nowhere", {P0: [9]}),
    call("alter_partition_reassignments", "none to end", {P0: None, ABSENT: None}),
    call("list_partition_reassignments", "all"),
    call("alter_replica_log_dirs", "no such place", {(PY, 0, 1): "/nowhere"}),
    call("describe_log_dirs", "all"),
    call("create_acls", "two", [READ, WRITE]),
    call("describe_acls", "of all", ANY),
    call("describe_acls", "of none", NONE),
    call("delete_acls", "all", [ANY, NONE]),
    call("update_features", "as it is", {"group.version": 1}),
    call("update_features", "absent", {"absent": 1}),
    begin_transaction,
    call("list_transactions", "all"),
    call("list_transactions", "ongoing", state_filters=["Ongoing"]),
    call("list_transactions", "none by name", transactional_id_pattern="other.*"),
    call("describe_transactions", "one", ["paying"]),
    call("describe_transactions", "absent", ["absent"]),
    call("describe_producers", "one", [NOTES]),
    call("describe_producers", "absent", [ABSENT]),
    call("find_hanging_transactions", "none"),
    commit_transaction,
    call("describe_transactions", "over", ["paying"]),
    call("abort_transaction", "none", pythons.AbortTransactionSpec(NOTES, 77, 0)),
    call("describe_user_scram_credentials", "absent", ["nobody"]),
    call("delete_topics", "two", [PY, "notes"]),
    call("delete_topics", "absent", ["absent"]),
    call("list_topics", "none are left"),
]

CO = "confluent"
C0, CX = confluent.TopicPartition(CO, 0), confluent.TopicPartition("absent", 0)
NEW = confluents.NewTopic


def _place(offset: int, topic: str = CO) -> confluent.TopicPartition:
    return confluent.TopicPartition(topic, 0, offset)


def _of_group(group: str, *places: confluent.TopicPartition) -> list[Any]:
    return [confluent.ConsumerGroupTopicPartitions(group, list(places) or None)]


def _entries(name: str, *entries: tuple[str, str | None, str]) -> list[Any]:
    configs = [
        confluents.ConfigEntry(
            key, value, incremental_operation=confluents.AlterConfigOpType[operation]
        )
        for key, value, operation in entries
    ]
    return [confluents.ConfigResource("topic", name, incremental_configs=configs)]


def _binding(kind: type, principal: str, operation: str) -> Any:
    return kind(
        confluents.ResourceType.TOPIC,
        CO,
        confluents.ResourcePatternType.LITERAL,
        principal,
        "*",
        confluents.AclOperation[operation],
        confluents.AclPermissionType.ALLOW,
    )


BINDINGS = [_binding(confluents.AclBinding, "User:bob", each) for each in ("READ", "DESCRIBE")]
FILTER = _binding(confluents.AclBindingFilter, "User:bob", "ANY")
NO_FILTER = _binding(confluents.AclBindingFilter, "User:eve", "ANY")
OFFSETS = confluents.OffsetSpec

OF_CONFLUENT: list[Call | Act] = [
    call("cluster_id", "all"),
    call("describe_cluster", "rights", include_authorized_operations=True),
    call("create_topics", "two", [NEW(CO, 3, 1, config={"retention.ms": "100000"})]),
    call("create_topics", "is there", [NEW(CO, 1, 1)]),
    call("create_topics", "checked", [NEW("checked", 1, 1)], validate_only=True),
    call("create_topics", "replicas", [NEW("wide", 1, 7)]),
    call("create_topics", "assigned", [NEW("assigned", 1, replica_assignment=[[9]])]),
    call("create_partitions", "more", [confluents.NewPartitions(CO, 4)]),
    call("create_partitions", "fewer", [confluents.NewPartitions(CO, 2)]),
    call("list_topics", "one", CO),
    call("describe_topics", "absent, too", confluent.TopicCollection([CO, "absent"])),
    with_records(CO),
    call("list_offsets", "end", {C0: OFFSETS.latest()}),
    call("list_offsets", "begin", {C0: OFFSETS.earliest()}),
    call("list_offsets", "latest time", {C0: OFFSETS.max_timestamp()}),
    call("list_offsets", "by time", {C0: OFFSETS.for_timestamp(1)}),
    call("delete_records", "some", [_place(2)]),
    call("delete_records", "beyond", [_place(99)]),
    call("describe_configs", "a topic", [confluents.ConfigResource("topic", CO)]),
    call("describe_configs", "absent", [confluents.ConfigResource("topic", "absent")]),
    call("describe_configs", "a broker", [confluents.ConfigResource("broker", "1")]),
    call("incremental_alter_configs", "set", _entries(CO, ("segment.bytes", "1048576", "SET"))),
    call("incremental_alter_configs", "bad", _entries(CO, ("retention.ms", "x", "SET"))),
    call("incremental_alter_configs", "absent", _entries("absent", ("retention.ms", "1", "SET"))),
    call("incremental_alter_configs", "gone", _entries(CO, ("retention.ms", None, "DELETE"))),
    call(
        "alter_configs",
        "all at once",
        [confluents.ConfigResource("topic", CO, set_config={"max.message.bytes": "2000"})],
    ),
    call("describe_configs", "as altered", [confluents.ConfigResource("topic", CO)]),
    wait_for_coordinator,
    call("alter_consumer_group_offsets", "a new group", _of_group("c", _place(3))),
    call("alter_consumer_group_offsets", "absent", _of_group("c", _place(3, "absent"))),
    call("list_consumer_groups", "all"),
    call("list_consumer_groups", "stable", states={confluent.ConsumerGroupState.STABLE}),
    call("list_groups", "one", "c", timeout=30),
    call("describe_consumer_groups", "one", ["c"], include_authorized_operations=True),
    call("describe_consumer_groups", "absent", ["absent"]),
    call("list_consumer_group_offsets", "all of it", _of_group("c")),
    call("list_consumer_group_offsets", "one", _of_group("c", C0)),
    call("list_consumer_group_offsets", "absent", _of_group("absent")),
    call("delete_consumer_groups", "one", ["c"]),
    call("delete_consumer_groups", "absent", ["absent"]),
    call("elect_leaders", "preferred", confluent.ElectionType.PREFERRED, [C0]),
    call("elect_leaders", "unclean, absent", confluent.ElectionType.UNCLEAN, [CX]),
    call("create_acls", "two", BINDINGS),
    call("describe_acls", "of one", FILTER),
    call("describe_acls", "of none", NO_FILTER),
    call("delete_acls", "all", [FILTER, NO_FILTER]),
    call("describe_user_scram_credentials", "absent", ["nobody"]),
    call("delete_topics", "one", [CO]),
    call("delete_topics", "absent", ["absent"]),
]

THREE = "three"
T0, T1, T2, T3 = (kafka.TopicPartition(THREE, number) for number in range(4))


def _of_broker(name: str, configs: Any) -> list[Any]:
    return [pythons.ConfigResource(pythons.ConfigResourceType.BROKER, name, configs)]


ON_THREE_BROKERS: list[Call | Act] = [
    call("describe_cluster", "all"),
    call("describe_features", "all"),
    call("describe_metadata_quorum", "all"),
    call(
        "create_topics",
        "places",
        {THREE: {"assignments": {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]}}},
    ),
    call("create_topics", "twice at one", {"wide": {"assignments": {0: [1, 1]}}}),
    call("create_topics", "too wide", {"wide": {"num_partitions": 1, "replication_factor": 4}}),
    call("create_partitions", "a place", {THREE: {"count": 4, "assignments": [[2, 1, 3]]}}),
    call("create_partitions", "nowhere", {THREE: {"count": 5, "assignments": [[2, 7]]}}),
    call("describe_topics", "one", [THREE]),
    call("describe_topic_partitions", "one", [THREE]),
    with_records_in_three,
    call(
        "list_partition_offsets",
        "ends",
        dict.fromkeys((T0, T1, T2, T3), pythons.OffsetSpec.LATEST),
    ),
    call("delete_records", "some", {T0: 1, T1: 2}),
    call("list_partition_offsets", "begins", dict.fromkeys((T0, T1), pythons.OffsetSpec.EARLIEST)),
    call("alter_configs", "of one", _of_broker("2", {"log.retention.ms": "100000"})),
    call("describe_configs", "of one", _of_broker("2", None)),
    call(
        "describe_configs",
        "of another",
        _of_broker("3", ["log.retention.ms", "node.id"]),
        config_filter="all",
    ),
    call("reset_configs", "of one", _of_broker("2", ["log.retention.ms"])),
    call("list_config_resources", "all"),
    wait_for_coordinator,
    call(
        "alter_group_offsets",
        "a new group",
        "g",
        {each: OffsetAndMetadata(1, "", -1) for each in (T0, T1, T2)},
    ),
    call("list_groups", "all"),
    call("describe_groups", "one", ["g"]),
    call("list_group_offsets", "all of it", "g"),
    call("delete_groups", "one", ["g"]),
    call("alter_partition_reassignments", "moved, and nowhere", {T0: [3, 2], T1: [1, 9]}),
    call("list_partition_reassignments", "over"),
    call("describe_topics", "moved", [THREE]),
    call("elect_leaders", "preferred", 0, {THREE: [1, 2]}, raise_errors=False),
    call("describe_log_dirs", "all", [THREE]),
    call(
        "alter_replica_log_dirs", "nowhere", {(THREE, 1, 2): "/nowhere", (THREE, 1, 3): "/nowhere"}
    ),
    call("describe_producers", "of the leader", [T1]),
    call("describe_producers", "of a follower", [T1], broker_id=3),
    call("list_transactions", "none by name", transactional_id_pattern="other.*"),
    call("find_hanging_transactions", "none"),
    call("delete_topics", "one", [THREE]),
    call("list_topics", "it has gone"),
]

SCRAM = "compared in tests/gateway/security/test_scram_users.py"
VOTERS = "a gateway has one controller, which votes for itself"
NOT_CALLED = {
    "alter_user_scram_credentials": SCRAM,
    "close": "asks nothing",
    "poll": "asks nothing",
    "set_sasl_credentials": "asks nothing",
}
NOT_CALLED_OF_JAVA = {
    "addRaftVoter": VOTERS,
    "removeRaftVoter": VOTERS,
    "alterUserScramCredentials": SCRAM,
    "clientInstanceId": "waits for 30 seconds, and has none of a real broker, either",
    "close": "asks nothing",
    "metrics": "asks nothing",
    "registerMetricForSubscription": "asks nothing",
    "unregisterMetricFromSubscription": "asks nothing",
}
