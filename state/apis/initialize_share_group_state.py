"""InitializeShareGroupState (key 83, version 0): initialize states.

Brokers send it to a share coordinator. Source: `ShareCoordinatorService.initializeState`,
`ShareCoordinatorShard.initializeState`, `KafkaApis.handleInitializeShareGroupStateRequest` in
Kafka; KIP-932. For each partition, in this order:

    no CLUSTER_ACTION on the cluster            31 CLUSTER_AUTHORIZATION_FAILED
    a partition below 0                         42 INVALID_REQUEST
    another share coordinator has the state     16 NOT_COORDINATOR
    a state epoch below the stored one          124 FENCED_STATE_EPOCH
    missing topic or partition                  3 UNKNOWN_TOPIC_OR_PARTITION

The group coordinator that sent the request assigns the partitions after the response.
"""

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.bodies import Uuid
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateRequestPartitionData,
)
from brokertwin.protocol.generated.shared import (
    ShareGroupStatePartitionResult,
    ShareGroupStateResponse,
    ShareGroupStateResult,
)
from brokertwin.state.access.authorizer import Operation
from brokertwin.state.apis import earlier_writes, uncommitted
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.core.records import Record
from brokertwin.state.core.share_records import ShareStateWritten
from brokertwin.state.groups import share_group_coordinator
from brokertwin.state.share import state_store
from brokertwin.state.share.state_store import NO_EPOCH, ShareStateError


def handle(broker: Broker, request: Request) -> Decision:
    """Initialize the states that pass the checks."""
    body: InitializeShareGroupStateRequest = request.body
    is_allowed = broker.allows_cluster(request, Operation.CLUSTER_ACTION)
    records: list[Record] = []
    results = []
    for topic in body.topics:
        partitions = []
        for requested in topic.partitions:
            fault = _fault(broker, body.group_id, topic.topic_id, requested, is_allowed)
            partitions.append(_result(requested.partition, fault))
            if fault is None:
                place = (body.group_id, topic.topic_id, requested.partition)
                epoch, start = requested.state_epoch, requested.start_offset
                snapshot = state_store.initialized_snapshot(broker, place, epoch, start)
                records.append(ShareStateWritten(*place, snapshot))
        results.append(ShareGroupStateResult(topic_id=topic.topic_id, partitions=partitions))
    return Decision(records=records, response=ShareGroupStateResponse(results=results))


def _fault(
    broker: Broker,
    group_id: str,
    topic_id: Uuid,
    requested: InitializeShareGroupStateRequestPartitionData,
    is_allowed: bool,
) -> ShareStateError | None:
    if not is_allowed:
        return state_store.DENIED
    place = (group_id, topic_id, requested.partition)
    fault = state_store.coordinator_error(broker, place, "initialize")
    if fault is not None and fault.error is not Error.UNKNOWN_TOPIC_OR_PARTITION:
        return fault
    return state_store.epoch_error(broker, place, requested.state_epoch, NO_EPOCH) or fault


def _result(partition: int, fault: ShareStateError | None) -> ShareGroupStatePartitionResult:
    if fault is None:
        return ShareGroupStatePartitionResult(partition=partition)
    return ShareGroupStatePartitionResult(
        partition=partition, error_code=fault.error, error_message=fault.message
    )


API = Api(
    kafka_apis.INITIALIZE_SHARE_GROUP_STATE,
    handle,
    on_reply=share_group_coordinator.initialize_responded,
    earlier_writes=earlier_writes.of_share_states,
    uncommitted=uncommitted.of_states("initialize", "initialize-share-group-state"),
    is_sent_when_committed=True,
)
