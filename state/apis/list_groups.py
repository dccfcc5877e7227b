"""ListGroups (key 16, versions 0 to 5): the groups that this broker coordinates.

Source: `GroupMetadataManager.listGroups`, `KafkaApis.handleListGroupsRequest` in Kafka; KIP-518,
KIP-848. Without DESCRIBE on the cluster only groups that the client may DESCRIBE are listed.
States and types are compared without regard to case; an unknown one matches nothing.
"""

from typing import Annotated

from brokertwin.state.access.authorizer import Operation, ResourceType
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core import kafka_apis
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.core.schema import Body, Int16, Int32, since
from brokertwin.state.groups import groups
from brokertwin.state.groups.kinds import kind_of


class ListGroupsRequest(Body):
    """Filters; an empty one lets everything through."""

    states_filter: Annotated[list[str], since(4)] = []
    types_filter: Annotated[list[str], since(5)] = []


class ListedGroup(Body, kw_only=True):
    """A group; a protocol type "" is that of one that only commits."""

    group_id: str
    protocol_type: str
    group_state: Annotated[str, since(4)] = ""
    group_type: Annotated[str, since(5)] = ""


class ListGroupsResponse(Body, kw_only=True):
    """The groups, by id."""

    throttle_time_ms: Annotated[Int32, since(1)] = 0
    error_code: Int16 = 0
    groups: list[ListedGroup]


def handle(broker: Broker, request: Request) -> Decision:
    """Reads; nothing changes."""
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


API = Api(kafka_apis.LIST_GROUPS, ListGroupsRequest, handle)
