"""How long the controller's log of metadata is: the records that it has told the brokers.

An item of the table `metadata`: `controller/metadata-log`. The log itself is nowhere; what it says
is in the images.
"""

import msgspec

from brokertwin.state.core.tables import Table

_KEY = "controller/metadata-log"


class MetadataLog(msgspec.Struct):
    """The offset behind the last record."""

    end_offset: int


def end_offset(table: Table) -> int:
    """The offset behind the last record."""
    found = table.get(_KEY, MetadataLog)
    return found.end_offset if found is not None else 0


def count(table: Table) -> None:
    """Another record is in the log."""
    table.put(_KEY, MetadataLog(end_offset(table) + 1))
