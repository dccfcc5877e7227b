"""A producer that several threads share; a separate thread sends.

    with SharedProducer("localhost:9092", ProducerConfig(), on_result) as producer:
        producer.send("orders", ProducerRecord(b"key", b"value"))     # from any thread
        producer.flush(30_000)

    user threads     wait for metadata and for buffer memory, add records, wake the sender
    sender thread    connects, sends, receives, applies metadata, wakes the waiting threads

One lock guards the client. The sender releases it while it waits for the network. After events it
makes its next pass before it releases the lock, because the log lines of seed 001 have that order.

Source: seed 001 (`synchronized`, `wait` and `notifyAll` in `Metadata`); `Metadata.awaitUpdate`,
`KafkaProducer.waitOnMetadata`, `KafkaProducer.doSend` and `Sender.run` in Kafka.
"""

import random
import threading
from collections.abc import Callable
from typing import Protocol

from brokertwin.clients.driver import ClientDriver, ClientNetwork, Clock
from brokertwin.clients.io.producer import (
    ENDS,
    INIT_MS,
    BlockedError,
    TransactionError,
    blocked,
)
from brokertwin.clients.io.records import encode_batch
from brokertwin.clients.io.security import Kafka, addresses_to
from brokertwin.clients.io.sockets import WAIT_MS_MAX, SocketNetwork, monotonic_ms, wall_ms
from brokertwin.clients.messages import ProducerRecord, size_of
from brokertwin.clients.metadata import MetadataSettings
from brokertwin.clients.metadata_wait import (
    MetadataKnown,
    MetadataUnavailable,
    MetadataWait,
    WaitFor,
)
from brokertwin.clients.producer_batch import ProducerBatch
from brokertwin.clients.producer_client import ProducerClient
from brokertwin.clients.producer_config import ProducerConfig
from brokertwin.clients.producer_events import RecordAcked, RecordFailed
from brokertwin.clients.transactions import (
    ProducerTransactions,
    TransactionManagerState,
    WrongStateError,
)
from brokertwin.protocol.errors import Error

OnResult = Callable[[RecordAcked | RecordFailed], None]
"""Called on the sender thread with the result of each record. Must not call the producer."""


class Monitor(Protocol):
    """The lock and its condition; `threading.Condition`, or virtual time in tests."""

    def __enter__(self) -> bool:
        """Acquire the lock."""

    def __exit__(self, *error: object) -> None:
        """Release the lock."""

    def wait(self, timeout: float | None = None) -> bool:
        """Release the lock until `notify_all` or the timeout, in seconds."""

    def wait_for(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        """Release the lock until the predicate holds or the timeout."""

    def notify_all(self) -> None:
        """Wake the waiting threads."""


class WakeableNetwork(ClientNetwork, Protocol):
    """A network whose `wait` another thread can end."""

    def wake(self) -> None:
        """End the current or next wait at once."""

    def close(self) -> None:
        """Close all connections."""


class SharedProducer:
    """A producer for any number of threads. It creates no topics. Times are in ms.

    `network`, `clock` and `monitor` are for tests.
    """

    def __init__(
        self,
        kafka: Kafka,
        config: ProducerConfig,
        on_result: OnResult,
        *,
        client_id: str = "brokertwin-producer",
        compression: str = "none",
        metadata: MetadataSettings | None = None,
        network: WakeableNetwork | None = None,
        clock: Clock = monotonic_ms,
        monitor: Monitor | None = None,
    ) -> None:
        """Start the sender thread. Raises ProducerConfigError."""
        self.client = self._make_client(config, metadata)
        self.client.start(addresses_to(kafka), clock())
        self._max_block_ms = self.client.producer.config.max_block_ms
        self._on_result = on_result
        self._compression = compression
        self._messages: dict[int, ProducerRecord] = {}
        self._network = network or SocketNetwork(kafka, client_id, self._encode)
        self._clock = clock
        self._changed = monitor or threading.Condition()
        self._driver = ClientDriver(self.client, self._network, clock)
        self._is_closing = False
        self._failure: Exception | None = None
        name = f"kafka-producer-network-thread | {client_id}"
        self._sender = threading.Thread(target=self._run, name=name, daemon=True)
        self._sender.start()

    def _make_client(
        self, config: ProducerConfig, metadata: MetadataSettings | None
    ) -> ProducerClient:
        """Return the client. Raises ProducerConfigError."""
        return ProducerClient(config, random.random, metadata=metadata, may_create_topics=False)

    def __enter__(self) -> "SharedProducer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # User threads

    def wait_on_metadata(self, topic: str, partition: int | None = None) -> MetadataKnown:
        """Wait until the topic, and the partition if given, is known.

        Raises BlockedError after `max.block.ms`, if the topic has an error, and if the producer is
        closed.
        """
        wait = MetadataWait(self.client.metadata, topic, partition, self._max_block_ms)
        with self._changed:
            step = wait.start(self._clock())
            while isinstance(step, WaitFor):
                self._await_update(topic, step.version, step.remaining_ms)
                step = wait.resume(self._clock())
            self._raise_failure()
        if isinstance(step, MetadataUnavailable):
            if step.code is Error.REQUEST_TIMED_OUT:
                raise blocked(self.client, topic, partition)
            raise BlockedError(f"{step.message}.")
        return step

    def _await_update(self, topic: str, last_version: int, max_wait_ms: int) -> None:
        """Wake the sender, and wait for metadata newer than `last_version`, the end or the timeout.

        `topic` is the one without metadata.
        """
        self._network.wake()
        metadata = self.client.metadata
        self._changed.wait_for(
            lambda: metadata.update_version > last_version or metadata.is_closed,
            max_wait_ms / 1000,
        )

    def send(self, topic: str, message: ProducerRecord, partition: int | None = None) -> int:
        """Add a record and return its id; `on_result` receives its result with this id.

        Waits for the topic's metadata, then for free `buffer.memory`, for at most `max.block.ms`
        in total. Raises BlockedError, and the error that ended the sender.
        """
        until = self._clock() + self._max_block_ms
        self.wait_on_metadata(topic, partition)
        timestamp = message.timestamp if message.timestamp >= 0 else wall_ms()
        size = size_of(message)
        has_waited = False
        with self._changed:
            while True:
                self._raise_failure()
                if self.client.metadata.is_closed:
                    raise BlockedError("The producer is closed.")
                now, before = self._clock(), self.client.producer.unfinished
                record_id = self._offer(now, topic, message, size, partition, timestamp)
                if record_id is not None:
                    self._messages[record_id] = message
                    if self.client.producer.unfinished > before:
                        self._network.wake()
                    return record_id
                if now >= until:
                    raise blocked(self.client, topic, partition)
                if not has_waited:
                    self._network.wake()
                has_waited = True
                self._changed.wait((until - now) / 1000)

    def _offer(
        self,
        now: int,
        topic: str,
        message: ProducerRecord,
        size: int,
        partition: int | None,
        timestamp: int,
    ) -> int | None:
        """Add a record; None without room."""
        return self.client.offer(
            now, topic, message.key, size, partition=partition, timestamp=timestamp
        )

    def flush(self, timeout_ms: int) -> None:
        """Wait until all records are finished, for at most `timeout_ms`.

        Raises the error that ended the sender.
        """
        with self._changed:
            self.client.producer.flush()
            self._network.wake()
            self._changed.wait_for(
                lambda: self.client.producer.is_idle or self._failure is not None,
                timeout_ms / 1000,
            )
            self._raise_failure()
            self.client.producer.linger()

    # Transactions

    def init_transactions(self, timeout_ms: int = INIT_MS) -> None:
        """Request the id, fencing earlier producers. Raises TransactionError."""
        self._complete(self._transactions.init, timeout_ms)

    def begin_transaction(self) -> None:
        """Begin a transaction. Raises WrongStateError."""
        with self._changed:
            self._transactions.begin()

    def commit_transaction(self, timeout_ms: int = INIT_MS) -> None:
        """Commit. Raises TransactionError."""
        self._complete(self._transactions.commit, timeout_ms)

    def abort_transaction(self, timeout_ms: int = INIT_MS) -> None:
        """Abort. Raises TransactionError."""
        self._complete(self._transactions.abort, timeout_ms)

    @property
    def _transactions(self) -> ProducerTransactions:
        if self.client.transactions is None:
            raise WrongStateError("the producer has no transactional id")
        return self.client.transactions

    def _complete(self, begin: Callable[[], None], timeout_ms: int) -> None:
        transactions = self._transactions
        with self._changed:
            begin()
            self._network.wake()
            self._changed.wait_for(
                lambda: transactions.state in ENDS or self._failure is not None, timeout_ms / 1000
            )
            self._raise_failure()
            if transactions.state is not TransactionManagerState.READY:
                raise TransactionError(transactions.state, transactions.error)

    def close(self) -> None:
        """Stop the sender and wake all threads; unflushed records are lost."""
        if self._is_closing:
            return
        self._is_closing = True
        self._network.wake()
        self._sender.join()
        self._end()
        self._network.close()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    # Sender thread

    def _run(self) -> None:
        try:
            with self._changed:
                timeout_ms = self._driver.send()
            while not self._is_closing:
                events = self._network.wait(min(timeout_ms, WAIT_MS_MAX))
                with self._changed:
                    self._driver.take(events)
                    timeout_ms = self._driver.send()
                    self._report()
        except Exception as error:  # noqa: BLE001 - the waiting threads raise it
            self._failure = error
            self._end()

    def _report(self) -> None:
        """Report results, and wake the threads that wait for metadata, memory or results."""
        for event in self.client.events():
            self._messages.pop(event.record_id, None)
            self._on_result(event)
        self._changed.notify_all()

    def _end(self) -> None:
        with self._changed:
            self.client.metadata.close()
            self._changed.notify_all()

    def _encode(self, batch: ProducerBatch) -> bytes:
        return encode_batch(batch, self._messages, self._compression)
