"""Record batches as producers make them."""

import time
from typing import Any

from kafka.record.default_records import DefaultRecordBatchBuilder

from brokertwin.testing.exam.batches import made

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
START = int(time.time() * 1000) - 600_000
"""The timestamp of the first record, in ms since 1970, before the present.

A broker deletes records older than a week half a minute after its start, in any test.
"""


def batch(
    *values: bytes,
    codec: str = "none",
    timestamps: list[int] | None = None,
    producer: tuple[int, int, int] = (-1, -1, -1),
) -> bytes:
    """A batch of records made by kafka-python; `producer` is id, epoch and first sequence."""
    producer_id, epoch, sequence = producer
    builder = DefaultRecordBatchBuilder(
        2, CODECS[codec], 0, producer_id, epoch, sequence, 16 * 1024 * 1024
    )
    times = timestamps or [START + number for number in range(len(values))]
    for number, (value, timestamp) in enumerate(zip(values, times, strict=True)):
        builder.append(number, timestamp, b"key", value, [("header", b"1")])
    return bytes(builder.build())


def numbered(count: int = 1, **fields: Any) -> bytes:
    """A batch with the values v0, v1, …; `fields` of `made` change it, or break it."""
    values = [f"v{number}".encode() for number in range(count)]
    return made(**{"values": values, "time": int(time.time() * 1000), **fields})
