"""Detects log truncation before a position is read (KIP-320).

Source: `SubscriptionState.maybeValidatePositionForCurrentLeader`, `OffsetsForLeaderEpochUtils`,
`OffsetFetcherUtils.onSuccessfulResponseForValidatingPositions` in Kafka.

A position with an epoch is validated when its leader changes: the leader returns the end offset of
that epoch. The partition is not read meanwhile.

    end offset at or after the position     reading continues
    end offset before the position          the position is reset to it (Truncated)
    unknown epoch                           auto.offset.reset applies
    error or no response                    retried with the next metadata

The epoch of a position is that of the batch with the preceding record, from a fetch or from the
committed offset. A position without an epoch is read at once. A committed epoch newer than the
metadata waits for newer metadata, so no outdated leader is queried.
"""

from typing import NamedTuple

from brokertwin.clients.consumer_events import Truncated
from brokertwin.clients.metadata import Metadata
from brokertwin.clients.metadata_snapshot import NO_LEADER, LeaderAndEpoch, MetadataSnapshot
from brokertwin.clients.partitions import Node, TopicPartition
from brokertwin.clients.subscription_state import SubscriptionState
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderEpochResponseEpochEndOffset,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from brokertwin.state.cluster.image import NO_EPOCH

NO_OFFSET = -1
CONSUMER = -1
"""Replica id of a consumer."""


class UnvalidatedPosition(NamedTuple):
    """A position, the epoch of its preceding record, and the leader."""

    position: int
    epoch: int
    leader: LeaderAndEpoch


class ValidationRequest(NamedTuple):
    node: Node
    request: OffsetForLeaderEpochRequest
    about: dict[TopicPartition, UnvalidatedPosition]


class PositionValidator:
    """Validates the positions of one consumer.

    Attributes:
        waiting: partitions that are not read until validated.
        truncations: truncated logs, for the application.
        needs_metadata: a response, or none, showed outdated metadata.
    """

    def __init__(self, subscription: SubscriptionState) -> None:
        self.waiting: dict[TopicPartition, UnvalidatedPosition] = {}
        self.truncations: list[Truncated] = []
        self.needs_metadata = False
        self._subscription = subscription
        self._leaders: dict[TopicPartition, LeaderAndEpoch] = {}
        self._in_flight: dict[TopicPartition, UnvalidatedPosition] = {}
        self._retried_after: dict[TopicPartition, MetadataSnapshot] = {}
        self._snapshot: MetadataSnapshot | None = None

    def look(self, metadata: Metadata) -> None:
        """Find positions to validate after a change of metadata or position."""
        sought = self._subscription.sought
        if metadata.snapshot is self._snapshot and not sought:
            return
        for partition in sought:
            self._forget(partition)
            epoch = self._subscription.epochs.get(partition)
            if epoch is not None:
                metadata.update_last_seen_epoch_if_newer(partition, epoch)
        sought.clear()
        positions = self._subscription.positions
        for partition, position in positions.items():
            if position is None:
                self._forget(partition)
            else:
                self._hold(partition, position, metadata.current_leader(partition))
        self._snapshot = metadata.snapshot

    def _hold(self, partition: TopicPartition, position: int, leader: LeaderAndEpoch) -> None:
        if leader == NO_LEADER or self._leaders.get(partition) == leader:
            return
        self._leaders[partition] = leader
        epoch = self._subscription.epochs.get(partition)
        if epoch is not None and leader.epoch is not None:
            self.waiting[partition] = UnvalidatedPosition(position, epoch, leader)

    def _forget(self, partition: TopicPartition) -> None:
        for table in (self._leaders, self.waiting, self._in_flight, self._retried_after):
            table.pop(partition, None)

    def requests(self) -> list[ValidationRequest]:
        by_node: dict[Node, dict[TopicPartition, UnvalidatedPosition]] = {}
        for partition, unvalidated in sorted(self.waiting.items()):
            is_retried = self._retried_after.get(partition) is self._snapshot
            if self._in_flight.get(partition) == unvalidated or is_retried:
                continue
            if unvalidated.leader.leader is None:
                self.needs_metadata = True
            else:
                by_node.setdefault(unvalidated.leader.leader, {})[partition] = unvalidated
        return [ValidationRequest(node, _request(about), about) for node, about in by_node.items()]

    def on_sent(self, request: ValidationRequest) -> None:
        self._in_flight |= request.about

    def skip(self, request: ValidationRequest) -> None:
        """Read without validation if a broker does not support it."""
        for partition in request.about:
            self.waiting.pop(partition, None)

    def on_response(
        self, request: ValidationRequest, response: OffsetForLeaderEpochResponse
    ) -> None:
        ends = {
            TopicPartition(topic.topic, each.partition): each
            for topic in response.topics
            for each in topic.partitions
        }
        for partition, unvalidated in request.about.items():
            end = ends.get(partition)
            if end is None or end.error_code != Error.NONE:
                self._again(partition)
            elif self._is_current(partition, unvalidated):
                self._settle(partition, unvalidated, end)

    def failed(self, request: ValidationRequest) -> None:
        for partition in request.about:
            self._again(partition)

    def _is_current(self, partition: TopicPartition, unvalidated: UnvalidatedPosition) -> bool:
        """Whether position and leader are unchanged since the request."""
        is_same = self._subscription.positions.get(partition) == unvalidated.position
        return is_same and self.waiting.get(partition) == unvalidated

    def _again(self, partition: TopicPartition) -> None:
        self.needs_metadata = True
        self._in_flight.pop(partition, None)
        if partition in self.waiting and self._snapshot is not None:
            self._retried_after[partition] = self._snapshot

    def _settle(
        self,
        partition: TopicPartition,
        unvalidated: UnvalidatedPosition,
        end: OffsetForLeaderEpochResponseEpochEndOffset,
    ) -> None:
        del self.waiting[partition]
        if NO_OFFSET in (end.end_offset, end.leader_epoch):
            self._subscription.reset(partition)
        elif end.end_offset < unvalidated.position:
            self.truncations.append(Truncated(partition, unvalidated.position, end.end_offset))
            self._subscription.advance(partition, end.end_offset, end.leader_epoch)


def _request(about: dict[TopicPartition, UnvalidatedPosition]) -> OffsetForLeaderEpochRequest:
    topics: dict[str, OffsetForLeaderTopic] = {}
    for (topic, partition), unvalidated in about.items():
        at = topics.setdefault(topic, OffsetForLeaderTopic(topic=topic, partitions=[]))
        current = unvalidated.leader.epoch
        at.partitions.append(
            OffsetForLeaderPartition(
                partition=partition,
                current_leader_epoch=NO_EPOCH if current is None else current,
                leader_epoch=unvalidated.epoch,
            )
        )
    return OffsetForLeaderEpochRequest(replica_id=CONSUMER, topics=list(topics.values()))
