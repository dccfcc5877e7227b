"""The recorder: takes documents in order; its thread writes them.

The queue is bounded. If the sink is slower than the traffic, the traffic waits up to `PATIENCE_S`;
then documents are dropped and counted until there is room. After a failed write nothing more is
recorded, and an error is logged.
"""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import structlog

from brokertwin.errors import UserError
from brokertwin.gateway.capture.sinks import CaptureSink, SinkError
from brokertwin.wording import counted

WAITING_BYTES_MAX = 64 * 1024 * 1024
PATIENCE_S = 5.0
FLUSH_S = 1.0
CLOSE_TIMEOUT_S = 90.0

_log = structlog.get_logger("brokertwin.capture")


class Recorder:
    """Writes documents to a sink. Created and used in an event loop.

    Documents wait in the queue until `start`, which empties a former recording: call it when
    nothing else can prevent the capture.

    Args:
        on_trouble: called in the event loop when the first document is lost.
        waiting_bytes: size of the queue.
        patience_s: how long traffic waits for room.

    Attributes:
        taken: documents written or queued.
        lost: documents that were not recorded, by reason.
    """

    def __init__(
        self,
        sink: CaptureSink,
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
        self._failure = ""
        self._is_closing = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._write_all, name="recorder", daemon=True)

    def start(self) -> None:
        """Open the sink and write to it. Raises UserError."""
        self._sink.open()
        self._thread.start()

    async def put(self, document: bytes) -> None:
        """Queue a document; wait for room up to the patience."""
        if not self._room.is_set() and not self._has_lost_room and not self._failure:
            try:
                await asyncio.wait_for(self._room.wait(), self._patience_s)
            except TimeoutError:
                self._has_lost_room = True
            except asyncio.CancelledError:
                self.lose("the capture ended before there was room")
                raise
        if self._failure:
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
        """Count lost documents; log the first of each reason."""
        is_news = not self.lost[reason]
        self.lost[reason] += count
        if is_news:
            _log.error("exchanges are not recorded", sink=self._sink.name, reason=reason)
            self._on_trouble()

    def raise_failure(self) -> None:
        if self._failure:
            lost = counted(sum(self.lost.values()), "exchange")
            raise UserError(
                f"Cannot write to {self._sink.name}: {self._failure}.", f"{lost} not recorded."
            )

    def lose_later(self, reason: str) -> None:
        """Same as `lose` for one document, from another thread."""
        self._call_soon(self.lose, reason)

    async def close(self) -> None:
        """Write the queue and end. Documents that the sink does not accept within 90 s are lost."""
        if self._thread.ident is None:
            return  # not started
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        await asyncio.to_thread(self._thread.join, CLOSE_TIMEOUT_S)
        await asyncio.sleep(0)  # run the thread's last callbacks
        if self._thread.is_alive():
            left = max(self.taken - self._written, 1)
            self.lose(f"{self._sink.name} does not accept the remaining documents", left)

    def _write_all(self) -> None:
        """Write queued documents in batches until the recorder closes."""
        batch: list[bytes] = []
        try:
            while batch := self._next():
                self._sink.write(batch)
                self._written += len(batch)
                self._call_soon(self._room.set)
            self._sink.close()
        except SinkError as error:
            self._call_soon(self._break, str(error), len(batch))
            with suppress(SinkError):
                self._sink.close()

    def _next(self) -> list[bytes]:
        """Return queued documents; empty at the end. Raises SinkError."""
        while True:
            with self._changed:
                if not self._waiting and not self._is_closing:
                    self._changed.wait(FLUSH_S)
                batch, self._waiting, self._size = self._waiting, [], 0
                if batch or self._is_closing:
                    return batch
            self._sink.flush()

    def _call_soon(self, function: Callable[..., None], *arguments: Any) -> None:
        """Call a function in the event loop, unless it is closed."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, *arguments)

    def _break(self, reason: str, count: int) -> None:
        """Stop recording after a failed write; `count` documents were at hand."""
        self._failure = reason
        self._room.set()
        self.lose(reason, max(count + len(self._waiting), 1))
        self._waiting.clear()
