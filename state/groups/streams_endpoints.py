"""Which instance of a streams application has which partitions, for those who ask for its state.

Source: `EndpointToPartitionsManager`, `StreamsGroup.buildEndpointToPartitions` in Kafka; KIP-1071.
"""

from collections.abc import Collection
from typing import NamedTuple

from brokertwin.state.core.errors import Error
from brokertwin.state.core.java_hashes import hash_map_order, hash_order, own_hash
from brokertwin.state.core.streams_records import Endpoint
from brokertwin.state.groups.consumer_group import Rejection
from brokertwin.state.groups.streams_group import StreamsMember
from brokertwin.state.groups.topology_topics import (
    ConfiguredSubtopology,
    ConfiguredTopology,
    PartitionCounts,
)

Partitions = list[tuple[str, list[int]]]
"""Topics and partitions of them."""


class EndpointPartitions(NamedTuple):
    """What an instance has, by the topics that its tasks read."""

    endpoint: Endpoint
    active: Partitions
    standby: Partitions


def endpoints(
    members: list[StreamsMember], configured: ConfiguredTopology, existing: PartitionCounts
) -> list[EndpointPartitions] | Rejection:
    """What each member that has an endpoint has.

    As by Kafka, UNKNOWN_SERVER_ERROR where topics do not allow to say.
    """
    parts = configured.subtopologies
    found = []
    for member in members:
        if member.user_endpoint is None:
            continue
        if parts is None:
            return Rejection(Error.UNKNOWN_SERVER_ERROR, None)
        active = _topics(dict(member.assigned.active), parts, existing)
        standby = _topics(dict(member.assigned.standby), parts, existing)
        if active is None or standby is None:
            return Rejection(Error.UNKNOWN_SERVER_ERROR, None)
        found.append(EndpointPartitions(member.user_endpoint, active, standby))
    return found


def _topics(
    tasks: "dict[str, Collection[int]]",
    parts: dict[str, ConfiguredSubtopology],
    existing: PartitionCounts,
) -> Partitions | None:
    """The partitions that tasks read; None where a topic of them is gone.

    Kafka copies the active ones to a map in whose order Java goes otherwise each time it starts.
    """
    found: Partitions = []
    for each in hash_order(tasks, len(tasks)):
        numbers = hash_map_order(tasks[each], own_hash, len(tasks[each]))
        read = parts[each]
        names = dict.fromkeys((*read.source_topics, *read.repartition_source_topics))
        for name in hash_order(names, len(names)):
            count = existing(name)
            if count is None:
                return None
            found.append((name, sorted(numbers)[:count] if count < len(numbers) else numbers))
    return found
