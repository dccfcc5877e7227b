"""Delivery: how what a machine tells the others of its cluster reaches them, and in which order.

A *schedule* takes metadata records and messages in and gives them out one by one, until the cell is
quiet. There are three; the machines and the loop (`run.py`) do not know which one they have. What
is for machines of another cell does not come here (`between_cells.py`).

    AtOnce     live: metadata before messages, each in the order in which it was told
    HeldBack   in a comparison with a recording: what a held request tells waits, in the table
               `waiting`, until an event says that it arrives (a real broker reads metadata, and
               writes a transaction's markers, some time after it has answered)
    Drawn      in a simulation: any order that keeps what one machine tells another in its order
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

import msgspec

from brokertwin.state.apis.registry import BUILT
from brokertwin.state.core import waiting
from brokertwin.state.core.decision import CONTROLLER, Message, Sent
from brokertwin.state.core.records import Record
from brokertwin.state.core.tables import Table
from brokertwin.state.replication import network


class MetadataRead(NamedTuple):
    """A broker reads a metadata record of the controller."""

    broker: int
    record: Record


Step = MetadataRead | Sent
"""What is delivered at once."""


class Schedule(Protocol):
    """What the loop of a cell asks of a delivery."""

    def publish(self, record: Record, brokers: Iterable[int]) -> None:
        """Takes a metadata record for each of the brokers that are held here."""

    def send(self, messages: Sequence[Sent]) -> None:
        """Takes what a machine tells others, in its order."""

    def next(self) -> Step | None:
        """What is delivered next; None where nothing is under way."""


class AtOnce:
    """Everything arrives in the event that has caused it: metadata first, then messages."""

    def __init__(self) -> None:
        self._metadata: deque[MetadataRead] = deque()
        self._messages: deque[Sent] = deque()

    def publish(self, record: Record, brokers: Iterable[int]) -> None:
        """Takes a metadata record for each of the brokers."""
        self._metadata.extend(MetadataRead(broker, record) for broker in brokers)

    def send(self, messages: Sequence[Sent]) -> None:
        """Takes what a machine tells others."""
        self._messages.extend(messages)

    def next(self) -> Step | None:
        """What is delivered next."""
        if self._metadata:
            return self._metadata.popleft()
        return self._messages.popleft() if self._messages else None


class HeldBack(AtOnce):
    """`AtOnce`, but what a held request tells brokers waits for `arrive`.

    Metadata records queue behind one that waits: brokers read them in their order. A request that
    waits for an answer itself is no reason to hold back what it asks.

    Args:
        table: the table `waiting` of the cell.
        event_id: whose effects are delivered.
        is_held: whether that request is held.
    """

    def __init__(self, table: Table, event_id: str, is_held: bool) -> None:
        super().__init__()
        self._table = table
        self._event_id = event_id
        self._is_held = is_held

    def publish(self, record: Record, brokers: Iterable[int]) -> None:
        """Takes a metadata record, or lets it wait."""
        if self._is_held or waiting.is_metadata_late(self._table):
            waiting.add_late(self._table, self._event_id, record)
        else:
            super().publish(record, brokers)

    def send(self, messages: Sequence[Sent]) -> None:
        """Takes messages, but for those to brokers that have to wait."""
        late = [m for m in messages if isinstance(m, Message) and _may_be_late(m)]
        if late and self._is_held:
            kept = [delayed(message) for message in late]
            waiting.add_late_messages(self._table, self._event_id, kept)
            messages = [message for message in messages if message not in late]
        super().send(messages)

    def arrive(self, event_id: str, brokers: Iterable[int]) -> bool:
        """Lets what waits of an event be delivered now; says whether anything did."""
        records = waiting.take_late(self._table, event_id)
        messages = waiting.take_late_messages(self._table, event_id)
        held_here = list(brokers)
        for record in records:
            super().publish(record, held_here)
        super().send([undelayed(message) for message in messages])
        return bool(records or messages)


class Drawn:
    """Any order in which each pair of machines keeps its own; for simulations.

    Args:
        choose: gives one of the numbers from 0 up to its argument (exclusive).
    """

    def __init__(self, choose: Callable[[int], int]) -> None:
        self._choose = choose
        self._ways: dict[tuple[int, int], deque[Step]] = {}

    def publish(self, record: Record, brokers: Iterable[int]) -> None:
        """Takes a metadata record for each of the brokers."""
        for broker in brokers:
            self._way(CONTROLLER, broker).append(MetadataRead(broker, record))

    def send(self, messages: Sequence[Sent]) -> None:
        """Takes what a machine tells others."""
        for message in messages:
            self._way(message.sender, message.receiver).append(message)

    def next(self) -> Step | None:
        """What is delivered next, from one of the ways that have something."""
        ways = sorted(self._ways)
        if not ways:
            return None
        way = ways[self._choose(len(ways))]
        step = self._ways[way].popleft()
        if not self._ways[way]:
            del self._ways[way]
        return step

    def _way(self, sender: int, receiver: int) -> deque[Step]:
        return self._ways.setdefault((sender, receiver), deque())


def _may_be_late(message: Message) -> bool:
    return not message.awaited_by and message.receiver != CONTROLLER


def delayed(message: Message) -> waiting.LateMessage:
    """A message as it is kept until it is delivered."""
    return waiting.LateMessage(
        message.sender,
        message.receiver,
        message.api_key,
        msgspec.msgpack.encode(message.body),
        message.context,
        message.version,
        message.awaited_by,
    )


def undelayed(late: waiting.LateMessage) -> Message:
    """The message that was kept."""
    body = msgspec.msgpack.decode(late.body, type=BUILT[late.api_key].request_type)
    return Message(
        late.sender,
        late.receiver,
        late.api_key,
        body,
        late.context,
        late.version,
        late.awaited_by,
    )


def arrives(table: Table, message: Message) -> bool:
    """Whether a message reaches its receiver; what a severed broker asks the controller waits.

    What is lost between brokers is asked again by who needs it, or answered at its time-out.
    """
    if message.receiver != CONTROLLER:
        is_to_itself = message.sender == message.receiver
        return is_to_itself or not network.is_cut(table, message.sender, message.receiver)
    if not network.is_severed(table, message.sender):
        return True
    network.send_later(table, delayed(message))
    return False
