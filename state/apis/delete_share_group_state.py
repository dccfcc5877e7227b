"""DeleteShareGroupState (key 86, version 0): delete states of partitions.

Brokers send it to a share coordinator; without CLUSTER_ACTION on the cluster the error is
`31 CLUSTER_AUTHORIZATION_FAILED`. The other errors are those of InitializeShareGroupState, except
`124 FENCED_STATE_EPOCH`. Deleting a missing state succeeds.
Source: `ShareCoordinatorShard.deleteState`, `KafkaApis.handleDeleteShareGroupStateRequest` in
Kafka; KIP-932.
"""

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.generated.delete_share_group_state import DeleteShareGroupStateRequest
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
from brokertwin.state.share import state_store


def handle(broker: Broker, request: Request) -> Decision:
    body: DeleteShareGroupStateRequest = request.body
    is_allowed = broker.allows_cluster(request, Operation.CLUSTER_ACTION)
    records: list[Record] = []
    results = []
    for topic in body.topics:
        partitions = []
        for requested in topic.partitions:
            place = (body.group_id, topic.topic_id, requested.partition)
            fault = (
                state_store.coordinator_error(broker, place, "delete")
                if is_allowed
                else state_store.DENIED
            )
            result = ShareGroupStatePartitionResult(partition=requested.partition)
            if fault is not None:
                result.error_code, result.error_message = fault.error, fault.message
            elif state_store.find(broker, *place) is not None:
                records.append(ShareStateWritten(*place, None))
            partitions.append(result)
        results.append(ShareGroupStateResult(topic_id=topic.topic_id, partitions=partitions))
    return Decision(records=records, response=ShareGroupStateResponse(results=results))


API = Api(
    kafka_apis.DELETE_SHARE_GROUP_STATE,
    handle,
    earlier_writes=earlier_writes.of_share_states,
    uncommitted=uncommitted.of_states("delete", "delete-share-group-state"),
    is_sent_when_committed=True,
)
