"""User data of Streams threads: subscription and assignment info, as bytes.

Source: `SubscriptionInfoData.json`, `AssignmentInfo`, `ConsumerProtocolUtils` in Kafka (version
11). They are the user data of a consumer's subscription and assignment. Named topologies are not
supported.
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.streams.layout import TaskId
from brokertwin.protocol import rows
from brokertwin.protocol.bodies import Uuid
from brokertwin.protocol.generated.streams_protocol import (
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

VERSION = 11
ACTIVE = -2
"""Offset sum of a task that runs on the instance (`Task.LATEST_OFFSET`)."""

NO_REBALANCE_MS = 2**63 - 1


class HostInfo(NamedTuple):
    """Address of an instance for interactive queries (`application.server`)."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class SubscriptionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Subscription info of a thread, sent when it joins.

    Attributes:
        user_end_point: address of the instance for interactive queries.
        offset_sums: task to ACTIVE, or to the offset sum of its stores.
        unique: a new number each time, so that subscriptions differ.
        error_code: action requested from all threads; 0 for none.
    """

    process_id: Uuid
    user_end_point: HostInfo | None = None
    offset_sums: dict[TaskId, int] = {}
    unique: int = 0
    error_code: int = 0


Hosts = Mapping[HostInfo, list[TopicPartition]]
"""Instance to the partitions of its active or standby tasks."""


class AssignmentInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Assignment info of a thread, sent beside its partitions.

    Attributes:
        active: the task of each assigned partition, in order.
        standby: standby tasks with their source partitions.
        hosts: active partitions of all instances with an address.
        standby_hosts: standby partitions of these instances.
        error_code: reason for an empty assignment (`AssignorError`).
    """

    active: list[TaskId] = []
    standby: dict[TaskId, list[TopicPartition]] = {}
    hosts: Hosts = {}
    standby_hosts: Hosts = {}
    error_code: int = 0


def encode_subscription_info(info: SubscriptionInfo) -> bytes:
    """Encode in version 11."""
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
    """Decode version 11. Raises ValueError otherwise."""
    info = _read(StreamsSubscriptionInfo, data)
    end_point = info.user_end_point.decode()
    return SubscriptionInfo(
        process_id=info.process_id,
        user_end_point=host_info(end_point) if end_point else None,
        offset_sums={
            TaskId(each.subtopology, each.partition): each.offset_sum
            for each in info.task_offset_sums
        },
        unique=info.unique_field,
        error_code=info.error_code,
    )


def host_info(text: str) -> HostInfo:
    """host:port. Raises ValueError."""
    host, _, port = text.rpartition(":")
    return HostInfo(host, int(port))


def encode_assignment_info(info: AssignmentInfo) -> bytes:
    """Encode in version 11; hosts contain numbers in place of topics."""
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
    """Decode version 11. Raises ValueError otherwise."""
    info = _read(StreamsAssignmentInfo, data)
    topics = {each.number: each.topic for each in info.topics}
    return AssignmentInfo(
        active=[TaskId(each.subtopology, each.partition) for each in info.active_tasks],
        standby={
            TaskId(each.subtopology, each.partition): [
                TopicPartition(at.topic, at.partition) for at in each.partitions
            ]
            for each in info.standby_tasks
        },
        hosts=_named(info.partitions_by_host, topics),
        standby_hosts=_named(info.standby_partitions_by_host, topics),
        error_code=info.error_code,
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
    rows.append(out, info, VERSION)
    return bytes(out)


def _read(kind: type[rows.T], data: bytes) -> rows.T:
    version = int.from_bytes(data[:4], signed=True)
    if len(data) >= 4 and version != VERSION:
        raise ValueError(f"information of Streams in version {version}, not {VERSION}")
    return rows.read(kind, data, 0, VERSION)[0]
