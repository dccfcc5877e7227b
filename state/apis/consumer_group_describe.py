"""ConsumerGroupDescribe (key 69, versions 0 and 1): groups of the new protocol with their members.

Source: `GroupMetadataManager.consumerGroupDescribe`, `KafkaApis.handleConsumerGroupDescribe` in
Kafka; KIP-848, KIP-1043. What a group is refused with, in this order:

    the client may not DESCRIBE it                30 GROUP_AUTHORIZATION_FAILED
    group id ""                                   24 INVALID_GROUP_ID
    this broker does not coordinate it            16 NOT_COORDINATOR
    no such group                                 69 GROUP_ID_NOT_FOUND, "Group … not found."
    a classic group                               69, "Group … is not a consumer group."

Those with 30 come first in the answer, then those with 24, then the others by the partition of
`__consumer_offsets` that they belong to. Java's admin client takes 69 as the sign to ask again with
DescribeGroups, so classic groups are described.

Not done: groups of the new protocol themselves, as long as ConsumerGroupHeartbeat is not built.
"""

from typing import Annotated

from brokerstream.state.access.authorizer import Operation, ResourceType
from brokerstream.state.cluster import coordinators
from brokerstream.state.cluster.machines import Broker
from brokerstream.state.core.api import Api
from brokerstream.state.core.decision import Decision, Request
from brokerstream.state.core.errors import Error
from brokerstream.state.core.schema import Body, Int8, Int16, Int32, Uuid, since
from brokerstream.state.groups import groups

NOT_ASKED = -(2**31)


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
    described = [_describe(broker, each) for each in coordinators.in_partition_order(broker, asked)]
    return Decision(response=ConsumerGroupDescribeResponse(groups=denied + nameless + described))


def _describe(broker: Broker, group_id: str) -> DescribedGroup:
    error = coordinators.group_error(broker, group_id)
    if error is not Error.NONE:
        return _refused(group_id, error)
    is_known = groups.find(broker, group_id) is not None
    why = "is not a consumer group." if is_known else "not found."
    return _refused(group_id, Error.GROUP_ID_NOT_FOUND, f"Group {group_id} {why}")


def _refused(group_id: str, error: Error, message: str | None = None) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=error, error_message=message)


API = Api(69, "CONSUMER_GROUP_DESCRIBE", (0, 1), ConsumerGroupDescribeRequest, handle)
