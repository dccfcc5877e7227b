"""The engine `local`: runs a schedule in a cell in this process."""

from collections.abc import Callable, Sequence

from brokertwin.recordings.replay.comparison import ModelResponse, decode_response
from brokertwin.state.cell.cell import Cell
from brokertwin.state.cell.check import check
from brokertwin.state.core import outputs
from brokertwin.state.core.events import Event, decode_event
from brokertwin.state.core.outputs import Output, Position
from brokertwin.state.core.settings import BrokerSettings, CellSettings


def cell_settings(
    cluster: str, brokers: Sequence[int], broker_settings: BrokerSettings
) -> CellSettings:
    """Settings of a cell with recorded times and held requests."""
    return CellSettings(
        name=cluster,
        cluster=cluster,
        brokers=list(brokers),
        broker_settings=broker_settings,
        event_time="recorded",
        may_hold=True,
    )


def run(
    documents: Sequence[bytes],
    settings: CellSettings,
    on_progress: Callable[[int], None] = lambda _: None,
    on_violation: Callable[[str], None] | None = None,
    cell: Cell | None = None,
) -> dict[str, ModelResponse]:
    """Run the events through a cell.

    Args:
        documents: the events, in order.
        settings: the cell's.
        on_progress: called with the number of processed events.
        on_violation: called with the event's id and a newly violated invariant; without it there
            are no checks.
        cell: the initial cell, if its final state is needed; by default a new one.

    Returns:
        Responses by request id.
    """
    cell = cell or Cell(settings)
    responses: dict[str, ModelResponse] = {}
    known: set[str] = set()
    for offset, document in enumerate(documents):
        responses.update(responses_in(cell.handle(document, Position(0, offset))))
        if on_violation is not None:
            found = check(cell)
            for violation in found:
                if violation not in known:
                    on_violation(f"after {_id_of(document)}: {violation}")
            known = set(found)
        on_progress(offset + 1)
    return responses


def responses_in(rows: Sequence[Output]) -> dict[str, ModelResponse]:
    """The responses among a cell's output rows, by request id."""
    return {
        row.id: decode_response(row.value)
        for row in rows
        if row.topic == outputs.RESPONSES and row.value is not None
    }


def _id_of(document: bytes) -> str:
    event = decode_event(document)
    return event.id if isinstance(event, Event) else ""
