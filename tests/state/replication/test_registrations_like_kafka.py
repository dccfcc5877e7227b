"""BrokerRegistration beside a real controller: who is refused, and where clients are sent.

The listener of a real controller takes the requests, with the schemas of Kafka's own jar. A wrong
listener makes a controller of 4.3.1 step down and come back, so there are few of them here; one
without a name would end it.
"""

import base64
import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from brokerstream.gateway.protocol.generate import COMMENT
from brokerstream.kafka_io import jars, properties
from brokerstream.kafka_io.kafka_broker import EmbeddedKafka
from brokerstream.settings import default_home
from brokerstream.state.cluster import topics
from tests.conformance import wire
from tests.support.machine import CLUSTER, Bench
from tests.support.patience import wait_until
from tests.support.replicas import FEATURES

NOT_CONTROLLER = 41
LISTENER = "CLIENT"
MESSAGES = ("BrokerRegistration", "BrokerHeartbeat")
SHARE, METADATA = "share.version", "metadata.version"
Body = dict[str, Any]


def at(name: str = LISTENER, host: str = "h", port: int = 1234, protocol: int = 0) -> Body:
    return {"name": name, "host": host, "port": port, "securityProtocol": protocol}


def able(name: str, first: int, last: int) -> Body:
    return {"name": name, "minSupportedVersion": first, "maxSupportedVersion": last}


def without(name: str, *others: Body) -> Body:
    """All features but one, and others."""
    return {"features": [*(each for each in FEATURES if each["name"] != name), *others]}


LISTENERS: list[Body] = [
    {"listeners": each}
    for each in (
        [],
        [at("OTHER")],
        [at("OTHER"), at(host="two", port=2)],
        [at(host="first"), at(host="second", port=2)],
        [at(), at("client", "lower")],
        [at(port=65535, protocol=3)],
        [at("CONTROLLER")],
    )
]
REGISTRATIONS: list[tuple[int, Body]] = [
    *((4, each) for each in LISTENERS),
    (4, {"features": []}),
    (4, without(METADATA, able(SHARE, 0, 0))),
    *((4, without(each["name"])) for each in FEATURES),
    *((4, without(METADATA, able(METADATA, *each))) for each in ((1, 5), (7, 29), (30, 31))),
    *((4, without(SHARE, able(SHARE, *each))) for each in ((0, 0), (1, 1), (3, 1), (-1, 1))),
    (4, without(SHARE, able(SHARE, 0, 0), able(SHARE, 0, 1))),
    *((4, without("", able("foo", *each))) for each in ((1, 5), (0, 5), (5, 1), (-1, 1))),
    *((4, without("kraft.version", able("kraft.version", *each))) for each in ((0, 0), (1, 1))),
    (3, without(SHARE)),
    *((version, {}) for version in (0, 1, 2, 3)),
    (4, {"isMigratingZkBroker": True, "logDirs": []}),
    (4, {"clusterId": "x", **without(METADATA)}),
    (4, {"logDirs": [], **without(SHARE)}),
    (4, {"listeners": [at(protocol=4)], **without(SHARE)}),
    (4, {"listeners": [at(port=0)]}),
]
"""The version of a request, and in which of its fields it is another than a right one."""


class Both:
    """A real controller and a bench; the brokers 50 and up register at both."""

    def __init__(self, home: Path, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self.host, self.port = host, int(port)
        voters = properties.read(home / "server.properties")["controller.quorum.voters"]
        self.controller_port = int(voters.rpartition(":")[2])
        self.cluster_id = properties.read(home / "data" / "meta.properties")["cluster.id"]
        self.bench = Bench(brokers=(1,))

    def real(self, api: str, version: int, body: Body, port: int | None = None) -> Body:
        conn = wire.Conn(self.host, port or self.port)
        try:
            return dict(conn.call(api, version, body))
        finally:
            conn.close()

    def controller(self, api: str, version: int, body: Body) -> Body:
        """The answer of the controller, when there is one again."""
        answers: list[Body] = []

        def is_answered() -> bool:
            answers.append(self.real(api, version, body, self.controller_port))
            return bool(answers[-1]["errorCode"] != NOT_CONTROLLER)

        wait_until(is_answered, "there is a controller")
        return answers[-1]

    def registered(self, broker: int, version: int, changed: Body) -> tuple[Body, Body]:
        """The answers to a registration that is right but for what is changed."""
        ids = {"incarnationId": bytes([broker] * 16), "logDir": bytes([broker, 9] * 8)}
        body = {"brokerId": broker, "listeners": [at()], "features": FEATURES, "rack": None}
        body |= {"isMigratingZkBroker": False, "previousBrokerEpoch": -1}
        real = body | {"clusterId": self.cluster_id, "incarnationId": ids["incarnationId"].hex()}
        ours = body | {"clusterId": topics.derive_uuid("cluster", CLUSTER)}
        ours |= {"incarnationId": as_text(ids["incarnationId"])}
        real["logDirs"], ours["logDirs"] = [ids["logDir"].hex()], [as_text(ids["logDir"])]
        return (
            self.controller("BrokerRegistration", version, real | changed),
            self.bench.request("BROKER_REGISTRATION", version, ours | changed),
        )

    def unfenced(self, broker: int, epochs: tuple[int, int]) -> None:
        beat = {"brokerId": broker, "currentMetadataOffset": 10**6, "wantFence": False}
        beat |= {"wantShutDown": False, "offlineLogDirs": []}
        real, ours = epochs
        assert not self.controller("BrokerHeartbeat", 1, beat | {"brokerEpoch": real})["isFenced"]
        answer = self.bench.request("BROKER_HEARTBEAT", 1, beat | {"brokerEpoch": ours})
        assert answer["isFenced"] is False

    def told(self, api: str, name: str, version: int, body: Body) -> tuple[Body, Body]:
        return (
            plain(self.real(api, version, body)),
            plain(self.bench.request(name, version, body, listener=LISTENER)),
        )


def as_text(octets: bytes) -> str:
    return base64.urlsafe_b64encode(octets).decode().rstrip("=")


def plain(answer: Body) -> Body:
    """An answer without ids, who is the controller, and where broker 1 is; in the order of ids."""
    kept = {k: v for k, v in answer.items() if k not in ("clusterId", "controllerId")}
    brokers = [each for each in kept.pop("brokers", []) if 1 not in each.values()]
    kept["brokers"] = sorted(brokers, key=lambda each: each.get("nodeId", each.get("brokerId")))
    for topic in kept.get("topics", ()):
        topic.pop("topicId", None)
    return kept


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    """A real broker with its controller, whose listener is spoken to, and a bench."""
    files = jars.fetch(jars.kafka_jars(), default_home(), None, lambda _: None)
    (jar,) = (each for each in files if re.fullmatch(r"kafka-clients-[\d.]+\.jar", each.name))
    with zipfile.ZipFile(jar) as archive:
        for name in (f"{each}{side}" for each in MESSAGES for side in ("Request", "Response")):
            text = archive.read(f"common/message/{name}.json").decode()
            wire.EXTRA[name] = json.loads(COMMENT.sub("", text))
    broker = EmbeddedKafka(tmp_path_factory.mktemp("registrations"), default_home())
    try:
        yield Both(broker.home, broker.start({}))
    finally:
        broker.stop()


@pytest.mark.kafka
def test_registrations_and_where_clients_are_sent(both: Both) -> None:
    epochs: dict[int, tuple[int, int]] = {}
    codes = set()
    for broker, (version, changed) in enumerate(REGISTRATIONS, 50):
        real, ours = both.registered(broker, version, changed)
        assert real["errorCode"] == ours["errorCode"], (version, changed)
        codes.add(real["errorCode"])
        if broker < 50 + len(LISTENERS):
            epochs[broker] = real["brokerEpoch"], ours["brokerEpoch"]
    assert codes == {0, 35, 102, 104, 119, -1}
    for broker, known in epochs.items():
        both.unfenced(broker, known)
    assignments = [{"partitionIndex": n, "brokerIds": [b, 1]} for n, b in enumerate(epochs)]
    topic = {"name": "t", "numPartitions": -1, "replicationFactor": -1, "configs": []}
    body = {"topics": [topic | {"assignments": assignments}], "timeoutMs": 5000}
    body["validateOnly"] = False
    assert both.real("CreateTopics", 7, body)["topics"][0]["errorCode"] == 0
    assert both.bench.request("CREATE_TOPICS", 7, body)["topics"][0]["errorCode"] == 0
    asked: Body = {"topics": [{"name": "t"}], "includeTopicAuthorizedOperations": False}
    asked |= {"allowAutoTopicCreation": False, "includeClusterAuthorizedOperations": False}
    wait_until(lambda: both.real("Metadata", 8, asked)["topics"][0]["errorCode"] == 0)
    for version in (0, 1, 5, 6, 8):
        real, ours = both.told("Metadata", "METADATA", version, asked)
        assert real == ours, version
    described = {"includeClusterAuthorizedOperations": False, "endpointType": 1}
    for is_fenced in (False, True):
        described["includeFencedBrokers"] = is_fenced
        real, ours = both.told("DescribeCluster", "DESCRIBE_CLUSTER", 2, described)
        assert real == ours, is_fenced
    listed = {"topics": [{"name": "t"}], "responsePartitionLimit": 100, "cursor": None}
    real, ours = both.told("DescribeTopicPartitions", "DESCRIBE_TOPIC_PARTITIONS", 0, listed)
    assert real == ours
