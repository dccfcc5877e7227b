"""Tasks and internal topics of a topology, given its topics' partitions.

Source: seed 001; `PartitionGrouper`, `CopartitionedTopicsEnforcer`, `RepartitionTopics`,
`InternalTopicConfig`, `ChangelogTopics` in Kafka.

A sub-topology has as many tasks as its source topic with the most partitions. Task g_p has
partition p of each source topic.

The source topics of one store are co-partitioned: they need the same number of partitions, or
records with one key would be in different tasks. A repartition topic has the number of its
co-partitioned topics, otherwise that of the tasks that write to it.
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.streams.topology import (
    SinkNode,
    SourceNode,
    SubTopology,
    Topology,
    TopologyError,
)


class TaskId(NamedTuple):
    """Sub-topology and partition; as text 0_3."""

    sub_topology: int
    partition: int

    def __str__(self) -> str:
        return f"{self.sub_topology}_{self.partition}"


class AppTopic(msgspec.Struct, frozen=True):
    """An internal topic of the application; settings by Kafka's names."""

    name: str
    partitions: int
    settings: dict[str, str]


class Layout(msgspec.Struct, frozen=True):
    """The layout of one application.

    Attributes:
        tasks: the partitions of each task, in order.
        internal_topics: by name.
        changelogs: sub-topology and changelog topic of each store.
    """

    tasks: dict[TaskId, list[TopicPartition]]
    internal_topics: dict[str, AppTopic]
    changelogs: dict[str, tuple[int, str]]

    def stateful(self) -> set[TaskId]:
        with_stores = {number for number, _ in self.changelogs.values()}
        return {task for task in self.tasks if task.sub_topology in with_stores}


class Names:
    """Topic names of an application, as in Kafka."""

    def __init__(self, application_id: str) -> None:
        self._application_id = application_id

    def repartition(self, name: str) -> str:
        """The repartition topic between two sub-topologies."""
        return f"{self._application_id}-{name}-repartition"

    def changelog(self, store: str) -> str:
        return f"{self._application_id}-{store}-changelog"

    def topics_of(self, source: SourceNode) -> list[str]:
        if source.is_repartition:
            return [self.repartition(each) for each in source.topics]
        return list(source.topics)

    def topic_of(self, sink: SinkNode) -> str:
        return self.repartition(sink.topic) if sink.is_repartition else sink.topic


def source_topics(application_id: str, topology: Topology) -> tuple[set[str], set[str]]:
    """Source topics: those that must exist, and own repartition topics."""
    names = Names(application_id)
    sources = [s for sub in topology.sub_topologies() for s in sub.sources().values()]
    theirs = {t for s in sources if not s.is_repartition for t in s.topics}
    own = {t for s in sources if s.is_repartition for t in names.topics_of(s)}
    return theirs, own


def layout(application_id: str, topology: Topology, counts: Mapping[str, int]) -> Layout:
    """Compute the layout; `counts` are partitions by topic, 0 if nonexistent.

    Repartition topics that exist must have the computed number of partitions. Raises TopologyError.
    """
    subs = topology.sub_topologies()
    names = Names(application_id)
    partition_counts = _Counting(names, subs).count(counts)
    tasks: dict[TaskId, list[TopicPartition]] = {}
    for sub in subs:
        topics = sorted(t for source in sub.sources().values() for t in names.topics_of(source))
        for partition in range(max(partition_counts[topic] for topic in topics)):
            tasks[TaskId(sub.number, partition)] = [
                TopicPartition(topic, partition)
                for topic in topics
                if partition < partition_counts[topic]
            ]
    internal = {
        name: AppTopic(
            name, partition_counts[name], {"cleanup.policy": "delete", "retention.ms": "-1"}
        )
        for name in sorted(source_topics(application_id, topology)[1])
    }
    changelogs = {s: (sub.number, names.changelog(s)) for sub in subs for s in sub.stores}
    for number, name in changelogs.values():
        count = sum(task.sub_topology == number for task in tasks)
        _check_count(name, counts.get(name) or count, count)
        internal[name] = AppTopic(name, count, {"cleanup.policy": "compact"})
    return Layout(tasks, internal, changelogs)


def _check_count(topic: str, count: int, partition_count: int) -> None:
    """Raises TopologyError for a wrong number of partitions."""
    if count != partition_count:
        raise TopologyError(
            f"topic {topic} has {count} partitions and must have {partition_count}: it belongs to"
            " this application; delete it, or take another application.id"
        )


class _Counting:
    """Determines the partitions of all source topics."""

    def __init__(self, names: Names, subs: list[SubTopology]) -> None:
        self._names = names
        self._subs = subs
        self.known: dict[str, int] = {}

    def count(self, counts: Mapping[str, int]) -> dict[str, int]:
        """Raises TopologyError for missing or mismatched topics."""
        sources = [source for sub in self._subs for source in sub.sources().values()]
        for topic in (t for s in sources if not s.is_repartition for t in s.topics):
            if not counts.get(topic):
                raise TopologyError(f"topic {topic} does not exist: create it first")
            self.known[topic] = counts[topic]
        self._agree()
        own = {t for s in sources if s.is_repartition for t in self._names.topics_of(s)}
        while missing := own - self.known.keys():
            found = {topic: self._written_by(topic) for topic in missing}
            if not any(found.values()):
                names = ", ".join(sorted(missing))
                raise TopologyError(f"{names}: repartition topics that feed only each other")
            self.known |= {topic: count for topic, count in found.items() if count}
            self._agree()
        for topic in own:
            _check_count(topic, counts.get(topic) or self.known[topic], self.known[topic])
        return self.known

    def _agree(self) -> None:
        """Give all source topics of a store one number of partitions."""
        for sub in self._subs:
            for used_by in sub.stores.values():
                above = sorted(sub.sources_above(used_by))
                self._agree_on(
                    [t for each in above for t in self._names.topics_of(sub.sources()[each])]
                )

    def _agree_on(self, topics: list[str]) -> None:
        found = {topic: self.known[topic] for topic in topics if topic in self.known}
        if len(set(found.values())) > 1:
            counts = ", ".join(f"{topic} has {count}" for topic, count in sorted(found.items()))
            raise TopologyError(
                f"topics that are joined must have the same number of partitions: {counts}. Create"
                " one of them again, or use a repartition topic"
            )
        for count in set(found.values()):
            self.known |= dict.fromkeys(topics, count)

    def _written_by(self, topic: str) -> int | None:
        """The most tasks that write to a repartition topic; None while unknown."""
        read = {
            each
            for sub in self._subs
            if any(topic == self._names.topic_of(sink) for sink in sub.sinks().values())
            for source in sub.sources().values()
            for each in self._names.topics_of(source)
        }
        if not read <= self.known.keys():
            return None
        return max((self.known[each] for each in read), default=None)
