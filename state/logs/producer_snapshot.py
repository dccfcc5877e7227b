"""Producer snapshots: Kafka's file format for a partition's producers.

Source: `ProducerStateManager`, `ProducerSnapshot.json` in Kafka. The file
`<offset, 20 digits>.snapshot` covers the records below that offset; later ones are read from the
log. Numbers are big-endian:

    int16 version, 1        uint32 CRC-32C of the rest        int32 number of entries
    an entry: int64 producer id, int16 epoch, int32 last sequence, int64 last offset,
    int32 offset delta, int64 timestamp, int32 coordinator epoch, int64 first offset of the
    open transaction

A snapshot has only the last batch of a producer. After a restart a repeat of an older batch gives
45 OUT_OF_ORDER_SEQUENCE_NUMBER, not a duplicate. A last offset below 0 means no batch.

Cells do not use this: a checkpoint has all remembered batches. It reads and writes the files of a
broker's log directory.
"""

import re
import struct
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from brokertwin.state.core.crc32c import crc32c
from brokertwin.state.logs.producer import (
    NO_COORDINATOR_EPOCH,
    NO_OFFSET,
    Producer,
    RememberedBatch,
)
from brokertwin.state.logs.producer_expiry import is_expired

VERSION = 1
NO_SEQUENCE = -1

_PREFIX = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")
_NAME = re.compile(r"([0-9]{20})\.snapshot")


class ProducerEntry(NamedTuple):
    """A producer in a snapshot; `timestamp` is in ms since 1970, offsets are -1 for none."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int = NO_COORDINATOR_EPOCH
    current_txn_first_offset: int = NO_OFFSET

    def producer(self) -> Producer:
        """The producer's state after a restart."""
        batches = []
        if self.last_offset >= 0:
            batches.append(
                RememberedBatch(
                    self.last_sequence, self.last_offset, self.offset_delta, self.timestamp
                )
            )
        return Producer(
            self.producer_epoch,
            self.timestamp,
            batches,
            self.coordinator_epoch,
            self.current_txn_first_offset,
        )


class CorruptSnapshot(NamedTuple):
    """Why a file is not a snapshot. Kafka deletes it and reads the next older one."""

    reason: str


def file_name(offset: int) -> str:
    """Name of the snapshot at `offset`."""
    return f"{offset:020d}.snapshot"


def offset_of(name: str) -> int | None:
    """Offset in a snapshot's name; None if the name is not one."""
    found = _NAME.fullmatch(name)
    return int(found[1]) if found else None


def entry_of(producer_id: int, producer: Producer) -> ProducerEntry:
    """A producer's entry in a snapshot."""
    last = producer.batches[-1] if producer.batches else None
    return ProducerEntry(
        producer_id,
        producer.producer_epoch,
        NO_SEQUENCE if last is None else last.last_sequence,
        NO_OFFSET if last is None else last.last_offset,
        0 if last is None else last.offset_delta,
        producer.last_timestamp,
        producer.coordinator_epoch,
        producer.current_txn_first_offset,
    )


def encode(producers: Iterable[tuple[int, Producer]]) -> bytes:
    """Bytes of a snapshot of these producers, in the given order."""
    entries = [_ENTRY.pack(*entry_of(*producer)) for producer in producers]
    body = _COUNT.pack(len(entries)) + b"".join(entries)
    return _PREFIX.pack(VERSION, crc32c(body)) + body


def decode(snapshot: bytes) -> list[ProducerEntry] | CorruptSnapshot:
    """Entries of a snapshot, or why it is corrupt."""
    if len(snapshot) < _PREFIX.size:
        return CorruptSnapshot(f"{len(snapshot)} bytes; at least {_PREFIX.size} are needed")
    version, crc = _PREFIX.unpack_from(snapshot)
    if version != VERSION:
        return CorruptSnapshot(f"version {version}; only {VERSION} is known")
    body = snapshot[_PREFIX.size :]
    if crc32c(body) != crc:
        return CorruptSnapshot(f"CRC-32C is {crc32c(body)}, the file says {crc}")
    if len(body) < _COUNT.size:
        return CorruptSnapshot("the number of entries is missing")
    (count,) = _COUNT.unpack_from(body)
    if count < 0 or len(body) != _COUNT.size + count * _ENTRY.size:
        return CorruptSnapshot(f"{count} entries do not fit {len(body)} bytes")
    return [ProducerEntry(*values) for values in _ENTRY.iter_unpack(body[_COUNT.size :])]


class LoadedSnapshot(NamedTuple):
    """The offset to read the log from, the producers, and the corrupt snapshots to delete."""

    offset: int
    producers: dict[int, Producer]
    corrupt: list[int]


def load(
    snapshots: Mapping[int, bytes], log_start_offset: int, now: int, expiration_ms: int
) -> LoadedSnapshot:
    """Load the newest readable snapshot, without expired producers.

    Without a snapshot, the log is read from the log start offset.
    """
    corrupt = []
    for offset in sorted(snapshots, reverse=True):
        entries = decode(snapshots[offset])
        if isinstance(entries, CorruptSnapshot):
            corrupt.append(offset)
            continue
        known = {entry.producer_id: entry.producer() for entry in entries}
        producers = {
            producer_id: producer
            for producer_id, producer in known.items()
            if not is_expired(producer, now, expiration_ms)
        }
        return LoadedSnapshot(offset, producers, corrupt)
    return LoadedSnapshot(log_start_offset, {}, corrupt)


def kept(offsets: Iterable[int], log_start_offset: int, log_end_offset: int) -> list[int]:
    """Sorted offsets of the snapshots that survive a truncation of the log to these bounds."""
    return sorted(o for o in offsets if log_start_offset < o <= log_end_offset)


def truncate(
    snapshots: Mapping[int, bytes],
    log_start_offset: int,
    log_end_offset: int,
    map_end_offset: int,
    now: int,
    expiration_ms: int,
) -> LoadedSnapshot | None:
    """Reload producers after a truncation to these bounds (`truncateAndReload`).

    `map_end_offset` is the end of the batches known to the producers in memory. If it is the log
    end, they stay and the result is None.
    """
    if log_end_offset == map_end_offset:
        return None
    left = kept(snapshots, log_start_offset, log_end_offset)
    return load({o: snapshots[o] for o in left}, log_start_offset, now, expiration_ms)
