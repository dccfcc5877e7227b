"""A topic with three replicas on the bench: producers, followers that are cut off, what all have.

replicas = Replicas(min_insync_replicas="2")
replicas.isolate(2)
replicas.produce()
"""

from collections.abc import Iterable
from typing import Any

from brokertwin.state.cluster import features, image
from brokertwin.state.cluster.image import Partition
from brokertwin.state.core.decision import CONTROLLER
from brokertwin.state.logs.log import Log, log_key
from brokertwin.state.replication import network
from brokertwin.state.replication.leader import Leadership
from tests.support.machine import CLUSTER, Bench, header, produce_body

BROKERS = (1, 2, 3)
TOPIC = "orders"
TIMEOUT_MS = 1000
FEATURES = [
    {"name": name, "minSupportedVersion": levels.first, "maxSupportedVersion": levels.last}
    for name, levels in features.SUPPORTED.items()
]
"""Registration data of a broker of this release."""


class Replicas:
    """Partition 0 of `orders` on brokers 1 to 3; the first of `assignment` leads it.

    Attributes:
        bench: the cell.
    """

    def __init__(
        self, assignment: tuple[int, ...] = BROKERS, bench: Bench | None = None, **configs: str
    ) -> None:
        self.bench = bench or Bench(BROKERS)
        self.bench.settings.may_intervene = True
        given = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
        topic = {"name": TOPIC, "configs": given, "numPartitions": -1, "replicationFactor": -1}
        topic["assignments"] = [{"partitionIndex": 0, "brokerIds": list(assignment)}]
        response = self.bench.request("CREATE_TOPICS", 7, topics=[topic], timeoutMs=30_000)
        assert response["topics"][0]["errorCode"] == 0, response
        self.topic_id = str(response["topics"][0]["topicId"])
        self._waiting: list[str] = []

    def intervene(self, kind: str, broker: int, **fields: Any) -> None:
        event = {"id": f"{kind}-{len(self.bench.rows)}-{broker}", "cluster": CLUSTER, "kind": kind}
        self.bench.handle({**event, **fields, "broker": broker, "time": self.bench.now})
        letters = self.bench.dead_letters(self.bench.last)
        assert letters == [], letters

    def fail_dir(self, broker: int, directory: str) -> None:
        self.intervene("fail-log-dir", broker, directory=directory)

    def isolate(self, *brokers: int) -> None:
        for broker in brokers:
            self.intervene("isolate-broker", broker)

    def rejoin(self, *brokers: int) -> None:
        for broker in brokers:
            self.intervene("rejoin-broker", broker)

    def stop(self, *brokers: int) -> None:
        for broker in brokers:
            self.intervene("stop-broker", broker)

    def kill(self, *brokers: int) -> None:
        """Kills brokers: the controller does not hear of it."""
        for broker in brokers:
            self.intervene("kill-broker", broker)

    def sever(self, *brokers: int) -> None:
        for broker in brokers:
            self.intervene("sever-broker", broker)

    def end_sessions(self) -> None:
        """Time passes, until brokers are fenced of which the controller does not hear."""
        self.bench.tick(self.bench.settings.broker_settings.broker_session_timeout_ms + 1)

    def start(self, *brokers: int) -> None:
        for broker in brokers:
            self.intervene("start-broker", broker)

    def epoch(self, broker: int | None = None) -> int:
        """The epoch in which a broker is registered; the leader's, unless it is named."""
        named = broker if broker is not None else self.partition().leader
        return image.registration(self.bench.cell.tables.of(CONTROLLER), named).epoch

    def is_stopped(self, broker: int) -> bool:
        return network.is_stopped(self.bench.cell.tables.cluster, broker)

    def is_severed(self, broker: int) -> bool:
        """Whether a broker does not reach the controller."""
        return network.is_severed(self.bench.cell.tables.cluster, broker)

    def leader(self) -> tuple[int, int]:
        partition = self.partition()
        return partition.leader, partition.leader_epoch

    def eligible(self) -> tuple[int, list[int], list[int], list[int]]:
        """Leader, in-sync set, eligible replicas and last known leader as sent to clients."""
        alive = next(each for each in self.bench.settings.brokers if not self.is_stopped(each))
        response = self.bench.request("DESCRIBE_TOPIC_PARTITIONS", 0, name=TOPIC, broker=alive)
        partition = response["topics"][0]["partitions"][0]
        assert partition["errorCode"] == 0
        named = ("isrNodes", "eligibleLeaderReplicas", "lastKnownElr")
        in_sync, elr, last = (list(partition[name]) for name in named)
        return partition["leaderId"], in_sync, elr, last

    def leave_only_the_leader(self) -> None:
        self.isolate(*(broker for broker in BROKERS if broker != self.partition().leader))
        self.produce(acks=1)
        self.bench.tick(2 * self.bench.settings.broker_settings.replica_lag_time_max_ms)
        assert self.isr() == [self.partition().leader]

    @staticmethod
    def produce_on(bench: Bench, acks: int = -1, count: int = 1, **event: Any) -> Any:
        """The response of the partition, None while there is none."""
        timeout_ms = event.pop("timeout_ms", TIMEOUT_MS)
        batch = header(count, size=70 + count, crc=event.pop("crc", 0))
        body = produce_body(TOPIC, batch, acks=acks, timeoutMs=timeout_ms)
        response = bench.request("PRODUCE", 10, body, **event)
        return response and response["responses"][0]["partitionResponses"][0]

    def produce(self, acks: int = -1, count: int = 1, **event: Any) -> Any:
        """Produces to the leader, or to `broker`; None while it waits."""
        event.setdefault("broker", self.partition().leader)
        event.setdefault("id", f"p{len(self.bench.rows)}")
        response = self.produce_on(self.bench, acks, count, **event)
        if response is None:
            self._waiting.append(event["id"])
        return response

    def late_errors(self) -> list[int]:
        responses = [self.bench.responses.get(each) for each in self._waiting]
        return [
            response["response"]["responses"][0]["partitionResponses"][0]["errorCode"]
            for response in responses
            if response is not None
        ]

    def partition(self) -> Partition:
        topic = image.topic_by_id(self.bench.cell.tables.of(CONTROLLER), self.topic_id)
        assert topic is not None
        return topic.partitions[0]

    def isr(self) -> list[int]:
        leader = self.partition().leader
        alive = [each for each in BROKERS if not self.is_stopped(each)]
        broker = leader if leader in alive else alive[0]
        response = self.bench.request("METADATA", 12, name=TOPIC, broker=broker)
        return list(response["topics"][0]["partitions"][0]["isrNodes"])

    def log(self, broker: int) -> Log:
        log = self.bench.cell.tables.logs.get(log_key(broker, self.topic_id, 0), Log)
        assert log is not None, broker
        return log

    def watermarks(self) -> dict[int, tuple[int, int]]:
        return {broker: self.watermarks_of(broker) for broker in self.bench.settings.brokers}

    def watermarks_of(self, broker: int) -> tuple[int, int]:
        log = self.log(broker)
        return log.high_watermark, log.log_end_offset

    def leadership_key(self) -> str:
        return f"{self.partition().leader}/leading/{self.topic_id}/0"

    def leadership(self) -> Leadership:
        """The leader's progress data of its followers."""
        leadership = self.bench.cell.tables.replication.get(self.leadership_key(), Leadership)
        assert leadership is not None
        return leadership

    def latest(self, replica_id: int = -1) -> int:
        """End of the records that a client can read."""
        body = {"replicaId": replica_id, "name": TOPIC, "partitionIndex": 0, "timestamp": -1}
        response = self.bench.request("LIST_OFFSETS", 7, body, broker=self.partition().leader)
        return int(response["topics"][0]["partitions"][0]["offset"])

    @staticmethod
    def config_change(name: str, value: str) -> dict[str, Any]:
        change = {"name": name, "configOperation": 0, "value": value}
        return {"resources": [{"resourceType": 2, "resourceName": TOPIC, "configs": [change]}]}

    def alter_config(self, name: str, value: str) -> None:
        self.bench.request("INCREMENTAL_ALTER_CONFIGS", 1, self.config_change(name, value))

    def fetch_as(
        self,
        replica: int,
        offset: int | None = None,
        session_id: int = 0,
        epoch: int = 0,
        leader_epoch: int = -1,
    ) -> Any:
        """The response to a request of a follower's; without an offset it names no partition."""
        body: dict[str, Any] = {"replicaId": replica, "maxWaitMs": 0, "minBytes": 1}
        body |= {"sessionId": session_id, "sessionEpoch": epoch}
        if offset is not None:
            partition = {"partition": 0, "fetchOffset": offset, "partitionMaxBytes": 100_000}
            partition |= {"logStartOffset": 0, "currentLeaderEpoch": leader_epoch}
            body["topics"] = [{"topic": TOPIC, "partitions": [partition]}]
        leader = self.partition().leader
        return self.bench.request("FETCH", 12, body, broker=leader)

    def wish(self, isr: Iterable[int]) -> dict[str, Any]:
        """The leader's AlterPartition for an in-sync set."""
        partition = self.partition()
        part = {
            "partitionIndex": 0,
            "leaderEpoch": partition.leader_epoch,
            "partitionEpoch": partition.partition_epoch,
            "newIsrWithEpochs": [{"brokerId": each} for each in isr],
        }
        topics = [{"topicId": self.topic_id, "partitions": [part]}]
        return {"brokerId": partition.leader, "brokerEpoch": self.epoch(), "topics": topics}
