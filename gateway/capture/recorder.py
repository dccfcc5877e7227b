"""The recorder: takes documents in order, and a thread of its own writes them.

What waits to be written is bounded. Where the sink is slower than the traffic, the traffic waits,
but not for long: after `PATIENCE_S` without room documents are left out and counted until there is
room again. Where nothing can be written any more, nothing is recorded any more, and that is said.
"""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import structlog

from brokertwin.gateway.capture.sinks import Sink, SinkError

WAITING_BYTES_MAX = 64 * 1024 * 1024
PATIENCE_S = 5.0
FLUSH_S = 1.0
CLOSE_TIMEOUT_S = 90.0

_log = structlog.get_logger("brokertwin.capture")


class Recorder:
    """Writes documents to a sink. Made and used in an event loop.

    Args:
        sink: where to.
        on_trouble: called in the event loop when the first document is lost.
        waiting_bytes: how much may wait.
        patience_s: how long traffic waits for room.

    Attributes:
        taken: documents that were handed to the sink or wait for it.
        lost: documents that were not recorded, by reason.
    """

    def __init__(
        self,
        sink: Sink,
        on_trouble: Callable[[], None] = lambda: None,
        waiting_bytes: int = WAITING_BYTES_MAX,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self.taken = 0
        self.lost: Counter[str] = Counter()
        self._sink = sink
        self._on_trouble = on_trouble
        self._loop = asyncio.get_running_loop()
        self._waiting_bytes = waiting_bytes
        self._patience_s = patience_s
        self._waiting: list[bytes] = []
        self._size = 0
        self._written = 0
        self._room = asyncio.Event()
        self._room.set()
        self._has_lost_room = False
        self._is_broken = False
        self._is_closing = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._write_all, name="recorder", daemon=True)
        self._thread.start()

    async def put(self, document: bytes) -> None:
        """Take a document; waits for room, within the bounds that the module's text gives."""
        if not self._room.is_set() and not self._has_lost_room and not self._is_broken:
            try:
                await asyncio.wait_for(self._room.wait(), self._patience_s)
            except TimeoutError:
                self._has_lost_room = True
            except asyncio.CancelledError:
                self.lose("the capture ended before there was room")
                raise
        if self._is_broken:
            self.lose("nothing can be written any more")
        elif not self._room.is_set():
            self.lose(f"{self._sink.name} is too slow")
        else:
            self._has_lost_room = False
            self._append(document)

    def _append(self, document: bytes) -> None:
        self.taken += 1
        with self._changed:
            self._waiting.append(document)
            self._size += len(document)
            if self._size >= self._waiting_bytes:
                self._room.clear()
            self._changed.notify()

    def lose(self, reason: str, count: int = 1) -> None:
        """Count documents that are not recorded; the first of each reason is said."""
        is_news = not self.lost[reason]
        self.lost[reason] += count
        if is_news:
            _log.error("exchanges are not recorded", sink=self._sink.name, reason=reason)
            self._on_trouble()

    def lose_later(self, reason: str) -> None:
        """The same of one document, from another thread."""
        self._tell(self.lose, reason)

    async def close(self) -> None:
        """Write what waits, and end. What the sink does not take within 90 s is lost."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        await asyncio.to_thread(self._thread.join, CLOSE_TIMEOUT_S)
        await asyncio.sleep(0)  # what the thread has told on its way out
        if self._thread.is_alive():
            left = max(self.taken - self._written, 1)
            self.lose(f"{self._sink.name} does not take what is left", left)

    def _write_all(self) -> None:
        """The thread: write what has come, all at once, until there is nothing more to come."""
        batch: list[bytes] = []
        try:
            while batch := self._next():
                self._sink.write(batch)
                self._written += len(batch)
                self._tell(self._room.set)
            self._sink.close()
        except SinkError as error:
            self._tell(self._break, str(error), len(batch))
            with suppress(SinkError):
                self._sink.close()

    def _next(self) -> list[bytes]:
        """What has come; empty at the end. Raises SinkError."""
        while True:
            with self._changed:
                if not self._waiting and not self._is_closing:
                    self._changed.wait(FLUSH_S)
                batch, self._waiting, self._size = self._waiting, [], 0
                if batch or self._is_closing:
                    return batch
            self._sink.flush()

    def _tell(self, function: Callable[..., None], *arguments: Any) -> None:
        """Call a function in the event loop, unless that has ended without waiting for us."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, *arguments)

    def _break(self, reason: str, count: int) -> None:
        """Nothing can be written any more: `count` documents at hand, and those that wait."""
        self._is_broken = True
        self._room.set()
        self.lose(reason, max(count + len(self._waiting), 1))
        self._waiting.clear()
