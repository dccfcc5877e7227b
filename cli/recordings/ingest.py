"""`brokertwin ingest`: convert request logs, protocol logs and captures to events."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import Progress

from brokertwin.cli.job.send import EXAMPLES_SHOWN, Afresh, Tally, Wait, placed_cluster, produce
from brokertwin.cli.options import AsJson, Bootstrap, ConfigFile, KafkaConfig, Prefix, settings_of
from brokertwin.cli.output import err, out, say, show_json, show_table, warn
from brokertwin.cli.recordings.recordings import Job, Told, hand_over
from brokertwin.errors import UserError
from brokertwin.wording import counted

if TYPE_CHECKING:
    from brokertwin.kafka_io.kafka_clients import ClientProperties
    from brokertwin.kafka_io.placement import Placement
    from brokertwin.recordings.formats.batches import Completion, Headers, Needs
    from brokertwin.recordings.formats.documents import Document, UnpairedDocuments
    from brokertwin.recordings.formats.order import Sorter
    from brokertwin.recordings.formats.pipeline import FileReading
    from brokertwin.recordings.formats.summary import Summary
    from brokertwin.settings import Settings
    from brokertwin.streaming.job.edge import JobEdge, Sendable

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
        help="The broker of these logs. By default it is found by the addresses in Metadata"
        " responses, names before the lines (kafka-1  |), or the file's name (broker-1.log).",
    ),
]
TimeZone = Annotated[
    str,
    typer.Option(
        "--time-zone",
        metavar="NAME",
        help="Zone of times without one, like Europe/Berlin: that of the JVM that wrote the log.",
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
    Path | None,
    typer.Option(
        "--out",
        metavar="FILE|-",
        help="Write requests with responses as JSON lines; compressed if it ends in .gz.",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite --out if it is not empty.")]
Send = Annotated[
    bool | None,
    typer.Option("--send/--no-send", help="Send the events to a job; the default without --out."),
]
Cluster = Annotated[
    str | None,
    typer.Option("--cluster", metavar="NAME", help="The job's cluster that receives the events."),
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
    out_file: Out = None,
    force: Force = False,
    send: Send = None,
    afresh: Afresh = False,
    wait: Wait = True,
    cluster: Cluster = None,
    dead_letters: DeadLetters = None,
    bootstrap: Bootstrap = None,
    kafka_config: KafkaConfig = None,
    prefix: Prefix = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Convert recordings of a real cluster to events.

    Reads Kafka's request log (kafka.request.logger at DEBUG), Kroxylicious protocol logs and
    captures. Sorts requests by arrival, adds batch headers to Produce requests, and sends the
    events to a job or writes them to a file for `replay` and `send`. Principals are marked as
    asserted; credentials are removed. As in `send`, a job gets the recorded ids and its responses
    are compared with the recorded ones.

    Exits with code 1 if a line was damaged or a response differs. Damaged lines are counted and
    skipped.
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
    is_sent = send if send is not None else out_file is None
    _check_out(out_file, is_sent, force, as_json)
    reading = FileReading(broker, zone_of(time_zone), warn)
    settings = settings_of(config, bootstrap=bootstrap, kafka_config=kafka_config, prefix=prefix)
    batches_client = _batches_client(batches_from, batches_config, settings)
    work = _Work(settings, Summary(), reading, is_sent, cluster, afresh, wait)
    started = time.monotonic()
    with ExitStack() as stack:
        bar = stack.enter_context(
            Progress(console=err, transient=True, disable=not err.is_terminal)
        )
        work.bar = bar
        if dead_letters is not None:
            work.summary.on_dead = _dead_letter_writer(stack.enter_context(_writer(dead_letters)))
        sorter = stack.enter_context(Sorter())
        needs = work.read(files or [], from_topic, sorter)
        if not work.summary.events:
            raise nothing_read(work.summary)
        headers = work.headers(batches or [], batches_client, needs)
        completion = work.write(sorter, headers, needs, out_file)
        work.hand_over(headers, needs, files or [])
    _show(work, completion, time.monotonic() - started, as_json, out_file == STDOUT)
    if work.summary.dead or not (work.told is None or work.told.is_fine()):
        raise typer.Exit(NOT_ALL_WELL)


def _check_out(out_file: Path | None, is_sent: bool, force: bool, as_json: bool) -> None:
    """Raise UserError if the events have no destination, or --out cannot be written."""
    if out_file is None and not is_sent:
        raise UserError("--no-send without --out would discard all events.", "Add --out FILE.")
    if as_json and out_file == STDOUT:
        raise UserError(
            "Cannot combine --json with `--out -`: both write to standard output.",
            "Pass a file to --out, or leave out --json.",
        )
    if out_file is not None and not force:
        _refuse_overwriting(out_file)


def _check_batches(batches_from: str | None, batches_config: Path | None) -> None:
    """Raise UserError if --batches-config is given without --batches-from."""
    if batches_config is not None and batches_from is None:
        raise UserError(
            "--batches-config has no effect without --batches-from.",
            "Add --batches-from HOST:PORT, or leave it out.",
        )


class _Work:
    """One run with its settings and counters."""

    def __init__(
        self,
        settings: "Settings",
        summary: "Summary",
        reading: "FileReading",
        is_sent: bool,
        cluster: str | None,
        afresh: bool,
        is_waited: bool,
    ) -> None:
        self.settings = settings
        self.summary = summary
        self.reading = reading
        self.is_sent = is_sent
        self.tally = Tally()
        self.refused: Counter[tuple[str, str]] = Counter()
        self.written = 0
        self.bar = Progress(disable=True)
        self._client: ClientProperties | None = None
        self.told: Told | None = None
        self._afresh = afresh
        self._is_waited = is_waited
        self._history: list[Document] = []
        self._is_recording = False
        self._placements: Mapping[str, Placement] = {}
        self._cluster = cluster
        self._edge = self._make_edge() if is_sent else None

    def client(self) -> "ClientProperties":
        """Return the properties for --bootstrap. Raises UserError if there is no Kafka."""
        from brokertwin.kafka_io.kafka_clients import client_properties

        if self._client is None:
            self._client = client_properties(self.settings)
            for warning in self._client.warnings():
                warn(warning)
        return self._client

    def _make_edge(self) -> "JobEdge":
        from brokertwin.kafka_io import placement
        from brokertwin.streaming.job.clock import now_ms
        from brokertwin.streaming.job.edge import JobEdge

        found = self._placements = placement.read(self.client(), self.settings.prefix)
        if self._cluster is None and len(found) == 1:
            self._cluster = next(iter(found))
        return JobEdge(found, self._cluster, None, now_ms)

    def read(self, files: list[Path], topic: str | None, sorter: "Sorter") -> "Needs":
        """Read all sources into the sorter."""
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

            documents = of_topic(self.client(), topic, self.reading)(self.summary)
        if self.is_sent and not self._afresh:
            documents = self._kept(documents)
        needs = sort(documents, sorter, self.summary)
        self.bar.update(task, total=1, completed=1)
        return needs

    def _kept(self, documents: "Iterator[Document]") -> "Iterator[Document]":
        """Keep the documents in memory, because a recording's order depends on all of them."""
        for document in documents:
            self._is_recording = self._is_recording or bool(bytes(document.response))
            self._history.append(document)
            yield document

    def hand_over(self, headers: "Headers | None", needs: "Needs", files: list[Path]) -> None:
        """Send a recording with its ids to the job and compare the responses."""
        from brokertwin.recordings.formats.batches import Completion
        from brokertwin.recordings.replay.recording import of_documents

        if not self._is_recording:
            return
        history = of_documents(self._history, Completion(headers, needs.names))
        for line in history.broken:
            self.refused["", line.reason] += 1
        for reason, count in history.left_out.items():
            self.refused["", reason] += count
        job = Job(self.settings, self.client(), placed_cluster(self._placements, self._cluster))
        prepared, self.told = hand_over(job, history, files, self.tally, self.bar, self._is_waited)
        for exchange, refusal in prepared.refused:
            self.refused[exchange.api, refusal.reason] += 1

    def headers(
        self, dumps: list[Path], client: "ClientProperties | None", needs: "Needs"
    ) -> "Headers | None":
        """Return batch headers from dumps and topics; None without either."""
        from brokertwin.recordings.formats import dumps as dump_files

        if not dumps and client is None:
            return None
        headers = dump_files.read(dumps)
        if client is not None:
            from brokertwin.recordings.formats import batch_reader

            task = self.bar.add_task("reading batches", total=len(needs.offsets))
            found = batch_reader.read(client, needs.offsets, lambda: self.bar.advance(task))
            for place, read in found.items():
                headers.setdefault(place, []).extend(read)
        return headers

    def write(
        self, sorter: "Sorter", headers: "Headers | None", needs: "Needs", out_file: Path | None
    ) -> "Completion":
        """Write the documents in order, to the file and to the job."""
        from brokertwin.recordings.formats.batches import Completion
        from brokertwin.recordings.formats.pipeline import in_order

        completion = Completion(headers, needs.names)
        documents = self.bar.track(
            in_order(sorter, completion), total=len(sorter), description="writing"
        )
        with ExitStack() as stack:
            kept = iter(documents)
            if out_file is not None:
                kept = self._written(kept, stack.enter_context(_writer(out_file)))
            if self._edge is None or self._is_recording:
                for _ in kept:
                    pass
            else:
                self._edge.controllers |= self.summary.controllers
                events = self._events(kept, self._edge)
                produce(self.client(), self.settings.prefix, events, self.tally)
        return completion

    def _written(self, documents: Iterator[bytes], write: Write) -> Iterator[bytes]:
        for document in documents:
            write(document + b"\n")
            self.written += 1
            yield document

    def _events(self, documents: Iterator[bytes], edge: "JobEdge") -> Iterator["Sendable"]:
        from brokertwin.recordings.formats.documents import api_of_document
        from brokertwin.state.core.events import Refusal

        for document in documents:
            event = edge.event(document, "")
            if isinstance(event, Refusal):
                self.refused[api_of_document(document), event.reason] += 1
            else:
                yield event


def _batches_client(
    address: str | None, config: Path | None, settings: "Settings"
) -> "ClientProperties | None":
    from brokertwin.kafka_io.kafka_clients import client_properties

    if address is None:
        return None
    own = settings.model_copy(update={"bootstrap": address, "kafka_config": config})
    return client_properties(own)


def _refuse_overwriting(path: Path) -> None:
    """Raise UserError if a file is not empty; devices and pipes are allowed."""
    if path != STDOUT and path.is_file() and path.stat().st_size:
        raise UserError(
            f"--out {path} already exists and is not empty.",
            "Pass another file, or --force to overwrite it.",
        )


@contextmanager
def _writer(path: Path) -> Iterator[Write]:
    """Open a file for writing; compressed if it ends in .gz, `-` is standard output."""
    import gzip
    import sys

    if path == STDOUT:
        yield sys.stdout.buffer.write
        sys.stdout.buffer.flush()
        return
    try:
        with path.open("wb") as file:
            if path.suffix == ".gz":
                with gzip.GzipFile(path.stem, "wb", fileobj=file) as zipped:
                    yield zipped.write
            else:
                yield file.write
    except OSError as error:
        raise UserError(f"Cannot write to {path}: {error.strerror}.") from None


def _dead_letter_writer(write: Write) -> Callable[["UnpairedDocuments"], None]:
    """Write position and reason of damaged lines, but no content, which may hold a password."""
    import msgspec

    from brokertwin.recordings.formats.summary import place_of

    def write_letter(left: "UnpairedDocuments") -> None:
        letter = {"line": place_of(left.line), "reason": left.reason, "detail": left.detail}
        write(msgspec.json.encode(letter) + b"\n")

    return write_letter


def _show(
    work: _Work, completion: "Completion", seconds: float, as_json: bool, is_quiet: bool
) -> None:
    summary = work.summary
    left = summary.left + work.refused
    missing = {str(reason): count for reason, count in completion.missing.most_common()}
    if as_json:
        report: dict[str, Any] = {
            "lines": summary.lines,
            "events": dict(summary.events),
            "left": [{"api": api, "reason": why, "count": n} for (api, why), n in left.items()],
            "damaged": dict(summary.dead),
            "batches": {"completed": completion.completed, "missing": missing},
            "namelessTopicIds": summary.nameless_topic_ids,
            "sent": work.tally.sent,
            "written": work.written,
            "seconds": seconds,
        }
        if work.told is not None:
            report["recording"] = work.told.as_json()
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
        title = "not sent" if not summary.left else "left out"
        show_table(["API", "reason", "lines or events"], rows, title)
    _show_what_lacks(completion, missing, summary.nameless_topic_ids)
    if summary.dead:
        show_table(["damaged", "lines"], summary.dead.most_common())
        title = f"examples of each reason, at most {EXAMPLES_SHOWN}"
        show_table(["line", "reason", "detail"], summary.examples, title)
    if work.is_sent:
        out.print(f"sent {counted(work.tally.sent, 'event')}")
    if work.told is not None:
        work.told.show()
    if work.written:
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
