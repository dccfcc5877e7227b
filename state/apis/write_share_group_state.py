"""WriteShareGroupState (key 85, versions 0 to 1): write record states.

Source: `ShareCoordinatorService.writeState`, `ShareCoordinatorShard.writeState`,
`KafkaApis.handleWriteShareGroupStateRequest` in Kafka; KIP-932. A partition's leader sends it.
Errors of a partition and their order are those of ReadShareGroupState. After the leader epoch, an
old state epoch returns 124 FENCED_STATE_EPOCH. The request does not change either epoch.
"""

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.generated.shared import (
    ShareGroupStatePartitionResult,
    ShareGroupStateResult,
)
from brokertwin.protocol.generated.write_share_group_state import (
    WriteShareGroupStateRequestPartitionData,
)
from brokertwin.state.apis import earlier_writes, uncommitted
from brokertwin.state.apis.share_requests import decide_states
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.core.records import Record
from brokertwin.state.core.share_records import ShareSnapshot, ShareStateBatch, ShareUpdate
from brokertwin.state.share import share_partitions, state_store
from brokertwin.state.share.state_batches import combined
from brokertwin.state.share.state_store import ShareKey, ShareStateError


def handle(broker: Broker, request: Request) -> Decision:
    def decide(
        place: ShareKey, written: WriteShareGroupStateRequestPartitionData, _result: object
    ) -> ShareStateError | Record:
        epochs = (written.state_epoch, written.leader_epoch)
        fault = state_store.access_error(broker, place, epochs, "write")
        if fault is not None:
            return fault
        former = state_store.find(broker, *place)
        assert former is not None, place
        return state_store.update_record(broker, place, _update(former, written))

    types = (ShareGroupStateResult, ShareGroupStatePartitionResult)
    return decide_states(broker, request, types, decide)


def _update(
    former: ShareSnapshot, written: WriteShareGroupStateRequestPartitionData
) -> ShareUpdate:
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
