"""A schedule of stops, kills, halts and elections, on a real cluster and on ours.

A cluster of three brokers has the topic `orders`: one partition, replicas [2, 3, 1], at least two
in sync. Broker 1 is never stopped, because it is Kafka's controller. The schedule waits for events
that take time in a real cluster, such as the end of a dead broker's session or a follower's lag: a
step ends when the partition is in the named state.
"""

import os
import signal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from brokertwin.gateway.edge_fields import Address
from brokertwin.gateway.engine.engine import Clock, now_ms
from brokertwin.gateway.engine.local_engine import LocalEngine
from brokertwin.kafka_io.kafka_broker import EmbeddedKafka
from tests.support.batches import batch
from tests.support.gateways import Client, Running, running_gateway
from tests.support.kafka_clusters import kafka_cluster
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.stopping_brokers import intervene_through

TOPIC = "orders"
ASSIGNMENT = [2, 3, 1]
CONTROLLER = 1
EARLIEST, EARLIEST_LOCAL = -2, -4
MIN_IN_SYNC = "min.insync.replicas"
SETTINGS = {
    "auto.leader.rebalance.enable": "false",
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "1000",
    "log.retention.ms": "-1",  # the records are old
    MIN_IN_SYNC: "2",
    "replica.lag.time.max.ms": "2000",
}
OF_METADATA = (
    *("errorCode", "leaderId", "leaderEpoch", "replicaNodes", "isrNodes", "offlineReplicas"),
)

Body = dict[str, Any]


class Cluster(Protocol):
    def address(self, broker: int) -> Address:
        """Address of a broker."""

    def act(self, verb: str, broker: int) -> None:
        """`stop`, `kill` or `start` a broker; `halt` it, or let it `rejoin`."""


class RealCluster:
    """Brokers in separate processes."""

    def __init__(self, nodes: dict[int, tuple[EmbeddedKafka, str]]) -> None:
        self._nodes = {broker: node for broker, (node, _) in nodes.items()}
        self._addresses = {broker: address for broker, (_, address) in nodes.items()}

    def address(self, broker: int) -> Address:
        host, port = self._addresses[broker].rsplit(":", 1)
        return Address(host, int(port))

    def act(self, verb: str, broker: int) -> None:
        """Do it to the broker's process."""
        node = self._nodes[broker]
        if verb == "start":
            self._addresses[broker] = node.start(SETTINGS)
        elif verb == "stop":
            assert node.stop()
        else:
            pid = node.status().pid
            assert pid is not None, broker
            os.kill(pid, _SIGNALS[verb])

    def free(self) -> None:
        """Let halted processes go on, so that they can end."""
        for node in self._nodes.values():
            pid = node.status().pid
            if pid is not None:
                os.kill(pid, signal.SIGCONT)


_SIGNALS = {"kill": signal.SIGKILL, "halt": signal.SIGSTOP, "rejoin": signal.SIGCONT}


class OurCluster:
    """The logical brokers of a gateway; one that is halted is cut off from all but its clients."""

    def __init__(self, gateway: Running) -> None:
        self._gateway = gateway
        self._intervene = intervene_through(gateway)

    def address(self, broker: int) -> Address:
        return self._gateway.addresses[broker]

    def act(self, verb: str, broker: int) -> None:
        self._intervene(f"{'sever' if verb == 'halt' else verb}-broker", broker)


class Caller:
    """Calls a cluster's brokers, and keeps what responses say but for names and addresses."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def call(self, broker: int, api: str, version: int, body: Body) -> Body:
        with Client(self.cluster.address(broker), PATIENCE_S) as client:
            return client.call(api, version, body)

    def act(self, verb: str, broker: int) -> None:
        self.cluster.act(verb, broker)

    def create(self, assignment: Sequence[int] = ASSIGNMENT) -> list[int]:
        assignments = [{"partitionIndex": 0, "brokerIds": list(assignment)}]
        topic = {"name": TOPIC, "numPartitions": -1, "replicationFactor": -1}
        body = {"topics": [{**topic, "assignments": assignments}], "timeoutMs": 30_000}
        response = self.call(CONTROLLER, "CREATE_TOPICS", 7, body)
        return [each["errorCode"] for each in response["topics"]]

    def described(self) -> Body:
        response = self.call(CONTROLLER, "METADATA", 12, {"topics": [{"name": TOPIC}]})
        partition = response["topics"][0]["partitions"][0]
        found = {name: partition[name] for name in OF_METADATA}
        return {**found, "isrNodes": sorted(found["isrNodes"])}

    def eligible(self) -> Body:
        """The partition in DescribeTopicPartitions, with its eligible leader replicas (KIP-966)."""
        body = {"topics": [{"name": TOPIC}], "responsePartitionLimit": 1}
        response = self.call(CONTROLLER, "DESCRIBE_TOPIC_PARTITIONS", 0, body)
        partition = response["topics"][0]["partitions"][0]
        return {**partition, "isrNodes": sorted(partition["isrNodes"])}

    def until_eligible(self, leader: int, in_sync: list[int], elr: list[int]) -> None:
        wanted = (leader, in_sync, elr)

        def is_so() -> bool:
            found = self.eligible()
            names = ("leaderId", "isrNodes", "eligibleLeaderReplicas")
            return tuple(found[name] for name in names) == wanted

        wait_until(is_so, f"leader, in sync, eligible: {wanted}")

    def alter_config(self, value: str, resource_type: int = 2, resource: str = TOPIC) -> Body:
        """Another value of min.insync.replicas, of the topic or of brokers; "" for none."""
        operation = {"name": MIN_IN_SYNC, "configOperation": 0 if value else 1, "value": value}
        wanted = {"resourceType": resource_type, "resourceName": resource, "configs": [operation]}
        body = {"resources": [wanted], "validateOnly": False}
        return _rendered(self.call(CONTROLLER, "INCREMENTAL_ALTER_CONFIGS", 1, body))

    def brokers(self) -> list[int]:
        response = self.call(CONTROLLER, "METADATA", 12, {"topics": []})
        return sorted(each["nodeId"] for each in response["brokers"])

    def until(self, leader: int, in_sync: Iterable[int], brokers: Iterable[int]) -> Body:
        wanted = (leader, sorted(in_sync), sorted(brokers))

        def is_so() -> bool:
            found = self.described()
            return (found["leaderId"], found["isrNodes"], self.brokers()) == wanted

        wait_until(is_so, f"leader, in sync, brokers: {wanted}")
        return self.described()

    def until_led(self, broker: int) -> None:
        wait_until(lambda: self.ends(broker)["errorCode"] == 0, f"{broker} leads")

    def until_heard(self, leader: int, follower: int) -> None:
        """Wait until a real follower knows the high watermark: one fetch later (KIP-392).

        Our follower knows it at once, and returns no records to consumers.
        """
        if isinstance(self.cluster, OurCluster):
            return

        def has_received() -> bool:
            found = self.fetch(follower)
            end = self.ends(leader)["offset"]
            return not found["errorCode"] and found["highWatermark"] == end

        wait_until(has_received, f"{follower} knows the high watermark")

    def produce(self, broker: int, value: bytes, acks: int = -1) -> Body:
        data = [{"index": 0, "records": batch(value)}]
        body = {"acks": acks, "timeoutMs": 30_000}
        topics = [{"name": TOPIC, "partitionData": data}]
        response = self.call(broker, "PRODUCE", 10, {**body, "topicData": topics})
        partition = response["responses"][0]["partitionResponses"][0]
        named = ("errorCode", "baseOffset", "logStartOffset", "currentLeader")
        return {name: partition[name] for name in named if name in partition}

    def ends(self, broker: int, timestamp: int = -1) -> Body:
        """ListOffsets of the end, or of the start (-2)."""
        partition = {"partitionIndex": 0, "currentLeaderEpoch": -1, "timestamp": timestamp}
        topics = [{"name": TOPIC, "partitions": [partition]}]
        response = self.call(broker, "LIST_OFFSETS", 8, {"replicaId": -1, "topics": topics})
        part = response["topics"][0]["partitions"][0]
        return {name: part[name] for name in ("errorCode", "offset", "leaderEpoch")}

    def epoch_end(self, broker: int, epoch: int) -> Body:
        partition = {"partition": 0, "currentLeaderEpoch": -1, "leaderEpoch": epoch}
        topics = [{"topic": TOPIC, "partitions": [partition]}]
        response = self.call(
            broker, "OFFSET_FOR_LEADER_EPOCH", 4, {"replicaId": -1, "topics": topics}
        )
        return dict(response["topics"][0]["partitions"][0])

    def fetch(self, broker: int) -> Body:
        partition = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 1 << 20}
        topics = [{"topic": TOPIC, "partitions": [partition]}]
        body = {"maxBytes": 1 << 20, "sessionEpoch": -1, "topics": topics}
        part = self.call(broker, "FETCH", 12, body)["responses"][0]["partitions"][0]
        named = ("errorCode", "highWatermark", "lastStableOffset", "logStartOffset")
        return {**{name: part[name] for name in named}, "bytes": len(part["records"] or b"")}

    def elect(self, election_type: int, topic: str = TOPIC, partition: int = 0) -> Body:
        topics = [{"topic": topic, "partitions": [partition]}]
        body = {"electionType": election_type, "topicPartitions": topics, "timeoutMs": 30_000}
        return _rendered(self.call(CONTROLLER, "ELECT_LEADERS", 2, body))

    def reassign(self, replicas: list[int] | None) -> Body:
        """AlterPartitionReassignments; None cancels."""
        partitions = [{"partitionIndex": 0, "replicas": replicas}]
        body = {"timeoutMs": 30_000, "topics": [{"name": TOPIC, "partitions": partitions}]}
        return _rendered(self.call(CONTROLLER, "ALTER_PARTITION_REASSIGNMENTS", 1, body))

    def reassignments(self) -> Body:
        body = {"timeoutMs": 30_000, "topics": None}
        return _rendered(self.call(CONTROLLER, "LIST_PARTITION_REASSIGNMENTS", 0, body))

    def calls(self, leader: int) -> dict[str, Body]:
        """What clients may ask of a partition that is quiet."""
        other = next((each for each in self.brokers() if each != leader), leader)
        return {
            "described": self.described(),
            "eligible": self.eligible(),
            "ends": self.ends(leader),
            "ends elsewhere": self.ends(other),
            "starts": self.ends(leader, EARLIEST),
            "starts locally": self.ends(leader, EARLIEST_LOCAL),
            "epoch 0": self.epoch_end(leader, 0),
            "newest epoch": self.epoch_end(leader, self.described()["leaderEpoch"]),
            "fetched": self.fetch(leader),
            "produced elsewhere": self.produce(other, b"no"),
            "reassignments": self.reassignments(),
        }


def _rendered(response: Body) -> Body:
    return {name: value for name, value in response.items() if name != "throttleTimeMs"}


@contextmanager
def real_cluster(home: Path, brokers: int, settings: Mapping[str, str]) -> Iterator[RealCluster]:
    with kafka_cluster(home, brokers, settings) as nodes:
        real = RealCluster(nodes)
        try:
            yield real
        finally:
            real.free()


@contextmanager
def our_cluster(
    brokers: int, settings: Mapping[str, str], clock: Clock = now_ms
) -> Iterator[OurCluster]:
    engine_type = partial(LocalEngine, may_intervene=True, clock=clock)
    with running_gateway(settings, brokers, engine_type=engine_type) as gateway:
        yield OurCluster(gateway)
