"""Metadata, topic ids, and the descriptions of topics and clusters."""

from collections.abc import Callable
from typing import Any

from tests.exam.author import Author, batch, node, repeat, until, uuid, view
from tests.exam.script import Script

METADATA = Author("metadata", "Metadata and topic ids", source="MetadataRequest")
NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"


@METADATA
def meta_topics(s: Script) -> None:
    """Metadata lists all topics for null, none for an empty list, and named ones."""
    s.topic("a", 2)
    u = s.topic("b")
    s.metadata(None, "all")
    s.metadata([], "none")
    s.metadata([{"name": u}], "one")
    s.metadata([{"name": u}, {"name": u}], "the same twice")


@METADATA
def meta_unknown(s: Script) -> None:
    """An unknown topic and an invalid name are errors of the topic."""
    shown = view(without=["brokers", "clusterId", "controllerId"])
    s.metadata([{"name": s.name("none")}], "unknown")
    for label, name in (("with a space", "bad name!"), ("empty", ""), ("two dots", "..")):
        s.metadata([{"name": name}], label, view=shown)


@METADATA
def meta_name_too_long(s: Script) -> None:
    """A name of 250 characters is invalid, one of 249 is not."""
    shown = view(only=["errorCode"], without=["brokers"])
    for size in (249, 250):
        s.metadata([{"name": repeat("n", size)}], f"{size} characters", view=shown)


@METADATA(settings={"auto.create.topics.enable": "true", "num.partitions": "1"}, is_single=True)
def meta_auto_create(s: Script) -> None:
    """Metadata creates a topic only if the request allows it."""
    n = s.name("auto")
    s.metadata([{"name": n}], "not allowed")
    body = {"topics": [{"name": n}], "allowAutoTopicCreation": True}
    s.call(
        "Metadata",
        12,
        body,
        "allowed, in the end",
        until=until("topics.0.errorCode", 0),
        view=view(own=["topics"], without=["brokers", "clusterId", "controllerId"]),
    )


@METADATA(source="KafkaApis")
def meta_no_creation_by_others(s: Script) -> None:
    """Produce, Fetch and ListOffsets do not create topics."""
    n = s.name("nothing")
    s.produce(n, batch(1), label="Produce")
    s.fetch([(n, [(0, 0)])], "Fetch")
    s.list_offsets(n, -1, label="ListOffsets")
    s.metadata([{"name": n}], "Metadata")


@METADATA(kip="KIP-516")
def meta_by_id(s: Script) -> None:
    """Metadata v12 finds topics by id; an unknown id is an error of its own."""
    t = s.topic("a", 2)
    s.metadata([{"name": None, "topicId": t.id}], "known id")
    shown = view(without=["brokers", "clusterId", "controllerId"])
    s.metadata([{"name": None, "topicId": uuid("other")}], "unknown id", view=shown)


@METADATA(kip="KIP-516")
def meta_name_and_id(s: Script) -> None:
    """A request that names a topic by id or that mixes ids and names is decided by its ids."""
    t = s.topic()
    s.metadata([{"name": t, "topicId": t.id}], "both")
    s.metadata([{"name": s.name("none"), "topicId": t.id}], "other name")


@METADATA(kip="KIP-516")
def meta_new_id(s: Script) -> None:
    """A topic that is created again has another id, and its log is empty."""
    t = s.topic()
    s.fill(t, 3)
    s.metadata([{"name": t}], "first")
    s.delete_topic(t)
    t = s.topic()
    s.list_offsets(t, -1, label="end")


@METADATA(kip="KIP-430")
def meta_authorized_operations(s: Script) -> None:
    """Authorized operations of topics are returned on request."""
    t = s.topic()
    body = {
        "topics": [{"name": t}],
        "allowAutoTopicCreation": False,
        "includeTopicAuthorizedOperations": True,
    }
    shown = view(own=["topics"], without=["brokers", "clusterId", "controllerId"])
    s.call("Metadata", 12, body, "v12", view=shown)


@METADATA
def meta_internal_topic(s: Script) -> None:
    """The offsets topic is internal."""
    s.group()
    shown = view(only=["name", "errorCode", "isInternal"], without=["brokers", "partitions"])
    s.metadata([{"name": "__consumer_offsets"}], "__consumer_offsets", view=shown)


VERSIONS = {
    0: "Metadata v0 lists all topics for an empty list.",
    1: "Metadata v1 has the controller and racks.",
    2: "Metadata v2 has the cluster id.",
    3: "Metadata v3 has a throttle time.",
    4: "Metadata v4 asks whether topics may be created.",
    5: "Metadata v5 lists offline replicas.",
    7: "Metadata v7 has leader epochs.",
    8: "Metadata v8 has authorized operations.",
    9: "Metadata v9 has tagged fields.",
    10: "Metadata v10 has topic ids, but cannot ask by id.",
    11: "Metadata v11 has no authorized operations of the cluster.",
    12: "Metadata v12 may ask by id.",
    13: "Metadata v13 has an error of the whole response.",
}


def _of_version(version: int) -> Callable[[Script], None]:
    def play(s: Script) -> None:
        t = s.topic("a", 2)
        s.metadata([{"name": t}], "known", version)
        s.metadata([{"name": s.name("none")}], "unknown", version)
        if version:
            s.metadata([], "no topics", version)

    return play


for _version, _rule in VERSIONS.items():
    METADATA.case(f"meta_v{_version}", _rule, _of_version(_version), source="MetadataResponse")


@METADATA(kip="KIP-966", source="DescribeTopicPartitionsRequestHandler")
def describe_partitions(s: Script) -> None:
    """DescribeTopicPartitions describes partitions and reports unknown topics."""
    t = s.topic("a", 3)
    topics = [{"name": t}, {"name": s.name("none")}]
    body = {"topics": topics, "responsePartitionLimit": 2000, "cursor": None}
    s.call("DescribeTopicPartitions", 0, body, "two topics")


@METADATA(kip="KIP-966", source="DescribeTopicPartitionsRequestHandler")
def describe_partitions_in_pages(s: Script) -> None:
    """DescribeTopicPartitions ends at its limit with a cursor, from which it goes on."""
    t, u = s.topic("a", 3), s.topic("b", 2)
    topics = [{"name": t}, {"name": u}]
    body = {"topics": topics, "responsePartitionLimit": 2, "cursor": None}
    s.call("DescribeTopicPartitions", 0, body, "first page")
    cursor = {"topicName": t, "partitionIndex": 2}
    s.call("DescribeTopicPartitions", 0, {**body, "cursor": cursor}, "second page")
    far = {"topicName": t, "partitionIndex": 9}
    s.call("DescribeTopicPartitions", 0, {**body, "cursor": far}, "behind the end")
    s.call("DescribeTopicPartitions", 0, {**body, "responsePartitionLimit": 0}, "limit 0")


@METADATA(kip="KIP-700", source="DescribeClusterResponse")
def describe_cluster(s: Script) -> None:
    """DescribeCluster lists the brokers."""
    s.call("DescribeCluster", 0, {}, "v0", view=_CLUSTER)
    s.call("DescribeCluster", 1, {"endpointType": 1}, "v1", view=_CLUSTER)


_CLUSTER = view(without=["brokers", "controllerId"])


@METADATA(kip="KIP-919", source="DescribeClusterRequest")
def describe_cluster_errors(s: Script) -> None:
    """DescribeCluster refuses an unknown endpoint type, and controllers on a broker's listener."""
    s.call("DescribeCluster", 1, {"endpointType": 7}, "type 7", view=_CLUSTER)
    s.call("DescribeCluster", 1, {"endpointType": 2}, "controllers", view=_CLUSTER)


@METADATA(kip="KIP-1073", source="DescribeClusterRequest")
def describe_cluster_fenced(s: Script) -> None:
    """DescribeCluster v2 may include fenced brokers."""
    body = {"endpointType": 1, "includeFencedBrokers": True}
    s.call("DescribeCluster", 2, body, "v2", view=_CLUSTER)


@METADATA(kip="KIP-113", source="DescribeLogDirsResponse")
def describe_log_dirs(s: Script) -> None:
    """DescribeLogDirs lists partitions with their sizes, and nothing for unknown ones."""
    t = s.topic("a", 2)
    s.fill(t)
    shown = view(own=["topics"], without=["totalBytes", "usableBytes", "isCordoned"])
    topics = [{"topic": t, "partitions": [0, 1, 7]}]
    s.call("DescribeLogDirs", 4, {"topics": topics}, "v4", view=shown)


@METADATA(source="ApiVersionsResponse", kip="KIP-35")
def api_versions(s: Script) -> None:
    """ApiVersions v0 to v4 list the APIs without an error."""
    shown = view(only=["errorCode"], without=["apiKeys", "supportedFeatures", "finalizedFeatures"])
    for version in range(5):
        body = {"clientSoftwareName": "exam", "clientSoftwareVersion": "1"}
        s.call("ApiVersions", version, body, f"v{version}", view=shown)


def create(
    s: Script, label: str, *topics: dict[str, Any], version: int = 7, validate: bool = False
) -> None:
    """Create topics; configurations are not compared."""
    body = {"topics": list(topics), "timeoutMs": 20_000, "validateOnly": validate}
    shown = view(without=["configs", "topicConfigErrorCode"])
    s.call("CreateTopics", version, body, label, view=shown)


def new(name: Any, partitions: int = 1, replicas: int = 1, **more: Any) -> dict[str, Any]:
    """Return a topic of a CreateTopics request."""
    return {
        "name": name,
        "numPartitions": partitions,
        "replicationFactor": replicas,
        "assignments": [],
        "configs": [],
        **more,
    }


def config(name: str, value: str | None) -> dict[str, Any]:
    """Return a configuration of a CreateTopics request."""
    return {"name": name, "value": value}


@METADATA(source="ReplicationControlManager")
def topics_exist(s: Script) -> None:
    """A topic that exists cannot be created; names that differ in dots collide."""
    t = s.topic("a.b")
    create(s, "exists", new(t))
    create(s, "collides", new(s.name("a_b")))


@METADATA(source="ReplicationControlManager")
def topics_invalid_names(s: Script) -> None:
    """CreateTopics refuses invalid names one by one."""
    create(s, "invalid", *(new(name) for name in ("", ".", "..", "bad/name", repeat("x", 250))))


@METADATA(source="ReplicationControlManager")
def topics_twice_in_a_request(s: Script) -> None:
    """A topic that a CreateTopics has twice is refused."""
    create(s, "twice", new(s.name("d")), new(s.name("d"), 2), new(s.name("e")))


@METADATA(
    source="ReplicationControlManager",
    settings={"num.partitions": "1", "default.replication.factor": "1"},
)
def topics_partitions(s: Script) -> None:
    """The number of partitions must be positive, or -1 for the default."""
    create(s, "0 and -2", new(s.name("p"), 0), new(s.name("q"), -2))
    create(s, "-1, -1", new(s.name("d"), -1, -1))


@METADATA(source="ReplicationControlManager", is_single=True)
def topics_replication_factor(s: Script) -> None:
    """The replication factor must be positive and not above the number of brokers."""
    for factor in (0, -2, 30_000):
        create(s, f"{factor}", new(s.name("r"), 1, factor))


@METADATA(source="ConfigurationControlManager")
def topics_bad_configs(s: Script) -> None:
    """CreateTopics refuses unknown configurations and invalid values."""
    n = s.name("c")
    create(s, "unknown", new(n, configs=[config("no.such.config", "1")]))
    create(s, "invalid value", new(n, configs=[config("retention.ms", "soon")]))
    create(s, "null value", new(n, configs=[config("retention.ms", None)]))
    s.metadata([{"name": n}], "nothing was created")


@METADATA(source="ReplicationControlManager")
def topics_assignments(s: Script) -> None:
    """A manual assignment must be complete, of known brokers, without numbers beside it."""
    n = s.name("m")

    def assigned(label: str, *parts: tuple[int, list[Any]], **more: Any) -> None:
        places = [{"partitionIndex": part, "brokerIds": ids} for part, ids in parts]
        create(s, label, {**new(n, -1, -1), "assignments": places, **more})

    assigned("numbers, too", (0, [node(1)]), numPartitions=1)
    assigned("partition 1 only", (1, [node(1)]))
    assigned("unknown broker", (0, [98_765]))
    assigned("no broker", (0, []))
    assigned("the same broker twice", (0, [node(1), node(1)]))
    assigned("valid", (0, [node(1)]), (1, [node(1)]))


@METADATA(source="ReplicationControlManager")
def topics_validate_only(s: Script) -> None:
    """CreateTopics with validateOnly creates nothing."""
    create(s, "validate only", new(s.name("v"), 3), validate=True)
    s.metadata([{"name": s.name("v")}], "not there")


CREATED = {
    2: "CreateTopics v2 responds with errors alone.",
    4: "CreateTopics v4 accepts -1 for defaults.",
    5: "CreateTopics v5 responds with the numbers and configurations of a topic.",
    6: "CreateTopics v6 may be throttled by a quota.",
    7: "CreateTopics v7 responds with topic ids.",
}


def _created(version: int) -> Callable[[Script], None]:
    def play(s: Script) -> None:
        create(s, "new", new(s.name("a"), 2), version=version)
        create(s, "again", new(s.name("a"), 2), version=version)

    return play


for _version, _rule in CREATED.items():
    METADATA.case(
        f"topics_create_v{_version}", _rule, _created(_version), source="CreateTopicsResponse"
    )


@METADATA(source="ReplicationControlManager")
def topics_delete(s: Script) -> None:
    """DeleteTopics deletes by name; a deleted topic is unknown to all APIs."""
    t = s.topic()
    topics = [{"name": t, "topicId": NO_ID}, {"name": s.name("none"), "topicId": NO_ID}]
    s.call("DeleteTopics", 6, {"topics": topics, "timeoutMs": 10_000}, "known and unknown")
    gone = {"topics": [{"name": t}], "allowAutoTopicCreation": False}
    s.call("Metadata", 12, gone, until=until("topics.0.errorCode", 3))
    s.produce(t, batch(1), label="Produce", retry=[6])
    s.metadata([{"name": t}], "Metadata")


@METADATA(source="ReplicationControlManager", kip="KIP-516")
def topics_delete_by_id(s: Script) -> None:
    """DeleteTopics v6 deletes by id; an unknown id is an error of its own."""
    t = s.topic()
    topics = [{"name": None, "topicId": t.id}, {"name": None, "topicId": uuid("other")}]
    s.call("DeleteTopics", 6, {"topics": topics, "timeoutMs": 10_000}, "known and unknown")


@METADATA(source="ControllerApis", kip="KIP-516")
def topics_delete_odd(s: Script) -> None:
    """DeleteTopics refuses topics with name and id, with neither, and topics named twice."""
    t, u = s.topic("a"), s.topic("b")
    delete = lambda label, *topics: s.call(  # noqa: E731
        "DeleteTopics", 6, {"topics": list(topics), "timeoutMs": 10_000}, label
    )
    delete("name and id", {"name": t, "topicId": t.id})
    delete("neither", {"name": None, "topicId": NO_ID})
    delete("twice", {"name": u, "topicId": NO_ID}, {"name": u, "topicId": NO_ID})
    s.metadata([{"name": t}, {"name": u}], "both are there")


@METADATA(source="ControllerApis")
def topics_delete_old_version(s: Script) -> None:
    """DeleteTopics v5 has names alone, and reports messages."""
    t = s.topic()
    body = {"topicNames": [t, s.name("none")], "timeoutMs": 10_000}
    s.call("DeleteTopics", 5, body, "v5")


@METADATA(source="ReplicationControlManager", kip="KIP-195", is_single=True)
def partitions_create(s: Script) -> None:
    """CreatePartitions only adds partitions."""
    t = s.topic("a", 2)

    def more(label: str, count: int, topic: Any = t, **fields: Any) -> None:
        topics = [{"name": topic, "count": count, "assignments": None}]
        body = {"topics": topics, "timeoutMs": 10_000, "validateOnly": False, **fields}
        s.call("CreatePartitions", 3, body, label)

    more("the same number", 2)
    more("fewer", 1)
    more("unknown topic", 5, s.name("none"))
    more("validate only", 4, validateOnly=True)
    more("3", 3)
    three = until("topics.0.partitions.2.leaderId", -1, is_not=True)
    body = {"topics": [{"name": t}], "allowAutoTopicCreation": False}
    s.call("Metadata", 12, body, until=three)
    s.produce(t, batch(1), 2, "Produce to the new one", retry=[3, 6])
    s.produce(t, batch(1), 3, "Produce behind it")


@METADATA(source="ReplicationControlManager", kip="KIP-195")
def partitions_create_assigned(s: Script) -> None:
    """The assignments of CreatePartitions must be of the new partitions and of known brokers."""
    t = s.topic("a", 1)

    def more(label: str, *brokers: list[Any]) -> None:
        assignments = [{"brokerIds": ids} for ids in brokers]
        topics = [{"name": t, "count": 3, "assignments": assignments}]
        body = {"topics": topics, "timeoutMs": 10_000, "validateOnly": True}
        s.call("CreatePartitions", 3, body, label)

    more("one for two partitions", [node(1)])
    more("unknown broker", [98_765], [node(1)])
    more("valid", [node(1)], [node(1)])
