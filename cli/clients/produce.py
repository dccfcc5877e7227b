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
    from brokertwin.clients.messages import ProducerRecord
    from brokertwin.clients.producer_config import ProducerConfig
    from brokertwin.clients.producer_events import RecordAcked, RecordFailed

READ_AHEAD = 10_000
TURN_MS = 50
NO_CREATION = "Check the topic name: `brokertwin produce` does not create topics."
STANDARD_INPUT = "-"


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
    typer.Argument(metavar="[FILE…]", help="Files with lines; default, and -: standard input."),
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
        help="Avoid brokers that delay lines without a key for longer than this; 0: use any broker"
        " (partitioner.availability.timeout.ms).",
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
    transactional_id: TransactionalId = None,
    transaction_size: TransactionSize = None,
    era: EraOption = None,
    trace: Trace = False,
    as_json: AsJson = False,
    bootstrap: Bootstrap = None,
    kafka_config: KafkaConfig = None,
    config: ConfigFile = None,
) -> None:
    """Send lines to a topic of any Kafka; Ctrl-C or the end of input sends pending records.

    Each line is a record. The producer is brokertwin's own and idempotent by default, as Kafka's:
    acknowledged records are in the log once and in order. With --transactional-id, read_committed
    consumers see all records of a transaction or none, and Ctrl-C aborts the open one. --json
    prints a line for each record: its partition and offset, or the error. Exits with code 1 if a
    record failed.
    """
    import msgspec

    from brokertwin.cli.clients.client_access import accessible
    from brokertwin.clients.io.producer import BlockedError, TransactionError
    from brokertwin.clients.io.traced import EraProducer
    from brokertwin.clients.producer_config import ProducerConfigError
    from brokertwin.state.core.errors import error_name

    kafka = accessible(settings_of(config, bootstrap=bootstrap, kafka_config=kafka_config))
    try:
        settings = msgspec.structs.replace(
            _defaults(era, acks, linger_ms),
            batch_size=batch_size,
            partitioner_availability_timeout_ms=availability_timeout_ms,
            max_block_ms=max_block_ms,
            transactional_id=transactional_id,
        )
        producer = EraProducer(kafka, settings, era, tracer(trace), compression=compression)
    except ProducerConfigError as error:
        raise UserError(f"{error}.") from None
    told = Told(as_json)
    with producer:
        try:
            texts = _lines(files or ["-"], producer, told)
            lines = (_message(line, key_separator) for line in texts)
            if transactional_id is None:
                for message in lines:
                    producer.send(topic, message, partition)
            else:
                _in_transactions(producer, topic, lines, partition, transaction_size, told)
        except BlockedError as error:
            raise UserError(str(error), NO_CREATION) from None
        except TransactionError as error:
            failed = f"{error.error} {error_name(error.error)}"
            raise UserError(f"The transaction failed: {failed}.") from None
        except KeyboardInterrupt:
            say("sending pending records")
        told.take(producer.flush(_longest_ms(producer.client.producer.config)))
    say(f"{counted(told.acked, 'record')} acknowledged, {told.failed:,} failed")
    if told.failed:
        raise typer.Exit(1)


def _defaults(era: "Era | None", acks: Acks | None, linger_ms: int | None) -> "ProducerConfig":
    """Return an era's settings with those that were given."""
    import msgspec

    from brokertwin.clients.eras import producer_config

    given = {"acks": acks, "linger_ms": linger_ms}
    known = {name: value for name, value in given.items() if value is not None}
    return msgspec.structs.replace(producer_config(era), **known)


def _in_transactions(
    producer: "Producer",
    topic: str,
    messages: "Iterable[ProducerRecord]",
    partition: int | None,
    size: int | None,
    told: "Told",
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
                told.take(producer.commit_transaction())
                count, transactions = 0, transactions + 1
    except (KeyboardInterrupt, BlockedError):
        if count:
            told.take(producer.abort_transaction())
            say(f"aborted a transaction of {counted(count, 'record')}")
        raise
    if count:
        told.take(producer.commit_transaction())
        transactions += 1
    say(f"committed {counted(transactions, 'transaction')}")


def _longest_ms(config: "ProducerConfig") -> int:
    """Maximum time until a record is acknowledged or failed, in ms."""
    return config.delivery_ms + config.request_timeout_ms


class Told:
    """Results of records."""

    def __init__(self, as_json: bool) -> None:
        self.acked = self.failed = 0
        self._as_json = as_json

    def take(self, events: "Iterable[RecordAcked | RecordFailed]") -> None:
        """Count results; print them with --json."""
        from brokertwin.clients.producer_events import RecordAcked
        from brokertwin.state.core.errors import error_name

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


def _lines(files: list[str], producer: "Producer", told: Told) -> Iterator[bytes]:
    """Yield the lines; sends batches that are due while it waits for the next line."""
    lines: queue.Queue[bytes | UserError | None] = queue.Queue(READ_AHEAD)
    reader = threading.Thread(target=_read, args=(files, lines, producer), daemon=True)
    reader.start()
    while True:
        try:
            line = lines.get_nowait()
        except queue.Empty:
            told.take(producer.turn(TURN_MS))
            continue
        if line is None:
            return
        if isinstance(line, UserError):
            raise line
        yield line
        told.take(producer.turn(0))


def _read(
    files: list[str], lines: "queue.Queue[bytes | UserError | None]", producer: "Producer"
) -> None:
    for name in files:
        try:
            with sys.stdin.buffer if name == STANDARD_INPUT else Path(name).open("rb") as stream:
                for line in stream:
                    lines.put(line.rstrip(b"\r\n"))
                    producer.wake()
        except OSError as error:
            lines.put(UserError(f"Cannot read {name}: {error.strerror}."))
    lines.put(None)
    producer.wake()
