"""Records in the logs of a test's broker."""

from collections.abc import Iterator
from typing import NamedTuple

from brokertwin.state.logs.producer import sequence_after


class StoredRecord(NamedTuple):
    """A record in a log; `timestamp_ms` is in ms since 1970.

    `producer_id`, `producer_epoch` and `sequence` are -1 without an idempotent producer.
    """

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    timestamp_ms: int
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    sequence: int


def records_in(topic: str, partition: int, data: bytes, start: int) -> Iterator[StoredRecord]:
    """Yield the records of a stored batch from offset `start`; none for control batches."""
    from brokertwin.testing.kafka_records import MemoryRecords  # slow to import

    batch = MemoryRecords(data).next_batch()
    if batch.is_control_batch:
        return
    for record in batch:
        if record.offset < start:
            continue
        sequence = batch.base_sequence
        if sequence >= 0:
            sequence = sequence_after(sequence, record.offset - batch.base_offset)
        yield StoredRecord(
            topic,
            partition,
            record.offset,
            record.key,
            record.value,
            list(record.headers),
            record.timestamp,
            batch.leader_epoch,
            batch.producer_id,
            batch.producer_epoch,
            sequence,
        )
