"""Rows of a `__consumer_offsets` on disk as Parquet: the full history.

    rows-000001-000032.parquet   rows of 32 imports, merged
    rows-000033.parquet          rows of one import, by partition and offset
    rows-000034.parquet          rows of the next import, from the end of the previous one

Key and value are the original bytes; the other columns are decoded from them, for SQL. A file is
written under a temporary name and renamed. Its metadata has the cluster and the start of the next
import. So every file is complete, and no row occurs twice, even after a kill. Writers take turns
(`.lock`) and skip rows that another one has added meanwhile. Readers never wait.

Continuous imports add a file every few seconds. `FAN` consecutive files with the same number of
imports are merged into one, repeatedly, up to `MERGED_MAX` bytes; a year leaves about a hundred
files. A merged file is valid from its rename on, and hides its parts until they are removed.

`manifest.json` has the SHA-256, size and number of rows of each file. A file is read only if it
agrees. The manifest is written after the file: the next writer adds a file that a stop left out
of it. The pages of such a file, and of files of former versions, have only Parquet's checksums.
"""

import fcntl
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from brokertwin.errors import UserError
from brokertwin.offsets.history import CoordinatorRow, OffsetMove, key_prefix
from brokertwin.sinks.files import checksum, replacing
from brokertwin.state.groups import group_records
from brokertwin.state.groups.group_records import OffsetRow

FACTS, FORMER_FACTS = b"brokertwin", b"brokerstream"
NAME = "rows-{:06}.parquet"
MERGED = "rows-{:06}-{:06}.parquet"
NAMES = re.compile(r"rows-(\d+)(?:-(\d+))?\.parquet")
LOCK = ".lock"
MANIFEST = "manifest.json"

FAN = 32
"""Number of files with the same number of imports that are merged."""

MERGED_MAX = 256 * 1024 * 1024
"""Size of files that are not merged again."""

GROUP_ROWS = 32_768
"""Rows of a row group, and at least so many in a merged file."""

ROW_COLUMNS = ("log_partition", "log_offset", "timestamp", "key", "value")

SCHEMA = pa.schema(
    [
        pa.field("log_partition", pa.int32(), nullable=False),
        pa.field("log_offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("ms", "UTC"), nullable=False),
        pa.field("key", pa.binary(), nullable=False),
        pa.field("value", pa.binary()),
        pa.field("group", pa.string()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("metadata", pa.string()),
        pa.field("commit_timestamp", pa.timestamp("ms", "UTC")),
    ]
)
"""Columns from `group` on are null if the row is not an offset; `offset` also for a tombstone."""


MOVES = pa.schema(
    [
        pa.field("time", pa.timestamp("ms", "UTC"), nullable=False),
        pa.field("group", pa.string(), nullable=False),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("before", pa.int64()),
        pa.field("after", pa.int64()),
        pa.field("distance", pa.int64()),
        pa.field("direction", pa.string(), nullable=False),
        pa.field("since_ms", pa.int64()),
        pa.field("metadata", pa.string()),
        pa.field("leader_epoch", pa.int32()),
        pa.field("commit_timestamp", pa.timestamp("ms", "UTC")),
        pa.field("by", pa.string(), nullable=False),
        pa.field("log_partition", pa.int32(), nullable=False),
        pa.field("log_offset", pa.int64(), nullable=False),
    ]
)
"""Columns of a history as one file: a row for each commit and tombstone.

`after`, `metadata`, `leader_epoch` and `commit_timestamp` are null for a tombstone,
`before` is null for a first commit.
"""


class HistoryFacts(msgspec.Struct, frozen=True):
    """Metadata of a file.

    Attributes:
        next_offsets: partition of `__consumer_offsets` to the start of the next import.
    """

    cluster: str
    next_offsets: dict[int, int]


class HistoryError(UserError):
    """The directory is not a history, is damaged, or belongs to another cluster."""


class Listed(msgspec.Struct, frozen=True):
    """A file in the manifest."""

    sha256: str
    bytes: int
    rows: int


class Verified(NamedTuple):
    """Result of a check of all files.

    Attributes:
        files: number of files.
        rows: number of rows that can be read.
        damage: a sentence for each file that is damaged or missing.
        unlisted: names of files that are not in the manifest, so that only Parquet's own checksums
            could be checked.
    """

    files: int
    rows: int
    damage: list[str]
    unlisted: list[str]


class _File(NamedTuple):
    """A file with the numbers of its first and last import."""

    last: int
    first: int
    path: Path

    @property
    def imports(self) -> int:
        return self.last - self.first + 1


class OffsetHistoryStore:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._checked: set[tuple[Path, int, int]] = set()

    def facts(self) -> HistoryFacts | None:
        """Return the metadata of the newest file, or None. Raises HistoryError."""
        while True:
            files, listed = self._look()
            try:
                return _facts_of(self._sound(files[-1].path, listed)) if files else None
            except FileNotFoundError:  # merged since it was listed
                continue

    def check_cluster(self, cluster: str) -> None:
        """Raise HistoryError if the rows belong to another cluster."""
        facts = self.facts()
        if facts is not None and facts.cluster != cluster:
            raise HistoryError(
                f"{self._directory} has the offsets of cluster {facts.cluster}, not of {cluster}.",
                "Use one directory for each cluster.",
            )

    def add(
        self, cluster: str, rows: Sequence[CoordinatorRow], next_offsets: Mapping[int, int]
    ) -> int:
        """Write the new rows of an import; return their number.

        Raises:
            HistoryError: the directory is damaged, or belongs to another cluster.
        """
        with _writing(self._directory):
            self.check_cluster(cluster)
            facts = self.facts()
            known = facts.next_offsets if facts else {}
            new = [row for row in rows if row.offset >= known.get(row.partition, 0)]
            ends = {
                partition: max(known.get(partition, 0), next_offsets.get(partition, 0))
                for partition in {**known, **next_offsets}
            }
            if new or facts is None:
                self._write(HistoryFacts(cluster, ends), new)
                self._merge()
        return len(new)

    def _write(self, facts: HistoryFacts, rows: Sequence[CoordinatorRow]) -> None:
        schema = SCHEMA.with_metadata({FACTS: msgspec.json.encode(facts)})
        columns = list(zip(*map(_columns, rows), strict=True)) or [()] * len(SCHEMA)
        arrays = [
            pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)
        ]
        files = self._files()
        path = self._directory / NAME.format(files[-1].last + 1 if files else 1)
        _publish(path, schema, [pa.Table.from_arrays(arrays, schema=schema)])
        self._list_files()

    def _merge(self) -> None:
        """Merge files as long as possible, and remove merged ones."""
        while run := _run(self._files()):
            path = self._directory / MERGED.format(run[0].first, run[-1].last)
            listed = self._manifest()
            parts = [self._sound(each.path, listed) for each in run]
            schema = SCHEMA.with_metadata(pq.read_schema(parts[-1]).metadata)
            _publish(path, schema, _together(parts, schema))
            self._list_files()
        kept = {each.path for each in self._files()}
        for each in _all(self._directory):
            if each.path not in kept:
                each.path.unlink(missing_ok=True)

    def _list_files(self) -> None:
        manifest, listed = self._manifest(), {}
        for each in self._files():
            name, path = each.path.name, each.path
            listed[name] = manifest.get(name) or Listed(
                checksum(path), path.stat().st_size, _count_rows(path)
            )
        with replacing(self._directory / MANIFEST) as temporary:
            temporary.write_bytes(msgspec.json.format(msgspec.json.encode(listed), indent=1))

    def _manifest(self) -> dict[str, Listed]:
        """Return the listed files by name; empty for a directory of a former version."""
        path = self._directory / MANIFEST
        try:
            return msgspec.json.decode(path.read_bytes(), type=dict[str, Listed])
        except FileNotFoundError:
            return {}
        except msgspec.MsgspecError:
            raise _damaged(path, "it is not the JSON of a manifest") from None

    def rows(self, groups: Collection[str] = ()) -> Iterator[CoordinatorRow]:
        """Yield the rows of these groups or all rows, import by import. Raises HistoryError."""
        opened = self._opened()
        if not opened:
            raise HistoryError(
                f"{self._directory} has no offsets.",
                "Import them from a cluster with: brokertwin offsets import HOST:PORT DIR",
            )
        for path, file in opened:
            with _readable(path):
                for batch in _batches(file, groups):
                    for partition, offset, time, key, value in zip(
                        *(column.to_pylist() for column in _as_numbers(batch).columns), strict=True
                    ):
                        yield CoordinatorRow(partition, offset, time, key, value)

    def verify(self) -> Verified:
        """Check each file against the manifest, and read it. Raises HistoryError without files."""
        files, listed = self._look(must_be_whole=False)
        if not files and not listed:
            raise HistoryError(f"{self._directory} has no offsets.")
        damage = [each.message for each in self._missing(files, listed)]
        unlisted, rows = [], 0
        for each in files:
            try:
                rows += _count_rows(self._sound(each.path, listed))
                if each.path.name not in listed:
                    unlisted.append(each.path.name)
            except HistoryError as error:
                damage.append(error.message)
        return Verified(len(files), rows, damage, unlisted)

    def _opened(self) -> list[tuple[Path, pq.ParquetFile]]:
        """Open all files at once, because open files may be merged and removed."""
        while True:
            files, listed = self._look()
            try:
                return [(each.path, _open(self._sound(each.path, listed))) for each in files]
            except FileNotFoundError:  # merged since it was listed
                continue

    def _look(self, must_be_whole: bool = True) -> tuple[list[_File], dict[str, Listed]]:
        """Return the files and their manifest, read between two equal listings.

        Raises HistoryError if a listed file is missing, or if there is no directory but a file.
        """
        if self._directory.exists() and not self._directory.is_dir():
            raise HistoryError(
                f"{self._directory} is a file.", "Pass a directory of `brokertwin offsets import`."
            )
        files = self._files()
        while True:
            listed = self._manifest()
            if (again := self._files()) == files:
                break
            files = again
        for error in self._missing(files, listed) if must_be_whole else ():
            raise error
        return files, listed

    def _missing(
        self, files: Sequence[_File], listed: Mapping[str, Listed]
    ) -> Iterator[HistoryError]:
        """Yield an error for each listed file that neither exists nor was merged."""
        for each in _named(self._directory / name for name in listed):
            if each not in files and not any(_holds(other, each) for other in files):
                yield _damaged(each.path, "it is in manifest.json, but does not exist")

    def _sound(self, path: Path, listed: Mapping[str, Listed]) -> Path:
        """Return the path of a file that agrees with the manifest; each state is checked once.

        Raises:
            HistoryError: the file is damaged.
            FileNotFoundError: it was merged.
        """
        stat, entry = path.stat(), listed.get(path.name)
        state = (path, stat.st_size, stat.st_mtime_ns)
        if entry is not None and state not in self._checked:
            if stat.st_size != entry.bytes or checksum(path) != entry.sha256:
                raise _damaged(path, "its bytes are not those that manifest.json lists")
            if _open(path).metadata.num_rows != entry.rows:
                raise _damaged(path, "its number of rows is not that of manifest.json")
            self._checked.add(state)
        return path

    def _files(self) -> list[_File]:
        """Return the files in order, without parts of merged ones."""
        files = _listed(self._directory)
        return [each for each in files if not any(_holds(other, each) for other in files)]


def _damaged(path: Path, why: str) -> HistoryError:
    return HistoryError(
        f"{path} is damaged: {why}.",
        "Restore it from a copy, or import again into an empty directory.",
    )


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Report what pyarrow raises for damaged bytes as damage."""
    try:
        yield
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise _damaged(path, str(error).splitlines()[0].rstrip(".")) from None


def _open(path: Path) -> pq.ParquetFile:
    """Open a file whose pages are checked when they are read. Raises HistoryError."""
    with _readable(path):
        return pq.ParquetFile(path, page_checksum_verification=True, pre_buffer=False)


def _count_rows(path: Path) -> int:
    """Read a whole file and count its rows. Raises HistoryError if a page is damaged."""
    with _readable(path):
        return sum(batch.num_rows for batch in _open(path).iter_batches(GROUP_ROWS))


def _batches(file: pq.ParquetFile, groups: Collection[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of groups, or all; reads only the keys of row groups without such rows."""
    if not groups:
        yield from file.iter_batches(GROUP_ROWS, columns=[*ROW_COLUMNS])
        return
    for number in range(file.num_row_groups):
        keys = file.read_row_group(number, columns=["key"]).column(0)
        column = _of_groups(keys, groups)
        if pc.any(column).as_py():
            rows = file.read_row_group(number, columns=[*ROW_COLUMNS]).filter(column)
            yield from rows.to_batches()


def _of_groups(keys: pa.ChunkedArray, groups: Collection[str]) -> pa.ChunkedArray:
    mask = pa.chunked_array([pa.array([False] * len(keys))])
    for group in groups:
        prefix = key_prefix(group)
        mask = pc.or_(mask, pc.equal(pc.binary_slice(keys, 2, 2 + len(prefix)), prefix))
    return mask


@contextmanager
def _writing(directory: Path) -> Iterator[None]:
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _publish(path: Path, schema: pa.Schema, parts: Iterable[pa.Table]) -> None:
    """Write a file atomically."""
    with (
        replacing(path) as temporary,
        pq.ParquetWriter(temporary, schema, compression="zstd", write_page_checksum=True) as writer,
    ):
        for part in parts:
            writer.write_table(part, row_group_size=GROUP_ROWS)


def _listed(directory: Path) -> list[_File]:
    """List a directory until two listings are equal.

    A single one could miss both a merged file and its removed parts.
    """
    files = _all(directory)
    while (again := _all(directory)) != files:
        files = again
    return files


def _all(directory: Path) -> list[_File]:
    return sorted(_named(directory.glob("rows-*.parquet")))


def _named(paths: Iterable[Path]) -> Iterator[_File]:
    """Yield the files whose names are those of imports."""
    for path in paths:
        if match := NAMES.fullmatch(path.name):
            yield _File(int(match[2] or match[1]), int(match[1]), path)


def _holds(one: _File, other: _File) -> bool:
    return one.first <= other.first <= other.last <= one.last and one.imports > other.imports


def _run(files: Sequence[_File]) -> Sequence[_File]:
    """Return the first files to merge, or none."""
    for begin in range(len(files) - FAN + 1):
        run = files[begin : begin + FAN]
        is_whole = all(
            one.imports == other.imports and one.last + 1 == other.first
            for one, other in pairwise(run)
        )
        if is_whole and sum(each.path.stat().st_size for each in run) <= MERGED_MAX:
            return run
    return ()


def _together(paths: Sequence[Path], schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield the rows of files in order, in tables of at least `GROUP_ROWS` rows."""
    gathered: list[pa.RecordBatch] = []
    for path in paths:
        with _readable(path):
            for batch in _open(path).iter_batches(GROUP_ROWS):
                gathered.append(batch)
                if sum(each.num_rows for each in gathered) >= GROUP_ROWS:
                    yield pa.Table.from_batches(gathered).cast(schema)
                    gathered = []
    if gathered:
        yield pa.Table.from_batches(gathered).cast(schema)


def _facts_of(file: Path) -> HistoryFacts:
    with _readable(file):
        metadata = pq.read_schema(file).metadata or {}
    try:
        return msgspec.json.decode(
            metadata.get(FACTS) or metadata.get(FORMER_FACTS, b""), type=HistoryFacts
        )
    except msgspec.MsgspecError:
        raise HistoryError(f"{file} was not written by `brokertwin offsets import`.") from None


def _as_numbers(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Convert the time to ms since 1970."""
    return batch.set_column(2, "timestamp", batch.column("timestamp").cast(pa.int64()))


class _Columns(NamedTuple):
    log_partition: int
    log_offset: int
    timestamp: int
    key: bytes
    value: bytes | None
    group: str | None = None
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    metadata: str | None = None
    commit_timestamp: int | None = None


def _columns(row: CoordinatorRow) -> _Columns:
    columns = _Columns(*row)
    try:
        decoded = group_records.decode(row.key, row.value)
    except ValueError:
        return columns  # keep the raw bytes
    if not isinstance(decoded, OffsetRow):
        return columns
    key, value = decoded
    columns = columns._replace(group=key.group, topic=key.topic, partition=key.partition)
    if value is None:
        return columns
    return columns._replace(
        offset=value.offset, metadata=value.metadata, commit_timestamp=value.commit_timestamp
    )


def write_moves(file: Path, moves: Iterable[OffsetMove]) -> int:
    """Write a file atomically; return its number of rows.

    Raises UserError if it cannot be written.
    """
    count, remaining = 0, iter(moves)
    try:
        with (
            replacing(file) as temporary,
            temporary.open("wb") as out,
            pq.ParquetWriter(out, MOVES, compression="zstd", write_page_checksum=True) as writer,
        ):
            while some := [_move_columns(move) for move in islice(remaining, GROUP_ROWS)]:
                writer.write_table(pa.Table.from_pylist(some, MOVES))
                count += len(some)
    except OSError as error:
        raise UserError(f"Cannot write to {file}: {error.strerror}.") from None
    return count


def _move_columns(move: OffsetMove) -> dict[str, Any]:
    row, key, after = move.row, move.key, move.after
    return {
        "time": row.timestamp,
        "group": key.group,
        "topic": key.topic,
        "partition": key.partition,
        "before": move.before.offset if move.before else None,
        "after": after.offset if after else None,
        "distance": move.distance,
        "direction": move.direction.value,
        "since_ms": move.since_ms,
        "metadata": after.metadata if after else None,
        "leader_epoch": after.leader_epoch if after else None,
        "commit_timestamp": after.commit_timestamp if after else None,
        "by": move.by,
        "log_partition": row.partition,
        "log_offset": row.offset,
    }
