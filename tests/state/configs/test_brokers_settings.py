"""Dynamic broker settings: validation, description and effect, compared with Kafka."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from brokertwin.kafka_io.kafka_broker import EmbeddedKafka
from brokertwin.protocol.errors import Error
from brokertwin.settings import default_home
from brokertwin.state.access.authorizer import CLASS_NAME
from brokertwin.state.cell.cell import Cell
from brokertwin.state.cluster import broker_configs, given_configs
from brokertwin.state.configs.broker_config import parse
from brokertwin.state.core.decision import CONTROLLER
from brokertwin.state.core.settings import UNLIMITED
from tests.support.configs import (
    APPEND,
    BROKER,
    DELETE,
    SET,
    SUBTRACT,
    TOPIC,
    Both,
    Change,
    Recorded,
    Wanted,
    World,
    alter,
    assert_soon_same,
    describe,
    written_properties,
)
from tests.support.goldens import started, tape
from tests.support.listening_kafkas import PROTOCOLS, ListeningKafka
from tests.support.machine import Bench, header
from tests.support.replicas import Replicas

RATE = "leader.replication.throttled.rate"
SETTINGS = {"log.retention.hours": "24", "message.max.bytes": "2000000", "num.io.threads": "4"}
VALUES = {
    "background.threads": ("5", "21"),
    "brokertwin.nope": ("1",),
    "compression.type": ("zip", "gzip"),
    "config.providers": ("file",),
    "cordoned.log.dirs": ("/nowhere", "/a,/b", "*", ""),
    "group.consumer.assignment.interval.ms": ("-5", "5"),
    "group.coordinator.cached.buffer.max.bytes": ("1",),
    "internal.metadata.delete.delay.millis": ("1",),
    "listener.name.client.max.connection.creation.rate": ("-1", "0", "5"),
    "listener.name.client.max.connections": ("-1", "0", "x", "5"),
    "listener.name.client.num.network.threads": ("0", "1", "6", "7"),
    "listener.name.client.ssl.keystore.type": ("PKCS12",),
    "listener.name.client.ssl.key.password": ("secret",),
    "listener.security.protocol.map": (
        *("x", "CLIENT:FOO", "CLIENT:PLAINTEXT", "CLIENT:SSL,CONTROLLER:PLAINTEXT"),
        "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    ),
    "listeners": (
        *("", "x", "CLIENT://localhost:1", "CLIENT://localhost:1,CONTROLLER://localhost:2"),
    ),
    "log.cleaner.dedupe.buffer.size": ("100",),
    "log.cleaner.threads": ("0", "2", "5", "-1"),
    "log.cleanup.policy": ("compact,delete", "foo", ""),
    "log.local.retention.bytes": ("-1", "5"),
    "log.local.retention.ms": ("-1", "86400000", "86400001"),
    "log.message.timestamp.type": ("Foo", "LogAppendTime"),
    "log.retention.hours": ("1",),
    "log.retention.ms": ("0", "-1", "-2", "77"),
    "log.roll.hours": ("5",),
    "log.roll.ms": ("0", "1"),
    "log.roll.jitter.ms": ("-1", "1"),
    "log.segment.bytes": ("5", "1048576"),
    "max.connection.creation.rate": ("-1", "0", "5"),
    "max.connections": ("-5", "0", "77"),
    "max.connections.per.ip": ("-1", "0", "5"),
    "max.connections.per.ip.overrides": (
        *("127.0.0.1:5", "nowhere.invalid:5", "127.0.0.1:-4", " 127.0.0.1 : 7,::1:5,,", ":5", ""),
        *("127.0.0.1", "127.0.0.1:x", "127.0.0.1:99999999999", "a b:5", "[::1]:5"),
        *(f"127.0.0.1:{count}" for count in (2**31 - 1, 2**31, -(2**31), -(2**31) - 1)),
    ),
    "metric.reporters": ("no.such.Class", "org.apache.kafka.common.metrics.JmxReporter", ""),
    "message.max.bytes": ("x", "-1", "", " 5 "),
    "min.insync.replicas": ("0", "2"),
    "nope": ("1",),
    "num.io.threads": ("0", "1", "2", "8", "9"),
    "num.network.threads": ("0", "1", "6", "7"),
    "num.partitions": ("3",),
    "num.replica.fetchers": ("2", "3"),
    "principal.builder.class": (
        *("no.such.Class", "java.lang.String"),
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
    ),
    "producer.id.expiration.ms": ("0", "5"),
    "replica.alter.log.dirs.io.max.bytes.per.second": ("-1", "1"),
    "sasl.jaas.config": ("x",),
    "ssl.engine.factory.class": ("no.such.Class",),
    "ssl.keystore.type": ("JKS",),
    "super.users": ("User:x",),
    "transaction.partition.verification.enable": ("false",),
    "unclean.leader.election.enable": ("maybe", "TRUE"),
    RATE: ("x", "-1", "0", "9223372036854775807", "9223372036854775808"),
}
TOGETHER = [
    {"log.retention.bytes": "0", "log.local.retention.bytes": "1"},
    {"log.retention.bytes": "1", "log.local.retention.bytes": "1"},
    {"log.retention.bytes": "-1", "log.local.retention.bytes": "1"},
    {"log.retention.bytes": "5", "log.local.retention.bytes": "-2"},
    {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "127.0.0.1:5"},
    {"max.connections.per.ip": "1", "max.connections.per.ip.overrides": "127.0.0.1:5"},
    {"log.cleaner.threads": "2", "log.cleaner.dedupe.buffer.size": "2097152"},
    {"log.cleaner.threads": "2", "log.cleaner.dedupe.buffer.size": "2097154"},
    {"log.cleaner.threads": "1", "log.cleaner.dedupe.buffer.size": "1048577"},
    {"log.roll.ms": "1", "log.roll.jitter.ms": "0"},
]
"""Values that Kafka compares with each other."""

ROUNDS: list[list[Wanted]] = [
    [(BROKER, "1", [("num.partitions", SET, "3"), ("broker.id", SET, "4"), ("nope", SET, "5")])],
    [(BROKER, "1", [("message.max.bytes", SET, "x"), ("broker.id", SET, "4")])],
    [(BROKER, "1", [("message.max.bytes", SET, "x"), ("log.segment.bytes", SET, "3")])],
    [(BROKER, "", [("sasl.jaas.config", SET, "3"), ("listeners", SET, "3")])],
    [
        (BROKER, name, [("message.max.bytes", SET, "5")])
        for name in ("2", "x", "-1", " 1", "9" * 11)
    ],
    [(BROKER, "1", [("message.max.bytes", 9, "5"), ("log.cleanup.policy", 7, "x")])],
    [(BROKER, "1", [("message.max.bytes", APPEND, "5")])],
    [(BROKER, "1", [("compression.type", SUBTRACT, "5")])],
    [(BROKER, "1", [("nope", APPEND, "5")])],
    [(BROKER, "1", [(RATE, APPEND, "5")])],
    [(BROKER, "1", [("super.users", APPEND, "User:x")])],
    [(BROKER, "1", [("message.max.bytes", SET, "5"), ("message.max.bytes", SET, "6")])],
    [(BROKER, "1", [("message.max.bytes", SET, None), ("nope", APPEND, None)])],
    [(BROKER, "1", [("nope", SET, "5")]), (BROKER, "1", [])],
    [
        (BROKER, "1", [("message.max.bytes", SET, "x")]),
        (BROKER, "", [("message.max.bytes", SET, "600000")]),
        (TOPIC, "nope", [("retention.ms", SET, "6")]),
    ],
    [(BROKER, "1", [("num.partitions", DELETE, None), ("nope", DELETE, None)])],
    [(BROKER, "", [("min.insync.replicas", DELETE, None)])],
    [(BROKER, "1", [("min.insync.replicas", DELETE, None)])],
    [
        (
            BROKER,
            "1",
            [
                ("message.max.bytes", SET, " 600000 "),
                ("nope", SET, "5"),
                (RATE, SET, "1000"),
                ("log.cleanup.policy", APPEND, "compact"),
                ("log.retention.ms", SET, "77"),
                ("listener.name.client.ssl.key.password", SET, "secret"),
                ("listener.name.client.ssl.keystore.type", SET, "PKCS12"),
                ("compression.type", SET, "gzip"),
                ("log.roll.ms", SET, "99999"),
                ("max.connections", SET, "77"),
                ("num.io.threads", SET, "8"),
            ],
        )
    ],
    [
        (
            BROKER,
            "",
            [
                ("message.max.bytes", SET, "500000"),
                ("dope", SET, "6"),
                ("follower.replication.throttled.rate", SET, "2000"),
                (RATE, SET, "3000"),
                ("unclean.leader.election.enable", SET, "FALSE"),
                ("min.insync.replicas", SET, "2"),
                ("log.retention.ms", SET, "88"),
            ],
        )
    ],
    [(BROKER, "1", [("num.io.threads", SET, "16")])],
    [(BROKER, "1", [("log.cleanup.policy", SUBTRACT, "compact"), ("nope", DELETE, "x")])],
    [(BROKER, "1", [("message.max.bytes", DELETE, None), ("log.retention.ms", DELETE, "")])],
    [(BROKER, "1", [("num.io.threads", DELETE, None), ("log.cleanup.policy", SUBTRACT, "delete")])],
]
"""IncrementalAlterConfigs: first rejected changes, then accepted ones."""

REPLACEMENTS: list[list[Wanted]] = [
    [(BROKER, "1", [("compression.type", SET, "lz4"), (RATE, SET, "70")])],
    [(BROKER, "1", [("num.partitions", SET, "5"), ("message.max.bytes", SET, "x")])],
    [(BROKER, "1", [("min.insync.replicas", SET, "5")])],
    [(BROKER, "2", [("message.max.bytes", SET, "5")])],
    [(BROKER, "", [("compression.type", SET, "lz4")])],
    [(BROKER, "", [("compression.type", SET, "lz4"), ("min.insync.replicas", SET, "1")])],
    [(BROKER, "1", [])],
    [(BROKER, "", [])],
]
"""AlterConfigs."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A real broker, and a cell with the same settings and topic."""
    broker = EmbeddedKafka(tmp_path_factory.mktemp("changed"), default_home())
    with tape("configs/broker_settings", SETTINGS) as recording, started(broker, SETTINGS) as kafka:
        given = recording.drawn("properties", lambda: written_properties(broker))
        found = World(recording, kafka, bench_with(given))
        topic = {"name": "a", "numPartitions": 1, "replicationFactor": 1}
        for one in found.both("topic"):
            one.request("CREATE_TOPICS", 7, topics=[topic], timeoutMs=30000)
        yield found


def bench_with(settings: dict[str, str]) -> Bench:
    bench = Bench()
    bench.settings.broker_settings, _ = parse(settings)
    bench.cell = Cell(bench.settings)
    return bench


@pytest.mark.compares
@pytest.mark.parametrize("name", VALUES)
def test_kafka_validates_each_value_alike(world: World, name: str) -> None:
    both = world.both(name)
    for value in VALUES[name]:
        for resource in ("1", ""):
            wanted = [(BROKER, resource, [(name, SET, value)])]
            real, actual = (
                alter(one, "INCREMENTAL_ALTER_CONFIGS", 1, wanted, True) for one in both
            )
            assert actual == real, (resource, value)


@pytest.mark.compares
def test_kafka_validates_values_together_alike(world: World) -> None:
    both = world.both("together")
    for values in TOGETHER:
        for resource in ("1", ""):
            changes = [(name, SET, value) for name, value in values.items()]
            wanted = [(BROKER, resource, changes)]
            real, actual = (
                alter(one, "INCREMENTAL_ALTER_CONFIGS", 1, wanted, True) for one in both
            )
            assert actual == real, (resource, values)


@pytest.mark.compares
def test_broker_settings_change_as_in_kafka(world: World) -> None:
    both = world.both("changes")
    for api, rounds in (("INCREMENTAL_ALTER_CONFIGS", ROUNDS), ("ALTER_CONFIGS", REPLACEMENTS)):
        for wanted in rounds:
            real, actual = (alter(one, api, 1, wanted) for one in both)
            assert actual == real, wanted
            assert_soon_same(both, (BROKER, "1"), (BROKER, ""), (TOPIC, "a"))


LISTENERS: list[dict[str, str | None]] = [
    *({"listeners": f"@,{each}"} for each in (
        "SECOND://localhost:7000", "second://localhost:7000", " SECOND://:7000 ", "SECOND://", "x",
        "SECOND://localhost:x", "SECOND://local host:7000", "SECOND://localhost:0", "NOPE://a:1",
        "SECOND://localhost:7000, ,", "SECOND://localhost:7000,", "SECOND://localhost:-1",
        "SECOND://localhost:7000,SECOND://localhost:7000", "SECOND://localhost:99999",
        "SECOND://localhost:7000,SECOND://localhost:7001", "CONTROLLER://localhost:7000",
        "SECOND://localhost:7000,second://localhost:7001", "SSL://localhost:7000",
        "SECOND://localhost:7000,THIRD://localhost:7000",
        "SECOND://localhost:0,THIRD://localhost:0",
        "SECOND://127.0.0.1:7000,THIRD://[::1]:7000", "SECOND://0.0.0.0:7000,THIRD://[::1]:7000",
        "SECOND://a.b:7000,THIRD://[::1]:7000", "SECOND://127.0.0.1:7000,THIRD://127.0.0.2:7000",
        "SECOND://127.0.0.1:7000,THIRD://[::1]:7000,FOURTH://localhost:7000", "SECOND://0.0.0.0:1",
        "SECOND://127.0.0.1:7000,THIRD://[::1]:7000,FOURTH://127.0.0.2:7000",
    )),
    *({"listeners": each} for each in ("@", "@-CLIENT", "@-OTHER", "@-CONTROLLER", "@CONTROLLER")),
    {"listeners": "@,NEW://localhost:7000", "listener.security.protocol.map": "@,NEW:SSL"},
    {"listeners": "@,SECOND://localhost:7000", "listener.security.protocol.map": "@,SECOND:SSL"},
    {"listener.security.protocol.map": "@,OTHER:SSL"},
    {"listener.security.protocol.map": "@,CLIENT:SSL"},
    {"listeners": "@,SECOND://localhost:7000", "listener.name.other.foo": "bar"},
    {"listeners": "@,SECOND://localhost:7000", "listener.name.other.ssl.keystore.type": "PEM"},
    {"listeners": "@,SECOND://localhost:7000", "listener.name.other.max.connections": "7"},
    {"listeners": "@,SECOND://localhost:7000", "listener.name.second.foo": "bar"},
    {"max.connections": "77", "listener.name.other.ssl.client.auth": "required"},
    {"num.io.threads": "9", "listener.name.other.ssl.client.auth": "required"},
    {"advertised.listeners": "@"},
]  # fmt: skip
"""Changes of a broker; `@` is its given value, `@-NAME` the same without NAME."""

ALTERED: list[dict[str, str | None]] = [
    {"listeners": "@,SECOND://localhost:0"},
    {"listeners": "@"},
    {"listeners": None},
    {"listeners": "@,SECOND://localhost:0,THIRD://localhost:0"},
    {"listener.security.protocol.map": "@,SECOND:SSL"},
    {"listeners": "@,THIRD://127.0.0.1:0", "listener.security.protocol.map": "@,SECOND:SSL"},
    {"listeners": None, "listener.security.protocol.map": None},
]
"""Changes in order."""


@pytest.mark.compares
@pytest.mark.parametrize("is_advertised", [True, False])
def test_kafka_validates_listeners_alike(tmp_path: Path, is_advertised: bool) -> None:
    more = {"listener.security.protocol.map": f"{PROTOCOLS},SECOND:PLAINTEXT,THIRD:PLAINTEXT"}
    more["listener.security.protocol.map"] += ",FOURTH:PLAINTEXT,OTHER:PLAINTEXT"
    without = () if is_advertised else ("advertised.listeners",)
    broker = ListeningKafka(tmp_path, "OTHER", more, without)
    name = "configs/listeners" if is_advertised else "configs/listeners_not_advertised"
    with tape(name, more) as recording, started(broker) as kafka:
        given = recording.drawn("properties", lambda: written_properties(broker))
        both = Recorded(kafka, recording), bench_with(given)
        for is_tried, rounds in ((True, LISTENERS), (False, ALTERED), (True, LISTENERS)):
            for changes in rounds:
                assert_listeners_same(both, changes, given, is_tried)


def assert_listeners_same(
    both: Both, requests: dict[str, str | None], values: dict[str, str], is_tried: bool
) -> None:
    changes = [
        (name, DELETE if text is None else SET, in_full(text, values.get(name)))
        for name, text in requests.items()
    ]
    wanted = [(BROKER, "1", changes)]
    real, actual = (alter(one, "INCREMENTAL_ALTER_CONFIGS", 1, wanted, is_tried) for one in both)
    assert actual == real, requests
    if not is_tried:
        assert_soon_same(both, (BROKER, "1"))


def in_full(text: str | None, given: str | None) -> str | None:
    """Replace `@` by the given value."""
    if text is None or not text.startswith("@"):
        return text
    if text[1:].isalpha() or text.startswith("@-"):
        name, is_without = text.lstrip("@-"), text.startswith("@-")
        parts = (given or "").split(",")
        return ",".join(each for each in parts if each.startswith(f"{name}:") != is_without)
    return f"{given or ''}{text[1:]}"


def change(bench: Bench, *changes: Change, resource: str = "1", **event: Any) -> dict[str, Any]:
    configs = [{"name": n, "configOperation": c, "value": v} for n, c, v in changes]
    body = {"resources": [{"resourceType": BROKER, "resourceName": resource, "configs": configs}]}
    response = bench.request("INCREMENTAL_ALTER_CONFIGS", 1, body, **event)
    return dict(response["responses"][0])


def test_cluster_setting_applies_to_brokers_without_their_own() -> None:
    bench = Bench((1, 2))

    def of(machine: int) -> int:
        at = bench.cell.tables.of(machine)
        settings = broker_configs.settings_of(at, machine, bench.settings.broker_settings)
        return settings.message_max_bytes

    assert change(bench, ("message.max.bytes", SET, "500"), resource="")["errorCode"] == 0
    assert change(bench, ("message.max.bytes", SET, "100"))["errorCode"] == 0
    assert [of(CONTROLLER), of(1), of(2)] == [500, 100, 500]
    bench.reload()
    assert [of(CONTROLLER), of(1), of(2)] == [500, 100, 500]
    change(bench, ("message.max.bytes", DELETE, None), resource="")
    assert [of(1), of(2)] == [100, 1048588]
    change(bench, ("message.max.bytes", DELETE, None))
    assert of(1) == 1048588


def test_changed_broker_setting_applies_at_once() -> None:
    bench = Bench()
    bench.topic("a")
    assert bench.append("a", header(size=100))["errorCode"] == 0
    change(bench, ("message.max.bytes", SET, "99"))
    assert bench.append("a", header(size=100))["errorCode"] == 10
    change(bench, ("message.max.bytes", DELETE, None))
    assert bench.append("a", header(size=100))["errorCode"] == 0


def test_changed_default_of_topics_applies_at_once() -> None:
    replicas = Replicas()
    replicas.isolate(3)
    replicas.produce(acks=1)
    replicas.bench.tick(60_001)
    assert replicas.isr() == [1, 2]
    assert replicas.produce()["errorCode"] == 0
    change(replicas.bench, ("min.insync.replicas", SET, "3"), resource="")
    assert replicas.produce()["errorCode"] == Error.NOT_ENOUGH_REPLICAS
    replicas.stop(2, 1)
    assert replicas.leader()[0] == -1
    change(replicas.bench, ("unclean.leader.election.enable", SET, "true"), resource="", broker=3)
    replicas.start(2)
    assert replicas.leader()[0] != -1


def test_broker_checks_precede_authorization() -> None:
    bench = Bench(authorizer_class_name=CLASS_NAME)
    for changes, error in (
        ([(RATE, SET, "1000")], Error.CLUSTER_AUTHORIZATION_FAILED),
        ([(RATE, DELETE, None)], Error.CLUSTER_AUTHORIZATION_FAILED),
        ([(RATE, SET, "x")], Error.INVALID_REQUEST),
    ):
        assert change(bench, *changes, principal="User:alice")["errorCode"] == error
    assert given_configs.everything(bench.cell.tables.of(1), given_configs.BROKERS) == {}


def test_secrets_are_neither_kept_nor_shown() -> None:
    bench = Bench()
    change(bench, ("listener.name.a.ssl.key.password", SET, "geheim"), ("my.own", SET, "geheim"))
    assert not any(b"geheim" in bytes(column) for column in bench.cell.tables.columns().values())
    assert "geheim" not in str([row for row in bench.rows if row.topic != "responses"])
    (found,) = describe(bench, (BROKER, "1"), keys=["my.own", "listener.name.a.ssl.key.password"])
    assert [config["value"] for config in found["configs"]] == [None, None]
    assert [config["isSensitive"] for config in found["configs"]] == [True, True]


def test_brokertwin_settings_are_not_dynamic() -> None:
    refused = change(Bench(), ("brokertwin.truncation", SET, "hw"))
    assert refused["errorCode"] == Error.INVALID_REQUEST


def test_throttles_are_off_by_default() -> None:
    bench = Bench()
    broker_settings = bench.settings.broker_settings
    assert broker_settings.leader_replication_throttled_rate == UNLIMITED
    change(bench, (RATE, SET, "1000"))
    settings = broker_configs.settings_of(bench.cell.tables.of(1), 1, broker_settings)
    assert settings.leader_replication_throttled_rate == 1000
    assert settings.follower_replication_throttled_rate == UNLIMITED
