"""A producer whose responses are given by hand.

bench = ProducerBench()
bench.ready()
bench.send(); bench.send()
bench.respond(0, Error.LEADER_NOT_AVAILABLE)
"""

from typing import Any, NamedTuple

from brokertwin.clients.metadata_snapshot import MetadataSnapshot, PartitionInfo
from brokertwin.clients.partition_sequences import PartitionSequences
from brokertwin.clients.partitions import Node, TopicPartition
from brokertwin.clients.producer_batch import ProducerBatch
from brokertwin.clients.producer_config import ProducerConfig
from brokertwin.clients.producer_events import Event, RecordAcked, RecordFailed
from brokertwin.clients.sender import SenderRequest
from brokertwin.clients.transaction_manager import TransactionManager
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from brokertwin.protocol.generated.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from tests.support.standalone_producer import StandaloneProducer

A = TopicPartition("orders", 0)
B = TopicPartition("orders", 1)
PRODUCER_ID = 4000


def snapshot(leaders: dict[TopicPartition, int], **topic_ids: str) -> MetadataSnapshot:
    """Metadata in which these nodes lead these partitions, since leader epoch 0."""
    return MetadataSnapshot(
        nodes={node: Node(node, "localhost", 9092) for node in leaders.values()},
        partitions={
            partition: PartitionInfo(partition, leader, 0) for partition, leader in leaders.items()
        },
        topic_ids=topic_ids,
    )


class OnWire(NamedTuple):
    """A batch as a request carried it."""

    partition: TopicPartition
    epoch: int
    sequence: int
    count: int


class ProducerBench:
    """One producer and one node, which leads both partitions unless `leaders` says otherwise.

    Attributes:
        requests: every request sent, in order.
        wire: every batch sent, in order, as it was sent; `respond` names them by their place.
        events: everything that the producer has told.
    """

    def __init__(self, leaders: dict[TopicPartition, int] | None = None, **config: Any) -> None:
        config.setdefault("linger_ms", 0)
        self.producer = StandaloneProducer(ProducerConfig(**config))
        led = leaders or {A: 1, B: 1}
        self.now = 0
        self.requests: list[SenderRequest] = []
        self.wire: list[OnWire] = []
        self.events: list[Event] = []
        self._batches: list[tuple[SenderRequest, ProducerBatch]] = []
        self.producer.update_metadata(snapshot(led))

    @property
    def manager(self) -> TransactionManager:
        assert self.producer.manager is not None
        return self.producer.manager

    def sequences(self, partition: TopicPartition = A) -> PartitionSequences:
        return self.manager.sequences(partition)

    def ready(self, epoch: int = 0) -> None:
        self.poll()
        self.init_response(InitProducerIdResponse(producer_id=PRODUCER_ID, producer_epoch=epoch))

    def init_response(self, response: InitProducerIdResponse | Error) -> None:
        if isinstance(response, Error):
            response = InitProducerIdResponse(error_code=response)
        self.producer.on_response(self.now, self.inits()[-1].request_id, response)
        self.poll()

    def inits(self) -> list[SenderRequest]:
        return [r for r in self.requests if isinstance(r.body, InitProducerIdRequest)]

    def send(self, partition: TopicPartition = A, size_in_bytes: int = 100) -> int:
        """Sends a record and polls: without lingering, one batch for each record."""
        record = self.producer.send(self.now, partition, size_in_bytes)
        self.poll()
        return record

    def poll(self, milliseconds: int = 0) -> list[OnWire]:
        """Lets time pass; the batches that are sent now."""
        self.now += milliseconds
        before = len(self.wire)
        for outgoing in self.producer.poll(self.now):
            self.requests.append(outgoing)
            for batch in outgoing.batches:
                self.wire.append(_on_wire(batch))
                self._batches.append((outgoing, batch))
        self.events += self.producer.events()
        return self.wire[before:]

    def respond(
        self,
        place: int,
        error: Error = Error.NONE,
        base_offset: int = -1,
        log_start_offset: int = -1,
        polls: bool = True,
    ) -> None:
        """Answers the request of the batch at `place` of `wire`, which has that batch alone."""
        outgoing, batch = self._batches[place]
        responded = PartitionProduceResponse(
            index=batch.topic_partition.partition,
            error_code=error,
            base_offset=base_offset,
            log_start_offset=log_start_offset,
        )
        topic = TopicProduceResponse(
            name=batch.topic_partition.topic, partition_responses=[responded]
        )
        self.producer.on_response(self.now, outgoing.request_id, ProduceResponse(responses=[topic]))
        if polls:
            self.poll()

    def acked(self) -> list[int]:
        self.events += self.producer.events()
        return [event.record_id for event in self.events if isinstance(event, RecordAcked)]

    def failed(self) -> dict[int, Error]:
        self.events += self.producer.events()
        return {e.record_id: e.error for e in self.events if isinstance(e, RecordFailed)}

    def waiting(self, partition: TopicPartition = A) -> list[int]:
        """The base sequences of the batches in the queue, -1 for those without."""
        return [batch.base_sequence for batch in self.producer.accumulator.queued(partition)]


def _on_wire(batch: ProducerBatch) -> OnWire:
    return OnWire(
        batch.topic_partition,
        batch.id_and_epoch.epoch,
        batch.base_sequence,
        len(batch.records),
    )
