"""`brokertwin check`: data checks of a job's output with great-expectations."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import Progress

from brokertwin.cli.options import (
    Bootstrap,
    ConfigFile,
    KafkaConfig,
    Prefix,
    Snapshots,
    settings_of,
)
from brokertwin.cli.output import err, out, say, show_json
from brokertwin.errors import UserError
from brokertwin.extras import need
from brokertwin.wording import counted

if TYPE_CHECKING:
    import pandas as pd

    from brokertwin.kafka_io.topic_reader import Row
    from brokertwin.settings import Settings
    from brokertwin.sinks.checks import Checked
    from brokertwin.sinks.suites import Document

EXIT_CODES = {"info": 1, "warning": 1, "critical": 3}
"""As in `brokertwin audit`. Code 2 is reserved for usage errors."""


BUILT_IN = "default"


class On(StrEnum):
    """What to check."""

    SNAPSHOT = "snapshot"
    REQUESTS = "requests"
    RESPONSES = "responses"
    RECORDS = "records"
    OFFSETS = "offsets"


Source = Annotated[
    Path | None,
    typer.Argument(
        metavar="[SOURCE]",
        help="A snapshot, a directory of snapshots (the newest is checked), or a Parquet file with"
        " --suite. Default: the job's snapshots, or its topics with --on.",
    ),
]
OnOption = Annotated[On, typer.Option("--on", help="What to check.")]
Suite = Annotated[
    str,
    typer.Option(
        "--suite",
        metavar="default|FILE",
        help="Use the built-in suite or your own (great-expectations JSON or YAML).",
    ),
]
From = Annotated[
    list[str] | None,
    typer.Option("--from", metavar="[PARTITION:]OFFSET", help="First offset to check; repeatable."),
]
To = Annotated[
    list[str] | None,
    typer.Option(
        "--to", metavar="[PARTITION:]OFFSET", help="Offset after the last to check; repeatable."
    ),
]
Docs = Annotated[
    Path | None,
    typer.Option("--docs", metavar="DIR", help="Also write great-expectations' HTML page to DIR."),
]
Cluster = Annotated[
    str | None,
    typer.Option("--cluster", metavar="NAME", help="The cluster, if the job has several."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON line for each finding.")]


def command(
    source: Source = None,
    on: OnOption = On.SNAPSHOT,
    suite: Suite = BUILT_IN,
    first: From = None,
    last: To = None,
    docs: Docs = None,
    cluster: Cluster = None,
    bootstrap: Bootstrap = None,
    kafka_config: KafkaConfig = None,
    prefix: Prefix = None,
    snapshots: Snapshots = None,
    config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Check a job's snapshots and topics against expectations.

    In a snapshot: columns, value ranges, one row for each partition. In topics: unique ids, one
    response for each request, contiguous offsets and sequence numbers, committed offsets that do
    not move back within a generation. Your own suites get the same columns.

    Exits with code 3 if a critical expectation fails, with code 1 if another one fails, otherwise
    with 0.
    """
    need("`brokertwin check`", "great_expectations", "pandas", "pyarrow")
    from brokertwin.sinks import checks

    settings = settings_of(
        config,
        bootstrap=bootstrap,
        kafka_config=kafka_config,
        prefix=prefix,
        snapshots=snapshots,
    )
    given = checks.read_suite(Path(suite)) if suite != BUILT_IN else None
    if on is not On.SNAPSHOT and source is not None:
        raise UserError(
            f"Cannot combine SOURCE {source} with --on {on}, which checks topics.",
            "Leave out one of them.",
        )
    if on is On.SNAPSHOT and (first or last):
        raise UserError(
            "--from and --to are offsets in a topic, but no topic is checked.",
            "Add --on requests, --on responses or --on records.",
        )
    with _progress() as doing:
        doing("reading")
        if on is On.SNAPSHOT:
            frame, document = _snapshot(source, settings, given)
        else:
            frame, document = _topic(on, settings, cluster, (first, last), given)
        doing(f"checking {counted(len(frame), 'row')}")
        checked = checks.check(frame, document, docs is not None)
    if docs is not None:
        _write(docs, document["name"], checked.html)
    _show(checked, document["name"], as_json)
    raise typer.Exit(max((EXIT_CODES[each.severity] for each in checked.findings), default=0))


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Show the current step on a terminal."""
    with Progress(console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task("", total=None)
        yield lambda what: bar.update(task, description=what)


def _snapshot(
    source: Path | None, settings: "Settings", given: "Document | None"
) -> "tuple[pd.DataFrame, Document]":
    """Return the offsets of a snapshot, or a Parquet file, with the suite for them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from brokertwin.sinks import checks, offsets_snapshot, snapshot_store

    if source is not None and source.is_file():
        try:
            table = pq.read_table(source)
        except (OSError, pa.ArrowException) as error:
            raise UserError(f"Cannot read {source} as a Parquet file: {error}.") from None
        return table.to_pandas(), given or checks.snapshot_suite()
    directory = source or settings.snapshots_dir
    is_one = (directory / snapshot_store.MANIFEST).is_file()
    path = directory if is_one else snapshot_store.find(directory)
    found = snapshot_store.verify(path)
    say(f"snapshot {path}")
    table = pq.read_table(offsets_snapshot.data_path(path, found.batch))
    return table.to_pandas(), given or checks.snapshot_suite(found.offsets)


def _topic(
    on: On,
    settings: "Settings",
    cluster: str | None,
    limits: tuple[list[str] | None, list[str] | None],
    given: "Document | None",
) -> "tuple[pd.DataFrame, Document]":
    """Return the rows of a topic's range as flat columns, with the suite for them."""
    from brokertwin.kafka_io.kafka_clients import client_properties
    from brokertwin.kafka_io.topic_reader import partitions_of, read_all
    from brokertwin.kafka_io.topics import full_name
    from brokertwin.sinks import checks, suites
    from brokertwin.streaming.checks import checked_rows

    client = client_properties(settings)

    def whole(topic: str) -> "Iterable[Row]":
        return read_all(client, full_name(settings.prefix, topic))

    def part(topic: str) -> "Iterable[Row]":
        name = full_name(settings.prefix, topic)
        partitions = partitions_of(client, name)
        begin = _places("--from", limits[0], partitions)
        end = _places("--to", limits[1], partitions)
        for row in read_all(client, name, begin):
            if row.partition not in end or row.offset < end[row.partition]:
                yield row

    rows = checked_rows.of_kind(on, part, whole, cluster or settings.clusters[0])
    return checks.frame_of(rows, suites.COLUMNS[on]), given or suites.OF_TOPICS[on]


def _places(option: str, texts: list[str] | None, partitions: int) -> dict[int, int]:
    """Parse offsets by partition. Raises UserError."""
    found: dict[int, int] = {}
    for text in texts or ():
        partition, colon, offset = text.rpartition(":")
        if not offset.isdecimal() or (colon and not partition.isdecimal()):
            raise UserError(
                f"Invalid value of {option}: {text!r}.", "Pass OFFSET or PARTITION:OFFSET."
            )
        named = [int(partition)] if colon else range(partitions)
        found.update(dict.fromkeys(named, int(offset)))
    return found


def _write(directory: Path, name: str, html: str) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / f"{name}.html").write_text(html, encoding="utf-8")
    except OSError as error:
        raise UserError(f"Cannot write to {directory}: {error.strerror}.") from None
    say(f"wrote {directory / f'{name}.html'}")


def _show(checked: "Checked", name: str, as_json: bool) -> None:
    """Print one JSON line for each finding, or a table and the number of met expectations."""
    from brokertwin.cli.output import show_table

    if as_json:
        for each in checked.findings:
            show_json(each._asdict())
        return
    if checked.findings:
        show_table(
            ("severity", "expectation", "columns", "rows", "values"),
            (
                (
                    each.severity,
                    each.expectation,
                    ", ".join(each.columns),
                    each.unexpected,
                    ", ".join(each.examples),
                )
                for each in checked.findings
            ),
        )
    met = checked.expectations - len(checked.findings)
    out.print(
        f"{name}: {met} of {counted(checked.expectations, 'expectation')} met,"
        f" {counted(checked.rows, 'row')}",
        highlight=False,
        soft_wrap=True,
    )
