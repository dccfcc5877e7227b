"""The topic `data`: bytes of record batches in Kafka, one row for each batch.

The bytes are written before the event, which has their locator: partition, offset and size. Several
gateways write to the topic, and each reads all rows. Rows have neither key nor `id`. A duplicate
row is harmless because only locators refer to rows.
"""

import asyncio
import errno
import threading
from functools import partial

import structlog
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from brokertwin.gateway.records.topic_rows import RowPosition, RowReader
from brokertwin.kafka_io.kafka_clients import ClientProperties
from brokertwin.kafka_io.locators import Locator
from brokertwin.kafka_io.topic_reader import partitions_of
from brokertwin.kafka_io.topics import (
    DATA,
    DATA_BYTES_MAX,
    RECORD_OVERHEAD_BYTES,
    full_name,
    writer_configuration,
)
from brokertwin.sinks.topic_writer import reason_of

CACHE_BYTES = 64 * 1024 * 1024
PUT_TIMEOUT_MS = 30_000
POLL_S = 0.1
FULL_WAIT_S = 0.01

_log = structlog.get_logger("brokertwin.gateway")


class DataTopic:
    """Stores the bytes of batches in Kafka, for one event loop.

    Args:
        cache_bytes: size of the cache of recently written and read rows.
    """

    def __init__(
        self, client: ClientProperties, prefix: str, cache_bytes: int = CACHE_BYTES
    ) -> None:
        self._client = client
        self._topic = full_name(prefix, DATA)
        self._rows = RowReader(client, self._topic, cache_bytes)
        self._writer: _DataProducer | None = None

    async def start(self) -> None:
        """Start. Raises UserError if the topic does not exist or Kafka does not respond."""
        await asyncio.to_thread(partitions_of, self._client, self._topic)
        self._rows.start()
        self._writer = _DataProducer(self._client, self._topic)

    async def put(self, data: bytes) -> str:
        """Write the bytes of a batch; return their locator after all in-sync replicas have them.

        Raises:
            OSError: a timeout, or a batch above Kafka's size limit.
        """
        writer = self._writer
        assert writer is not None, "start() comes first"
        if len(data) > DATA_BYTES_MAX:
            raise OSError(errno.EMSGSIZE, f"a batch of {len(data)} bytes")
        try:
            place = await writer.write(data)
        except KafkaException as failure:
            error = failure.args[0]
            if error.fatal() and writer is self._writer:
                _log.error("replacing a failed producer", error=error.str())
                self._writer = _DataProducer(self._client, self._topic)
                writer.end()
            raise OSError(f"cannot write to {self._topic}: {reason_of(error)}") from None
        self._rows.cache.put(place, data)
        return str(Locator(*place, len(data)))

    async def get(self, locator: str) -> bytes | None:
        """Return the bytes at a locator, or None if they are lost or deleted.

        Raises:
            OSError: Kafka does not respond in time.
        """
        found = Locator.of(locator)
        if found is None:
            return None
        data = await self._rows.read(RowPosition(found.partition, found.offset))
        return data if data is not None and len(data) == found.size else None

    async def close(self) -> None:
        if self._writer is not None:
            self._writer.end()
            await self._writer.ended()
        await self._rows.close()


class _DataProducer:
    """A producer and the thread that polls its delivery reports."""

    def __init__(self, client: ClientProperties, topic: str) -> None:
        self._producer = Producer(
            {
                **writer_configuration(client),
                "linger.ms": 0,
                "message.max.bytes": DATA_BYTES_MAX + RECORD_OVERHEAD_BYTES,
                "message.timeout.ms": PUT_TIMEOUT_MS,
            }
        )
        self._topic = topic
        self._loop = asyncio.get_running_loop()
        self._is_ended = False
        self._thread = threading.Thread(target=self._serve, name=f"write {topic}", daemon=True)
        self._thread.start()

    async def write(self, data: bytes) -> RowPosition:
        """Write a row, after waiting for queue space. Raises KafkaException."""
        future: asyncio.Future[RowPosition] = self._loop.create_future()
        delivered = partial(self._delivered, future)
        while True:
            try:
                self._producer.produce(self._topic, value=data, on_delivery=delivered)
            except BufferError:
                await asyncio.sleep(FULL_WAIT_S)
            else:
                return await future

    def end(self) -> None:
        """Accept no more rows; the thread ends after the last delivery report."""
        self._is_ended = True

    async def ended(self) -> None:
        await asyncio.to_thread(self._thread.join)

    def _serve(self) -> None:
        while not self._is_ended or len(self._producer):
            self._producer.poll(POLL_S)

    def _delivered(
        self, future: "asyncio.Future[RowPosition]", error: KafkaError | None, message: Message
    ) -> None:
        place = RowPosition(message.partition() or 0, message.offset() or 0)
        self._loop.call_soon_threadsafe(_settle, future, error, place)


def _settle(
    future: "asyncio.Future[RowPosition]", error: KafkaError | None, place: RowPosition
) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(place)
    else:
        future.set_exception(KafkaException(error))
