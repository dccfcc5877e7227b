"""ConsumerGroupHeartbeat (key 68, versions 0 to 1): join, stay or leave.

Source: KIP-848, KIP-1082 (the member creates its id, from version 1);
`KafkaApis.handleConsumerGroupHeartbeat`, `GroupCoordinatorService.consumerGroupHeartbeat` in Kafka.
The checks, in this order:

    the feature group.version is at level 0         35 UNSUPPORTED_VERSION
    no READ on the group                            30 GROUP_AUTHORIZATION_FAILED
    no DESCRIBE on a subscribed topic               29 TOPIC_AUTHORIZATION_FAILED
    empty member, group, instance or rack id        42 INVALID_REQUEST (member ids: see `_invalid`)
    a join without a rebalance timeout or topics,
    or with partitions; an epoch below -2           42 INVALID_REQUEST
    unknown assignor                                112 UNSUPPORTED_ASSIGNOR
    this broker does not coordinate the group       16 NOT_COORDINATOR
    missing group and no join, or another type      69 GROUP_ID_NOT_FOUND; a classic group of
                                                    consumers is converted if possible
    the group is full                               81 GROUP_MAX_SIZE_REACHED
    an unknown member or instance id                25 UNKNOWN_MEMBER_ID
    another member owns the instance id             82 FENCED_INSTANCE_ID; in a join
                                                    111 UNRELEASED_INSTANCE_ID
    another member epoch                            110 FENCED_MEMBER_EPOCH
    a new regular expression that is invalid        128 INVALID_REGULAR_EXPRESSION

Member epoch 0 joins, -1 leaves, -2 leaves temporarily (static members). The rules for accepted
heartbeats are in `state/groups/consumer_coordinator.py`. The response includes the assignment if it
has changed, if the member joins, or if the heartbeat is a full request.
"""

from functools import partial

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.bodies import Uuid
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseAssignment,
    ConsumerGroupHeartbeatTopicPartitions,
)
from brokertwin.state.access.authorizer import Operation, ResourceType
from brokertwin.state.apis import earlier_writes
from brokertwin.state.cluster import coordinators, features, group_configs
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.api import Api, Refused
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.groups import consumer_coordinator, modern_coordinator, target_assignment
from brokertwin.state.groups.assignments import in_hash_order
from brokertwin.state.groups.consumer_coordinator import (
    ConsumerGroupCoordinator,
    ConsumerHeartbeat,
    ConsumerHeartbeatResult,
)
from brokertwin.state.groups.consumer_group import JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH
from brokertwin.state.groups.regex_resolution import Denied

OWN_MEMBER_ID_SINCE = 1
NO_TIMEOUT = -1


def handle(broker: Broker, request: Request) -> Decision:
    _check(broker, request)
    body: ConsumerGroupHeartbeatRequest = request.body
    coordinator = consumer_coordinator.find(broker, body.group_id, body.member_epoch)
    try:
        if body.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
            coordinator.leave(body.member_id, body.instance_id, body.member_epoch)
            response = ConsumerGroupHeartbeatResponse(
                member_id=body.member_id, member_epoch=body.member_epoch
            )
        else:
            response = _continued(broker, request, coordinator)
    except Refused as refused:
        refused.resumed = coordinator.responses
        raise
    return Decision(records=coordinator.records, response=response, resumed=coordinator.responses)


def _continued(
    broker: Broker, request: Request, coordinator: ConsumerGroupCoordinator
) -> ConsumerGroupHeartbeatResponse:
    body: ConsumerGroupHeartbeatRequest = request.body
    denied = partial(broker.denied_topics, request, Operation.DESCRIBE)
    beat = coordinator.heartbeat(_parsed(request, denied))
    return ConsumerGroupHeartbeatResponse(
        member_id=beat.after.member_id,
        member_epoch=beat.after.member_epoch,
        heartbeat_interval_ms=group_configs.heartbeat_interval_ms(broker, body.group_id),
        assignment=_assignment(beat) if _includes_assignment(body, beat) else None,
    )


def _check(broker: Broker, request: Request) -> None:
    """Refuse a heartbeat that never reaches its group."""
    body: ConsumerGroupHeartbeatRequest = request.body
    if not broker.has_feature(features.GROUP):
        raise Refused(Error.UNSUPPORTED_VERSION)
    if not broker.allows(request, Operation.READ, ResourceType.GROUP, body.group_id):
        raise Refused(Error.GROUP_AUTHORIZATION_FAILED)
    if broker.denied_topics(request, Operation.DESCRIBE, body.subscribed_topic_names or []):
        raise Refused(Error.TOPIC_AUTHORIZATION_FAILED)
    fault = _invalid(body, request.header.request_api_version)
    if fault is not None:
        raise Refused(Error.INVALID_REQUEST, fault)
    assignors = target_assignment.offered(broker)
    if body.server_assignor is not None and body.server_assignor not in assignors:
        supported = f"Supported assignors: {', '.join(assignors)}."
        fault = f"ServerAssignor {body.server_assignor} is not supported. {supported}"
        raise Refused(Error.UNSUPPORTED_ASSIGNOR, fault)
    error = coordinators.group_error(broker, body.group_id)
    if error is not Error.NONE:
        raise Refused(error)


def _invalid(body: ConsumerGroupHeartbeatRequest, version: int) -> str | None:
    """Return Kafka's message for an invalid request, or None."""
    epoch = body.member_epoch
    needs_id = version >= OWN_MEMBER_ID_SINCE or epoch > JOIN_EPOCH or epoch == LEAVE_EPOCH
    blank = modern_coordinator.blank_field(
        ("MemberId", body.member_id if needs_id else None),
        ("GroupId", body.group_id),
        ("InstanceId", body.instance_id),
        ("RackId", body.rack_id),
    )
    if blank is not None:
        return blank
    if epoch == STATIC_LEAVE_EPOCH and body.instance_id is None:
        return "InstanceId can't be null."
    if epoch < STATIC_LEAVE_EPOCH:
        return "MemberEpoch is invalid."
    return _invalid_join(body) if epoch == JOIN_EPOCH else None


def _invalid_join(body: ConsumerGroupHeartbeatRequest) -> str | None:
    if body.rebalance_timeout_ms == NO_TIMEOUT:
        return "RebalanceTimeoutMs must be provided in first request."
    if body.topic_partitions is None or body.topic_partitions:
        return "TopicPartitions must be empty when (re-)joining."
    if body.subscribed_topic_names is None and body.subscribed_topic_regex is None:
        fields = "Either SubscribedTopicNames or SubscribedTopicRegex"
        return f"{fields} must be non-null when (re-)joining."
    return None


def _parsed(request: Request, denied: Denied) -> ConsumerHeartbeat:
    body: ConsumerGroupHeartbeatRequest = request.body
    return ConsumerHeartbeat(
        member_id=body.member_id or modern_coordinator.new_member_id(request),
        member_epoch=body.member_epoch,
        instance_id=body.instance_id,
        rack_id=body.rack_id,
        rebalance_timeout_ms=body.rebalance_timeout_ms,
        topic_names=body.subscribed_topic_names,
        topic_regex=body.subscribed_topic_regex,
        server_assignor=body.server_assignor,
        owned=_owned(body.topic_partitions),
        client_id=request.header.client_id or "",
        client_host=f"/{request.host}",
        denied=denied,
        resolves_regexes=request.choices.resolves_regexes,
    )


def _owned(
    topics: list[ConsumerGroupHeartbeatTopicPartitions] | None,
) -> dict[Uuid, list[int]] | None:
    if topics is None:
        return None
    owned: dict[Uuid, list[int]] = {}
    for each in topics:
        owned.setdefault(each.topic_id, []).extend(each.partitions)
    return owned


def _includes_assignment(
    body: ConsumerGroupHeartbeatRequest, beat: ConsumerHeartbeatResult
) -> bool:
    names_topics = (body.subscribed_topic_names, body.subscribed_topic_regex) != (None, None)
    has_timeout = body.rebalance_timeout_ms != NO_TIMEOUT
    is_full = has_timeout and names_topics and body.topic_partitions is not None
    is_join = body.member_epoch == JOIN_EPOCH
    return is_join or is_full or beat.before.assigned != beat.after.assigned


def _assignment(beat: ConsumerHeartbeatResult) -> ConsumerGroupHeartbeatResponseAssignment:
    """Return the assignment in computed order, or in stored order."""
    assigned = beat.after.assigned
    is_stored = assigned is beat.before.assigned
    ordered = in_hash_order(assigned) if is_stored else {t: [*p] for t, p in assigned.items()}
    return ConsumerGroupHeartbeatResponseAssignment(
        topic_partitions=[
            ConsumerGroupHeartbeatTopicPartitions(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in ordered.items()
        ]
    )


API = Api(kafka_apis.CONSUMER_GROUP_HEARTBEAT, handle, earlier_writes=earlier_writes.of_heartbeat)
