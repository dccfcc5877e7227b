"""DeleteGroups (key 42, versions 0 to 2): delete groups without members.

Deletes their offsets, too. Source: `GroupCoordinatorShard.deleteGroups`,
`KafkaApis.handleDeleteGroupsRequest` in Kafka; KIP-229. The errors of each group, in this order:

    no DELETE on the group                        30 GROUP_AUTHORIZATION_FAILED
    this broker does not coordinate the group     16 NOT_COORDINATOR
    missing group                                 69 GROUP_ID_NOT_FOUND
    the group has members                         68 NON_EMPTY_GROUP
    its share states cannot be deleted            -1 UNKNOWN_SERVER_ERROR, once

Kafka waits for the share coordinators before it deletes a share group; here they are only notified.
As in Kafka, a record first marks the group's states as deleted; after that record the request
succeeds (`share_states.has_invalid_partitions`).

If ZooKeeper stores the offsets, the controller first deletes the nodes of the groups. A group that
has only a node is deleted without an error. The error is `15 COORDINATOR_NOT_AVAILABLE` if the
controller does not respond in time.

Uncommitted offsets of transactions are deleted, too (`OffsetMetadataManager.deleteAllOffsets`), so
that a later end marker commits nothing.
"""

from collections.abc import Collection

import msgspec

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from brokertwin.state.access.authorizer import Operation, ResourceType
from brokertwin.state.apis import earlier_writes, uncommitted
from brokertwin.state.cluster import coordinators
from brokertwin.state.cluster.machines import Broker, Machine
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Decision, Message, PendingRequest, Request
from brokertwin.state.core.records import OffsetDeleted, Record
from brokertwin.state.core.tables import decode_item
from brokertwin.state.eras import zookeeper_offsets
from brokertwin.state.groups import committed_offsets, groups, share_offsets, share_states
from brokertwin.state.groups.kinds import kind_of
from brokertwin.state.groups.share_group import ShareGroup
from brokertwin.state.transactions import transactional_offsets

_MAY_HAVE_NODE = (Error.NONE, Error.GROUP_ID_NOT_FOUND)
"""Results of groups that may still have a node in ZooKeeper."""


class PendingGroupDeletions(msgspec.Struct):
    """Results of the group coordinator, pending deletion by ZooKeeper."""

    errors: dict[str, Error]


def handle(machine: Machine, request: Request) -> Decision:
    """Delete the eligible groups, in ZooKeeper through the controller."""
    body: DeleteGroupsRequest = request.body
    names = dict.fromkeys(body.groups_names)
    if not isinstance(machine, Broker):
        return zookeeper_offsets.delete_groups(machine, names)
    errors = {group_id: _error(machine, request, group_id) for group_id in names}
    may_have_node = [group_id for group_id, error in errors.items() if error in _MAY_HAVE_NODE]
    if not may_have_node or not zookeeper_offsets.is_enabled(machine):
        return _delete(machine, errors)
    nodes_request = DeleteGroupsRequest(groups_names=may_have_node)
    timeout_ms = machine.settings.request_timeout_ms
    return zookeeper_offsets.forward(
        machine, API.key, nodes_request, timeout_ms, PendingGroupDeletions(errors)
    )


def resume(
    broker: Broker, waiting: PendingRequest, _message: Message, response: DeleteGroupsResponse
) -> Decision:
    nodes = {each.group_id for each in response.results if each.error_code == Error.NONE}
    return _delete(broker, decode_item(waiting.state, PendingGroupDeletions).errors, nodes)


def complete(_broker: Broker, waiting: PendingRequest) -> Decision:
    """Respond when the controller has exceeded the request timeout."""
    errors = decode_item(waiting.state, PendingGroupDeletions).errors
    results = []
    for group_id, error in errors.items():
        code = Error.COORDINATOR_NOT_AVAILABLE if error in _MAY_HAVE_NODE else error
        results.append(DeletableGroupResult(group_id=group_id, error_code=code))
    return Decision(response=DeleteGroupsResponse(results=results))


def _delete(
    broker: Broker, errors: dict[str, Error], nodes: Collection[str] = frozenset()
) -> Decision:
    """Delete groups without an error; `nodes` had a node in ZooKeeper."""
    records: list[Record] = []
    messages: list[Message] = []
    results = []
    for group_id, error in errors.items():
        group = groups.find(broker, group_id) if error is Error.NONE else None
        if group is None and group_id in nodes:
            results.append(DeletableGroupResult(group_id=group_id, error_code=Error.NONE))
            continue
        if isinstance(group, ShareGroup) and share_states.has_invalid_partitions(group):
            error = Error.UNKNOWN_SERVER_ERROR
            records.extend(share_offsets.start_deleting_all(broker, group))
        results.append(DeletableGroupResult(group_id=group_id, error_code=error))
        if error is Error.NONE:
            records.extend(_tombstones(broker, group_id))
            messages.extend(_deletions(broker, group_id))
    response = DeleteGroupsResponse(results=results)
    return Decision(records=records, response=response, messages=messages)


def _deletions(broker: Broker, group_id: str) -> list[Message]:
    group = groups.find(broker, group_id)
    return share_states.delete_requests(broker, group) if isinstance(group, ShareGroup) else []


def _error(broker: Broker, request: Request, group_id: str) -> Error:
    if not broker.allows(request, Operation.DELETE, ResourceType.GROUP, group_id):
        return Error.GROUP_AUTHORIZATION_FAILED
    error = coordinators.group_error(broker, group_id)
    if error is not Error.NONE:
        return error
    group = groups.find(broker, group_id)
    return Error.GROUP_ID_NOT_FOUND if group is None else kind_of(group).delete_error(group)


def _tombstones(broker: Broker, group_id: str) -> list[Record]:
    committed = committed_offsets.tombstones(broker, group_id)
    places = {(each.topic, each.partition) for each in committed}
    pending = transactional_offsets.unstable(broker, group_id) - places
    deleted: list[Record] = [*committed, *(OffsetDeleted(group_id, *at) for at in sorted(pending))]
    group = groups.find(broker, group_id)
    assert group is not None, group_id
    if isinstance(group, ShareGroup):
        deleted += share_offsets.start_deleting_all(broker, group)
    return [*deleted, *kind_of(group).tombstones(group)]


API: Api = Api(
    kafka_apis.DELETE_GROUPS,
    handle,
    resume=resume,
    complete=complete,
    earlier_writes=earlier_writes.of_deleted_groups,
    results=uncommitted.RESULTS_OF_GROUPS,
)
