"""The consumer protocol before groups: each consumer uses ZooKeeper alone.

Source: seed 001's first consumer; `ZookeeperConsumerConnector` in Kafka 0.8. There is no leader and
no generation. Each consumer registers and watches the registrations. After each change it does this
on its own:

    1  reads the registrations and their topics                    and watches for the next change
    2  reads the partitions of each topic
    3  releases its partitions                                     deletes their owner nodes
    4  computes range assignment for all, and takes its part
    5  claims each of its partitions                               creates owner nodes
    6  if a claim fails: releases all, waits rebalance.backoff.ms, and restarts; after
       rebalance.max.retries it stays without partitions until the next change

    /consumers/GROUP/ids/CONSUMER             ephemeral: topics and thread counts
    /consumers/GROUP/owners/TOPIC/PARTITION   ephemeral: the owning thread
    /consumers/GROUP/offsets/TOPIC/PARTITION  position; writable by any consumer
    /brokers/topics/TOPIC                     number of partitions

Results of operations arrive in order (`on_response`); a watch fires once. Only ZooKeeper knows the
owners: a consumer whose session has expired reads on until it is notified.
"""

from collections.abc import Generator, Mapping
from typing import NamedTuple

from brokertwin.clients.partitions import TopicPartition

BACKOFF_MS, RETRIES_MAX = 2_000, 4


class CreateNode(NamedTuple):
    """Create a node; the result is False if it exists."""

    path: str
    data: str
    is_ephemeral: bool = True


class DeleteNode(NamedTuple):
    path: str


class ReadNode(NamedTuple):
    """Read a node; the result is None if it does not exist."""

    path: str


class Children(NamedTuple):
    """List the children of a node, and watch for their next change."""

    path: str


class WriteNode(NamedTuple):
    path: str
    data: str


Operation = CreateNode | DeleteNode | ReadNode | Children | WriteNode
Result = bool | str | list[str] | None
Steps = Generator[Operation, Result, bool]


class ConsumerThread(NamedTuple):
    """A thread of a consumer; the assignment sorts by these."""

    consumer: str
    number: int


def ranges(threads: list[ConsumerThread], partitions: int) -> dict[ConsumerThread, list[int]]:
    """Assign contiguous partitions; the first P mod C threads get one more."""
    quota, extra = divmod(partitions, len(threads))
    given = {}
    for at, thread in enumerate(sorted(threads)):
        first = quota * at + min(at, extra)
        given[thread] = list(range(first, first + quota + (at < extra)))
    return given


class ZookeeperConsumer:
    """One consumer; `topics` has the thread count of each. Times in ms.

    Attributes:
        owned: claimed partitions and their threads.
        rebalances: number of rebalances begun.
    """

    def __init__(self, group: str, name: str, topics: Mapping[str, int]) -> None:
        self.name = name
        self.owned: dict[TopicPartition, ConsumerThread] = {}
        self.rebalances = 0
        self._root = f"/consumers/{group}"
        self._topics = dict(topics)
        self._steps: Steps | None = None
        self._is_in_flight = False
        self._next: Operation | None = None
        self._writes: list[Operation] = []
        self._is_changed = True
        self._is_registered = False
        self._retries = self._retry_at = 0

    # Driver

    def take(self, now: int) -> list[Operation]:
        """Return the operations to send: one at a time, besides commits."""
        writes, self._writes = self._writes, []
        if self._is_in_flight:
            return writes
        if self._steps is None and self._is_changed and now >= self._retry_at:
            self._is_changed = False
            self._begin()
        if self._next is None:
            return writes
        self._is_in_flight = True
        return [*writes, self._next]

    def on_response(self, now: int, operation: Operation, result: Result) -> None:
        """Handle the result of an operation; results of commits are ignored."""
        if isinstance(operation, WriteNode) or self._steps is None:
            return
        self._is_in_flight = False
        try:
            self._next = self._steps.send(result)
        except StopIteration as end:
            self._steps = self._next = None
            self._settle(now, bool(end.value))

    def watch_fired(self) -> None:
        self._is_changed = True
        self._retries = self._retry_at = 0

    def expired(self) -> None:
        """Handle an expired session: its nodes are gone, and it registers again."""
        self.owned = {}
        self._steps = self._next = None
        self._is_in_flight = self._is_registered = False
        self.watch_fired()

    def commit(self, partition: TopicPartition, offset: int) -> None:
        topic, number = partition
        self._writes.append(WriteNode(f"{self._root}/offsets/{topic}/{number}", str(offset)))

    # Rebalance

    def _begin(self) -> None:
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
        """Rebalance; returns whether it owns its part."""
        if not self._is_registered:
            registration = ",".join(f"{topic}={threads}" for topic, threads in self._topics.items())
            yield CreateNode(f"{self._root}/ids/{self.name}", registration)
            self._is_registered = True
        names = yield Children(f"{self._root}/ids")
        consumer_threads: dict[str, list[ConsumerThread]] = {}
        for name in names if isinstance(names, list) else []:
            data = yield ReadNode(f"{self._root}/ids/{name}")
            for part in str(data or "").split(","):
                topic, _, count = part.partition("=")
                threads = [ConsumerThread(name, number) for number in range(int(count or 0))]
                consumer_threads.setdefault(topic, []).extend(threads)
        mine: dict[TopicPartition, ConsumerThread] = {}
        for topic in self._topics:
            count_text = yield ReadNode(f"/brokers/topics/{topic}")
            count_of = int(count_text) if isinstance(count_text, str) else 0
            for thread, numbers in ranges(
                consumer_threads.get(topic, []) or [ConsumerThread("", 0)], count_of
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
