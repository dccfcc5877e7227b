"""A cluster in several cells, wired by a list in place of the topic `requests`.

Each document goes to the cell that holds its broker; messages between cells are delivered until
none is in flight, so that no event overtakes what another one causes. `tell_both` gives the same
history, with the same ticks at every deadline, to such a cluster and to one that is a single cell.
"""

import os
from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from brokertwin.state.apis.registry import BUILT
from brokertwin.state.cell.cell import Cell
from brokertwin.state.cell.check import hold
from brokertwin.state.cell.resharding import resharded
from brokertwin.state.core import outputs, pending
from brokertwin.state.core.events import Event, Kind, decode_event
from brokertwin.state.core.outputs import Output, Position
from brokertwin.state.core.settings import CellSettings
from tests.support.histories import Story, seeded

Row = tuple[str, bytes]
"""A row of `requests`: its key, a cell's name, and its document."""

DURABLE = ("logs", "producers", "groups", "transactions", "metadata")

Repeat = Callable[[list[Row]], list[Row]]
"""Returns the topic rows to deliver again now."""


def split(brokers: list[int], count: int) -> dict[str, list[int]]:
    """The brokers of `count` cells, dealt out in turn."""
    return {f"cell-{n}": brokers[n::count] for n in range(count)}


class Cells:
    """The cells of one cluster; their invariants are checked after each document of a client.

    Attributes:
        cells: by name; a test may put others in their place.
        topic: every row that has lain in `requests`, in order.
        out: every row for other topics.
        responses: the responses by the request's id, as documents; a second one is an error.
        reported: how many events of each kind cells have sent to each other.
    """

    def __init__(
        self, settings: CellSettings, brokers: dict[str, list[int]], repeat: Repeat | None = None
    ) -> None:
        self.settings = settings
        self.cells = {
            name: Cell(msgspec.structs.replace(settings, name=name, cells=brokers))
            for name in brokers
        } or {settings.name: Cell(settings)}
        self.topic: list[Row] = []
        self.out: list[Output] = []
        self.responses: dict[str, Any] = {}
        self.reported: Counter[str] = Counter()
        self._repeat = repeat
        self._offset = 0

    def handle(self, document: bytes) -> None:
        event = decode_event(document)
        broker = event.broker if isinstance(event, Event) else -1
        self.deliver([(self._cell_of(broker), document)])
        for cell in self.cells.values():
            hold(cell)

    def tick(self, time: int) -> None:
        tick = {"id": f"tick-{time}", "cluster": self.settings.cluster, "kind": "tick"}
        for name in self.cells:
            self.deliver([(name, msgspec.json.encode({**tick, "time": time}))])

    def deliver(self, rows: list[Row]) -> None:
        """Handle rows of `requests` and their effects until nothing is in flight."""
        queue = deque(rows)
        while queue:
            row = queue.popleft()
            queue += self.take(row)
            self.topic.append(row)
            if self._repeat is not None:
                for name, document in self._repeat(self.topic):
                    rows = self.cells[name].handle(document, Position(0, -1))
                    assert rows == [], "a repeat tells nobody anything"

    def take(self, row: Row) -> list[Row]:
        """Return the messages to other cells when a cell takes a row."""
        name, document = row
        rows = self.cells[name].handle(document, Position(0, self._offset))
        self._offset += 1
        result = []
        for output in rows:
            if output.topic == outputs.REQUESTS:
                result.append(((output.key or b"").decode(), output.value or b""))
                self.reported[kind_of(result[-1])] += 1
                continue
            self.out.append(output)
            if output.topic == outputs.RESPONSES:
                assert output.id not in self.responses, f"{output.id} is answered twice"
                self.responses[output.id] = msgspec.json.decode(output.value or b"")
        return result

    def reshard(self, brokers: dict[str, list[int]]) -> str | None:
        """Put other cells in the place of these; gives back why not, where it cannot be now."""
        held = brokers or {self.settings.name: self.settings.brokers}
        former = {name: cell.columns() for name, cell in self.cells.items()}
        result = resharded(former, held)
        if isinstance(result, str):
            return result
        before = next(iter(self.cells.values())).settings
        self.cells = {
            name: Cell(
                msgspec.structs.replace(
                    self.settings, name=name, cells=brokers, incarnation=before.incarnation + 1
                ),
                columns,
            )
            for name, columns in result.items()
        }
        for cell in self.cells.values():
            hold(cell)
        return None

    def dead_letters(self) -> list[dict[str, Any]]:
        letters = [row for row in self.out if row.topic == outputs.DEAD_LETTERS]
        return [msgspec.json.decode(row.value or b"") for row in letters]

    def durable(self) -> dict[str, Any]:
        """The durable items of all cells, by table and key; each is in one cell alone."""
        result: dict[str, Any] = {}
        for cell in self.cells.values():
            columns = cell.columns()
            for name in DURABLE:
                items = msgspec.msgpack.decode(columns[name]) if columns[name] else {}
                assert not result.keys() & {f"{name}:{key}" for key in items}
                result.update({f"{name}:{key}": item for key, item in items.items()})
        return result

    def earliest(self) -> int | None:
        """The first deadline of any cell, in ms since 1970."""
        found = [pending.earliest(cell.tables.pending) for cell in self.cells.values()]
        return min((each[0] for each in found if each is not None), default=None)

    def _cell_of(self, broker: int) -> str:
        for name, cell in self.cells.items():
            if broker in cell.settings.brokers_here:
                return name
        return next(iter(self.cells))


def kind_of(row: Row) -> str:
    return str(msgspec.json.decode(row[1]).get("kind", "request"))


def handle_in_both(document: bytes, *clusters: Cells) -> None:
    """Gives an event to some clusters, after the same ticks: at each deadline of any, and now."""
    event = decode_event(document)
    assert isinstance(event, Event), event
    due = {each for cluster in clusters if (each := cluster.earliest()) is not None}
    while due and min(due) < event.time:
        for cluster in clusters:
            cluster.tick(min(due))
        due = {each for cluster in clusters if (each := cluster.earliest()) is not None}
    for cluster in clusters:
        cluster.tick(event.time)
        cluster.handle(document)


SEEDS = range(int(os.environ.get("HISTORIES", "8")))


NEVER_MS = 2**50


def stories() -> Iterator[Story]:
    """Histories of two or three brokers; blocks come by requests.

    No offset expires: of the checks that a silent cell has missed the last one drops it, and which
    one that is depends on when the cell is woken, so the tombstone's time does.

    No event moves a leader: that is refused in several cells. No timer is due at once, and no
    request has a time-out of 0 ms: it is over when a cell hears of another one, whatever that says
    (`test_zero_time_out_expires_before_another_cell_replies`).
    """
    for seed in SEEDS:
        story = seeded(seed, 60)
        if len(story.settings.brokers) > 1:
            settings = msgspec.structs.replace(
                story.settings,
                broker_settings=msgspec.structs.replace(
                    story.settings.broker_settings,
                    brokertwin_zk_producer_id_blocks=False,
                    group_initial_rebalance_delay_ms=1,
                    offsets_retention_check_interval_ms=NEVER_MS,
                    brokertwin_leader_and_isr=False,
                ),
            )
            documents = [each for each in story.documents if not moves_a_leader(each)]
            yield Story(settings, [patient(each) for each in documents])


def moves_a_leader(document: bytes) -> bool:
    return kind_of(("", document)) == Kind.MOVE_LEADER


def patient(document: bytes) -> bytes:
    """The same event, where it is a request with a time-out with one of at least 1 ms."""
    reported = msgspec.json.decode(document)
    api = BUILT.get(reported.get("requestHeader", {}).get("requestApiKey"))
    if api is None or "timeout_ms" not in api.request_type.__struct_fields__:
        return document
    body = reported["request"]
    return msgspec.json.encode(
        {**reported, "request": {**body, "timeoutMs": max(body.get("timeoutMs", 0), 1)}}
    )
