"""InitializeShareGroupState (key 83, version 0): a share coordinator begins a partition's state.

Source: `ShareCoordinatorService.initializeState`, `ShareCoordinatorShard.initializeState`,
`KafkaApis.handleInitializeShareGroupStateRequest` in Kafka; KIP-932. Brokers send it: who has no
CLUSTER_ACTION on the cluster gets 31. For each partition, in this order:

    a partition below 0             42 INVALID_REQUEST
    another coordinator's           16 NOT_COORDINATOR
    a state epoch in the past       124 FENCED_STATE_EPOCH
    no such topic or partition      3 UNKNOWN_TOPIC_OR_PARTITION

The group's coordinator that has asked assigns the partitions once it has the answer.
"""

from brokertwin.state.access.authorizer import Operation
from brokertwin.state.apis import earlier_writes, uncommitted
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core import kafka_apis
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Decision, Message, Request
from brokertwin.state.core.errors import Error
from brokertwin.state.core.records import Record
from brokertwin.state.core.schema import Uuid
from brokertwin.state.core.share_records import ShareStateWritten
from brokertwin.state.core.wire.generated.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateRequestPartitionData,
)
from brokertwin.state.core.wire.generated.shared import (
    ShareGroupStatePartitionResult,
    ShareGroupStateResponse,
    ShareGroupStateResult,
)
from brokertwin.state.groups import share_group_coordinator
from brokertwin.state.share import state_store
from brokertwin.state.share.state_store import NO_EPOCH, ShareStateError


def handle(broker: Broker, request: Request) -> Decision:
    """Begins the states that may begin."""
    body: InitializeShareGroupStateRequest = request.body
    is_allowed = broker.allows_cluster(request, Operation.CLUSTER_ACTION)
    records: list[Record] = []
    results = []
    for topic in body.topics:
        partitions = []
        for asked in topic.partitions:
            fault = _fault(broker, body.group_id, topic.topic_id, asked, is_allowed)
            partitions.append(_result(asked.partition, fault))
            if fault is None:
                place = (body.group_id, topic.topic_id, asked.partition)
                epoch, start = asked.state_epoch, asked.start_offset
                snapshot = state_store.initialized_snapshot(broker, place, epoch, start)
                records.append(ShareStateWritten(*place, snapshot))
        results.append(ShareGroupStateResult(topic_id=topic.topic_id, partitions=partitions))
    return Decision(records=records, response=ShareGroupStateResponse(results=results))


def _fault(
    broker: Broker,
    group_id: str,
    topic_id: Uuid,
    asked: InitializeShareGroupStateRequestPartitionData,
    is_allowed: bool,
) -> ShareStateError | None:
    if not is_allowed:
        return state_store.DENIED
    place = (group_id, topic_id, asked.partition)
    fault = state_store.coordinator_error(broker, place, "initialize")
    if fault is not None and fault.error is not Error.UNKNOWN_TOPIC_OR_PARTITION:
        return fault
    return state_store.epoch_error(broker, place, asked.state_epoch, NO_EPOCH) or fault


def _result(partition: int, fault: ShareStateError | None) -> ShareGroupStatePartitionResult:
    if fault is None:
        return ShareGroupStatePartitionResult(partition=partition)
    return ShareGroupStatePartitionResult(
        partition=partition, error_code=fault.error, error_message=fault.message
    )


def on_reply(broker: Broker, message: Message, response: ShareGroupStateResponse) -> Decision:
    """The group's coordinator knows which of its partitions can be assigned."""
    return share_group_coordinator.initialize_responded(broker, message, response)


API = Api(
    kafka_apis.INITIALIZE_SHARE_GROUP_STATE,
    InitializeShareGroupStateRequest,
    handle,
    on_reply=on_reply,
    response_type=ShareGroupStateResponse,
    earlier_writes=earlier_writes.of_share_states,
    uncommitted=uncommitted.of_states("initialize", "initialize-share-group-state"),
    is_sent_when_committed=True,
)
