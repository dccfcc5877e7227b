"""`brokertwin send`: events from files or standard input into `requests`."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import Progress

from brokertwin.cli.options import (
    AsJson,
    Bootstrap,
    ConfigFile,
    KafkaConfig,
    Prefix,
    settings_of,
)
from brokertwin.cli.output import err, out, show_json, show_table, warn
from brokertwin.cli.recordings import Job, Told, check_answers, hand_over
from brokertwin.errors import UserError

if TYPE_CHECKING:
    from brokertwin.kafka_io.kafka_clients import ClientProperties
    from brokertwin.kafka_io.placement import Placement
    from brokertwin.streaming.edge import Edge, Sendable

EXAMPLES_SHOWN = 5
NOT_ALL_WELL = 1
FROM_STDIN = "Recorded answers from standard input: a recording is read more than once."
STDIN_HINT = "Give its file; or --afresh, which makes a new history of the requests."


class Order(StrEnum):
    """The order in which lines become events."""

    TIME = "time"
    LINES = "lines"


Files = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE…|-",
        help="JSON lines in the shape of Kafka's request log, also .gz; - is standard input.",
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option("--cluster", metavar="NAME", help="Cluster of events that name none."),
]
Broker = Annotated[
    int | None, typer.Option("--broker", metavar="ID", help="Broker of events that name none.")
]
IdPrefix = Annotated[
    str,
    typer.Option(
        "--id-prefix",
        metavar="TEXT",
        help="Put before file:line to make the ids of events that have none.",
    ),
]
OrderOption = Annotated[
    Order | None,
    typer.Option(
        "--order",
        help="By the events' times (the default for files; read to their end first), or as the"
        " lines come (the default for standard input). Not for recordings.",
    ),
]
Afresh = Annotated[
    bool,
    typer.Option(
        "--afresh",
        help="Make a new history of a recording: its requests with new ids, no answers compared.",
    ),
]
Wait = Annotated[
    bool,
    typer.Option(
        "--wait/--no-wait",
        help="Wait for the job's answers to a recording and compare them with the recorded ones.",
    ),
]
Check = Annotated[
    bool,
    typer.Option(
        "--check",
        help="Send nothing: compare what the job has answered to a recording sent before.",
    ),
]


@dataclass
class Tally:
    """What became of the lines."""

    sent: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    examples: list[tuple[str, str, str]] = field(default_factory=list)

    def refuse(self, place: str, reason: str, detail: str) -> None:
        """Count a refused line; the first few of each reason are shown."""
        self.refused[reason] += 1
        if self.refused[reason] <= EXAMPLES_SHOWN:
            self.examples.append((place, reason, detail))


def command(
    files: Files,
    cluster: Cluster = None,
    broker: Broker = None,
    order: OrderOption = None,
    id_prefix: IdPrefix = "",
    afresh: Afresh = False,
    wait: Wait = True,
    check: Check = False,
    bootstrap: Bootstrap = None,
    kafka_config: KafkaConfig = None,
    prefix: Prefix = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Send events to a job.

    Each line gets an id (file and line), cluster, broker and nonce where it has none. A line that
    the job would only make a dead letter of is refused here, and the exit code is 1.

    Files with recorded answers (what `capture` and `ingest --out` write) keep their history: the
    ids that the real broker picked go along, the job's answers are waited for and compared, and the
    exit code is 1 where one differs. Such a job is started with `run --event-time recorded`.
    """
    from brokertwin.kafka_io import placement
    from brokertwin.kafka_io.kafka_clients import client_properties
    from brokertwin.streaming.clock import now_ms
    from brokertwin.streaming.edge import Edge

    is_recording = not afresh and _has_answers(files)
    _check_options(is_recording, afresh, check, order)
    settings = settings_of(config, bootstrap=bootstrap, kafka_config=kafka_config, prefix=prefix)
    client = client_properties(settings)
    for warning in client.warnings():
        warn(warning)
    placements = placement.read(client, settings.prefix)
    only = next(iter(placements)) if len(placements) == 1 else None
    tally = Tally()
    told = None
    started = time.monotonic()
    with Progress(console=err, transient=True, disable=not err.is_terminal) as bar:
        if is_recording:
            job = Job(settings, client, placed_cluster(placements, cluster or only))
            told = _recording(job, files, id_prefix, broker, tally, bar, wait, check)
        else:
            edge = Edge(placements, cluster or only, broker, now_ms)
            made = _made(edge, files, id_prefix, afresh, tally)
            produce(client, settings.prefix, _in_order(made, files, order, bar), tally)
    _show(tally, time.monotonic() - started, as_json, told)
    if tally.refused or (told is not None and not told.is_fine()):
        raise typer.Exit(NOT_ALL_WELL)


def _check_options(is_recording: bool, afresh: bool, check: bool, order: Order | None) -> None:
    """Refuse what does not go together. Raises UserError."""
    if afresh and check:
        raise UserError("--afresh makes another history: there is nothing to --check.")
    if check and not is_recording:
        raise UserError("--check: these files have no recorded answers.")
    if is_recording and order is not None:
        raise UserError(
            "--order is not for recordings: their answers show the order of events.",
            "Leave it out, or give --afresh for a new history.",
        )


def _has_answers(files: list[Path]) -> bool:
    """Whether a line of the files has a recorded answer; standard input is not looked into."""
    from brokertwin.streaming.lines import STDIN, read_lines

    return any(_is_answered(line.text) for line in read_lines(f for f in files if f != STDIN))


def _is_answered(line: bytes) -> bool:
    from brokertwin.streaming.replay.recording import is_answered

    return is_answered(line)


def placed_cluster(placements: "Mapping[str, Placement]", name: str | None) -> "Placement":
    """The cluster of a job that gets a recording. Raises UserError where that is not clear."""
    known = ", ".join(sorted(placements))
    if name is None:
        raise UserError(f"The job holds several clusters: {known}.", "Choose one by --cluster.")
    if name not in placements:
        raise UserError(f"The job holds {known}, not {name!r}.")
    return placements[name]


def _recording(
    job: Job,
    files: list[Path],
    id_prefix: str,
    broker: int | None,
    tally: Tally,
    bar: Progress,
    is_waited: bool,
    is_checked: bool,
) -> Told:
    """Send a recording, or compare one that was sent; what the job does not take is counted."""
    from brokertwin.state.core.events import Reason
    from brokertwin.streaming.ingest.pipeline import Reading
    from brokertwin.streaming.lines import STDIN
    from brokertwin.streaming.replay import recording

    if STDIN in files:
        raise UserError(FROM_STDIN, STDIN_HINT)
    history = recording.read(files, Reading(broker)).with_id_prefix(id_prefix)
    for line in history.broken:
        tally.refuse(line.place, "not an exchange", line.reason)
    tally.refused.update({str(Reason.CLUSTERS_OWN): sum(history.left_out.values())})
    tally.refused += Counter()  # without zeros
    if is_checked:
        handover, told = check_answers(job, history, bar)
    else:
        handover, told = hand_over(job, history, files, tally, bar, is_waited)
    for exchange, refusal in handover.refused:
        tally.refuse(exchange.id, refusal.reason, refusal.detail)
    return told


def _in_order(
    made: Iterator[tuple[str, "Sendable"]], files: list[Path], order: Order | None, bar: Progress
) -> Iterator["Sendable"]:
    from brokertwin.streaming.edge import by_time
    from brokertwin.streaming.lines import STDIN

    if order is None:
        order = Order.LINES if STDIN in files else Order.TIME
    reading = bar.add_task("reading", total=None)
    if order is Order.TIME:
        made = ((".", event) for event in by_time(bar.track(made, task_id=reading)))
        bar.update(reading, total=1, completed=1)
    yield from (event for _, event in bar.track(made, description="sending"))


def _made(
    edge: "Edge", files: list[Path], id_prefix: str, afresh: bool, tally: Tally
) -> Iterator[tuple[str, "Sendable"]]:
    """(file, event) for each line that is one; the others are counted."""
    import secrets

    from brokertwin.state.core.events import Refusal
    from brokertwin.streaming.lines import STDIN, read_lines

    if STDIN in files and not id_prefix:
        id_prefix = f"{secrets.token_hex(4)}/"
    for line in read_lines(files):
        if not afresh and line.file == "stdin" and _is_answered(line.text):
            raise UserError(FROM_STDIN, STDIN_HINT)
        event = edge.event(line.text, f"{id_prefix}{line.file}:{line.number}")
        if isinstance(event, Refusal):
            tally.refuse(f"{line.file}:{line.number}", event.reason, event.detail)
        else:
            yield line.file, event


def produce(
    client: "ClientProperties", prefix: str, events: Iterable["Sendable"], tally: Tally
) -> None:
    """Write the events in order. Raises UserError where Kafka does not take them."""
    from brokertwin.kafka_io.topic_writer import NewRow, write_all
    from brokertwin.kafka_io.topics import REQUESTS, full_name

    def delivered() -> None:
        tally.sent += 1

    rows = (NewRow(event.cell, event.document, event.partition, event.id) for event in events)
    write_all(client, full_name(prefix, REQUESTS), rows, delivered)


def _show(tally: Tally, seconds: float, as_json: bool, told: Told | None) -> None:
    refused = sum(tally.refused.values())
    if as_json:
        report = {"sent": tally.sent, "refused": dict(tally.refused), "seconds": seconds}
        show_json(report if told is None else report | {"recording": told.as_json()})
        return
    rate = tally.sent / seconds if seconds else 0
    pace = f" ({rate:,.0f}/s)" if told is None else ""
    out.print(f"sent {tally.sent} events in {seconds:.1f} s{pace}, refused {refused}")
    if refused:
        show_table(["reason", "lines"], tally.refused.most_common())
        title = f"the first of each reason, at most {EXAMPLES_SHOWN}"
        show_table(["line", "reason", "what is wrong"], tally.examples, title)
    if told is not None:
        told.show()
