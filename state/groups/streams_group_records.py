"""The records of a streams group and their application.

Source: `StreamsCoordinatorRecordHelpers`, `GroupMetadataManager.replay` in Kafka.
"""

from msgspec.structs import asdict, replace

from brokertwin.protocol.generated.streams_group_rows import (
    Key,
    KeyValue,
    LastAssignmentConfig,
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTargetTaskIds,
    StreamsGroupTaskIds,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
    Value,
)
from brokertwin.state.core.group_records import GroupRecord, tombstones
from brokertwin.state.groups.consumer_group import LEAVE_EPOCH
from brokertwin.state.groups.consumer_group_records import NO_ASSIGNMENT
from brokertwin.state.groups.streams_group import (
    MemberTasks,
    StreamsGroup,
    StreamsMember,
    StreamsMemberState,
    TargetTasks,
    Tasks,
    TasksWithEpochs,
)


def group_epoch(
    group_id: str,
    epoch: int,
    metadata_hash: int,
    validated_topology_epoch: int,
    configs: dict[str, str],
) -> GroupRecord:
    last = [LastAssignmentConfig(*each) for each in configs.items()]
    value = StreamsGroupMetadataValue(epoch, metadata_hash, validated_topology_epoch, last)
    return GroupRecord(StreamsGroupMetadataKey(group_id), value)


def member_metadata(group_id: str, member: StreamsMember) -> GroupRecord:
    value = StreamsGroupMemberMetadataValue(
        member.instance_id,
        member.rack_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.topology_epoch,
        member.process_id,
        member.user_endpoint,
        [KeyValue(*each) for each in sorted(member.client_tags.items())],
    )
    return GroupRecord(StreamsGroupMemberMetadataKey(group_id, member.member_id), value)


def topology(group_id: str, value: StreamsGroupTopologyValue) -> GroupRecord:
    return GroupRecord(StreamsGroupTopologyKey(group_id), value)


def target_epoch(group_id: str, epoch: int, timestamp: int) -> GroupRecord:
    value = StreamsGroupTargetAssignmentMetadataValue(epoch, timestamp)
    return GroupRecord(StreamsGroupTargetAssignmentMetadataKey(group_id), value)


def member_target(group_id: str, member_id: str, tasks: TargetTasks) -> GroupRecord:
    value = StreamsGroupTargetAssignmentMemberValue(
        *(
            [StreamsGroupTargetTaskIds(part, sorted(role[part])) for part in sorted(role)]
            for role in (tasks.active, tasks.standby, tasks.warmup)
        )
    )
    return GroupRecord(StreamsGroupTargetAssignmentMemberKey(group_id, member_id), value)


def current_assignment(group_id: str, member: StreamsMember) -> GroupRecord:
    value = StreamsGroupCurrentMemberAssignmentValue(
        member.member_epoch,
        member.previous_member_epoch,
        member.state.value,
        *_task_ids(member.assigned),
        *_task_ids(member.pending_revocation),
    )
    return GroupRecord(StreamsGroupCurrentMemberAssignmentKey(group_id, member.member_id), value)


def _task_ids(tasks: MemberTasks) -> list[list[StreamsGroupTaskIds]]:
    """Active, standby and warm-up tasks; only active ones have epochs."""
    active = [
        StreamsGroupTaskIds(part, sorted(epochs), [epochs[each] for each in sorted(epochs)])
        for part, epochs in sorted(tasks.active.items(), key=lambda each: each[0])
    ]
    return [
        active,
        *(
            [StreamsGroupTaskIds(part, sorted(role[part])) for part in sorted(role)]
            for role in (tasks.standby, tasks.warmup)
        ),
    ]


def member_tombstones(group_id: str, member_id: str) -> list[GroupRecord]:
    return tombstones(
        StreamsGroupCurrentMemberAssignmentKey(group_id, member_id),
        StreamsGroupTargetAssignmentMemberKey(group_id, member_id),
        StreamsGroupMemberMetadataKey(group_id, member_id),
    )


def group_tombstones(group_id: str) -> list[GroupRecord]:
    """Return the records that delete a group without members."""
    return tombstones(
        StreamsGroupTargetAssignmentMetadataKey(group_id),
        StreamsGroupMetadataKey(group_id),
        StreamsGroupTopologyKey(group_id),
    )


def replay(group: StreamsGroup, key: Key, value: Value | None) -> None:
    """Change the group by a record; a tombstone of an assignment means that the member has left."""
    match key, value:
        case StreamsGroupMetadataKey(), StreamsGroupMetadataValue():
            group.group_epoch, group.metadata_hash = value.epoch, value.metadata_hash
            group.validated_topology_epoch = value.validated_topology_epoch
            configs = value.last_assignment_configs or []
            group.last_assignment_configs = {each.key: each.value for each in configs}
        case StreamsGroupMemberMetadataKey(_, member_id), StreamsGroupMemberMetadataValue():
            member = group.members.get(member_id) or StreamsMember(member_id)
            tags = {each.key: each.value for each in value.client_tags}
            group.put(replace(member, **{**asdict(value), "client_tags": tags}))
        case StreamsGroupMemberMetadataKey(_, member_id), None:
            group.members.pop(member_id, None)
        case StreamsGroupTopologyKey(), StreamsGroupTopologyValue():
            group.topology = value
        case StreamsGroupTargetAssignmentMetadataKey(), _:
            value = value or StreamsGroupTargetAssignmentMetadataValue(NO_ASSIGNMENT)
            assert isinstance(value, StreamsGroupTargetAssignmentMetadataValue), value
            group.assignment_epoch = value.assignment_epoch
            group.assignment_timestamp = value.assignment_timestamp
        case (
            StreamsGroupTargetAssignmentMemberKey(_, member_id),
            StreamsGroupTargetAssignmentMemberValue(active, standby, warmup),
        ):
            group.target[member_id] = TargetTasks(_tasks(active), _tasks(standby), _tasks(warmup))
        case StreamsGroupTargetAssignmentMemberKey(_, member_id), None:
            group.target.pop(member_id, None)
        case StreamsGroupCurrentMemberAssignmentKey(_, member_id), _:
            value = value or StreamsGroupCurrentMemberAssignmentValue(
                LEAVE_EPOCH, LEAVE_EPOCH, StreamsMemberState.STABLE
            )
            assert isinstance(value, StreamsGroupCurrentMemberAssignmentValue), value
            member = group.members.get(member_id) or StreamsMember(member_id)
            group.put(
                replace(
                    member,
                    member_epoch=value.member_epoch,
                    previous_member_epoch=value.previous_member_epoch,
                    state=StreamsMemberState(value.state),
                    assigned=MemberTasks(
                        _with_epochs(value.active_tasks),
                        _tasks(value.standby_tasks),
                        _tasks(value.warmup_tasks),
                    ),
                    pending_revocation=MemberTasks(
                        _with_epochs(value.active_tasks_pending_revocation),
                        _tasks(value.standby_tasks_pending_revocation),
                        _tasks(value.warmup_tasks_pending_revocation),
                    ),
                )
            )


def _tasks(task_ids: list[StreamsGroupTargetTaskIds] | list[StreamsGroupTaskIds]) -> Tasks:
    return {each.subtopology_id: each.partitions for each in task_ids}


def _with_epochs(task_ids: list[StreamsGroupTaskIds]) -> TasksWithEpochs:
    return {
        each.subtopology_id: dict(zip(each.partitions, each.assignment_epochs or (), strict=True))
        for each in task_ids
    }
