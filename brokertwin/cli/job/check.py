"""`brokertwin check`: data checks of a job's output with great-expectations."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from brokertwin.cli.files import writing
from brokertwin.cli.options import JobCluster, with_settings
from brokertwin.cli.output import out, progress_bars, say, show_json
from brokertwin.errors import UserError
from brokertwin.extras import need
from brokertwin.places import place
from brokertwin.settings import Settings
from brokertwin.wording import counted

if TYPE_CHECKING:
    import pandas as pd

    from brokertwin.kafka_io.topic_reader import TopicRow
    from brokertwin.sinks.offsets_snapshot import SnapshotRow
    from brokertwin.streaming.checks.checked_state import Cells, Violation
    from brokertwin.streaming.checks.snapshot_checks import Checked
    from brokertwin.streaming.checks.suites import Document

EXIT_CODES = {"info": 1, "warning": 1, "critical": 3}
"""As in `brokertwin audit`. Code 2 is reserved for usage errors."""


BUILT_IN = "default"


class On(StrEnum):
    SNAPSHOT = "snapshot"
    REQUESTS = "requests"
    RESPONSES = "responses"
    RECORDS = "records"
    OFFSETS = "offsets"
    SESSIONS = "sessions"
    PRODUCERS = "producers"
    PRODUCER_IDS = "producer-ids"
    GROUPS = "groups"
    COMMITTED_OFFSETS = "committed-offsets"
    LOGS = "logs"
    VIOLATIONS = "violations"
    STATE = "state"


ON_LIVE = (On.SESSIONS, On.PRODUCERS, On.PRODUCER_IDS, On.GROUPS, On.OFFSETS)
OF_STATE = (*(On.SESSIONS, On.PRODUCERS, On.GROUPS, On.COMMITTED_OFFSETS, On.LOGS, On.VIOLATIONS),)
ON_TOPICS = (On.REQUESTS, On.RESPONSES, On.RECORDS, On.OFFSETS)
Part = tuple["pd.DataFrame", "Document"]
"""Rows, and the suite for them."""


Source = Annotated[
    Path | None,
    typer.Argument(
        metavar="[SOURCE]",
        help="A snapshot, a directory of snapshots (the newest is checked), or a Parquet file with"
        " --suite. With --on sessions to state also a checkpoint or recordings. Default: the job's"
        " own snapshots or checkpoint.",
    ),
]
OnOption = Annotated[
    On,
    typer.Option(
        "--on", help="Snapshot, topic or part of the state to check; state: all its parts."
    ),
]
Suite = Annotated[
    str,
    typer.Option(
        "--suite",
        metavar="default|FILE",
        help="Built-in suite, or a file with your own (great-expectations JSON or YAML).",
    ),
]
From = Annotated[
    list[str] | None,
    typer.Option(
        "--from-offset", metavar="[PARTITION:]OFFSET", help="First offset to check; repeatable."
    ),
]
To = Annotated[
    list[str] | None,
    typer.Option(
        "--to-offset",
        metavar="[PARTITION:]OFFSET",
        help="Offset after the last to check; repeatable.",
    ),
]
Docs = Annotated[
    Path | None,
    typer.Option("--docs", metavar="DIR", help="Also write great-expectations' HTML page to DIR."),
]
WithTopics = Annotated[
    bool | None,
    typer.Option(
        "--with-topics/--without-topics",
        help="Also compare a snapshot or state with the job's topics of committed offsets; default:"
        " if --bootstrap or its setting is given.",
    ),
]
Live = Annotated[
    str | None,
    typer.Option(
        "--live",
        metavar="PREFIX",
        help="Check the rows of the live audit with this prefix: sessions, producers, producer-ids,"
        " groups, offsets, or state for all of them.",
    ),
]
Json = Annotated[
    bool, typer.Option("--json", "-J", help="Print a JSON line for each failed expectation.")
]


@with_settings("bootstrap", "kafka_config", "prefix", "snapshots", "checkpoint")
def command(
    settings: Settings,
    source: Source = None,
    on: OnOption = On.SNAPSHOT,
    suite: Suite = BUILT_IN,
    first: From = None,
    last: To = None,
    docs: Docs = None,
    cluster: JobCluster = None,
    with_topics: WithTopics = None,
    live: Live = None,
    as_json: Json = False,
) -> None:
    """Find gaps, duplicates and wrong values in a job's snapshots, topics and state.

    **snapshot**: columns, value ranges, one row for each group and partition. **Topics**: unique
    ids, one response for each request, no gaps in offsets and sequence numbers, no high watermark
    or committed offset that moved back, no producer id issued twice.

    **State**: the tables of `query`: unique items, ranges, log start <= high watermark <= log end,
    no offset beyond the log end. **violations**: each violated invariant of the broker model, such
    as gaps between batches, producer ids that overlap, groups that do not fit their members.

    The exit code is 3 if a critical expectation fails, 1 if another one fails, otherwise 0.
    """
    need("`brokertwin check`", "great_expectations", "pandas", "pyarrow")
    from brokertwin.streaming.checks import snapshot_checks as checks

    suite_document = checks.read_suite(Path(suite)) if suite != BUILT_IN else None
    if live is not None:
        _refuse_live(on, source, bool(first or last))
    else:
        _refuse(on, source, suite_document is not None, bool(first or last), bool(with_topics))
    if with_topics is None:
        with_topics = suite_document is None and bool(settings.bootstrap or settings.kafka_config)
    source = source and place(source)
    with _progress() as doing:
        doing("reading")
        if live is not None:
            parts = _live(on, settings, live, suite_document)
        elif on is On.SNAPSHOT:
            parts = _snapshot(source, settings, suite_document, with_topics)
        elif on in ON_TOPICS:
            parts = [_topic(on, settings, cluster, (first, last), suite_document)]
        else:
            directory = source or settings.checkpoint_dir
            parts = _state(on, directory, suite_document, settings if with_topics else None)
        doing(f"checking {counted(sum(len(frame) for frame, _ in parts), 'row')}")
        results = [(suite, checks.check(frame, suite, docs is not None)) for frame, suite in parts]
    for document, checked in results:
        if docs is not None:
            _write(docs, document["name"], checked.html)
        _show(checked, document["name"], as_json)
    codes = [EXIT_CODES[each.severity] for _, checked in results for each in checked.findings]
    raise typer.Exit(max(codes, default=0))


def _refuse(
    on: On, source: Path | None, has_suite: bool, has_range: bool, with_topics: bool
) -> None:
    """Raises UserError for options that do not fit."""
    if on in ON_TOPICS and source is not None:
        raise UserError(
            f"Cannot combine SOURCE {source} with --on {on}, which checks topics.",
            "Leave out one of them.",
        )
    if on not in ON_TOPICS and has_range:
        raise UserError(
            "--from-offset and --to-offset are offsets in a topic, but no topic is checked.",
            "Add --on requests, --on responses or --on records.",
        )
    if on is On.STATE and has_suite:
        raise UserError(
            "Cannot combine --suite with --on state, which uses several suites.",
            f"Pass one of its parts to --on: {', '.join(OF_STATE)}.",
        )
    if on is On.PRODUCER_IDS:
        raise UserError(
            "--on producer-ids checks a live audit.",
            "Add --live PREFIX. Producer ids of a job are among --on violations.",
        )
    if with_topics and on not in (On.SNAPSHOT, On.STATE, On.VIOLATIONS):
        raise UserError(
            f"Cannot combine --with-topics with --on {on}.",
            "It compares a snapshot, or a state with --on state or --on violations.",
        )


def _refuse_live(on: On, source: Path | None, has_range: bool) -> None:
    """Raises UserError for options that do not fit --live."""
    if on not in (*ON_LIVE, On.STATE):
        raise UserError(
            f"A live audit has no rows of {on}.",
            f"Pass --on with {', '.join(ON_LIVE)} or state.",
        )
    if source is not None or has_range:
        raise UserError(
            "--live reads whole topics.", "Leave out SOURCE, --from-offset and --to-offset."
        )


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Show the current step on a terminal."""
    with progress_bars() as bar:
        task = bar.add_task("", total=None)
        yield lambda what: bar.update(task, description=what)


def _snapshot(
    source: Path | None, settings: Settings, document: "Document | None", with_topics: bool
) -> list[Part]:
    """Return the offsets of a snapshot, or a Parquet file, with the suite for them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from brokertwin import tables
    from brokertwin.sinks import offsets_snapshot, snapshot_store
    from brokertwin.streaming.checkpoint import snapshots
    from brokertwin.streaming.checks import checked_state
    from brokertwin.streaming.checks import snapshot_checks as checks

    if source is not None and source.is_file():
        try:
            table = pq.read_table(source)
        except (OSError, pa.ArrowException) as error:
            raise UserError(f"Cannot read {source} as a Parquet file: {error}.") from None
        return [(table.to_pandas(), document or checks.snapshot_suite())]
    directory = source or settings.snapshots_dir
    is_one = (directory / snapshot_store.MANIFEST).is_file()
    path = directory if is_one else snapshot_store.find(directory)
    found = snapshot_store.verify(path)
    say(f"snapshot {path}")
    table = pq.read_table(offsets_snapshot.data_path(path, found.batch))
    parts: list[Part] = [(table.to_pandas(), document or checks.snapshot_suite(found.offsets))]
    rows = offsets_snapshot.read_rows(offsets_snapshot.manifest_path(path, found.batch))
    violations: list[Violation] = []
    if document is None:
        state = snapshots.offsets_of(tables.read(path).cells)
        violations += checked_state.snapshot_and_state(rows, state)
    if with_topics:
        (ends,) = found.source_offsets.values()
        limits = {int(partition): offset for partition, offset in ends.items()}
        violations += _against_topics(found.cells, rows, limits, settings)
    if document is None or with_topics:
        parts.append(_violations(violations))
    return parts


def _violations(violations: "Iterable[Violation]") -> Part:
    """Return violated invariants, with the suite for them."""
    from brokertwin.streaming.checks import snapshot_checks as checks
    from brokertwin.streaming.checks import suites

    rows = [each._asdict() for each in violations]
    return checks.frame_of(rows, suites.COLUMNS["violations"]), suites.VIOLATIONS


def _against_topics(
    cells: "Iterable[str]",
    rows: "Sequence[SnapshotRow]",
    ends: "Mapping[int, int]",
    settings: Settings,
) -> "Iterator[Violation]":
    """Yield the differences between committed offsets and the topics of their clusters."""
    from brokertwin.kafka_io.kafka_clients import client_properties
    from brokertwin.kafka_io.topic_reader import read_all
    from brokertwin.kafka_io.topics import full_name
    from brokertwin.state.core.outputs import offsets_topic
    from brokertwin.state.core.settings import cluster_of
    from brokertwin.streaming.checks import checked_state

    client = client_properties(settings)
    for cluster in sorted({cluster_of(cell) for cell in cells}):
        topic = read_all(client, full_name(settings.prefix, offsets_topic(cluster)))
        yield from checked_state.state_and_topic(cluster, rows, topic, ends)


def _state(
    on: On, source: Path, document: "Document | None", with_topics: "Settings | None"
) -> list[Part]:
    """Return the items of a state, with the suites for them.

    `with_topics`: the settings of the job whose topics are compared.
    """
    from brokertwin import tables
    from brokertwin.streaming.checkpoint import checkpoint_log, snapshots
    from brokertwin.streaming.checks import checked_state, suites
    from brokertwin.streaming.checks import snapshot_checks as checks

    found = tables.read(source)
    say(f"state {found.origin}")
    before = _earlier(source)
    kinds = OF_STATE if on is On.STATE else (on,)
    parts = [
        (
            checks.frame_of(checked_state.of_kind(kind, found.cells, before), suites.COLUMNS[kind]),
            document or suites.OF_STATE[kind],
        )
        for kind in kinds
        if kind is not On.VIOLATIONS
    ]
    if On.VIOLATIONS in kinds:
        violations = list(checked_state.violations(found.cells, before or {}))
        if with_topics is not None and checkpoint_log.kept(source):
            ends = checkpoint_log.end_offsets(source, checkpoint_log.committed(source))
            (limits,) = ends.values()
            rows = snapshots.offsets_of(found.cells)
            violations += _against_topics(found.cells, rows, limits, with_topics)
        parts.append(_violations(violations))
    return parts


def _live(on: On, settings: Settings, prefix: str, document: "Document | None") -> list[Part]:
    """Return the rows in the topics of a live audit, with the suites for them."""
    from brokertwin.kafka_io.kafka_clients import client_properties
    from brokertwin.kafka_io.topic_reader import read_all
    from brokertwin.kafka_io.topics import full_name
    from brokertwin.streaming.checks import checked_live, suites
    from brokertwin.streaming.checks import snapshot_checks as checks

    client = client_properties(settings)

    def read(topic: str) -> "Iterable[TopicRow]":
        return read_all(client, full_name(prefix, topic))

    return [
        (
            checks.frame_of(checked_live.of_kind(kind, read), checked_live.columns(kind)),
            document or suites.OF_LIVE[kind],
        )
        for kind in (suites.OF_LIVE if on is On.STATE else (on.value,))
    ]


def _earlier(source: Path) -> "Cells | None":
    """Return the oldest kept state of a checkpoint, or that of the snapshot before the newest."""
    from brokertwin import tables
    from brokertwin.sinks import snapshot_store
    from brokertwin.streaming.checkpoint import checkpoint_log

    if not source.is_dir():
        return None
    batches = list(checkpoint_log.kept(source))
    if not batches and not (source / snapshot_store.MANIFEST).is_file():
        batches = [each.batch for each in snapshot_store.list_all(source)][-2:]
    return tables.read(source, as_of=batches[0]).cells if len(batches) > 1 else None


def _topic(
    on: On,
    settings: Settings,
    cluster: str | None,
    limits: tuple[list[str] | None, list[str] | None],
    document: "Document | None",
) -> Part:
    """Return the rows of a topic's range as flat columns, with the suite for them."""
    from brokertwin.kafka_io.kafka_clients import client_properties
    from brokertwin.kafka_io.topic_reader import partitions_of, read_all
    from brokertwin.kafka_io.topics import full_name
    from brokertwin.streaming.checks import checked_rows, suites
    from brokertwin.streaming.checks import snapshot_checks as checks

    client = client_properties(settings)

    def whole(topic: str) -> "Iterable[TopicRow]":
        return read_all(client, full_name(settings.prefix, topic))

    def part(topic: str) -> "Iterable[TopicRow]":
        name = full_name(settings.prefix, topic)
        partitions = partitions_of(client, name)
        begin = _places("--from-offset", limits[0], partitions)
        end = _places("--to-offset", limits[1], partitions)
        for row in read_all(client, name, begin):
            if row.partition not in end or row.offset < end[row.partition]:
                yield row

    rows = checked_rows.of_kind(on, part, whole, cluster or settings.clusters[0])
    return checks.frame_of(rows, suites.COLUMNS[on]), document or suites.OF_TOPICS[on]


def _places(option: str, texts: list[str] | None, partitions: int) -> dict[int, int]:
    """Parse offsets by partition. Raises UserError."""
    places: dict[int, int] = {}
    for text in texts or ():
        partition, colon, offset = text.rpartition(":")
        if not offset.isdecimal() or (colon and not partition.isdecimal()):
            raise UserError(
                f"Invalid value of {option}: {text!r}.", "Pass OFFSET or PARTITION:OFFSET."
            )
        named = [int(partition)] if colon else range(partitions)
        places.update(dict.fromkeys(named, int(offset)))
    return places


def _write(directory: Path, name: str, html: str) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"Cannot write to {directory}: {error.strerror}.") from None
    with writing(directory / f"{name}.html") as temporary:
        temporary.write_text(html, encoding="utf-8")
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
