"""The loop: one event, or one fired deadline, through the machines until the cell is quiet.

    request -> handler -> records applied, response or condition, messages -> deliveries -> quiet

`effects.py` applies a decision's records, `resuming.py` suspends and resumes requests,
`delivery.py` delivers messages, and `metadata_reading.py` reads metadata records at a broker.
"""

from brokertwin.protocol.bodies import Body
from brokertwin.state.apis.registry import BUILT
from brokertwin.state.cell import (
    between_cells,
    cleaned_logs,
    edge_settings,
    expiry,
    follower_sessions,
    handover,
    leaders,
)
from brokertwin.state.cell.between_cells import Outward
from brokertwin.state.cell.broker_events import HANDLERS
from brokertwin.state.cell.causes import TIME_UP, Replied
from brokertwin.state.cell.delivery import AtOnce, DeliveryOrder, HeldBack, MetadataRead, arrives
from brokertwin.state.cell.effects import RecordEffects
from brokertwin.state.cell.output_rows import EventRefusedError, Rows
from brokertwin.state.cell.requests import api_of, internal_request
from brokertwin.state.cell.resuming import Resuming
from brokertwin.state.cell.timers import CONTROLLERS_TIMERS, TIMERS
from brokertwin.state.cluster.coordinators import LOADING
from brokertwin.state.cluster.machines import Broker, Machine
from brokertwin.state.core import pending
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import (
    CONTROLLER,
    Decision,
    HandOver,
    LeaderAndIsr,
    Message,
    ReplicaFetch,
    ReplicaResponse,
    Request,
)
from brokertwin.state.core.events import (
    ABOUT_BROKERS,
    BETWEEN_CELLS,
    NO_CHOICES,
    REQUEST,
    Event,
    Kind,
    Reason,
    Refusal,
    decode_body,
)
from brokertwin.state.core.records import (
    PartitionAltered,
    Record,
)
from brokertwin.state.core.settings import CellSettings
from brokertwin.state.core.tables import CellTables
from brokertwin.state.eras import leader_and_isr
from brokertwin.state.fetch import fetch_session, session_items
from brokertwin.state.fetch.shards import ShardLayout
from brokertwin.state.replication import (
    copying,
    elections,
    network,
    registrations,
)

STEPS_MAX = 10_000
"""Steps of one event in its cell before it counts as an endless loop."""

_decoders = {key: api.decoder() for key, api in BUILT.items()}


class CellLoop(Resuming):
    """Runs events and fired deadlines, each until the cell is quiet.

    After an exception the cell continues with a new one, because this one may not be quiet.
    """

    def __init__(
        self,
        tables: CellTables,
        settings: CellSettings,
        rows: Rows,
        schedule: DeliveryOrder | None = None,
    ) -> None:
        self._tables = tables
        self._settings = settings
        self._rows = rows
        self._event = None
        self._now = self._event_time = 0
        self._given = settings.broker_settings
        self._has_internal_logs = self._given.brokertwin_internal_logs
        self._is_alone = len(settings.brokers) == 1
        self._brokers = {}
        self._effects = RecordEffects(tables, settings, rows)
        self._outward: Outward | None = None
        self._held_back = HeldBack(tables.pending) if settings.may_hold else None
        self._here = self._delivery = self._held_back or schedule or AtOnce()
        self._is_simple = self._held_back is None and not settings.cells

    def begin(self, now: int, event_time: int) -> None:
        """Prepare for a deadline.

        Args:
            now: when it fires.
            event_time: the time of the event that informs the cell.
        """
        if now != self._now or event_time != self._event_time:
            self._pass_time(now, event_time)
        self._event = None
        self._effects.event_id = ""
        if not self._is_simple:
            self._begin_delivery(None)

    def _begin_delivery(self, event: Event | None) -> None:
        """Start the deliveries of an event that may be held, or in one of several cells."""
        if self._held_back is not None:
            self._held_back.begin(event.id if event else "", event is not None and event.is_held)
        if not self._settings.cells:
            return
        if event is not None and event.of and event.kind in BETWEEN_CELLS:
            self._effects.event_id = event.of  # the event of the other cell is the cause
        settings, table, now = self._settings, self._tables.cluster, self._now
        self._outward = Outward(self._here, table, settings, event, now, self._rows)
        self._outward.cause = self._effects.event_id
        self._delivery = self._outward

    def _pass_time(self, now: int, event_time: int) -> None:
        self._now = self._effects.now = now
        self._event_time = event_time
        broker_event_time = event_time if self._settings.cells else now
        for broker in self._brokers.values():
            broker.now, broker.event_time = now, broker_event_time

    def _caused_by(self, event_id: str) -> None:
        """Note the cause of the effects that follow: the event, or the request that resumes."""
        self._effects.event_id = event_id
        if self._outward is not None:
            self._outward.cause = event_id

    def broker(self, broker: int) -> Broker:
        """Return a broker as its handlers see it, with its caches."""
        return self._broker(broker)

    def handle(self, event: Event, now: int) -> None:
        """Handle an event that happens at `now`, and all its effects."""
        if now != self._now or now != self._event_time:
            self._pass_time(now, now)
        self._event = event
        self._effects.event_id = event.id
        if not self._is_simple:
            self._begin_delivery(event)
        kind = event.kind
        if kind is REQUEST:
            self._request(event)
        elif kind in BETWEEN_CELLS:
            between_cells.take(self._tables.cluster, event)
            if kind is Kind.FORWARD:
                self._request(event)
            else:
                self._arrive(event)
        else:
            self._intervene(event)
        self._until_quiet()

    def _intervene(self, event: Event) -> None:
        """Handle an event that is not a request."""
        if event.kind is Kind.COMPLETE:
            self._complete_held(event)
        elif event.kind is Kind.MOVE_LEADER:
            self._move_leader(event)
        elif event.kind in ABOUT_BROKERS:
            self._change_broker(event)
        elif event.kind is Kind.DROP_SESSIONS:
            self._drop_sessions(event)
        elif event.kind in HANDLERS:
            self._carry_on(event.broker, HANDLERS[event.kind](self._broker(event.broker), event))
        elif event.kind is Kind.CLEAN_LOG:
            self._clean_log(event)
        elif event.kind is Kind.TELL_SETTINGS:
            self._rows.done(event, self._now, edge_settings.of(self._broker(event.broker)))

    def _clean_log(self, event: Event) -> None:
        """Apply the result of a pass of the log cleaner."""
        cleaned = cleaned_logs.decide(self._broker(event.broker), event.cleaned, event.seen)
        if isinstance(cleaned, Refusal):
            raise EventRefusedError(cleaned.reason, cleaned.detail)
        if cleaned is not None:
            self._apply(event.broker, cleaned)

    def _arrive(self, event: Event) -> None:
        """Handle an event of another cell."""
        assert self._outward is not None, "who hears of other cells has a way to them"
        if event.kind is Kind.REGISTRATION:
            self._register(between_cells.registration(event))
            return
        if event.kind is Kind.CUT_OFF:
            self._lose(between_cells.broker_cut_off(event))
            return
        reply = self._outward.arrive(event)
        if reply is not None:
            self._deliver_reply(*reply)

    def _move_leader(self, event: Event) -> None:
        if event.move is None:
            raise EventRefusedError(Reason.MISSING_FIELD, "a `move-leader` event needs a `move`")
        changed = leaders.decide(self._controller(), event.move)
        if isinstance(changed, Refusal):
            raise EventRefusedError(changed.reason, changed.detail)
        former = self._broker(changed.former_leader)
        taken = leaders.held(former, changed)
        self._delivery.send([HandOver(former.id, changed.leader, taken, changed)])

    def _drop_sessions(self, event: Event) -> None:
        """Complete the requests pending in a fetch session, then remove it."""
        for session_id in event.sessions:
            key = session_items.session_key(event.broker, session_id)
            for event_id in pending.watchers(self._tables.pending, key):
                self.complete(event_id)
            layout = ShardLayout.of(self._settings.broker_settings)
            fetch_session.SessionCache(
                self._tables.fetch_sessions, event.broker, layout, self._now
            ).remove(session_id)

    def due(self, event_id: str) -> None:
        """Fire an entry of the deadlines: a timer, or something pending."""
        timer = pending.timer_name(event_id)
        if timer is None:
            self.complete(event_id)
            return
        pending.set_timer(self._tables.pending, timer, None)
        kind, machine, name = timer.split("/", 2)
        if kind == registrations.SESSION_TIMER:
            self._session_over(int(name))
        elif kind in CONTROLLERS_TIMERS:
            self._carry_on(CONTROLLER, CONTROLLERS_TIMERS[kind](self._controller(), name))
        else:
            broker = self._broker(int(machine))
            self._carry_on(broker.id, TIMERS[kind](broker, name))
            if kind == LOADING:
                handover.loaded(broker, name)
        self._until_quiet()

    def complete(self, event_id: str) -> None:
        """Resume a request, or an uncommitted write, whose deadline has passed."""
        self.resume(event_id, TIME_UP)
        self._until_quiet()

    def expire(self, expired: expiry.Expired) -> bool:
        """Remove expired items of the machines; return whether there were any."""
        machines: list[Machine] = [self._broker(each) for each in self._settings.brokers_here]
        if expiry.is_controllers(expired):
            machines = [self._controller()] if self._settings.has_controller else []
        found = {each.id: records for each in machines if (records := list(expired(each)))}
        for machine, records in found.items():
            self._carry_on(machine, Decision(records=records))
            self._until_quiet()
        return bool(found)

    def _request(self, event: Event) -> None:
        tables, header = self._tables, event.request_header
        if not network.serves(tables.cluster, event.broker):
            self._refuse(event.broker)
        assert header is not None
        api = api_of(header)
        body = decode_body(event.request, _decoders[api.key])
        if type(body) is Refusal:
            raise EventRefusedError(body.reason, body.detail)
        if pending.is_taken(tables.pending, event.id):
            raise EventRefusedError(
                Reason.WRONG_TYPE, f"a request with the id {event.id!r} waits already"
            )
        request = Request(
            header,
            body,
            event.principal,
            event.connection,
            event.nonce,
            event.choices or NO_CHOICES,
            event.host,
            event.id,
            event.broker,
            event.reply_to,
            event.listener,
        )
        if api.on_controller:
            self._request_of_controller(event, request, api)
            return
        broker = self._brokers.get(event.broker) or self._broker(event.broker)
        self._carry_out(broker.id, request, api, api.handle(broker, request))

    def _refuse(self, broker: int) -> None:
        """Refuse a request to a broker that does not serve."""
        detail = f"broker {broker} does not know yet that it is registered"
        if network.is_stopped(self._tables.cluster, broker):
            detail = f"broker {broker} is stopped"
        raise EventRefusedError(Reason.BROKER_STOPPED, detail)

    def _request_of_controller(self, event: Event, request: Request, api: Api) -> None:
        if network.is_severed(self._tables.cluster, event.broker):
            detail = f"broker {event.broker} does not reach the controller, which has to respond"
            raise EventRefusedError(Reason.NO_CONTROLLER, detail)
        if not self._settings.has_controller:
            assert self._outward is not None, "another cell has the controller"
            self._outward.forward(event)
            return
        self._carry_out(CONTROLLER, request, api, api.handle(self._controller(), request))

    def _is_held(self) -> bool:
        return self._settings.may_hold and self._event is not None and self._event.is_held

    def _complete_held(self, event: Event) -> None:
        assert self._held_back is not None, "only a cell that may hold takes `complete`"
        if self._held_back.arrive(event.of, self._settings.brokers_here):
            return
        waited = pending.get_request(self._tables.pending, event.of)
        if waited is None or not waited.is_held:
            raise EventRefusedError(Reason.WRONG_TYPE, f"no held request has the id {event.of!r}")
        self.complete(event.of)

    def _apply(self, machine: int, record: Record) -> None:
        if self._effects.apply(machine, record):
            self._publish(machine, record)

    def _publish(self, machine: int, record: Record) -> None:
        """Let other machines read a metadata record that was applied."""
        self._look_again(record)
        if machine == CONTROLLER:
            brokers = self._settings.brokers_here
            there = network.missed_by(self._tables.cluster, record, brokers)
            commands = leader_and_isr.commands(self._controller(), record)
            commanded = {command.receiver for command in commands}
            self._delivery.publish(record, [each for each in there if each not in commanded])
            self._delivery.send([each for each in commands if each.receiver in there])
            if isinstance(record, PartitionAltered):
                elections.watch_leaders(self._controller(), record)

    def _until_quiet(self) -> None:
        effects = self._effects
        for _ in range(STEPS_MAX):
            step = self._delivery.next()
            if step is None:
                if effects.uncopied:
                    self._copy_on()
                    continue
                watched = effects.next_watched() if effects.changed_logs else None
                if watched is None:
                    return
                self._wake(*watched)
            elif isinstance(step, MetadataRead):
                self._deliver_metadata(*step)
            elif isinstance(step, HandOver):
                self._apply(step.receiver, step.taken)
                self._apply(CONTROLLER, step.changed)
            elif isinstance(step, Message):
                self._deliver(step)
            elif isinstance(step, LeaderAndIsr):
                for change in leader_and_isr.handle(self._broker(step.receiver), step).changes:
                    self._deliver_metadata(step.receiver, change)
            else:
                self._copy(step)
        raise EventRefusedError(Reason.STEP_LIMIT, f"the event caused more than {STEPS_MAX} steps")

    def _copy(self, step: ReplicaFetch | ReplicaResponse) -> None:
        """Deliver a follower's fetch to its leader, or the response; then it fetches again."""
        is_cut = network.is_cut(self._tables.cluster, step.sender, step.receiver)
        if is_cut or step.receiver not in self._settings.brokers:
            return
        broker = self._broker(step.receiver)
        if isinstance(step, ReplicaFetch):
            nonce = self._event.nonce if self._event is not None else ""
            follower_sessions.note_request(broker, step, nonce)
            self._carry_on(broker.id, copying.handle_fetch(broker, step))
            return
        self._carry_on(broker.id, copying.handle_fetch_response(broker, step))
        self._carry_on(broker.id, copying.next_fetches(broker, step))

    def _copy_on(self) -> None:
        """Let a broker check its changed logs for followers."""
        broker_id = next(iter(self._effects.uncopied))
        broker = self._broker(broker_id)
        places = self._effects.uncopied.pop(broker_id)
        self._carry_on(broker_id, copying.log_grown(broker, places))

    def _deliver(self, message: Message) -> None:
        """Deliver a request to another machine, and the reply to its sender."""
        receiver = message.receiver
        is_served = receiver == CONTROLLER or receiver in self._settings.brokers
        if not is_served or not arrives(self._tables.cluster, message):
            return
        api = BUILT[message.api_key]
        request = internal_request(api, message, self._event)
        decision = api.handle(self._machine(message.receiver), request)
        wants_reply = bool(message.awaited_by) or api.on_reply is not None
        is_suspended = self._carry_on(message.receiver, decision, message if wants_reply else None)
        if decision.response is not None and wants_reply and not is_suspended:
            self._deliver_reply(message, decision.response)

    def _deliver_reply(self, message: Message, response: Body) -> None:
        """Deliver a reply to the sender, or to the pending request that waits for it."""
        api = BUILT[message.api_key]
        if self._outward is not None and not between_cells.holds(self._settings, message.sender):
            self._outward.reply(message, response)
        elif message.awaited_by:
            self.resume(message.awaited_by, Replied(message, response))
        else:
            assert api.on_reply is not None, api.name
            sender = self._machine(message.sender)
            self._carry_on(message.sender, api.on_reply(sender, message, response))
