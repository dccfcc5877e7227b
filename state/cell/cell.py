"""A cell: the machines of one cluster, and the loop that takes an event to its outputs.

    event -> due deadlines -> handler -> records applied, answer, messages -> ... -> quiet -> commit

The guard covers an event and everything that it causes: where something raises, the tables go back
to what they were, the event becomes a dead letter, and the next one is handled. Outputs depend on
the events alone, not on how they were cut into micro-batches.
"""

from collections import deque
from collections.abc import Callable, Mapping

import msgspec

from brokerstream.state.apis.registry import BUILT
from brokerstream.state.cell import expiry, handover, leaders
from brokerstream.state.cell.apply import METADATA_RECORDS, apply
from brokerstream.state.cell.output_rows import Refused, Rows
from brokerstream.state.cluster import image
from brokerstream.state.cluster.machines import Broker, Controller, Machine
from brokerstream.state.core import waiting
from brokerstream.state.core.api import Api, NotBuilt
from brokerstream.state.core.dead_letters import refused
from brokerstream.state.core.decision import CONTROLLER, Decision, Message, Request, Waiting
from brokerstream.state.core.events import (
    INTERVENTIONS,
    Choices,
    Event,
    Kind,
    Reason,
    Refusal,
    RequestHeader,
    decode_body,
    decode_event,
)
from brokerstream.state.core.kafka_apis import API_VERSIONS, KAFKA_APIS
from brokerstream.state.core.outputs import Output, Position
from brokerstream.state.core.records import (
    BatchAppended,
    LogStartMoved,
    PartitionChanged,
    Record,
    TopicRemoved,
)
from brokerstream.state.core.schema import Body, Uuid, render
from brokerstream.state.core.settings import CellSettings
from brokerstream.state.core.tables import TABLE_NAMES, Tables
from brokerstream.state.fetch import fetch_session
from brokerstream.state.groups import committed_offsets, group_coordinator
from brokerstream.state.logs import log as logs
from brokerstream.state.transactions import (
    transaction_coordinator,
    transactional_ids,
    transactional_offsets,
)

TIMERS: dict[str, Callable[[Broker, str], Decision]] = {
    group_coordinator.TIMER: group_coordinator.fire,
    transactional_ids.TIMER: transaction_coordinator.fire,
}
"""Kind of a timer to who is told of it: with the broker, and the rest of the timer's name."""

STATE_VERSION = 1
"""The version of the state row; a job refuses a checkpoint with a newer one."""

STEPS_MAX = 10_000
"""Steps that one event may cause in its cell before it is taken for a loop."""

NO_DEADLINE = -1

_decoders = {key: api.decoder() for key, api in BUILT.items()}


class Meta(msgspec.Struct):
    """What a cell remembers besides its tables. Times are ms since 1970.

    `outstanding` is the deadline last given to the clock and not yet reached, -1 where none is.
    """

    now: int = 0
    outstanding: int = NO_DEADLINE


class Cell:
    """The state of one cell between `columns` in and `columns` out."""

    def __init__(self, settings: CellSettings, columns: Mapping[str, bytes] | None = None) -> None:
        self.settings = settings
        self.tables = Tables(columns)
        meta = (columns or {}).get("meta")
        self.meta = msgspec.msgpack.decode(meta, type=Meta) if meta else Meta()
        self._more = (columns or {}).get("more") or b""

    def columns(self) -> dict[str, bytes]:
        """The state as it is stored: one column for each table, `meta` and `more`."""
        columns = self.tables.columns()
        columns["meta"] = msgspec.msgpack.encode(self.meta)
        columns["more"] = self._more
        return columns

    def copy(self) -> "Cell":
        """A cell in the same state, between two events; a search tries events on it."""
        twin = Cell(self.settings)
        twin.tables = self.tables.copy()
        twin.meta = msgspec.structs.replace(self.meta)
        twin._more = self._more
        return twin

    def handle(self, document: bytes, position: Position) -> list[Output]:
        """What the event in `document` causes. Never raises for what the document holds."""
        event = decode_event(document)
        refusal = event if isinstance(event, Refusal) else self._refusal_of(event)
        if refusal is not None or isinstance(event, Refusal):
            assert refusal is not None
            return refused(self.settings, document, position, refusal)
        now = max(self.meta.now, self._time_of(event, position))
        rows = Rows(self.settings, position)
        self._pass_time(now, rows, document)
        mark = rows.mark()
        try:
            _Run(self, event, now, rows).start()
            self.tables.commit()
        except Exception as error:  # noqa: BLE001 (the guard: no event may stop the job)
            self.tables.rollback()
            rows.reset(mark)
            rows.extend(refused(self.settings, document, position, _refusal_for(error)))
        else:
            self.meta.now = now
        self._announce_deadline(rows)
        return rows.rows

    def _refusal_of(self, event: Event) -> Refusal | None:
        settings = self.settings
        if event.cluster != settings.cluster:
            return Refusal(
                Reason.UNKNOWN_CLUSTER,
                f"this cell is of cluster {settings.cluster!r}, the event of {event.cluster!r}",
            )
        if event.kind is Kind.TICK:
            return None
        is_taken = settings.may_intervene if event.kind in INTERVENTIONS else settings.may_hold
        if event.kind is not Kind.REQUEST and not is_taken:
            return Refusal(Reason.INTERNAL_KIND, f"events of kind {event.kind!r} are not taken")
        if event.broker not in settings.brokers:
            return Refusal(
                Reason.UNKNOWN_BROKER,
                f"broker {event.broker} is not one of {settings.brokers}",
            )
        if not 0 <= event.reply_to < settings.responses_partitions:
            return Refusal(
                Reason.REPLY_TO,
                f"replyTo is {event.reply_to}, `responses` has"
                f" {settings.responses_partitions} partitions",
            )
        return None

    def _time_of(self, event: Event, position: Position) -> int:
        if self.settings.event_time == "recorded" or position.timestamp < 0:
            return event.time
        skew = self.settings.event_time_max_skew_ms
        return min(max(event.time, position.timestamp - skew), position.timestamp + skew)

    def _pass_time(self, now: int, rows: Rows, document: bytes) -> None:
        """Does what is due by `now`: deadlines and checks for what has expired, each in time."""
        checks = expiry.checks_due(self.settings.broker_settings, self.meta.now, now)
        for check, expired in checks:
            self._fire_deadlines(check, rows, document)
            self._expire(check, expired, rows, document)
        self._fire_deadlines(now, rows, document)

    def _expire(self, check: int, expired: expiry.Expired, rows: Rows, document: bytes) -> None:
        """Drops what has expired; where nothing has, a refused event leaves the cell as it was."""
        mark = rows.mark()
        try:
            if _Run(self, None, check, rows).expire(expired):
                self.meta.now = check
            self.tables.commit()
        except Exception as error:  # noqa: BLE001 (dropped, not repeated for ever)
            self.tables.rollback()
            rows.reset(mark)
            rows.dead_letter(document, _refusal_for(error))

    def _fire_deadlines(self, now: int, rows: Rows, document: bytes) -> None:
        while True:
            earliest = waiting.earliest(self.tables.waiting)
            if earliest is None or earliest[0] > now:
                return
            deadline, event_id = earliest
            mark = rows.mark()
            self.meta.now = max(self.meta.now, deadline)
            try:
                _Run(self, None, self.meta.now, rows).due(event_id)
                self.tables.commit()
            except Exception as error:  # noqa: BLE001 (dropped, not repeated for ever)
                self.tables.rollback()
                rows.reset(mark)
                waited = waiting.take(self.tables.waiting, event_id)
                waiting.set_timer(self.tables.waiting, waiting.timer_name(event_id) or "", None)
                self.tables.commit()
                if waited is not None:
                    rows.error(waited, _refusal_for(error))
                rows.dead_letter(document, _refusal_for(error))

    def _announce_deadline(self, rows: Rows) -> None:
        if self.meta.outstanding <= self.meta.now:
            self.meta.outstanding = NO_DEADLINE
        earliest = waiting.earliest(self.tables.waiting)
        if earliest is None:
            return
        if self.meta.outstanding == NO_DEADLINE or earliest[0] < self.meta.outstanding:
            self.meta.outstanding = earliest[0]
            rows.timer(earliest[0])


class _Run:
    """One event, or one fired deadline, until the cell is quiet."""

    def __init__(self, cell: Cell, event: Event | None, now: int, rows: Rows) -> None:
        self._cell = cell
        self._tables = cell.tables
        self._event = event
        self._event_id = event.id if event is not None else ""
        self._now = now
        self._rows = rows
        self._queue: deque[Message] = deque()
        self._metadata: deque[tuple[int, Record]] = deque()
        self._changed_logs: dict[str, None] = {}

    def start(self) -> None:
        """Handles the event and everything that it causes."""
        event = self._event
        assert event is not None
        if event.kind is Kind.REQUEST:
            self._request(event)
        elif event.kind is Kind.COMPLETE:
            self._complete_held(event)
        elif event.kind is Kind.MOVE_LEADER:
            self._move_leader(event)
        elif event.kind is Kind.DROP_SESSIONS:
            self._drop_sessions(event)
        elif event.kind is Kind.EXPIRE_MEMBERS:
            broker = self._broker(event.broker)
            decision = group_coordinator.expire(broker, event.group, event.members)
            self._carry_on(broker.id, decision)
        self._until_quiet()

    def _move_leader(self, event: Event) -> None:
        if event.move is None:
            raise Refused(Reason.MISSING_FIELD, "a `move-leader` event needs a `move`")
        changed = leaders.decide(self._controller(), event.move)
        if isinstance(changed, Refusal):
            raise Refused(changed.reason, changed.detail)
        self._apply(CONTROLLER, changed)

    def _drop_sessions(self, event: Event) -> None:
        """Answers who waits in a session, then forgets it: the next request finds none."""
        for session_id in event.sessions:
            key = fetch_session.session_key(event.broker, session_id)
            for event_id in waiting.watchers(self._tables.waiting, key):
                self.complete(event_id)
            slots = self._cell.settings.broker_settings.max_incremental_fetch_session_cache_slots
            fetch_session.SessionCache(
                self._tables.sessions, event.broker, slots, self._now
            ).remove(session_id)

    def due(self, event_id: str) -> None:
        """Does what an entry of the deadlines stands for: a timer, or a request that waits."""
        timer = waiting.timer_name(event_id)
        if timer is None:
            self.complete(event_id)
            return
        waiting.set_timer(self._tables.waiting, timer, None)
        kind, broker, name = timer.split("/", 2)
        machine = self._broker(int(broker))
        self._carry_on(machine.id, TIMERS[kind](machine, name))
        self._until_quiet()

    def complete(self, event_id: str) -> None:
        """Answers a request whose deadline has come."""
        waited = waiting.take(self._tables.waiting, event_id)
        assert waited is not None, event_id
        self._event_id = waited.event_id
        api = BUILT[waited.api_key]
        assert api.complete is not None, api.name
        decision = api.complete(self._broker(waited.broker), waited)
        self._carry_out(waited.broker, waited, api, decision)
        self._until_quiet()

    def expire(self, expired: expiry.Expired) -> bool:
        """Lets every broker forget what has expired; says whether anything has."""
        found = [
            (broker, record)
            for broker in self._cell.settings.brokers
            for record in expired(self._broker(broker))
        ]
        for broker, record in found:
            self._apply(broker, record)
        return bool(found)

    def _request(self, event: Event) -> None:
        header = event.request_header
        assert header is not None
        api = api_of(header)
        body = decode_body(event.request, _decoders[api.key])
        if isinstance(body, Refusal):
            raise Refused(body.reason, body.detail)
        if waiting.get(self._tables.waiting, event.id) is not None:
            raise Refused(Reason.WRONG_TYPE, f"a request with the id {event.id!r} waits already")
        request = Request(
            header,
            body,
            event.principal,
            event.connection,
            event.nonce,
            event.choices or Choices(),
            event.host,
            event.id,
        )
        machine = self._machine(CONTROLLER if api.on_controller else event.broker)
        decision = api.handle(machine, request)
        source = Waiting(
            event_id=event.id,
            broker=event.broker,
            api_key=api.key,
            deadline=NO_DEADLINE,
            header=header,
            connection=event.connection,
            principal=event.principal,
            reply_to=event.reply_to,
            logs=[],
            state=b"",
            is_held=self._is_held(),
        )
        self._carry_out(machine.id, source, api, decision)

    def _is_held(self) -> bool:
        event = self._event
        return event is not None and event.is_held and self._cell.settings.may_hold

    def _publish(self, record: Record) -> None:
        """Lets every broker read a record of the controller."""
        for broker in self._cell.settings.brokers:
            self._metadata.append((broker, record))

    def _complete_held(self, event: Event) -> None:
        late = waiting.take_late(self._tables.waiting, event.of)
        messages = waiting.take_late_messages(self._tables.waiting, event.of)
        for record in late:
            self._publish(record)
        self._queue.extend(_undelayed(message) for message in messages)
        if late or messages:
            return
        waited = waiting.get(self._tables.waiting, event.of)
        if waited is None or not waited.is_held:
            raise Refused(Reason.WRONG_TYPE, f"no held request has the id {event.of!r}")
        self.complete(event.of)

    def _carry_out(self, machine: int, source: Waiting, api: Api, decision: Decision) -> None:
        for record in decision.records:
            self._apply(machine, record)
        if decision.delay is not None:
            source.deadline = decision.delay.deadline
            source.logs = decision.delay.logs
            source.state = decision.delay.state
            waiting.add(self._tables.waiting, source)
            for message in decision.messages:
                message.awaited_by = source.event_id
        self._send(decision.messages)
        self._answer_late(decision)
        if decision.delay is not None:
            return
        response = None
        if decision.response is not None:
            response = render(decision.response, source.header.request_api_version)
        self._rows.response(source, self._now, response, decision.closes_connection)

    def _answer_late(self, decision: Decision) -> None:
        for answer in decision.answers:
            waited = waiting.take(self._tables.waiting, answer.event_id)
            if waited is not None:
                version = waited.header.request_api_version
                self._rows.response(waited, self._now, render(answer.response, version))

    def _apply(self, machine: int, record: Record) -> None:
        if isinstance(record, BatchAppended):
            logs_table = self._tables.logs
            sealed = logs.pushed_out(logs_table, machine, record.topic_id, record.partition)
            if sealed is not None:
                self._rows.segment(sealed)
        sealed_before = self._sealed(machine, record)
        apply(self._tables, machine, record)
        self._rows.record(machine, self._now, self._event_id, record)
        self._tombstone(sealed_before)
        if machine == CONTROLLER and isinstance(record, METADATA_RECORDS):
            if self._is_held() or waiting.is_metadata_late(self._tables.waiting):
                waiting.add_late(self._tables.waiting, self._event_id, record)
            else:
                self._publish(record)
        if isinstance(record, BatchAppended | LogStartMoved):
            key = logs.log_key(machine, record.topic_id, record.partition)
            self._log_changed(machine, key)

    def _sealed(self, machine: int, record: Record) -> dict[tuple[Uuid, int], set[int]]:
        """The sealed segments, by topic id and partition, of the logs that a record may shorten."""
        if isinstance(record, LogStartMoved):
            partitions = [record.partition]
        elif isinstance(record, TopicRemoved):
            topic = image.topic_by_id(self._tables.metadata, machine, record.topic_id)
            partitions = list(range(len(topic.partitions))) if topic is not None else []
        else:
            return {}
        table, topic_id = self._tables.logs, record.topic_id
        return {(topic_id, p): logs.sealed_offsets(table, machine, topic_id, p) for p in partitions}

    def _tombstone(self, sealed_before: dict[tuple[Uuid, int], set[int]]) -> None:
        """Segments that no log of the cell has any more leave the topic `segments`, too."""
        for (topic_id, partition), before in sealed_before.items():
            gone = before.difference(
                *(
                    logs.sealed_offsets(self._tables.logs, broker, topic_id, partition)
                    for broker in self._cell.settings.brokers
                )
            )
            for base_offset in sorted(gone):
                self._rows.segment_gone(topic_id, partition, base_offset)

    def _until_quiet(self) -> None:
        for _ in range(STEPS_MAX):
            if self._metadata:
                self._deliver_metadata(*self._metadata.popleft())
            elif self._queue:
                self._deliver(self._queue.popleft())
            elif self._changed_logs:
                self._wake(next(iter(self._changed_logs)))
            else:
                return
        raise Refused(Reason.STEP_LIMIT, f"the event caused more than {STEPS_MAX} steps")

    def _deliver_metadata(self, broker: int, record: Record) -> None:
        """A broker reads a metadata record; offsets of a deleted topic are tombstoned."""
        if isinstance(record, TopicRemoved):
            machine = self._broker(broker)
            topic = machine.topic_by_id(record.topic_id)
            assert topic is not None, record.topic_id
            for owner in (committed_offsets, transactional_offsets):
                for deleted in owner.of_deleted_topic(self._tables.groups, broker, topic.name):
                    self._apply(broker, deleted)
            for partition in range(len(topic.partitions)):
                self._log_changed(broker, machine.log_key(record.topic_id, partition))
        self._apply(broker, record)
        if isinstance(record, PartitionChanged):
            self._carry_on(broker, handover.hand_over(self._broker(broker), record))
            self._log_changed(broker, logs.log_key(broker, record.topic_id, record.partition))

    def _send(self, messages: list[Message]) -> None:
        """Queues what a request has other machines told; a held one's messages to brokers wait."""
        late = [m for m in messages if not m.awaited_by and m.receiver != CONTROLLER]
        if late and self._is_held():
            delayed = [_delayed(message) for message in late]
            waiting.add_late_messages(self._tables.waiting, self._event_id, delayed)
            messages = [message for message in messages if message not in late]
        self._queue.extend(messages)

    def _deliver(self, message: Message) -> None:
        """Takes a request to another machine, and its answer back to the one that sent it."""
        api = BUILT[message.api_key]
        request = _internal_request(api, message, self._event)
        decision = api.handle(self._machine(message.receiver), request)
        self._carry_on(message.receiver, decision)
        if decision.response is None:
            return
        if message.awaited_by:
            self._resume(message, decision.response)
        elif api.on_reply is not None:
            sender = self._machine(message.sender)
            self._carry_on(message.sender, api.on_reply(sender, message, decision.response))

    def _carry_on(self, machine: int, decision: Decision) -> None:
        """What a machine decides on another machine's request, or on its answer."""
        for record in decision.records:
            self._apply(machine, record)
        self._queue.extend(decision.messages)
        self._answer_late(decision)

    def _resume(self, message: Message, response: Body) -> None:
        """Gives an answer to the request that waits for it, if it still waits."""
        waited = waiting.take(self._tables.waiting, message.awaited_by)
        if waited is None:
            return
        api = BUILT[waited.api_key]
        assert api.resume is not None, api.name
        decision = api.resume(self._broker(waited.broker), waited, message, response)
        self._carry_out(waited.broker, waited, api, decision)

    def _log_changed(self, broker: int, log: str) -> None:
        """Notes a change of a log, and of the fetch sessions that watch it."""
        self._changed_logs[log] = None
        for session in fetch_session.log_changed(self._tables.sessions, broker, log):
            self._changed_logs[session] = None

    def _wake(self, log: str) -> None:
        """Answers those who wait for a log, or a session, and now may have their answer."""
        del self._changed_logs[log]
        for event_id in waiting.watchers(self._tables.waiting, log):
            waited = waiting.get(self._tables.waiting, event_id)
            if waited is None or waited.is_held:
                continue
            api = BUILT[waited.api_key]
            assert api.ready is not None and api.complete is not None, api.name
            if api.ready(self._broker(waited.broker), waited):
                waiting.take(self._tables.waiting, event_id)
                decision = api.complete(self._broker(waited.broker), waited)
                self._carry_out(waited.broker, waited, api, decision)

    def _broker(self, broker: int) -> Broker:
        return Broker(broker, self._tables, self._cell.settings, self._now)

    def _controller(self) -> Controller:
        return Controller(self._tables, self._cell.settings, self._now)

    def _machine(self, machine: int) -> Machine:
        return self._controller() if machine == CONTROLLER else self._broker(machine)


def api_of(header: RequestHeader) -> Api:
    """The API of a request. Raises Refused where Kafka has none such, or it is not built.

    ApiVersions answers every version: that is how a client finds one that both sides know.
    """
    key, version = header.request_api_key, header.request_api_version
    known = KAFKA_APIS.get(key)
    if known is None:
        raise Refused(Reason.UNKNOWN_API, f"Kafka 4.3 has no API with the key {key}")
    if key != API_VERSIONS and not known.first <= version <= known.last:
        raise Refused(
            Reason.UNSUPPORTED_VERSION,
            f"{known.name} has the versions {known.first} to {known.last}, not {version}",
        )
    api = BUILT.get(key)
    if api is None:
        raise Refused(Reason.NOT_BUILT, f"{known.name} (key {key}, version {version})")
    return api


def _internal_request(api: Api, message: Message, cause: Event | None) -> Request:
    """A machine's request to another one; what it draws at random comes from its cause."""
    version = api.versions[1] if message.version is None else message.version
    header = RequestHeader(api.key, version, request_api_key_name=api.name)
    nonce, choices = "", Choices()
    if cause is not None:
        nonce = cause.nonce
        choices = Choices(topic_ids=cause.choices.topic_ids if cause.choices else {})
    return Request(header, message.body, "User:ANONYMOUS", "", nonce, choices, is_from_machine=True)


def _delayed(message: Message) -> waiting.LateMessage:
    return waiting.LateMessage(
        message.sender,
        message.receiver,
        message.api_key,
        msgspec.msgpack.encode(message.body),
        message.context,
        message.version,
    )


def _undelayed(late: waiting.LateMessage) -> Message:
    body = msgspec.msgpack.decode(late.body, type=BUILT[late.api_key].request_type)
    return Message(late.sender, late.receiver, late.api_key, body, late.context, late.version)


def _refusal_for(error: Exception) -> Refusal:
    if isinstance(error, Refused):
        return error.refusal
    if isinstance(error, NotBuilt):
        return Refusal(Reason.NOT_BUILT, str(error))
    where = error.__traceback__
    while where is not None and where.tb_next is not None:
        where = where.tb_next
    place = f" ({where.tb_frame.f_code.co_qualname}, line {where.tb_lineno})" if where else ""
    return Refusal(Reason.FAULT, f"{type(error).__name__}: {error}{place}")


def state_columns() -> tuple[str, ...]:
    """The binary columns of a cell's state row, in the order of the checkpoint's schema."""
    return (*TABLE_NAMES, "meta", "more")
