"""Source tasks of Connect that crash, and what their topic then has."""

import threading
from collections.abc import Callable
from pathlib import Path

from brokertwin.clients.connect.file_stream import ConnectorKind, FileStream
from brokertwin.clients.connect.offsets import offset_record, position_of
from brokertwin.clients.io.connect.logs import read_whole
from brokertwin.clients.io.connect.stores import TopicStore
from brokertwin.clients.io.connect.tasks import run_exactly_once, run_source
from brokertwin.clients.io.producer import Producer


class Crash(Exception):
    """As kill -9: nothing of the task goes on."""


class CrashingStore(TopicStore):
    """The offsets topic; the task crashes when it stores for the `last` time, before or after."""

    def __init__(
        self, bootstrap: str, topic: str, last: int | None, *, before: bool, exact: bool
    ) -> None:
        super().__init__(bootstrap, topic, is_committed=exact)
        self._left = last
        self._before = before

    def store(self, producer: Producer, stream: FileStream, position: int) -> list[int]:
        if self._left is not None:
            self._left -= 1
            if self._left <= 0 and self._before:
                producer.flush(5_000)
                raise Crash
        made = super().store(producer, stream, position)
        if self._left is not None and self._left <= 0:
            producer.flush(5_000)
            raise Crash
        return made


class Copy:
    def __init__(self, bootstrap: str, directory: Path, topic: str) -> None:
        self.bootstrap = bootstrap
        self.file = directory / "in.txt"
        self.offsets = f"{topic}-offsets"
        self.stream = FileStream(
            name=topic,
            kind=ConnectorKind.SOURCE,
            file=str(self.file),
            topics=(topic,),
            batch_size=7,
            converter="string",
        )
        self._lines = 0
        self.file.touch()

    def grow(self, lines: int) -> None:
        with self.file.open("a") as file:
            for _ in range(lines):
                file.write(f"line {self._lines}\n")
                self._lines += 1

    @property
    def expected(self) -> list[str]:
        return [f"line {number}" for number in range(self._lines)]

    def found(self, *, is_committed: bool) -> list[str]:
        [topic] = self.stream.topics
        read = read_whole(self.bootstrap, topic, is_committed=is_committed)
        return [(message.value or b"").decode() for message in read]

    def position(self, *, is_committed: bool) -> int:
        key, _ = offset_record(self.stream, 0)
        read = read_whole(self.bootstrap, self.offsets, is_committed=is_committed)
        return position_of(next((m.value for m in reversed(list(read)) if m.key == key), None))

    def until_whole(self) -> Callable[[], bool]:
        """Ends a task when all lines are sent and their position is stored, or after a minute."""
        over = threading.Event()
        timer = threading.Timer(60, over.set)
        timer.daemon = True
        timer.start()
        size = self.file.stat().st_size
        return lambda: over.is_set() or self.position(is_committed=True) >= size

    def run_exact(
        self,
        is_over: Callable[[], bool],
        *,
        crash_at: int | None = None,
        before: bool = True,
        moved: Callable[[int], None] = lambda _: None,
        is_current: Callable[[], bool] = lambda: True,
    ) -> None:
        store = CrashingStore(self.bootstrap, self.offsets, crash_at, before=before, exact=True)
        name = self.stream.name
        run_exactly_once(self.bootstrap, self.stream, store, name, is_over, moved, is_current)

    def run_plain(self, is_over: Callable[[], bool], *, crash_at: int | None = None) -> None:
        store = CrashingStore(self.bootstrap, self.offsets, crash_at, before=True, exact=False)
        run_source(self.bootstrap, self.stream, store, 1, is_over, lambda _: None)
