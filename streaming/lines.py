"""Lines of files, compressed files and standard input, each with its place."""

import gzip
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from brokertwin.errors import UserError

STDIN = Path("-")
LINES_BETWEEN_REPORTS = 500


class Line(NamedTuple):
    """A line of input: the name of its file, its number from 1, its bytes."""

    file: str
    number: int
    text: bytes


def read_lines(
    files: Iterable[Path], on_bytes: Callable[[int], None] = lambda _: None
) -> Iterator[Line]:
    """The lines of files (`.gz` too) and of standard input (`-`), one after the other.

    Empty lines are passed over.

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
    path: Path, name: str, on_bytes: Callable[[int], None] = lambda _: None
) -> Iterator[Line]:
    """The lines of one file that are not empty. Raises as `read_lines`."""
    try:
        for number, text in enumerate(_raw_lines(path, on_bytes), 1):
            if text.strip():
                yield Line(name, number, text)
    except (OSError, EOFError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(f"Cannot read {path}: {reason}.") from None


def names_of(paths: Sequence[Path]) -> list[str]:
    """A name for each file, unique, and the same for a file and its compressed copy."""
    names = ["stdin" if path == STDIN else path.name.removesuffix(".gz") for path in paths]
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


def _raw_lines(path: Path, on_bytes: Callable[[int], None]) -> Iterator[bytes]:
    if path == STDIN:
        yield from sys.stdin.buffer
        return
    with path.open("rb") as raw:
        unzipped: Iterable[bytes] = gzip.GzipFile(fileobj=raw) if path.suffix == ".gz" else raw
        reported = 0
        for count, text in enumerate(unzipped, 1):
            if count % LINES_BETWEEN_REPORTS == 0:
                position = raw.tell()
                on_bytes(position - reported)
                reported = position
            yield text
        on_bytes(raw.tell() - reported)
