"""Errors of single records of a rejected batch, with Kafka's messages (KIP-467).

The state machine returns the topic's requirements (`refusedRecords`); the bytes show which records
violate them. Source: `LogValidator.validateRecord`, `LogValidator.processRecordErrors`, and
`DefaultRecord.toString` in Kafka.
"""

from collections.abc import Iterator
from typing import Any

from brokertwin.protocol import record_batches as records
from brokertwin.protocol.errors import Error
from brokertwin.protocol.record_batches import NO_TIMESTAMP, RecordDeltas

SHOWN_MAX = 3
"""Maximum of records in the error message of a batch."""


def add_errors(partition: dict[str, Any], why: dict[str, Any], data: bytes) -> None:
    """Add `recordErrors`, and the message of `87 INVALID_RECORD`, to a partition.

    Args:
        partition: partition of a Produce response.
        why: its `refusedRecords`, and whether the producer claimed append time.
        data: the rejected batch, whose records can be decoded.
    """
    errors = list(_errors(why, partition["index"], data))
    if "recordErrors" in partition:
        partition["recordErrors"] = errors
    if partition["errorCode"] == Error.INVALID_RECORD and "errorMessage" in partition:
        shown = ", ".join(
            f"RecordError(batchIndex={each['batchIndex']},"
            f" message='{each['batchIndexErrorMessage']}')"
            for each in errors[:SHOWN_MAX]
        )
        partition["errorMessage"] = (
            f"One or more records have been rejected due to {len(errors)} record errors"
            f" in total, and only showing the first three errors at most: [{shown}]"
        )


def _errors(why: dict[str, Any], partition: int, data: bytes) -> Iterator[dict[str, Any]]:
    header = records.batch_headers(data)[0]
    for index, record in enumerate(records.records_of(data)):
        timestamp = header["baseTimestamp"] + record.timestamp_delta
        if why["hasAppendTime"]:
            timestamp = header["maxTimestamp"]
        text = _key_text(why, partition, record) or _time_text(why, record, timestamp)
        if text is not None:
            yield {"batchIndex": index, "batchIndexErrorMessage": text}


def _key_text(why: dict[str, Any], partition: int, record: RecordDeltas) -> str | None:
    if not why["isCompacted"] or record.key_size >= 0:
        return None
    place = f"{why['topic']}-{partition}"
    return f"Compacted topic cannot accept message without key in topic partition {place}"


def _time_text(why: dict[str, Any], record: RecordDeltas, timestamp: int) -> str | None:
    if why["takesAppendTime"]:
        if not why["hasAppendTime"]:
            return None
        return (
            f"Invalid timestamp type in message DefaultRecord(offset={record.offset_delta},"
            f" timestamp={timestamp}, key={max(record.key_size, 0)} bytes,"
            f" value={max(record.value_size, 0)} bytes). Producer should not set timestamp"
            " type to LogAppendTime."
        )
    now, before, after = why["now"], why["beforeMaxMs"], why["afterMaxMs"]
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
