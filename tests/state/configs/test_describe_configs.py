"""DescribeConfigs and AlterConfigs compared with a real broker with the same topics and ACLs."""

from collections.abc import Iterator
from typing import Any

import pytest

from brokertwin.kafka_io.kafka_broker import DEFAULTS, EmbeddedKafka
from brokertwin.settings import default_home
from brokertwin.state.cell.cell import Cell
from brokertwin.state.configs.broker_config import parse
from tests.support.configs import (
    APPEND,
    BROKER,
    DELETE,
    LOGGER,
    SET,
    SUBTRACT,
    TOPIC,
    Both,
    Wanted,
    World,
    alter,
    assert_same,
    assert_soon_same,
    describe,
)
from tests.support.goldens import started, tape
from tests.support.machine import Bench, RefusedError, header
from tests.support.patience import wait_until

SETTINGS = {
    "allow.everyone.if.no.acl.found": "true",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "log.cleaner.min.cleanable.ratio": "0.50",
    "log.cleanup.policy": "compact , delete",
    "log.flush.scheduler.interval.ms": "7000",
    "log.initial.task.delay.ms": "1000",
    "log.message.timestamp.after.max.ms": "5000",
    "log.retention.hours": "24",
    "log.retention.minutes": "90",
    "log.roll.hours": "2",
    "log.roll.jitter.ms": "10",
    "log.roll.jitter.hours": "1",
    "message.max.bytes": "2000000",
    "min.insync.replicas": "2",
    "num.io.threads": "4",
    "super.users": "User:nobody",
    "unclean.leader.election.enable": "TRUE",
}
TOPICS: dict[str, dict[str, str]] = {
    "given": {
        "cleanup.policy": " compact , delete,compact",
        "leader.replication.throttled.replicas": "0:1,1:1",
        "min.cleanable.dirty.ratio": "0.50",
        "min.insync.replicas": "3",
        "preallocate": "TRUE",
        "retention.ms": "01000",
    },
    "plain": {},
    "altered": {"segment.ms": "60000"},
    "replaced": {"segment.ms": "60000", "retention.ms": "1000"},
    "hidden": {},
}
DESCRIBE_CONFIGS, ALTER_CONFIGS = 10, 11
DENIED = [(ALTER_CONFIGS, "hidden"), (DESCRIBE_CONFIGS, "hidden")]


def create_body(name: str, configs: dict[str, str]) -> dict[str, Any]:
    given = [{"name": key, "value": value} for key, value in configs.items()]
    topic = {"name": name, "numPartitions": 1, "replicationFactor": 1, "configs": given}
    return {"topics": [topic], "timeoutMs": 30000}


def deny(operation: int, topic: str) -> dict[str, Any]:
    return {
        "resourceType": TOPIC,
        "resourceName": topic,
        "resourcePatternType": 3,
        "principal": "User:ANONYMOUS",
        "host": "*",
        "operation": operation,
        "permissionType": 2,
    }


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A real broker and a cell, with the same settings, topics and ACLs."""
    broker = EmbeddedKafka(tmp_path_factory.mktemp("described"), default_home())
    bench = Bench()
    bench.settings.broker_settings, _ = parse({**DEFAULTS, **SETTINGS})
    bench.cell = Cell(bench.settings)
    with tape("configs/described", SETTINGS) as recording, started(broker, SETTINGS) as kafka:
        found = World(recording, kafka, bench)
        real, _ = both = found.both("topics")
        for name, configs in TOPICS.items():
            for one in both:
                response = one.request("CREATE_TOPICS", 7, create_body(name, configs))
                assert response["topics"][0]["errorCode"] == 0, response
        for one in both:
            one.request("CREATE_ACLS", 3, creations=[deny(*each) for each in DENIED])
        # the broker learns of a new topic, and then of its ACL, a moment later
        wait_until(lambda: describe(real, (TOPIC, "hidden"))[0]["errorCode"] == 29)
        yield found


@pytest.fixture
def both(world: World, request: pytest.FixtureRequest) -> Both:
    return world.both(request.node.name)


@pytest.mark.compares
@pytest.mark.parametrize("name", ["given", "plain"])
@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_topics_are_described_as_by_kafka(both: Both, name: str, version: int) -> None:
    (found,) = assert_same(both, (TOPIC, name), version=version, includeSynonyms=True)
    assert len(found["configs"]) == 33
    assert_same(both, (TOPIC, name), version=version)


@pytest.mark.compares
def test_brokers_and_the_cluster_are_described_as_by_kafka(both: Both) -> None:
    found = assert_same(both, (BROKER, "1"), (BROKER, ""), (BROKER, "+1"), includeSynonyms=True)
    assert len(found[0]["configs"]) > 300
    assert [config["name"] for config in found[1]["configs"]] == ["min.insync.replicas"]


def test_topic_settings_can_be_altered_and_are_not_secret() -> None:
    bench = Bench()
    bench.topic("a")
    (described,) = describe(bench, (TOPIC, "a"))
    kinds = {(each["readOnly"], each["isSensitive"]) for each in described["configs"]}
    assert kinds == {(False, False)}


def test_topic_settings_are_in_the_order_of_kafkas_hash_map() -> None:
    bench = Bench()
    bench.request("CREATE_TOPICS", 7, create_body("plain", {}))
    (found,) = describe(bench, (TOPIC, "plain"))
    names = [config["name"] for config in found["configs"]]
    assert names[:4] == [
        "compression.type",
        "remote.log.delete.on.disable",
        "leader.replication.throttled.replicas",
        "remote.storage.enable",
    ]
    assert names[-2:] == ["segment.ms", "segment.index.bytes"]
    of_one_bucket = ["segment.bytes", "retention.ms", "compression.gzip.level"]
    assert [name for name in names if name in of_one_bucket] == of_one_bucket
    (found,) = describe(bench, (TOPIC, "plain"), keys=["retention.ms", "flush.ms"])
    assert [config["name"] for config in found["configs"]] == ["flush.ms", "retention.ms"]


@pytest.mark.compares
def test_only_requested_settings_are_described(both: Both) -> None:
    (found,) = assert_same(both, (TOPIC, "plain"), keys=["retention.ms", "nope", "retention.ms"])
    assert [config["name"] for config in found["configs"]] == ["retention.ms"]
    (found,) = assert_same(both, (TOPIC, "plain"), keys=[])
    assert len(found["configs"]) == 33


@pytest.mark.compares
def test_errors_are_those_of_kafka(both: Both) -> None:
    resources = [
        (TOPIC, "nope"), (TOPIC, "bad name"), (TOPIC, ""), (TOPIC, "."), (TOPIC, "x" * 250),
        (TOPIC, "hidden"), (BROKER, "7"), (BROKER, "x"), (BROKER, "99999999999"), (TOPIC, "plain"),
        (TOPIC, "plain"),
    ]  # fmt: skip
    found = assert_same(both, *resources, keys=["retention.ms"])
    assert found[-1]["errorCode"] == 29, "hidden resources are last"
    assert {result["errorCode"] for result in found} == {0, 3, 17, 29, 42}


@pytest.mark.compares
def test_unknown_resource_type_fails_the_whole_request(both: Both) -> None:
    found = assert_same(both, (TOPIC, "plain"), (99, "x"), (LOGGER, "1"))
    assert [result["errorCode"] for result in found] == [42, 42, 42]


def test_client_without_permission_on_the_cluster_sees_no_broker() -> None:
    bench = Bench(
        authorizer_class_name=SETTINGS["authorizer.class.name"],
        super_users="User:admin",
    )
    (refused,) = describe(bench, (BROKER, "1"))
    assert (refused["errorCode"], refused["configs"]) == (31, [])
    assert refused["errorMessage"] == "Cluster authorization failed."


def test_broker_loggers_are_not_built() -> None:
    with pytest.raises(RefusedError, match="not built"):
        describe(Bench(), (LOGGER, "1"))


def test_secrets_are_never_shown() -> None:
    bench = Bench()
    settings = {"ssl.key.password": "geheim", "super.users": "User:verborgen"}
    bench.settings.broker_settings, _ = parse(settings)
    bench.cell = Cell(bench.settings)
    (found,) = describe(bench, (BROKER, "1"), includeSynonyms=True)
    assert "geheim" not in str(found)
    assert "verborgen" not in str(found)
    hidden = {config["name"] for config in found["configs"] if config["isSensitive"]}
    assert {"ssl.key.password", "super.users"} <= hidden


INCREMENTS: list[list[Wanted]] = [
    [(TOPIC, "altered", [("retention.ms", SET, "02000"), ("cleanup.policy", APPEND, "compact")])],
    [(TOPIC, "altered", [("retention.ms", SET, " 8000 "), ("nope", DELETE, None)])],
    [(TOPIC, "altered", [("cleanup.policy", APPEND, "compact")])],
    [(TOPIC, "altered", [("cleanup.policy", SUBTRACT, "delete"), ("segment.ms", DELETE, "x")])],
    [(TOPIC, "altered", [("cleanup.policy", SUBTRACT, "compact,nope")])],
    [(TOPIC, "altered", [("leader.replication.throttled.replicas", APPEND, "0:1")])],
    [(TOPIC, "altered", [("cleanup.policy", SET, "delete,delete"), ("retention.ms", 9, "5")])],
    [(TOPIC, "altered", [("cleanup.policy", SET, "delete,delete")])],
    [(TOPIC, "altered", [("retention.ms", APPEND, "5")])],
    [(TOPIC, "altered", [("nope", SUBTRACT, "5")])],
    [(TOPIC, "altered", [("nope", SET, "5"), ("segment.ms", SET, "70000")])],
    [(TOPIC, "altered", [("retention.ms", SET, None), ("segment.ms", APPEND, None)])],
    [(TOPIC, "altered", [("retention.ms", SET, "5"), ("retention.ms", DELETE, None)])],
    [(TOPIC, "altered", [("retention.ms", SET, "")])],
    [
        (
            TOPIC,
            "altered",
            [("min.compaction.lag.ms", SET, "9"), ("max.compaction.lag.ms", SET, "5")],
        )
    ],
    [(TOPIC, "altered", [("remote.storage.enable", SET, "true")])],
    [(TOPIC, "altered", [("min.insync.replicas", SET, "0")])],
    [(TOPIC, "altered", [])],
    [(TOPIC, "nope", [("nope", SET, "5")]), (TOPIC, "", [("retention.ms", SET, "5")])],
    [(TOPIC, "bad name", [("nope", SET, "5")]), (TOPIC, "worse name", [("nope", APPEND, "5")])],
    [
        (99, "a", []),
        (TOPIC, "hidden", [("retention.ms", SET, "5")]),
        (TOPIC, "nope", [("retention.ms", SET, "5")]),
        (TOPIC, "altered", [("retention.ms", SET, "9000")]),
        (TOPIC, "twice", []),
        (TOPIC, "twice", [("retention.ms", SET, "5")]),
    ],
    [(TOPIC, "hidden", [("retention.ms", SET, None)])],
    [],
]

REPLACEMENTS: list[list[Wanted]] = [
    [(TOPIC, "replaced", [("retention.ms", SET, "2000"), ("flush.ms", SET, "3000")])],
    [(TOPIC, "replaced", [("retention.ms", SET, "2001")])],
    [(TOPIC, "replaced", [("retention.ms", SET, None)])],
    [(TOPIC, "replaced", [("retention.ms", SET, "1"), ("retention.ms", SET, "2")])],
    [
        (TOPIC, "replaced", [("retention.ms", SET, "5")]),
        (TOPIC, "hidden", []),
        (TOPIC, "bad name", []),
        (TOPIC, "", []),
        (TOPIC, "nope", [("nope", SET, "1")]),
        (LOGGER, "1", []),
    ],
    [(TOPIC, "replaced", [])],
]


@pytest.mark.compares
def test_incremental_changes_are_those_of_kafka(both: Both) -> None:
    for number, wanted in enumerate(INCREMENTS):
        version = number % 2
        real, actual = (alter(one, "INCREMENTAL_ALTER_CONFIGS", version, wanted) for one in both)
        assert actual == real, wanted
        assert_soon_same(both, (TOPIC, "altered"))


@pytest.mark.compares
def test_replaced_settings_are_those_of_kafka(both: Both) -> None:
    for number, wanted in enumerate(REPLACEMENTS):
        real, actual = (alter(one, "ALTER_CONFIGS", number % 3, wanted) for one in both)
        assert actual == real, wanted
        assert_soon_same(both, (TOPIC, "replaced"))


def test_validate_only_changes_nothing() -> None:
    bench = Bench()
    bench.topic("a")
    before = describe(bench, (TOPIC, "a"))
    for api, version in [("INCREMENTAL_ALTER_CONFIGS", 1), ("ALTER_CONFIGS", 2)]:
        wanted = [(TOPIC, "a", [("retention.ms", SET, "7")])]
        response = alter(bench, api, version, wanted, validate_only=True)
        assert response["responses"][0]["errorCode"] == 0
        response = alter(bench, api, version, [(TOPIC, "a", [("retention.ms", SET, "x")])], True)
        assert response["responses"][0]["errorCode"] == 40
    assert describe(bench, (TOPIC, "a")) == before


def test_changed_setting_applies_at_once() -> None:
    bench = Bench()
    bench.topic("a")
    batch = header(size=100)
    assert bench.append("a", batch)["errorCode"] == 0
    small = [(TOPIC, "a", [("max.message.bytes", SET, "99")])]
    alter(bench, "INCREMENTAL_ALTER_CONFIGS", 1, small)
    assert bench.append("a", batch)["errorCode"] == 10
    bench.reload()
    alter(bench, "ALTER_CONFIGS", 2, [(TOPIC, "a", [])])
    assert bench.append("a", batch)["errorCode"] == 0


@pytest.mark.parametrize("version", [1, 3, 4])
def test_documentation_is_null(version: int) -> None:
    body = {"resources": [{"resourceType": BROKER, "resourceName": "1"}]}
    response = Bench().request("DESCRIBE_CONFIGS", version, body | {"includeDocumentation": True})
    configs = response["results"][0]["configs"]
    assert {each.get("documentation") for each in configs} == {None}
    assert ("documentation" in configs[0]) == (version >= 3)
