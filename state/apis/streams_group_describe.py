"""StreamsGroupDescribe (key 89, version 0, in Kafka 4.4 to 1): topologies and members.

Source: `GroupMetadataManager.streamsGroupDescribe`, `StreamsGroup.asDescribedGroup`,
`KafkaApis.handleStreamsGroupDescribe` in Kafka; KIP-1071. `describing.py` has the errors of a group
and their order. After a heartbeat has found all topics, internal topics have their computed
partition counts; until then those of the first member's topology.
"""

import msgspec

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.generated.shared import StreamsKeyValue, StreamsTopicInfo
from brokertwin.protocol.generated.streams_group_describe import (
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    StreamsGroupDescribeResponseAssignment,
    StreamsGroupDescribeResponseDescribedGroup,
    StreamsGroupDescribeResponseMember,
    StreamsGroupDescribeResponseSubtopology,
    StreamsGroupDescribeResponseTopology,
)
from brokertwin.protocol.generated.streams_group_rows import Subtopology
from brokertwin.state.apis.streams_bodies import endpoint_response, sorted_tasks
from brokertwin.state.cluster import features
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.core.java_hashes import hash_order
from brokertwin.state.groups import describing, sticky_assignor, streams_live
from brokertwin.state.groups.describing import DescribeSpec
from brokertwin.state.groups.streams_group import StreamsGroup, StreamsMember, TargetTasks
from brokertwin.state.groups.topology_topics import ConfiguredTopology, StreamsInternalTopic

NOT_REQUESTED, NOT_STORED = 0, 1
"""Status of a topology's description, which only a plugin stores (KIP-1331)."""


def handle(broker: Broker, request: Request) -> Decision:
    """Respond without writing records."""
    body: StreamsGroupDescribeRequest = request.body
    described = describing.describe(broker, request, _STREAMS)
    for each in described if body.include_topology_description else ():
        each.topology_description_status = NOT_REQUESTED if each.error_code else NOT_STORED
    return Decision(response=StreamsGroupDescribeResponse(groups=described))


def _of(broker: Broker, group: StreamsGroup) -> StreamsGroupDescribeResponseDescribedGroup:
    live = streams_live.get(broker, group.group_id)
    return StreamsGroupDescribeResponseDescribedGroup(
        assignor_name=sticky_assignor.NAME,
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        topology=_topology(group, live.configured if live is not None else None),
        members=[
            _member(member, group.target.get(member.member_id)) for member in group.in_order()
        ],
    )


def _topology(
    group: StreamsGroup, configured: ConfiguredTopology | None
) -> StreamsGroupDescribeResponseTopology:
    assert group.topology is not None, group.group_id
    parts = configured.subtopologies if configured is not None and configured.is_ready else None
    if parts is None:
        subtopologies = sorted(group.topology.subtopologies, key=lambda part: part.subtopology_id)
        described = [_as_given(part) for part in subtopologies]
        return StreamsGroupDescribeResponseTopology(
            epoch=group.topology.epoch, subtopologies=described
        )
    described = [
        StreamsGroupDescribeResponseSubtopology(
            subtopology_id=each,
            source_topics=sorted(part.source_topics),
            repartition_sink_topics=part.repartition_sink_topics,
            repartition_source_topics=_internal(part.repartition_source_topics),
            state_changelog_topics=_internal(part.state_changelog_topics),
        )
        for each, part in parts.items()
    ]
    return StreamsGroupDescribeResponseTopology(epoch=group.topology.epoch, subtopologies=described)


def _internal(topics: dict[str, StreamsInternalTopic]) -> list[StreamsTopicInfo]:
    return [
        StreamsTopicInfo(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            topic_configs=_pairs(topic.configs),
        )
        for _, topic in sorted(topics.items())
    ]


def _as_given(part: Subtopology) -> StreamsGroupDescribeResponseSubtopology:
    subtopology = msgspec.convert(
        part, StreamsGroupDescribeResponseSubtopology, from_attributes=True
    )
    subtopology.source_topics.sort()
    subtopology.repartition_sink_topics.sort()
    subtopology.repartition_source_topics.sort(key=lambda topic: topic.name)
    subtopology.state_changelog_topics.sort(key=lambda topic: topic.name)
    return subtopology


def _topics_in(described: StreamsGroupDescribeResponseDescribedGroup) -> set[str]:
    topology = described.topology
    parts = (topology.subtopologies if topology is not None else None) or []
    internal = (
        topic.name
        for part in parts
        for topic in (*part.repartition_source_topics, *part.state_changelog_topics)
    )
    named = (
        name for part in parts for name in (*part.source_topics, *part.repartition_sink_topics)
    )
    return {*named, *internal}


def _member(
    member: StreamsMember, target: TargetTasks | None
) -> StreamsGroupDescribeResponseMember:
    tasks = target or TargetTasks()
    tags = {
        name: member.client_tags[name]
        for name in hash_order(member.client_tags, len(member.client_tags))
    }
    return StreamsGroupDescribeResponseMember(
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=endpoint_response(member.user_endpoint),
        client_tags=_pairs(tags),
        assignment=StreamsGroupDescribeResponseAssignment(
            active_tasks=sorted_tasks(member.assigned.active),
            standby_tasks=sorted_tasks(member.assigned.standby),
            warmup_tasks=sorted_tasks(member.assigned.warmup),
        ),
        target_assignment=StreamsGroupDescribeResponseAssignment(
            active_tasks=sorted_tasks(tasks.active),
            standby_tasks=sorted_tasks(tasks.standby),
            warmup_tasks=sorted_tasks(tasks.warmup),
        ),
    )


def _pairs(values: dict[str, str]) -> list[StreamsKeyValue]:
    return [StreamsKeyValue(key=key, value=value) for key, value in values.items()]


_STREAMS = DescribeSpec(
    features.STREAMS,
    StreamsGroup,
    "a streams group",
    StreamsGroupDescribeResponseDescribedGroup,
    _of,
    _topics_in,
    denied_message="The described group uses topics that the client is not authorized to describe.",
)

API = Api(kafka_apis.STREAMS_GROUP_DESCRIBE, handle)
