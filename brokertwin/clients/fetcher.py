"""Fetching for a consumer: one fetch in flight per leader, with prefetch.

Source: seed 001; KIP-41, KIP-227, KIP-392; `AbstractFetch`, `FetchBuffer`, `FetchCollector`,
`OffsetFetcher` in Kafka.

    the application polls
    take          returns up to max.poll.records buffered records; positions advance
    fetch         the next fetches, before the records are returned (prefetch)
    (the caller waits for the network only if `take` returned nothing)

A leader is fetched from when none of its partitions has buffered records, so a session keeps its
partitions. Records of revoked partitions or for outdated positions are dropped. 1
OFFSET_OUT_OF_RANGE and a missing committed offset apply auto.offset.reset (`lookups`). Records
buffered before a pause are still returned.

The caller decodes record bytes and passes the records of each partition.

With `client.rack`, a leader may redirect to a replica (`preferred_replicas.py`). A broker that is
not the leader may name the leader (KIP-951): `take_moved`. A position is validated after a leader
change (`position_validation.py`).
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import msgspec

from brokertwin.clients.fetch_session import FetchRequestData, FetchSessionHandler, PartitionData
from brokertwin.clients.metadata import INVALID_METADATA
from brokertwin.clients.metadata_snapshot import MetadataSnapshot
from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.position_validation import PositionValidator
from brokertwin.clients.preferred_replicas import PreferredReplicas
from brokertwin.clients.subscription_state import SubscriptionState
from brokertwin.protocol.bodies import ZERO_UUID
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.fetch import FetchRequest, FetchResponse
from brokertwin.protocol.generated.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

NO_LOG_START = -1
NO_EPOCH = -1
HAS_MOVED = frozenset({Error.NOT_LEADER_OR_FOLLOWER, Error.FENCED_LEADER_EPOCH})
CLIENT = -1
REQUEST_TIMEOUT_MS = 30_000
"""How long a broker may read remote storage (`request.timeout.ms`)."""


class OffsetReset(IntEnum):
    """`auto.offset.reset`, as the timestamp of ListOffsets."""

    EARLIEST = -2
    LATEST = -1


class FetchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """By Kafka's names; sizes in bytes, times in ms.

    `uses_sessions` is not Kafka's: without it, each request is full (before KIP-227).
    """

    fetch_min_bytes: int = 1
    fetch_max_bytes: int = 52_428_800
    max_partition_fetch_bytes: int = 1_048_576
    fetch_max_wait_ms: int = 500
    max_poll_records: int = 500
    auto_offset_reset: OffsetReset = OffsetReset.LATEST
    isolation_level: int = 0
    client_rack: str = ""
    metadata_max_age_ms: int = 300_000
    uses_sessions: bool = True


class Records(NamedTuple):
    """Records of a partition by offset, and the offset after them.

    `epochs` has for each batch the offset after it and its leader epoch.
    """

    items: list[tuple[int, Any]]
    next_offset: int
    epochs: Sequence[tuple[int, int]] = ()


class PendingFetch(NamedTuple):
    """A fetch request for a broker; `is_last` closes the session."""

    node: int
    data: FetchRequestData
    body: FetchRequest
    is_last: bool = False


class _Buffered(msgspec.Struct):
    """Buffered records; `position` is the expected position of the next take."""

    partition: TopicPartition
    node: int
    position: int
    items: deque[tuple[int, Any]]
    next_offset: int
    epochs: deque[tuple[int, int]]

    def epoch(self) -> int | None:
        """Leader epoch of the record before `position`; None if unknown."""
        while self.epochs and self.epochs[0][0] < self.position:
            self.epochs.popleft()
        return self.epochs[0][1] if self.epochs and self.epochs[0][1] >= 0 else None


class Fetcher:
    """The fetches of one consumer.

    Attributes:
        needs_metadata: a response showed that metadata is outdated.
        validator: validates positions after leader changes.
        new_session: creates the session with a broker.
    """

    def __init__(self, settings: FetchSettings, subscription: SubscriptionState) -> None:
        self.settings = settings
        self.new_session: Callable[[int], FetchSessionHandler] = lambda _: FetchSessionHandler(
            uses_sessions=settings.uses_sessions
        )
        self.needs_metadata = False
        self.validator = PositionValidator(subscription)
        self._subscription = subscription
        self._sessions: dict[int, FetchSessionHandler] = {}
        self._in_flight: dict[int, FetchRequestData] = {}
        self._buffer: deque[_Buffered] = deque()
        self._looking_up: set[TopicPartition] = set()
        self._moved: dict[TopicPartition, tuple[int, int]] = {}
        self._preferred = PreferredReplicas(settings.metadata_max_age_ms)

    def wanted(
        self, snapshot: MetadataSnapshot, now: int
    ) -> dict[int, dict[TopicPartition, PartitionData]]:
        """Return the partitions to fetch by broker.

        Leaves out brokers with a fetch in flight or buffered records.
        """
        self._preferred.keep(self._subscription.positions)
        busy = self._in_flight.keys() | {each.node for each in self._buffer}
        by_node: dict[int, dict[TopicPartition, PartitionData]] = {}
        for partition, position in self._subscription.positions.items():
            info = snapshot.partitions.get(partition)
            if partition in self._subscription.paused or partition in self.validator.waiting:
                continue
            if position is None or info is None or info.leader_id not in snapshot.nodes:
                self.needs_metadata = self.needs_metadata or position is not None
                continue
            node = self._node_of(partition, info.leader_id, snapshot, now)
            if node not in busy and not self._subscription.is_pending_revocation:
                by_node.setdefault(node, {})[partition] = PartitionData(
                    position,
                    NO_LOG_START,
                    self.settings.max_partition_fetch_bytes,
                    snapshot.topic_ids.get(partition.topic, ZERO_UUID),
                    known_epoch(snapshot, partition),
                )
        return by_node

    def _node_of(
        self, partition: TopicPartition, leader: int, snapshot: MetadataSnapshot, now: int
    ) -> int:
        """The broker to fetch from: the preferred replica, or the leader."""
        replica = self._preferred.of(partition, now)
        if replica is None:
            return leader
        if self._preferred.is_available(partition, replica, snapshot):
            return replica
        self.needs_metadata = True
        return leader

    def fetch(
        self, node: int, partition_data: dict[TopicPartition, PartitionData], latest_version: int
    ) -> PendingFetch:
        if node not in self._sessions:
            self._sessions[node] = self.new_session(node)
        data = self._in_flight[node] = self._sessions[node].next_request(partition_data)
        return PendingFetch(node, data, self._body(data, data.version(latest_version)))

    def _body(self, data: FetchRequestData, version: int) -> FetchRequest:
        body = data.request(version)
        body.max_wait_ms = self.settings.fetch_max_wait_ms
        body.min_bytes = self.settings.fetch_min_bytes
        body.max_bytes = self.settings.fetch_max_bytes
        body.isolation_level = self.settings.isolation_level
        body.rack_id = self.settings.client_rack
        return body

    def closing(self, latest_versions: Mapping[int, int]) -> list[PendingFetch]:
        """Return the requests that close the sessions, by broker with a connection.

        Source: `AbstractFetch.prepareCloseFetchSessionRequests` in Kafka.
        """
        requests = []
        for node, version in latest_versions.items():
            handler = self._sessions.get(node)
            if handler is not None and handler.notify_close():
                data = handler.next_request({})
                body = self._body(data, version)
                requests.append(PendingFetch(node, data, body, is_last=True))
        return requests

    def on_response(
        self,
        node: int,
        response: FetchResponse,
        version: int,
        records: dict[TopicPartition, Records],
        now: int,
    ) -> None:
        data = self._in_flight.pop(node)
        handler = self._sessions[node]
        names = handler.session_topic_names
        if not handler.handle_response(response, version).is_accepted:
            return
        for topic in response.responses:
            name = topic.topic or names.get(topic.topic_id, "")
            for result in topic.partitions:
                partition = TopicPartition(name, result.partition_index)
                if result.error_code != Error.NONE:
                    self._refused(partition, result.error_code)
                    leader = result.current_leader
                    if leader and result.error_code in HAS_MOVED and leader.leader_id >= 0:
                        self._moved[partition] = (leader.leader_id, leader.leader_epoch)
                    continue
                if result.preferred_read_replica >= 0:
                    self._preferred.name(partition, result.preferred_read_replica, now)
                if partition in records:
                    self._buffer_records(node, data, partition, records[partition])

    def take_moved(self) -> dict[TopicPartition, tuple[int, int]]:
        """Return the leaders and epochs named since the last call (KIP-951)."""
        moved, self._moved = self._moved, {}
        return moved

    def failed(self, node: int) -> None:
        """Handle a fetch without a response; falls back to the leaders."""
        data = self._in_flight.pop(node, None)
        if data is not None:
            self._sessions[node].handle_error()
            self.needs_metadata = True
            for partition in data.session_partitions:
                self._preferred.forget(partition)

    def take(self) -> list[tuple[TopicPartition, int, Any]]:
        """Return partition, offset and record for the application."""
        taken: list[tuple[TopicPartition, int, Any]] = []
        while self._buffer and len(taken) < self.settings.max_poll_records:
            first = self._buffer[0]
            position = self._subscription.positions.get(first.partition)
            is_held = first.partition in self.validator.waiting
            if position != first.position or is_held or self._subscription.is_pending_revocation:
                self._buffer.popleft()
                continue
            while first.items and len(taken) < self.settings.max_poll_records:
                offset, record = first.items.popleft()
                taken.append((first.partition, offset, record))
                first.position = offset + 1
            if not first.items:
                first.position = first.next_offset
                self._buffer.popleft()
            self._subscription.advance(first.partition, first.position, first.epoch())
        return taken

    def _buffer_records(
        self, node: int, data: FetchRequestData, partition: TopicPartition, records: Records
    ) -> None:
        requested = data.session_partitions[partition].fetch_offset
        items = deque((offset, record) for offset, record in records.items if offset >= requested)
        if items or records.next_offset > requested:
            epochs = deque(records.epochs)
            self._buffer.append(
                _Buffered(partition, node, requested, items, records.next_offset, epochs)
            )

    def _refused(self, partition: TopicPartition, code: int) -> None:
        had_replica = self._preferred.forget(partition)
        if code == Error.OFFSET_OUT_OF_RANGE and had_replica:
            return  # retry at the leader, which may have the offset
        if code == Error.OFFSET_OUT_OF_RANGE:
            self._subscription.reset(partition)
        elif code in INVALID_METADATA:
            self.needs_metadata = True

    # Offset reset

    def lookups(self, snapshot: MetadataSnapshot) -> list[tuple[int, ListOffsetsRequest]]:
        """Return ListOffsets requests by node for partitions without an offset."""
        partitions = self._subscription.without_offset - self._looking_up
        with_leader = {at for at in partitions if has_leader(snapshot, at)}
        self.needs_metadata = self.needs_metadata or partitions != with_leader
        self._looking_up |= with_leader
        settings = self.settings
        return list_offsets(
            snapshot, with_leader, settings.auto_offset_reset, settings.isolation_level
        )

    def looked_up(self, response: ListOffsetsResponse) -> None:
        """Handle a ListOffsets response; errors are retried."""
        for topic in response.topics:
            for result in topic.partitions:
                partition = TopicPartition(topic.name, result.partition_index)
                self._looking_up.discard(partition)
                if result.error_code in INVALID_METADATA:
                    self.needs_metadata = True
                elif partition in self._subscription.without_offset and not result.error_code:
                    self._subscription.seek(partition, result.offset)

    def lookup_failed(self, request: ListOffsetsRequest) -> None:
        """Retry a lookup without a response."""
        self.needs_metadata = True
        for topic in request.topics:
            for requested in topic.partitions:
                self._looking_up.discard(TopicPartition(topic.name, requested.partition_index))


def has_leader(snapshot: MetadataSnapshot, partition: TopicPartition) -> bool:
    info = snapshot.partitions.get(partition)
    return info is not None and info.leader_id in snapshot.nodes


def known_epoch(snapshot: MetadataSnapshot, partition: TopicPartition) -> int:
    """The leader epoch to send, for fencing (KIP-320)."""
    epoch = snapshot.partitions[partition].leader_epoch
    return NO_EPOCH if epoch is None else epoch


def list_offsets(
    snapshot: MetadataSnapshot,
    partitions: Iterable[TopicPartition],
    timestamp: OffsetReset,
    isolation_level: int,
) -> list[tuple[int, ListOffsetsRequest]]:
    """ListOffsets requests by node; each partition must have a leader."""
    topics: dict[int, dict[str, ListOffsetsTopic]] = {}
    for partition in sorted(partitions):
        leader = snapshot.partitions[partition].leader_id
        assert leader is not None, "it has a leader"
        at = topics.setdefault(leader, {})
        topic = at.setdefault(
            partition.topic, ListOffsetsTopic(name=partition.topic, partitions=[])
        )
        topic.partitions.append(
            ListOffsetsPartition(
                partition_index=partition.partition,
                current_leader_epoch=known_epoch(snapshot, partition),
                timestamp=timestamp,
            )
        )
    return [
        (
            node,
            ListOffsetsRequest(
                replica_id=CLIENT,
                isolation_level=isolation_level,
                topics=list(requested.values()),
                timeout_ms=REQUEST_TIMEOUT_MS,
            ),
        )
        for node, requested in topics.items()
    ]
