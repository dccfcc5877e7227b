"""DeleteShareGroupState (key 86, version 0): delete states of partitions.

Brokers send it to a share coordinator; without CLUSTER_ACTION on the cluster the error is
`31 CLUSTER_AUTHORIZATION_FAILED`. The other errors are those of InitializeShareGroupState, except
`124 FENCED_STATE_EPOCH`. Deleting a missing state succeeds.
Source: `ShareCoordinatorShard.deleteState`, `KafkaApis.handleDeleteShareGroupStateRequest` in
Kafka; KIP-932.
"""

from brokertwin.protocol import kafka_apis
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
from brokertwin.state.share import state_store
from brokertwin.state.share.state_store import ShareKey, ShareStateError


def handle(broker: Broker, request: Request) -> Decision:
    def decide(
        place: ShareKey, _requested: object, _result: object
    ) -> ShareStateError | Record | None:
        is_stored = state_store.find(broker, *place) is not None
        fault = state_store.coordinator_error(broker, place, "delete")
        return fault or (ShareStateWritten(*place, None) if is_stored else None)

    types = (ShareGroupStateResult, ShareGroupStatePartitionResult)
    return decide_states(broker, request, types, decide, is_ordered=False)


API = Api(
    kafka_apis.DELETE_SHARE_GROUP_STATE,
    handle,
    earlier_writes=earlier_writes.of_share_states,
    uncommitted=uncommitted.of_states("delete", "delete-share-group-state"),
    is_sent_when_committed=True,
)
