"""ConsumerGroupDescribe (key 69, versions 0 and 1): groups of the new protocol with their members.

Source: `GroupMetadataManager.consumerGroupDescribe`, `KafkaApis.handleConsumerGroupDescribe` in
Kafka; KIP-848, KIP-1043. What a group is refused with, in this order:

    the client may not DESCRIBE it                30 GROUP_AUTHORIZATION_FAILED
    group id ""                                   24 INVALID_GROUP_ID
    this broker does not coordinate it            16 NOT_COORDINATOR
    no such group                                 69 GROUP_ID_NOT_FOUND, "Group … not found."
    a classic group                               69, "Group … is not a consumer group."
    a topic that the client may not DESCRIBE      29 TOPIC_AUTHORIZATION_FAILED, for the whole group

Those with 30 come first in the answer, then those with 24, then the others by the partition of
`__consumer_offsets` that they belong to. Java's admin client takes 69 as the sign to ask again with
DescribeGroups, so classic groups are described. What a member is to give back is still assigned to
it; partitions of topics that are deleted are not shown.
"""

from typing import Annotated

from brokerstream.state.access.authorizer import Operation, ResourceType
from brokerstream.state.cluster import coordinators, features
from brokerstream.state.cluster.machines import Broker
from brokerstream.state.core.api import Api
from brokerstream.state.core.decision import Decision, Request
from brokerstream.state.core.errors import Error
from brokerstream.state.core.schema import Body, Int8, Int16, Int32, Uuid, since
from brokerstream.state.groups import groups, subscriptions, target_assignment
from brokerstream.state.groups.assignments import Target, in_hash_order
from brokerstream.state.groups.consumer_group import ConsumerGroup, ConsumerMember

NOT_ASKED = -(2**31)
CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1


class ConsumerGroupDescribeRequest(Body):
    """The groups that are asked for."""

    group_ids: list[str]
    include_authorized_operations: bool = False


class TopicPartitions(Body):
    """Partitions of a topic."""

    topic_id: Uuid
    topic_name: str
    partitions: list[Int32]


class Assignment(Body):
    """What is assigned to a member."""

    topic_partitions: list[TopicPartitions] = []


class DescribedMember(Body, kw_only=True):
    """A member; `member_type` is 0 for a classic one, 1 for one of the new protocol."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    member_epoch: Int32
    client_id: str
    client_host: str
    subscribed_topic_names: list[str]
    subscribed_topic_regex: str | None = None
    assignment: Assignment
    target_assignment: Assignment
    member_type: Annotated[Int8, since(1)] = -1


class DescribedGroup(Body, kw_only=True):
    """A group, or its error."""

    error_code: Int16 = 0
    error_message: str | None = None
    group_id: str
    group_state: str = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    assignor_name: str = ""
    members: list[DescribedMember] = []
    authorized_operations: Int32 = NOT_ASKED


class ConsumerGroupDescribeResponse(Body, kw_only=True):
    """The groups, those that are refused at once first."""

    throttle_time_ms: Int32 = 0
    groups: list[DescribedGroup]


def handle(broker: Broker, request: Request) -> Decision:
    """Reads; nothing changes."""
    body: ConsumerGroupDescribeRequest = request.body
    if not broker.has_feature(features.GROUP):
        refused = [_refused(each, Error.UNSUPPORTED_VERSION) for each in body.group_ids]
        return Decision(response=ConsumerGroupDescribeResponse(groups=refused))
    denied: list[DescribedGroup] = []
    nameless: list[DescribedGroup] = []
    asked: list[str] = []
    for group_id in body.group_ids:
        if not broker.allows(request, Operation.DESCRIBE, ResourceType.GROUP, group_id):
            denied.append(_refused(group_id, Error.GROUP_AUTHORIZATION_FAILED))
        elif not group_id:
            nameless.append(_refused(group_id, Error.INVALID_GROUP_ID))
        else:
            asked.append(group_id)
    ordered = coordinators.in_partition_order(broker, asked)
    described = [_describe(broker, request, each) for each in ordered]
    return Decision(response=ConsumerGroupDescribeResponse(groups=denied + nameless + described))


def _describe(broker: Broker, request: Request, group_id: str) -> DescribedGroup:
    error = coordinators.group_error(broker, group_id)
    if error is not Error.NONE:
        return _refused(group_id, error)
    group = groups.find(broker, group_id)
    if not isinstance(group, ConsumerGroup):
        why = "not found." if group is None else "is not a consumer group."
        return _refused(group_id, Error.GROUP_ID_NOT_FOUND, f"Group {group_id} {why}")
    described = _of(broker, group)
    if broker.denied_topics(request, Operation.DESCRIBE, _topics_in(described)):
        why = "The group has described topic(s) that the client is not authorized to describe."
        return _refused(group_id, Error.TOPIC_AUTHORIZATION_FAILED, why)
    if request.body.include_authorized_operations:
        described.authorized_operations = broker.authorized_operations(
            request, ResourceType.GROUP, group_id
        )
    return described


def _of(broker: Broker, group: ConsumerGroup) -> DescribedGroup:
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor(target_assignment.offered(broker)[0]),
        members=[_member(broker, group, member) for member in group.in_order()],
    )


def _member(broker: Broker, group: ConsumerGroup, member: ConsumerMember) -> DescribedMember:
    return DescribedMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=subscriptions.in_order(member.subscribed_topic_names),
        subscribed_topic_regex=member.subscribed_topic_regex,
        assignment=_assignment(broker, in_hash_order(member.assigned, member.pending_revocation)),
        target_assignment=_assignment(
            broker, in_hash_order(group.target.get(member.member_id, {}))
        ),
        member_type=CLASSIC_MEMBER if member.uses_classic_protocol else CONSUMER_MEMBER,
    )


def _assignment(broker: Broker, partitions: Target) -> Assignment:
    """Partitions by topic, of topics that are there."""
    topics = {topic_id: broker.topic_by_id(topic_id) for topic_id in partitions}
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=numbers)
            for topic_id, numbers in partitions.items()
            if (topic := topics[topic_id]) is not None
        ]
    )


def _topics_in(described: DescribedGroup) -> set[str]:
    return {
        place.topic_name
        for member in described.members
        for assignment in (member.assignment, member.target_assignment)
        for place in assignment.topic_partitions
    }


def _refused(group_id: str, error: Error, message: str | None = None) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=error, error_message=message)


API = Api(69, "CONSUMER_GROUP_DESCRIBE", (0, 1), ConsumerGroupDescribeRequest, handle)
