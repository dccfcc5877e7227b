"""The instance that has a key, from the leader's last assignment.

Source: `StreamsMetadataState.keyQueryMetadataForKey` in Kafka; KIP-67, KIP-535. A key's partition
is murmur2 over the tasks of the store's sub-topology, like that of its records. The instance that
runs the task has the key. While it restores, standby instances may be queried.
"""

from typing import NamedTuple

from brokertwin.clients.streams.layout import Layout, TaskId
from brokertwin.clients.streams.streams_protocol import AssignmentInfo, HostInfo, Hosts
from brokertwin.state.core.murmur2 import partition_of


class KeyOwner(NamedTuple):
    """The instances of a key; `active` is None without an endpoint."""

    task: TaskId
    active: HostInfo | None
    standby: list[HostInfo]


def store_owners(layout: Layout, info: AssignmentInfo, store: str) -> list[KeyOwner]:
    """The owners of a store, by task; empty if the store does not exist."""
    if store not in layout.changelogs:
        return []
    number, _ = layout.changelogs[store]
    tasks = sorted(task for task in layout.tasks if task.sub_topology == number)
    return [_owner(layout, info, task) for task in tasks]


def key_owner(layout: Layout, info: AssignmentInfo, store: str, key: bytes) -> KeyOwner | None:
    """The owner of a key; None if the store does not exist."""
    owners = store_owners(layout, info, store)
    return owners[partition_of(key, len(owners))] if owners else None


def _owner(layout: Layout, info: AssignmentInfo, task: TaskId) -> KeyOwner:
    active = _having(info.hosts, layout, task)
    return KeyOwner(task, active[0] if active else None, _having(info.standby_hosts, layout, task))


def _having(hosts: Hosts, layout: Layout, task: TaskId) -> list[HostInfo]:
    task_partitions = set(layout.tasks[task])
    return [host for host, partitions in hosts.items() if task_partitions & set(partitions)]
