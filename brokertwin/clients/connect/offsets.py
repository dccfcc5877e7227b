"""Records of the offsets topic and the status topic.

Source: `OffsetStorageWriter`, `KafkaOffsetBackingStore`, `KafkaStatusBackingStore` in Kafka
Connect. Keys and values are JSON without a schema:

    ["lines",{"filename":"in.txt"}]    {"position":120}      in bytes; null: from the beginning
    status-task-lines-0                {"state":"RUNNING","trace":null,"worker_id":…,"generation":3}
"""

from enum import StrEnum

import msgspec

from brokertwin.clients.connect.config_log import Record
from brokertwin.clients.connect.file_stream import FileStream
from brokertwin.clients.connect.work import ConnectTaskId


class WorkStatus(StrEnum):
    """Status of work, by Kafka's names."""

    RUNNING = "RUNNING"
    UNASSIGNED = "UNASSIGNED"
    FAILED = "FAILED"


class _Position(msgspec.Struct):
    position: int


_decoder = msgspec.json.Decoder(_Position)


def offset_key(stream: FileStream) -> bytes:
    """Return the key of a source's position."""
    return msgspec.json.encode([stream.name, {"filename": stream.file}])


def offset_record(stream: FileStream, position: int) -> Record:
    """Return the record of a source's position in bytes."""
    return offset_key(stream), msgspec.json.encode(_Position(position))


def position_of(value: bytes | None) -> int:
    """Decode a position; None is 0. Raises ValueError."""
    return 0 if value is None else _decoder.decode(value).position


def status_record(
    item: ConnectTaskId,
    state: WorkStatus,
    *,
    worker_id: str,
    generation: int,
    trace: str | None = None,
) -> Record:
    kind = "connector" if item.is_connector else "task"
    body = {
        "state": state,
        "trace": trace,
        "worker_id": worker_id,
        "generation": generation,
    }
    return f"status-{kind}-{item}".encode(), msgspec.json.encode(body)
