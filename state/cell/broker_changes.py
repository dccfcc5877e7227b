"""Brokers stop, start, and are cut off from each other (`brokertwin cluster`).

The event goes to the cell of the broker. The controller, maybe in another cell
(`between_cells.py`), decides on the partitions; elections are in `state/replication`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable

from brokertwin.state.cell import between_cells, handover
from brokertwin.state.cell.between_cells import Outward, RegistrationEvent
from brokertwin.state.cell.causes import Cause
from brokertwin.state.cell.delivery import DeliveryOrder, undelayed
from brokertwin.state.cell.effects import RecordEffects
from brokertwin.state.cell.output_rows import EventRefusedError, Rows
from brokertwin.state.cluster.coordinators import COORDINATED
from brokertwin.state.cluster.machines import Broker, Controller, Machine
from brokertwin.state.core import pending
from brokertwin.state.core.decision import CONTROLLER, Decision, Message
from brokertwin.state.core.events import Event, Kind, Reason
from brokertwin.state.core.records import (
    BrokerRegistered,
    ConfigChanged,
    FeatureLevelChanged,
    Record,
)
from brokertwin.state.core.settings import CellSettings
from brokertwin.state.core.tables import IN_MEMORY, CellTables
from brokertwin.state.eras import high_watermark_truncation
from brokertwin.state.replication import (
    checkpoints,
    copying,
    directories,
    elections,
    fetchers,
    internal_logs,
    network,
    registrations,
)
from brokertwin.state.replication.copying import Place
from brokertwin.state.replication.registrations import BrokerControlState


class BrokerChanges(ABC):
    """The part of the loop about brokers; `CellLoop` is the whole loop."""

    _tables: CellTables
    _settings: CellSettings
    _rows: Rows
    _effects: RecordEffects
    _event: Event | None
    _now: int
    _event_time: int
    _here: DeliveryOrder
    _delivery: DeliveryOrder
    _brokers: dict[int, Broker]
    """Cached brokers; a change of their settings clears them."""
    _outward: Outward | None

    @abstractmethod
    def _apply(self, machine: int, record: Record) -> None: ...

    @abstractmethod
    def _carry_on(
        self, machine: int, decision: Decision, reply_to: Message | None = None
    ) -> bool: ...

    @abstractmethod
    def resume(self, event_id: str, cause: Cause) -> None:
        """Continue a pending request or an uncommitted write."""

    @abstractmethod
    def drop(self, event_id: str) -> None:
        """End a pending request or an uncommitted write without a response."""

    @abstractmethod
    def _until_quiet(self) -> None: ...

    def _broker(self, broker: int) -> Broker:
        found = self._brokers.get(broker)
        if found is None:
            found = Broker(broker, self._tables, self._settings, self._now, self._event_time)
            self._brokers[broker] = found
        return found

    def _machine(self, machine: int) -> Machine:
        return self._controller() if machine == CONTROLLER else self._broker(machine)

    def _look_again(self, record: Record) -> None:
        """Clear the brokers' caches of their images after a metadata record."""
        for broker in self._brokers.values():
            broker.forget()
        if isinstance(record, ConfigChanged | FeatureLevelChanged):
            self._brokers.clear()

    def _controller(self) -> Controller:
        return Controller(self._tables, self._settings, self._now)

    def _change_broker(self, event: Event) -> None:
        """Stop or start a broker, cut it off, or reconnect it."""
        broker, table = event.broker, self._tables.cluster
        is_there = not network.is_stopped(table, broker)
        if event.kind is Kind.START_BROKER and not is_there:
            network.start_later(table, broker, True)
            self._start_if_it_may(broker)
        elif event.kind in (Kind.STOP_BROKER, Kind.KILL_BROKER):
            network.start_later(table, broker, False)
            if is_there:
                self._stop_broker(broker, event.kind is Kind.KILL_BROKER)
        elif event.kind is Kind.ISOLATE_BROKER:
            self._cut_off(broker)
            network.isolate(table, broker)
        elif event.kind is Kind.SEVER_BROKER and not network.is_severed(table, broker):
            self._cut_off(broker)
            network.sever(table, broker)
            if is_there:
                registrations.touch(self._broker(broker), broker)
        elif event.kind is Kind.REJOIN_BROKER:
            self._rejoin(broker)
        elif event.kind is Kind.FAIL_LOG_DIR:
            self._fail_log_dir(broker, event.directory)
        self._rows.done(event, self._now)

    def _fail_log_dir(self, broker_id: int, path: str) -> None:
        """Fail a log directory: the broker halts, or no longer serves the logs in it.

        Fetches end on both sides; those of other partitions are sent again.
        """
        if network.is_stopped(self._tables.cluster, broker_id):
            raise EventRefusedError(Reason.BROKER_STOPPED, f"broker {broker_id} is stopped")
        broker = self._broker(broker_id)
        refused = directories.refusal(broker, path)
        if refused is not None:
            raise EventRefusedError(Reason.NOT_POSSIBLE, refused)
        if directories.is_fatal(broker, path):
            self._stop_broker(broker_id, is_killed=True)
            return
        self._cut_off(broker_id)
        for place in directories.fail(broker, path):
            copying.forget(broker, place)
            self._effects.log_changed(broker_id, broker.log_key(*place))
        self._delivery.send(directories.heartbeat_request(broker))
        self._until_quiet()
        self._fetch_again(broker_id)

    def _rejoin(self, broker: int) -> None:
        """Reconnect a severed broker: it reads metadata, and its requests arrive.

        The heartbeat is last: the controller decides on it after the broker has read everything.
        """
        was_severed = network.is_severed(self._tables.cluster, broker)
        unread, unsent = network.rejoin(self._tables.cluster, broker)
        if was_severed and not network.is_stopped(self._tables.cluster, broker):
            for record in unread:
                self._here.publish(record, [broker])
            self._delivery.send([undelayed(message) for message in unsent])
            self._until_quiet()
            if not registrations.has_session(self._tables.pending, broker):
                self._register(RegistrationEvent(broker, False, False))
            registrations.end_session(self._tables.pending, broker)
            self._until_quiet()
        self._fetch_again(broker)
        self._start_if_it_may(broker)

    def _session_over(self, broker: int) -> None:
        """End the session of a broker without heartbeats."""
        self._register(RegistrationEvent(broker, True, False))
        self._until_quiet()
        self._start_if_it_may(broker)

    def _follow_again(self, broker: int) -> None:
        """Let a broker that is back follow the leaders."""
        pairs = _pairs(self._knowing(broker), broker)
        followed = [place for _, follower, place in pairs if follower == broker]
        decision = high_watermark_truncation.become_follower(self._broker(broker), followed)
        self._carry_on(broker, decision)
        for line in fetchers.lines_of_new_fetches(self._broker(broker), followed, is_start=True):
            self._apply(broker, line)
        self._fetch_again(broker)

    def _fetch_again(self, broker: int) -> None:
        """Send the fetches of a broker and of its followers."""
        followed: dict[int, list[copying.Place]] = {}
        for _, follower, place in _pairs(self._knowing(broker), broker):
            if not network.is_stopped(self._tables.cluster, follower):
                followed.setdefault(follower, []).append(place)
        for follower, theirs in followed.items():
            if between_cells.holds(self._settings, follower):
                self._carry_on(follower, copying.fetches(self._broker(follower), theirs))
            else:
                self._carry_on(
                    broker, copying.prompt_followers(self._broker(broker), follower, theirs)
                )

    def _cut_off(self, broker: int) -> None:
        """Drop the pending fetches of a broker at its leaders, and those at the broker."""
        if network.is_stopped(self._tables.cluster, broker):
            return
        self._lose(broker)
        if self._outward is not None:
            self._outward.cut_off(broker)

    def _lose(self, broker: int) -> None:
        """Drop the fetches between a broker and the leaders of this cell."""
        for leader in self._settings.brokers_here:
            if network.is_stopped(self._tables.cluster, leader):
                continue
            for led_by, follower, place in _pairs(self._broker(leader), broker):
                if led_by == leader:
                    copying.drop_pending_fetches(self._broker(leader), place, [follower])

    def _knowing(self, broker: int) -> Machine:
        """Return a machine that knows the partitions: the controller, otherwise the broker."""
        return self._controller() if self._settings.has_controller else self._broker(broker)

    def _register(self, registration: RegistrationEvent) -> None:
        """Let the controller, in any cell, fence, unfence or register a broker."""
        controller, broker, is_gone = (
            self._controller(),
            registration.broker,
            registration.is_stopped,
        )
        known = controller.registration(broker)
        if not self._settings.has_controller:
            assert self._outward is not None, "another cell has the controller"
            self._outward.register(registration)
        elif registration.is_new and not is_gone:
            if registration.was_killed:
                self._alter(elections.broker_changes(controller, ended=broker))
            registrations.end_session(self._tables.pending, broker)
            self._apply(CONTROLLER, registrations.restarted(controller, broker, registration.start))
            self._alter(elections.broker_changes(controller, started=broker))
        elif known.is_registered and known.is_fenced != is_gone:
            state = BrokerControlState.FENCED if is_gone else BrokerControlState.UNFENCED
            self._alter(registrations.change_state(controller, broker, state))

    def _alter(self, altered: Iterable[Record]) -> None:
        for record in altered:
            self._apply(CONTROLLER, record)

    def _stop_broker(self, broker: int, is_killed: bool) -> None:
        """Stop a broker: it unloads its coordinators, its memory is lost, and others are elected.

        A killed or severed broker stays registered until its session ends.
        """
        for place in _coordinated(self._broker(broker), broker):
            has_log = internal_logs.has_followers(self._broker(broker), place)
            self._carry_on(broker, handover.resign(self._broker(broker), place, has_log))
        for each in pending.everything(self._tables.pending):
            if each.broker == broker:
                self.drop(each.event_id)
        self._cut_off(broker)
        (checkpoints.crashed if is_killed else checkpoints.closed)(self._broker(broker))
        _forget_memory(self._tables, broker)
        self._brokers.pop(broker, None)
        is_severed = network.is_severed(self._tables.cluster, broker)
        network.stop(self._tables.cluster, broker, is_killed)
        assert self._event is not None, "no broker stops by itself"
        self._notify_gateways(broker, True, self._event.id)
        if not is_killed and not is_severed:
            registrations.end_session(self._tables.pending, broker)
            self._register(RegistrationEvent(broker, True, False))
        elif not is_severed:
            registrations.touch(self._broker(broker), broker)

    def _start_if_it_may(self, broker: int) -> None:
        """Start a broker if requested, unless its former process still has a session.

        Until then Kafka refuses the registration (101 DUPLICATE_BROKER_REGISTRATION).
        """
        table = self._tables.cluster
        has_session = registrations.has_session(self._tables.pending, broker)
        is_late = network.is_severed(table, broker) or has_session
        if network.is_starting(table, broker) and not is_late:
            self._start_broker(broker)

    def _start_broker(self, broker: int) -> None:
        """Start a broker: it reads missed metadata, registers, can become leader, and follows.

        It serves clients after it has read its own registration (`_registered`), like in Kafka.
        Until then its image is the one from before it stopped.
        """
        for restored in checkpoints.restored(self._broker(broker)):
            self._apply(broker, restored)
        was_killed = network.is_killed(self._tables.cluster, broker)
        for record in network.start(self._tables.cluster, broker):
            self._here.publish(record, [broker])
        self._until_quiet()
        start = network.registering_by(self._tables.cluster, broker)
        self._register(RegistrationEvent(broker, False, True, was_killed, start))
        self._until_quiet()
        if not self._settings.cells:
            self._follow_again(broker)
        checkpoints.begin(self._broker(broker))

    def _registered(self, record: BrokerRegistered) -> None:
        """Let a broker read its own registration; a started broker serves clients from now on.

        Source: `BrokerServer.startup`, which enables requests after `initialCatchUpFuture`.
        """
        if self._settings.cells:
            self._follow_again(
                record.broker
            )  # from now on leaders can add it to the in-sync replicas
        if network.registered(self._tables.cluster, record.broker, record.start):
            cause = f"registered/{record.broker}/{record.broker_epoch}"
            self._notify_gateways(record.broker, False, cause)

    def _notify_gateways(self, broker: int, is_stopped: bool, cause: str) -> None:
        self._rows.broker_changed(cause, broker, is_stopped)


def _pairs(machine: Machine, broker: int) -> list[tuple[int, int, Place]]:
    """Return leader, follower and partition of all pairs that include the broker."""
    return [
        (partition.leader, each, (topic.topic_id, number))
        for topic in machine.all_topics()
        for number, partition in enumerate(topic.partitions)
        for each in partition.replicas
        if each != partition.leader and partition.leader >= 0 and broker in (each, partition.leader)
    ]


def _coordinated(machine: Machine, broker: int) -> list[Place]:
    """Return the partitions of internal topics that the broker leads."""
    topics = [machine.topic_by_name(name) for name in COORDINATED]
    return [
        (topic.topic_id, number)
        for topic in topics
        if topic is not None
        for number, partition in enumerate(topic.partitions)
        if partition.leader == broker
    ]


def _forget_memory(tables: CellTables, broker: int) -> None:
    """Drop a broker's memory: sessions, timers, its knowledge of followers."""
    for name in IN_MEMORY:
        for key in tables[name].keys(f"{broker}/"):
            if not checkpoints.is_on_disk(key):
                tables[name].drop(key)
    tables.fetch_sessions.derived.clear()
    tables.client_instances.derived.clear()
    pending.stop_timers(tables.pending, broker)
