"""Detects damaged checkpoint files: disk errors and truncated copies."""

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from brokertwin.errors import UserError
from brokertwin.streaming.checkpoint import store_files

METADATA = "metadata"
HINT = "Restore a snapshot with `brokertwin snapshot restore`, or start with another --checkpoint."


class Damaged(NamedTuple):
    """An unreadable file and the reason."""

    file: Path
    why: str

    def error(self) -> UserError:
        return UserError(f"Cannot read the checkpoint file {self.file}: {self.why}.", HINT)


def check_metadata(checkpoint: Path) -> None:
    """Check the file that Spark reads first.

    Raises:
        UserError: it is damaged; Spark would fail with a stack trace.
    """
    file = checkpoint / METADATA
    if file.exists() and (why := _of_metadata(file)):
        raise Damaged(file, why).error()


def damaged(checkpoint: Path) -> Iterator[Damaged]:
    """Yield unreadable state store files, as far as their format shows it."""
    for file in sorted((checkpoint / "state").rglob("*")):
        why = ""
        if file.suffix == ".changelog":
            why = _of_changelog(file)
        elif file.suffix == ".zip":
            why = _of_archive(file)
        if why:
            yield Damaged(file, why)


def _of_metadata(file: Path) -> str:
    try:
        json.loads(file.read_text(encoding="utf-8"))["id"]
    except (ValueError, TypeError, KeyError):
        return "it is not the JSON document that Spark writes"
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _of_changelog(file: Path) -> str:
    try:
        for _ in store_files.changes(file.read_bytes()):
            pass
    except (store_files.NotReadable, OSError) as error:
        return str(error)
    return ""


def _of_archive(file: Path) -> str:
    try:
        with file.open("rb") as opened, zipfile.ZipFile(opened) as archive:
            wrong = archive.testzip()
    except (zipfile.BadZipFile, OSError) as error:
        return str(error)
    return f"the checksum of {wrong} in it is wrong" if wrong is not None else ""
