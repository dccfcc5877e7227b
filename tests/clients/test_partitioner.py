"""Which partition a producer chooses, and when it has no room."""

from collections import Counter
from collections.abc import Iterator

import pytest

from brokertwin.clients.era import Era
from brokertwin.clients.metadata_snapshot import MetadataSnapshot, PartitionInfo
from brokertwin.clients.node_latencies import NodeLatencies
from brokertwin.clients.partitioner import Partitioner
from brokertwin.clients.partitions import Node, TopicPartition
from brokertwin.clients.producer_config import ProducerConfig
from brokertwin.clients.producer_events import RecordAcked, RecordFailed
from brokertwin.protocol.errors import Error
from tests.support.bench_network import World

TOPIC = "orders"
BATCH = 1_000


def snapshot(*leaders: int | None, nodes: tuple[int, ...] = (1,)) -> MetadataSnapshot:
    partitions = {
        TopicPartition(TOPIC, at): PartitionInfo(TopicPartition(TOPIC, at), leader, 0)
        for at, leader in enumerate(leaders)
    }
    known = {node: Node(node, "localhost", 9091 + node) for node in nodes}
    return MetadataSnapshot(nodes=known, partitions=partitions)


def draws(*numbers: float) -> Iterator[float]:
    yield from numbers
    raise AssertionError("more is drawn than there should be")


def partitioner(
    *numbers: float,
    queued: dict[int, int] | None = None,
    era: Era | None = None,
    **more: object,
) -> Partitioner:
    config = ProducerConfig(batch_size=BATCH, **more)  # type: ignore[arg-type]
    drawn = draws(*numbers)
    waiting = queued or {}
    return Partitioner(config, lambda: next(drawn), lambda at: waiting.get(at.partition, 0), era)


@pytest.mark.parametrize(
    ("key", "murmur2"), [(b"21", -973932308), (b"foobar", -790332482), (b"abc", 479470107)]
)
def test_a_key_maps_to_javas_partition(key: bytes, murmur2: int) -> None:
    """The hashes are those of Kafka's own test; partitions without a leader count, too."""
    partition = partitioner().partition(TOPIC, key, snapshot(1, None, 1))
    assert partition == (murmur2 & 0x7FFFFFFF) % 3


def test_records_without_a_key_stay_until_a_batch_is_full() -> None:
    chooser, cluster = partitioner(0.4, 0.9), snapshot(1, 1, 1)
    assert chooser.partition(TOPIC, None, cluster) == 1
    at = TopicPartition(TOPIC, 1)
    chooser.appended(at, BATCH - 1, is_full=True, snapshot=cluster)
    assert chooser.partition(TOPIC, None, cluster) == 1
    chooser.appended(at, 1, is_full=True, snapshot=cluster)
    assert chooser.partition(TOPIC, None, cluster) == 2


def test_an_open_batch_is_filled_up_to_twice_the_size() -> None:
    chooser, cluster = partitioner(0.0, 0.9), snapshot(1, 1, 1)
    assert chooser.partition(TOPIC, None, cluster) == 0
    at = TopicPartition(TOPIC, 0)
    chooser.appended(at, 2 * BATCH - 1, is_full=False, snapshot=cluster)
    assert chooser.partition(TOPIC, None, cluster) == 0
    chooser.appended(at, 1, is_full=False, snapshot=cluster)
    assert chooser.partition(TOPIC, None, cluster) == 2


def test_only_partitions_with_a_leader_are_chosen() -> None:
    assert partitioner(0.0).partition(TOPIC, None, snapshot(None, 1, 1)) == 1
    assert partitioner(0.0).partition(TOPIC, None, snapshot(None, None)) == 0
    assert partitioner().partition(TOPIC, None, MetadataSnapshot()) is None


def test_longer_queues_are_chosen_less_often() -> None:
    """KIP-794's example: queues of 0, 3 and 1 batches; 4, 1 and 3 of 8 draws."""
    queued, cluster = {0: 0, 1: 3, 2: 1}, snapshot(1, 1, 1)
    actual = Counter(
        partitioner(number / 8, queued=queued).partition(TOPIC, None, cluster)
        for number in range(8)
    )
    assert actual == {0: 4, 1: 1, 2: 3}
    even = Counter(
        partitioner(
            number / 9, queued=queued, partitioner_adaptive_partitioning_enable=False
        ).partition(TOPIC, None, cluster)
        for number in range(9)
    )
    assert even == {0: 3, 1: 3, 2: 3}


@pytest.mark.parametrize(
    ("slow", "adaptive", "expected"),
    [
        ({2}, True, {0: 6, 2: 6}),
        ({1, 2}, True, {0: 4, 1: 4, 2: 4}),
        ({2}, False, {0: 4, 1: 4, 2: 4}),
    ],
)
def test_partitions_of_slow_brokers_are_avoided(
    slow: set[int], adaptive: bool, expected: dict[int, int]
) -> None:
    config = ProducerConfig(partitioner_adaptive_partitioning_enable=adaptive)
    actual = Counter(
        Partitioner(
            config, lambda at=number: at / 12, lambda _: 0, is_slow=slow.__contains__
        ).partition(TOPIC, None, snapshot(1, 2, 1, nodes=(1, 2)))
        for number in range(12)
    )
    assert actual == expected


def test_a_broker_is_slow_while_a_batch_exceeds_the_timeout() -> None:
    latencies = NodeLatencies(100)
    latencies.looked(1, 1_000, takes=False)
    latencies.looked(1, 1_100, takes=False)
    assert not latencies.is_slow(1)
    latencies.looked(1, 1_101, takes=False)
    assert (latencies.is_slow(1), latencies.is_slow(2)) == (True, False)
    latencies.looked(1, 1_200, takes=True)
    assert not latencies.is_slow(1)


@pytest.mark.parametrize(("timeout_ms", "are_spared"), [(500, True), (0, False)])
def test_unavailable_brokers_get_no_records_after_the_timeout(
    timeout_ms: int, are_spared: bool
) -> None:
    """KIP-794: two brokers, each leads a partition, and one of them is not reached any more."""
    made = World((1, 2))
    made.bench.topic(TOPIC, 2)
    producer = made.producer(batch_size=100, partitioner_availability_timeout_ms=timeout_ms)
    producer.offer(made.now, TOPIC, None, 100)
    made.run(500)
    (away,) = {
        partition.partition.partition
        for partition in producer.metadata.snapshot.partitions.values()
        if partition.leader_id == 2
    }
    network = made.networks[producer]
    network.is_down.add(2)
    for node in network.nodes:
        if network.broker_of(node) == 2:
            network.cut(node)

    def waiting() -> int:
        for _ in range(40):
            producer.offer(made.now, TOPIC, None, 100)
            made.run(100)
        return len(producer.producer.accumulator.queued(TopicPartition(TOPIC, away)))

    first, second = waiting(), waiting()
    assert first
    assert (second == first) is are_spared


@pytest.mark.parametrize(("drawn", "expected"), [(0.0, [0, 2, 0, 2]), (0.5, [2, 0, 2, 0])])
@pytest.mark.parametrize("era", list(Era))
def test_the_seeds_era_uses_round_robin_from_a_random_partition(
    era: Era, drawn: float, expected: list[int]
) -> None:
    chooser, cluster = partitioner(drawn, era=era), snapshot(1, None, 1)
    assert [chooser.partition(TOPIC, None, cluster) for _ in range(4)] == expected


def test_keys_may_be_ignored() -> None:
    chooser = partitioner(0.9, partitioner_ignore_keys=True)
    assert chooser.partition(TOPIC, b"key", snapshot(1, 1, 1)) == 2


# Room, on the loop


def test_a_record_waits_for_metadata_and_then_for_room() -> None:
    made = World((1,))
    made.bench.topic(TOPIC, 2)
    producer = made.producer(batch_size=BATCH, buffer_memory=2 * BATCH, linger_ms=60_000)
    assert producer.offer(made.now, TOPIC, None, 900) is None
    made.run(500)
    assert producer.offer(made.now, TOPIC, None, 900, partition=0) == 1
    assert producer.offer(made.now, TOPIC, None, 900, partition=1) == 2
    assert producer.offer(made.now, TOPIC, None, 900, partition=0) is None
    assert producer.offer(made.now, TOPIC, None, 30, partition=0) == 3
    producer.producer.flush()
    made.run(500)
    assert [type(event) for event in producer.events()] == [RecordAcked] * 3
    assert producer.offer(made.now, TOPIC, None, 900, partition=0) == 4


def test_a_record_greater_than_the_buffer_fails_at_once() -> None:
    made = World((1,))
    made.bench.topic(TOPIC, 1)
    producer = made.producer(batch_size=BATCH, buffer_memory=2 * BATCH)
    producer.offer(made.now, TOPIC, None, 1)
    made.run(500)
    assert producer.offer(made.now, TOPIC, None, 3 * BATCH) == 1
    made.turn()
    (failed,) = producer.events()
    assert isinstance(failed, RecordFailed)
    assert failed.error is Error.MESSAGE_TOO_LARGE


def test_a_missing_topic_is_requested_with_backoff() -> None:
    made = World((1,), auto_create_topics_enable=False)
    producer = made.producer()
    for _ in range(100):
        assert producer.offer(made.now, TOPIC, None, 1) is None
        made.turn(50)
    assert made.networks[producer].requested["METADATA"] < 20


def test_a_missing_partition_waits() -> None:
    made = World((1,))
    made.bench.topic(TOPIC, 1)
    producer = made.producer()
    producer.offer(made.now, TOPIC, None, 1)
    made.run(500)
    assert producer.offer(made.now, TOPIC, None, 1, partition=1) is None
