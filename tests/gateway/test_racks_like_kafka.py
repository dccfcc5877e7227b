"""Racks of consumers and replicas (KIP-392), compared with a real cluster.

Responses are compared field by field, ignoring ids of topics and sessions, ports, and record bytes.
A leader selects the last fetching one of two equal replicas, so only the rack is compared.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from brokertwin.gateway.edge_fields import Address
from brokertwin.state.replication.preferred_replica import RACK_AWARE
from tests.gateway.test_cleaner_like_kafka import Side
from tests.gateway.test_fetches_like_kafka import fetch, plain, requested, topic_id
from tests.support.gateways import running_gateway
from tests.support.goldens import IS_LIVE, KEEPING, NOWHERE, WRITTEN_MS, Tape, tape
from tests.support.kafka_clusters import kafka_cluster
from tests.support.patience import wait_until

RACKS = {1: "east", 2: "west", 3: "west"}
SELECTOR = {"replica.selector.class": RACK_AWARE, "group.initial.rebalance.delay.ms": "0"}
TOPIC, RECORDS = "near", 4
VERSIONS = (10, 11, 12, 17)
WAIT_MS = 500
Cluster = dict[int, Side]
pytestmark = pytest.mark.compares


@contextmanager
def real_cluster(home: Path) -> Iterator[dict[int, Address]]:
    """Start the brokers of a real cluster, if one is needed."""
    with ExitStack() as stack:
        if not IS_LIVE:
            yield dict.fromkeys(RACKS, NOWHERE)
            return
        nodes = stack.enter_context(kafka_cluster(home, len(RACKS), {**SELECTOR, **KEEPING}, RACKS))
        parts = {broker: at.rpartition(":") for broker, (_, at) in nodes.items()}
        yield {broker: Address(host, int(port)) for broker, (host, _, port) in parts.items()}


@pytest.fixture(scope="module")
def module_clusters(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Cluster, Cluster, Tape]]:
    """Start ours and a real one; broker 1 leads partition 0, which all three replicate."""
    racks = ",".join(f"{broker}:{rack}" for broker, rack in RACKS.items())
    given = SELECTOR | KEEPING | {"brokertwin.broker.racks": racks}
    with ExitStack() as stack:
        recording = stack.enter_context(tape("logs/racks", SELECTOR))
        real = stack.enter_context(real_cluster(tmp_path_factory.mktemp("racks")))
        ours = stack.enter_context(running_gateway(given, brokers=len(RACKS))).addresses
        both = (
            {broker: Side(*at) for broker, at in ours.items()},
            {broker: Side(*at, track=recording) for broker, at in real.items()},
        )
        for cluster in both:
            for side in cluster.values():
                stack.callback(side.conn.close)
            fill(cluster)
        yield *both, recording


@pytest.fixture
def clusters(
    module_clusters: tuple[Cluster, Cluster, Tape], request: pytest.FixtureRequest
) -> tuple[Cluster, Cluster]:
    """Both clusters; each test has its own track of real responses."""
    ours, real, recording = module_clusters
    track = recording.track(request.node.name)
    return ours, {broker: side.on(track) for broker, side in real.items()}


def fill(cluster: Cluster) -> None:
    topic = {"name": TOPIC, "numPartitions": -1, "replicationFactor": -1, "configs": []}
    topic["assignments"] = [{"partitionIndex": 0, "brokerIds": [1, 2, 3]}]
    body = {"topics": [topic], "timeoutMs": 10_000, "validateOnly": False}
    assert cluster[1].call("CreateTopics", 7, body)["topics"][0]["errorCode"] == 0
    for at in range(RECORDS):
        cluster[1].write(TOPIC, ([f"k{at}"], ["v"]), WRITTEN_MS + at)
    for side in cluster.values():
        wait_until(lambda side=side: watermark(side) == RECORDS, "all replicas have all")


def watermark(side: Side) -> int:
    response = read(side, 12)
    return int(response["responses"][0]["partitions"][0]["highWatermark"])


def read(side: Side, version: int, offset: int = 0, epoch: int = -1, **fields: Any) -> Any:
    ident = topic_id(side, TOPIC)
    topics = [requested(version, TOPIC, ident, offset, currentLeaderEpoch=epoch)]
    return seen(fetch(side, version, topics, **fields), ident)


def seen(response: Any, ident: Any) -> Any:
    result = plain(response, {ident: TOPIC})
    for topic in result["responses"]:
        for partition in topic["partitions"]:
            replica = partition.get("preferredReadReplica", -1)
            partition["preferredReadReplica"] = RACKS.get(replica)
    return result


def alike(clusters: tuple[Cluster, Cluster], send: Callable[[Cluster], Any]) -> Any:
    """Return the response, which must be equal at both clusters."""
    ours, real = map(send, clusters)
    assert ours == real
    return ours


def named(response: Any) -> list[str | None]:
    return [
        partition["preferredReadReplica"]
        for topic in response["responses"]
        for partition in topic["partitions"]
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_leader_names_a_replica_in_the_consumers_rack(
    clusters: tuple[Cluster, Cluster], version: int
) -> None:
    found = {}
    for rack in ("", "east", "west", "north"):
        for offset in (0, RECORDS, RECORDS + 1):
            fields: dict[str, Any] = {"rackId": rack, "maxWaitMs": 10}
            response = alike(clusters, lambda c, o=offset, f=fields: read(c[1], version, o, **f))
            found[rack, offset] = named(response)
    assert found["west", 0] == (["west"] if version >= 11 else [None])
    assert all(each == [None] for (rack, _), each in found.items() if rack != "west")


@pytest.mark.parametrize("version", VERSIONS)
def test_follower_serves_consumers_like_a_leader(
    clusters: tuple[Cluster, Cluster], version: int
) -> None:
    codes = set()
    for offset in (-1, 0, 2, RECORDS, RECORDS + 1):
        for epoch in (-1, 0, 5):
            for level in (0, 1):
                fields: dict[str, Any] = {"rackId": "west", "isolationLevel": level, "epoch": epoch}
                response = alike(
                    clusters, lambda c, o=offset, f=fields: read(c[3], version, o, **f)
                )
                codes.add(response["responses"][0]["partitions"][0]["errorCode"])
    assert codes == ({0, 1, 75} if version >= 11 else {6, 75})


def test_fetch_at_a_followers_log_end_waits_and_returns_no_records(
    clusters: tuple[Cluster, Cluster],
) -> None:
    fields: dict[str, Any] = {"maxWaitMs": WAIT_MS, "minBytes": 1}
    response = alike(clusters, lambda c: read(c[2], 12, RECORDS, **fields))
    assert named(response) == [None]
    assert response["responses"][0]["partitions"][0]["records"] == 0


@pytest.mark.parametrize("version", [12, 17])
def test_every_response_of_a_session_names_the_replica(
    clusters: tuple[Cluster, Cluster], version: int
) -> None:
    def send(cluster: Cluster) -> list[Any]:
        side = cluster[1]
        ident = topic_id(side, TOPIC)
        topics = [requested(version, TOPIC, ident, RECORDS)]
        first = fetch(side, version, topics, sessionEpoch=0, rackId="west")
        session = {"sessionId": first["sessionId"], "rackId": "west"}
        later = [fetch(side, version, [], **session, sessionEpoch=epoch) for epoch in (1, 2)]
        later.append(fetch(side, version, [], **session | {"rackId": "", "sessionEpoch": 3}))
        return [seen(each, ident) for each in [first, *later]]

    responses = alike(clusters, send)
    assert [named(each) for each in responses] == [["west"], ["west"], ["west"], []]


def test_metadata_and_describe_cluster_return_racks(clusters: tuple[Cluster, Cluster]) -> None:
    def racks(cluster: Cluster) -> Any:
        body = {"topics": [], "allowAutoTopicCreation": False}
        body |= {"includeTopicAuthorizedOperations": False}
        metadata = cluster[2].call("Metadata", 12, body)
        request = {"includeClusterAuthorizedOperations": False, "endpointType": 1}
        described = cluster[2].call("DescribeCluster", 1, request)
        return [
            {each["nodeId"]: each["rack"] for each in metadata["brokers"]},
            {each["brokerId"]: each["rack"] for each in described["brokers"]},
        ]

    assert alike(clusters, racks) == [RACKS, RACKS]
