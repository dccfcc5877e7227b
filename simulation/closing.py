"""The end of a run: nothing befalls the cluster any more, and everything is read once more."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from brokerstream.clients.partitions import TopicPartition
from brokerstream.simulation.clock import Clock
from brokerstream.simulation.cluster import Cluster
from brokerstream.simulation.record_names import items_of
from brokerstream.state.core.errors import Error, error_name
from brokerstream.state.core.kafka_apis import KAFKA_APIS

PATIENCE_MS = 10_000
EARLIEST = -2

_KEYS = {api.name: key for key, api in KAFKA_APIS.items()}


class Asker:
    """Asks brokers without a connection, and lets time pass until the answer is there."""

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._count = 0
        self._answers: dict[str, dict[str, Any]] = {}
        self._pass_on = cluster.on_answer
        cluster.on_answer = self._answered

    def ask(self, api: str, version: int, body: dict[str, Any], broker: int = 1) -> Any:
        """An answer's body; None where there is none."""
        self._count += 1
        name = f"asker/{self._count}"
        header = {"requestApiKey": _KEYS[api], "requestApiVersion": version}
        fields = {"id": name, "broker": broker, "connection": "asker", "requestHeader": header}
        self._cluster.request({**fields, "request": body})
        self._clock.run_until(lambda: name in self._answers, PATIENCE_MS)
        return self._answers.get(name, {}).get("response")

    def _answered(self, name: str, document: dict[str, Any]) -> None:
        if name.startswith("asker/"):
            self._answers[name] = document
        else:
            self._pass_on(name, document)


def make_topics(asker: Asker, counts: Mapping[str, int], replicas: int, in_sync_min: int) -> None:
    """The topics of a run, each with so many partitions."""
    configs = [{"name": "min.insync.replicas", "value": str(in_sync_min)}]
    sizes = {"replicationFactor": replicas, "configs": configs}
    topics = [{"name": name, "numPartitions": count, **sizes} for name, count in counts.items()]
    answer = asker.ask("CREATE_TOPICS", 7, {"topics": topics, "timeoutMs": 10_000})
    codes = [each["errorCode"] for each in answer["topics"]]
    assert codes == [Error.NONE] * len(topics), answer


class Logs:
    """What the logs have in the end.

    Attributes:
        whole: all records of each partition.
        committed: those that read_committed sees.
        unsettled: what is not as it should be in a cluster that all are back in; in words.
    """

    def __init__(self, asker: Asker, topics: Iterable[str], has_losses: bool) -> None:
        self._has_losses = has_losses
        self.whole: dict[TopicPartition, list[tuple[int, str]]] = {}
        self.committed: dict[TopicPartition, list[tuple[int, str]]] = {}
        self.unsettled: list[str] = []
        self._asker = asker
        body = {"topics": [{"name": name} for name in topics]}
        told = asker.ask("METADATA", 9, body)
        if told is None:
            self.unsettled.append("broker 1 does not answer")
        for topic in told["topics"] if told is not None else ():
            for each in topic["partitions"]:
                self._read(TopicPartition(topic["name"], each["partitionIndex"]), each)

    def _read(self, at: TopicPartition, partition: dict[str, Any]) -> None:
        text = f"{at.topic}-{at.partition}"
        if partition["errorCode"] or partition["leaderId"] < 0:
            self.unsettled.append(f"{text} has no leader")
            return
        if set(partition["isrNodes"]) != set(partition["replicaNodes"]):
            self.unsettled.append(f"of {text} only {partition['isrNodes']} are in sync")
        leader = partition["leaderId"]
        start = self._start(at, leader, text)
        self.whole[at] = self._log(at, leader, 0, start, text)
        self.committed[at] = self._log(at, leader, 1, start, text)

    def _start(self, at: TopicPartition, leader: int, text: str) -> int:
        """The first offset that is not deleted."""
        if not self._has_losses:
            return 0
        wanted = {"partitionIndex": at.partition, "timestamp": EARLIEST}
        topic = {"name": at.topic, "partitions": [wanted]}
        told = self._asker.ask("LIST_OFFSETS", 7, {"replicaId": -1, "topics": [topic]}, leader)
        answer = told and told["topics"][0]["partitions"][0]
        if not answer or answer["errorCode"]:
            self.unsettled.append(f"{text} has a leader that does not know its start")
            return 0
        start: int = answer["offset"]
        return start

    def _log(
        self, at: TopicPartition, leader: int, isolation: int, start: int, text: str
    ) -> list[tuple[int, str]]:
        """The records from `start` on; an answer ends with the segment that it begins in."""
        found: list[tuple[int, str]] = []
        offset = start
        while (answer := self._fetch(at, leader, isolation, offset, text)) is not None:
            batches = answer["batches"]
            found += items_of(batches, answer.get("abortedTransactions") or ())
            ends = (each["baseOffset"] + each["lastOffsetDelta"] + 1 for each in batches)
            offset = max(ends, default=offset)
            if not batches or offset >= answer["highWatermark"]:
                break
        return [(offset, name) for offset, name in found if offset >= start]

    def _fetch(
        self, at: TopicPartition, leader: int, isolation: int, offset: int, text: str
    ) -> dict[str, Any] | None:
        wanted = {"partition": at.partition, "fetchOffset": offset, "partitionMaxBytes": 2**30}
        topic = {"topic": at.topic, "partitions": [wanted]}
        body = {"maxBytes": 2**30, "isolationLevel": isolation, "topics": [topic]}
        told = self._asker.ask("FETCH", 12, body, leader)
        if told is None:
            self.unsettled.append(f"{text} has a leader that does not answer")
            return None
        answer: dict[str, Any] = told["responses"][0]["partitions"][0]
        if answer["errorCode"]:
            self.unsettled.append(f"{text} is answered {error_name(answer['errorCode'])}")
            return None
        if answer["lastStableOffset"] < answer["highWatermark"]:
            self.unsettled.append(f"{text} has a transaction that does not end")
        return answer


def settle(clock: Clock, is_done: Callable[[], bool], step_ms: int, patience_ms: int) -> bool:
    """Lets time pass in steps until something holds; whether it does."""
    until = clock.now + patience_ms
    while not is_done():
        if clock.now >= until:
            return False
        clock.run(clock.now + step_ms)
    return True
