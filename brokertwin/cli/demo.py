"""`brokertwin demo`: the demonstration that `make demo` runs."""

import io
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from brokertwin.cli import tables
from brokertwin.cli.files import check_new, write_text
from brokertwin.cli.job.live import Live
from brokertwin.cli.options import ConfigFile, Force, settings_of, typed_broker_settings
from brokertwin.cli.output import err, out, say, say_at
from brokertwin.errors import UserError
from brokertwin.wording import counted

if TYPE_CHECKING:
    from brokertwin.recordings.replay.comparison import ModelResponse
    from brokertwin.recordings.replay.plan import ReplayPlan
    from brokertwin.recordings.replay.recording import Exchange
    from brokertwin.settings import Settings
    from brokertwin.sinks.snapshot_store import Published

CLUSTER = "recorded"
SVG_WIDTH = 110

Svg = Annotated[
    Path | None, typer.Option("--svg", metavar="FILE", help="Also write the summary as SVG.")
]


def command(svg: Svg = None, force: Force = False, config: ConfigFile = None) -> None:
    """Send recorded captures through a real Kafka broker and Spark, and summarize the results.

    Starts an embedded broker with its own data directory, creates the topics, sends captures of
    real clients and runs the streaming query. At the end it prints the responses by API and error
    code, the number that match Apache Kafka 4.3.1's, and each group's committed offsets, and
    writes a Parquet snapshot.
    """
    from brokertwin.recordings.replay import recording
    from brokertwin.recordings.replay.plan import plan
    from brokertwin.streaming.checkpoint.snapshots import take
    from brokertwin.streaming.job import replay_engine, runner
    from brokertwin.streaming.job.session import spark_session

    check_new(svg, force)
    captures = _captures()
    settings = settings_of(config)
    directory = settings.home / "demo"
    shutil.rmtree(directory, ignore_errors=True)
    broker_settings = typed_broker_settings(captures / "broker.properties", None)
    history = recording.read(sorted(captures.glob("*.jsonl.gz")))
    say(f"{counted(len(history.exchanges), 'recorded exchange')}; finding their order")
    planned = plan(history, CLUSTER, broker_settings, is_compared=True)
    with _broker(settings, directory) as bootstrap:
        own = _own_settings(settings, directory, bootstrap)
        session = spark_session(own, say_at)
        try:
            with runner.prepared(own, planned.settings.broker_settings) as job, Live(err) as live:
                responses = replay_engine.run_job(
                    job, planned.documents, planned.settings, session, live.show
                )
            taken = take(own.checkpoint_dir, directory / "snapshots")
        finally:
            session.stop()
    canvas = Console(record=True, width=SVG_WIDTH, file=io.StringIO())
    for console in (out, canvas):
        _show(console, history.exchanges, responses, planned)
        _show_offsets(console, taken)
    if svg is not None:
        drawing = canvas.export_svg(title="make demo")
        write_text(svg, re.sub(r"@font-face \{.*?\}", "", drawing, flags=re.DOTALL))


def _captures() -> Path:
    """Return the directory of captures. Raises UserError if only the package is installed."""
    import brokertwin

    captures = Path(brokertwin.__file__).resolve().parent.parent / "tests" / "captures"
    if not captures.is_dir():
        raise UserError(
            "`brokertwin demo` found no captures: they are in the source repository only.",
            "Clone the repository and run `make demo` there.",
        )
    return captures


@contextmanager
def _broker(settings: "Settings", directory: Path) -> Iterator[str]:
    """Run a real Kafka broker; yields its address."""
    from brokertwin.kafka_io.kafka_broker import EmbeddedKafka

    broker = EmbeddedKafka(directory / "kafka", settings.home, settings.ivy_settings)
    say_at("starting Apache Kafka")
    try:
        yield broker.start(say=say)
    finally:
        broker.stop()


def _own_settings(settings: "Settings", directory: Path, bootstrap: str) -> "Settings":
    return settings.model_copy(
        update={
            "bootstrap": bootstrap,
            "kafka_config": None,
            "prefix": "demo",
            "checkpoint": directory / "checkpoint",
            "clusters": (CLUSTER,),
            "event_time": "recorded",
            "requests_partitions": 1,
            "responses_partitions": 1,
        }
    )


def _show(
    console: Console,
    exchanges: "Sequence[Exchange]",
    responses: Mapping[str, "ModelResponse"],
    planned: "ReplayPlan",
) -> None:
    """Print responses by API and error code, and how many match the real broker's."""
    from brokertwin.recordings.replay import report
    from brokertwin.recordings.replay.comparison import AGREEING, FINE

    compared = report.compare_all(exchanges, planned.schedule, responses, frozenset())
    counts = report.counts_by_api(compared)
    codes: dict[str, Counter[str]] = {api: Counter() for api in counts}
    for one in compared:
        codes[one.exchange.api].update(_codes_of(one.response))
    rows = [
        (
            api,
            verdicts.total(),
            sum(verdicts[verdict] for verdict in AGREEING),
            ", ".join(f"{name} {n}" for name, n in codes[api].most_common()),
        )
        for api, verdicts in counts.items()
    ]
    title = "Responses by API and error code"
    columns = ("API", "requests", "as recorded", "error codes")
    console.print(tables.table(console, columns, rows, title, whole=columns[:1]))
    agree = report.agreeing(compared)
    silent = sum(one.outcome.verdict in FINE - AGREEING for one in compared)
    console.print(
        f"{agree:,} of {counted(len(compared) - silent, 'response')} match Apache Kafka 4.3.1's",
        soft_wrap=True,
    )


def _codes_of(response: "ModelResponse | None") -> set[str]:
    """Return the names of a response's error codes, or `ok`."""
    from brokertwin.protocol.errors import error_codes, error_name

    if response is None:
        return {"no response"}
    if response.error is not None:
        return {str(response.error.get("reason"))}
    return {error_name(code) for code in error_codes(response.response) if code} or {"ok"}


def _show_offsets(console: Console, taken: "Published") -> None:
    """Print each group's committed offsets and the path of the Parquet snapshot."""
    from brokertwin.sinks import offsets_snapshot

    by_topic: dict[tuple[str, str], dict[int, int]] = {}
    batch = taken.snapshot.batch
    written = offsets_snapshot.manifest_path(taken.path, batch)
    path = offsets_snapshot.data_path(taken.path, batch)
    for row in offsets_snapshot.read_rows(written):
        by_topic.setdefault((row.group, row.topic), {})[row.partition] = row.offset
    columns = ("group", "topic", "partitions", "offsets (partition:offset)")
    rows = [
        (
            group,
            topic,
            len(offsets),
            " ".join(f"{partition}:{offset}" for partition, offset in sorted(offsets.items())),
        )
        for (group, topic), offsets in by_topic.items()
    ]
    console.print(tables.table(console, columns, rows, "Committed offsets", whole=columns[:2]))
    console.print(
        f"wrote {counted(taken.snapshot.offsets, 'offset')} of micro-batch {batch} to"
        f" {os.path.relpath(path)}",
        soft_wrap=True,
        highlight=False,
    )
