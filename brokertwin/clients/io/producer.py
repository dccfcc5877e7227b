"""A producer on sockets: send, poll for results, flush, close.

    with Producer("localhost:9092", ProducerConfig()) as producer:
        producer.send("orders", ProducerRecord(b"key", b"value"))
        producer.flush(30_000)

Source: `KafkaProducer` in Kafka. For one thread; batches are sent in `turn`.
"""

import random
from collections.abc import Mapping

from brokertwin.clients.consumer_requests import Generation
from brokertwin.clients.driver import ClientDriver, ClientNetwork, Clock
from brokertwin.clients.io.records import encode_batch
from brokertwin.clients.io.security import Kafka, addresses_to
from brokertwin.clients.io.sockets import SocketNetwork, monotonic_ms, wall_ms
from brokertwin.clients.messages import ProducerRecord, size_of
from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.producer_batch import ProducerBatch
from brokertwin.clients.producer_client import ProducerClient
from brokertwin.clients.producer_config import ProducerConfig
from brokertwin.clients.producer_events import RecordAcked, RecordFailed
from brokertwin.clients.transactions import (
    ProducerTransactions,
    TransactionManagerState,
    WrongStateError,
)
from brokertwin.errors import UserError
from brokertwin.protocol.errors import Error, error_name

INIT_MS = 60_000
"""Timeout for starting or ending a transaction (`max.block.ms`)."""

ENDS = {
    TransactionManagerState.READY,
    TransactionManagerState.ABORTABLE_ERROR,
    TransactionManagerState.FATAL_ERROR,
}
"""States that end the wait for a transaction."""


class BlockedError(UserError):
    """A record could not be added within `max.block.ms`; the text says why."""


def blocked(client: ProducerClient, topic: str, partition: int | None) -> BlockedError:
    count = client.metadata.snapshot.partition_count(topic)
    waited = f"after {client.producer.config.max_block_ms} ms (max.block.ms)"
    if not count:
        return BlockedError(f"Topic {topic} does not exist {waited}.", "Create it first.")
    if partition is not None and partition >= count:
        text = f"Topic {topic} has {count} partitions and none of number {partition} {waited}."
        return BlockedError(text)
    return BlockedError(f"No room in buffer.memory {waited}.")


class TransactionError(UserError):
    """A transaction that failed or timed out.

    Attributes:
        state: ABORTABLE_ERROR if it can be aborted, FATAL_ERROR if the producer has failed; any
            other state means a timeout.
        error: Kafka's error.
    """

    def __init__(self, state: TransactionManagerState, error: Error) -> None:
        super().__init__(f"The transaction failed, {state}: {error:d} {error_name(error)}.")
        self.state = state
        self.error = error


class Producer:
    """One producer; times in ms. `network` and `clock` are for tests."""

    def __init__(
        self,
        kafka: Kafka,
        config: ProducerConfig,
        *,
        client_id: str = "brokertwin-producer",
        compression: str = "none",
        may_create_topics: bool = True,
        network: ClientNetwork | None = None,
        clock: Clock = monotonic_ms,
    ) -> None:
        """Raises ProducerConfigError."""
        self.client = ProducerClient(config, random.random, may_create_topics=may_create_topics)
        self.client.start(addresses_to(kafka), clock())
        self._compression = compression
        self._messages: dict[int, ProducerRecord] = {}
        self._sockets = None if network else SocketNetwork(kafka, client_id, self._encode)
        client_network = network or self._sockets
        assert client_network is not None, "network or sockets"
        self._driver = ClientDriver(self.client, client_network, clock)

    def __enter__(self) -> "Producer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def partitions_of(self, topic: str, timeout_ms: int) -> int | None:
        """Return the number of partitions of a topic; None after the timeout."""
        metadata = self.client.metadata
        metadata.add(topic, self._driver.now)
        has_metadata = self._driver.turn_until(
            lambda: metadata.snapshot.partition_count(topic) is not None, timeout_ms
        )
        return metadata.snapshot.partition_count(topic) if has_metadata else None

    def send(self, topic: str, message: ProducerRecord, partition: int | None = None) -> int:
        """Add a record; returns the id that events refer to.

        Waits for the topic's metadata and for room. Raises BlockedError after `max.block.ms`.
        """
        timestamp = message.timestamp if message.timestamp >= 0 else wall_ms()
        size = size_of(message)
        until = self._driver.now + self.client.producer.config.max_block_ms
        while True:
            now = self._driver.now
            record_id = self.client.offer(
                now, topic, message.key, size, partition=partition, timestamp=timestamp
            )
            if record_id is not None:
                self._messages[record_id] = message
                return record_id
            if now >= until:
                raise blocked(self.client, topic, partition)
            self._driver.turn(until - now)

    # Transactions

    def init_transactions(self, timeout_ms: int = INIT_MS) -> None:
        """Request the id, fencing earlier producers. Raises TransactionError."""
        self._transactions.init()
        self._wait_ready(timeout_ms)

    def begin_transaction(self) -> None:
        """Begin a transaction. Raises WrongStateError."""
        self._transactions.begin()

    def send_offsets_to_transaction(
        self, group_id: str, offsets: Mapping[TopicPartition, int], member: Generation
    ) -> None:
        self._transactions.send_offsets(group_id, offsets, member)

    def commit_transaction(self, timeout_ms: int = INIT_MS) -> list[RecordAcked | RecordFailed]:
        """Commit and return the results of records. Raises TransactionError."""
        self._transactions.commit()
        self._wait_ready(timeout_ms)
        return self._events()

    def abort_transaction(self, timeout_ms: int = INIT_MS) -> list[RecordAcked | RecordFailed]:
        """Abort and return the results of records. Raises TransactionError."""
        self._transactions.abort()
        self._wait_ready(timeout_ms)
        return self._events()

    @property
    def _transactions(self) -> ProducerTransactions:
        if self.client.transactions is None:
            raise WrongStateError("the producer has no transactional id")
        return self.client.transactions

    def _wait_ready(self, timeout_ms: int) -> None:
        transactions = self._transactions
        self._driver.turn_until(lambda: transactions.state in ENDS, timeout_ms)
        if transactions.state is not TransactionManagerState.READY:
            raise TransactionError(transactions.state, transactions.error)

    def turn(self, timeout_ms: int) -> list[RecordAcked | RecordFailed]:
        """Send and wait for at most `timeout_ms`; returns results of records."""
        self._driver.turn(timeout_ms)
        return self._events()

    def flush(self, timeout_ms: int) -> list[RecordAcked | RecordFailed]:
        """Wait until all records are finished, for at most `timeout_ms`."""
        self.client.producer.flush()
        self._driver.turn_until(lambda: self.client.producer.is_idle, timeout_ms)
        self.client.producer.linger()
        return self._events()

    @property
    def is_idle(self) -> bool:
        """Whether each record is acknowledged or failed."""
        return self.client.producer.is_idle

    def wake(self) -> None:
        """End a wait of `turn`; from any thread."""
        if self._sockets is not None:
            self._sockets.wake()

    def close(self) -> None:
        """Close the connections; unflushed records are lost."""
        if self._sockets is not None:
            self._sockets.close()

    def _events(self) -> list[RecordAcked | RecordFailed]:
        events = self.client.events()
        for event in events:
            self._messages.pop(event.record_id, None)
        return events

    def _encode(self, batch: ProducerBatch) -> bytes:
        return encode_batch(batch, self._messages, self._compression)
