"""Encodes the records of streams groups as rows of `__consumer_offsets`."""

from brokertwin.protocol.generated import streams_group_rows as streams
from brokertwin.protocol.rows import Row
from brokertwin.state.core.streams_records import (
    StreamsGroupCurrentMemberAssignmentWritten,
    StreamsGroupMemberMetadataWritten,
    StreamsGroupMetadataWritten,
    StreamsGroupTargetAssignmentMemberWritten,
    StreamsGroupTargetAssignmentMetadataWritten,
    StreamsGroupTopologyWritten,
    Subtopology,
    Tasks,
    TasksWithEpochs,
    TopicInfo,
)
from brokertwin.state.groups.row_encoders import Encoder, alike, of_epoch


def _epoch(record: StreamsGroupMetadataWritten) -> Row | None:
    if record.epoch is None:
        return None
    return streams.StreamsGroupMetadataValue(
        epoch=record.epoch,
        metadata_hash=record.metadata_hash,
        validated_topology_epoch=record.validated_topology_epoch,
        last_assignment_configs=[
            streams.LastAssignmentConfig(*each) for each in record.last_assignment_configs.items()
        ],
    )


def _member(record: StreamsGroupMemberMetadataWritten) -> Row | None:
    metadata = record.metadata
    if metadata is None:
        return None
    endpoint = metadata.user_endpoint
    return streams.StreamsGroupMemberMetadataValue(
        instance_id=metadata.instance_id,
        rack_id=metadata.rack_id,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        rebalance_timeout_ms=metadata.rebalance_timeout_ms,
        topology_epoch=metadata.topology_epoch,
        process_id=metadata.process_id,
        user_endpoint=None if endpoint is None else alike(endpoint, streams.Endpoint),
        client_tags=[streams.KeyValue(*each) for each in sorted(metadata.client_tags.items())],
    )


def _target(record: StreamsGroupTargetAssignmentMemberWritten) -> Row | None:
    tasks = record.tasks
    if tasks is None:
        return None
    return streams.StreamsGroupTargetAssignmentMemberValue(
        active_tasks=_target_tasks(tasks.active),
        standby_tasks=_target_tasks(tasks.standby),
        warmup_tasks=_target_tasks(tasks.warmup),
    )


def _target_tasks(tasks: Tasks) -> list[streams.StreamsGroupTargetTaskIds]:
    return [streams.StreamsGroupTargetTaskIds(part, sorted(tasks[part])) for part in sorted(tasks)]


def _current(record: StreamsGroupCurrentMemberAssignmentWritten) -> Row | None:
    assignment = record.assignment
    if assignment is None:
        return None
    revoked = assignment.pending_revocation
    return streams.StreamsGroupCurrentMemberAssignmentValue(
        member_epoch=assignment.member_epoch,
        previous_member_epoch=assignment.previous_member_epoch,
        state=assignment.state,
        active_tasks=_active(assignment.assigned.active),
        standby_tasks=_passive(assignment.assigned.standby),
        warmup_tasks=_passive(assignment.assigned.warmup),
        active_tasks_pending_revocation=_active(revoked.active),
        standby_tasks_pending_revocation=_passive(revoked.standby),
        warmup_tasks_pending_revocation=_passive(revoked.warmup),
    )


def _active(tasks: TasksWithEpochs) -> list[streams.StreamsGroupTaskIds]:
    return [
        streams.StreamsGroupTaskIds(part, sorted(epochs), [epochs[each] for each in sorted(epochs)])
        for part, epochs in sorted(tasks.items(), key=lambda each: each[0])
    ]


def _passive(tasks: Tasks) -> list[streams.StreamsGroupTaskIds]:
    return [streams.StreamsGroupTaskIds(part, sorted(tasks[part])) for part in sorted(tasks)]


def _topology(record: StreamsGroupTopologyWritten) -> Row | None:
    if record.topology is None:
        return None
    return streams.StreamsGroupTopologyValue(
        epoch=record.topology.epoch,
        subtopologies=[_subtopology(each) for each in record.topology.subtopologies],
    )


def _subtopology(part: Subtopology) -> streams.Subtopology:
    return streams.Subtopology(
        subtopology_id=part.subtopology_id,
        source_topics=part.source_topics,
        source_topic_regex=part.source_topic_regex,
        state_changelog_topics=_infos(part.state_changelog_topics),
        repartition_sink_topics=part.repartition_sink_topics,
        repartition_source_topics=_infos(part.repartition_source_topics),
        copartition_groups=[
            alike(each, streams.CopartitionGroup) for each in part.copartition_groups
        ],
    )


def _infos(topics: list[TopicInfo]) -> list[streams.StreamsGroupTopicInfo]:
    return [
        streams.StreamsGroupTopicInfo(
            each.name,
            each.partitions,
            each.replication_factor,
            [streams.TopicConfig(*pair) for pair in each.topic_configs],
        )
        for each in topics
    ]


ENCODERS: dict[type, Encoder] = {
    StreamsGroupMetadataWritten: Encoder(streams.StreamsGroupMetadataKey, _epoch),
    StreamsGroupMemberMetadataWritten: Encoder(streams.StreamsGroupMemberMetadataKey, _member),
    StreamsGroupTargetAssignmentMetadataWritten: Encoder(
        streams.StreamsGroupTargetAssignmentMetadataKey,
        of_epoch("assignment_epoch", streams.StreamsGroupTargetAssignmentMetadataValue),
    ),
    StreamsGroupTargetAssignmentMemberWritten: Encoder(
        streams.StreamsGroupTargetAssignmentMemberKey, _target
    ),
    StreamsGroupCurrentMemberAssignmentWritten: Encoder(
        streams.StreamsGroupCurrentMemberAssignmentKey, _current
    ),
    StreamsGroupTopologyWritten: Encoder(streams.StreamsGroupTopologyKey, _topology),
}
"""The encoders of records."""
