"""Files with secrets: replaced atomically, readable for their owner only."""

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
