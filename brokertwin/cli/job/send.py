"""`brokertwin send`: send events from files or standard input to a job."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.progress import Progress

from brokertwin.cli.options import (
    AsJson,
    Bootstrap,
    ConfigFile,
    KafkaConfig,
    Prefix,
    kafka_of,
    selected_cluster,
    settings_of,
)
from brokertwin.cli.output import out, progress_bars, show_json, show_table, warn
from brokertwin.cli.recordings.recordings import Job, SendResult, check_responses, hand_over
from brokertwin.errors import UserError
from brokertwin.state.core.packs import PACK_EVENTS_MAX
from brokertwin.wording import counted

if TYPE_CHECKING:
    from brokertwin.kafka_io.kafka_clients import ClientProperties
    from brokertwin.streaming.job.edge import JobEdge, Sendable

EXAMPLES_SHOWN = 5
NOT_ALL_WELL = 1
FROM_STDIN = "Cannot read a recording from standard input, because it is read more than once."
STDIN_HINT = "Pass its file, or --afresh to send the requests as new ones."

Order = Literal["time", "lines"]
Files = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE…|-",
        help="JSON lines in the format of Kafka's request log, also .gz; - is standard input.",
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option("--cluster", metavar="NAME", help="Cluster of events that have none."),
]
Broker = Annotated[
    int | None, typer.Option("--broker", metavar="ID", help="Broker of events that have none.")
]
OrderOption = Annotated[
    Order | None,
    typer.Option(
        "--order",
        help="time: by the events' times (default for files, which are read to the end first)."
        " lines: by line (default for standard input). Not for recordings.",
    ),
]
Afresh = Annotated[
    bool,
    typer.Option(
        "--afresh",
        help="Send a recording's requests as new ones, with new ids and without a comparison.",
    ),
]
Wait = Annotated[
    bool,
    typer.Option(
        "--wait/--no-wait",
        help="Wait for the job's responses to a recording and compare them with the recorded ones.",
    ),
]
Check = Annotated[
    bool,
    typer.Option(
        "--check",
        help="Send nothing; compare the job's responses to a recording that was sent before.",
    ),
]
Pack = Annotated[
    int,
    typer.Option(
        "--pack",
        metavar="N",
        min=1,
        max=PACK_EVENTS_MAX,
        help="Write up to N events of a cell as one row. A job reads packs faster than single rows;"
        " from standard input, an event waits until its pack is full.",
    ),
]


@dataclass
class Tally:
    """Counts of sent and refused lines."""

    sent: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    examples: list[tuple[str, str, str]] = field(default_factory=list)

    def refuse(self, place: str, reason: str, detail: str) -> None:
        """Count a refused line and keep the first examples of each reason."""
        self.refused[reason] += 1
        if self.refused[reason] <= EXAMPLES_SHOWN:
            self.examples.append((place, reason, detail))


def command(
    files: Files,
    cluster: Cluster = None,
    broker: Broker = None,
    order: OrderOption = None,
    afresh: Afresh = False,
    wait: Wait = True,
    check: Check = False,
    pack: Pack = 1,
    bootstrap: Bootstrap = None,
    kafka_config: KafkaConfig = None,
    prefix: Prefix = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Send events to a job.

    Each line gets an id (file and line), cluster, broker and nonce if it has none. Lines that the
    job would put into its dead letters are refused; the exit code is then 1.

    Files with recorded responses (from `capture` and `ingest --out`) are sent with the recorded
    ids. The command waits for the job's responses and compares them; exits with code 1 if one
    differs. Start such a job with `brokertwin run --event-time recorded`.
    """
    from brokertwin.kafka_io import placement
    from brokertwin.streaming.job.clock import now_ms
    from brokertwin.streaming.job.edge import JobEdge

    is_recording = not afresh and _has_responses(files)
    _check_options(is_recording, afresh, check, order)
    settings = settings_of(config, bootstrap=bootstrap, kafka_config=kafka_config, prefix=prefix)
    client = kafka_of(settings)
    placements = placement.read(client, settings.prefix)
    only = next(iter(placements)) if len(placements) == 1 else None
    tally = Tally()
    result = None
    started = time.monotonic()
    with progress_bars() as bar:
        if is_recording:
            job = Job(settings, client, placements[selected_cluster(placements, cluster)])
            result = _recording(job, files, broker, tally, bar, wait, check, pack)
        else:
            edge = JobEdge(placements, cluster or only, broker, now_ms)
            made = _made(edge, files, afresh, tally)
            produce(client, settings.prefix, _in_order(made, files, order, bar), tally, pack)
    _show(tally, time.monotonic() - started, as_json, result)
    if tally.refused or (result is not None and not result.is_fine()):
        raise typer.Exit(NOT_ALL_WELL)


def _check_options(is_recording: bool, afresh: bool, check: bool, order: Order | None) -> None:
    """Check options that conflict. Raises UserError."""
    if afresh and check:
        raise UserError(
            "Cannot combine --afresh with --check: new requests have no recorded responses.",
            "Leave out one of them.",
        )
    if check and not is_recording:
        raise UserError(
            "Cannot use --check: the files have no recorded responses.",
            "Pass a recording of `capture` or `ingest --out`.",
        )
    if is_recording and order is not None:
        raise UserError(
            "Cannot use --order with a recording, whose responses define the order of events.",
            "Leave out --order, or add --afresh to send the requests as new ones.",
        )


def _has_responses(files: list[Path]) -> bool:
    """Return True if a line of the files has a recorded response; ignores standard input."""
    from brokertwin.recordings.formats.lines import STDIN, read_lines
    from brokertwin.recordings.replay.recording import has_response

    return any(has_response(line.text) for line in read_lines(f for f in files if f != STDIN))


def _recording(
    job: Job,
    files: list[Path],
    broker: int | None,
    tally: Tally,
    bar: Progress,
    is_waited: bool,
    is_checked: bool,
    pack: int,
) -> SendResult:
    """Send a recording, or compare one that was sent; counts refused exchanges."""
    from brokertwin.recordings.formats.lines import STDIN
    from brokertwin.recordings.formats.pipeline import FileReading
    from brokertwin.recordings.replay import recording
    from brokertwin.state.core.events import Reason

    if STDIN in files:
        raise UserError(FROM_STDIN, STDIN_HINT)
    reading = FileReading(broker, warn=warn)
    history = recording.read(files, reading).of_clients()
    for line in history.broken:
        tally.refuse(line.place, "not an exchange", line.reason)
    tally.refused.update({str(Reason.CLUSTERS_OWN): sum(history.left_out.values())})
    tally.refused += Counter()  # removes zero counts
    if is_checked:
        handover, result = check_responses(job, history, bar)
    else:
        handover, result = hand_over(job, history, files, tally, bar, is_waited, pack)
    for exchange, refusal in handover.refused:
        tally.refuse(exchange.id, refusal.reason, refusal.detail)
    return result


def _in_order(
    made: Iterator[tuple[str, "Sendable"]], files: list[Path], order: Order | None, bar: Progress
) -> Iterator["Sendable"]:
    from brokertwin.recordings.formats.lines import STDIN
    from brokertwin.streaming.job.edge import by_time

    if order is None:
        order = "lines" if STDIN in files else "time"
    reading = bar.add_task("reading", total=None)
    if order == "time":
        made = ((".", event) for event in by_time(bar.track(made, task_id=reading)))
        bar.update(reading, total=1, completed=1)
    yield from (event for _, event in bar.track(made, description="sending"))


def _made(
    edge: "JobEdge", files: list[Path], afresh: bool, tally: Tally
) -> Iterator[tuple[str, "Sendable"]]:
    """Yield file and event of each valid line; counts the others."""
    import secrets

    from brokertwin.recordings.formats.lines import STDIN, read_lines
    from brokertwin.recordings.replay.recording import has_response
    from brokertwin.state.core.events import Refusal

    id_prefix = f"{secrets.token_hex(4)}/" if STDIN in files else ""
    for line in read_lines(files):
        if not afresh and line.file == "stdin" and has_response(line.text):
            raise UserError(FROM_STDIN, STDIN_HINT)
        event = edge.event(line.text, f"{id_prefix}{line.file}:{line.number}")
        if isinstance(event, Refusal):
            tally.refuse(f"{line.file}:{line.number}", event.reason, event.detail)
        else:
            yield line.file, event


def produce(
    client: "ClientProperties",
    prefix: str,
    events: Iterable["Sendable"],
    tally: Tally,
    pack: int,
) -> None:
    """Write the events in order. Raises UserError if Kafka rejects them."""
    from brokertwin.kafka_io.topics import REQUESTS, full_name
    from brokertwin.sinks.topic_writer import NewRow, in_packs, write_all

    def rows() -> Iterator[NewRow]:
        for event in events:
            tally.sent += 1
            yield NewRow(event.cell, event.document, event.partition, event.id)

    write_all(client, full_name(prefix, REQUESTS), in_packs(rows(), pack))


def _show(tally: Tally, seconds: float, as_json: bool, result: SendResult | None) -> None:
    refused = sum(tally.refused.values())
    if as_json:
        report = {"sent": tally.sent, "refused": dict(tally.refused), "seconds": seconds}
        show_json(report if result is None else report | {"recording": result.as_json()})
        return
    rate = tally.sent / seconds if seconds else 0
    pace = f" ({rate:,.0f}/s)" if result is None else ""
    events = counted(tally.sent, "event")
    out.print(f"sent {events} in {seconds:.1f} s{pace}, refused {refused:,}")
    if refused:
        show_table(["reason", "lines"], tally.refused.most_common())
        title = f"examples of each reason, at most {EXAMPLES_SHOWN}"
        show_table(["line", "reason", "detail"], tally.examples, title)
    if result is not None:
        result.show()
