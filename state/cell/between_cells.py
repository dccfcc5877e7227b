"""What machines tell others that another cell holds: rows of the topic `requests`.

A cluster may be several cells, each with some of its brokers; the first one has the controller, too
(`CellSettings.cells`). What a machine tells one that is not held here leaves as an event whose key
is the cell that holds the receiver:

    forward    a client's request that the controller answers (Kafka's Envelope, KIP-590)
    metadata   a record of the controller, once for all brokers of a cell
    message    a machine's request to another one
    answer     its answer, where the sender wants it, with the message that it is the answer to
    replica-fetch, replica-answer   between the replicas of partitions (`state/replication`)
    registration   to the controller: a broker is gone, or is there again
    cut-off    to leaders: no fetch of a broker waits there any more, for it is gone or isolated

Each has the sender's cell, its *incarnation* and a *sequence*, by one higher for each event from
that cell to this one. The receiver takes exactly the next. What has come before, or is of an older
incarnation, is a repeat and changes nothing, whenever it comes: Spark's sink is at-least-once. One
that comes too early is a dead letter; the micro-batch that has left out those before it runs again.
A cell that begins anew from nothing has a higher incarnation, and counts from 1.

What decides goes along: the time, the nonce and the choices of the event that was the cause. In one
cell the controller's answer comes before brokers read what it has written; here they have read it.

Items of the table `waiting`, both of the cell itself:

    told/<cell>    Count: the last event that this cell has sent to that one
    heard/<cell>   Count: the last event of that cell that was taken
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from brokertwin.state.apis.registry import BUILT
from brokertwin.state.cell.delivery import Schedule, Step, arrives
from brokertwin.state.cell.output_rows import Rows
from brokertwin.state.core.decision import (
    CONTROLLER,
    HandOver,
    LeaderAndIsr,
    Message,
    ReplicaAnswer,
    ReplicaFetch,
    Sent,
)
from brokertwin.state.core.events import Choices, Event, Kind
from brokertwin.state.core.records import Record
from brokertwin.state.core.schema import Body
from brokertwin.state.core.settings import CellSettings
from brokertwin.state.core.tables import Table
from brokertwin.state.replication import network

_json = msgspec.json.Encoder()

_COPIES: dict[Kind, type[ReplicaFetch | ReplicaAnswer]] = {
    Kind.REPLICA_FETCH: ReplicaFetch,
    Kind.REPLICA_ANSWER: ReplicaAnswer,
}


class Count(msgspec.Struct, array_like=True):
    """How far the events from one cell to another have come."""

    incarnation: int
    sequence: int


class RecordTold(msgspec.Struct):
    """In a `metadata` event: what the controller has written."""

    record: Record


class RegistrationTold(msgspec.Struct, rename="camel"):
    """In a `registration` event: a broker is gone, or there again, maybe in a new process.

    Then `was_killed` says that the process before has not ended in order, and `start` by which of
    its starts the broker registers (`network.py`).
    """

    broker: int
    is_stopped: bool
    is_new: bool = True
    was_killed: bool = False
    start: int = 0


class CutOffTold(msgspec.Struct):
    """In a `cut-off` event: the broker that other brokers do not reach any more."""

    broker: int


class MessageTold(msgspec.Struct, rename="camel"):
    """In a `message` event: a machine's request (`Message`), its body as JSON."""

    sender: int
    receiver: int
    api_key: int
    body: msgspec.Raw
    context: str
    version: int | None
    awaited_by: str


class AnswerTold(msgspec.Struct):
    """In an `answer` event: the message that is answered, and the response as JSON."""

    message: MessageTold
    response: msgspec.Raw


def holds(settings: CellSettings, machine: int) -> bool:
    """Whether this cell holds a broker, or the controller."""
    return settings.has_controller if machine == CONTROLLER else machine in settings.brokers_here


def cell_of(settings: CellSettings, machine: int) -> str:
    """The name of the cell that holds a broker, or the controller."""
    if machine == CONTROLLER:
        return next(iter(settings.cells))
    return next(name for name, brokers in settings.cells.items() if machine in brokers)


def others(settings: CellSettings) -> list[str]:
    """The other cells of the cluster."""
    return [name for name in settings.cells if name != settings.name]


def is_repeat(table: Table, settings: CellSettings, event: Event) -> bool:
    """Whether an event from another cell has been taken before, or its sender has begun anew."""
    last = _heard(table, settings, event.sender)
    return (event.incarnation, event.sequence) <= (last.incarnation, last.sequence)


def is_next(table: Table, settings: CellSettings, event: Event) -> bool:
    """Whether an event from another cell is the one behind the last that was taken."""
    last = _heard(table, settings, event.sender)
    following = last.sequence + 1 if event.incarnation == last.incarnation else 1
    return event.incarnation >= last.incarnation and event.sequence == following


def take(table: Table, event: Event) -> None:
    """Notes that an event from another cell is taken."""
    table.put(f"heard/{event.sender}", Count(event.incarnation, event.sequence))


def _heard(table: Table, settings: CellSettings, sender: str) -> Count:
    last = table.get(f"heard/{sender}", Count)
    if last is None or last.incarnation < settings.incarnation:
        return Count(settings.incarnation, 0)
    return last


class Outward:
    """A schedule that passes on what is for this cell, and lets the rest leave as rows.

    Args:
        inner: delivers within this cell.
        table: the table `waiting` of the cell.
        settings: the cell's.
        event: what is handled; None where a deadline fires.
        now: the time, in ms since 1970.
        rows: where the rows go.
    """

    def __init__(
        self,
        inner: Schedule,
        table: Table,
        settings: CellSettings,
        event: Event | None,
        now: int,
        rows: Rows,
    ) -> None:
        self._inner = inner
        self._table = table
        self._settings = settings
        self._event = event
        self._now = now
        self._rows = rows
        self.cause = ""

    def publish(self, record: Record, brokers: Iterable[int]) -> None:
        """Takes a metadata record for the brokers held here, and for every other cell."""
        self._inner.publish(record, brokers)
        for cell in others(self._settings):
            self._tell(cell, Kind.METADATA, RecordTold(record))

    def send(self, messages: Sequence[Sent]) -> None:
        """Takes what a machine tells others, wherever they are."""
        for message in messages:
            if isinstance(message, ReplicaFetch | ReplicaAnswer) and self._is_cut(message):
                continue
            if message.receiver not in (CONTROLLER, *self._settings.brokers):
                continue  # it has registered, but nobody serves it
            if holds(self._settings, message.receiver):
                self._inner.send([message])
            elif not isinstance(message, Message) or arrives(self._table, message):
                self._tell(cell_of(self._settings, message.receiver), *_told(message))

    def _is_cut(self, copy: ReplicaFetch | ReplicaAnswer) -> bool:
        """Whether what a broker of this cell sends reaches nobody."""
        return network.is_cut(self._table, copy.sender, copy.sender)

    def register(self, told: RegistrationTold) -> None:
        """Takes to the controller that a broker of this cell is gone, or there again."""
        self._tell(cell_of(self._settings, CONTROLLER), Kind.REGISTRATION, told)

    def cut_off(self, broker: int) -> None:
        """Takes to leaders in other cells that a broker of this cell does not reach them."""
        for cell in others(self._settings):
            self._tell(cell, Kind.CUT_OFF, CutOffTold(broker))

    def next(self) -> Step | None:
        """What is delivered next in this cell."""
        return self._inner.next()

    def answer(self, message: Message, response: Body) -> None:
        """Takes an answer to a machine that another cell holds."""
        told = AnswerTold(_message_told(message), msgspec.Raw(_json.encode(response)))
        self._tell(cell_of(self._settings, message.sender), Kind.ANSWER, told)

    def forward(self, request: Event) -> None:
        """Takes a client's request to the controller, whose cell answers the client."""
        cell = cell_of(self._settings, CONTROLLER)
        self._leave(cell, Kind.FORWARD, request, self._following(cell))

    def arrive(self, event: Event) -> tuple[Message, Body] | None:
        """Lets what another cell has told be delivered here; an answer is given back instead."""
        told: Any
        if event.kind is Kind.METADATA:
            told = msgspec.json.decode(event.told, type=RecordTold)
            there = network.missed_by(self._table, told.record, self._settings.brokers_here)
            self._inner.publish(told.record, there)
        elif event.kind is Kind.MESSAGE:
            told = msgspec.json.decode(event.told, type=MessageTold)
            self._inner.send([_message(told)])
        elif event.kind in _COPIES:
            self._inner.send([msgspec.json.decode(event.told, type=_COPIES[event.kind])])
        else:
            told = msgspec.json.decode(event.told, type=AnswerTold)
            response_type = BUILT[told.message.api_key].response_type
            assert response_type is not None, told.message.api_key
            return _message(told.message), msgspec.json.decode(told.response, type=response_type)
        return None

    def _tell(self, cell: str, kind: Kind, told: msgspec.Struct) -> None:
        number = self._following(cell)
        cause = self._event
        topic_ids = cause.choices.topic_ids if cause is not None and cause.choices else {}
        event = Event(
            id=f"{self._settings.name}/{cell}/{number.incarnation}/{number.sequence}",
            cluster=self._settings.cluster,
            nonce=cause.nonce if cause is not None else "",
            choices=Choices(topic_ids=topic_ids) if topic_ids else None,
            of=self.cause,
            told=msgspec.Raw(_json.encode(told)),
        )
        self._leave(cell, kind, event, number)

    def _leave(self, cell: str, kind: Kind, event: Event, number: Count) -> None:
        row = msgspec.structs.replace(
            event,
            kind=kind,
            time=self._now,
            sender=self._settings.name,
            incarnation=number.incarnation,
            sequence=number.sequence,
        )
        self._rows.request(cell, row)

    def _following(self, cell: str) -> Count:
        """The number of the next event to a cell."""
        key, incarnation = f"told/{cell}", self._settings.incarnation
        last = self._table.get(key, Count)
        if last is None or last.incarnation < incarnation:
            last = Count(incarnation, 0)
        number = Count(last.incarnation, last.sequence + 1)
        self._table.put(key, number)
        return number


def registration(event: Event) -> RegistrationTold:
    """What a `registration` event tells."""
    return msgspec.json.decode(event.told, type=RegistrationTold)


def broker_cut_off(event: Event) -> int:
    """The broker of a `cut-off` event."""
    return msgspec.json.decode(event.told, type=CutOffTold).broker


def _told(sent: Sent) -> tuple[Kind, msgspec.Struct]:
    """What goes to another cell, and as which kind of event."""
    assert not isinstance(sent, HandOver | LeaderAndIsr), "they stay within a cell"
    if isinstance(sent, Message):
        return Kind.MESSAGE, _message_told(sent)
    return next(kind for kind, each in _COPIES.items() if isinstance(sent, each)), sent


def _message_told(message: Message) -> MessageTold:
    return MessageTold(
        message.sender,
        message.receiver,
        message.api_key,
        msgspec.Raw(_json.encode(message.body)),
        message.context,
        message.version,
        message.awaited_by,
    )


def _message(told: MessageTold) -> Message:
    body = msgspec.json.decode(told.body, type=BUILT[told.api_key].request_type)
    return Message(
        told.sender,
        told.receiver,
        told.api_key,
        body,
        told.context,
        told.version,
        told.awaited_by,
    )
