"""The loop: one event, or one fired deadline, through the machines until the cell is quiet.

    request -> handler -> records applied, response or condition, messages -> deliveries -> quiet

`apply.py` applies a decision's records, `delivery.py` delivers messages.

decision with a condition    the request is pending until the condition is met
decision with records        its response is pending until they are committed, if their log
                             has followers (`committing.py`)
response without records     the same for earlier writes that it can depend on
                             (`Api.earlier_writes`)

cause to resume              continues with
TIME_UP, LOG_CHANGED         `complete` of its API
Replied                      `resume` of its API
ResponseReady                the response in another request's decision
CommitEnded                  the response that was ready, or that for the log's error

When a broker reads a metadata record, first its image changes, then everything that depends on it.
Source of that part: `BrokerMetadataPublisher`, `ReplicaManager.applyDelta` in Kafka.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

import msgspec

from brokertwin.protocol.bodies import Body, Uuid
from brokertwin.protocol.errors import Error
from brokertwin.protocol.kafka_apis import UNKNOWN, Trait, api_of_key
from brokertwin.state.apis import share_fetch
from brokertwin.state.apis.registry import BUILT
from brokertwin.state.cell import (
    between_cells,
    committing,
    edge_settings,
    expiry,
    follower_sessions,
    handover,
    leaders,
)
from brokertwin.state.cell.apply import RecordEffects
from brokertwin.state.cell.between_cells import OtherCells, RegistrationEvent
from brokertwin.state.cell.delivery import (
    AtOnce,
    DeliveryOrder,
    HeldBack,
    MetadataRead,
    arrives,
    undelayed,
)
from brokertwin.state.cell.output_rows import EventRefusedError, Rows
from brokertwin.state.cluster import client_instances
from brokertwin.state.cluster.coordinators import (
    COORDINATED,
    GROUP_TOPIC,
    LOADING,
    TRANSACTION_TOPIC,
)
from brokertwin.state.cluster.image import Topic
from brokertwin.state.cluster.machines import Broker, Controller, Machine
from brokertwin.state.core import pending
from brokertwin.state.core.api import Api, NotBuilt, Refused
from brokertwin.state.core.decision import (
    CONTROLLER,
    AnyRequest,
    Condition,
    Decision,
    HandOver,
    LeaderAndIsr,
    Message,
    PendingRequest,
    ReplicaFetch,
    ReplicaResponse,
    Request,
)
from brokertwin.state.core.events import (
    ABOUT_BROKERS,
    BETWEEN_CELLS,
    NO_CHOICES,
    REQUEST,
    Choices,
    Event,
    Kind,
    LogMark,
    Reason,
    Refusal,
    RequestHeader,
    decode_body,
)
from brokertwin.state.core.pending import COMMIT_KEY, REQUEST_KEY, Pending, PendingCommit
from brokertwin.state.core.records import (
    BrokerRegistered,
    BrokerRegistrationChanged,
    ConfigChanged,
    FeatureLevelChanged,
    LogCleaned,
    PartitionAltered,
    PartitionChanged,
    PartitionsAdded,
    Record,
    ReplicasAssigned,
    TopicCreated,
    TopicRemoved,
)
from brokertwin.state.core.settings import BrokerSettings, CellSettings
from brokertwin.state.core.tables import IN_MEMORY, CellTables, MachineTables
from brokertwin.state.eras import high_watermark_truncation, leader_and_isr, replication_lines
from brokertwin.state.fetch import fetch_session, session_items
from brokertwin.state.fetch.shards import ShardLayout
from brokertwin.state.groups import committed_offsets, groups, kinds, share_states
from brokertwin.state.logs import cleaner
from brokertwin.state.logs import log as logs
from brokertwin.state.replication import (
    checkpoints,
    copying,
    directories,
    disk,
    elections,
    fetchers,
    in_sync,
    internal_logs,
    network,
    registrations,
    throttles,
)
from brokertwin.state.replication.copying import Place
from brokertwin.state.replication.internal_logs import WrittenRecords
from brokertwin.state.replication.registrations import BrokerControlState
from brokertwin.state.share import share_partitions, state_store
from brokertwin.state.transactions import (
    transaction_coordinator,
    transactional_ids,
    transactional_offsets,
)

_cleaned_decoder = msgspec.json.Decoder(LogCleaned)


def cleaned_log(
    broker: Broker, body: msgspec.Raw, seen: LogMark | None
) -> LogCleaned | Refusal | None:
    """Return the record of a pass over a broker's log, or why it is impossible.

    None if the log has changed since the pass started (`seen`); the pass is repeated.
    """
    cleaned = decode_body(body, _cleaned_decoder)
    if isinstance(cleaned, Refusal):
        return cleaned
    assert isinstance(cleaned, LogCleaned), "as it was decoded"
    log = broker.log(cleaned.topic_id, cleaned.partition)
    if seen is not None and (log is None or cleaner.log_mark(log) != seen):
        return None
    wrong = cleaner.cleaning_violation(log, cleaned)
    return Refusal(Reason.NOT_POSSIBLE, wrong) if wrong else cleaned


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
    elections.LEADERS_TIMER: elections.fire
}
"""The same for timers of the controller."""


def _disconnected(broker: Broker, event: Event) -> Decision:
    client_instances.forget_connection(broker, event.connection)
    return share_fetch.disconnected(broker, event.connection)


HANDLERS: dict[Kind, Callable[[Broker, Event], Decision]] = {
    Kind.EXPIRE_MEMBERS: lambda broker, event: kinds.expire(broker, event.group, event.members),
    Kind.DISCONNECT: _disconnected,
}
"""Kind of an event to its handler."""


def api_of(header: RequestHeader, settings: BrokerSettings) -> Api:
    """Return the API of a request. Raises EventRefusedError if it is unknown or not built.

    ApiVersions is answered in every version, so that clients can find a common one.
    """
    key, version = header.request_api_key, header.request_api_version
    api = BUILT.get(key)
    if api is not None:
        first, last = api.versions
        if first <= version <= last or Trait.ANY_VERSION in api.kafka.traits:
            return api
        if last < version <= api.kafka.last_in(settings.is_4_4):
            return api
    kafka_api = api_of_key(key)
    if kafka_api is UNKNOWN:
        raise EventRefusedError(Reason.UNKNOWN_API, f"Kafka 4.3 has no API with the key {key}")
    if not kafka_api.first <= version <= kafka_api.last:
        raise EventRefusedError(
            Reason.UNSUPPORTED_VERSION,
            f"{kafka_api.name} has the versions {kafka_api.first} to {kafka_api.last},"
            f" not {version}",
        )
    raise EventRefusedError(Reason.NOT_BUILT, f"{kafka_api.name} (key {key}, version {version})")


def internal_request(api: Api, message: Message, cause: Event | None) -> Request:
    """Return a machine's request to another one; random values derive from its cause."""
    version = api.versions[1] if message.version is None else message.version
    header = RequestHeader(api.key, version, request_api_key_name=api.name)
    nonce, choices = "", Choices()
    if cause is not None:
        nonce = cause.nonce
        choices = Choices(topic_ids=cause.choices.topic_ids if cause.choices else {})
    return Request(header, message.body, "User:ANONYMOUS", "", nonce, choices, is_from_machine=True)


def refusal_for(error: Exception) -> Refusal:
    """Return the refusal for an exception; FAULT if it has none itself."""
    if isinstance(error, EventRefusedError):
        return error.refusal
    if isinstance(error, NotBuilt):
        return Refusal(Reason.NOT_BUILT, str(error))
    where = error.__traceback__
    while where is not None and where.tb_next is not None:
        where = where.tb_next
    place = f" ({where.tb_frame.f_code.co_qualname}, line {where.tb_lineno})" if where else ""
    return Refusal(Reason.FAULT, f"{type(error).__name__}: {error}{place}")


STEPS_MAX = 10_000
"""Steps of one event in its cell before it counts as an endless loop."""

ENCODED = (msgspec.Raw, dict)
"""Types of a request's body that is not a struct yet."""

_decoders = {key: api.decoder() for key, api in BUILT.items()}


class Replied(NamedTuple):
    """Another machine has replied to a message of the pending request."""

    message: Message
    response: Body


class ResponseReady(NamedTuple):
    """Another decision, or a commit, has the response; None drops the request without one."""

    response: Body | dict[str, Any] | None


class CommitEnded(NamedTuple):
    """The records are committed, or the log has an error."""

    error: Error


class ConditionMet(NamedTuple):
    """The condition of the pending request itself is met."""

    is_time: bool


TIME_UP: Final = ConditionMet(True)
"""The deadline has passed, or a `complete` event ends a held request."""

LOG_CHANGED: Final = ConditionMet(False)
"""A watched log has changed, and the API is ready."""

Cause = ConditionMet | Replied | ResponseReady | CommitEnded


class CellLoop:
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
        self._event: Event | None = None
        self._now = self._event_time = 0
        self._given = settings.broker_settings
        self._has_internal_logs = self._given.brokertwin_internal_logs
        self._is_alone = len(settings.brokers) == 1
        self._brokers: dict[int, Broker] = {}
        self._effects = RecordEffects(tables, settings, rows)
        self._other_cells: OtherCells | None = None
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
            self._held_back.begin(event)
        if not self._settings.cells:
            return
        if event is not None and event.of and event.kind in BETWEEN_CELLS:
            self._effects.event_id = event.of  # the event of the other cell is the cause
        settings, table, now = self._settings, self._tables.cluster, self._now
        self._other_cells = OtherCells(self._here, table, settings, event, now, self._rows)
        self._other_cells.cause = self._effects.event_id
        self._delivery = self._other_cells

    def _pass_time(self, now: int, event_time: int) -> None:
        self._now = self._effects.now = now
        self._event_time = event_time
        broker_event_time = event_time if self._settings.cells else now
        for broker in self._brokers.values():
            broker.now, broker.event_time = now, broker_event_time

    def _caused_by(self, event_id: str) -> None:
        """Note the cause of the effects that follow: the event, or the request that resumes."""
        self._effects.event_id = event_id
        if self._other_cells is not None:
            self._other_cells.cause = event_id

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
        if event.kind is Kind.COMPLETE:
            self._complete_held(event)
        elif event.kind is Kind.MOVE_LEADER:
            self._move_leader(event)
        elif event.kind in ABOUT_BROKERS:
            self._change_broker(event)
        elif event.kind is Kind.DROP_SESSIONS:
            self._drop_sessions(event)
        elif event.kind in HANDLERS:
            self._carry_on(event.broker, HANDLERS[event.kind](self.broker(event.broker), event))
        elif event.kind is Kind.CLEAN_LOG:
            self._clean_log(event)
        elif event.kind is Kind.TELL_SETTINGS:
            self._rows.done(event, self._now, edge_settings.of(self.broker(event.broker)))

    def _clean_log(self, event: Event) -> None:
        """Apply the result of a pass of the log cleaner."""
        cleaned = cleaned_log(self.broker(event.broker), event.cleaned, event.seen)
        if isinstance(cleaned, Refusal):
            raise EventRefusedError(cleaned.reason, cleaned.detail)
        if cleaned is not None:
            self._apply(event.broker, cleaned)

    def _arrive(self, event: Event) -> None:
        assert self._other_cells is not None, "only one of several cells gets such an event"
        if event.kind is Kind.REGISTRATION:
            self._register(between_cells.registration(event))
            return
        if event.kind is Kind.CUT_OFF:
            self._lose(between_cells.broker_cut_off(event))
            return
        reply = self._other_cells.arrive(event)
        if reply is not None:
            self._deliver_reply(*reply)

    def _move_leader(self, event: Event) -> None:
        if event.move is None:
            raise EventRefusedError(Reason.MISSING_FIELD, "a `move-leader` event needs a `move`")
        changed = leaders.decide(self._controller(), event.move)
        if isinstance(changed, Refusal):
            raise EventRefusedError(changed.reason, changed.detail)
        former = self.broker(changed.former_leader)
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
            broker = self.broker(int(machine))
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
        machines: list[Machine] = [self.broker(each) for each in self._settings.brokers_here]
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
        api = BUILT.get(header.request_api_key)
        if api is None or header.request_api_version not in api.served:
            api = api_of(header, self._given)
        body: Any = event.request
        if type(body) in ENCODED:  # `isinstance` of a struct is slow
            body = decode_body(event.request, _decoders[api.key])
        if type(body) is Refusal:
            raise EventRefusedError(body.reason, body.detail)
        if tables.pending.has_either(REQUEST_KEY + event.id, COMMIT_KEY + event.id):
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
            machine: Machine | None = self._controller_for(event)
            if machine is None:
                return
        else:
            machine = self._brokers.get(event.broker) or self.broker(event.broker)
        try:
            decision = api.handle(machine, request)
        except Refused as refused:
            decision = refused.decision(api)
        self._carry_out(machine.id, request, api, decision)

    def _refuse(self, broker: int) -> None:
        """Refuse a request to a broker that does not serve."""
        detail = f"broker {broker} does not know yet that it is registered"
        if network.is_stopped(self._tables.cluster, broker):
            detail = f"broker {broker} is stopped"
        raise EventRefusedError(Reason.BROKER_STOPPED, detail)

    def _controller_for(self, event: Event) -> Controller | None:
        """Return the controller; None if the request was forwarded to its cell."""
        if network.is_severed(self._tables.cluster, event.broker):
            detail = f"broker {event.broker} does not reach the controller, which has to respond"
            raise EventRefusedError(Reason.NO_CONTROLLER, detail)
        if not self._settings.has_controller:
            assert self._other_cells is not None, "another cell has the controller"
            self._other_cells.forward(event)
            return None
        return self._controller()

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
                for change in leader_and_isr.handle(self.broker(step.receiver), step).changes:
                    self._deliver_metadata(step.receiver, change)
            else:
                self._copy(step)
        raise EventRefusedError(Reason.STEP_LIMIT, f"the event caused more than {STEPS_MAX} steps")

    def _copy(self, step: ReplicaFetch | ReplicaResponse) -> None:
        """Deliver a follower's fetch to its leader, or the response; then it fetches again."""
        is_cut = network.is_cut(self._tables.cluster, step.sender, step.receiver)
        if is_cut or step.receiver not in self._settings.brokers:
            return
        broker = self.broker(step.receiver)
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
        broker = self.broker(broker_id)
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
        try:
            decision = api.handle(self._machine(message.receiver), request)
        except Refused as refused:
            decision = refused.decision(api)
        wants_reply = bool(message.awaited_by) or api.on_reply is not None
        is_suspended = self._carry_on(message.receiver, decision, message if wants_reply else None)
        if decision.response is not None and wants_reply and not is_suspended:
            self._deliver_reply(message, decision.response)

    def _deliver_reply(self, message: Message, response: Body) -> None:
        """Deliver a reply to the sender, or to the pending request that waits for it."""
        api = BUILT[message.api_key]
        if self._other_cells is not None and not between_cells.holds(
            self._settings, message.sender
        ):
            self._other_cells.reply(message, response)
        elif message.awaited_by:
            self.resume(message.awaited_by, Replied(message, response))
        else:
            assert api.on_reply is not None, api.name
            sender = self._machine(message.sender)
            self._carry_on(message.sender, api.on_reply(sender, message, response))

    # Suspend

    def _carry_out(self, machine: int, source: AnyRequest, api: Api, decision: Decision) -> None:
        """Carry out a decision on a client's request: respond, or suspend it."""
        condition = decision.condition
        if condition is not None:
            self._suspend(source, api, condition)
            for message in decision.messages:
                message.awaited_by = source.event_id
        if decision.records and self._write(machine, decision, source):
            return
        if decision.messages or decision.copies or decision.woken or decision.resumed:
            self._send(machine, decision)
        if condition is not None:
            return
        if not self._is_alone and self._awaits_earlier(machine, decision, source):
            return
        closes, mute_ms = decision.closes_connection, decision.mute_ms
        self._rows.response(source, self._now, decision.response, closes, mute_ms)

    def _carry_on(self, machine: int, decision: Decision, reply_to: Message | None = None) -> bool:
        """Carry out another decision; return whether the reply to a message is suspended."""
        if decision.records and self._write(machine, decision, reply_to=reply_to):
            return True
        self._send(machine, decision)
        return self._awaits_earlier(machine, decision, reply_to=reply_to)

    def _suspend(self, source: AnyRequest, api: Api, condition: Condition) -> None:
        is_held = source.is_held if isinstance(source, PendingRequest) else self._is_held()
        request = PendingRequest(
            event_id=source.event_id,
            broker=source.broker,
            api_key=api.key,
            deadline=condition.deadline,
            header=source.header,
            connection=source.connection,
            principal=source.principal,
            reply_to=source.reply_to,
            logs=condition.logs,
            state=condition.state,
            is_held=is_held,
        )
        pending.add(self._tables.pending, request)

    def _write(
        self,
        machine: int,
        decision: Decision,
        request: AnyRequest | None = None,
        reply_to: Message | None = None,
    ) -> bool:
        """Apply the records; return whether the rest is suspended until they are committed."""
        written = None
        if machine != CONTROLLER and not self._is_alone:
            written = internal_logs.write(self.broker(machine), decision.records)
        if written is None:
            records = decision.records
            if self._has_internal_logs:
                records = self._with_rows(machine, records)
            apply = self._effects.apply
            for record in records:
                if apply(machine, record):
                    self._publish(machine, record)
            return False
        broker = self.broker(machine)
        for record in self._with_rows(machine, written.records):
            self._effects.apply(machine, record, False)
        for record in transactional_ids.placeholder_records(broker, decision.records):
            self._effects.apply(machine, record)
        if written.error is not Error.NONE:
            committing.refuse(broker, decision, request, written.error)
            return False
        committing.suspend(broker, written, decision, request, reply_to)
        at_once = [
            each for each in decision.messages if not committing.is_sent_when_committed(each)
        ]
        self._delivery.send([*at_once, *decision.copies])
        return True

    def _awaits_earlier(
        self,
        machine: int,
        decision: Decision,
        request: AnyRequest | None = None,
        reply_to: Message | None = None,
    ) -> bool:
        """Suspend a response without records if it depends on uncommitted earlier writes."""
        if machine == CONTROLLER or self._is_alone or decision.response is None:
            return False
        broker = self.broker(machine)
        required = committing.earlier(broker, decision.response, request, reply_to)
        if required:
            response = Decision(response=decision.response)
            committing.suspend(
                broker, WrittenRecords([], [], required), response, request, reply_to
            )
        return bool(required)

    def _with_rows(self, machine: int, records: list[Record]) -> list[Record]:
        """Add the batches of logs without followers, if internal topics can be read."""
        if machine == CONTROLLER or not self._has_internal_logs:
            return records
        return internal_logs.with_rows(self.broker(machine), records)

    def _send(self, machine: int, decision: Decision) -> None:
        """Send messages, note woken logs, and resume other requests."""
        if decision.messages or decision.copies:
            self._delivery.send([*decision.messages, *decision.copies])
        for log in decision.woken:
            self._effects.log_changed(machine, log)
        for each in decision.resumed:
            self.resume(each.event_id, ResponseReady(each.response))

    # Resume

    def resume(self, event_id: str, cause: Cause) -> None:
        """Continue a pending request or write; without effect if it has ended."""
        taken = pending.take(self._tables.pending, event_id)
        if isinstance(taken, PendingCommit):
            error = cause.error if isinstance(cause, CommitEnded) else Error.REQUEST_TIMED_OUT
            self._finish(taken, error)
        elif taken is not None and isinstance(cause, ResponseReady):
            self._respond(taken, cause.response)
        elif taken is not None:
            api, broker = BUILT[taken.api_key], self.broker(taken.broker)
            if isinstance(cause, Replied):
                assert api.resume is not None, api.name
                decision = api.resume(broker, taken, cause.message, cause.response)
            else:
                if cause is TIME_UP:
                    self._caused_by(event_id)
                assert api.complete is not None, api.name
                decision = api.complete(broker, taken)
            self._carry_out(taken.broker, taken, api, decision)

    def drop(self, event_id: str) -> None:
        """End a pending request or write at a broker that stops; the client is disconnected."""
        taken = pending.take(self._tables.pending, event_id)
        if isinstance(taken, PendingRequest):
            self._rows.response(taken, self._now, None, closes_connection=True)

    def _respond(self, request: PendingRequest, response: Body | dict[str, Any] | None) -> None:
        if response is not None:
            self._rows.response(request, self._now, response)

    def _finish(self, commit: PendingCommit, error: Error) -> None:
        """Send the responses and messages that have waited for a commit."""
        outcome = committing.finish(self.broker(commit.broker), commit, error)
        for record in outcome.records:
            self._apply(commit.broker, record)
        for record in outcome.rows:
            self._rows.of_group(record)
        synced = committing.finished(self.broker(commit.broker), commit, error)
        for event_id, response in outcome.responses:
            self.resume(event_id, ResponseReady(response))
        self._delivery.send(outcome.messages)
        for message, reply in outcome.replies:
            self._deliver_reply(message, reply)
        for decision in synced:
            self._carry_on(commit.broker, decision)

    def _wake(self, watched: str, log: str) -> None:
        """Resume the requests and writes on a log or a session whose conditions are met."""
        unblocked: Counter[str] = Counter()
        for event_id in pending.watchers(self._tables.pending, watched):
            watcher = pending.get(self._tables.pending, event_id)
            cause = self._met(watcher) if watcher is not None and not watcher.is_held else None
            if cause is not None:
                if isinstance(watcher, PendingRequest):
                    unblocked[BUILT[watcher.api_key].name] += 1
                self.resume(event_id, cause)
        if self._given.brokertwin_trace_replication:
            for line in replication_lines.unblocked(self._tables, watched, log, unblocked):
                self._apply(int(log.partition("/")[0]), line)

    def _met(self, watcher: Pending) -> Cause | None:
        """Return why a changed log resumes something pending, or None if it does not."""
        broker = self.broker(watcher.broker)
        if isinstance(watcher, PendingCommit):
            error = committing.error_of(broker, watcher)
            return None if error is None else CommitEnded(error)
        api = BUILT[watcher.api_key]
        assert api.ready is not None, api.name
        return LOG_CHANGED if api.ready(broker, watcher) else None

    # Read metadata records

    def _deliver_metadata(self, broker: int, record: Record) -> None:
        if isinstance(record, TopicRemoved):
            self._lose_topic(broker, record)
        if isinstance(record, PartitionAltered):
            self._read_of_altered(broker, record)
            return
        older: frozenset[int] = frozenset()
        if isinstance(record, PartitionsAdded):
            older = disk.without_place(self.broker(broker), record.topic_id)
        self._apply(broker, record)
        if isinstance(record, BrokerRegistrationChanged):
            self._carry_on(broker, copying.broker_registered(self.broker(broker)))
            if record.broker == broker and not record.is_fenced:
                self._fetch_again(broker)  # its leaders may not know yet that it follows
        if isinstance(record, ConfigChanged) and record.name in throttles.SETTINGS:
            for side in throttles.Side:
                self._carry_on(broker, copying.release_throttled(self.broker(broker), side))
        if isinstance(record, TopicCreated | PartitionsAdded):
            self._place_logs(self.broker(broker), record.topic_id, older)
        if isinstance(record, ReplicasAssigned):
            self._carry_on(broker, copying.directories_assigned(self.broker(broker), record))
        if isinstance(record, BrokerRegistered) and record.broker == broker:
            self._registered(record)
        if isinstance(record, PartitionChanged):
            self._read_of_changed(broker, record)

    def _lose_topic(self, broker: int, record: TopicRemoved) -> None:
        """Tombstone the offsets and share states of a topic and wake requests pending on its logs.

        Deleting an internal topic also deletes everything that it coordinated.
        """
        machine = self.broker(broker)
        topic = machine.topic_by_id(record.topic_id)
        assert topic is not None, record.topic_id
        if topic.name in COORDINATED:
            self._lose_coordinated(machine, topic)
        for owner in (committed_offsets, transactional_offsets):
            gone = owner.tombstones_of_topic(machine, topic.name)
            self._carry_on(broker, Decision(records=list(gone)))
        for records in (
            share_states.records_of_deleted_topic(machine, record.topic_id),
            list[Record](state_store.tombstones_of_topic(machine, topic.topic_id)),
        ):
            self._carry_on(broker, Decision(records=records))
        for partition, known in enumerate(topic.partitions):
            self._effects.log_changed(broker, machine.log_key(record.topic_id, partition))
            follower_sessions.forget(machine, topic, partition, known.replicas)
            copying.forget(machine, (record.topic_id, partition))
            checkpoints.forget(machine, (record.topic_id, partition))

    def _lose_coordinated(self, broker: Broker, topic: Topic) -> None:
        """Resume the uncommitted writes of a deleted internal topic: 16 NOT_COORDINATOR.

        For transactions, after the log is gone: 15 COORDINATOR_NOT_AVAILABLE.
        """
        table = broker.tables.pending
        for number in range(len(topic.partitions)) if topic.name != TRANSACTION_TOPIC else ():
            for event_id in pending.watchers(table, broker.log_key(topic.topic_id, number)):
                if isinstance(pending.get(table, event_id), PendingCommit):
                    self.resume(event_id, CommitEnded(Error.NOT_LEADER_OR_FOLLOWER))
        for gone in kinds.tombstones_of_all(broker) if topic.name == GROUP_TOPIC else ():
            self._rows.of_group(gone)
        for decision in handover.forget_deleted(broker, topic):
            self._carry_on(broker.id, decision)

    def _read_of_changed(self, broker: int, record: PartitionChanged) -> None:
        """Let a broker read that a test has moved a leader."""
        place = (record.topic_id, record.partition)
        self._carry_on(broker, copying.new_leader(self.broker(broker), place))
        self._carry_on(broker, copying.fetches(self.broker(broker), [place]))
        self._effects.to_copy(broker, place)
        self._place_logs(self.broker(broker), record.topic_id)
        if broker == record.former_leader:
            topic = self.broker(broker).topic_by_id(record.topic_id)
            if topic is not None:
                replicas = topic.partitions[record.partition].replicas
                follower_sessions.forget(self.broker(broker), topic, record.partition, replicas)
            checkpoints.forget(self.broker(broker), place)
            self._carry_on(broker, handover.resign(self.broker(broker), place, False))
        elif broker == record.leader:
            handover.take_over(self.broker(broker), place)
        self._effects.log_changed(broker, logs.log_key(broker, *place))

    def _read_of_altered(self, broker_id: int, record: PartitionAltered) -> None:
        """Let a broker read a change of leader, replicas or in-sync replicas."""
        broker, place = self.broker(broker_id), (record.topic_id, record.partition)
        former = copying.partition_of(broker, place)
        assert former is not None, record
        older = disk.without_place(broker, record.topic_id)
        self._apply(broker_id, record)
        follower_sessions.altered(broker, *place, former)
        if broker.held_log(*place) is None:
            checkpoints.forget(broker, place)
        self._place_logs(broker, record.topic_id, older)
        self._carry_on(broker_id, copying.partition_altered(broker, record, former))
        if record.leader is not None:
            self._carry_on(broker_id, copying.fetches(broker, [place]))
        self._carry_on(broker_id, handover.altered(broker, place, former))
        handover.elected(broker, place, former)
        if record.isr is not None or record.leader is not None or record.replicas is not None:
            self._effects.to_copy(
                broker_id, place
            )  # eligible leader replicas raise no high watermark
        self._effects.log_changed(broker_id, logs.log_key(broker_id, *place))

    def _place_logs(
        self, broker: Broker, topic_id: Uuid, older: frozenset[int] = frozenset()
    ) -> None:
        """Place new logs of a topic in log directories, and report them if there are several."""
        placed = disk.placed(broker, topic_id, older)
        for each in placed:
            self._apply(broker.id, each)
        if placed:
            self._delivery.send(directories.assignments(broker, [topic_id]))

    # Stop and start brokers

    def broker(self, broker: int) -> Broker:
        """Return a broker as its handlers see it, with its caches."""
        machine = self._brokers.get(broker)
        if machine is None:
            machine = Broker(broker, self._tables, self._settings, self._now, self._event_time)
            self._brokers[broker] = machine
        return machine

    def _machine(self, machine: int) -> Machine:
        return self._controller() if machine == CONTROLLER else self.broker(machine)

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
                registrations.touch(self.broker(broker), broker)
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
        broker = self.broker(broker_id)
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
        decision = high_watermark_truncation.become_follower(self.broker(broker), followed)
        self._carry_on(broker, decision)
        for line in fetchers.lines_of_new_fetches(self.broker(broker), followed, is_start=True):
            self._apply(broker, line)
        self._fetch_again(broker)

    def _fetch_again(self, broker: int) -> None:
        followed: dict[int, list[copying.Place]] = {}
        for _, follower, place in _pairs(self._knowing(broker), broker):
            if not network.is_stopped(self._tables.cluster, follower):
                followed.setdefault(follower, []).append(place)
        for follower, theirs in followed.items():
            if between_cells.holds(self._settings, follower):
                self._carry_on(follower, copying.fetches(self.broker(follower), theirs))
            else:
                self._carry_on(
                    broker, copying.prompt_followers(self.broker(broker), follower, theirs)
                )

    def _cut_off(self, broker: int) -> None:
        """Drop the pending fetches of a broker at its leaders, and those at the broker."""
        if network.is_stopped(self._tables.cluster, broker):
            return
        self._lose(broker)
        if self._other_cells is not None:
            self._other_cells.cut_off(broker)

    def _lose(self, broker: int) -> None:
        """Drop the fetches between a broker and the leaders of this cell."""
        for leader in self._settings.brokers_here:
            if network.is_stopped(self._tables.cluster, leader):
                continue
            for led_by, follower, place in _pairs(self.broker(leader), broker):
                if led_by == leader:
                    copying.drop_pending_fetches(self.broker(leader), place, [follower])

    def _knowing(self, broker: int) -> Machine:
        """Return a machine that knows the partitions: the controller, otherwise the broker."""
        return self._controller() if self._settings.has_controller else self.broker(broker)

    def _register(self, registration: RegistrationEvent) -> None:
        """Let the controller, in any cell, fence, unfence or register a broker."""
        controller, broker, is_gone = (
            self._controller(),
            registration.broker,
            registration.is_stopped,
        )
        known = controller.registration(broker)
        if not self._settings.has_controller:
            assert self._other_cells is not None, "another cell has the controller"
            self._other_cells.register(registration)
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
        for place in _coordinated(self.broker(broker), broker):
            has_log = internal_logs.has_followers(self.broker(broker), place)
            self._carry_on(broker, handover.resign(self.broker(broker), place, has_log))
        for each in pending.everything(self._tables.pending):
            if each.broker == broker:
                self.drop(each.event_id)
        self._cut_off(broker)
        (checkpoints.crashed if is_killed else checkpoints.closed)(self.broker(broker))
        _forget_memory(self._tables.of(broker))
        self._brokers.pop(broker, None)
        is_severed = network.is_severed(self._tables.cluster, broker)
        network.stop(self._tables.cluster, broker, is_killed)
        assert self._event is not None, "no broker stops by itself"
        self._notify_gateways(broker, True, self._event.id)
        if not is_killed and not is_severed:
            registrations.end_session(self._tables.pending, broker)
            self._register(RegistrationEvent(broker, True, False))
        elif not is_severed:
            registrations.touch(self.broker(broker), broker)

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
        for restored in checkpoints.restored(self.broker(broker)):
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
        checkpoints.begin(self.broker(broker))

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


def _forget_memory(at: MachineTables) -> None:
    """Drop a broker's memory: sessions, timers, its knowledge of followers."""
    for name in IN_MEMORY:
        for key in at.tables[name].keys(f"{at.id}/"):
            if not checkpoints.is_on_disk(key):
                at.tables[name].drop(key)
    at.tables.fetch_sessions.derived.clear()
    at.tables.client_instances.derived.clear()
    pending.stop_timers(at)
