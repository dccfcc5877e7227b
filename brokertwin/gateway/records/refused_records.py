"""Errors of single records of a rejected batch, with Kafka's messages (KIP-467).

The state machine returns the topic's requirements (`refusedRecords`); the bytes show which records
violate them. Source: `LogValidator.validateRecord`, `LogValidator.processRecordErrors`, and
`DefaultRecord.toString` in Kafka.
"""

from collections.abc import Iterator

from brokertwin.protocol import record_batches as records
from brokertwin.protocol.additions import RefusedRecords
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
)
from brokertwin.protocol.record_batches import NO_TIMESTAMP, RecordDeltas

SHOWN_MAX = 3
"""Maximum of records in the error message of a batch."""


def add_errors(
    partition: PartitionProduceResponse, why: RefusedRecords, has_append_time: bool, data: bytes
) -> None:
    """Add `recordErrors`, and the message of `87 INVALID_RECORD`, to a partition.

    Args:
        partition: partition of a Produce response.
        why: its `refusedRecords`.
        has_append_time: whether the producer claimed append time.
        data: the rejected batch, whose records can be decoded.
    """
    errors = list(_errors(why, has_append_time, partition.index, data))
    partition.record_errors = errors
    if partition.error_code == Error.INVALID_RECORD:
        shown = ", ".join(
            f"RecordError(batchIndex={each.batch_index},"
            f" message='{each.batch_index_error_message}')"
            for each in errors[:SHOWN_MAX]
        )
        partition.error_message = (
            f"One or more records have been rejected due to {len(errors)} record errors"
            f" in total, and only showing the first three errors at most: [{shown}]"
        )


def _errors(
    why: RefusedRecords, has_append_time: bool, partition: int, data: bytes
) -> Iterator[BatchIndexAndErrorMessage]:
    header = records.batch_headers(data)[0]
    for index, record in enumerate(records.records_of(data)):
        timestamp = header.base_timestamp + record.timestamp_delta
        if has_append_time:
            timestamp = header.max_timestamp
        text = _key_text(why, partition, record) or _time_text(
            why, has_append_time, record, timestamp
        )
        if text is not None:
            yield BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=text)


def _key_text(why: RefusedRecords, partition: int, record: RecordDeltas) -> str | None:
    if not why.is_compacted or record.key_size >= 0:
        return None
    place = f"{why.topic}-{partition}"
    return f"Compacted topic cannot accept message without key in topic partition {place}"


def _time_text(
    why: RefusedRecords, has_append_time: bool, record: RecordDeltas, timestamp: int
) -> str | None:
    if why.takes_append_time:
        if not has_append_time:
            return None
        return (
            f"Invalid timestamp type in message DefaultRecord(offset={record.offset_delta},"
            f" timestamp={timestamp}, key={max(record.key_size, 0)} bytes,"
            f" value={max(record.value_size, 0)} bytes). Producer should not set timestamp"
            " type to LogAppendTime."
        )
    now, before, after = why.now, why.before_max_ms, why.after_max_ms
    is_in_range = now - timestamp <= before and timestamp - now <= after
    if timestamp == NO_TIMESTAMP or is_in_range:
        return None
    return (
        f"Timestamp {timestamp} of message with offset {record.offset_delta} is out of range."
        f" The timestamp should be within [{_wrapped(now - before)}, {_wrapped(now + after)}]"
    )


def _wrapped(number: int) -> int:
    """Wrap a number like an overflowing Java long."""
    return (number + 2**63) % 2**64 - 2**63
