"""A file that is read as it grows, and one that lines are added to.

Source: `FileStreamSourceTask`, `FileStreamSinkTask` in Kafka Connect. A position is in bytes, and
lies behind whole lines. (Kafka's task counts characters and skips bytes, so it loses its place in
a file that is not ASCII.)
"""

import os
from collections.abc import Iterable
from pathlib import Path

from brokertwin.clients.connect.converters import Line, lines_of

READ_BYTES = 1 << 20


class LineReader:
    """The lines of a file from a position on; a file that is not there yet has none."""

    def __init__(self, path: Path, position: int) -> None:
        self.position = position
        self._path = path
        self._fetched = b""

    def read(self, limit: int) -> list[Line]:
        """Lines that are whole by now, at most so many. Raises OSError."""
        lines = lines_of(self._fetched, limit)
        if not lines:
            self._fetch()
            lines = lines_of(self._fetched, limit)
        taken = sum(line.size for line in lines)
        self._fetched = self._fetched[taken:]
        self.position += taken
        return lines

    def _fetch(self) -> None:
        try:
            with self._path.open("rb") as file:
                file.seek(self.position + len(self._fetched))
                self._fetched += file.read(READ_BYTES)
        except FileNotFoundError:
            return


class LineWriter:
    """Adds lines to a file, which others may do as well; raises OSError."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, lines: Iterable[str]) -> None:
        """These go out as one piece."""
        data = memoryview("".join(f"{line}\n" for line in lines).encode())
        while data:
            data = data[os.write(self._file, data) :]

    def close(self) -> None:
        """Closes the file."""
        os.close(self._file)
