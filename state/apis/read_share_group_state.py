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

from typing import Any

import msgspec

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.generated.read_share_group_state import (
    ReadShareGroupStateResponsePartitionResult,
    ReadStateResult,
)
from brokertwin.protocol.generated.shared import StateBatch
from brokertwin.state.apis import earlier_writes, uncommitted
from brokertwin.state.apis.share_requests import decide_states
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.core.records import Record
from brokertwin.state.core.share_records import ShareUpdate
from brokertwin.state.share import share_partitions, state_store
from brokertwin.state.share.state_store import NO_EPOCH, ShareKey, ShareStateError


def handle(broker: Broker, request: Request) -> Decision:
    """Return the states and store new leader epochs."""

    def decide(
        place: ShareKey, requested: Any, result: ReadShareGroupStateResponsePartitionResult
    ) -> ShareStateError | Record | None:
        epoch = requested.leader_epoch
        fault = state_store.access_error(broker, place, (NO_EPOCH, epoch), "read")
        if fault is not None:
            return fault
        snapshot = state_store.find(broker, *place)
        assert snapshot is not None, place
        start_offset, batches = snapshot.start_offset, snapshot.batches
        result.state_epoch, result.start_offset = snapshot.state_epoch, start_offset
        result.state_batches = [StateBatch(**msgspec.structs.asdict(batch)) for batch in batches]
        if not state_store.is_new_leader_epoch(broker, place, epoch):
            return None
        noted = ShareUpdate(epoch, start_offset, snapshot.delivery_complete_count)
        return state_store.update_record(broker, place, noted)

    types = (ReadStateResult, ReadShareGroupStateResponsePartitionResult)
    return decide_states(broker, request, types, decide)


API = Api(
    kafka_apis.READ_SHARE_GROUP_STATE,
    handle,
    on_reply=share_partitions.on_read_response,
    earlier_writes=earlier_writes.of_share_states,
    uncommitted=uncommitted.of_states("read", "read-update-leader-epoch-state"),
)
