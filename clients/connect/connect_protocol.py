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
from brokertwin.state.core.wire.primitives import Reader, Writer

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
    writer = Writer()
    writer.int16(protocol.version)
    writer.string(state.url)
    writer.int64(state.config_offset)
    if protocol is not Protocol.EAGER:
        if state.assignment is None:
            writer.int32(-1)
        else:
            writer.bytes_(encode_assignment(state.assignment, protocol))
    return writer.encoded()


def decode_state(data: bytes) -> WorkerState:
    """What a worker says. Raises ValueError for bytes that are none."""
    reader = Reader(data)
    reader.int16()
    url, offset = reader.string(), reader.int64()
    inner = reader.nullable_bytes() if reader.has_more else None
    return WorkerState(url, offset, None if inner is None else decode_assignment(inner))


def encode_assignment(assignment: Assignment, protocol: Protocol) -> bytes:
    """What a worker gets; the eager protocol knows no delay and nothing taken away."""
    writer = Writer()
    writer.int16(protocol.version)
    writer.int16(assignment.error)
    writer.string(assignment.leader)
    writer.string(assignment.leader_url)
    writer.int64(assignment.config_offset)
    connectors = [item.connector for item in assignment.assigned if item.is_connector]
    tasks = [item for item in assignment.assigned if not item.is_connector]
    in_order = [TaskId(name) for name in hash_order(connectors, len(connectors))]
    _write_items(writer, [*in_order, *tasks])
    if protocol is not Protocol.EAGER:
        _write_items(writer, connectors_first(assignment.revoked))
        writer.int32(assignment.delay_ms)
    return writer.encoded()


def decode_assignment(data: bytes) -> Assignment:
    """What a worker gets. Raises ValueError for bytes that are none."""
    reader = Reader(data)
    return Assignment(
        version=reader.int16(),
        error=reader.int16(),
        leader=reader.string(),
        leader_url=reader.string(),
        config_offset=reader.int64(),
        assigned=_read_items(reader),
        revoked=_read_items(reader) if reader.has_more else (),
        delay_ms=reader.int32() if reader.has_more else NO_DELAY,
    )


def _write_items(writer: Writer, items: Iterable[TaskId]) -> None:
    by_connector: dict[str, list[int]] = {}
    for connector, task in items:
        by_connector.setdefault(connector, []).append(task)

    def write(connector: str) -> None:
        writer.string(connector)
        writer.array(by_connector[connector], lambda task: writer.int32(task))

    writer.array(list(by_connector), write)


def _read_items(reader: Reader) -> tuple[TaskId, ...]:
    """Connectors first, as Kafka lists them; null is nothing."""
    found: list[TaskId] = []
    for _ in range(reader.int32()):
        name = reader.string()
        found += [TaskId(name, reader.int32()) for _ in range(reader.int32())]
    return tuple(connectors_first(found))
