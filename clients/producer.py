"""Kafka's idempotent producer as a pure machine.

Source: seed 002; `KafkaProducer` in Kafka, the client half of KIP-98 and KIP-360. The caller has
the clock, the connections and the record bytes:

    producer = ProducerMachine(ProducerConfig(), jitter=random.Random(7).random)
    producer.update_metadata(metadata.snapshot)      # clients/metadata.py
    record_id = producer.send(now, TopicPartition("orders", 0), size_in_bytes=120)
    for outgoing in producer.poll(now):      # InitProducerId first, then Produce
        ...                                  # send it to outgoing.node
    producer.receive(now, outgoing.request_id, response)
    producer.events()                        # RecordAcked, RecordFailed, MetadataWanted, …

Differences from Kafka's client are explained in `partition_sequences.py` (sequences after
2147483647), `transaction_manager.py` (unknown outcomes at an epoch bump), `accumulator.py` (waiting
partitions) and `producer_batch.py` (splitting).

Not done: compression.
"""

from brokertwin.clients.in_flight_requests import Jitter, Requests
from brokertwin.clients.metadata_snapshot import MetadataSnapshot
from brokertwin.clients.node_latencies import NodeLatencies
from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.producer_batch import (
    BATCH_OVERHEAD,
    PendingRecord,
    ProducerBatch,
)
from brokertwin.clients.producer_config import ProducerConfig, checked
from brokertwin.clients.producer_events import Event, RecordFailed
from brokertwin.clients.sender import Sender, SenderRequest
from brokertwin.clients.transaction_manager import TransactionManager
from brokertwin.clients.transactions import ProducerTransactions
from brokertwin.state.core.errors import Error
from brokertwin.state.core.wire.generated.init_producer_id import InitProducerIdResponse
from brokertwin.state.core.wire.generated.produce import ProduceResponse


class ProducerMachine:
    """One producer. Times are ms on the caller's monotonic clock."""

    def __init__(
        self, config: ProducerConfig, jitter: Jitter, requests: Requests | None = None
    ) -> None:
        """Create a producer; without `requests` it counts its own requests.

        Raises ProducerConfigError.
        """
        self.config = checked(config)
        self._sender = Sender(self.config, jitter, requests)
        self._count = 0

    @property
    def manager(self) -> TransactionManager | None:
        """Id, epoch and sequences; None without idempotence."""
        return self._sender.manager

    @property
    def transactions(self) -> ProducerTransactions | None:
        """The transactions; None without a transactional id."""
        return self._sender.transactions

    @property
    def is_idle(self) -> bool:
        """Whether every record is acknowledged or failed."""
        return self._sender.is_idle

    @property
    def unfinished(self) -> int:
        """Number of batches without a result."""
        return self._sender.unfinished

    @property
    def latencies(self) -> NodeLatencies:
        """How long brokers keep batches waiting."""
        return self._sender.latencies

    def queued(self, partition: TopicPartition) -> list[ProducerBatch]:
        """The queued batches of a partition, in order."""
        return self._sender.accumulator.queued(partition)

    def heads(self) -> list[ProducerBatch]:
        """The first queued batch of each partition."""
        return list(self._sender.accumulator.heads())

    def update_metadata(self, cluster: MetadataSnapshot) -> None:
        """Set the known cluster."""
        self._sender.update_metadata(cluster)

    def has_open(self, partition: TopicPartition, size_in_bytes: int) -> bool:
        """Whether the last batch of a partition has room for the record."""
        return self._sender.accumulator.has_open(partition, size_in_bytes)

    def has_room(self, partition: TopicPartition, size_in_bytes: int) -> bool:
        """Whether a record fits into `buffer.memory`.

        A record that never fits is accepted, and fails at once.
        """
        if self.has_open(partition, size_in_bytes):
            return True
        needed = max(self.config.batch_size, size_in_bytes + BATCH_OVERHEAD)
        is_hopeless = needed > self.config.buffer_memory
        return is_hopeless or self._sender.buffered_bytes + needed <= self.config.buffer_memory

    def send(
        self, now: int, partition: TopicPartition, size_in_bytes: int, timestamp: int | None = None
    ) -> int:
        """Add a record; returns the id that events refer to.

        A record that is too large, or sent after a fatal error, fails at once.
        """
        self._count += 1
        record = PendingRecord(self._count, size_in_bytes, now if timestamp is None else timestamp)
        error = self._sender.fatal_error
        size_max = min(self.config.max_request_size, self.config.buffer_memory)
        if size_in_bytes + BATCH_OVERHEAD > size_max:
            error = Error.MESSAGE_TOO_LARGE
        if error is not Error.NONE:
            if self.transactions is not None:
                self.transactions.batch_failed(error)
            self._sender.events.append(
                RecordFailed(record.id, partition, error, may_be_written=False)
            )
        else:
            self._sender.added(self._sender.accumulator.append(now, partition, record))
        return record.id

    def flush(self) -> None:
        """Disable lingering."""
        self._sender.accumulator.is_flushing = True

    def linger(self) -> None:
        """Enable lingering again."""
        self._sender.accumulator.is_flushing = False

    def poll(self, now: int) -> list[SenderRequest]:
        """Return the requests to send now, in order."""
        self._sender.close_stalled(now)
        sent: list[SenderRequest] = []
        while passed := self._sender.send_pass(now):
            sent += passed
        return sent

    def receive(
        self, now: int, request_id: int, response: ProduceResponse | InitProducerIdResponse | Error
    ) -> None:
        """Handle a response, or the error of a request that cannot have one."""
        self._sender.on_response(now, request_id, response)

    def disconnected(self, now: int, node: int) -> None:
        """Handle a closed connection; its requests get no response."""
        self._sender.disconnected(now, node)

    def events(self) -> list[Event]:
        """Return the events since the last call, in order."""
        happened, self._sender.events = self._sender.events, []
        return happened

    def next_passes(self, now: int) -> list[int]:
        """When batches become sendable, as far as an event does not tell (`Sender.run` in 2.0)."""
        return [time for time in self._sender.batch_deadlines(now) if time > now]

    def next_deadline(self, now: int) -> int | None:
        """When to poll again without an event; None if nothing is pending."""
        return min((time for time in self._sender.deadlines(now) if time > now), default=None)
