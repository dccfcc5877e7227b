"""Rules of replication, with synthetic exchanges of one partition."""

from typing import Any

from brokertwin.recordings.history.exchange import RecordedExchange, RecordedRequest
from brokertwin.recordings.history.partition_moments import RACE_MS
from brokertwin.recordings.history.replicas import PartitionReplicas
from brokertwin.recordings.observed.watching import ObservedReplication
from brokertwin.state.core.schema import ZERO_UUID

TOPIC = "AAAAAAAAAAAAAAAAAAAABw"
LEADER, CONSUMER, CONTROLLER = 1, -1, 100


class Cluster:
    """Exchanges of its brokers, one per second; each response is immediate."""

    def __init__(self) -> None:
        self._exchanges: list[RecordedExchange] = []
        self.time = 0.0

    @property
    def found(self) -> ObservedReplication:
        return ObservedReplication(self._exchanges)

    @property
    def known(self) -> PartitionReplicas:
        return self.found.partitions["orders-0"].known

    def exchange(
        self, api: str, request: Any, response: Any, broker: int = LEADER, **stages: Any
    ) -> None:
        self.time += stages.pop("after", 1000 + RACE_MS)
        line = RecordedRequest(
            place=f"log:{len(self._exchanges)}",
            time=int(self.time),
            end=int(self.time) + 1,
            broker=broker,
            client="c",
            host="",
            connection=stages.pop("connection", "c"),
            api=api,
            version=17,
        )
        times = {"taken": self.time, "made": self.time + 1, **stages}
        self._exchanges.append(RecordedExchange(line, request, response, **times))

    def heartbeat(self, broker: int, **fields: Any) -> None:
        self.exchange("BROKER_HEARTBEAT", {"brokerId": broker, **fields}, {}, CONTROLLER, after=1)

    def metadata(self, isr: list[int], **topic: Any) -> None:
        shown = {
            "partitionIndex": 0,
            "leaderId": LEADER,
            "leaderEpoch": 0,
            "replicaNodes": [1, 2, 3],
            "isrNodes": isr,
        }
        fields = {"topicId": TOPIC, "name": "orders", "partitions": [shown], **topic}
        self.exchange("METADATA", {}, {"topics": [fields]})

    def fetch(
        self,
        follower: int,
        offset: int,
        high_watermark: int,
        stages: dict[str, Any] | None = None,
        **fields: Any,
    ) -> None:
        partition = {"partition": 0, "fetchOffset": offset, "currentLeaderEpoch": 0}
        topics = [{"topicId": TOPIC, "partitions": [partition]}]
        request = {"replicaState": {"replicaId": follower}, "topics": topics}
        read = {"partitionIndex": 0, "highWatermark": high_watermark, **fields}
        response = {"responses": [{"topicId": TOPIC, "partitions": [read]}]}
        self.exchange("FETCH", request, response, **(stages or {}))

    def altered(self, isr: list[int], partition_epoch: int, **more: Any) -> None:
        fields = {"partitionIndex": 0, "leaderId": LEADER, "leaderEpoch": 0, "isr": isr}
        fields |= {"partitionEpoch": partition_epoch, **more}
        response = {"topics": [{"topicId": TOPIC, "partitions": [fields]}]}
        self.exchange("ALTER_PARTITION", {"brokerId": LEADER}, response)


def replicated() -> Cluster:
    """Five records on all three replicas, and a reported high watermark."""
    cluster = Cluster()
    cluster.metadata([1, 2, 3])
    for follower in (2, 3):
        cluster.fetch(follower, 5, 5)
    assert (cluster.known.high_watermark, cluster.known.is_assumed) == (5, False)
    return cluster


def test_diverged_follower_is_not_credited_with_its_fetch_offset() -> None:
    cluster = replicated()
    diverging = {"epoch": 0, "endOffset": 4}
    cluster.fetch(2, 9, -1, divergingEpoch=diverging)
    assert cluster.known.ends[2] == 5
    cluster.fetch(2, 9, -1, errorCode=1)
    assert cluster.known.ends[2] == 5
    cluster.fetch(2, 9, 5)
    assert cluster.known.ends[2] == 9


def test_response_of_a_former_partition_epoch_does_not_change_the_in_sync_set() -> None:
    cluster = replicated()
    cluster.altered([1, 2], 7)
    assert cluster.known.isr == [1, 2]
    for late in (6, 7):
        cluster.altered([1, 2, 3], late)
    cluster.altered([1, 2, 3], 8, errorCode=6)
    assert (cluster.known.isr, cluster.known.partition_epoch) == ([1, 2], 7)
    cluster.altered([1, 2, 3], 8)
    assert (cluster.known.isr, cluster.known.partition_epoch) == ([1, 2, 3], 8)


def test_difference_has_the_lagging_followers() -> None:
    cluster = replicated()
    cluster.heartbeat(LEADER)
    cluster.fetch(3, 7, 5)
    cluster.fetch(CONSUMER, 0, 7)
    (found,) = cluster.found.differences
    assert (found.reported, found.derived, found.behind) == (7, 5, {2: 5})


def test_lower_high_watermark_is_explained_by_missing_replicas_only() -> None:
    cluster = replicated()
    cluster.fetch(CONSUMER, 0, 4)
    assert [each.reported for each in cluster.found.differences] == [4]
    cluster.altered([1, 2], 1)
    cluster.fetch(CONSUMER, 0, 4)
    assert len(cluster.found.differences) == 1
    assert cluster.known.high_watermark == 4


def test_topic_unknown_to_metadata_has_no_name() -> None:
    cluster = Cluster()
    cluster.metadata([1], topicId=ZERO_UUID)
    cluster.metadata([1], errorCode=29)
    assert not cluster.found.partitions
