"""DescribeShareGroupOffsets (key 90, versions 0 to 1): offsets and lag.

Source: `KafkaApis.handleDescribeShareGroupOffsetsRequest`,
`GroupCoordinatorService.describeShareGroupOffsets`, `computeShareGroupLagAndBuildResponse` in
Kafka; KIP-932, KIP-1226 (lag). The errors of each group, in this order:

    share groups are disabled                     35 UNSUPPORTED_VERSION
    no DESCRIBE on the group                      30 GROUP_AUTHORIZATION_FAILED
    all topics of the group are requested, and
    another broker coordinates it                 16 NOT_COORDINATOR
    an existing topic is requested with a
    partition below 0, without partitions, or
    for an empty group id                         -1 UNKNOWN_SERVER_ERROR

A requested topic without DESCRIBE is `29 TOPIC_AUTHORIZATION_FAILED`; if all topics are requested,
it is omitted. The broker first queries the share coordinators and creates `__share_group_state` if
it is missing. Then it queries the leaders of the partitions with a known start offset, one after
the other.

The lag is the distance from the start offset to the high watermark, less the completed records in
between. A start offset of -1 is unknown, or the topic or partition is missing. For a missing
partition, Kafka retries for 30 seconds before it responds.
"""

import msgspec

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.bodies import ZERO_UUID, Uuid
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.create_topics import CreateTopicsResponse
from brokertwin.protocol.generated.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from brokertwin.protocol.generated.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from brokertwin.protocol.generated.read_share_group_state_summary import (
    ReadShareGroupStateSummaryResponse,
    ReadShareGroupStateSummaryResponsePartitionResult,
)
from brokertwin.protocol.generated.shared import (
    ReadShareGroupStateRequest,
    ReadStateData,
    ReadStatePartition,
)
from brokertwin.state.access.authorizer import Operation, ResourceType
from brokertwin.state.apis.list_offsets import API as LIST_OFFSETS
from brokertwin.state.apis.list_offsets import CONSUMER, LATEST
from brokertwin.state.cluster import coordinators, features, internal_topics
from brokertwin.state.cluster.coordinators import SHARE_TOPIC
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Decision, Message, PendingRequest, Request
from brokertwin.state.core.tables import decode_item
from brokertwin.state.groups import groups, share_states
from brokertwin.state.groups.share_group import ShareGroup
from brokertwin.state.groups.share_offsets import ERROR_MESSAGES, wait_for_coordinators
from brokertwin.state.groups.share_states import PartitionsByTopic
from brokertwin.state.share import result_order

FIRST = "0"
"""The context of a query about the first group (see `_go_on`)."""

UNKNOWN = -1
"""An unknown offset or count."""


class DescribeState(msgspec.Struct):
    """A request that waits for share coordinators, then for leaders.

    `done` is the number of completed records after the start offset, for partitions whose lag is
    pending: by the group's index in the response, topic id and partition.
    """

    groups: list[DescribeShareGroupOffsetsResponseGroup]
    done: dict[int, dict[Uuid, dict[int, int]]] = {}


def handle(broker: Broker, request: Request) -> Decision:
    """Query share coordinators and leaders for the partitions, if any."""
    body: DescribeShareGroupOffsetsRequest = request.body
    state = DescribeState([_initial(broker, request, group) for group in body.groups])
    needs_states = any(_unknown(group) for group in state.groups)
    if needs_states and broker.topic_by_name(SHARE_TOPIC) is None:
        return wait_for_coordinators(broker, state, internal_topics.creation(broker, [SHARE_TOPIC]))
    return _go_on(broker, state, FIRST, -1)


def _initial(
    broker: Broker, request: Request, requested: DescribeShareGroupOffsetsRequestGroup
) -> DescribeShareGroupOffsetsResponseGroup:
    group_id = requested.group_id
    error = Error.NONE
    if not broker.has_feature(features.SHARE):
        error = Error.UNSUPPORTED_VERSION
    elif not broker.allows(request, Operation.DESCRIBE, ResourceType.GROUP, group_id):
        error = Error.GROUP_AUTHORIZATION_FAILED
    elif requested.topics is None:
        error = coordinators.group_error(broker, group_id)
    if error is not Error.NONE:
        is_denied = error is Error.GROUP_AUTHORIZATION_FAILED
        message = None if is_denied else ERROR_MESSAGES[error]
        return DescribeShareGroupOffsetsResponseGroup(
            group_id=group_id, error_code=error, error_message=message
        )
    if requested.topics is None:
        return DescribeShareGroupOffsetsResponseGroup(
            group_id=group_id, topics=_all(broker, request, group_id)
        )
    names = [topic.topic_name for topic in requested.topics]
    denied = broker.denied_topics(request, Operation.DESCRIBE, names)
    topics: dict[Uuid, DescribeShareGroupOffsetsResponseTopic] = {}
    is_valid = True
    unknown: list[DescribeShareGroupOffsetsResponseTopic] = []
    refused: list[DescribeShareGroupOffsetsResponseTopic] = []
    for topic in requested.topics:
        existing = broker.topic_by_name(topic.topic_name)
        result = _topic(
            topic.topic_name, existing.topic_id if existing else ZERO_UUID, topic.partitions
        )
        if topic.topic_name in denied:
            refused.append(_denied(result))
        elif existing is None:
            unknown.append(result)
        else:
            is_valid = is_valid and min(topic.partitions, default=-1) >= 0
            topics.setdefault(existing.topic_id, _topic(topic.topic_name, existing.topic_id, []))
            topics[existing.topic_id].partitions += result.partitions
    if topics and not (is_valid and group_id):
        error = Error.UNKNOWN_SERVER_ERROR
        return DescribeShareGroupOffsetsResponseGroup(
            group_id=group_id, error_code=error, error_message=ERROR_MESSAGES[error]
        )
    ordered = [_ordered(topic) for topic in result_order.topics(list(topics.values()))]
    return DescribeShareGroupOffsetsResponseGroup(
        group_id=group_id, topics=[*ordered, *unknown, *refused]
    )


def _all(
    broker: Broker, request: Request, group_id: str
) -> list[DescribeShareGroupOffsetsResponseTopic]:
    """Return the partitions of a group that have a state."""
    group = groups.find(broker, group_id)
    if not isinstance(group, ShareGroup):
        return []
    topics = [(broker.topic_by_id(each), ready) for each, ready in group.initialized.items()]
    results = [
        _topic(topic.name, topic.topic_id, ready.partitions)
        for topic, ready in topics
        if topic is not None and ready.partitions
    ]
    names = (each.topic_name for each in results)
    denied = broker.denied_topics(request, Operation.DESCRIBE, names)
    ordered = map(_ordered, result_order.topics(results))
    return [topic for topic in ordered if topic.topic_name not in denied]


def _topic(
    name: str, topic_id: Uuid, partitions: list[int]
) -> DescribeShareGroupOffsetsResponseTopic:
    results = [
        DescribeShareGroupOffsetsResponsePartition(partition_index=each) for each in partitions
    ]
    return DescribeShareGroupOffsetsResponseTopic(
        topic_name=name, topic_id=topic_id, partitions=results
    )


def _ordered(
    topic: DescribeShareGroupOffsetsResponseTopic,
) -> DescribeShareGroupOffsetsResponseTopic:
    numbers = [ReadStatePartition(partition=each.partition_index) for each in topic.partitions]
    ordered = [each.partition for each in result_order.partitions(numbers)]
    return _topic(topic.topic_name, topic.topic_id, ordered)


def _denied(
    topic: DescribeShareGroupOffsetsResponseTopic,
) -> DescribeShareGroupOffsetsResponseTopic:
    error = Error.TOPIC_AUTHORIZATION_FAILED
    for each in topic.partitions:
        each.error_code, each.error_message = error, ERROR_MESSAGES[error]
    return DescribeShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name, partitions=topic.partitions
    )


# Queries


def _go_on(broker: Broker, state: DescribeState, context: str, after: int) -> Decision:
    """Send the next query, or respond after the last one.

    `context` is the index in the response of the group that the last query was about, or `""` if
    that query went to a leader. `after` is the broker that responded to it.
    """
    message = _next_summary(broker, state, int(context), after) if context else None
    if message is None:
        message = _next_lag(broker, state, -1 if context else after)
    if message is None:
        return _response(state)
    return wait_for_coordinators(broker, state, [message])


def _next_summary(broker: Broker, state: DescribeState, place: int, after: int) -> Message | None:
    for number in range(place, len(state.groups)):
        group = state.groups[number]
        following = share_states.next_coordinator(broker, group.group_id, _unknown(group), after)
        if following is not None:
            receiver, requested = following
            topics = [
                ReadStateData(
                    topic_id=topic_id,
                    partitions=[ReadStatePartition(partition=each) for each in partitions],
                )
                for topic_id, partitions in requested.items()
            ]
            body = ReadShareGroupStateRequest(group_id=group.group_id, topics=topics)
            return Message(
                broker.id,
                receiver,
                kafka_apis.READ_SHARE_GROUP_STATE_SUMMARY.key,
                body,
                context=str(number),
            )
        after = -1
    return None


def _unknown(group: DescribeShareGroupOffsetsResponseGroup) -> PartitionsByTopic:
    """Return the partitions of a group to query from share coordinators."""
    return {
        topic.topic_id: [each.partition_index for each in topic.partitions]
        for topic in group.topics
        if topic.topic_id != ZERO_UUID
    }


def _next_lag(broker: Broker, state: DescribeState, after: int) -> Message | None:
    leaders: dict[int, dict[str, set[int]]] = {}
    for topics in state.done.values():
        for topic_id, partitions in topics.items():
            topic = broker.topic_by_id(topic_id)
            for number in partitions if topic is not None else ():
                assert topic is not None
                leader = topic.partitions[number].leader
                leaders.setdefault(leader, {}).setdefault(topic.name, set()).add(number)
    receiver = min((each for each in leaders if each > after), default=None)
    if receiver is None:
        return None
    listed = [
        ListOffsetsTopic(
            name=name,
            partitions=[
                ListOffsetsPartition(partition_index=p, timestamp=LATEST) for p in sorted(numbers)
            ],
        )
        for name, numbers in leaders[receiver].items()
    ]
    body = ListOffsetsRequest(replica_id=CONSUMER, topics=listed)
    return Message(broker.id, receiver, LIST_OFFSETS.key, body)


# Responses


def resume(
    broker: Broker,
    waiting: PendingRequest,
    message: Message,
    response: ReadShareGroupStateSummaryResponse | ListOffsetsResponse | CreateTopicsResponse,
) -> Decision:
    """Continue after a topic creation or the response to a query."""
    state = decode_item(waiting.state, DescribeState)
    if isinstance(response, CreateTopicsResponse):
        return _go_on(broker, state, FIRST, -1)
    if isinstance(response, ListOffsetsResponse):
        for listed in response.topics:
            for partition in listed.partitions:
                _take_end(state, listed.name, partition)
    else:
        for summarized in response.results:
            for summary in summarized.partitions:
                _take_summary(state, int(message.context), summarized.topic_id, summary)
    return _go_on(broker, state, message.context, message.receiver)


def _take_summary(
    state: DescribeState,
    place: int,
    topic_id: Uuid,
    summary: ReadShareGroupStateSummaryResponsePartitionResult,
) -> None:
    if summary.error_code:
        return
    for topic in state.groups[place].topics:
        for result in topic.partitions:
            if (topic.topic_id, result.partition_index) == (topic_id, summary.partition):
                result.start_offset = summary.start_offset
                result.leader_epoch = summary.leader_epoch
    if UNKNOWN not in (summary.start_offset, summary.delivery_complete_count):
        done = state.done.setdefault(place, {}).setdefault(topic_id, {})
        done[summary.partition] = summary.delivery_complete_count


def _take_end(state: DescribeState, name: str, listed: ListOffsetsPartitionResponse) -> None:
    """Set the lag or the error of a partition in each group that requested it."""
    number = listed.partition_index
    for place, topics in state.done.items():
        for topic in state.groups[place].topics:
            done = topics.get(topic.topic_id, {})
            if topic.topic_name == name and number in done:
                _set_lag(topic, number, listed.offset - done.pop(number), listed.error_code)


def _set_lag(
    topic: DescribeShareGroupOffsetsResponseTopic, number: int, end: int, error: int
) -> None:
    """Set the lag or error; `end` excludes the completed records."""
    for at, result in enumerate(topic.partitions):
        if result.partition_index != number:
            continue
        if error:
            topic.partitions[at] = DescribeShareGroupOffsetsResponsePartition(
                partition_index=number,
                start_offset=0,
                error_code=error,
                error_message=ERROR_MESSAGES.get(Error(error)),
            )
        else:
            result.lag = end - result.start_offset


def _response(state: DescribeState) -> Decision:
    """Respond; partitions with a silent leader get `5 LEADER_NOT_AVAILABLE`."""
    for place, topics in state.done.items():
        for topic in state.groups[place].topics:
            for number in topics.get(topic.topic_id, {}):
                _set_lag(topic, number, 0, Error.LEADER_NOT_AVAILABLE)
    return Decision(response=DescribeShareGroupOffsetsResponse(groups=state.groups))


def complete(_broker: Broker, waiting: PendingRequest) -> Decision:
    """Respond when a queried broker has exceeded the request timeout."""
    return _response(decode_item(waiting.state, DescribeState))


API = Api(kafka_apis.DESCRIBE_SHARE_GROUP_OFFSETS, handle, resume=resume, complete=complete)
