"""The rows of a `__consumer_offsets`, kept on disk as Parquet: all of them, not only the newest.

    rows-000001.parquet   the rows of one import, in the order of the topic's partitions and offsets
    rows-000002.parquet   those of the next, which begins where that ended

Key and value are the bytes that lay in the topic; the columns beside them are the same, read, for
those who ask with SQL. A file is written under another name and renamed, and says of itself from
which cluster it is and where the next import begins: so a file that is there is whole, and nothing
comes twice, whatever was killed when.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from brokerstream.errors import UserError
from brokerstream.sinks.files import bring_to_disk
from brokerstream.state.groups import group_records
from brokerstream.state.groups.group_records import OffsetRow
from brokerstream.state.observed.offset_history import Written

FACTS = b"brokerstream"
NAME = "rows-{:06}.parquet"
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


class OffsetHistoryStore:
    """The files of one directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def facts(self) -> Facts | None:
        """What the newest file says; None where there is none."""
        files = self._files()
        return _facts_of(files[-1]) if files else None

    def check_cluster(self, cluster: str) -> None:
        """Raises HistoryError where the rows here are another cluster's."""
        facts = self.facts()
        if facts is not None and facts.cluster != cluster:
            raise HistoryError(
                f"{self._directory} has the offsets of cluster {facts.cluster}, not of {cluster}.",
                "Give each cluster a directory of its own.",
            )

    def add(self, cluster: str, rows: Sequence[Written], next_offsets: Mapping[int, int]) -> Path:
        """Write the rows of one import."""
        self._directory.mkdir(parents=True, exist_ok=True)
        facts = Facts(cluster, dict(next_offsets))
        schema = SCHEMA.with_metadata({FACTS: msgspec.json.encode(facts)})
        columns = list(zip(*map(_columns, rows), strict=True)) or [()] * len(SCHEMA)
        arrays = [
            pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)
        ]
        path = self._directory / NAME.format(len(self._files()) + 1)
        temporary = path.with_name(f".{path.name}.tmp")
        pq.write_table(pa.Table.from_arrays(arrays, schema=schema), temporary, compression="zstd")
        bring_to_disk(temporary)
        temporary.replace(path)
        bring_to_disk(self._directory)
        return path

    def rows(self) -> Iterator[Written]:
        """Every row, import by import. Raises HistoryError where the directory is no history."""
        files = self._files()
        if not files:
            raise HistoryError(
                f"{self._directory} has no offsets.",
                "`brokerstream offsets import HOST:PORT DIR` reads them from a cluster.",
            )
        names = ["log_partition", "log_offset", "timestamp", "key", "value"]
        for file in files:
            for batch in pq.ParquetFile(file).iter_batches(columns=names):
                for partition, offset, time, key, value in zip(
                    *(column.to_pylist() for column in _as_numbers(batch).columns), strict=True
                ):
                    yield Written(partition, offset, time, key, value)

    def _files(self) -> list[Path]:
        return sorted(self._directory.glob("rows-*.parquet"))


def _facts_of(file: Path) -> Facts:
    metadata = pq.read_schema(file).metadata or {}
    try:
        return msgspec.json.decode(metadata.get(FACTS, b""), type=Facts)
    except msgspec.MsgspecError:
        raise HistoryError(f"{file} is not of `brokerstream offsets import`.") from None


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


def _columns(row: Written) -> _Columns:
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
