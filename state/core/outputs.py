"""Output rows of a cell, for Kafka topics.

`topic` is the topic's name without the job's prefix. `partition` is None if the key decides. Every
row has an `id`, by which readers drop repeats. A response has the id of its request; every other
row has the cell, the source partition and offset, and an ordinal.
"""

from functools import lru_cache

import msgspec

from brokertwin.protocol.bodies import Uuid

REQUESTS = "requests"
RESPONSES = "responses"
RECORDS = "records"
SEGMENTS = "segments"
TIMERS = "timers"
DEAD_LETTERS = "dead-letters"

DEAD_LETTER_INPUT_BYTES_MAX = 64 * 1024
"""Bytes of a refused document that a dead letter keeps."""

BROKER_CHANGES = "brokers/"
"""Prefix of the ids of rows of `responses` that are a `BrokerChange` and not a response."""


@lru_cache
def offsets_topic(cluster: str) -> str:
    """Return the compacted topic of a cluster's committed offsets."""
    return f"offsets.{cluster}"


class SegmentKey(msgspec.Struct, rename="camel", frozen=True):
    """Key of a row of `segments`: the first offset of a sealed log part."""

    cluster: str
    topic_id: Uuid
    partition: int
    base_offset: int


class BrokerChange(msgspec.Struct, rename="camel", frozen=True):
    """A row for all gateways of a cluster: a broker has stopped or restarted."""

    cluster: str
    broker: int
    is_stopped: bool


class Position(msgspec.Struct, frozen=True, order=True):
    """Position of an event: partition, offset, LogAppendTime in ms, key, index in its pack.

    Without a timestamp (files), `timestamp` is `-1`.
    """

    partition: int
    offset: int
    timestamp: int = -1
    key: bytes | None = None
    pack_index: int = 0

    @property
    def place(self) -> str:
        """Text for ids of rows: `partition/offset`, or `partition/offset.index` within a pack."""
        place = f"{self.partition}/{self.offset}"
        return f"{place}.{self.pack_index}" if self.pack_index else place


class Output(msgspec.Struct, frozen=True, gc=False):
    """One row. A None `value` is a tombstone."""

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    id: str
