"""Another number of cells for the same state: clients do not notice."""

import random
from collections import Counter

import msgspec
import pytest

from brokertwin.state.cell import between_cells, resharding
from brokertwin.state.cell.cell import Cell
from brokertwin.state.cell.resharding import resharded
from brokertwin.state.core.settings import CellSettings
from tests.support.cells import Cells, handle_in_both, split, stories
from tests.support.histories import CLUSTER, START, Story

EVERY = 7
"""Number of documents between two reshardings."""


def reported(story: Story, source: random.Random) -> Counter[str]:
    """Run a history in one cell and in cells that are resharded repeatedly.

    Count the changes of the number of cells, and the reasons of refused ones.
    """
    one, many = Cells(story.settings, {}), Cells(story.settings, {})
    brokers = story.settings.brokers
    result: Counter[str] = Counter()
    for number, document in enumerate(story.documents):
        handle_in_both(document, one, many)
        assert many.responses == one.responses, document
        if number % EVERY == 0:
            before, count = len(many.cells), source.randint(1, len(brokers))
            why = many.reshard(split(brokers, count) if count > 1 else {})
            result[why.split(" are ")[-1] if why else f"{before} to {count}"] += 1
    assert many.durable() == one.durable()
    return result


@pytest.mark.long
def test_resharded_cells_respond_as_before() -> None:
    found: Counter[str] = Counter()
    for seed, story in enumerate(stories()):
        found += reported(story, random.Random(seed))
    ways = {f"{a} to {b}" for a in (1, 2, 3) for b in (1, 2, 3)}
    assert found.keys() >= ways
    assert found.keys() <= {*ways, "stopped or isolated"}


def test_item_in_the_wrong_cell_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resharding, "_owner", lambda _, key, __: key.split("/")[0])
    with pytest.raises((AssertionError, KeyError)):
        test_resharded_cells_respond_as_before()


SETTINGS = CellSettings(
    name=CLUSTER, cluster=CLUSTER, brokers=[1, 2], event_time="recorded", may_intervene=True
)
TWO = {"a": [1], "b": [2]}


def columns_of(cells: Cells) -> dict[str, dict[str, bytes]]:
    return {name: cell.columns() for name, cell in cells.cells.items()}


def document(event_id: str, **event: object) -> bytes:
    return msgspec.json.encode({"id": event_id, "cluster": CLUSTER, "time": START, **event})


def test_resharding_waits_for_messages_in_flight() -> None:
    cells = Cells(SETTINGS, TWO)
    header = {"requestApiKey": 19, "requestApiVersion": 7}
    topic = {"name": "orders", "numPartitions": 1, "replicationFactor": 1}
    creation = document(
        "c", broker=1, requestHeader=header, request={"topics": [topic], "timeoutMs": 1000}
    )
    rows = cells.take(("a", creation))
    assert resharded(columns_of(cells), {CLUSTER: [1, 2]}) == (
        "what the cell a has told b is under way"
    )
    cells.deliver(rows)
    found = resharded(columns_of(cells), {CLUSTER: [1, 2]})
    assert not isinstance(found, str)
    keys = Cell(SETTINGS, found[CLUSTER]).tables.cluster.keys("")
    assert [key for key in keys if key.startswith(("told/", "heard/"))] == []


def test_resharding_requires_running_brokers() -> None:
    cells = Cells(SETTINGS, TWO)
    cells.handle(document("stop", kind="stop-broker", broker=2))
    why = resharded(columns_of(cells), {CLUSTER: [1, 2]})
    assert isinstance(why, str) and "stopped or isolated" in why
    cells.handle(document("start", kind="start-broker", broker=2))
    assert not isinstance(resharded(columns_of(cells), {CLUSTER: [1, 2]}), str)


def test_new_cells_have_a_higher_incarnation_and_count_from_one() -> None:
    cells = Cells(SETTINGS, TWO)
    cells.handle(document("stop", kind="stop-broker", broker=2))
    cells.handle(document("start", kind="start-broker", broker=2))
    assert cells.reshard(split([1, 2], 2)) is None
    first = next(iter(cells.cells.values()))
    assert first.settings.incarnation == 1
    assert first.tables.cluster.get("told/cell-1", between_cells.Count) is None
