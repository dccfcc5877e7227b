"""Decide requests in this process: an event in, rows out, and the state as bytes."""

import json

from brokertwin.state.cell.cell import Cell
from brokertwin.state.core.outputs import Position
from brokertwin.state.core.settings import CellSettings

TOPIC = {"name": "orders", "numPartitions": 2, "replicationFactor": 1}
SETTINGS = CellSettings(name="shop", cluster="shop", event_time="recorded")


def event(number: int, key: int, version: int, request: dict[str, object]) -> bytes:
    """An event: a request as in Kafka's request log, with an id and a time in ms."""
    header = {"requestApiKey": key, "requestApiVersion": version, "clientId": "me"}
    given = {"id": str(number), "cluster": "shop", "time": 1_800_000_000_000 + number}
    return json.dumps({**given, "requestHeader": header, "request": request}).encode()


cell = Cell(SETTINGS)
for row in cell.handle(event(0, 19, 7, {"topics": [TOPIC], "timeoutMs": 1000}), Position(0, 0)):
    print(row.topic, row.id, (row.value or b"").decode()[:300])
restarted = Cell(SETTINGS, cell.columns())
for row in restarted.handle(event(1, 3, 12, {"topics": [{"name": "orders"}]}), Position(0, 1)):
    print(row.topic, row.id, (row.value or b"").decode()[:300])
