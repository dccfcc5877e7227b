"""The journal of the local engine: its events, one on a line, read again at the next start.

A line is the CRC-32 of a JSON document in eight hexadecimal digits, a space, the document. Besides
events there are lines of settings: those under which the events that follow were decided. A last
line that was not wholly written is dropped; a damaged line with others behind it is an error.

Every line is handed to the operating system before its answer is sent: it outlives the process,
not a power failure. Requests that change nothing that Kafka keeps over a restart are left out.
"""

import fcntl
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from brokerstream.errors import UserError
from brokerstream.gateway.batch_store import write_all

LEFT_OUT = frozenset({1, 2, 9, 18})
"""Fetch, ListOffsets, OffsetFetch, ApiVersions: they read; fetch sessions end with a broker."""

_CRC_DIGITS = 8


class Journal:
    """A journal file, held by one process at a time.

    Args:
        path: the file; made where it is not there.

    Attributes:
        dropped_bytes: the size of a torn tail that was dropped, after `replay`.

    Raises:
        UserError: it cannot be opened, or another process has it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.dropped_bytes = 0
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a+b", buffering=0)
        except OSError as error:
            raise UserError(f"{path} cannot be opened: {error.strerror}.") from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise UserError(f"Another gateway has the journal {path}.", "End it first.") from None

    def replay(self) -> Iterator[bytes]:
        """The documents of before, in their order; cuts a torn tail off.

        Raises:
            UserError: a line that is not the last one is damaged.
        """
        good_end = 0
        bad_line = 0
        with self.path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                document = _document(line)
                if document is None:
                    bad_line = bad_line or number
                    continue
                if bad_line:
                    raise UserError(
                        f"{self.path} is damaged at line {bad_line}.",
                        "Restore it, or start with another --journal.",
                    )
                good_end += len(line)
                yield document
        self.dropped_bytes = self.path.stat().st_size - good_end
        if self.dropped_bytes:
            self._file.truncate(good_end)

    def write(self, document: bytes) -> None:
        """Append a document, or nothing of it. Raises OSError."""
        end = self._file.seek(0, os.SEEK_END)
        try:
            write_all(self._file, b"%08x %s\n" % (zlib.crc32(document), document))
        except OSError:
            self._file.truncate(end)
            raise

    def write_settings(self, settings: dict[str, Any]) -> None:
        """Append the settings that hold from here on."""
        self.write(msgspec.json.encode({"settings": settings}))

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _document(line: bytes) -> bytes | None:
    """The document of a line, None where the line is damaged or not whole."""
    if not line.endswith(b"\n") or len(line) < _CRC_DIGITS + 2:
        return None
    document = line[_CRC_DIGITS + 1 : -1]
    try:
        is_whole = int(line[:_CRC_DIGITS], 16) == zlib.crc32(document)
    except ValueError:
        return None
    return document if is_whole else None
