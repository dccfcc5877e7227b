"""Reads the files of Spark's RocksDB state store without a JVM.

Each committed micro-batch writes `state/0/<shuffle partition>/<version>.changelog`, where the
version is the batch number plus 1. Spark sometimes uploads a whole RocksDB as `<version>.zip`,
which names files in `SSTs/`, and later deletes older files. Each key has one row, so the newest
changelog with the key is enough. RocksDB is opened only for keys without an event since its upload.

Source (Spark 4.0 to 4.2): RocksDBFileManager, StateStoreChangelogWriterV1, NoPrefixKeyStateEncoder
and UnsafeRow of org.apache.spark.sql.execution.streaming.state and .catalyst.expressions;
lz4-java's LZ4BlockOutputStream.
"""

import json
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, cast

import lz4.block

from brokertwin.kafka_io.partitioning import spark_hash
from brokertwin.streaming.checkpoint import checkpoint_log

Fields = list[bytes | None]
"""Fields of a row: BINARY as is, others as 8 bytes, None for NULL."""

CONF_PREFIX = "spark.sql.streaming.stateStore."
READABLE: Mapping[str, tuple[str, ...]] = {
    "providerClass": ("org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",),
    "encodingFormat": ("unsaferow",),
    "compression.codec": ("lz4",),
    "checkpointFormatVersion": ("1",),
}
"""Supported values of state store settings, if a checkpoint has them."""

ENCODING_VERSION = b"\0"
LZ4_MAGIC = b"LZ4Block"
LZ4_HEADER = struct.Struct("<8sBiiI")
LZ4_BLOCK_LEAST, LZ4_LEVEL_MASK = 1 << 10, 0x0F
"""Largest block of level 0; each level doubles it. Larger ones are invalid."""

LZ4_METHOD_MASK, LZ4_STORED, LZ4_COMPRESSED = 0xF0, 0x10, 0x20
SIZE = struct.Struct(">i")
DELETED = END_OF_CHANGELOG = -1
WORD = 8
SNAPSHOT_METADATA = "metadata"


class NotReadable(Exception):
    """The files do not contain the state; Spark may be able to read it."""


class _Store(NamedTuple):
    """The files of one shuffle partition."""

    directory: Path

    def changelog(self, version: int) -> Path:
        return self.directory / f"{version}.changelog"

    def snapshot(self, version: int) -> Path:
        return self.directory / f"{version}.zip"


def read_states(checkpoint: Path, batch: int, keys: Collection[int]) -> dict[int, bytes]:
    """Return states of applyInPandasWithState with one INT grouping key.

    Returns:
        State (an UnsafeRow) by grouping key, without keys that have no state.

    Raises:
        NotReadable: another provider, format or codec, or a missing or truncated file.
    """
    count = partitions(checkpoint, batch)
    states: dict[int, bytes] = {}
    try:
        for partition, here in _by_partition(keys, count).items():
            store = _Store(checkpoint / "state" / "0" / str(partition))
            values = _newest(store, batch + 1, {key_bytes(key) for key in here})
            states.update(
                (key, state_of(values[key_bytes(key)])) for key in here if key_bytes(key) in values
            )
    except (OSError, struct.error, zlib.error, zipfile.BadZipFile) as error:
        raise NotReadable(f"{type(error).__name__}: {error}") from error
    return states


def _by_partition(keys: Iterable[int], count: int) -> dict[int, list[int]]:
    by_partition: dict[int, list[int]] = {}
    for key in keys:
        by_partition.setdefault(spark_hash(key) % count, []).append(key)
    return by_partition


def partitions(checkpoint: Path, batch: int) -> int:
    """Return the number of stores: that of shuffle partitions. Raises NotReadable."""
    configuration = checkpoint_log.configuration(checkpoint, batch)
    check_configuration(configuration)
    return int(configuration["spark.sql.shuffle.partitions"])


def read_rows(checkpoint: Path, batch: int, partition: int) -> dict[bytes, bytes]:
    """Return all rows of a store after a batch: encoded key to encoded value.

    Raises:
        NotReadable: as `read_states`.
    """
    check_configuration(checkpoint_log.configuration(checkpoint, batch))
    store = _Store(checkpoint / "state" / "0" / str(partition))
    later: list[dict[bytes, bytes | None]] = []
    rows: dict[bytes, bytes | None] = {}
    version = batch + 1
    try:
        while version > 0 and not store.snapshot(version).is_file():
            if not store.changelog(version).is_file():
                raise NotReadable(f"{store.changelog(version)}: the changelog does not exist")
            later.append(dict(changes(store.changelog(version).read_bytes())))
            version -= 1
        if version > 0:
            rows.update(_in_snapshot(store, version, None))
    except (OSError, struct.error, zlib.error, zipfile.BadZipFile) as error:
        raise NotReadable(f"{type(error).__name__}: {error}") from error
    for each in reversed(later):
        rows.update(each)
    return {key: value for key, value in rows.items() if value is not None}


def check_configuration(configuration: Mapping[str, str]) -> None:
    """Raises NotReadable for another state store, format or codec."""
    for name, known in READABLE.items():
        value = configuration.get(CONF_PREFIX + name, known[0])
        if value not in known:
            raise NotReadable(f"its state store has {name} {value}")


def _newest(store: _Store, version: int, wanted: Collection[bytes]) -> dict[bytes, bytes]:
    values: dict[bytes, bytes | None] = {}
    while version > 0 and len(values) < len(wanted):
        missing = [key for key in wanted if key not in values]
        has_changelog = store.changelog(version).is_file()
        if has_changelog:
            written = dict(changes(store.changelog(version).read_bytes()))
            values.update({key: written[key] for key in missing if key in written})
            missing = [key for key in missing if key not in values]
        if store.snapshot(version).is_file():
            if missing:
                values.update(_in_snapshot(store, version, missing))
            break
        if not has_changelog:
            raise NotReadable(f"{store.changelog(version)}: the changelog does not exist")
        version -= 1
    return {key: value for key, value in values.items() if value is not None}


def changes(changelog: bytes) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield keys and values of a changelog; None means deleted.

    Raises:
        NotReadable: the changelog is truncated or of another kind.
    """
    try:
        yield from _changes(b"".join(_blocks(changelog)))
    except (struct.error, lz4.block.LZ4BlockError) as error:
        raise NotReadable(f"a changelog is truncated: {error}") from error


def _changes(data: bytes) -> Iterator[tuple[bytes, bytes | None]]:
    """Raises struct.error, NotReadable."""
    at = 0
    while True:
        (key_size,) = SIZE.unpack_from(data, at)
        if key_size == END_OF_CHANGELOG:
            return
        key_end = at + SIZE.size + key_size
        (value_size,) = SIZE.unpack_from(data, key_end)
        value_end = key_end + SIZE.size + max(value_size, 0)
        if key_size < 0 or value_end > len(data):
            raise NotReadable("a changelog is truncated")
        key, value = data[at + SIZE.size : key_end], data[key_end + SIZE.size : value_end]
        yield key, None if value_size == DELETED else value
        at = value_end


def _blocks(stream: bytes) -> Iterator[bytes]:
    """Yield the content of lz4-java's blocks."""
    at = 0
    while True:
        magic, token, packed_size, size, _checksum = LZ4_HEADER.unpack_from(stream, at)
        if magic != LZ4_MAGIC:
            raise NotReadable("a changelog is not in LZ4 blocks")
        if size == 0:
            return
        if packed_size < 0 or not 0 < size <= LZ4_BLOCK_LEAST << (token & LZ4_LEVEL_MASK):
            raise NotReadable(f"a block of {packed_size} bytes does not unpack to {size} bytes")
        at += LZ4_HEADER.size
        packed = stream[at : at + packed_size]
        at += packed_size
        method = token & LZ4_METHOD_MASK
        if method not in (LZ4_STORED, LZ4_COMPRESSED):
            raise NotReadable(f"a changelog has blocks with the unknown method {method}")
        yield packed if method == LZ4_STORED else lz4.block.decompress(packed, size)


def _in_snapshot(
    store: _Store, version: int, keys: Collection[bytes] | None
) -> dict[bytes, bytes | None]:
    """Read values of keys, or all, from an uploaded RocksDB that is assembled in a directory."""
    try:
        from rocksdict import AccessType, Options, Rdict
    except ImportError:
        raise NotReadable("rocksdict, which reads RocksDB files, is not installed") from None
    with tempfile.TemporaryDirectory(prefix="brokertwin-") as scratch:
        directory = Path(scratch)
        with store.snapshot(version).open("rb") as file, zipfile.ZipFile(file) as archive:
            archive.extractall(directory)
        for remote, local in _tables(directory / SNAPSHOT_METADATA):
            (directory / local).write_bytes((store.directory / "SSTs" / remote).read_bytes())
        try:
            with Rdict(
                str(directory), Options(raw_mode=True), access_type=AccessType.read_only()
            ) as db:
                every = cast(Iterable[bytes], db.keys()) if keys is None else keys
                return {key: db.get(key) for key in every}
        except Exception as error:
            raise NotReadable(f"{store.snapshot(version)}: {error}") from error


def _tables(metadata: Path) -> Iterator[tuple[str, str]]:
    """Yield the name of each SST file in `SSTs/` and in RocksDB."""
    _format, _, document = metadata.read_text(encoding="utf-8").partition("\n")
    for file in json.loads(document)["sstFiles"]:
        yield file["dfsSstFileName"], file["localFileName"]


def key_bytes(key: int) -> bytes:
    return ENCODING_VERSION + struct.pack("<qiI", 0, key, 0)


def state_of(value: bytes) -> bytes:
    """Return the struct `groupState` from a value row."""
    (state,) = unsafe_row(value.removeprefix(ENCODING_VERSION), 1, {0})
    if state is None:
        raise NotReadable("a state row is NULL")
    return state


def unsafe_row(row: bytes, count: int, sized: Collection[int]) -> Fields:
    """Split an UnsafeRow into its fields.

    Args:
        row: null bits, a word for each field, then the variable-size fields.
        count: the number of fields.
        sized: the numbers of variable-size fields, whose word has offset and size.
    """
    nulls_size = (count + 63) // 64 * WORD
    nulls = int.from_bytes(row[:nulls_size], "little")
    fields: Fields = []
    for number in range(count):
        word = row[nulls_size + number * WORD :][:WORD]
        if nulls >> number & 1:
            fields.append(None)
        elif number in sized:
            size, offset = struct.unpack("<II", word)
            fields.append(row[offset : offset + size])
        else:
            fields.append(word)
    return fields
