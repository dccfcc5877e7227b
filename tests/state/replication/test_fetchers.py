"""Fetcher threads, and the replication lines of Kafka 0.10."""

from typing import Any

import pytest

from brokertwin.state.cluster.machines import Broker
from brokertwin.state.replication import copying, fetchers
from tests.support.machine import Bench, header
from tests.support.replicas import Replicas

BROKERS = (1, 2)


def test_example_3_thread_of_the_seeds_partition() -> None:
    assert fetchers.fetcher_id("test", 1, 4) == 3
    assert fetchers.thread_name(3, 1) == "ReplicaFetcherThread-3-1"


@pytest.mark.parametrize(
    ("topic", "partition", "count", "expected"),
    [
        ("", 2**31 - 1, 10, 7),
        ("polygenelubricants", 0, 7, 0),  # its hash is the least number, and so is 31 times it
        ("__consumer_offsets", 49, 4, 2),
        ("orders", 0, 1, 0),
    ],
)
def test_in_32_bits_and_abs_of_the_least_is_0(
    topic: str, partition: int, count: int, expected: int
) -> None:
    assert fetchers.fetcher_id(topic, partition, count) == expected


def cluster(**settings: Any) -> Bench:
    """The topic `test` with eight partitions, led by broker 1 and followed by broker 2."""
    bench = Bench(BROKERS, **settings)
    topic = {"name": "test", "numPartitions": -1, "replicationFactor": -1}
    topic["assignments"] = [{"partitionIndex": p, "brokerIds": [1, 2]} for p in range(8)]
    bench.request("CREATE_TOPICS", 7, topics=[topic], timeoutMs=30_000)
    return bench


def test_each_thread_fetches_its_own_partitions() -> None:
    """The seed's cluster: four threads for each leader."""
    bench = cluster(num_replica_fetchers=4)
    broker = Broker(2, bench.cell.tables, bench.settings, bench.now)
    topic = broker.topic_by_name("test")
    assert topic is not None
    places = [(topic.topic_id, number) for number in range(8)]
    fetched = [
        [each.partition for each in f.partitions] for f in copying.fetches(broker, places).copies
    ]  # type: ignore[union-attr]
    assert fetched == [[0, 4], [1, 5], [2, 6], [3, 7]]


def lines(bench: Bench, broker: int) -> list[str]:
    """Lines logged by a broker during the last event."""
    entries = bench.records_of(bench.last)
    records = [entry["record"] for entry in entries if entry["machine"] == broker]
    return [each["line"] for each in records if each["type"] == "LineLogged"]


def test_lines_of_the_seed_from_17314_to_17316() -> None:
    bench = cluster(num_replica_fetchers=4, brokertwin_trace_replication=True)
    bench.append("test", header(17314), partition=1)
    logged: list[str] = []
    for _ in range(2):
        bench.append("test", header(size=45), partition=1)
        logged += lines(bench, 2)
    thread = "[ReplicaFetcherThread-3-1], Follower 2"
    at = f"{thread} has replica log end offset"
    end, first = "for partition test-1", "Received 45 messages and leader hw"
    copied = [line for line in logged if thread in line]
    assert [line for line in copied if " 0 messages" not in line and " 0 bytes" not in line] == [
        f"{at} 17314 {end}. {first} 17314",
        f"{at} 17315 after appending 45 bytes of messages {end}",
        f"{thread} set replica high watermark for partition [test,1] to 17314",
        f"{thread} set replica high watermark for partition [test,1] to 17315",
        f"{at} 17315 {end}. {first} 17315",
        f"{at} 17316 after appending 45 bytes of messages {end}",
        f"{thread} set replica high watermark for partition [test,1] to 17315",
        f"{thread} set replica high watermark for partition [test,1] to 17316",
    ]


def test_unblocked_requests_are_logged_for_a_partition() -> None:
    bench = cluster(brokertwin_trace_replication=True)
    partition = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 1000}
    topics = [{"topic": "test", "partitions": [partition]}]
    fetch = {"maxWaitMs": 500, "minBytes": 1, "maxBytes": 1000, "topics": topics}
    for name in ("one", "two"):
        bench.send("FETCH", 12, fetch, sessionEpoch=-1, id=name)
    bench.append("test", header())
    key = "[Replica Manager on Broker 1]: Request key test-0 unblocked"
    assert f"{key} 1 producer requests." in lines(bench, 1)
    assert f"{key} 2 fetch requests." in lines(bench, 1)
    assert "one" in bench.responses


def test_unblocked_fetch_session_is_logged_for_its_partition() -> None:
    bench = cluster(brokertwin_trace_replication=True)
    partition = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 1000}
    topics = [{"topic": "test", "partitions": [partition]}]
    fetch = {"maxWaitMs": 500, "minBytes": 1, "maxBytes": 1000}
    made = bench.request(
        "FETCH", 12, {**fetch, "maxWaitMs": 0, "sessionEpoch": 0, "topics": topics}
    )
    session = {"sessionId": made["sessionId"], "sessionEpoch": 1}
    bench.send("FETCH", 12, {**fetch, **session}, id="waits")
    bench.append("test", header())
    key = "[Replica Manager on Broker 1]: Request key test-0 unblocked"
    assert f"{key} 1 fetch requests." in lines(bench, 1)


def test_nothing_is_logged_by_default() -> None:
    bench = cluster()
    bench.append("test", header())
    assert lines(bench, 1) == lines(bench, 2) == []


def replicated(assignments: dict[str, list[int]], partitions: int, **settings: Any) -> Replicas:
    """Three brokers with traced replication; each topic with its replicas, the leader first."""
    bench = Bench((1, 2, 3), brokertwin_trace_replication=True, **settings)
    replicas = Replicas((1, 2), bench)
    for topic, brokers in assignments.items():
        wanted = {"name": topic, "numPartitions": -1, "replicationFactor": -1}
        wanted["assignments"] = [
            {"partitionIndex": p, "brokerIds": brokers} for p in range(partitions)
        ]
        bench.request("CREATE_TOPICS", 7, topics=[wanted], timeoutMs=30_000)
    return replicas


def test_a_starting_broker_logs_its_fetcher_threads_and_first_offsets() -> None:
    """The seed's start of broker 3: eight threads, for two leaders and four fetchers."""
    replicas = replicated({"one": [1, 3], "two": [2, 3]}, 4, num_replica_fetchers=4)
    replicas.bench.append("one", header(6538), partition=1)
    replicas.stop(3)
    replicas.start(3)
    logged = lines(replicas.bench, 3)
    for kind in ("producer", "fetch"):
        line = f"[Replica Manager on Broker 3]: Request key one-1 unblocked 0 {kind} requests."
        assert line in logged
    starting = [line for line in logged if line.endswith("Starting")]
    threads = [f"[ReplicaFetcherThread-{f}-{at}], Starting" for at in (1, 2) for f in range(4)]
    assert sorted(starting) == sorted(threads)
    (added,) = [line for line in logged if "Added fetcher" in line]
    manager = "[ReplicaFetcherManager on broker 3]"
    assert added.startswith(f"{manager} Added fetcher for partitions List(")
    assert "[one-1, initOffset 6538 to broker BrokerEndPoint(1,,-1)]" in added
    assert added.count("initOffset") == 8
    assert logged.index(starting[-1]) < logged.index(added)


def test_an_election_starts_only_fetcher_threads_that_do_not_run() -> None:
    replicas = replicated({"one": [1, 3, 2], "two": [3, 2]}, 1)
    replicas.stop(1)
    logged = lines(replicas.bench, 2)
    assert not [line for line in logged if line.endswith("Starting")]
    (added,) = [line for line in logged if "Added fetcher" in line]
    assert "[one-0, initOffset 0 to broker BrokerEndPoint(3,,-1)]" in added


def test_the_next_fetch_is_sent_after_replica_fetch_backoff_ms_as_an_option() -> None:
    """The seed's second message, "one second later"; a broker has (high watermark, log end)."""
    replicas = Replicas((1, 2), Bench((1, 2), brokertwin_fetch_by_backoff=True))
    bench = replicas.bench
    replicas.produce(acks=1, count=17_314)
    bench.tick(1_000)
    bench.tick(1_000)
    assert replicas.watermarks() == {1: (17_314, 17_314), 2: (17_314, 17_314)}
    replicas.produce(acks=1)
    assert replicas.watermarks() == {1: (17_314, 17_315), 2: (17_314, 17_315)}
    bench.tick(999)
    replicas.produce(acks=1)
    assert replicas.watermarks() == {1: (17_314, 17_316), 2: (17_314, 17_315)}
    bench.tick(1)
    assert replicas.watermarks() == {1: (17_315, 17_316), 2: (17_314, 17_316)}
    bench.tick(1_000)
    assert replicas.watermarks() == {1: (17_316, 17_316), 2: (17_315, 17_316)}
