"""A topology: sources, processors, stores, sinks and their connections.

Source: seed 001; `Topology`, `InternalTopologyBuilder`, `QuickUnion` in Kafka.

    topology = Topology()
    topology.add_source("lines", ["text"])
    topology.add_processor("split", split, ["lines"])
    topology.add_repartition("words", ["split"])          # an internal topic, by the words' keys
    topology.add_processor("count", count, ["words"])
    topology.add_store("counts", ["count"])
    topology.add_sink("out", "word-counts", ["count"])

A processor maps a record and its stores to records for its children. It must be deterministic,
because a task may process records again. Nodes connected directly or by a shared store form a
sub-topology; a topic does not connect. Sub-topologies are numbered by their first node (in Kafka by
name).
"""

from collections.abc import Callable, Iterable, Mapping

import msgspec

from brokertwin.clients.messages import ProducerRecord
from brokertwin.clients.streams.stores import KeyValueStore

Process = Callable[[ProducerRecord, Mapping[str, KeyValueStore]], Iterable[ProducerRecord]]
"""Maps a record and the stores by name to records for the children."""


class TopologyError(ValueError):
    """An invalid topology, or one that does not match the topics; says what to change."""


class SourceNode(msgspec.Struct, frozen=True):
    """Reads topics; `is_repartition`: an internal topic of the application."""

    topics: tuple[str, ...]
    is_repartition: bool = False


class Processor(msgspec.Struct, frozen=True):
    process: Process
    parents: tuple[str, ...]


class SinkNode(msgspec.Struct, frozen=True):
    """Writes the records of its parents to a topic."""

    topic: str
    parents: tuple[str, ...]
    is_repartition: bool = False


Node = SourceNode | Processor | SinkNode


class SubTopology(msgspec.Struct, frozen=True):
    """Connected nodes; stores by name, with the processors that use them."""

    number: int
    nodes: dict[str, Node]
    stores: dict[str, tuple[str, ...]]

    def sources(self) -> dict[str, SourceNode]:
        return {name: node for name, node in self.nodes.items() if isinstance(node, SourceNode)}

    def sinks(self) -> dict[str, SinkNode]:
        return {name: node for name, node in self.nodes.items() if isinstance(node, SinkNode)}

    def children(self) -> dict[str, list[str]]:
        below: dict[str, list[str]] = {name: [] for name in self.nodes}
        for name, node in self.nodes.items():
            for parent in parents_of(node):
                below[parent].append(name)
        return below

    def sources_above(self, names: Iterable[str]) -> set[str]:
        sources: set[str] = set()
        to_look_at = list(names)
        while to_look_at:
            name = to_look_at.pop()
            node = self.nodes[name]
            if isinstance(node, SourceNode):
                sources.add(name)
            to_look_at += parents_of(node)
        return sources


def parents_of(node: Node) -> tuple[str, ...]:
    """The parents of a node; a source has none."""
    return () if isinstance(node, SourceNode) else node.parents


class Topology:
    """A builder; methods raise TopologyError for invalid additions."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._stores: dict[str, tuple[str, ...]] = {}

    def add_source(self, name: str, topics: Iterable[str]) -> None:
        """Add a source; a topic can have only one."""
        topic_names = tuple(topics)
        if not topic_names:
            raise TopologyError(f"source {name} names no topic")
        for topic in topic_names:
            other = next((n for n, s in self._sources().items() if topic in s.topics), None)
            if other is not None:
                raise TopologyError(f"topic {topic} is read by source {other} already")
        self._add(name, SourceNode(topic_names))

    def add_processor(self, name: str, process: Process, parents: Iterable[str]) -> None:
        self._add(name, Processor(process, self._known(name, parents)))

    def add_store(self, name: str, processors: Iterable[str]) -> None:
        """Add a store of these processors, with a changelog topic."""
        used_by = self._known(name, processors)
        if name in self._stores:
            raise TopologyError(f"store {name} already exists")
        for each in used_by:
            if not isinstance(self._nodes[each], Processor):
                raise TopologyError(f"store {name} needs processors; {each} is not one")
        self._stores[name] = used_by

    def add_sink(self, name: str, topic: str, parents: Iterable[str]) -> None:
        """Add a sink; each record goes to the partition of its key."""
        self._add(name, SinkNode(topic, self._known(name, parents)))

    def add_repartition(self, name: str, parents: Iterable[str]) -> None:
        """Repartition through an internal topic, so that equal keys meet in a task."""
        self._add(f"{name}-sink", SinkNode(name, self._known(name, parents), is_repartition=True))
        self._add(name, SourceNode((name,), is_repartition=True))

    def sub_topologies(self) -> list[SubTopology]:
        """Return the sub-topologies. Raises TopologyError without a source."""
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
            raise TopologyError(f"node {name} already exists")
        self._nodes[name] = node

    def _known(self, name: str, others: Iterable[str]) -> tuple[str, ...]:
        topics = tuple(others)
        unknown = [each for each in topics if each not in self._nodes]
        if unknown or not topics:
            raise TopologyError(
                f"{name} has no known parent: add {', '.join(unknown) or 'one'} first"
            )
        for each in topics:
            if isinstance(self._nodes[each], SinkNode):
                raise TopologyError(f"{name} has the sink {each} as a parent; a sink has no output")
        return topics
