"""What of a cell's state outlives a restart of its brokers' process, where Fetch requests are gone.

Fetch sessions, the Fetches that wait and the instances of clients end with a broker. A journal
leaves them out, and what is made of a cell to stand in a journal's place does, too.
"""

from collections.abc import Mapping

from brokertwin.state.cell.cell import Cell
from brokertwin.state.core import waiting
from brokertwin.state.core.check import kind_of
from brokertwin.state.core.kafka_apis import api_of_key

SESSION_KINDS = frozenset(
    {
        *("session", "members", "active", "cached", "watchers", "shard", "next-shard"),
        *("evictions", "client-instance", "client-instances"),
    }
)
"""The items of fetch sessions and of client instances in the table `sessions`."""


def columns_at_rest(cell: Cell) -> Mapping[str, bytes]:
    """The columns of a cell without what such requests have left in memory; it stays as it is."""
    twin = cell.copy()
    table = twin.tables.waiting
    for each in waiting.all_waiting(table):
        if api_of_key(each.api_key).only_reads:
            waiting.take(table, each.event_id)
    sessions = twin.tables.sessions
    for key in sessions.keys():  # noqa: SIM118 (a table is no dict)
        if kind_of(key) in SESSION_KINDS:
            sessions.drop(key)
    return twin.columns()
