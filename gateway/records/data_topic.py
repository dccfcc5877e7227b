"""The topic `data`: the bytes of record batches in the real Kafka, one row for each batch.

A batch's bytes are written before its event, and the event names them by a locator: partition,
offset and size. Several gateways write to the topic and each reads what all have written. Rows have
no key and no `id`: only locators lead to them, so a row that was written twice harms nobody.
"""

import asyncio
import errno
import threading
from functools import partial

import structlog
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from brokertwin.gateway.records.topic_rows import Place, RowReader
from brokertwin.kafka_io.kafka_clients import ClientProperties
from brokertwin.kafka_io.locators import Locator
from brokertwin.kafka_io.topic_reader import partitions_of
from brokertwin.kafka_io.topic_writer import reason_of
from brokertwin.kafka_io.topics import (
    DATA,
    DATA_BYTES_MAX,
    RECORD_OVERHEAD_BYTES,
    full_name,
    writer_configuration,
)

CACHE_BYTES = 64 * 1024 * 1024
PUT_TIMEOUT_MS = 30_000
POLL_S = 0.1
FULL_WAIT_S = 0.01

_log = structlog.get_logger("brokertwin.gateway")


class DataTopic:
    """Keeps the bytes of batches in Kafka, for one event loop.

    Args:
        client: how to reach Kafka.
        prefix: what the names of the job's topics begin with.
        cache_bytes: how much of what was just written or read is kept in memory.
    """

    def __init__(
        self, client: ClientProperties, prefix: str, cache_bytes: int = CACHE_BYTES
    ) -> None:
        self._client = client
        self._topic = full_name(prefix, DATA)
        self._rows = RowReader(client, self._topic, cache_bytes)
        self._writer: _Writer | None = None

    async def start(self) -> None:
        """Get ready. Raises UserError where there is no such topic or Kafka does not answer."""
        await asyncio.to_thread(partitions_of, self._client, self._topic)
        self._rows.start()
        self._writer = _Writer(self._client, self._topic)

    async def put(self, data: bytes) -> str:
        """Keep the bytes of a batch; gives back their locator when all in-sync replicas have them.

        Raises:
            OSError: Kafka did not take them in time, or they are too large for it.
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
                self._writer = _Writer(self._client, self._topic)
                writer.end()
            raise OSError(f"cannot write to {self._topic}: {reason_of(error)}") from None
        self._rows.cache.put(place, data)
        return str(Locator(*place, len(data)))

    async def get(self, locator: str) -> bytes | None:
        """The bytes at a locator, None where they are lost or deleted.

        Raises:
            OSError: Kafka does not answer in time.
        """
        found = Locator.of(locator)
        if found is None:
            return None
        data = await self._rows.read(Place(found.partition, found.offset))
        return data if data is not None and len(data) == found.size else None

    async def close(self) -> None:
        """Wait for what is being written, then end."""
        if self._writer is not None:
            self._writer.end()
            await self._writer.ended()
        await self._rows.close()


class _Writer:
    """A producer, and the thread that waits for what Kafka says of its rows."""

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

    async def write(self, data: bytes) -> Place:
        """Write a row; waits for room first. Raises KafkaException."""
        future: asyncio.Future[Place] = self._loop.create_future()
        delivered = partial(self._delivered, future)
        while True:
            try:
                self._producer.produce(self._topic, value=data, on_delivery=delivered)
            except BufferError:
                await asyncio.sleep(FULL_WAIT_S)
            else:
                return await future

    def end(self) -> None:
        """Take nothing more; the thread ends when everything has been told."""
        self._is_ended = True

    async def ended(self) -> None:
        """Wait for the thread."""
        await asyncio.to_thread(self._thread.join)

    def _serve(self) -> None:
        while not self._is_ended or len(self._producer):
            self._producer.poll(POLL_S)

    def _delivered(
        self, future: "asyncio.Future[Place]", error: KafkaError | None, message: Message
    ) -> None:
        place = Place(message.partition() or 0, message.offset() or 0)
        self._loop.call_soon_threadsafe(_settle, future, error, place)


def _settle(future: "asyncio.Future[Place]", error: KafkaError | None, place: Place) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(place)
    else:
        future.set_exception(KafkaException(error))
