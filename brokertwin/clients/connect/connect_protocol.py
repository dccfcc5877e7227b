"""Connect's group protocol: states of workers and assignments, as bytes.

Source: KIP-415, KIP-507; `ConnectProtocol`, `IncrementalCooperativeConnectProtocol` in Kafka
Connect. Version 0 is `default` (eager), 1 `compatible`, 2 `sessioned`, which adds signed requests
between workers. A group uses the newest version that all its members support.
"""

from collections.abc import Iterable
from enum import IntEnum, StrEnum

import msgspec

from brokertwin.clients.connect.work import ConnectTaskId, connectors_first
from brokertwin.clients.partitions import grouped
from brokertwin.protocol.generated.connect_protocol import (
    ConnectAssignment,
    ConnectorTasks,
    ConnectWorkerState,
)
from brokertwin.protocol.rows import kind_of
from brokertwin.state.core.java_hashes import hash_order

NO_DELAY = 0


class ConnectProtocol(StrEnum):
    """Protocols by their names in JoinGroup."""

    EAGER = "default"
    COMPATIBLE = "compatible"
    SESSIONED = "sessioned"

    @property
    def version(self) -> int:
        return list(ConnectProtocol).index(self)

    @property
    def supported(self) -> list["ConnectProtocol"]:
        """The protocols in a worker's JoinGroup, most preferred first."""
        return list(ConnectProtocol)[self.version :: -1]


class AssignmentError(IntEnum):
    NO_ERROR = 0
    CONFIG_MISMATCH = 1


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """The assignment of a worker; for cooperative protocols the changes only.

    Attributes:
        config_offset: next offset of the config topic when it was computed.
        delay_ms: delay of the next rebalance; 0 if none is scheduled.
    """

    version: int = 0
    error: int = AssignmentError.NO_ERROR
    leader: str = ""
    leader_url: str = ""
    config_offset: int = -1
    assigned: tuple[ConnectTaskId, ...] = ()
    revoked: tuple[ConnectTaskId, ...] = ()
    delay_ms: int = NO_DELAY

    @property
    def has_failed(self) -> bool:
        """True if the leader could not assign."""
        return self.error != AssignmentError.NO_ERROR


class WorkerState(msgspec.Struct, frozen=True):
    """A worker's URL, config offset and current assignment, sent in JoinGroup."""

    url: str
    config_offset: int
    assignment: Assignment | None = None


def encode_state(state: WorkerState, protocol: ConnectProtocol) -> bytes:
    assignment = state.assignment
    return ConnectWorkerState(
        url=state.url,
        config_offset=state.config_offset,
        allocation=None if assignment is None else encode_assignment(assignment, protocol),
    ).encoded(protocol.version)


def decode_state(data: bytes) -> WorkerState:
    """Decode a worker's state. Raises ValueError if the bytes are malformed."""
    state = ConnectWorkerState.parsed(data)
    inner = state.allocation
    assignment = None if inner is None else decode_assignment(inner)
    return WorkerState(state.url, state.config_offset, assignment)


def encode_assignment(assignment: Assignment, protocol: ConnectProtocol) -> bytes:
    """Encode an assignment; the eager protocol has no delay or revoked items."""
    connectors = [item.connector for item in assignment.assigned if item.is_connector]
    tasks = [item for item in assignment.assigned if not item.is_connector]
    in_order = [ConnectTaskId(name) for name in hash_order(connectors, len(connectors))]
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
    """Decode an assignment. Raises ValueError if the bytes are malformed."""
    assignment = ConnectAssignment.parsed(data)
    return Assignment(
        version=kind_of(data),
        error=assignment.error,
        leader=assignment.leader,
        leader_url=assignment.leader_url,
        config_offset=assignment.config_offset,
        assigned=_items(assignment.assignment),
        revoked=_items(assignment.revoked),
        delay_ms=assignment.scheduled_delay,
    )


def _by_connector(items: Iterable[ConnectTaskId]) -> list[ConnectorTasks]:
    return [ConnectorTasks(*each) for each in grouped(items).items()]


def _items(connectors: list[ConnectorTasks] | None) -> tuple[ConnectTaskId, ...]:
    """Return connectors before tasks, in Kafka's order; null is an empty list."""
    items = [
        ConnectTaskId(each.connector, task) for each in connectors or () for task in each.tasks
    ]
    return tuple(connectors_first(items))
