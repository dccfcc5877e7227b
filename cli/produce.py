"""`brokertwin produce`: lines of standard input or files become records, by our own client."""

import queue
import sys
import threading
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from brokertwin.cli.options import AsJson, Bootstrap, ConfigFile, KafkaConfig, settings_of
from brokertwin.cli.output import say, show_json
from brokertwin.errors import UserError

if TYPE_CHECKING:
    from brokertwin.clients.messages import Message
    from brokertwin.clients.producer_config import ProducerConfig
    from brokertwin.clients.producer_events import Acked, Failed
    from brokertwin.drivers.producer import Producer

READ_AHEAD = 10_000
TURN_MS = 50
STANDARD_INPUT = "-"


class Compression(StrEnum):
    """By Kafka's names."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class Acks(StrEnum):
    """Who has to have a record before it is acknowledged."""

    ALL = "all"
    LEADER = "1"
    NOBODY = "0"


Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="Where the records go.")]
Files = Annotated[
    list[str] | None,
    typer.Argument(metavar="[FILE…]", help="Read line by line; without, or as -, standard input."),
]
Separator = Annotated[
    str | None,
    typer.Option(
        "--key-separator", metavar="TEXT", help="What ends a line's key; without: no key."
    ),
]
Partition = Annotated[
    int | None, typer.Option("--partition", min=0, help="Everything goes there; without: chosen.")
]
CompressionOption = Annotated[Compression, typer.Option("--compression", help="compression.type")]
AcksOption = Annotated[Acks, typer.Option("--acks", help="acks; without all no idempotence.")]
LingerMs = Annotated[int, typer.Option("--linger-ms", min=0, metavar="MS", help="linger.ms")]
AvailabilityMs = Annotated[
    int,
    typer.Option(
        "--availability-timeout-ms",
        min=0,
        metavar="MS",
        help="Lines without a key go to no broker that keeps them waiting for longer; 0: to any"
        " (partitioner.availability.timeout.ms).",
    ),
]
BatchSize = Annotated[int, typer.Option("--batch-size", min=1, metavar="BYTES", help="batch.size")]
TransactionalId = Annotated[
    str | None,
    typer.Option(
        "--transactional-id",
        metavar="ID",
        help="Send in transactions (transactional.id); whoever has the id already is fenced.",
    ),
]
TransactionSize = Annotated[
    int | None,
    typer.Option(
        "--transaction-size",
        min=1,
        metavar="N",
        help="With --transactional-id: so many records in each; without it all are in one.",
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
    acks: AcksOption = Acks.ALL,
    linger_ms: LingerMs = 5,
    batch_size: BatchSize = 16_384,
    availability_timeout_ms: AvailabilityMs = 0,
    max_block_ms: MaxBlockMs = 60_000,
    transactional_id: TransactionalId = None,
    transaction_size: TransactionSize = None,
    as_json: AsJson = False,
    bootstrap: Bootstrap = None,
    kafka_config: KafkaConfig = None,
    config: ConfigFile = None,
) -> None:
    """Send lines to a topic, on any Kafka; Ctrl-C or the end of the input sends what is left.

    Each line is a record. The producer is brokertwin's own, idempotent as Kafka's is by default:
    what is acknowledged is in the log once, in order. With --transactional-id readers with
    read_committed see all of a transaction or nothing; Ctrl-C aborts the one under way. The exit
    code is 1 where records failed. With --json what became of each record is a
    line: its partition and offset, or the error.
    """
    from brokertwin.cli.client_access import accessible
    from brokertwin.clients.producer_config import ConfigError, ProducerConfig
    from brokertwin.drivers.producer import BlockedError, Producer, TransactionError
    from brokertwin.state.core.errors import error_name

    kafka = accessible(settings_of(config, bootstrap=bootstrap, kafka_config=kafka_config))
    try:
        settings = ProducerConfig(
            acks=acks,
            linger_ms=linger_ms,
            batch_size=batch_size,
            partitioner_availability_timeout_ms=availability_timeout_ms,
            max_block_ms=max_block_ms,
            transactional_id=transactional_id,
        )
        producer = Producer(kafka, settings, compression=compression, may_create_topics=False)
    except ConfigError as error:
        raise UserError(f"{error}.") from None
    told = Told(as_json)
    with producer:
        try:
            lines = (
                _message(line, key_separator) for line in _lines(files or ["-"], producer, told)
            )
            if transactional_id is None:
                for message in lines:
                    producer.send(topic, message, partition)
            else:
                _in_transactions(producer, topic, lines, partition, transaction_size, told)
        except BlockedError as error:
            raise UserError(
                str(error), "Is the name right? `brokertwin produce` creates no topics."
            ) from None
        except TransactionError as error:
            raise UserError(f"The transaction can not go on: {error_name(error.error)}.") from None
        except KeyboardInterrupt:
            say("sending what is left")
        told.take(producer.flush(_longest_ms(producer.client.producer.config)))
    say(f"{told.acked} records acknowledged, {told.failed} failed")
    if told.failed:
        raise typer.Exit(1)


def _in_transactions(
    producer: "Producer",
    topic: str,
    messages: "Iterable[Message]",
    partition: int | None,
    size: int | None,
    told: "Told",
) -> None:
    """So many records in each transaction; Ctrl-C and errors abort the one under way."""
    from brokertwin.drivers.producer import BlockedError

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
            say(f"a transaction of {count} records is aborted")
        raise
    if count:
        told.take(producer.commit_transaction())
        transactions += 1
    say(f"{transactions} transactions committed")


def _longest_ms(config: "ProducerConfig") -> int:
    """How long a record may take until it is acknowledged or failed, in ms."""
    return config.delivery_ms + config.request_timeout_ms


class Told:
    """What became of records."""

    def __init__(self, as_json: bool) -> None:
        self.acked = self.failed = 0
        self._as_json = as_json

    def take(self, events: "Iterable[Acked | Failed]") -> None:
        """Counts, and with --json prints, some more."""
        from brokertwin.clients.producer_events import Acked
        from brokertwin.state.core.errors import error_name

        for event in events:
            at = event.topic_partition
            said = {"record": event.record_id, "topic": at.topic, "partition": at.partition}
            if isinstance(event, Acked):
                self.acked += 1
                said["offset"] = event.offset
            else:
                self.failed += 1
                said |= {"error": error_name(event.error), "mayBeWritten": event.may_be_written}
                if not self._as_json:
                    say(f"{at.topic}-{at.partition}: {error_name(event.error)}")
            if self._as_json:
                show_json(said)


def _message(line: bytes, separator: str | None) -> "Message":
    from brokertwin.clients.messages import Message

    key, found, value = line.partition(separator.encode()) if separator else (b"", b"", line)
    return Message(key, value) if found else Message(None, line)


def _lines(files: list[str], producer: "Producer", told: Told) -> Iterator[bytes]:
    """The lines; while the next one does not come, what is due is sent."""
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
            lines.put(UserError(f"{name} cannot be read: {error.strerror}."))
    lines.put(None)
    producer.wake()
