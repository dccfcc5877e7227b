"""Files that commands write: never over another one, never half."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from brokertwin.errors import UserError
from brokertwin.sinks.files import replacing


def check_new(file: Path | None, force: bool) -> None:
    """Check before the work that a file can be written.

    Raises:
        UserError: it exists and --force was not given, it is a folder, or has none.
    """
    if file is None or (file.exists() and not file.is_file() and not file.is_dir()):
        return  # nothing, a pipe or a terminal
    if str(file) == "-":
        raise UserError("Cannot write to standard output.", "Pass the name of a file.")
    if file.is_dir():
        raise UserError(f"Cannot write to {file}: it is a folder.", "Pass the name of a file.")
    if file.exists() and not force:
        raise UserError(f"{file} exists.", "Pass another file, or --force to replace it.")
    if not file.parent.is_dir():
        raise UserError(
            f"Cannot write to {file}: there is no folder {file.parent}.", "Create the folder first."
        )


def check_new_folder(folder: Path | None, force: bool) -> None:
    """Check before the work that files can be written to a folder.

    Raises:
        UserError: it is a file, or has files and --force was not given.
    """
    if folder is None or not folder.exists():
        return
    if not folder.is_dir():
        raise UserError(f"Cannot write to {folder}: it is a file.", "Pass the name of a folder.")
    if not force and any(folder.iterdir()):
        raise UserError(
            f"{folder} exists and is not empty.", "Pass another folder, or --force to write to it."
        )


def write_text(file: Path, text: str) -> None:
    """Write a file at once. Raises UserError like `writing`."""
    with writing(file) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextmanager
def writing(file: Path) -> Iterator[Path]:
    """Yield a temporary file beside a file; at the end it is renamed.

    Raises UserError if the file cannot be written.
    """
    try:
        with replacing(file) as temporary:
            yield temporary
    except OSError as error:
        raise UserError(
            f"Cannot write to {file}: {error.strerror or error}.",
            "The former file, if any, is unchanged.",
        ) from None
