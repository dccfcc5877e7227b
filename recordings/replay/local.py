"""The engine `local`: a schedule's events through one cell in this process."""

from collections.abc import Callable, Sequence

from brokertwin.recordings.replay.comparison import Answer, decode_answer
from brokertwin.state.cell.cell import Cell
from brokertwin.state.cell.check import check
from brokertwin.state.core import outputs
from brokertwin.state.core.events import Event, decode_event
from brokertwin.state.core.outputs import Output, Position
from brokertwin.state.core.settings import BrokerSettings, CellSettings


def cell_settings(
    cluster: str, brokers: Sequence[int], broker_settings: BrokerSettings
) -> CellSettings:
    """A cell that takes times as written and held requests."""
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
) -> dict[str, Answer]:
    """Hand the events to a cell.

    Args:
        documents: the events, in order.
        settings: the cell's.
        on_progress: called with the number of events that are handled.
        on_violation: called with the event's id and what does not hold after it, and did before;
            without it nothing is checked.
        cell: the cell, as it is before the first one, for who looks at its state afterwards;
            without it a fresh one.

    Returns:
        The answer to each request, by its id.
    """
    cell = cell or Cell(settings)
    answers: dict[str, Answer] = {}
    known: set[str] = set()
    for offset, document in enumerate(documents):
        answers.update(answers_in(cell.handle(document, Position(0, offset))))
        if on_violation is not None:
            found = check(cell)
            for violation in found:
                if violation not in known:
                    on_violation(f"after {_id_of(document)}: {violation}")
            known = set(found)
        on_progress(offset + 1)
    return answers


def answers_in(rows: Sequence[Output]) -> dict[str, Answer]:
    """The answers among a cell's output rows, by the request's id."""
    return {
        row.id: decode_answer(row.value)
        for row in rows
        if row.topic == outputs.RESPONSES and row.value is not None
    }


def _id_of(document: bytes) -> str:
    event = decode_event(document)
    return event.id if isinstance(event, Event) else ""
