"""A producer on sockets: send, poll for what has become of records, flush, close.

    with Producer("localhost:9092", ProducerConfig()) as producer:
        producer.send("orders", Message(b"key", b"value"))
        producer.flush(30_000)

Source: `KafkaProducer` in Kafka. For one thread; batches leave in its `turn`s.
"""

import random
from collections.abc import Mapping
from types import TracebackType

from brokertwin.clients.consumer_requests import Generation
from brokertwin.clients.driver import Clock, Driver, Network
from brokertwin.clients.io.records import encode_batch
from brokertwin.clients.io.security import Kafka, addresses_to
from brokertwin.clients.io.sockets import SocketNetwork, monotonic_ms, wall_ms
from brokertwin.clients.messages import Message, size_of
from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.producer_batch import ProducerBatch
from brokertwin.clients.producer_client import ProducerClient
from brokertwin.clients.producer_config import ProducerConfig
from brokertwin.clients.producer_events import Acked, Failed
from brokertwin.clients.transactions import Transactions, TransactionState, WrongStateError
from brokertwin.state.core.errors import Error, error_name

INIT_MS = 60_000
"""How long the begin or the end of a transaction may take (`max.block.ms`)."""


class BlockedError(Exception):
    """A record could not be added within `max.block.ms`; the text says why."""


class TransactionError(Exception):
    """A transaction did not end as it should.

    Attributes:
        state: ABORTABLE_ERROR: it can be aborted. FATAL_ERROR: the producer can do nothing more.
            Any other: the time is over.
        error: Kafka's.
    """

    def __init__(self, state: TransactionState, error: Error) -> None:
        super().__init__(f"{state}: {error_name(error)}")
        self.state = state
        self.error = error


class Producer:
    """One producer. `network` and `clock` may be given; times in ms."""

    def __init__(
        self,
        kafka: Kafka,
        config: ProducerConfig,
        *,
        client_id: str = "brokertwin-producer",
        compression: str = "none",
        may_create_topics: bool = True,
        network: Network | None = None,
        clock: Clock = monotonic_ms,
    ) -> None:
        """Raises ConfigError where settings conflict."""
        self.client = ProducerClient(config, random.random, may_create_topics=may_create_topics)
        self.client.metadata.bootstrap(addresses_to(kafka), clock())
        self._compression = compression
        self._messages: dict[int, Message] = {}
        self._sockets = None if network else SocketNetwork(kafka, client_id, self._encode)
        given = network or self._sockets
        assert given is not None, "there is a network"
        self._driver = Driver(self.client, given, clock)

    def __enter__(self) -> "Producer":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def partitions_of(self, topic: str, timeout_ms: int) -> int | None:
        """How many partitions a topic has; None where nobody has said so in time."""
        metadata = self.client.metadata
        metadata.add(topic, self._driver.now)
        known = self._driver.turn_until(
            lambda: metadata.snapshot.partition_count(topic) is not None, timeout_ms
        )
        return metadata.snapshot.partition_count(topic) if known else None

    def send(self, topic: str, message: Message, partition: int | None = None) -> int:
        """Adds a record; gives back its id, by which the events name it.

        Waits for the topic's partitions and for room, at most `max.block.ms`; then it raises
        BlockedError.
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
                raise BlockedError(self._why(topic, partition))
            self._driver.turn(until - now)

    def _why(self, topic: str, partition: int | None) -> str:
        count = self.client.metadata.snapshot.partition_count(topic)
        waited = f"after {self.client.producer.config.max_block_ms} ms (max.block.ms)"
        if not count:
            return f"There is no topic {topic} {waited}."
        if partition is not None and partition >= count:
            return f"Topic {topic} has {count} partitions and none of number {partition} {waited}."
        return f"There is no room in buffer.memory {waited}."

    # Transactions

    def init_transactions(self, timeout_ms: int = INIT_MS) -> None:
        """Gets the id; whoever had it before is fenced. Raises TransactionError."""
        self._transactions.init()
        self._wait_ready(timeout_ms)

    def begin_transaction(self) -> None:
        """Begins one. Raises WrongStateError."""
        self._transactions.begin()

    def send_offsets_to_transaction(
        self, group_id: str, offsets: Mapping[TopicPartition, int], member: Generation
    ) -> None:
        """Has the transaction commit offsets that a member of the group has read up to."""
        self._transactions.send_offsets(group_id, offsets, member)

    def commit_transaction(self, timeout_ms: int = INIT_MS) -> list[Acked | Failed]:
        """Commits; what became of its records. Raises TransactionError where it can not."""
        self._transactions.commit()
        self._wait_ready(timeout_ms)
        return self._events()

    def abort_transaction(self, timeout_ms: int = INIT_MS) -> list[Acked | Failed]:
        """Aborts; what became of its records. Raises TransactionError where it can not."""
        self._transactions.abort()
        self._wait_ready(timeout_ms)
        return self._events()

    @property
    def _transactions(self) -> Transactions:
        if self.client.transactions is None:
            raise WrongStateError("the producer has no transactional id")
        return self.client.transactions

    def _wait_ready(self, timeout_ms: int) -> None:
        known = self._transactions
        ends = {
            TransactionState.READY,
            TransactionState.ABORTABLE_ERROR,
            TransactionState.FATAL_ERROR,
        }
        self._driver.turn_until(lambda: known.state in ends, timeout_ms)
        if known.state is not TransactionState.READY:
            raise TransactionError(known.state, known.error)

    def turn(self, timeout_ms: int) -> list[Acked | Failed]:
        """Sends what is due, waits at most so long; what has become of records."""
        self._driver.turn(timeout_ms)
        return self._events()

    def flush(self, timeout_ms: int) -> list[Acked | Failed]:
        """Waits until each record is acknowledged or failed, at most so long."""
        self.client.producer.flush()
        self._driver.turn_until(lambda: self.client.producer.is_idle, timeout_ms)
        self.client.producer.linger()
        return self._events()

    @property
    def is_idle(self) -> bool:
        """Whether each record is acknowledged or failed."""
        return self.client.producer.is_idle

    def wake(self) -> None:
        """Ends a wait of `turn`; from any thread."""
        if self._sockets is not None:
            self._sockets.wake()

    def close(self) -> None:
        """Closes the connections; what was not flushed is gone."""
        if self._sockets is not None:
            self._sockets.close()

    def _events(self) -> list[Acked | Failed]:
        events = self.client.events()
        for event in events:
            self._messages.pop(event.record_id, None)
        return events

    def _encode(self, batch: ProducerBatch) -> bytes:
        return encode_batch(batch, self._messages, self._compression)
