"""Version notes: why former and later releases of Kafka deviate from 4.3.1.

`versions.json` has a note for each difference; a note explains deviations, it does not hide them.
"""

from importlib import resources

import msgspec

from brokertwin.errors import UserError
from brokertwin.testing.exam.verdicts import VersionNote

FILE = "versions.json"


def all_notes() -> list[VersionNote]:
    """Return all notes."""
    data = resources.files("brokertwin.testing.exam").joinpath(FILE).read_bytes()
    return msgspec.json.decode(data, type=list[VersionNote])


def notes_of(version: str) -> tuple[VersionNote, ...]:
    """Return the notes on a version. Raises UserError if there are none."""
    found = tuple(each for each in all_notes() if version in each.versions)
    if not found:
        versions = sorted({one for each in all_notes() for one in each.versions})
        raise UserError(
            f"There are no notes on Kafka {version}.", f"Known versions: {', '.join(versions)}."
        )
    return found
