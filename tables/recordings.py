"""The state that recordings leave when they are replayed."""

from collections.abc import Mapping, Sequence
from datetime import tzinfo
from pathlib import Path

from brokertwin.errors import UserError
from brokertwin.recordings.formats.pipeline import Reading
from brokertwin.recordings.replay import recording
from brokertwin.recordings.replay.plan import plan
from brokertwin.recordings.replay.settings_beside import settings_beside
from brokertwin.recordings.replay.until import events_until
from brokertwin.state.configs.broker_config import UnknownSettingError, parse
from brokertwin.state.configs.config_keys import InvalidConfigError

CLUSTER = "recorded"


def cells(
    files: Sequence[Path],
    until: str | None,
    zone: tzinfo,
    broker_settings: Mapping[str, str] | None = None,
) -> dict[str, dict[str, bytes]]:
    """The one cell's columns after the recorded requests, decided in the recorded order.

    Args:
        files: recorded exchanges, of one cluster.
        until: as of `events_until`; None is the end.
        zone: of logs and of times that name none.
        broker_settings: by Kafka's names; without them those that were recorded beside the files.

    Raises:
        UserError: a file is no recording, a setting is none, or there is no such moment.
    """
    given = settings_beside(files) if broker_settings is None else broker_settings
    try:
        settings, _ = parse(given)
    except (UnknownSettingError, InvalidConfigError) as error:
        raise UserError(f"Invalid broker settings: {error}.") from None
    history = recording.read(files, Reading(zone=zone))
    planned = plan(history, CLUSTER, settings, is_compared=True, is_answered=False)
    documents = None
    if until is not None:
        documents = events_until(planned.documents, until, zone, "as_of")
    return {CLUSTER: planned.state_after(documents).columns()}
