"""The local engine's cell writes the same rows as a job's."""

from collections.abc import Mapping, Sequence
from typing import Any, get_args

import msgspec
import pytest

from brokertwin.gateway.engine.engine import ResponseRow
from brokertwin.gateway.engine.local_engine import (
    RECORDS_READ,
    LocalRecord,
    LocalResponse,
    LocalRows,
    LocalSegment,
    LocalTimer,
)
from brokertwin.state.cell.cell import Cell
from brokertwin.state.core import outputs
from brokertwin.state.core.events import Event
from brokertwin.state.core.outputs import Output, Position
from brokertwin.state.core.records import RecordEntry
from tests.support.events import within_a_process
from tests.support.histories import seeded

STORIES = (3, 9, 51)

KINDS = {each.__name__ for each in get_args(RECORDS_READ)}


def rendered(row: Output, versions: Mapping[str, int]) -> tuple[Any, ...] | None:
    """Return a row in one form for both; None if the local engine does not use it."""
    if isinstance(row, LocalResponse):
        return (
            row.id,
            row.outcome.document(versions.get(row.id, 0)),
            row.outcome._replace(response=None),
        )
    if isinstance(row, LocalRecord):
        return row.machine, msgspec.to_builtins(row.record)
    if row.topic == outputs.RESPONSES and not row.id.startswith(outputs.BROKER_CHANGES):
        outcome = msgspec.json.decode(row.value or b"", type=ResponseRow).to_response()
        return row.id, outcome.document(versions.get(row.id, 0)), outcome._replace(response=None)
    if row.topic == outputs.RECORDS:
        entry = msgspec.json.decode(row.value or b"", type=RecordEntry)
        is_reported = type(entry.record).__name__ in KINDS
        return (entry.machine, msgspec.to_builtins(entry.record)) if is_reported else None
    if isinstance(row, LocalSegment):
        return row.topic, row.place, row.batches
    if isinstance(row, LocalTimer):
        return row.topic, row.deadline
    if row.topic == outputs.SEGMENTS:
        key = msgspec.json.decode(row.key or b"", type=outputs.SegmentKey)
        batches = msgspec.json.decode(row.value)["batches"] if row.value else None
        return row.topic, (key.topic_id, key.partition, key.base_offset), batches
    if row.topic == outputs.TIMERS:
        return row.topic, msgspec.json.decode(row.value or b"")["deadline"]
    if row.topic == outputs.DEAD_LETTERS:  # an event of the process has another length
        letter = msgspec.json.decode(row.value or b"")
        return row.topic, letter["reason"], letter["detail"]
    if row.topic.startswith("offsets."):
        return None
    return row.topic, row.key, row.value


def versions_of(documents: Sequence[bytes]) -> dict[str, int]:
    events = [msgspec.json.decode(document, type=Event) for document in documents]
    return {e.id: h.request_api_version for e in events if (h := e.request_header)}


@pytest.mark.parametrize("seed", STORIES)
def test_local_cell_writes_the_rows_of_a_jobs_cell(seed: int) -> None:
    story = seeded(seed)
    local, remote = Cell(story.settings, make_rows=LocalRows), Cell(story.settings)
    responses = records = 0
    versions = versions_of(story.documents)
    for offset, document in enumerate(story.documents):
        place = Position(0, offset)
        mine = local.handle(within_a_process(document), place)
        actual = [rendered(row, versions) for row in mine]
        expected = [rendered(row, versions) for row in remote.handle(document, place)]
        assert actual == [each for each in expected if each is not None]
        responses += sum(isinstance(row, LocalResponse) for row in mine)
        records += sum(isinstance(row, LocalRecord) for row in mine)
    assert local.columns() == remote.columns()
    assert responses > len(story.documents) / 4
    assert records


def test_copy_of_the_cell_writes_the_same_rows() -> None:
    story = seeded(STORIES[0])
    cell = Cell(story.settings, make_rows=LocalRows)
    for offset, document in enumerate(story.documents[:20]):
        cell.handle(document, Position(0, offset))
    twin = cell.copy()
    place = Position(0, 20)
    first, second = cell.handle(story.documents[20], place), twin.handle(story.documents[20], place)
    versions = versions_of(story.documents)
    assert [rendered(row, versions) for row in first] == [rendered(row, versions) for row in second]
    assert [type(row) for row in first] == [type(row) for row in second]
