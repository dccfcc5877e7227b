"""States in `brokertwin replay --keep` directories: writing one and continuing from one."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from brokertwin.cli.options import checked_broker_settings
from brokertwin.cli.output import say, warn
from brokertwin.cli.recordings.sources import Where

if TYPE_CHECKING:
    from brokertwin.recordings.replay.kept import KeptState
    from brokertwin.recordings.replay.recording import Recording
    from brokertwin.state.cell.cell import Cell
    from brokertwin.state.core.settings import BrokerSettings


def begin(directory: Path | None) -> "KeptState | None":
    """Read the state to continue from, if a directory is given. Raises UserError."""
    from brokertwin.recordings.replay import kept

    if directory is None:
        return None
    state = kept.read(directory)
    say(f"continuing from the state in {directory}, {state.origin}")
    return state


def settings_of(begins: "KeptState", texts: Mapping[str, str]) -> "BrokerSettings":
    """Return a kept state's settings, overridden by `texts`. Raises UserError."""
    from brokertwin.state.configs.broker_config import TYPED

    typed, _ = checked_broker_settings(dict(texts))
    named = {TYPED[name]: getattr(typed, TYPED[name]) for name in texts if name in TYPED}
    return msgspec.structs.replace(begins.broker_settings, **named)


def warn_of_overlap(begins: "KeptState", history: "Recording") -> None:
    from brokertwin.recordings.history.words import moment

    first = min((exchange.time for exchange in history.exchanges), default=begins.now_ms)
    if first < begins.now_ms:
        warn(
            f"the recording starts at {moment(first)}, before the end of the kept state at"
            f" {moment(begins.now_ms)}; its earlier requests are handled as if they came then"
        )


def keep(
    directory: Path,
    cell: "Cell | None",
    where: Where,
    documents: Sequence[bytes],
    until: str | None,
    begins: "KeptState | None",
    history: "Recording",
) -> None:
    """Write the state of a cell after `documents`, and report it. Raises UserError."""
    from brokertwin.recordings.replay import kept
    from brokertwin.recordings.replay.unknown_ends import topics_without_headers
    from brokertwin.recordings.replay.until import requests_in

    assert cell is not None
    moment = f" until {until}" if until is not None else ""
    names = [f"{name}{moment}" for name in where.names] if not where.is_nowhere() else []
    without_ends = topics_without_headers(history.exchanges, begins)
    found = kept.write(directory, cell, names, requests_in(documents), begins, without_ends)
    say(f"wrote the state to {directory}, {found.origin}")
