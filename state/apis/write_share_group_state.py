"""WriteShareGroupState (key 85, versions 0 to 1): write record states.

Source: `ShareCoordinatorService.writeState`, `ShareCoordinatorShard.writeState`,
`KafkaApis.handleWriteShareGroupStateRequest` in Kafka; KIP-932. A partition's leader sends it.
Errors of a partition and their order are those of ReadShareGroupState. After the leader epoch, an
old state epoch returns 124 FENCED_STATE_EPOCH. The request does not change either epoch.
"""

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.generated.shared import (
    ShareGroupStatePartitionResult,
    ShareGroupStateResponse,
    ShareGroupStateResult,
)
from brokertwin.protocol.generated.write_share_group_state import (
    WriteShareGroupStateRequest,
    WriteShareGroupStateRequestPartitionData,
)
from brokertwin.state.access.authorizer import Operation
from brokertwin.state.apis import earlier_writes, uncommitted
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.core.records import Record
from brokertwin.state.core.share_records import ShareSnapshot, ShareStateBatch, ShareUpdate
from brokertwin.state.share import result_order, share_partitions, state_store
from brokertwin.state.share.state_batches import combined


def handle(broker: Broker, request: Request) -> Decision:
    body: WriteShareGroupStateRequest = request.body
    is_allowed = broker.allows_cluster(request, Operation.CLUSTER_ACTION)
    records: list[Record] = []
    results = []
    for topic in result_order.topics(body.topics):
        partitions = []
        for written in result_order.partitions(topic.partitions):
            place = (body.group_id, topic.topic_id, written.partition)
            epochs = (written.state_epoch, written.leader_epoch)
            fault = state_store.access_error(broker, place, epochs, "write", is_allowed)
            result = ShareGroupStatePartitionResult(partition=written.partition)
            if fault is not None:
                result.error_code, result.error_message = fault.error, fault.message
            else:
                former = state_store.find(broker, *place)
                assert former is not None, place
                records.append(state_store.update_record(broker, place, _update(former, written)))
            partitions.append(result)
        results.append(ShareGroupStateResult(topic_id=topic.topic_id, partitions=partitions))
    return Decision(records=records, response=ShareGroupStateResponse(results=results))


def _update(
    former: ShareSnapshot, written: WriteShareGroupStateRequestPartitionData
) -> ShareUpdate:
    """Convert a request's partition to a state update."""
    new = [
        ShareStateBatch(
            each.first_offset, each.last_offset, each.delivery_state, each.delivery_count
        )
        for each in written.state_batches
    ]
    return ShareUpdate(
        leader_epoch=former.leader_epoch,
        start_offset=written.start_offset,
        delivery_complete_count=written.delivery_complete_count,
        batches=combined(new, written.start_offset),
    )


API = Api(
    kafka_apis.WRITE_SHARE_GROUP_STATE,
    handle,
    on_reply=share_partitions.on_unawaited_write_response,
    earlier_writes=earlier_writes.of_share_states,
    uncommitted=uncommitted.of_states("write", "write-share-group-state"),
)
