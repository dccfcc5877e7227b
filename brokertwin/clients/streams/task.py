"""A task: its records, its stores and its positions.

Source: seed 001; `StreamTask`, `PartitionGroup`, `RecordQueue`, `StandbyTask` in Kafka. The next
record is the queue head with the lowest timestamp. Store changes go to the changelog partition with
the task's number.
"""

from collections import deque
from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from brokertwin.clients.messages import ProducerRecord
from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.streams.layout import Names, TaskId
from brokertwin.clients.streams.stores import KeyValueStore
from brokertwin.clients.streams.topology import Processor, SinkNode, SubTopology


class TaskState(StrEnum):
    """By Kafka's names."""

    CREATED = "CREATED"
    RESTORING = "RESTORING"
    RUNNING = "RUNNING"


class TaskOutput(NamedTuple):
    """A record to produce, by its key if `partition` is None."""

    topic: str
    partition: int | None
    message: ProducerRecord


class TaskStores:
    """The stores of an active or standby task, and their changelogs."""

    def __init__(self, sub: SubTopology, names: Names, partition: int) -> None:
        self.by_name = {name: KeyValueStore() for name in sub.stores}
        self.changelogs = {
            TopicPartition(names.changelog(name), partition): store
            for name, store in self.by_name.items()
        }

    def restore(self, at: TopicPartition, message: ProducerRecord) -> None:
        assert message.key is not None, "a changelog's record has a key"
        self.changelogs[at].restore(message.key, message.value)


class StreamTask:
    """An active task.

    Attributes:
        state: CREATED until committed offsets are known, RESTORING until stores are restored.
        processed: number of records since the last commit.
    """

    def __init__(
        self,
        id: TaskId,
        partitions: Iterable[TopicPartition],
        sub: SubTopology,
        names: Names,
        stores: TaskStores | None = None,
    ) -> None:
        self.id = id
        self.partitions = list(partitions)
        self.state = TaskState.CREATED
        self.stores = stores or TaskStores(sub, names, id.partition)
        self.processed = 0
        self._sub = sub
        self._names = names
        self._children = sub.children()
        self._used = {
            name: {
                s: self.stores.by_name[s] for s, used_by in sub.stores.items() if name in used_by
            }
            for name in sub.nodes
        }
        self._sources = {
            topic: name
            for name, source in sub.sources().items()
            for topic in names.topics_of(source)
        }
        self._queues: dict[TopicPartition, deque[tuple[int, ProducerRecord]]] = {
            at: deque() for at in self.partitions
        }
        self._next: dict[TopicPartition, int] = {}

    @property
    def queued(self) -> int:
        return sum(map(len, self._queues.values()))

    def queued_of(self, at: TopicPartition) -> int:
        return len(self._queues[at])

    def add(self, at: TopicPartition, offset: int, message: ProducerRecord) -> None:
        self._queues[at].append((offset, message))

    def process(self) -> list[TaskOutput]:
        """Process a record; returns records to produce, store changes first."""
        waiting = [at for at, queue in self._queues.items() if queue]
        at = min(waiting, key=lambda each: (self._queues[each][0][1].timestamp, each))
        offset, message = self._queues[at].popleft()
        self._next[at] = offset + 1
        self.processed += 1
        outputs = self._flow(self._sources[at.topic], message)
        changes = [
            TaskOutput(log.topic, log.partition, ProducerRecord(key, value, message.timestamp))
            for log, store in self.stores.changelogs.items()
            for key, value in store.changes
        ]
        for store in self.stores.by_name.values():
            store.changes.clear()
        return changes + outputs

    def _flow(self, source: str, message: ProducerRecord) -> list[TaskOutput]:
        outputs: list[TaskOutput] = []
        flowing = deque((child, message) for child in self._children[source])
        while flowing:
            name, given = flowing.popleft()
            node = self._sub.nodes[name]
            if isinstance(node, SinkNode):
                outputs.append(TaskOutput(self._names.topic_of(node), None, given))
            elif isinstance(node, Processor):
                for made in node.process(given, self._used[name]):
                    flowing.extend((child, made) for child in self._children[name])
        return outputs

    def committable(self, positions: dict[TopicPartition, int | None]) -> dict[TopicPartition, int]:
        """The offsets to commit.

        That is the first queued record, or the consumer's position, which is beyond transaction
        markers. Offsets never decrease.
        """
        offsets: dict[TopicPartition, int] = {}
        for at, queue in self._queues.items():
            position = queue[0][0] if queue else positions.get(at)
            if position is not None:
                self._next[at] = max(position, self._next.get(at, 0))
            if at in self._next:
                offsets[at] = self._next[at]
        return offsets
