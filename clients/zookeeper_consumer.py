"""The protocol before groups: each consumer reads ZooKeeper and computes its own partitions.

Source: seed 001's first consumer; `ZookeeperConsumerConnector` in Kafka 0.8. There is no leader and
no generation. Each consumer registers, watches the registrations, and when they change does this
for itself, whoever it was that came or went:

    1  reads who is registered, and what each of them wants         watching for the next change
    2  reads each topic's partitions
    3  gives up what it owns                                        deletes its owners' nodes
    4  computes range for all, and takes its own part
    5  claims each partition of it                                  creates owners' nodes
    6  one is claimed already: gives up what it has claimed, waits rebalance.backoff.ms, from 1 on;
       after rebalance.max.retries it stays without partitions until the next change

    /consumers/GROUP/ids/CONSUMER             ephemeral: topics and how many threads for each
    /consumers/GROUP/owners/TOPIC/PARTITION   ephemeral: the thread that reads it
    /consumers/GROUP/offsets/TOPIC/PARTITION  how far it is read; any consumer may write it
    /brokers/topics/TOPIC                     how many partitions there are

What becomes of operations is told in their order (`answered`); a watch fires once. Who owns what is
known to ZooKeeper alone: a consumer whose session is over reads on until it is told.
"""

from collections.abc import Generator, Mapping
from typing import NamedTuple

from brokertwin.clients.partitions import TopicPartition

BACKOFF_MS, RETRIES_MAX = 2_000, 4


class CreateNode(NamedTuple):
    """Makes a node; answered with whether there was none."""

    path: str
    data: str
    is_ephemeral: bool = True


class DeleteNode(NamedTuple):
    """Removes a node, if it is there."""

    path: str


class ReadNode(NamedTuple):
    """A node's data; None where it is not there."""

    path: str


class Children(NamedTuple):
    """The names below a node, and a watch for the next change of them."""

    path: str


class WriteNode(NamedTuple):
    """Sets a node's data, whatever it was."""

    path: str
    data: str


Operation = CreateNode | DeleteNode | ReadNode | Children | WriteNode
Result = bool | str | list[str] | None
Steps = Generator[Operation, Result, bool]


class ConsumerThread(NamedTuple):
    """A thread of a consumer; they are sorted by these for the assignment."""

    consumer: str
    number: int


def ranges(threads: list[ConsumerThread], partitions: int) -> dict[ConsumerThread, list[int]]:
    """What each thread gets of a topic, in runs: the first P mod C threads get one more."""
    quota, extra = divmod(partitions, len(threads))
    given = {}
    for at, thread in enumerate(sorted(threads)):
        first = quota * at + min(at, extra)
        given[thread] = list(range(first, first + quota + (at < extra)))
    return given


class ZookeeperConsumer:
    """One consumer: `topics` with the number of its threads for each. Times in ms.

    Attributes:
        owned: what it reads now, and in which thread.
        rebalances: how often it has begun with step 1.
    """

    def __init__(self, group: str, name: str, topics: Mapping[str, int]) -> None:
        self.name = name
        self.owned: dict[TopicPartition, ConsumerThread] = {}
        self.rebalances = 0
        self._root = f"/consumers/{group}"
        self._topics = dict(topics)
        self._steps: Steps | None = None
        self._asked = False
        self._next: Operation | None = None
        self._writes: list[Operation] = []
        self._is_changed = True
        self._is_registered = False
        self._retries = self._retry_at = 0

    # What drives it

    def take(self, now: int) -> list[Operation]:
        """The operations to send now, one at a time besides commits."""
        writes, self._writes = self._writes, []
        if self._asked:
            return writes
        if self._steps is None and self._is_changed and now >= self._retry_at:
            self._is_changed = False
            self._begin(now)
        if self._next is None:
            return writes
        self._asked = True
        return [*writes, self._next]

    def answered(self, now: int, operation: Operation, result: Result) -> None:
        """The result of an operation; that of a commit tells nothing."""
        if isinstance(operation, WriteNode) or self._steps is None:
            return
        self._asked = False
        try:
            self._next = self._steps.send(result)
        except StopIteration as end:
            self._steps = self._next = None
            self._settle(now, bool(end.value))

    def watch_fired(self) -> None:
        """Registrations have changed since they were read."""
        self._is_changed = True
        self._retries = self._retry_at = 0

    def expired(self) -> None:
        """It is told that its session is over: its nodes are gone, and it begins anew."""
        self.owned = {}
        self._steps = self._next = None
        self._asked = self._is_registered = False
        self.watch_fired()

    def commit(self, partition: TopicPartition, offset: int) -> None:
        """Says how far a partition is read."""
        topic, number = partition
        self._writes.append(WriteNode(f"{self._root}/offsets/{topic}/{number}", str(offset)))

    # A rebalance

    def _begin(self, now: int) -> None:
        self.rebalances += 1
        self._steps = self._rebalance()
        self._next = next(self._steps)

    def _settle(self, now: int, is_done: bool) -> None:
        if is_done:
            self._retries = 0
        elif self._retries < RETRIES_MAX:
            self._retries += 1
            self._retry_at = now + BACKOFF_MS
            self._is_changed = True

    def _rebalance(self) -> Steps:
        """Whether it owns its part now."""
        if not self._is_registered:
            said = ",".join(f"{topic}={threads}" for topic, threads in self._topics.items())
            yield CreateNode(f"{self._root}/ids/{self.name}", said)
            self._is_registered = True
        names = yield Children(f"{self._root}/ids")
        wanted: dict[str, list[ConsumerThread]] = {}
        for name in names if isinstance(names, list) else []:
            said_by = yield ReadNode(f"{self._root}/ids/{name}")
            for part in str(said_by or "").split(","):
                topic, _, count = part.partition("=")
                threads = [ConsumerThread(name, number) for number in range(int(count or 0))]
                wanted.setdefault(topic, []).extend(threads)
        mine: dict[TopicPartition, ConsumerThread] = {}
        for topic in self._topics:
            count_said = yield ReadNode(f"/brokers/topics/{topic}")
            count_of = int(count_said) if isinstance(count_said, str) else 0
            for thread, numbers in ranges(
                wanted.get(topic, []) or [ConsumerThread("", 0)], count_of
            ).items():
                if thread.consumer == self.name:
                    mine |= {TopicPartition(topic, number): thread for number in numbers}
        yield from self._release()
        for partition, thread in mine.items():
            owner = f"{thread.consumer}-{thread.number}"
            if not (yield CreateNode(self._owner(partition), owner)):
                yield from self._release()
                return False
            self.owned[partition] = thread
        return True

    def _release(self) -> Steps:
        for partition in list(self.owned):
            del self.owned[partition]
            yield DeleteNode(self._owner(partition))
        return True

    def _owner(self, partition: TopicPartition) -> str:
        return f"{self._root}/owners/{partition.topic}/{partition.partition}"
