"""The worked examples 17 to 24 of the idempotent producer, with their numbers."""

from brokertwin.clients.accumulator import Accumulator
from brokertwin.clients.producer_batch import NO_ID, IdAndEpoch, PendingRecord, ProducerBatch
from brokertwin.clients.producer_config import ProducerConfig
from brokertwin.clients.transaction_manager import EPOCH_MAX, IdState, Retry
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.init_producer_id import InitProducerIdResponse
from tests.support.producers import PRODUCER_ID, A, B, OnWire, ProducerBench

OUT_OF_ORDER = Error.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_example_17_a_rejected_first_batch_keeps_all_three_in_order() -> None:
    bench = ProducerBench()
    bench.ready()
    for _ in range(3):
        bench.send()
    assert [sent.sequence for sent in bench.wire] == [0, 1, 2]
    assert bench.sequences().next_sequence == 3
    bench.respond(0, Error.LEADER_NOT_AVAILABLE)
    bench.respond(1, OUT_OF_ORDER)
    bench.respond(2, OUT_OF_ORDER)
    bench.send()
    assert bench.waiting() == [0, 1, 2, -1]

    assert bench.poll(100) == [OnWire(A, 0, 0, 1)], "batch 0 goes alone"
    assert bench.poll(1000) == []
    bench.respond(3, base_offset=0)
    assert bench.sequences().last_acked == 0
    assert bench.wire[4:] == [OnWire(A, 0, 1, 1)]
    bench.respond(4, base_offset=1)
    assert bench.wire[5:] == [OnWire(A, 0, 2, 1), OnWire(A, 0, 3, 1)], "and the fourth behind it"
    bench.respond(5, base_offset=2)
    bench.respond(6, base_offset=3)
    assert bench.acked() == [1, 2, 3, 4]


def test_example_18_a_gap_without_a_missing_batch_bumps_the_epoch_of_its_partition() -> None:
    bench = ProducerBench()
    bench.ready()
    bench.send(A)
    bench.respond(0, base_offset=0)
    bench.send(B)
    bench.respond(1, base_offset=0)
    bench.send(A)
    bench.respond(2, OUT_OF_ORDER)
    assert bench.manager.id_and_epoch == IdAndEpoch(PRODUCER_ID, 1)
    assert bench.poll(100) == [OnWire(A, 1, 0, 1)]
    assert bench.sequences(B).id_and_epoch.epoch == 0
    assert bench.sequences(B).next_sequence == 1
    bench.send(B)
    assert bench.wire[-1] == OnWire(B, 1, 0, 1)


def with_an_expired_first_batch() -> ProducerBench:
    """Send the first two records; the first one is rejected by a non-leader and expires."""
    bench = ProducerBench(delivery_timeout_ms=1000, request_timeout_ms=1000)
    bench.ready()
    bench.send()
    bench.now = 500
    bench.send()
    bench.respond(0, Error.NOT_LEADER_OR_FOLLOWER, polls=False)
    bench.now = 1000
    bench.poll()
    assert bench.failed() == {1: Error.REQUEST_TIMED_OUT}
    assert bench.sequences().unresolved == 1
    bench.send()
    assert len(bench.wire) == 2, "the third batch is not drained"
    return bench


def test_example_19_an_expired_batch_that_is_missing_bumps_the_epoch() -> None:
    bench = with_an_expired_first_batch()
    bench.respond(1, OUT_OF_ORDER)
    assert bench.manager.id_and_epoch.epoch == 1
    assert [b.base_sequence for b in bench.sequences().in_flight] == [0]
    assert bench.sequences().next_sequence == 1
    assert bench.sequences().unresolved is None
    assert bench.poll(100) == [OnWire(A, 1, 0, 1), OnWire(A, 1, 1, 1)], "and the third behind it"


def test_example_20_an_expired_but_written_batch_keeps_the_epoch() -> None:
    bench = with_an_expired_first_batch()
    bench.respond(1, base_offset=1, polls=False)
    assert bench.sequences().last_acked == 1
    assert bench.sequences().next_sequence == 2
    bench.poll()
    assert bench.manager.id_and_epoch.epoch == 0
    assert bench.sequences().unresolved is None
    assert bench.wire[2:] == [OnWire(A, 0, 2, 1)]


def test_example_21_a_too_large_batch_fails_and_the_next_restarts_at_0() -> None:
    bench = ProducerBench()
    bench.ready()
    bench.send()
    bench.send()
    bench.respond(0, Error.MESSAGE_TOO_LARGE)
    assert bench.failed() == {1: Error.MESSAGE_TOO_LARGE}
    bench.respond(1, OUT_OF_ORDER)
    assert bench.poll(100) == [OnWire(A, 1, 0, 1)]
    bench.respond(2, base_offset=0)
    assert bench.acked() == [2]


def test_example_22_a_split_batch_keeps_its_sequences() -> None:
    bench = ProducerBench(linger_ms=5)
    bench.ready()
    bench.send()
    bench.send()
    assert bench.poll(5) == [OnWire(A, 0, 0, 2)]
    bench.respond(0, Error.MESSAGE_TOO_LARGE)
    first, second = bench.sequences().in_flight
    assert (first.base_sequence, second.base_sequence) == (0, 1)
    assert bench.sequences().next_sequence == 2
    assert bench.manager.decide(second, OUT_OF_ORDER, -1) is Retry.RETRY
    assert bench.wire[1:] == [OnWire(A, 0, 0, 1)]
    bench.respond(1, base_offset=0)
    assert bench.wire[2:] == [OnWire(A, 0, 1, 1)]
    bench.respond(2, base_offset=1)
    assert bench.acked() == [1, 2]
    assert bench.sequences().next_sequence == 2
    assert bench.manager.id_and_epoch.epoch == 0


def test_example_23_the_maximum_epoch_is_followed_by_a_new_id() -> None:
    bench = ProducerBench()
    bench.ready(epoch=EPOCH_MAX)
    bench.send()
    bench.respond(0, OUT_OF_ORDER)
    assert bench.manager.state is IdState.INITIALIZING
    assert bench.manager.id_and_epoch == NO_ID
    assert len(bench.inits()) == 2
    assert bench.poll(100) == []
    bench.init_response(InitProducerIdResponse(producer_id=5000, producer_epoch=0))
    (batch,) = bench.sequences().in_flight
    assert batch.id_and_epoch == IdAndEpoch(5000, 0)
    assert bench.wire[1:] == [OnWire(A, 0, 0, 1)]


def queued(sequence: int) -> ProducerBatch:
    return ProducerBatch(
        topic_partition=A, created=0, records=[PendingRecord(1, 50, 0)], base_sequence=sequence
    )


def test_example_24_a_batch_goes_back_in_sequence_order() -> None:
    accumulator = Accumulator(ProducerConfig(), draw=lambda: 0.5)
    for sequence in (-1, 3, 1):
        accumulator.insert(queued(sequence))
    assert [batch.base_sequence for batch in accumulator.queued(A)] == [1, 3, -1]
    accumulator.insert(queued(2))
    assert [batch.base_sequence for batch in accumulator.queued(A)] == [1, 2, 3, -1]
    accumulator.insert(queued(0))
    assert [batch.base_sequence for batch in accumulator.queued(A)] == [0, 1, 2, 3, -1]
