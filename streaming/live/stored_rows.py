"""Rows of the entities in a checkpoint of the live audit, read from its files without a JVM."""

import struct
from collections.abc import Iterator
from pathlib import Path

import msgspec

from brokertwin.recordings.history.entity import EntityKey
from brokertwin.streaming.checkpoint import store_files
from brokertwin.streaming.checkpoint.store_files import ENCODING_VERSION, NotReadable
from brokertwin.streaming.live import tables
from brokertwin.streaming.live.entity import LiveEntity
from brokertwin.streaming.live.modes import FIXED, KeyMode
from brokertwin.streaming.live.operator import Bucket
from brokertwin.streaming.live.tables import KIND_OF, EntityTable, Values


def is_live(directory: Path) -> bool:
    return (directory / FIXED).is_file()


def rows(checkpoint: Path, table: EntityTable, batch: int, partition: int) -> Iterator[Values]:
    """Yield the rows of a table after a micro-batch, each with its cluster first.

    Args:
        checkpoint: the checkpoint of a live audit that is running, stopped or killed.
        table: the table; only its entities are decoded.
        batch: a committed micro-batch.
        partition: the shuffle partition.

    Raises:
        NotReadable: as `store_files.read_rows`.
    """
    fixed = msgspec.json.decode((checkpoint / FIXED).read_bytes())
    entities = _of_buckets if fixed["key"] == KeyMode.BUCKET else _of_keys
    stored = store_files.read_rows(checkpoint, batch, partition)
    for cluster, key, entity in entities(stored):
        if key.kind == KIND_OF[table.name]:
            row = tables.row_of(key, LiveEntity(key, entity).machine)
            if row is not None:
                yield {"cluster": cluster, **row.values}


def _of_keys(stored: dict[bytes, bytes]) -> Iterator[tuple[str, EntityKey, bytes]]:
    """Yield the entities of `--key entity`: a row of Spark's state for each."""
    for key, value in stored.items():
        cluster, kind, name = _texts(key, 3)
        yield cluster, EntityKey(kind, name), _column(value, 1 + len(tables.TABLES))


def _of_buckets(stored: dict[bytes, bytes]) -> Iterator[tuple[str, EntityKey, bytes]]:
    """Yield the entities of `--key bucket`: a row of Spark's state for many."""
    for key, value in stored.items():
        (cluster,) = _texts(key, 1, 2)
        for entity_key, (entity, _alarm) in Bucket(_column(value, 1)).entities.items():
            yield cluster, entity_key, entity


def _texts(key: bytes, texts: int, columns: int | None = None) -> list[str]:
    row = key.removeprefix(ENCODING_VERSION)
    fields = store_files.unsafe_row(row, columns or texts, range(texts))
    return [(each or b"").decode() for each in fields[:texts]]


def _column(value: bytes, columns: int) -> bytes:
    """The first column of a state: a value row has the state and its timeout."""
    try:
        state, _ = store_files.unsafe_row(value.removeprefix(ENCODING_VERSION), 2, {0})
        return store_files.unsafe_row(state or b"", columns, {0})[0] or b""
    except struct.error as error:
        raise NotReadable(f"a state row is truncated: {error}") from None
