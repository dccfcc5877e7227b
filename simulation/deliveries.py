"""What brokers of one cell tell each other: in which order they hear of it, and what it is.

Counted is what a leader sends a follower that has room for a part of its log only.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from random import Random

from brokertwin.simulation.reach import Reach
from brokertwin.state.cell.delivery import DeliverySchedule, Step
from brokertwin.state.core.decision import FollowedPartition, ReplicaAnswer, Sent
from brokertwin.state.core.records import Record


class Draws:
    """Numbers that are drawn, and the same again for events that are decided again."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._drawn: list[int] = []
        self._at = 0

    def __call__(self, stop: int) -> int:
        """The next number below `stop`."""
        if self._at == len(self._drawn):
            self._drawn.append(self._chance.randrange(stop))
        self._at += 1
        return self._drawn[self._at - 1]

    def again(self) -> None:
        """From the first on."""
        self._at = 0

    def forget(self) -> None:
        """Those so far do not come again."""
        self._drawn.clear()
        self._at = 0


class Counted:
    """A schedule of which is counted what it takes."""

    def __init__(self, schedule: DeliverySchedule, reached: Counter[Reach]) -> None:
        self._schedule = schedule
        self._reached = reached

    def publish(self, record: Record, brokers: Iterable[int]) -> None:
        """Takes a metadata record for each of the brokers."""
        self._schedule.publish(record, brokers)

    def send(self, messages: Sequence[Sent]) -> None:
        """Takes what a machine tells others."""
        _count(messages, self._reached)
        self._schedule.send(messages)

    def next(self) -> Step | None:
        """What is delivered next."""
        return self._schedule.next()


def _count(messages: Sequence[Sent], reached: Counter[Reach]) -> None:
    for message in messages:
        if type(message) is ReplicaAnswer:
            reached[Reach.PART] += sum(map(_is_part, message.partitions))


def _is_part(answer: FollowedPartition) -> bool:
    return bool(answer.batches) and answer.batches[-1].last_offset + 1 < answer.log_end_offset
