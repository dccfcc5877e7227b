"""Delivery order of messages between brokers of one cell.

Counts messages in which a leader sends only a part of its log because of the follower's size limit.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from random import Random

from brokertwin.simulation.reach import Reach
from brokertwin.state.cell.delivery import DeliveryOrder, Step
from brokertwin.state.core.decision import FollowedPartition, Message, ReplicaResponse, Sent
from brokertwin.state.core.records import Record


class Draws:
    """Random numbers that repeat when events are reprocessed."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._drawn: list[int] = []
        self._at = 0

    def __call__(self, stop: int) -> int:
        """Return the next number below `stop`."""
        if self._at == len(self._drawn):
            self._drawn.append(self._chance.randrange(stop))
        self._at += 1
        return self._drawn[self._at - 1]

    def again(self) -> None:
        self._at = 0

    def forget(self) -> None:
        self._drawn.clear()
        self._at = 0


class Counted:
    """A schedule that counts messages; `on_message` is called with each delivered one."""

    def __init__(
        self,
        schedule: DeliveryOrder,
        reached: Counter[Reach],
        on_message: Callable[[Message], None] = lambda _: None,
    ) -> None:
        self._schedule = schedule
        self._reached = reached
        self._on_message = on_message

    def publish(self, record: Record, brokers: Iterable[int]) -> None:
        self._schedule.publish(record, brokers)

    def send(self, messages: Sequence[Sent]) -> None:
        _count(messages, self._reached)
        self._schedule.send(messages)

    def next(self) -> Step | None:
        step = self._schedule.next()
        if isinstance(step, Message):
            self._on_message(step)
        return step


def _count(messages: Sequence[Sent], reached: Counter[Reach]) -> None:
    for message in messages:
        if type(message) is ReplicaResponse:
            reached[Reach.PART] += sum(map(_is_part, message.partitions))


def _is_part(sent: FollowedPartition) -> bool:
    return bool(sent.batches) and sent.batches[-1].last_offset + 1 < sent.log_end_offset
