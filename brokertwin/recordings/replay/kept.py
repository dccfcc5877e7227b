"""Stores the state after a replay, for later replays.

It is one msgpack file, `replayed.state`, written atomically. A state of an earlier version is
upgraded when it is read.
"""

from pathlib import Path

import msgspec

from brokertwin.errors import UserError
from brokertwin.sinks import files
from brokertwin.state.cell.cell import STATE_VERSION, Cell, Meta
from brokertwin.state.core.settings import BrokerSettings
from brokertwin.tables import stored_states

FORMAT = 1
FILE = "replayed.state"


class KeptState(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The state of a cell after some recordings.

    Attributes:
        columns: the state row.
        recordings: the names of the replayed recordings, in order.
        exchanges: the number of replayed requests.
        without_ends: names or ids of topics whose log ends are not known (`unknown_ends.py`).
        format: of the file.
    """

    cluster: str
    brokers: list[int]
    broker_settings: BrokerSettings
    columns: dict[str, bytes]
    recordings: list[str]
    exchanges: int
    without_ends: frozenset[str] = frozenset()
    state_version: int = STATE_VERSION
    format: int = FORMAT

    @property
    def now_ms(self) -> int:
        """The latest time in the state, in ms since 1970."""
        return msgspec.msgpack.decode(self.columns["meta"], type=Meta).now

    @property
    def origin(self) -> str:
        return f"after {self.exchanges:,} requests of {', '.join(self.recordings)}"


def is_kept(directory: Path) -> bool:
    return (directory / FILE).is_file()


def read(directory: Path) -> KeptState:
    """Read and upgrade the state in a directory.

    Raises:
        UserError: it is missing, damaged, or of an unknown version.
    """
    path = directory / FILE
    try:
        state = msgspec.msgpack.decode(path.read_bytes(), type=KeptState)
    except OSError as error:
        raise UserError(
            f"{directory} has no state of a replay: {path}: {error.strerror}.",
            "Create it with: brokertwin replay FILE --keep DIR",
        ) from None
    except msgspec.MsgspecError as error:
        raise UserError(f"{path} is not a replay's state: {error}.", "Create it again.") from None
    if state.format > FORMAT:
        raise UserError(
            f"{path} was written by a newer brokertwin: its layout has version {state.format},"
            f" but this brokertwin supports up to {FORMAT}.",
            "Use the newer brokertwin.",
        )
    stored = {state.cluster: (state.state_version, state.columns)}
    columns = stored_states.in_this_version(str(path), stored)[state.cluster]
    return msgspec.structs.replace(state, columns=columns, state_version=STATE_VERSION)


def write(
    directory: Path,
    cell: Cell,
    names: list[str],
    exchanges: int,
    before: KeptState | None = None,
    without_ends: frozenset[str] = frozenset(),
) -> KeptState:
    """Store the state of a cell, replacing an earlier one.

    Args:
        directory: created if missing.
        cell: the cell after the recordings.
        names: of the recordings.
        exchanges: the number of their requests.
        before: the state that they continued.
        without_ends: topics whose log ends the recordings, or those before, do not tell.

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
        without_ends=without_ends,
    )
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with files.replacing(directory / FILE) as temporary:
            temporary.write_bytes(msgspec.msgpack.encode(kept))
    except OSError as error:
        raise UserError(
            f"Cannot write the state to {directory}: {error.strerror}.", "Pass another directory."
        ) from None
    return kept
