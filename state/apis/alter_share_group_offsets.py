"""AlterShareGroupOffsets (key 91, version 0): where a share group without members goes on.

Source: `KafkaApis.handleAlterShareGroupOffsetsRequest`,
`GroupMetadataManager.alterShareGroupOffsets` in Kafka; KIP-932. What the whole request is refused
with, in this order:

    share groups are not enabled                  35 UNSUPPORTED_VERSION
    the client may not READ the group             30 GROUP_AUTHORIZATION_FAILED
    a group without a name                        24 INVALID_GROUP_ID
    this broker does not coordinate the group     16 NOT_COORDINATOR
    a group of another kind                       69 GROUP_ID_NOT_FOUND
    it has members                                68 NON_EMPTY_GROUP

A topic that the client may not READ has 29, one that there is not 3. Where a partition below 0 is
to be set, nothing is, and the request has -1: Kafka cannot ask share coordinators that. A group
that there is not is made where any topic is there, whichever of its partitions are named. Then the
share coordinators begin the partitions' states in the group's epoch; what they say of a partition
is its answer. Where there is no `__share_group_state` yet it is created first, and they are asked
then.
"""

import msgspec

from brokertwin.state.access.authorizer import Operation
from brokertwin.state.apis import earlier_writes, uncommitted
from brokertwin.state.cluster import internal_topics
from brokertwin.state.cluster.coordinators import SHARE_TOPIC
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core import kafka_apis
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Condition, Decision, Message, PendingRequest, Request
from brokertwin.state.core.errors import Error
from brokertwin.state.core.schema import ZERO_UUID, Uuid
from brokertwin.state.core.tables import decode_item
from brokertwin.state.core.wire.generated.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from brokertwin.state.core.wire.generated.create_topics import CreateTopicsResponse
from brokertwin.state.core.wire.generated.shared import ShareGroupStateResponse
from brokertwin.state.groups import share_offsets
from brokertwin.state.groups.consumer_group import Rejection
from brokertwin.state.groups.share_group import ShareGroup
from brokertwin.state.groups.share_offsets import ERROR_MESSAGES, Offsets, StatePersistResult
from brokertwin.state.groups.share_states import PartitionsByTopic

_FROM_STATE = "Error in initialize state RPC. "


class AlterState(msgspec.Struct):
    """A request that waits for share coordinators.

    Attributes:
        answer: what will be said, if none of them refuses.
        epoch: the state epoch that they begin.
        offsets: what they are asked for.
        answered: what they have said until now.
    """

    group_id: str
    answer: AlterShareGroupOffsetsResponse
    epoch: int
    offsets: Offsets
    answered: dict[Uuid, dict[int, StatePersistResult]] = {}


def handle(broker: Broker, request: Request) -> Decision:
    """Has the share coordinators asked, unless there is nothing to set."""
    body: AlterShareGroupOffsetsRequest = request.body
    error = share_offsets.request_error(broker, request, body.group_id, Operation.READ)
    group = None if error else share_offsets.empty_group(broker, body.group_id)
    if error is not Error.NONE:
        return _refuse(error, ERROR_MESSAGES[error])
    if isinstance(group, Rejection):
        return _refuse(group.error, group.message)
    answer, offsets, places = _sorted_out(broker, request)
    group = group or ShareGroup(body.group_id)
    if not any(offsets.values()):
        records = share_offsets.start_initializing(broker, group, places) if places else []
        return Decision(response=answer, records=records)
    odd = next(((topic, p) for topic, asked in offsets.items() for p in asked if p < 0), None)
    if odd is not None:
        text = f"Initialize share group parameters has invalid partitionId - {body.group_id}"
        refusal = _refuse(Error.UNKNOWN_SERVER_ERROR, f"{text} {odd[0]} {odd[1]}")
        refusal.records = share_offsets.start_initializing(broker, group, places)
        return refusal
    state = AlterState(body.group_id, answer, group.group_epoch, offsets)
    if broker.topic_by_name(SHARE_TOPIC) is None:
        decision = _wait(broker, state, internal_topics.creation(broker, [SHARE_TOPIC]))
    else:
        decision = _go_on(broker, state, share_offsets.NO_COORDINATOR)
    decision.records = share_offsets.start_initializing(broker, group, places)
    return decision


def _refuse(error: Error, message: str | None) -> Decision:
    response = AlterShareGroupOffsetsResponse(error_code=error, error_message=message)
    return Decision(response=response)


def _sorted_out(
    broker: Broker, request: Request
) -> tuple[AlterShareGroupOffsetsResponse, Offsets, PartitionsByTopic]:
    """The answer if all goes well, topics that are refused first; what is to be set, and to begin.

    A topic that comes twice is answered once, one that there is not without partitions not at all.
    What is written of it is what comes last, as by Kafka.
    """
    body: AlterShareGroupOffsetsRequest = request.body
    denied = broker.denied_topics(request, Operation.READ, (t.topic_name for t in body.topics))
    refused: dict[str, AlterShareGroupOffsetsResponseTopic] = {}
    taken: dict[str, AlterShareGroupOffsetsResponseTopic] = {}
    offsets: Offsets = {}
    places: PartitionsByTopic = {}
    for asked in body.topics:
        topic = broker.topic_by_name(asked.topic_name)
        name, topic_id = asked.topic_name, topic.topic_id if topic else ZERO_UUID
        count = len(topic.partitions) if topic is not None else 0
        error = Error.UNKNOWN_TOPIC_OR_PARTITION
        if asked.topic_name in denied:
            count, error = 0, Error.TOPIC_AUTHORIZATION_FAILED
        if not count and not asked.partitions:
            continue
        told = AlterShareGroupOffsetsResponseTopic(
            topic_name=name, topic_id=topic_id, partitions=[]
        )
        told = (taken if count else refused).setdefault(name, told)
        if count:
            offsets.setdefault(topic_id, {})
            numbers = [each.partition_index for each in asked.partitions]
            places[topic_id] = [each for each in dict.fromkeys(numbers) if each < count]
        for each in asked.partitions:
            result = AlterShareGroupOffsetsResponsePartition(partition_index=each.partition_index)
            if count and each.partition_index < count:
                offsets[topic_id][each.partition_index] = each.start_offset
            else:
                result.error_code, result.error_message = error, ERROR_MESSAGES[error]
            told.partitions.append(result)
    responses = [*refused.values(), *taken.values()]
    return AlterShareGroupOffsetsResponse(responses=responses), offsets, places


def _go_on(broker: Broker, state: AlterState, after: int) -> Decision:
    """Asks the next share coordinator, or answers once all have been asked."""
    message = share_offsets.next_initialize_request(
        broker, state.group_id, state.epoch, state.offsets, after
    )
    if message is not None:
        return _wait(broker, state, [message])
    if not _put_errors(state):
        records = share_offsets.finish_initializing(broker, state.group_id, state.offsets)
        return Decision(response=state.answer, records=records)
    return Decision(response=state.answer)


def _wait(broker: Broker, state: AlterState, messages: list[Message]) -> Decision:
    """The answer comes when these are answered, or their time is over."""
    deadline = broker.now + broker.settings.request_timeout_ms
    return Decision(
        condition=Condition(deadline, [], msgspec.msgpack.encode(state)), messages=messages
    )


def _put_errors(state: AlterState) -> bool:
    """Puts into the answer what share coordinators have refused; whether there was anything."""
    is_any = False
    nobody = StatePersistResult(
        Error.COORDINATOR_NOT_AVAILABLE, ERROR_MESSAGES[Error.COORDINATOR_NOT_AVAILABLE]
    )
    for topic in state.answer.responses:
        asked = state.offsets.get(topic.topic_id, {})
        said = state.answered.get(topic.topic_id, {})
        for result in topic.partitions:
            if result.error_code or result.partition_index not in asked:
                continue
            answered = said.get(result.partition_index, nobody)
            if answered.error:
                is_any = True
                result.error_code = answered.error
                result.error_message = f"{_FROM_STATE}{answered.message}"
    return is_any


def resume(
    broker: Broker,
    waiting: PendingRequest,
    message: Message,
    response: ShareGroupStateResponse | CreateTopicsResponse,
) -> Decision:
    """The topic of their states has been created, or a share coordinator has answered: the next."""
    state = decode_item(waiting.state, AlterState)
    if isinstance(response, CreateTopicsResponse):
        return _go_on(broker, state, share_offsets.NO_COORDINATOR)
    for topic_id, answers in share_offsets.results_by_partition(response).items():
        state.answered.setdefault(topic_id, {}).update(answers)
    return _go_on(broker, state, message.receiver)


def complete(_broker: Broker, waiting: PendingRequest) -> Decision:
    """A share coordinator has not answered in time."""
    state = decode_item(waiting.state, AlterState)
    _put_errors(state)
    return Decision(response=state.answer)


API: Api = Api(
    kafka_apis.ALTER_SHARE_GROUP_OFFSETS,
    AlterShareGroupOffsetsRequest,
    handle,
    resume=resume,
    complete=complete,
    earlier_writes=earlier_writes.of_altered_share_offsets,
    uncommitted=uncommitted.error_alone,
    response_type=AlterShareGroupOffsetsResponse,
)
