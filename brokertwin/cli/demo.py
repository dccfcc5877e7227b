"""`brokertwin demo`: the demonstration that `make demo` runs."""

import io
import os
import re
import shutil
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from brokertwin.recordings.replay.comparison import ModelResponse
    from brokertwin.recordings.replay.plan import ReplayPlan
    from brokertwin.recordings.replay.recording import Exchange
    from brokertwin.settings import Settings
    from brokertwin.sinks.snapshot_store import Published
    from brokertwin.streaming.job.job import StreamingJob

CLUSTER = "recorded"
SLICE_EVENTS = 500
"""Number of events to send at a time, so that progress is visible."""

SLICE_PAUSE_S = 0.4
SVG_WIDTH = 110

Svg = Annotated[
    Path | None, typer.Option("--svg", metavar="FILE", help="Also write the summary as SVG.")
]


def command(svg: Svg = None, force: Force = False, config: ConfigFile = None) -> None:
    """Send recorded captures through a real Kafka broker and Spark, and summarize the results.

    Starts an embedded broker with its own data directory, creates the topics, starts the streaming
    query and sends captures of real clients while it runs. At the end it prints the responses by
    API and error code, the number that match Apache Kafka 4.3.1's, and each group's committed
    offsets, and writes a Parquet snapshot.
    """
    from brokertwin.recordings.replay import recording
    from brokertwin.recordings.replay.plan import plan
    from brokertwin.streaming.checkpoint.snapshots import take
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
            responses = _run(own, planned, session)
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


def _run(
    settings: "Settings", planned: "ReplayPlan", session: "SparkSession"
) -> "Mapping[str, ModelResponse]":
    """Run the query, send events meanwhile, and return the responses by request id."""
    from brokertwin.streaming.job import replay_engine as spark
    from brokertwin.streaming.job import runner

    with runner.prepared(settings, planned.settings.broker_settings) as prepared, Live(err) as live:
        job = spark.with_cell(prepared, planned.settings)
        stop = runner.StopReason(settings.stop_timeout_s)
        sender = _Sender(job, planned.documents)

        def observe(progress: Any) -> None:
            live.show(progress)
            if live.requests >= len(planned.documents):
                stop.wanted.set()

        sender.start()
        try:
            runner.run(job, stop, observe=observe, session=session)
        finally:
            sender.stop()
        return spark.responses_of(job)


class _Sender(threading.Thread):
    """Send events in slices, as clients would, while the query runs."""

    def __init__(self, job: "StreamingJob", documents: Sequence[bytes]) -> None:
        super().__init__(daemon=True)
        self._job = job
        self._documents = documents
        self._stopped = threading.Event()

    def run(self) -> None:
        from brokertwin.streaming.job import replay_engine as spark

        for first in range(0, len(self._documents), SLICE_EVENTS):
            spark.produce(self._job, CLUSTER, self._documents[first : first + SLICE_EVENTS])
            if self._stopped.wait(SLICE_PAUSE_S):
                return

    def stop(self) -> None:
        self._stopped.set()
        self.join()


def _show(
    console: Console,
    exchanges: "Sequence[Exchange]",
    responses: "Mapping[str, ModelResponse]",
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
    from brokertwin.protocol.errors import error_name

    if response is None:
        return {"no response"}
    if response.error is not None:
        return {str(response.error.get("reason"))}
    return {error_name(code) for code in _error_codes(response.response) if code} or {"ok"}


def _error_codes(value: Any) -> Iterator[int]:
    if isinstance(value, dict):
        for name, inner in value.items():
            if name == "errorCode":
                yield inner
            else:
                yield from _error_codes(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _error_codes(inner)


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
