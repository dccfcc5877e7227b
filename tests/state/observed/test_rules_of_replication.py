"""Replication observed, rule by rule: exchanges of one partition that nobody has recorded."""

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
    """What its brokers are asked and answer, a second apart; each answer is made at once."""

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
        told = {"topicId": TOPIC, "name": "orders", "partitions": [shown], **topic}
        self.exchange("METADATA", {}, {"topics": [told]})

    def fetch(self, follower: int, offset: int, high_watermark: int, **told: Any) -> None:
        partition = {"partition": 0, "fetchOffset": offset, "currentLeaderEpoch": 0}
        topics = [{"topicId": TOPIC, "partitions": [partition]}]
        asked = {"replicaState": {"replicaId": follower}, "topics": topics}
        read = {"partitionIndex": 0, "highWatermark": high_watermark, **told}
        response = {"responses": [{"topicId": TOPIC, "partitions": [read]}]}
        self.exchange("FETCH", asked, response)

    def altered(self, isr: list[int], partition_epoch: int, **more: Any) -> None:
        told = {"partitionIndex": 0, "leaderId": LEADER, "leaderEpoch": 0, "isr": isr}
        told |= {"partitionEpoch": partition_epoch, **more}
        response = {"topics": [{"topicId": TOPIC, "partitions": [told]}]}
        self.exchange("ALTER_PARTITION", {"brokerId": LEADER}, response)


def replicated() -> Cluster:
    """Five records that all three replicas have, and a high watermark that was told."""
    cluster = Cluster()
    cluster.metadata([1, 2, 3])
    for follower in (2, 3):
        cluster.fetch(follower, 5, 5)
    assert (cluster.known.high_watermark, cluster.known.is_assumed) == (5, False)
    return cluster


def test_a_follower_that_has_diverged_does_not_have_what_it_fetches_from() -> None:
    cluster = replicated()
    diverging = {"epoch": 0, "endOffset": 4}
    cluster.fetch(2, 9, -1, divergingEpoch=diverging)
    assert cluster.known.ends[2] == 5
    cluster.fetch(2, 9, -1, errorCode=1)
    assert cluster.known.ends[2] == 5
    cluster.fetch(2, 9, 5)
    assert cluster.known.ends[2] == 9


def test_an_answer_of_a_former_partition_epoch_changes_no_in_sync_set() -> None:
    cluster = replicated()
    cluster.altered([1, 2], 7)
    assert cluster.known.isr == [1, 2]
    for late in (6, 7):
        cluster.altered([1, 2, 3], late)
    cluster.altered([1, 2, 3], 8, errorCode=6)
    assert (cluster.known.isr, cluster.known.partition_epoch) == ([1, 2], 7)
    cluster.altered([1, 2, 3], 8)
    assert (cluster.known.isr, cluster.known.partition_epoch) == ([1, 2, 3], 8)


def test_a_difference_names_who_has_not_shown_that_much() -> None:
    cluster = replicated()
    cluster.exchange("BROKER_HEARTBEAT", {}, {})
    cluster.fetch(3, 7, 5)
    cluster.fetch(CONSUMER, 0, 7)
    (found,) = cluster.observer.differences
    assert (found.told, found.derived, found.behind) == (7, 5, {2: 5})


def test_a_lower_high_watermark_may_be_for_want_of_replicas_and_not_where_all_are_in_sync() -> None:
    cluster = replicated()
    cluster.fetch(CONSUMER, 0, 4)
    assert [each.told for each in cluster.observer.differences] == [4]
    cluster.altered([1, 2], 1)
    cluster.fetch(CONSUMER, 0, 4)
    assert len(cluster.observer.differences) == 1
    assert cluster.known.high_watermark == 4


def test_a_topic_that_metadata_knows_nothing_of_gets_no_name() -> None:
    cluster = Cluster()
    cluster.metadata([1], topicId=ZERO_UUID)
    cluster.metadata([1], errorCode=29)
    assert not cluster.observer.names
    assert not cluster.observer.partitions
