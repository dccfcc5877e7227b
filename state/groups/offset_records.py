"""Committed offsets as rows of `__consumer_offsets`.

Source: `GroupCoordinatorRecordHelpers` in Kafka. A value has version 1 if the request gave a
retention, else version 4; Kafka before 4.0 wrote version 3. A null value is a tombstone.
"""

import msgspec

from brokertwin.protocol.generated.offset_rows import OffsetCommitKey, OffsetCommitValue
from brokertwin.protocol.rows import kind_of
from brokertwin.state.core.bounded_cache import bounded_cache
from brokertwin.state.core.records import OffsetCommitted, OffsetDeleted

VALUE_VERSION = 4
VALUE_VERSION_WITH_EXPIRY = 1
NO_TIMESTAMP = -1
KINDS = frozenset({0, 1})
"""The kinds of keys of offsets; they have the same fields."""


class OffsetKey(msgspec.Struct, frozen=True, order=True):
    """Kafka's OffsetCommitKey, versions 0 and 1: the key of a partition's committed offset."""

    group: str
    topic: str
    partition: int


def committed(record: OffsetCommitted) -> tuple[bytes, bytes]:
    """The key and the value of an offset.

    Raises ValueError for a string of more than 32,767 bytes.
    """
    return _encoded_key(record.group_id, record.topic, record.partition), encode_value(record)


def deleted(record: OffsetDeleted) -> tuple[bytes, None]:
    """The key and the tombstone of a deleted offset. Raises ValueError as `committed` does."""
    return _encoded_key(record.group_id, record.topic, record.partition), None


@bounded_cache(4096)
def _encoded_key(group: str, topic: str, partition: int) -> bytes:
    """A key's bytes, kept because clients commit the same partitions again."""
    return OffsetCommitKey(group, topic, partition).encoded()


def encode_value(record: OffsetCommitted) -> bytes:
    """The value of a commit: version 1 with an expire timestamp, version 4 without."""
    value = OffsetCommitValue(
        record.offset,
        record.leader_epoch,
        record.metadata,
        record.commit_timestamp,
        record.expire_timestamp,
        record.topic_id,
    )
    has_expiry = record.expire_timestamp != NO_TIMESTAMP
    return value.encoded(VALUE_VERSION_WITH_EXPIRY if has_expiry else VALUE_VERSION)


def decode_key(encoded: bytes) -> OffsetKey | None:
    """The key in `encoded`; None for a key of another kind, such as a group's metadata.

    Raises ValueError if bytes are missing or left over.
    """
    if kind_of(encoded) not in KINDS:
        return None
    key = OffsetCommitKey.decoded(encoded)
    return OffsetKey(key.group, key.topic, key.partition)


def decode_value(encoded: bytes) -> OffsetCommitValue:
    """The value in `encoded`. Raises ValueError for bytes of another version, cut or too many."""
    return OffsetCommitValue.decoded(encoded)
