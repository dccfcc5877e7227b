"""Lines of files, compressed files and standard input, each with its place."""

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

from brokertwin.errors import UserError
from brokertwin.recordings.formats import unpacked

STDIN = Path("-")
LINES_BETWEEN_REPORTS = 500
COMPRESSED = re.compile(r"\.(?:gz|bz2|xz|zst|lz4|zip)$")


class Line(NamedTuple):
    """A line of input: the name of its file, its number from 1, its bytes."""

    file: str
    number: int
    text: bytes


def read_lines(
    files: Iterable[Path], on_bytes: Callable[[int], None] = lambda _: None
) -> Iterator[Line]:
    """The lines of files and of standard input (`-`), one after the other.

    Compressed files are decompressed. Empty lines are left out.

    Args:
        files: what to read.
        on_bytes: is told now and then how many more bytes of the files have been read.

    Raises:
        UserError: a file cannot be read.
    """
    files = list(files)
    for path, name in zip(files, names_of(files), strict=True):
        yield from lines_of(path, name, on_bytes)


def lines_of(
    path: Path,
    name: str,
    on_bytes: Callable[[int], None] = lambda _: None,
    on_cut: Callable[[], None] = lambda: None,
) -> Iterator[Line]:
    """The lines of one file that are not empty; those of an archive have its member's name, too.

    Args:
        path: the file; `-` is standard input.
        name: its name in the lines.
        on_bytes: is told now and then how many more bytes of the file have been read.
        on_cut: is called if compressed data has no end: it is still being written, or was cut.
            Then an unfinished last line is left out.

    Raises:
        UserError: the file cannot be read.
    """
    is_cut = False

    def cut() -> None:
        nonlocal is_cut
        is_cut = True
        on_cut()

    try:
        with _opened(path) as raw:
            for member, lines in unpacked.members(raw, cut):
                file = f"{name}/{member}" if member else name
                for number, text in enumerate(_counted(raw, lines, on_bytes), 1):
                    is_unfinished = is_cut and not text.endswith(b"\n")
                    if text.strip() and not is_unfinished:
                        yield Line(file, number, text)
    except unpacked.ERRORS as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(f"Cannot read {path}: {reason}.") from None


def names_of(paths: Sequence[Path]) -> list[str]:
    """A name for each file, unique, and the same for a file and its compressed copy."""
    names = ["stdin" if path == STDIN else COMPRESSED.sub("", path.name) for path in paths]
    counts = Counter(names)
    seen: Counter[str] = Counter()
    unique = []
    for name in names:
        seen[name] += 1
        unique.append(f"{name}#{seen[name]}" if counts[name] > 1 else name)
    return unique


def size_of(paths: Iterable[Path]) -> int | None:
    """The bytes that the files take up; None where standard input is among them."""
    paths = list(paths)
    if STDIN in paths:
        return None
    return sum(path.stat().st_size for path in paths if path.is_file())


@contextmanager
def spooled(path: Path) -> Iterator[Path]:
    """The file; standard input as a temporary file, which can be read again."""
    if path != STDIN:
        yield path
        return
    with NamedTemporaryFile(prefix="brokertwin-stdin-") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
        file.flush()
        yield Path(file.name)


@contextmanager
def _opened(path: Path) -> Iterator[io.BufferedReader]:
    """The file; standard input stays open."""
    if path != STDIN:
        with path.open("rb") as raw:
            yield raw
    else:
        yield unpacked.buffered(sys.stdin.buffer)


def _counted(
    raw: io.BufferedReader, lines: Iterable[bytes], on_bytes: Callable[[int], None]
) -> Iterator[bytes]:
    """The lines, with reports of the position in the file."""
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
