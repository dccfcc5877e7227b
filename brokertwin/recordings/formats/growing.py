"""Files that grow while they are read, as `tail -F` follows them.

A file that was renamed is read to its end; then the new file of its name is read. Compressed files
and those in UTF-16 do not grow, and are read once.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from brokertwin import unpacked
from brokertwin.errors import UserError
from brokertwin.recordings.formats.documents import Document
from brokertwin.recordings.formats.lines import SourceLine, lines_of, names_of
from brokertwin.recordings.formats.order import Seen
from brokertwin.recordings.formats.pipeline import FileReading, LogFile
from brokertwin.recordings.formats.summary import Summary


class GrowingFiles:
    """Files that are read from where they were left.

    Args:
        paths: the files.
        reading: how logs are read.

    Raises:
        UserError: a file cannot be read.
    """

    def __init__(self, paths: Sequence[Path], reading: FileReading) -> None:
        self._seen = Seen()
        self._files = [
            _GrowingFile(path, name, reading, len(paths) > 1)
            for path, name in zip(paths, names_of(paths), strict=True)
        ]

    def read(self, summary: Summary) -> Iterator[Document]:
        """Yield the documents of the lines since the last call.

        Raises:
            UserError: the broker of a line is unknown.
        """
        for each in self._files:
            yield from each.read(summary, self._seen)


class _GrowingFile:
    def __init__(self, path: Path, name: str, reading: FileReading, is_qualified: bool) -> None:
        self._path, self._name = path, name
        self._reading, self._is_qualified = reading, is_qualified
        self._parts = 0
        self._open()

    def _open(self) -> None:
        """Begin a file; those after the first one of a path have a number in their names."""
        self._parts += 1
        name = self._name if self._parts == 1 else f"{self._name}#{self._parts}"
        try:
            self._file = unpacked.buffered(self._path.open("rb"))
            _, stream = next(unpacked.members(self._file, lambda: None))
        except unpacked.ERRORS as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise UserError(f"{self._path} cannot be read: {reason}.") from None
        self._count = 0
        self._whole = lines_of(self._path, name) if stream is not self._file else None
        self._log = LogFile(self._path, name, self._reading, self._is_qualified)
        self._source = name

    def read(self, summary: Summary, seen: Seen) -> Iterator[Document]:
        if self._whole is not None:
            yield from self._log.documents(self._whole, summary, seen)
            return
        is_replaced = True
        while is_replaced:
            is_replaced = self._is_replaced()
            yield from self._log.documents(self._lines(), summary, seen, is_whole=is_replaced)
            if is_replaced:
                self._file.close()
                self._open()

    def _is_replaced(self) -> bool:
        """Return whether the path names another file, or this one was emptied."""
        try:
            now, own = self._path.stat(), os.fstat(self._file.fileno())
        except OSError:
            return False  # it was renamed, and the next one is not there yet
        return not os.path.samestat(now, own) or now.st_size < self._file.tell()

    def _lines(self) -> Iterator[SourceLine]:
        """Yield the new lines that are complete and not empty."""
        for text in unpacked.lines(self._file):
            if not text.endswith(b"\n"):
                self._file.seek(-len(text), os.SEEK_CUR)
                return
            self._count += 1
            if text.strip():
                yield SourceLine(self._source, self._count, text)
