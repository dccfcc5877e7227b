"""DescribeShareGroupOffsets (key 90, versions 0 and 1): where share groups are, and their lag.

Source: `KafkaApis.handleDescribeShareGroupOffsetsRequest`,
`GroupCoordinatorService.describeShareGroupOffsets`, `computeShareGroupLagAndBuildResponse` in
Kafka; KIP-932, KIP-1226 (lag). Each group has its own answer, in this order:

    share groups are not enabled             35 UNSUPPORTED_VERSION
    the client may not DESCRIBE the group    30 GROUP_AUTHORIZATION_FAILED
    all topics are asked for, of a group that another broker coordinates    16 NOT_COORDINATOR
    of a topic that there is no partition is asked for, or one below 0, or
    the group has no name: Kafka cannot ask share coordinators that         -1 UNKNOWN_SERVER_ERROR

Topics that the client may not DESCRIBE have 29 where they are named, else they are left out. Share
coordinators are asked first (their topic is created where it is not there), then the leaders of the
partitions whose start offset is known, one after the other. The lag is what lies between the start
offset and the high watermark, less what is done with. A start offset -1 is one that is not known,
or there is no such topic or partition: Kafka asks for a missing partition for half a minute before
it says so.
"""

import msgspec

from brokertwin.state.access.authorizer import Operation, ResourceType
from brokertwin.state.apis.list_offsets import API as LIST_OFFSETS
from brokertwin.state.apis.list_offsets import CONSUMER, LATEST
from brokertwin.state.cluster import coordinators, features, internal_topics
from brokertwin.state.cluster.coordinators import SHARE_TOPIC
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core import kafka_apis
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Condition, Decision, Message, PendingRequest, Request
from brokertwin.state.core.errors import Error
from brokertwin.state.core.schema import ZERO_UUID, Uuid
from brokertwin.state.core.tables import decode_item
from brokertwin.state.core.wire.generated.create_topics import CreateTopicsResponse
from brokertwin.state.core.wire.generated.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from brokertwin.state.core.wire.generated.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from brokertwin.state.core.wire.generated.read_share_group_state_summary import (
    ReadShareGroupStateSummaryResponse,
    ReadShareGroupStateSummaryResponsePartitionResult,
)
from brokertwin.state.core.wire.generated.shared import (
    ReadShareGroupStateRequest,
    ReadStateData,
    ReadStatePartition,
)
from brokertwin.state.groups import groups, share_states
from brokertwin.state.groups.share_group import ShareGroup
from brokertwin.state.groups.share_offsets import ERROR_MESSAGES
from brokertwin.state.groups.share_states import PartitionsByTopic
from brokertwin.state.share import result_order

FIRST = "0"
"""The context of the first group (`_go_on`)."""

UNKNOWN = -1
"""An offset or a count that nobody knows."""


class DescribeState(msgspec.Struct):
    """A request that waits for share coordinators, then for leaders.

    `done` has how many records are done with behind the start offset of partitions whose lag is to
    be computed: by the group's place in the answer, topic id and partition.
    """

    groups: list[DescribeShareGroupOffsetsResponseGroup]
    done: dict[int, dict[Uuid, dict[int, int]]] = {}


def handle(broker: Broker, request: Request) -> Decision:
    """Has share coordinators and leaders asked, where there is anything to ask for."""
    body: DescribeShareGroupOffsetsRequest = request.body
    state = DescribeState([_begun(broker, request, asked) for asked in body.groups])
    is_asked = any(_unknown(group) for group in state.groups)
    if is_asked and broker.topic_by_name(SHARE_TOPIC) is None:
        return _wait(broker, state, internal_topics.creation(broker, [SHARE_TOPIC]))
    return _go_on(broker, state, FIRST, -1)


def _begun(
    broker: Broker, request: Request, asked: DescribeShareGroupOffsetsRequestGroup
) -> DescribeShareGroupOffsetsResponseGroup:
    """A group with nothing known of its partitions, or its error."""
    group_id = asked.group_id
    error = Error.NONE
    if not broker.has_feature(features.SHARE):
        error = Error.UNSUPPORTED_VERSION
    elif not broker.allows(request, Operation.DESCRIBE, ResourceType.GROUP, group_id):
        error = Error.GROUP_AUTHORIZATION_FAILED
    elif asked.topics is None:
        error = coordinators.group_error(broker, group_id)
    if error is not Error.NONE:
        is_denied = error is Error.GROUP_AUTHORIZATION_FAILED
        message = None if is_denied else ERROR_MESSAGES[error]
        return DescribeShareGroupOffsetsResponseGroup(
            group_id=group_id, error_code=error, error_message=message
        )
    if asked.topics is None:
        return DescribeShareGroupOffsetsResponseGroup(
            group_id=group_id, topics=_all(broker, request, group_id)
        )
    names = [topic.topic_name for topic in asked.topics]
    denied = broker.denied_topics(request, Operation.DESCRIBE, names)
    known: dict[Uuid, DescribeShareGroupOffsetsResponseTopic] = {}
    can_be_asked = True
    unknown: list[DescribeShareGroupOffsetsResponseTopic] = []
    refused: list[DescribeShareGroupOffsetsResponseTopic] = []
    for topic in asked.topics:
        found = broker.topic_by_name(topic.topic_name)
        told = _topic(topic.topic_name, found.topic_id if found else ZERO_UUID, topic.partitions)
        if topic.topic_name in denied:
            refused.append(_denied(told))
        elif found is None:
            unknown.append(told)
        else:
            can_be_asked = can_be_asked and min(topic.partitions, default=-1) >= 0
            known.setdefault(found.topic_id, _topic(topic.topic_name, found.topic_id, []))
            known[found.topic_id].partitions += told.partitions
    if known and not (can_be_asked and group_id):
        error = Error.UNKNOWN_SERVER_ERROR
        return DescribeShareGroupOffsetsResponseGroup(
            group_id=group_id, error_code=error, error_message=ERROR_MESSAGES[error]
        )
    ordered = [_ordered(topic) for topic in result_order.topics(list(known.values()))]
    return DescribeShareGroupOffsetsResponseGroup(
        group_id=group_id, topics=[*ordered, *unknown, *refused]
    )


def _all(
    broker: Broker, request: Request, group_id: str
) -> list[DescribeShareGroupOffsetsResponseTopic]:
    """The partitions of a group whose state is there."""
    group = groups.find(broker, group_id)
    if not isinstance(group, ShareGroup):
        return []
    topics = [(broker.topic_by_id(each), ready) for each, ready in group.initialized.items()]
    told = [
        _topic(topic.name, topic.topic_id, ready.partitions)
        for topic, ready in topics
        if topic is not None and ready.partitions
    ]
    denied = broker.denied_topics(request, Operation.DESCRIBE, (each.topic_name for each in told))
    ordered = map(_ordered, result_order.topics(told))
    return [topic for topic in ordered if topic.topic_name not in denied]


def _topic(
    name: str, topic_id: Uuid, partitions: list[int]
) -> DescribeShareGroupOffsetsResponseTopic:
    told = [DescribeShareGroupOffsetsResponsePartition(partition_index=each) for each in partitions]
    return DescribeShareGroupOffsetsResponseTopic(
        topic_name=name, topic_id=topic_id, partitions=told
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


# Who is asked


def _go_on(broker: Broker, state: DescribeState, context: str, after: int) -> Decision:
    """Asks whoever comes after the one that has answered, or answers.

    `context` is the group that share coordinators were asked about, by its place in the answer, or
    `""` where a leader has answered.
    """
    message = _next_summary(broker, state, int(context), after) if context else None
    if message is None:
        message = _next_lag(broker, state, -1 if context else after)
    if message is None:
        return _answer(state)
    return _wait(broker, state, [message])


def _wait(broker: Broker, state: DescribeState, messages: list[Message]) -> Decision:
    """The answer comes when these are answered, or their time is over."""
    deadline = broker.now + broker.settings.request_timeout_ms
    return Decision(
        condition=Condition(deadline, [], msgspec.msgpack.encode(state)), messages=messages
    )


def _next_summary(broker: Broker, state: DescribeState, place: int, after: int) -> Message | None:
    for number in range(place, len(state.groups)):
        group = state.groups[number]
        asked = share_states.by_coordinator(broker, group.group_id, _unknown(group))
        receiver = min((each for each in asked if each > after), default=None)
        if receiver is not None:
            topics = [
                ReadStateData(
                    topic_id=topic_id,
                    partitions=[ReadStatePartition(partition=each) for each in partitions],
                )
                for topic_id, partitions in asked[receiver].items()
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
    """The partitions of a group that share coordinators are asked for."""
    return {
        topic.topic_id: [each.partition_index for each in topic.partitions]
        for topic in group.topics
        if topic.topic_id != ZERO_UUID
    }


def _next_lag(broker: Broker, state: DescribeState, after: int) -> Message | None:
    asked: dict[int, dict[str, set[int]]] = {}
    for topics in state.done.values():
        for topic_id, partitions in topics.items():
            topic = broker.topic_by_id(topic_id)
            for number in partitions if topic is not None else ():
                assert topic is not None
                leader = topic.partitions[number].leader
                asked.setdefault(leader, {}).setdefault(topic.name, set()).add(number)
    receiver = min((each for each in asked if each > after), default=None)
    if receiver is None:
        return None
    listed = [
        ListOffsetsTopic(
            name=name,
            partitions=[
                ListOffsetsPartition(partition_index=p, timestamp=LATEST) for p in sorted(numbers)
            ],
        )
        for name, numbers in asked[receiver].items()
    ]
    body = ListOffsetsRequest(replica_id=CONSUMER, topics=listed)
    return Message(broker.id, receiver, LIST_OFFSETS.key, body)


# What they answer


def resume(
    broker: Broker,
    waiting: PendingRequest,
    message: Message,
    response: ReadShareGroupStateSummaryResponse | ListOffsetsResponse | CreateTopicsResponse,
) -> Decision:
    """The topic of states was created, or one who knows has answered; the next one is asked."""
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
        for told in topic.partitions:
            if (topic.topic_id, told.partition_index) == (topic_id, summary.partition):
                told.start_offset, told.leader_epoch = summary.start_offset, summary.leader_epoch
    if UNKNOWN not in (summary.start_offset, summary.delivery_complete_count):
        done = state.done.setdefault(place, {}).setdefault(topic_id, {})
        done[summary.partition] = summary.delivery_complete_count


def _take_end(state: DescribeState, name: str, listed: ListOffsetsPartitionResponse) -> None:
    """Computes the lag of a partition in each group that asks for it; or it has an error."""
    number = listed.partition_index
    for place, topics in state.done.items():
        for topic in state.groups[place].topics:
            done = topics.get(topic.topic_id, {})
            if topic.topic_name == name and number in done:
                _set_lag(topic, number, listed.offset - done.pop(number), listed.error_code)


def _set_lag(
    topic: DescribeShareGroupOffsetsResponseTopic, number: int, end: int, error: int
) -> None:
    """`end` is the high watermark less what is done with."""
    for at, told in enumerate(topic.partitions):
        if told.partition_index != number:
            continue
        if error:
            topic.partitions[at] = DescribeShareGroupOffsetsResponsePartition(
                partition_index=number,
                start_offset=0,
                error_code=error,
                error_message=ERROR_MESSAGES.get(Error(error)),
            )
        else:
            told.lag = end - told.start_offset


def _answer(state: DescribeState) -> Decision:
    """The answer; partitions of whose leaders nothing was heard have an error."""
    for place, topics in state.done.items():
        for topic in state.groups[place].topics:
            for number in topics.get(topic.topic_id, {}):
                _set_lag(topic, number, 0, Error.LEADER_NOT_AVAILABLE)
    return Decision(response=DescribeShareGroupOffsetsResponse(groups=state.groups))


def complete(_broker: Broker, waiting: PendingRequest) -> Decision:
    """Somebody has not answered in time."""
    return _answer(decode_item(waiting.state, DescribeState))


API = Api(
    kafka_apis.DESCRIBE_SHARE_GROUP_OFFSETS,
    DescribeShareGroupOffsetsRequest,
    handle,
    resume=resume,
    complete=complete,
)
