"""DeleteGroups (key 42, versions 0 to 2): groups without members go, with their offsets.

Source: `GroupCoordinatorShard.deleteGroups`, `KafkaApis.handleDeleteGroupsRequest` in Kafka;
KIP-229. Each group has its own answer, in this order:

    the client may not DELETE the group           30 GROUP_AUTHORIZATION_FAILED
    this broker does not coordinate the group     16 NOT_COORDINATOR
    no such group                                 69 GROUP_ID_NOT_FOUND
    it has members                                68 NON_EMPTY_GROUP
    share coordinators cannot be asked            -1 UNKNOWN_SERVER_ERROR, once

Kafka waits for the share coordinators before a share group goes; here they are told. First it is
written that their states are to go, as in Kafka: after that they can be asked
(`share_states.is_odd`).

Offsets of open transactions go, too (`OffsetMetadataManager.deleteAllOffsets`): their markers find
nothing to commit.
"""

from brokertwin.state.access.authorizer import Operation, ResourceType
from brokertwin.state.cluster import coordinators
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Decision, Message, Request
from brokertwin.state.core.errors import Error
from brokertwin.state.core.records import OffsetDeleted, Record
from brokertwin.state.core.schema import Body, Int16, Int32
from brokertwin.state.groups import committed_offsets, groups, share_offsets, share_states
from brokertwin.state.groups.kinds import kind_of
from brokertwin.state.groups.share_group import ShareGroup
from brokertwin.state.transactions import transactional_offsets


class DeleteGroupsRequest(Body):
    """The groups that are to go."""

    groups_names: list[str]


class DeletedGroup(Body):
    """What became of a group."""

    group_id: str
    error_code: Int16


class DeleteGroupsResponse(Body, kw_only=True):
    """An answer for each group."""

    throttle_time_ms: Int32 = 0
    results: list[DeletedGroup]


def handle(broker: Broker, request: Request) -> Decision:
    """Deletes what may be deleted."""
    body: DeleteGroupsRequest = request.body
    records: list[Record] = []
    messages: list[Message] = []
    results = []
    for group_id in dict.fromkeys(body.groups_names):
        error = _error(broker, request, group_id)
        group = groups.find(broker, group_id) if error is Error.NONE else None
        if isinstance(group, ShareGroup) and share_states.is_odd(group):
            error = Error.UNKNOWN_SERVER_ERROR
            records.extend(share_offsets.deleting_all(broker, group))
        results.append(DeletedGroup(group_id=group_id, error_code=error))
        if error is Error.NONE:
            records.extend(_tombstones(broker, group_id))
            messages.extend(_deletions(broker, group_id))
    response = DeleteGroupsResponse(results=results)
    return Decision(records=records, response=response, messages=messages)


def _deletions(broker: Broker, group_id: str) -> list[Message]:
    """What is told to the share coordinators of a share group."""
    group = groups.find(broker, group_id)
    return share_states.deletions(broker, group) if isinstance(group, ShareGroup) else []


def _error(broker: Broker, request: Request, group_id: str) -> Error:
    if not broker.allows(request, Operation.DELETE, ResourceType.GROUP, group_id):
        return Error.GROUP_AUTHORIZATION_FAILED
    error = coordinators.group_error(broker, group_id)
    if error is not Error.NONE:
        return error
    group = groups.find(broker, group_id)
    return Error.GROUP_ID_NOT_FOUND if group is None else kind_of(group).delete_error(group)


def _tombstones(broker: Broker, group_id: str) -> list[Record]:
    table = broker.tables.groups
    offsets = committed_offsets.partitions_of(table, broker.id, group_id)
    committed = [(topic, partition) for topic, partitions in offsets for partition in partitions]
    pending = transactional_offsets.unstable(table, broker.id, group_id) - set(committed)
    deleted: list[Record] = [
        OffsetDeleted(group_id, topic, partition)
        for topic, partition in [*committed, *sorted(pending)]
    ]
    group = groups.find(broker, group_id)
    assert group is not None, group_id
    if isinstance(group, ShareGroup):
        deleted += share_offsets.deleting_all(broker, group)
    return [*deleted, *kind_of(group).tombstones(group)]


API = Api(42, "DELETE_GROUPS", (0, 2), DeleteGroupsRequest, handle)
