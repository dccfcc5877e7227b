"""Bodies shared by StreamsGroupHeartbeat and StreamsGroupDescribe.

Source: `StreamsGroupHeartbeatRequest.json`, `StreamsGroupHeartbeatResponse.json` in Kafka.
"""

from collections.abc import Iterable, Iterator, Mapping

from brokertwin.protocol.generated.shared import (
    StreamsEndpoint,
    StreamsTaskIds,
    StreamsTopicInfo,
)
from brokertwin.protocol.generated.streams_group_heartbeat import (
    EndpointToPartitions,
    StreamsGroupHeartbeatRequestSubtopology,
    StreamsGroupHeartbeatRequestTopology,
    TopicPartition,
)
from brokertwin.state.core import streams_records
from brokertwin.state.core.java_hashes import hash_order
from brokertwin.state.core.streams_records import StreamsTopology, Tasks
from brokertwin.state.groups.streams_endpoints import EndpointPartitions, Partitions


def topics_of(topology: StreamsGroupHeartbeatRequestTopology) -> Iterator[str]:
    """Yield every topic of a topology, duplicates included."""
    for part in topology.subtopologies:
        yield from part.source_topics
        yield from part.repartition_sink_topics
        yield from (topic.name for topic in part.repartition_source_topics)
        yield from (topic.name for topic in part.state_changelog_topics)


def topology_of(topology: StreamsGroupHeartbeatRequestTopology | None) -> StreamsTopology | None:
    """Convert a request's topology to a record's."""
    if topology is None:
        return None
    return StreamsTopology(topology.epoch, [_subtopology(part) for part in topology.subtopologies])


def _subtopology(part: StreamsGroupHeartbeatRequestSubtopology) -> streams_records.Subtopology:
    groups = [
        streams_records.CopartitionGroup(
            each.source_topics, each.source_topic_regex, each.repartition_source_topics
        )
        for each in part.copartition_groups
    ]
    return streams_records.Subtopology(
        subtopology_id=part.subtopology_id,
        source_topics=part.source_topics,
        source_topic_regex=part.source_topic_regex,
        state_changelog_topics=_infos(part.state_changelog_topics),
        repartition_sink_topics=part.repartition_sink_topics,
        repartition_source_topics=_infos(part.repartition_source_topics),
        copartition_groups=groups,
    )


def _infos(topics: list[StreamsTopicInfo]) -> list[streams_records.TopicInfo]:
    return [
        streams_records.TopicInfo(
            each.name,
            each.partitions,
            each.replication_factor,
            [(config.key, config.value) for config in each.topic_configs],
        )
        for each in topics
    ]


def endpoint_of(endpoint: StreamsEndpoint | None) -> streams_records.Endpoint | None:
    """Convert a request's endpoint to a record's."""
    return None if endpoint is None else streams_records.Endpoint(endpoint.host, endpoint.port)


def endpoint_response(known: streams_records.Endpoint | None) -> StreamsEndpoint | None:
    """Convert a record's endpoint to a response's."""
    return None if known is None else StreamsEndpoint(host=known.host, port=known.port)


def tasks_of(task_ids: list[StreamsTaskIds]) -> Tasks:
    """Group tasks by subtopology."""
    tasks: Tasks = {}
    for each in task_ids:
        tasks.setdefault(each.subtopology_id, []).extend(each.partitions)
    return tasks


def in_hash_order(tasks: Mapping[str, Iterable[int]]) -> list[StreamsTaskIds]:
    """Return tasks in a Java `HashMap`'s order, like a heartbeat response."""
    return [
        StreamsTaskIds(subtopology_id=part, partitions=sorted(tasks[part]))
        for part in hash_order(tasks, len(tasks))
    ]


def sorted_tasks(tasks: Mapping[str, Iterable[int]]) -> list[StreamsTaskIds]:
    """Return tasks sorted by subtopology, like a describe response."""
    return [
        StreamsTaskIds(subtopology_id=part, partitions=sorted(tasks[part]))
        for part in sorted(tasks)
    ]


def endpoint_partitions(
    known: list[EndpointPartitions] | None,
) -> list[EndpointToPartitions] | None:
    """Convert the partitions of each instance to a response's."""
    if known is None:
        return None
    return [
        EndpointToPartitions(
            user_endpoint=StreamsEndpoint(host=each.endpoint.host, port=each.endpoint.port),
            active_partitions=_topic_partitions(each.active),
            standby_partitions=_topic_partitions(each.standby),
        )
        for each in known
    ]


def _topic_partitions(partitions: Partitions) -> list[TopicPartition]:
    return [TopicPartition(topic=topic, partitions=numbers) for topic, numbers in partitions]
