"""The part of a cell that survives a restart of its process.

Pending requests that only read, fetch sessions and client instances end with a broker. A journal
leaves them out, and so does a snapshot that replaces a journal.
"""

from collections.abc import Mapping

from brokertwin.protocol.kafka_apis import api_of_key
from brokertwin.state.cell.cell import Cell
from brokertwin.state.core import pending


def columns_at_rest(cell: Cell) -> Mapping[str, bytes]:
    """Return the columns of a cell without the memory of such requests; the cell is unchanged."""
    twin = cell.copy()
    table = twin.tables.pending
    for each in pending.requests(table):
        if api_of_key(each.api_key).only_reads:
            pending.take(table, each.event_id)
    for sessions in (twin.tables.fetch_sessions, twin.tables.client_instances):
        for key in sessions.keys():  # noqa: SIM118 (a table is no dict)
            sessions.drop(key)
    return twin.columns()
