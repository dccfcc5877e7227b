"""What a client knows of the cluster, and when it asks again.

Source: seed 001; `Metadata`, `ProducerMetadata` in Kafka; KIP-526 (partial updates), KIP-580
(back-off), KIP-951 (leaders in Produce and Fetch answers).

    what happens                       asked for     last refresh   back-off goes on
    request_update                     full          -              yes
    request_update(resets=True)        full          -              failures only
    request_update_for_new_topics      new topics    0              no
    failed_update                      as before     now            yes, one failure more
    update of everything               done          now            equivalent answers only
    update of the new topics           done          now            equivalent answers only

An error inside an answer asks again at once, after the request has been marked as done. A machine
is not thread-safe and has no clock: `now` is in ms, `unit` in [0, 1) chooses the back-off's jitter.
`clients/io/metadata_shell.py` shares one among threads.

By the rules of Kafka 0.10 (seed 001) the bootstrap counts as an update, and there are no updates of
the new topics alone: a new topic asks for everything, with back-off.
Ids of topics that are not retained are not kept; Kafka keeps them until the next full update.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

import msgspec

from brokertwin.clients.backoff import ExponentialBackoff, retry_backoff
from brokertwin.clients.metadata_snapshot import (
    NO_LEADER,
    LeaderAndEpoch,
    MetadataSnapshot,
    PartitionMetadata,
    bootstrap_snapshot,
)
from brokertwin.clients.partitions import Node, TopicPartition
from brokertwin.state.apis import metadata as api
from brokertwin.state.apis.metadata import MetadataRequest, MetadataResponse, WantedTopic
from brokertwin.state.core.errors import Error
from brokertwin.state.core.schema import ZERO_UUID, Uuid

RELIABLE_EPOCHS_VERSION = 9
"""From this version of Metadata on, leader epochs are right during a reassignment too."""

INVALID_METADATA = frozenset({3, 5, 6, 9, 13, 56, 72, 74, 80, 83, 84, 100, 103})
"""Errors that ask for an update (`InvalidMetadataException` and what extends it)."""


class Rules(StrEnum):
    """Whose rules hold: today's, or those of the client of Kafka 0.10, which seed 001 shows."""

    TODAY = "today"
    KAFKA_0_10 = "0.10"


class MetadataSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a client's metadata; times in ms, fields by Kafka's names."""

    refresh_backoff: ExponentialBackoff = retry_backoff()
    metadata_max_age_ms: int = 300_000
    metadata_max_idle_ms: int = 300_000
    rules: Rules = Rules.TODAY


class RequestAndVersion(NamedTuple):
    """A metadata request, which wants it was made of, and whether it asks for new topics only."""

    request: MetadataRequest
    request_version: int
    is_partial: bool


class MetadataError(msgspec.Struct, frozen=True):
    """An error that a caller is told once, and the topics that it is of, if of any."""

    code: Error
    topics: tuple[str, ...] = ()


class ClusterChanged(msgspec.Struct, frozen=True):
    """For listeners: the cluster as it now is (`ClusterResourceListener`)."""

    cluster_id: str | None
    snapshot: MetadataSnapshot


class VersionAdvanced(msgspec.Struct, frozen=True):
    """For waiters: `update_version` is now this."""

    version: int


Event = ClusterChanged | VersionAdvanced


class Metadata:
    """The metadata of one client.

    Attributes:
        snapshot: the cluster as it is known.
        update_version: counts the answers that were taken, and the bootstrap.
        request_version: counts the changes of what is wanted.
        last_refresh_ms: the last try, successful or not; 0 before the first.
        last_successful_refresh_ms: the last full update.
        attempts: failures since the last success.
        equivalent_response_count: answers in a row that brought nothing new.
        last_seen_leader_epochs: the greatest leader epoch seen of each partition.
        topic_errors: the topics that the last answer naming them gave an error, and which.
        fatal_error: told to the next caller who waits or asks.
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
        self.fatal_error: MetadataError | None = None
        self.is_closed = False
        self._needs_full_update = False
        self._needs_partial_update = False
        self._invalid_topics: frozenset[str] = frozenset()
        self._unauthorized_topics: frozenset[str] = frozenset()
        self._bootstrap_addresses: tuple[tuple[str, int], ...] = ()

    # Timers

    @property
    def is_update_requested(self) -> bool:
        """Whether an update was asked for, full or for new topics."""
        return self._needs_full_update or self._needs_partial_update

    @property
    def is_update_for_new_topics_requested(self) -> bool:
        """Whether a topic is wanted since the last request was made."""
        return self._needs_partial_update

    def time_to_allow_update(self, now: int, unit: float = 0.5) -> int:
        """Ms for which back-off forbids a request."""
        backoff = self.settings.refresh_backoff
        if self._time_to_expire(now) == 0:
            self.equivalent_response_count = 0
        if now >= self.last_refresh_ms + backoff.max_ms:  # no pause is longer
            return 0
        failed = backoff.backoff(max(self.attempts - 1, 0), unit)
        idle = 0
        if self.equivalent_response_count > 0:
            idle = backoff.backoff(self.equivalent_response_count - 1, unit)
        return max(self.last_refresh_ms + max(failed, idle) - now, 0)

    def time_to_next_update(self, now: int, unit: float = 0.5) -> int:
        """Ms until the next request is due; 0 where it is due now."""
        wanted = 0 if self.is_update_requested else self._time_to_expire(now)
        return max(wanted, self.time_to_allow_update(now, unit))

    def _time_to_expire(self, now: int) -> int:
        expires = self.last_successful_refresh_ms + self.settings.metadata_max_age_ms
        return max(expires - now, 0)

    # Asking

    def request_update(self, *, resets: bool = False) -> int:
        """Asks for a full update; the version to wait beyond.

        `resets` forgets that the last answers brought nothing new.
        """
        self._needs_full_update = True
        if resets:
            self.equivalent_response_count = 0
        return self.update_version

    def request_update_for_new_topics(self) -> int:
        """Asks for new topics, without back-off; the version to wait beyond."""
        self.last_refresh_ms = 0
        self._needs_partial_update = True
        self.equivalent_response_count = 0
        self.request_version += 1
        return self.update_version

    def new_request(self, now: int) -> RequestAndVersion:
        """The request to send now: for the new topics only, where nothing else is due."""
        request = None
        has_partial = self.settings.rules is Rules.TODAY
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
        """Whether the client still wants to know of a topic."""
        return True

    # Answers

    def bootstrap(self, addresses: Iterable[tuple[str, int]], now: int = 0) -> list[Event]:
        """Begins with the configured addresses, as nodes -1, -2, ..., and asks for an update.

        `now` counts only where the bootstrap is an update by itself (0.10), which asks for none.
        """
        self._bootstrap_addresses = tuple(addresses)
        self.snapshot = bootstrap_snapshot(self._bootstrap_addresses)
        self.update_version += 1
        if self.settings.rules is Rules.KAFKA_0_10:
            self.last_refresh_ms = self.last_successful_refresh_ms = now
        else:
            self._needs_full_update = True
        return [VersionAdvanced(self.update_version)]

    def rebootstrap(self) -> list[Event]:
        """Begins again with the addresses of `bootstrap` (KIP-899)."""
        return self.bootstrap(self._bootstrap_addresses)

    def update(
        self,
        sent: RequestAndVersion,
        response: MetadataResponse,
        version: int,
        now: int,
    ) -> list[Event]:
        """Takes the answer to `sent`; `version` is the API version of both.

        Gives back what listeners and waiters are to be told, in that order. Raises RuntimeError
        after `close`.
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
        answered = self._answered(response, version >= RELIABLE_EPOCHS_VERSION, now)
        if sent.is_partial:
            named = {topic.name for topic in response.topics}
            known = self.snapshot
            answered = known.merged_with(
                answered,
                lambda topic: (
                    topic not in named and self.retains(topic, topic in known.internal_topics, now)
                ),
            )
        self.snapshot = answered
        self._invalid_topics = answered.invalid_topics
        self._unauthorized_topics = answered.unauthorized_topics
        self._forget_epochs(now)
        return [
            ClusterChanged(answered.cluster_id, answered),
            VersionAdvanced(self.update_version),
        ]

    def failed_update(self, now: int) -> None:
        """A request failed; what was asked for stays asked for."""
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

    def _answered(
        self, response: MetadataResponse, has_reliable_epochs: bool, now: int
    ) -> MetadataSnapshot:
        """What an answer says, with older knowledge where that is the newer one."""
        nodes = {b.node_id: Node(b.node_id, b.host, b.port, b.rack) for b in response.brokers}
        partitions: dict[TopicPartition, PartitionMetadata] = {}
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
            controller_id=response.controller_id if response.controller_id in nodes else None,
            partitions=partitions,
            topic_ids=ids,
            unauthorized_topics=_with_error(retained, Error.TOPIC_AUTHORIZATION_FAILED),
            invalid_topics=_with_error(retained, Error.INVALID_TOPIC_EXCEPTION),
            internal_topics=frozenset(t.name for t in retained if t.is_internal and t.name),
        )

    def _partitions_of(
        self, topic: api.TopicMetadata, name: str, has_reliable_epochs: bool
    ) -> Iterable[PartitionMetadata]:
        former_id = self.snapshot.topic_ids.get(name)
        is_anew = topic.topic_id != ZERO_UUID and topic.topic_id != former_id
        for partition in topic.partitions:
            answered = _partition(name, partition)
            latest = self._latest(answered, has_reliable_epochs, is_anew)
            if latest is not None:
                yield latest
            if partition.error_code in INVALID_METADATA:
                self.request_update()

    def _latest(
        self, answered: PartitionMetadata, has_reliable_epochs: bool, is_anew: bool
    ) -> PartitionMetadata | None:
        """The newer of what is answered and what is known; None where neither is left."""
        partition, epoch = answered.partition, answered.leader_epoch
        if not has_reliable_epochs or epoch is None:
            self.last_seen_leader_epochs.pop(partition, None)
            self.equivalent_response_count = 0
            return msgspec.structs.replace(answered, leader_epoch=None)
        seen = self.last_seen_leader_epochs.get(partition)
        if seen is not None and not is_anew and epoch < seen:
            return self.snapshot.partitions.get(partition)
        if seen is None or is_anew or epoch > seen:
            self.equivalent_response_count = 0
        self.last_seen_leader_epochs[partition] = epoch
        return answered

    # Leaders and their epochs

    def last_seen_leader_epoch(self, partition: TopicPartition) -> int | None:
        """The greatest leader epoch seen of a partition."""
        return self.last_seen_leader_epochs.get(partition)

    def update_last_seen_epoch_if_newer(self, partition: TopicPartition, epoch: int) -> bool:
        """Takes an epoch that another answer told; whether it is news, which asks for an update.

        Where none is known nothing happens. Raises ValueError for a negative epoch.
        """
        if epoch < 0:
            raise ValueError(f"a leader epoch is not negative, as {epoch} for {partition} is")
        seen = self.last_seen_leader_epochs.get(partition)
        if seen is None or epoch <= seen:
            return False
        self.last_seen_leader_epochs[partition] = epoch
        self._needs_full_update = True
        return True

    def partition_if_current(self, partition: TopicPartition) -> PartitionMetadata | None:
        """What is known of a partition, unless a newer leader epoch was heard of."""
        known = self.snapshot.partitions.get(partition)
        seen = self.last_seen_leader_epochs.get(partition)
        if known is None or seen is None or known.leader_epoch == seen:
            return known
        return None

    def current_leader(self, partition: TopicPartition) -> LeaderAndEpoch:
        """The leader and its epoch, as far as they are known to be current."""
        known = self.partition_if_current(partition)
        if known is None:
            epoch = self.last_seen_leader_epochs.get(partition)
            return NO_LEADER if epoch is None else LeaderAndEpoch(None, epoch)
        return LeaderAndEpoch(self.snapshot.leader(partition), known.leader_epoch)

    def update_partition_leadership(
        self, leaders: Mapping[TopicPartition, tuple[int, int]], nodes: Iterable[Node]
    ) -> tuple[list[TopicPartition], list[Event]]:
        """Takes leaders (node id and epoch) out of a Produce or Fetch answer, with their nodes.

        Gives back the partitions that it changed. Unknown partitions and nodes and epochs that are
        not newer are passed over. `update_version` stays as it is.
        """
        known_nodes = self.snapshot.nodes | {node.id: node for node in nodes}
        moved = {}
        for partition, (leader_id, epoch) in leaders.items():
            known = self.snapshot.partitions.get(partition)
            current = self.current_leader(partition).epoch
            is_news = epoch >= 0 and (current is None or epoch > current)
            if known is not None and is_news and leader_id in known_nodes:
                moved[partition] = msgspec.structs.replace(
                    known, leader_id=leader_id, leader_epoch=epoch
                )
                self.last_seen_leader_epochs[partition] = epoch
        if not moved:
            return [], []
        self.snapshot = self.snapshot.with_leaders(moved, known_nodes)
        return list(moved), [ClusterChanged(self.snapshot.cluster_id, self.snapshot)]

    # Errors

    def take_error(self) -> MetadataError | None:
        """The error to tell a caller now, if any; it is told once."""
        error = self.fatal_error
        if error is None and self._unauthorized_topics:
            error = _topics_error(Error.TOPIC_AUTHORIZATION_FAILED, self._unauthorized_topics)
        elif error is None and self._invalid_topics:
            error = _topics_error(Error.INVALID_TOPIC_EXCEPTION, self._invalid_topics)
        self._clear_errors()
        return error

    def take_error_of(self, topic: str) -> MetadataError | None:
        """The error to tell a caller who wants `topic`; those of other topics are forgotten too."""
        error = self.fatal_error
        if error is None and topic in self._unauthorized_topics:
            error = MetadataError(Error.TOPIC_AUTHORIZATION_FAILED, (topic,))
        elif error is None and topic in self._invalid_topics:
            error = MetadataError(Error.INVALID_TOPIC_EXCEPTION, (topic,))
        self._clear_errors()
        return error

    def take_fatal_error(self) -> MetadataError | None:
        """The fatal error, if there is one; it is told once."""
        error, self.fatal_error = self.fatal_error, None
        return error

    def _clear_errors(self) -> None:
        self.fatal_error = None
        self._unauthorized_topics = self._invalid_topics = frozenset()

    def close(self) -> None:
        """No update is taken any more."""
        self.is_closed = True


class ProducerMetadata(Metadata):
    """The metadata of a producer: it knows the topics that were sent to, and forgets idle ones.

    Attributes:
        topics: topics and when they are forgotten, in ms.
        new_topics: those of them that no answer has named yet.
    """

    def __init__(self, settings: MetadataSettings | None = None) -> None:
        super().__init__(settings)
        self.topics: dict[str, int] = {}
        self.new_topics: dict[str, None] = {}

    def add(self, topic: str, now: int) -> None:
        """The topic is used now; one that was not known asks for an update."""
        is_new = topic not in self.topics
        self.topics[topic] = now + self.settings.metadata_max_idle_ms
        if is_new:
            self.new_topics[topic] = None
            self.request_update_for_topic(topic)

    def request_update_for_topic(self, topic: str) -> int:
        """Asks for an update that has `topic` in it; the version to wait beyond."""
        if topic in self.new_topics and self.settings.rules is Rules.TODAY:
            return self.request_update_for_new_topics()
        return self.request_update()

    def retains(self, topic: str, is_internal: bool, now: int) -> bool:
        """Whether the topic is in use; one that is idle too long is forgotten, unless it is new."""
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
        """As `Metadata.update`; topics in the answer are not new any more."""
        events = super().update(sent, response, version, now)
        for topic in response.topics:
            self.new_topics.pop(topic.name or "", None)
        return events

    def _request_for_all(self) -> MetadataRequest:
        return _request(self.topics)

    def _request_for_new_topics(self) -> MetadataRequest | None:
        return _request(self.new_topics)


def _request(topics: Iterable[str]) -> MetadataRequest:
    return MetadataRequest(topics=[WantedTopic(name=topic) for topic in topics])


def _partition(topic: str, answered: api.PartitionMetadata) -> PartitionMetadata:
    return PartitionMetadata(
        TopicPartition(topic, answered.partition_index),
        answered.error_code,
        answered.leader_id if answered.leader_id >= 0 else None,
        answered.leader_epoch if answered.leader_epoch >= 0 else None,
        tuple(answered.replica_nodes),
        tuple(answered.isr_nodes),
        tuple(answered.offline_replicas),
    )


def _with_error(topics: Iterable[api.TopicMetadata], error: Error) -> frozenset[str]:
    return frozenset(t.name for t in topics if t.error_code == error and t.name)


def _topics_error(code: Error, topics: frozenset[str]) -> MetadataError:
    return MetadataError(code, tuple(sorted(topics)))
