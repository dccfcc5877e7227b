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
"""

import fcntl
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from brokertwin.errors import UserError
from brokertwin.offsets.history import CoordinatorRow
from brokertwin.sinks.files import replacing
from brokertwin.state.groups import group_records
from brokertwin.state.groups.group_records import OffsetRow

FACTS, FORMER_FACTS = b"brokertwin", b"brokerstream"
NAME = "rows-{:06}.parquet"
MERGED = "rows-{:06}-{:06}.parquet"
NAMES = re.compile(r"rows-(\d+)(?:-(\d+))?\.parquet")
LOCK = ".lock"

FAN = 32
"""Number of files with the same number of imports that are merged."""

MERGED_MAX = 256 * 1024 * 1024
"""Size of files that are not merged again."""

GROUP_ROWS = 65_536
"""Minimum number of rows of a row group in a merged file."""

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


class HistoryFacts(msgspec.Struct, frozen=True):
    """Metadata of a file.

    Attributes:
        cluster: id of the cluster.
        next_offsets: partition of `__consumer_offsets` to the start of the next import.
    """

    cluster: str
    next_offsets: dict[int, int]


class HistoryError(UserError):
    """The directory is not a history, or belongs to another cluster."""


class _File(NamedTuple):
    """A file with the numbers of its first and last import."""

    last: int
    first: int
    path: Path

    @property
    def imports(self) -> int:
        """Number of imports in the file."""
        return self.last - self.first + 1


class OffsetHistoryStore:
    """History files in one directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def facts(self) -> HistoryFacts | None:
        """Return the metadata of the newest file, or None."""
        while True:
            files = self._files()
            try:
                return _facts_of(files[-1].path) if files else None
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

        Raises HistoryError if the directory belongs to another cluster.
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

    def _merge(self) -> None:
        """Merge files as long as possible, and remove merged ones."""
        while run := _run(self._files()):
            path = self._directory / MERGED.format(run[0].first, run[-1].last)
            schema = SCHEMA.with_metadata(pq.read_schema(run[-1].path).metadata)
            _publish(path, schema, _together([each.path for each in run], schema))
        kept = {each.path for each in self._files()}
        for each in _all(self._directory):
            if each.path not in kept:
                each.path.unlink(missing_ok=True)

    def rows(self) -> Iterator[CoordinatorRow]:
        """Yield every row, import by import. Raises HistoryError."""
        opened = self._opened()
        if not opened:
            raise HistoryError(
                f"{self._directory} has no offsets.",
                "Import them from a cluster with: brokertwin offsets import HOST:PORT DIR",
            )
        names = ["log_partition", "log_offset", "timestamp", "key", "value"]
        for file in opened:
            for batch in file.iter_batches(columns=names):
                for partition, offset, time, key, value in zip(
                    *(column.to_pylist() for column in _as_numbers(batch).columns), strict=True
                ):
                    yield CoordinatorRow(partition, offset, time, key, value)

    def _opened(self) -> list[pq.ParquetFile]:
        """Open all files at once, because open files may be merged and removed."""
        while True:
            try:
                return [pq.ParquetFile(each.path) for each in self._files()]
            except FileNotFoundError:  # merged since it was listed
                continue

    def _files(self) -> list[_File]:
        """Return the files in order, without parts of merged ones."""
        found = _listed(self._directory)
        return [each for each in found if not any(_holds(other, each) for other in found)]


@contextmanager
def _writing(directory: Path) -> Iterator[None]:
    """Lock a directory for writing."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _publish(path: Path, schema: pa.Schema, parts: Iterable[pa.Table]) -> None:
    """Write a file atomically."""
    with (
        replacing(path) as temporary,
        pq.ParquetWriter(temporary, schema, compression="zstd") as writer,
    ):
        for part in parts:
            writer.write_table(part)


def _listed(directory: Path) -> list[_File]:
    """List a directory until two listings are equal.

    A single one could miss both a merged file and its removed parts.
    """
    found = _all(directory)
    while (again := _all(directory)) != found:
        found = again
    return found


def _all(directory: Path) -> list[_File]:
    named = [(path, NAMES.fullmatch(path.name)) for path in directory.glob("rows-*.parquet")]
    files = [
        _File(int(match[2] or match[1]), int(match[1]), path) for path, match in named if match
    ]
    return sorted(files)


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
        for batch in pq.ParquetFile(path).iter_batches():
            gathered.append(batch)
            if sum(each.num_rows for each in gathered) >= GROUP_ROWS:
                yield pa.Table.from_batches(gathered).cast(schema)
                gathered = []
    if gathered:
        yield pa.Table.from_batches(gathered).cast(schema)


def _facts_of(file: Path) -> HistoryFacts:
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
