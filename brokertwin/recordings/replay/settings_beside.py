"""Broker settings that `capture` wrote beside a recording."""

from collections.abc import Sequence
from pathlib import Path

from brokertwin.errors import UserError
from brokertwin.kafka_io import properties
from brokertwin.state.configs.broker_config import SETTINGS

SETTINGS_SUFFIX = ".properties"
"""Suffix of the settings file after the recording's name."""


def settings_beside(files: Sequence[Path]) -> dict[str, str]:
    """Return the broker settings beside recordings; empty if there are none.

    Settings unknown to Kafka 4.3 are ignored, because a newer broker may have them.

    Raises:
        UserError: a file is unreadable, or two files conflict.
    """
    settings: dict[str, str] = {}
    for path in files:
        beside = path.with_name(path.name + SETTINGS_SUFFIX)
        if not beside.is_file():
            continue
        for name, value in properties.read(beside).items():
            if name in SETTINGS and settings.setdefault(name, value) != value:
                raise UserError(
                    f"The settings beside the recordings differ: {name} is {settings[name]} and, in"
                    f" {beside}, {value}.",
                    "Pass the broker's settings with --broker-config.",
                )
    return settings
