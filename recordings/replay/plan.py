"""From a recording to the events that an engine runs."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from brokertwin.recordings.replay import local
from brokertwin.recordings.replay.choices import choices_of
from brokertwin.recordings.replay.comparison import Comparer
from brokertwin.recordings.replay.earlier import Earlier, earlier_requests, lacking
from brokertwin.recordings.replay.kept import KeptState
from brokertwin.recordings.replay.local import cell_settings
from brokertwin.recordings.replay.picks import NOWHERE, decided_with_picks
from brokertwin.recordings.replay.recording import Recording
from brokertwin.recordings.replay.schedule import Events, Schedule, in_order_of_arrival
from brokertwin.recordings.replay.search import LIMITS, Limits, Search
from brokertwin.state.cell.cell import Cell
from brokertwin.state.core.settings import BrokerSettings, CellSettings


class Plan(NamedTuple):
    """What an engine runs: the events in order, and the settings of the cell that takes them.

    `documents` begin with those of `earlier`: what the broker had before the recording began.
    `begins` is the state that it goes on from, `ends` the cell after the last event, where the
    search has handled them all in this very order.
    """

    schedule: Schedule
    earlier: list[Earlier]
    documents: list[bytes]
    settings: CellSettings
    begins: KeptState | None = None
    ends: Cell | None = None

    def cell(self) -> Cell:
        """A fresh cell, as it is before the first event."""
        return _cell(self.settings, self.begins)

    def state_after(self, documents: Sequence[bytes] | None = None) -> Cell:
        """The cell after some of the events from the first one on, or after all."""
        if documents is None and self.ends is not None:
            return self.ends
        cell = self.cell()
        local.run(self.documents if documents is None else documents, self.settings, cell=cell)
        return cell


def plan(
    recording: Recording,
    cluster: str,
    broker_settings: BrokerSettings,
    is_compared: bool,
    limits: Limits = LIMITS,
    on_progress: Callable[[int], None] = lambda _: None,
    is_answered: bool = True,
    begins: KeptState | None = None,
) -> Plan:
    """Put the events of a recording in order.

    Args:
        recording: the history.
        cluster: the name that its cluster gets.
        broker_settings: of its brokers.
        is_compared: search for the order that explains the recorded answers; otherwise requests
            are handled as they arrive.
        limits: what the search may spend.
        on_progress: called with the number of moments that are decided, of two for each event.
        is_answered: whether anybody looks at the answers, and at the ids that the machine would
            have picked itself: where the search does not know them they take another pass.
        begins: the state that it goes on from; without it the brokers have nothing yet.
    """
    exchanges, history = recording.exchanges, recording.events
    known = begins.brokers if begins is not None else []
    brokers = sorted({exchange.broker for exchange in exchanges} | set(known))
    settings = cell_settings(cluster, brokers, broker_settings)
    if not exchanges:
        return Plan(Schedule([], 0), [], [], settings, begins)
    part = f"{begins.exchanges}/" if begins is not None else ""
    cell = _cell(settings, begins)
    earlier = lacking(earlier_requests(exchanges, cluster, part), cell)
    before = [request.document for request in earlier]
    events = Events(history, choices_of(history), cluster, part)
    if is_compared:
        for document in before:
            cell.handle(document, NOWHERE)
        comparer = Comparer({exchange.id: exchange for exchange in history})
        search = Search(history, events, comparer, cell, limits, on_progress)
        schedule, ends = search.run(), search.cell
    else:
        schedule, ends = in_order_of_arrival(history), None
    documents = [*before, *events.of(schedule)]
    if is_compared and is_answered and schedule.answers is None:
        found = decided_with_picks(documents, _cell(settings, begins))
        schedule.answers, schedule.ids = found
    return Plan(schedule, earlier, documents, settings, begins, ends)


def _cell(settings: CellSettings, begins: KeptState | None) -> Cell:
    return Cell(settings, begins.columns if begins is not None else None)
