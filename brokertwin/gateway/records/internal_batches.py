"""Kafka's bytes of batches that coordinators have written to internal topics.

A coordinator's log contains its own records (`state/replication/internal_logs.py`). Here they
become rows of `__consumer_offsets`, `__transaction_state` and `__share_group_state`. Records
without a row there are omitted, as if compaction had removed them.
"""

from collections.abc import Iterator

from brokertwin.protocol import record_batches as records
from brokertwin.protocol.additions import FetchedBatch
from brokertwin.protocol.batch_headers import Batch
from brokertwin.protocol.primitives import write_varint
from brokertwin.protocol.rows import Encoded
from brokertwin.state.core.records import OffsetCommitted, Record, TransactionalOffsetsWritten
from brokertwin.state.core.share_records import ShareStateWritten
from brokertwin.state.groups import group_rows
from brokertwin.state.replication import internal_logs
from brokertwin.state.share import state_rows
from brokertwin.state.transactions import transaction_rows

_NONE = -1
"""Size of a null value."""


def own_bytes(header: Batch | FetchedBatch) -> bytes | None:
    """Encode a batch that a coordinator has written; None for a client's batch."""
    if header.written:
        return to_bytes(header)
    if header.packed:
        times = header.base_timestamp, header.max_timestamp
        return records.encoded(header, 0, *times, header.record_count, header.packed)
    return None


def to_bytes(header: Batch | FetchedBatch) -> bytes:
    """Encode a coordinator's batch from its header in a Fetch response."""
    assert header.written is not None, "not a coordinator's batch"
    placed = internal_logs.placed(header.written, header.last_offset_delta)
    now = header.base_timestamp
    rows = [each for first, record in placed for each in enumerate(_rows(record, now), first)]
    written = [(delta, row) for delta, row in rows if row is not None and delta >= 0]
    packed = b"".join(_record(delta, row) for delta, row in written)
    flags = records.TRANSACTIONAL_FLAG if header.is_transactional else 0
    return records.encoded(header, flags, now, header.max_timestamp, len(written), packed)


def _rows(record: Record, now: int) -> Iterator[Encoded | None]:
    """Yield a row, or None, for each offset of a record written at `now`.

    As in Kafka, an offset in a transaction has no topic id.
    """
    if not isinstance(record, TransactionalOffsetsWritten):
        yield _row(record, now)
        return
    for each in record.offsets:
        yield _row(
            OffsetCommitted(
                record.group_id,
                each.topic,
                each.partition,
                each.offset,
                each.leader_epoch,
                each.metadata,
                record.commit_timestamp,
            ),
            now,
        )


def _row(record: Record, now: int) -> Encoded | None:
    """Encode a row; None if it has no row, or if a name exceeds the limit of strings."""
    try:
        if isinstance(record, ShareStateWritten):
            return state_rows.encode(record, now)
        return group_rows.encode(record) or transaction_rows.encode(record)
    except ValueError:
        return None


def _record(offset_delta: int, row: Encoded) -> bytes:
    """Encode a record with the batch's timestamp and without headers."""
    body = bytearray(b"\0\0")
    write_varint(body, offset_delta)
    for part in row:
        write_varint(body, _NONE if part is None else len(part))
        body += part or b""
    write_varint(body, 0)
    sized = bytearray()
    write_varint(sized, len(body))
    return bytes(sized + body)
