"""Writes a Spark checkpoint with given states, as read by `store_files`.

It has one committed micro-batch, 0, which wrote the states and read up to given offsets. Spark
continues from there: the files are like its own.

Source (Spark 4.0 to 4.2): see `store_files`; OffsetSeqLog, CommitLog, StreamMetadata,
HDFSMetadataLog of org.apache.spark.sql.execution.streaming; net.jpountz.lz4.LZ4BlockOutputStream.
"""

import json
import struct
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import lz4.block
import xxhash

from brokertwin.kafka_io.partitioning import spark_hash
from brokertwin.streaming.checkpoint.store_files import (
    ENCODING_VERSION,
    END_OF_CHANGELOG,
    LZ4_COMPRESSED,
    LZ4_HEADER,
    LZ4_MAGIC,
    LZ4_STORED,
    SIZE,
    WORD,
    check_configuration,
    key_bytes,
)

BATCH = 0
"""The micro-batch that wrote the states."""

BLOCK_BYTES = 1 << 16
BLOCK_LEVEL = 6
"""In a block's token: the block has at most 2^(10 + level) bytes."""

CHECKSUM_SEED = 0x9747B28C
CHECKSUM_MASK = 0x0FFFFFFF
SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"

Offsets = Mapping[str, Mapping[str, int]]
"""Offset of the first row after a batch, by topic and partition."""


class StorePlan(NamedTuple):
    """The parts of a checkpoint besides the states.

    Attributes:
        configuration: the fixed Spark configuration of the old checkpoint.
        schema: the file with the state's columns.
        operators: the file with the operator and its number of partitions.
        at_ms: the time of the batch, in ms since 1970.
        shuffle_partitions: number of Spark tasks.
    """

    configuration: Mapping[str, str]
    schema: bytes
    operators: bytes
    offsets: Offsets
    at_ms: int
    shuffle_partitions: int


def write(checkpoint: Path, states: Mapping[int, bytes], plan: StorePlan) -> None:
    """Write a checkpoint into an empty directory.

    Args:
        checkpoint: an existing, empty directory.
        states: state (an UnsafeRow, `state_row`) by grouping key.
        plan: the other parts.

    Raises:
        NotReadable: the old checkpoint has another state store, format or codec.
    """
    check_configuration(plan.configuration)
    configuration = {**plan.configuration, SHUFFLE_PARTITIONS: str(plan.shuffle_partitions)}
    planned = {"batchWatermarkMs": 0, "batchTimestampMs": plan.at_ms, "conf": configuration}
    offsets = _json(plan.offsets)
    files = {
        "metadata": _json({"id": str(uuid.uuid4())}),
        "sources/0/0": f"v1\n{offsets}",
        f"offsets/{BATCH}": f"v1\n{_json(planned)}\n{offsets}",
        "state/0/_metadata/metadata": _operators(plan.operators, plan.shuffle_partitions),
        f"commits/{BATCH}": f"v1\n{_json({'nextBatchWatermarkMs': 0})}",
    }
    for name, text in files.items():
        _put(checkpoint / name, text.encode())
    _put(checkpoint / "state/0/0/_metadata/schema", plan.schema)
    for partition in range(plan.shuffle_partitions):
        rows = [
            (key_bytes(key), ENCODING_VERSION + encoded_row([state]))  # the struct `groupState`
            for key, state in states.items()
            if spark_hash(key) % plan.shuffle_partitions == partition
        ]
        _put(checkpoint / f"state/0/{partition}/{BATCH + 1}.changelog", changelog(rows))


def state_row(version: int, columns: Iterable[bytes]) -> bytes:
    """Encode a cell's state as an UnsafeRow: an INT and BINARY columns."""
    return encoded_row([version, *columns])


def changelog(rows: Iterable[tuple[bytes, bytes]]) -> bytes:
    parts = []
    for key, value in rows:
        parts += [SIZE.pack(len(key)), key, SIZE.pack(len(value)), value]
    parts.append(SIZE.pack(END_OF_CHANGELOG))
    return b"".join(_blocks(b"".join(parts)))


def _blocks(data: bytes) -> Iterator[bytes]:
    """Encode lz4-java's blocks; an empty one ends the stream."""
    for at in range(0, len(data), BLOCK_BYTES):
        block = data[at : at + BLOCK_BYTES]
        packed = lz4.block.compress(block, store_size=False)
        method = LZ4_COMPRESSED if len(packed) < len(block) else LZ4_STORED
        packed = packed if method == LZ4_COMPRESSED else block
        checksum = xxhash.xxh32_intdigest(block, CHECKSUM_SEED) & CHECKSUM_MASK
        token = method | BLOCK_LEVEL
        yield LZ4_HEADER.pack(LZ4_MAGIC, token, len(packed), len(block), checksum) + packed
    yield LZ4_HEADER.pack(LZ4_MAGIC, LZ4_STORED | BLOCK_LEVEL, 0, 0, 0)


def encoded_row(fields: list[int | bytes]) -> bytes:
    """Encode an UnsafeRow: null bits, a word per field, variable-size fields."""
    nulls = bytes((len(fields) + 63) // 64 * WORD)
    at = len(nulls) + len(fields) * WORD
    words, behind = [], []
    for field in fields:
        if isinstance(field, int):
            words.append(struct.pack("<iI", field, 0))
            continue
        words.append(struct.pack("<II", len(field), at))
        padded = field + bytes(-len(field) % WORD)
        behind.append(padded)
        at += len(padded)
    return b"".join([nulls, *words, *behind])


def _operators(file: bytes, shuffle_partitions: int) -> str:
    version, _, document = file.decode().partition("\n")
    operators = json.loads(document)
    for store in operators["stateStoreInfo"]:
        store["numPartitions"] = shuffle_partitions
    return f"{version}\n{_json(operators)}"


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _put(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
