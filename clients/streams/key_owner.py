"""Which instance has a key of a store: asked by any instance, of what the leader told all.

Source: `StreamsMetadataState.keyQueryMetadataForKey` in Kafka; KIP-67, KIP-535. A key's partition
is murmur2 over the tasks of the store's sub-topology, as that of the records which its processors
get; the instance that runs the task is asked, and while it restores those that have copies may be.
"""

from typing import NamedTuple

from brokertwin.clients.streams.layout import Layout, TaskId
from brokertwin.clients.streams.streams_protocol import AssignmentInfo, HostInfo, Hosts
from brokertwin.state.core.murmur2 import partition_of


class KeyOwner(NamedTuple):
    """Where a key's value is; `active` is None where the task runs in nobody who can be asked."""

    task: TaskId
    active: HostInfo | None
    standby: list[HostInfo]


def store_owners(layout: Layout, info: AssignmentInfo, store: str) -> list[KeyOwner]:
    """Where a store is, task by task; nowhere where there is no such store."""
    if store not in layout.changelogs:
        return []
    number, _ = layout.changelogs[store]
    tasks = sorted(task for task in layout.tasks if task.sub_topology == number)
    return [_owner(layout, info, task) for task in tasks]


def key_owner(layout: Layout, info: AssignmentInfo, store: str, key: bytes) -> KeyOwner | None:
    """None where there is no such store."""
    owners = store_owners(layout, info, store)
    return owners[partition_of(key, len(owners))] if owners else None


def _owner(layout: Layout, info: AssignmentInfo, task: TaskId) -> KeyOwner:
    active = _having(info.hosts, layout, task)
    return KeyOwner(task, active[0] if active else None, _having(info.standby_hosts, layout, task))


def _having(hosts: Hosts, layout: Layout, task: TaskId) -> list[HostInfo]:
    wanted = set(layout.tasks[task])
    return [host for host, partitions in hosts.items() if wanted & set(partitions)]
