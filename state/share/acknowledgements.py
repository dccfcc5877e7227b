"""Acknowledgements in ShareFetch and ShareAcknowledge.

Source: `KafkaApis.handleAcknowledgements`, `validateAcknowledgementBatches`,
`SharePartitionManager.acknowledge` in Kafka; KIP-932. Errors of a partition, in this order:

    unknown topic id                                   100 UNKNOWN_TOPIC_ID
    invalid offsets or types                           42 INVALID_REQUEST
    the client may not READ the topic                  29 TOPIC_AUTHORIZATION_FAILED
    no such partition, or no share partition           3 UNKNOWN_TOPIC_OR_PARTITION
    records are not acquired by the member             121 INVALID_RECORD_STATE
    the share coordinator's error                      15 COORDINATOR_NOT_AVAILABLE,
                                                       3 UNKNOWN_TOPIC_OR_PARTITION,
                                                       6 NOT_LEADER_OR_FOLLOWER,
                                                       69 GROUP_ID_NOT_FOUND,
                                                       -1 UNKNOWN_SERVER_ERROR

A partition without acknowledgements is in the response if another partition has some.
"""

from collections.abc import Collection, Sequence

import msgspec

from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.shared import AcknowledgementBatch, ShareFetchTopic
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.decision import Message
from brokertwin.state.share import share_partitions
from brokertwin.state.share.share_partition import REJECT, RENEW, AcknowledgedRecords, ShareStatus
from brokertwin.state.share.share_sessions import TopicPartitionId
from brokertwin.state.share.state_store import UNKNOWN_PARTITION_MESSAGE, ShareStateError

RENEWAL_VERSION = 2
"""First version of both APIs that renews locks."""


class AcknowledgementResult(msgspec.Struct, array_like=True):
    topic_id: str
    partition: int
    error: int = 0
    message: str | None = None

    @property
    def place(self) -> TopicPartitionId:
        return self.topic_id, self.partition


class AcknowledgeContext(msgspec.Struct, frozen=True):
    """The sender, version and rights of a request."""

    group_id: str
    member_id: str
    version: int
    is_renewal: bool
    denied: Collection[str]


class AcknowledgeResults(msgspec.Struct):
    """Results, requests to share coordinators, and affected partitions.

    The responses to `messages` complete the outcomes without an error. `places` are partitions
    whose share partition exists, even if it has rejected the acknowledgement.
    """

    outcomes: list[AcknowledgementResult] = []
    messages: list[Message] = []
    places: list[TopicPartitionId] = []


def acknowledge(
    broker: Broker, context: AcknowledgeContext, topics: Sequence[ShareFetchTopic]
) -> AcknowledgeResults:
    results = AcknowledgeResults()
    named = [
        ((topic.topic_id, each.partition_index), each.acknowledgement_batches)
        for topic in topics
        for each in topic.partitions
    ]
    errors = [_request_error(broker, context, place, batches) for place, batches in named]
    has_any = any(batches for (_, batches), error in zip(named, errors, strict=True) if not error)
    for (place, batches), error in zip(named, errors, strict=True):
        if error is not None:
            results.outcomes.append(AcknowledgementResult(*place, error))
        elif batches:
            results.outcomes.append(_acknowledge(broker, context, place, batches, results))
        elif has_any:
            results.outcomes.append(AcknowledgementResult(*place))
    return results


def apply_write_error(
    outcomes: list[AcknowledgementResult], message: Message, fault: ShareStateError | None
) -> None:
    """Set the error of a share coordinator's response, if any."""
    place = share_partitions.key_of(message)[1:]
    for each in outcomes:
        if each.place == place and fault is not None:
            each.error, each.message = fault.error, fault.message or None


def _request_error(
    broker: Broker,
    context: AcknowledgeContext,
    place: TopicPartitionId,
    batches: list[AcknowledgementBatch],
) -> Error | None:
    topic = broker.topic_by_id(place[0])
    if topic is None:
        return Error.UNKNOWN_TOPIC_ID
    if not _are_valid(context, batches):
        return Error.INVALID_REQUEST
    if topic.name in context.denied:
        return Error.TOPIC_AUTHORIZATION_FAILED
    if not 0 <= place[1] < len(topic.partitions):
        return Error.UNKNOWN_TOPIC_OR_PARTITION
    return None


def _are_valid(context: AcknowledgeContext, batches: list[AcknowledgementBatch]) -> bool:
    """True if offsets ascend and types are valid, one or one for each record."""
    end, greatest = -1, RENEW if context.version >= RENEWAL_VERSION else REJECT
    for each in batches:
        first, last, types = each.first_offset, each.last_offset, each.acknowledge_types
        if first > last or first < end or not types:
            return False
        if len(types) > 1 and last - first != len(types) - 1:
            return False
        if not all(0 <= each <= greatest for each in types):
            return False
        if RENEW in types and not context.is_renewal:
            return False
        end = last
    return True


def _acknowledge(
    broker: Broker,
    context: AcknowledgeContext,
    place: TopicPartitionId,
    batches: list[AcknowledgementBatch],
    results: AcknowledgeResults,
) -> AcknowledgementResult:
    share_key = (context.group_id, *place)
    share = share_partitions.find(broker, share_key)
    if share is None or share.status == ShareStatus.FAILED:
        return AcknowledgementResult(
            *place, Error.UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_PARTITION_MESSAGE
        )
    results.places.append(place)
    limits = share_partitions.limits_of(broker, context.group_id)
    acknowledgements = [
        AcknowledgedRecords(each.first_offset, each.last_offset, tuple(each.acknowledge_types))
        for each in batches
    ]
    changes = share.acknowledge(context.member_id, acknowledgements, limits, broker.now)
    share_partitions.set_timer(broker, share_key)
    if isinstance(changes, ShareStateError):
        return AcknowledgementResult(*place, changes.error, changes.message)
    message = share_partitions.write_request(broker, share_key, changes)
    results.messages += [message] if message is not None else []
    return AcknowledgementResult(*place)
