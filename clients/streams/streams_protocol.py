"""The bytes in which threads of Streams tell each other what they have and what they get.

Source: `SubscriptionInfoData.json`, `AssignmentInfo`, `ConsumerProtocolUtils` in Kafka (version
11). They go as the user data of a consumer's subscription and assignment. Named topologies are
left out, as Java's Streams does without them.
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.streams.layout import TaskId
from brokertwin.state.core.schema import Uuid
from brokertwin.state.core.wire.generated.streams_protocol import (
    StreamsAssignmentInfo,
    StreamsHost,
    StreamsNumberedPartition,
    StreamsStandbyTask,
    StreamsSubscriptionInfo,
    StreamsTask,
    StreamsTaskOffsetSum,
    StreamsTopicNumber,
    StreamsTopicPartition,
)
from brokertwin.state.core.wire.primitives import Reader

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
    """The bytes in version 11."""
    end_point = info.user_end_point
    return _bytes(
        StreamsSubscriptionInfo(
            version=VERSION,
            latest_supported_version=VERSION,
            process_id=info.process_id,
            user_end_point=str(end_point).encode() if end_point else b"",
            task_offset_sums=[
                StreamsTaskOffsetSum(task.sub_topology, task.partition, offset_sum)
                for task, offset_sum in sorted(info.offset_sums.items())
            ],
            unique_field=info.unique,
            error_code=info.error_code,
        )
    )


def decode_subscription_info(data: bytes) -> SubscriptionInfo:
    """Raises ValueError for other bytes, and for another version."""
    found = StreamsSubscriptionInfo.read(_reader(data), VERSION)
    end_point = found.user_end_point.decode()
    return SubscriptionInfo(
        process_id=found.process_id,
        user_end_point=host_info(end_point) if end_point else None,
        offset_sums={
            TaskId(each.subtopology, each.partition): each.offset_sum
            for each in found.task_offset_sums
        },
        unique=found.unique_field,
        error_code=found.error_code,
    )


def host_info(text: str) -> HostInfo:
    """host:port. Raises ValueError."""
    host, _, port = text.rpartition(":")
    return HostInfo(host, int(port))


def encode_assignment_info(info: AssignmentInfo) -> bytes:
    """The bytes in version 11; hosts have numbers in place of topics."""
    both = [*info.hosts.values(), *info.standby_hosts.values()]
    topics = sorted({at.topic for partitions in both for at in partitions})
    numbers = {topic: number for number, topic in enumerate(topics)}
    return _bytes(
        StreamsAssignmentInfo(
            used_version=VERSION,
            commonly_supported_version=VERSION,
            active_tasks=[StreamsTask(*task) for task in info.active],
            standby_tasks=[
                StreamsStandbyTask(*task, partitions=[StreamsTopicPartition(*at) for at in sources])
                for task, sources in info.standby.items()
            ],
            topics=[StreamsTopicNumber(number, topic) for topic, number in numbers.items()],
            partitions_by_host=_numbered(info.hosts, numbers),
            standby_partitions_by_host=_numbered(info.standby_hosts, numbers),
            error_code=info.error_code,
            next_rebalance_ms=NO_REBALANCE_MS,
        )
    )


def _numbered(hosts: Hosts, numbers: Mapping[str, int]) -> list[StreamsHost]:
    return [
        StreamsHost(
            *host, [StreamsNumberedPartition(numbers[at.topic], at.partition) for at in partitions]
        )
        for host, partitions in hosts.items()
    ]


def decode_assignment_info(data: bytes) -> AssignmentInfo:
    """Raises ValueError for other bytes, and for another version."""
    found = StreamsAssignmentInfo.read(_reader(data), VERSION)
    topics = {each.number: each.topic for each in found.topics}
    return AssignmentInfo(
        active=[TaskId(each.subtopology, each.partition) for each in found.active_tasks],
        standby={
            TaskId(each.subtopology, each.partition): [
                TopicPartition(at.topic, at.partition) for at in each.partitions
            ]
            for each in found.standby_tasks
        },
        hosts=_named(found.partitions_by_host, topics),
        standby_hosts=_named(found.standby_partitions_by_host, topics),
        error_code=found.error_code,
    )


def _named(hosts: list[StreamsHost], topics: Mapping[int, str]) -> Hosts:
    return {
        HostInfo(each.host, each.port): [
            TopicPartition(topics[at.topic], at.partition) for at in each.partitions
        ]
        for each in hosts
    }


def _bytes(info: StreamsSubscriptionInfo | StreamsAssignmentInfo) -> bytes:
    out = bytearray()
    info.write(out, VERSION, False)
    return bytes(out)


def _reader(data: bytes) -> Reader:
    version = Reader(data).int32()
    if version != VERSION:
        raise ValueError(f"information of Streams in version {version}, not {VERSION}")
    return Reader(data)
