"""A share session as its member has it: one with each broker that it reads from.

Source: KIP-932; `ShareSessionHandler`, `ShareFetchMetadata`, `Acknowledgements` in Kafka.

    epoch 0            opens it, in the place of one that there was; has no acknowledgements
    1, 2, …            go on: name what is new, what goes, and acknowledgements
    -1                 closes it: what the member still has is available to others

One request is under way at a time. After an error of the whole request, or where no answer comes,
nobody knows which epoch the broker expects: the session is over for its member, and so is what it
had of it.
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum

from brokertwin.state.core.schema import Uuid
from brokertwin.state.core.wire.generated.share_fetch import ShareFetchRequestForgottenTopic
from brokertwin.state.core.wire.generated.shared import (
    AcknowledgementBatch,
    ShareFetchPartition,
    ShareFetchTopic,
)
from brokertwin.state.share import share_partition
from brokertwin.state.share.share_sessions import FINAL_EPOCH, FIRST_EPOCH, TopicPartitionId

EPOCH_MAX = 2**31 - 1


class AcknowledgeType(IntEnum):
    """What a member says of a record that it got; `GAP`: there was none at the offset.

    `RENEW`: it works on it still, and its lock begins anew (KIP-1222).
    """

    GAP = share_partition.GAP
    ACCEPT = share_partition.ACCEPT
    RELEASE = share_partition.RELEASE
    REJECT = share_partition.REJECT
    RENEW = share_partition.RENEW


Acknowledgements = dict[TopicPartitionId, dict[int, AcknowledgeType]]
"""By partition and offset."""


class ShareSession:
    """A session with one broker.

    Attributes:
        epoch: of the next request.
        places: the partitions that it has, as the broker knows.
        acknowledged: what the broker is to be told next.
        is_asking: whether a request is under way.
        is_telling: whether there are acknowledgements in it.
        is_reading: whether it is a ShareFetch.
    """

    def __init__(self) -> None:
        self.epoch = FIRST_EPOCH
        self.places: dict[TopicPartitionId, None] = {}
        self.acknowledged: Acknowledgements = {}
        self.is_asking = self.is_telling = self.is_reading = False

    @property
    def is_open(self) -> bool:
        """Whether the broker has it."""
        return self.epoch != FIRST_EPOCH

    @property
    def renews(self) -> bool:
        """Whether the broker is to be told of a lock that is renewed."""
        kinds = (kind for offsets in self.acknowledged.values() for kind in offsets.values())
        return AcknowledgeType.RENEW in kinds

    def fetch(
        self, wanted: Iterable[TopicPartitionId]
    ) -> tuple[list[ShareFetchTopic], list[ShareFetchRequestForgottenTopic]]:
        """The topics of a ShareFetch that reads `wanted`, and those that leave the session.

        What is acknowledged goes along, but for a request that opens the session.
        """
        places = dict.fromkeys(wanted)
        new = [place for place in places if place not in self.places]
        gone = [place for place in self.places if place not in places]
        self.places = places
        return topics_of(self._taken(), new), _forgotten(gone)

    def acknowledge(self) -> list[ShareFetchTopic]:
        """The topics of a ShareAcknowledge."""
        return topics_of(self._taken(), ())

    def put_back(self, place: TopicPartitionId, batches: Iterable[AcknowledgementBatch]) -> None:
        """What the broker has not taken is to be told once more."""
        offsets = self.acknowledged.setdefault(place, {})
        for batch in batches:
            count = batch.last_offset - batch.first_offset + 1
            kinds = batch.acknowledge_types * (count // len(batch.acknowledge_types))
            for offset, kind in enumerate(kinds, batch.first_offset):
                offsets[offset] = AcknowledgeType(kind)

    def begin(self, *, is_last: bool = False) -> int:
        """A request goes out: its epoch."""
        self.is_asking = True
        epoch = FINAL_EPOCH if is_last else self.epoch
        self.epoch = 1 if self.epoch == EPOCH_MAX else self.epoch + 1
        return epoch

    def _taken(self) -> Acknowledgements:
        taken, self.acknowledged = self.acknowledged, {}
        self.is_telling = bool(taken)
        return taken


def topics_of(
    acknowledged: Acknowledgements, others: Iterable[TopicPartitionId]
) -> list[ShareFetchTopic]:
    """Partitions with their acknowledgements, and `others` without, by topic."""
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
    """Runs of offsets, one after the other, each with one type where that holds for all of it."""
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
    topics: dict[Uuid, ShareFetchRequestForgottenTopic] = {}
    for topic_id, partition in places:
        topics.setdefault(
            topic_id, ShareFetchRequestForgottenTopic(topic_id=topic_id, partitions=[])
        ).partitions.append(partition)
    return list(topics.values())
