"""The length of the controller's metadata log: the number of its records.

Item of the table `metadata`: `controller/metadata-log`. The records themselves are only in the
images.
"""

import msgspec

from brokertwin.state.core.tables import Table

_KEY = "controller/metadata-log"


class MetadataLog(msgspec.Struct):
    """The offset after the last record."""

    end_offset: int


def end_offset(table: Table) -> int:
    log = table.get(_KEY, MetadataLog)
    return log.end_offset if log is not None else 0


def count(table: Table) -> None:
    table.put(_KEY, MetadataLog(end_offset(table) + 1))
