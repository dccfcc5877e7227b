"""The work of source and sink tasks.

Source: `WorkerSourceTask`, `ExactlyOnceWorkerSourceTask`, `WorkerSinkTask` in Kafka Connect.

    source               sends lines; each offset.flush.interval.ms, and at the end, stores the
                         position before which all is acknowledged; after a crash, later lines are
                         sent again
    exactly once         fences the predecessor by the transactional id, which aborts its open
                         transaction; a task of an older generation ends; then lines and position
                         are in one transaction
    sink                 writes lines, then commits the consumed offsets
"""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from brokertwin.clients.connect.converters import TextLine, decode_value, encode_value, lines_of
from brokertwin.clients.connect.file_stream import FileStream
from brokertwin.clients.connect.submitted_records import SubmittedRecords
from brokertwin.clients.consumer_config import ConsumerConfig
from brokertwin.clients.consumer_events import ConsumerFailed
from brokertwin.clients.fetcher import FetchSettings, OffsetReset
from brokertwin.clients.io.connect.logs import create_topic
from brokertwin.clients.io.connect.stores import Store
from brokertwin.clients.io.consumer import Consumer
from brokertwin.clients.io.producer import Producer
from brokertwin.clients.io.security import Kafka
from brokertwin.clients.io.sockets import monotonic_ms
from brokertwin.clients.messages import ProducerRecord
from brokertwin.clients.producer_config import ProducerConfig
from brokertwin.clients.producer_events import RecordAcked, RecordFailed
from brokertwin.protocol.errors import error_name

READ_BYTES = 1 << 20


class LineReader:
    """Reads lines of a file from a position; a missing file has none."""

    def __init__(self, path: Path, position: int) -> None:
        self.position = position
        self._path = path
        self._fetched = b""

    def read(self, limit: int) -> list[TextLine]:
        """Return complete lines, at most `limit`. Raises OSError."""
        lines = lines_of(self._fetched, limit)
        if not lines:
            self._fetch()
            lines = lines_of(self._fetched, limit)
        taken = sum(line.size for line in lines)
        self._fetched = self._fetched[taken:]
        self.position += taken
        return lines

    def _fetch(self) -> None:
        try:
            with self._path.open("rb") as file:
                file.seek(self.position + len(self._fetched))
                self._fetched += file.read(READ_BYTES)
        except FileNotFoundError:
            return


class LineWriter:
    """Appends lines to a file that others may append to; raises OSError."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, lines: Iterable[str]) -> None:
        data = memoryview("".join(f"{line}\n" for line in lines).encode())
        while data:
            data = data[os.write(self._file, data) :]

    def close(self) -> None:
        os.close(self._file)


IDLE_MS = 200
FLUSH_MS = 30_000
HEARTBEAT_MS = 3_000

IsOver = Callable[[], bool]
Moved = Callable[[int], Any]
"""Called with a number of lines; first once the task is at its position."""


class TaskError(Exception):
    """A task failed; the text says why."""


def run_source(
    kafka: Kafka,
    stream: FileStream,
    store: Store,
    flush_interval_ms: int,
    is_over: IsOver,
    moved: Moved,
) -> None:
    """Send the lines of a file at least once. Raises TaskError, OSError."""
    create_topic(kafka, stream.topics[0])
    reader = LineReader(Path(stream.file), store.position(stream))
    submitted = SubmittedRecords()

    def settle(results: list[RecordAcked | RecordFailed]) -> None:
        _raise_failed(results)
        for event in results:
            submitted.acked(event.record_id)

    with Producer(kafka, ProducerConfig(), client_id=f"connect-{stream.name}") as producer:
        due = monotonic_ms() + flush_interval_ms
        while not is_over():
            position = reader.position
            lines = reader.read(stream.batch_size)
            for line in lines:
                position += line.size
                value = ProducerRecord(None, encode_value(line.text, stream))
                submitted.submit(producer.send(stream.topics[0], value), position)
            moved(len(lines))
            settle(producer.turn(0 if lines else IDLE_MS))
            if monotonic_ms() >= due:
                due = monotonic_ms() + flush_interval_ms
                _store(producer, store, stream, submitted, settle)
        settle(producer.flush(FLUSH_MS))
        _store(producer, store, stream, submitted, settle)


def _store(
    producer: Producer,
    store: Store,
    stream: FileStream,
    submitted: SubmittedRecords,
    settle: Callable[[list[RecordAcked | RecordFailed]], None],
) -> None:
    position = submitted.committable()
    if position is not None and store.store(producer, stream, position):
        settle(producer.flush(FLUSH_MS))


def run_exactly_once(
    kafka: Kafka,
    stream: FileStream,
    store: Store,
    transactional_id: str,
    is_over: IsOver,
    moved: Moved,
    is_current: Callable[[], bool],
) -> None:
    """Send the lines of a file exactly once for read_committed consumers.

    `is_current`: the task has the newest generation. Raises TransactionError, TaskError, OSError.
    """
    create_topic(kafka, stream.topics[0])
    settings = ProducerConfig(transactional_id=transactional_id)
    with Producer(kafka, settings, client_id=f"connect-{stream.name}") as producer:
        if is_over():
            return
        producer.init_transactions()
        if not is_current():
            raise TaskError(f"{transactional_id} belongs to an older generation of tasks")
        reader = LineReader(Path(stream.file), store.position(stream))
        while not is_over():
            lines = reader.read(stream.batch_size)
            if not lines:
                moved(0)
                producer.turn(IDLE_MS)
                continue
            producer.begin_transaction()
            for line in lines:
                producer.send(
                    stream.topics[0], ProducerRecord(None, encode_value(line.text, stream))
                )
            store.store(producer, stream, reader.position)
            _raise_failed(producer.commit_transaction())
            moved(len(lines))


def _raise_failed(results: list[RecordAcked | RecordFailed]) -> None:
    for event in results:
        if isinstance(event, RecordFailed):
            at = event.topic_partition
            raise TaskError(f"{at.topic}-{at.partition}: {error_name(event.error)}")


def run_sink(
    kafka: Kafka, stream: FileStream, commit_interval_ms: int, is_over: IsOver, moved: Moved
) -> None:
    """Write records as lines at least once. Raises TaskError, OSError."""
    settings = ConsumerConfig(
        group_id=stream.group_id,
        auto_commit_interval_ms=commit_interval_ms,
        session_timeout_ms=stream.session_timeout_ms,
        heartbeat_interval_ms=min(HEARTBEAT_MS, stream.session_timeout_ms // 3),
    )
    fetches = FetchSettings(
        auto_offset_reset=OffsetReset.EARLIEST, isolation_level=int(stream.reads_committed)
    )
    writer = LineWriter(Path(stream.file))
    consumer = Consumer(kafka, settings, stream.topics, fetches, client_id=f"connect-{stream.name}")
    try:
        while not is_over():
            read = consumer.poll(IDLE_MS)
            writer.write(decode_value(message.value, stream) for _, _, message in read)
            events = consumer.events()
            if read or events:
                moved(len(read))
            for event in events:
                if isinstance(event, ConsumerFailed):
                    raise TaskError(f"{stream.group_id}: {error_name(event.error)}")
    finally:
        consumer.close()
        writer.close()
