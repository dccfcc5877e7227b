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
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.initialize_share_group_state import (
    InitializeShareGroupStateRequestPartitionData,
)
from brokertwin.protocol.generated.shared import (
    ShareGroupStatePartitionResult,
    ShareGroupStateResult,
)
from brokertwin.state.apis import earlier_writes, uncommitted
from brokertwin.state.apis.share_requests import decide_states
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.core.records import Record
from brokertwin.state.core.share_records import ShareStateWritten
from brokertwin.state.groups import share_group_coordinator
from brokertwin.state.share import state_store
from brokertwin.state.share.state_store import NO_EPOCH, ShareKey, ShareStateError


def handle(broker: Broker, request: Request) -> Decision:
    def decide(
        place: ShareKey, requested: InitializeShareGroupStateRequestPartitionData, _result: object
    ) -> ShareStateError | Record:
        epoch, start = requested.state_epoch, requested.start_offset
        fault = state_store.coordinator_error(broker, place, "initialize")
        if fault is None or fault.error is Error.UNKNOWN_TOPIC_OR_PARTITION:
            fault = state_store.epoch_error(broker, place, epoch, NO_EPOCH) or fault
        if fault is not None:
            return fault
        snapshot = state_store.initialized_snapshot(broker, place, epoch, start)
        return ShareStateWritten(*place, snapshot)

    types = (ShareGroupStateResult, ShareGroupStatePartitionResult)
    return decide_states(broker, request, types, decide, is_ordered=False)


API = Api(
    kafka_apis.INITIALIZE_SHARE_GROUP_STATE,
    handle,
    on_reply=share_group_coordinator.initialize_responded,
    earlier_writes=earlier_writes.of_share_states,
    uncommitted=uncommitted.of_states("initialize", "initialize-share-group-state"),
    is_sent_when_committed=True,
)
