"""Snapshots of committed offsets: a Parquet file and a manifest for each.

    offsets-<N>.parquet   one row for each cluster, group, topic and partition; N is the batch
    offsets-<N>.json      the manifest: exact position of the rows, and their checksum

Both are written under a temporary name and renamed, the manifest last, so a snapshot with a
manifest is complete. Rows are sorted, so the same state gives the same file.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from brokertwin import places
from brokertwin.errors import UserError
from brokertwin.sinks import files
from brokertwin.state.groups import committed_offsets
from brokertwin.wording import counted

SCHEMA = pa.schema(
    [
        pa.field("cluster", pa.string(), nullable=False),
        pa.field("group", pa.string(), nullable=False),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("leader_epoch", pa.int32(), nullable=False),
        pa.field("metadata", pa.string(), nullable=False),
        pa.field("commit_timestamp", pa.int64(), nullable=False),
        pa.field("expire_timestamp", pa.int64(), nullable=False),
    ]
)
"""Columns of a snapshot. Timestamps are ms since 1970; -1 means none, as in Kafka."""


class SnapshotRow(NamedTuple):
    cluster: str
    group: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: int
    expire_timestamp: int


class Manifest(msgspec.Struct, frozen=True, rename="camel"):
    """Manifest of a snapshot.

    Attributes:
        batch: micro-batch after whose commit the state was read.
        source_offsets: topic, then partition, to the offset of the first later event.
        row_count: number of committed offsets in the file.
        checksum: SHA-256 of the Parquet file, in hexadecimal.
        state_version: version of the source state.
        file: name of the Parquet file, beside the manifest.
    """

    batch: int
    source_offsets: dict[str, dict[str, int]]
    row_count: int
    checksum: str
    state_version: int
    file: str


class SnapshotError(UserError):
    """A snapshot that is missing, incomplete, or differs from its manifest."""


def rows_of_cell(cluster: str, column: bytes) -> list[SnapshotRow]:
    return [SnapshotRow(cluster, *row) for row in committed_offsets.rows(column)]


def data_path(directory: Path, batch: int) -> Path:
    return directory / f"offsets-{batch}.parquet"


def manifest_path(directory: Path, batch: int) -> Path:
    return directory / f"offsets-{batch}.json"


def table(rows: Iterable[SnapshotRow]) -> pa.Table:
    """Return the sorted rows as a table with `SCHEMA`."""
    taken = sorted(rows)
    columns = list(zip(*taken, strict=True)) if taken else [()] * len(SCHEMA)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def write(
    directory: Path,
    batch: int,
    rows: Iterable[SnapshotRow],
    source_offsets: Mapping[str, Mapping[str, int]],
    state_version: int,
) -> Manifest:
    """Write the snapshot of a committed batch; replace one of the same batch."""
    directory.mkdir(parents=True, exist_ok=True)
    written = table(rows)
    data = data_path(directory, batch)
    with files.replacing(data) as temporary:
        pq.write_table(written, temporary)
        checksum = files.checksum(temporary)
    manifest = Manifest(
        batch=batch,
        source_offsets={topic: dict(offsets) for topic, offsets in source_offsets.items()},
        row_count=written.num_rows,
        checksum=checksum,
        state_version=state_version,
        file=data.name,
    )
    with files.replacing(manifest_path(directory, batch)) as temporary:
        temporary.write_bytes(msgspec.json.format(msgspec.json.encode(manifest), indent=2))
    return manifest


def read_manifest(path: Path) -> Manifest:
    """Read a manifest. Raises SnapshotError."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Manifest)
    except FileNotFoundError:
        raise SnapshotError(
            f"There is no snapshot manifest {path}.", "Take a snapshot, or pass another --batch."
        ) from None
    except msgspec.MsgspecError as error:
        raise SnapshotError(
            f"{path} is not a snapshot manifest: {error}", "Take the snapshot again."
        ) from error


def verify(path: Path) -> Manifest:
    """Verify checksum, columns and number of rows; return the manifest.

    Raises SnapshotError if they differ.
    """
    manifest = read_manifest(path)
    data = path.with_name(manifest.file)
    if not data.is_file():
        raise _broken(data, "the file is missing")
    checksum = files.checksum(data)
    if checksum != manifest.checksum:
        raise _broken(data, f"its SHA-256 is {checksum}, not {manifest.checksum}")
    with places.local_copy(data) as file:
        described = pq.read_metadata(file)
    if not described.schema.to_arrow_schema().equals(SCHEMA):
        raise _broken(data, "its columns are not those of an offsets snapshot")
    if described.num_rows != manifest.row_count:
        rows = counted(described.num_rows, "row")
        raise _broken(data, f"it has {rows}, not {manifest.row_count:,}")
    return manifest


def read_rows(path: Path) -> list[SnapshotRow]:
    """Read the rows of the snapshot with a manifest, verified.

    Raises SnapshotError if they differ from the manifest.
    """
    with places.local_copy(path.with_name(verify(path).file)) as file:
        table = pq.read_table(file, schema=SCHEMA)
    return [SnapshotRow(**row) for row in table.to_pylist()]


def _broken(data: Path, why: str) -> SnapshotError:
    return SnapshotError(f"The snapshot {data} is damaged: {why}.", "Take the snapshot again.")
