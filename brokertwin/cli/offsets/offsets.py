"""`brokertwin offsets`: committed offsets of a real cluster; history, backup, restore."""

import shlex
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from brokertwin.cli.files import check_new
from brokertwin.cli.options import AsJson, Force, KafkaConfig, client_of, group
from brokertwin.cli.output import (
    progress_bars,
    say,
    say_at,
    show_json,
    show_rows,
    show_table,
    warn,
)
from brokertwin.errors import UserError
from brokertwin.extras import need
from brokertwin.wording import counted

if TYPE_CHECKING:
    from brokertwin.offsets.history import Direction, OffsetMove
    from brokertwin.offsets.plan import OffsetStep
    from brokertwin.offsets.sources import OffsetSource
    from brokertwin.state.core.share_records import ShareStateBatch
    from brokertwin.state.groups.offset_records import OffsetKey

INCOMPLETE = DAMAGED = 1
"""Exit codes."""

SHARE_COLUMNS = ("group", "topic", "partition", "start", "lag", "batches")
SHARE_STATES = {0: "available", 2: "acknowledged", 4: "archived"}
"""Kafka's `RecordState`, as far as it is stored."""

app = group()

SourceText = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help="Directory of `offsets import`, HOST:PORT of a cluster, or a file (- for standard"
        " input) with the output of OffsetsMessageFormatter, `kafka-dump-log --offsets-decoder` or"
        " `kcat -J`. `show` and `export` also take `kafka-consumer-groups --describe` and .csv.",
    ),
]
Cluster = Annotated[str, typer.Argument(metavar="HOST:PORT", help="The cluster's address.")]
Directory = Annotated[
    Path, typer.Argument(metavar="DIR", help="Directory for the rows; one for each cluster.")
]
Group = Annotated[str, typer.Argument(metavar="GROUP", help="Group id.")]
Groups = Annotated[
    list[str] | None,
    typer.Option("--group", "-g", metavar="GROUP", help="Only this group; repeatable."),
]
At = Annotated[
    str | None,
    typer.Option("--at", metavar="TIME", help="Offsets at this time: 2026-03-01T12:00:03, UTC."),
]
Topic = Annotated[
    str | None, typer.Option("--topic", "-t", metavar="TOPIC", help="Only this topic.")
]
Only = Annotated[
    list[str] | None,
    typer.Option(
        "--change",
        metavar="WHAT",
        help="Only these changes: first, forth, back, stayed or gone; repeatable.",
    ),
]
Then = Annotated[str, typer.Argument(metavar="TIME", help="For example 2026-03-01T12:00:03, UTC.")]
Later = Annotated[str, typer.Argument(metavar="LATER", help="A later time, or `now`.")]
Follow = Annotated[bool, typer.Option("--follow", help="Continue until interrupted.")]
Interval = Annotated[
    float, typer.Option("--interval", metavar="SECONDS", min=1, help="Interval of --follow.")
]
Saved = Annotated[
    Path | None,
    typer.Option(
        "--saved",
        metavar="FILE",
        help="File for the former offsets, with which `offsets undo` undoes the command; default"
        " offsets-before-TIME.json.",
    ),
]
CONSUMER_OFFSETS = "__consumer_offsets"
RowsTopic = Annotated[
    str,
    typer.Option(
        "--offsets-topic",
        metavar="NAME",
        help="Topic with the rows, if it is a job's: `<prefix>.offsets.<cluster>`.",
    ),
]


@app.callback()
def offsets_command() -> None:
    """Inspect, back up and restore offsets that groups of a real cluster have committed.

    `import` copies every row of `__consumer_offsets` to a directory, including those that the
    cluster will compact away. `history` and `diff` show what changed. `export` writes a file, or
    commits the offsets to a cluster after a check of each partition.
    """


@app.command("import")
def import_command(
    cluster: Cluster,
    directory: Directory,
    follow: Follow = False,
    every: Interval = 60.0,
    topic: RowsTopic = CONSUMER_OFFSETS,
    kafka_config: KafkaConfig = None,
) -> None:
    """Copy a cluster's `__consumer_offsets` to a directory; a later run continues."""
    need("`brokertwin offsets import`", "pyarrow")
    from brokertwin.offsets.group_offsets import cluster_id, import_rows
    from brokertwin.offsets.store import OffsetHistoryStore

    client = client_of(cluster, kafka_config)
    store = OffsetHistoryStore(directory)
    of = cluster_id(client)
    of = of if topic == CONSUMER_OFFSETS else f"{of}/{topic}"
    store.check_cluster(of)
    with _progress(f"reading {topic}") as observe:
        count = import_rows(client, store, of, topic, observe)
    say(f"{counted(count, 'row')} of cluster {of}")
    while follow:
        time.sleep(every)
        if count := import_rows(client, store, of, topic):
            say_at(counted(count, "row"))


@app.command()
def verify(directory: Directory, as_json: AsJson = False) -> None:
    """Check the files of `offsets import` against their checksums, and read every row.

    The exit code is 1 if a file is damaged or missing.
    """
    need("`brokertwin offsets verify`", "pyarrow")
    from brokertwin.offsets.store import OffsetHistoryStore

    verified = OffsetHistoryStore(directory).verify()
    if as_json:
        show_json(verified._asdict())
        raise typer.Exit(DAMAGED if verified.damage else 0)
    for sentence in verified.damage:
        warn(sentence)
    for name in verified.unlisted:
        warn(f"{name} is not in manifest.json; the next import adds it.")
    say(
        f"{counted(verified.files, 'file')}, {counted(verified.rows, 'row')},"
        f" {len(verified.damage)} damaged or missing"
    )
    raise typer.Exit(DAMAGED if verified.damage else 0)


@app.command()
def show(
    source: SourceText,
    groups: Groups = None,
    at: At = None,
    kafka_config: KafkaConfig = None,
    as_json: AsJson = False,
) -> None:
    """Show committed offsets, now or at a given time."""
    committed = _source(source, kafka_config).committed(groups or (), _ms_of("--at", at))
    if not (committed or as_json):
        say(f"{source} has no committed offsets" + (" at this time" if at is not None else ""))
        return
    rows = [(*_words(key), committed[key]) for key in sorted(committed)]
    show_rows(("group", "topic", "partition", "offset"), rows, as_json)


@app.command()
def shares(
    cluster: Cluster,
    groups: Groups = None,
    kafka_config: KafkaConfig = None,
    as_json: AsJson = False,
) -> None:
    """Show the progress of share groups: start offset, lag, and delivery states.

    After the start offset it lists the batches with failed deliveries and their delivery counts, as
    `__share_group_state` stores them. Acquired records are in the brokers' memory only.
    """
    from brokertwin.offsets import group_offsets
    from brokertwin.offsets.sources import unread_warnings

    client = client_of(cluster, kafka_config)
    with _progress(f"reading {group_offsets.SHARE_TOPIC}") as observe:
        found, unread = group_offsets.share_progress(client, groups or (), observe)
    for warning in unread_warnings(group_offsets.SHARE_TOPIC, unread):
        warn(warning)
    if as_json:
        for *fields, batches in found:
            documents = [_batch_document(each) for each in batches]
            show_json(dict(zip(SHARE_COLUMNS, [*fields, documents], strict=True)))
        return
    columns = (*SHARE_COLUMNS[:-1], "batches after the start offset")
    show_table(columns, [(*row[:-1], "; ".join(map(_batch_text, row.batches))) for row in found])


@app.command()
def clean(
    cluster: Cluster,
    group_id: Group,
    execute: Annotated[
        bool, typer.Option("--execute", help="Delete; without it only show.")
    ] = False,
    saved: Saved = None,
    kafka_config: KafkaConfig = None,
    as_json: AsJson = False,
) -> None:
    """Delete the committed offsets of a group that has no members.

    Checks that the group exists and has no members, then looks up its topics and their partitions.
    The exit code is 1 if an offset cannot be deleted, 2 if a check of the group fails.
    """
    from brokertwin.offsets import group_offsets, restore

    client = client_of(cluster, kafka_config)
    places = group_offsets.deletable(client, group_id)
    there = [place for place in places if place.exists]
    wrong = {}
    if execute and there:
        saved = saved or _saved_by_default()
        restore.save(saved, client, restore.deletions_of(group_id, there))
        _say_saved(saved)
        wrong = group_offsets.delete(client, group_id, there)
    done = "deleted" if execute else "would be deleted"
    rows = [
        (place.topic, place.partition, place.offset, wrong.get(place, done))
        if place.exists
        else (place.topic, place.partition, place.offset, "no such partition")
        for place in places
    ]
    show_rows(("topic", "partition", "offset", "result"), rows, as_json)
    left = len(places) - len(there) + len(wrong)
    hint = "" if execute else "; pass --execute to delete"
    say(f"{counted(len(there) - len(wrong), 'offset')} {done}, {left} cannot be deleted{hint}")
    if execute and saved is not None and len(wrong) < len(there):
        _say_undo(saved, cluster, kafka_config)
    raise typer.Exit(INCOMPLETE if left else 0)


@app.command()
def undo(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="File that `export --to` or `clean` has saved.")
    ],
    cluster: Cluster,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only check.")] = False,
    kafka_config: KafkaConfig = None,
    as_json: AsJson = False,
) -> None:
    """Undo `export --to` or `clean --execute`: commit former offsets, delete new ones.

    An offset that has changed since is left alone. The exit code is 1 if an offset is not as
    before.
    """
    from brokertwin.offsets import restore

    client = client_of(cluster, kafka_config)
    saved = restore.read_saved(file, client)
    found = restore.undo_of(saved, client)
    wrong = dict.fromkeys((change.key for change in found.moved), "changed since: left alone")
    if not dry_run:
        wrong |= restore.undo(client, found)
    done = "would be undone" if dry_run else "undone"
    rows = [
        (*_words(change.key), change.after, change.before, wrong.get(change.key, done))
        for change in saved.changes
    ]
    show_rows(("group", "topic", "partition", "from", "back to", "result"), rows, as_json)
    say(f"{counted(len(rows) - len(wrong), 'offset')} {done}, {len(wrong)} not")
    raise typer.Exit(INCOMPLETE if wrong else 0)


@app.command()
def history(
    source: SourceText,
    group_id: Group,
    topic: Topic = None,
    only: Only = None,
    kafka_config: KafkaConfig = None,
    as_json: AsJson = False,
) -> None:
    """Show every commit of a group: old and new offset, time since the last one, and the member.

    The member comes from the group's own rows in `__consumer_offsets`: the one that had the
    partition at that time. It is unknown if the cluster has compacted those rows away.
    """
    directions = _directions(only or ())
    commits = list(_source(source, kafka_config).moves(groups=[group_id]))
    if not commits:
        raise UserError(
            f"{source} has no commits of group {group_id}.",
            f"List its groups with: brokertwin offsets show {source}",
        )
    moves = [
        move
        for move in commits
        if (topic is None or move.key.topic == topic) and move.direction in directions
    ]
    if as_json:
        for move in moves:
            show_json(_document(move))
        return
    if not moves:
        say(f"{source} has no such commits of group {group_id}")
        return
    rows = [
        (_time_of(move), f"{move.key.topic}-{move.key.partition}", *_fields(move)) for move in moves
    ]
    columns = ("time", "partition", "from", "to", "change", "since last", "committed by")
    show_table(columns, rows)


@app.command()
def diff(
    source: SourceText,
    then: Then,
    later: Later = "now",
    groups: Groups = None,
    kafka_config: KafkaConfig = None,
    as_json: AsJson = False,
) -> None:
    """Show what changed between two times."""
    first_ms, last_ms = _ms_of("TIME", then), _ms_of("LATER", later)
    if last_ms is not None and (first_ms is None or first_ms > last_ms):
        raise UserError(f"TIME {then} is after LATER {later}.", "Pass the earlier time first.")
    before: dict[OffsetKey, int] = {}
    after: dict[OffsetKey, int] = {}
    for move in _source(source, kafka_config).moves(last_ms, groups or ()):
        if first_ms is None or move.row.timestamp <= first_ms:
            move.note_in(before)
        move.note_in(after)
    rows = [
        (*_words(key), before.get(key), after.get(key), _distance(before.get(key), after.get(key)))
        for key in sorted(before.keys() | after.keys())
        if before.get(key) != after.get(key)
    ]
    show_rows(("group", "topic", "partition", "before", "after", "change"), rows, as_json)


@app.command()
def export(
    source: SourceText,
    groups: Groups = None,
    at: At = None,
    csv_file: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Write group,topic,partition,offset (KIP-122)."),
    ] = None,
    parquet_file: Annotated[
        Path | None,
        typer.Option("--parquet", metavar="FILE", help="Write every commit, as in `history`."),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="HOST:PORT", help="Commit the offsets to this cluster."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only check; commit nothing.")] = False,
    back: Annotated[
        bool, typer.Option("--back", help="Also commit offsets below those already committed.")
    ] = False,
    by_time: Annotated[
        str | None,
        typer.Option(
            "--by-time",
            metavar="HOST:PORT",
            help="Translate offsets by the record timestamps of this cluster.",
        ),
    ] = None,
    kafka_config: KafkaConfig = None,
    to_config: Annotated[
        Path | None,
        typer.Option("--to-config", metavar="FILE", help="Like --kafka-config, for --to."),
    ] = None,
    saved: Saved = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write committed offsets to CSV, their history to Parquet, or commit them to a cluster.

    --to checks each partition before it writes. It refuses an offset that is outside the target's
    log, moves back, or belongs to a group with members; the exit code is then 1. It saves the
    target's offsets first, reads all offsets back, and prints the command that undoes it.
    """
    if [csv_file, parquet_file, to].count(None) != 2:
        raise UserError(
            "`brokertwin offsets export` needs one destination.",
            "Pass one of --out FILE, --parquet FILE and --to HOST:PORT.",
        )
    if to is None and (dry_run or back or by_time or to_config or saved):
        raise UserError(
            "--dry-run, --back, --by-time, --to-config and --saved have no effect without --to.",
            "Add --to HOST:PORT, or leave them out.",
        )
    offsets, until_ms = _source(source, kafka_config), _ms_of("--at", at)
    check_new(csv_file, force)
    check_new(parquet_file, force)
    if parquet_file is not None:
        need("`brokertwin offsets export --parquet`", "pyarrow")
        from brokertwin.offsets.store import write_moves

        moves = offsets.moves(until_ms, groups or ())
        say(f"wrote {counted(write_moves(parquet_file, moves), 'commit')} to {parquet_file}")
        return
    committed = offsets.committed(groups or (), until_ms)
    if csv_file is not None:
        from brokertwin.offsets.sources import write_csv

        write_csv(csv_file, committed)
        say(f"wrote {counted(len(committed), 'offset')} to {csv_file}")
        return
    assert to is not None
    from brokertwin.offsets import plan as offset_plan
    from brokertwin.offsets import restore

    target = client_of(to, to_config)
    records_at = client_of(by_time, kafka_config) if by_time else None
    if records_at is None and (
        warning := restore.warning_of_other_logs(offsets, target, committed)
    ):
        warn(warning)
    steps = restore.steps(target, committed, records_at)
    chosen = offset_plan.to_write(steps, back)
    wrong: dict[OffsetKey, str] = {}
    if dry_run:
        saved = None
    elif chosen:
        saved = saved or _saved_by_default()
        restore.save(saved, target, restore.changes_of(chosen))
        _say_saved(saved)
        wrong = restore.write(target, chosen)
    _show_steps(steps, wrong, as_json)
    written = counted(len(chosen) - len(wrong), "offset")
    there = sum(step.verdict is offset_plan.OffsetVerdict.THERE for step in steps)
    left = len(steps) - len(chosen) - there + len(wrong)
    what = "would be written" if dry_run else "written"
    say(f"{written} {what}, {left} refused, {len(steps)} in total")
    for key, why in wrong.items():
        warn(f"{key.group} {key.topic}-{key.partition}: {why}")
    if saved is not None and len(wrong) < len(chosen):
        _say_undo(saved, to, to_config)
    raise typer.Exit(INCOMPLETE if left else 0)


def _source(text: str, kafka_config: Path | None) -> "OffsetSource":
    from brokertwin.offsets.sources import OffsetSource

    return OffsetSource(text, lambda at: client_of(at, kafka_config), warn, _progress)


def _saved_by_default() -> Path:
    """A file in the current folder, where an operator finds it."""
    return Path(f"offsets-before-{datetime.now(UTC):%Y%m%dT%H%M%S%fZ}.json")


def _say_saved(file: Path) -> None:
    """Explain the file before the change: a refused or interrupted change leaves it, too."""
    say(f"saved the former offsets to {file} before the change")


def _say_undo(file: Path, cluster: str, kafka_config: Path | None) -> None:
    words = ["brokertwin", "offsets", "undo", str(file), cluster]
    words += ["--kafka-config", str(kafka_config)] if kafka_config else []
    say(f"undo it with: {shlex.join(words)}")


def _ms_of(option: str, text: str | None) -> int | None:
    """Parse a time to ms since 1970; UTC if it has no zone. Raises UserError."""
    from brokertwin.recordings.replay.until import ms_of_iso

    if text is None or text == "now":
        return None
    result = ms_of_iso(text, UTC)
    if result is None:
        raise UserError(
            f"Invalid time for {option}: {text!r}.", "Pass 2026-03-01T12:00:03, or `now`."
        )
    return result


@contextmanager
def _progress(title: str) -> "Iterator[Callable[[int], None]]":
    """Show a progress bar on a terminal; yields a function that takes the remaining count."""
    with progress_bars() as bar:
        task = bar.add_task(title, total=None)

        def observe(left: int) -> None:
            total = bar.tasks[0].total or left
            bar.update(task, total=total, completed=total - left)

        yield observe


def _show_steps(steps: "list[OffsetStep]", wrong: "dict[OffsetKey, str]", as_json: bool) -> None:
    columns = ("group", "topic", "partition", "offset", "target", "committed", "log", "verdict")
    rows = [
        (
            *(step.key.group, step.key.topic, step.key.partition),
            *(step.given, step.wanted, step.committed),
            None if step.log is None else f"{step.log[0]}..{step.log[1]}",
            wrong.get(step.key, step.verdict.value),
        )
        for step in steps
    ]
    show_rows(columns, rows, as_json)


def _batch_text(batch: "ShareStateBatch") -> str:
    """Format a batch: `5 to 9 available, delivered 3 times`."""
    span = f"{batch.first_offset}"
    if batch.last_offset > batch.first_offset:
        span += f" to {batch.last_offset}"
    times = "once" if batch.delivery_count == 1 else f"{batch.delivery_count} times"
    return f"{span} {_share_state(batch)}, delivered {times}"


def _batch_document(batch: "ShareStateBatch") -> dict[str, object]:
    return {
        "firstOffset": batch.first_offset,
        "lastOffset": batch.last_offset,
        "state": _share_state(batch),
        "deliveryCount": batch.delivery_count,
    }


def _share_state(batch: "ShareStateBatch") -> str:
    return SHARE_STATES.get(batch.delivery_state, f"state {batch.delivery_state}")


def _words(key: "OffsetKey") -> tuple[str, str, int]:
    return key.group, key.topic, key.partition


def _directions(names: Iterable[str]) -> "set[Direction]":
    from brokertwin.offsets.history import Direction

    try:
        return {Direction(name) for name in names} or set(Direction)
    except ValueError as error:
        raise UserError(
            f"Invalid value of --only: {error}.",
            f"Pass one of: {', '.join(each.value for each in Direction)}.",
        ) from None


def _fields(move: "OffsetMove") -> tuple[object, ...]:
    before = move.before.offset if move.before else None
    after = move.after.offset if move.after else None
    since = "" if move.since_ms is None else _duration(move.since_ms)
    return before, after, move.direction.value, since, move.by


def _time_of(move: "OffsetMove") -> str:
    """When it was written; a `?` if the source does not show that."""
    from brokertwin.recordings.history.words import moment

    return moment(move.row.timestamp) if move.row.timestamp >= 0 else "?"


def _document(move: "OffsetMove") -> dict[str, object]:
    key, row = move.key, move.row
    return {
        "time": row.timestamp if row.timestamp >= 0 else None,
        "group": key.group,
        "topic": key.topic,
        "partition": key.partition,
        "before": move.before.offset if move.before else None,
        "after": move.after.offset if move.after else None,
        "distance": move.distance,
        "direction": move.direction.value,
        "sinceMs": move.since_ms,
        "metadata": move.after.metadata if move.after else None,
        "by": move.by,
        "row": f"{row.partition}/{row.offset}" if row.partition >= 0 else f"line {row.offset}",
    }


def _distance(before: int | None, after: int | None) -> str:
    return "" if before is None or after is None else f"{after - before:+}"


def _duration(span_ms: int) -> str:
    """Format a duration by its two largest units: 2 d 3 h, 5 min 3 s, 250 ms."""
    if span_ms < 1000:
        return f"{span_ms} ms"
    seconds = span_ms // 1000
    units = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
    parts: list[str] = []
    for name, length in units:
        count, seconds = divmod(seconds, length)
        if count or parts:
            parts.append(f"{count} {name}")
    return " ".join(parts[:2])
