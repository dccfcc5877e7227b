"""DescribeGroups (key 15, versions 0 to 6): describe classic groups.

Source: `GroupMetadataManager.describeGroups`, `KafkaApis.handleDescribeGroupsRequest` in Kafka;
KIP-345, KIP-430, KIP-1043.

    no DESCRIBE on the group            30 GROUP_AUTHORIZATION_FAILED
    missing group, or another type      state "Dead"; from version 6 also 69 GROUP_ID_NOT_FOUND
                                        with a message

Only stable groups have metadata and a protocol. Denied groups come first, the others in the order
of their partitions of `__consumer_offsets`.
"""

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.describe_groups import (
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    DescribeGroupsResponseDescribedGroup,
)
from brokertwin.state.access.authorizer import Operation, ResourceType
from brokertwin.state.cluster import coordinators
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.groups import groups
from brokertwin.state.groups.classic_group import ClassicGroup, ClassicGroupState

NOT_FOUND_SINCE = 6
DEAD = "Dead"


def handle(broker: Broker, request: Request) -> Decision:
    """Describe the groups without changing any state."""
    body: DescribeGroupsRequest = request.body
    described = []
    allowed = []
    for group_id in body.groups:
        if broker.allows(request, Operation.DESCRIBE, ResourceType.GROUP, group_id):
            allowed.append(group_id)
        else:
            error = Error.GROUP_AUTHORIZATION_FAILED
            described.append(
                DescribeGroupsResponseDescribedGroup(group_id=group_id, error_code=error)
            )
    ordered = coordinators.in_partition_order(broker, allowed)
    described.extend(_describe(broker, request, group_id) for group_id in ordered)
    return Decision(response=DescribeGroupsResponse(groups=described))


def _describe(
    broker: Broker, request: Request, group_id: str
) -> DescribeGroupsResponseDescribedGroup:
    error = coordinators.group_error(broker, group_id)
    if error is not Error.NONE:
        return DescribeGroupsResponseDescribedGroup(group_id=group_id, error_code=error)
    group = groups.find_if_stored(broker, group_id)
    if isinstance(group, ClassicGroup):
        described = _of(group)
    else:
        why = "not found." if group is None else "is not a classic group."
        described = _missing(group_id, why, request.version)
    if request.body.include_authorized_operations and described.error_code == 0:
        described.authorized_operations = broker.authorized_operations(
            request, ResourceType.GROUP, group_id
        )
    return described


def _missing(group_id: str, why: str, version: int) -> DescribeGroupsResponseDescribedGroup:
    described = DescribeGroupsResponseDescribedGroup(group_id=group_id, group_state=DEAD)
    if version >= NOT_FOUND_SINCE:
        described.error_code = Error.GROUP_ID_NOT_FOUND
        described.error_message = f"Group {group_id} {why}"
    return described


def _of(group: ClassicGroup) -> DescribeGroupsResponseDescribedGroup:
    protocol = group.protocol_name if group.state is ClassicGroupState.STABLE else None
    return DescribeGroupsResponseDescribedGroup(
        group_id=group.group_id,
        group_state=group.state,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol or "",
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata(protocol) if protocol is not None else "",
                member_assignment=member.assignment,
            )
            for member in group.in_hash_order()
        ],
    )


API = Api(kafka_apis.DESCRIBE_GROUPS, handle)
