"""Whether the record before a position is still in the log of its leader (KIP-320).

Source: `SubscriptionState.maybeValidatePositionForCurrentLeader`, `OffsetsForLeaderEpochUtils`,
`OffsetFetcherUtils.onSuccessfulResponseForValidatingPositions` in Kafka.

    a position with an epoch, and             its leader is asked where that epoch ends; until it
    a leader that it was not held against     has answered nothing is read there

    it ends at or behind the position         goes on
    it ends before the position               goes back to there: the log was cut (Truncated)
    nothing is known of the epoch             begins where auto.offset.reset says
    an error, no answer                       is asked again, with the next metadata

The epoch of a position is that of the batch with the record before it: what a fetch has told, or
what was committed with the offset. A position without one is read at once. A committed epoch newer
than what metadata knows waits for newer metadata, so nobody asks a leader of the past.
"""

from typing import NamedTuple

from brokertwin.clients.consumer_events import Truncated
from brokertwin.clients.metadata import Metadata
from brokertwin.clients.metadata_snapshot import NO_LEADER, LeaderAndEpoch, MetadataSnapshot
from brokertwin.clients.partitions import Node, TopicPartition
from brokertwin.clients.subscription_state import SubscriptionState
from brokertwin.state.cluster.image import NO_EPOCH
from brokertwin.state.core.errors import Error
from brokertwin.state.core.wire.generated.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderEpochResponseEpochEndOffset,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

NO_OFFSET = -1
CONSUMER = -1
"""Who asks is no replica."""


class Held(NamedTuple):
    """A position, the epoch of the record before it, and the leader that it is held against."""

    position: int
    epoch: int
    leader: LeaderAndEpoch


class Question(NamedTuple):
    """What a leader is asked, and about what."""

    node: Node
    request: OffsetForLeaderEpochRequest
    about: dict[TopicPartition, Held]


class PositionValidator:
    """Holds the positions of one consumer against their leaders.

    Attributes:
        waiting: the partitions that are not read until their leader has answered.
        truncations: the logs that were cut, for the application to take.
        needs_metadata: whether an answer, or none, said that what is known is out of date.
    """

    def __init__(self, subscription: SubscriptionState) -> None:
        self.waiting: dict[TopicPartition, Held] = {}
        self.truncations: list[Truncated] = []
        self.needs_metadata = False
        self._subscription = subscription
        self._leaders: dict[TopicPartition, LeaderAndEpoch] = {}
        self._asked: dict[TopicPartition, Held] = {}
        self._refused: dict[TopicPartition, MetadataSnapshot] = {}
        self._snapshot: MetadataSnapshot | None = None

    def look(self, metadata: Metadata) -> None:
        """Which positions are to be held against a leader, where metadata or they are new."""
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
            self.waiting[partition] = Held(position, epoch, leader)

    def _forget(self, partition: TopicPartition) -> None:
        for known in (self._leaders, self.waiting, self._asked, self._refused):
            known.pop(partition, None)

    def questions(self) -> list[Question]:
        """What leaders are to be asked now."""
        by_node: dict[Node, dict[TopicPartition, Held]] = {}
        for partition, held in sorted(self.waiting.items()):
            is_refused = self._refused.get(partition) is self._snapshot
            if self._asked.get(partition) == held or is_refused:
                continue
            if held.leader.leader is None:
                self.needs_metadata = True
            else:
                by_node.setdefault(held.leader.leader, {})[partition] = held
        return [Question(node, _request(about), about) for node, about in by_node.items()]

    def asked(self, question: Question) -> None:
        """It is on its way."""
        self._asked |= question.about

    def skip(self, question: Question) -> None:
        """A broker that can not be asked: its partitions are read as they are."""
        for partition in question.about:
            self.waiting.pop(partition, None)

    def answered(self, question: Question, response: OffsetForLeaderEpochResponse) -> None:
        """A leader says where epochs end."""
        told = {
            TopicPartition(topic.topic, each.partition): each
            for topic in response.topics
            for each in topic.partitions
        }
        for partition, held in question.about.items():
            answer = told.get(partition)
            if answer is None or answer.error_code != Error.NONE:
                self._again(partition)
            elif self._is_current(partition, held):
                self._settle(partition, held, answer)

    def failed(self, question: Question) -> None:
        """No answer comes."""
        for partition in question.about:
            self._again(partition)

    def _is_current(self, partition: TopicPartition, held: Held) -> bool:
        """Whether the position and its leader are those that were asked about."""
        is_there = self._subscription.positions.get(partition) == held.position
        return is_there and self.waiting.get(partition) == held

    def _again(self, partition: TopicPartition) -> None:
        self.needs_metadata = True
        self._asked.pop(partition, None)
        if partition in self.waiting and self._snapshot is not None:
            self._refused[partition] = self._snapshot

    def _settle(
        self,
        partition: TopicPartition,
        held: Held,
        answer: OffsetForLeaderEpochResponseEpochEndOffset,
    ) -> None:
        del self.waiting[partition]
        if NO_OFFSET in (answer.end_offset, answer.leader_epoch):
            self._subscription.reset(partition)
        elif answer.end_offset < held.position:
            self.truncations.append(Truncated(partition, held.position, answer.end_offset))
            self._subscription.advance(partition, answer.end_offset, answer.leader_epoch)


def _request(about: dict[TopicPartition, Held]) -> OffsetForLeaderEpochRequest:
    topics: dict[str, OffsetForLeaderTopic] = {}
    for (topic, partition), held in about.items():
        at = topics.setdefault(topic, OffsetForLeaderTopic(topic=topic, partitions=[]))
        current = held.leader.epoch
        at.partitions.append(
            OffsetForLeaderPartition(
                partition=partition,
                current_leader_epoch=NO_EPOCH if current is None else current,
                leader_epoch=held.epoch,
            )
        )
    return OffsetForLeaderEpochRequest(replica_id=CONSUMER, topics=list(topics.values()))
