"""Single rows of a topic by their place, with a cache of those that were just written or read.

A thread of its own has the consumer. It works in rounds: all that is asked for meanwhile, of each
partition a run of offsets that lie close together, is read in one go. What comes with it goes to
the cache, too: who reads a row mostly wants those behind it next.
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
"""Rows that one round may pass over to reach one that is asked for."""

_CONFIGURATION = {
    "auto.offset.reset": "error",
    "check.crcs": True,
    "fetch.wait.max.ms": 0,
    "queued.max.messages.kbytes": 4096,
    "receive.message.max.bytes": 200 * 1024 * 1024,
}
"""A fetch that waits at a partition's end would hold up the next read by that time. A row larger
than the fetch size comes whole (KIP-74), if the answer may be that large."""


class Place(NamedTuple):
    """Where a row lies."""

    partition: int
    offset: int


Found = tuple[Place, bytes | None]
"""A row's value; None where there is no such row (any more)."""


class RowCache:
    """Values by place; those not used for longest go first.

    Args:
        bytes_max: what all values together may have; a larger one is not kept.
    """

    def __init__(self, bytes_max: int) -> None:
        self.size_in_bytes = 0
        self._bytes_max = bytes_max
        self._values: OrderedDict[Place, bytes] = OrderedDict()

    def get(self, place: Place) -> bytes | None:
        """The value at a place, None where it is not here."""
        value = self._values.get(place)
        if value is not None:
            self._values.move_to_end(place)
        return value

    def put(self, place: Place, value: bytes) -> None:
        """Keep a value as long as there is room."""
        if len(value) > self._bytes_max or place in self._values:
            return
        self._values[place] = value
        self.size_in_bytes += len(value)
        while self.size_in_bytes > self._bytes_max:
            _, dropped = self._values.popitem(last=False)
            self.size_in_bytes -= len(dropped)


class RowReader:
    """Reads rows of a topic by place, for one event loop.

    Args:
        client: how to reach Kafka.
        topic: its full name.
        cache_bytes: the size of the cache.
        timeout_s: how long a read may take.
    """

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
        self._wanted: dict[Place, asyncio.Future[bytes | None]] = {}
        self._asked: SimpleQueue[Place | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name=f"read {topic}", daemon=True)
        self._is_closed = False
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Start the thread; comes before the first read."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    async def read(self, place: Place) -> bytes | None:
        """A row's value, None where there is no such row (any more).

        Raises:
            OSError: Kafka does not answer in time.
        """
        value = self.cache.get(place)
        if value is not None:
            return value
        future = self._wanted.get(place)
        if future is None:
            assert self._loop is not None, "start() comes first"
            future = self._wanted[place] = self._loop.create_future()
            future.add_done_callback(lambda done: done.cancelled() or done.exception())
            self._asked.put(place)
        return await asyncio.shield(future)

    async def close(self) -> None:
        """End the thread; reads that still wait fail."""
        self._is_closed = True
        if self._loop is None:
            return
        self._asked.put(None)
        await asyncio.to_thread(self._thread.join)
        self._fail(list(self._wanted), "closed")

    def _settle(self, rows: list[Found]) -> None:
        for place, value in rows:
            if value is not None:
                self.cache.put(place, value)
            future = self._wanted.pop(place, None)
            if future is not None and not future.done():
                future.set_result(value)

    def _fail(self, places: Iterable[Place], reason: str) -> None:
        for place in places:
            future = self._wanted.pop(place, None)
            if future is not None and not future.done():
                future.set_exception(OSError(f"cannot read {self._topic}: {reason}"))

    def _serve(self) -> None:
        """The thread: rounds, until it is told to end."""
        assert self._loop is not None
        pending: dict[Place, float] = {}
        reason = "no answer"
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

    def _take(self, pending: dict[Place, float]) -> bool:
        """Add what is asked for; waits where nothing is. False at the end."""
        is_idle = not pending
        while not self._is_closed:
            try:
                place = self._asked.get(block=is_idle)
            except Empty:
                return True
            if place is None:
                return False
            pending[place] = time.monotonic() + self._timeout_s
            is_idle = False
        return False

    def _round(self, reader: Consumer, pending: dict[Place, float]) -> str:
        """Read a run of each partition; what is settled leaves `pending`. Gives back an error."""
        assert self._loop is not None
        runs = dict(_runs(pending))
        reader.assign([TopicPartition(self._topic, p, run[0]) for p, run in runs.items()])
        until = min(pending.values(), default=0.0)
        reason = ""
        while runs and not self._is_closed:
            first = reader.poll(POLL_S)
            if first is None and (self._asked.qsize() or time.monotonic() > until):
                break  # others need not wait for a partition that does not answer
            rows: list[Found] = []
            for message in [*filter(None, [first]), *reader.consume(ROWS_AHEAD, 0)]:
                reason = _note(message, runs, rows) or reason
            for place, _ in rows:
                pending.pop(place, None)
            self._loop.call_soon_threadsafe(self._settle, rows)
        reader.unassign()
        return reason


def _runs(places: Iterable[Place]) -> Iterator[tuple[int, deque[int]]]:
    """For each partition the least offset that is asked for and those close behind it."""
    by_partition: dict[int, list[int]] = {}
    for place in places:
        by_partition.setdefault(place.partition, []).append(place.offset)
    for partition, offsets in by_partition.items():
        end = min(offsets) + ROWS_AHEAD
        yield partition, deque(sorted(offset for offset in offsets if offset < end))


def _note(message: Message, runs: dict[int, deque[int]], rows: list[Found]) -> str:
    """Take a message's row, and what it tells of rows that are gone. Gives back an error."""
    error = message.error()
    partition, offset = message.partition(), message.offset()
    run = runs.get(partition if partition is not None else -1)
    if error is None:
        assert partition is not None and offset is not None
        rows.append((Place(partition, offset), message.value()))
        while run and run[0] <= offset:
            passed = run.popleft()
            if passed < offset:
                rows.append((Place(partition, passed), None))
    elif run and partition is not None and error.code() == KafkaError._PARTITION_EOF:
        rows += [(Place(partition, beyond), None) for beyond in run]
        run.clear()
    elif run and partition is not None and error.code() == KafkaError._AUTO_OFFSET_RESET:
        rows.append((Place(partition, run[0]), None))
        run.clear()  # those behind it may be there: the next round tells
    else:
        return error.str()
    if not run and partition is not None:
        runs.pop(partition, None)
    return ""
