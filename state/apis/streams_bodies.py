"""The bodies of StreamsGroupHeartbeat, and of what it shares with StreamsGroupDescribe.

Source: `StreamsGroupHeartbeatRequest.json`, `StreamsGroupHeartbeatResponse.json` in Kafka.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated

from msgspec import Meta

from brokertwin.state.core import streams_records
from brokertwin.state.core.java_hashes import hash_order
from brokertwin.state.core.schema import Body, Int8, Int16, Int32, Int64
from brokertwin.state.core.streams_records import StreamsTopology, Tasks
from brokertwin.state.groups.streams_endpoints import EndpointPartitions, Partitions

Uint16 = Annotated[int, Meta(ge=0, le=2**16 - 1)]


class KeyValue(Body):
    """A setting of a topic, or a client's tag."""

    key: str
    value: str


class TopicInfo(Body, kw_only=True):
    """An internal topic; 0 partitions or replicas are not given."""

    name: str
    partitions: Int32 = 0
    replication_factor: Int16 = 0
    topic_configs: list[KeyValue] = []


class CopartitionGroup(Body):
    """Topics that are joined, by their places in the subtopology's lists."""

    source_topics: list[Int16] = []
    source_topic_regex: list[Int16] = []
    repartition_source_topics: list[Int16] = []


class Subtopology(Body, kw_only=True):
    """A part of a topology."""

    subtopology_id: str
    source_topics: list[str] = []
    source_topic_regex: list[str] = []
    state_changelog_topics: list[TopicInfo] = []
    repartition_sink_topics: list[str] = []
    repartition_source_topics: list[TopicInfo] = []
    copartition_groups: list[CopartitionGroup] = []


class Topology(Body):
    """What a member runs."""

    epoch: Int32
    subtopologies: list[Subtopology] = []


class StreamsTaskIds(Body):
    """Tasks of a subtopology."""

    subtopology_id: str
    partitions: list[Int32]


class Endpoint(Body):
    """Where an instance answers questions about its state."""

    host: str
    port: Uint16


class TaskOffset(Body):
    """How far a task's changelog is."""

    subtopology_id: str
    partition: Int32
    offset: Int64


class StreamsGroupHeartbeatRequest(Body, kw_only=True):
    """A member's heartbeat; null, and -1 for the time-out, stand for what has not changed."""

    group_id: str
    member_id: str
    member_epoch: Int32
    endpoint_information_epoch: Int32 = 0
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: Int32 = -1
    topology: Topology | None = None
    active_tasks: list[StreamsTaskIds] | None = None
    standby_tasks: list[StreamsTaskIds] | None = None
    warmup_tasks: list[StreamsTaskIds] | None = None
    process_id: str | None = None
    user_endpoint: Endpoint | None = None
    client_tags: list[KeyValue] | None = None
    task_offsets: list[TaskOffset] | None = None
    task_end_offsets: list[TaskOffset] | None = None
    shutdown_application: bool = False


class Status(Body):
    """What a member is told of its group."""

    status_code: Int8
    status_detail: str


class EndpointTopic(Body):
    """Partitions of a topic that an instance has."""

    topic: str
    partitions: list[Int32]


class EndpointToPartitions(Body):
    """What an instance has."""

    user_endpoint: Endpoint
    active_partitions: list[EndpointTopic]
    standby_partitions: list[EndpointTopic]


class StreamsGroupHeartbeatResponse(Body, kw_only=True):
    """The member's epoch; tasks null stand for those that it knows."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    member_id: str = ""
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    acceptable_recovery_lag: Int32 = 0
    task_offset_interval_ms: Int32 = 0
    status: list[Status] | None = []
    active_tasks: list[StreamsTaskIds] | None = None
    standby_tasks: list[StreamsTaskIds] | None = None
    warmup_tasks: list[StreamsTaskIds] | None = None
    endpoint_information_epoch: Int32 = 0
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = None


def topics_of(topology: Topology) -> Iterator[str]:
    """Every topic of a topology, as often as it is named."""
    for part in topology.subtopologies:
        yield from part.source_topics
        yield from part.repartition_sink_topics
        yield from (topic.name for topic in part.repartition_source_topics)
        yield from (topic.name for topic in part.state_changelog_topics)


def topology_of(said: Topology | None) -> StreamsTopology | None:
    """A topology as it is written down."""
    if said is None:
        return None
    return StreamsTopology(said.epoch, [_subtopology(part) for part in said.subtopologies])


def _subtopology(part: Subtopology) -> streams_records.Subtopology:
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


def _infos(topics: list[TopicInfo]) -> list[streams_records.TopicInfo]:
    return [
        streams_records.TopicInfo(
            each.name,
            each.partitions,
            each.replication_factor,
            [(config.key, config.value) for config in each.topic_configs],
        )
        for each in topics
    ]


def endpoint_of(said: Endpoint | None) -> streams_records.Endpoint | None:
    """An endpoint as it is written down."""
    return None if said is None else streams_records.Endpoint(said.host, said.port)


def endpoint_told(known: streams_records.Endpoint | None) -> Endpoint | None:
    """The same in an answer."""
    return None if known is None else Endpoint(host=known.host, port=known.port)


def tasks_of(said: list[StreamsTaskIds]) -> Tasks:
    """Tasks by subtopology."""
    tasks: Tasks = {}
    for each in said:
        tasks.setdefault(each.subtopology_id, []).extend(each.partitions)
    return tasks


def in_hash_order(tasks: Mapping[str, Iterable[int]]) -> list[StreamsTaskIds]:
    """Tasks in the order of a `HashMap`, as a heartbeat tells them."""
    return [
        StreamsTaskIds(subtopology_id=part, partitions=sorted(tasks[part]))
        for part in hash_order(tasks, len(tasks))
    ]


def sorted_tasks(tasks: Mapping[str, Iterable[int]]) -> list[StreamsTaskIds]:
    """Tasks by subtopology, as a description tells them."""
    return [
        StreamsTaskIds(subtopology_id=part, partitions=sorted(tasks[part]))
        for part in sorted(tasks)
    ]


def endpoints_told(
    known: list[EndpointPartitions] | None,
) -> list[EndpointToPartitions] | None:
    """Which instance has what, in an answer."""
    if known is None:
        return None
    return [
        EndpointToPartitions(
            user_endpoint=Endpoint(host=each.endpoint.host, port=each.endpoint.port),
            active_partitions=_told(each.active),
            standby_partitions=_told(each.standby),
        )
        for each in known
    ]


def _told(partitions: Partitions) -> list[EndpointTopic]:
    return [EndpointTopic(topic=topic, partitions=numbers) for topic, numbers in partitions]
