"""Fingerprints of visited states, and states to be expanded: in memory, then on disk."""

import mmap
import pickle
from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from tempfile import TemporaryFile
from typing import IO, Any

MEMORY_MAX = 4_000_000
"""Fingerprints in memory, about 70 bytes each; further ones go to disk, 8 bytes each."""

FRONTIER_MAX = 60_000
"""States in memory that wait to be expanded; further ones go to disk."""

PAGE = 2_000
"""States that go to disk together."""

RUNS_MAX = 8


class Visited:
    """A set of 64-bit fingerprints; sorted runs on disk beyond `memory_max`."""

    def __init__(self, memory_max: int = MEMORY_MAX) -> None:
        self._memory_max = memory_max
        self._recent: set[int] = set()
        self._runs: list[memoryview] = []
        self._maps: list[mmap.mmap] = []
        self._files: list[IO[bytes]] = []
        self._on_disk = 0

    def __len__(self) -> int:
        return len(self._recent) + self._on_disk

    def __contains__(self, fingerprint: int) -> bool:
        if fingerprint in self._recent:
            return True
        for run in self._runs:
            at = bisect_left(run, fingerprint)
            if at < len(run) and run[at] == fingerprint:
                return True
        return False

    def add(self, fingerprint: int) -> bool:
        """Add a fingerprint; return whether it is new."""
        if fingerprint in self:
            return False
        self._recent.add(fingerprint)
        if len(self._recent) >= self._memory_max:
            self._spill()
        return True

    def everything(self) -> "array[int]":
        """Return all fingerprints, to be stored."""
        hashes = array("Q", self._recent)
        for run in self._runs:
            hashes.extend(run)
        return hashes

    def _spill(self) -> None:
        """Write the recent ones as a sorted run; merge the runs if there are many."""
        values = self.everything() if len(self._runs) >= RUNS_MAX else array("Q", self._recent)
        if len(self._runs) >= RUNS_MAX:
            self._close()
        self._on_disk = sum(map(len, self._runs)) + len(values)
        file = TemporaryFile()  # noqa: SIM115 (open as long as its map)
        array("Q", sorted(values)).tofile(file)
        file.flush()
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._files.append(file)
        self._maps.append(mapped)
        self._runs.append(memoryview(mapped).cast("Q"))
        self._recent.clear()

    def _close(self) -> None:
        for run in self._runs:
            run.release()
        for mapped in self._maps:
            mapped.close()
        for file in self._files:
            file.close()
        self._runs, self._maps, self._files = [], [], []


class Frontier:
    """Nodes to be expanded, in the order of their discovery; on disk beyond `memory_max`.

    Nodes are added before the first one is taken, or put back while they are taken. They go to disk
    in pages, because neighbours share most of their state.
    """

    def __init__(self, memory_max: int = FRONTIER_MAX) -> None:
        self._memory_max = memory_max
        self._nodes: deque[Any] = deque()
        self._page: list[Any] = []
        self._file: IO[bytes] | None = None
        self._on_disk = 0
        self._is_read = False

    def __len__(self) -> int:
        return len(self._nodes) + self._on_disk + len(self._page)

    def append(self, node: Any) -> None:
        if len(self._nodes) < self._memory_max or self._is_read:
            self._nodes.append(node)
            return
        self._page.append(node)
        if len(self._page) < min(PAGE, self._memory_max):
            return
        if self._file is None:
            self._file = TemporaryFile()  # noqa: SIM115 (open until it is read)
        pickle.dump(self._page, self._file, pickle.HIGHEST_PROTOCOL)
        self._on_disk += len(self._page)
        self._page = []

    def __iter__(self) -> Iterator[Any]:
        """Return and remove the nodes."""
        while len(self):
            if not self._nodes:
                self._nodes.extend(self._read())
            yield self._nodes.popleft()

    def _read(self) -> list[Any]:
        """Return and remove the next page."""
        if self._file is None:
            rest, self._page = self._page, []
            return rest
        if not self._is_read:
            self._file.seek(0)
            self._is_read = True
        page: list[Any] = pickle.load(self._file)
        self._on_disk -= len(page)
        if not self._on_disk:
            self._file.close()
            self._file, self._is_read = None, False
        return page
