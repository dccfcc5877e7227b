"""Endpoints of streams application instances and their partitions.

Source: `EndpointToPartitionsManager`, `StreamsGroup.buildEndpointToPartitions` in Kafka; KIP-1071.
"""

from collections.abc import Collection
from typing import NamedTuple

from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.streams_group_rows import Endpoint
from brokertwin.state.core.api import Refused
from brokertwin.state.core.java_hashes import hash_map_order, hash_order, own_hash
from brokertwin.state.groups.streams_group import StreamsMember
from brokertwin.state.groups.topology_topics import (
    ConfiguredSubtopology,
    ConfiguredTopology,
    PartitionCounts,
)

Partitions = list[tuple[str, list[int]]]
"""Topic names and partition numbers."""


class EndpointPartitions(NamedTuple):
    """The partitions of an instance, by source topic of its tasks."""

    endpoint: Endpoint
    active: Partitions
    standby: Partitions


def endpoints(
    members: list[StreamsMember], configured: ConfiguredTopology, partition_counts: PartitionCounts
) -> list[EndpointPartitions]:
    """Return the partitions of each member with an endpoint.

    Raises Refused, -1 UNKNOWN_SERVER_ERROR, if the topology is not configured or a topic is
    deleted, as in Kafka.
    """
    parts = configured.subtopologies
    endpoint_partitions = []
    for member in members:
        if member.user_endpoint is None:
            continue
        if parts is None:
            raise Refused(Error.UNKNOWN_SERVER_ERROR)
        active = _topics(dict(member.assigned.active), parts, partition_counts)
        standby = _topics(dict(member.assigned.standby), parts, partition_counts)
        if active is None or standby is None:
            raise Refused(Error.UNKNOWN_SERVER_ERROR)
        endpoint_partitions.append(EndpointPartitions(member.user_endpoint, active, standby))
    return endpoint_partitions


def _topics(
    tasks: "dict[str, Collection[int]]",
    parts: dict[str, ConfiguredSubtopology],
    partition_counts: PartitionCounts,
) -> Partitions | None:
    """Return the source partitions of tasks; None if a topic is deleted.

    For active tasks, Kafka copies them to a map whose order differs in each JVM.
    """
    partitions: Partitions = []
    for each in hash_order(tasks, len(tasks)):
        numbers = hash_map_order(tasks[each], own_hash, len(tasks[each]))
        subtopology = parts[each]
        names = dict.fromkeys((*subtopology.source_topics, *subtopology.repartition_source_topics))
        for name in hash_order(names, len(names)):
            count = partition_counts(name)
            if count is None:
                return None
            partitions.append((name, sorted(numbers)[:count] if count < len(numbers) else numbers))
    return partitions
