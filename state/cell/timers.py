"""Handlers of machines' timers (`state/core/pending.py`)."""

from collections.abc import Callable

from brokertwin.state.cell import handover
from brokertwin.state.cluster.coordinators import LOADING
from brokertwin.state.cluster.machines import Broker, Controller
from brokertwin.state.core.decision import Decision
from brokertwin.state.groups import groups, kinds
from brokertwin.state.replication import copying, elections, in_sync, throttles
from brokertwin.state.share import share_partitions
from brokertwin.state.transactions import transaction_coordinator, transactional_ids

TIMERS: dict[str, Callable[[Broker, str], Decision]] = {
    copying.IN_SYNC_TIMER: in_sync.fire,
    copying.FETCH_TIMER: copying.fire,
    throttles.THROTTLE_TIMER: copying.release_throttled,
    groups.TIMER: kinds.fire,
    LOADING: handover.fire,
    share_partitions.TIMER: share_partitions.fire,
    transactional_ids.TIMER: transaction_coordinator.fire,
}
"""Kind of a timer to its handler, which gets the broker and the rest of the timer's name."""

CONTROLLERS_TIMERS: dict[str, Callable[[Controller, str], Decision]] = {
    elections.LEADERS_TIMER: elections.fire,
}
"""The same for timers of the controller."""
