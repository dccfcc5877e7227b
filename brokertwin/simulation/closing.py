"""The end of a run, without faults: all logs are read."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from brokertwin.clients.partitions import TopicPartition
from brokertwin.protocol.errors import Error, error_name
from brokertwin.simulation.clock import VirtualClock
from brokertwin.simulation.cluster import SimulatedCluster
from brokertwin.simulation.record_names import ends_of, items_of

PATIENCE_MS = 10_000
EARLIEST = -2
DEBUGGING = -2
"""Replica id that may also read from followers."""


class LogReader:
    """Sends requests without a connection and waits for responses."""

    def __init__(self, cluster: SimulatedCluster, clock: VirtualClock) -> None:
        self._cluster = cluster
        self._clock = clock

    def request(self, api: str, version: int, body: dict[str, Any], broker: int = 1) -> Any:
        """Send a request; return the response body, or None without a response."""
        found: list[dict[str, Any]] = []
        self._cluster.call("reader", api, version, body, broker, found.append)
        self._clock.run_until(lambda: bool(found), PATIENCE_MS)
        return found[0].get("response") if found else None


def make_topics(
    reader: LogReader, counts: Mapping[str, int], replicas: int, in_sync_min: int
) -> None:
    configs = [{"name": "min.insync.replicas", "value": str(in_sync_min)}]
    sizes = {"replicationFactor": replicas, "configs": configs}
    topics = [{"name": name, "numPartitions": count, **sizes} for name, count in counts.items()]
    partition_data = reader.request("CREATE_TOPICS", 7, {"topics": topics, "timeoutMs": 10_000})
    codes = [each["errorCode"] for each in partition_data["topics"]]
    assert codes == [Error.NONE] * len(topics), partition_data


class FinalLogs:
    """Content of the logs at the end.

    Attributes:
        whole: all records of each partition.
        committed: records visible with read_committed.
        unsettled: descriptions of faults of a cluster with all brokers back.
        followed: number of follower logs that were read.
    """

    def __init__(self, reader: LogReader, topics: Iterable[str], has_losses: bool) -> None:
        self._has_losses = has_losses
        self.whole: dict[TopicPartition, list[tuple[int, str]]] = {}
        self.committed: dict[TopicPartition, list[tuple[int, str]]] = {}
        self.unsettled: list[str] = []
        self.followed = 0
        self._reader = reader
        self._starts: dict[TopicPartition, int] = {}
        self._followers: dict[int, list[TopicPartition]] = defaultdict(list)
        self._high_watermarks: dict[TopicPartition, int] = {}
        body = {"topics": [{"name": name} for name in topics]}
        response = reader.request("METADATA", 9, body)
        if response is None:
            self.unsettled.append("broker 1 does not respond")
        for topic in response["topics"] if response is not None else ():
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
        """Return the log start offsets on a broker, leader or follower."""
        if not self._has_losses:
            return dict.fromkeys(places, 0)
        topics: list[dict[str, Any]] = []
        for at in places:
            requested = {"partitionIndex": at.partition, "timestamp": EARLIEST}
            topics.append({"name": at.topic, "partitions": [requested]})
        body = {"replicaId": DEBUGGING, "topics": topics}
        response = self._reader.request("LIST_OFFSETS", 7, body, broker)
        starts = {}
        for topic in response["topics"] if response is not None else ():
            for partition_data in topic["partitions"]:
                at = TopicPartition(topic["name"], partition_data["partitionIndex"])
                if not partition_data["errorCode"]:
                    starts[at] = partition_data["offset"]
        for at in places:
            if at not in starts:
                text = f"{at.topic}-{at.partition} has a broker {broker}"
                self.unsettled.append(f"{text} that does not know its start")
        return starts

    def _log(
        self, at: TopicPartition, leader: int, isolation: int, start: int, text: str
    ) -> list[tuple[int, str]]:
        """Read the records from `start`; a response ends with a segment."""
        records: list[tuple[int, str]] = []
        offset = start
        while (partition_data := self._fetch(at, leader, isolation, offset, text)) is not None:
            batches = partition_data["batches"]
            records += items_of(batches, partition_data.get("abortedTransactions") or ())
            ends = (each["baseOffset"] + each["lastOffsetDelta"] + 1 for each in batches)
            offset = max(ends, default=offset)
            if not batches or offset >= partition_data["highWatermark"]:
                break
        return [(offset, name) for offset, name in records if offset >= start]

    def _fetch(
        self, at: TopicPartition, leader: int, isolation: int, offset: int, text: str
    ) -> dict[str, Any] | None:
        response = self._reader.request("FETCH", 12, _fetch_body({at: offset}, isolation), leader)
        if response is None:
            self.unsettled.append(f"{text} has a leader that does not respond")
            return None
        partition_data: dict[str, Any] = response["responses"][0]["partitions"][0]
        if partition_data["errorCode"]:
            self.unsettled.append(f"{text} returns {error_name(partition_data['errorCode'])}")
            return None
        if partition_data["lastStableOffset"] < partition_data["highWatermark"]:
            self.unsettled.append(f"{text} has a transaction that does not end")
        self._high_watermarks[at] = partition_data["highWatermark"]
        return partition_data

    def _hold_follower(self, broker: int, places: list[TopicPartition]) -> None:
        """Compare in-sync followers with their leaders, up to the same high watermark."""
        starts = self._starts_on(broker, places)
        if self.unsettled:
            return
        followed: dict[TopicPartition, list[tuple[int, str]]] = {at: [] for at in places}
        offsets = dict(starts)
        while offsets:
            read = self._fetch_all(broker, offsets)
            if read is None:
                return
            for at, partition_data in read.items():
                followed[at] += items_of(partition_data["batches"], ())
                end = ends_of(partition_data["batches"])[0] if partition_data["batches"] else -1
                offsets[at] = max(end, offsets[at])
                if end < 0 or end >= partition_data["highWatermark"]:
                    del offsets[at]
        self.followed += len(places)
        for at, log in followed.items():
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
        """Fetch partitions from a broker, each from an offset; None if one fails."""
        response = self._reader.request("FETCH", 12, _fetch_body(offsets), broker)
        if response is None:
            self.unsettled.append(f"broker {broker} does not respond to a fetch from a follower")
            return None
        found = {}
        for topic in response["responses"]:
            for partition_data in topic["partitions"]:
                at = TopicPartition(topic["topic"], partition_data["partitionIndex"])
                text = f"{at.topic}-{at.partition} on broker {broker}"
                if error := partition_data["errorCode"]:
                    self.unsettled.append(f"{text} returns {error_name(error)}")
                elif partition_data["highWatermark"] != self._high_watermarks[at]:
                    where = f"{partition_data['highWatermark']}, not at {self._high_watermarks[at]}"
                    self.unsettled.append(f"{text} has its high watermark at {where}")
                found[at] = partition_data
        return None if self.unsettled else found


def _fetch_body(offsets: Mapping[TopicPartition, int], isolation: int = 0) -> dict[str, Any]:
    topics: list[dict[str, Any]] = []
    for at, offset in offsets.items():
        partition_body = {
            "partition": at.partition,
            "fetchOffset": offset,
            "partitionMaxBytes": 2**30,
        }
        topics.append({"topic": at.topic, "partitions": [partition_body]})
    return {"maxBytes": 2**30, "isolationLevel": isolation, "topics": topics}


def settle(
    clock: VirtualClock, is_done: Callable[[], bool], step_ms: int, patience_ms: int
) -> bool:
    """Advance time in steps until a condition holds; return whether it does."""
    until = clock.now + patience_ms
    while not is_done():
        if clock.now >= until:
            return False
        clock.run(clock.now + step_ms)
    return True
