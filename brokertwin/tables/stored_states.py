"""Stored states of cells, upgraded to the current version."""

import msgspec

from brokertwin.errors import UserError
from brokertwin.state.cell.cell import STATE_VERSION, Meta
from brokertwin.state.cell.upgrades import can_upgrade, upgraded
from brokertwin.state.core import layers
from brokertwin.state.core.tables import columns_of_tables, row_columns

Stored = dict[str, tuple[int, dict[str, bytes]]]
"""Cell name to the version of its row, and its stored columns."""

DAMAGED = (
    "Restore the newest snapshot (`brokertwin snapshot restore`), or start on an empty"
    " --checkpoint: the request topic is read again and gives the same state."
)
"""Advice for a damaged state."""

Cells = dict[str, dict[str, bytes]]
"""Cell name to its columns, for `Cell(settings, columns)`."""


def in_this_version(where: str, stored: Stored) -> Cells:
    """Upgrade the columns of each cell, each as one map.

    Args:
        where: source of the state, for error messages.
        stored: cell name to the version of its row, and its columns.

    Raises:
        UserError: a row is damaged, its version is unknown, or it cannot be upgraded.
    """
    cells: Cells = {}
    for name, (version, columns) in stored.items():
        found: dict[str, bytes] | str = "has a state of another version"
        if version <= STATE_VERSION and can_upgrade(version):
            found = _in_one_map_each(f"{name} in {where}", version, columns)
        if isinstance(found, str):
            raise UserError(
                f"Cannot upgrade the state of version {version} in {where} to {STATE_VERSION}:"
                f" the cell {name} {found}.",
                "Continue with the brokertwin that wrote it, or pass an empty --checkpoint: the job"
                " then reads the request topic again, which gives the same state.",
            )
        cells[name] = found
    return cells


def _in_one_map_each(which: str, version: int, columns: dict[str, bytes]) -> dict[str, bytes] | str:
    """Upgrade one row's columns, or return why not. Raises UserError if it is damaged."""
    try:
        result = upgraded(version, columns)
        if isinstance(result, str):
            return result
        tables = {name: layers.flat(each) for name, each in columns_of_tables(result).items()}
        msgspec.msgpack.decode(result["meta"], type=Meta)
        return {**row_columns(tables), "meta": result["meta"]}
    except (layers.DamagedError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UserError(f"The state of the cell {which} is damaged: {error}.", DAMAGED) from None
