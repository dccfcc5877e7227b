"""Administration: configurations, quotas, reassignments, elections, ACLs, tokens, features."""

from collections.abc import Callable, Sequence
from typing import Any

from tests.exam.author import Author, Ref, node, until, view
from tests.exam.script import Script

ADMIN = Author("admin", "Administration", source="ConfigurationControlManager")
TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


def alter(
    s: Script,
    kind: int,
    name: Any,
    changes: Sequence[tuple[str, int, str | None]],
    label: str = "",
    validate: bool = False,
    **more: Any,
) -> Ref:
    """Change configurations incrementally; changes as (name, operation, value)."""
    configs = [
        {"name": key, "configOperation": operation, "value": value}
        for key, operation, value in changes
    ]
    resource = {"resourceType": kind, "resourceName": name, "configs": configs}
    body = {"resources": [resource], "validateOnly": validate}
    return s.call("IncrementalAlterConfigs", 1, body, label, **more)


def described(
    s: Script,
    kind: int,
    name: Any,
    keys: Sequence[str] | None,
    label: str = "DescribeConfigs",
    version: int = 4,
    **more: Any,
) -> Ref:
    """Describe configurations."""
    call = {key: more.pop(key) for key in ("view", "until") if key in more}
    resource = {
        "resourceType": kind,
        "resourceName": name,
        "configurationKeys": None if keys is None else list(keys),
    }
    return s.call("DescribeConfigs", version, {"resources": [resource], **more}, label, **call)


def settled(s: Script, topic: Any, key: str, value: str) -> None:
    """Wait until a broker shows a configuration of a topic."""
    described(s, TOPIC, topic, [key], "", until=until("results.0.configs.0.value", value))


@ADMIN(kip="KIP-339")
def configs_set_and_delete(s: Script) -> None:
    """A configuration that is set is the topic's own; deleted, it is the default again."""
    t = s.topic()
    described(s, TOPIC, t, ["retention.ms"], "default")
    alter(s, TOPIC, t, [("retention.ms", SET, "120000")], "set")
    settled(s, t, "retention.ms", "120000")
    described(s, TOPIC, t, ["retention.ms"], "own")
    alter(s, TOPIC, t, [("retention.ms", DELETE, None)], "delete")
    settled(s, t, "retention.ms", "604800000")
    described(s, TOPIC, t, ["retention.ms"], "default again")


@ADMIN(kip="KIP-339")
def configs_append_and_subtract(s: Script) -> None:
    """A list is changed element by element."""
    t = s.topic()
    key = "cleanup.policy"
    alter(s, TOPIC, t, [(key, APPEND, "compact")], "append")
    settled(s, t, key, "delete,compact")
    alter(s, TOPIC, t, [(key, SUBTRACT, "delete")], "subtract")
    settled(s, t, key, "compact")
    described(s, TOPIC, t, [key], "in the end")


BAD_CHANGES: dict[str, tuple[str, list[tuple[str, int, str | None]]]] = {
    "unknown": ("An unknown configuration is refused.", [("no.such.config", SET, "1")]),
    "value": ("An invalid value is refused.", [("retention.ms", SET, "soon")]),
    "below": ("A value below the minimum is refused.", [("max.message.bytes", SET, "-5")]),
    "policy": ("An unknown cleanup policy is refused.", [("cleanup.policy", SET, "burn")]),
    "null": ("Setting null is refused.", [("retention.ms", SET, None)]),
    "append": ("Appending to a number is refused.", [("retention.ms", APPEND, "1")]),
    "twice": (
        "A configuration that a request changes twice is refused.",
        [("retention.ms", SET, "120000"), ("retention.ms", SET, "130000")],
    ),
    "operation": ("An unknown operation is refused.", [("retention.ms", 9, "120000")]),
    "min_isr": ("min.insync.replicas must be positive.", [("min.insync.replicas", SET, "0")]),
    "one_bad": (
        "One bad change keeps the other changes of its resource from being made.",
        [("retention.ms", SET, "120000"), ("segment.bytes", SET, "x")],
    ),
    "none": ("A request without changes succeeds.", []),
    "remote": (
        "remote.storage.enable needs tiered storage of the brokers.",
        [("remote.storage.enable", SET, "true")],
    ),
}


def _bad(changes: list[tuple[str, int, str | None]]) -> Callable[[Script], None]:
    def play(s: Script) -> None:
        t = s.topic()
        alter(s, TOPIC, t, changes, "alter")
        described(s, TOPIC, t, ["retention.ms", "cleanup.policy"], "unchanged")

    return play


for _name, (_rule, _changes) in BAD_CHANGES.items():
    ADMIN.case(f"configs_bad_{_name}", _rule, _bad(_changes), kip="KIP-339")


@ADMIN(kip="KIP-339")
def configs_validate_only(s: Script) -> None:
    """With validateOnly nothing is changed, but errors are found."""
    t = s.topic()
    alter(s, TOPIC, t, [("retention.ms", SET, "120000")], "valid", validate=True)
    alter(s, TOPIC, t, [("retention.ms", SET, "x")], "invalid", validate=True)
    described(s, TOPIC, t, ["retention.ms"], "unchanged")


@ADMIN(source="ControllerApis")
def configs_of_unknown_resources(s: Script) -> None:
    """Configurations of unknown topics, brokers and types are refused."""
    changes: list[tuple[str, int, str | None]] = [("retention.ms", SET, "120000")]
    alter(s, TOPIC, s.name("none"), changes, "unknown topic")
    alter(s, TOPIC, "bad name!", changes, "invalid name")
    alter(s, 77, s.name("x"), changes, "unknown type", validate=True)
    alter(s, BROKER, "no-number", changes, "broker that is no number", validate=True)


@ADMIN(source="ConfigHelper")
def configs_describe_errors(s: Script) -> None:
    """DescribeConfigs reports unknown topics, other brokers and unknown types."""
    described(s, TOPIC, s.name("none"), None, "unknown topic")
    described(s, TOPIC, "bad name!", None, "invalid name")
    described(s, BROKER, "98765", [], "other broker")
    described(s, BROKER, "x", [], "no number")
    described(s, 77, s.name("x"), [], "unknown type")


@ADMIN(source="ConfigHelper", kip="KIP-226")
def configs_describe_keys(s: Script) -> None:
    """DescribeConfigs returns the requested keys, and none that it does not know."""
    t = s.topic(configs={"segment.ms": "100000"})
    described(s, TOPIC, t, ["segment.ms", "no.such.config"], "known and unknown")
    described(s, TOPIC, t, [], "no keys", view=view(only=["errorCode"], without=["configs"]))


@ADMIN(source="ConfigHelper", kip="KIP-226")
def configs_synonyms(s: Script) -> None:
    """Synonyms show where a value comes from, the first one wins."""
    t = s.topic(configs={"segment.ms": "100000"})
    described(s, TOPIC, t, ["segment.ms"], "synonyms", includeSynonyms=True)


@ADMIN(source="ConfigHelper", kip="KIP-226")
def configs_describe_versions(s: Script) -> None:
    """DescribeConfigs v1 to v4 describe the source and, from v3 on, the type of a value."""
    t = s.topic(configs={"segment.ms": "100000"})
    for version in range(1, 5):
        described(s, TOPIC, t, ["segment.ms", "retention.ms"], f"v{version}", version)


@ADMIN(source="ConfigHelper")
def configs_topic_defaults(s: Script) -> None:
    """A new topic has the defaults of Kafka 4.3."""
    t = s.topic()
    keys = [
        "cleanup.policy",
        "compression.type",
        "delete.retention.ms",
        "file.delete.delay.ms",
        "max.compaction.lag.ms",
        "max.message.bytes",
        "message.timestamp.after.max.ms",
        "message.timestamp.before.max.ms",
        "message.timestamp.type",
        "min.cleanable.dirty.ratio",
        "min.compaction.lag.ms",
        "retention.bytes",
        "retention.ms",
        "segment.bytes",
        "segment.ms",
        "unclean.leader.election.enable",
    ]
    described(s, TOPIC, t, keys)


@ADMIN(source="ConfigurationControlManager", kip="KIP-133")
def configs_old_alter(s: Script) -> None:
    """AlterConfigs replaces all configurations of a topic."""
    t = s.topic(configs={"segment.ms": "100000"})

    def replaced(label: str, value: str) -> None:
        configs = [{"name": "retention.ms", "value": value}]
        resource = {"resourceType": TOPIC, "resourceName": t, "configs": configs}
        s.call("AlterConfigs", 2, {"resources": [resource], "validateOnly": False}, label)

    replaced("invalid", "x")
    replaced("valid", "120000")
    settled(s, t, "retention.ms", "120000")
    described(s, TOPIC, t, ["segment.ms", "retention.ms"], "segment.ms is the default")


@ADMIN(kip="KIP-848")
def configs_of_groups(s: Script) -> None:
    """Groups have configurations, even before they exist; values are checked with the broker's."""
    g = s.group()
    key = "consumer.session.timeout.ms"
    alter(s, GROUP, g, [(key, SET, "50000")], "set")
    known = until("results.0.configs.0.value", "50000")
    described(s, GROUP, g, [key], "own", until=known)
    alter(s, GROUP, g, [(key, SET, "10")], "too small")
    alter(s, GROUP, g, [("no.such.config", SET, "1")], "unknown")
    alter(s, GROUP, g, [(key, DELETE, None)], "delete")
    alter(s, GROUP, "", [(key, SET, "50000")], "empty group id", validate=True)


@ADMIN(kip="KIP-1142", source="KafkaApis")
def configs_list_resources(s: Script) -> None:
    """ListConfigResources lists groups with configurations, and refuses unknown types."""
    g = s.group()
    key = "consumer.session.timeout.ms"
    alter(s, GROUP, g, [(key, SET, "50000")])
    described(s, GROUP, g, [key], "", until=until("results.0.configs.0.value", "50000"))
    shown = view(own=["configResources"])
    s.call("ListConfigResources", 1, {"resourceTypes": [GROUP]}, "groups", view=shown)
    s.call("ListConfigResources", 1, {"resourceTypes": [99]}, "unknown type", view=shown)
    alter(s, GROUP, g, [(key, DELETE, None)])


@ADMIN(kip="KIP-412", source="KafkaApis")
def configs_of_loggers(s: Script) -> None:
    """The resource of loggers must be the number of a broker."""
    changes: list[tuple[str, int, str | None]] = [("kafka.no.such", SET, "LOUD")]
    alter(s, LOGGER, "no-number", changes, "no number", validate=True)


# Quotas


def quota(
    s: Script, entity: Sequence[tuple[str, Any]], ops: Sequence[dict[str, Any]], label: str
) -> None:
    """Alter quotas of an entity, given as (type, name)."""
    found = [{"entityType": kind, "entityName": name} for kind, name in entity]
    body = {"entries": [{"entity": found, "ops": list(ops)}], "validateOnly": False}
    s.call("AlterClientQuotas", 1, body, label)


def _op(key: str, value: float | None) -> dict[str, Any]:
    return {"key": key, "value": value or 0.0, "remove": value is None}


@ADMIN(kip="KIP-546", source="ClientQuotaControlManager")
def quotas_set_and_remove(s: Script) -> None:
    """A quota of a user is described until it is removed."""
    user = s.name("u")
    quota(s, [("user", user)], [_op("producer_byte_rate", 1000.0)], "set")
    match = [{"entityType": "user", "matchType": 0, "match": user}]
    body = {"components": match, "strict": True}
    there = until("entries.0.values.0.value", 1000.0)
    s.call("DescribeClientQuotas", 1, body, "described", until=there)
    quota(s, [("user", user)], [_op("producer_byte_rate", None)], "remove")
    gone = until("entries", [])
    s.call("DescribeClientQuotas", 1, body, "removed", until=gone)


BAD_QUOTAS: dict[str, tuple[str, list[tuple[str, Any]], list[dict[str, Any]]]] = {
    "key": ("An unknown quota is refused.", [("user", "x")], [_op("coffee_rate", 1.0)]),
    "negative": ("A quota must be positive.", [("user", "x")], [_op("request_percentage", -1.0)]),
    "fraction": (
        "A byte rate must be an integer.",
        [("user", "x")],
        [_op("producer_byte_rate", 1.5)],
    ),
    "type": (
        "An unknown entity type is refused.",
        [("robot", "x")],
        [_op("request_percentage", 1)],
    ),
    "no_entity": ("A quota needs an entity.", [], [_op("producer_byte_rate", 1.0)]),
    "empty_name": (
        "The name of an entity is not empty.",
        [("user", "")],
        [_op("request_percentage", 1)],
    ),
    "ip_and_user": (
        "An address and a user cannot be combined.",
        [("ip", "127.0.0.9"), ("user", "x")],
        [_op("connection_creation_rate", 1)],
    ),
    "ip": (
        "The entity type ip needs an address.",
        [("ip", "no address!")],
        [_op("connection_creation_rate", 1)],
    ),
}  # fmt: skip


def _bad_quota(
    entity: list[tuple[str, Any]], ops: list[dict[str, Any]]
) -> Callable[[Script], None]:
    def play(s: Script) -> None:
        named = [(kind, s.name(name) if name == "x" else name) for kind, name in entity]
        quota(s, named, ops, "alter")

    return play


for _name, (_rule, _entity, _ops) in BAD_QUOTAS.items():
    ADMIN.case(
        f"quotas_bad_{_name}",
        _rule,
        _bad_quota(_entity, _ops),
        kip="KIP-546",
        source="ClientQuotaControlManager",
    )


@ADMIN(kip="KIP-546", source="ClientQuotasImage")
def quotas_describe_errors(s: Script) -> None:
    """DescribeClientQuotas refuses unknown types, match types and types named twice."""

    def requested(label: str, *components: dict[str, Any]) -> None:
        s.call("DescribeClientQuotas", 1, {"components": list(components)}, label)

    requested("unknown type", {"entityType": "robot", "matchType": 0, "match": "x"})
    requested("unknown match type", {"entityType": "user", "matchType": 7, "match": "x"})
    twice = {"entityType": "user", "matchType": 0, "match": s.name("x")}
    requested("twice", twice, twice)
    requested("empty type", {"entityType": "", "matchType": 0, "match": "x"})


# Partitions


@ADMIN(kip="KIP-455", source="ReplicationControlManager")
def reassign_errors(s: Script) -> None:
    """AlterPartitionReassignments refuses unknown partitions and invalid replicas one by one."""
    t = s.topic()

    def moved(label: str, topic: Any, part: int, replicas: Any) -> None:
        partitions = [{"partitionIndex": part, "replicas": replicas}]
        body = {"timeoutMs": 10_000, "topics": [{"name": topic, "partitions": partitions}]}
        s.call("AlterPartitionReassignments", 0, body, label)

    moved("unknown topic", s.name("none"), 0, [node(1)])
    moved("unknown partition", t, 9, [node(1)])
    moved("unknown broker", t, 0, [98_765])
    moved("no replicas", t, 0, [])
    moved("twice a broker", t, 0, [node(1), node(1)])
    moved("cancel nothing", t, 0, None)
    moved("the same replicas", t, 0, [node(1)])


@ADMIN(kip="KIP-455", source="ReplicationControlManager")
def reassign_list(s: Script) -> None:
    """ListPartitionReassignments lists nothing for partitions that do not move."""
    t = s.topic()
    topics = [{"name": t, "partitionIndexes": [0, 9]}]
    s.call("ListPartitionReassignments", 0, {"timeoutMs": 10_000, "topics": topics}, "one topic")


@ADMIN(kip="KIP-460", source="ReplicationControlManager")
def elect_leaders(s: Script) -> None:
    """ElectLeaders is not needed where the preferred replica leads."""
    t = s.topic("a", 2)
    for label, kind in (("preferred", 0), ("unclean", 1), ("unknown type", 7)):
        topics = [{"topic": t, "partitions": [0, 1, 9]}]
        body = {"electionType": kind, "topicPartitions": topics, "timeoutMs": 10_000}
        s.call("ElectLeaders", 2, body, label)


@ADMIN(kip="KIP-113", source="ReplicaManager")
def alter_log_dirs(s: Script) -> None:
    """AlterReplicaLogDirs refuses directories that the broker does not have."""
    t = s.topic()
    topics = [{"name": t, "partitions": [0, 9]}]
    body = {"dirs": [{"path": "/no/such/directory", "topics": topics}]}
    s.call("AlterReplicaLogDirs", 2, body, "unknown directory")


# Access


@ADMIN(source="AclApis", settings={"authorizer.class.name": ""})
def acls_without_authorizer(s: Script) -> None:
    """Without an authorizer, the APIs of ACLs are disabled."""
    creation = {
        "resourceType": 2,
        "resourceName": s.name("a"),
        "resourcePatternType": 3,
        "principal": "User:x",
        "host": "*",
        "operation": 3,
        "permissionType": 3,
    }
    s.call("CreateAcls", 3, {"creations": [creation]}, "CreateAcls")
    wanted = {
        "resourceTypeFilter": 2,
        "resourceNameFilter": s.name("a"),
        "patternTypeFilter": 3,
        "principalFilter": None,
        "hostFilter": None,
        "operation": 1,
        "permissionType": 1,
    }
    s.call("DescribeAcls", 3, wanted, "DescribeAcls")
    s.call("DeleteAcls", 3, {"filters": [wanted]}, "DeleteAcls")


@ADMIN(kip="KIP-48", source="KafkaApis")
def tokens_on_plaintext(s: Script) -> None:
    """Delegation tokens are not given out on listeners without authentication."""
    s.call("CreateDelegationToken", 3, {"renewers": [], "maxLifetimeMs": -1}, "create")
    s.call("RenewDelegationToken", 2, {"hmac": b"x", "renewPeriodMs": -1}, "renew")
    s.call("ExpireDelegationToken", 2, {"hmac": b"x", "expiryTimePeriodMs": -1}, "expire")
    s.call("DescribeDelegationToken", 3, {"owners": None}, "describe")


@ADMIN(kip="KIP-554", source="ScramControlManager")
def scram_users(s: Script) -> None:
    """SCRAM credentials are created, described without secrets, and deleted."""
    user = s.name("u")
    created = {
        "name": user,
        "mechanism": 1,
        "iterations": 4096,
        "salt": b"salt",
        "saltedPassword": b"x" * 32,
    }
    api = "AlterUserScramCredentials"
    s.call(api, 0, {"deletions": [], "upsertions": [created]}, "create")
    body = {"users": [{"name": user}]}
    there = until("results.0.errorCode", 0)
    s.call("DescribeUserScramCredentials", 0, body, "described", until=there)
    deleted = {"name": user, "mechanism": 1}
    s.call(api, 0, {"deletions": [deleted], "upsertions": []}, "delete")
    gone = until("results.0.errorCode", 0, is_not=True)
    s.call("DescribeUserScramCredentials", 0, body, "deleted", until=gone)


@ADMIN(kip="KIP-554", source="ScramControlManager")
def scram_errors(s: Script) -> None:
    """Invalid SCRAM credentials and unknown users are refused one by one."""
    api = "AlterUserScramCredentials"
    good = {
        "name": s.name("u"),
        "mechanism": 1,
        "iterations": 4096,
        "salt": b"salt",
        "saltedPassword": b"x" * 32,
    }

    def created(label: str, **changed: Any) -> None:
        s.call(api, 0, {"deletions": [], "upsertions": [{**good, **changed}]}, label)

    created("too few iterations", iterations=100)
    created("too many iterations", iterations=20_000)
    created("unknown mechanism", mechanism=9)
    created("empty name", name="")
    deletion = {"name": s.name("nobody"), "mechanism": 1}
    s.call(api, 0, {"deletions": [deletion], "upsertions": []}, "delete an unknown user")
    s.call(api, 0, {"deletions": [deletion, deletion], "upsertions": []}, "twice")
    users = [{"name": s.name("nobody")}]
    s.call("DescribeUserScramCredentials", 0, {"users": users}, "describe an unknown user")


# The cluster


@ADMIN(kip="KIP-584", source="FeatureControlManager")
def features_errors(s: Script) -> None:
    """UpdateFeatures refuses unknown features and levels."""

    def updated(label: str, name: str, level: int, kind: int = 1) -> None:
        update = {"feature": name, "maxVersionLevel": level, "upgradeType": kind}
        body = {"timeoutMs": 10_000, "featureUpdates": [update], "validateOnly": True}
        s.call("UpdateFeatures", 2, body, label)

    updated("unknown feature", "coffee.version", 1)
    updated("level too high", "metadata.version", 9_999)
    updated("negative level", "metadata.version", -1)
    updated("unknown type", "metadata.version", 9_999, 9)
    body = {"timeoutMs": 10_000, "featureUpdates": [], "validateOnly": True}
    s.call("UpdateFeatures", 2, body, "no updates")


@ADMIN(kip="KIP-595", source="KafkaApis")
def quorum_errors(s: Script) -> None:
    """DescribeQuorum refuses other topics than the metadata log."""
    topics = [{"topicName": s.name("x"), "partitions": [{"partitionIndex": 0}]}]
    s.call("DescribeQuorum", 2, {"topics": topics}, "another topic")


@ADMIN(source="ClusterControlManager")
def unregister_unknown_broker(s: Script) -> None:
    """UnregisterBroker refuses a broker that is not registered."""
    s.call("UnregisterBroker", 0, {"brokerId": 98_765}, "unknown broker")


@ADMIN(source="KafkaApis")
def broker_only_apis(s: Script) -> None:
    """APIs of share coordinators report what is wrong with their keys."""
    s.call("FindCoordinator", 6, {"keyType": 2, "coordinatorKeys": ["no-key"]}, "bad share key")


DELETED: dict[str, tuple[str, list[Any]]] = {
    "none": ("DeleteGroups without groups succeeds.", []),
    "empty": ("DeleteGroups refuses the empty group id.", [""]),
}


def _deleted(groups: list[Any]) -> Callable[[Script], None]:
    def play(s: Script) -> None:
        s.delete_groups(*groups, label="delete")

    return play


for _name, (_rule, _groups) in DELETED.items():
    ADMIN.case(
        f"groups_delete_{_name}",
        _rule,
        _deleted(_groups),
        source="GroupCoordinatorService",
        is_single=True,
    )
