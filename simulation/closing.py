"""The end of a run: nothing befalls the cluster any more, and everything is read once more."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from brokertwin.clients.partitions import TopicPartition
from brokertwin.simulation.clock import VirtualClock
from brokertwin.simulation.cluster import SimulatedCluster
from brokertwin.simulation.record_names import ends_of, items_of
from brokertwin.state.core.errors import Error, error_name
from brokertwin.state.core.kafka_apis import KAFKA_APIS

PATIENCE_MS = 10_000
EARLIEST = -2
DEBUGGING = -2
"""The replica of who may ask followers, too."""

_KEYS = {api.name: key for key, api in KAFKA_APIS.items()}


class LogReader:
    """Asks brokers without a connection, and lets time pass until the answer is there."""

    def __init__(self, cluster: SimulatedCluster, clock: VirtualClock) -> None:
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


def make_topics(
    asker: LogReader, counts: Mapping[str, int], replicas: int, in_sync_min: int
) -> None:
    """The topics of a run, each with so many partitions."""
    configs = [{"name": "min.insync.replicas", "value": str(in_sync_min)}]
    sizes = {"replicationFactor": replicas, "configs": configs}
    topics = [{"name": name, "numPartitions": count, **sizes} for name, count in counts.items()]
    answer = asker.ask("CREATE_TOPICS", 7, {"topics": topics, "timeoutMs": 10_000})
    codes = [each["errorCode"] for each in answer["topics"]]
    assert codes == [Error.NONE] * len(topics), answer


class FinalLogs:
    """What the logs have in the end.

    Attributes:
        whole: all records of each partition.
        committed: those that read_committed sees.
        unsettled: what is not as it should be in a cluster that all are back in; in words.
        followed: how many logs of followers have been read.
    """

    def __init__(self, asker: LogReader, topics: Iterable[str], has_losses: bool) -> None:
        self._has_losses = has_losses
        self.whole: dict[TopicPartition, list[tuple[int, str]]] = {}
        self.committed: dict[TopicPartition, list[tuple[int, str]]] = {}
        self.unsettled: list[str] = []
        self.followed = 0
        self._asker = asker
        self._starts: dict[TopicPartition, int] = {}
        self._followers: dict[int, list[TopicPartition]] = defaultdict(list)
        self._high_watermarks: dict[TopicPartition, int] = {}
        body = {"topics": [{"name": name} for name in topics]}
        told = asker.ask("METADATA", 9, body)
        if told is None:
            self.unsettled.append("broker 1 does not answer")
        for topic in told["topics"] if told is not None else ():
            for each in topic["partitions"]:
                self._read(TopicPartition(topic["name"], each["partitionIndex"]), each)
        for broker, places in self._followers.items():
            if not self.unsettled:
                self._hold_follower(broker, places)

    def _read(self, at: TopicPartition, partition: dict[str, Any]) -> None:
        text = f"{at.topic}-{at.partition}"
        if partition["errorCode"] or partition["leaderId"] < 0:
            self.unsettled.append(f"{text} has no leader")
            return
        if set(partition["isrNodes"]) != set(partition["replicaNodes"]):
            self.unsettled.append(f"of {text} only {partition['isrNodes']} are in sync")
        leader = partition["leaderId"]
        start = self._starts[at] = self._starts_on(leader, [at]).get(at, 0)
        self.whole[at] = self._log(at, leader, 0, start, text)
        self.committed[at] = self._log(at, leader, 1, start, text)
        for broker in partition["isrNodes"]:
            if broker != leader:
                self._followers[broker].append(at)

    def _starts_on(
        self, broker: int, places: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """The first offsets that are not deleted on a broker, which may follow."""
        if not self._has_losses:
            return dict.fromkeys(places, 0)
        topics = [
            {
                "name": at.topic,
                "partitions": [{"partitionIndex": at.partition, "timestamp": EARLIEST}],
            }
            for at in places
        ]
        told = self._asker.ask(
            "LIST_OFFSETS", 7, {"replicaId": DEBUGGING, "topics": topics}, broker
        )
        found = {}
        for topic in told["topics"] if told is not None else ():
            for answer in topic["partitions"]:
                at = TopicPartition(topic["name"], answer["partitionIndex"])
                if not answer["errorCode"]:
                    found[at] = answer["offset"]
        for at in places:
            if at not in found:
                text = f"{at.topic}-{at.partition} has a broker {broker}"
                self.unsettled.append(f"{text} that does not know its start")
        return found

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
        self._high_watermarks[at] = answer["highWatermark"]
        return answer

    def _hold_follower(self, broker: int, places: list[TopicPartition]) -> None:
        """A follower that is in sync has what its leader has, up to the same high watermark."""
        starts = self._starts_on(broker, places)
        if self.unsettled:
            return
        found: dict[TopicPartition, list[tuple[int, str]]] = {at: [] for at in places}
        offsets = dict(starts)
        while offsets:
            read = self._fetch_all(broker, offsets)
            if read is None:
                return
            for at, answer in read.items():
                found[at] += items_of(answer["batches"], ())
                end, _ = ends_of(answer["batches"]) if answer["batches"] else (-1, [])
                offsets[at] = max(end, offsets[at])
                if end < 0 or end >= answer["highWatermark"]:
                    del offsets[at]
        self.followed += len(places)
        for at, log in found.items():
            text = f"{at.topic}-{at.partition} on broker {broker}"
            if starts[at] < self._starts[at]:
                self.unsettled.append(f"{text} has not heard that the log begins later")
            here = [each for each in log if each[0] >= starts[at]]
            there = [each for each in self.whole[at] if each[0] >= starts[at]]
            if here != there:
                odd = sorted(set(here) ^ set(there))[:5]
                self.unsettled.append(f"{text} is another log than the leader's: {odd}")

    def _fetch_all(
        self, broker: int, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, dict[str, Any]] | None:
        """What a broker answers of some partitions, each from an offset on; None: not all."""
        topics = [
            {
                "topic": at.topic,
                "partitions": [
                    {
                        "partition": at.partition,
                        "fetchOffset": offset,
                        "partitionMaxBytes": 2**30,
                    }
                ],
            }
            for at, offset in offsets.items()
        ]
        told = self._asker.ask("FETCH", 12, {"maxBytes": 2**30, "topics": topics}, broker)
        if told is None:
            self.unsettled.append(f"broker {broker} does not answer who reads from followers")
            return None
        found = {}
        for topic in told["responses"]:
            for answer in topic["partitions"]:
                at = TopicPartition(topic["topic"], answer["partitionIndex"])
                text = f"{at.topic}-{at.partition} on broker {broker}"
                if answer["errorCode"]:
                    self.unsettled.append(f"{text} is answered {error_name(answer['errorCode'])}")
                elif answer["highWatermark"] != self._high_watermarks[at]:
                    where = f"{answer['highWatermark']}, not at {self._high_watermarks[at]}"
                    self.unsettled.append(f"{text} has its high watermark at {where}")
                found[at] = answer
        return None if self.unsettled else found


def settle(
    clock: VirtualClock, is_done: Callable[[], bool], step_ms: int, patience_ms: int
) -> bool:
    """Lets time pass in steps until something holds; whether it does."""
    until = clock.now + patience_ms
    while not is_done():
        if clock.now >= until:
            return False
        clock.run(clock.now + step_ms)
    return True
