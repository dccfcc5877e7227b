"""Messages to machines of other cells: rows of the topic `requests`.

A cluster can be several cells, each with some of its brokers; the first one also has the controller
(`CellSettings.cells`). A message to a machine of another cell becomes an event. Its key is the cell
of the receiver:

    forward    a client's request to the controller (Kafka's Envelope, KIP-590)
    metadata   a record of the controller, once for all brokers of a cell
    message    a machine's request to another machine
    answer     the reply, if the sender needs it, with the message that it replies to
    replica-fetch, replica-answer   between the replicas of partitions (`state/replication`)
    registration   to the controller: a broker has stopped, or is back
    cut-off    to leaders: drop pending fetches of a broker that has stopped or is isolated

Each event has the sender's cell, its *incarnation* and a *sequence*, which increases by one for
each event from that cell to this one. The receiver accepts exactly the next one. An earlier one, or
one of an older incarnation, is a repeat without effect: Spark's sink is at-least-once. One that
comes too early becomes a dead letter; the micro-batch without the events before it runs again. A
cell with a new checkpoint has a higher incarnation and counts from 1.

The event also has the time, the nonce and the choices of its cause. In one cell the controller's
response comes before brokers read its records; with several cells it comes after.

Items of the table `cluster`, both of the cell itself:

    told/<cell>    Count: the last event from this cell to that one
    heard/<cell>   Count: the last accepted event of that cell
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from brokertwin.protocol.bodies import Body
from brokertwin.state.apis.registry import BUILT
from brokertwin.state.cell.delivery import DeliveryOrder, Step, arrives
from brokertwin.state.cell.output_rows import Rows
from brokertwin.state.core.decision import (
    CONTROLLER,
    HandOver,
    LeaderAndIsr,
    Message,
    ReplicaFetch,
    ReplicaResponse,
    Sent,
)
from brokertwin.state.core.events import Choices, Event, Kind
from brokertwin.state.core.records import Record
from brokertwin.state.core.settings import CellSettings
from brokertwin.state.core.tables import Table
from brokertwin.state.replication import network

_json = msgspec.json.Encoder()

_COPIES: dict[Kind, type[ReplicaFetch | ReplicaResponse]] = {
    Kind.REPLICA_FETCH: ReplicaFetch,
    Kind.REPLICA_RESPONSE: ReplicaResponse,
}


class Count(msgspec.Struct, array_like=True):
    """The position in the events from one cell to another."""

    incarnation: int
    sequence: int


class MetadataEvent(msgspec.Struct):
    """In a `metadata` event: a record of the controller."""

    record: Record


class RegistrationEvent(msgspec.Struct, rename="camel"):
    """In a `registration` event: a broker has stopped, or is back.

    Attributes:
        is_new: in a new process.
        was_killed: the former process did not shut down in order.
        start: with which start the broker registers (`network.py`).
    """

    broker: int
    is_stopped: bool
    is_new: bool = True
    was_killed: bool = False
    start: int = 0


class CutOffEvent(msgspec.Struct):
    """In a `cut-off` event: the broker that other brokers do not reach."""

    broker: int


class MessageEvent(msgspec.Struct, rename="camel"):
    """In a `message` event: a machine's request (`Message`), its body as JSON."""

    sender: int
    receiver: int
    api_key: int
    body: msgspec.Raw
    context: str
    version: int | None
    awaited_by: str


class ReplyEvent(msgspec.Struct):
    """In an `answer` event: the message that it replies to, and the response as JSON."""

    message: MessageEvent
    response: msgspec.Raw


def holds(settings: CellSettings, machine: int) -> bool:
    return settings.has_controller if machine == CONTROLLER else machine in settings.brokers_here


def cell_of(settings: CellSettings, machine: int) -> str:
    if machine == CONTROLLER:
        return next(iter(settings.cells))
    return next(name for name, brokers in settings.cells.items() if machine in brokers)


def others(settings: CellSettings) -> list[str]:
    return [name for name in settings.cells if name != settings.name]


def is_repeat(table: Table, settings: CellSettings, event: Event) -> bool:
    """Whether an event of another cell was accepted before, or its sender has restarted since."""
    last = _received(table, settings, event.sender)
    return (event.incarnation, event.sequence) <= (last.incarnation, last.sequence)


def is_next(table: Table, settings: CellSettings, event: Event) -> bool:
    last = _received(table, settings, event.sender)
    following = last.sequence + 1 if event.incarnation == last.incarnation else 1
    return event.incarnation >= last.incarnation and event.sequence == following


def take(table: Table, event: Event) -> None:
    table.put(f"heard/{event.sender}", Count(event.incarnation, event.sequence))


def _received(table: Table, settings: CellSettings, sender: str) -> Count:
    last = table.get(f"heard/{sender}", Count)
    if last is None or last.incarnation < settings.incarnation:
        return Count(settings.incarnation, 0)
    return last


class OtherCells:
    """A schedule that delivers within this cell, and writes rows for other cells.

    Args:
        inner: delivers within this cell.
        table: the table `cluster` of the cell.
        settings: of the cell.
        event: the handled event; None for a deadline.
        now: the time, in ms since 1970.
        rows: collects the rows.
    """

    def __init__(
        self,
        inner: DeliveryOrder,
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
        self._inner.publish(record, brokers)
        for cell in others(self._settings):
            self._send_event(cell, Kind.METADATA, MetadataEvent(record))

    def send(self, messages: Sequence[Sent]) -> None:
        for message in messages:
            if isinstance(message, ReplicaFetch | ReplicaResponse) and self._is_cut(message):
                continue
            if message.receiver not in (CONTROLLER, *self._settings.brokers):
                continue  # it has registered, but the cluster does not serve it
            if holds(self._settings, message.receiver):
                self._inner.send([message])
            elif not isinstance(message, Message) or arrives(self._table, message):
                self._send_event(
                    cell_of(self._settings, message.receiver), *_event_content(message)
                )

    def _is_cut(self, copy: ReplicaFetch | ReplicaResponse) -> bool:
        return network.is_cut(self._table, copy.sender, copy.sender)

    def register(self, content: RegistrationEvent) -> None:
        """Inform the controller that a broker of this cell has stopped, or is back."""
        self._send_event(cell_of(self._settings, CONTROLLER), Kind.REGISTRATION, content)

    def cut_off(self, broker: int) -> None:
        """Inform leaders in other cells that a broker of this cell does not reach them."""
        for cell in others(self._settings):
            self._send_event(cell, Kind.CUT_OFF, CutOffEvent(broker))

    def next(self) -> Step | None:
        return self._inner.next()

    def reply(self, message: Message, response: Body) -> None:
        content = ReplyEvent(_message_event(message), msgspec.Raw(_json.encode(response)))
        self._send_event(cell_of(self._settings, message.sender), Kind.REPLY, content)

    def forward(self, request: Event) -> None:
        """Forward a client's request to the controller, whose cell responds to the client."""
        cell = cell_of(self._settings, CONTROLLER)
        self._leave(cell, Kind.FORWARD, request, self._following(cell))

    def arrive(self, event: Event) -> tuple[Message, Body] | None:
        """Deliver the content of an event of another cell; return a reply instead."""
        content: Any
        if event.kind is Kind.METADATA:
            content = msgspec.json.decode(event.content, type=MetadataEvent)
            there = network.missed_by(self._table, content.record, self._settings.brokers_here)
            self._inner.publish(content.record, there)
        elif event.kind is Kind.MESSAGE:
            content = msgspec.json.decode(event.content, type=MessageEvent)
            self._inner.send([_message(content)])
        elif event.kind in _COPIES:
            self._inner.send([msgspec.json.decode(event.content, type=_COPIES[event.kind])])
        else:
            content = msgspec.json.decode(event.content, type=ReplyEvent)
            response_type = BUILT[content.message.api_key].response_type
            return _message(content.message), msgspec.json.decode(
                content.response, type=response_type
            )
        return None

    def _send_event(self, cell: str, kind: Kind, content: msgspec.Struct) -> None:
        number = self._following(cell)
        cause = self._event
        topic_ids = cause.choices.topic_ids if cause is not None and cause.choices else {}
        event = Event(
            id=f"{self._settings.name}/{cell}/{number.incarnation}/{number.sequence}",
            cluster=self._settings.cluster,
            nonce=cause.nonce if cause is not None else "",
            choices=Choices(topic_ids=topic_ids) if topic_ids else None,
            of=self.cause,
            content=msgspec.Raw(_json.encode(content)),
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
        """Return the number of the next event to a cell."""
        key, incarnation = f"told/{cell}", self._settings.incarnation
        last = self._table.get(key, Count)
        if last is None or last.incarnation < incarnation:
            last = Count(incarnation, 0)
        number = Count(last.incarnation, last.sequence + 1)
        self._table.put(key, number)
        return number


def registration(event: Event) -> RegistrationEvent:
    return msgspec.json.decode(event.content, type=RegistrationEvent)


def broker_cut_off(event: Event) -> int:
    return msgspec.json.decode(event.content, type=CutOffEvent).broker


def _event_content(sent: Sent) -> tuple[Kind, msgspec.Struct]:
    assert not isinstance(sent, HandOver | LeaderAndIsr), "they stay within a cell"
    if isinstance(sent, Message):
        return Kind.MESSAGE, _message_event(sent)
    return next(kind for kind, each in _COPIES.items() if isinstance(sent, each)), sent


def _message_event(message: Message) -> MessageEvent:
    return MessageEvent(
        message.sender,
        message.receiver,
        message.api_key,
        msgspec.Raw(_json.encode(message.body)),
        message.context,
        message.version,
        message.awaited_by,
    )


def _message(content: MessageEvent) -> Message:
    body = msgspec.json.decode(content.body, type=BUILT[content.api_key].request_type)
    return Message(
        content.sender,
        content.receiver,
        content.api_key,
        body,
        content.context,
        content.version,
        content.awaited_by,
    )
