"""States that `brokertwin replay --keep` leaves: keeping one, and going on from one."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from brokertwin.cli.options import checked_broker_settings
from brokertwin.cli.output import say, warn
from brokertwin.cli.sources import Where

if TYPE_CHECKING:
    from brokertwin.state.cell.cell import Cell
    from brokertwin.state.core.settings import BrokerSettings
    from brokertwin.streaming.replay.kept import KeptState
    from brokertwin.streaming.replay.recording import Recording


def begin(directory: Path | None) -> "KeptState | None":
    """The state to go on from, if a directory is named. Raises UserError as `kept.read`."""
    from brokertwin.streaming.replay import kept

    if directory is None:
        return None
    found = kept.read(directory)
    say(f"going on from the state in {directory}, {found.origin}")
    return found


def settings_of(begins: "KeptState", given: Mapping[str, str]) -> "BrokerSettings":
    """The settings of a kept state, with others in place of some. Raises UserError."""
    from brokertwin.state.configs.broker_config import TYPED

    typed, _ = checked_broker_settings(dict(given))
    named = {TYPED[name]: getattr(typed, TYPED[name]) for name in given if name in TYPED}
    return msgspec.structs.replace(begins.broker_settings, **named)


def warn_of_overlap(begins: "KeptState", history: "Recording") -> None:
    """Say where a recording begins before the state that it goes on from has ended."""
    from brokertwin.streaming.explain.story import moment

    first = min((exchange.time for exchange in history.exchanges), default=begins.now_ms)
    if first < begins.now_ms:
        warn(
            f"the recording begins at {moment(first)}, before the end of the kept state at"
            f" {moment(begins.now_ms)}: what comes until then is decided as if it came at the end"
        )


def keep(
    directory: Path,
    cell: "Cell | None",
    where: Where,
    documents: Sequence[bytes],
    until: str | None,
    begins: "KeptState | None",
) -> None:
    """Keep the state of a cell, and say so.

    Args:
        directory: where.
        cell: of the engine local.
        where: what was replayed.
        documents: the events of it that the cell has had.
        until: the moment that they end at, as the user has named it.
        begins: the state that they went on from.

    Raises:
        UserError: as of `kept.write`.
    """
    from brokertwin.streaming.replay import kept
    from brokertwin.streaming.replay.until import requests_in

    assert cell is not None
    moment = f" until {until}" if until is not None else ""
    names = [f"{name}{moment}" for name in where.names] if not where.is_nowhere() else []
    found = kept.write(directory, cell, names, requests_in(documents), begins)
    say(f"kept the state in {directory}, {found.origin}")
