"""Structs that the model adds to Kafka's bodies.

These are batches in place of records, and facts that only the gateway has.
`tests/wire/overlay.py` lists the bodies with these fields.
"""

from typing import Annotated

import msgspec

from brokertwin.protocol.batch_headers import EndMarker
from brokertwin.protocol.bodies import (
    ZERO_UUID,
    Body,
    Int8,
    Int16,
    Int32,
    Int64,
    Uuid,
    tagged,
)


class RecordsSummary(Body):
    """Facts about a batch's records that are not in its header.

    `least_timestamp` is set if it is not the first record's. `keyed_timestamps` is set if only some
    records have a key: the least and the greatest timestamp of these. Both leave out records
    without a timestamp. `has_append_time` is the batch's own timestamp type.
    """

    has_keyless: bool = False
    has_append_time: bool = False
    least_timestamp: Int64 = -1
    keyed_timestamps: list[Int64] = []


class RefusedRecords(Body):
    """Reason for a rejected batch; the gateway finds its records by it."""

    topic: str
    is_compacted: bool
    takes_append_time: bool
    now: Int64
    before_max_ms: Int64
    after_max_ms: Int64


class SealedRead(Body):
    """Position of batches in the topic `segments`, and the part to read."""

    topic_id: Uuid
    base_offset: Int64
    fetch_offset: Int64
    end_offset: Int64
    max_bytes: Int32


class FetchedBatch(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """A `Batch` in a response: the fields of `StoredBatch` without None."""

    base_offset: Int64
    last_offset_delta: Int32
    producer_id: Int64
    producer_epoch: Int16
    base_sequence: Int32
    partition_leader_epoch: Int32
    base_timestamp: Int64
    max_timestamp: Int64
    size_in_bytes: Int32
    record_count: Int32
    magic: Int8
    compression_type: str
    is_transactional: bool
    is_control: bool
    crc: Int64
    locator: str | None = None
    end_marker: EndMarker | None = None
    written: bytes | None = None
    greatest_delta: int | None = None
    has_append_time: bool | None = None
    packed: bytes | None = None

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta


class Within(Body):
    """The batch or segment in which the gateway finds a record.

    It takes the first match from `base_offset` to `last_offset`. A batch has its `locator`. A
    sealed segment has `is_sealed` instead; its row in `segments` has the topic id and the base
    offset `segment_offset`. `base_timestamp` is `-1` for a segment, and for a batch whose first
    records are deleted. For MAX_TIMESTAMP a record matches if it has `max_timestamp`. For other
    timestamps it matches if it is not before the requested one.
    """

    base_offset: Int64
    last_offset: Int64
    base_timestamp: Int64
    max_timestamp: Int64
    locator: Annotated[str | None, tagged(0)] = None
    is_sealed: Annotated[bool, tagged(0)] = False
    segment_offset: Annotated[Int64, tagged(0)] = -1
    topic_id: Annotated[Uuid, tagged(0)] = ZERO_UUID
    or_else: Annotated["Within | None", tagged(0)] = None


class AlterConfigsEdge(Body):
    """Reason, from the gateway, why a configured store cannot be used."""

    store_fault: str | None = None


class TokenEdge(Body):
    """Token data from the gateway; `login` requests a look-up for a login."""

    is_enabled: bool = False
    is_allowed: bool = False
    token_id: str = ""
    digest: str = ""
    login: str = ""


class ClientSoftware(Body):
    """Client data from the gateway; an unknown port is null."""

    client_software_name: str = "unknown"
    client_software_version: str = "unknown"
    client_source_port: Int32 | None = None


class VersionedDocument(Body):
    """The document in ZooKeeper (None before the first write) and its version."""

    document: str | None = None
    version: Int32 = 0


class ConditionalWrite(Body):
    """A document for ZooKeeper and the version that it replaces."""

    document: str
    version: Int32
