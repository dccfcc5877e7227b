"""The bytes in which threads of Streams tell each other what they have and what they get.

Source: `SubscriptionInfoData.json`, `AssignmentInfo`, `ConsumerProtocolUtils` in Kafka (version
11). They go as the user data of a consumer's subscription and assignment. Named topologies are
left out, as Java's Streams does without them.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.streams.layout import TaskId
from brokertwin.state.core.schema import Uuid
from brokertwin.state.core.wire.primitives import Reader, Writer

VERSION = 11
ACTIVE = -2
"""In place of a sum of offsets: the task runs there (`Task.LATEST_OFFSET`)."""

NO_REBALANCE_MS = 2**63 - 1


class HostInfo(NamedTuple):
    """Where an instance answers questions (`application.server`)."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class SubscriptionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a thread says when it joins.

    Attributes:
        process_id: of its instance.
        user_end_point: where that answers questions.
        offset_sums: its tasks: ACTIVE, or how far its copies of their stores are.
        unique: another number each time, so that a subscription differs from the one before.
        error_code: what it asks all to do; 0: nothing.
    """

    process_id: Uuid
    user_end_point: HostInfo | None = None
    offset_sums: dict[TaskId, int] = {}
    unique: int = 0
    error_code: int = 0


Hosts = Mapping[HostInfo, list[TopicPartition]]
"""By instance the partitions of the tasks that it runs, or has copies for."""


class AssignmentInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a thread gets beside its partitions.

    Attributes:
        active: the task of each of its partitions, in their order.
        standby: the tasks that it has copies for, with their source partitions.
        hosts: who runs what, over all instances that answer questions.
        standby_hosts: who has copies.
        error_code: why it gets nothing (`AssignorError`).
    """

    active: list[TaskId] = []
    standby: dict[TaskId, list[TopicPartition]] = {}
    hosts: Hosts = {}
    standby_hosts: Hosts = {}
    error_code: int = 0


def encode_subscription_info(info: SubscriptionInfo) -> bytes:
    """In version 11."""
    writer = Writer()
    writer.int32(VERSION)
    writer.int32(VERSION)
    writer.uuid(info.process_id)
    writer.bytes_(str(info.user_end_point).encode() if info.user_end_point else b"")
    writer.array(sorted(info.offset_sums.items()), lambda item: _write_sum(writer, *item))
    writer.int8(info.unique)
    writer.int32(info.error_code)
    writer.array((), lambda tag: None)
    return writer.encoded()


def _write_sum(writer: Writer, task: TaskId, offset_sum: int) -> None:
    writer.int32(task.sub_topology)
    writer.int32(task.partition)
    writer.int64(offset_sum)
    writer.nullable_string(None)


def decode_subscription_info(data: bytes) -> SubscriptionInfo:
    """Raises ValueError for bytes that are none, or of another version."""
    reader = Reader(data)
    _check_version(reader)
    reader.int32()
    process_id = reader.uuid()
    end_point = reader.bytes_().decode()
    sums = dict(reader.array(lambda: _read_sum(reader)))
    unique, error_code = reader.int8(), reader.int32()
    reader.array(lambda: (reader.bytes_(), reader.bytes_()))  # client tags: no copies by racks
    return SubscriptionInfo(
        process_id=process_id,
        user_end_point=host_info(end_point) if end_point else None,
        offset_sums=sums,
        unique=unique,
        error_code=error_code,
    )


def host_info(text: str) -> HostInfo:
    """host:port. Raises ValueError."""
    host, _, port = text.rpartition(":")
    return HostInfo(host, int(port))


def _read_sum(reader: Reader) -> tuple[TaskId, int]:
    task = TaskId(reader.int32(), reader.int32())
    offset_sum = reader.int64()
    reader.nullable_string()
    return task, offset_sum


def _check_version(reader: Reader) -> None:
    version = reader.int32()
    if version != VERSION:
        raise ValueError(f"information of Streams in version {version}, not {VERSION}")


def encode_assignment_info(info: AssignmentInfo) -> bytes:
    """In version 11; topics of hosts are numbers of a dictionary."""
    writer = Writer()
    writer.int32(VERSION)
    writer.int32(VERSION)
    writer.array(info.active, lambda task: _write_task(writer, task))

    def write_standby(item: tuple[TaskId, list[TopicPartition]]) -> None:
        _write_task(writer, item[0])
        writer.array(item[1], lambda at: _write_partition(writer, at))

    writer.array(info.standby.items(), write_standby)
    both = [*info.hosts.values(), *info.standby_hosts.values()]
    topics = sorted({at.topic for partitions in both for at in partitions})
    numbers = {topic: number for number, topic in enumerate(topics)}

    def write_topic(item: tuple[str, int]) -> None:
        writer.int32(item[1])
        writer.string(item[0])

    writer.array(numbers.items(), write_topic)
    for hosts in (info.hosts, info.standby_hosts):
        writer.array(hosts.items(), lambda item: _write_host(writer, item[0], item[1], numbers))
    writer.int32(info.error_code)
    writer.int64(NO_REBALANCE_MS)
    return writer.encoded()


def _write_task(writer: Writer, task: TaskId) -> None:
    for number in (*task, 0):
        writer.int32(number)


def _write_partition(writer: Writer, at: TopicPartition) -> None:
    writer.string(at.topic)
    writer.int32(at.partition)


def _write_host(
    writer: Writer, host: HostInfo, partitions: list[TopicPartition], numbers: Mapping[str, int]
) -> None:
    writer.string(host.host)
    writer.int32(host.port)

    def write_at(at: TopicPartition) -> None:
        writer.int32(numbers[at.topic])
        writer.int32(at.partition)

    writer.array(partitions, write_at)


def decode_assignment_info(data: bytes) -> AssignmentInfo:
    """Raises ValueError for bytes that are none, or of another version."""
    reader = Reader(data)
    _check_version(reader)
    reader.int32()
    active = reader.array(lambda: _read_task(reader))
    standby = dict(
        reader.array(
            lambda: (
                _read_task(reader),
                reader.array(lambda: TopicPartition(reader.string(), reader.int32())),
            )
        )
    )
    topics = dict(reader.array(lambda: (reader.int32(), reader.string())))
    hosts, standby_hosts = (_read_hosts(reader, topics.__getitem__) for _ in range(2))
    error_code = reader.int32()
    reader.int64()  # when a leader of Java's has its own instance ask for a rebalance
    return AssignmentInfo(
        active=active,
        standby=standby,
        hosts=hosts,
        standby_hosts=standby_hosts,
        error_code=error_code,
    )


def _read_task(reader: Reader) -> TaskId:
    task = TaskId(reader.int32(), reader.int32())
    for _ in range(reader.int32()):
        reader.int16()
    return task


def _read_hosts(reader: Reader, topic: Callable[[int], str]) -> Hosts:
    def read_host() -> tuple[HostInfo, list[TopicPartition]]:
        host = HostInfo(reader.string(), reader.int32())
        numbers = reader.array(lambda: (reader.int32(), reader.int32()))
        return host, [TopicPartition(topic(at), partition) for at, partition in numbers]

    return dict(reader.array(read_host))
