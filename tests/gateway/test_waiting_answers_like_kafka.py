"""What a group coordinator tells while its follower does not follow: at once, or not until it does.

Two brokers, real ones and ours; the second one is halted. What is written is not committed then,
and answers that have nothing to write wait for it all the same: what they tell may come of it.
"""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from brokerstream.gateway.local_engine import LocalEngine
from tests.support.gateways import Client, running_gateway
from tests.support.kafka_clusters import kafka_cluster
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.schedules import Cluster, OurCluster, RealCluster

pytestmark = pytest.mark.kafka

COORDINATOR, FOLLOWER = 1, 2
SETTINGS = {
    "broker.session.timeout.ms": "120000",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.commit.timeout.ms": "2000",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "2",
    "replica.lag.time.max.ms": "120000",
}
WAITED_S = 1.5
MEMBER = "hDTRH6AnTyGpTnrmLZPtjA"
NOBODY = "3JJIcv_2Rbq0VVpYzQmZSw"
SYNCED = {"groupId": "classic", "generationId": 1, "memberId": "", "assignments": []}

Told = dict[str, Any]


class Groups:
    """One client of a cluster's coordinator."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.told: list[tuple[str, Any, str]] = []
        self._member = ""

    def call(self, api: str, version: int, body: Told) -> Told:
        with Client(self.cluster.address(COORDINATOR), PATIENCE_S) as client:
            return client.call(api, version, body)

    def ask(self, what: str, api: str, version: int, body: Told, *names: str) -> Any:
        """Notes what the answer says, and whether it waited."""
        begin = time.monotonic()
        answer = self.call(api, version, body)
        waited = "waited" if time.monotonic() - begin > WAITED_S else "at once"
        self.told.append((what, _picked(answer, names or ("errorCode",)), waited))
        return answer

    def create(self, name: str, assignment: list[int]) -> None:
        assignments = [{"partitionIndex": 0, "brokerIds": assignment}]
        topic = {"name": name, "numPartitions": -1, "replicationFactor": -1}
        body = {"topics": [{**topic, "assignments": assignments}], "timeoutMs": 30_000}
        assert self.call("CREATE_TOPICS", 7, body)["topics"][0]["errorCode"] == 0

    def beat(self, member: str = MEMBER, epoch: int = 1, **more: Any) -> Told:
        """The body of a consumer group's heartbeat."""
        return {"groupId": "consumer", "memberId": member, "memberEpoch": epoch, **more}

    def begin(self) -> None:
        """Topics, and a group of each protocol that is at rest."""
        self.create("orders", [COORDINATOR, FOLLOWER])
        self.create("__consumer_offsets", [COORDINATOR, FOLLOWER])
        asked = {"keyType": 0, "coordinatorKeys": ["consumer"]}
        wait_until(lambda: _coordinated(self.call("FIND_COORDINATOR", 4, asked)), "a coordinator")
        joins = self.beat(
            epoch=0, rebalanceTimeoutMs=60_000, subscribedTopicNames=["orders"], topicPartitions=[]
        )
        wait_until(lambda: self._joined(joins), "the member has its partition")
        protocols = [{"name": "range", "metadata": b""}]
        body = {"groupId": "classic", "sessionTimeoutMs": 60_000, "rebalanceTimeoutMs": 60_000}
        body |= {"protocolType": "consumer", "protocols": protocols, "memberId": ""}
        self._member = self.call("JOIN_GROUP", 5, body)["memberId"]
        joined = self.call("JOIN_GROUP", 5, {**body, "memberId": self._member})
        assert joined["errorCode"] == 0
        assignments = [{"memberId": self._member, "assignment": b"x"}]
        synced = {**SYNCED, "memberId": self._member, "assignments": assignments}
        assert self.call("SYNC_GROUP", 3, synced)["errorCode"] == 0

    def _joined(self, body: Told) -> bool:
        found = self.call("CONSUMER_GROUP_HEARTBEAT", 0, body)
        assigned = found["assignment"] and found["assignment"]["topicPartitions"]
        if not assigned:
            return False
        self.epoch = found["memberEpoch"]
        owns = self.beat(epoch=self.epoch, topicPartitions=assigned)
        return self.call("CONSUMER_GROUP_HEARTBEAT", 0, owns)["errorCode"] == 0

    def commit(self, group: str, metadata: str = "") -> Told:
        """The body of an OffsetCommit by who is no member."""
        part = {"partitionIndex": 0, "committedOffset": 1, "committedMetadata": metadata}
        topics = [{"name": "orders", "partitions": [part]}]
        return {"groupId": group, "generationIdOrMemberEpoch": -1, "memberId": "", "topics": topics}

    def ask_all(self, when: str) -> None:
        """Each question once."""
        member = {"groupId": "classic", "generationId": 1, "memberId": self._member}
        beat = self.beat(epoch=self.epoch)
        topics = [{"name": "orders", "partitions": [{"partitionIndex": 0}]}]
        fetch = {"groups": [{"groupId": "simple", "topics": None}], "requireStable": False}
        leave = {"groupId": "classic", "members": [{"memberId": "x"}]}
        asked: list[tuple[Any, ...]] = [
            ("consumer heartbeat", "CONSUMER_GROUP_HEARTBEAT", 0, beat),
            ("of nobody", "CONSUMER_GROUP_HEARTBEAT", 0, self.beat(NOBODY, 5)),
            ("of an old epoch", "CONSUMER_GROUP_HEARTBEAT", 0, self.beat(epoch=self.epoch + 7)),
            ("heartbeat", "HEARTBEAT", 4, member),
            ("of nobody", "HEARTBEAT", 4, {**member, "memberId": "x"}),
            ("of an old generation", "HEARTBEAT", 4, {**member, "generationId": 0}),
            ("sync", "SYNC_GROUP", 3, {**SYNCED, "memberId": self._member}),
            ("leave of nobody", "LEAVE_GROUP", 5, leave, "errorCode", "members"),
            ("leave of no group", "LEAVE_GROUP", 5, {**leave, "groupId": "no"}, "errorCode"),
            ("too long", "OFFSET_COMMIT", 8, self.commit("simple", "x" * 5000), "topics"),
            ("none to delete", "OFFSET_DELETE", 0, {"groupId": "classic", "topics": topics}),
            ("no group", "OFFSET_DELETE", 0, {"groupId": "no", "topics": topics}),
            ("delete no group", "DELETE_GROUPS", 2, {"groupsNames": ["no"]}, "results"),
            ("delete a group in use", "DELETE_GROUPS", 2, {"groupsNames": ["classic"]}, "results"),
            ("fetch", "OFFSET_FETCH", 8, fetch, "groups"),
        ]
        for what, *how in asked:
            self.ask(f"{when}: {what}", *how)

    def play(self) -> list[tuple[str, Any, str]]:
        """The whole of it."""
        self.begin()
        self.ask("a commit", "OFFSET_COMMIT", 8, self.commit("simple"), "topics")
        self.ask_all("follows")
        self.cluster.act("halt", FOLLOWER)
        self.ask_all("halted, all is committed")
        self.ask("not committed", "OFFSET_COMMIT", 8, self.commit("simple"), "topics")
        self.ask_all("halted")
        self.cluster.act("rejoin", FOLLOWER)
        self.ask("committed", "OFFSET_COMMIT", 8, self.commit("simple"), "topics")
        self.ask_all("follows again")
        return self.told


def _coordinated(answer: Told) -> bool:
    return bool(answer["coordinators"][0]["errorCode"] == 0)


def _picked(answer: Told, names: tuple[str, ...]) -> Any:
    return {name: answer[name] for name in names}


@pytest.fixture
def clusters(tmp_path: Path) -> Iterator[list[Cluster]]:
    engine_type = partial(LocalEngine, may_intervene=True)
    with (
        kafka_cluster(tmp_path, 2, SETTINGS) as nodes,
        running_gateway(SETTINGS, 2, engine_type=engine_type) as gateway,
    ):
        real = RealCluster(nodes)
        try:
            yield [real, OurCluster(gateway)]
        finally:
            real.free()


def test_who_waits_for_what_was_written_before_is_who_waits_in_kafka(
    clusters: list[Cluster],
) -> None:
    with ThreadPoolExecutor(len(clusters)) as pool:
        real, ours = pool.map(lambda cluster: Groups(cluster).play(), clusters)
    assert ours == real
    assert {waited for what, _, waited in real if what.startswith("halted: ")} == {
        "waited",
        "at once",
    }
