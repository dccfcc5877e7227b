"""ReadShareGroupStateSummary (key 87, versions 0 to 1): start offsets.

Source: `ShareCoordinatorService.readStateSummary`, `ShareCoordinatorShard.readStateSummary`,
`KafkaApis.handleReadShareGroupStateSummaryRequest` in Kafka; KIP-932. Brokers send it. Errors of a
partition are those of DeleteShareGroupState. An uninitialized state has the start offset -1.
"""

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.generated.read_share_group_state_summary import (
    ReadShareGroupStateSummaryResponsePartitionResult,
    ReadStateSummaryResult,
)
from brokertwin.state.apis import earlier_writes, uncommitted
from brokertwin.state.apis.share_requests import decide_states
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.share import state_store
from brokertwin.state.share.state_store import NO_OFFSET, UNKNOWN, ShareKey, ShareStateError


def handle(broker: Broker, request: Request) -> Decision:
    """Respond without writing records."""

    def summarize(
        place: ShareKey,
        _requested: object,
        result: ReadShareGroupStateSummaryResponsePartitionResult,
    ) -> ShareStateError | None:
        fault = state_store.coordinator_error(broker, place, "read summary")
        if fault is not None:
            return fault
        snapshot = state_store.find(broker, *place)
        if snapshot is None:
            result.start_offset, result.delivery_complete_count = NO_OFFSET, UNKNOWN
            return None
        result.state_epoch, result.leader_epoch = snapshot.state_epoch, snapshot.leader_epoch
        result.start_offset = snapshot.start_offset
        result.delivery_complete_count = snapshot.delivery_complete_count
        return None

    types = (ReadStateSummaryResult, ReadShareGroupStateSummaryResponsePartitionResult)
    return decide_states(broker, request, types, summarize)


API = Api(
    kafka_apis.READ_SHARE_GROUP_STATE_SUMMARY,
    handle,
    earlier_writes=earlier_writes.of_share_states,
    uncommitted=uncommitted.of_states("read summary", "read-share-group-state-summary"),
)
