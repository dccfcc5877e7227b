"""From a recording to the events that an engine runs."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import structs

from brokertwin.protocol.kafka_apis import API_VERSIONS, KAFKA_APIS
from brokertwin.recordings.replay import local
from brokertwin.recordings.replay.choices import choices_of
from brokertwin.recordings.replay.comparison import Comparer
from brokertwin.recordings.replay.earlier import Earlier, earlier_requests, lacking
from brokertwin.recordings.replay.kept import KeptState
from brokertwin.recordings.replay.local import cell_settings
from brokertwin.recordings.replay.picks import NOWHERE, decided_with_picks
from brokertwin.recordings.replay.recording import Exchange, Recording
from brokertwin.recordings.replay.schedule import DeliverySchedule, Events, in_order_of_arrival
from brokertwin.recordings.replay.search import LIMITS, Search, SearchLimits
from brokertwin.state.cell.cell import Cell
from brokertwin.state.core.settings import KAFKA_4_4, RELEASE, BrokerSettings, CellSettings


class ReplayPlan(NamedTuple):
    """The events of a replay in order, and the settings of its cell.

    `documents` start with those of `earlier`. `begins` is the initial state. `ends` is the cell
    after the last event, if the search handled all in this order.
    """

    schedule: DeliverySchedule
    earlier: list[Earlier]
    documents: list[bytes]
    settings: CellSettings
    begins: KeptState | None = None
    ends: Cell | None = None

    def cell(self) -> Cell:
        """Return a new cell in the initial state."""
        return _cell(self.settings, self.begins)

    def state_after(self, documents: Sequence[bytes] | None = None) -> Cell:
        """Return the cell after the given events, by default after all."""
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
    limits: SearchLimits = LIMITS,
    on_progress: Callable[[int], None] = lambda _: None,
    has_responses: bool = True,
    begins: KeptState | None = None,
) -> ReplayPlan:
    """Order the events of a recording.

    Args:
        recording: the history.
        cluster: the name of its cluster.
        broker_settings: of its brokers.
        is_compared: search for the order that explains the recorded responses; otherwise requests
            are handled in arrival order.
        limits: limits of the search.
        on_progress: called with the number of processed moments, two for each event.
        has_responses: responses and generated ids are needed, which may take another pass.
        begins: the initial state; empty by default.
    """
    exchanges, history = recording.exchanges, recording.events
    broker_ids = begins.brokers if begins is not None else []
    brokers = sorted({exchange.broker for exchange in exchanges} | set(broker_ids))
    settings = cell_settings(cluster, brokers, _with_release(broker_settings, exchanges))
    if not exchanges:
        return ReplayPlan(DeliverySchedule([], 0), [], [], settings, begins)
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
    if is_compared and has_responses and schedule.responses is None:
        found = decided_with_picks(documents, _cell(settings, begins))
        schedule.responses, schedule.ids = found
    return ReplayPlan(schedule, earlier, documents, settings, begins, ends)


def _with_release(broker_settings: BrokerSettings, exchanges: Iterable[Exchange]) -> BrokerSettings:
    """Return settings of Kafka 4.4 if a recorded ApiVersions response shows that release.

    A release in the settings has precedence.
    """
    if RELEASE in broker_settings.given:
        return broker_settings
    for each in exchanges:
        if each.header.request_api_key == API_VERSIONS.key and _is_of_4_4(each.response or {}):
            return structs.replace(
                broker_settings,
                brokertwin_kafka_version=KAFKA_4_4,
                given={**broker_settings.given, RELEASE: KAFKA_4_4},
            )
    return broker_settings


def _is_of_4_4(response: Mapping[str, Any]) -> bool:
    listed = {each["apiKey"]: each["maxVersion"] for each in response.get("apiKeys") or ()}
    return any(
        api.newest is not None and listed.get(api.key, -1) >= api.newest
        for api in KAFKA_APIS.values()
    )


def _cell(settings: CellSettings, begins: KeptState | None) -> Cell:
    return Cell(settings, begins.columns if begins is not None else None)
