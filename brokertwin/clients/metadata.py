"""Cluster metadata of a client, and when to refresh it.

Source: seed 001; `Metadata`, `ProducerMetadata` in Kafka; KIP-526 (partial updates), KIP-580
(backoff), KIP-951 (leaders in Produce and Fetch responses).

    event                              requested      last refresh   backoff continues
    request_update                     full          -              yes
    request_update_for_new_topics      new topics    0              no
    failed_update                      unchanged     now            yes, one more failure
    full update                        done          now            equivalent responses only
    update of the new topics           done          now            equivalent responses only

An error inside a response requests another update at once. The machine has no clock and is not
thread-safe: `now` is in ms, `unit` in [0, 1) selects the backoff's jitter.

With the rules of Kafka 0.10 (seed 001) and 2.0 the bootstrap counts as an update. There are no
partial updates: a new topic requests a full update with backoff. Ids of topics that are not
retained are dropped; Kafka keeps them until the next full update.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from brokertwin.clients.backoff import ExponentialBackoff, retry_backoff
from brokertwin.clients.era import Era
from brokertwin.clients.metadata_snapshot import (
    NO_LEADER,
    LeaderAndEpoch,
    MetadataSnapshot,
    PartitionInfo,
    bootstrap_snapshot,
)
from brokertwin.clients.partitions import Node, TopicPartition
from brokertwin.protocol.bodies import ZERO_UUID, Uuid
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

RELIABLE_EPOCHS_VERSION = 9
"""From this version on, leader epochs are right during a reassignment."""

INVALID_METADATA = frozenset({3, 5, 6, 9, 13, 56, 72, 74, 80, 83, 84, 100, 103})
"""Errors that request an update (`InvalidMetadataException`)."""


class MetadataSettings(msgspec.Struct, frozen=True, kw_only=True):
    """By Kafka's names; times in ms.

    `refresh_backoff` is `retry.backoff.ms`, growing to `retry.backoff.max.ms`; `era` is a former
    version, whose rules apply (`clients/eras.py`).
    """

    refresh_backoff: ExponentialBackoff = retry_backoff()
    metadata_max_age_ms: int = 300_000
    metadata_max_idle_ms: int = 300_000
    era: Era | None = None


class RequestAndVersion(NamedTuple):
    """A metadata request and the `request_version` that it covers."""

    request: MetadataRequest
    request_version: int
    is_partial: bool


class ClusterChanged(msgspec.Struct, frozen=True):
    """For listeners: the new cluster state (`ClusterResourceListener`)."""

    cluster_id: str | None
    snapshot: MetadataSnapshot


class VersionAdvanced(msgspec.Struct, frozen=True):
    """For waiters: the new `update_version`."""

    version: int


Event = ClusterChanged | VersionAdvanced


class Metadata:
    """The metadata of one client.

    Attributes:
        snapshot: the known cluster.
        update_version: number of responses and bootstraps.
        request_version: number of changes to the requested topics.
        last_refresh_ms: last attempt, successful or not; 0 before the first.
        last_successful_refresh_ms: last full update.
        attempts: failures since the last success.
        equivalent_response_count: consecutive responses without news.
        last_seen_leader_epochs: greatest leader epoch of each partition.
        topic_errors: errors of topics in their last response.
    """

    def __init__(self, settings: MetadataSettings | None = None) -> None:
        self.settings = settings or MetadataSettings()
        self.snapshot = MetadataSnapshot()
        self.update_version = 0
        self.request_version = 0
        self.last_refresh_ms = 0
        self.last_successful_refresh_ms = 0
        self.attempts = 0
        self.equivalent_response_count = 0
        self.last_seen_leader_epochs: dict[TopicPartition, int] = {}
        self.topic_errors: dict[str, int] = {}
        self.is_closed = False
        self._needs_full_update = False
        self._needs_partial_update = False
        self._invalid_topics: frozenset[str] = frozenset()
        self._unauthorized_topics: frozenset[str] = frozenset()
        self._bootstrap_addresses: tuple[tuple[str, int], ...] = ()

    # Timers

    @property
    def is_update_requested(self) -> bool:
        return self._needs_full_update or self._needs_partial_update

    @property
    def is_update_for_new_topics_requested(self) -> bool:
        """Whether a topic was added since the last request."""
        return self._needs_partial_update

    def time_to_allow_update(self, now: int, unit: float = 0.5) -> int:
        """Return the remaining backoff in ms."""
        backoff = self.settings.refresh_backoff
        if self._time_to_expire(now) == 0:
            self.equivalent_response_count = 0
        if now >= self.last_refresh_ms + backoff.max_ms:  # no backoff is longer
            return 0
        failed = backoff.backoff(max(self.attempts - 1, 0), unit)
        idle = 0
        if self.equivalent_response_count > 0:
            idle = backoff.backoff(self.equivalent_response_count - 1, unit)
        return max(self.last_refresh_ms + max(failed, idle) - now, 0)

    def time_to_next_update(self, now: int, unit: float = 0.5) -> int:
        """Return the ms until the next request is due; 0 if due now."""
        wait_ms = 0 if self.is_update_requested else self._time_to_expire(now)
        return max(wait_ms, self.time_to_allow_update(now, unit))

    def _time_to_expire(self, now: int) -> int:
        expires = self.last_successful_refresh_ms + self.settings.metadata_max_age_ms
        return max(expires - now, 0)

    # Requests

    def request_update(self) -> int:
        """Request a full update; returns the version to wait beyond."""
        self._needs_full_update = True
        return self.update_version

    def request_update_for_new_topics(self) -> int:
        """Request new topics without backoff; returns the version to wait beyond."""
        self.last_refresh_ms = 0
        self._needs_partial_update = True
        self.equivalent_response_count = 0
        self.request_version += 1
        return self.update_version

    def new_request(self, now: int) -> RequestAndVersion:
        """Return the request to send: partial if no full update is due."""
        request = None
        has_partial = self.settings.era is None
        if has_partial and not self._needs_full_update and self._time_to_expire(now) > 0:
            request = self._request_for_new_topics()
        if request is not None:
            return RequestAndVersion(request, self.request_version, True)
        return RequestAndVersion(self._request_for_all(), self.request_version, False)

    def _request_for_all(self) -> MetadataRequest:
        return MetadataRequest(topics=None)

    def _request_for_new_topics(self) -> MetadataRequest | None:
        return None

    def retains(self, topic: str, is_internal: bool, now: int) -> bool:
        return True

    # Responses

    def bootstrap(self, addresses: Iterable[tuple[str, int]], now: int = 0) -> None:
        """Start with the configured addresses as nodes -1, -2 and so on.

        Requests an update, except in former clients, where the bootstrap at `now` is one.
        """
        self._bootstrap_addresses = tuple(addresses)
        self.snapshot = bootstrap_snapshot(self._bootstrap_addresses)
        self.update_version += 1
        if self.settings.era is not None:
            self.last_refresh_ms = self.last_successful_refresh_ms = now
        else:
            self._needs_full_update = True

    def rebootstrap(self) -> None:
        """Start again with the addresses of `bootstrap` (KIP-899)."""
        self.bootstrap(self._bootstrap_addresses)

    def update(
        self,
        sent: RequestAndVersion,
        response: MetadataResponse,
        version: int,
        now: int,
    ) -> list[Event]:
        """Apply the response to `sent`; `version` is the API version.

        Returns events for listeners and waiters, in order. Raises RuntimeError after `close`.
        """
        if self.is_closed:
            raise RuntimeError("the metadata is closed")
        self._needs_partial_update = sent.request_version < self.request_version
        self.last_refresh_ms = now
        self.attempts = 0
        self.update_version += 1
        if not sent.is_partial:
            self._needs_full_update = False
            self.last_successful_refresh_ms = now
        self.equivalent_response_count += 1
        received = self._snapshot_of(response, version >= RELIABLE_EPOCHS_VERSION, now)
        if sent.is_partial:
            named = {topic.name for topic in response.topics}
            snapshot = self.snapshot
            received = snapshot.merged_with(
                received,
                lambda topic: (
                    topic not in named
                    and self.retains(topic, topic in snapshot.internal_topics, now)
                ),
            )
        self.snapshot = received
        self._invalid_topics = received.invalid_topics
        self._unauthorized_topics = received.unauthorized_topics
        self._forget_epochs(now)
        return [
            ClusterChanged(received.cluster_id, received),
            VersionAdvanced(self.update_version),
        ]

    def failed_update(self, now: int) -> None:
        """Record a failed request; the requested update stays requested."""
        self.last_refresh_ms = now
        self.attempts += 1
        self.equivalent_response_count = 0

    def _forget_epochs(self, now: int) -> None:
        retained = {
            topic
            for topic in {partition.topic for partition in self.last_seen_leader_epochs}
            if self.retains(topic, False, now)
        }
        self.last_seen_leader_epochs = {
            partition: epoch
            for partition, epoch in self.last_seen_leader_epochs.items()
            if partition.topic in retained
        }

    def _snapshot_of(
        self, response: MetadataResponse, has_reliable_epochs: bool, now: int
    ) -> MetadataSnapshot:
        """Convert a response; keeps known partitions with newer leader epochs."""
        nodes = {b.node_id: Node(b.node_id, b.host, b.port, b.rack) for b in response.brokers}
        partitions: dict[TopicPartition, PartitionInfo] = {}
        ids: dict[str, Uuid] = {}
        retained = [
            topic
            for topic in response.topics
            if topic.name is not None and self.retains(topic.name, topic.is_internal, now)
        ]
        for topic in retained:
            name = topic.name or ""
            self.topic_errors.pop(name, None)
            if topic.error_code != Error.NONE:
                self.topic_errors[name] = topic.error_code
            if topic.topic_id != ZERO_UUID:
                ids[name] = topic.topic_id
            if topic.error_code in INVALID_METADATA:
                self.request_update()
            if topic.error_code != Error.NONE:
                continue
            for partition in self._partitions_of(topic, name, has_reliable_epochs):
                partitions[partition.partition] = partition
        return MetadataSnapshot(
            cluster_id=response.cluster_id,
            nodes=nodes,
            partitions=partitions,
            topic_ids=ids,
            unauthorized_topics=_with_error(retained, Error.TOPIC_AUTHORIZATION_FAILED),
            invalid_topics=_with_error(retained, Error.INVALID_TOPIC_EXCEPTION),
            internal_topics=frozenset(t.name for t in retained if t.is_internal and t.name),
        )

    def _partitions_of(
        self, topic: MetadataResponseTopic, name: str, has_reliable_epochs: bool
    ) -> Iterable[PartitionInfo]:
        former_id = self.snapshot.topic_ids.get(name)
        is_recreated = topic.topic_id != ZERO_UUID and topic.topic_id != former_id
        for partition in topic.partitions:
            received = _partition(name, partition)
            latest = self._latest(received, has_reliable_epochs, is_recreated)
            if latest is not None:
                yield latest
            if partition.error_code in INVALID_METADATA:
                self.request_update()

    def _latest(
        self, received: PartitionInfo, has_reliable_epochs: bool, is_recreated: bool
    ) -> PartitionInfo | None:
        """The newer of a received and the known partition, or None."""
        partition, epoch = received.partition, received.leader_epoch
        if not has_reliable_epochs or epoch is None:
            self.last_seen_leader_epochs.pop(partition, None)
            self.equivalent_response_count = 0
            return msgspec.structs.replace(received, leader_epoch=None)
        seen = self.last_seen_leader_epochs.get(partition)
        if seen is not None and not is_recreated and epoch < seen:
            return self.snapshot.partitions.get(partition)
        if seen is None or is_recreated or epoch > seen:
            self.equivalent_response_count = 0
        self.last_seen_leader_epochs[partition] = epoch
        return received

    # Leader epochs

    def update_last_seen_epoch_if_newer(self, partition: TopicPartition, epoch: int) -> bool:
        """Apply a leader epoch from another response, if it is newer.

        Returns True and requests an update if it is newer. Ignored if no epoch is known. Raises
        ValueError for a negative epoch.
        """
        if epoch < 0:
            raise ValueError(f"the leader epoch of {partition} must not be negative: {epoch}")
        seen = self.last_seen_leader_epochs.get(partition)
        if seen is None or epoch <= seen:
            return False
        self.last_seen_leader_epochs[partition] = epoch
        self._needs_full_update = True
        return True

    def partition_if_current(self, partition: TopicPartition) -> PartitionInfo | None:
        """The known partition, unless its leader epoch is outdated."""
        info = self.snapshot.partitions.get(partition)
        seen = self.last_seen_leader_epochs.get(partition)
        if info is None or seen is None or info.leader_epoch == seen:
            return info
        return None

    def current_leader(self, partition: TopicPartition) -> LeaderAndEpoch:
        info = self.partition_if_current(partition)
        if info is None:
            epoch = self.last_seen_leader_epochs.get(partition)
            return NO_LEADER if epoch is None else LeaderAndEpoch(None, epoch)
        return LeaderAndEpoch(self.snapshot.leader(partition), info.leader_epoch)

    def update_partition_leadership(
        self, leaders: Mapping[TopicPartition, tuple[int, int]], nodes: Iterable[Node]
    ) -> None:
        """Apply leaders (node id, epoch) from a Produce or Fetch response.

        Ignores unknown partitions and nodes, and epochs that are not newer. `update_version` does
        not change.
        """
        known_nodes = self.snapshot.nodes | {node.id: node for node in nodes}
        moved = {}
        for partition, (leader_id, epoch) in leaders.items():
            info = self.snapshot.partitions.get(partition)
            current = self.current_leader(partition).epoch
            is_news = epoch >= 0 and (current is None or epoch > current)
            if info is not None and is_news and leader_id in known_nodes:
                moved[partition] = msgspec.structs.replace(
                    info, leader_id=leader_id, leader_epoch=epoch
                )
                self.last_seen_leader_epochs[partition] = epoch
        if moved:
            self.snapshot = self.snapshot.with_leaders(moved, known_nodes)

    # Errors

    def take_error_of(self, topic: str) -> Error | None:
        """Return the error for a user of `topic` once; clears all errors."""
        error = None
        if topic in self._unauthorized_topics:
            error = Error.TOPIC_AUTHORIZATION_FAILED
        elif topic in self._invalid_topics:
            error = Error.INVALID_TOPIC_EXCEPTION
        self._unauthorized_topics = self._invalid_topics = frozenset()
        return error

    def close(self) -> None:
        self.is_closed = True


class ProducerMetadata(Metadata):
    """The metadata of a producer: topics that are in use.

    Attributes:
        topics: expiry time of each topic, in ms.
        new_topics: topics without a response so far.
        may_create: requests may create topics.
    """

    def __init__(
        self, settings: MetadataSettings | None = None, *, may_create: bool = True
    ) -> None:
        super().__init__(settings)
        self.may_create = may_create
        self.topics: dict[str, int] = {}
        self.new_topics: dict[str, None] = {}

    def add(self, topic: str, now: int) -> None:
        """Mark a topic as used; a new topic requests an update."""
        is_new = topic not in self.topics
        self.topics[topic] = now + self.settings.metadata_max_idle_ms
        if is_new:
            self.new_topics[topic] = None
            self.request_update_for_topic(topic)

    def request_update_for_topic(self, topic: str) -> int:
        """Request an update with `topic`; returns the version to wait beyond."""
        if topic in self.new_topics and self.settings.era is None:
            return self.request_update_for_new_topics()
        return self.request_update()

    def retains(self, topic: str, is_internal: bool, now: int) -> bool:
        """Whether the topic is in use; removes an expired topic."""
        expiry = self.topics.get(topic)
        if expiry is None:
            return False
        if topic in self.new_topics or expiry > now:
            return True
        del self.topics[topic]
        self.topic_errors.pop(topic, None)
        return False

    def update(
        self, sent: RequestAndVersion, response: MetadataResponse, version: int, now: int
    ) -> list[Event]:
        """Apply a response; its topics are no longer new."""
        events = super().update(sent, response, version, now)
        for topic in response.topics:
            self.new_topics.pop(topic.name or "", None)
        return events

    def _request_for_all(self) -> MetadataRequest:
        return self._request(self.topics)

    def _request_for_new_topics(self) -> MetadataRequest | None:
        return self._request(self.new_topics)

    def _request(self, topics: Iterable[str]) -> MetadataRequest:
        request_topics = [MetadataRequestTopic(name=topic) for topic in topics]
        return MetadataRequest(topics=request_topics, allow_auto_topic_creation=self.may_create)


def _partition(topic: str, received: MetadataResponsePartition) -> PartitionInfo:
    return PartitionInfo(
        TopicPartition(topic, received.partition_index),
        received.leader_id if received.leader_id >= 0 else None,
        received.leader_epoch if received.leader_epoch >= 0 else None,
        tuple(received.replica_nodes),
        tuple(received.isr_nodes),
        tuple(received.offline_replicas),
    )


def _with_error(topics: Iterable[MetadataResponseTopic], error: Error) -> frozenset[str]:
    return frozenset(t.name for t in topics if t.error_code == error and t.name)
