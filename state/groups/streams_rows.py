"""Encoder of streams group records to rows of `__consumer_offsets`.

Source: `StreamsGroup…Key` and `…Value` in Kafka 4.3's group-coordinator:

    17      group epoch, and settings of the last assignment
    19      member metadata
    20, 21  target assignment: epoch, members
    22      current assignment with epochs
    23      topology
"""

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from brokertwin.state.core.kafka_bytes import Writer
from brokertwin.state.core.streams_records import (
    CopartitionGroup,
    Endpoint,
    MemberTasks,
    StreamsGroupCurrentMemberAssignmentWritten,
    StreamsGroupMemberMetadataWritten,
    StreamsGroupMetadataWritten,
    StreamsGroupTargetAssignmentMemberWritten,
    StreamsGroupTargetAssignmentMetadataWritten,
    StreamsGroupTopologyWritten,
    Subtopology,
    TopicInfo,
)
from brokertwin.state.groups.row_bytes import (
    FIRST_TAG,
    Row,
    current,
    finish_value,
    flexible_value,
    int32_of,
    row_key,
    target_epoch,
)
from brokertwin.state.groups.streams_group import NO_TOPOLOGY

_CONFIGS_TAG = 1


def _epoch(record: StreamsGroupMetadataWritten) -> Row:
    key = row_key(17, record.group_id)
    if record.epoch is None:
        return key, None
    writer = flexible_value()
    writer.number("i", record.epoch)
    writer.number("q", record.metadata_hash)
    tags = {}
    if record.validated_topology_epoch != NO_TOPOLOGY:
        tags[FIRST_TAG] = struct.pack(">i", record.validated_topology_epoch)
    configs = Writer(is_flexible=True)
    _pairs(configs, record.last_assignment_configs.items())
    writer.tags({**tags, _CONFIGS_TAG: configs.encoded()})
    return key, writer.encoded()


def _pairs(writer: Writer, pairs: Iterable[tuple[str, str]]) -> None:
    def write(pair: tuple[str, str]) -> None:
        writer.string(pair[0])
        writer.string(pair[1])
        writer.tags({})

    writer.array(list(pairs), write)


def _member(record: StreamsGroupMemberMetadataWritten) -> Row:
    key, metadata = row_key(19, record.group_id, record.member_id), record.metadata
    if metadata is None:
        return key, None
    writer = flexible_value()
    writer.nullable_string(metadata.instance_id)
    writer.nullable_string(metadata.rack_id)
    writer.string(metadata.client_id)
    writer.string(metadata.client_host)
    writer.number("i", metadata.rebalance_timeout_ms)
    writer.number("i", metadata.topology_epoch)
    writer.string(metadata.process_id)
    _endpoint(writer, metadata.user_endpoint)
    _pairs(writer, sorted(metadata.client_tags.items()))
    return key, finish_value(writer)


def _endpoint(writer: Writer, endpoint: Endpoint | None) -> None:
    """Write a nullable structure."""
    writer.number("b", -1 if endpoint is None else 1)
    if endpoint is not None:
        writer.string(endpoint.host)
        writer.number("H", endpoint.port)
        writer.tags({})


def _target_epoch(record: StreamsGroupTargetAssignmentMetadataWritten) -> Row:
    return target_epoch(20, record.group_id, record.assignment_epoch, record.assignment_timestamp)


def _target(record: StreamsGroupTargetAssignmentMemberWritten) -> Row:
    key, tasks = row_key(21, record.group_id, record.member_id), record.tasks
    if tasks is None:
        return key, None
    writer = flexible_value()
    for role in (tasks.active, tasks.standby, tasks.warmup):
        _tasks(writer, role)
    return key, finish_value(writer)


def _current(record: StreamsGroupCurrentMemberAssignmentWritten) -> Row:
    key, assignment = row_key(22, record.group_id, record.member_id), record.assignment
    if assignment is None:
        return key, None
    writer = current(assignment.member_epoch, assignment.previous_member_epoch, assignment.state)
    _member_tasks(writer, assignment.assigned)
    _member_tasks(writer, assignment.pending_revocation)
    return key, finish_value(writer)


def _member_tasks(writer: Writer, tasks: MemberTasks) -> None:
    for role in (tasks.active, tasks.standby, tasks.warmup):
        _tasks(writer, role)


def _tasks(writer: Writer, tasks: Mapping[str, Iterable[int]]) -> None:
    """Write tasks by subtopology; active tasks have assignment epochs."""

    def write(part: tuple[str, Iterable[int]]) -> None:
        subtopology_id, partitions = part
        writer.string(subtopology_id)
        writer.array(sorted(partitions), int32_of(writer))
        epochs = Writer(is_flexible=True)
        if isinstance(partitions, Mapping):
            epochs.array([partitions[each] for each in sorted(partitions)], int32_of(epochs))
        writer.tags({FIRST_TAG: epochs.encoded()} if epochs.encoded() else {})

    writer.array(sorted(tasks.items(), key=lambda part: part[0]), write)


def _topology(record: StreamsGroupTopologyWritten) -> Row:
    key, topology = row_key(23, record.group_id), record.topology
    if topology is None:
        return key, None
    writer = flexible_value()
    writer.number("i", topology.epoch)
    writer.array(topology.subtopologies, lambda part: _subtopology(writer, part))
    return key, finish_value(writer)


def _subtopology(writer: Writer, part: Subtopology) -> None:
    def info(topic: TopicInfo) -> None:
        writer.string(topic.name)
        writer.number("i", topic.partitions)
        writer.number("h", topic.replication_factor)
        _pairs(writer, topic.topic_configs)
        writer.tags({})

    def group(copartitioned: CopartitionGroup) -> None:
        for indexes in (
            copartitioned.source_topics,
            copartitioned.source_topic_regex,
            copartitioned.repartition_source_topics,
        ):
            writer.array(indexes, lambda index: writer.number("h", index))
        writer.tags({})

    writer.string(part.subtopology_id)
    writer.array(part.source_topics, writer.string)
    writer.array(part.source_topic_regex, writer.string)
    writer.array(part.state_changelog_topics, info)
    writer.array(part.repartition_sink_topics, writer.string)
    writer.array(part.repartition_source_topics, info)
    writer.array(part.copartition_groups, group)
    writer.tags({})


ENCODERS: dict[type, Callable[[Any], Row]] = cast(
    "dict[type, Callable[[Any], Row]]",
    {
        StreamsGroupMetadataWritten: _epoch,
        StreamsGroupMemberMetadataWritten: _member,
        StreamsGroupTargetAssignmentMetadataWritten: _target_epoch,
        StreamsGroupTargetAssignmentMemberWritten: _target,
        StreamsGroupCurrentMemberAssignmentWritten: _current,
        StreamsGroupTopologyWritten: _topology,
    },
)
