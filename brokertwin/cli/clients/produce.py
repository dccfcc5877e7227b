"""`brokertwin produce`: send lines as records, with this project's own client."""

import queue
import sys
import threading
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from brokertwin.cli.era_options import EraOption, Trace, tracer
from brokertwin.cli.options import AsJson, Bootstrap, ConfigFile, KafkaConfig, settings_of
from brokertwin.cli.output import say, show_json
from brokertwin.errors import UserError
from brokertwin.wording import counted

if TYPE_CHECKING:
    from brokertwin.clients.era import Era
    from brokertwin.clients.io.producer import Producer
    from brokertwin.clients.io.security import Kafka
    from brokertwin.clients.io.shared_producer import SharedProducer
    from brokertwin.clients.messages import ProducerRecord
    from brokertwin.clients.producer_config import ProducerConfig
    from brokertwin.clients.producer_events import RecordAcked, RecordFailed

READ_AHEAD = 10_000
TURN_MS = 50
STANDARD_INPUT = "-"
CHECK_TOPIC = "Check the topic name: `brokertwin produce` does not create topics."


class Compression(StrEnum):
    """Compression types by Kafka's names."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class Acks(StrEnum):
    """Replicas that must have a record before it is acknowledged."""

    ALL = "all"
    LEADER = "1"
    NOBODY = "0"


Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="Topic to write to.")]
Files = Annotated[
    list[str] | None,
    typer.Argument(metavar="[FILE…]", help="Files with lines; - and default: standard input."),
]
Separator = Annotated[
    str | None,
    typer.Option(
        "--key-separator", metavar="TEXT", help="Separator between key and value; default: no key."
    ),
]
Partition = Annotated[
    int | None,
    typer.Option("--partition", min=0, help="Write to this partition; default: by key."),
]
CompressionOption = Annotated[Compression, typer.Option("--compression", help="compression.type")]
AcksOption = Annotated[
    Acks | None,
    typer.Option("--acks", help="acks; only all allows idempotence. Default: all; with --era: 1."),
]
LingerMs = Annotated[
    int | None,
    typer.Option("--linger-ms", min=0, metavar="MS", help="linger.ms; default: 5; with --era: 0."),
]
AvailabilityMs = Annotated[
    int,
    typer.Option(
        "--availability-timeout-ms",
        min=0,
        metavar="MS",
        help="partitioner.availability.timeout.ms: for lines without a key, avoid brokers that do"
        " not accept batches for this long; 0: use all brokers.",
    ),
]
BatchSize = Annotated[int, typer.Option("--batch-size", min=1, metavar="BYTES", help="batch.size")]
TransactionalId = Annotated[
    str | None,
    typer.Option(
        "--transactional-id",
        metavar="ID",
        help="Send in transactions (transactional.id); fences other producers with this id.",
    ),
]
TransactionSize = Annotated[
    int | None,
    typer.Option(
        "--transaction-size",
        min=1,
        metavar="N",
        help="With --transactional-id: records per transaction; default: one transaction.",
    ),
]
InFlight = Annotated[
    int,
    typer.Option(
        "--max-in-flight",
        min=1,
        metavar="N",
        help="max.in.flight.requests.per.connection; more than 5 requires --unsafe.",
    ),
]
Unsafe = Annotated[
    bool,
    typer.Option(
        "--unsafe",
        help="Allow an idempotent producer with any --acks and --max-in-flight, to show which"
        " records are then lost, repeated or out of order.",
    ),
]
Threads = Annotated[
    int | None,
    typer.Option(
        "--threads",
        min=1,
        metavar="N",
        help="Send from N threads that share the producer. The order of lines is lost.",
    ),
]
MaxBlockMs = Annotated[
    int, typer.Option("--max-block-ms", min=1, metavar="MS", help="max.block.ms")
]


def command(
    topic: Topic,
    files: Files = None,
    key_separator: Separator = None,
    partition: Partition = None,
    compression: CompressionOption = Compression.NONE,
    acks: AcksOption = None,
    linger_ms: LingerMs = None,
    batch_size: BatchSize = 16_384,
    availability_timeout_ms: AvailabilityMs = 0,
    max_block_ms: MaxBlockMs = 60_000,
    max_in_flight: InFlight = 5,
    unsafe: Unsafe = False,
    transactional_id: TransactionalId = None,
    transaction_size: TransactionSize = None,
    threads: Threads = None,
    era: EraOption = None,
    trace: Trace = False,
    as_json: AsJson = False,
    bootstrap: Bootstrap = None,
    kafka_config: KafkaConfig = None,
    config: ConfigFile = None,
) -> None:
    """Send lines to a topic of any Kafka.

    Each line is a record. The producer is idempotent by default: acknowledged records are in the
    log once and in order. Ctrl-C sends pending records and exits. With --transactional-id,
    read_committed consumers see all records of a transaction or none, and Ctrl-C aborts the open
    transaction. --json prints the partition and offset of each record, or its error. Exits with
    code 1 if a record failed.
    """
    import msgspec

    from brokertwin.cli.clients.client_access import accessible
    from brokertwin.clients.io.producer import BlockedError
    from brokertwin.clients.io.shared_producer import SharedProducer

    _check_threads(threads, transactional_id, trace)
    kafka = accessible(settings_of(config, bootstrap=bootstrap, kafka_config=kafka_config))
    results = ProduceResults(as_json)
    settings = msgspec.structs.replace(
        _defaults(era, acks, linger_ms),
        batch_size=batch_size,
        partitioner_availability_timeout_ms=availability_timeout_ms,
        max_block_ms=max_block_ms,
        max_in_flight_requests_per_connection=max_in_flight,
        is_unsafe=unsafe,
        transactional_id=transactional_id,
    )
    shared = results if threads is not None else None
    with _producer(kafka, settings, compression, era, trace, shared) as producer:
        try:
            lines = files or [STANDARD_INPUT]
            if isinstance(producer, SharedProducer):
                messages = (_message(line, key_separator) for line in _lines_of(lines))
                _send_from_threads(producer, topic, messages, partition, threads or 1)
            else:
                messages = (
                    _message(line, key_separator) for line in _lines(lines, producer, results)
                )
                _send(producer, topic, messages, partition, transaction_size, results)
        except BlockedError as error:
            raise UserError(str(error), CHECK_TOPIC) from None
        except KeyboardInterrupt:
            say("sending pending records")
        used = producer.client.producer.config
        results.take(producer.flush(used.delivery_ms + used.request_timeout_ms))
    say(f"{counted(results.acked, 'record')} acknowledged, {results.failed:,} failed")
    if results.failed:
        raise typer.Exit(1)


def _check_threads(threads: int | None, transactional_id: str | None, is_traced: bool) -> None:
    """Check options that a shared producer does not support. Raises UserError."""
    if threads is not None and transactional_id is not None:
        raise UserError("Cannot combine --threads and --transactional-id.", "Leave out one.")
    if threads is not None and is_traced:
        raise UserError("Cannot combine --threads and --trace.", "Leave out one.")


def _defaults(era: "Era | None", acks: Acks | None, linger_ms: int | None) -> "ProducerConfig":
    """Return an era's settings with those that were given."""
    import msgspec

    from brokertwin.clients.eras import producer_config

    given = {"acks": acks, "linger_ms": linger_ms}
    known = {name: value for name, value in given.items() if value is not None}
    return msgspec.structs.replace(producer_config(era), **known)


def _producer(
    kafka: "Kafka",
    settings: "ProducerConfig",
    compression: Compression,
    era: "Era | None",
    is_traced: bool,
    shared: "ProduceResults | None",
) -> "Producer | SharedProducer":
    """Return a producer for one thread or, with `shared` for its results, for several."""
    from brokertwin.clients.eras import metadata_settings
    from brokertwin.clients.io.shared_producer import SharedProducer
    from brokertwin.clients.io.traced import EraProducer
    from brokertwin.clients.producer_config import ProducerConfigError

    metadata = metadata_settings(era)
    try:
        if shared is not None:
            return SharedProducer(
                kafka,
                settings,
                lambda event: shared.take([event]),
                compression=compression,
                metadata=metadata,
            )
        return EraProducer(kafka, settings, era, tracer(is_traced), compression=compression)
    except ProducerConfigError as error:
        raise UserError(f"{error}.") from None


def _send(
    producer: "Producer",
    topic: str,
    messages: "Iterable[ProducerRecord]",
    partition: int | None,
    size: int | None,
    results: "ProduceResults",
) -> None:
    """Send messages, in transactions of `size` if the producer has transactions."""
    from brokertwin.clients.io.producer import TransactionError
    from brokertwin.protocol.errors import error_name

    if producer.client.transactions is None:
        for message in messages:
            producer.send(topic, message, partition)
        return
    try:
        _in_transactions(producer, topic, messages, partition, size, results)
    except TransactionError as error:
        failed = f"{error.error} {error_name(error.error)}"
        raise UserError(f"The transaction failed: {failed}.") from None


def _send_from_threads(
    producer: "SharedProducer",
    topic: str,
    messages: "Iterator[ProducerRecord]",
    partition: int | None,
    count: int,
) -> None:
    """Send messages from `count` threads. Raises BlockedError and UserError of a thread."""
    from brokertwin.clients.io.producer import BlockedError

    reading = threading.Lock()
    errors: queue.SimpleQueue[BlockedError | UserError] = queue.SimpleQueue()

    def send() -> None:
        try:
            while errors.empty():
                with reading:
                    message = next(messages, None)
                if message is None:
                    return
                producer.send(topic, message, partition)
        except (BlockedError, UserError) as error:
            errors.put(error)

    threads = [threading.Thread(target=send, daemon=True) for _ in range(count)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    if not errors.empty():
        raise errors.get()


def _in_transactions(
    producer: "Producer",
    topic: str,
    messages: "Iterable[ProducerRecord]",
    partition: int | None,
    size: int | None,
    results: "ProduceResults",
) -> None:
    """Send messages in transactions of `size`; Ctrl-C and errors abort the open one."""
    from brokertwin.clients.io.producer import BlockedError

    producer.init_transactions()
    count = transactions = 0
    try:
        for message in messages:
            if count == 0:
                producer.begin_transaction()
            producer.send(topic, message, partition)
            count += 1
            if count == size:
                results.take(producer.commit_transaction())
                count, transactions = 0, transactions + 1
    except (KeyboardInterrupt, BlockedError):
        if count:
            results.take(producer.abort_transaction())
            say(f"aborted a transaction of {counted(count, 'record')}")
        raise
    if count:
        results.take(producer.commit_transaction())
        transactions += 1
    say(f"committed {counted(transactions, 'transaction')}")


class ProduceResults:
    """Results of records."""

    def __init__(self, as_json: bool) -> None:
        self.acked = self.failed = 0
        self._as_json = as_json

    def take(self, events: "Iterable[RecordAcked | RecordFailed]") -> None:
        """Count results; print them with --json."""
        from brokertwin.clients.producer_events import RecordAcked
        from brokertwin.protocol.errors import error_name

        for event in events:
            at = event.topic_partition
            said = {"record": event.record_id, "topic": at.topic, "partition": at.partition}
            if isinstance(event, RecordAcked):
                self.acked += 1
                said["offset"] = event.offset
            else:
                self.failed += 1
                said |= {"error": error_name(event.error), "mayBeWritten": event.may_be_written}
                if not self._as_json:
                    failed = f"{event.error} {error_name(event.error)}"
                    say(f"{at.topic}-{at.partition}: {failed}")
            if self._as_json:
                show_json(said)


def _message(line: bytes, separator: str | None) -> "ProducerRecord":
    from brokertwin.clients.messages import ProducerRecord

    key, found, value = line.partition(separator.encode()) if separator else (b"", b"", line)
    return ProducerRecord(key, value) if found else ProducerRecord(None, line)


def _lines(files: list[str], producer: "Producer", results: ProduceResults) -> Iterator[bytes]:
    """Yield the lines; sends batches that are due while it waits for the next line."""
    lines: queue.Queue[bytes | UserError | None] = queue.Queue(READ_AHEAD)
    reader = threading.Thread(target=_read, args=(files, lines, producer), daemon=True)
    reader.start()
    while True:
        try:
            line = lines.get_nowait()
        except queue.Empty:
            results.take(producer.turn(TURN_MS))
            continue
        if line is None:
            return
        if isinstance(line, UserError):
            raise line
        yield line
        results.take(producer.turn(0))


def _read(
    files: list[str], lines: "queue.Queue[bytes | UserError | None]", producer: "Producer"
) -> None:
    try:
        for line in _lines_of(files):
            lines.put(line)
            producer.wake()
    except UserError as error:
        lines.put(error)
    lines.put(None)
    producer.wake()


def _lines_of(files: list[str]) -> Iterator[bytes]:
    """Yield the lines of files and of standard input. Raises UserError."""
    for name in files:
        try:
            with sys.stdin.buffer if name == STANDARD_INPUT else Path(name).open("rb") as stream:
                for line in stream:
                    yield line.rstrip(b"\r\n")
        except OSError as error:
            raise UserError(f"Cannot read {name}: {error.strerror}.") from None
