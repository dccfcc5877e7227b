"""Committed offsets in the record format of `__consumer_offsets`.

Source: `OffsetCommitKey.json`, `OffsetCommitValue.json`, `GroupCoordinatorRecordHelpers` in Kafka.
Key and value begin with a version (int16). Numbers are big-endian, strings UTF-8.

    key    0, 1   group, topic (strings), partition (int32); written: 1
    value  0, 2   offset (int64), metadata (string), commitTimestamp (int64)
           1      the same, then expireTimestamp (int64); written if it is set
           3      offset, leaderEpoch (int32), metadata, commitTimestamp
           4      flexible: as 3 with a compact string and the tagged field topicId (tag 0, uuid);
                  written otherwise

A null value is a tombstone. Kafka before 4.0 wrote value version 3 instead of 4.
"""

import base64
import struct
from functools import lru_cache

import msgspec

from brokertwin.state.core.bounded_cache import bounded_cache
from brokertwin.state.core.kafka_bytes import Reader, string_bytes, unsigned_varint, uuid_of
from brokertwin.state.core.records import OffsetCommitted, OffsetDeleted
from brokertwin.state.core.schema import ZERO_UUID, Uuid

KEY_VERSION = 1
VALUE_VERSION = 4
VALUE_VERSION_WITH_EXPIRY = 1
NO_LEADER_EPOCH = -1
NO_TIMESTAMP = -1
TAG_TOPIC_ID = 0
UUID_BYTES = 16

_HEAD = struct.Struct(">hqi")
_TIME = struct.Struct(">q")


class OffsetKey(msgspec.Struct, frozen=True, order=True):
    """Group, topic and partition of an offset."""

    group: str
    topic: str
    partition: int


class OffsetValue(msgspec.Struct, frozen=True):
    """A stored offset. Timestamps are in ms since 1970, -1 if absent."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: int
    expire_timestamp: int = NO_TIMESTAMP
    topic_id: Uuid = ZERO_UUID


def committed(record: OffsetCommitted) -> tuple[bytes, bytes]:
    """Return key and value of an offset.

    Raises ValueError for a string longer than 32767 bytes, the limit of Kafka's protocol.
    """
    return _encoded_key(record.group_id, record.topic, record.partition), encode_value(record)


def deleted(record: OffsetDeleted) -> tuple[bytes, None]:
    """Return the tombstone of an offset. Raises ValueError like `committed`."""
    return _encoded_key(record.group_id, record.topic, record.partition), None


@bounded_cache(4096)
def _encoded_key(group: str, topic: str, partition: int) -> bytes:
    """Return a key's bytes; cached because commits repeat their keys."""
    named = struct.pack(">h", KEY_VERSION) + string_bytes(group) + string_bytes(topic)
    return named + struct.pack(">i", partition)


def encode_value(record: OffsetCommitted) -> bytes:
    """Encode version 1 with an expire timestamp, version 4 without."""
    if record.expire_timestamp != NO_TIMESTAMP:
        head = struct.pack(">hq", VALUE_VERSION_WITH_EXPIRY, record.offset)
        times = struct.pack(">qq", record.commit_timestamp, record.expire_timestamp)
        return head + string_bytes(record.metadata) + times
    head = _HEAD.pack(VALUE_VERSION, record.offset, record.leader_epoch)
    metadata = record.metadata.encode("utf-8")
    body = unsigned_varint(len(metadata) + 1) + metadata
    return head + body + _TIME.pack(record.commit_timestamp) + _tags(record.topic_id)


def decode_key(encoded: bytes) -> OffsetKey | None:
    """Decode a key; None if it is the key of another kind of record.

    Raises ValueError for truncated or trailing bytes.
    """
    reader = Reader(encoded)
    if reader.number("h") not in (0, 1):
        return None
    key = OffsetKey(reader.string(), reader.string(), reader.number("i"))
    reader.end()
    return key


def decode_value(encoded: bytes) -> OffsetValue:
    """Decode a value.

    Raises ValueError for an unknown version, and for truncated or trailing bytes.
    """
    reader = Reader(encoded)
    version = reader.number("h")
    if not 0 <= version <= 4:
        raise ValueError(f"offset values have the versions 0 to 4, not {version}")
    reader.is_flexible = version == 4
    offset = reader.number("q")
    leader_epoch = reader.number("i") if version >= 3 else NO_LEADER_EPOCH
    metadata = reader.string()
    commit_timestamp = reader.number("q")
    expire_timestamp = reader.number("q") if version == 1 else NO_TIMESTAMP
    topic_id = _topic_id_of(reader.tags())
    reader.end()
    return OffsetValue(offset, leader_epoch, metadata, commit_timestamp, expire_timestamp, topic_id)


def _topic_id_of(tags: dict[int, bytes]) -> Uuid:
    """Return the topic id from the tagged fields; ignore unknown ones."""
    field = tags.get(TAG_TOPIC_ID, b"")
    return uuid_of(field) if len(field) == UUID_BYTES else ZERO_UUID


@lru_cache(maxsize=4096)
def _tags(topic_id: Uuid) -> bytes:
    """Encode the tagged fields: the topic id, unless it is zero."""
    if topic_id == ZERO_UUID:
        return unsigned_varint(0)
    field = base64.urlsafe_b64decode(topic_id + "==")
    return bytes([1, TAG_TOPIC_ID, len(field)]) + field
