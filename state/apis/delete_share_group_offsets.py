"""DeleteShareGroupOffsets (key 92, version 0): delete offsets of topics.

Source: `KafkaApis.handleDeleteShareGroupOffsetsRequest`, `GroupCoordinatorService`,
`GroupMetadataManager.sharePartitionsEligibleForOffsetDeletion` in Kafka; KIP-932. The errors of the
whole request are those of AlterShareGroupOffsets, with DELETE in place of READ on the group, and
`69 GROUP_ID_NOT_FOUND` for a missing group. The errors of a topic:

    no READ on the topic                          29 TOPIC_AUTHORIZATION_FAILED
    missing topic, or no state in the group       3 UNKNOWN_TOPIC_OR_PARTITION
    a share coordinator returns an error          that error; the request can be repeated
"""

import msgspec

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.bodies import Uuid
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from brokertwin.protocol.generated.shared import ShareGroupStateResponse
from brokertwin.state.access.authorizer import Operation
from brokertwin.state.apis import earlier_writes, uncommitted
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.api import Api, Refused
from brokertwin.state.core.decision import Decision, Message, PendingRequest, Request
from brokertwin.state.core.java_hashes import hash_map_order, uuid_hash
from brokertwin.state.core.tables import decode_item
from brokertwin.state.groups import share_offsets, share_states
from brokertwin.state.groups.share_group import ShareGroup
from brokertwin.state.groups.share_offsets import ERROR_MESSAGES
from brokertwin.state.groups.share_states import PartitionsByTopic

NOTHING = "There is no offset information to delete."


class PendingShareDeletion(msgspec.Struct):
    """A request that waits for share coordinators.

    Attributes:
        denied: results of the topics that the client may not read.
        refused: results of the topics without a state.
        names: the topics to delete, by id.
        errors: the errors that share coordinators returned so far, by topic.
        done: the partitions that are deleted, by topic.
    """

    group_id: str
    denied: list[DeleteShareGroupOffsetsResponseTopic] = []
    refused: list[DeleteShareGroupOffsetsResponseTopic] = []
    names: dict[Uuid, str] = {}
    places: PartitionsByTopic = {}
    errors: dict[Uuid, int] = {}
    done: PartitionsByTopic = {}


def handle(broker: Broker, request: Request) -> Decision:
    body: DeleteShareGroupOffsetsRequest = request.body
    error = share_offsets.request_error(broker, request, body.group_id, Operation.DELETE)
    if error is not Error.NONE:
        raise Refused(error, ERROR_MESSAGES[error])
    names = [topic.topic_name for topic in body.topics]
    denied = broker.denied_topics(request, Operation.READ, names)
    state = PendingShareDeletion(body.group_id)
    state.denied = [
        _failed(each, Error.TOPIC_AUTHORIZATION_FAILED) for each in names if each in denied
    ]
    allowed = [each for each in names if each not in denied]
    group = share_offsets.empty_group(broker, body.group_id)
    if group is None:
        raise Refused(Error.GROUP_ID_NOT_FOUND, f"Group {body.group_id} not found.")
    _sort_out(broker, group, allowed, state)
    if not state.places:
        return Decision(response=_response(state))
    decision = _go_on(broker, state, share_states.NO_COORDINATOR)
    decision.records = share_offsets.start_deleting(broker, group, state.names)
    return decision


def _failed(
    name: str, error: Error, message: str | None = None
) -> DeleteShareGroupOffsetsResponseTopic:
    message = message or ERROR_MESSAGES[error]
    return DeleteShareGroupOffsetsResponseTopic(
        topic_name=name, error_code=error, error_message=message
    )


def _sort_out(
    broker: Broker, group: ShareGroup, names: list[str], state: PendingShareDeletion
) -> None:
    for name in names:
        topic = broker.topic_by_name(name)
        if topic is None:
            state.refused.append(_failed(name, Error.UNKNOWN_TOPIC_OR_PARTITION))
            continue
        partitions = share_offsets.deletable(broker, group, topic.topic_id)
        if partitions:
            state.names[topic.topic_id], state.places[topic.topic_id] = name, partitions
        else:
            state.refused.append(_failed(name, Error.UNKNOWN_TOPIC_OR_PARTITION, NOTHING))


def _go_on(broker: Broker, state: PendingShareDeletion, after: int) -> Decision:
    """Query the next share coordinator, or respond after the last one."""
    message = share_states.next_delete_request(broker, state.group_id, state.places, after)
    if message is not None:
        return share_offsets.wait_for_coordinators(broker, state, [message])
    gone = [topic_id for topic_id in state.names if not _error(state, topic_id)]
    records = share_offsets.finish_deleting(broker, state.group_id, gone)
    return Decision(response=_response(state), records=records)


def _error(state: PendingShareDeletion, topic_id: Uuid) -> int:
    """Return the error of a topic whose states are not all deleted, else 0."""
    if topic_id in state.errors:
        return state.errors[topic_id]
    is_gone = set(state.done.get(topic_id, ())) >= set(state.places[topic_id])
    return Error.NONE if is_gone else Error.COORDINATOR_NOT_AVAILABLE


def _response(state: PendingShareDeletion) -> DeleteShareGroupOffsetsResponse:
    """List denied, then deleted topics in hash map order, then the others."""
    gone: list[DeleteShareGroupOffsetsResponseTopic] = []
    failed: list[DeleteShareGroupOffsetsResponseTopic] = []
    for topic_id in hash_map_order(state.names, uuid_hash, len(state.names)):
        error, name = _error(state, topic_id), state.names[topic_id]
        result = DeleteShareGroupOffsetsResponseTopic(topic_name=name, topic_id=topic_id)
        if error:
            result.error_code, result.error_message = error, ERROR_MESSAGES.get(Error(error))
        (failed if error else gone).append(result)
    responses = [*state.denied, *gone, *state.refused, *failed]
    return DeleteShareGroupOffsetsResponse(responses=responses)


def resume(
    broker: Broker, waiting: PendingRequest, message: Message, response: ShareGroupStateResponse
) -> Decision:
    """Continue with the next share coordinator."""
    state = decode_item(waiting.state, PendingShareDeletion)
    for topic_id, results in share_offsets.results_by_partition(response).items():
        for partition, result in results.items():
            if result.error:
                state.errors[topic_id] = result.error
            else:
                state.done.setdefault(topic_id, []).append(partition)
    return _go_on(broker, state, message.receiver)


def complete(_broker: Broker, waiting: PendingRequest) -> Decision:
    """Respond after a timeout; the pending topics can be requested again."""
    return Decision(response=_response(decode_item(waiting.state, PendingShareDeletion)))


API: Api = Api(
    kafka_apis.DELETE_SHARE_GROUP_OFFSETS,
    handle,
    resume=resume,
    complete=complete,
    earlier_writes=earlier_writes.of_deleted_share_offsets,
    uncommitted=uncommitted.error_alone,
)
