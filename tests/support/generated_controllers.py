"""Requests to the controller in a generated history: leaders, replicas and brokers."""

from typing import Any

from brokertwin.state.cluster import topics
from brokertwin.state.cluster.coordinators import GROUP_TOPIC
from brokertwin.state.cluster.image import LOST
from brokertwin.state.replication import directories
from tests.support.generated_clients import CLUSTER
from tests.support.generated_requests import Generate
from tests.support.replicas import FEATURES
from tests.support.request_generator import RequestGenerator


def elect(t: RequestGenerator) -> None:
    name, partition = t.place()
    requests = [{"topic": t.choice.of([name, name, GROUP_TOPIC]), "partitions": [partition]}]
    body = {"electionType": t.choice.of([0, 0, 1, 7]), "timeoutMs": t.choice.of([1000, 1000, 0])}
    body["topicPartitions"] = None if t.choice.one_in(4) else requests
    t.send(43, t.any_broker(), body)


def reassign(t: RequestGenerator) -> None:
    """Begins a reassignment, which ends at once or when the new replica is in sync; or cancels."""
    name, partition = t.place()
    brokers = t.clients.brokers
    first = t.choice.below(len(brokers))
    assigned = [*brokers[first:], *brokers[:first]][: t.choice.below(len(brokers)) + 1]
    if t.choice.one_in(8):
        assigned = [9]
    replicas = None if t.choice.one_in(4) else assigned
    partitions = [{"partitionIndex": partition, "replicas": replicas}]
    body = {"timeoutMs": t.choice.of([1000, 1000, 1000, 0])}
    wanted = [{"name": t.choice.of([name, name, GROUP_TOPIC]), "partitions": partitions}]
    t.send(45, t.any_broker(), {**body, "topics": wanted})
    listed = [{"name": name, "partitionIndexes": [partition]}]
    t.send(46, t.any_broker(), {"topics": t.choice.of([None, listed])})


def change_features(t: RequestGenerator, broker: int) -> None:
    """Raises or lowers the level of a feature, and asks how far the controller is."""
    name = t.choice.of(["group.version", "transaction.version", "share.version", "nope"])
    level, kind = t.choice.of([(1, 2), (1, 1), (0, 2), (2, 1), (0, 0)])
    update = {"feature": name, "maxVersionLevel": level, "upgradeType": kind}
    t.send(57, broker, {"featureUpdates": [update], "validateOnly": t.choice.one_in(4)})
    request = {"topicName": "__cluster_metadata", "partitions": [{"partitionIndex": 0}]}
    t.send(55, broker, {"topics": [request]})


def live_as_a_broker(t: RequestGenerator) -> None:
    """Requests of brokers: register, fence, unfence, shut down and unregister.

    Most of it is in the first epoch; a restarted broker has another one.
    """
    broker = t.any_broker()
    beat = {"brokerId": broker, "brokerEpoch": t.choice.of([0, 0, 1]), "currentMetadataOffset": 9}
    wishes = {"wantFence": t.choice.one_in(4), "wantShutDown": t.choice.one_in(3)}
    body = {
        "brokerId": broker,
        "clusterId": topics.derive_uuid("cluster", CLUSTER),
        "incarnationId": t.choice.of(["incarnationincarnation", "anotheranotheranothera"]),
        "features": t.choice.of([FEATURES, FEATURES, FEATURES, FEATURES[1:]]),
        "logDirs": t.choice.of([["dirdirdirdirdirdirdird"], []]),
    }
    kind = t.choice.below(8)
    if t.choice.one_in(4):
        change_features(t, broker)
    if t.choice.one_in(4):
        requests = [{"topic": "orders", "partitions": [0, 1]}]
        t.send(35, broker, {"topics": t.choice.of([None, requests])})
        name = t.choice.of(["orders", "orders", "nope"])
        path = t.choice.of(["/disk-2", "/disk-1", "/nope"])
        moved = {"path": path, "topics": [{"name": name, "partitions": [0, 1]}]}
        t.send(34, broker, {"dirs": [moved]})
    if kind == 0:
        t.send(64, t.any_broker(), {"brokerId": t.choice.of([broker, 9])})
    elif kind < 3:
        t.send(62, t.any_broker(), body)
    else:
        t.send(63, t.any_broker(), {**beat, **wishes})
    for epoch in (0, 1, 2):  # it is back, as far as its epoch is one of these
        t.clients.send(63, 2, broker, {**beat, "brokerEpoch": epoch})
    lose_a_directory(t, broker, beat)


def lose_a_directory(t: RequestGenerator, broker: int, beat: dict[str, Any]) -> None:
    """A log directory fails, or a broker reports a failure or the directories of replicas.

    Then it restarts in half of the cases, and always if it has halted.
    """
    path = t.choice.of(["/disk-2", "/disk-3", "/disk-2", "/disk-1"])
    named = directories.directory_id(t.clients.cell.settings, broker, path)
    kind = t.choice.below(4)
    if kind == 0:
        dirs = {"currentMetadataOffset": -1, "offlineLogDirs": [named]}
        t.clients.send(63, t.choice.of([1, 2]), broker, {**beat, **dirs})
    elif kind == 1:
        topic = t.clients.topic("orders")
        ids = [topic.topic_id if topic is not None else "A" * 22, "nonenonenonenonenonenQ"]
        requests = [{"topicId": each, "partitions": [{"partitionIndex": 0}]} for each in ids]
        fields = [{"id": t.choice.of([named, LOST]), "topics": requests}]
        names = ("brokerId", "brokerEpoch")
        t.send(73, broker, {**{name: beat[name] for name in names}, "directories": fields})
    elif t.clients.may_intervene:
        t.clients.intervene("fail-log-dir", broker=broker, directory=path)
    if (path == "/disk-1" or t.choice.one_in(2)) and t.clients.may_intervene:
        t.clients.now += 10_000
        for what in ("rejoin-broker", "tick", "stop-broker", "start-broker"):
            t.clients.intervene(what, broker=broker)


CONTROLLER_REQUESTS: list[tuple[int, Generate]] = [(1, elect), (2, reassign), (1, live_as_a_broker)]
"""How often each kind of event comes."""
