"""Batches that coordinators have written to internal topics, in the bytes that Kafka would have.

What a coordinator has decided lies in its log as its own records
(`state/replication/internal_logs.py`); here they become rows of `__consumer_offsets`,
`__transaction_state` and `__share_group_state`. What has no row there (all that a coordinator
knows, where a partition gets its first follower) is left out, as if the log cleaner had taken it.
"""

from base64 import b64decode
from collections.abc import Iterator
from typing import Any

from brokertwin.gateway.records import records
from brokertwin.gateway.records.cleaned_batches import write_varint
from brokertwin.gateway.records.records import (
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD,
    TRANSACTIONAL_FLAG,
)
from brokertwin.state.core.records import (
    OffsetCommitted,
    Record,
    TransactionalOffsetsWritten,
)
from brokertwin.state.core.share_records import ShareStateWritten
from brokertwin.state.groups import group_rows
from brokertwin.state.groups.row_bytes import Row
from brokertwin.state.replication import internal_logs
from brokertwin.state.share import state_rows
from brokertwin.state.transactions import transaction_rows

_NONE = -1
"""The size of a value that is null."""


def to_bytes(header: dict[str, Any]) -> bytes:
    """A coordinator's batch as a Fetch answer has it, with its rows in the place of its records."""
    placed = internal_logs.placed(b64decode(header["written"]), header["lastOffsetDelta"])
    now = header["baseTimestamp"]
    rows = [each for first, record in placed for each in enumerate(_rows(record, now), first)]
    found = [(delta, row) for delta, row in rows if row is not None and delta >= 0]
    packed = b"".join(_record(delta, row) for delta, row in found)
    batch = bytearray(
        HEADER.pack(
            header["baseOffset"],
            HEADER_BYTES + len(packed) - LOG_OVERHEAD,
            header["partitionLeaderEpoch"],
            header["magic"],
            0,
            TRANSACTIONAL_FLAG if header["isTransactional"] else 0,
            header["lastOffsetDelta"],
            header["baseTimestamp"],
            header["maxTimestamp"],
            header["producerId"],
            header["producerEpoch"],
            header["baseSequence"],
            len(found),
        )
    )
    batch += packed
    records.set_crc(batch)
    return bytes(batch)


def _rows(record: Record, now: int) -> Iterator[Row | None]:
    """The rows of a record written `now`, one for each offset that it takes; None: there is none.

    An offset in a transaction says no topic id, as with Kafka.
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


def _row(record: Record, now: int) -> Row | None:
    """None, too, where a name is longer than a row's strings may be, which requests allow."""
    try:
        if isinstance(record, ShareStateWritten):
            return state_rows.encode(record, now)
        return group_rows.encode(record) or transaction_rows.encode(record)
    except ValueError:
        return None


def _record(offset_delta: int, row: Row) -> bytes:
    """A record of a batch, at the time of the batch and without headers."""
    body = bytearray(b"\0\0")
    write_varint(body, offset_delta)
    for part in row:
        write_varint(body, _NONE if part is None else len(part))
        body += part or b""
    write_varint(body, 0)
    sized = bytearray()
    write_varint(sized, len(body))
    return bytes(sized + body)
