"""Pending batches: their readiness and their requests."""

import dataclasses

from brokertwin.clients.accumulator import Accumulator
from brokertwin.clients.metadata_snapshot import PartitionInfo
from brokertwin.clients.partitions import Node
from brokertwin.clients.producer_batch import BATCH_OVERHEAD, PendingRecord, ProducerBatch
from brokertwin.clients.producer_config import ProducerConfig, checked
from tests.support.producers import A, B, snapshot

CLUSTER = snapshot({A: 1, B: 1})


def accumulator(**config: int) -> Accumulator:
    return Accumulator(checked(ProducerConfig(**config)), draw=lambda: 0.5)


def record(size: int = 100) -> PendingRecord:
    return PendingRecord(1, size, 0)


def drained(queues: Accumulator, now: int = 0) -> list[ProducerBatch]:
    return queues.drain(now, 1, CLUSTER, lambda _batch: True)


def test_records_of_a_partition_share_a_batch_up_to_its_size() -> None:
    queues = accumulator(batch_size=BATCH_OVERHEAD + 200)
    batches = [queues.append(0, A, record()) for _ in range(3)]
    assert batches[0] is batches[1]
    assert batches[1] is not batches[2]
    assert [len(batch.records) for batch in queues.queued(A)] == [2, 1]


def test_a_drained_batch_accepts_no_records() -> None:
    queues = accumulator()
    batch = queues.append(0, A, record())
    drained(queues)
    batch.is_closed = True
    queues.put_back(0, batch)
    assert queues.append(0, A, record()) is not batch


def test_a_batch_is_ready_after_linger() -> None:
    queues = accumulator(linger_ms=5)
    queues.append(0, A, record())
    assert queues.ready(4, CLUSTER).nodes == []
    assert queues.deadlines() == [5]
    assert queues.ready(5, CLUSTER).nodes == [1]


def test_full_batches_and_all_batches_in_a_flush_are_ready_at_once() -> None:
    queues = accumulator(batch_size=BATCH_OVERHEAD + 100)
    queues.append(0, A, record())
    assert queues.ready(0, CLUSTER).nodes == [1]
    queues = accumulator(linger_ms=1000)
    queues.append(0, A, record())
    queues.is_flushing = True
    assert queues.ready(0, CLUSTER).nodes == [1]


def test_topics_with_a_removed_leader_are_reported() -> None:
    """Metadata of another topic took the node away, and nothing more was sent or asked."""
    queues = accumulator(linger_ms=0)
    queues.append(0, A, record())
    without = dataclasses.replace(CLUSTER, nodes={2: Node(2, "localhost", 9092)})
    assert queues.ready(0, without) == ([], [A.topic])


def test_topics_without_leader_are_reported() -> None:
    queues = accumulator(linger_ms=0)
    queues.append(0, A, record())
    assert queues.ready(0, snapshot({B: 1})).leaderless == [A.topic]


def test_a_retry_waits_longer_each_time_unless_the_leader_has_changed() -> None:
    queues = accumulator(linger_ms=0)
    queues.append(0, A, record())
    (batch,) = drained(queues)
    waits = []
    for _ in range(6):
        queues.put_back(0, batch)
        waits.append(batch.retry_at)
        queues.remove(batch)
    assert waits == [100, 200, 400, 800, 1000, 1000]
    queues.put_back(0, batch)
    assert queues.ready(999, CLUSTER).nodes == []
    assert drained(queues, now=999) == []
    moved = CLUSTER.with_leaders({A: led_since(1)}, CLUSTER.nodes)
    assert queues.ready(0, moved).nodes == [1]
    assert queues.ready(1000, CLUSTER).nodes == [1]


def led_since(epoch: int) -> PartitionInfo:
    return PartitionInfo(A, 1, epoch)


def test_one_request_takes_one_batch_of_each_partition() -> None:
    queues = accumulator(batch_size=BATCH_OVERHEAD + 100)
    for partition in (A, A, B):
        queues.append(0, partition, record())
    assert [batch.topic_partition for batch in drained(queues)] == [A, B]
    assert [batch.topic_partition for batch in drained(queues)] == [A]


def test_a_request_respects_its_size_limit_and_the_next_continues() -> None:
    queues = accumulator(batch_size=BATCH_OVERHEAD + 100, max_request_size=2 * BATCH_OVERHEAD)
    for partition in (A, A, B):
        queues.append(0, partition, record())
    order = [[b.topic_partition for b in drained(queues)] for _ in range(3)]
    assert order == [[A], [B], [A]], "each is larger than a request, and goes alone"


def test_batches_that_fill_a_request_exactly_go_together() -> None:
    size = BATCH_OVERHEAD + 100
    queues = accumulator(batch_size=size, max_request_size=2 * size)
    for partition in (A, B):
        queues.append(0, partition, record())
    assert sum(batch.size_in_bytes for batch in drained(queues)) == 2 * size


def test_a_muted_partition_does_not_block_others() -> None:
    queues = accumulator(linger_ms=0)
    queues.append(0, A, record())
    queues.append(0, B, record())
    (batch,) = queues.drain(0, 1, CLUSTER, lambda head: head.topic_partition == B)
    assert batch.topic_partition == B
    assert len(queues.queued(A)) == 1


def test_with_one_in_flight_request_a_partition_is_muted_until_the_response() -> None:
    queues = accumulator(batch_size=BATCH_OVERHEAD + 100, max_in_flight_requests_per_connection=1)
    queues.append(0, A, record())
    queues.append(0, A, record())
    assert len(drained(queues)) == 1
    assert drained(queues) == []
    queues.unmute(A)
    assert len(drained(queues)) == 1
