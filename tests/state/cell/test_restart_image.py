"""A cell without the Fetches that end with its brokers' process."""

from brokertwin.state.cell.cell import Cell
from brokertwin.state.cell.restart_image import columns_at_rest
from brokertwin.state.core import pending
from tests.support.groups import GroupBench


def test_columns_at_rest_lack_fetches_and_their_sessions() -> None:
    bench = GroupBench()
    bench.topic("orders")
    topics = [{"topic": "orders", "partitions": [{"partition": 0, "partitionMaxBytes": 1000}]}]
    body = {"maxWaitMs": 0, "minBytes": 1, "topics": topics, "sessionEpoch": 0}
    session_id = bench.request("FETCH", 12, body)["sessionId"]
    later = {"maxWaitMs": 60_000, "sessionId": session_id, "sessionEpoch": 1, "topics": []}
    bench.send("FETCH", 12, {**body, **later}, id="fetch")
    _, join = bench.new_member()
    before = bench.cell.columns()
    assert bench.waits("fetch")
    assert sessions(bench.cell)
    rested = Cell(bench.settings, columns_at_rest(bench.cell))
    assert bench.cell.columns() == before, "the cell itself goes on"
    assert pending.get_request(rested.tables.pending, "fetch") is None
    assert pending.get_request(rested.tables.pending, join), "clients are still there"
    assert sessions(rested) == []
    kept = {"waiting", "sessions", "more"}
    assert {name for name, column in rested.columns().items() if column != before[name]} <= kept


def sessions(cell: Cell) -> list[str]:
    tables = cell.tables
    return [*tables.fetch_sessions.keys(""), *tables.client_instances.keys("")]
