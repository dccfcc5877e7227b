"""Headers of record batches, as the model keeps them, and the end markers of transactions."""

from typing import Annotated, NamedTuple

import msgspec

from brokertwin.protocol.bodies import Body, Int8, Int16, Int32, Int64, tagged

Size = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
"""A count or a number of bytes."""


class EndMarker(Body):
    """The record of a transaction's control batch (`EndTransactionMarker`).

    `is_append_time`: whether the batch's declared timestamp type is LogAppendTime.
    """

    is_commit: bool
    coordinator_epoch: Int32
    is_append_time: bool = False


UNKNOWN_CODEC = "unknown"
"""The compression type of a batch with an unknown codec."""


class Batch(Body):
    """The header of a v2 record batch, without its records.

    Times are ms since 1970, sizes are bytes.

    Attributes:
        locator: position of the bytes in the data topic, if they are there.
        end_marker: content of a control batch without bytes (`logs/control_batches.py`).
        written: records of a coordinator in an internal topic, as msgpack bytes.
        packed: encoded records of a broker's own batch in a topic of users: dead letters.
        greatest_delta: relative offset of the first record with the greatest timestamp, from the
            gateway if the header does not show it.
        has_append_time: its topic has LogAppendTime; None also in batches of former programs.
    """

    base_offset: Int64
    last_offset_delta: Int32
    producer_id: Int64 = -1
    producer_epoch: Int16 = -1
    base_sequence: Int32 = -1
    partition_leader_epoch: Int32 = -1
    base_timestamp: Int64 = -1
    max_timestamp: Int64 = -1
    size_in_bytes: Size = 0
    record_count: Size = 0
    magic: Int8 = 2
    compression_type: str = "none"
    is_transactional: bool = False
    is_control: bool = False
    crc: Int64 = 0
    locator: Annotated[str | None, tagged(0)] = None
    end_marker: Annotated[EndMarker | None, tagged(0)] = None
    written: Annotated[bytes | None, tagged(0)] = None
    greatest_delta: Annotated[Int32 | None, tagged(0)] = None
    has_append_time: Annotated[bool | None, tagged(0)] = None
    packed: Annotated[bytes | None, tagged(0)] = None

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta


class BatchPartition(NamedTuple):
    """A partition by topic name, or by topic id if the name is unknown."""

    topic: str
    partition: int


Headers = dict[BatchPartition, list[Batch]]
"""Batches of replicas; after a truncation an offset can have several."""
