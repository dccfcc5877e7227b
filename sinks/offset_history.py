"""The rows of a `__consumer_offsets`, kept on disk as Parquet: all of them, not only the newest.

    rows-000001-000032.parquet   what 32 imports have brought, merged
    rows-000033.parquet          the rows of one import, in the order of partitions and offsets
    rows-000034.parquet          those of the next, which begins where that ended

Key and value are the bytes that lay in the topic; the columns beside them are the same, read, for
those who ask with SQL. A file is written under another name and renamed, and says of itself from
which cluster it is and where the next import begins: so a file that is there is whole, and nothing
comes twice, whatever was killed when. Writers take turns (`.lock`), and leave out what another one
has brought since they looked; readers wait for nobody.

Who follows a cluster for long adds a file every few seconds. So `FAN` files that follow each other
and hold as many imports each are merged into one, and these again, until `MERGED_MAX` bytes: a year
of them leaves a hundred or so. A merged file counts from its rename on, and hides what it holds
until that is removed.
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
from brokertwin.sinks.files import bring_to_disk
from brokertwin.state.groups import group_records
from brokertwin.state.groups.group_records import OffsetRow
from brokertwin.state.observed.offset_history import CoordinatorRow

FACTS, FORMER_FACTS = b"brokertwin", b"brokerstream"
NAME = "rows-{:06}.parquet"
MERGED = "rows-{:06}-{:06}.parquet"
NAMES = re.compile(r"rows-(\d+)(?:-(\d+))?\.parquet")
LOCK = ".lock"

FAN = 32
"""So many files that hold as many imports each become one."""

MERGED_MAX = 256 * 1024 * 1024
"""Bytes of files that are not merged any more."""

GROUP_ROWS = 65_536
"""Rows that a merged file has together, at least."""

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
"""The columns from `group` on are null where a row is not of an offset; `offset` also where it says
that there is none any more."""


class Facts(msgspec.Struct, frozen=True):
    """What a file says of itself.

    Attributes:
        cluster: the id of the cluster whose rows they are.
        next_offsets: partition of `__consumer_offsets` to the offset at which the next one begins.
    """

    cluster: str
    next_offsets: dict[int, int]


class HistoryError(UserError):
    """A directory that is no history, or one of another cluster."""


class _File(NamedTuple):
    """A file, and the numbers of the first and the last import that it holds."""

    last: int
    first: int
    path: Path

    @property
    def imports(self) -> int:
        """How many imports it holds."""
        return self.last - self.first + 1


class OffsetHistoryStore:
    """The files of one directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def facts(self) -> Facts | None:
        """What the newest file says; None where there is none."""
        while True:
            files = self._files()
            try:
                return _facts_of(files[-1].path) if files else None
            except FileNotFoundError:  # merged since it was listed
                continue

    def check_cluster(self, cluster: str) -> None:
        """Raises HistoryError where the rows here are another cluster's."""
        facts = self.facts()
        if facts is not None and facts.cluster != cluster:
            raise HistoryError(
                f"{self._directory} has the offsets of cluster {facts.cluster}, not of {cluster}.",
                "Use one directory for each cluster.",
            )

    def add(
        self, cluster: str, rows: Sequence[CoordinatorRow], next_offsets: Mapping[int, int]
    ) -> int:
        """Write the rows of one import, without those that are here already; gives back how many.

        Raises HistoryError where the rows here are another cluster's.
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
                self._write(Facts(cluster, ends), new)
                self._merge()
        return len(new)

    def _write(self, facts: Facts, rows: Sequence[CoordinatorRow]) -> None:
        schema = SCHEMA.with_metadata({FACTS: msgspec.json.encode(facts)})
        columns = list(zip(*map(_columns, rows), strict=True)) or [()] * len(SCHEMA)
        arrays = [
            pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)
        ]
        files = self._files()
        path = self._directory / NAME.format(files[-1].last + 1 if files else 1)
        self._publish(path, schema, [pa.Table.from_arrays(arrays, schema=schema)])

    def _publish(self, path: Path, schema: pa.Schema, parts: Iterable[pa.Table]) -> None:
        """Write a file that is there whole or not at all."""
        temporary = path.with_name(f".{path.name}.tmp")
        with pq.ParquetWriter(temporary, schema, compression="zstd") as writer:
            for part in parts:
                writer.write_table(part)
        bring_to_disk(temporary)
        temporary.replace(path)
        bring_to_disk(self._directory)

    def _merge(self) -> None:
        """Make one of files that are many, as long as there are such; remove what is merged."""
        while run := _run(self._files()):
            path = self._directory / MERGED.format(run[0].first, run[-1].last)
            schema = SCHEMA.with_metadata(pq.read_schema(run[-1].path).metadata)
            self._publish(path, schema, _together([each.path for each in run], schema))
        kept = {each.path for each in self._files()}
        for each in _all(self._directory):
            if each.path not in kept:
                each.path.unlink(missing_ok=True)

    def rows(self) -> Iterator[CoordinatorRow]:
        """Every row, import by import. Raises HistoryError where the directory is no history."""
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
        """All files, opened at once: what is open may be merged and removed meanwhile."""
        while True:
            try:
                return [pq.ParquetFile(each.path) for each in self._files()]
            except FileNotFoundError:  # merged since it was listed
                continue

    def _files(self) -> list[_File]:
        """In their order, without what a merged one holds."""
        found = _listed(self._directory)
        return [each for each in found if not any(_holds(other, each) for other in found)]


@contextmanager
def _writing(directory: Path) -> Iterator[None]:
    """Be the only writer to a directory."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _listed(directory: Path) -> list[_File]:
    """What two looks in a row have found.

    One alone may miss a merged file that came behind it, and what that holds, which went before it.
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
    """The first files that are to become one; none where there are none."""
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
    """The rows of files in their order, in parts of `GROUP_ROWS` or little more."""
    gathered: list[pa.RecordBatch] = []
    for path in paths:
        for batch in pq.ParquetFile(path).iter_batches():
            gathered.append(batch)
            if sum(each.num_rows for each in gathered) >= GROUP_ROWS:
                yield pa.Table.from_batches(gathered).cast(schema)
                gathered = []
    if gathered:
        yield pa.Table.from_batches(gathered).cast(schema)


def _facts_of(file: Path) -> Facts:
    metadata = pq.read_schema(file).metadata or {}
    try:
        return msgspec.json.decode(
            metadata.get(FACTS) or metadata.get(FORMER_FACTS, b""), type=Facts
        )
    except msgspec.MsgspecError:
        raise HistoryError(f"{file} was not written by `brokertwin offsets import`.") from None


def _as_numbers(batch: pa.RecordBatch) -> pa.RecordBatch:
    """With the time in ms since 1970."""
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
        said = group_records.decode(row.key, row.value)
    except ValueError:
        return columns  # the bytes are kept
    if not isinstance(said, OffsetRow):
        return columns
    key, value = said
    columns = columns._replace(group=key.group, topic=key.topic, partition=key.partition)
    if value is None:
        return columns
    return columns._replace(
        offset=value.offset, metadata=value.metadata, commit_timestamp=value.commit_timestamp
    )
