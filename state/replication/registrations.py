"""Registrations of brokers at the controller: epochs, fencing, controlled shutdown.

Source: KIP-631, KIP-841; `ClusterControlManager`, `BrokerHeartbeatManager` in Kafka. A broker
registers and is fenced. Its heartbeats ask to be unfenced, and to shut down:

    state         heartbeat                           next state
    fenced        wants to shut down                  shut down
                  wants no fence, has read its
                  registration                        unfenced
    unfenced      wants a fence                       fenced; shut down if it wants that, too
                  wants to shut down, is a leader     in controlled shutdown
                  wants to shut down, is no leader    shut down
    in shutdown   is no longer a leader               shut down

A fenced or shutting down broker leaves the in-sync sets and leads no partition. After `shut down`
it is fenced, and the response says that it should stop.

A broker without a heartbeat for longer than `broker.session.timeout.ms` is fenced. Kafka checks for
such brokers several times in that time; here each broker has a timer.

Brokers of a cell are registered from the start, in epoch 0; each new epoch is higher than all
others. They send no heartbeats while they run: their session starts when they are killed or severed
(`network.py`). Brokers that registered by a request send heartbeats as requests.
"""

from enum import Enum

from brokertwin.state.cluster import topics
from brokertwin.state.cluster.image import Registration
from brokertwin.state.cluster.machines import Controller, Machine
from brokertwin.state.core import pending
from brokertwin.state.core.records import BrokerRegistered, BrokerRegistrationChanged, Record
from brokertwin.state.core.tables import Table
from brokertwin.state.replication import elections

SESSION_TIMER = "session"
"""Kind of the timers that end broker sessions."""


class BrokerControlState(Enum):
    """A broker's state at the controller (`BrokerControlState`)."""

    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "in controlled shutdown"
    SHUTDOWN_NOW = "gone"

    @property
    def is_fenced(self) -> bool:
        return self in (BrokerControlState.FENCED, BrokerControlState.SHUTDOWN_NOW)


def state_of(registration: Registration) -> BrokerControlState:
    if registration.is_fenced:
        return BrokerControlState.FENCED
    return (
        BrokerControlState.CONTROLLED_SHUTDOWN
        if registration.in_controlled_shutdown
        else BrokerControlState.UNFENCED
    )


def next_state(
    state: BrokerControlState,
    wants_fence: bool,
    wants_shutdown: bool,
    is_caught_up: bool,
    leads: bool,
) -> BrokerControlState:
    if state is BrokerControlState.FENCED:
        if wants_shutdown:
            return BrokerControlState.SHUTDOWN_NOW
        return (
            BrokerControlState.UNFENCED
            if is_caught_up and not wants_fence
            else BrokerControlState.FENCED
        )
    if state is BrokerControlState.UNFENCED:
        if wants_fence:
            return BrokerControlState.SHUTDOWN_NOW if wants_shutdown else BrokerControlState.FENCED
        if not wants_shutdown:
            return BrokerControlState.UNFENCED
    return BrokerControlState.CONTROLLED_SHUTDOWN if leads else BrokerControlState.SHUTDOWN_NOW


def change_state(controller: Controller, broker: int, state: BrokerControlState) -> list[Record]:
    """Records for a broker's next state, including those of its partitions."""
    is_leaving = state is BrokerControlState.CONTROLLED_SHUTDOWN
    changed = BrokerRegistrationChanged(broker, state.is_fenced, is_leaving)
    if state is BrokerControlState.UNFENCED:
        return [changed, *elections.broker_changes(controller, started=broker)]
    return [changed, *elections.broker_changes(controller, gone=broker)]


def _timer(broker: int) -> str:
    return f"{SESSION_TIMER}/controller/{broker}"


def touch(machine: Machine, broker: int) -> None:
    deadline = machine.now + machine.settings.broker_session_timeout_ms
    pending.set_timer(machine.tables.pending, _timer(broker), deadline + 1)


def end_session(table: Table, broker: int) -> None:
    pending.set_timer(table, _timer(broker), None)


def has_session(table: Table, broker: int) -> bool:
    """True if a broker is fenced unless it sends a heartbeat."""
    return pending.timer_of(table, _timer(broker)) is not None


def leads(controller: Controller, broker: int) -> bool:
    return any(
        partition.leader == broker
        for topic in controller.all_topics()
        for partition in topic.partitions
    )


def next_epoch(controller: Controller) -> int:
    return 1 + max(controller.registration(each).epoch for each in controller.brokers)


def restarted(controller: Controller, broker: int, start: int) -> BrokerRegistered:
    """Registration of a restarted broker, unfenced, with all log directories."""
    epoch = next_epoch(controller)
    incarnation = topics.derive_uuid("incarnation", str(broker), str(epoch))
    return BrokerRegistered(broker, epoch, incarnation, False, False, [], start=start)
