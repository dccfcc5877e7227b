"""Rows of the entities in a checkpoint of the live audit, read from its files without a JVM."""

import struct
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from brokertwin.errors import UserError
from brokertwin.recordings.history.entity import EntityKey
from brokertwin.streaming.checkpoint import checkpoint_log, store_files
from brokertwin.streaming.checkpoint.store_files import ENCODING_VERSION, NotReadable
from brokertwin.streaming.live import tables
from brokertwin.streaming.live.entity import LiveEntity, StoredEntity
from brokertwin.streaming.live.halves import CONNECTION, Connection
from brokertwin.streaming.live.kinds import machines
from brokertwin.streaming.live.modes import FIXED, KeyMode
from brokertwin.streaming.live.operator import Bucket
from brokertwin.streaming.live.reading import HalfExchange
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
    for cluster, key, entity in _entities(checkpoint, batch, partition):
        if key.kind == KIND_OF[table.name]:
            row = tables.row_of(key, LiveEntity(key, entity).machine)
            if row is not None:
                yield {"cluster": cluster, **row.values}


def layout() -> str:
    """A hash of the fields and types of all states, which another brokertwin may not read."""
    types = [StoredEntity, HalfExchange, *machines()]
    described = repr(msgspec.inspect.multi_type_info(types))
    return blake2b(described.encode(), digest_size=8).hexdigest()


def check(checkpoint: Path) -> None:
    """Decode all entities of a checkpoint that another brokertwin wrote.

    Raises:
        UserError: one of them cannot be decoded.
    """
    batch = checkpoint_log.committed(checkpoint)
    try:
        for partition in range(fixed(checkpoint)["shuffle_partitions"]) if batch >= 0 else ():
            for _, key, stored in _entities(checkpoint, batch, partition):
                if key.kind == CONNECTION:
                    Connection(stored)
                else:
                    LiveEntity(key, stored)
    except (msgspec.MsgspecError, NotReadable, KeyError) as error:
        raise UserError(
            f"The checkpoint {checkpoint} was written by another brokertwin, and this one cannot"
            f" read its state: {error}.",
            "Continue with the former brokertwin, or start again with another --prefix and"
            " --checkpoint.",
        ) from None


def fixed(checkpoint: Path) -> Any:
    """The settings of a checkpoint that cannot change, and its layout."""
    return msgspec.json.decode((checkpoint / FIXED).read_bytes())


def _entities(
    checkpoint: Path, batch: int, partition: int
) -> Iterator[tuple[str, EntityKey, bytes]]:
    """Yield the cluster, key and state of each entity of a shuffle partition."""
    entities = _of_buckets if fixed(checkpoint)["key"] == KeyMode.BUCKET else _of_keys
    return entities(store_files.read_rows(checkpoint, batch, partition))


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
