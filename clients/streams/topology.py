"""What an application does with records: sources, processors, stores, sinks, and how they hang.

Source: seed 001; `Topology`, `InternalTopologyBuilder`, `QuickUnion` in Kafka.

    topology = Topology()
    topology.add_source("lines", ["text"])
    topology.add_processor("split", split, ["lines"])
    topology.add_repartition("words", ["split"])          # a topic of its own, by the words' keys
    topology.add_processor("count", count, ["words"])
    topology.add_store("counts", ["count"])
    topology.add_sink("out", "word-counts", ["count"])

A processor is a function of a record and its stores that gives the records for those below it. It
decides by them alone, so a task can be run again from an earlier offset. Nodes that are connected,
also by a store that they share, are one sub-topology; what goes through a topic is not connected.
Sub-topologies are numbered in the order of their first nodes (Kafka: by their names).
"""

from collections.abc import Callable, Iterable, Mapping

import msgspec

from brokertwin.clients.messages import ProducerRecord
from brokertwin.clients.streams.stores import KeyValueStore

Process = Callable[[ProducerRecord, Mapping[str, KeyValueStore]], Iterable[ProducerRecord]]
"""What a processor does: a record and its stores by name, to the records for those below it."""


class TopologyError(ValueError):
    """The topology is wrong, or does not go with the topics; the text says what to change."""


class SourceNode(msgspec.Struct, frozen=True):
    """Reads topics; `is_repartition`: an internal one, whose name is made of the application's."""

    topics: tuple[str, ...]
    is_repartition: bool = False


class Processor(msgspec.Struct, frozen=True):
    """Works on the records of its parents."""

    process: Process
    parents: tuple[str, ...]


class SinkNode(msgspec.Struct, frozen=True):
    """Writes the records of its parents to a topic."""

    topic: str
    parents: tuple[str, ...]
    is_repartition: bool = False


Node = SourceNode | Processor | SinkNode


class SubTopology(msgspec.Struct, frozen=True):
    """Nodes that run together; stores by name with the processors that use them."""

    number: int
    nodes: dict[str, Node]
    stores: dict[str, tuple[str, ...]]

    def sources(self) -> dict[str, SourceNode]:
        """Its sources by name."""
        return {name: node for name, node in self.nodes.items() if isinstance(node, SourceNode)}

    def sinks(self) -> dict[str, SinkNode]:
        """Its sinks by name."""
        return {name: node for name, node in self.nodes.items() if isinstance(node, SinkNode)}

    def children(self) -> dict[str, list[str]]:
        """The nodes below each, in the order in which they were added."""
        below: dict[str, list[str]] = {name: [] for name in self.nodes}
        for name, node in self.nodes.items():
            for parent in parents_of(node):
                below[parent].append(name)
        return below

    def sources_above(self, names: Iterable[str]) -> set[str]:
        """The sources whose records come to any of these nodes."""
        found: set[str] = set()
        to_look_at = list(names)
        while to_look_at:
            name = to_look_at.pop()
            node = self.nodes[name]
            if isinstance(node, SourceNode):
                found.add(name)
            to_look_at += parents_of(node)
        return found


def parents_of(node: Node) -> tuple[str, ...]:
    """The nodes above one; none above a source."""
    return () if isinstance(node, SourceNode) else node.parents


class Topology:
    """Is added to; raises TopologyError for what can not be."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._stores: dict[str, tuple[str, ...]] = {}

    def add_source(self, name: str, topics: Iterable[str]) -> None:
        """Reads topics. One topic has one source."""
        wanted = tuple(topics)
        if not wanted:
            raise TopologyError(f"source {name} names no topic")
        for topic in wanted:
            other = next((n for n, s in self._sources().items() if topic in s.topics), None)
            if other is not None:
                raise TopologyError(f"topic {topic} is read by source {other} already")
        self._add(name, SourceNode(wanted))

    def add_processor(self, name: str, process: Process, parents: Iterable[str]) -> None:
        """Works on what its parents give."""
        self._add(name, Processor(process, self._known(name, parents)))

    def add_store(self, name: str, processors: Iterable[str]) -> None:
        """Is what these processors keep by key, with a changelog topic."""
        used_by = self._known(name, processors)
        if name in self._stores:
            raise TopologyError(f"there is a store {name} already")
        for each in used_by:
            if not isinstance(self._nodes[each], Processor):
                raise TopologyError(f"store {name} is for processors, and {each} is none")
        self._stores[name] = used_by

    def add_sink(self, name: str, topic: str, parents: Iterable[str]) -> None:
        """Writes what its parents give to a topic, each record to the partition of its key."""
        self._add(name, SinkNode(topic, self._known(name, parents)))

    def add_repartition(self, name: str, parents: Iterable[str]) -> None:
        """Goes through an internal topic, so that records of one key meet in one task."""
        self._add(f"{name}-sink", SinkNode(name, self._known(name, parents), is_repartition=True))
        self._add(name, SourceNode((name,), is_repartition=True))

    def sub_topologies(self) -> list[SubTopology]:
        """What runs together. Raises TopologyError where nothing is read."""
        if not self._sources():
            raise TopologyError("the topology has no source")
        groups = self._groups()
        return [
            SubTopology(
                number,
                {name: node for name, node in self._nodes.items() if name in members},
                {name: used for name, used in self._stores.items() if members & set(used)},
            )
            for number, members in enumerate(groups)
        ]

    def _groups(self) -> list[set[str]]:
        groups: list[set[str]] = []
        ties = [{name, *parents_of(node)} for name, node in self._nodes.items()]
        for tied in [*ties, *(set(used) for used in self._stores.values())]:
            touched = [group for group in groups if group & tied]
            merged = set().union(tied, *touched)
            groups = [group for group in groups if not group & tied] + [merged]
        order = list(self._nodes)
        return sorted(groups, key=lambda group: min(order.index(name) for name in group))

    def _sources(self) -> dict[str, SourceNode]:
        return {name: node for name, node in self._nodes.items() if isinstance(node, SourceNode)}

    def _add(self, name: str, node: Node) -> None:
        if name in self._nodes:
            raise TopologyError(f"there is a node {name} already")
        self._nodes[name] = node

    def _known(self, name: str, others: Iterable[str]) -> tuple[str, ...]:
        found = tuple(others)
        unknown = [each for each in found if each not in self._nodes]
        if unknown or not found:
            raise TopologyError(
                f"{name} hangs on {', '.join(unknown) or 'nothing'}: add that first"
            )
        for each in found:
            if isinstance(self._nodes[each], SinkNode):
                raise TopologyError(f"{name} hangs on the sink {each}, which gives nothing on")
        return found
