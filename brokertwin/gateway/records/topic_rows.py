"""Reads of single rows of a topic by position, with a cache.

A thread has the consumer and works in rounds. A round reads, for each partition, a run of requested
offsets that are close together. All rows of the run are cached because readers usually continue
with the following rows.
"""

import asyncio
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from contextlib import closing
from queue import Empty, SimpleQueue
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from brokertwin.kafka_io.kafka_clients import ClientProperties
from brokertwin.kafka_io.topic_reader import consumer

READ_TIMEOUT_S = 10.0
POLL_S = 0.25
ROWS_AHEAD = 500
"""Maximum of rows that a round skips to reach a requested one."""

_CONFIGURATION = {
    "auto.offset.reset": "error",
    "check.crcs": True,
    "fetch.wait.max.ms": 0,
    "queued.max.messages.kbytes": 4096,
    "receive.message.max.bytes": 200 * 1024 * 1024,
}
"""A fetch that waits at a partition's end would delay the next read by that time.

A row above the fetch size arrives complete (KIP-74) if the response may be that large.
"""


class RowPosition(NamedTuple):
    partition: int
    offset: int


Found = tuple[RowPosition, bytes | None]
"""A row's value; None if the row does not exist (any more)."""


class RowCache:
    """Values by position; least recently used ones are evicted.

    Args:
        bytes_max: maximum of all values together; a larger value is not cached.
    """

    def __init__(self, bytes_max: int) -> None:
        self.size_in_bytes = 0
        self._bytes_max = bytes_max
        self._values: OrderedDict[RowPosition, bytes] = OrderedDict()

    def get(self, place: RowPosition) -> bytes | None:
        value = self._values.get(place)
        if value is not None:
            self._values.move_to_end(place)
        return value

    def put(self, place: RowPosition, value: bytes) -> None:
        """Add a value and evict others as necessary."""
        if len(value) > self._bytes_max or place in self._values:
            return
        self._values[place] = value
        self.size_in_bytes += len(value)
        while self.size_in_bytes > self._bytes_max:
            _, dropped = self._values.popitem(last=False)
            self.size_in_bytes -= len(dropped)


class RowReader:
    """Reads rows of a topic by position, for one event loop."""

    def __init__(
        self,
        client: ClientProperties,
        topic: str,
        cache_bytes: int,
        timeout_s: float = READ_TIMEOUT_S,
    ) -> None:
        self.cache = RowCache(cache_bytes)
        self._client = client
        self._topic = topic
        self._timeout_s = timeout_s
        self._wanted: dict[RowPosition, asyncio.Future[bytes | None]] = {}
        self._requests: SimpleQueue[RowPosition | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name=f"read {topic}", daemon=True)
        self._is_closed = False
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    async def read(self, place: RowPosition) -> bytes | None:
        """Return a row's value, or None if the row does not exist (any more).

        Raises:
            OSError: Kafka does not respond in time.
        """
        value = self.cache.get(place)
        if value is not None:
            return value
        future = self._wanted.get(place)
        if future is None:
            assert self._loop is not None, "start() comes first"
            future = self._wanted[place] = self._loop.create_future()
            future.add_done_callback(lambda done: done.cancelled() or done.exception())
            self._requests.put(place)
        return await asyncio.shield(future)

    async def close(self) -> None:
        """End the thread; pending reads fail."""
        self._is_closed = True
        if self._loop is None:
            return
        self._requests.put(None)
        await asyncio.to_thread(self._thread.join)
        self._fail(list(self._wanted), "closed")

    def _settle(self, rows: list[Found]) -> None:
        for place, value in rows:
            if value is not None:
                self.cache.put(place, value)
            future = self._wanted.pop(place, None)
            if future is not None and not future.done():
                future.set_result(value)

    def _fail(self, places: Iterable[RowPosition], reason: str) -> None:
        for place in places:
            future = self._wanted.pop(place, None)
            if future is not None and not future.done():
                future.set_exception(OSError(f"cannot read {self._topic}: {reason}"))

    def _serve(self) -> None:
        """Run rounds until closed, in the thread."""
        assert self._loop is not None
        pending: dict[RowPosition, float] = {}
        reason = "no response"
        with closing(consumer(self._client, _CONFIGURATION)) as reader:
            while self._take(pending):
                late = [place for place, until in pending.items() if until < time.monotonic()]
                for place in late:
                    del pending[place]
                if late:
                    self._loop.call_soon_threadsafe(self._fail, late, reason)
                try:
                    reason = self._round(reader, pending) or reason
                except KafkaException as error:
                    reason = error.args[0].str()
                    time.sleep(POLL_S)

    def _take(self, pending: dict[RowPosition, float]) -> bool:
        """Add new requests; block if none are pending. Returns False at the end."""
        is_idle = not pending
        while not self._is_closed:
            try:
                place = self._requests.get(block=is_idle)
            except Empty:
                return True
            if place is None:
                return False
            pending[place] = time.monotonic() + self._timeout_s
            is_idle = False
        return False

    def _round(self, reader: Consumer, pending: dict[RowPosition, float]) -> str:
        """Read a run of each partition; remove settled rows from `pending`. Returns an error."""
        assert self._loop is not None
        runs = dict(_runs(pending))
        reader.assign([TopicPartition(self._topic, p, run[0]) for p, run in runs.items()])
        until = min(pending.values(), default=0.0)
        reason = ""
        while runs and not self._is_closed:
            first = reader.poll(POLL_S)
            if first is None and (self._requests.qsize() or time.monotonic() > until):
                break  # an unresponsive partition must not delay the others
            rows: list[Found] = []
            for message in [*filter(None, [first]), *reader.consume(ROWS_AHEAD, 0)]:
                reason = _note(message, runs, rows) or reason
            for place, _ in rows:
                pending.pop(place, None)
            self._loop.call_soon_threadsafe(self._settle, rows)
        reader.unassign()
        return reason


def _runs(places: Iterable[RowPosition]) -> Iterator[tuple[int, deque[int]]]:
    """Yield for each partition the lowest requested offset and those close after it."""
    by_partition: dict[int, list[int]] = {}
    for place in places:
        by_partition.setdefault(place.partition, []).append(place.offset)
    for partition, offsets in by_partition.items():
        end = min(offsets) + ROWS_AHEAD
        yield partition, deque(sorted(offset for offset in offsets if offset < end))


def _note(message: Message, runs: dict[int, deque[int]], rows: list[Found]) -> str:
    """Note a message's row, and rows that it proves deleted. Returns an error."""
    error = message.error()
    partition, offset = message.partition(), message.offset()
    run = runs.get(partition if partition is not None else -1)
    if error is None:
        assert partition is not None and offset is not None
        rows.append((RowPosition(partition, offset), message.value()))
        while run and run[0] <= offset:
            passed = run.popleft()
            if passed < offset:
                rows.append((RowPosition(partition, passed), None))
    elif run and partition is not None and error.code() == KafkaError._PARTITION_EOF:
        rows += [(RowPosition(partition, beyond), None) for beyond in run]
        run.clear()
    elif run and partition is not None and error.code() == KafkaError._AUTO_OFFSET_RESET:
        rows.append((RowPosition(partition, run[0]), None))
        run.clear()  # later rows may exist; the next round finds out
    else:
        return error.str()
    if not run and partition is not None:
        runs.pop(partition, None)
    return ""
