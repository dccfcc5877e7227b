"""Files with secrets: replaced atomically, readable for their owner only; and their changes."""

import os
import tempfile
from pathlib import Path


def replace(path: Path, data: bytes) -> None:
    """Replace a file atomically. Raises OSError."""
    target = path.resolve()
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:  # mkstemp sets mode 0600
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(target)
    except OSError:
        Path(name).unlink()
        raise


def stamp(file: Path | None) -> tuple[int, int, int] | None:
    """Return a value that changes with the file; None without a file."""
    try:
        stat = file.stat() if file is not None else None
    except (OSError, ValueError):  # ValueError: not a path
        return None
    return None if stat is None else (stat.st_mtime_ns, stat.st_ino, stat.st_size)
