"""Rules of the replication observer, with synthetic exchanges of one partition."""

from typing import Any

import msgspec

from brokertwin.state.core.events import RequestHeader
from brokertwin.state.core.kafka_apis import KAFKA_APIS
from brokertwin.state.core.schema import ZERO_UUID
from brokertwin.state.observed.exchanges import ObservedExchange
from brokertwin.state.observed.replicas import PartitionReplicas
from brokertwin.state.observed.replication import RACE_MS, ReplicationObserver

KEYS = {api.name: key for key, api in KAFKA_APIS.items()}
TOPIC = "AAAAAAAAAAAAAAAAAAAABw"
LEADER, CONSUMER = 1, -1


class Cluster:
    """Exchanges of its brokers, one per second; each response is immediate."""

    def __init__(self) -> None:
        self.observer = ReplicationObserver()
        self._time = 0.0

    @property
    def known(self) -> PartitionReplicas:
        return self.observer.partitions[TOPIC, 0]

    def exchange(self, api: str, request: Any, response: Any) -> None:
        self._time += 1000 + RACE_MS
        header = RequestHeader(
            request_api_key=KEYS[api], request_api_version=17, request_api_key_name=api
        )
        bodies = msgspec.json.encode(request), msgspec.json.encode(response)
        place, made = f"log:{self._time}", self._time + 1
        self.observer.observe(
            [ObservedExchange(place, LEADER, self._time, made, False, header, *bodies)]
        )

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

    def fetch(self, follower: int, offset: int, high_watermark: int, **fields: Any) -> None:
        partition = {"partition": 0, "fetchOffset": offset, "currentLeaderEpoch": 0}
        topics = [{"topicId": TOPIC, "partitions": [partition]}]
        request = {"replicaState": {"replicaId": follower}, "topics": topics}
        read = {"partitionIndex": 0, "highWatermark": high_watermark, **fields}
        response = {"responses": [{"topicId": TOPIC, "partitions": [read]}]}
        self.exchange("FETCH", request, response)

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
    cluster.exchange("BROKER_HEARTBEAT", {}, {})
    cluster.fetch(3, 7, 5)
    cluster.fetch(CONSUMER, 0, 7)
    (found,) = cluster.observer.differences
    assert (found.reported, found.derived, found.behind) == (7, 5, {2: 5})


def test_lower_high_watermark_is_explained_by_missing_replicas_only() -> None:
    cluster = replicated()
    cluster.fetch(CONSUMER, 0, 4)
    assert [each.reported for each in cluster.observer.differences] == [4]
    cluster.altered([1, 2], 1)
    cluster.fetch(CONSUMER, 0, 4)
    assert len(cluster.observer.differences) == 1
    assert cluster.known.high_watermark == 4


def test_topic_unknown_to_metadata_has_no_name() -> None:
    cluster = Cluster()
    cluster.metadata([1], topicId=ZERO_UUID)
    cluster.metadata([1], errorCode=29)
    assert not cluster.observer.names
    assert not cluster.observer.partitions
