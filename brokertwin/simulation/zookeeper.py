"""A model of ZooKeeper with nodes, sessions and watches, and its consumers.

    zoo = Zoo(orders=6)
    a = zoo.consumer("a", orders=1)
    zoo.run(1_000)
    zoo.paused.add("a")              # sends and receives nothing until its session expires

Operations and results are delayed by some ms, drawn from a seed.
"""

from collections import Counter, deque
from random import Random
from typing import NamedTuple

from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.timeline import Timeline
from brokertwin.clients.zookeeper_consumer import (
    Children,
    CreateNode,
    DeleteNode,
    Operation,
    ReadNode,
    Result,
    WriteNode,
    ZookeeperConsumer,
)

GROUP = "billing"
IDS, OWNERS = f"/consumers/{GROUP}/ids", f"/consumers/{GROUP}/owners"
SESSION_MS = 6_000
STEP_MS = 5
DELAY_MS = 20


class _Node(NamedTuple):
    data: str
    session: str | None


class Zoo:
    """ZooKeeper nodes and consumers.

    Attributes:
        handled: number of operations by kind.
        timeline: partitions that each consumer reads, from its own view.
        went_back: partitions whose committed offset decreased.
    """

    def __init__(self, seed: int = 0, **topics: int) -> None:
        self.now = 0
        self.nodes = {f"/brokers/topics/{name}": _Node(str(n), None) for name, n in topics.items()}
        self.consumers: dict[str, ZookeeperConsumer] = {}
        self.paused: set[str] = set()
        self.handled: Counter[str] = Counter()
        self.timeline = Timeline(0)
        self.went_back: list[TopicPartition] = []
        self._random = Random(seed)
        self._watches: set[str] = set()
        self._last_seen: dict[str, int] = {}
        self._expired: set[str] = set()
        self._out: dict[str, deque[tuple[int, Operation]]] = {}
        self._back: dict[str, deque[tuple[int, Operation, Result]]] = {}
        self._fired: dict[str, deque[int]] = {}

    def consumer(self, name: str, **topics: int) -> ZookeeperConsumer:
        """Add a consumer with a number of threads for each topic."""
        made = self.consumers[name] = ZookeeperConsumer(GROUP, name, topics)
        self._last_seen[name] = self.now
        self._out[name], self._back[name], self._fired[name] = deque(), deque(), deque()
        return made

    def leave(self, name: str) -> None:
        """Close a consumer's session."""
        del self.consumers[name]
        self.paused.discard(name)
        self.timeline.gone(self.now, name)
        self._expire(name)

    def owners(self) -> dict[str, str]:
        paths = [path for path in self.nodes if path.startswith(OWNERS)]
        return {path.removeprefix(OWNERS + "/"): self.nodes[path].data for path in paths}

    def strangers(self) -> list[tuple[str, TopicPartition]]:
        """Return partitions read by live consumers without owning their nodes; always empty."""
        return [
            (name, at)
            for name, consumer in self.consumers.items()
            if name not in self._expired
            for at in consumer.owned
            if self.nodes[f"{OWNERS}/{at.topic}/{at.partition}"].session != name
        ]

    def run(self, milliseconds: int) -> None:
        until = self.now + milliseconds
        while self.now < until:
            self.now += STEP_MS
            for name in list(self.consumers):
                if name not in self.paused:
                    self._turn(name)
            for name, seen in self._last_seen.items():
                if self.now - seen > SESSION_MS and name in self.consumers:
                    self._expire(name)
                    self._expired.add(name)

    def _turn(self, name: str) -> None:
        consumer = self.consumers[name]
        if name in self._expired:
            self._expired.discard(name)
            for waiting in (self._out[name], self._back[name], self._fired[name]):
                waiting.clear()
            consumer.expired()
        self._last_seen[name] = self.now
        while self._fired[name] and self._fired[name][0] <= self.now:
            self._fired[name].popleft()
            consumer.watch_fired()
        while self._back[name] and self._back[name][0][0] <= self.now:
            _, operation, result = self._back[name].popleft()
            consumer.on_response(self.now, operation, result)
        for operation in consumer.take(self.now):
            self._out[name].append((self._later(), operation))
        while self._out[name] and self._out[name][0][0] <= self.now:
            _, operation = self._out[name].popleft()
            result = self._handle(name, operation)
            self._back[name].append((self._later(), operation, result))
        things = [f"{at.topic}-{at.partition}" for at in consumer.owned]
        self.timeline.note(self.now, name, things)

    def _later(self) -> int:
        return self.now + self._random.randrange(DELAY_MS)

    # Nodes

    def _handle(self, name: str, operation: Operation) -> Result:
        self.handled[type(operation).__name__] += 1
        match operation:
            case CreateNode(path, data, is_ephemeral):
                if path in self.nodes:
                    return False
                self._change(path, _Node(data, name if is_ephemeral else None))
                return True
            case DeleteNode(path):
                if path in self.nodes and self.nodes[path].session == name:
                    self._change(path, None)
                return True
            case ReadNode(path):
                return self.nodes[path].data if path in self.nodes else None
            case Children(path):
                self._watches.add(name)
                return sorted(p.rpartition("/")[2] for p in self.nodes if p.startswith(f"{path}/"))
            case WriteNode(path, data):
                before = int(self.nodes[path].data) if path in self.nodes else 0
                if int(data) < before:
                    topic, _, number = path.rpartition("/")
                    at = TopicPartition(topic.rpartition("/")[2], int(number))
                    self.went_back.append(at)
                self.nodes[path] = _Node(data, None)
        return True

    def _change(self, path: str, node: _Node | None) -> None:
        if node is None:
            del self.nodes[path]
        else:
            self.nodes[path] = node
        if path.startswith(IDS):
            for name in sorted(self._watches & self._fired.keys()):
                self._fired[name].append(self._later())
            self._watches.clear()

    def _expire(self, name: str) -> None:
        for path in [path for path, node in self.nodes.items() if node.session == name]:
            self._change(path, None)
