"""The producer as its caller sees it: requests, responses, events."""

import pytest

from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.producer_events import ConnectionStalled, MetadataWanted, RecordFailed
from brokertwin.clients.transaction_manager import IdState
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.init_producer_id import InitProducerIdResponse
from brokertwin.protocol.generated.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from brokertwin.protocol.generated.shared import LeaderIdAndEpoch
from brokertwin.state.logs.producer import SEQUENCE_MAX
from tests.support.producers import PRODUCER_ID, A, B, OnWire, ProducerBench, snapshot

ID = InitProducerIdResponse(producer_id=PRODUCER_ID, producer_epoch=0)


def test_nothing_is_produced_before_the_producer_id() -> None:
    bench = ProducerBench()
    bench.send()
    assert bench.wire == []
    assert len(bench.inits()) == 1
    bench.init_response(ID)
    assert bench.wire == [OnWire(A, 0, 0, 1)]


def test_the_producer_id_is_requested_from_the_least_loaded_node() -> None:
    bench = ProducerBench(leaders={A: 1, B: 2})
    bench.ready(epoch=32767)
    assert bench.inits()[0].node == 1, "of equal nodes the lowest"
    bench.send(A)
    bench.send(A)
    bench.send(B)
    bench.respond(2, Error.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert [request.node for request in bench.inits()] == [1, 2]


def test_the_producer_id_request_is_retried_with_backoff() -> None:
    bench = ProducerBench()
    bench.poll()
    bench.init_response(Error.COORDINATOR_LOAD_IN_PROGRESS)
    assert bench.producer.next_deadline(bench.now) == 100
    assert bench.producer.next_passes(bench.now) == [100], "in Kafka 2.0, too"
    bench.poll(99)
    assert len(bench.inits()) == 1
    bench.poll(1)
    assert len(bench.inits()) == 2
    bench.init_response(Error.COORDINATOR_LOAD_IN_PROGRESS)
    bench.poll(199)
    assert len(bench.inits()) == 2
    bench.poll(1)
    assert len(bench.inits()) == 3


@pytest.mark.parametrize("is_requested", [False, True])
def test_metadata_is_requested_before_each_retry_of_the_producer_id(is_requested: bool) -> None:
    """Only in Kafka 2.0 (`maybeWaitForProducerId`)."""
    bench = ProducerBench(requests_metadata_for_id=is_requested)
    bench.poll()
    bench.init_response(Error.COORDINATOR_LOAD_IN_PROGRESS)
    assert (MetadataWanted([]) in bench.events) is is_requested
    bench.poll(100)
    bench.init_response(ID)
    assert bench.events.count(MetadataWanted([])) == is_requested


def test_a_missing_permission_fails_pending_batches_only() -> None:
    bench = ProducerBench()
    record = bench.send()
    bench.init_response(Error.CLUSTER_AUTHORIZATION_FAILED)
    assert bench.failed() == {record: Error.CLUSTER_AUTHORIZATION_FAILED}
    bench.poll(1000)
    bench.init_response(ID)
    bench.send()
    bench.respond(0, base_offset=0)
    assert bench.acked() == [2]


def test_after_a_fatal_error_everything_fails() -> None:
    bench = ProducerBench()
    bench.ready()
    bench.send()
    bench.send()
    bench.respond(0, Error.CLUSTER_AUTHORIZATION_FAILED)
    assert bench.manager.state is IdState.FATAL_ERROR
    bench.send()
    assert bench.failed() == dict.fromkeys((1, 2, 3), Error.CLUSTER_AUTHORIZATION_FAILED)
    assert bench.producer.is_idle


def test_at_most_five_requests_are_in_flight() -> None:
    bench = ProducerBench()
    bench.ready()
    for _ in range(7):
        bench.send()
    assert [sent.sequence for sent in bench.wire] == [0, 1, 2, 3, 4]
    bench.respond(0, base_offset=0)
    assert [sent.sequence for sent in bench.wire[5:]] == [5]


def test_pending_records_are_sent_as_one_batch_per_partition() -> None:
    bench = ProducerBench(linger_ms=5)
    bench.ready()
    for partition in (A, B, A):
        bench.send(partition)
    assert bench.wire == []
    assert bench.poll(5) == [OnWire(A, 0, 0, 2), OnWire(B, 0, 0, 1)]
    body = bench.requests[-1].body
    assert isinstance(body, ProduceRequest)
    (topic,) = body.topic_data
    first = topic.partition_data[0].batches[0]
    assert (first.producer_id, first.base_sequence, first.last_offset_delta) == (PRODUCER_ID, 0, 1)
    assert body.acks == -1


def test_with_one_in_flight_request_a_partition_waits_for_its_response() -> None:
    bench = ProducerBench(leaders={A: 1, B: 2}, max_in_flight_requests_per_connection=1)
    bench.ready()
    bench.send(A)
    bench.send(A)
    bench.send(B)
    assert bench.wire == [OnWire(A, 0, 0, 1), OnWire(B, 0, 0, 1)]
    bench.respond(0, base_offset=0)
    assert bench.wire[2:] == [OnWire(A, 0, 1, 1)]


def test_a_duplicate_is_an_acknowledgement_without_offset() -> None:
    bench = ProducerBench()
    bench.ready()
    bench.send()
    bench.respond(0, Error.DUPLICATE_SEQUENCE_NUMBER)
    assert bench.acked() == [1]
    assert bench.sequences().last_acked == 0


def test_a_repeated_response_is_ignored() -> None:
    bench = ProducerBench()
    bench.ready()
    bench.send()
    bench.respond(0, base_offset=0)
    bench.respond(0, Error.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert (bench.acked(), bench.failed()) == ([1], {})


def test_a_closed_connection_is_a_retriable_error_and_leaves_the_outcome_open() -> None:
    bench = ProducerBench(delivery_timeout_ms=30_000)
    bench.ready()
    bench.send()
    bench.producer.disconnected(bench.now, 1)
    assert bench.poll() == []
    assert bench.poll(100) == [OnWire(A, 0, 0, 1)]
    bench.now = 30_000
    bench.poll()
    assert bench.failed() == {1: Error.REQUEST_TIMED_OUT}
    assert [e.may_be_written for e in bench.events if isinstance(e, RecordFailed)] == [True]


def test_a_batch_rejected_every_time_is_certainly_unwritten() -> None:
    bench = ProducerBench(retries=1)
    bench.ready()
    bench.send()
    bench.respond(0, Error.NOT_ENOUGH_REPLICAS)
    bench.poll(100)
    bench.respond(1, Error.NOT_ENOUGH_REPLICAS)
    assert bench.failed() == {1: Error.NOT_ENOUGH_REPLICAS}
    assert [e.may_be_written for e in bench.events if isinstance(e, RecordFailed)] == [False]


def test_a_request_without_response_closes_its_connection() -> None:
    bench = ProducerBench()
    bench.ready()
    bench.send()
    bench.poll(29_999)
    assert ConnectionStalled(1) not in bench.events
    bench.poll(1)
    assert ConnectionStalled(1) in bench.events
    assert bench.poll(1000) == [OnWire(A, 0, 0, 1)]


def test_a_newer_leader_in_the_response_is_used_at_once() -> None:
    bench = ProducerBench(leaders={A: 1, B: 2})
    bench.ready()
    bench.send(A)
    responded = PartitionProduceResponse(
        index=0,
        error_code=Error.NOT_LEADER_OR_FOLLOWER,
        current_leader=LeaderIdAndEpoch(leader_id=2, leader_epoch=1),
    )
    topic = TopicProduceResponse(name=A.topic, partition_responses=[responded])
    request = bench.requests[-1].request_id
    bench.producer.on_response(0, request, ProduceResponse(responses=[topic]))
    assert bench.poll() == [OnWire(A, 0, 0, 1)]
    assert bench.requests[-1].node == 2
    assert MetadataWanted([A.topic]) in bench.events


def test_responses_with_topic_ids_are_decoded() -> None:
    topic_id = "T" * 21 + "Q"
    bench = ProducerBench()
    bench.producer.update_metadata(snapshot({A: 1}, orders=topic_id))
    bench.ready()
    bench.send()
    body = bench.requests[-1].body
    assert isinstance(body, ProduceRequest)
    assert body.topic_data[0].topic_id == topic_id
    topic = TopicProduceResponse(
        topic_id=topic_id, partition_responses=[PartitionProduceResponse(index=0, base_offset=3)]
    )
    request = bench.requests[-1].request_id
    bench.producer.on_response(0, request, ProduceResponse(responses=[topic]))
    assert bench.acked() == [1]


def test_a_partition_without_leader_requests_metadata_once() -> None:
    bench = ProducerBench()
    bench.ready()
    nowhere = TopicPartition("payments", 0)
    bench.send(nowhere)
    bench.send(nowhere)
    assert [e for e in bench.events if isinstance(e, MetadataWanted)] == [
        MetadataWanted(["payments"])
    ]


def test_exhausted_retries_leave_the_sequence_unresolved_until_the_next_response() -> None:
    bench = ProducerBench(retries=1)
    bench.ready()
    bench.send()
    bench.send()
    bench.respond(0, Error.LEADER_NOT_AVAILABLE)
    bench.poll(100)
    bench.respond(2, Error.LEADER_NOT_AVAILABLE)
    assert bench.failed() == {1: Error.LEADER_NOT_AVAILABLE}
    assert bench.sequences().unresolved == 1
    bench.respond(1, Error.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert bench.poll(100) == [OnWire(A, 1, 0, 1)]


def test_without_idempotence_a_retry_is_first_and_has_no_sequence() -> None:
    bench = ProducerBench(enable_idempotence=False)
    bench.send()
    bench.send()
    bench.respond(0, Error.LEADER_NOT_AVAILABLE)
    assert bench.poll(100) == [OnWire(A, -1, -1, 1)]
    assert bench.inits() == []
    bench.respond(2, base_offset=1)
    bench.respond(1, base_offset=0)
    assert bench.acked() == [1, 2]


def test_with_acks_0_a_record_is_done_when_it_is_sent() -> None:
    bench = ProducerBench(acks="0")
    bench.send()
    assert not bench.requests[0].expects_response
    assert bench.acked() == [1]
    assert bench.producer.is_idle


def test_a_record_that_fits_in_no_request_fails_at_once() -> None:
    bench = ProducerBench(max_request_size=1000)
    bench.ready()
    bench.send(size_in_bytes=939)
    assert len(bench.wire) == 1
    bench.send(size_in_bytes=940)
    assert bench.failed() == {2: Error.MESSAGE_TOO_LARGE}


def test_a_full_request_leaves_the_rest_for_the_next_one_which_begins_there() -> None:
    bench = ProducerBench(max_request_size=1000, batch_size=700, linger_ms=5)
    bench.ready()
    for partition in (A, B, A):
        bench.send(partition, size_in_bytes=600)
    bench.poll(5)
    assert bench.wire == [OnWire(A, 0, 0, 1), OnWire(B, 0, 0, 1), OnWire(A, 0, 1, 1)]
    assert [len(request.batches) for request in bench.requests[-3:]] == [1, 1, 1]


@pytest.mark.parametrize("base_offset", [0, -1])
def test_past_the_greatest_sequence_a_lost_batch_is_still_noticed(base_offset: int) -> None:
    """Kafka's client waits here for an earlier batch, until the delivery timeout."""
    bench = ProducerBench()
    bench.ready()
    bench.send()
    bench.respond(0, base_offset=0)
    bench.sequences().next_sequence = SEQUENCE_MAX
    bench.sequences().last_acked = SEQUENCE_MAX - 1
    for place in (1, 2):
        bench.send()
        bench.respond(place, base_offset=base_offset)
    assert bench.wire[1:] == [OnWire(A, 0, SEQUENCE_MAX, 1), OnWire(A, 0, 0, 1)]
    bench.send()
    bench.respond(3, Error.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert bench.poll(100) == [OnWire(A, 1, 0, 1)]
