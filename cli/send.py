"""`brokerstream send`: events from files or standard input into `requests`."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import Progress

from brokerstream.cli.options import (
    AsJson,
    Bootstrap,
    ConfigFile,
    KafkaConfig,
    Prefix,
    settings_of,
)
from brokerstream.cli.output import err, out, show_json, show_table, warn

if TYPE_CHECKING:
    from brokerstream.kafka_io.kafka_clients import ClientProperties
    from brokerstream.streaming.edge import Edge, Sendable

EXAMPLES_SHOWN = 5
SOME_REFUSED = 1


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
        " lines come (the default for standard input).",
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
    bootstrap: Bootstrap = None,
    kafka_config: KafkaConfig = None,
    prefix: Prefix = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Send events to a job.

    Each line gets an id (file and line), cluster, broker and nonce where it has none; recorded
    answers in it are left out. A line that the job would only make a dead letter of is refused
    here, and the exit code is 1.
    """
    from brokerstream.kafka_io import placement
    from brokerstream.kafka_io.kafka_clients import client_properties
    from brokerstream.streaming.clock import now_ms
    from brokerstream.streaming.edge import Edge
    from brokerstream.streaming.lines import STDIN

    settings = settings_of(config, bootstrap=bootstrap, kafka_config=kafka_config, prefix=prefix)
    client = client_properties(settings)
    for warning in client.warnings():
        warn(warning)
    placements = placement.read(client, settings.prefix)
    only = next(iter(placements)) if len(placements) == 1 else None
    edge = Edge(placements, cluster or only, broker, now_ms)
    tally = Tally()
    if order is None:
        order = Order.LINES if STDIN in files else Order.TIME
    started = time.monotonic()
    with Progress(console=err, transient=True, disable=not err.is_terminal) as bar:
        events = _events(edge, files, id_prefix, order, tally, bar)
        produce(client, settings.prefix, events, tally)
    _show(tally, time.monotonic() - started, as_json)
    if tally.refused:
        raise typer.Exit(SOME_REFUSED)


def _events(
    edge: "Edge", files: list[Path], id_prefix: str, order: Order, tally: Tally, bar: Progress
) -> Iterator["Sendable"]:
    from brokerstream.streaming.edge import by_time

    made = _made(edge, files, id_prefix, tally)
    reading = bar.add_task("reading", total=None)
    if order is Order.TIME:
        made = ((".", event) for event in by_time(bar.track(made, task_id=reading)))
        bar.update(reading, total=1, completed=1)
    yield from (event for _, event in bar.track(made, description="sending"))


def _made(
    edge: "Edge", files: list[Path], id_prefix: str, tally: Tally
) -> Iterator[tuple[str, "Sendable"]]:
    """(file, event) for each line that is one; the others are counted."""
    import secrets

    from brokerstream.state.core.events import Refusal
    from brokerstream.streaming.lines import STDIN, read_lines

    if STDIN in files and not id_prefix:
        id_prefix = f"{secrets.token_hex(4)}/"
    for line in read_lines(files):
        event = edge.event(line.text, f"{id_prefix}{line.file}:{line.number}")
        if isinstance(event, Refusal):
            tally.refuse(f"{line.file}:{line.number}", event.reason, event.detail)
        else:
            yield line.file, event


def produce(
    client: "ClientProperties", prefix: str, events: Iterable["Sendable"], tally: Tally
) -> None:
    """Write the events in order. Raises UserError where Kafka does not take them."""
    from brokerstream.kafka_io.topic_writer import NewRow, write_all
    from brokerstream.kafka_io.topics import REQUESTS, full_name

    def delivered() -> None:
        tally.sent += 1

    rows = (NewRow(event.cell, event.document, event.partition, event.id) for event in events)
    write_all(client, full_name(prefix, REQUESTS), rows, delivered)


def _show(tally: Tally, seconds: float, as_json: bool) -> None:
    refused = sum(tally.refused.values())
    if as_json:
        show_json({"sent": tally.sent, "refused": dict(tally.refused), "seconds": seconds})
        return
    rate = tally.sent / seconds if seconds else 0
    out.print(f"sent {tally.sent} events in {seconds:.1f} s ({rate:,.0f}/s), refused {refused}")
    if refused:
        show_table(["reason", "lines"], tally.refused.most_common())
        title = f"the first of each reason, at most {EXAMPLES_SHOWN}"
        show_table(["line", "reason", "what is wrong"], tally.examples, title)
