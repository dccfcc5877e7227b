"""The topic `segments`: sealed segments of the logs' batch indexes.

A thread reads the topic from its beginning and notes the position of each segment's row. Rows are
read on demand. A response may refer to a segment before its row is written, because a micro-batch
writes its rows in any order. Reads wait for the row, up to a timeout.
"""

import asyncio
import threading
from contextlib import closing
from typing import Any, NamedTuple

import msgspec
import structlog
from confluent_kafka import OFFSET_BEGINNING, KafkaException, Message, TopicPartition

from brokertwin.gateway.records.topic_rows import RowPosition, RowReader
from brokertwin.kafka_io.kafka_clients import ClientProperties
from brokertwin.kafka_io.topic_reader import consumer, is_end, partitions_of
from brokertwin.kafka_io.topics import full_name
from brokertwin.state.core.outputs import SEGMENTS, SegmentKey

CACHE_BYTES = 16 * 1024 * 1024
WAIT_S = 10.0
POLL_S = 0.25
POLL_MESSAGES = 500

_log = structlog.get_logger("brokertwin.gateway")

Body = dict[str, Any]


class _Noted(NamedTuple):
    """A row of the topic; without a value, the segment is deleted."""

    key: SegmentKey
    place: RowPosition
    value: bytes | None


class SealedSegments:
    """Reads `segments` for one cluster and one event loop.

    `wait_s`: how long to wait for a missing row.
    """

    def __init__(
        self, client: ClientProperties, prefix: str, cluster: str, wait_s: float = WAIT_S
    ) -> None:
        self._client = client
        self._topic = full_name(prefix, SEGMENTS)
        self._cluster = cluster
        self._wait_s = wait_s
        self._rows = RowReader(client, self._topic, CACHE_BYTES)
        self._places: dict[SegmentKey, RowPosition] = {}
        self._changed = asyncio.Event()
        self._is_closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._key_decoder = msgspec.json.Decoder(SegmentKey)

    async def start(self) -> None:
        """Start reading. Raises UserError: missing topic, or no response from Kafka."""
        partitions = await asyncio.to_thread(partitions_of, self._client, self._topic)
        self._loop = asyncio.get_running_loop()
        self._rows.start()
        self._thread = threading.Thread(
            target=self._follow, args=(partitions,), name=f"follow {self._topic}", daemon=True
        )
        self._thread.start()

    async def close(self) -> None:
        self._is_closed = True
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)
        await self._rows.close()

    async def segment(self, topic_id: str, partition: int, base_offset: int) -> list[Body] | None:
        """Return the batches of a sealed segment, or None after a timeout.

        Raises:
            OSError: Kafka does not respond in time.
        """
        key = SegmentKey(self._cluster, topic_id, partition, base_offset)
        try:
            async with asyncio.timeout(self._wait_s):
                while True:
                    changed = self._changed
                    data = await self._read(key)
                    if data is not None:
                        batches: list[Body] = msgspec.json.decode(data)["batches"]
                        return batches
                    await changed.wait()
        except TimeoutError:
            return None

    async def _read(self, key: SegmentKey) -> bytes | None:
        """Read a segment's row; compaction may have removed its previous position."""
        place = self._places.get(key)
        return await self._rows.read(place) if place is not None else None

    def _note(self, rows: list[_Noted]) -> None:
        for key, place, value in rows:
            if value is None:
                self._places.pop(key, None)
            else:
                self._places[key] = place
                self._rows.cache.put(place, value)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _follow(self, partitions: int) -> None:
        """Read all rows and then new ones, in the thread."""
        assert self._loop is not None
        with closing(consumer(self._client)) as reader:
            reader.assign(
                [TopicPartition(self._topic, p, OFFSET_BEGINNING) for p in range(partitions)]
            )
            while not self._is_closed:
                first = reader.poll(POLL_S)
                if first is None:
                    continue
                messages = [first, *reader.consume(POLL_MESSAGES, 0)]
                rows = [row for message in messages if (row := self._row(message)) is not None]
                if rows:
                    self._loop.call_soon_threadsafe(self._note, rows)

    def _row(self, message: Message) -> _Noted | None:
        try:
            if is_end(message):
                return None
            key = self._key_decoder.decode(message.key() or b"")
        except KafkaException as error:
            _log.warning("cannot read the topic of sealed segments", error=error.args[0].str())
            return None
        except msgspec.MsgspecError as error:
            _log.warning("invalid row of sealed segments", error=str(error))
            return None
        if key.cluster != self._cluster:
            return None
        place = RowPosition(message.partition() or 0, message.offset() or 0)
        return _Noted(key, place, message.value())
