"""Committed offsets in ZooKeeper, as before Kafka had group coordinators.

Source: seed 003; `ZookeeperOffsetManager` in Kafka 0.8. Enabled by `brokertwin.offset.storage`
zookeeper.

The nodes are /consumers/GROUP/offsets/TOPIC/PARTITION; here the controller's machine stores them.

    OffsetCommit, OffsetFetch     any broker accepts them from any client: no loading, no wait for
                                  followers, no check of the generation
    OffsetDelete, DeleteGroups    the group's coordinator checks the members, then the controller
                                  deletes the nodes

An offset expires by its age alone. A group's node is deleted with its last offset.
"""

from brokertwin.state.cluster import coordinators
from brokertwin.state.cluster.machines import Machine
from brokertwin.state.core.decision import CONTROLLER
from brokertwin.state.core.errors import NONE, Error


def is_enabled(machine: Machine) -> bool:
    """True if ZooKeeper stores the committed offsets."""
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
