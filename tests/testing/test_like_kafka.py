"""A partition that moves: a real Kafka of two brokers and the test double answer alike."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from support.gateways import Client

from brokerstream.gateway.answers import Address
from brokerstream.testing import KafkaBroker
from tests.support.batches import batch
from tests.support.kafka_clusters import kafka_cluster

TOPIC = "moving"
PATIENCE_S = 30
Clients = Mapping[int, Client]
Move = Callable[[int], None]
Answers = dict[str, Any]


def clients_of(addresses: Mapping[int, str]) -> Clients:
    found = {}
    for broker, address in addresses.items():
        host, port = address.rsplit(":", 1)
        found[broker] = Client(Address(host, int(port)))
    return found


def create_on(client: Client, broker: int) -> None:
    assignments = [{"partitionIndex": 0, "brokerIds": [broker]}]
    topic = {"name": TOPIC, "numPartitions": -1, "replicationFactor": -1, "configs": []}
    body = {"topics": [{**topic, "assignments": assignments}], "timeoutMs": 30_000}
    (created,) = client.call("CREATE_TOPICS", 7, body)["topics"]
    assert created["errorCode"] == 0, created


def until_led_by(clients: Clients, leader: int) -> dict[str, Any]:
    """The partition as every broker tells it once they agree on its leader."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        told = []
        for client in clients.values():
            (topic,) = client.call("METADATA", 12, {"topics": [{"name": TOPIC}]})["topics"]
            told.append(topic["partitions"][0] if topic["partitions"] else {"leaderId": -1})
        if all(partition["leaderId"] == leader for partition in told):
            return dict(told[0])
        assert time.monotonic() < deadline, told
        time.sleep(0.05)


def produce(client: Client, value: bytes, version: int = 10) -> dict[str, Any]:
    data = [{"index": 0, "records": batch(value)}]
    body = {"acks": -1, "timeoutMs": 5000, "topicData": [{"name": TOPIC, "partitionData": data}]}
    answer = client.call("PRODUCE", version, body)
    (partition,) = answer["responses"][0]["partitionResponses"]
    named = ("errorCode", "baseOffset", "currentLeader")
    return {name: partition[name] for name in named if name in partition}


def fetch(client: Client, offset: int, **wanted: int) -> list[dict[str, Any]]:
    """What Fetch answers before and after it tells leaders (KIP-951)."""
    (topic,) = client.call("METADATA", 12, {"topics": [{"name": TOPIC}]})["topics"]
    partition = {"partition": 0, "fetchOffset": offset, "partitionMaxBytes": 1000, **wanted}
    topics = [{"topic": TOPIC, "topicId": topic["topicId"], "partitions": [partition]}]
    body = {"maxBytes": 10_000, "minBytes": 1, "sessionEpoch": -1, "topics": topics}
    named = ("errorCode", "highWatermark", "currentLeader", "divergingEpoch")
    answers = [client.call("FETCH", version, body) for version in (12, 15, 16)]
    found = [answer["responses"][0]["partitions"][0] for answer in answers]
    return [{name: each[name] for name in named if name in each} for each in found]


def end_of(client: Client, epoch: int) -> tuple[int, int, int]:
    body = {"topics": [{"topic": TOPIC, "partitions": [{"partition": 0, "leaderEpoch": epoch}]}]}
    answer = client.call("OFFSET_FOR_LEADER_EPOCH", 4, {"replicaId": -2, **body})
    (found,) = answer["topics"][0]["partitions"]
    return found["errorCode"], found["leaderEpoch"], found["endOffset"]


def play(clients: Clients, move: Move) -> Answers:
    """Records in three leader epochs, one of them without any, and everybody's answers."""
    create_on(clients[1], 1)
    until_led_by(clients, 1)
    answers: Answers = {"first": [produce(clients[1], b"%d" % n) for n in range(2)]}
    for step, leader in enumerate((2, 1, 2), 1):
        move(leader)
        told = until_led_by(clients, leader)
        answers[f"metadata {step}"] = {
            name: told[name] for name in ("leaderId", "leaderEpoch", "replicaNodes", "isrNodes")
        }
        other = clients[3 - leader]
        answers[f"refused {step}"] = [*(produce(other, b"x", v) for v in (9, 10)), fetch(other, 0)]
        if step != 2:
            answers[f"written {step}"] = produce(clients[leader], b"%d" % step)
    leader_client = clients[2]
    answers["ends"] = {epoch: end_of(leader_client, epoch) for epoch in range(-1, 6)}
    answers["end elsewhere"] = end_of(clients[1], 0)
    for epoch in range(5):
        answers[f"current epoch {epoch}"] = fetch(leader_client, 0, currentLeaderEpoch=epoch)
        answers[f"last epoch {epoch}"] = fetch(leader_client, 3, lastFetchedEpoch=epoch)
    return answers


def in_the_double() -> Answers:
    with KafkaBroker(brokers=2) as broker:
        addresses = dict(enumerate(broker.bootstrap_servers, 1))
        return play(clients_of(addresses), lambda leader: moved(broker, leader))


def moved(broker: KafkaBroker, leader: int) -> None:
    broker.move_leader(TOPIC, to=leader)


def reassign(client: Client, leader: int) -> None:
    """Have a real controller move the partition."""
    partition = {"partitionIndex": 0, "replicas": [leader]}
    body = {"timeoutMs": 30_000, "topics": [{"name": TOPIC, "partitions": [partition]}]}
    answer = client.call("ALTER_PARTITION_REASSIGNMENTS", 0, body)
    assert answer["responses"][0]["partitions"][0]["errorCode"] == 0, answer


@pytest.mark.kafka
def test_a_partition_that_moves_is_answered_as_by_kafka(tmp_path: Path) -> None:
    with kafka_cluster(tmp_path, 2) as nodes:
        clients = clients_of({node: address for node, (_, address) in nodes.items()})
        real = play(clients, lambda leader: reassign(clients[1], leader))
    assert in_the_double() == real
