"""The bytes in which Connect's workers tell each other what they run and what they get.

Source: KIP-415, KIP-507; `ConnectProtocol`, `IncrementalCooperativeConnectProtocol` in Kafka
Connect. Version 0 is `default` (eager), 1 `compatible`, 2 `sessioned`, which is 1 with signed
requests between workers; a group takes the newest that all its members speak.
"""

from collections.abc import Iterable
from enum import IntEnum, StrEnum

import msgspec

from brokertwin.clients.connect.work import TaskId, connectors_first
from brokertwin.state.core.java_hashes import hash_order
from brokertwin.state.core.wire.generated.connect_protocol import (
    ConnectAssignment,
    ConnectorTasks,
    ConnectWorkerState,
)
from brokertwin.state.core.wire.primitives import Reader

NO_DELAY = 0


class Protocol(StrEnum):
    """By the names in JoinGroup."""

    EAGER = "default"
    COMPATIBLE = "compatible"
    SESSIONED = "sessioned"

    @property
    def version(self) -> int:
        """What its bytes begin with."""
        return list(Protocol).index(self)

    @property
    def spoken(self) -> list["Protocol"]:
        """What a worker with it names when it joins, most wanted first."""
        return list(Protocol)[self.version :: -1]


class AssignmentError(IntEnum):
    """Whether there is an assignment."""

    NO_ERROR = 0
    CONFIG_MISMATCH = 1


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker gets; with protocols that are not eager, what is new and what is taken away.

    Attributes:
        config_offset: behind the last record of the config topic that it was made from.
        delay_ms: after which the worker joins again; 0 where it need not.
    """

    version: int = 0
    error: int = AssignmentError.NO_ERROR
    leader: str = ""
    leader_url: str = ""
    config_offset: int = -1
    assigned: tuple[TaskId, ...] = ()
    revoked: tuple[TaskId, ...] = ()
    delay_ms: int = NO_DELAY

    @property
    def has_failed(self) -> bool:
        """Whether the leader could not assign."""
        return self.error != AssignmentError.NO_ERROR


class WorkerState(msgspec.Struct, frozen=True):
    """What a worker says when it joins: where it is reached, what it knows, what it runs."""

    url: str
    config_offset: int
    assignment: Assignment | None = None


def encode_state(state: WorkerState, protocol: Protocol) -> bytes:
    """What a worker says under one of its protocols."""
    assignment = state.assignment
    return ConnectWorkerState(
        url=state.url,
        config_offset=state.config_offset,
        allocation=None if assignment is None else encode_assignment(assignment, protocol),
    ).encoded(protocol.version)


def decode_state(data: bytes) -> WorkerState:
    """What a worker says. Raises ValueError for other bytes."""
    found = ConnectWorkerState.parsed(data)
    inner = found.allocation
    assignment = None if inner is None else decode_assignment(inner)
    return WorkerState(found.url, found.config_offset, assignment)


def encode_assignment(assignment: Assignment, protocol: Protocol) -> bytes:
    """An assignment; the eager protocol has no delay and no revoked items."""
    connectors = [item.connector for item in assignment.assigned if item.is_connector]
    tasks = [item for item in assignment.assigned if not item.is_connector]
    in_order = [TaskId(name) for name in hash_order(connectors, len(connectors))]
    return ConnectAssignment(
        error=assignment.error,
        leader=assignment.leader,
        leader_url=assignment.leader_url,
        config_offset=assignment.config_offset,
        assignment=_by_connector([*in_order, *tasks]),
        revoked=_by_connector(connectors_first(assignment.revoked)),
        scheduled_delay=assignment.delay_ms,
    ).encoded(protocol.version)


def decode_assignment(data: bytes) -> Assignment:
    """An assignment. Raises ValueError for other bytes."""
    found = ConnectAssignment.parsed(data)
    return Assignment(
        version=Reader(data).int16(),
        error=found.error,
        leader=found.leader,
        leader_url=found.leader_url,
        config_offset=found.config_offset,
        assigned=_items(found.assignment),
        revoked=_items(found.revoked),
        delay_ms=found.scheduled_delay,
    )


def _by_connector(items: Iterable[TaskId]) -> list[ConnectorTasks]:
    by_connector: dict[str, list[int]] = {}
    for connector, task in items:
        by_connector.setdefault(connector, []).append(task)
    return [ConnectorTasks(*each) for each in by_connector.items()]


def _items(found: list[ConnectorTasks] | None) -> tuple[TaskId, ...]:
    """Connectors before tasks, as Kafka lists them; null is an empty list."""
    items = [TaskId(each.connector, task) for each in found or () for task in each.tasks]
    return tuple(connectors_first(items))
