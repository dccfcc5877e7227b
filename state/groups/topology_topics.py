"""Partition and task counts of a streams topology; missing topics.

Source: `InternalTopicManager`, `RepartitionTopics`, `CopartitionedTopicsEnforcer`,
`ChangelogTopics`, `ConfiguredTopology` in Kafka's group coordinator; KIP-1071. A pure function of
the topology and the partition counts of existing topics:

    1  source topics must exist                                  1 MISSING_SOURCE_TOPICS
    2  a repartition topic has its given partition count, else the maximum of the topics that its
       writers read
    3  copartitioned topics have equal partition counts          2 INCORRECTLY_PARTITIONED_TOPICS
    4  changelogs and tasks of a subtopology: the maximum of its source topics
    5  existing internal topics have the computed count          2 INCORRECTLY_PARTITIONED_TOPICS
    6  missing internal topics are to be created                 3 MISSING_INTERNAL_TOPICS

Loops of repartition topics and subtopologies without sources are rejected with 130
STREAMS_INVALID_TOPOLOGY. Inconsistent topologies: UNKNOWN_SERVER_ERROR, because Kafka does
not check them.
"""

from collections.abc import Callable, Collection, Iterable
from enum import IntEnum

import msgspec

from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.streams_group_rows import (
    StreamsGroupTopicInfo,
    StreamsGroupTopologyValue,
    Subtopology,
)
from brokertwin.state.core.api import Refused
from brokertwin.state.core.java_hashes import hash_order
from brokertwin.state.groups.streams_group import required_topics

_SHOWN_MAX = 3


class TopologyStatus(IntEnum):
    """Status codes in heartbeat responses."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


class StreamsInternalTopic(msgspec.Struct, frozen=True):
    """A repartition or changelog topic to create.

    0 replicas mean the broker's default. `configs` are in Kafka's order.
    """

    name: str
    partitions: int
    replication_factor: int
    configs: dict[str, str]


class ConfiguredSubtopology(msgspec.Struct, frozen=True):
    """A subtopology with its task count and topics, in the given order."""

    task_count: int
    source_topics: list[str]
    repartition_source_topics: dict[str, StreamsInternalTopic]
    repartition_sink_topics: list[str]
    state_changelog_topics: dict[str, StreamsInternalTopic]


class ConfiguredTopology(msgspec.Struct, frozen=True):
    """A topology with the partition counts of its topics.

    Attributes:
        subtopologies: by id, sorted; None if topics are missing or do not match.
        missing: internal topics to create, in Kafka's order.
        fault: status code and detail; None if all topics exist.
    """

    subtopologies: dict[str, ConfiguredSubtopology] | None
    missing: list[StreamsInternalTopic] = []
    fault: tuple[int, str] | None = None

    @property
    def is_ready(self) -> bool:
        return self.fault is None


PartitionCounts = Callable[[str], int | None]
"""Returns a topic's partition count; None if it does not exist."""


class _Fault(Exception):
    """Topics do not match the topology."""

    def __init__(self, status: TopologyStatus, text: str) -> None:
        super().__init__(text)
        self.status, self.text = status, text


def configure(topology: StreamsGroupTopologyValue, existing: PartitionCounts) -> ConfiguredTopology:
    try:
        return _TopologyBuilder(topology, existing).configured()
    except _Fault as fault:
        return ConfiguredTopology(None, fault=(fault.status, fault.text))


class _TopologyBuilder:
    """Computes the partition counts of a topology's topics."""

    def __init__(self, topology: StreamsGroupTopologyValue, existing: PartitionCounts) -> None:
        by_id = {part.subtopology_id: part for part in topology.subtopologies}
        self._parts = [by_id[each] for each in hash_order(by_id, len(by_id))]
        self._required = required_topics(topology)
        self._existing = existing
        self._decided: dict[str, int] = {}

    def configured(self) -> ConfiguredTopology:
        copartitioned = [set(names) for part in self._parts for names in _copartitioned(part)]
        self._check_source_topics()
        self._decided.update(self._repartitions())
        for names in copartitioned:
            self._decided.update(self._enforced(names))
        self._decided.update(self._changelogs())
        ordered = sorted(self._parts, key=lambda part: part.subtopology_id)
        subtopologies = {part.subtopology_id: self._subtopology(part) for part in ordered}
        missing = self._missing(subtopologies.values())
        if not missing:
            return ConfiguredTopology(subtopologies)
        text = f"Internal topics are missing: {summary([topic.name for topic in missing])}"
        fault = (TopologyStatus.MISSING_INTERNAL_TOPICS, text)
        return ConfiguredTopology(subtopologies, missing, fault)

    def _check_source_topics(self) -> None:
        names = {name for part in self._parts for name in part.source_topics}
        missing = sorted(name for name in names if self._existing(name) is None)
        if missing:
            text = f"Source topics {summary(missing)} are missing."
            raise _Fault(TopologyStatus.MISSING_SOURCE_TOPICS, text)

    def _count(self, topic: str) -> int:
        count = self._existing(topic)
        count = self._decided.get(topic) if count is None else count
        if count is None:
            raise Refused(Error.UNKNOWN_SERVER_ERROR)
        return count

    # Repartition topics

    def _repartitions(self) -> dict[str, int]:
        """Compute the partition counts of repartition topics in dependency order."""
        counts = {
            topic.name: topic.partitions
            for part in self._parts
            for topic in part.repartition_source_topics
            if topic.partitions
        }
        is_incomplete = True
        while is_incomplete:
            is_incomplete = has_progress = False
            for part in self._parts:
                for sink in part.repartition_sink_topics:
                    if sink in counts:
                        continue
                    count = self._max_source_count(part, counts)
                    if count is None:
                        is_incomplete = True
                    else:
                        counts[sink], has_progress = count, True
            if is_incomplete and not has_progress:
                why = "There may be loops in the topology that cannot be resolved."
                raise Refused(Error.STREAMS_INVALID_TOPOLOGY, f"{_NO_COUNT}. {why}")
        sources = (topic.name for part in self._parts for topic in part.repartition_source_topics)
        if any(name not in counts for name in sources):
            why = "because a repartition source topic is never used as a sink topic."
            raise Refused(Error.STREAMS_INVALID_TOPOLOGY, f"{_NO_COUNT}, {why}")
        return counts

    def _max_source_count(self, part: Subtopology, counts: dict[str, int]) -> int | None:
        """Return the maximum known partition count of a subtopology's sources."""
        repartitions = (counts.get(topic.name) for topic in part.repartition_source_topics)
        sources = (self._existing(name) for name in part.source_topics)
        return max((each for each in (*repartitions, *sources) if each is not None), default=None)

    # Copartitioned topics

    def _enforced(self, names: set[str]) -> dict[str, int]:
        """Return the counts of the repartition topics among copartitioned topics."""
        topics = [t for part in self._parts for t in part.repartition_source_topics]
        fixed = {topic.name for topic in topics if topic.partitions}
        every = {topic.name for topic in topics}
        if not names:
            return {}
        counts = {name: self._count(name) for name in hash_order(names & every, len(names))}
        others = {name: self._count(name) for name in hash_order(names - every, len(names))}
        if others:
            expected_count = _common_count(others, others)
        elif fixed:
            expected_count = _common_count({name: self._count(name) for name in fixed}, counts)
        else:
            expected_count = max(counts.values())
        for name, count in counts.items():
            if name in fixed and count != expected_count:
                text = (
                    f"Number of partitions [{count}] of repartition topic [{name}] doesn't match "
                    f"number of partitions [{expected_count}] of the source topic."
                )
                raise _Fault(TopologyStatus.INCORRECTLY_PARTITIONED_TOPICS, text)
        return dict.fromkeys(counts, expected_count)

    # Changelogs and tasks

    def _changelogs(self) -> dict[str, int]:
        counts = {}
        for part in self._parts:
            sources = [self._count(name) for name in _source_topics(part)]
            if not sources:
                text = f"No source topics found for subtopology {part.subtopology_id}"
                raise Refused(Error.STREAMS_INVALID_TOPOLOGY, text)
            counts.update({topic.name: max(sources) for topic in part.state_changelog_topics})
        return counts

    def _subtopology(self, part: Subtopology) -> ConfiguredSubtopology:
        tasks = max(self._count(name) for name in _source_topics(part))
        if tasks < 1:
            raise Refused(Error.UNKNOWN_SERVER_ERROR)
        return ConfiguredSubtopology(
            task_count=tasks,
            source_topics=list(dict.fromkeys(part.source_topics)),
            repartition_source_topics=self._internal(part.repartition_source_topics),
            repartition_sink_topics=sorted(set(part.repartition_sink_topics)),
            state_changelog_topics=self._internal(part.state_changelog_topics),
        )

    def _internal(self, topics: list[StreamsGroupTopicInfo]) -> dict[str, StreamsInternalTopic]:
        internal = {topic.name: self._internal_topic(topic) for topic in topics}
        if len(internal) < len(topics):
            raise Refused(Error.UNKNOWN_SERVER_ERROR)
        return internal

    def _internal_topic(self, topic: StreamsGroupTopicInfo) -> StreamsInternalTopic:
        count = topic.partitions or self._decided[topic.name]
        configs = {each.key: each.value for each in topic.topic_configs}
        if count < 1 or len(configs) < len(topic.topic_configs):
            raise Refused(Error.UNKNOWN_SERVER_ERROR)
        ordered = {name: configs[name] for name in hash_order(configs, len(configs))}
        return StreamsInternalTopic(topic.name, count, topic.replication_factor, ordered)

    def _missing(self, parts: Iterable[ConfiguredSubtopology]) -> list[StreamsInternalTopic]:
        expected: dict[str, StreamsInternalTopic] = {}
        for part in parts:
            expected.update(part.repartition_source_topics)
            expected.update(part.state_changelog_topics)
        most = len(expected)
        for name in self._required:
            count = self._existing(name)
            topic = expected.pop(name, None) if count is not None else None
            if topic is not None and count != topic.partitions:
                text = (
                    f"Existing topic {name} has different number of partitions: "
                    f"expected {topic.partitions}, found {count}"
                )
                raise _Fault(TopologyStatus.INCORRECTLY_PARTITIONED_TOPICS, text)
        return [expected[name] for name in hash_order(expected, most)]


_NO_COUNT = "Failed to compute number of partitions for all repartition topics"


def _common_count(counts: dict[str, int], shown: dict[str, int]) -> int:
    """Return the common count; raise a fault that shows counts if they differ."""
    distinct = set(counts.values())
    if len(distinct) > 1:
        listed = ", ".join(f"{name}={count}" for name, count in sorted(shown.items()))
        text = f"Following topics do not have the same number of partitions: [{{{listed}}}]"
        raise _Fault(TopologyStatus.INCORRECTLY_PARTITIONED_TOPICS, text)
    return distinct.pop()


def _source_topics(part: Subtopology) -> list[str]:
    return [*part.source_topics, *(topic.name for topic in part.repartition_source_topics)]


def _copartitioned(part: Subtopology) -> list[list[str]]:
    """Return the copartitioned topic names; invalid indexes raise _Invalid."""
    sources, repartitions = part.source_topics, part.repartition_source_topics
    for group in part.copartition_groups:
        for indexes, names in (
            (group.source_topics, sources),
            (group.repartition_source_topics, repartitions),
        ):
            if any(not 0 <= each < len(names) for each in indexes):
                raise Refused(Error.UNKNOWN_SERVER_ERROR)
    return [
        [
            *(sources[each] for each in group.source_topics),
            *(repartitions[each].name for each in group.repartition_source_topics),
        ]
        for group in part.copartition_groups
    ]


def summary(names: Collection[str]) -> str:
    """Return the first names and how many follow."""
    shown = ", ".join(list(names)[:_SHOWN_MAX])
    more = len(names) - _SHOWN_MAX
    return f"{shown} and {more} additional topics" if more > 0 else shown
