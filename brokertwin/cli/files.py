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
    if file.is_dir():
        raise UserError(f"Cannot write to {file}: it is a folder.", "Pass the name of a file.")
    if file.exists() and not force:
        raise UserError(f"{file} exists.", "Pass another file, or --force to replace it.")
    if not file.parent.is_dir():
        raise UserError(
            f"Cannot write to {file}: there is no folder {file.parent}.", "Create the folder first."
        )


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
