"""The loop: one event, or one fired deadline, through the machines until the cell is quiet.

    request -> handler -> records applied, answer or wait, messages -> delivered one by one -> quiet

What a decision's records do is in `effects.py`, how messages reach other machines in `delivery.py`,
what a metadata record does with a broker in `metadata_reading.py`.
"""

from collections import Counter
from typing import Any

from brokertwin.state.apis.registry import BUILT
from brokertwin.state.cell import (
    behind,
    between_cells,
    cleaned_logs,
    committing,
    expiry,
    handover,
    leaders,
    settings_told,
)
from brokertwin.state.cell.apply import METADATA_RECORDS
from brokertwin.state.cell.between_cells import Outward
from brokertwin.state.cell.delivery import AtOnce, HeldBack, MetadataRead, Schedule, arrives
from brokertwin.state.cell.effects import Effects
from brokertwin.state.cell.metadata_reading import MetadataReading
from brokertwin.state.cell.output_rows import Refused, Rows
from brokertwin.state.cell.requests import api_of, internal_request
from brokertwin.state.cell.timers import CONTROLLERS_TIMERS, TIMERS
from brokertwin.state.cell.told import TOLD
from brokertwin.state.cluster.coordinators import LOADING
from brokertwin.state.cluster.machines import Broker, Machine
from brokertwin.state.core import waiting
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import (
    CONTROLLER,
    Asked,
    Decision,
    Delay,
    HandOver,
    LeaderAndIsr,
    Message,
    ReplicaAnswer,
    ReplicaFetch,
    Request,
    Waiting,
)
from brokertwin.state.core.errors import Error
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
from brokertwin.state.core.schema import Body, render, shown
from brokertwin.state.core.settings import CellSettings
from brokertwin.state.core.tables import Tables
from brokertwin.state.fetch import fetch_session, session_items
from brokertwin.state.fetch.slices import Slices
from brokertwin.state.replication import (
    copying,
    elections,
    internal_logs,
    leader_and_isr,
    network,
    registrations,
    trace,
)
from brokertwin.state.transactions import transactional_ids

STEPS_MAX = 10_000
"""Steps that one event may cause in its cell before it is taken for a loop."""

_decoders = {key: api.decoder() for key, api in BUILT.items()}


class Run(MetadataReading):
    """One event after the other, or fired deadlines, each until the cell is quiet.

    Where something raises, the cell goes on with another one: this one may not be quiet.
    """

    def __init__(
        self,
        tables: Tables,
        settings: CellSettings,
        rows: Rows,
        schedule: Schedule | None = None,
    ) -> None:
        self._tables = tables
        self._settings = settings
        self._rows = rows
        self._event = None
        self._now = self._event_time = 0
        self._given = settings.broker_settings
        self._brokers = {}
        self._effects = Effects(tables, settings, rows)
        self._at_once = schedule or AtOnce()
        self._outward: Outward | None = None
        self._here = self._delivery = self._schedule()

    def begin(self, event: Event | None, now: int, event_time: int) -> None:
        """An event, or a deadline, comes next.

        `now` is when it happens, `event_time` the time of the event that lets the cell know.
        """
        settings, effects = self._settings, self._effects
        self._event = event
        if now != self._now or event_time != self._event_time:
            self._now = effects.now = now
            self._event_time = event_time
            told_at = event_time if settings.cells else now
            for broker in self._brokers.values():
                broker.now, broker.told_at = now, told_at
        cause = ""
        if event is not None:
            cause = event.of if event.of and event.kind in BETWEEN_CELLS else event.id
        effects.event_id = cause
        if settings.may_hold:
            self._here = self._delivery = self._schedule()
        if settings.cells:
            waits = self._tables.waiting
            self._outward = Outward(self._here, waits, settings, event, now, self._rows)
            self._outward.cause = cause
            self._delivery = self._outward

    def _caused_by(self, event_id: str) -> None:
        """Notes whose effects follow: the event's, or those of the request whose wait ends."""
        self._effects.event_id = event_id
        if self._outward is not None:
            self._outward.cause = event_id

    def broker(self, broker: int) -> Broker:
        """A broker as its handlers see it, with what it has in mind."""
        return self._broker(broker)

    def start(self) -> None:
        """Handles the event and everything that it causes."""
        event = self._event
        assert event is not None
        if event.kind is REQUEST:
            self._request(event)
        elif event.kind in BETWEEN_CELLS:
            between_cells.take(self._tables.waiting, event)
            if event.kind is Kind.FORWARD:
                self._request(event)
            else:
                self._arrive(event)
        else:
            self._intervene(event)
        self._until_quiet()

    def _intervene(self, event: Event) -> None:
        """What is no request of anybody: somebody does something to the cluster."""
        if event.kind is Kind.COMPLETE:
            self._complete_held(event)
        elif event.kind is Kind.MOVE_LEADER:
            self._move_leader(event)
        elif event.kind in ABOUT_BROKERS:
            self._change_broker(event)
        elif event.kind is Kind.DROP_SESSIONS:
            self._drop_sessions(event)
        elif event.kind in TOLD:
            self._carry_on(event.broker, TOLD[event.kind](self._broker(event.broker), event))
        elif event.kind is Kind.CLEAN_LOG:
            self._clean_log(event)
        elif event.kind is Kind.TELL_SETTINGS:
            self._rows.done(event, self._now, settings_told.of(self._broker(event.broker)))

    def _clean_log(self, event: Event) -> None:
        """Takes what a pass of the cleaner has left of a log."""
        cleaned = cleaned_logs.decide(self._broker(event.broker), event.cleaned, event.seen)
        if isinstance(cleaned, Refusal):
            raise Refused(cleaned.reason, cleaned.detail)
        if cleaned is not None:
            self._apply(event.broker, cleaned)

    def _arrive(self, event: Event) -> None:
        """Takes what another cell has told."""
        assert self._outward is not None, "who hears of other cells has a way to them"
        if event.kind is Kind.REGISTRATION:
            self._register(between_cells.registration(event))
            return
        if event.kind is Kind.CUT_OFF:
            self._lose(between_cells.broker_cut_off(event))
            return
        answered = self._outward.arrive(event)
        if answered is not None:
            self._answered(*answered)

    def _move_leader(self, event: Event) -> None:
        if event.move is None:
            raise Refused(Reason.MISSING_FIELD, "a `move-leader` event needs a `move`")
        changed = leaders.decide(self._controller(), event.move)
        if isinstance(changed, Refusal):
            raise Refused(changed.reason, changed.detail)
        former = self._broker(changed.former_leader)
        taken = leaders.held(former, changed)
        self._delivery.send([HandOver(former.id, changed.leader, taken, changed)])

    def _drop_sessions(self, event: Event) -> None:
        """Answers who waits in a session, then forgets it: the next request finds none."""
        for session_id in event.sessions:
            key = session_items.session_key(event.broker, session_id)
            for event_id in waiting.watchers(self._tables.waiting, key):
                self.complete(event_id)
            slices = Slices.of(self._settings.broker_settings)
            fetch_session.SessionCache(
                self._tables.sessions, event.broker, slices, self._now
            ).remove(session_id)

    def due(self, event_id: str) -> None:
        """Does what an entry of the deadlines stands for: a timer, or a request that waits."""
        timer = waiting.timer_name(event_id)
        if timer is None:
            self.complete(event_id)
            return
        waiting.set_timer(self._tables.waiting, timer, None)
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
        """Answers a request whose deadline has come."""
        waited = waiting.take(self._tables.waiting, event_id)
        assert waited is not None, event_id
        if waited.api_key == waiting.COMMITTING:
            self._committed(waited, Error.REQUEST_TIMED_OUT)
            self._until_quiet()
            return
        self._caused_by(waited.event_id)
        api = BUILT[waited.api_key]
        assert api.complete is not None, api.name
        decision = api.complete(self._broker(waited.broker), waited)
        self._carry_out(waited.broker, waited, api, decision)
        self._until_quiet()

    def expire(self, expired: expiry.Expired) -> bool:
        """Lets the machines forget what has expired; says whether anything has."""
        machines: list[Machine] = [self._broker(each) for each in self._settings.brokers_here]
        if expiry.is_controllers(expired):
            machines = [self._controller()] if self._settings.has_controller else []
        found = {each.id: records for each in machines if (records := list(expired(each)))}
        for machine, records in found.items():
            self._carry_on(machine, Decision(records=records))
            self._until_quiet()
        return bool(found)

    def _request(self, event: Event) -> None:
        if network.is_stopped(self._tables.waiting, event.broker):
            raise Refused(Reason.BROKER_STOPPED, f"broker {event.broker} is stopped")
        if network.registering_by(self._tables.waiting, event.broker):
            detail = f"broker {event.broker} does not know yet that it is registered"
            raise Refused(Reason.BROKER_STOPPED, detail)
        header = event.request_header
        assert header is not None
        api = api_of(header)
        body = decode_body(event.request, _decoders[api.key])
        if type(body) is Refusal:
            raise Refused(body.reason, body.detail)
        if waiting.waits(self._tables.waiting, event.id):
            raise Refused(Reason.WRONG_TYPE, f"a request with the id {event.id!r} waits already")
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
            self._ask_controller(event, request, api)
            return
        broker = self._broker(event.broker)
        self._carry_out(broker.id, request, api, api.handle(broker, request))

    def _ask_controller(self, event: Event, request: Request, api: Api) -> None:
        if network.is_severed(self._tables.waiting, event.broker):
            detail = f"broker {event.broker} does not reach the controller, who is to answer"
            raise Refused(Reason.NO_CONTROLLER, detail)
        if not self._settings.has_controller:
            assert self._outward is not None, "another cell has the controller"
            self._outward.forward(event)
            return
        self._carry_out(CONTROLLER, request, api, api.handle(self._controller(), request))

    def _is_held(self) -> bool:
        return self._settings.may_hold and self._event is not None and self._event.is_held

    def _schedule(self) -> Schedule:
        if not self._settings.may_hold:
            return self._at_once
        event_id = self._event.id if self._event is not None else ""
        return HeldBack(self._tables.waiting, event_id, self._is_held())

    def _complete_held(self, event: Event) -> None:
        assert isinstance(self._delivery, HeldBack), "who may hold has such a delivery"
        if self._delivery.arrive(event.of, self._settings.brokers_here):
            return
        waited = waiting.get(self._tables.waiting, event.of)
        if waited is None or not waited.is_held:
            raise Refused(Reason.WRONG_TYPE, f"no held request has the id {event.of!r}")
        self.complete(event.of)

    def _carry_out(self, machine: int, source: Asked, api: Api, decision: Decision) -> None:
        if decision.delay is not None:
            self._wait(source, api, decision.delay)
            for message in decision.messages:
                message.awaited_by = source.event_id
        if decision.records and self._write(machine, decision, source):
            return
        self._tell(machine, decision)
        if decision.delay is not None or self._waits_behind(machine, source, decision):
            return
        response: Body | dict[str, Any] | None = None
        if decision.response is not None:
            response = shown(decision.response, source.header.request_api_version)
        closes, mute_ms = decision.closes_connection, decision.mute_ms
        self._rows.response(source, self._now, response, closes, mute_ms)

    def _waits_behind(self, machine: int, source: Asked, decision: Decision) -> bool:
        """Whether an answer that has nothing to write waits for what was written before."""
        if not self._may_wait(machine, decision):
            return False
        api = BUILT[source.header.request_api_key]
        body = behind.body_of(source, api)
        return body is not None and self._holds(machine, api, body, decision, source)

    def _may_wait(self, machine: int, decision: Decision) -> bool:
        is_alone = machine == CONTROLLER or len(self._settings.brokers) == 1
        return not is_alone and decision.response is not None

    def _holds(
        self,
        machine: int,
        api: Api,
        body: Body,
        decision: Decision,
        asked: Asked | None = None,
        reply_to: Message | None = None,
    ) -> bool:
        broker = self._broker(machine)
        required = behind.required(broker, api, body, decision.response)
        if required:
            answer = Decision(response=decision.response)
            written = internal_logs.Written([], [], required)
            committing.hold(broker, written, answer, asked, reply_to)
        return bool(required)

    def _write(
        self,
        machine: int,
        decision: Decision,
        asked: Asked | None = None,
        reply_to: Message | None = None,
    ) -> bool:
        """Applies the records; says whether what the decision says waits for followers."""
        written = None
        if machine != CONTROLLER and len(self._settings.brokers) > 1:
            written = internal_logs.write(self._broker(machine), decision.records)
        if written is None:
            records = self._with_rows(machine, decision.records)
            for record in records:
                self._apply(machine, record)
            return False
        broker = self._broker(machine)
        for record in self._with_rows(machine, written.records):
            self._effects.apply(machine, record, False)
        for record in transactional_ids.noted(broker, decision.records):
            self._effects.apply(machine, record)
        if written.error is not Error.NONE:
            committing.refuse(broker, decision, asked, written.error)
            return False
        committing.hold(broker, written, decision, asked, reply_to)
        at_once = [each for each in decision.messages if not committing.waits(each)]
        self._delivery.send([*at_once, *decision.copies])
        return True

    def _with_rows(self, machine: int, records: list[Record]) -> list[Record]:
        """With what they come to in logs that nobody follows, where somebody may look at these."""
        if machine == CONTROLLER or not self._given.brokertwin_internal_logs:
            return records
        return internal_logs.with_rows(self._broker(machine), records)

    def _committed(self, waited: Waiting, error: Error) -> None:
        """Tells what has become of something written, and does what follows."""
        outcome = committing.finish(self._broker(waited.broker), waited, error)
        for record in outcome.records:
            self._apply(waited.broker, record)
        for record in outcome.rows:
            self._rows.of_group(record)
        synced = committing.finished(self._broker(waited.broker), waited, error)
        for event_id, response in outcome.answers:
            told = waiting.take(self._tables.waiting, event_id)
            if told is not None:
                self._rows.response(told, self._now, response)
        self._delivery.send(outcome.messages)
        for message, answer in outcome.replies:
            self._answered(message, answer)
        for decision in synced:
            self._carry_on(waited.broker, decision)

    def _wait(self, source: Asked, api: Api, delay: Delay) -> None:
        is_held = source.is_held if isinstance(source, Waiting) else self._is_held()
        waited = Waiting(
            event_id=source.event_id,
            broker=source.broker,
            api_key=api.key,
            deadline=delay.deadline,
            header=source.header,
            connection=source.connection,
            principal=source.principal,
            reply_to=source.reply_to,
            logs=delay.logs,
            state=delay.state,
            is_held=is_held,
        )
        waiting.add(self._tables.waiting, waited)

    def _tell(self, machine: int, decision: Decision) -> None:
        """What goes to other machines, and to requests that wait."""
        if decision.messages or decision.copies:
            self._delivery.send([*decision.messages, *decision.copies])
        for log in decision.woken:
            self._effects.log_changed(machine, log)
        if decision.answers:
            self._answer_late(decision)

    def _answer_late(self, decision: Decision) -> None:
        for answer in decision.answers:
            waited = waiting.take(self._tables.waiting, answer.event_id)
            if waited is not None and answer.response is not None:
                version = waited.header.request_api_version
                self._rows.response(waited, self._now, render(answer.response, version))

    def _apply(self, machine: int, record: Record) -> None:
        self._effects.apply(machine, record)
        if type(record) not in METADATA_RECORDS:
            return
        self._look_again(record)
        if machine == CONTROLLER:
            brokers = self._settings.brokers_here
            there = network.missed_by(self._tables.waiting, record, brokers)
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
                for change in leader_and_isr.take(self._broker(step.receiver), step).changes:
                    self._deliver_metadata(step.receiver, change)
            else:
                self._copy(step)
        raise Refused(Reason.STEP_LIMIT, f"the event caused more than {STEPS_MAX} steps")

    def _copy(self, step: ReplicaFetch | ReplicaAnswer) -> None:
        """Takes a follower's fetch to its leader, or the answer back; then it fetches again."""
        is_cut = network.is_cut(self._tables.waiting, step.sender, step.receiver)
        if is_cut or step.receiver not in self._settings.brokers:
            return
        broker = self._broker(step.receiver)
        if isinstance(step, ReplicaFetch):
            self._carry_on(broker.id, copying.fetched(broker, step))
            return
        self._carry_on(broker.id, copying.answered(broker, step))
        self._carry_on(broker.id, copying.asks_again(broker, step))

    def _copy_on(self) -> None:
        """Lets a broker look at those of its logs that have changed: it may have followers."""
        broker_id = next(iter(self._effects.uncopied))
        broker = self._broker(broker_id)
        places = self._effects.uncopied.pop(broker_id)
        self._carry_on(broker_id, copying.grown(broker, places))

    def _deliver(self, message: Message) -> None:
        """Takes a request to another machine, and its answer back to the one that sent it."""
        receiver = message.receiver
        is_served = receiver == CONTROLLER or receiver in self._settings.brokers
        if not is_served or not arrives(self._tables.waiting, message):
            return
        api = BUILT[message.api_key]
        request = internal_request(api, message, self._event)
        decision = api.handle(self._machine(message.receiver), request)
        is_asked = bool(message.awaited_by) or api.on_reply is not None
        is_told_later = self._carry_on(message.receiver, decision, message if is_asked else None)
        if decision.response is not None and is_asked and not is_told_later:
            self._answered(message, decision.response)

    def _answered(self, message: Message, response: Body) -> None:
        """Takes an answer to the machine that has asked, or to the request that waits for it."""
        api = BUILT[message.api_key]
        if self._outward is not None and not between_cells.holds(self._settings, message.sender):
            self._outward.answer(message, response)
        elif message.awaited_by:
            self._resume(message, response)
        else:
            assert api.on_reply is not None, api.name
            sender = self._machine(message.sender)
            self._carry_on(message.sender, api.on_reply(sender, message, response))

    def _carry_on(self, machine: int, decision: Decision, reply_to: Message | None = None) -> bool:
        """What a machine decides on another one's request, or its answer; whether it waits."""
        if decision.records and self._write(machine, decision, reply_to=reply_to):
            return True
        self._tell(machine, decision)
        if reply_to is None or not self._may_wait(machine, decision):
            return False
        return self._holds(
            machine, BUILT[reply_to.api_key], reply_to.body, decision, None, reply_to
        )

    def _resume(self, message: Message, response: Body) -> None:
        """Gives an answer to the request that waits for it, if it still waits."""
        waited = waiting.take(self._tables.waiting, message.awaited_by)
        if waited is None:
            return
        api = BUILT[waited.api_key]
        assert api.resume is not None, api.name
        decision = api.resume(self._broker(waited.broker), waited, message, response)
        self._carry_out(waited.broker, waited, api, decision)

    def _wake(self, watched: str, log: str) -> None:
        """Answers who waits for a log, or its session, and may be."""
        unblocked: Counter[str] = Counter()
        for event_id in waiting.watchers(self._tables.waiting, watched):
            waited = waiting.get(self._tables.waiting, event_id)
            if waited is None or waited.is_held:
                continue
            if waited.api_key == waiting.COMMITTING:
                error = committing.error_of(self._broker(waited.broker), waited)
                if error is not None:
                    waiting.take(self._tables.waiting, event_id)
                    self._committed(waited, error)
                continue
            api = BUILT[waited.api_key]
            assert api.ready is not None and api.complete is not None, api.name
            if api.ready(self._broker(waited.broker), waited):
                unblocked[api.name] += 1
                waiting.take(self._tables.waiting, event_id)
                decision = api.complete(self._broker(waited.broker), waited)
                self._carry_out(waited.broker, waited, api, decision)

        if self._given.brokertwin_trace_replication:
            for line in trace.unblocked(self._tables, watched, log, unblocked):
                self._apply(int(log.partition("/")[0]), line)
