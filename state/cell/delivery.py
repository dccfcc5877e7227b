"""Delivery of metadata records and messages between the machines of a cell.

A *schedule* takes metadata records and messages, and returns them one by one until the cell is
quiet. There are three; machines and the loop (`run.py`) do not depend on which. Messages to other
cells are in `between_cells.py`.

    AtOnce          live: metadata before messages, each in the order of sending
    HeldBack        in a comparison with a recording: effects of a held request wait in the table
                    `pending` until a `complete` event. A real broker reads metadata, and writes the
                    markers of a transaction, some time after its response.
    RandomDelivery  in a simulation: any order that keeps messages between two machines in order
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

import msgspec

from brokertwin.state.apis.registry import BUILT
from brokertwin.state.core import pending
from brokertwin.state.core.decision import CONTROLLER, Message, Sent
from brokertwin.state.core.events import Event, Kind
from brokertwin.state.core.records import Record
from brokertwin.state.core.tables import Table
from brokertwin.state.replication import network


class MetadataRead(NamedTuple):
    """A broker reads a metadata record of the controller."""

    broker: int
    record: Record


Step = MetadataRead | Sent
"""A delivery."""


class DeliveryOrder(Protocol):
    """The interface between the loop of a cell and a delivery."""

    def publish(self, record: Record, brokers: Iterable[int]) -> None:
        """Add a metadata record for each of the brokers of this cell."""

    def send(self, messages: Sequence[Sent]) -> None:
        """Add messages of a machine, in order."""

    def next(self) -> Step | None:
        """Return the next delivery, or None if there is none."""


class AtOnce:
    """Delivers everything in the event that caused it: metadata first, then messages."""

    def __init__(self) -> None:
        self._metadata: deque[MetadataRead] = deque()
        self._messages: deque[Step] = deque()

    def publish(self, record: Record, brokers: Iterable[int]) -> None:
        self._metadata.extend(MetadataRead(broker, record) for broker in brokers)

    def send(self, messages: Sequence[Sent]) -> None:
        self._messages.extend(messages)

    def next(self) -> Step | None:
        if self._metadata:
            return self._metadata.popleft()
        return self._messages.popleft() if self._messages else None


class HeldBack(AtOnce):
    """`AtOnce`, but the effects of a held request on brokers wait for `arrive`.

    Metadata records queue after a waiting one because brokers read them in order. Requests to
    other machines whose replies a pending request needs are not held back.

    Args:
        table: the table `pending` of the cell.
    """

    def __init__(self, table: Table) -> None:
        super().__init__()
        self._table = table
        self._event_id = ""
        self._is_held = False

    def begin(self, event: Event | None) -> None:
        """Prepare for the deliveries of an event, or of a deadline.

        Only requests and disconnects are exchanges, for which `arrive` may be called.
        """
        is_exchange = event is not None and event.kind in (Kind.REQUEST, Kind.DISCONNECT)
        self._event_id = event.id if event is not None and is_exchange else ""
        self._is_held = event is not None and event.is_held

    def publish(self, record: Record, brokers: Iterable[int]) -> None:
        """Add a metadata record, now or after `arrive`."""
        if self._is_held or pending.is_metadata_late(self._table):
            pending.add_late(self._table, self._event_id, record)
        else:
            super().publish(record, brokers)

    def send(self, messages: Sequence[Sent]) -> None:
        """Add messages; those to brokers may wait for `arrive`."""
        late = [m for m in messages if isinstance(m, Message) and _may_be_late(m)]
        if late and self._is_held:
            kept = [delayed(message) for message in late]
            pending.add_late_messages(self._table, self._event_id, kept)
            messages = [message for message in messages if message not in late]
        super().send(messages)

    def arrive(self, event_id: str, brokers: Iterable[int]) -> bool:
        """Deliver the waiting effects of an event; return whether there were any."""
        records = pending.take_late(self._table, event_id)
        messages = pending.take_late_messages(self._table, event_id)
        held_here = list(brokers)
        for record in records:
            super().publish(record, held_here)
        super().send([undelayed(message) for message in messages])
        return bool(records or messages)


class RandomDelivery:
    """Delivers in any order that keeps the order between each pair of machines.

    Args:
        choose: returns one of the numbers from 0 up to its argument (exclusive).
    """

    def __init__(self, choose: Callable[[int], int]) -> None:
        self._choose = choose
        self._ways: dict[tuple[int, int], deque[Step]] = {}

    def publish(self, record: Record, brokers: Iterable[int]) -> None:
        for broker in brokers:
            self._way(CONTROLLER, broker).append(MetadataRead(broker, record))

    def send(self, messages: Sequence[Sent]) -> None:
        for message in messages:
            self._way(message.sender, message.receiver).append(message)

    def next(self) -> Step | None:
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


def delayed(message: Message) -> pending.LateMessage:
    """Return a message in the form in which it waits."""
    return pending.LateMessage(
        message.sender,
        message.receiver,
        message.api_key,
        msgspec.msgpack.encode(message.body),
        message.context,
        message.version,
        message.awaited_by,
    )


def undelayed(late: pending.LateMessage) -> Message:
    body = msgspec.msgpack.decode(late.body, type=BUILT[late.api_key].request_type)
    return Message(
        late.sender, late.receiver, late.api_key, body, late.context, late.version, late.awaited_by
    )


def arrives(table: Table, message: Message) -> bool:
    """Whether a message reaches its receiver; one from a severed broker to the controller waits.

    A message lost between brokers is sent again by its sender, or its request times out.
    """
    if message.receiver != CONTROLLER:
        is_to_itself = message.sender == message.receiver
        return is_to_itself or not network.is_cut(table, message.sender, message.receiver)
    if not network.is_severed(table, message.sender):
        return True
    network.send_later(table, delayed(message))
    return False
