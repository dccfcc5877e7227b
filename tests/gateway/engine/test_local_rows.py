"""The local engine's cell says the same as a job's: answers and records, not as bytes."""

from typing import Any, get_args

import msgspec
import pytest

from brokertwin.gateway.engine.engine import ResponseRow
from brokertwin.gateway.engine.local_rows import TOLD, AnswerRow, LocalRows, RecordRow
from brokertwin.state.cell.cell import Cell
from brokertwin.state.core import outputs
from brokertwin.state.core.outputs import Output, Position
from brokertwin.state.core.records import RecordEntry
from tests.support.histories import seeded

STORIES = (3, 9, 51)

KINDS = {each.__name__ for each in get_args(TOLD)}


def said(row: Output) -> tuple[Any, ...] | None:
    """What a row says, in one form for both; None for what the local engine does not take."""
    if isinstance(row, AnswerRow):
        return row.id, row.answer
    if isinstance(row, RecordRow):
        return row.machine, msgspec.to_builtins(row.record)
    if row.topic == outputs.RESPONSES and not row.id.startswith(outputs.BROKER_CHANGES):
        return row.id, msgspec.json.decode(row.value or b"", type=ResponseRow).answer()
    if row.topic == outputs.RECORDS:
        entry = msgspec.json.decode(row.value or b"", type=RecordEntry)
        is_told = type(entry.record).__name__ in KINDS
        return (entry.machine, msgspec.to_builtins(entry.record)) if is_told else None
    if row.topic.startswith("offsets."):
        return None
    return row.topic, row.key, row.value


@pytest.mark.parametrize("seed", STORIES)
def test_it_says_the_same_as_a_jobs_cell(seed: int) -> None:
    story = seeded(seed)
    local, remote = Cell(story.settings, make_rows=LocalRows), Cell(story.settings)
    answers = records = 0
    for offset, document in enumerate(story.documents):
        place = Position(0, offset)
        mine = local.handle(document, place)
        found = [said(row) for row in mine]
        expected = [said(row) for row in remote.handle(document, place)]
        assert found == [each for each in expected if each is not None]
        answers += sum(isinstance(row, AnswerRow) for row in mine)
        records += sum(isinstance(row, RecordRow) for row in mine)
    assert local.columns() == remote.columns()
    assert answers > len(story.documents) / 4
    assert records


def test_a_copy_of_the_cell_says_it_in_the_same_way() -> None:
    story = seeded(STORIES[0])
    cell = Cell(story.settings, make_rows=LocalRows)
    for offset, document in enumerate(story.documents[:20]):
        cell.handle(document, Position(0, offset))
    twin = cell.copy()
    place = Position(0, 20)
    first, second = cell.handle(story.documents[20], place), twin.handle(story.documents[20], place)
    assert [said(row) for row in first] == [said(row) for row in second]
    assert [type(row) for row in first] == [type(row) for row in second]
