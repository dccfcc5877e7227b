"""Storage of source positions: a file (standalone), or the offsets topic.

Source: `FileOffsetBackingStore`, `KafkaOffsetBackingStore`, `ConnectorOffsetBackingStore` in Kafka
Connect. The file has a JSON line for each source; Kafka's has a Java object.
"""

import threading
from pathlib import Path
from typing import Protocol

import msgspec

from brokertwin.clients.connect.file_stream import FileStream
from brokertwin.clients.connect.offsets import offset_key, offset_record, position_of
from brokertwin.clients.io.connect.logs import read_whole
from brokertwin.clients.io.producer import Producer
from brokertwin.clients.io.security import Kafka
from brokertwin.clients.messages import ProducerRecord


class Store(Protocol):
    def position(self, stream: FileStream) -> int:
        """Return the position of a source."""

    def store(self, producer: Producer, stream: FileStream, position: int) -> list[int]:
        """Store a position; returns ids of records to be acknowledged."""


class OffsetFileStore:
    """Positions in a file; thread-safe."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._kept: dict[str, str] = {}
        if path.exists():
            lines = path.read_bytes().splitlines()
            self._kept = dict(msgspec.json.decode(line, type=tuple[str, str]) for line in lines)

    def position(self, stream: FileStream) -> int:
        kept = self._kept.get(offset_key(stream).decode())
        return position_of(None if kept is None else kept.encode())

    def store(self, producer: Producer, stream: FileStream, position: int) -> list[int]:
        key, value = offset_record(stream, position)
        with self._lock:
            self._kept[key.decode()] = (value or b"").decode()
            made = b"".join(msgspec.json.encode(each) + b"\n" for each in self._kept.items())
            beside = self._path.with_name(f"{self._path.name}.new")
            beside.write_bytes(made)
            beside.replace(self._path)
        return []


class TopicStore:
    """Positions in a compacted topic; `is_committed` reads committed only."""

    def __init__(self, kafka: Kafka, topic: str, *, is_committed: bool) -> None:
        self._kafka = kafka
        self._topic = topic
        self._is_committed = is_committed

    def position(self, stream: FileStream) -> int:
        key, value = offset_key(stream), None
        for message in read_whole(self._kafka, self._topic, is_committed=self._is_committed):
            if message.key == key:
                value = message.value
        return position_of(value)

    def store(self, producer: Producer, stream: FileStream, position: int) -> list[int]:
        return [producer.send(self._topic, ProducerRecord(*offset_record(stream, position)))]
