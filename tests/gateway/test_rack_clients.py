"""Our consumer and librdkafka's read from a replica in their rack (KIP-392).

Both read from a real cluster of three brokers and from a gateway of three.
"""

import json
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack

import confluent_kafka
import pytest

from brokertwin.clients.consumer_config import ConsumerConfig, GroupProtocol
from brokertwin.clients.fetcher import FetchSettings, OffsetReset
from brokertwin.clients.io.consumer import Consumer
from tests.gateway.test_cleaner_like_kafka import Side
from tests.gateway.test_racks_like_kafka import RACKS, RECORDS, SELECTOR, TOPIC, Cluster, fill
from tests.support.gateways import running_gateway
from tests.support.goldens import KEEPING
from tests.support.kafka_clusters import kafka_cluster
from tests.support.patience import PATIENCE_S

pytestmark = pytest.mark.kafka
GIVEN = SELECTOR | KEEPING


@pytest.fixture(scope="module")
def bootstraps(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Return addresses of our and a real cluster; broker 1 leads the partition."""
    racks = ",".join(f"{broker}:{rack}" for broker, rack in RACKS.items())
    with ExitStack() as stack:
        nodes = stack.enter_context(
            kafka_cluster(tmp_path_factory.mktemp("racks"), len(RACKS), GIVEN, RACKS)
        )
        given = GIVEN | {"brokertwin.broker.racks": racks}
        ours = stack.enter_context(running_gateway(given, brokers=len(RACKS)))
        real = {broker: address.rpartition(":") for broker, (_, address) in nodes.items()}
        clusters: tuple[Cluster, Cluster] = (
            {broker: Side(*at) for broker, at in ours.addresses.items()},
            {broker: Side(host, int(port)) for broker, (host, _, port) in real.items()},
        )
        for cluster in clusters:
            for side in cluster.values():
                stack.callback(side.conn.close)
            fill(cluster)
        yield ours.bootstrap, nodes[1][1]


@pytest.mark.parametrize("protocol", GroupProtocol)
@pytest.mark.parametrize(("rack", "brokers"), [("west", {1, 2, 3}), ("east", {1})])
def test_our_consumer_reads_from_a_replica_in_its_rack(
    bootstraps: tuple[str, str], protocol: GroupProtocol, rack: str, brokers: set[int]
) -> None:
    """It fetches from the leader once, and then from the replica that the leader names."""
    for bootstrap in bootstraps:
        group = f"{protocol}-{rack}-{uuid.uuid4()}"
        config = ConsumerConfig(group_id=group, group_protocol=protocol, client_rack=rack)
        fetches = FetchSettings(auto_offset_reset=OffsetReset.EARLIEST, client_rack=rack)
        read: list[int] = []
        with Consumer(bootstrap, config, [TOPIC], fetches) as consumer:
            ends = time.monotonic() + PATIENCE_S
            while len(read) < RECORDS and time.monotonic() < ends:
                read += [offset for _, offset, _ in consumer.poll(100)]
            consumer.poll(100)
            sessions = set(consumer.client._fetcher._sessions)
        assert read == list(range(RECORDS))
        assert sessions <= brokers
        assert (sessions == {1}) == (rack == "east"), sessions


def test_librdkafka_consumer_reads_from_a_replica_in_its_rack(
    bootstraps: tuple[str, str],
) -> None:
    """It reads all; the leader gets at most two Fetches."""
    ours, real = (librdkafkas_fetches(each) for each in bootstraps)
    for fetched in (ours, real):
        assert {broker for broker, count in fetched.items() if count > 2} & {2, 3}
        assert fetched.get(1, 0) <= 2, fetched


def librdkafkas_fetches(bootstrap: str) -> Counter[int]:
    fetched: Counter[int] = Counter()

    def count(statistics: str) -> None:
        for broker in json.loads(statistics)["brokers"].values():
            if broker["nodeid"] in RACKS:
                fetched[broker["nodeid"]] = broker["req"].get("Fetch", 0)

    settings = {"bootstrap.servers": bootstrap, "group.id": str(uuid.uuid4())}
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
