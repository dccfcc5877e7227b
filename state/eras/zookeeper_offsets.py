"""Committed offsets in ZooKeeper, as before Kafka had group coordinators.

Source: seed 003; `ZookeeperOffsetManager` in Kafka 0.8. Enabled by `brokertwin.offset.storage`
zookeeper.

The nodes have the paths of `path`; here the controller's machine stores them.

    OffsetCommit, OffsetFetch     any broker accepts them from any client: no loading, no wait for
                                  followers, no check of the generation
    OffsetDelete, DeleteGroups    the group's coordinator checks the members, then the controller
                                  deletes the nodes

An offset expires by its age alone. A group's node is deleted with its last offset.

A broker forwards a request, and the client's request stays pending. `ToZookeeper` in each API has
the results so far.
"""

from collections.abc import Iterable

import msgspec

from brokertwin.protocol.bodies import Body
from brokertwin.protocol.errors import NONE, Error
from brokertwin.protocol.generated.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from brokertwin.protocol.generated.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from brokertwin.state.cluster import coordinators
from brokertwin.state.cluster.machines import Broker, Machine
from brokertwin.state.core.decision import CONTROLLER, Condition, Decision, Message
from brokertwin.state.core.records import Record
from brokertwin.state.groups import committed_offsets


def path(group_id: str, topic: str, partition: int) -> str:
    return f"/consumers/{group_id}/offsets/{topic}/{partition}"


def is_enabled(machine: Machine) -> bool:
    return machine.settings.brokertwin_offset_storage == "zookeeper"


def offset_store(machine: Machine, group_id: str) -> int | None:
    """The machine with a group's offsets: its coordinator, or the controller as ZooKeeper.

    None if the group has no coordinator.
    """
    if is_enabled(machine):
        return CONTROLLER
    coordinator = coordinators.coordinator_of(machine, coordinators.GROUP_TOPIC, group_id)
    return None if coordinator == coordinators.NO_LEADER else coordinator


def offset_store_error(machine: Machine, group_id: str) -> Error:
    """Why `machine` cannot read a group's offsets: see `coordinators.group_error`."""
    return NONE if is_enabled(machine) else coordinators.group_error(machine, group_id)


def forward(
    broker: Broker,
    api_key: int,
    body: Body,
    timeout_ms: int,
    state: msgspec.Struct,
    version: int | None = None,
) -> Decision:
    """Send a request to ZooKeeper; `state` is needed later to build the client's response."""
    message = Message(broker.id, CONTROLLER, api_key, body, version=version)
    deadline = broker.event_time + timeout_ms
    return Decision(
        condition=Condition(deadline, [], msgspec.msgpack.encode(state)), messages=[message]
    )


def delete_offsets(controller: Machine, body: OffsetDeleteRequest) -> Decision:
    """Delete the nodes of some of a group's partitions."""
    stored = committed_offsets.tombstones(controller, body.group_id)
    requested = {
        (topic.name, each.partition_index) for topic in body.topics for each in topic.partitions
    }
    gone: list[Record] = [each for each in stored if (each.topic, each.partition) in requested]
    error = Error.NONE if stored else Error.GROUP_ID_NOT_FOUND
    return Decision(records=gone, response=OffsetDeleteResponse(error_code=error))


def delete_groups(controller: Machine, group_ids: Iterable[str]) -> Decision:
    records: list[Record] = []
    results = []
    for group_id in group_ids:
        gone = committed_offsets.tombstones(controller, group_id)
        error = Error.NONE if gone else Error.GROUP_ID_NOT_FOUND
        results.append(DeletableGroupResult(group_id=group_id, error_code=error))
        records += gone
    return Decision(records=records, response=DeleteGroupsResponse(results=results))
