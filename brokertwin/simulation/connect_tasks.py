"""Connect tasks in virtual time: lines of a file to a topic, and records to a file.

Works like `clients/io/connect/tasks.py`, which uses threads. A failed task is restarted after some
time, like by Kafka's REST interface.
"""

from abc import ABC, abstractmethod

from brokertwin.clients.client_loop import ClientLoop
from brokertwin.clients.connect.config_log import ConfigLog
from brokertwin.clients.connect.converters import decode_value, encode_value
from brokertwin.clients.connect.file_stream import FileStream
from brokertwin.clients.connect.offsets import offset_key, offset_record, position_of
from brokertwin.clients.connect.submitted_records import SubmittedRecords
from brokertwin.clients.connect.work import ConnectTaskId
from brokertwin.clients.consumer_client import ConsumerClient
from brokertwin.clients.consumer_config import ConsumerConfig
from brokertwin.clients.consumer_events import ConsumerFailed
from brokertwin.clients.fetcher import FetchSettings, OffsetReset
from brokertwin.clients.log_client import LogClient
from brokertwin.clients.messages import ProducerRecord, size_of
from brokertwin.clients.producer_client import ProducerClient
from brokertwin.clients.producer_config import ProducerConfig
from brokertwin.clients.producer_events import RecordFailed
from brokertwin.clients.transactions import ProducerTransactions, TransactionManagerState
from brokertwin.simulation.actors import REQUEST_MS, Actor, ActorDriver
from brokertwin.simulation.cluster import HEARTBEAT_MS, SESSION_MS, TRANSACTION_MS
from brokertwin.simulation.contents import Naming
from brokertwin.simulation.plan import CONFIGS, OFFSETS
from brokertwin.simulation.sockets import Sockets

FLUSH_MS = 600
LEAVE_MS = 2_500
NOT_KNOWN = -1
"""A source's position before it has been read."""


class MessageWriter:
    def __init__(self, actor: Actor, name: str, transactional_id: str | None = None) -> None:
        self.client = ProducerClient(
            ProducerConfig(
                request_timeout_ms=REQUEST_MS,
                delivery_timeout_ms=20_000,
                transactional_id=transactional_id,
                transaction_timeout_ms=TRANSACTION_MS,
            ),
            actor.draw(name),
            may_create_topics=False,
        )
        self.sockets = actor.reading_sockets_of(name)
        self._messages: dict[int, ProducerRecord] = {}
        self.sockets.names = Naming(name, self._messages, actor.place.contents)

    def knows(self, now: int, *topics: str) -> bool:
        """True if the partitions of topics are known; otherwise requests their metadata."""
        for topic in topics:
            self.client.metadata.add(topic, now)
        return all(map(self.client.metadata.snapshot.partition_count, topics))

    def send(
        self, now: int, topic: str, message: ProducerRecord, partition: int | None = None
    ) -> int:
        """Send a message to a known topic; return the record's id."""
        size = size_of(message)
        record_id = self.client.offer(now, topic, message.key, size, partition=partition)
        assert record_id is not None, f"{topic} is known, and there is room"
        self._messages[record_id] = message
        return record_id


class ConnectTask(ABC):
    """One task, from its start by a worker.

    Attributes:
        is_over: whether it has ended for any reason.
        is_busy: whether work is in flight.
    """

    def __init__(self, actor: Actor, name: str, stream: FileStream) -> None:
        self.is_over = self.has_failed = self.is_busy = self.is_stopping = False
        self._actor = actor
        self._name = name
        self._stream = stream
        self._driven: list[tuple[Sockets, ActorDriver]] = []

    @abstractmethod
    def work(self, now: int) -> None:
        """Do the pending work."""

    def stop(self, now: int) -> None:
        """Request the end of the task; `is_over` follows."""
        self.is_stopping = True

    @property
    def all_sockets(self) -> list[Sockets]:
        return [sockets for sockets, _ in self._driven]

    def turn(self) -> int:
        """Run its clients; return the time until the next turn in ms."""
        for _, driver in self._driven:
            driver.turn(REQUEST_MS)
        return min((sockets.wait_ms for sockets, _ in self._driven), default=REQUEST_MS)

    def close(self) -> None:
        for sockets, _ in self._driven:
            sockets.close()
        self._driven.clear()

    def _drive(self, client: ClientLoop, sockets: Sockets) -> None:
        self._driven.append((sockets, self._actor.driver_of(client, sockets)))

    def _end(self, *, has_failed: bool = False) -> None:
        self.is_over, self.has_failed, self.is_busy = True, has_failed, False
        self.close()


class SinkTask(ConnectTask):
    """Copies records to a file at least once; offsets are committed after writing."""

    def __init__(self, actor: Actor, name: str, stream: FileStream) -> None:
        super().__init__(actor, name, stream)
        config = ConsumerConfig(
            group_id=stream.group_id,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            max_poll_interval_ms=2 * SESSION_MS,
            auto_commit_interval_ms=FLUSH_MS,
        )
        fetches = FetchSettings(
            auto_offset_reset=OffsetReset.EARLIEST, isolation_level=int(stream.reads_committed)
        )
        self._client = ConsumerClient(
            config, fetches, frozenset(stream.topics), actor.draw(name), may_create_topics=False
        )
        sockets = actor.reading_sockets_of(name, is_read_committed=stream.reads_committed)
        self._drive(self._client, sockets)
        self._ends_at = 0

    def stop(self, now: int) -> None:
        super().stop(now)
        self._client.close(now)
        self._ends_at = now + LEAVE_MS

    def turn(self) -> int:
        """Run the client; end after leaving the group or a timeout."""
        wait = super().turn()
        if self.is_stopping and self._client.is_quiet:
            self._end()
        return wait

    def work(self, now: int) -> None:
        """Write received records."""
        file = self._actor.place.files.written[self._stream.file]
        for _, _, message in self._client.poll(now):
            file.append(decode_value(message.value, self._stream))
        for event in self._client.events():
            if isinstance(event, ConsumerFailed):
                self._end(has_failed=True)
        if self.is_stopping and now >= self._ends_at:
            self._end()


class _SourceTask(ConnectTask):
    """Copies lines of a file to a topic, from the position in the offsets topic."""

    def __init__(
        self, actor: Actor, name: str, stream: FileStream, *, transactional_id: str | None = None
    ) -> None:
        super().__init__(actor, name, stream)
        self._is_committed = transactional_id is not None
        self._writer = MessageWriter(actor, f"{name}-out", transactional_id)
        self._drive(self._writer.client, self._writer.sockets)
        self._position = NOT_KNOWN
        self._reader: LogClient | None = None
        self._configs = ConfigLog()
        self._stored: bytes | None = None

    @property
    def _topic(self) -> str:
        return self._stream.topics[0]

    def _knows_topics(self, now: int) -> bool:
        return self._writer.knows(now, self._topic, OFFSETS)

    def _find_position(self, now: int) -> bool:
        """Read the offsets and config topics to their ends as of the first call."""
        if self._position != NOT_KNOWN:
            return True
        if self._reader is None:
            name = f"{self._name}-in"
            self._reader = LogClient(
                frozenset({OFFSETS, CONFIGS}),
                self._actor.draw(name),
                isolation_level=int(self._is_committed),
            )
            sockets = self._actor.reading_sockets_of(name, is_read_committed=self._is_committed)
            self._drive(self._reader, sockets)
        for at, offset, message in self._reader.poll(now):
            if at.topic == CONFIGS:
                self._configs.take(offset, message.key, message.value)
            elif message.key == offset_key(self._stream):
                self._stored = message.value
        if self._reader.is_at_end:
            self._position = position_of(self._stored)
            self._driven.pop()[0].close()
        return self._position != NOT_KNOWN

    def _send_lines(self, now: int) -> list[tuple[int, int]]:
        """Send the next lines; return record ids and positions after them."""
        sent = []
        lines = self._actor.place.files.read(now, self._position, self._stream.batch_size)
        for line in lines:
            self._position += line.size
            value = ProducerRecord(None, encode_value(line.text, self._stream))
            sent.append((self._writer.send(now, self._topic, value), self._position))
        return sent

    def _send_position(self, now: int, position: int) -> int:
        record = offset_record(self._stream, position)
        return self._writer.send(now, OFFSETS, ProducerRecord(*record), 0)


class SourceTask(_SourceTask):
    """Copies each line at least once: lines after the stored position are repeated."""

    def __init__(self, actor: Actor, name: str, stream: FileStream) -> None:
        super().__init__(actor, name, stream)
        self._submitted = SubmittedRecords()
        self._flush_at = 0

    def work(self, now: int) -> None:
        """Send lines; store the position periodically and at the end."""
        producer = self._writer.client
        for event in producer.events():
            if isinstance(event, RecordFailed):
                self._end(has_failed=True)
                return
            self._submitted.acked(event.record_id)
        if not self._find_position(now) or not self._knows_topics(now):
            if self.is_stopping:
                self._end()
            return
        if not self.is_stopping:
            for record_id, behind in self._send_lines(now):
                self._submitted.submit(record_id, behind)
        if now >= self._flush_at or self.is_stopping:
            self._flush_at = now + FLUSH_MS
            position = self._submitted.committable()
            if position is not None:
                self._send_position(now, position)
        self.is_busy = not producer.producer.is_idle
        if self.is_stopping and not self.is_busy:
            self._end()


class ExactSourceTask(_SourceTask):
    """Copies each line exactly once: lines and position in one transaction.

    Its transactional id fences the previous owner. A task of an older generation ends.
    """

    def __init__(
        self,
        actor: Actor,
        name: str,
        stream: FileStream,
        item: ConnectTaskId,
        group: str,
        generation: int,
    ) -> None:
        super().__init__(actor, name, stream, transactional_id=f"{group}-{item}")
        self._connector = item.connector
        self._generation = generation
        self._transactions.init()

    @property
    def _transactions(self) -> ProducerTransactions:
        assert self._writer.client.transactions is not None, "it has an id"
        return self._writer.client.transactions

    def work(self, now: int) -> None:
        """Start the next transaction after the previous one."""
        self._writer.client.events()
        state = self._transactions.state
        self.is_busy = state in (
            TransactionManagerState.IN_TRANSACTION,
            TransactionManagerState.COMMITTING,
        )
        if state in (TransactionManagerState.ABORTABLE_ERROR, TransactionManagerState.FATAL_ERROR):
            self._end(has_failed=True)
        elif self.is_stopping and not self.is_busy:
            self._end()
        elif state is TransactionManagerState.READY and self._find_position(now):
            if self._configs.generations.get(self._connector) != self._generation:
                self._end(has_failed=True)
            elif self._knows_topics(now):
                self._copy(now)

    def _copy(self, now: int) -> None:
        if not self._actor.place.files.read(now, self._position, 1):
            return
        self._transactions.begin()
        self._send_lines(now)
        self._send_position(now, self._position)
        self._transactions.commit()
        self.is_busy = True
