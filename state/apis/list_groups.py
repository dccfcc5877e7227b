"""ListGroups (key 16, versions 0 to 5): list the groups of this broker.

Source: `GroupMetadataManager.listGroups`, `KafkaApis.handleListGroupsRequest` in Kafka; KIP-518,
KIP-848. Without DESCRIBE on the cluster, the list has only groups that the client may DESCRIBE.
States and types are case-insensitive; an unknown one matches nothing.
"""

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.generated.list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from brokertwin.state.access.authorizer import Operation, ResourceType
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.groups import groups
from brokertwin.state.groups.kinds import kind_of


def handle(broker: Broker, request: Request) -> Decision:
    """Respond without writing records."""
    body: ListGroupsRequest = request.body
    states = {state.lower() for state in body.states_filter}
    types = {kind.lower() for kind in body.types_filter}
    sees_all = broker.allows_cluster(request, Operation.DESCRIBE)
    listed = [
        ListedGroup(
            group_id=group.group_id,
            protocol_type=group.protocol_type or "",
            group_state=group.state,
            group_type=kind_of(group).name,
        )
        for group in groups.all_groups(broker)
        if (not states or group.state.lower() in states)
        and (not types or kind_of(group).name in types)
        and (
            sees_all
            or broker.allows(request, Operation.DESCRIBE, ResourceType.GROUP, group.group_id)
        )
    ]
    return Decision(response=ListGroupsResponse(groups=listed))


API = Api(kafka_apis.LIST_GROUPS, handle)
