"""StreamsGroupHeartbeat (key 88, version 0, in Kafka 4.4 to 1): join, stay in, or leave.

Source: KIP-1071; `KafkaApis.handleStreamsGroupHeartbeat`,
`GroupCoordinatorService.streamsGroupHeartbeat` in Kafka. Errors, in the order of the checks:

    the feature streams.version is at level 0       35 UNSUPPORTED_VERSION
    no READ permission on the group                 30 GROUP_AUTHORIZATION_FAILED
    the topology has one of Kafka's internal        130 STREAMS_INVALID_TOPOLOGY
    topics, or an invalid topic name
    no DESCRIBE permission on one of its topics     29 TOPIC_AUTHORIZATION_FAILED
    instance ids (before 4.4), offsets of tasks,    42 INVALID_REQUEST
    warm-up tasks or regular expressions
    a blank member, group or rack id; a join with   42 INVALID_REQUEST, with an error message
    tasks, without timeout or topology; an epoch
    below -2; some roles of tasks without others;
    a topology without a join
    a changelog topic with a partition count        130 STREAMS_INVALID_TOPOLOGY
    this broker does not coordinate the group       16 NOT_COORDINATOR
    no such group and no join, or another type      69 GROUP_ID_NOT_FOUND
    the group is full, whichever member joins       81 GROUP_MAX_SIZE_REACHED
    an unknown member or instance id                25 UNKNOWN_MEMBER_ID
    a join with the instance id of another member   111 UNRELEASED_INSTANCE_ID
    a member whose instance id another one has      82 FENCED_INSTANCE_ID
    another epoch                                   110 FENCED_MEMBER_EPOCH
    another topology than the group's               42 INVALID_REQUEST
    a topology that cannot work                     130 STREAMS_INVALID_TOPOLOGY
    tasks that are not in the topology              42 INVALID_REQUEST

Member epoch 0 joins, epoch -1 leaves, epoch -2 leaves until the static member joins again
(`state/groups/streams_coordinator.py`). The response has the tasks if they have changed or the
member joins. Missing internal topics are created if the client may CREATE them. Kafka 4.3.1 never
returns 131 STREAMS_INVALID_TOPOLOGY_EPOCH or 132 STREAMS_TOPOLOGY_FENCED.
"""

from msgspec import structs

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.shared import StreamsKeyValue
from brokertwin.protocol.generated.streams_group_heartbeat import (
    Status,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequestTopology,
    StreamsGroupHeartbeatResponse,
)
from brokertwin.state.access.authorizer import Operation, ResourceType
from brokertwin.state.apis import earlier_writes, streams_bodies
from brokertwin.state.cluster import coordinators, features, group_configs, topics
from brokertwin.state.cluster.image import INTERNAL_TOPICS
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.api import Api, Refused
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.eras import kafka_4_4
from brokertwin.state.groups import (
    modern_coordinator,
    streams_coordinator,
    streams_topics,
    topology_topics,
)
from brokertwin.state.groups.consumer_group import JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH
from brokertwin.state.groups.streams_coordinator import (
    StreamsGroupCoordinator,
    StreamsHeartbeat,
    StreamsHeartbeatResult,
)
from brokertwin.state.groups.streams_group import TargetTasks

NO_TIMEOUT = -1
NO_LAG = -1


def handle(broker: Broker, request: Request) -> Decision:
    """Check the heartbeat and pass it to the group's coordinator."""
    try:
        decision = _decide(broker, request)
    except Refused as refused:
        if request.version > 0:
            refused.fields["acceptable_recovery_lag"] = NO_LAG
        raise
    response = decision.response
    if request.version > 0 and isinstance(response, StreamsGroupHeartbeatResponse):
        is_kept = request.body.member_epoch >= JOIN_EPOCH
        response.acceptable_recovery_lag = kafka_4_4.ACCEPTABLE_RECOVERY_LAG if is_kept else NO_LAG
    return decision


def _decide(broker: Broker, request: Request) -> Decision:
    _check(broker, request)
    body: StreamsGroupHeartbeatRequest = request.body
    coordinator = streams_coordinator.find(broker, body.group_id, body.member_epoch)
    if body.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
        return _leave(body, coordinator)
    beat = coordinator.heartbeat(_heartbeat_of(request))
    return _response(broker, request, coordinator, beat)


def _check(broker: Broker, request: Request) -> None:
    """Refuse a heartbeat that never reaches its group."""
    body: StreamsGroupHeartbeatRequest = request.body
    if not broker.has_feature(features.STREAMS):
        raise Refused(Error.UNSUPPORTED_VERSION)
    if not broker.allows(request, Operation.READ, ResourceType.GROUP, body.group_id):
        raise Refused(Error.GROUP_AUTHORIZATION_FAILED)
    if body.topology is not None:
        _check_topics(broker, request, body.topology)
    why = _unsupported(body, is_4_4=broker.settings.is_4_4) or _invalid(body)
    if why is not None:
        raise Refused(Error.INVALID_REQUEST, why)
    _check_changelogs(body)
    if body.member_epoch != JOIN_EPOCH and body.topology is not None:
        text = "Topology can only be provided when (re-)joining."
        raise Refused(Error.INVALID_REQUEST, text)
    error = coordinators.group_error(broker, body.group_id)
    if error is not Error.NONE:
        raise Refused(error)


def _check_topics(
    broker: Broker, request: Request, topology: StreamsGroupHeartbeatRequestTopology
) -> None:
    names = list(dict.fromkeys(streams_bodies.topics_of(topology)))
    own = [name for name in names if name in INTERNAL_TOPICS]
    if own:
        text = f"Use of Kafka internal topics {','.join(own)} in a Kafka Streams topology is"
        raise Refused(Error.STREAMS_INVALID_TOPOLOGY, f"{text} prohibited.")
    invalid = [name for name in names if topics.name_error(name) is not None]
    if invalid:
        text = f"Topic names {','.join(invalid)} are not valid topic names."
        raise Refused(Error.STREAMS_INVALID_TOPOLOGY, text)
    if broker.denied_topics(request, Operation.DESCRIBE, names):
        raise Refused(Error.TOPIC_AUTHORIZATION_FAILED)


def _unsupported(body: StreamsGroupHeartbeatRequest, *, is_4_4: bool) -> str | None:
    """Return Kafka's error message for fields that this release does not support."""
    if body.instance_id is not None and not is_4_4:
        return "Static membership is not yet supported."
    if body.task_offsets is not None:
        return "TaskOffsets are not supported yet."
    if body.task_end_offsets is not None:
        return "TaskEndOffsets are not supported yet."
    if body.warmup_tasks:
        return "WarmupTasks are not supported yet."
    parts = body.topology.subtopologies if body.topology is not None else []
    if any(part.source_topic_regex for part in parts):
        return "Regular expressions for source topics are not supported yet."
    return None


def _invalid(body: StreamsGroupHeartbeatRequest) -> str | None:
    """Return Kafka's error message for a request invalid in any group."""
    blank = modern_coordinator.blank_field(
        ("MemberId", body.member_id),
        ("GroupId", body.group_id),
        ("InstanceId", body.instance_id),
        ("RackId", body.rack_id),
    )
    if blank is not None:
        return blank
    epoch = body.member_epoch
    if epoch == JOIN_EPOCH:
        why = _invalid_join(body)
        if why is not None:
            return why
    if epoch == STATIC_LEAVE_EPOCH and body.instance_id is None:
        return "InstanceId can't be null."
    if epoch < STATIC_LEAVE_EPOCH:
        return f"MemberEpoch is {epoch}, but must be greater than or equal to -2."
    roles = (body.active_tasks, body.standby_tasks, body.warmup_tasks)
    if any(each is None for each in roles) and any(each is not None for each in roles):
        return "If one task-type is non-null, all must be non-null."
    return None


def _invalid_join(body: StreamsGroupHeartbeatRequest) -> str | None:
    if body.rebalance_timeout_ms == NO_TIMEOUT:
        return "RebalanceTimeoutMs must be provided in first request."
    roles = (
        ("ActiveTasks", body.active_tasks),
        ("StandbyTasks", body.standby_tasks),
        ("WarmupTasks", body.warmup_tasks),
    )
    for name, tasks in roles:
        if tasks is None or tasks:
            return f"{name} must be empty when (re-)joining."
    return "Topology must be non-null when (re-)joining." if body.topology is None else None


def _check_changelogs(body: StreamsGroupHeartbeatRequest) -> None:
    """Refuse partition counts: changelogs follow their source topics."""
    is_join = body.member_epoch == JOIN_EPOCH
    parts = body.topology.subtopologies if body.topology is not None and is_join else []
    for topic in (each for part in parts for each in part.state_changelog_topics):
        if topic.partitions:
            text = (
                f"Changelog topic {topic.name} must have an undefined partition count, but it is "
                f"set to {topic.partitions}."
            )
            raise Refused(Error.STREAMS_INVALID_TOPOLOGY, text)


def _tags(pairs: list[StreamsKeyValue] | None) -> dict[str, str] | Refused | None:
    """Return a member's tags; Kafka fails on duplicate keys."""
    if pairs is None:
        return None
    tags = {each.key: each.value for each in pairs}
    return tags if len(tags) == len(pairs) else Refused(Error.UNKNOWN_SERVER_ERROR)


def _heartbeat_of(request: Request) -> StreamsHeartbeat:
    body: StreamsGroupHeartbeatRequest = request.body
    return StreamsHeartbeat(
        member_id=body.member_id,
        instance_id=body.instance_id,
        member_epoch=body.member_epoch,
        endpoint_epoch=body.endpoint_information_epoch,
        rack_id=body.rack_id,
        rebalance_timeout_ms=body.rebalance_timeout_ms,
        topology=streams_bodies.topology_of(body.topology),
        owned=_owned(body),
        process_id=body.process_id,
        user_endpoint=streams_bodies.endpoint_of(body.user_endpoint),
        client_tags=_tags(body.client_tags),
        is_shutdown=body.shutdown_application,
        client_id=request.header.client_id or "",
        client_host=f"/{request.host}",
    )


def _owned(body: StreamsGroupHeartbeatRequest) -> TargetTasks | None:
    """Return the tasks that a member reports; None if it reports none."""
    active, standby, warmup = body.active_tasks, body.standby_tasks, body.warmup_tasks
    if active is None or standby is None or warmup is None:
        return None
    return TargetTasks(*(streams_bodies.tasks_of(each) for each in (active, standby, warmup)))


def _leave(body: StreamsGroupHeartbeatRequest, coordinator: StreamsGroupCoordinator) -> Decision:
    coordinator.leave(
        body.member_id, body.instance_id, body.member_epoch, is_shutdown=body.shutdown_application
    )
    response = StreamsGroupHeartbeatResponse(
        member_id=body.member_id, member_epoch=body.member_epoch
    )
    return Decision(records=coordinator.records, response=response)


def _response(
    broker: Broker,
    request: Request,
    coordinator: StreamsGroupCoordinator,
    beat: StreamsHeartbeatResult,
) -> Decision:
    group_id, after = request.body.group_id, beat.after
    interval = group_configs.streams_heartbeat_interval_ms(broker, group_id)
    denied = _uncreatable(broker, request, beat)
    is_4_4 = broker.settings.is_4_4
    response = StreamsGroupHeartbeatResponse(
        member_id=after.member_id,
        member_epoch=after.member_epoch,
        heartbeat_interval_ms=interval,
        task_offset_interval_ms=kafka_4_4.TASK_OFFSET_INTERVAL_MS if is_4_4 else 0,
        status=_statuses(broker, group_id, beat, denied),
        endpoint_information_epoch=beat.endpoint_epoch,
        partitions_by_user_endpoint=streams_bodies.endpoint_partitions(beat.endpoints),
    )
    if beat.sends_tasks:
        active = {part: list(numbers) for part, numbers in after.assigned.active.items()}
        response = structs.replace(
            response,
            active_tasks=streams_bodies.in_hash_order(active),
            standby_tasks=streams_bodies.in_hash_order(after.assigned.standby),
            warmup_tasks=streams_bodies.in_hash_order(after.assigned.warmup),
        )
    messages = [] if denied else streams_topics.creation_request(broker, group_id, beat.missing)
    return Decision(records=coordinator.records, response=response, messages=messages)


def _uncreatable(broker: Broker, request: Request, beat: StreamsHeartbeatResult) -> list[str]:
    """Return missing topics that the client may not create: all fail."""
    names = [topic.name for topic in beat.missing]
    if not names or broker.allows_cluster(request, Operation.CREATE):
        return []
    denied = broker.denied_topics(request, Operation.CREATE, names)
    return [name for name in names if name in denied]


def _statuses(
    broker: Broker, group_id: str, beat: StreamsHeartbeatResult, denied: list[str]
) -> list[Status]:
    statuses = []
    for code, detail in beat.statuses:
        text = detail
        if code is topology_topics.TopologyStatus.MISSING_INTERNAL_TOPICS and denied:
            text += f"; Unauthorized to CREATE on topics {', '.join(denied)}."
        elif code is topology_topics.TopologyStatus.MISSING_INTERNAL_TOPICS:
            text += streams_topics.failures_text(broker, group_id, beat.missing)
        statuses.append(Status(status_code=code, status_detail=text))
    return statuses


API = Api(kafka_apis.STREAMS_GROUP_HEARTBEAT, handle, earlier_writes=earlier_writes.of_heartbeat)
