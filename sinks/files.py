"""Atomic writing, sync and checksum of files."""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from brokertwin import places


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary path for a file that is written atomically; rename it at the end.

    A file in an object store is written to a local path and then copied, which is atomic. A pipe
    or a device is written directly: renaming would replace it.
    """
    if places.is_remote(path):
        with tempfile.TemporaryDirectory(prefix="brokertwin-") as scratch:
            yield Path(scratch, path.name)
            path.write_bytes(Path(scratch, path.name).read_bytes())
        return
    if path.exists() and not path.is_file():
        yield path
        return
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        yield temporary
        bring_to_disk(temporary)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    bring_to_disk(path.parent)


def opened_privately(path: str, flags: int) -> int:
    """Open a file; a new one is for its owner only. An `opener` of `open`."""
    return os.open(path, flags, 0o600)


def bring_to_disk(path: Path) -> None:
    """Sync a file, or a directory's names, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def checksum(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
