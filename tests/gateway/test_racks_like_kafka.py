"""Consumers and replicas in racks (KIP-392): a real cluster of three and the gateway answer alike.

Compared field by field; left out are ids of topics and sessions, ports, and record bytes. Of two
replicas that have the same a leader names the one that asked last: of the named one its rack is
compared.
"""

import json
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from brokertwin.clients.consumer_config import ConsumerConfig, GroupProtocol
from brokertwin.clients.fetcher import FetchSettings, OffsetReset
from brokertwin.drivers.consumer import Consumer
from brokertwin.state.replication.preferred_replica import RACK_AWARE
from tests.gateway.test_cleaner_like_kafka import Side
from tests.gateway.test_fetches_like_kafka import asked, fetch, plain, topic_id
from tests.support.batches import START
from tests.support.gateways import running_gateway
from tests.support.kafka_clusters import kafka_cluster
from tests.support.patience import PATIENCE_S, wait_until

RACKS = {1: "east", 2: "west", 3: "west"}
SELECTOR = {"replica.selector.class": RACK_AWARE, "group.initial.rebalance.delay.ms": "0"}
TOPIC, RECORDS = "near", 4
VERSIONS = (10, 11, 12, 17)
WAIT_MS = 1500
Cluster = dict[int, Side]


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Cluster]]:
    """Ours and a real one; partition 0 of the topic is led by broker 1 and lies on all three."""
    path: Path = tmp_path_factory.mktemp("racks")
    racks = ",".join(f"{broker}:{rack}" for broker, rack in RACKS.items())
    given = SELECTOR | {"brokertwin.broker.racks": racks}
    with ExitStack() as stack:
        nodes = stack.enter_context(kafka_cluster(path, 3, SELECTOR, RACKS))
        ours = stack.enter_context(running_gateway(given, brokers=3)).addresses
        real = {broker: address.rpartition(":") for broker, (_, address) in nodes.items()}
        both = (
            {broker: Side(at.host, at.port) for broker, at in ours.items()},
            {broker: Side(host, int(port)) for broker, (host, _, port) in real.items()},
        )
        for cluster in both:
            for side in cluster.values():
                stack.callback(side.conn.close)
            fill(cluster)
        yield both


def fill(cluster: Cluster) -> None:
    topic = {"name": TOPIC, "numPartitions": -1, "replicationFactor": -1, "configs": []}
    topic["assignments"] = [{"partitionIndex": 0, "brokerIds": [1, 2, 3]}]
    body = {"topics": [topic], "timeoutMs": 10_000, "validateOnly": False}
    assert cluster[1].call("CreateTopics", 7, body)["topics"][0]["errorCode"] == 0
    for at in range(RECORDS):
        cluster[1].write(TOPIC, ([f"k{at}"], ["v"]), START + at)
    for side in cluster.values():
        wait_until(lambda side=side: watermark(side) == RECORDS, "all replicas have all")


def watermark(side: Side) -> int:
    answer = read(side, 12)
    return int(answer["responses"][0]["partitions"][0]["highWatermark"])


def read(side: Side, version: int, offset: int = 0, epoch: int = -1, **fields: Any) -> Any:
    ident = topic_id(side, TOPIC)
    topics = [asked(version, TOPIC, ident, offset, currentLeaderEpoch=epoch)]
    return seen(fetch(side, version, topics, **fields), ident)


def seen(answer: Any, ident: Any) -> Any:
    found = plain(answer, {ident: TOPIC})
    for topic in found["responses"]:
        for partition in topic["partitions"]:
            replica = partition.get("preferredReadReplica", -1)
            partition["preferredReadReplica"] = RACKS.get(replica)
    return found


def alike(clusters: tuple[Cluster, Cluster], told: Callable[[Cluster], Any]) -> Any:
    """What both clusters say, which is the same."""
    ours, real = map(told, clusters)
    assert ours == real
    return ours


def named(answer: Any) -> list[str | None]:
    return [
        partition["preferredReadReplica"]
        for topic in answer["responses"]
        for partition in topic["partitions"]
    ]


@pytest.mark.kafka
@pytest.mark.parametrize("version", VERSIONS)
def test_a_leader_names_a_replica_in_the_consumers_rack(
    clusters: tuple[Cluster, Cluster], version: int
) -> None:
    found = {}
    for rack in ("", "east", "west", "north"):
        for offset in (0, RECORDS, RECORDS + 1):
            fields: dict[str, Any] = {"rackId": rack, "maxWaitMs": 10}
            answer = alike(clusters, lambda c, o=offset, f=fields: read(c[1], version, o, **f))
            found[rack, offset] = named(answer)
    assert found["west", 0] == (["west"] if version >= 11 else [None])
    assert all(each == [None] for (rack, _), each in found.items() if rack != "west")


@pytest.mark.kafka
@pytest.mark.parametrize("version", VERSIONS)
def test_a_follower_serves_consumers_and_says_what_a_leader_says(
    clusters: tuple[Cluster, Cluster], version: int
) -> None:
    codes = set()
    for offset in (-1, 0, 2, RECORDS, RECORDS + 1):
        for epoch in (-1, 0, 5):
            for level in (0, 1):
                fields: dict[str, Any] = {"rackId": "west", "isolationLevel": level, "epoch": epoch}
                answer = alike(clusters, lambda c, o=offset, f=fields: read(c[3], version, o, **f))
                codes.add(answer["responses"][0]["partitions"][0]["errorCode"])
    assert codes == ({0, 1, 75} if version >= 11 else {6, 75})


@pytest.mark.kafka
def test_who_waits_at_a_follower_hears_of_a_record_once_it_is_committed(
    clusters: tuple[Cluster, Cluster],
) -> None:
    fields: dict[str, Any] = {"maxWaitMs": WAIT_MS, "minBytes": 1}
    answer = alike(clusters, lambda c: read(c[2], 12, RECORDS, **fields))
    assert named(answer) == [None]
    assert answer["responses"][0]["partitions"][0]["records"] == 0


@pytest.mark.kafka
@pytest.mark.parametrize("version", [12, 17])
def test_a_session_has_the_partition_in_every_answer(
    clusters: tuple[Cluster, Cluster], version: int
) -> None:
    def told(cluster: Cluster) -> list[Any]:
        side = cluster[1]
        ident = topic_id(side, TOPIC)
        topics = [asked(version, TOPIC, ident, RECORDS)]
        first = fetch(side, version, topics, sessionEpoch=0, rackId="west")
        session = {"sessionId": first["sessionId"], "rackId": "west"}
        later = [fetch(side, version, [], **session, sessionEpoch=epoch) for epoch in (1, 2)]
        later.append(fetch(side, version, [], **session | {"rackId": "", "sessionEpoch": 3}))
        return [seen(each, ident) for each in [first, *later]]

    answers = alike(clusters, told)
    assert [named(each) for each in answers] == [["west"], ["west"], ["west"], []]


@pytest.mark.kafka
def test_metadata_tell_the_racks(clusters: tuple[Cluster, Cluster]) -> None:
    def racks(cluster: Cluster) -> Any:
        body = {"topics": [], "allowAutoTopicCreation": False}
        body |= {"includeTopicAuthorizedOperations": False}
        metadata = cluster[2].call("Metadata", 12, body)
        asked = {"includeClusterAuthorizedOperations": False, "endpointType": 1}
        described = cluster[2].call("DescribeCluster", 1, asked)
        return [
            {each["nodeId"]: each["rack"] for each in metadata["brokers"]},
            {each["brokerId"]: each["rack"] for each in described["brokers"]},
        ]

    assert alike(clusters, racks) == [RACKS, RACKS]


def bootstrap_of(cluster: Cluster) -> str:
    host, port = cluster[1].conn.sock.getpeername()
    return f"{host}:{port}"


@pytest.mark.kafka
@pytest.mark.parametrize("protocol", GroupProtocol)
@pytest.mark.parametrize(("rack", "brokers"), [("west", {1, 2, 3}), ("east", {1})])
def test_our_consumer_reads_from_a_replica_in_its_rack(
    clusters: tuple[Cluster, Cluster], protocol: GroupProtocol, rack: str, brokers: set[int]
) -> None:
    """It asks the leader once, and has its records from the replica that is named."""
    for cluster in clusters:
        bootstrap = bootstrap_of(cluster)
        group = f"{protocol}-{rack}-{uuid.uuid4()}"
        config = ConsumerConfig(group_id=group, group_protocol=protocol, client_rack=rack)
        fetches = FetchSettings(auto_offset_reset=OffsetReset.EARLIEST, client_rack=rack)
        read: list[int] = []
        with Consumer(bootstrap, config, [TOPIC], fetches) as consumer:
            ends = time.monotonic() + PATIENCE_S
            while len(read) < RECORDS and time.monotonic() < ends:
                read += [offset for _, offset, _ in consumer.poll(100)]
            consumer.poll(100)
            asked = set(consumer.client._fetcher._sessions)
        assert read == list(range(RECORDS))
        assert asked <= brokers
        assert (asked == {1}) == (rack == "east"), asked


@pytest.mark.kafka
def test_librdkafkas_consumer_reads_from_a_replica_in_its_rack(
    clusters: tuple[Cluster, Cluster],
) -> None:
    """It reads all, and the leader is asked no more than before it was told of the replica."""
    ours, real = (librdkafkas_fetches(cluster) for cluster in clusters)
    for fetched in (ours, real):
        assert {broker for broker, count in fetched.items() if count > 2} & {2, 3}
        assert fetched.get(1, 0) <= 2, fetched


def librdkafkas_fetches(cluster: Cluster) -> Counter[int]:
    """How many Fetches each broker was sent, as librdkafka counts them."""
    fetched: Counter[int] = Counter()

    def count(statistics: str) -> None:
        for broker in json.loads(statistics)["brokers"].values():
            if broker["nodeid"] in RACKS:
                fetched[broker["nodeid"]] = broker["req"].get("Fetch", 0)

    settings = {"bootstrap.servers": bootstrap_of(cluster), "group.id": str(uuid.uuid4())}
    settings |= {"auto.offset.reset": "earliest", "client.rack": "west", "fetch.wait.max.ms": "100"}
    consumer = confluent_kafka.Consumer(
        {**settings, "statistics.interval.ms": 200, "stats_cb": count}
    )
    consumer.subscribe([TOPIC])
    read: list[int] = []
    ends = time.monotonic() + PATIENCE_S
    while (len(read) < RECORDS or sum(fetched.values()) < 6) and time.monotonic() < ends:
        read += [message.offset() for message in consumer.consume(10, 0.2)]
    consumer.close()
    assert read == list(range(RECORDS))
    return fetched
