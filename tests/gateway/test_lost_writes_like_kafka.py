"""Pending requests of a deleted internal topic, compared with a real cluster.

The second of two brokers is halted, so that no write is committed. Then the topics are deleted and
created again.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from brokertwin.protocol.frames import decode_response
from brokertwin.protocol.kafka_apis import API_KEYS as KEYS
from brokertwin.state.cluster.coordinators import GROUP_TOPIC, SHARE_TOPIC, TRANSACTION_TOPIC
from tests.support.gateways import Client
from tests.support.goldens import golden, source_of
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.schedules import Cluster, OurCluster, our_cluster, real_cluster
from tests.support.settled import settle

COORDINATOR, FOLLOWER = 1, 2
LONG_MS = "120000"
SETTINGS = {
    "broker.session.timeout.ms": LONG_MS,
    "group.initial.rebalance.delay.ms": "0",
    "offsets.commit.timeout.ms": LONG_MS,
    "offsets.topic.num.partitions": "1",
    "replica.lag.time.max.ms": LONG_MS,
    "request.timeout.ms": LONG_MS,
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.write.timeout.ms": LONG_MS,
    "transaction.state.log.num.partitions": "1",
}
INTERNAL = (GROUP_TOPIC, TRANSACTION_TOPIC, SHARE_TOPIC)
REAL_SILENCE_S, OUR_SILENCE_S = 0.7, 0.02
"""Silence that proves a request pending; ours would respond at once."""

MEMBER = "hDTRH6AnTyGpTnrmLZPtjA"

Told = dict[str, Any]


def errors(response: Any) -> list[int]:
    """Return the errors of a response, top-level ones first."""
    if isinstance(response, list):
        return [each for part in response for each in errors(part)]
    if not isinstance(response, dict):
        return []
    own = [each for name, each in response.items() if name.endswith("rrorCode")]
    return own + [each for part in response.values() for each in errors(part)]


class Waiting:
    """Pending requests at a cluster's coordinator."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._sent: list[tuple[str, int, Client]] = []
        self.told: list[tuple[str, Told]] = []

    def call(self, api: str, version: int, body: Told) -> Told:
        with Client(self._cluster.address(COORDINATOR), PATIENCE_S) as client:
            return client.call(api, version, body)

    def send(self, api: str, version: int, body: Told) -> None:
        """Send on a new connection, and check that no response comes for a while."""
        client = Client(self._cluster.address(COORDINATOR), PATIENCE_S)
        client.send(api, version, body)
        silence_s = OUR_SILENCE_S if isinstance(self._cluster, OurCluster) else REAL_SILENCE_S
        if not client.is_silent(silence_s):
            told = decode_response(KEYS[api], version, client.receive())[1]
            raise AssertionError(f"{api} of {type(self._cluster).__name__} does not wait: {told}")
        self._sent.append((api, version, client))

    def create(self, name: str) -> str:
        assignments = [{"partitionIndex": 0, "brokerIds": [COORDINATOR, FOLLOWER]}]
        topic = {"name": name, "numPartitions": -1, "replicationFactor": -1}
        topics = [{**topic, "assignments": assignments}]
        (created,) = self.call("CREATE_TOPICS", 7, topics=topics, timeoutMs=30000)["topics"]
        assert created["errorCode"] == 0
        return str(created["topicId"])

    def until_told(self, api: str, version: int, body: Told, accepted: int = 0) -> Told:
        found: list[Told] = []

        def is_told() -> bool:
            found.append(self.call(api, version, body))
            return set(errors(found[-1])) <= {0, accepted}

        wait_until(is_told, api)
        return found[-1]

    def begin(self) -> None:
        """Create the topics, their coordinators, a member and a transactional id."""
        self.orders = self.create("orders")
        for name in INTERNAL:
            self.create(name)
        keys = {0: "group", 1: "writer", 2: f"shares:{self.orders}:0"}
        for key_type, key in keys.items():
            asked = {"keyType": key_type, "coordinatorKeys": [key]}
            self.until_told("FIND_COORDINATOR", 6, asked)
        self.until_told("OFFSET_COMMIT", 8, self.commit("before"))
        joins = {"rebalanceTimeoutMs": 60_000, "subscribedTopicNames": ["orders"]}
        joined = self.until_told("CONSUMER_GROUP_HEARTBEAT", 0, self.beat(0, **joins))
        self.epoch = joined["memberEpoch"]
        self.holder = self.until_told("INIT_PRODUCER_ID", 4, self.init("writer"))
        self.until_told("INITIALIZE_SHARE_GROUP_STATE", 0, self.state(0, startOffset=0))

    def beat(self, epoch: int, **of: Any) -> Told:
        body = {"groupId": "consumer", "memberId": MEMBER, "memberEpoch": epoch}
        return {**body, "topicPartitions": [], **of}

    def commit(self, group: str) -> Told:
        part = {"partitionIndex": 0, "committedOffset": 1, "committedMetadata": ""}
        topics = [{"name": "orders", "partitions": [part]}]
        return {"groupId": group, "generationIdOrMemberEpoch": -1, "memberId": "", "topics": topics}

    def init(self, name: str) -> Told:
        return {"transactionalId": name, "transactionTimeoutMs": 60_000}

    def state(self, epoch: int, **of: Any) -> Told:
        partition = {"partition": 0, "stateEpoch": epoch, **of}
        topics = [{"topicId": self.orders, "partitions": [partition]}]
        return {"groupId": "shares", "topics": topics}

    def wait_for_transactions(self) -> None:
        holder = {name: self.holder[name] for name in ("producerId", "producerEpoch")}
        named = {f"v3AndBelow{k[0].upper()}{k[1:]}": v for k, v in holder.items()}
        named["v3AndBelowTransactionalId"] = "writer"
        named["v3AndBelowTopics"] = [{"name": "orders", "partitions": [0]}]
        self.send("INIT_PRODUCER_ID", 4, self.init("other"))
        self.send("ADD_PARTITIONS_TO_TXN", 3, named)

    def wait_for_shares(self) -> None:
        written = {"leaderEpoch": 0, "startOffset": 1, "stateBatches": []}
        self.send("WRITE_SHARE_GROUP_STATE", 0, self.state(0, **written))
        self.send("INITIALIZE_SHARE_GROUP_STATE", 0, self.state(1, startOffset=5))

    def wait_for_groups(self) -> None:
        join = {"groupId": "classic", "sessionTimeoutMs": 30_000, "rebalanceTimeoutMs": 30_000}
        join |= {"protocolType": "consumer", "protocols": [{"name": "range", "metadata": b""}]}
        self.send("OFFSET_COMMIT", 8, self.commit("simple"))
        self.send("CONSUMER_GROUP_HEARTBEAT", 0, self.beat(self.epoch))
        member = self.call("JOIN_GROUP", 3, join | {"memberId": ""})["memberId"]
        assigned = [{"memberId": member, "assignment": b""}]
        sync = {"groupId": "classic", "generationId": 1, "memberId": member}
        self.send("SYNC_GROUP", 3, sync | {"assignments": assigned})
        leave = {"groupId": "simple", "members": [{"memberId": "nobody"}]}
        self.send("LEAVE_GROUP", 5, leave)
        self.send("DELETE_GROUPS", 2, {"groupsNames": ["before"]})

    def lose(self, topic: str) -> None:
        """Delete the topic, and return the responses to the pending requests."""
        gone = self.call("DELETE_TOPICS", 5, {"topicNames": [topic], "timeoutMs": 30_000})
        assert errors(gone) == [0], topic
        for api, version, client in self._sent:
            assert not client.is_silent(20), f"{api} waits on"
            response = json.dumps(decode_response(KEYS[api], version, client.receive())[1])
            self.told.append((api, json.loads(response.replace(self.orders, "orders"))))
            client.close()
        self._sent.clear()

    def play(self) -> list[tuple[str, Told]]:
        """Play the whole scenario.

        After a deletion a real broker stops applying metadata until its groups' followers follow.
        """
        self.begin()
        lost = {
            TRANSACTION_TOPIC: self.wait_for_transactions,
            SHARE_TOPIC: self.wait_for_shares,
            GROUP_TOPIC: self.wait_for_groups,
        }
        for topic, wait in lost.items():
            self.until_told("OFFSET_COMMIT", 8, self.commit("before"))
            with Client(self._cluster.address(COORDINATOR), PATIENCE_S) as client:
                settle(client)
            self._cluster.act("halt", FOLLOWER)
            wait()
            self.lose(topic)
            self._cluster.act("rejoin", FOLLOWER)
        return self.told


def recorded(home: Path) -> list[tuple[str, Told]]:
    with real_cluster(home, 2, SETTINGS) as cluster:
        return Waiting(cluster).play()


@pytest.mark.compares
def test_pending_requests_of_a_deleted_topic_fail_as_at_a_real_cluster(tmp_path: Path) -> None:
    theirs = golden(
        "coordinators/lost_writes",
        lambda: recorded(tmp_path),
        scenario=source_of(Waiting),
        settings=SETTINGS,
    )
    with our_cluster(2, SETTINGS) as cluster:
        ours = Waiting(cluster).play()
    for real, own in zip(theirs, ours, strict=True):
        assert own == real
