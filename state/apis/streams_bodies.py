"""Bodies shared by StreamsGroupHeartbeat and StreamsGroupDescribe.

Source: `StreamsGroupHeartbeatRequest.json`, `StreamsGroupHeartbeatResponse.json` in Kafka.
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from brokertwin.protocol.generated.shared import StreamsEndpoint, StreamsTaskIds
from brokertwin.protocol.generated.streams_group_heartbeat import (
    EndpointToPartitions,
    StreamsGroupHeartbeatRequestTopology,
    TopicPartition,
)
from brokertwin.protocol.generated.streams_group_rows import Endpoint, StreamsGroupTopologyValue
from brokertwin.state.core.java_hashes import hash_order
from brokertwin.state.groups.streams_endpoints import EndpointPartitions, Partitions
from brokertwin.state.groups.streams_group import Tasks


def topics_of(topology: StreamsGroupHeartbeatRequestTopology) -> Iterator[str]:
    """Yield every topic of a topology, duplicates included."""
    for part in topology.subtopologies:
        yield from part.source_topics
        yield from part.repartition_sink_topics
        yield from (topic.name for topic in part.repartition_source_topics)
        yield from (topic.name for topic in part.state_changelog_topics)


def topology_of(
    topology: StreamsGroupHeartbeatRequestTopology | None,
) -> StreamsGroupTopologyValue | None:
    """Convert a request's topology to a record's."""
    if topology is None:
        return None
    return msgspec.convert(topology, StreamsGroupTopologyValue, from_attributes=True)


def endpoint_of(endpoint: StreamsEndpoint | None) -> Endpoint | None:
    """Convert a request's endpoint to a record's."""
    return None if endpoint is None else Endpoint(endpoint.host, endpoint.port)


def endpoint_response(endpoint: Endpoint | None) -> StreamsEndpoint | None:
    """Convert a record's endpoint to a response's."""
    return None if endpoint is None else StreamsEndpoint(host=endpoint.host, port=endpoint.port)


def tasks_of(task_ids: list[StreamsTaskIds]) -> Tasks:
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
    endpoints: list[EndpointPartitions] | None,
) -> list[EndpointToPartitions] | None:
    """Convert the partitions of each instance to a response's."""
    if endpoints is None:
        return None
    return [
        EndpointToPartitions(
            user_endpoint=StreamsEndpoint(host=each.endpoint.host, port=each.endpoint.port),
            active_partitions=_topic_partitions(each.active),
            standby_partitions=_topic_partitions(each.standby),
        )
        for each in endpoints
    ]


def _topic_partitions(partitions: Partitions) -> list[TopicPartition]:
    return [TopicPartition(topic=topic, partitions=numbers) for topic, numbers in partitions]
