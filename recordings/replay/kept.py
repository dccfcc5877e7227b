"""A state that recordings have left, kept in a directory for a later replay to go on from.

It is one file, `replayed.state`, in msgpack. It is written beside itself and renamed: whoever finds
it finds all of it. A state of an earlier version is upgraded as it is read.
"""

from pathlib import Path

import msgspec

from brokertwin.errors import UserError
from brokertwin.sinks import files, stored_states
from brokertwin.state.cell.cell import STATE_VERSION, Cell, Meta
from brokertwin.state.core.settings import BrokerSettings

FORMAT = 1
FILE = "replayed.state"


class KeptState(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The state of a cell after some recordings.

    Attributes:
        cluster: the name that their cluster has.
        brokers: the ids of its brokers.
        broker_settings: what was in effect.
        columns: the state row.
        recordings: the names of what was replayed, in its order.
        exchanges: how many requests that were.
        state_version: of the columns.
        format: of the file.
    """

    cluster: str
    brokers: list[int]
    broker_settings: BrokerSettings
    columns: dict[str, bytes]
    recordings: list[str]
    exchanges: int
    state_version: int = STATE_VERSION
    format: int = FORMAT

    @property
    def now_ms(self) -> int:
        """The latest time that the state has seen, in ms since 1970."""
        return msgspec.msgpack.decode(self.columns["meta"], type=Meta).now

    @property
    def origin(self) -> str:
        """What it is the state of, in words."""
        return f"after {self.exchanges:,} requests of {', '.join(self.recordings)}"


def is_kept(directory: Path) -> bool:
    """Whether a directory has a state that a replay has kept."""
    return (directory / FILE).is_file()


def read(directory: Path) -> KeptState:
    """The state in a directory, in this version's form.

    Raises:
        UserError: there is none, it is damaged, or of a version that this program does not know.
    """
    path = directory / FILE
    try:
        found = msgspec.msgpack.decode(path.read_bytes(), type=KeptState)
    except OSError as error:
        raise UserError(
            f"{directory} has no state of a replay: {path}: {error.strerror}.",
            "Create it with: brokertwin replay FILE --keep DIR",
        ) from None
    except msgspec.MsgspecError as error:
        raise UserError(f"{path} is not a replay's state: {error}.", "Create it again.") from None
    if found.format > FORMAT:
        raise UserError(
            f"{path} was written by a newer brokertwin: its layout has version {found.format},"
            f" but this brokertwin supports up to {FORMAT}.",
            "Use the newer brokertwin.",
        )
    stored = {found.cluster: (found.state_version, found.columns)}
    columns = stored_states.in_this_version(str(path), stored)[found.cluster]
    return msgspec.structs.replace(found, columns=columns, state_version=STATE_VERSION)


def write(
    directory: Path, cell: Cell, names: list[str], exchanges: int, before: KeptState | None = None
) -> KeptState:
    """Keep the state of a cell, in place of what the directory has of a replay.

    Args:
        directory: made where it is missing.
        cell: what the recordings have left.
        names: of the recordings.
        exchanges: how many requests they have.
        before: the state that they went on from.

    Raises:
        UserError: it cannot be written.
    """
    kept = KeptState(
        cluster=cell.settings.cluster,
        brokers=cell.settings.brokers,
        broker_settings=cell.settings.broker_settings,
        columns=cell.columns(),
        recordings=[*(before.recordings if before else ()), *names],
        exchanges=exchanges + (before.exchanges if before else 0),
    )
    path = directory / FILE
    fresh = path.with_name(f".{FILE}.new")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        fresh.write_bytes(msgspec.msgpack.encode(kept))
        files.bring_to_disk(fresh)
        fresh.replace(path)
        files.bring_to_disk(directory)
    except OSError as error:
        raise UserError(
            f"Cannot write the state to {directory}: {error.strerror}.", "Pass another directory."
        ) from None
    return kept
