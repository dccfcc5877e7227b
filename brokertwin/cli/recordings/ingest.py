"""`brokertwin ingest`: convert request logs, protocol logs and captures to events."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import Progress

from brokertwin.cli.files import check_new, writing
from brokertwin.cli.job.send import EXAMPLES_SHOWN
from brokertwin.cli.options import (
    AsJson,
    Bootstrap,
    ConfigFile,
    Force,
    KafkaConfig,
    kafka_of,
    settings_of,
)
from brokertwin.cli.output import out, progress_bars, say, show_json, show_table, warn
from brokertwin.errors import UserError
from brokertwin.sinks.files import opened_privately
from brokertwin.wording import counted

if TYPE_CHECKING:
    from brokertwin.kafka_io.kafka_clients import ClientProperties
    from brokertwin.protocol.batch_headers import Headers
    from brokertwin.recordings.formats.batches import Completion, Needs
    from brokertwin.recordings.formats.documents import Document, UnpairedDocuments
    from brokertwin.recordings.formats.order import Sorter
    from brokertwin.recordings.formats.pipeline import FileReading
    from brokertwin.recordings.formats.summary import Summary
    from brokertwin.settings import Settings

NOT_ALL_WELL = 1
STDOUT = Path("-")
Write = Callable[[bytes], object]

Files = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="FILE…|-",
        help="Kafka's request logs in any layout, Kroxylicious' protocol logs, captures; also"
        " mixed and compressed. - is standard input.",
    ),
]
FromTopic = Annotated[
    str | None,
    typer.Option(
        "--from-topic",
        metavar="NAME",
        help="Read this topic at --bootstrap, written by `capture --topic`.",
    ),
]
Broker = Annotated[
    int | None,
    typer.Option(
        "--broker",
        metavar="ID",
        help="Id of the broker that wrote the logs. Default: found by addresses in Metadata"
        " responses, names before the lines (kafka-1  |), or the file name (broker-1.log).",
    ),
]
TimeZone = Annotated[
    str,
    typer.Option(
        "--time-zone",
        metavar="NAME",
        help="Time zone of the JVM that wrote the log, like Europe/Berlin, for times without one.",
    ),
]
Batches = Annotated[
    list[Path] | None,
    typer.Option(
        "--batches",
        metavar="FILE",
        help="Batch headers for Produce requests: output of kafka-dump-log.sh, or a .tsv table;"
        " repeatable.",
    ),
]
BatchesFrom = Annotated[
    str | None,
    typer.Option(
        "--batches-from",
        metavar="HOST:PORT,…",
        help="Read batch headers for Produce requests from the topics of this Kafka.",
    ),
]
BatchesConfig = Annotated[
    Path | None,
    typer.Option(
        "--batches-config",
        metavar="FILE",
        help="Java client properties (TLS, SASL) for --batches-from.",
    ),
]
Out = Annotated[
    Path,
    typer.Option(
        "--out",
        metavar="FILE|-",
        help="File for the JSON lines; - is standard output. A name that ends in .gz is"
        " compressed.",
    ),
]
DeadLetters = Annotated[
    Path | None,
    typer.Option(
        "--dead-letters",
        metavar="FILE",
        help="Write a JSON line with position and reason for each damaged line.",
    ),
]


def command(
    files: Files = None,
    from_topic: FromTopic = None,
    broker: Broker = None,
    time_zone: TimeZone = "UTC",
    batches: Batches = None,
    batches_from: BatchesFrom = None,
    batches_config: BatchesConfig = None,
    out_file: Out = STDOUT,
    force: Force = False,
    dead_letters: DeadLetters = None,
    bootstrap: Bootstrap = None,
    kafka_config: KafkaConfig = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Convert recordings of a real cluster to JSON lines of requests with responses.

    Reads Kafka's request log (kafka.request.logger at DEBUG), Kroxylicious protocol logs and
    captures. Sorts requests by arrival, adds batch headers to Produce requests and removes
    credentials. `brokertwin send FILE` sends the lines to a job, `brokertwin replay FILE` runs
    them through the broker model.

    Exits with code 1 if a line was damaged. Damaged lines are counted and skipped.
    """
    from brokertwin.recordings.formats.order import Sorter
    from brokertwin.recordings.formats.pipeline import FileReading, zone_of
    from brokertwin.recordings.formats.summary import Summary, nothing_read

    if bool(files) == bool(from_topic):
        raise UserError(
            "`brokertwin ingest` needs one source.",
            "Name files, or - for standard input, or pass --from-topic NAME.",
        )
    _check_batches(batches_from, batches_config)
    _check_out(out_file, force, as_json)
    check_new(dead_letters, force)
    reading = FileReading(broker, zone_of(time_zone), warn)
    settings = settings_of(config, bootstrap=bootstrap, kafka_config=kafka_config)
    batches_client = _batches_client(batches_from, batches_config, settings)
    work = _Work(settings, Summary(), reading)
    started = time.monotonic()
    with ExitStack() as stack:
        bar = stack.enter_context(progress_bars())
        work.bar = bar
        if dead_letters is not None:
            work.summary.on_dead = _dead_letter_writer(stack.enter_context(_writer(dead_letters)))
        sorter = stack.enter_context(Sorter())
        needs = work.read(files or [], from_topic, sorter)
        if not work.summary.events:
            raise nothing_read(work.summary)
        headers = work.headers(batches or [], batches_client, needs)
        completion = work.write(sorter, headers, needs, out_file)
    _show(work, completion, time.monotonic() - started, as_json, out_file == STDOUT)
    if work.summary.dead:
        raise typer.Exit(NOT_ALL_WELL)


def _check_out(out_file: Path, force: bool, as_json: bool) -> None:
    """Raise UserError if --out cannot be written."""
    if as_json and out_file == STDOUT:
        raise UserError(
            "Cannot combine --json with `--out -`: both write to standard output.",
            "Add --out FILE, or leave out --json.",
        )
    if out_file != STDOUT:
        check_new(out_file, force)


def _check_batches(batches_from: str | None, batches_config: Path | None) -> None:
    """Raise UserError if --batches-config is given without --batches-from."""
    if batches_config is not None and batches_from is None:
        raise UserError(
            "--batches-config has no effect without --batches-from.",
            "Add --batches-from HOST:PORT, or leave it out.",
        )


class _Work:
    """One run with its settings and counters."""

    def __init__(self, settings: "Settings", summary: "Summary", reading: "FileReading") -> None:
        self.settings = settings
        self.summary = summary
        self.reading = reading
        self.written = 0
        self.bar = Progress(disable=True)

    def read(self, files: list[Path], topic: str | None, sorter: "Sorter") -> "Needs":
        from brokertwin.recordings.formats.lines import size_of
        from brokertwin.recordings.formats.pipeline import read_files, sort

        task = self.bar.add_task("reading", total=size_of(files) if files else None)
        documents: Iterator[Document]
        if topic is None:
            documents = read_files(
                files, self.reading, self.summary, lambda size: self.bar.advance(task, size)
            )
        else:
            from brokertwin.recordings.formats.topics import of_topic

            documents = of_topic(kafka_of(self.settings), topic, self.reading)(self.summary)
        needs = sort(documents, sorter, self.summary)
        self.bar.update(task, total=1, completed=1)
        return needs

    def headers(
        self, dumps: list[Path], client: "ClientProperties | None", needs: "Needs"
    ) -> "Headers | None":
        """Return batch headers from dumps and topics; None without either."""
        from brokertwin.recordings.formats import dumps as dump_files

        if not dumps and client is None:
            return None
        headers = dump_files.read(dumps)
        if client is not None:
            from brokertwin.clients.io import batch_reader

            task = self.bar.add_task("reading batches", total=len(needs.offsets))
            found = batch_reader.read(client, needs.offsets, lambda: self.bar.advance(task))
            for place, read in found.items():
                headers.setdefault(place, []).extend(read)
        return headers

    def write(
        self, sorter: "Sorter", headers: "Headers | None", needs: "Needs", out_file: Path
    ) -> "Completion":
        from brokertwin.recordings.formats.batches import Completion
        from brokertwin.recordings.formats.pipeline import in_order

        completion = Completion(headers, needs.names)
        documents = self.bar.track(
            in_order(sorter, completion), total=len(sorter), description="writing"
        )
        with _writer(out_file) as write:
            for document in documents:
                write(document + b"\n")
                self.written += 1
        return completion


def _batches_client(
    address: str | None, config: Path | None, settings: "Settings"
) -> "ClientProperties | None":
    from brokertwin.kafka_io.kafka_clients import client_properties

    if address is None:
        return None
    own = settings.model_copy(update={"bootstrap": address, "kafka_config": config})
    return client_properties(own)


@contextmanager
def _writer(path: Path) -> Iterator[Write]:
    """Open a file for writing; compressed if it ends in .gz, `-` is standard output."""
    import gzip
    import sys

    if path == STDOUT:
        yield sys.stdout.buffer.write
        sys.stdout.buffer.flush()
        return
    with writing(path) as temporary, open(temporary, "wb", opener=opened_privately) as file:
        if path.suffix == ".gz":
            with gzip.GzipFile(path.stem, "wb", fileobj=file) as zipped:
                yield zipped.write
        else:
            yield file.write


def _dead_letter_writer(write: Write) -> Callable[["UnpairedDocuments"], None]:
    """Write position and reason of damaged lines, but no content, which may hold a password."""
    import msgspec

    def write_letter(left: "UnpairedDocuments") -> None:
        letter = {"line": left.line.place, "reason": left.reason, "detail": left.detail}
        write(msgspec.json.encode(letter) + b"\n")

    return write_letter


def _show(
    work: _Work, completion: "Completion", seconds: float, as_json: bool, is_quiet: bool
) -> None:
    summary = work.summary
    left = summary.left
    missing = {str(reason): count for reason, count in completion.missing.most_common()}
    if as_json:
        report: dict[str, Any] = {
            "lines": summary.lines,
            "events": dict(summary.events),
            "left": [{"api": api, "reason": why, "count": n} for (api, why), n in left.items()],
            "damaged": dict(summary.dead),
            "batches": {"completed": completion.completed, "missing": missing},
            "namelessTopicIds": summary.nameless_topic_ids,
            "written": work.written,
            "seconds": seconds,
        }
        show_json(report)
        return
    made = summary.events.total()
    rate = summary.lines / seconds if seconds else 0
    events = counted(made, "event")
    lines = counted(summary.lines, "line")
    first = f"read {lines} in {seconds:.1f} s ({rate:,.0f}/s): {events}"
    if is_quiet:
        lacking = f"{counted(completion.missing.total(), 'batch', 'batches')} without headers"
        say(f"{first}, {counted(summary.dead.total(), 'damaged line')}, {lacking}")
        return
    out.print(first)
    show_table(["API", "events"], sorted(summary.events.items()))
    if left:
        rows = [(api or "-", why, count) for (api, why), count in sorted(left.items())]
        show_table(["API", "reason", "lines"], rows, "left out")
    _show_what_lacks(completion, missing, summary.nameless_topic_ids)
    if summary.dead:
        show_table(["damaged", "lines"], summary.dead.most_common())
        title = f"examples of each reason, at most {EXAMPLES_SHOWN}"
        show_table(["line", "reason", "detail"], summary.examples, title)
    out.print(f"wrote {counted(work.written, 'document')}")


def _show_what_lacks(completion: "Completion", missing: dict[str, int], nameless: int) -> None:
    """Print the numbers of completed and missing batch headers and names."""
    if completion.completed:
        partitions = counted(completion.completed, "partition")
        out.print(f"added batch headers to {partitions} of Produce requests")
    rows = [("PRODUCE", "batch header", why, count) for why, count in missing.items()]
    if nameless:
        rows.append(("FETCH", "topic name", "no response has the topic id and its name", nameless))
    if rows:
        show_table(["API", "missing", "reason", "count"], rows, "missing in the recording")
