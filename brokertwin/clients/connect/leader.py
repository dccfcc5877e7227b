"""Assignment by the leader of a group of workers.

Source: `WorkerCoordinator.onLeaderElected`, `EagerAssignor`, `IncrementalCooperativeAssignor` in
Kafka Connect. The leader assigns by the newest configuration that any worker has read. A leader
that has not read it itself sends CONFIG_MISMATCH, and all workers rejoin.
"""

from collections.abc import Iterable, Mapping
from itertools import cycle

import msgspec
from msgspec.structs import replace

from brokertwin.clients.assignors.group import NO_GENERATION
from brokertwin.clients.connect.connect_protocol import (
    Assignment,
    AssignmentError,
    ConnectProtocol,
    WorkerState,
    decode_state,
    encode_assignment,
)
from brokertwin.clients.connect.cooperative_assignor import MAX_DELAY_MS, CooperativeAssignor
from brokertwin.clients.connect.work import ConnectTaskId, connectors_first


class KnownConfigs(msgspec.Struct, frozen=True):
    """How far a worker has read the config topic, and the tasks found."""

    offset: int = -1
    task_counts: dict[str, int] = {}

    @property
    def work(self) -> list[ConnectTaskId]:
        """All connectors in order, then all tasks."""
        names = sorted(self.task_counts)
        tasks = [ConnectTaskId(name, at) for name in names for at in range(self.task_counts[name])]
        return [*map(ConnectTaskId, names), *tasks]


class ConnectLeader:
    """The leader role of a worker; remembers earlier assignments."""

    def __init__(self, max_delay_ms: int = MAX_DELAY_MS) -> None:
        self._cooperative = CooperativeAssignor(max_delay_ms)

    def assign(
        self,
        now: int,
        protocol: ConnectProtocol,
        leader: str,
        members: Mapping[str, bytes],
        configs: KnownConfigs,
        *,
        generation: int,
        last_completed: int = NO_GENERATION,
    ) -> dict[str, bytes]:
        states = {member: decode_state(data) for member, data in members.items()}
        offset = max(state.config_offset for state in states.values())
        base = Assignment(
            version=protocol.version,
            leader=leader,
            leader_url=states[leader].url,
            config_offset=max(offset, configs.offset),
        )
        if configs.offset < offset:
            failed = replace(base, error=AssignmentError.CONFIG_MISMATCH)
            return dict.fromkeys(members, encode_assignment(failed, protocol))
        if protocol is ConnectProtocol.EAGER:
            tasks = assign_eagerly(configs.work, members)
            made = {m: replace(base, assigned=tuple(items)) for m, items in tasks.items()}
        else:
            made = self._cooperatively(now, base, states, configs, generation, last_completed)
        return {member: encode_assignment(each, protocol) for member, each in made.items()}

    def _cooperatively(
        self,
        now: int,
        base: Assignment,
        states: Mapping[str, WorkerState],
        configs: KnownConfigs,
        generation: int,
        last_completed: int,
    ) -> dict[str, Assignment]:
        running = {m: s.assignment.assigned if s.assignment else () for m, s in states.items()}
        assignments = self._cooperative.assign(
            now, configs.work, running, generation=generation, last_completed=last_completed
        )
        return {
            member: replace(
                base,
                assigned=tuple(assignments.assigned[member]),
                revoked=tuple(assignments.revoked[member]),
                delay_ms=assignments.delay_ms,
            )
            for member in states
        }


def assign_eagerly(
    configured: Iterable[ConnectTaskId], members: Iterable[str]
) -> dict[str, list[ConnectTaskId]]:
    """Deal out all connectors, then all tasks, to the workers in turn."""
    tasks: dict[str, list[ConnectTaskId]] = {member: [] for member in sorted(members)}
    for item, member in zip(connectors_first(sorted(configured)), cycle(tasks), strict=False):
        tasks[member].append(item)
    return tasks
