"""Kafka 2.0 replaces the producer id after a lost sequence; its price is a doubled record.

Source: seed 002, step 2 of the client's sending process.
"""

from typing import Any

from brokertwin.clients.producer_config import ProducerConfig
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.init_producer_id import InitProducerIdResponse
from tests.support.network import Network, Schedule, Step
from tests.support.producers import A, B, ProducerBench

EXPIRY_MS = 2_000
SECOND_ID = InitProducerIdResponse(producer_id=5000, producer_epoch=0)


def with_a_lost_batch(**config: Any) -> ProducerBench:
    """One acked batch of A, an expired one (1), one in flight behind it (2), and one of B (3)."""
    bench = ProducerBench(delivery_timeout_ms=EXPIRY_MS, request_timeout_ms=EXPIRY_MS, **config)
    bench.send(A)
    bench.ready()
    bench.respond(0, base_offset=0)
    bench.send(A)
    bench.poll(EXPIRY_MS - 50)
    bench.send(A)
    bench.send(B)
    bench.respond(1, Error.LEADER_NOT_AVAILABLE)
    bench.poll(60)
    assert bench.failed() == {2: Error.REQUEST_TIMED_OUT}
    assert bench.sequences(A).unresolved == 2
    return bench


def test_45_behind_an_expired_batch_resets_the_id_and_fails_the_batches_in_flight() -> None:
    bench = with_a_lost_batch(reset_pid_on_unresolved=True)
    bench.respond(2, Error.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert len(bench.inits()) == 2, "a new id is requested"
    assert bench.failed()[3] is Error.OUT_OF_ORDER_SEQUENCE_NUMBER
    bench.respond(3, Error.LEADER_NOT_AVAILABLE)
    assert bench.failed()[4] is Error.LEADER_NOT_AVAILABLE, "its id has changed: no retry"
    bench.init_response(SECOND_ID)
    for partition in (A, B):
        bench.send(partition)
        assert bench.sequences(partition).id_and_epoch.producer_id == 5000
        assert bench.wire[-1][:3] == (partition, 0, 0), "sequences start at 0"


def test_by_default_the_same_45_bumps_the_epoch_and_nothing_else_fails() -> None:
    bench = with_a_lost_batch()
    bench.respond(2, Error.OUT_OF_ORDER_SEQUENCE_NUMBER)
    bench.respond(3, Error.LEADER_NOT_AVAILABLE)
    bench.poll(200)
    assert len(bench.inits()) == 1
    assert bench.failed() == {2: Error.REQUEST_TIMED_OUT}
    assert [(sent.partition, sent.epoch, sent.sequence) for sent in bench.wire[4:]] == [
        (A, 1, 0),
        (B, 0, 0),
    ]


def test_an_expired_batch_with_nothing_in_flight_resets_the_id() -> None:
    bench = ProducerBench(
        delivery_timeout_ms=EXPIRY_MS, request_timeout_ms=EXPIRY_MS, reset_pid_on_unresolved=True
    )
    bench.send(A)
    bench.ready()
    bench.poll(EXPIRY_MS)
    assert list(bench.failed()) == [1]
    bench.poll(100)
    assert len(bench.inits()) == 2


def test_an_expired_batch_that_was_written_after_all_resets_nothing() -> None:
    bench = with_a_lost_batch(reset_pid_on_unresolved=True)
    bench.respond(2, base_offset=2)
    assert bench.sequences(A).unresolved is None
    assert len(bench.inits()) == 1


def test_45_of_a_batch_whose_predecessor_is_still_retried_resets_nothing() -> None:
    bench = ProducerBench(reset_pid_on_unresolved=True)
    bench.send(A)
    bench.ready()
    bench.send(A)
    bench.respond(0, Error.LEADER_NOT_AVAILABLE)
    bench.respond(1, Error.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert (bench.failed(), len(bench.inits())) == ({}, 1)
    assert bench.waiting() == [0, 1]


FIRST, SECOND = 1, 0
A_HOLE_AND_A_LOST_RESPONSE: Schedule = [
    *[(Step.REQUEST, 0), (Step.RESPONSE, 0), (Step.WAIT, 2)] * 2,
    *[(Step.SEND, FIRST), (Step.REQUEST, 0), (Step.RESPONSE, 0)],
    (Step.SEND, FIRST),
    *[(Step.WAIT, 3)] * 3,
    *[(Step.SEND, FIRST), (Step.SEND, SECOND)],
    *[(Step.WAIT, 2)] * 3,
    *[(Step.REFUSE, 0), (Step.RESPONSE, 0), (Step.WAIT, 2)],
    *[(Step.REQUEST, 0), (Step.REQUEST, 0), (Step.RESPONSE, 0)],
    (Step.CUT, 1),
]
"""Record 2 is refused and expires, so record 3 gets 45. The response to record 4 is lost."""


def written(**config: Any) -> dict[int, int]:
    """Copies of each record of an application that sends every failed record again."""
    net = Network(
        ProducerConfig(
            linger_ms=0, delivery_timeout_ms=EXPIRY_MS, request_timeout_ms=EXPIRY_MS, **config
        )
    )
    net.play(A_HOLE_AND_A_LOST_RESPONSE)
    net.settle()
    again = {net.send(net.sent[record].partition): record for record in list(net.failed)}
    net.settle()
    assert net.violations() == []
    logged = [*net.log(FIRST).values(), *net.log(SECOND).values()]
    copies = [again.get(record, record) for record in logged]
    return {record: copies.count(record) for record in range(1, 5)}


def test_the_reset_doubles_a_record_that_an_epoch_bump_writes_once() -> None:
    assert written() == {1: 1, 2: 1, 3: 1, 4: 1}
    assert written(reset_pid_on_unresolved=True) == {1: 1, 2: 1, 3: 1, 4: 2}
