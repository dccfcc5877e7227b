"""ReadShareGroupStateSummary (key 87, versions 0 to 1): start offsets.

Source: `ShareCoordinatorService.readStateSummary`, `ShareCoordinatorShard.readStateSummary`,
`KafkaApis.handleReadShareGroupStateSummaryRequest` in Kafka; KIP-932. Brokers send it. Errors of a
partition are those of DeleteShareGroupState. An uninitialized state has the start offset -1.
"""

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.generated.read_share_group_state_summary import (
    ReadShareGroupStateSummaryResponse,
    ReadShareGroupStateSummaryResponsePartitionResult,
    ReadStateSummaryResult,
)
from brokertwin.protocol.generated.shared import ReadShareGroupStateRequest
from brokertwin.state.access.authorizer import Operation
from brokertwin.state.apis import earlier_writes, uncommitted
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.share import result_order, state_store
from brokertwin.state.share.state_store import NO_OFFSET, UNKNOWN, ShareKey


def handle(broker: Broker, request: Request) -> Decision:
    """Respond without writing records."""
    body: ReadShareGroupStateRequest = request.body
    is_allowed = broker.allows_cluster(request, Operation.CLUSTER_ACTION)
    results = [
        ReadStateSummaryResult(
            topic_id=topic.topic_id,
            partitions=[
                _summary(broker, (body.group_id, topic.topic_id, requested.partition), is_allowed)
                for requested in result_order.partitions(topic.partitions)
            ],
        )
        for topic in result_order.topics(body.topics)
    ]
    return Decision(response=ReadShareGroupStateSummaryResponse(results=results))


def _summary(
    broker: Broker, place: ShareKey, is_allowed: bool
) -> ReadShareGroupStateSummaryResponsePartitionResult:
    fault = (
        state_store.coordinator_error(broker, place, "read summary")
        if is_allowed
        else state_store.DENIED
    )
    result = ReadShareGroupStateSummaryResponsePartitionResult(partition=place[2])
    if fault is not None:
        result.error_code, result.error_message = fault.error, fault.message
        return result
    snapshot = state_store.find(broker, *place)
    if snapshot is None:
        result.start_offset, result.delivery_complete_count = NO_OFFSET, UNKNOWN
        return result
    result.state_epoch, result.leader_epoch = snapshot.state_epoch, snapshot.leader_epoch
    result.start_offset = snapshot.start_offset
    result.delivery_complete_count = snapshot.delivery_complete_count
    return result


API = Api(
    kafka_apis.READ_SHARE_GROUP_STATE_SUMMARY,
    handle,
    earlier_writes=earlier_writes.of_share_states,
    uncommitted=uncommitted.of_states("read summary", "read-share-group-state-summary"),
)
