"""`brokertwin produce`: send lines as records, with this project's own client."""

import sys
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from brokertwin.cli.era_options import EraOption, Trace, tracer
from brokertwin.cli.options import AsJson, Bootstrap, ConfigFile, KafkaConfig, settings_of
from brokertwin.cli.output import say, show_json
from brokertwin.errors import UserError
from brokertwin.wording import counted

if TYPE_CHECKING:
    from brokertwin.clients.era import Era
    from brokertwin.clients.io.security import Kafka
    from brokertwin.clients.io.shared_producer import SharedProducer
    from brokertwin.clients.messages import ProducerRecord
    from brokertwin.clients.producer_config import ProducerConfig
    from brokertwin.clients.producer_events import RecordAcked, RecordFailed

STANDARD_INPUT = "-"

Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]
Acks = Literal["all", "1", "0"]
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
Idempotence = Annotated[
    bool | None,
    typer.Option(
        "--idempotence/--no-idempotence",
        help="enable.idempotence; default: on unless --acks or --era 2.0 says otherwise.",
    ),
]
Retries = Annotated[
    int | None, typer.Option("--retries", min=0, metavar="N", help="retries; default: no limit.")
]
RequestTimeoutMs = Annotated[
    int, typer.Option("--request-timeout-ms", min=1, metavar="MS", help="request.timeout.ms")
]
DeliveryTimeoutMs = Annotated[
    int | None,
    typer.Option(
        "--delivery-timeout-ms", min=1, metavar="MS", help="delivery.timeout.ms; default: 120000."
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
    compression: CompressionOption = "none",
    acks: AcksOption = None,
    linger_ms: LingerMs = None,
    batch_size: BatchSize = 16_384,
    availability_timeout_ms: AvailabilityMs = 0,
    max_block_ms: MaxBlockMs = 60_000,
    max_in_flight: InFlight = 5,
    unsafe: Unsafe = False,
    idempotence: Idempotence = None,
    retries: Retries = None,
    request_timeout_ms: RequestTimeoutMs = 30_000,
    delivery_timeout_ms: DeliveryTimeoutMs = None,
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
    from brokertwin.clients.eras import producer_config
    from brokertwin.clients.io.sending import send_all
    from brokertwin.clients.producer_config import ProducerConfigError

    if threads is not None and transactional_id is not None:
        raise UserError("Cannot combine --threads and --transactional-id.", "Leave out one.")
    results = ProduceResults(as_json)
    options = {
        "acks": acks,
        "linger_ms": linger_ms,
        "enable_idempotence": idempotence,
        "retries": retries,
        "delivery_timeout_ms": delivery_timeout_ms,
    }
    lines = _lines_of(files or [STANDARD_INPUT])
    messages = (_message(line, key_separator) for line in lines)
    try:
        settings = msgspec.structs.replace(
            producer_config(era, is_idempotent=bool(idempotence) or transactional_id is not None),
            **{name: value for name, value in options.items() if value is not None},
            request_timeout_ms=request_timeout_ms,
            batch_size=batch_size,
            partitioner_availability_timeout_ms=availability_timeout_ms,
            max_block_ms=max_block_ms,
            max_in_flight_requests_per_connection=max_in_flight,
            is_unsafe=unsafe,
            transactional_id=transactional_id,
        )
        kafka = accessible(settings_of(config, bootstrap=bootstrap, kafka_config=kafka_config))
        made = _producer(kafka, settings, compression, era, trace, results)
    except ProducerConfigError as error:
        raise UserError(f"{error}.") from None
    with made as producer:
        try:
            send_all(producer, topic, messages, partition, threads, transaction_size, say)
        except KeyboardInterrupt:
            say("sending pending records")
        used = producer.client.producer.config
        producer.flush(used.delivery_ms + used.request_timeout_ms)
    say(f"{counted(results.acked, 'record')} acknowledged, {results.failed:,} failed")
    if results.failed:
        raise typer.Exit(1)


def _producer(
    kafka: "Kafka",
    settings: "ProducerConfig",
    compression: Compression,
    era: "Era | None",
    is_traced: bool,
    results: "ProduceResults",
) -> "SharedProducer":
    from brokertwin.clients.eras import metadata_settings
    from brokertwin.clients.io.shared_producer import SharedProducer
    from brokertwin.clients.io.traced import TracedProducer

    write = tracer(is_traced, with_threads=True)
    make = SharedProducer if write is None else partial(TracedProducer, write=write)
    return make(
        kafka,
        settings,
        lambda event: results.take([event]),
        compression=compression,
        metadata=metadata_settings(era),
    )


class ProduceResults:
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


def _lines_of(files: list[str]) -> Iterator[bytes]:
    """Yield the lines of files and of standard input. Raises UserError."""
    for name in files:
        try:
            with sys.stdin.buffer if name == STANDARD_INPUT else Path(name).open("rb") as stream:
                for line in stream:
                    yield line.rstrip(b"\r\n")
        except OSError as error:
            raise UserError(f"Cannot read {name}: {error.strerror}.") from None
