"""Kafka's idempotent producer as a pure machine: requests out, answers in.

Source: seed 002; `KafkaProducer` in Kafka, its client half of KIP-98 and KIP-360. The caller has
the clock, the connections and the records' bytes:

    producer = Producer(ProducerConfig(), jitter=random.Random(7).random)
    producer.update_metadata(metadata.snapshot)      # clients/metadata.py
    record_id = producer.send(now, TopicPartition("orders", 0), size_in_bytes=120)
    for outgoing in producer.poll(now):      # InitProducerId first, Produce when the id has come
        ...                                  # put it on the connection to outgoing.node
    producer.receive(now, outgoing.request_id, response)
    producer.events()                        # Acked, Failed, MetadataWanted, ConnectionStalled

What Kafka's client does otherwise, and why, stands in `partition_sequences.py` (sequences past
2147483647), `transaction_manager.py` (batches whose outcome is unknown when the epoch is bumped),
`accumulator.py` (partitions that wait) and `producer_batch.py` (splitting).

Not done: compression.
"""

from brokertwin.clients.in_flight_requests import Jitter, Requests
from brokertwin.clients.metadata_snapshot import MetadataSnapshot
from brokertwin.clients.node_latencies import NodeLatencies
from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.producer_batch import (
    BATCH_OVERHEAD,
    ProducerBatch,
    Record,
)
from brokertwin.clients.producer_config import ProducerConfig, checked
from brokertwin.clients.producer_events import Event, Failed
from brokertwin.clients.sender import Outgoing, Sender
from brokertwin.clients.transaction_manager import TransactionManager
from brokertwin.clients.transactions import Transactions
from brokertwin.state.core.errors import Error
from brokertwin.state.core.wire.generated.init_producer_id import InitProducerIdResponse
from brokertwin.state.core.wire.generated.produce import ProduceResponse


class Producer:
    """One producer. Times are ms on the caller's clock, which does not go back; sizes in bytes."""

    def __init__(
        self, config: ProducerConfig, jitter: Jitter, requests: Requests | None = None
    ) -> None:
        """Raises ConfigError where settings conflict. `requests`: without, it counts its own."""
        self.config = checked(config)
        self._sender = Sender(self.config, jitter, requests)
        self._count = 0

    @property
    def manager(self) -> TransactionManager | None:
        """Its id, epoch and sequences; None without idempotence."""
        return self._sender.manager

    @property
    def transactions(self) -> Transactions | None:
        """Its transactions; None without a transactional id."""
        return self._sender.transactions

    @property
    def is_idle(self) -> bool:
        """Whether every record is acknowledged or failed."""
        return self._sender.is_idle

    @property
    def latencies(self) -> NodeLatencies:
        """How long brokers keep batches waiting."""
        return self._sender.latencies

    def queued(self, partition: TopicPartition) -> list[ProducerBatch]:
        """The batches that wait for a partition, in order."""
        return self._sender.accumulator.queued(partition)

    def update_metadata(self, cluster: MetadataSnapshot) -> None:
        """Takes over what is known of the cluster."""
        self._sender.update_metadata(cluster)

    def has_open(self, partition: TopicPartition, size_in_bytes: int) -> bool:
        """Whether the last batch of a partition takes a record of this size."""
        return self._sender.accumulator.has_open(partition, size_in_bytes)

    def has_room(self, partition: TopicPartition, size_in_bytes: int) -> bool:
        """Whether a record has room in `buffer.memory`: in an open batch, or for a new one.

        One that never has is let through: it fails at once.
        """
        if self.has_open(partition, size_in_bytes):
            return True
        needed = max(self.config.batch_size, size_in_bytes + BATCH_OVERHEAD)
        is_hopeless = needed > self.config.buffer_memory
        return is_hopeless or self._sender.buffered_bytes + needed <= self.config.buffer_memory

    def send(
        self, now: int, partition: TopicPartition, size_in_bytes: int, timestamp: int | None = None
    ) -> int:
        """Adds a record; gives back its id, by which the events name it.

        A record that fits in no request, and every record after a fatal error, fails at once.
        """
        self._count += 1
        record = Record(self._count, size_in_bytes, now if timestamp is None else timestamp)
        error = self._sender.fatal_error
        size_max = min(self.config.max_request_size, self.config.buffer_memory)
        if size_in_bytes + BATCH_OVERHEAD > size_max:
            error = Error.MESSAGE_TOO_LARGE
        if error is not Error.NONE:
            if self.transactions is not None:
                self.transactions.batch_failed(error)
            self._sender.events.append(Failed(record.id, partition, error, may_be_written=False))
        else:
            self._sender.added(self._sender.accumulator.append(now, partition, record))
        return record.id

    def flush(self) -> None:
        """From here on no batch lingers."""
        self._sender.accumulator.is_flushing = True

    def linger(self) -> None:
        """From here on batches linger again."""
        self._sender.accumulator.is_flushing = False

    def poll(self, now: int) -> list[Outgoing]:
        """The requests that are to be sent now, in their order."""
        self._sender.close_stalled(now)
        sent: list[Outgoing] = []
        while passed := self._sender.send_pass(now):
            sent += passed
        return sent

    def receive(
        self, now: int, request_id: int, response: ProduceResponse | InitProducerIdResponse | Error
    ) -> None:
        """Takes in an answer; an Error where there can be none (35 UNSUPPORTED_VERSION)."""
        self._sender.answered(now, request_id, response)

    def disconnected(self, now: int, node: int) -> None:
        """The connection to a node was closed; requests under way on it get no answer."""
        self._sender.disconnected(now, node)

    def events(self) -> list[Event]:
        """What has happened since the last call, in order."""
        happened, self._sender.events = self._sender.events, []
        return happened

    def next_deadline(self, now: int) -> int | None:
        """When to poll again, if no answer comes before; None where nothing is waited for."""
        return min((time for time in self._sender.deadlines(now) if time > now), default=None)
