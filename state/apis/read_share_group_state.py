"""ReadShareGroupState (key 84, version 0): read a partition's state.

Source: `ShareCoordinatorShard.readStateAndMaybeUpdateLeaderEpoch`, `ShareCoordinatorService`,
`KafkaApis.handleReadShareGroupStateRequest` in Kafka; KIP-932. A partition's leader sends it.
Without CLUSTER_ACTION on the cluster it returns 31 CLUSTER_AUTHORIZATION_FAILED. Errors of a
partition, in this order:

    negative partition                   42 INVALID_REQUEST
    another coordinator's state          16 NOT_COORDINATOR
    uninitialized state                  42 INVALID_REQUEST
    old leader epoch                     74 FENCED_LEADER_EPOCH
    no such topic or partition           3 UNKNOWN_TOPIC_OR_PARTITION

A new leader epoch is stored, which fences later writes of earlier leaders.
"""

import msgspec

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.generated.read_share_group_state import (
    ReadShareGroupStateResponse,
    ReadShareGroupStateResponsePartitionResult,
    ReadStateResult,
)
from brokertwin.protocol.generated.shared import ReadShareGroupStateRequest, StateBatch
from brokertwin.state.access.authorizer import Operation
from brokertwin.state.apis import earlier_writes, uncommitted
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.core.records import Record
from brokertwin.state.core.share_records import ShareSnapshot, ShareUpdate
from brokertwin.state.share import result_order, share_partitions, state_store
from brokertwin.state.share.state_store import NO_EPOCH


def handle(broker: Broker, request: Request) -> Decision:
    """Return the states and store new leader epochs."""
    body: ReadShareGroupStateRequest = request.body
    is_allowed = broker.allows_cluster(request, Operation.CLUSTER_ACTION)
    records: list[Record] = []
    results = []
    for topic in result_order.topics(body.topics):
        partitions = []
        for requested in result_order.partitions(topic.partitions):
            place = (body.group_id, topic.topic_id, requested.partition)
            epochs = (NO_EPOCH, requested.leader_epoch)
            fault = state_store.access_error(broker, place, epochs, "read", is_allowed)
            result = ReadShareGroupStateResponsePartitionResult(partition=requested.partition)
            if fault is not None:
                result.error_code, result.error_message = fault.error, fault.message
            else:
                snapshot = state_store.find(broker, *place)
                assert snapshot is not None, place
                _copy_state(result, snapshot)
                if state_store.is_new_leader_epoch(broker, place, requested.leader_epoch):
                    done = snapshot.delivery_complete_count
                    noted = ShareUpdate(requested.leader_epoch, snapshot.start_offset, done)
                    records.append(state_store.update_record(broker, place, noted))
            partitions.append(result)
        results.append(ReadStateResult(topic_id=topic.topic_id, partitions=partitions))
    return Decision(records=records, response=ReadShareGroupStateResponse(results=results))


def _copy_state(
    result: ReadShareGroupStateResponsePartitionResult, snapshot: ShareSnapshot
) -> None:
    result.state_epoch, result.start_offset = snapshot.state_epoch, snapshot.start_offset
    result.state_batches = [
        StateBatch(**msgspec.structs.asdict(batch)) for batch in snapshot.batches
    ]


API = Api(
    kafka_apis.READ_SHARE_GROUP_STATE,
    handle,
    on_reply=share_partitions.on_read_response,
    earlier_writes=earlier_writes.of_share_states,
    uncommitted=uncommitted.of_states("read", "read-update-leader-epoch-state"),
)
