"""Acknowledgements of a request: which are taken, and what share coordinators are told of them.

Source: `KafkaApis.handleAcknowledgements`, `validateAcknowledgementBatches`,
`SharePartitionManager.acknowledge` in Kafka; KIP-932. Of each partition, in this order:

    the topic's id is not known                        100 UNKNOWN_TOPIC_ID
    offsets or types that make no sense                42 INVALID_REQUEST
    the client may not READ the topic                  29 TOPIC_AUTHORIZATION_FAILED
    there is no such partition, or nobody has fetched  3 UNKNOWN_TOPIC_OR_PARTITION
    records are not the member's                       121 INVALID_RECORD_STATE
    the share coordinator refuses                      15, 3, 6, 69 or -1

A partition for which the request has nothing is answered, too, where it has something for another.
"""

from collections.abc import Collection, Sequence

import msgspec

from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.decision import Message
from brokertwin.state.core.errors import Error
from brokertwin.state.core.wire.generated.shared import AcknowledgementBatch, ShareFetchTopic
from brokertwin.state.share import share_partitions
from brokertwin.state.share.share_partition import REJECT, RENEW, Acknowledgement, Status
from brokertwin.state.share.share_sessions import Place
from brokertwin.state.share.state_store import NOT_HERE, Fault

RENEWAL_VERSION = 2
"""The versions of both APIs from which on locks are renewed."""


class Outcome(msgspec.Struct, array_like=True):
    """What became of a partition's acknowledgements, until now."""

    topic_id: str
    partition: int
    error: int = 0
    message: str | None = None

    @property
    def place(self) -> Place:
        """Which partition."""
        return self.topic_id, self.partition


class Asked(msgspec.Struct, frozen=True):
    """Who acknowledges, in which version, and whether it says that locks are to be renewed."""

    group_id: str
    member_id: str
    version: int
    is_renewal: bool
    denied: Collection[str]


class Taken(msgspec.Struct):
    """What became of acknowledgements, what share coordinators are told, and who took them.

    The messages' answers say what becomes of outcomes without an error. `places` are those whose
    share partitions were asked, whatever they said.
    """

    outcomes: list[Outcome] = []
    messages: list[Message] = []
    places: list[Place] = []


def take(broker: Broker, asked: Asked, topics: Sequence[ShareFetchTopic]) -> Taken:
    """Takes acknowledgements."""
    taken = Taken()
    named = [
        ((topic.topic_id, each.partition_index), each.acknowledgement_batches)
        for topic in topics
        for each in topic.partitions
    ]
    refused = [_refused(broker, asked, place, batches) for place, batches in named]
    has_any = any(batches for (_, batches), error in zip(named, refused, strict=True) if not error)
    for (place, batches), error in zip(named, refused, strict=True):
        if error is not None:
            taken.outcomes.append(Outcome(*place, error))
        elif batches:
            taken.outcomes.append(_take(broker, asked, place, batches, taken))
        elif has_any:
            taken.outcomes.append(Outcome(*place))
    return taken


def settle(outcomes: list[Outcome], message: Message, fault: Fault | None) -> None:
    """A share coordinator has answered: notes what it refuses."""
    place = share_partitions.place_of(message)[1:]
    for each in outcomes:
        if each.place == place and fault is not None:
            each.error, each.message = fault.error, fault.message or None


def _refused(
    broker: Broker, asked: Asked, place: Place, batches: list[AcknowledgementBatch]
) -> Error | None:
    topic = broker.topic_by_id(place[0])
    if topic is None:
        return Error.UNKNOWN_TOPIC_ID
    if not _make_sense(asked, batches):
        return Error.INVALID_REQUEST
    if topic.name in asked.denied:
        return Error.TOPIC_AUTHORIZATION_FAILED
    if not 0 <= place[1] < len(topic.partitions):
        return Error.UNKNOWN_TOPIC_OR_PARTITION
    return None


def _make_sense(asked: Asked, batches: list[AcknowledgementBatch]) -> bool:
    """Whether offsets ascend and types are known ones, one or one for each record."""
    end, greatest = -1, RENEW if asked.version >= RENEWAL_VERSION else REJECT
    for each in batches:
        first, last, types = each.first_offset, each.last_offset, each.acknowledge_types
        if first > last or first < end or not types:
            return False
        if len(types) > 1 and last - first != len(types) - 1:
            return False
        if not all(0 <= each <= greatest for each in types):
            return False
        if RENEW in types and not asked.is_renewal:
            return False
        end = last
    return True


def _take(
    broker: Broker,
    asked: Asked,
    place: Place,
    batches: list[AcknowledgementBatch],
    taken: Taken,
) -> Outcome:
    whole = (asked.group_id, *place)
    share = share_partitions.find(broker, whole)
    if share is None or share.status == Status.FAILED:
        return Outcome(*place, Error.UNKNOWN_TOPIC_OR_PARTITION, NOT_HERE)
    taken.places.append(place)
    limits = share_partitions.limits_of(broker, asked.group_id)
    given = [
        Acknowledgement(each.first_offset, each.last_offset, tuple(each.acknowledge_types))
        for each in batches
    ]
    told = share.acknowledge(asked.member_id, given, limits, broker.now)
    share_partitions.set_timer(broker, whole)
    if isinstance(told, Fault):
        return Outcome(*place, told.error, told.message)
    message = share_partitions.write(broker, whole, told)
    taken.messages += [message] if message is not None else []
    return Outcome(*place)
