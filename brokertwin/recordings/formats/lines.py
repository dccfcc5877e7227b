"""Lines of files, compressed files and standard input."""

import io
import re
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import NamedTuple

from brokertwin import unpacked
from brokertwin.errors import UserError

STDIN = Path("-")
LINES_BETWEEN_REPORTS = 500
COMPRESSED = re.compile(r"\.(?:gz|bz2|xz|zst|lz4|zip)$")


class SourceLine(NamedTuple):
    """A line of input: file name, number from 1, bytes; of a pack, the index of an event."""

    file: str
    number: int
    text: bytes
    pack_index: int = 0

    @property
    def place(self) -> str:
        place = f"{self.file}:{self.number}"
        return f"{place}.{self.pack_index}" if self.pack_index else place


def read_lines(
    files: Iterable[Path], on_bytes: Callable[[int], None] = lambda _: None
) -> Iterator[SourceLine]:
    """Yield the non-empty lines of files and of standard input (`-`).

    Compressed files are decompressed.

    Args:
        files: the files.
        on_bytes: called with the number of additional bytes read.

    Raises:
        UserError: a file is unreadable.
    """
    files = list(files)
    for path, name in zip(files, names_of(files), strict=True):
        yield from lines_of(path, name, on_bytes)


def lines_of(
    path: Path,
    name: str,
    on_bytes: Callable[[int], None] = lambda _: None,
    on_cut: Callable[[], None] = lambda: None,
) -> Iterator[SourceLine]:
    """Yield the non-empty lines of a file; archive members have their names.

    Args:
        path: the file; `-` is standard input.
        name: its name in the lines.
        on_bytes: called with the number of additional bytes read.
        on_cut: called if compressed data has no end: it is still being written or was cut. An
            unfinished last line is then skipped.

    Raises:
        UserError: the file is unreadable.
    """
    is_cut = False

    def cut() -> None:
        nonlocal is_cut
        is_cut = True
        on_cut()

    try:
        with _opened(path) as raw:
            for member, stream in unpacked.members(raw, cut):
                file = f"{name}/{member}" if member else name
                lines = _counted(raw, unpacked.lines(stream), on_bytes)
                for number, text in enumerate(lines, 1):
                    is_unfinished = is_cut and not text.endswith(b"\n")
                    if not (text.isspace() or is_unfinished):
                        yield SourceLine(file, number, text)
    except unpacked.ERRORS as error:
        reason = getattr(error, "strerror", None) or str(error)
        hint = f"Name its files: {path}/*" if isinstance(error, IsADirectoryError) else ""
        raise UserError(f"Cannot read {path}: {reason}.", hint) from None


def names_of(paths: Sequence[Path]) -> list[str]:
    """A unique name for each file, equal for a file and its compressed copy."""
    names = ["stdin" if path == STDIN else COMPRESSED.sub("", path.name) for path in paths]
    counts = Counter(names)
    seen: Counter[str] = Counter()
    unique = []
    for name in names:
        seen[name] += 1
        unique.append(f"{name}#{seen[name]}" if counts[name] > 1 else name)
    return unique


def size_of(paths: Iterable[Path]) -> int | None:
    """Total size of the files in bytes; None with standard input."""
    paths = list(paths)
    if STDIN in paths:
        return None
    return sum(path.stat().st_size for path in paths if path.is_file())


@contextmanager
def spooled(path: Path) -> Iterator[Path]:
    """Yield the file; standard input is copied to a temporary file."""
    if path != STDIN:
        yield path
        return
    with NamedTemporaryFile(prefix="brokertwin-stdin-") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
        file.flush()
        yield Path(file.name)


@contextmanager
def _opened(path: Path) -> Iterator[io.BufferedReader]:
    """Open the file; standard input stays open."""
    if path != STDIN:
        with path.open("rb") as raw:
            yield raw
    else:
        yield unpacked.buffered(sys.stdin.buffer)


def _counted(
    raw: io.BufferedReader, lines: Iterable[bytes], on_bytes: Callable[[int], None]
) -> Iterator[bytes]:
    """Yield the lines and report the position in the file."""
    if not raw.seekable():
        yield from lines
        return
    reported = raw.tell()
    for count, text in enumerate(lines, 1):
        if count % LINES_BETWEEN_REPORTS == 0:
            position = raw.tell()
            on_bytes(position - reported)
            reported = position
        yield text
    on_bytes(raw.tell() - reported)
