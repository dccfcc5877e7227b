"""Snapshots of a job: directories with the committed offsets and full state of a batch.

    <time>-batch-<N>/            N is the micro-batch of the state
        snapshot.json            the manifest, with the SHA-256 of every other file
        state.parquet            one row for each cell: name, and a binary column for each table
        offsets-<N>.parquet      the committed offsets, and offsets-<N>.json (`offsets_snapshot`)
        spark/                   the checkpoint's fixed facts of Spark, for a restore
    rejected/<time>-batch-<N>/   a snapshot that a judge rejected, with reasons (rejected.json)

A snapshot is written to a hidden directory, synced, optionally judged, and renamed. So a snapshot
with its name is complete, even after a kill. It is renamed first when it is removed. One process
writes at a time (a lock on the directory); the next writer removes the incomplete files of a
killed one.
"""

import fcntl
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from brokertwin import places
from brokertwin.errors import UserError
from brokertwin.sinks import files, offsets_snapshot
from brokertwin.sinks.offsets_snapshot import SnapshotError, SnapshotRow

FORMAT = 1
MANIFEST = "snapshot.json"
STATE = "state.parquet"
SPARK = "spark"
REJECTED = "rejected"
REASONS = "rejected.json"
LOCK = ".lock"
NAME = re.compile(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{3}Z-batch-\d+")
HOUR_MS = 3_600_000

Cells = Mapping[str, Mapping[str, bytes]]
Judge = Callable[[Path], list[str]]
"""Returns the reasons against a written snapshot that has no name yet.

Without reasons the snapshot is published; otherwise it is kept in `rejected/`.
"""


class SnapshotManifest(msgspec.Struct, frozen=True, rename="camel"):
    """Manifest of a snapshot.

    Attributes:
        format: version of this layout.
        taken_ms: time in ms since 1970.
        batch: micro-batch after whose commit the state was read.
        query_id: Spark's id of the source checkpoint.
        state_version: version of the state.
        source_offsets: topic, then partition, to the offset of the first later event.
        offsets: number of committed offsets.
        cells: cell to the size of its state in bytes.
        facts: fixed facts of the checkpoint (`brokertwin.json`).
        files: relative path of every other file to its SHA-256 in hexadecimal.
    """

    format: int
    name: str
    taken_ms: int
    batch: int
    query_id: str
    state_version: int
    source_offsets: dict[str, dict[str, int]]
    offsets: int
    cells: dict[str, int]
    facts: dict[str, Any]
    files: dict[str, str]


class SnapshotContent(NamedTuple):
    """Content of a snapshot.

    Attributes:
        taken_ms: time in ms since 1970.
        batch: committed micro-batch.
        query_id: Spark's id of the checkpoint.
        state_version: version of the columns.
        source_offsets: topic, then partition, to the offset of the first later event.
        cells: columns by cell.
        offsets: committed offsets in them.
        facts: fixed facts of the checkpoint.
        spark: name to content of the files in `spark/`.
    """

    taken_ms: int
    batch: int
    query_id: str
    state_version: int
    source_offsets: dict[str, dict[str, int]]
    cells: Cells
    offsets: list[SnapshotRow]
    facts: dict[str, Any]
    spark: Mapping[str, bytes]


class Published(NamedTuple):
    """A published or rejected snapshot.

    Attributes:
        reasons: reasons of the judge; it is then in `rejected/`.
    """

    snapshot: SnapshotManifest
    path: Path
    reasons: list[str]


class Keep(NamedTuple):
    """Snapshots to keep; the newest is always kept.

    Attributes:
        newest: number of the newest ones.
        hours: maximum age; None for no limit.
    """

    newest: int
    hours: float | None = None


def write(directory: Path, taken: SnapshotContent, judge: Judge | None = None) -> Published:
    """Write a snapshot atomically.

    Args:
        directory: created if missing.
        taken: its content.
        judge: judges it before it gets its name.

    Raises:
        UserError: the files cannot be written. Errors of the judge are raised, too.
    """
    try:
        with _writing(directory):
            return _write(directory, taken, judge)
    except OSError as error:
        raise UserError(
            f"Cannot write the snapshot to {directory}: {error.strerror or error}.",
            "Free disk space, or pass another --snapshots.",
        ) from None


def _write(directory: Path, taken: SnapshotContent, judge: Judge | None) -> Published:
    path = directory / _free_name(directory, taken)
    with places.new_directory(path, f".{path.name}.new") as fresh:
        snapshot = _fill(fresh, path.name, taken)
        reasons = judge(fresh) if judge is not None else []
        if reasons:
            path = directory / REJECTED / path.name
            (fresh / REASONS).write_bytes(_document(reasons))
        _bring_to_disk(fresh)
        places.publish(fresh, path, MANIFEST)
    if not places.is_remote(path):
        files.bring_to_disk(path.parent)
    return Published(snapshot, path, reasons)


def _fill(fresh: Path, name: str, taken: SnapshotContent) -> SnapshotManifest:
    offsets_snapshot.write(
        fresh, taken.batch, taken.offsets, taken.source_offsets, taken.state_version
    )
    pq.write_table(_table(taken), fresh / STATE)
    (fresh / SPARK).mkdir()
    for file, content in taken.spark.items():
        (fresh / SPARK / file).write_bytes(content)
    snapshot = SnapshotManifest(
        format=FORMAT,
        name=name,
        taken_ms=taken.taken_ms,
        batch=taken.batch,
        query_id=taken.query_id,
        state_version=taken.state_version,
        source_offsets=taken.source_offsets,
        offsets=len(taken.offsets),
        cells={
            cell: sum(map(len, columns.values())) for cell, columns in sorted(taken.cells.items())
        },
        facts=taken.facts,
        files={str(file.relative_to(fresh)): files.checksum(file) for file in _files(fresh)},
    )
    (fresh / MANIFEST).write_bytes(_document(snapshot))
    return snapshot


def _table(taken: SnapshotContent) -> pa.Table:
    names = sorted(taken.cells)
    columns = list(next(iter(taken.cells.values()), {}))
    binary = {name: [taken.cells[cell][name] for cell in names] for name in columns}
    fields = [pa.field("cell", pa.string(), nullable=False)]
    fields += [pa.field(name, pa.large_binary(), nullable=False) for name in columns]
    return pa.table({"cell": names, **binary}, schema=pa.schema(fields))


def list_all(directory: Path) -> list[SnapshotManifest]:
    """Return the manifests of a directory's snapshots, the newest last.

    Raises:
        SnapshotError: one has a newer layout or is invalid.
    """
    return [manifest(path) for path in _paths(directory)]


def find(directory: Path, name: str | None = None) -> Path:
    """Return the directory of a snapshot; without a name, the newest.

    Raises:
        SnapshotError: there is none.
    """
    paths = _paths(directory)
    if name is None and paths:
        return paths[-1]
    for path in paths:
        if path.name == name:
            return path
    what, do = (f"no snapshot {name}", "List them") if name else ("no snapshot", "Take one")
    command = "list" if name else "take"
    raise SnapshotError(
        f"There is {what} in {directory}.",
        f"{do} with `brokertwin snapshot {command}`; set the directory with --snapshots.",
    )


def manifest(path: Path) -> SnapshotManifest:
    """Read the manifest in a directory. Raises SnapshotError."""
    try:
        document = msgspec.json.decode((path / MANIFEST).read_bytes(), type=SnapshotManifest)
    except OSError as error:
        raise SnapshotError(
            f"Cannot read {path / MANIFEST}: {error.strerror}.", "Select another snapshot."
        ) from None
    except msgspec.MsgspecError as error:
        raise _broken(path, f"its manifest is invalid: {error}") from None
    if document.format > FORMAT:
        raise SnapshotError(
            f"The snapshot {path} was written by a newer brokertwin: its layout has version"
            f" {document.format}, but this brokertwin supports up to {FORMAT}.",
            "Use the newer brokertwin.",
        )
    return document


def verify(path: Path) -> SnapshotManifest:
    """Verify a snapshot's files; return the manifest. Raises SnapshotError."""
    snapshot_manifest = manifest(path)
    for name, checksum in snapshot_manifest.files.items():
        file = path / name
        if not file.is_file():
            raise _broken(path, f"{name} is missing")
        actual = files.checksum(file)
        if actual != checksum:
            raise _broken(path, f"the SHA-256 of {name} is {actual}, not {checksum}")
    offsets_snapshot.verify(offsets_snapshot.manifest_path(path, snapshot_manifest.batch))
    return snapshot_manifest


def read_cells(path: Path) -> dict[str, dict[str, bytes]]:
    """Read the columns of each cell, for `Cell(settings, columns)`. Raises SnapshotError."""
    verify(path)
    with places.local_copy(path / STATE) as file:
        rows = pq.read_table(file).to_pylist()
    return {row.pop("cell"): row for row in rows}


def read_spark(path: Path) -> dict[str, bytes]:
    """Return the files in `spark/`: name to content."""
    return {file.name: file.read_bytes() for file in _files(path / SPARK)}


def prune(directory: Path, keep: Keep, now_ms: int) -> list[str]:
    """Remove snapshots that are not kept; rejected ones by the same rule.

    Returns:
        The names of the removed ones.
    """
    with _writing(directory):
        return [
            name
            for place in (directory, directory / REJECTED)
            for name in _remove(place, _superfluous(_paths(place), keep, now_ms))
        ]


def _superfluous(paths: list[Path], keep: Keep, now_ms: int) -> list[Path]:
    oldest_ms = now_ms - keep.hours * HOUR_MS if keep.hours is not None else 0
    beyond = paths[: max(len(paths) - keep.newest, 0)]
    return [path for path in paths[:-1] if path in beyond or taken_ms(path.name) < oldest_ms]


def _remove(place: Path, paths: Iterable[Path]) -> Iterator[str]:
    for path in paths:
        if places.is_remote(path):
            (path / MANIFEST).unlink()  # without it, there is no snapshot
            places.remove_directory(path)
        else:
            nameless = place / f".{path.name}.removed"
            path.rename(nameless)
            shutil.rmtree(nameless)
        yield path.name


def taken_ms(name: str) -> int:
    """Return the time in a snapshot's name, in ms since 1970."""
    stamp = name.partition("Z-batch-")[0]
    at = datetime.strptime(stamp, "%Y-%m-%dT%H-%M-%S.%f").replace(tzinfo=UTC)
    return round(at.timestamp() * 1000)


def name_of(at_ms: int, batch: int) -> str:
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    return f"{at:%Y-%m-%dT%H-%M-%S}.{at_ms % 1000:03}Z-batch-{batch}"


def _free_name(directory: Path, taken: SnapshotContent) -> str:
    """Return an unused name; on a collision, that of a later millisecond."""
    at_ms = taken.taken_ms
    while any(
        (place / name_of(at_ms, taken.batch)).exists()
        for place in (directory, directory / REJECTED)
    ):
        at_ms += 1
    return name_of(at_ms, taken.batch)


def _paths(directory: Path) -> list[Path]:
    """Return the snapshots of a directory, the newest last."""
    if not directory.is_dir():
        return []
    paths = [path for path in directory.iterdir() if NAME.fullmatch(path.name)]
    if places.is_remote(directory):
        paths = [path for path in paths if (path / MANIFEST).is_file()]
    return sorted(paths, key=lambda path: path.name)


@contextmanager
def _writing(directory: Path) -> Iterator[None]:
    """Lock a directory for writing; remove the incomplete files of a killed writer.

    An object store has no locks: a writer there changes no snapshot of another one.
    """
    if places.is_remote(directory):
        yield
        return
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _sweep(directory)
        try:
            yield
        finally:
            _sweep(directory)


def _sweep(directory: Path) -> None:
    for place in (directory, directory / REJECTED):
        for ending in ("new", "removed"):
            for leftover in place.glob(f".*.{ending}"):
                shutil.rmtree(leftover)


def _files(directory: Path) -> list[Path]:
    return sorted(file for file in directory.rglob("*") if file.is_file())


def _document(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2)


def _bring_to_disk(directory: Path) -> None:
    for path in (*_files(directory), directory / SPARK, directory):
        files.bring_to_disk(path)


def _broken(path: Path, why: str) -> SnapshotError:
    return SnapshotError(f"The snapshot {path} is damaged: {why}.", "Select another snapshot.")
