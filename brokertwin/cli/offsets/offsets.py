"""`brokertwin offsets`: committed offsets of a real cluster; history, backup, restore."""

import time
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from brokertwin.cli.offsets import offset_restore, offset_shares
from brokertwin.cli.offsets.offset_restore import INCOMPLETE
from brokertwin.cli.offsets.offset_sources import (
    OffsetSource,
    client_of,
    ms_of,
    progress,
    write_csv,
)
from brokertwin.cli.options import AsJson, KafkaConfig, group
from brokertwin.cli.output import say, say_at, show_json, show_rows, show_table
from brokertwin.errors import UserError
from brokertwin.extras import need
from brokertwin.wording import counted

if TYPE_CHECKING:
    from brokertwin.kafka_io.kafka_clients import ClientProperties
    from brokertwin.offsets.history import Direction, OffsetMove
    from brokertwin.offsets.store import OffsetHistoryStore
    from brokertwin.state.groups.offset_records import OffsetKey

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
    typer.Option("--group", metavar="GROUP", help="Only this group; repeatable."),
]
At = Annotated[
    str | None,
    typer.Option("--at", metavar="TIME", help="Offsets at this time: 2026-03-01T12:00:03, UTC."),
]
Topic = Annotated[str | None, typer.Option("--topic", metavar="TOPIC", help="Only this topic.")]
Only = Annotated[
    list[str] | None,
    typer.Option(
        "--only",
        metavar="WHAT",
        help="Only these changes: first, forth, back, stayed or gone; repeatable.",
    ),
]
Then = Annotated[str, typer.Argument(metavar="TIME", help="For example 2026-03-01T12:00:03, UTC.")]
Later = Annotated[str, typer.Argument(metavar="LATER", help="A later time, or `now`.")]
Follow = Annotated[bool, typer.Option("--follow", help="Continue until interrupted.")]
Every = Annotated[
    float, typer.Option("--every", metavar="SECONDS", min=1, help="Interval of --follow.")
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
    every: Every = 60.0,
    topic: RowsTopic = CONSUMER_OFFSETS,
    kafka_config: KafkaConfig = None,
) -> None:
    """Copy a cluster's `__consumer_offsets` to a directory; a later run continues."""
    need("`brokertwin offsets import`", "pyarrow")
    from brokertwin.offsets.group_offsets import cluster_id
    from brokertwin.offsets.store import OffsetHistoryStore

    client = client_of(cluster, kafka_config)
    store = OffsetHistoryStore(directory)
    of = cluster_id(client)
    of = of if topic == CONSUMER_OFFSETS else f"{of}/{topic}"
    store.check_cluster(of)
    say(f"{counted(_import(client, store, of, topic), 'row')} of cluster {of}")
    while follow:
        time.sleep(every)
        count = _import(client, store, of, topic)
        if count:
            say_at(counted(count, "row"))


def _import(
    client: "ClientProperties", store: "OffsetHistoryStore", cluster: str, topic: str
) -> int:
    """Import once, from the end of the last import; returns the number of rows."""
    from brokertwin.offsets import group_offsets

    facts = store.facts()
    next_offsets = dict(facts.next_offsets) if facts else {}
    with progress(f"reading {topic}") as observe:
        rows = sorted(group_offsets.rows(client, next_offsets, observe, topic))
    next_offsets |= {row.partition: row.offset + 1 for row in rows}
    return store.add(cluster, rows, next_offsets) if rows or facts is None else 0


@app.command()
def show(
    source: SourceText,
    groups: Groups = None,
    at: At = None,
    kafka_config: KafkaConfig = None,
    as_json: AsJson = False,
) -> None:
    """Show committed offsets, now or at a given time."""
    committed = OffsetSource(source, kafka_config).committed(groups or (), ms_of("--at", at))
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
    offset_shares.show(cluster, groups or (), kafka_config, as_json)


@app.command()
def clean(
    cluster: Cluster,
    group_id: Group,
    execute: Annotated[
        bool, typer.Option("--execute", help="Delete; without it only show.")
    ] = False,
    kafka_config: KafkaConfig = None,
    as_json: AsJson = False,
) -> None:
    """Delete the committed offsets of a group that has no members.

    Checks that the group exists and has no members, then looks up its topics and their partitions.
    The exit code is 1 if an offset cannot be deleted, 2 if a check of the group fails.
    """
    from brokertwin.offsets import group_cleaning

    client = client_of(cluster, kafka_config)
    places = group_cleaning.checked(client, group_id)
    there = [place for place in places if place.exists]
    wrong = group_cleaning.delete(client, group_id, there) if execute and there else {}
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
    raise typer.Exit(INCOMPLETE if left else 0)


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
    wanted = _directions(only or ())
    moves = [
        move
        for move in OffsetSource(source, kafka_config).moves()
        if move.key.group == group_id
        and (topic is None or move.key.topic == topic)
        and move.direction in wanted
    ]
    if as_json:
        for move in moves:
            show_json(_document(move))
        return
    if not moves:
        say(f"{source} has no such commit of group {group_id}; `offsets show` lists all groups")
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
    wanted = set(groups or ())
    first_ms, last_ms = ms_of("TIME", then), ms_of("LATER", later)
    if last_ms is not None and (first_ms is None or first_ms > last_ms):
        raise UserError(f"TIME {then} is after LATER {later}.", "Pass the earlier time first.")
    before: dict[OffsetKey, int] = {}
    after: dict[OffsetKey, int] = {}
    for move in OffsetSource(source, kafka_config).moves(last_ms):
        if first_ms is None or move.row.timestamp <= first_ms:
            move.note_in(before)
        move.note_in(after)
    rows = [
        (*_words(key), before.get(key), after.get(key), _distance(before.get(key), after.get(key)))
        for key in sorted(before.keys() | after.keys())
        if before.get(key) != after.get(key) and (not wanted or key.group in wanted)
    ]
    show_rows(("group", "topic", "partition", "before", "after", "change"), rows, as_json)


@app.command()
def export(
    source: SourceText,
    groups: Groups = None,
    at: At = None,
    csv_file: Annotated[
        Path | None,
        typer.Option("--csv", metavar="FILE", help="Write group,topic,partition,offset (KIP-122)."),
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
    as_json: AsJson = False,
) -> None:
    """Write committed offsets to CSV, their history to Parquet, or commit them to a cluster.

    --to checks each partition before it writes. It refuses an offset that is outside the target's
    log, moves back, or belongs to a group with members; the exit code is then 1. Afterwards it
    reads all offsets back.
    """
    if [csv_file, parquet_file, to].count(None) != 2:
        raise UserError(
            "`brokertwin offsets export` needs one destination.",
            "Pass one of --csv FILE, --parquet FILE and --to HOST:PORT.",
        )
    if to is None and (dry_run or back or by_time or to_config):
        raise UserError(
            "--dry-run, --back, --by-time and --to-config have no effect without --to.",
            "Add --to HOST:PORT, or leave them out.",
        )
    found, until_ms = OffsetSource(source, kafka_config), ms_of("--at", at)
    if parquet_file is not None:
        _write_history(found, parquet_file, groups or (), until_ms)
        return
    committed = found.committed(groups or (), until_ms)
    if csv_file is not None:
        write_csv(csv_file, committed)
        say(f"wrote {counted(len(committed), 'offset')} to {csv_file}")
        return
    assert to is not None
    records_at = client_of(by_time, kafka_config) if by_time else None
    target = client_of(to, to_config)
    if records_at is None:
        offset_restore.warn_of_other_logs(found, target, committed)
    restore = offset_restore.Restore(target, records_at, back, dry_run)
    raise typer.Exit(restore.run(committed, as_json))


def _write_history(
    source: OffsetSource, file: Path, groups: Collection[str], until_ms: int | None
) -> None:
    """Write every commit of these groups, or of all, up to a time."""
    need("`brokertwin offsets export --parquet`", "pyarrow")
    from brokertwin.offsets import moves as offset_moves

    moves = source.moves(until_ms)
    if groups:
        moves = (move for move in moves if move.key.group in groups)
    say(f"wrote {counted(offset_moves.write(file, moves), 'commit')} to {file}")


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
