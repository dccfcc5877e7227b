"""The broker's settings that `capture` has written beside a recording."""

from collections.abc import Sequence
from pathlib import Path

from brokertwin.errors import UserError
from brokertwin.kafka_io import properties
from brokertwin.state.configs.broker_config import SETTINGS

SETTINGS_SUFFIX = ".properties"
"""What follows a recording's name in the name of the file with its broker's settings."""


def settings_beside(files: Sequence[Path]) -> dict[str, str]:
    """The broker settings that `capture` wrote beside recordings; empty where there are none.

    Names that Kafka 4.3 does not have are left out: a newer broker's.

    Raises:
        UserError: a file cannot be read, or two say different things.
    """
    found: dict[str, str] = {}
    for path in files:
        beside = path.with_name(path.name + SETTINGS_SUFFIX)
        if not beside.is_file():
            continue
        for name, value in properties.read(beside).items():
            if name in SETTINGS and found.setdefault(name, value) != value:
                raise UserError(
                    f"The settings beside the recordings differ: {name} is {found[name]} and, in"
                    f" {beside}, {value}.",
                    "Pass the broker's settings with --broker-config.",
                )
    return found
