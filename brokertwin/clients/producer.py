"""Kafka's idempotent producer as a pure machine.

Source: seed 002; `KafkaProducer` in Kafka, the client half of KIP-98 and KIP-360. The caller has
the clock, the connections and the record bytes:

    producer = ProducerMachine(ProducerConfig(), random.Random(7).random, requests)
    producer.update_metadata(metadata.snapshot)      # clients/metadata.py
    record_id = producer.send(now, TopicPartition("orders", 0), size_in_bytes=120)
    for outgoing in producer.poll(now):      # InitProducerId first, then Produce
        ...                                  # send it to outgoing.node
    producer.on_response(now, outgoing.request_id, response)
    producer.events()                        # RecordAcked, RecordFailed, MetadataWanted, …

Differences from Kafka's client are explained in `partition_sequences.py` (sequences after
2147483647), `transaction_manager.py` (unknown outcomes at an epoch bump), `accumulator.py` (waiting
partitions) and `producer_batch.py` (splitting).

Not done: compression.
"""

from brokertwin.clients.network import Draw
from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.producer_batch import BATCH_OVERHEAD, PendingRecord
from brokertwin.clients.producer_config import ProducerConfig, checked
from brokertwin.clients.producer_events import Event, RecordFailed
from brokertwin.clients.sender import NodeRequests, Sender, SenderRequest
from brokertwin.protocol.errors import Error


class ProducerMachine(Sender):
    """One producer. Times are ms on the caller's monotonic clock."""

    def __init__(self, config: ProducerConfig, draw: Draw, requests: NodeRequests) -> None:
        """Raises ProducerConfigError."""
        super().__init__(checked(config), draw, requests)
        self._count = 0

    def has_room(self, partition: TopicPartition, size_in_bytes: int) -> bool:
        """Whether a record fits into `buffer.memory`.

        A record that never fits is accepted, and fails at once.
        """
        if self.accumulator.has_open(partition, size_in_bytes):
            return True
        needed = max(self.config.batch_size, size_in_bytes + BATCH_OVERHEAD)
        is_hopeless = needed > self.config.buffer_memory
        return is_hopeless or self.buffered_bytes + needed <= self.config.buffer_memory

    def send(
        self, now: int, partition: TopicPartition, size_in_bytes: int, timestamp: int | None = None
    ) -> int:
        """Add a record; returns the id that events refer to.

        A record that is too large, or sent after a fatal error, fails at once.
        """
        self._count += 1
        record = PendingRecord(self._count, size_in_bytes, now if timestamp is None else timestamp)
        error = self.fatal_error
        size_max = min(self.config.max_request_size, self.config.buffer_memory)
        if size_in_bytes + BATCH_OVERHEAD > size_max:
            error = Error.MESSAGE_TOO_LARGE
        if error is not Error.NONE:
            if self.transactions is not None:
                self.transactions.batch_failed(error)
            self._events.append(RecordFailed(record.id, partition, error, may_be_written=False))
        else:
            self.added(self.accumulator.append(now, partition, record))
        return record.id

    def flush(self) -> None:
        self.accumulator.is_flushing = True

    def linger(self) -> None:
        self.accumulator.is_flushing = False

    def poll(self, now: int) -> list[SenderRequest]:
        """Return the requests to send now, in order."""
        self.close_stalled(now)
        sent: list[SenderRequest] = []
        while passed := self.send_pass(now):
            sent += passed
        return sent

    def events(self) -> list[Event]:
        """Return the events since the last call, in order."""
        events, self._events = self._events, []
        return events

    def next_passes(self, now: int) -> list[int]:
        """When batches become sendable, without an event (`Sender.run` in Kafka 2.0).

        It sleeps before it asks again for a producer id (`maybeWaitForProducerId`).
        """
        times = self.batch_deadlines(now)
        if self.manager is not None:
            times.append(self.manager.retry_at)
        return [time for time in times if time > now]

    def next_deadline(self, now: int) -> int | None:
        """When to poll again without an event; None if nothing is pending."""
        return min((time for time in self.deadlines(now) if time > now), default=None)
