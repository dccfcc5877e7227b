"""AlterShareGroupOffsets (key 91, version 0): set start offsets.

Source: `KafkaApis.handleAlterShareGroupOffsetsRequest`,
`GroupMetadataManager.alterShareGroupOffsets` in Kafka; KIP-932. The errors of the whole request, in
this order:

    share groups are disabled                     35 UNSUPPORTED_VERSION
    no READ on the group                          30 GROUP_AUTHORIZATION_FAILED
    empty group id                                24 INVALID_GROUP_ID
    this broker does not coordinate the group     16 NOT_COORDINATOR
    a group of another type                       69 GROUP_ID_NOT_FOUND
    the group has members                         68 NON_EMPTY_GROUP
    a partition below 0 of an existing topic      -1 UNKNOWN_SERVER_ERROR; no offset is set

The errors of a topic:

    no READ on the topic                          29 TOPIC_AUTHORIZATION_FAILED
    missing topic or partition                    3 UNKNOWN_TOPIC_OR_PARTITION

A missing group is created if any topic exists, whichever of its partitions are requested. Then the
share coordinators initialize the partitions' states in the group's epoch; their errors become the
partitions' errors. If `__share_group_state` does not exist, it is created first.
"""

import msgspec

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.bodies import ZERO_UUID, Uuid
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from brokertwin.protocol.generated.create_topics import CreateTopicsResponse
from brokertwin.protocol.generated.shared import ShareGroupStateResponse
from brokertwin.state.access.authorizer import Operation
from brokertwin.state.apis import earlier_writes, uncommitted
from brokertwin.state.cluster import internal_topics
from brokertwin.state.cluster.coordinators import SHARE_TOPIC
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.api import Api, Refused
from brokertwin.state.core.decision import Decision, Message, PendingRequest, Request
from brokertwin.state.core.tables import decode_item
from brokertwin.state.groups import share_offsets, share_states
from brokertwin.state.groups.share_group import ShareGroup
from brokertwin.state.groups.share_offsets import (
    ERROR_MESSAGES,
    StatePersistResult,
    wait_for_coordinators,
)
from brokertwin.state.groups.share_states import Offsets, PartitionsByTopic

_FROM_STATE = "Error in initialize state RPC. "


class AlterState(msgspec.Struct):
    """A request that waits for share coordinators.

    Attributes:
        response: the response if no share coordinator returns an error.
        epoch: the state epoch to initialize.
        offsets: the requested start offsets.
        results: the results received so far.
    """

    group_id: str
    response: AlterShareGroupOffsetsResponse = msgspec.field(name="answer")
    epoch: int
    offsets: Offsets
    results: dict[Uuid, dict[int, StatePersistResult]] = msgspec.field(
        default_factory=dict, name="answered"
    )


def handle(broker: Broker, request: Request) -> Decision:
    body: AlterShareGroupOffsetsRequest = request.body
    error = share_offsets.request_error(broker, request, body.group_id, Operation.READ)
    if error is not Error.NONE:
        raise Refused(error, ERROR_MESSAGES[error])
    group = share_offsets.empty_group(broker, body.group_id)
    response, offsets, places = _sorted_out(broker, request)
    group = group or ShareGroup(body.group_id)
    if not any(offsets.values()):
        records = share_offsets.start_initializing(broker, group, places) if places else []
        return Decision(response=response, records=records)
    invalid = next(((topic, p) for topic, named in offsets.items() for p in named if p < 0), None)
    if invalid is not None:
        text = f"Initialize share group parameters has invalid partitionId - {body.group_id}"
        refused = AlterShareGroupOffsetsResponse(
            error_code=Error.UNKNOWN_SERVER_ERROR, error_message=f"{text} {invalid[0]} {invalid[1]}"
        )
        records = share_offsets.start_initializing(broker, group, places)
        return Decision(response=refused, records=records)
    state = AlterState(body.group_id, response, group.group_epoch, offsets)
    if broker.topic_by_name(SHARE_TOPIC) is None:
        decision = wait_for_coordinators(
            broker, state, internal_topics.creation(broker, [SHARE_TOPIC])
        )
    else:
        decision = _go_on(broker, state, share_states.NO_COORDINATOR)
    decision.records = share_offsets.start_initializing(broker, group, places)
    return decision


def _sorted_out(
    broker: Broker, request: Request
) -> tuple[AlterShareGroupOffsetsResponse, Offsets, PartitionsByTopic]:
    """Return the response so far, the offsets and the partitions to set.

    Refused topics come first. A repeated topic has one result; a missing topic without partitions
    has none. The last request for a partition applies, like in Kafka.
    """
    body: AlterShareGroupOffsetsRequest = request.body
    denied = broker.denied_topics(request, Operation.READ, (t.topic_name for t in body.topics))
    refused: dict[str, AlterShareGroupOffsetsResponseTopic] = {}
    taken: dict[str, AlterShareGroupOffsetsResponseTopic] = {}
    offsets: Offsets = {}
    places: PartitionsByTopic = {}
    for requested in body.topics:
        topic = broker.topic_by_name(requested.topic_name)
        name, topic_id = requested.topic_name, topic.topic_id if topic else ZERO_UUID
        count = len(topic.partitions) if topic is not None else 0
        error = Error.UNKNOWN_TOPIC_OR_PARTITION
        if requested.topic_name in denied:
            count, error = 0, Error.TOPIC_AUTHORIZATION_FAILED
        if not count and not requested.partitions:
            continue
        outcome = AlterShareGroupOffsetsResponseTopic(
            topic_name=name, topic_id=topic_id, partitions=[]
        )
        outcome = (taken if count else refused).setdefault(name, outcome)
        if count:
            offsets.setdefault(topic_id, {})
            numbers = [each.partition_index for each in requested.partitions]
            places[topic_id] = [each for each in dict.fromkeys(numbers) if each < count]
        for each in requested.partitions:
            result = AlterShareGroupOffsetsResponsePartition(partition_index=each.partition_index)
            if count and each.partition_index < count:
                offsets[topic_id][each.partition_index] = each.start_offset
            else:
                result.error_code, result.error_message = error, ERROR_MESSAGES[error]
            outcome.partitions.append(result)
    responses = [*refused.values(), *taken.values()]
    return AlterShareGroupOffsetsResponse(responses=responses), offsets, places


def _go_on(broker: Broker, state: AlterState, after: int) -> Decision:
    """Query the next share coordinator, or respond after the last one."""
    message = share_states.next_initialize_request(
        broker, state.group_id, state.epoch, state.offsets, after
    )
    if message is not None:
        return wait_for_coordinators(broker, state, [message])
    if not _put_errors(state):
        records = share_offsets.finish_initializing(broker, state.group_id, state.offsets)
        return Decision(response=state.response, records=records)
    return Decision(response=state.response)


def _put_errors(state: AlterState) -> bool:
    """Copy errors of share coordinators; return whether there are any."""
    has_errors = False
    unavailable = StatePersistResult(
        Error.COORDINATOR_NOT_AVAILABLE, ERROR_MESSAGES[Error.COORDINATOR_NOT_AVAILABLE]
    )
    for topic in state.response.responses:
        requested = state.offsets.get(topic.topic_id, {})
        received = state.results.get(topic.topic_id, {})
        for result in topic.partitions:
            if result.error_code or result.partition_index not in requested:
                continue
            persisted = received.get(result.partition_index, unavailable)
            if persisted.error:
                has_errors = True
                result.error_code = persisted.error
                result.error_message = f"{_FROM_STATE}{persisted.message}"
    return has_errors


def resume(
    broker: Broker,
    waiting: PendingRequest,
    message: Message,
    response: ShareGroupStateResponse | CreateTopicsResponse,
) -> Decision:
    """Continue after a topic creation or a share coordinator's response."""
    state = decode_item(waiting.state, AlterState)
    if isinstance(response, CreateTopicsResponse):
        return _go_on(broker, state, share_states.NO_COORDINATOR)
    for topic_id, results in share_offsets.results_by_partition(response).items():
        state.results.setdefault(topic_id, {}).update(results)
    return _go_on(broker, state, message.receiver)


def complete(_broker: Broker, waiting: PendingRequest) -> Decision:
    """Respond when a share coordinator has exceeded the request timeout."""
    state = decode_item(waiting.state, AlterState)
    _put_errors(state)
    return Decision(response=state.response)


API: Api = Api(
    kafka_apis.ALTER_SHARE_GROUP_OFFSETS,
    handle,
    resume=resume,
    complete=complete,
    earlier_writes=earlier_writes.of_altered_share_offsets,
    uncommitted=uncommitted.error_alone,
)
