"""From a recording to the events that an engine runs."""

from collections.abc import Callable
from typing import NamedTuple

from brokerstream.state.core.settings import BrokerSettings, CellSettings
from brokerstream.streaming.replay.choices import choices_of
from brokerstream.streaming.replay.comparison import Comparer
from brokerstream.streaming.replay.earlier import Earlier, earlier_requests
from brokerstream.streaming.replay.local import cell_settings
from brokerstream.streaming.replay.picks import differing_picks
from brokerstream.streaming.replay.recording import Recording
from brokerstream.streaming.replay.schedule import Events, Schedule, in_order_of_arrival
from brokerstream.streaming.replay.search import LIMITS, Limits, Search


class Plan(NamedTuple):
    """What an engine runs: the events in order, and the settings of the cell that takes them.

    `documents` begin with those of `earlier`: what the broker had before the recording began.
    """

    schedule: Schedule
    earlier: list[Earlier]
    documents: list[bytes]
    settings: CellSettings


def plan(
    recording: Recording,
    cluster: str,
    broker_settings: BrokerSettings,
    is_compared: bool,
    limits: Limits = LIMITS,
    on_progress: Callable[[int], None] = lambda _: None,
    is_answered: bool = True,
) -> Plan:
    """Put the events of a recording in order.

    Args:
        recording: the history.
        cluster: the name that its cluster gets.
        broker_settings: of its brokers.
        is_compared: search for the order that explains the recorded answers; otherwise requests
            are handled as they arrive.
        limits: what the search may spend.
        on_progress: called with the number of moments that are decided, of two for each exchange.
        is_answered: whether anybody looks at the answers: ids that the machine would have picked
            itself take another pass, and the state does not show them.
    """
    exchanges = recording.exchanges
    brokers = sorted({exchange.broker for exchange in exchanges})
    settings = cell_settings(cluster, brokers, broker_settings)
    earlier = earlier_requests(exchanges, cluster)
    before = [request.document for request in earlier]
    events = Events(exchanges, choices_of(exchanges), cluster)
    if is_compared:
        comparer = Comparer({exchange.id: exchange for exchange in exchanges})
        schedule = Search(exchanges, events, comparer, settings, limits, on_progress).run(before)
    else:
        schedule = in_order_of_arrival(exchanges)
    documents = [*before, *events.of(schedule)]
    if is_compared and is_answered:
        schedule.ids = differing_picks(documents, settings)
    return Plan(schedule, earlier, documents, settings)
