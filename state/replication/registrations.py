"""How the controller knows brokers: registered in an epoch, fenced or not, about to go.

Source: KIP-631, KIP-841; `ClusterControlManager`, `BrokerHeartbeatManager` in Kafka. A broker
registers and is fenced; with its heartbeats it asks to be unfenced, and to be let go:

    is            the heartbeat                       becomes
    fenced        wants to go                         gone
                  wants no fence, has read of its
                  registration                        unfenced
    unfenced      wants to be fenced                  fenced; gone, if it wants to go, too
                  wants to go, leads something        in controlled shutdown
                  wants to go, leads nothing          gone
    in shutdown   leads nothing any more              gone

Who is fenced or about to go leaves the in-sync sets and leads nothing. Who is gone is fenced, and
told to stop.

A broker from which no heartbeat comes for longer than `broker.session.timeout.ms` is fenced. Kafka
looks for such brokers a few times within that time; here each has a timer.

Brokers of a cell are registered from the beginning, in epoch 0; an epoch is one higher than all
before. They send no heartbeats while they run, and none is missed: a session begins when a broker
is killed or severed (`network.py`). One that has registered by a request sends heartbeats as
requests, too.
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
"""The kind of the timers at which brokers are fenced that the controller has not heard of."""


class State(Enum):
    """What a broker is to the controller (`BrokerControlState`)."""

    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "in controlled shutdown"
    SHUTDOWN_NOW = "gone"

    @property
    def is_fenced(self) -> bool:
        """Whether such a broker counts as gone."""
        return self in (State.FENCED, State.SHUTDOWN_NOW)


def state_of(registration: Registration) -> State:
    """What a broker is now."""
    if registration.is_fenced:
        return State.FENCED
    return State.CONTROLLED_SHUTDOWN if registration.in_controlled_shutdown else State.UNFENCED


def next_state(
    state: State, wants_fence: bool, wants_shutdown: bool, is_caught_up: bool, leads: bool
) -> State:
    """What a broker is after its heartbeat."""
    if state is State.FENCED:
        if wants_shutdown:
            return State.SHUTDOWN_NOW
        return State.UNFENCED if is_caught_up and not wants_fence else State.FENCED
    if state is State.UNFENCED:
        if wants_fence:
            return State.SHUTDOWN_NOW if wants_shutdown else State.FENCED
        if not wants_shutdown:
            return State.UNFENCED
    return State.CONTROLLED_SHUTDOWN if leads else State.SHUTDOWN_NOW


def becomes(controller: Controller, broker: int, state: State) -> list[Record]:
    """What the controller writes for a broker's next state, with all its partitions."""
    is_leaving = state is State.CONTROLLED_SHUTDOWN
    changed = BrokerRegistrationChanged(broker, state.is_fenced, is_leaving)
    if state is State.UNFENCED:
        return [changed, *elections.everywhere(controller, come=broker)]
    return [changed, *elections.everywhere(controller, gone=broker)]


def _timer(broker: int) -> str:
    return f"{SESSION_TIMER}/controller/{broker}"


def heard_of(machine: Machine, broker: int) -> None:
    """The controller has heard of the broker: it has this long until it is fenced."""
    deadline = machine.now + machine.settings.broker_session_timeout_ms
    pending.set_timer(machine.tables.pending, _timer(broker), deadline + 1)


def end_session(table: Table, broker: int) -> None:
    """The broker is fenced, or nobody needs to hear of it."""
    pending.set_timer(table, _timer(broker), None)


def has_session(table: Table, broker: int) -> bool:
    """Whether the broker is not fenced yet, but will be if nothing is heard of it."""
    return pending.timer_of(table, _timer(broker)) is not None


def leads(controller: Controller, broker: int) -> bool:
    """Whether a broker leads a partition."""
    return any(
        partition.leader == broker
        for topic in controller.all_topics()
        for partition in topic.partitions
    )


def next_epoch(controller: Controller) -> int:
    """The epoch of the next incarnation of any broker."""
    return 1 + max(controller.registration(each).epoch for each in controller.brokers)


def restarted(controller: Controller, broker: int, start: int) -> BrokerRegistered:
    """A broker that has been started again, and is unfenced at once; `start` as in the record.

    All its log directories are there.
    """
    epoch = next_epoch(controller)
    incarnation = topics.derive_uuid("incarnation", str(broker), str(epoch))
    return BrokerRegistered(broker, epoch, incarnation, False, False, [], start=start)
