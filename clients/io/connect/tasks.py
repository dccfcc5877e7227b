"""What a task does in its thread until it is to end.

Source: `WorkerSourceTask`, `ExactlyOnceWorkerSourceTask`, `WorkerSinkTask` in Kafka Connect.

    source               lines are sent; each offset.flush.interval.ms, and at the end, the position
                         before which all is acknowledged is stored: after a crash what was sent
                         since comes again
    exactly once         the transactional id fences who had the task before and aborts what that
                         one left open; a task that is of an older generation by now ends there;
                         then lines and position go in one transaction
    sink                 lines are written, then what was read is committed
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from brokertwin.clients.connect.converters import decode_value, encode_value
from brokertwin.clients.connect.file_stream import FileStream
from brokertwin.clients.connect.submitted_records import SubmittedRecords
from brokertwin.clients.consumer_config import ConsumerConfig
from brokertwin.clients.consumer_events import (
    Failed as MembershipFailed,
)
from brokertwin.clients.fetcher import FetchSettings, OffsetReset
from brokertwin.clients.io.connect.files import LineReader, LineWriter
from brokertwin.clients.io.connect.logs import create_topic
from brokertwin.clients.io.connect.stores import Store
from brokertwin.clients.io.consumer import Consumer
from brokertwin.clients.io.producer import Producer
from brokertwin.clients.io.security import Kafka
from brokertwin.clients.io.sockets import monotonic_ms
from brokertwin.clients.messages import Message
from brokertwin.clients.producer_config import ProducerConfig
from brokertwin.clients.producer_events import Acked, Failed
from brokertwin.state.core.errors import error_name

IDLE_MS = 200
FLUSH_MS = 30_000
HEARTBEAT_MS = 3_000

IsOver = Callable[[], bool]
Moved = Callable[[int], Any]
"""Is told of so many lines more, for the first time when the task is where lines are."""


class TaskError(Exception):
    """A task can not go on; the text says why."""


def run_source(
    kafka: Kafka,
    stream: FileStream,
    store: Store,
    flush_interval_ms: int,
    is_over: IsOver,
    moved: Moved,
) -> None:
    """Lines of a file, each at least once. Raises TaskError, OSError."""
    create_topic(kafka, stream.topics[0])
    reader = LineReader(Path(stream.file), store.position(stream))
    submitted: SubmittedRecords[int] = SubmittedRecords()

    def settle(told: list[Acked | Failed]) -> None:
        _raise_failed(told)
        for event in told:
            submitted.acked(event.record_id)

    with Producer(kafka, ProducerConfig(), client_id=f"connect-{stream.name}") as producer:
        due = monotonic_ms() + flush_interval_ms
        while not is_over():
            position = reader.position
            lines = reader.read(stream.batch_size)
            for line in lines:
                position += line.size
                value = Message(None, encode_value(line.text, stream))
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
    submitted: SubmittedRecords[int],
    settle: Callable[[list[Acked | Failed]], None],
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
    is_current: Callable[[], bool] = lambda: True,
) -> None:
    """Lines of a file, each once for who reads committed.

    `is_current`: whether the task is of the newest generation. Raises TransactionError, TaskError,
    OSError.
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
                producer.send(stream.topics[0], Message(None, encode_value(line.text, stream)))
            store.store(producer, stream, reader.position)
            _raise_failed(producer.commit_transaction())
            moved(len(lines))


def _raise_failed(told: list[Acked | Failed]) -> None:
    for event in told:
        if isinstance(event, Failed):
            at = event.topic_partition
            raise TaskError(f"{at.topic}-{at.partition}: {error_name(event.error)}")


def run_sink(
    kafka: Kafka, stream: FileStream, commit_interval_ms: int, is_over: IsOver, moved: Moved
) -> None:
    """Records of topics as lines of a file, each at least once. Raises TaskError, OSError."""
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
                if isinstance(event, MembershipFailed):
                    raise TaskError(f"{stream.group_id}: {error_name(event.error)}")
    finally:
        consumer.close()
        writer.close()
