"""Moving partitions and coordinators: a real Kafka and the test broker respond alike."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from brokertwin.gateway.edge_fields import Address
from brokertwin.protocol.errors import Error
from brokertwin.protocol.frames import decode_response
from brokertwin.state.cluster.coordinators import GROUP_TOPIC, partition_for
from brokertwin.testing import KafkaBroker
from tests.support.batches import batch
from tests.support.gateways import Client
from tests.support.goldens import golden
from tests.support.kafka_clusters import kafka_cluster
from tests.support.patience import PATIENCE_S

TOPIC = "moving"
GROUP = "billing"
LOADING = (
    Error.COORDINATOR_LOAD_IN_PROGRESS,
    Error.COORDINATOR_NOT_AVAILABLE,
    Error.NOT_COORDINATOR,
)
Clients = Mapping[int, Client]
Move = Callable[[str, int, int], None]
"""Moves a topic's partition to a leader."""

Responses = dict[str, Any]


def clients_of(addresses: Mapping[int, str]) -> Clients:
    clients = {}
    for broker, address in addresses.items():
        host, port = address.rsplit(":", 1)
        clients[broker] = Client(Address(host, int(port)))
    return clients


def create_on(client: Client, broker: int) -> None:
    assignments = [{"partitionIndex": 0, "brokerIds": [broker]}]
    topic = {"name": TOPIC, "numPartitions": -1, "replicationFactor": -1, "configs": []}
    body = {"topics": [{**topic, "assignments": assignments}], "timeoutMs": 30_000}
    (created,) = client.call("CREATE_TOPICS", 7, body)["topics"]
    assert created["errorCode"] == 0, created


def partitions_of(client: Client, topic_name: str) -> dict[int, dict[str, Any]]:
    (topic,) = client.call("METADATA", 12, name=topic_name)["topics"]
    return {partition["partitionIndex"]: partition for partition in topic["partitions"]}


def until_led_by(
    clients: Clients, leader: int, topic_name: str = TOPIC, partition: int = 0
) -> dict[str, Any]:
    """Return the partition in Metadata after all brokers agree on its leader."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        reported = []
        for client in clients.values():
            partitions = partitions_of(client, topic_name)
            reported.append(partitions.get(partition, {"leaderId": -1}))
        if all(partition["leaderId"] == leader for partition in reported):
            return dict(reported[0])
        assert time.monotonic() < deadline, reported
        time.sleep(0.05)


def produce(client: Client, value: bytes, version: int = 10) -> dict[str, Any]:
    response = client.call(
        "PRODUCE", version, acks=-1, timeoutMs=5000, name=TOPIC, index=0, records=batch(value)
    )
    (partition,) = response["responses"][0]["partitionResponses"]
    named = ("errorCode", "baseOffset", "currentLeader")
    return {name: partition[name] for name in named if name in partition}


def fetch(client: Client, offset: int, **wanted: int) -> list[dict[str, Any]]:
    """Return Fetch responses before and since leaders are included (KIP-951)."""
    (topic,) = client.call("METADATA", 12, name=TOPIC)["topics"]
    partition = {"partition": 0, "fetchOffset": offset, "partitionMaxBytes": 1000, **wanted}
    topics = [{"topic": TOPIC, "topicId": topic["topicId"], "partitions": [partition]}]
    body = {"maxBytes": 10_000, "minBytes": 1, "sessionEpoch": -1, "topics": topics}
    named = ("errorCode", "highWatermark", "currentLeader", "divergingEpoch")
    responses = [client.call("FETCH", version, body) for version in (12, 15, 16)]
    partitions = [response["responses"][0]["partitions"][0] for response in responses]
    return [{name: each[name] for name in named if name in each} for each in partitions]


def end_of(client: Client, epoch: int) -> tuple[int, int, int]:
    body = {"topics": [{"topic": TOPIC, "partitions": [{"partition": 0, "leaderEpoch": epoch}]}]}
    response = client.call("OFFSET_FOR_LEADER_EPOCH", 4, {"replicaId": -2, **body})
    (partition,) = response["topics"][0]["partitions"]
    return partition["errorCode"], partition["leaderEpoch"], partition["endOffset"]


def play(clients: Clients, move: Move) -> Responses:
    """Play records in three leader epochs, one of them empty, and return all responses."""
    create_on(clients[1], 1)
    until_led_by(clients, 1)
    responses: Responses = {"first": [produce(clients[1], b"%d" % n) for n in range(2)]}
    for step, leader in enumerate((2, 1, 2), 1):
        move(TOPIC, 0, leader)
        reported = until_led_by(clients, leader)
        responses[f"metadata {step}"] = {
            name: reported[name] for name in ("leaderId", "leaderEpoch", "replicaNodes", "isrNodes")
        }
        other = clients[3 - leader]
        until_handed_over(other, clients[leader])
        responses[f"refused {step}"] = [
            *(produce(other, b"x", v) for v in (9, 10)),
            fetch(other, 0),
        ]
        if step != 2:
            responses[f"written {step}"] = produce(clients[leader], b"%d" % step)
    leader_client = clients[2]
    responses["ends"] = {epoch: end_of(leader_client, epoch) for epoch in range(-1, 6)}
    responses["end elsewhere"] = end_of(clients[1], 0)
    for epoch in range(5):
        responses[f"current epoch {epoch}"] = fetch(leader_client, 0, currentLeaderEpoch=epoch)
        responses[f"last epoch {epoch}"] = fetch(leader_client, 3, lastFetchedEpoch=epoch)
    return responses


def until_handed_over(former: Client, leader: Client) -> None:
    """Wait until both act on their metadata, which a broker shows before replicas follow it."""
    until_completed(lambda: int(fetch(former, 0)[0]["errorCode"]), Error.NONE)
    passing = (Error.NOT_LEADER_OR_FOLLOWER, Error.UNKNOWN_TOPIC_OR_PARTITION)
    until_completed(lambda: int(fetch(leader, 0)[0]["errorCode"]), *passing)


def until_completed(send: Callable[[], int], *passing: int) -> int:
    """Return the first error that is not transient."""
    deadline = time.monotonic() + PATIENCE_S
    while (code := send()) in passing:
        assert time.monotonic() < deadline, code
        time.sleep(0.05)
    return code


def coordinator_of(client: Client) -> int:
    body = {"keyType": 0, "coordinatorKeys": [GROUP]}
    (coordinator,) = client.call("FIND_COORDINATOR", 4, body)["coordinators"]
    return int(coordinator["nodeId"])


def join_body(member: str = "") -> dict[str, Any]:
    return {
        "groupId": GROUP,
        "sessionTimeoutMs": 30_000,
        "rebalanceTimeoutMs": 30_000,
        "memberId": member,
        "protocolType": "consumer",
        "protocols": [{"name": "range", "metadata": b"r"}],
    }


def heartbeat(client: Client, member: str) -> int:
    body = {"groupId": GROUP, "generationId": 1, "memberId": member}
    return int(client.call("HEARTBEAT", 3, body)["errorCode"])


def committed(client: Client) -> tuple[int, list[int]]:
    wanted = {"groupId": GROUP, "topics": [{"name": TOPIC, "partitionIndexes": [0]}]}
    (group,) = client.call("OFFSET_FETCH", 8, {"groups": [wanted]})["groups"]
    offsets = [p["committedOffset"] for topic in group["topics"] for p in topic["partitions"]]
    return group["errorCode"], offsets


def play_group(clients: Clients, second: Clients, move: Move) -> Responses:
    """Play a stable group with a pending join while the coordinator moves."""
    until_completed(lambda: coordinator_of(clients[1]), -1)
    old = coordinator_of(clients[1])
    at_old, at_new = clients[old], clients[3 - old]
    until_completed(lambda: committed(at_old)[0], *LOADING)
    joined = at_old.call("JOIN_GROUP", 3, join_body())
    member = joined["memberId"]
    assigned = [{"memberId": member, "assignment": b"a"}]
    sync = {"groupId": GROUP, "generationId": 1, "memberId": member, "assignments": assigned}
    responses = {"joined": joined["errorCode"], "synced": at_old.call("SYNC_GROUP", 3, sync)}
    partitions = [{"partitionIndex": 0, "committedOffset": 5}]
    topics = [{"name": TOPIC, "partitions": partitions}]
    body = {"groupId": GROUP, "generationIdOrMemberEpoch": 1, "memberId": member, "topics": topics}
    responses["committed"] = at_old.call("OFFSET_COMMIT", 7, body)
    second[old].send("JOIN_GROUP", 3, join_body())
    until_completed(lambda: heartbeat(at_old, member), Error.NONE)
    responses["rebalancing"] = heartbeat(at_old, member)
    place = partition_for(GROUP, len(partitions_of(at_old, GROUP_TOPIC)))
    move(GROUP_TOPIC, place, 3 - old)
    (_, reported) = decode_response(11, 3, second[old].receive())
    responses["join that waited"] = reported["errorCode"]
    until_led_by(clients, 3 - old, GROUP_TOPIC, place)
    # A loading coordinator answers heartbeats with `0 NONE`; only other requests show readiness.
    until_completed(lambda: committed(at_new)[0], *LOADING)
    responses["at the new one"] = until_completed(lambda: heartbeat(at_new, member), *LOADING)
    responses["at the old one"] = until_completed(lambda: heartbeat(at_old, member), Error.NONE)
    responses["offsets"] = committed(at_new), committed(at_old)
    (described,) = at_new.call("DESCRIBE_GROUPS", 5, groups=[GROUP])["groups"]
    responses["described"] = described["groupState"], len(described["members"])
    return responses


def play_both(addresses: Mapping[int, str], move: Move) -> Responses:
    clients = clients_of(addresses)
    moving = play(clients, move)
    return {**moving, "group": play_group(clients, clients_of(addresses), move)}


def in_the_double() -> Responses:
    with KafkaBroker(brokers=2) as broker:
        addresses = dict(enumerate(broker.bootstrap_servers, 1))

        def move(topic: str, partition: int, leader: int) -> None:
            broker.move_leader(topic, partition, to=leader)

        return play_both(addresses, move)


def reassign(client: Client, topic: str, partition: int, leader: int) -> None:
    """Move a partition through a real controller."""
    part = {"partitionIndex": partition, "replicas": [leader]}
    response = client.call("ALTER_PARTITION_REASSIGNMENTS", 0, part, timeoutMs=30_000, name=topic)
    assert response["responses"][0]["partitions"][0]["errorCode"] == 0, response


@pytest.mark.compares
def test_moved_partitions_and_coordinators_respond_as_kafkas(tmp_path: Path) -> None:
    def send() -> Responses:
        with kafka_cluster(tmp_path, 2) as nodes:
            addresses = {node: address for node, (_, address) in nodes.items()}
            controller = clients_of(addresses)[1]
            return play_both(addresses, lambda *place: reassign(controller, *place))

    assert in_the_double() == golden("testing/moving", send)
