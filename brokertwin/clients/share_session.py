"""The client side of a share session, one with each broker.

Source: KIP-932; `ShareSessionHandler`, `ShareFetchMetadata`, `Acknowledgements` in Kafka.

    epoch 0            opens a session and replaces an old one; has no acknowledgements
    epoch 1, 2, …      continues it with added and removed partitions and acknowledgements
    epoch -1           closes it and releases the member's records

One request is in flight at a time. After a top-level error or without a response, the broker's
epoch is unknown: the session and its records are over for the member.
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum

from brokertwin.clients.partitions import grouped
from brokertwin.protocol.bodies import Uuid
from brokertwin.protocol.generated.share_fetch import ShareFetchRequestForgottenTopic
from brokertwin.protocol.generated.shared import (
    AcknowledgementBatch,
    ShareFetchPartition,
    ShareFetchTopic,
)
from brokertwin.state.share import share_partition
from brokertwin.state.share.share_sessions import FINAL_EPOCH, FIRST_EPOCH, TopicPartitionId

EPOCH_MAX = 2**31 - 1


class AcknowledgeType(IntEnum):
    """Acknowledgement of a record; GAP marks an offset without a record.

    RENEW extends the acquisition lock (KIP-1222).
    """

    GAP = share_partition.GAP
    ACCEPT = share_partition.ACCEPT
    RELEASE = share_partition.RELEASE
    REJECT = share_partition.REJECT
    RENEW = share_partition.RENEW


Acknowledgements = dict[TopicPartitionId, dict[int, AcknowledgeType]]
"""By partition and offset."""


class ShareSessionHandler:
    """A session with one broker.

    Attributes:
        epoch: of the next request.
        places: partitions of the session on the broker.
        acknowledged: acknowledgements for the next request.
        is_in_flight: a request is in flight.
        is_reading: that request is a ShareFetch.
    """

    def __init__(self) -> None:
        self.epoch = FIRST_EPOCH
        self.places: dict[TopicPartitionId, None] = {}
        self.acknowledged: Acknowledgements = {}
        self.is_in_flight = self.has_acknowledgements = self.is_reading = False

    @property
    def is_open(self) -> bool:
        return self.epoch != FIRST_EPOCH

    @property
    def renews(self) -> bool:
        """Whether a lock renewal is pending."""
        kinds = (kind for offsets in self.acknowledged.values() for kind in offsets.values())
        return AcknowledgeType.RENEW in kinds

    def fetch(
        self, partitions: Iterable[TopicPartitionId]
    ) -> tuple[list[ShareFetchTopic], list[ShareFetchRequestForgottenTopic]]:
        """Return the topics of a ShareFetch, and those to forget.

        Includes acknowledgements, except in the request that opens the session.
        """
        places = dict.fromkeys(partitions)
        new = [place for place in places if place not in self.places]
        removed = [place for place in self.places if place not in places]
        self.places = places
        return topics_of(self._taken(), new), _forgotten(removed)

    def acknowledge(self) -> list[ShareFetchTopic]:
        return topics_of(self._taken(), ())

    def put_back(self, place: TopicPartitionId, batches: Iterable[AcknowledgementBatch]) -> None:
        offsets = self.acknowledged.setdefault(place, {})
        for batch in batches:
            count = batch.last_offset - batch.first_offset + 1
            kinds = batch.acknowledge_types * (count // len(batch.acknowledge_types))
            for offset, kind in enumerate(kinds, batch.first_offset):
                offsets[offset] = AcknowledgeType(kind)

    def begin(self, *, is_last: bool = False) -> int:
        """Start a request and return its epoch."""
        self.is_in_flight = True
        epoch = FINAL_EPOCH if is_last else self.epoch
        self.epoch = 1 if self.epoch == EPOCH_MAX else self.epoch + 1
        return epoch

    def _taken(self) -> Acknowledgements:
        taken, self.acknowledged = self.acknowledged, {}
        self.has_acknowledgements = bool(taken)
        return taken


def topics_of(
    acknowledged: Acknowledgements, others: Iterable[TopicPartitionId]
) -> list[ShareFetchTopic]:
    """Group partitions by topic, with and without acknowledgements."""
    topics: dict[Uuid, ShareFetchTopic] = {}
    for place in dict.fromkeys([*acknowledged, *others]):
        topic_id, partition = place
        topic = topics.setdefault(topic_id, ShareFetchTopic(topic_id=topic_id, partitions=[]))
        batches = batches_of(acknowledged.get(place, {}))
        topic.partitions.append(
            ShareFetchPartition(partition_index=partition, acknowledgement_batches=batches)
        )
    return list(topics.values())


def batches_of(offsets: Mapping[int, AcknowledgeType]) -> list[AcknowledgementBatch]:
    """Group consecutive offsets into batches; equal types are merged."""
    batches: list[AcknowledgementBatch] = []
    for offset in sorted(offsets):
        if batches and batches[-1].last_offset == offset - 1:
            batches[-1].last_offset = offset
            batches[-1].acknowledge_types.append(offsets[offset])
        else:
            batches.append(
                AcknowledgementBatch(
                    first_offset=offset, last_offset=offset, acknowledge_types=[offsets[offset]]
                )
            )
    for batch in batches:
        if len(set(batch.acknowledge_types)) == 1:
            del batch.acknowledge_types[1:]
    return batches


def _forgotten(places: Iterable[TopicPartitionId]) -> list[ShareFetchRequestForgottenTopic]:
    return [
        ShareFetchRequestForgottenTopic(topic_id=topic_id, partitions=partitions)
        for topic_id, partitions in grouped(places).items()
    ]
