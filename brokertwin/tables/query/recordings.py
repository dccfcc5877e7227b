"""State after a replay of recordings."""

import warnings
from collections.abc import Mapping, Sequence
from datetime import tzinfo
from pathlib import Path
from typing import NamedTuple

from brokertwin.errors import UserError
from brokertwin.recordings.formats.pipeline import FileReading
from brokertwin.recordings.replay import recording
from brokertwin.recordings.replay.lacks import beginning
from brokertwin.recordings.replay.plan import plan
from brokertwin.recordings.replay.settings_beside import settings_beside
from brokertwin.recordings.replay.unknown_ends import topics_without_headers
from brokertwin.recordings.replay.until import events_until
from brokertwin.state.configs.broker_config import UnknownSettingError, parse
from brokertwin.state.configs.config_keys import InvalidConfigError
from brokertwin.wording import with_full_stop

CLUSTER = "recorded"


class ReplayedState(NamedTuple):
    """The columns of the only cell, and topics whose log ends are not known."""

    cells: dict[str, dict[str, bytes]]
    without_ends: frozenset[str]


def replayed(
    files: Sequence[Path],
    until: str | None,
    zone: tzinfo,
    broker_settings: Mapping[str, str] | None = None,
) -> ReplayedState:
    """Replay requests in the recorded order.

    Args:
        files: recorded exchanges of one cluster.
        until: as in `events_until`; None is the end.
        zone: zone of logs and times without one.
        broker_settings: settings by Kafka's names; default: those recorded beside the files.

    Raises:
        UserError: an invalid file, setting or moment.
    """
    given = settings_beside(files) if broker_settings is None else broker_settings
    try:
        settings, _ = parse(given)
    except (UnknownSettingError, InvalidConfigError) as error:
        raise UserError(f"Invalid broker settings: {with_full_stop(error)}") from None
    history = recording.read(files, FileReading(zone=zone, warn=warnings.warn))
    for sentence in beginning(history.exchanges):
        warnings.warn(sentence, stacklevel=3)
    planned = plan(history, CLUSTER, settings, is_compared=True, has_responses=False)
    documents = None
    if until is not None:
        documents = events_until(planned.documents, until, zone, "as_of")
    columns = planned.state_after(documents).columns()
    return ReplayedState({CLUSTER: columns}, topics_without_headers(history.exchanges))
